"""Newer tags and branches of sources, and refs that mean something else than they did."""

import re
from collections.abc import Iterable

from packaging.version import Version

from ascend_images.lock.git import Refs
from ascend_images.lock.newer import LEAST, Answer, Found, Subject, version_of
from ascend_images.pins.overrides import version_of_ref
from ascend_images.pins.questions import is_commit
from ascend_images.pins.variant import Checkout


def checkout(one: Subject) -> Checkout:
    """Return the source that a pin is of."""
    return next(source for source in one.variants[0].sources if source.name == one.name)


def newer_refs(one: Subject, refs: Answer) -> Found:
    """Return the newer tags of a source, or the newer branches where it follows one, and where its ref has gone."""
    if not isinstance(refs, Refs):
        return Found(subject=one, unreached=(str(refs),))
    source = checkout(one)
    name = source.ref.removeprefix("refs/tags/").removeprefix("refs/heads/")
    branch = name in refs.branches and name not in refs.tags
    newer = _newer(one, refs.branches if branch else refs.tags)
    notes = []
    moved = ""
    if branch and source.commit and refs.branches[name] != source.commit:
        moved = refs.branches[name]
    if not branch and name in refs.tags and source.commit and refs.tags[name].commit != source.commit:
        notes.append(
            f"the tag {name} was {source.commit[:12]} and is {refs.tags[name].commit[:12]} now: another release under "
            "an old name"
        )
    if not is_commit(name) and not branch and name not in refs.tags:
        notes.append(f"its repository has no tag or branch {name} any more")
    final = [text for version, text in newer if not version.is_prerelease]
    pre = [text for version, text in newer if version.is_prerelease and (not final or version > _of(final[0]))]
    if version_of(one.current) is None and final:
        notes.append(f"which version is at {name[:12]} is not known; the newest tag is {final[0]}")
        final, pre = [], []
    return Found(subject=one, newer=tuple(final), prereleases=tuple(pre), moved=moved, notes=tuple(notes))


def _of(ref: str) -> Version:
    return version_of(version_of_ref(ref)) or LEAST


def _newer(one: Subject, names: Iterable[str]) -> list[tuple[Version, str]]:
    """Return newer refs with their versions, the newest first; of two for one version that which is named alike."""
    floor = version_of(one.current) or LEAST
    prefix = _prefix(one.pinned)
    found: dict[Version, str] = {}
    for name in sorted(names, key=lambda text: (_prefix(text) == prefix, text)):
        version = version_of(version_of_ref(name))
        if version is not None and version > floor:
            found[version] = name
    alike = {version: name for version, name in found.items() if _prefix(name) == prefix}
    # A repository may tag its parts apart: `core_v0.16.0` and `v0.3.1` are no versions of one thing.
    return sorted((alike or found).items(), reverse=True)


def _prefix(ref: str) -> str:
    """Return what stands before the version in a ref: `core_v` of `core_v0.16.0`."""
    return re.split(r"[0-9]", ref, maxsplit=1)[0]
