"""Bills attached to images in a registry: as its list has them, or under a tag, once."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ascend_images import attesting
from ascend_images.digest import digest_of
from ascend_images.errors import BadInput, PublishRefused
from ascend_images.images.engine import Answer
from ascend_images.images.plan import RECORDS
from ascend_images.images.record import load_record, write_record
from ascend_images.pins.lockfile import LockFile, file_name
from ascend_images.pins.platform import Arch
from ascend_images.publish.prune import plan_pruning, prune
from ascend_images.publish.published import Published
from ascend_images.publish.referrers import attach, attached, tag_of
from ascend_images.publish.registry import INDEX, MANIFEST, Repository
from ascend_images.publish.sign import Cosign
from ascend_images.publish.transport import Reply, Request
from ascend_images.sbom import spdx
from tests.publish_kit import EPOCH, QUAY, FakeRegistry, World, image, push, repository, variant

pytestmark = pytest.mark.subprocess

KIND = spdx.MEDIA_TYPE
SUBJECT = image(Arch.AMD64)


def without_list(request: Request) -> Reply | None:
    return Reply(status=404) if "/referrers/" in request.url else None


class Listing:
    """A registry that lists what names a subject."""

    def __init__(self, registry: FakeRegistry) -> None:
        self.registry = registry

    def __call__(self, request: Request) -> Reply | None:
        if "/referrers/" not in request.url:
            return None
        subject = request.url.rpartition("/")[2]
        found = []
        for (_, digest), (kind, content, _) in self.registry.manifests.items():
            document = json.loads(content)
            if document.get("subject", {}).get("digest") == subject:
                found.append({"mediaType": kind, "digest": digest, "artifactType": document["artifactType"]})
        return Reply(status=200, body=json.dumps({"manifests": found}).encode())


@pytest.fixture(params=["with a list", "without"])
def registry(request: pytest.FixtureRequest) -> FakeRegistry:
    made = FakeRegistry()
    made.before = Listing(made) if request.param == "with a list" else without_list
    return made


@pytest.fixture
def client(registry: FakeRegistry) -> Repository:
    made = repository(registry)
    push(made, SUBJECT, "v1")
    return made


def attach_to(client: Repository, content: bytes = b"{}\n", *, kind: str = KIND) -> str:
    subject = client.manifest(digest_of(SUBJECT.manifest))
    assert subject is not None
    return attach(client, subject, content, kind, title="a.json", notes={"a": "b"})


def test_attached_once_however_often(registry: FakeRegistry, client: Repository) -> None:
    subject = digest_of(SUBJECT.manifest)
    assert attached(client, subject, KIND) == ()
    digest = attach_to(client)
    before = dict(registry.tags)
    assert attach_to(client) == digest
    assert registry.tags == before
    assert attached(client, subject, KIND) == (digest,)
    other = attach_to(client, kind="text/x")
    assert attached(client, subject, KIND) == (digest,)
    assert attached(client, subject, "text/x") == (other,)
    assert set(attached(client, subject)) == {digest, other}
    assert set(registry.tags.values()) >= {digest_of(SUBJECT.top)}


def test_what_is_written(registry: FakeRegistry, client: Repository) -> None:
    digest = attach_to(client, b"content")
    stored = client.manifest(digest)
    assert stored is not None
    document = json.loads(stored.content)
    assert document["artifactType"] == KIND
    assert document["subject"] == {
        "mediaType": MANIFEST,
        "digest": digest_of(SUBJECT.manifest),
        "size": len(SUBJECT.manifest),
    }
    (layer,) = document["layers"]
    assert client.blob(layer["digest"]) == b"content"
    assert layer["annotations"] == {"org.opencontainers.image.title": "a.json"}
    assert client.blob(document["config"]["digest"]) == b"{}"


@pytest.fixture
def plain() -> tuple[FakeRegistry, Repository]:
    registry = FakeRegistry(before=without_list)
    client = repository(registry)
    push(client, SUBJECT, "v1")
    return registry, client


def test_under_the_tag_others_entries_stay_word_for_word(plain: tuple[FakeRegistry, Repository]) -> None:
    _, client = plain
    theirs = {"mediaType": INDEX, "digest": digest_of(SUBJECT.top), "size": 1, "artifactType": "x/y", "more": {"a": 1}}
    tag = tag_of(digest_of(SUBJECT.manifest))
    client.put(tag, json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [theirs]}).encode(), INDEX)
    digest = attach_to(client)
    stored = client.manifest(tag)
    assert stored is not None
    entries = {entry["digest"]: entry for entry in json.loads(stored.content)["manifests"]}
    assert entries[digest_of(SUBJECT.top)] == theirs
    assert entries[digest]["artifactType"] == KIND
    assert entries[digest]["annotations"] == {"a": "b"}


def test_a_tag_that_holds_something_else(plain: tuple[FakeRegistry, Repository]) -> None:
    _, client = plain
    client.put(tag_of(digest_of(SUBJECT.manifest)), SUBJECT.manifest, MANIFEST)
    with pytest.raises(PublishRefused, match="not an index of attachments"):
        attach_to(client)


def test_a_tag_that_somebody_else_goes_on_writing(plain: tuple[FakeRegistry, Repository]) -> None:
    registry, client = plain
    tag = tag_of(digest_of(SUBJECT.manifest))

    def undo(request: Request) -> Reply | None:
        if request.method == "PUT" and request.url.endswith(tag):
            registry.tags.pop(("ascend/ms-swift", tag))
        return None

    registry.after = undo
    with pytest.raises(PublishRefused, match="does not hold what was just written"):
        attach_to(client)


# --- blobs


def test_a_blob_that_is_there_is_not_sent(client: Repository, registry: FakeRegistry) -> None:
    assert client.put_blob(b"x") == digest_of(b"x")
    sent = len(registry.writes())
    client.put_blob(b"x")
    assert len(registry.writes()) == sent


@pytest.mark.parametrize(("status", "begun"), [(416, 2), (400, 2), (500, 1)])
def test_an_upload_that_broke_is_begun_again(plain: tuple[FakeRegistry, Repository], status: int, begun: int) -> None:
    registry, client = plain
    registry.asked.clear()
    answers = [Reply(status=status)]
    registry.before = lambda request: answers.pop() if answers and "digest=" in request.url else None
    client.put_blob(b"x")
    assert client.blob(digest_of(b"x")) == b"x"
    assert len([one for one in registry.asked if one.method == "POST"]) == begun


def test_a_blob_that_is_never_taken(plain: tuple[FakeRegistry, Repository]) -> None:
    registry, client = plain
    registry.before = lambda request: Reply(status=400) if "digest=" in request.url else None
    with pytest.raises(PublishRefused, match="would not write sha256:"):
        client.put_blob(b"x")


@pytest.mark.parametrize(
    ("location", "where"),
    [
        ("/v2/ascend/ms-swift/blobs/uploads/1?state=2", "https://registry.invalid/v2/ascend/ms-swift/blobs/uploads/1"),
        ("http://registry.invalid/v2/x/blobs/uploads/1", "https://registry.invalid/v2/x/blobs/uploads/1"),
        ("https://store.invalid/1", "https://store.invalid/1"),
    ],
)
def test_a_login_goes_to_the_registry_alone(location: str, where: str) -> None:
    asked: list[Request] = []

    def send(request: Request) -> Reply:
        asked.append(request)
        if request.method == "HEAD":
            return Reply(status=404)
        if request.method == "POST":
            if "Authorization" not in request.headers:
                return Reply(status=401, headers={"www-authenticate": "Basic realm=x"})
            return Reply(status=202, headers={"location": location})
        return Reply(status=201)

    from ascend_images.publish.credentials import Login

    client = Repository("registry.invalid/ascend/ms-swift", send=send, login=lambda _: Login("me", "secret"))
    client.put_blob(b"x")
    assert asked[-1].url.partition("?")[0] == where
    assert "digest=sha256%3A" in asked[-1].url
    assert ("Authorization" in asked[-1].headers) == ("registry.invalid" in where)


def test_an_upload_is_never_sent_in_the_clear() -> None:
    def send(request: Request) -> Reply:
        if request.method == "POST":
            return Reply(status=202, headers={"location": "http://store.invalid/1"})
        return Reply(status=404)

    with pytest.raises(PublishRefused, match="wanted: https"):
        Repository("registry.invalid/a/b", send=send, login=lambda _: None).put_blob(b"x")


# --- what is typed


@pytest.fixture
def world(tmp_path: Path, registry: FakeRegistry) -> World:
    made = World(tmp_path, lambda name: repository(registry, name), registry)
    made.build("a2")
    for arch in Arch:
        path = tmp_path / RECORDS / f"a2.{arch.value}.json"
        record = load_record(path)
        assert record is not None
        lock = str(LockFile.load(tmp_path / "locks" / file_name("a2", arch)))
        write_record(path, msgspec.structs.replace(record, lock=digest_of(lock.encode())))
    return made


def documents(world: World, *arches: Arch, form: str = "spdx") -> list[attesting.Document]:
    return attesting.documents(world.root, ["a2"], RECORDS, arches=arches, form=form)


def test_each_image_gets_its_own_bill_twice_the_same(world: World) -> None:
    lines = attesting.push(documents(world), opened=world.opened)
    assert attesting.push(documents(world), opened=world.opened) == lines
    assert len(lines) == 2
    client = world.opened(QUAY)
    for one in documents(world):
        (digest,) = attached(client, one.record.manifest, KIND)
        stored = client.manifest(digest)
        assert stored is not None
        (layer,) = json.loads(stored.content)["layers"]
        assert client.blob(layer["digest"]) == one.content
        assert layer["annotations"]["org.opencontainers.image.title"] == f"a2.{one.record.arch.value}.spdx.json"
        assert f"{QUAY}@{one.record.manifest} has {KIND} {digest}" in lines


def test_with_a_key_it_is_a_signed_statement_too(world: World, tmp_path: Path) -> None:
    commands: list[list[str]] = []
    (tmp_path / "cosign.key").write_text("x")

    def run(command: object) -> Answer:
        assert isinstance(command, list)
        commands.append(command)
        predicate = next(word for word in command if word.startswith("--predicate="))
        assert json.loads(Path(predicate.partition("=")[2]).read_bytes())["bomFormat"] == "CycloneDX"
        return Answer(0, "", "")

    (one,) = documents(world, Arch.AMD64, form="cyclonedx")
    key = str(tmp_path / "cosign.key")
    (line,) = attesting.push([one], sign=key, opened=world.opened, program=lambda: Cosign("cosign", run))
    assert line.endswith(", and a signed statement")
    ((name, verb, *options, subject),) = commands
    assert (name, verb, subject) == ("cosign", "attest", f"{QUAY}@{one.record.manifest}")
    assert {"--tlog-upload=false", "--replace", "--type=cyclonedx", f"--key={key}"} <= set(options)


def test_only_one_bill_fits_one_file(world: World) -> None:
    with pytest.raises(BadInput, match="bills of a2 amd64, a2 arm64"):
        attesting.only(documents(world))
    assert attesting.only(documents(world, Arch.ARM64)).title == "a2.arm64.spdx.json"


def spoil(world: World, **changed: object) -> None:
    path = world.root / RECORDS / "a2.amd64.json"
    record = load_record(path)
    assert record is not None
    write_record(path, msgspec.structs.replace(record, **changed))


def test_a_lock_that_is_not_here_any_more(world: World) -> None:
    spoil(world, lock=digest_of(b"another"))
    with pytest.raises(BadInput, match="a2 amd64: the lock that it was built from"):
        documents(world)


def test_a_lock_that_a_context_brought(world: World, tmp_path: Path) -> None:
    lock = msgspec.structs.replace(LockFile.load(world.root / "locks" / file_name("a2", Arch.AMD64)), packages=())
    text = str(msgspec.structs.replace(lock, incomplete=(), sdists=(), conflicts=()))
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / file_name("a2", Arch.AMD64)).write_text(text)
    spoil(world, lock=digest_of(text.encode()), contexts={"lock": str(folder)})
    assert b"numpy" not in documents(world, Arch.AMD64)[0].content


REFUSED: dict[str, tuple[Callable[[World], object], type[Exception], str]] = {
    "no variant": (lambda world: attesting.documents(world.root, [], RECORDS), BadInput, "no variant"),
    "another form": (lambda world: documents(world, form="xml"), BadInput, "--format xml"),
    "no record": (
        lambda world: attesting.documents(world.root, ["a3"], RECORDS),
        BadInput,
        "a3: no record of a build for linux/amd64 and linux/arm64",
    ),
    "a key and nothing to push": (lambda _: attesting.require_pushing(False, ""), BadInput, "--sign without --push"),
    "both": (lambda _: attesting.require_pushing(True, "x"), BadInput, "--push with --output"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_meant(world: World, what: str) -> None:
    do, kind, text = REFUSED[what]
    with pytest.raises(kind, match=text):
        do(world)


def test_no_record_of_the_architecture_that_was_named(world: World) -> None:
    (world.root / RECORDS / "a2.arm64.json").unlink()
    assert len(documents(world)) == 1
    with pytest.raises(BadInput, match="no record of a build for linux/arm64"):
        documents(world, Arch.ARM64)


def test_an_image_that_was_not_pushed_or_is_gone(world: World, registry: FakeRegistry) -> None:
    registry.manifests.clear()
    with pytest.raises(PublishRefused, match="is not in the registry any more"):
        attesting.push(documents(world), opened=world.opened)
    spoil(world, pushed=False)
    with pytest.raises(PublishRefused, match="a2 amd64 was built, but not pushed"):
        attesting.push(documents(world), opened=world.opened)


def test_a_bill_goes_to_the_image_of_its_record_alone(world: World, registry: FakeRegistry) -> None:
    """The record is a file that goes from job to job: the image says itself what it was made of."""
    client = world.opened(QUAY)
    other = image(Arch.AMD64, "other", labels={"io.ascend-images.identity": digest_of(b"other pins")})
    bare = image(Arch.AMD64, "bare")
    for one in (other, bare):
        push(client, one)
    before = len(registry.writes())
    spoil(world, manifest=digest_of(other.manifest))
    with pytest.raises(PublishRefused, match="its configuration is sha256:"):
        attesting.push(documents(world, Arch.AMD64), opened=world.opened)
    for one in (other, bare):
        spoil(world, manifest=digest_of(one.manifest), config=one.config)
        with pytest.raises(PublishRefused, match=r"its label io\.ascend-images\.identity is (sha256:|not there)"):
            attesting.push(documents(world, Arch.AMD64), opened=world.opened)
    assert len(registry.writes()) == before


@pytest.mark.parametrize("changed", [{"variant": "a3"}, {"arch": Arch.ARM64}])
def test_the_record_of_something_else_is_refused(world: World, changed: dict[str, object]) -> None:
    spoil(world, **changed)
    with pytest.raises(BadInput, match=r"a2\.amd64\.json: the record of a"):
        documents(world, Arch.AMD64)


@pytest.mark.parametrize("epoch", [-1, 10**15])
def test_a_time_that_no_build_takes_is_no_record(world: World, epoch: int) -> None:
    spoil(world, epoch=epoch)
    with pytest.raises(BadInput, match=r"a2\.amd64\.json: not the record of a build"):
        documents(world)


def test_what_is_attached_goes_with_its_image_and_stays_with_it(world: World, registry: FakeRegistry) -> None:
    """Nothing is left of an old candidate, and all of the one that is kept."""
    (old,) = world.manifest("a2")
    attesting.push(documents(world), opened=world.opened)
    client = world.opened(QUAY)
    before = [digest for one in documents(world) for digest in attached(client, one.record.manifest)]
    world.build("a2", epoch=EPOCH + 1, text="newer", resolved=newer())
    (kept,) = world.manifest("a2")
    subject = client.manifest(kept.platforms["linux/amd64"].manifest)
    assert subject is not None
    stays = attach(client, subject, b"{}", KIND, title="a.json", notes={})
    for tag in registry.readable():
        # As a build pushes under candidates' tags alone; the list of what is attached is under a tag of its own.
        if not tag.startswith("sha256-"):
            registry.tags.pop(("ascend/ms-swift", tag))
    plan = plan_pruning(client, Published(), keep=1)
    assert set(before) <= set(plan.doomed)
    prune(client, plan)
    assert client.manifest(old.digest) is None
    assert [client.manifest(digest) for digest in before] == [None, None]
    assert attached(client, subject.digest) == (stays,)
    assert client.manifest(stays) is not None


def newer() -> dict[str, object]:
    return dict(msgspec.to_builtins(variant("a2", repository=QUAY, workdir="/newer")))
