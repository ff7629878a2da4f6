"""The time that images carry, and that orders what is published: of their pins, not of the day of the build."""

import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from ascend_images.errors import BadInput, MissingTool
from ascend_images.project_git import commit_of, complaint, git

#: A time in seconds since 1970, as it is written.
EPOCH = re.compile(r"[0-9]{1,11}")
#: The same as a number, of no more digits.
Epoch = Annotated[int, Meta(ge=0, lt=10**11)]

#: 1980-01-01, the time that all files of an image carry too; zip archives can name none before it.
FALLBACK = 315532800

#: What of the project decides what is in an image.
_PINS = ("versions.toml", "versions.lock", "locks")
#: Seconds that the clocks of two machines may differ.
_LEEWAY = 600
# What is later has a year that nobody can write.
_LAST = 253402300799


def source_date_epoch(
    root: Path, environment: Mapping[str, str], *, push: bool = False, clock: Callable[[], float] = time.time
) -> int:
    """Return the time that the images' configurations carry, in seconds.

    That is SOURCE_DATE_EPOCH where the caller sets it (reproducible-builds.org), else the time of the last commit that
    changed versions.toml or one of the locks, so that the same pins give the same digests at any time and on any
    machine; and 1980-01-01 where there is no such commit. A shallow clone may not hold that commit: set the variable
    there.

    With `push` it is to order what is published: raises BadInput for a time that may not (`reason_against`), or that
    a shallow clone does not hold. Raises MissingTool where git cannot tell.
    """
    given = environment.get("SOURCE_DATE_EPOCH", "").strip()
    if given and not EPOCH.fullmatch(given):
        raise BadInput(
            f"SOURCE_DATE_EPOCH is {given!r}", wanted="a number of seconds since 1970", do="unset SOURCE_DATE_EPOCH"
        )
    epoch = int(given) if given else _time_of_pins(root, whole=push)
    if push and (reason := reason_against(root, epoch, clock())):
        raise BadInput(
            reason,
            wanted="a time that is over: by it what is published later takes the place of what was before",
            do="unset SOURCE_DATE_EPOCH"
            if given
            else "set this machine's clock, or where that of the commit was wrong SOURCE_DATE_EPOCH to an earlier time",
        )
    return epoch


def reason_against(root: Path, epoch: int, now: float) -> str:
    """Return why an image of such a time must not be published, nothing where it may.

    What is ahead of the clock, or of the commit that is checked out, would be newer than all that is published after
    it. Any older time is the caller's own matter. Raises MissingTool where git cannot tell.
    """
    if epoch > now + _LEEWAY:
        return f"the time of the pins is {_said(epoch)}, and now it is {_said(int(now))}"
    head = commit_of(root, "HEAD")
    # Where a clock was wrong, the pins can be of a later time than what was committed after them.
    newest = max(_time(root, head), _time(root, head, *_PINS)) if head else epoch
    if epoch > newest:
        return f"the time of the pins is {_said(epoch)}, and HEAD is of {_said(newest)}"
    return ""


def _time_of_pins(root: Path, *, whole: bool) -> int:
    """Return the time of the last commit that changed the pins; `whole`: raise BadInput where it may be another."""
    head = commit_of(root, "HEAD")
    if not head:
        return FALLBACK
    if whole and _is_cut_off(root, head):
        raise BadInput(
            "a shallow clone: it does not hold the last commit that changed the pins, whose time images carry",
            wanted="the history up to that commit",
            do="git fetch --unshallow, or set SOURCE_DATE_EPOCH to its time",
        )
    return _time(root, head, *_PINS)


def _is_cut_off(root: Path, head: str) -> bool:
    """Say whether what seems to be the last commit that changed the pins only is the last that a shallow clone holds.

    To git such a commit has no parents, and so seems to have added every file; in itself they are named.
    """
    commit, *parents = _log(root, head, "%H %P", *_PINS).split() or [""]
    if not commit or parents:
        return False
    named, _, _ = git(root, "cat-file", "commit", commit).stdout.partition("\n\n")
    return "\nparent " in named


def _time(root: Path, head: str, *paths: str) -> int:
    said = _log(root, head, "%ct", *paths)
    return int(said) if EPOCH.fullmatch(said) else FALLBACK


def _log(root: Path, head: str, form: str, *paths: str) -> str:
    """Return what git tells of the last commit that changed one of some paths; nothing where none did."""
    done = git(root, "log", "-1", f"--format={form}", head, "--", *paths)
    if done.returncode != 0:
        raise MissingTool(f"git cannot read the history: {complaint(done)}", do="git fsck")
    return done.stdout.strip()


def _said(epoch: int) -> str:
    return f"{datetime.fromtimestamp(epoch, UTC):%Y-%m-%d %H:%M:%S} UTC" if epoch <= _LAST else f"{epoch} s"
