"""CANN's .run packages: downloaded once, resumed after a break, for their checksum and size; nothing of them is run."""

import fcntl
import hashlib
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec
import requests

from ascend_images.errors import BadInput, MissingTool
from ascend_images.lock.kept import keep, own_folder
from ascend_images.lock.reach import MovedError, NotThereError, Outcome, UnreachableError, listed, plain_reason
from ascend_images.pins.addresses import masked
from ascend_images.pins.questions import AskedRun
from ascend_images.pins.versions_lock import LockedRun

HOW = "a download; the vendor publishes no checksum, so the first one is trusted"
HOW_PINNED = "a download that has the checksum of versions.toml"

#: What the vendor's own downloads say they come from; the build sends the same.
_REFERER = "https://www.hiascend.com/"
#: Seconds to wait for a connection, and for more of an answer.
_TIMEOUT = (10.0, 60.0)
_BLOCK = 1 << 18
#: How often in a row a download may break without a byte more.
_ATTEMPTS = 3
_NO_HEAD = (requests.codes.method_not_allowed, requests.codes.not_implemented)
_STEPS = 10
_RANGE = re.compile(r"bytes (?:(?P<start>\d+)-\d+|\*)/(?P<size>\d+)")


@dataclass(frozen=True)
class Downloaded:
    """A whole file: its checksum and its size in bytes."""

    sha256: str
    bytes: int


class FileHost(Protocol):
    """What is asked of file servers; raises NotThereError and UnreachableError."""

    def size(self, url: str) -> int | None:
        """Return how many bytes a file has, None where the server does not say."""

    def download(self, url: str) -> Downloaded:
        """Download a file for its checksum and size."""


class _Progress(msgspec.Struct, frozen=True):
    """What was told of the file whose beginning lies in the cache: by these a changed file is known."""

    etag: str
    modified: str
    size: int | None

    @property
    def validator(self) -> str:
        """What `If-Range` may hold: a strong ETag, else a date."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.modified


@dataclass(frozen=True)
class Downloads:
    """Files from their servers, by way of `cache`, where the beginning of one that broke off waits for the rest."""

    cache: Path
    say: Callable[[str], None]
    open_session: Callable[[], requests.Session] = field(default=requests.Session)
    pause: float = 1.0
    """Seconds between two attempts."""

    def size(self, url: str) -> int | None:
        """Return how many bytes a file has, None where the server does not say."""
        with self.open_session() as session:
            answer = _asked(lambda: session.head(url, headers=_headers(), timeout=_TIMEOUT, allow_redirects=True))
            if answer.status_code in _NO_HEAD:
                return None
            _check(answer, url)
            return _length(answer)

    def download(self, url: str) -> Downloaded:
        """Download a file, going on where an earlier attempt broke off; its checksum and size remain, it does not."""
        folder = own_folder(self.cache / "run")
        part = folder / hashlib.sha256(url.encode()).hexdigest()[:32]
        with part.open("a+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UnreachableError("another command is downloading it now") from None
            with self.open_session() as session:
                _Transfer(url, file, part.with_suffix(".json"), session, self.say).finish(self.pause)
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
            part.unlink()
            part.with_suffix(".json").unlink(missing_ok=True)
        return Downloaded(digest, size)


@dataclass
class _Transfer:
    """One file on its way from a server into the cache."""

    url: str
    file: BinaryIO
    notes: Path
    session: requests.Session
    say: Callable[[str], None]
    said: int = -1

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[-1]

    def finish(self, pause: float) -> None:
        """Fetch what is missing; raises NotThereError and UnreachableError, and keeps what came for another time."""
        idle, most = 0, self._have()
        while True:
            try:
                if self._go_on():
                    return
                why = "the connection ends before the file does"
            except requests.RequestException as error:
                why = plain_reason(str(error))
            except OSError as error:
                raise _disk(error, self.notes.parent) from None
            idle = 0 if self._have() > most else idle + 1
            most = max(most, self._have())
            if idle >= _ATTEMPTS:
                kept = f" ({_amount(self._have())} came; the next attempt goes on from there)" if self._have() else ""
                raise UnreachableError(why + kept)
            time.sleep(pause)

    def _go_on(self) -> bool:
        """Ask for the rest and write it; return whether that completes the file."""
        known = self._known()
        have = self._have()
        if have and (known is None or not known.validator):
            # Nothing tells whether the file is still the same: better anew than two halves of two files.
            have = self._start_anew()
        headers = _headers()
        if have and known:
            headers |= {"Range": f"bytes={have}-", "If-Range": known.validator}
        with self.session.get(self.url, headers=headers, timeout=_TIMEOUT, stream=True) as answer:
            if answer.status_code == requests.codes.requested_range_not_satisfiable:
                complete = known is not None and known.size in (None, have) and _range(answer)[1] == have
                return complete or bool(self._start_anew())
            _check(answer, self.url)
            start, size = (
                _range(answer) if answer.status_code == requests.codes.partial_content else (0, _length(answer))
            )
            if start not in (0, have):
                return bool(self._start_anew())
            if start:
                self.say(f"{self.name}: goes on after {_amount(have)}")
            else:
                self._start_anew()
                self.say(f"{self.name}: {_amount(size)} to download" if size else f"{self.name}: downloading")
            self._note(answer, size)
            for block in answer.iter_content(_BLOCK):
                self.file.write(block)
                self._tell(size)
        self.file.flush()
        return size is None or self._have() == size

    def _have(self) -> int:
        self.file.flush()
        return self.file.seek(0, 2)

    def _start_anew(self) -> int:
        self.file.truncate(0)
        self.notes.unlink(missing_ok=True)
        return 0

    def _known(self) -> _Progress | None:
        try:
            return msgspec.json.decode(self.notes.read_bytes(), type=_Progress)
        except (OSError, msgspec.MsgspecError):
            return None

    def _note(self, answer: requests.Response, size: int | None) -> None:
        progress = _Progress(answer.headers.get("ETag", ""), answer.headers.get("Last-Modified", ""), size)
        keep(self.notes, msgspec.json.encode(progress))
        free = shutil.disk_usage(self.notes.parent).free
        if size is not None and size - self._have() > free:
            raise MissingTool(
                f"{self.notes.parent}: {_amount(free)} free, {self.name} has {_amount(size)}",
                wanted="room for one package while its checksum is made",
                do="make room there, or name another folder: XDG_CACHE_HOME=DIR",
            )

    def _tell(self, size: int | None) -> None:
        """Say how far it is, in tenths."""
        if not size:
            return
        step = self.file.tell() * _STEPS // size
        if self.said < step < _STEPS and self.said >= 0:
            self.say(f"{self.name}: {step * 100 // _STEPS} % of {_amount(size)}")
        self.said = max(self.said, step)


def _headers() -> dict[str, str]:
    # As it is: a packed answer would have another length than the file.
    return {"Referer": _REFERER, "Accept-Encoding": "identity"}


def _asked(ask: Callable[[], requests.Response]) -> requests.Response:
    try:
        return ask()
    except requests.RequestException as error:
        raise UnreachableError(plain_reason(str(error))) from None


def _check(answer: requests.Response, url: str) -> None:
    """Raise NotThereError or UnreachableError unless this is the file, sent over TLS all the way."""
    if answer.status_code in (requests.codes.not_found, requests.codes.gone):
        raise NotThereError(f"not found on the server (HTTP {answer.status_code})")
    if not answer.ok:
        raise UnreachableError(f"the server answers HTTP {answer.status_code}")
    plain = [one.url for one in (*answer.history, answer) if not one.url.startswith("https://")]
    if plain and url.startswith("https://"):
        raise UnreachableError(f"the server sends on to {masked(plain[0].partition('?')[0])}, without TLS")
    if answer.headers.get("Content-Type", "").startswith("text/html"):
        raise UnreachableError("a web page came in its place: a login, or a proxy that asks something")


def _range(answer: requests.Response) -> tuple[int, int | None]:
    """Return where the part that is sent begins, and the size of the whole; -1 where the server does not say."""
    match = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    if match is None:
        return -1, None
    return int(match["start"] or -1), int(match["size"])


def _length(answer: requests.Response) -> int | None:
    length = answer.headers.get("Content-Length", "")
    return int(length) if length.isdigit() else None


def _amount(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def _disk(error: OSError, folder: Path) -> MissingTool:
    return MissingTool(
        f"{folder}: {error.strerror or error}",
        wanted="a folder for downloads",
        do="make room there, or name another folder: XDG_CACHE_HOME=DIR",
    )


def settle_run(
    asked: AskedRun, old: LockedRun | None, host: FileHost, *, today: date, renew: bool
) -> Outcome[LockedRun]:
    """Return what comes of asking for a .run package; a locked one is downloaded again only where it may be another.

    Raises UnreachableError where the server gave no answer.
    """
    try:
        if old is not None and not renew:
            return _kept(asked, old, host.size(asked.url))
        found = host.download(asked.url)
    except NotThereError as error:
        return Outcome(entry=old, problem=_not_there(asked, str(error)))
    if not found.bytes or (asked.sha256 and found.sha256 != asked.sha256):
        return Outcome(entry=old, problem=_another(asked, found))
    if old is not None and (old.sha256, old.bytes) == (found.sha256, found.bytes):
        return Outcome(entry=old)
    how = HOW_PINNED if asked.sha256 else HOW
    return Outcome(entry=LockedRun(url=asked.url, sha256=found.sha256, bytes=found.bytes, learned=today, how=how))


def _kept(asked: AskedRun, old: LockedRun, size: int | None) -> Outcome[LockedRun]:
    if asked.sha256 and asked.sha256 != old.sha256:
        return Outcome(
            entry=old,
            problem=BadInput(
                f"{asked.pin}: versions.toml says sha256 {asked.sha256}, versions.lock {old.sha256}",
                wanted="one checksum for a file",
                do=f"invoke lock --variant {asked.variants[0]} --update {_name(asked)}",
            ),
        )
    if size is None or size == old.bytes:
        return Outcome(entry=old)
    return Outcome(
        entry=old,
        problem=MovedError(
            f"{asked.url}: this file had {old.bytes} bytes and has {size} now",
            wanted=f"the file that was locked on {old.learned}: one that changes is another under an old name",
            do=f"see why; then take it: invoke lock --variant {asked.variants[0]} --update {_name(asked)}",
        ),
    )


def _name(asked: AskedRun) -> str:
    return asked.pin.rpartition(".")[2]


def _not_there(asked: AskedRun, said: str) -> BadInput:
    return BadInput(
        f"{asked.url}: {said}",
        wanted=f"the package that {listed(asked.variants)} lay over their base image",
        do=f"mend {asked.pin}.url in versions.toml",
    )


def _another(asked: AskedRun, found: Downloaded) -> BadInput:
    return BadInput(
        f"{asked.url}: sha256 {found.sha256}, {found.bytes} bytes",
        wanted=f"sha256 {asked.sha256}, as {asked.pin}.sha256 says" if asked.sha256 else "a file that is not empty",
        do="find out which of the two is right before anything is built from it",
    )
