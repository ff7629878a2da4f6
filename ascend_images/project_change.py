"""A change of the project's own files: made beside them, put in their place whole or not at all, committed alone."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ascend_images.diffing import LOCKS
from ascend_images.errors import BadInput, CheckFailed, MissingTool
from ascend_images.files import read_regular, write_atomic
from ascend_images.images.rendered import RENDERED
from ascend_images.pins.versions_lock import FILE
from ascend_images.selection import PINS_FILE

#: What pins and all that is made of them lie in, below the project's root.
CONCERNED = (PINS_FILE, FILE, str(LOCKS), str(RENDERED))
_TIMEOUT = 120
_NAMED = 5


@contextmanager
def beside(root: Path) -> Iterator[Path]:
    """Give a folder with a copy of the files that may change; it goes when the block ends."""
    (root / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="change-", dir=root / "build") as name:
        for concerned in CONCERNED:
            place = root / concerned
            if place.is_dir():
                shutil.copytree(place, Path(name) / concerned)
            elif place.is_file():
                shutil.copy2(place, Path(name) / concerned)
        yield Path(name)


@contextmanager
def put(root: Path, folder: Path, text: str) -> Iterator[list[Path]]:
    """Put what was made in its place, and give the paths that changed, below `root`.

    Whatever goes wrong until the block ends, everything is as it was. Raises BadInput where versions.toml is not `text`
    any more.
    """
    if read_regular(root / PINS_FILE).decode() != text:
        raise BadInput(
            f"{PINS_FILE} was changed in the meantime",
            wanted="one change at a time; nothing was changed by this one",
            do="the same command again",
        )
    made = {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    before = {path: _content(root / path) for path in made}
    changed = [path for path, content in made.items() if before[path] != content]
    try:
        for path in changed:
            write_atomic(root / path, made[path])
        yield changed
    except BaseException:
        for path in changed:
            content = before[path]
            if content is None:
                (root / path).unlink(missing_ok=True)
            else:
                write_atomic(root / path, content)
        raise


def _content(path: Path) -> bytes | None:
    try:
        return read_regular(path)
    except FileNotFoundError:
        return None


def require_clean(root: Path) -> None:
    """Raise CheckFailed where one of these files holds a change that is not committed."""
    said = _git(root, "status", "--porcelain", "--untracked-files=all", "--", *CONCERNED)
    if said.returncode:
        raise BadInput(f"no commit can be made here: {_complaint(said)}", wanted="a git repository", do="git status")
    if said.stdout.strip():
        paths = [line[3:] for line in said.stdout.splitlines()]
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        raise CheckFailed(
            f"not committed yet: {', '.join(paths[:_NAMED])}{more}",
            wanted="a commit that holds this change alone",
            do="commit or undo these changes, or leave --commit out",
        )


def commit(root: Path, changed: Sequence[Path], message: str) -> str:
    """Commit the changed files and return the commit, short; raises MissingTool where git refuses."""
    paths = list(map(str, changed))
    try:
        for command in (["add", "--", *paths], ["commit", "--quiet", "-m", message, "--", *paths]):
            done = _git(root, *command)
            if done.returncode:
                raise MissingTool(
                    f"git {command[0]} refused: {_complaint(done)}",
                    wanted="a commit; nothing was changed",
                    do="mend that, or leave --commit out and commit by hand",
                )
    except BaseException:
        _git(root, "reset", "--quiet", "--", *paths)
        raise
    return _git(root, "rev-parse", "--short", "HEAD").stdout.strip()


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["git", "-C", str(root), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT,
            check=False,
        )
    except FileNotFoundError:
        raise MissingTool("git is not installed", do="install git, or leave --commit out") from None
    except subprocess.TimeoutExpired:
        raise MissingTool(f"git {arguments[0]} gave no answer within {_TIMEOUT} s", do="git status") from None


def _complaint(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {done.returncode}"
