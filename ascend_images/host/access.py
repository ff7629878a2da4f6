"""Who the container's user is, and whether that user may open the device nodes: by uid, groups and permission bits."""

import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ascend_images.errors import BadInput
from ascend_images.host.facts import Node

# The kernel's overflow uid, `nobody` everywhere: who runs as it wants to own nothing, so it is given no group unasked.
_NOBODY = 65534
_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
_READ_WRITE = 0o6


@dataclass(frozen=True)
class Identity:
    """A user of a container.

    `gid` is its first group, None where that is not known; `listed` says whether the image's passwd has its uid, None
    where that file could not be read.
    """

    uid: int
    gid: int | None
    listed: bool | None

    @property
    def is_root(self) -> bool:
        """Whether it is root, who opens any node whatever its permission bits."""
        return self.uid == 0


def identify(user: str, passwd: str | None) -> Identity:
    """Return who `user` is, given the image's passwd: `1000`, `1000:500`, a name, or nothing for root.

    As with Docker, a uid that passwd lacks is in group 0. Raises BadInput for a name that the file lacks or that no
    file tells, and for the name of a group.
    """
    name, colon, group = user.partition(":")
    if colon and not _NUMBER.fullmatch(group):
        raise BadInput(f'--user {user}: "{group}" is no number', wanted="UID:GID, both as numbers")
    entries = _entries(passwd)
    if _NUMBER.fullmatch(name):
        uid = int(name)
        gids = [gid for _, number, gid in entries if number == uid]
    elif name in ("", "root"):
        uid, gids = 0, [0]
    else:
        known = [(number, gid) for entry, number, gid in entries if entry == name]
        if not known:
            seen = "the image has no such user" if passwd is not None else "the image's passwd could not be read"
            raise BadInput(f"--user {name}: {seen}", wanted="a user of the image, or a uid", do="--user 1000")
        uid, gids = known[0][0], [known[0][1]]
    unlisted = None if passwd is None else 0
    gid = int(group) if colon else gids[0] if gids else unlisted
    return Identity(uid, gid, True if uid == 0 else None if passwd is None else bool(gids))


def groups_needed(who: Identity, nodes: Iterable[Node], typed: Sequence[int]) -> tuple[int, ...]:
    """Return the groups to add so that a user may read and write every node: those typed, then owners of nodes.

    Raises BadInput where no group helps, and for `nobody`, who gets only what is typed.
    """
    if who.is_root:
        return tuple(typed)
    groups = dict.fromkeys(typed)
    for node in nodes:
        first = [] if who.gid is None else [who.gid]
        if _may(who.uid, [*groups, *first], node):
            continue
        helps = _may(who.uid, [node.gid], node)
        if not helps or who.uid == _NOBODY:
            raise _refused(who.uid, node, helps=helps)
        groups[node.gid] = None
    return tuple(groups)


def require_passwd_entry(who: Identity, devices: int) -> str:
    """Raise BadInput for several devices and a user whom the image's passwd lacks; return a note where nobody knows.

    HCCL asks the system for the user's entry when it sets up several devices
    (github.com/vllm-project/vllm-ascend, issue 9490).
    """
    if devices < 2 or who.listed:
        return ""
    if who.listed is None:
        return (
            f"whether the image's passwd has uid {who.uid}, which HCCL needs for {devices} devices, could not be seen"
        )
    raise BadInput(
        f"the image's /etc/passwd has no entry for uid {who.uid}, and HCCL cannot set up {devices} devices without one",
        wanted=f"an image that has it, built FROM this one with RUN useradd --uid {who.uid} --create-home user",
        do="docker build, then --image with its name; or --user root, or one device",
    )


def _entries(passwd: str | None) -> list[tuple[str, int, int]]:
    """Return name, uid and gid of each line that has them."""
    rows = [line.split(":") for line in (passwd or "").splitlines()]
    return [
        (row[0], int(row[2]), int(row[3]))
        for row in rows
        if len(row) >= 4 and _NUMBER.fullmatch(row[2]) and _NUMBER.fullmatch(row[3])
    ]


def _may(uid: int, groups: Sequence[int], node: Node) -> bool:
    """Return whether the permission bits let a user read and write; only the first class that fits counts."""
    shift = 6 if node.uid == uid else 3 if node.gid in groups else 0
    return (node.mode >> shift) & _READ_WRITE == _READ_WRITE


def _refused(uid: int, node: Node, *, helps: bool) -> BadInput:
    owner = f"{stat.filemode(stat.S_IFCHR | stat.S_IMODE(node.mode))} {node.uid} {node.gid}"
    return BadInput(
        f"user {uid} has no read and write access to {node.path}: {owner}",
        wanted=f"root, uid {node.uid} or group {node.gid}" if helps else "root",
        do=f"--group-add {node.gid}" if helps else "--user root",
    )
