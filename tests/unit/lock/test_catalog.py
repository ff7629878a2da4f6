"""The client of package indexes: what it lists, how little of a wheel it reads, what it keeps and says."""

import base64
import io
import json
import os
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import requests
from requests.adapters import BaseAdapter

from ascend_images.lock import catalog
from ascend_images.lock.catalog import Catalog, default_index
from ascend_images.lock.patience import in_parallel
from ascend_images.lock.release import File, IndexUnreachableError, Release
from ascend_images.lock.target import Target
from ascend_images.pins.platform import Arch

INDEX = "https://index.example/simple"
FILES = "https://files.example"
JSON = "application/vnd.pypi.simple.v1+json"
Answer = tuple[int, bytes, dict[str, str]]


class Server(BaseAdapter):
    """Answers requests from a table; a URL without an answer is a name that nobody knows."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, str]] = []
        self.logins: dict[str, str] = {}
        self.ranges = True

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        url = str(request.url)
        wanted = request.headers.get("Range", "")
        self.asked.append((url, wanted))
        self.logins[url] = request.headers.get("Authorization", "")
        if url not in self.answers:
            raise requests.ConnectionError("NameResolutionError: no such host")
        status, body, headers = self.answers[url]
        if wanted and self.ranges and status == 200:
            status, body, headers = 206, *_cut(body, wanted)
        response = requests.Response()
        response.status_code, response.url, response.request = status, url, request
        response.headers.update(headers)
        response.raw = io.BytesIO(body)
        return response

    def close(self) -> None:
        pass

    def lists(self, name: str, *files: dict[str, Any], index: str = INDEX) -> None:
        body = json.dumps({"meta": {"api-version": "1.1"}, "name": name, "files": files}).encode()
        self.answers[f"{index}/{name}/"] = 200, body, {"Content-Type": JSON}


def _cut(body: bytes, wanted: str) -> tuple[bytes, dict[str, str]]:
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    start, stop = (len(body) - int(last), len(body)) if not first else (int(first), int(last) + 1)
    start = max(start, 0)
    return body[start:stop], {"Content-Range": f"bytes {start}-{stop - 1}/{len(body)}"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()
    monkeypatch.setattr(catalog, "HTTPAdapter", lambda **_: made)
    return made


@pytest.fixture
def index(server: Server, tmp_path: Path) -> Callable[[], Catalog]:
    return lambda: Catalog(tmp_path / "cache", INDEX)


def entry(filename: str, **fields: Any) -> dict[str, Any]:
    return {"filename": filename, "url": f"{FILES}/{filename}", "hashes": {"sha256": "a" * 64}, **fields}


def wheel(requires: str, padding: int = 0) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("big.so", b"\0" * padding)
        archive.writestr("six-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: six\nRequires-Dist: {requires}\n")
    return stream.getvalue()


def test_a_release_holds_its_files_whatever_the_spelling_of_name_and_version(
    server: Server, index: Callable[[], Catalog]
) -> None:
    server.lists(
        "torch-npu",
        entry("torch_npu-2.9.0.post2-cp311-cp311-manylinux_2_28_aarch64.whl"),
        entry("torch_npu-2.9.0.post2.tar.gz"),
        entry("torch_npu-2.9.0-cp311-cp311-manylinux_2_28_aarch64.whl"),
        entry("torch_npu-2.9.0.post2-py3.8.egg"),
    )
    release = index().release("torch-npu", "2.9.0.post02")
    assert release is not None
    assert [(file.filename, file.wheel) for file in release.files] == [
        ("torch_npu-2.9.0.post2-cp311-cp311-manylinux_2_28_aarch64.whl", True),
        ("torch_npu-2.9.0.post2.tar.gz", False),
    ]
    assert index().release("torch-npu", "9.9") is None


@pytest.mark.parametrize("status", [404, 410])
def test_a_package_that_the_index_does_not_have_is_not_there(
    status: int, server: Server, index: Callable[[], Catalog]
) -> None:
    server.answers[f"{INDEX}/nothing/"] = status, b"", {}
    assert index().release("nothing", "1.0") is None


@pytest.mark.parametrize("status", [401, 500])
def test_an_index_that_refuses_or_fails_gave_no_answer(
    status: int, server: Server, index: Callable[[], Catalog]
) -> None:
    server.answers[f"{INDEX}/six/"] = status, b"", {}
    with pytest.raises(IndexUnreachableError, match=str(status)):
        index().release("six", "1.0")


def test_offline_an_old_list_counts_and_nothing_is_asked(
    server: Server, index: Callable[[], Catalog], tmp_path: Path
) -> None:
    server.lists("six", entry("six-1.0-py3-none-any.whl"))
    assert index().release("six", "1.0")
    (listing,) = (tmp_path / "cache" / "listings").iterdir()
    os.utime(listing, (0, 0))
    asked = len(server.asked)
    offline = Catalog(tmp_path / "cache", INDEX, offline=True)
    release = offline.release("six", "1.0")
    assert release is not None
    assert len(server.asked) == asked
    for ask in (lambda: offline.release("attrs", "1"), lambda: offline.metadata(release.files[0])):
        with pytest.raises(IndexUnreachableError, match="not asked"):
            ask()


def test_the_day_of_a_file_is_that_of_utc_and_a_list_that_was_kept_without_days_still_counts(
    server: Server, index: Callable[[], Catalog], tmp_path: Path
) -> None:
    late = {"upload-time": "2026-01-31T23:30:00-01:00"}
    server.lists("six", {**entry("six-1.0-py3-none-any.whl"), **late}, entry("six-1.0.tar.gz"))
    days = {"six-1.0-py3-none-any.whl": date(2026, 2, 1), "six-1.0.tar.gz": None}

    def told() -> dict[str, date | None]:
        release = index().release("six", "1.0")
        assert release is not None
        return {file.filename: file.published for file in release.files}

    assert told() == days
    assert told() == days, "from the list that was kept"
    (listing,) = (tmp_path / "cache" / "listings").iterdir()
    kept = json.loads(listing.read_bytes())
    kept["files"]["1.0"] = [row[:6] for row in kept["files"]["1.0"]]
    listing.write_text(json.dumps(kept))
    assert told() == dict.fromkeys(days)
    assert len(server.asked) == 1


def test_an_index_that_cannot_be_reached_says_why_in_a_few_words(index: Callable[[], Catalog]) -> None:
    with pytest.raises(IndexUnreachableError, match=r"^its host name is not known here$"):
        index().probe("https://nowhere.example/simple", "torch")


def test_an_index_that_never_comes_to_an_end_is_not_waited_for(
    index: Callable[[], Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "_PROBE_TOTAL", 0.1)
    monkeypatch.setattr(Catalog, "_listing", lambda *_, **__: catalog.time.sleep(5))
    began = catalog.time.monotonic()
    with pytest.raises(IndexUnreachableError, match=r"no whole answer within 0\.1 s"):
        index().probe(INDEX, "torch")
    assert catalog.time.monotonic() - began < 3


def test_what_answers_with_no_list_of_files_gave_no_answer(server: Server, index: Callable[[], Catalog]) -> None:
    server.answers[f"{INDEX}/six/"] = 200, b"{}", {"Content-Type": "text/csv"}
    with pytest.raises(IndexUnreachableError):
        index().release("six", "1.0")


def test_another_index_is_asked_for_what_it_is_bound_to(server: Server, index: Callable[[], Catalog]) -> None:
    server.lists("triton-ascend", entry("triton_ascend-3.2.2-py3-none-any.whl"), index="https://ascend.example/pypi")
    assert index().release("triton-ascend", "3.2.2", "https://ascend.example/pypi/") is not None
    assert [url for url, _ in server.asked] == ["https://ascend.example/pypi/triton-ascend/"]


def test_a_list_is_asked_for_once_and_kept_for_ten_minutes(
    server: Server, index: Callable[[], Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.lists("six", entry("six-1.0-py3-none-any.whl"))
    one = index()
    assert one.release("six", "1.0") == one.release("six", "1.0") == index().release("six", "1.0")
    assert len(server.asked) == 1
    now = catalog.time.time()
    monkeypatch.setattr(catalog.time, "time", lambda: now + 601)
    index().release("six", "1.0")
    assert len(server.asked) == 2


def test_the_metadata_of_a_large_wheel_takes_its_end_alone(server: Server, index: Callable[[], Catalog]) -> None:
    body = wheel("numpy>=2", padding=3_000_000)
    server.answers[f"{FILES}/six.whl"] = 200, body, {}
    file = File("six.whl", f"{FILES}/six.whl", "b" * 64, wheel=True)
    assert [str(one) for one in index().metadata(file).requires] == ["numpy>=2"]
    assert [wanted for _, wanted in server.asked] == ["bytes=-65536"]
    index().metadata(file)
    assert len(server.asked) == 1, "metadata is kept by the checksum of its file"


def test_metadata_that_lies_before_the_end_is_fetched_by_a_second_range(
    server: Server, index: Callable[[], Catalog]
) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("six-1.0.dist-info/METADATA", "Requires-Dist: numpy>=2\n")
        archive.writestr("big.so", b"\0" * 3_000_000)
    server.answers[f"{FILES}/six.whl"] = 200, stream.getvalue(), {}
    found = index().metadata(File("six.whl", f"{FILES}/six.whl", "b" * 64, wheel=True))
    assert [str(one) for one in found.requires] == ["numpy>=2"]
    assert [wanted for _, wanted in server.asked] == ["bytes=-65536", "bytes=0-65535"]


def test_a_server_without_ranges_gives_the_whole_wheel(server: Server, index: Callable[[], Catalog]) -> None:
    server.ranges = False
    server.answers[f"{FILES}/six.whl"] = 200, wheel("numpy>=2"), {}
    found = index().metadata(File("six.whl", f"{FILES}/six.whl", "b" * 64, wheel=True))
    assert [str(one) for one in found.requires] == ["numpy>=2"]


@pytest.mark.parametrize("there", [True, False])
def test_a_metadata_file_beside_the_wheel_is_enough_and_the_wheel_does_where_it_is_missing(
    there: bool, server: Server, index: Callable[[], Catalog]
) -> None:
    server.answers[f"{FILES}/six.whl"] = 200, wheel("from-wheel"), {}
    server.answers[f"{FILES}/six.whl.metadata"] = (200 if there else 404), b"Requires-Dist: beside\n", {}
    found = index().metadata(File("six.whl", f"{FILES}/six.whl", "b" * 64, wheel=True, has_metadata=True))
    assert [str(one) for one in found.requires] == ["beside" if there else "from-wheel"]
    assert found.known


@pytest.mark.parametrize("body", [b"no archive", wheel("six")[:40]], ids=["other", "cut"])
def test_a_wheel_that_cannot_be_read_gave_no_answer(body: bytes, server: Server, index: Callable[[], Catalog]) -> None:
    server.answers[f"{FILES}/six.whl"] = 200, body, {}
    with pytest.raises(IndexUnreachableError, match=r"six\.whl: "):
        index().metadata(File("six.whl", f"{FILES}/six.whl", "b" * 64, wheel=True))


def test_a_checksum_that_the_index_does_not_say_is_taken_from_the_file(
    server: Server, index: Callable[[], Catalog]
) -> None:
    server.answers[f"{FILES}/six.whl"] = 200, b"content", {}
    known = File("six.whl", f"{FILES}/six.whl", "b" * 64, wheel=True)
    assert index().sha256(known) == "b" * 64
    unknown = File("six.whl", f"{FILES}/six.whl", "", wheel=True)
    assert index().sha256(unknown) == "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"
    with pytest.raises(IndexUnreachableError):
        index().sha256(File("x.whl", f"{FILES}/x.whl", "", wheel=True))


def release(*filenames: str) -> Release:
    files = (File(name, f"{FILES}/{name}", "c" * 64, wheel=name.endswith(".whl")) for name in filenames)
    return Release("x", "1", tuple(files))


ARM = Target(Arch.ARM64, "3.11")


def test_an_installer_takes_the_most_special_wheel_and_may_take_every_one_that_fits() -> None:
    special, plain = "x-1-cp311-cp311-manylinux_2_17_aarch64.whl", "x-1-py3-none-any.whl"
    found = release(plain, special, "x-1-cp311-cp311-win_amd64.whl", "x-1.tar.gz")
    best = found.best_wheel(ARM)
    assert best is not None
    assert best.filename == special
    assert [file.filename for file in found.usable(ARM)] == [plain, special]


def test_the_sdist_is_taken_only_where_no_wheel_fits_and_a_tarball_before_a_zip() -> None:
    found = release("x-1-cp311-cp311-win_amd64.whl", "x-1.zip", "x-1.tar.gz")
    assert found.best_wheel(ARM) is None
    assert [file.filename for file in found.usable(ARM)] == ["x-1.tar.gz"]
    assert release("x-1-cp311-cp311-win_amd64.whl").usable(ARM) == ()


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        ({"UV_DEFAULT_INDEX": "https://a.example"}, "https://a.example"),
        ({"UV_DEFAULT_INDEX": "corp=https://a.example"}, "https://a.example"),
        ({"UV_DEFAULT_INDEX": "https://a.example/?x=1"}, "https://a.example/?x=1"),
        ({"UV_INDEX_URL": "https://b.example", "PIP_INDEX_URL": "https://c.example"}, "https://b.example"),
        ({"PIP_INDEX_URL": "https://c.example"}, "https://c.example"),
        ({}, catalog.PYPI_SIMPLE_ENDPOINT),
    ],
)
def test_the_default_index_is_the_one_that_the_installers_would_take(environment: dict[str, str], address: str) -> None:
    assert default_index(environment) == address


def test_an_index_that_is_lost_is_an_answer_among_others_and_any_other_error_is_raised() -> None:
    def ask(name: str) -> str:
        if name == "lost":
            raise IndexUnreachableError("no answer")
        return name.upper()

    answers = in_parallel(ask, ["a", "lost", "a"])
    assert list(answers) == ["a", "lost"]
    assert answers["a"] == "A"
    assert isinstance(answers["lost"], IndexUnreachableError)
    with pytest.raises(ZeroDivisionError):
        in_parallel(lambda key: 1 // key, [1, 0])


# A list that was kept is not believed where it says that something is not there.


SIX = "six-1.0-py3-none-any.whl"
NEW = "six-2.0-py3-none-any.whl"


def test_a_version_that_came_after_the_list_was_kept_is_found(server: Server, index: Callable[[], Catalog]) -> None:
    server.lists("six", entry(SIX))
    assert index().release("six", "1.0")
    server.lists("six", entry(SIX), entry(NEW))
    later = index()
    assert later.release("six", "1.0")
    assert len(server.asked) == 1, "what the list has is taken from it"
    assert later.release("six", "2.0")
    assert later.release("six", "3.0") is None
    assert len(server.asked) == 2, "one new list is enough"


def test_a_list_that_is_too_old_to_deny_anything_and_cannot_be_renewed_is_no_answer(
    server: Server, index: Callable[[], Catalog], tmp_path: Path
) -> None:
    server.lists("six", entry(SIX))
    assert index().release("six", "1.0")
    server.answers.clear()
    with pytest.raises(IndexUnreachableError, match="its host name is not known here"):
        index().release("six", "2.0")
    assert Catalog(tmp_path / "cache", INDEX, offline=True).release("six", "2.0") is None


def test_a_release_is_renewed_only_where_its_list_was_kept(server: Server, index: Callable[[], Catalog]) -> None:
    server.lists("six", entry(SIX))
    one = index()
    assert one.renewed("six", "1.0") == one.release("six", "1.0")
    assert len(server.asked) == 1
    server.lists("six", entry(SIX), entry("six-1.0.tar.gz"))
    later = index()
    before, after = later.release("six", "1.0"), later.renewed("six", "1.0")
    assert before is not None
    assert after is not None
    assert (before.sdist, after.sdist and after.sdist.filename) == (None, "six-1.0.tar.gz")


def test_afresh_no_list_of_an_earlier_command_counts_unless_nothing_may_be_asked(
    server: Server, index: Callable[[], Catalog], tmp_path: Path
) -> None:
    server.lists("six", entry(SIX))
    index().release("six", "1.0")
    server.lists("six", entry(NEW))
    server.lists("attrs", entry("attrs-1-py3-none-any.whl"))
    fresh = Catalog(tmp_path / "cache", INDEX, fresh=True)
    assert [one.version for one in fresh.every_release("six")] == ["2.0"]
    assert fresh.release("six", "1.0") is None
    assert len(server.asked) == 2, "once in a command"
    assert Catalog(tmp_path / "cache", INDEX, offline=True, fresh=True).release("six", "2.0")


# Passwords in addresses of indexes.


PRIVATE = "https://me:s3c%21ret@index.example/simple"
LOGIN = "Basic " + base64.b64encode(b"me:s3c!ret").decode()


def secrets(folder: Path) -> list[Path]:
    words = (b"s3c", LOGIN.encode())
    return [path for path in folder.rglob("*") if path.is_file() and any(one in path.read_bytes() for one in words)]


def test_a_password_of_an_index_is_used_and_never_kept(server: Server, tmp_path: Path) -> None:
    near = {"filename": SIX, "url": "../../files/six.whl", "hashes": {"sha256": "a" * 64}}
    elsewhere = entry("six-1.0-py2-none-any.whl")
    server.lists("six", near, elsewhere)
    server.answers["https://index.example/files/six.whl"] = 200, wheel("numpy>=2"), {}
    server.answers[elsewhere["url"]] = 200, b"x", {}
    for private in (PRIVATE, PRIVATE + "/"):
        packages = Catalog(tmp_path / "cache", private)
        release = packages.release("six", "1.0")
        assert release is not None
        assert release.files[0].url == "https://index.example/files/six.whl"
    # From the kept list, in another command: the login is put back, for that host and no other.
    packages.metadata(release.files[0])
    packages.sha256(File("x", elsewhere["url"], "", wheel=True))
    assert server.logins == {
        f"{INDEX}/six/": LOGIN,
        "https://index.example/files/six.whl": LOGIN,
        elsewhere["url"]: "",
    }
    assert len(server.asked) == 3
    assert secrets(tmp_path) == []


def test_what_is_kept_is_for_its_owner_alone_also_where_it_lay_open_before(server: Server, tmp_path: Path) -> None:
    (tmp_path / "cache" / "listings").mkdir(parents=True, mode=0o755)
    server.lists("six", entry(SIX))
    server.answers[f"{FILES}/{SIX}"] = 200, wheel("numpy>=2"), {}
    packages = Catalog(tmp_path / "cache", PRIVATE)
    release = packages.release("six", "1.0")
    assert release is not None
    packages.metadata(release.files[0])
    modes = {oct(path.stat().st_mode & 0o777) for path in (tmp_path / "cache").iterdir()}
    assert modes == {"0o700"}
    assert {oct(path.stat().st_mode & 0o777) for path in (tmp_path / "cache").rglob("*.json")} == {"0o600"}


def test_a_list_with_logins_of_its_own_stays_in_memory(server: Server, tmp_path: Path) -> None:
    server.lists("six", entry(SIX, url=f"https://me:s3c%21ret@files.example/{SIX}"))
    server.answers[f"https://me:s3c%21ret@files.example/{SIX}"] = 200, wheel("numpy>=2"), {}
    packages = Catalog(tmp_path / "cache", INDEX)
    release = packages.release("six", "1.0")
    assert release is not None
    packages.metadata(release.files[0])
    assert [login for url, login in server.logins.items() if SIX in url] == [LOGIN]
    assert secrets(tmp_path) == []


@pytest.mark.parametrize("index_url", [PRIVATE, "https://s3c%21ret@index.example/simple"])
@pytest.mark.parametrize("status", [401, 500])
def test_no_message_shows_a_password(index_url: str, status: int, server: Server, tmp_path: Path) -> None:
    packages = Catalog(tmp_path / "cache", index_url)
    file = File(SIX, f"https://me:s3c%21ret@files.example/{SIX}", "", wheel=True)
    for url in (f"{INDEX}/six/", file.url):
        server.answers[url] = status, b"", {}
    for ask in (lambda: packages.release("six", "1.0"), lambda: packages.metadata(file), lambda: packages.sha256(file)):
        with pytest.raises(IndexUnreachableError, match=str(status)) as failure:
            ask()
        assert "s3c" not in str(failure.value)


def test_no_message_shows_a_password_that_an_index_sends_on_with(server: Server, index: Callable[[], Catalog]) -> None:
    elsewhere = "https://me:s3c%21ret@files.example/six/"
    server.answers[f"{INDEX}/six/"] = 302, b"", {"Location": elsewhere}
    server.answers[elsewhere] = 403, b"", {}
    with pytest.raises(IndexUnreachableError, match=r"403 .* https://\*\*\*@files\.example/six/"):
        index().release("six", "1.0")


@pytest.mark.parametrize(
    ("address", "netrc", "given"),
    [
        (INDEX, "", ""),
        (INDEX, "machine index.example login me password s3c!ret", LOGIN),
        ("https://me@index.example/simple", "machine index.example login me password s3c!ret", LOGIN),
        (PRIVATE, "machine index.example login other password other", LOGIN),
        ("https://token@index.example/simple", "", "Basic " + base64.b64encode(b"token:").decode()),
    ],
)
def test_a_login_stands_in_the_address_or_in_the_users_netrc(
    address: str, netrc: str, given: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text(netrc + "\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    server.lists("six", entry(SIX))
    Catalog(tmp_path / "cache", address).release("six", "1.0")
    assert server.logins == {f"{INDEX}/six/": given}
