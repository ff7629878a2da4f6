"""Signing: the commands that are run, what each way to fail becomes, and that no tag moves without a signature."""

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from ascend_images import attesting, publishing
from ascend_images.digest import digest_of
from ascend_images.errors import AscendImagesError, BadInput, LookupIncomplete, MissingTool, PublishRefused
from ascend_images.images.engine import Answer
from ascend_images.pins.platform import Arch
from ascend_images.publish import sign
from ascend_images.publish.published import FILE, load
from ascend_images.publish.sign import Cosign, fingerprint, require_key, require_signed, run_cosign, sign_all
from tests.publish_kit import CHECKS, QUAY, FakeRegistry, World, image, push, repository, variant

DER = b"a public key"
PEM = f"-----BEGIN PUBLIC KEY-----\n{base64.b64encode(DER).decode()}\n-----END PUBLIC KEY-----\n"
PRINT = "sha256:" + hashlib.sha256(DER).hexdigest()
REFERENCE = f"registry.invalid/a/b@sha256:{'1' * 64}"
OTHER = f"registry.invalid/a/b@sha256:{'2' * 64}"


class FakeCosign:
    """Stands for the program: remembers what is signed, and what it was asked."""

    def __init__(self, *signed: str, **answers: Answer) -> None:
        self.signed = set(signed)
        self.answers = answers
        self.commands: list[list[str]] = []

    def __call__(self, command: Sequence[str]) -> Answer:
        self.commands.append(list(command))
        verb = command[1].replace("-", "_")
        if verb in self.answers:
            return self.answers[verb]
        if verb == "public_key":
            return Answer(0, PEM, "")
        if verb == "sign":
            self.signed.add(command[-1])
            return Answer(0, "", "Pushing signature")
        return Answer(0 if command[-1] in self.signed else 10, "", "Error: no signatures found")

    @property
    def verbs(self) -> list[str]:
        return [command[1] for command in self.commands]

    def program(self) -> Cosign:
        return Cosign("cosign", self)


def failing(text: str, code: int = 1) -> Answer:
    return Answer(code, "", f"WARNING: x\nError: {text}\nerror during command execution: {text}\n")


def test_the_commands() -> None:
    fake = FakeCosign()
    assert sign_all(fake.program(), [REFERENCE], "env://KEY") == PRINT
    public = fake.commands[1][3]
    assert public.startswith("--key=/")
    assert fake.commands == [
        ["cosign", "public-key", "--key=env://KEY"],
        ["cosign", "verify", "--insecure-ignore-tlog=true", public, REFERENCE],
        ["cosign", "sign", "--yes", "--tlog-upload=false", "--key=env://KEY", REFERENCE],
        ["cosign", "verify", "--insecure-ignore-tlog=true", public, REFERENCE],
    ]
    assert not Path(public.removeprefix("--key=")).exists()


@pytest.mark.parametrize("registry", ["localhost:5000", "127.0.0.1:5000", "[::1]:5000"])
def test_plain_http_is_for_loopback_alone(registry: str) -> None:
    fake = FakeCosign()
    reference = f"{registry}/a/b@sha256:{'1' * 64}"
    fake.program().sign(reference, "env://KEY")
    assert {"--allow-http-registry=true", "--allow-insecure-registry=true"} <= set(fake.commands[0])
    fake.program().sign(REFERENCE, "env://KEY")
    assert not any(word.startswith("--allow") for word in fake.commands[1])


def test_what_is_signed_already_is_left_alone() -> None:
    fake = FakeCosign(REFERENCE)
    sign_all(fake.program(), [REFERENCE, OTHER], "env://KEY")
    assert [command[-1] for command in fake.commands if command[1] == "sign"] == [OTHER]


def test_a_tag_is_never_signed() -> None:
    fake = FakeCosign()
    with pytest.raises(BadInput, match="names an image by a tag"):
        fake.program().sign("registry.invalid/a/b:v1", "env://KEY")
    assert fake.commands == []


def test_a_signature_that_does_not_verify_afterwards() -> None:
    fake = FakeCosign(sign=Answer(0, "", ""))
    with pytest.raises(PublishRefused, match=f"{REFERENCE}: no signature"):
        sign_all(fake.program(), [REFERENCE], "env://KEY")


def test_every_digest_that_is_not_signed_is_named() -> None:
    fake = FakeCosign(verify=failing("no matching signatures", 12))
    with pytest.raises(PublishRefused) as raised:
        require_signed(fake.program(), [REFERENCE, OTHER], "cosign.pub")
    assert raised.value.found.splitlines() == [
        f"{REFERENCE}: no signature by this key",
        f"{OTHER}: no signature by this key",
    ]
    assert raised.value.exit_code == 7


FAILURES: dict[str, tuple[str, Answer, type[AscendImagesError], str]] = {
    "no password": ("public_key", failing("inappropriate ioctl for device"), BadInput, "set COSIGN_PASSWORD"),
    "another password": (
        "public_key",
        failing("decrypt: encrypted: decryption failed"),
        BadInput,
        "set COSIGN_PASSWORD",
    ),
    "no key": ("public_key", failing("loading URL: env var $KEY not found"), BadInput, "the key cannot be read"),
    "a key service that is down": (
        "public_key",
        failing("Get https://kms.invalid: dial tcp: lookup kms.invalid: no such host"),
        LookupIncomplete,
        "no such host",
    ),
    "a registry that is down": (
        "verify",
        failing('Get "https://registry.invalid/v2/": dial tcp 127.0.0.1:1: connect: connection refused'),
        LookupIncomplete,
        "connection refused",
    ),
    "no login": ("sign", failing("signing: UNAUTHORIZED: authentication required"), PublishRefused, "cannot be signed"),
    "a public key that is none": (
        "verify",
        failing("loading public key: PEM decoding failed"),
        BadInput,
        "PEM decoding failed",
    ),
    "no word": ("sign", Answer(-9, "", ""), PublishRefused, "cosign ended with -9"),
}


@pytest.mark.parametrize("what", FAILURES)
def test_what_fails(what: str) -> None:
    verb, answer, kind, text = FAILURES[what]
    fake = FakeCosign(**{verb: answer})
    with pytest.raises(kind) as raised:
        sign_all(fake.program(), [REFERENCE], "env://KEY")
    assert type(raised.value) is kind
    assert text in str(raised.value)


def test_no_cosign(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingTool, match="no cosign command on PATH") as raised:
        Cosign()
    assert "apt-get install cosign" in raised.value.do
    assert raised.value.exit_code == 3


@pytest.mark.subprocess
def test_a_program_that_does_not_start_or_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingTool, match="does not start"):
        run_cosign([str(tmp_path / "nothing"), "verify"])
    monkeypatch.setattr(sign, "_SECONDS", 0.05)
    with pytest.raises(LookupIncomplete, match="did not come back"):
        run_cosign(["sleep", "5"])


@pytest.mark.subprocess
def test_a_program_is_asked_nothing() -> None:
    assert run_cosign(["cat"]) == Answer(0, "", "")


def test_keys(tmp_path: Path) -> None:
    path = tmp_path / "cosign.key"
    with pytest.raises(BadInput, match="no such file") as raised:
        require_key(str(path))
    assert raised.value.do == "cosign generate-key-pair"
    path.write_text("x")
    assert require_key(str(path)) == str(path)
    for key in ("env://KEY", "awskms:///alias/x", "k8s://ns/key", "pkcs11:token=x"):
        assert require_key(key) == key
    with pytest.raises(BadInput, match="no key is named"):
        require_key("")
    for key in ("://x", str(tmp_path)):
        with pytest.raises(BadInput):
            require_key(key)


def test_fingerprints() -> None:
    assert fingerprint(PEM) == PRINT
    for text in ("", "not PEM", "-----BEGIN PUBLIC KEY-----\n!!\n"):
        with pytest.raises(BadInput):
            fingerprint(text)


# --- promotions


@pytest.fixture
def world(tmp_path: Path) -> World:
    registry = FakeRegistry()
    made = World(tmp_path, lambda name: repository(registry, name), registry)
    made.build("a2")
    made.verify(*made.manifest("a2"))
    return made


def promote(world: World, fake: FakeCosign, *, dry_run: bool = False) -> list[str]:
    wish = publishing.Promotion(reports=world.root / "build" / "verify", sign="env://KEY", dry_run=dry_run)
    return publishing.promote(
        world.root,
        ["a2"],
        wish,
        checks=CHECKS,
        say=world.said.append,
        opened=world.opened,
        environment={},
        program=fake.program,
    )


def released(world: World) -> set[str]:
    assert world.registry is not None
    return world.registry.readable().keys() & {variant("a2").tag, "latest-ms-swift-910b-ubuntu"}


@pytest.mark.subprocess
def test_everything_is_signed_by_digest_before_a_tag_moves(world: World) -> None:
    registry = world.registry
    assert registry is not None

    class Watching(FakeCosign):
        def __call__(self, command: Sequence[str]) -> Answer:
            assert released(world) == set()
            return super().__call__(command)

    fake = Watching()
    promote(world, fake)
    (one,) = load(world.root / FILE).publications
    assert fake.signed == {f"{QUAY}@{digest}" for digest in (one.digest, *one.platforms.values())}
    assert one.signed == PRINT
    assert fake.verbs[-3:] == ["verify"] * 3
    assert len(released(world)) == 2


@pytest.mark.subprocess
@pytest.mark.parametrize("verb", ["public_key", "sign", "verify"])
def test_no_tag_moves_where_signing_fails(world: World, verb: str) -> None:
    with pytest.raises(AscendImagesError):
        promote(world, FakeCosign(**{verb: failing("it is not to be")}))
    assert released(world) == set()
    assert not (world.root / FILE).exists()


@pytest.mark.subprocess
def test_what_is_refused_gets_no_signature(world: World) -> None:
    joined = publishing.load_joined(world.root / publishing.MANIFESTS / "a2.json", "a2")
    world.verify(joined, check="architecture", answer="fail")
    fake = FakeCosign()
    with pytest.raises(PublishRefused, match="architecture: fail"):
        promote(world, fake)
    world.verify(joined)
    assert world.registry is not None
    client = world.opened(QUAY)
    stored = client.manifest(next(iter(joined.platforms.values())).manifest)
    assert stored is not None
    client.put(variant("a2").tag, stored.content, stored.media_type)
    with pytest.raises(PublishRefused, match="not published from here"):
        promote(world, fake)
    assert fake.verbs == []


@pytest.mark.subprocess
def test_a_dry_run_signs_nothing(world: World) -> None:
    fake = FakeCosign()
    assert all(line.startswith("would be ") for line in promote(world, fake, dry_run=True))
    assert fake.verbs == []


@pytest.mark.subprocess
def test_what_was_promoted_is_verified_by_every_digest(world: World, tmp_path: Path) -> None:
    fake = FakeCosign()
    public = tmp_path / "cosign.pub"
    public.write_text(PEM)
    with pytest.raises(PublishRefused, match="a2 is not published"):
        attesting.verify_signatures(world.root, ["a2"], str(public), opened=world.opened, program=fake.program)
    promote(world, fake)
    found = attesting.verify_signatures(world.root, ["a2"], str(public), opened=world.opened, program=fake.program)
    assert set(found) == fake.signed
    assert len(found) == 3
    fake.signed.discard(found[1])
    with pytest.raises(PublishRefused, match=f"{found[1]}: no signature"):
        attesting.verify_signatures(world.root, ["a2"], str(public), opened=world.opened, program=fake.program)


@pytest.mark.subprocess
def test_a_tag_that_stands_for_something_else_is_not_called_signed(world: World, tmp_path: Path) -> None:
    fake = FakeCosign()
    public = tmp_path / "cosign.pub"
    public.write_text(PEM)
    promote(world, fake)
    other = image(Arch.AMD64, "somebody else's")
    push(world.opened(QUAY), other, variant("a2").tag)
    with pytest.raises(PublishRefused, match=f"stands for {digest_of(other.top)}"):
        attesting.verify_signatures(world.root, ["a2"], str(public), opened=world.opened, program=fake.program)
