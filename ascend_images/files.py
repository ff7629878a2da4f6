"""Reading files that are files, and writing them so that nothing half-written is ever left behind."""

import errno
import os
import stat
import tempfile
from pathlib import Path

#: Bytes: more than any file has that people or this project write to be read whole.
_MOST_BYTES = 64 << 20


def read_regular(path: Path) -> bytes:
    """Return the content of a regular file, of 64 MB at most.

    Raises OSError for anything else: a pipe or a device may never end, or wait for ever for somebody to write.
    """
    # Without waiting: opening a pipe lasts until somebody writes to it.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        kind = os.fstat(handle).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        with os.fdopen(handle, "rb", closefd=False) as stream:
            content = stream.read(_MOST_BYTES + 1)
    finally:
        os.close(handle)
    if len(content) > _MOST_BYTES:
        raise OSError(errno.EFBIG, f"larger than {_MOST_BYTES >> 20} MB", str(path))
    return content


def write_atomic(path: Path, content: str | bytes, *, mode: int = 0o644) -> None:
    """Write `content` to `path` by way of a temporary file beside it and a rename; raises OSError."""
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            # What a write says (a full disk) does not name the file.
            error.filename = str(path)
        raise
