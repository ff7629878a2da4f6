"""The lock outside the registry, which cannot compare and swap: one publication at a time, with nothing forgotten.

On one machine it is a lock on a file. Between machines it is published.json in git: a promotion is refused where that
file lacks what its own history holds, and CI runs promotions in one concurrency group that is never cancelled.
"""

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ascend_images.errors import PublishRefused
from ascend_images.files import held
from ascend_images.images.plan import BUILD_FOLDER
from ascend_images.project_git import committed
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


def require_nothing_forgotten(root: Path, published: Published) -> None:
    """Raise PublishRefused where published.json lacks what is on record elsewhere, as far as this machine knows.

    That is what the commit holds, the branch that it is to be pushed to, and the one that is proposed. Raises
    MissingTool where git cannot tell, and BadInput for such a file that is something else.
    """
    for revision in ("HEAD", "@{upstream}", PROPOSED):
        content = committed(root, revision, FILE)
        if content is None:
            continue
        then = parse(content, f"{revision}:{FILE}").publications
        forgotten = [one for one in then if one not in published.publications]
        if forgotten:
            raise PublishRefused(
                f"{FILE} lacks {len(forgotten)} of what {revision} holds, {forgotten[0].tag} for one",
                wanted="a file that is only added to",
                # Only adds: what puts another file in the place of this one may lose what is on record here alone.
                do=f"invoke remember --from {shlex.quote(revision)}",
            )
