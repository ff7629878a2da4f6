"""Reading files that are files, holding them, and writing them so that nothing half-written is ever left behind."""

import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

#: Bytes: more than any file has that people or this project write to be read whole.
_MOST_BYTES = 64 << 20
_OTHERS = 0o077


def read_regular(path: Path) -> bytes:
    """Return the content of a regular file, of 64 MB at most.

    Raises OSError for anything else: a pipe or a device may never end, or wait for ever for somebody to write.
    """
    # Without waiting: opening a pipe lasts until somebody writes to it.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _require_regular(path, os.fstat(handle).st_mode)
        with os.fdopen(handle, "rb", closefd=False) as stream:
            content = stream.read(_MOST_BYTES + 1)
    finally:
        os.close(handle)
    if len(content) > _MOST_BYTES:
        raise OSError(errno.EFBIG, f"larger than {_MOST_BYTES >> 20} MB", str(path))
    return content


@contextmanager
def held(path: Path, waiting: Callable[[], None]) -> Iterator[int]:
    """Hold a file for this process alone meanwhile, made where it is not there; yield its descriptor.

    `waiting` is called before waiting for whoever holds it. A hold ends with its process, however that ends. Raises
    OSError.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def write_json(path: Path, value: object, *, indent: int = 2) -> None:
    """Write a value as JSON for people and programs, whole or not at all; raises OSError."""
    write_atomic(path, msgspec.json.format(msgspec.json.encode(value), indent=indent) + b"\n")


def write_atomic(path: Path, content: str | bytes, *, mode: int = 0o644) -> None:
    """Write `content` to `path` by way of a temporary file beside it and a rename; raises OSError.

    Where `path` is a symbolic link, the file that it leads to is written, wherever it lies. A new file gets `mode`; one
    that is there, read-only or not, keeps its own mode and its owner, but is closed to others where `mode` is.
    """
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    name = ""
    try:
        before = _status(path)
        place = path.resolve() if path.is_symlink() else path
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        if before is not None:
            _keep_owner(name, before)
            kept = stat.S_IMODE(before.st_mode)
            mode = kept if mode & _OTHERS else kept & ~_OTHERS
        Path(name).chmod(mode)
        Path(name).replace(place)
    except BaseException as error:
        if name:
            Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            # What a write says (a full disk) names no file, and nobody knows the temporary one.
            error.filename, error.filename2 = str(path), None
        raise


def _status(path: Path) -> os.stat_result | None:
    """Return the status of a regular file, of a link the one that it leads to; None where there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    _require_regular(path, status.st_mode)
    return status


def _keep_owner(name: str, before: os.stat_result) -> None:
    """Give a file the owner and the group of another as far as this user may."""
    new = Path(name).stat()
    for owner, group in ((before.st_uid, -1), (-1, before.st_gid)):
        if (owner, group) not in ((new.st_uid, -1), (-1, new.st_gid)):
            with suppress(OSError):
                os.chown(name, owner, group)


def _require_regular(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
