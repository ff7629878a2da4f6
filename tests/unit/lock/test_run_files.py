"""Files are downloaded whole or not at all, resumed after a break, and never put together from two."""

import fcntl
import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests
from requests.adapters import BaseAdapter
from urllib3 import HTTPResponse
from urllib3.exceptions import ProtocolError

from ascend_images.errors import BadInput, MissingTool
from ascend_images.lock import run_files
from ascend_images.lock.means import silent
from ascend_images.lock.reach import MovedError, NotThereError, Outcome, UnreachableError
from ascend_images.lock.run_files import Downloaded, Downloads, settle_run
from ascend_images.pins.questions import AskedRun
from ascend_images.pins.versions_lock import LockedRun
from tests.remotes import TODAY, FakeFiles, locked_run, sha

URL = "https://files.example/CANN%208.5.2/toolkit.run"
CONTENT = bytes(range(256)) * 8000
#: What is written is whole blocks; 2 MB have some.
BLOCK = run_files._BLOCK


class Breaking(io.BytesIO):
    """A body that ends in a broken connection."""

    def read(self, size: int | None = -1) -> bytes:
        block = super().read(size)
        if not block:
            raise ProtocolError("Connection broken: IncompleteRead")
        return block


@dataclass
class Server(BaseAdapter):
    """A file server; `breaks` says after how many bytes each answer in turn breaks off."""

    content: bytes = CONTENT
    etag: str = '"1"'
    modified: str = ""
    ranges: bool = True
    breaks: list[int] = field(default_factory=list)
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    sends_length: bool = True
    asked: list[requests.PreparedRequest] = field(default_factory=list)
    down: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    def close(self) -> None:
        """Nothing is open."""

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        self.asked.append(request)
        if self.down:
            raise requests.ConnectionError("Connection refused")
        start, status = self._start(request)
        body = self.content[start:]
        headers = {"ETag": self.etag, "Last-Modified": self.modified}
        headers = {name: value for name, value in headers.items() if value}
        if self.sends_length:
            headers["Content-Length"] = str(len(body))
        if status == 206:
            headers["Content-Range"] = f"bytes {start}-{len(self.content) - 1}/{len(self.content)}"
        if status == 416:
            headers["Content-Range"] = f"bytes */{len(self.content)}"
            body = b""
        headers |= self.headers
        broken = self.breaks.pop(0) if self.breaks and request.method == "GET" else None
        stream = io.BytesIO(body) if broken is None else Breaking(body[:broken])
        response = requests.Response()
        response.status_code = self.status or status
        response.headers.update(headers)
        response.url = request.url or ""
        response.raw = HTTPResponse(stream, preload_content=False, enforce_content_length=False)
        return response

    def _start(self, request: requests.PreparedRequest) -> tuple[int, int]:
        wanted = request.headers.get("Range", "")
        if not wanted or not self.ranges or request.headers.get("If-Range") not in (self.etag, self.modified):
            return 0, 200
        start = int(wanted.removeprefix("bytes=").rstrip("-"))
        return (start, 206) if start < len(self.content) else (0, 416)

    @property
    def ranges_asked(self) -> list[str | None]:
        return [request.headers.get("Range") for request in self.asked]


@dataclass
class Told:
    """What was said."""

    lines: list[str] = field(default_factory=list)

    def __call__(self, line: str) -> None:
        self.lines.append(line)


def downloads(server: Server, folder: Path, say: Callable[[str], None] = silent) -> Downloads:
    def session() -> requests.Session:
        made = requests.Session()
        made.trust_env = False
        made.mount("https://", server)
        made.mount("http://", server)
        return made

    return Downloads(folder, say, session, pause=0)


def whole(content: bytes = CONTENT) -> Downloaded:
    return Downloaded(hashlib.sha256(content).hexdigest(), len(content))


def left(folder: Path) -> list[Path]:
    return sorted((folder / "run").iterdir())


def test_a_file_is_downloaded_for_its_checksum_and_leaves_nothing(tmp_path: Path) -> None:
    server, told = Server(), Told()
    assert downloads(server, tmp_path, told).download(URL) == whole()
    assert left(tmp_path) == []
    (request,) = server.asked
    assert request.headers["Referer"] == "https://www.hiascend.com/"
    assert request.headers["Accept-Encoding"] == "identity"
    assert told.lines[0] == "toolkit.run: 2.0 MB to download"
    assert told.lines[-1] == "toolkit.run: 80 % of 2.0 MB"
    assert len(told.lines) <= 10


@pytest.mark.parametrize("breaks", [[BLOCK], [2 * BLOCK, BLOCK + 1, 3 * BLOCK], [0, 7, 3 * BLOCK]])
def test_a_break_is_resumed_where_it_was(tmp_path: Path, breaks: list[int]) -> None:
    server, told = Server(breaks=list(breaks)), Told()
    assert downloads(server, tmp_path, told).download(URL) == whole()
    assert len(server.asked) == len(breaks) + 1
    assert (server.ranges_asked[-1] is not None) == any(size >= BLOCK for size in breaks)


def test_a_download_that_breaks_for_good_goes_on_another_time(tmp_path: Path) -> None:
    server = Server(breaks=[4 * BLOCK, 0, 0, 0])
    with pytest.raises(UnreachableError, match=r"1\.0 MB came"):
        downloads(server, tmp_path).download(URL)
    told = Told()
    assert downloads(server, tmp_path, told).download(URL) == whole()
    assert told.lines[0] == "toolkit.run: goes on after 1.0 MB"
    assert server.ranges_asked[-1] == f"bytes={4 * BLOCK}-"


def begun(folder: Path, **fields: Any) -> Server:
    """Return a server of whose file the beginning has come."""
    server = Server(breaks=[4 * BLOCK, 0, 0, 0], **fields)
    with pytest.raises(UnreachableError):
        downloads(server, folder).download(URL)
    server.asked.clear()
    return server


@pytest.mark.parametrize("fields", [{}, {"etag": "", "modified": "Mon, 30 Nov 2026 08:00:00 GMT"}])
def test_a_file_that_changed_meanwhile_starts_anew(tmp_path: Path, fields: dict[str, str]) -> None:
    server = begun(tmp_path, **fields)
    server.content = b"another file " * 100_000
    if fields:
        server.modified = "Mon, 30 Nov 2026 09:00:00 GMT"
    else:
        server.etag = '"2"'
    assert downloads(server, tmp_path).download(URL) == whole(server.content)
    assert server.ranges_asked == [f"bytes={4 * BLOCK}-"]


@pytest.mark.parametrize("fields", [{"etag": ""}, {"etag": 'W/"1"'}])
def test_without_anything_that_tells_two_files_apart_it_starts_anew(tmp_path: Path, fields: dict[str, str]) -> None:
    server = begun(tmp_path, **fields)
    assert downloads(server, tmp_path).download(URL) == whole()
    assert server.ranges_asked == [None]


def test_a_server_without_ranges_starts_anew(tmp_path: Path) -> None:
    server = begun(tmp_path, ranges=False)
    assert downloads(server, tmp_path).download(URL) == whole()


def test_a_server_without_ranges_that_always_breaks_is_given_up(tmp_path: Path) -> None:
    server = Server(ranges=False, breaks=[size * BLOCK for size in (4, 3, 4, 2, 0)])
    with pytest.raises(UnreachableError):
        downloads(server, tmp_path).download(URL)


def test_a_range_that_was_not_asked_for_is_not_taken(tmp_path: Path) -> None:
    server = begun(tmp_path)
    server.headers = {"Content-Range": "bytes 5-10/11"}
    server.status = 206
    with pytest.raises(UnreachableError, match="ends before the file does"):
        downloads(server, tmp_path).download(URL)
    server.status, server.headers = 0, {}
    assert downloads(server, tmp_path).download(URL) == whole()


def test_a_file_that_had_come_whole_is_taken_as_it_is(tmp_path: Path) -> None:
    server = begun(tmp_path)
    (part,) = [path for path in left(tmp_path) if not path.suffix]
    part.write_bytes(CONTENT)
    assert downloads(server, tmp_path).download(URL) == whole()
    assert len(server.asked) == 1


def test_more_than_the_whole_file_starts_anew(tmp_path: Path) -> None:
    server = begun(tmp_path)
    (part,) = [path for path in left(tmp_path) if not path.suffix]
    part.write_bytes(CONTENT + b"more")
    assert downloads(server, tmp_path).download(URL) == whole()


def test_notes_that_cannot_be_read_are_no_reason_to_fail(tmp_path: Path) -> None:
    server = begun(tmp_path)
    (notes,) = [path for path in left(tmp_path) if path.suffix]
    notes.write_text("{")
    assert downloads(server, tmp_path).download(URL) == whole()


def test_an_answer_shorter_than_it_says_is_no_file(tmp_path: Path) -> None:
    server = Server(content=CONTENT[:1000], headers={"Content-Length": "2000"}, sends_length=False)
    with pytest.raises(UnreachableError, match="ends before the file does"):
        downloads(server, tmp_path).download(URL)


def test_a_server_that_does_not_say_how_long_the_file_is(tmp_path: Path) -> None:
    told = Told()
    assert downloads(Server(sends_length=False), tmp_path, told).download(URL) == whole()
    assert told.lines == ["toolkit.run: downloading"]


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({"status": 404}, NotThereError, "HTTP 404"),
        ({"status": 410}, NotThereError, "HTTP 410"),
        ({"status": 403}, UnreachableError, "HTTP 403"),
        ({"status": 503}, UnreachableError, "HTTP 503"),
        ({"headers": {"Content-Type": "text/html; charset=utf-8"}}, UnreachableError, "a web page came in its place"),
        ({"down": True}, UnreachableError, "the connection is refused"),
    ],
)
def test_what_is_no_file_is_told_apart(
    tmp_path: Path, fields: dict[str, Any], kind: type[Exception], words: str
) -> None:
    for ask in (downloads(Server(**fields), tmp_path).download, downloads(Server(**fields), tmp_path).size):
        with pytest.raises(kind, match=words):
            ask(URL)


def test_a_way_that_leaves_tls_is_refused(tmp_path: Path) -> None:
    class Redirecting(Server):
        def send(self, request: requests.PreparedRequest, *more: Any, **fields: Any) -> requests.Response:
            response = super().send(request, *more, **fields)
            if (request.url or "").startswith("https://"):
                response.status_code = 302
                response.headers["Location"] = "http://me:s3cret@files.example/toolkit.run?signature=s3cret"
                response.request = request
            return response

    for ask in (downloads(Redirecting(), tmp_path).download, downloads(Redirecting(), tmp_path).size):
        with pytest.raises(UnreachableError, match=r"to http://\*\*\*@files\.example/toolkit\.run, without TLS"):
            ask(URL)


def test_two_commands_do_not_write_one_file(tmp_path: Path) -> None:
    server = begun(tmp_path)
    (part,) = [path for path in left(tmp_path) if not path.suffix]
    with part.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(UnreachableError, match="another command"):
            downloads(server, tmp_path).download(URL)


def test_a_disk_without_room_is_told_before_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 1_000_000})
    monkeypatch.setattr(run_files.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(MissingTool, match=r"1\.0 MB free, toolkit\.run has 2\.0 MB"):
        downloads(Server(), tmp_path).download(URL)


def test_a_disk_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_files, "keep", full)
    with pytest.raises(MissingTool, match="No space left on device"):
        downloads(Server(), tmp_path).download(URL)


def test_the_size_is_asked_without_the_file(tmp_path: Path) -> None:
    server = Server()
    assert downloads(server, tmp_path).size(URL) == len(CONTENT)
    assert [request.method for request in server.asked] == ["HEAD"]
    assert downloads(Server(sends_length=False), tmp_path).size(URL) is None
    assert downloads(Server(status=405), tmp_path).size(URL) is None


# Weighed against what was known.


def settled(
    files: FakeFiles, old: LockedRun | None = None, *, sha256: str = "", renew: bool = False
) -> Outcome[LockedRun]:
    url = "https://example.invalid/toolkit.run"
    asked = AskedRun(url=url, pin='cann."8.5.2".run.toolkit', variants=("overlay",), sha256=sha256)
    return settle_run(asked, old, files, today=TODAY, renew=renew)


@pytest.fixture
def files() -> FakeFiles:
    return FakeFiles(there={"https://example.invalid/toolkit.run": Downloaded(sha("a"), 7)})


def refused(outcome: Outcome[LockedRun]) -> BadInput:
    assert outcome.problem is not None
    assert "toolkit" in outcome.problem.found
    assert outcome.problem.wanted
    assert outcome.problem.do
    return outcome.problem


def test_the_first_download_is_trusted_and_that_is_said(files: FakeFiles) -> None:
    entry = settled(files).entry
    assert entry is not None
    assert (entry.sha256, entry.bytes, entry.learned) == (sha("a"), 7, TODAY)
    assert entry.how == "a download; the vendor publishes no checksum, so the first one is trusted"


def test_a_checksum_of_versions_toml_must_be_that_of_the_file(files: FakeFiles) -> None:
    entry = settled(files, sha256=sha("a")).entry
    assert entry is not None
    assert entry.how == "a download that has the checksum of versions.toml"
    outcome = settled(files, sha256=sha("b"))
    assert sha("a") in refused(outcome).found
    assert sha("b") in refused(outcome).wanted
    assert outcome.entry is None


def test_a_known_file_is_not_downloaded_again(files: FakeFiles) -> None:
    assert settled(files, locked_run()) == Outcome(entry=locked_run())
    files.sizes["https://example.invalid/toolkit.run"] = None
    assert settled(files, locked_run()) == Outcome(entry=locked_run())
    assert files.downloaded == []


def test_a_file_that_changed_is_an_error_of_its_own(files: FakeFiles) -> None:
    outcome = settled(files, locked_run(size=9))
    problem = refused(outcome)
    assert isinstance(problem, MovedError)
    assert "had 9 bytes and has 7 now" in problem.found
    assert problem.do.endswith("invoke lock --variant overlay --update toolkit")
    assert outcome.entry == locked_run(size=9)


def test_a_file_that_changed_is_taken_when_it_is_named(files: FakeFiles) -> None:
    entry = settled(files, locked_run(at="c", size=9), renew=True).entry
    assert entry is not None
    assert (entry.sha256, entry.bytes) == (sha("a"), 7)
    assert settled(files, locked_run(), renew=True) == Outcome(entry=locked_run())


def test_two_checksums_for_one_file_are_refused(files: FakeFiles) -> None:
    assert "versions.toml says" in refused(settled(files, locked_run(), sha256=sha("b"))).found


@pytest.mark.parametrize("old", [None, locked_run()])
def test_a_file_that_is_not_there_is_refused(old: LockedRun | None) -> None:
    outcome = settled(FakeFiles(), old)
    assert "not found on the server (HTTP 404)" in refused(outcome).found
    assert outcome.entry == old


def test_an_empty_file_is_refused(files: FakeFiles) -> None:
    files.there["https://example.invalid/toolkit.run"] = Downloaded(sha("e"), 0)
    assert "0 bytes" in refused(settled(files)).found


def test_what_waits_for_its_rest_is_for_its_owner_alone(tmp_path: Path) -> None:
    begun(tmp_path)
    folder = tmp_path / "run"
    assert folder.stat().st_mode & 0o777 == 0o700
    (notes,) = folder.glob("*.json")
    assert notes.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UnreachableError):
        downloads(Server(down=True), tmp_path / "other").download(URL)
    assert (tmp_path / "other" / "run").stat().st_mode & 0o777 == 0o700
