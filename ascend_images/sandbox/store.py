"""The sandbox's store: what was made once from the same things is found again, under the state folder."""

import contextlib
import fcntl
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from ascend_images.sandbox.engine import state_dir

_HERE = Path(__file__).parent
_DIGITS = 16


def digest(*parts: object) -> str:
    """Return a short hash of JSON-like values; the same in every process."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:_DIGITS]


def code_digest(*names: str) -> str:
    """Return a short hash of modules and data folders of this package: what they make changes with them."""
    files = [path for name in names for path in _files(_HERE / name)]
    return digest([(str(path.relative_to(_HERE)), hashlib.sha256(path.read_bytes()).hexdigest()) for path in files])


def stored(kind: str, name: str, key: str, make: Callable[[Path], None], *, large: bool = False) -> Path:
    """Return the folder for `key` in the store, after `make` has filled it if it is not there.

    `make` gets an empty folder that becomes the stored one when it returns: what is there is whole. Two processes that
    want the same make it once. What is `large` takes the place of what was stored under `name` for another key.
    """
    kinds = store_dir() / kind
    kinds.mkdir(parents=True, exist_ok=True)
    target = kinds / f"{name}-{key}"
    with locked(kinds / f".{name}.lock"):
        if not target.is_dir():
            aside = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=kinds))
            try:
                aside.chmod(0o755)
                make(aside)
                if large:
                    for old in kinds.glob(f"{name}-{'[0-9a-f]' * _DIGITS}"):
                        shutil.rmtree(old)
                aside.rename(target)
            except BaseException:
                shutil.rmtree(aside, ignore_errors=True)
                raise
    return target


def store_dir() -> Path:
    """Return the folder in which stand-ins are kept."""
    return state_dir() / "stand-ins"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, which is made; other processes wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(entry for entry in path.rglob("*") if entry.is_file() and "__pycache__" not in entry.parts)
