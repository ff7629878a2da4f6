"""Signatures and bills of materials in a real registry, by the real cosign, with keys made here and no log."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from ascend_images import attesting, publishing
from ascend_images.digest import digest_of
from ascend_images.errors import BadInput, LookupIncomplete, PublishRefused
from ascend_images.images.plan import RECORDS
from ascend_images.images.record import load_record, write_record
from ascend_images.pins.lockfile import LockFile, file_name
from ascend_images.publish.prune import plan_pruning, prune
from ascend_images.publish.published import FILE, load
from ascend_images.publish.referrers import attached
from ascend_images.publish.registry import Repository
from ascend_images.publish.sign import Cosign, fingerprint
from ascend_images.sandbox.engine import state_dir
from ascend_images.sbom import spdx
from tests.publish_kit import BOTH, CHECKS, EPOCH, World, variant

pytestmark = pytest.mark.e2e

ALIAS = "latest-ms-swift-910b-ubuntu"
PASSWORD = "not a real one"


class Keys(NamedTuple):
    private: str
    public: str


@pytest.fixture(scope="module")
def cosign() -> str:
    """The program: on PATH, else Debian's package (from 13 on), fetched by apt and unpacked in the state folder."""
    found = shutil.which("cosign")
    if found:
        return found
    folder = state_dir() / "cosign"
    program = folder / "tree" / "usr" / "bin" / "cosign"
    if not program.exists() and shutil.which("apt-get"):
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "cosign"], cwd=folder, capture_output=True, check=False)
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg-deb", "--extract", package, folder / "tree"], check=True)
            package.unlink()
    if not program.exists():
        pytest.skip("no cosign on PATH, and apt has no package of it here (Debian 13 does)")
    return str(program)


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COSIGN_PASSWORD", PASSWORD)


def new_keys(cosign: str, folder: Path, name: str) -> Keys:
    place = folder / name
    place.mkdir()
    own = {**os.environ, "COSIGN_PASSWORD": PASSWORD}
    subprocess.run([cosign, "generate-key-pair"], cwd=place, env=own, capture_output=True, check=True)
    return Keys(str(place / "cosign.key"), str(place / "cosign.pub"))


@pytest.fixture(scope="module")
def keys(cosign: str, tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return new_keys(cosign, tmp_path_factory.mktemp("keys"), "ours")


@pytest.fixture(scope="module")
def other(cosign: str, tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return new_keys(cosign, tmp_path_factory.mktemp("keys"), "other")


def client(name: str) -> Repository:
    return Repository(name, login=lambda _: None)


@pytest.fixture
def world(tmp_path: Path, registry: str) -> World:
    root = tmp_path / "project"
    root.mkdir()
    return World(root, client, name=f"{registry}/{hashlib.sha256(bytes(root)).hexdigest()[:12]}/ms-swift")


def ready(world: World, number: int = 1) -> str:
    """Build, join and verify a candidate of these pins; return its digest."""
    of = msgspec.to_builtins(variant("a2", repository=world.name))
    world.build("a2", text=f"{world.name} {number}", epoch=EPOCH + number, resolved=of)
    for arch in BOTH:
        path = world.root / RECORDS / f"a2.{arch.value}.json"
        record = load_record(path)
        assert record is not None
        lock = str(LockFile.load(world.root / "locks" / file_name("a2", arch)))
        write_record(path, msgspec.structs.replace(record, lock=digest_of(lock.encode())))
    (joined,) = world.manifest("a2")
    world.verify(joined)
    return joined.digest


def promote(world: World, cosign: str, key: str) -> list[str]:
    wish = publishing.Promotion(reports=world.root / "build" / "verify", sign=key)
    return publishing.promote(
        world.root,
        ["a2"],
        wish,
        checks=CHECKS,
        say=world.said.append,
        opened=client,
        environment={},
        program=lambda: Cosign(cosign),
    )


def verify(world: World, cosign: str, key: str) -> list[str]:
    return attesting.verify_signatures(world.root, ["a2"], key, opened=client, program=lambda: Cosign(cosign))


def released(world: World) -> set[str]:
    return {tag for tag in client(world.name).tags() if tag in (ALIAS, variant("a2").tag)}


def signatures(world: World) -> dict[str, str]:
    repository = client(world.name)
    stored = {tag: repository.manifest(tag) for tag in repository.tags() if tag.endswith(".sig")}
    return {tag: one.digest for tag, one in stored.items() if one is not None}


def test_signed_verified_and_refused_by_another_key(world: World, cosign: str, keys: Keys, other: Keys) -> None:
    digest = ready(world)
    promote(world, cosign, keys.private)
    (one,) = load(world.root / FILE).publications
    assert (one.digest, one.signed) == (digest, fingerprint(Path(keys.public).read_text()))
    assert len(released(world)) == 2
    found = verify(world, cosign, keys.public)
    assert found == [f"{world.name}@{name}" for name in (digest, *one.platforms.values())]
    with pytest.raises(PublishRefused, match="no signature by this key") as raised:
        verify(world, cosign, other.public)
    assert raised.value.exit_code == 7


def test_signed_twice_is_signed_once(world: World, cosign: str, keys: Keys) -> None:
    ready(world)
    promote(world, cosign, keys.private)
    before = signatures(world)
    assert len(before) == 3
    promote(world, cosign, keys.private)
    assert signatures(world) == before


def test_what_was_promoted_unsigned_is_told(world: World, cosign: str, keys: Keys) -> None:
    ready(world)
    world.promote("a2")
    with pytest.raises(PublishRefused, match="no signature"):
        verify(world, cosign, keys.public)


def test_no_tag_moves_where_it_cannot_be_signed(
    world: World, cosign: str, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(world)
    no_key = tmp_path / "no.key"
    no_key.write_text("this is no key\n")
    with pytest.raises(BadInput, match="cannot be read"):
        promote(world, cosign, str(no_key))
    for wrong in ("another", None):
        if wrong is None:
            monkeypatch.delenv("COSIGN_PASSWORD")
        else:
            monkeypatch.setenv("COSIGN_PASSWORD", wrong)
        with pytest.raises(BadInput) as raised:
            promote(world, cosign, keys.private)
        assert raised.value.do == "set COSIGN_PASSWORD"
    assert released(world) == set()
    assert signatures(world) == {}
    assert not (world.root / FILE).exists()


def test_what_cosign_would_sign_although_it_is_not_there_is_refused_before(
    world: World, cosign: str, keys: Keys
) -> None:
    """Cosign 2.5 signs a digest that the registry does not have."""
    digest = ready(world)
    client(world.name).delete(digest)
    with pytest.raises(PublishRefused, match="not in the registry any more"):
        promote(world, cosign, keys.private)
    assert signatures(world) == {}


def test_a_registry_that_does_not_answer(cosign: str, keys: Keys) -> None:
    with pytest.raises(LookupIncomplete, match="connection refused"):
        Cosign(cosign).why_not(f"127.0.0.1:1/a/b@sha256:{'1' * 64}", keys.public)


def documents(world: World, form: str = "spdx") -> list[attesting.Document]:
    return attesting.documents(world.root, ["a2"], RECORDS, form=form)


def test_bills_are_attached_once_and_signed_statements_hold_them(world: World, cosign: str, keys: Keys) -> None:
    ready(world)
    lines = attesting.push(documents(world), opened=client)
    tags = client(world.name).tags()
    assert attesting.push(documents(world), opened=client) == lines
    assert client(world.name).tags() == tags
    for one in documents(world):
        (digest,) = attached(client(world.name), one.record.manifest, spdx.MEDIA_TYPE)
        stored = client(world.name).manifest(digest)
        assert stored is not None
        (layer,) = json.loads(stored.content)["layers"]
        assert client(world.name).blob(layer["digest"]) == one.content
    attesting.push(documents(world), sign=keys.private, opened=client, program=lambda: Cosign(cosign))
    (one, _) = documents(world)
    command = [cosign, "verify-attestation", "--type=spdxjson", "--insecure-ignore-tlog=true", f"--key={keys.public}"]
    done = subprocess.run([*command, f"{world.name}@{one.record.manifest}"], capture_output=True, check=True)
    statement = json.loads(base64.b64decode(json.loads(done.stdout)["payload"]))
    assert statement["predicate"] == json.loads(one.content)
    assert statement["subject"][0]["digest"]["sha256"] == one.record.manifest.removeprefix("sha256:")


def test_what_is_kept_keeps_what_is_attached_to_it(world: World, cosign: str, keys: Keys) -> None:
    ready(world)
    promote(world, cosign, keys.private)
    attesting.push(documents(world), opened=client)
    repository = client(world.name)
    prune(repository, plan_pruning(repository, load(world.root / FILE), keep=1))
    assert len(verify(world, cosign, keys.public)) == 3
    assert all(attached(repository, one.record.manifest, spdx.MEDIA_TYPE) for one in documents(world))
