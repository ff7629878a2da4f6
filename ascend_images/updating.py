"""`invoke outdated`: what is newer than the pins, and what each would break, before anyone tries."""

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ascend_images import locking
from ascend_images.errors import LookupIncomplete, unknown
from ascend_images.files import read_regular
from ascend_images.images.network import read_ca
from ascend_images.lock.catalog import Catalog, default_index
from ascend_images.lock.digests import Imagetools
from ascend_images.lock.git import GitClient
from ascend_images.lock.image_tags import RegistryTags
from ascend_images.lock.lock import known_locks
from ascend_images.lock.means import Means, usual_means
from ascend_images.lock.newer import Found
from ascend_images.lock.outdated import Hosts, ask, subjects
from ascend_images.lock.way import Way
from ascend_images.pins.model import Mirror
from ascend_images.pins.table import Table
from ascend_images.pins.targets import owners
from ascend_images.pins.variant import Variant
from ascend_images.selection import PINS_FILE, Selection
from ascend_images.toml_text import read_toml
from ascend_images.trial import Broken, Trial

#: How many older releases are tried for one that breaks nothing.
_TRIED = 60


#: Then newer packages are held against what versions.toml says of these sources alone.
_UNREAD = "the repositories of sources, or a file of theirs"


class Update(Table, frozen=True, kw_only=True):
    """What is newer than one pin, and what it would break.

    `newest` is the newest release, `breaks` what it would break; `fitting` the newest release that breaks nothing that
    was asked about; `bump` is the command that takes it, and `unchecked` the sources that it was not held against.
    """

    kind: str
    name: str
    pinned: str
    variants: tuple[str, ...]
    current: str = ""
    newest: str = ""
    breaks: tuple[Broken, ...] = ()
    fitting: str = ""
    prerelease: str = ""
    incomplete: tuple[tuple[str, tuple[str, ...]], ...] = ()
    moved: str = ""
    notes: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()
    bump: str = ""
    unchecked: tuple[str, ...] = ()


class Outdated(Table, frozen=True, kw_only=True):
    """Everything that is newer than the pins of these variants, and whom nothing could be learned from.

    `mirror` is the one by way of which all were asked, empty where none was chosen.
    """

    variants: tuple[str, ...]
    mirror: str = ""
    updates: tuple[Update, ...]
    not_reached: dict[str, tuple[str, ...]]
    not_tried: tuple[str, ...] = ()

    def require(self) -> None:
        """Raise LookupIncomplete where something could not be asked; `as_text` says what."""
        if self.not_reached:
            raise LookupIncomplete(
                f"not reached: {len(self.not_reached)} of those that had to be asked; they are listed above",
                wanted="an answer from each of them",
                do=f"the same again once they can be reached{Way(self.mirror).advice}",
            )


@dataclass(frozen=True, kw_only=True)
class Room:
    """With what is asked: the hosts for what there is, the means for what it would break."""

    hosts: Hosts
    means: Means
    resolves: bool = False


def outdated(
    selection: Selection,
    *,
    mirror: str = "",
    ca_bundle: Path | None = None,
    resolves: bool = False,
    say: Callable[[str], None],
) -> Outdated:
    """Return what is newer than the pins of the selected variants; `resolves`: newer versions are tried out by uv.

    Raises BadInput for an unknown mirror and what `usual_means` raises.
    """
    mirrors = selection.pins.mirror
    if mirror and mirror not in mirrors:
        raise unknown("mirror", mirror, mirrors, where="--mirror")
    certificates = read_ca(ca_bundle) if ca_bundle else b""
    with locking.trusting(certificates) if certificates else nullcontext():
        way = Way(mirror, mirrors[mirror] if mirror else Mirror())
        return found_updates(selection, _room(selection, way, resolves, say))


def _room(selection: Selection, way: Way, resolves: bool, say: Callable[[str], None]) -> Room:
    mirror = way.mirror
    means = usual_means(mirror, say)
    means = replace(means, mirror_name=way.name, places=locking.places(selection, "the version that is tried"))
    hosts = Hosts(
        packages=Catalog(means.cache, mirror.index.get("default") or default_index(os.environ), fresh=True),
        addresses=way.indexes(selection.pins.index),
        git=GitClient(means.cache, mirror.git),
        images=Imagetools(mirror.registry),
        tags=RegistryTags(mirror.registry),
        way=way,
    )
    return Room(hosts=hosts, means=means, resolves=resolves)


def found_updates(selection: Selection, room: Room) -> Outdated:
    """Ask what is newer, and what each newest version would break; return all of it."""
    locks = {variant.name: _locked(variant, selection) for variant in selection.variants}
    pins = subjects(selection.variants, lambda variant: locks[variant.name])
    room.means.say(f"asking what is newer than {len(pins)} pins of {len(selection.variants)} variants")
    found = ask(pins, room.hosts)
    raw = read_toml(read_regular(selection.root / PINS_FILE).decode("utf-8-sig"))
    trial = Trial(selection=selection, means=room.means, resolves=room.resolves)
    updates = [_update(one, raw, trial) for one in found if one.anything]
    unreached: dict[str, list[str]] = {}
    for update in updates:
        for reason in update.unreached:
            unreached.setdefault(reason, []).append(f"{update.name} {update.pinned}".strip())
    if trial.unread:
        unreached[_UNREAD] = [f"what {', '.join(names)} of {stack} ask for" for stack, names in trial.unread.items()]
    return Outdated(
        variants=tuple(variant.name for variant in selection.variants),
        mirror=room.hosts.way.name,
        updates=tuple(update for update in updates if _is_told(update)),
        not_reached={reason: tuple(dict.fromkeys(names)) for reason, names in unreached.items()},
        not_tried=tuple(trial.not_tried),
    )


def _is_told(update: Update) -> bool:
    return bool(update.newest or update.prerelease or update.incomplete or update.moved or update.notes)


def _locked(variant: Variant, selection: Selection) -> dict[str, str]:
    locks = known_locks(variant, selection.locks)
    return next((lock.versions for lock in locks.values()), {})


def _update(found: Found, raw: Mapping[str, Any], trial: Trial) -> Update:
    one = found.subject
    newest = found.newer[0] if found.newer else ""
    breaks = trial.breaks(one, newest) if newest and one.kind != "base image" else ()
    fitting = newest
    if breaks:
        older = found.newer[1:_TRIED]
        fitting = next((version for version in older if trial.fits(one, version)), "")
    return Update(
        kind=one.kind,
        name=one.name,
        pinned=one.pinned,
        current=one.current if one.current != one.pinned else "",
        variants=tuple(variant.name for variant in one.variants),
        newest=newest,
        breaks=breaks,
        fitting=fitting,
        prerelease=found.prereleases[0] if found.prereleases else "",
        incomplete=tuple((partly.version, partly.lacks) for partly in found.incomplete),
        moved=found.moved,
        notes=found.notes,
        unreached=found.unreached,
        bump=_command(found, raw, fitting or newest),
        unchecked=trial.unchecked(one) if newest else (),
    )


def _command(found: Found, raw: Mapping[str, Any], version: str) -> str:
    """Return what to type to take a newer version, or what stands behind a name now."""
    one = found.subject
    first = one.variants[0].name
    if one.kind == "base image":
        return f"invoke lock --variant {first} --update base" if found.moved else ""
    if one.kind == "source" and found.moved and not version:
        return f"invoke lock --variant {first} --update {one.name}"
    if not version:
        return ""
    stacks = dict.fromkeys(variant.stack for variant in one.variants)
    places = owners(raw, stacks, "package" if one.kind == "package" else "source", one.name)
    if one.kind == "cann":
        places = owners(raw, stacks, "cann", "cann")
    if not places:
        return ""
    return "\n".join(f"invoke bump {place.label} {version}" for place in places)
