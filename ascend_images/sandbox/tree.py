"""Small file trees in memory: written to a folder, or packed as an archive, the same bytes each time."""

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: The time in archives: 1 January 1980, the earliest that a wheel can hold.
TIMESTAMP = 315532800
_SECOND = 10**9
_SPAN = 10**9  # seconds, some 31 years: what it gives is past everywhere


@dataclass(frozen=True)
class File:
    """A regular file."""

    content: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str


@dataclass(frozen=True)
class Folder:
    """A folder that may be empty; those above a file need no entry."""


Entry = File | Link | Folder
#: Relative paths to what lies there.
Tree = dict[str, Entry]


def text_file(text: str, *, executable: bool = False) -> File:
    """Return a file of that text, ending in a newline."""
    return File((text.rstrip("\n") + "\n").encode(), 0o755 if executable else 0o644)


def write_tree(tree: Mapping[str, Entry], folder: Path) -> None:
    """Write `tree` into `folder`, which is made, with the times of `set_times`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, entry in sorted(tree.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        match entry:
            case File():
                path.write_bytes(entry.content)
                path.chmod(entry.mode)
            case Link():
                path.symlink_to(entry.target)
            case Folder():
                path.mkdir(exist_ok=True)
    set_times(folder)


def set_times(folder: Path) -> None:
    """Give everything in and under `folder` a time that its content alone decides; folders get `TIMESTAMP`.

    BuildKit sends a file of a context again only if size, mode or time differ from what it was last sent under that
    context's name: with one time for all, a file of the same size would keep the content it had in another build.
    """
    for parent, folders, names in os.walk(folder, topdown=False):
        for name in [*names, *folders]:
            path = Path(parent) / name
            time = _content_time(path)
            os.utime(path, ns=(time, time), follow_symlinks=False)
    os.utime(folder, (TIMESTAMP, TIMESTAMP))


def _content_time(path: Path) -> int:
    """Return a time in nanoseconds between 1980 and 2011, from what a file or a link holds."""
    if path.is_symlink():
        content = os.fsencode(os.readlink(path))  # noqa: PTH115
    elif path.is_file():
        content = path.read_bytes()
    else:
        return TIMESTAMP * _SECOND
    return TIMESTAMP * _SECOND + int.from_bytes(hashlib.sha256(content).digest()[:8]) % (_SPAN * _SECOND)


def tar_gz(tree: Mapping[str, Entry], prefix: str = "") -> bytes:
    """Return `tree` as a tar.gz archive, its folders spelled out, everything root's; `prefix` goes before each name."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, entry in sorted(_with_folders(tree).items()):
            archive.addfile(*_member(prefix + name, entry))
    return gzip.compress(plain.getvalue(), 6, mtime=0)


def _with_folders(tree: Mapping[str, Entry]) -> Tree:
    whole: Tree = {str(folder): Folder() for name in tree for folder in Path(name).parents if str(folder) != "."}
    whole.update(tree)
    return whole


def _member(name: str, entry: Entry) -> tuple[tarfile.TarInfo, io.BytesIO | None]:
    info = tarfile.TarInfo(name)
    info.mtime = TIMESTAMP
    match entry:
        case File():
            info.size, info.mode = len(entry.content), entry.mode
            return info, io.BytesIO(entry.content)
        case Link():
            info.type, info.linkname = tarfile.SYMTYPE, entry.target
        case Folder():
            info.type, info.mode = tarfile.DIRTYPE, 0o755
    return info, None
