"""git in the project's own repository: asked in its plain words, and what it complains of told to people."""

import os
import re
import subprocess
from pathlib import Path

from ascend_images.errors import BadInput, MissingTool
from ascend_images.gentle import run

#: Seconds for what only reads or writes git's own files.
_LIMIT = 120
_SHOWN = 10
_SAFE = re.compile(r"^\s*(git config --global --add safe\.directory .+)$", re.MULTILINE)
_OWN = re.compile(r"(?:fatal|error): (.+)")


def git(root: Path, *arguments: str, asked: str = "", hooks: bool = False) -> subprocess.CompletedProcess[str]:
    """Run git for the project at `root` and return what it gave; raises MissingTool where there is none, or no answer.

    `hooks`: it runs the user's own hooks, in the user's own language and for as long as they take.
    """
    plain = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    try:
        return run(
            ["git", "-C", str(root), *arguments],
            environment={**os.environ, **({} if hooks else plain)},
            asked=asked,
            limit=None if hooks else _LIMIT,
        )
    except subprocess.TimeoutExpired:
        raise MissingTool(f"git {arguments[0]} gave no answer within {_LIMIT} s", do="git status") from None


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
