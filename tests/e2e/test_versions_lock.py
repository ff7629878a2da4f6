"""versions.lock learned from remotes of this machine: git over https, a registry, a file server that breaks off."""

import hashlib
import http.server
import json
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests

from ascend_images.errors import BadInput, LookupIncomplete
from ascend_images.files import write_atomic
from ascend_images.lock.digests import Imagetools
from ascend_images.lock.git import GitClient
from ascend_images.lock.reach import MovedError
from ascend_images.lock.run_files import Downloads
from ascend_images.lock.versions import Hosts, Learned, learn
from ascend_images.pins.platform import Arch
from ascend_images.pins.questions import check
from ascend_images.pins.variant import Variant
from ascend_images.pins.versions_lock import FILE, VersionsLock
from tests.e2e.git_server import GitServer, git_server, make_authority
from tests.remotes import TODAY, asking, run_file, wanting

pytestmark = pytest.mark.e2e

HOST = "127.0.0.1"
ABSENT = "0123456789abcdef0123456789abcdef01234567"
RUN_FILE = bytes(range(256)) * 20_000


def git(folder: Path, *words: str) -> str:
    settings = ["-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "protocol.file.allow=always"]
    command = ["git", "-C", str(folder), *settings, "-c", "commit.gpgsign=false", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def change(folder: Path, text: str) -> str:
    (folder / "file").write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", text)
    return git(folder, "rev-parse", "HEAD")


def make_repositories(top: Path) -> dict[str, str]:
    """Make what the git server serves, and return the commits that are wanted of it."""
    wanted = {}
    for name in ("plain", "inner", "modules"):
        folder = top / name
        folder.mkdir(parents=True)
        git(folder, "-c", "init.defaultBranch=main", "init", "-q")
        for key in ("allowAnySHA1InWant", "allowFilter"):
            git(folder, "config", f"uploadpack.{key}", "true")
        wanted[name] = change(folder, f"{name} 1")
    plain = top / "plain"
    git(plain, "tag", "v1")
    wanted["annotated"] = change(plain, "plain 2")
    git(plain, "tag", "-a", "v2", "-m", "a release")
    wanted["hidden"] = change(plain, "on no branch")
    git(plain, "reset", "-q", "--hard", "HEAD~1")
    wanted["main"] = change(plain, "plain 3")
    relative = f"url.{top.as_uri()}/.insteadOf=https://here.invalid/"
    git(
        top / "modules",
        "-c",
        relative,
        "submodule",
        "--quiet",
        "add",
        "https://here.invalid/inner",
        "third_party/inner",
    )
    git(top / "modules", "config", "-f", ".gitmodules", "submodule.third_party/inner.url", "../inner")
    wanted["modules"] = change(top / "modules", "modules 2")
    git(top / "modules", "tag", "v1")
    change(top / "inner", "inner 2")
    return wanted


@dataclass
class Files:
    """A file server that can break off, and that says what it was asked for."""

    url: str = ""
    content: bytes = RUN_FILE
    breaks: list[int] = field(default_factory=list)
    ranges: list[str | None] = field(default_factory=list)


@contextmanager
def serving(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    with http.server.ThreadingHTTPServer((HOST, 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"{HOST}:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def file_server() -> Iterator[Files]:
    files = Files()

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Keep the tests' output to the tests."""

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            files.ranges.append(self.headers.get("Range"))
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            etag = f'"{hashlib.sha256(files.content).hexdigest()[:8]}"'
            wanted = self.headers.get("Range") if self.headers.get("If-Range") == etag else None
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
            self.send_response(206 if wanted else 200)
            self.send_header("ETag", etag)
            self.send_header("Content-Length", str(len(files.content) - start))
            if wanted:
                self.send_header("Content-Range", f"bytes {start}-{len(files.content) - 1}/{len(files.content)}")
            self.end_headers()
            end = start + files.breaks.pop(0) if body and files.breaks else len(files.content)
            if body:
                self.wfile.write(files.content[start:end])

    with serving(Handler) as address:
        files.url = f"http://{address}"
        yield files


def push(address: str, name: str, tag: str, arches: list[str]) -> dict[str, str]:
    """Push an image for each architecture, and an index of them where there are several; return their digests."""
    base = f"http://{address}/v2/{name}"
    digests = {}
    entries = []
    for arch in arches:
        config = json.dumps(
            {"os": "linux", "architecture": arch, "rootfs": {"type": "layers", "diff_ids": []}, "n": tag}
        )
        blob = f"sha256:{hashlib.sha256(config.encode()).hexdigest()}"
        place = requests.post(f"{base}/blobs/uploads/", timeout=10).headers["Location"]
        requests.put(place, params={"digest": blob}, data=config.encode(), timeout=10).raise_for_status()
        kind = "application/vnd.oci.image.manifest.v1+json"
        config_entry = {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": blob, "size": len(config)}
        manifest = json.dumps({"schemaVersion": 2, "mediaType": kind, "config": config_entry, "layers": []})
        digests[arch] = put(base, manifest, kind, tag if len(arches) == 1 else "")
        platform = {"os": "linux", "architecture": arch}
        entries.append({"mediaType": kind, "digest": digests[arch], "size": len(manifest), "platform": platform})
    if len(arches) > 1:
        kind = "application/vnd.oci.image.index.v1+json"
        index = {"schemaVersion": 2, "mediaType": kind, "manifests": entries}
        digests["index"] = put(base, json.dumps(index, indent=3), kind, tag)
    return digests


def put(base: str, manifest: str, kind: str, tag: str) -> str:
    digest = f"sha256:{hashlib.sha256(manifest.encode()).hexdigest()}"
    address = f"{base}/manifests/{tag or digest}"
    requests.put(address, data=manifest.encode(), headers={"Content-Type": kind}, timeout=10).raise_for_status()
    return digest


@dataclass(kw_only=True)
class World:
    """Remotes of this machine, and a folder in which a lock is made from them."""

    top: Path
    server: GitServer
    commits: dict[str, str]
    registry: str
    files: Files
    said: list[str] = field(default_factory=list)

    def source(self, name: str, ref: str, **fields: Any) -> Any:
        return asking(name, ref, git=f"{self.server.url}{name}", **fields)

    def image(self, name: str) -> str:
        return f"{self.registry}/{name}"

    def variant(self, *sources: Any, image: str = "", file: str = "", **fields: Any) -> Variant:
        runs = (msgspec.structs.replace(run_file(file), url=f"{self.files.url}/{file}"),) if file else ()
        return wanting(*sources, runs=runs, base_image=image or self.image("cann:1"), **fields)

    def learn(self, *variants: Variant, mirror: dict[str, str] | None = None, **more: Any) -> Learned:
        path = self.top / FILE
        found = learn(
            variants,
            VersionsLock.load(path),
            Hosts(
                git=GitClient(self.top / "cache"),
                images=Imagetools(mirror or {}),
                files=Downloads(self.top / "cache", self.said.append, pause=0),
            ),
            today=TODAY,
            write=lambda lock: write_atomic(path, str(lock)),
            **more,
        )
        assert VersionsLock.load(path) == found.lock
        return found


@pytest.fixture
def world(tmp_path: Path, registry: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    commits = make_repositories(tmp_path / "repositories")
    authority = make_authority(tmp_path / "authority", HOST)
    monkeypatch.setenv("GIT_SSL_CAINFO", str(authority.ca))
    monkeypatch.setenv("NO_PROXY", HOST)
    push(registry, "cann", "1", ["amd64", "arm64"])
    with git_server(tmp_path / "repositories", authority, HOST) as server, file_server() as files:
        yield World(top=tmp_path, server=server, commits=commits, registry=registry, files=files)


def test_everything_is_learned_from_its_remote_and_written(world: World) -> None:
    hidden = world.commits["hidden"]
    variant = world.variant(
        world.source("plain", "v1"),
        msgspec.structs.replace(world.source("plain", "v2"), name="annotated"),
        msgspec.structs.replace(world.source("plain", "main"), name="branch"),
        msgspec.structs.replace(world.source("plain", hidden), name="hidden"),
        world.source("modules", "v1", submodules=True),
        file="toolkit.run",
    )
    found = world.learn(variant)
    found.require()
    assert check(found.lock, [variant]) == ()
    meant = {(entry.ref, entry.kind): entry.commit for entry in found.lock.git if entry.repository.endswith("plain")}
    assert meant == {
        ("v1", "tag"): world.commits["plain"],
        ("v2", "annotated tag"): world.commits["annotated"],
        ("main", "branch"): world.commits["main"],
        (hidden, "commit"): hidden,
    }
    modules = found.lock.ref(f"{world.server.url}modules", "v1")
    assert modules is not None
    assert [(one.path, one.url, one.commit) for one in modules.submodules or ()] == [
        ("third_party/inner", f"{world.server.url}inner", world.commits["inner"])
    ]
    (run,) = found.lock.run
    assert (run.sha256, run.bytes) == (hashlib.sha256(RUN_FILE).hexdigest(), len(RUN_FILE))
    again = world.learn(variant)
    again.require()
    assert again.changes == ()


def test_without_the_ca_nothing_is_learned_from_the_host_and_that_is_why(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GIT_SSL_CAINFO")
    monkeypatch.setenv("GIT_SSL_NO_VERIFY", "1")
    with pytest.raises(LookupIncomplete, match="its certificate is not trusted here"):
        world.learn(world.variant(world.source("plain", "v1"))).require()


def test_the_users_own_settings_switch_no_certificates_off(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (world.top / "gitconfig").write_text(f'[http "{world.server.url}"]\n\tsslVerify = false\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(world.top / "gitconfig"))
    monkeypatch.delenv("GIT_SSL_CAINFO")
    with pytest.raises(LookupIncomplete, match="its certificate is not trusted here"):
        world.learn(world.variant(world.source("plain", "v1"))).require()


@pytest.mark.parametrize(("ref", "near"), [(ABSENT, ""), ("v1rc2", "near to it: v1")])
def test_what_is_not_on_the_remote_fails_here_and_not_in_the_build(world: World, ref: str, near: str) -> None:
    with pytest.raises(BadInput) as failure:
        world.learn(world.variant(world.source("plain", ref))).require()
    assert failure.value.found == f"{world.server.url}plain: {ref}: not found on the remote"
    assert near in failure.value.wanted


def test_a_tag_that_moved_stops_until_it_is_named(world: World) -> None:
    variant = world.variant(world.source("plain", "v2"))
    world.learn(variant).require()
    plain = world.top / "repositories" / "plain"
    moved = git(plain, "rev-parse", "main")
    git(plain, "tag", "-f", "-a", "v2", "-m", "another", "main")
    with pytest.raises(MovedError) as failure:
        world.learn(variant).require()
    assert world.commits["annotated"] in failure.value.found
    assert moved in failure.value.found
    taken = world.learn(variant, update={"plain"})
    taken.require()
    assert [change.after for change in taken.changes] == [moved]


def test_a_tag_that_is_gone_keeps_its_commit_while_the_remote_gives_that(world: World) -> None:
    variant = world.variant(world.source("plain", "v2"))
    before = world.learn(variant).lock
    plain = world.top / "repositories" / "plain"
    git(plain, "tag", "-d", "v2")
    found = world.learn(variant)
    found.require()
    assert found.lock == before
    assert "not found on the remote any more" in found.notes[0]
    git(plain, "checkout", "-q", "--orphan", "new")
    change(plain, "all is new")
    git(plain, "branch", "-q", "-D", "main")
    git(plain, "tag", "-d", "v1")
    git(plain, "reflog", "expire", "--expire=now", "--all")
    git(plain, "gc", "-q", "--prune=now")
    with pytest.raises(BadInput, match="neither is its commit"):
        world.learn(variant).require()


def test_a_repository_that_is_gone_leaves_what_was_known(world: World) -> None:
    variant = world.variant(world.source("plain", "v1"), world.source("modules", "v1"))
    before = world.learn(variant).lock
    shutil.rmtree(world.top / "repositories" / "plain")
    found = world.learn(variant)
    assert found.lock == before
    with pytest.raises(LookupIncomplete, match=f"plain v1: stays {world.commits['plain'][:12]}"):
        found.require()


def test_a_base_image_has_the_digests_that_its_registry_says(world: World) -> None:
    multi = push(world.registry, "cann", "multi", ["amd64", "arm64"])
    single = push(world.registry, "cann", "single", ["arm64"])
    found = world.learn(
        world.variant(image=world.image("cann:multi")),
        world.variant(image=world.image("cann:single"), platforms=(Arch.ARM64,), name="other"),
    )
    found.require()
    first, second = found.lock.base
    assert first.index == multi["index"]
    assert first.platforms == {"linux/amd64": multi["amd64"], "linux/arm64": multi["arm64"]}
    assert (second.index, second.platforms) == ("", {"linux/arm64": single["arm64"]})


def test_a_base_image_built_anew_keeps_its_digest_until_it_is_named(world: World) -> None:
    before = push(world.registry, "cann", "anew", ["amd64", "arm64"])
    variant = world.variant(image=world.image("cann:anew"))
    world.learn(variant).require()
    single = push(world.registry, "cann", "anew", ["amd64"])
    after = world.learn(variant)
    after.require()
    assert after.lock.base[0].index == before["index"]
    assert "is kept" in after.notes[0]
    taken = world.learn(msgspec.structs.replace(variant, platforms=(Arch.AMD64,)), update={"base"})
    taken.require()
    assert taken.lock.base[0].digest == single["amd64"]


def test_a_mirror_of_the_registry_is_asked_instead(world: World) -> None:
    wanted = push(world.registry, "mirrored", "1", ["amd64", "arm64"])
    variant = world.variant(image="quay.io/ascend/cann:1")
    found = world.learn(variant, mirror={"quay.io/ascend/cann": world.image("mirrored")})
    found.require()
    entry = found.lock.base_image("quay.io/ascend/cann:1")
    assert entry is not None
    assert entry.index == wanted["index"]


def test_a_registry_that_is_down_one_without_the_image_and_one_that_wants_a_login_are_told_apart(world: World) -> None:
    class Closed(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Keep the tests' output to the tests."""

        def do_HEAD(self) -> None:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="here"')
            self.end_headers()

        def do_GET(self) -> None:
            self.do_HEAD()

    def told(image: str) -> str:
        with pytest.raises((BadInput, LookupIncomplete)) as failure:
            world.learn(world.variant(image=image)).require()
        return f"{type(failure.value).__name__}: {failure.value.found}"

    assert "BadInput" in (missing := told(world.image("cann:gone")))
    assert "not found in the registry" in missing
    with serving(Closed) as address:
        assert "LookupIncomplete" in (closed := told(f"{address}/cann:1"))
        assert "asks for a login" in closed
    assert "LookupIncomplete" in (down := told(f"{address}/cann:1"))
    assert "the connection is refused" in down


def test_a_download_that_breaks_off_is_resumed_in_this_call_and_in_another(world: World) -> None:
    variant = world.variant(file="toolkit.run")
    world.files.breaks = [1 << 20, 1 << 20]
    world.learn(variant).require()
    assert world.files.ranges[0] is None
    assert all(wanted is not None for wanted in world.files.ranges[1:])
    other = world.variant(file="ops.run")
    world.files.breaks = [2 << 20, 0, 0, 0]
    with pytest.raises(LookupIncomplete, match="goes on from there"):
        world.learn(other).require()
    found = world.learn(other)
    found.require()
    assert (world.files.ranges[-1] or "").startswith("bytes=")
    assert {run.sha256 for run in found.lock.run} == {hashlib.sha256(RUN_FILE).hexdigest()}
    assert any("goes on after" in line for line in world.said)


def test_a_file_that_changed_is_told_and_taken_when_it_is_named(world: World) -> None:
    variant = world.variant(file="toolkit.run")
    world.learn(variant).require()
    world.files.content = RUN_FILE + b"more"
    with pytest.raises(MovedError, match="bytes and has"):
        world.learn(variant).require()
    assert len(world.files.ranges) == 1
    taken = world.learn(variant, update={"toolkit"})
    taken.require()
    assert taken.lock.run[0].sha256 == hashlib.sha256(world.files.content).hexdigest()


def test_an_interruption_loses_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> Callable[[], None]:
        raise KeyboardInterrupt

    monkeypatch.setattr(Downloads, "download", interrupt)
    with pytest.raises(KeyboardInterrupt):
        world.learn(world.variant(world.source("plain", "v1"), file="toolkit.run"))
    kept = VersionsLock.load(world.top / FILE)
    assert [entry.ref for entry in kept.git] == ["v1"]
    assert len(kept.base) == 1
