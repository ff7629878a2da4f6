"""Private folders for what must not outlive a command: bake files, and secrets while a build reads them."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ascend_images.errors import MissingTool

_PREFIX = "ascend-images-"
# A lock on it ends with the process that holds it, however that ends.
_HELD = ".held"


@contextmanager
def private_folder() -> Iterator[Path]:
    """Yield a new folder for this user alone (mode 0700) that is removed whatever happens.

    What a process left that was killed is removed by the next one. The folder lies in memory where the session has a
    folder there (XDG_RUNTIME_DIR), else where temporary files go. Raises MissingTool where none can be made.
    """
    base = _base()
    _remove_stale(base)
    try:
        folder = Path(tempfile.mkdtemp(dir=base, prefix=_PREFIX))
        handle = _hold(folder)
    except OSError as error:
        raise MissingTool(
            f"no folder for temporary files can be made in {base}: {error.strerror}",
            wanted="a folder that can be written to, with room",
            do="free some room, or name another folder: TMPDIR=DIR",
        ) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _base() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime:
        path = Path(runtime)
        with suppress(OSError):
            status = path.stat()
            if status.st_uid == os.getuid() and not status.st_mode & 0o077 and os.access(path, os.W_OK | os.X_OK):
                return path
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise MissingTool(
            f"temporary files can be written nowhere: {error.strerror}",
            wanted="a folder that can be written to, with room",
            do="free some room, or name another folder: TMPDIR=DIR",
        ) from None


def _hold(folder: Path) -> int:
    """Mark a folder as in use; return the descriptor that the mark lasts as long as."""
    new = folder / f"{_HELD}.new"
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    # Only a file that is locked gets the name that others look for.
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    new.rename(folder / _HELD)
    return handle


def _remove_stale(base: Path) -> None:
    """Remove folders of processes that are gone; what is in use, of another user or of another kind stays."""
    with suppress(OSError):
        for folder in base.glob(f"{_PREFIX}*"):
            if _is_stale(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_stale(folder: Path) -> bool:
    try:
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return False
        handle = os.open(folder / _HELD, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
