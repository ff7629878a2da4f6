"""Checkouts that are not at the commits which sources are pinned to: what was read there says nothing of the pins."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ascend_images.git_environment import without_repository
from ascend_images.pins.variant import Checkout, Variant

_SHORT = 12


@dataclass(frozen=True)
class Elsewhere:
    """A source that was read in a checkout which is not, or may not be, what its pin means.

    `head` is the commit of the checkout, empty where git cannot say, `dirty` whether files of it were changed since.
    """

    source: Checkout
    folder: Path
    head: str
    dirty: bool

    @property
    def note(self) -> str:
        """What a lock that was made from it says in its head."""
        pinned = self.source.commit[:_SHORT] or f"{self.source.ref}, whose commit is not known"
        return f"{self.source.name} read at {self._at}, pinned {pinned}"

    def __str__(self) -> str:
        pinned = f"not at the pinned {self.source.commit[:_SHORT]}"
        if not self.source.commit:
            pinned = f"and which commit the pinned {self.source.ref} is is not known"
        elif self.head == self.source.commit:
            pinned = "which the pinned commit does not have"
        return (
            f"--source {self.source.name}={self.folder} is at {self._at}, {pinned}: "
            "what it asks for is taken from there all the same, and the lock says so"
        )

    @property
    def _at(self) -> str:
        at = self.head[:_SHORT] or "no commit"
        return f"{at} with uncommitted changes" if self.dirty else at


def read_elsewhere(variant: Variant, folders: Mapping[str, Path]) -> tuple[Elsewhere, ...]:
    """Return the sources of a variant that are read in checkouts of which git does not say that they are at the pin."""
    return tuple(_elsewhere(variant, folders))


def _elsewhere(variant: Variant, folders: Mapping[str, Path]) -> Iterator[Elsewhere]:
    for source in variant.sources:
        folder = folders.get(source.name)
        # Of a source without such files nothing is read.
        if folder is None or not source.requirements:
            continue
        head = _git(folder, "rev-parse", "HEAD")
        dirty = bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))
        if dirty or not head or head != source.commit:
            yield Elsewhere(source, folder, head, dirty)


def _git(folder: Path, *arguments: str) -> str:
    """Return what git says of a checkout, empty where it cannot say; nothing is written there, nor run."""
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C", str(folder), *arguments],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=60,
            env=without_repository(os.environ),
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
