"""The lock outside the registry, which cannot compare and swap: one publication at a time, with nothing forgotten.

On one machine it is a lock on a file. Between machines it is published.json in git: a promotion is refused where that
file lacks what its own history holds, and CI runs promotions in one concurrency group that is never cancelled.
"""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ascend_images.errors import PublishRefused
from ascend_images.files import held
from ascend_images.images.plan import BUILD_FOLDER
from ascend_images.publish.published import FILE, Published, parse

#: What is published and not merged yet, as this machine knows it: the branch that `images.yml` proposes.
PROPOSED = "origin/published"

#: Where publications keep what they are about to do, below the repository's root.
FOLDER = Path(BUILD_FOLDER) / "publish"


@contextmanager
def one_at_a_time(root: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of publications, waiting for whoever holds it; it ends with its process. Raises OSError."""
    path = root / FOLDER / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with held(path, lambda: say("waiting for another publication to end")):
        yield


def require_nothing_forgotten(root: Path, published: Published, *more: str) -> None:
    """Raise PublishRefused where published.json lacks what the commit holds, or the branch it is to be pushed to.

    `more` are other revisions that count as well where they are there.
    """
    ways = {"HEAD": f"git checkout -- {FILE}", "@{upstream}": "git pull --rebase"}
    for revision in (*ways, *more):
        content = committed(root, revision, FILE)
        if content is None:
            continue
        then = parse(content, f"{revision}:{FILE}").publications
        forgotten = [one for one in then if one not in published.publications]
        if forgotten:
            raise PublishRefused(
                f"{FILE} lacks {len(forgotten)} of what {revision} holds, {forgotten[0].tag} for one",
                wanted="a file that is only added to",
                do=ways.get(revision, f"invoke remember --from {revision}"),
            )


def committed(root: Path, revision: str, path: str) -> bytes | None:
    """Return the content of a file at a revision; None where that or git is not there."""
    done = git(root, "show", f"{revision}:./{path}")
    return done.stdout if done is not None and done.returncode == 0 else None


def git(root: Path, *words: str) -> "subprocess.CompletedProcess[bytes] | None":
    """Run git in the repository; None where there is no git. What it prints does not depend on the locale."""
    own = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(["git", "-C", str(root), *words], capture_output=True, env=own, stdin=subprocess.DEVNULL)
    except OSError:
        return None
