"""A change of the project's own files: made beside them, put in their place whole or not at all, committed alone."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ascend_images.diffing import LOCKS
from ascend_images.errors import AscendImagesError, BadInput, CheckFailed, MissingTool
from ascend_images.files import read_regular, write_atomic
from ascend_images.images.rendered import RENDERED, SUFFIXES
from ascend_images.pins.versions_lock import FILE
from ascend_images.project_git import complaint, git, require_repository
from ascend_images.selection import PINS_FILE

#: What pins and all that is made of them lie in, below the project's root.
CONCERNED = (PINS_FILE, FILE, str(LOCKS), str(RENDERED))
_ENDS = {LOCKS: (".txt",), RENDERED: SUFFIXES}
_NAMED = 5


@dataclass(frozen=True)
class Copy:
    """The files that may change, copied to `folder`; `was` is what each held then, by its path below the root."""

    folder: Path
    was: Mapping[Path, bytes]


@dataclass
class Placed:
    """What was put in its place: paths below the root; where it `stays`, nothing is undone whatever goes wrong."""

    paths: tuple[Path, ...]
    stays: bool = False


@contextmanager
def beside(root: Path, text: str) -> Iterator[Copy]:
    """Give a copy of the files that may change, with `text` as versions.toml; it goes when the block ends."""
    (root / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="change-", dir=root / "build") as name:
        was = {path: read_regular(root / path) for path in _files(root)} | {Path(PINS_FILE): text.encode()}
        for path, content in was.items():
            write_atomic(Path(name) / path, content)
        yield Copy(Path(name), was)


def _files(root: Path) -> Iterator[Path]:
    """Yield the path below `root` of each file that a change may read or write; what else lies beside them is left."""
    named = [Path(PINS_FILE), Path(FILE)]
    for folder in _ENDS:
        if (root / folder).is_dir():
            found = sorted(path.name for path in (root / folder).iterdir())
            named += [folder / name for name in found if is_concerned(folder / name)]
    # Not a pipe, nor a link that leads nowhere.
    yield from (path for path in named if (root / path).is_file())


def is_concerned(path: Path) -> bool:
    """Say whether pins, or what is made of them, lie at a path below the project's root."""
    if path in (Path(PINS_FILE), Path(FILE)):
        return True
    return path.name.endswith(_ENDS.get(path.parent, ())) and not path.name.startswith(".")


@contextmanager
def put(root: Path, copy: Copy) -> Iterator[Placed]:
    """Put what was changed in the copy in its place; what was not changed there stays as it is now.

    Whatever goes wrong until the block ends, everything is as it was. Raises BadInput where one of these files is not
    any more what was copied.
    """
    new = {path: read_regular(copy.folder / path) for path in _files(copy.folder)}
    made = {path: content for path, content in new.items() if content != copy.was.get(path)}
    before = {path: _content(root / path) for path in made}
    moved = [str(path) for path in made if before[path] != copy.was.get(path)]
    if moved:
        raise BadInput(
            f"{_few(moved)} {'was' if len(moved) == 1 else 'were'} changed in the meantime",
            wanted="one change at a time; nothing was changed by this one",
            do="the same command again",
        )
    placed = Placed(tuple(made))
    try:
        for path, content in made.items():
            write_atomic(root / path, content)
        yield placed
    except BaseException:
        if not placed.stays:
            _restore(root, before)
        raise


def _restore(root: Path, before: Mapping[Path, bytes | None]) -> None:
    for path, content in before.items():
        if content is None:
            # Of a link only what it leads to was made.
            (root / path).resolve().unlink(missing_ok=True)
        elif _content(root / path) != content:
            write_atomic(root / path, content)


def _content(path: Path) -> bytes | None:
    try:
        return read_regular(path)
    except FileNotFoundError:
        return None


def _few(paths: list[str]) -> str:
    return ", ".join(paths[:_NAMED]) + (f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else "")


def require_clean(root: Path) -> None:
    """Raise CheckFailed where one of these files holds a change that is not committed.

    Raises BadInput where no git repository holds them, MissingTool where git refuses.
    """
    # What git keeps of a link is where it leads; what changes is there.
    links = [path for path in _files(root) if (root / path).is_symlink()]
    places = dict.fromkeys(str((root / path).resolve()) for path in [*map(Path, CONCERNED), *links])
    try:
        require_repository(root)
        said = git(root, "status", "--porcelain", "--untracked-files=all", "--", *places)
        if said.returncode:
            raise BadInput(complaint(said), wanted="a git repository that holds these files", do="git status")
    except AscendImagesError as error:
        error.found = f"no commit can be made here: {error.found}"
        error.do += "; or leave --commit out"
        raise
    if said.stdout.strip():
        raise CheckFailed(
            f"not committed yet: {_few([line[3:] for line in said.stdout.splitlines()])}",
            wanted="a commit that holds this change alone",
            do="commit or undo these changes, or leave --commit out",
        )


def commit(root: Path, placed: Placed, message: str, say: Callable[[str], None]) -> str:
    """Commit what was put in its place and return the commit, short; raises MissingTool where git refuses.

    Where something goes wrong after the commit was made (in a hook, by an interruption), it and its files stay; `say`
    tells so.
    """
    paths = [str((root / path).resolve()) for path in placed.paths]
    before = _head(root)
    try:
        _must(root, "add", "--", *paths)
        _must(root, "commit", "--quiet", "-m", message, "--", *paths, hooks=True)
        made = git(root, "rev-parse", "--short", "HEAD").stdout.strip()
        placed.stays = True
    except BaseException as error:
        placed.stays = _is_made(root, before, paths)
        if placed.stays:
            say(f"the commit {_head(root)[:12]} was made, and stays")
            if isinstance(error, AscendImagesError):
                error.wanted, error.do = "", "git status"
        reset = git(root, "reset", "--quiet", "--", *paths)
        if reset.returncode:
            say(f"what is staged cannot be put back: {complaint(reset)}; next: git reset -- {' '.join(CONCERNED)}")
        raise
    return made


def _must(root: Path, *arguments: str, hooks: bool = False) -> None:
    done = git(root, *arguments, hooks=hooks)
    if done.returncode:
        raise MissingTool(
            f"git {arguments[0]} refused: {complaint(done)}",
            wanted="a commit; nothing was changed",
            do="mend that, or leave --commit out and commit by hand",
        )


def _head(root: Path) -> str:
    return git(root, "rev-parse", "--verify", "--quiet", "HEAD").stdout.strip()


def _is_made(root: Path, before: str, paths: list[str]) -> bool:
    """Tell whether HEAD has moved since, to a commit that holds these files as they are: not to somebody else's."""
    return _head(root) != before and git(root, "diff", "--quiet", "HEAD", "--", *paths).returncode == 0
