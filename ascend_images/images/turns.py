"""Two commands that write the same files take turns: those of a variant below `build/`, or the locks."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ascend_images.files import held
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
    def waiting() -> None:
        say(f"{name}: waiting for another {what} to end (process {_holder(path)})")

    with held(path, waiting) as handle:
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield


def _holder(path: Path) -> str:
    text = path.read_text(encoding="ascii", errors="replace").strip()
    return text if text.isdecimal() else "unknown"
