"""Two commands that write the same files take turns: those of a variant below `build/`, or the locks."""

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ascend_images.images.plan import BUILD_FOLDER


@contextmanager
def in_turn(
    root: Path, names: Iterable[str], say: Callable[[str], None], *, what: str = "build of it"
) -> Iterator[None]:
    """Hold each of `names` for this process alone meanwhile, waiting for whoever holds one; `say` tells of that.

    `names` are names of files, `what` is what its holder does. They are taken in alphabetical order, so that no two
    processes wait for each other. A hold ends with its process, however that ends. Raises OSError.
    """
    folder = root / BUILD_FOLDER / "turns"
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        for name in sorted(set(names)):
            stack.enter_context(_turn(folder / name, name, say, what))
        yield


@contextmanager
def _turn(path: Path, name: str, say: Callable[[str], None], what: str) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{name}: waiting for another {what} to end (process {_holder(path)})")
            fcntl.flock(handle, fcntl.LOCK_EX)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def _holder(path: Path) -> str:
    text = path.read_text(encoding="ascii", errors="replace").strip()
    return text if text.isdecimal() else "unknown"
