"""A pull request from a checkout: what is committed on top of a branch, pushed to one of its own."""

import base64
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ascend_images import gentle
from ascend_images.errors import BadInput, MissingTool, PublishRefused
from ascend_images.files import read_regular
from ascend_images.images.engine import Answer
from ascend_images.publish.published import FILE
from ascend_images.publish.tag_words import PAGES

#: What promotions change; whatever else differs is somebody's own.
INDEX = (FILE, *PAGES)
_TIMEOUT = 120
#: Bytes of a body: GitHub takes 65,536 characters, and a system 128 KiB in one word of a command.
_MOST = 60_000

#: Runs a command in a folder with variables on top of this process's own.
Run = Callable[[Path, Sequence[str], Mapping[str, str]], Answer]


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What was typed: the branch to push to, the branch it is for, and what people read."""

    branch: str
    base: str
    title: str
    body: Path | None = None


def run_in(folder: Path, command: Sequence[str], more: Mapping[str, str]) -> Answer:
    """Run a command there and return what it gave; raises MissingTool if it is not there or does not come back."""
    # A commit runs the hooks of its repository, which take as long as they take.
    limit = None if list(command[:2]) == ["git", "commit"] else _TIMEOUT
    environment = {**os.environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", **more}
    try:
        done = gentle.run(command, folder=folder, environment=environment, limit=limit)
    except subprocess.TimeoutExpired:
        raise MissingTool(f"`{' '.join(command[:2])}` did not come back within {_TIMEOUT} s") from None
    return Answer(done.returncode, done.stdout, done.stderr)


def propose(root: Path, wish: Proposal, *, run: Run = run_in, environment: Mapping[str, str] = os.environ) -> str:
    """Push what HEAD has on top of the base branch, the index of tags committed first, and open a pull request.

    One that is open for the branch already is brought up to date. Returns a line for people. Raises BadInput for
    branches that cannot be meant, MissingTool for what git or gh cannot do, PublishRefused where the branch was moved
    by somebody else since it was fetched.
    """
    _require_branches(root, wish, run)
    body = _body(wish)
    _commit_index(root, wish.title, run)
    ahead = _git(root, run, "rev-list", "--count", f"origin/{wish.base}..HEAD").out.strip()
    if ahead == "0":
        return f"nothing to propose: HEAD has no commit that origin/{wish.base} lacks"
    _push(root, wish, run, environment)
    return _open(root, wish, body, run)


def _require_branches(root: Path, wish: Proposal, run: Run) -> None:
    if not wish.branch or wish.branch == wish.base:
        raise BadInput(
            f"--branch {wish.branch}: the branch itself that is proposed to" if wish.branch else "no branch is named",
            wanted="a branch of its own",
            do="--branch NAME",
        )
    if not wish.title:
        raise BadInput("the pull request has no title", wanted="--title TEXT")
    for name in (wish.branch, wish.base):
        if run(root, ["git", "check-ref-format", "--branch", name], {}).code != 0:
            raise BadInput(f"{name} is no name of a branch", wanted="letters, digits, dots, dashes and slashes")
    if run(root, ["git", "rev-parse", "--verify", "--quiet", f"origin/{wish.base}^{{commit}}"], {}).code != 0:
        raise BadInput(
            f"origin/{wish.base} is not here", wanted="a clone that has fetched it", do=f"git fetch origin {wish.base}"
        )


def _body(wish: Proposal) -> str:
    if wish.body is None:
        return ""
    try:
        content = read_regular(wish.body)
    except OSError as error:
        raise BadInput(f"--body {wish.body}: {error.strerror or error}", wanted="a file of Markdown") from None
    text = content[:_MOST].decode(errors="ignore")
    return text if len(content) <= _MOST else f"{text}\n\n… and more, which the commits show."


def _commit_index(root: Path, title: str, run: Run) -> None:
    there = [path for path in INDEX if (root / path).exists()]
    if not there or not _git(root, run, "status", "--porcelain", "--", *there).out.strip():
        return
    _git(root, run, "add", "--", *there)
    _git(root, run, "commit", "--quiet", "-m", title, "--", *there)


def _push(root: Path, wish: Proposal, run: Run, environment: Mapping[str, str]) -> None:
    known = run(root, ["git", "rev-parse", "--verify", "--quiet", f"refs/remotes/origin/{wish.branch}"], {}).out.strip()
    # Only what was fetched is written over, so that nothing is lost of what somebody else pushed in the meantime.
    lease = f"--force-with-lease=refs/heads/{wish.branch}:{known}"
    words = ["git", "push", "--quiet", lease, "origin", f"HEAD:refs/heads/{wish.branch}"]
    done = run(root, words, _login(environment))
    if done.code != 0 and "stale info" in done.err:
        raise PublishRefused(
            f"{wish.branch} was pushed to by somebody else since it was fetched",
            wanted="the branch as it was",
            do=f"git fetch origin {wish.branch}; then the same again",
        )
    if done.code != 0:
        raise MissingTool(f"git push refused: {_complaint(done)}", wanted=f"the right to push to {wish.branch}")


def _login(environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables by which git logs in to the server of the workflow that runs; none elsewhere.

    By variables and not in a file, so that no later step finds it (git-config, GIT_CONFIG_COUNT).
    """
    token, server = environment.get("GH_TOKEN", ""), environment.get("GITHUB_SERVER_URL", "")
    if not (token and server):
        return {}
    secret = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"http.{server.rstrip('/')}/.extraheader",
        "GIT_CONFIG_VALUE_0": f"AUTHORIZATION: basic {secret}",
    }


def _open(root: Path, wish: Proposal, body: str, run: Run) -> str:
    listed = ["gh", "pr", "list", "--head", wish.branch, "--base", wish.base, "--state", "open"]
    number = _gh(root, run, *listed, "--json", "number", "--jq", ".[0].number // empty").strip()
    told = ["--title", wish.title, "--body", body]
    if number:
        _gh(root, run, "gh", "pr", "edit", number, *told)
        return f"{wish.branch}: pull request {number} is up to date"
    return _gh(root, run, "gh", "pr", "create", "--head", wish.branch, "--base", wish.base, *told).strip()


def _gh(root: Path, run: Run, *command: str) -> str:
    done = run(root, command, {})
    if done.code != 0:
        raise MissingTool(
            f"{' '.join(command[:3])}: {_complaint(done)}",
            wanted="a pull request; the branch is pushed",
            do="gh auth status; then the same again",
        )
    return done.out


def _git(root: Path, run: Run, *words: str) -> Answer:
    done = run(root, ["git", *words], {})
    if done.code != 0:
        raise MissingTool(f"git {words[0]} refused: {_complaint(done)}", wanted="a commit", do="git status")
    return done


def _complaint(done: Answer) -> str:
    lines = [line.strip() for line in (done.err + done.out).splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {done.code}"
