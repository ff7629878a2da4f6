"""git in the project's own repository: asked in its plain words, and what it complains of told to people."""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ascend_images.errors import BadInput, MissingTool
from ascend_images.gentle import run, run_raw
from ascend_images.git_environment import without_repository

#: Seconds for what only reads or writes git's own files.
_LIMIT = 120
_SHOWN = 10
_SAFE = re.compile(r"^\s*(git config --global --add safe\.directory .+)$", re.MULTILINE)
_OWN = re.compile(r"(?:fatal|error): (.+)")


def git(root: Path, *arguments: str, asked: str = "", hooks: bool = False) -> subprocess.CompletedProcess[str]:
    """Run git for the project at `root` and return what it gave; raises MissingTool where there is none, or no answer.

    `hooks`: it runs the user's own hooks, in the user's own language and for as long as they take.
    """
    with _answering(arguments[0]):
        return run(
            _command(root, arguments),
            environment=_environment(hooks=hooks),
            asked=asked,
            limit=None if hooks else _LIMIT,
        )


def commit_of(root: Path, revision: str) -> str:
    """Return the commit that a revision means; nothing where it is not there, or no repository holds the project.

    Raises MissingTool where git cannot tell: it is not installed, gives no answer, or refuses the repository.
    """
    # `--end-of-options` keeps what begins with a dash from being an option of git's.
    found = git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if found.returncode == 0:
        return found.stdout.strip()
    with suppress(BadInput):
        require_repository(root)
    return ""


def committed(root: Path, revision: str, path: str) -> bytes | None:
    """Return the content of the project's file at a revision; None where that, or the file in it, is not there.

    Raises MissingTool where git cannot tell, as `commit_of`, and where it cannot read what is there.
    """
    with _answering("show"):
        command = _command(root, ["show", "--end-of-options", f"{revision}:./{path}"])
        shown = run_raw(command, environment=_environment(), limit=_LIMIT)
    if shown.returncode == 0:
        return shown.stdout
    commit = commit_of(root, revision)
    if commit:
        listed = git(root, "ls-tree", commit, "--", path)
        if listed.returncode != 0 or listed.stdout:
            said = shown.stderr.decode(errors="replace").strip()
            raise MissingTool(f"git cannot read {path} of {revision}: {said}", do="git fsck")
    return None


def require_repository(root: Path) -> None:
    """Raise BadInput where no git repository holds the project, MissingTool where git refuses the one that does."""
    said = git(root, "rev-parse", "--git-dir")
    if said.returncode == 0:
        return
    if "not a git repository (or any" in said.stderr:
        raise BadInput("no git repository here", wanted="the project as a git repository holds it", do="git status")
    safe = _SAFE.search(said.stderr)
    raise MissingTool(
        f"git refuses: {complaint(said)}",
        wanted="a repository of this user's own, or one that git is told to trust" if safe else "",
        do=safe[1] if safe else "git status",
    )


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """Return what git complains of: in its own words where it has any, else the last lines that a hook wrote."""
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    # Behind its own words git writes advice, and before them what led to them.
    own = [match[1] for line in done.stderr.splitlines() if (match := _OWN.fullmatch(line.strip()))]
    if own and "fatal: " in done.stderr:
        return "; ".join(own[-_SHOWN:])
    return "\n  ".join(lines[-_SHOWN:]) or f"exit code {done.returncode}"


@contextmanager
def _answering(what: str) -> Iterator[None]:
    """Raise MissingTool where git takes longer than it ever may."""
    try:
        yield
    except subprocess.TimeoutExpired:
        raise MissingTool(f"git {what} gave no answer within {_LIMIT} s", do="git status") from None


def _command(root: Path, arguments: Sequence[str]) -> list[str]:
    return ["git", "-C", str(root), *arguments]


def _environment(*, hooks: bool = False) -> dict[str, str]:
    """Return an environment in which git means the repository that holds the project, whatever its caller means."""
    plain = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    return {**without_repository(os.environ), **({} if hooks else plain)}
