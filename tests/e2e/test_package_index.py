"""Packages locked from an index of this machine: what was taken back, what came later, an index that dies midway."""

import base64
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from ascend_images.errors import LookupIncomplete
from ascend_images.lock.anew import UvAnew
from ascend_images.lock.catalog import Catalog
from ascend_images.lock.lock import known_locks, lock_variant, write_locks
from ascend_images.lock.means import Means
from ascend_images.lock.placeholder import Placeholder, write_wheel
from ascend_images.lock.resolver import Uv
from ascend_images.pins.lockfile import LockFile
from ascend_images.pins.platform import Arch
from tests.lock_kit import variant

pytestmark = pytest.mark.e2e

HOST = "127.0.0.1"
JSON = "application/vnd.pypi.simple.v1+json"
ONE = variant({"app": "1"})
BOTH = (Arch.ARM64, Arch.AMD64)


@dataclass
class Index:
    """An index of wheels without content; `limit` is how many answers it gives before it gives none.

    `max_age` is for how many seconds its answers may be kept; `logins` are those that came with questions.
    """

    folder: Path
    url: str = ""
    days: dict[str, str] = field(default_factory=dict)
    yanked: set[str] = field(default_factory=set)
    limit: int | None = None
    max_age: int = 0
    logins: set[str] = field(default_factory=set)

    def add(self, name: str, version: str, *requires: str, day: str = "2026-01-01") -> None:
        wheel = write_wheel(Placeholder(name, version, tuple(map(Requirement, requires))), self.folder)
        self.days[wheel.name] = day

    def page(self, name: str) -> bytes | None:
        files = [
            {
                "filename": wheel.name,
                "url": f"{self.url}/files/{wheel.name}",
                "hashes": {"sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()},
                "upload-time": f"{self.days[wheel.name]}T12:00:00Z",
                "yanked": wheel.name in self.yanked,
            }
            for wheel in sorted(self.folder.glob(f"{name}-*.whl"))
        ]
        return json.dumps({"meta": {"api-version": "1.1"}, "name": name, "files": files}).encode() if files else None


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    (tmp_path / "index").mkdir()
    made = Index(tmp_path / "index")
    monkeypatch.setenv("NO_PROXY", HOST)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Keep the tests' output to the tests."""

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            if made.limit is not None:
                made.limit -= 1
                if made.limit < 0:
                    self.close_connection = True
                    return
            folder, _, name = self.path.strip("/").partition("/")
            body = made.page(name) if folder == "simple" else (made.folder / name).read_bytes()
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", JSON if folder == "simple" else "application/octet-stream")
            self.send_header("Content-Length", str(len(body or b"")))
            if made.max_age:
                self.send_header("Cache-Control", f"max-age={made.max_age}")
            made.logins.add(self.headers.get("Authorization", ""))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body or b"")

    with http.server.ThreadingHTTPServer((HOST, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        made.url = f"http://{HOST}:{server.server_address[1]}"
        made.add("app", "1", "lib")
        made.add("lib", "1.0")
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def means(index: Index, tmp_path: Path) -> Means:
    address = f"{index.url}/simple"
    return Means(packages=Catalog(tmp_path / "cache", address), resolver=UvAnew(address), cache=tmp_path / "cache")


def anew(means: Means, tmp_path: Path) -> Means:
    """Return the means without what they remember: as the next command has them, ten minutes later."""
    for path in (tmp_path / "cache" / "listings").glob("*"):
        path.unlink()
    assert isinstance(means.packages, Catalog)
    return replace(means, packages=Catalog(tmp_path / "cache", means.packages.default))


def kept(locks: dict[Arch, LockFile]) -> dict[Arch, dict[str, str]]:
    return {arch: lock.versions for arch, lock in locks.items()}


def test_what_was_locked_is_kept_until_it_is_taken_back(index: Index, means: Means, tmp_path: Path) -> None:
    first = lock_variant(ONE, BOTH, {}, means)
    assert first[Arch.ARM64].versions == {"app": "1", "lib": "1.0"}
    assert all(package.hashes for package in first[Arch.ARM64].packages)
    index.add("lib", "2.0")
    again = anew(means, tmp_path)
    assert lock_variant(ONE, BOTH, {}, again, kept=kept(first)) == first
    assert lock_variant(ONE, BOTH, {}, again)[Arch.ARM64].versions["lib"] == "2.0"
    index.yanked.add("lib-1.0-py3-none-any.whl")
    later = lock_variant(ONE, BOTH, {}, anew(means, tmp_path), kept=kept(first))
    assert later[Arch.ARM64].versions["lib"] == later[Arch.AMD64].versions["lib"] == "2.0"


def test_as_of_a_day_what_came_later_is_not_there(index: Index, means: Means) -> None:
    index.add("lib", "2.0", day="2026-03-01")
    address = f"{index.url}/simple"
    for day, version in ((date(2026, 2, 28), "1.0"), (date(2026, 3, 1), "2.0")):
        found = lock_variant(ONE, BOTH, {}, replace(means, resolver=Uv(address, as_of=day)))
        assert found[Arch.ARM64].versions["lib"] == version


@pytest.mark.parametrize("limit", range(4))
def test_an_index_that_dies_on_the_way_leaves_the_locks_as_they_were(
    limit: int, index: Index, means: Means, tmp_path: Path
) -> None:
    write_locks(lock_variant(ONE, BOTH, {}, means), tmp_path / "locks")
    before = {path.name: path.read_bytes() for path in (tmp_path / "locks").iterdir()}
    for number in range(3):
        index.add(f"more{number}", "1")
    other = variant({"app": "1", **{f"more{number}": "1" for number in range(3)}})
    index.limit = limit
    with pytest.raises(LookupIncomplete):
        lock_variant(other, BOTH, {}, anew(means, tmp_path), known=known_locks(ONE, tmp_path / "locks"))
    assert {path.name: path.read_bytes() for path in (tmp_path / "locks").iterdir()} == before


def test_offline_what_was_learned_before_is_enough(index: Index, means: Means, tmp_path: Path) -> None:
    first = lock_variant(ONE, BOTH, {}, means)
    index.limit = 0
    address = f"{index.url}/simple"
    packages = Catalog(tmp_path / "cache", address, offline=True)
    offline = Means(packages=packages, resolver=Uv(address, offline=True), cache=tmp_path / "cache", offline=True)
    assert lock_variant(ONE, BOTH, {}, offline) == first
    with pytest.raises(LookupIncomplete, match="not asked"):
        lock_variant(variant({"app": "1", "other": "1"}), BOTH, {}, offline)


def test_what_was_published_a_moment_ago_is_there_though_lists_were_kept(
    index: Index, means: Means, tmp_path: Path
) -> None:
    index.max_age = 600
    address = f"{index.url}/simple"

    def next_command(*, fresh: bool = False) -> Means:
        resolver = UvAnew(address, fresh=fresh)
        return replace(means, packages=Catalog(tmp_path / "cache", address, fresh=fresh), resolver=resolver)

    lock_variant(ONE, BOTH, {}, means)
    index.add("app", "2", "lib>=2")
    index.add("lib", "2.0")
    found = lock_variant(variant({"app": "2"}), BOTH, {}, next_command())
    assert found[Arch.AMD64].versions == {"app": "2", "lib": "2.0"}
    index.add("lib", "3.0")
    assert lock_variant(ONE, BOTH, {}, next_command())[Arch.ARM64].versions["lib"] == "2.0"
    assert lock_variant(ONE, BOTH, {}, next_command(fresh=True))[Arch.ARM64].versions["lib"] == "3.0"


def test_the_password_of_an_index_reaches_it_and_no_file(index: Index, means: Means, tmp_path: Path) -> None:
    address = f"{index.url}/simple".replace("//", "//me:s3cret@")
    private = replace(means, packages=Catalog(tmp_path / "cache", address), resolver=UvAnew(address))
    assert lock_variant(ONE, BOTH, {}, private)[Arch.ARM64].versions == {"app": "1", "lib": "1.0"}
    login = "Basic " + base64.b64encode(b"me:s3cret").decode()
    assert login in index.logins
    kept = [path for folder in ("cache", "uv") for path in (tmp_path / folder).rglob("*") if path.is_file()]
    assert kept
    assert [path.name for path in kept if b"s3cret" in path.read_bytes() or login.encode() in path.read_bytes()] == []
