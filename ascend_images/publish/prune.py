"""Old candidates and what may go with them: never what a kept tag, a kept index or published.json leads to.

A registry deletes by digest, and every tag on that digest goes with it; an index whose parts were deleted still
resolves, and cannot be pulled.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from ascend_images.errors import BadInput
from ascend_images.images.candidate import parse_candidate
from ascend_images.images.publish import CHANGED, SANDBOX
from ascend_images.pins.tags import fold_tag
from ascend_images.publish.index import NOTE_EPOCH, Index, Manifest, images_of
from ascend_images.publish.published import Published
from ascend_images.publish.referrers import attached
from ascend_images.publish.registry import INDEX_TYPES, Repository, Stored

# Tags that say nothing of their own: signatures and the like of a digest (sigstore/cosign, its tag scheme).
_ATTACHED = re.compile(r"sha256-(?P<hex>[0-9a-f]{64})(?:\.[a-z0-9]+)?")

# What may stand behind a variant's name in that of a candidate.
_SUFFIXES = ("", SANDBOX, CHANGED)

Group = tuple[str, str]


class _Config(msgspec.Struct):
    created: datetime


@dataclass(frozen=True)
class Pruning:
    """What would be deleted: digests, indexes first, each with its tags, and how many tags are kept."""

    repository: str
    doomed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kept: int = 0


def require_keep(keep: int) -> None:
    """Raise BadInput for a number of candidates to keep below one: the newest may be on its way to a release."""
    if keep < 1:
        raise BadInput(f"--keep {keep}", wanted="how many candidates of each variant are kept: 1 or more")


def plan_pruning(repository: Repository, published: Published, *, keep: int, variants: Sequence[str] = ()) -> Pruning:
    """Return what may be deleted of a repository: candidates, but for the `keep` newest of each variant.

    With `variants` only theirs go. Raises as `Repository` does: where anything that is kept cannot be read, nobody
    knows what it leads to, and nothing is deleted.
    """
    require_keep(keep)
    stored = {tag: one for tag in repository.tags() if (one := repository.manifest(tag)) is not None}
    old = _old_candidates(
        stored, keep, {fold_tag(name + suffix) for name in variants for suffix in _SUFFIXES}, repository
    )
    kept = {tag: one for tag, one in stored.items() if tag not in old and not _ATTACHED.fullmatch(tag)}
    reached = _reached(kept.values(), repository)
    reached |= _reached(_published(published, repository), repository)
    doomed: dict[str, list[str]] = {}
    for tag in sorted(old):
        if stored[tag].digest not in reached:
            doomed.setdefault(stored[tag].digest, []).append(tag)
    gone = _reached([stored[tags[0]] for tags in doomed.values()], repository) - reached
    for tag, one in stored.items():
        named = _ATTACHED.fullmatch(tag)
        if named and f"sha256:{named['hex']}" in gone and one.digest not in reached:
            doomed.setdefault(one.digest, []).append(tag)
    for digest in sorted(gone):
        for inner in attached(repository, digest):
            # Where a registry lists it there is no tag on it; under a tag's list there is one on the list alone.
            if inner not in reached:
                doomed.setdefault(inner, [])
    # An index goes before its parts, so that what still resolves can be pulled.
    first = [digest for digest, tags in doomed.items() if tags and stored[tags[0]].media_type in INDEX_TYPES]
    ordered = [*first, *(digest for digest in doomed if digest not in first)]
    return Pruning(repository.name, {digest: tuple(doomed[digest]) for digest in ordered}, len(stored) - _tags(doomed))


def agreed(first: Pruning, again: Pruning) -> Pruning:
    """Return what two plans of a repository both say: what was tagged, or lost a tag, in between keeps its digest."""
    doomed = {digest: tags for digest, tags in first.doomed.items() if again.doomed.get(digest) == tags}
    return Pruning(first.repository, doomed, again.kept + _tags(again.doomed) - _tags(doomed))


def prune(repository: Repository, pruning: Pruning) -> Pruning:
    """Delete what was planned, if each tag still stands for it, and return what was deleted.

    One that moved meanwhile keeps its digest. What is tagged while this goes on is not seen: whoever tags waits for it,
    by the lock on this machine and by the concurrency group of CI.
    """
    deleted: dict[str, tuple[str, ...]] = {}
    for digest, tags in pruning.doomed.items():
        now = [repository.manifest(tag) for tag in tags]
        if all(one is not None and one.digest == digest for one in now):
            repository.delete(digest)
            deleted[digest] = tags
    return Pruning(pruning.repository, deleted, pruning.kept + _tags(pruning.doomed) - _tags(deleted))


def _tags(doomed: Mapping[str, Sequence[str]]) -> int:
    return sum(map(len, doomed.values()))


def _old_candidates(stored: Mapping[str, Stored], keep: int, only: set[str], repository: Repository) -> set[str]:
    """Return the tags of candidates beyond the newest `keep` of each variant."""
    groups: dict[Group, list[str]] = {}
    for tag in stored:
        candidate = parse_candidate(tag)
        if candidate is not None and (not only or candidate.variant in only):
            groups.setdefault((candidate.variant, candidate.identity), []).append(tag)
    old: set[str] = set()
    for variant in {variant for variant, _ in groups}:
        mine = [group for group in groups if group[0] == variant]
        mine.sort(key=lambda group: (_epoch([stored[tag] for tag in groups[group]], repository), group), reverse=True)
        old.update(tag for group in mine[keep:] for tag in groups[group])
    return old


def _epoch(candidates: Sequence[Stored], repository: Repository) -> float:
    """Return the time that orders a candidate: its index says it, and before there is one, its images do.

    What says none is taken for the newest of all, since it may be on its way.
    """
    known = [_index(one).annotations.get(NOTE_EPOCH, "") for one in candidates if one.media_type in INDEX_TYPES]
    numbers = [float(text) for text in known if text.isdecimal()]
    return max(numbers or [_created(one, repository) for one in candidates], default=float("inf"))


def _created(stored: Stored, repository: Repository) -> float:
    """Return when an image says it was made, which is the time of its pins (SOURCE_DATE_EPOCH)."""
    if stored.media_type in INDEX_TYPES:
        images = images_of(_index(stored), f"{repository.name}@{stored.digest}").values()
        inner = [one for image in images if (one := repository.manifest(image.digest)) is not None]
        return max((_created(one, repository) for one in inner), default=float("inf"))
    try:
        content = repository.blob(msgspec.json.decode(stored.content, type=Manifest).config.digest)
        return msgspec.json.decode(content or b"", type=_Config).created.timestamp()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return float("inf")


def _published(published: Published, repository: Repository) -> Iterable[Stored]:
    """Yield what was ever published here: reports and whoever pulls by digest name it, whatever its tags are now."""
    for digest in sorted({one.digest for one in published.publications if one.repository == repository.name}):
        stored = repository.manifest(digest)
        if stored is not None:
            yield stored


def _reached(roots: Iterable[Stored], repository: Repository) -> set[str]:
    """Return the digests of what these are and lead to."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        stored = waiting.pop()
        found.add(stored.digest)
        if stored.media_type not in INDEX_TYPES:
            continue
        for entry in _index(stored).manifests:
            if entry.digest in found:
                continue
            found.add(entry.digest)
            inner = repository.manifest(entry.digest) if entry.media_type in INDEX_TYPES else None
            if inner is not None:
                waiting.append(inner)
    return found


def _index(stored: Stored) -> Index:
    try:
        return msgspec.json.decode(stored.content, type=Index)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{stored.digest}: an index that cannot be read, so nobody knows what it leads to: {error}",
            wanted="OCI indexes",
        ) from None
