"""Old candidates and what may go with them: never what a kept tag, a kept index or published.json leads to.

A registry deletes by digest, and every tag on that digest goes with it; an index whose parts were deleted still
resolves, and cannot be pulled.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from ascend_images.errors import BadInput, PublishRefused, said
from ascend_images.images.candidate import parse_candidate
from ascend_images.images.publish import CHANGED, SANDBOX
from ascend_images.json_text import NotJsonError, read_json
from ascend_images.pins.tags import fold_tag
from ascend_images.publish.index import Index, epoch_of, images_of, parse_manifest
from ascend_images.publish.published import Published
from ascend_images.publish.referrers import attached
from ascend_images.publish.registry import INDEX_TYPES, Repository, Stored

# Tags that say nothing of their own: signatures and the like of a digest (sigstore/cosign, its tag scheme).
_ATTACHED = re.compile(r"sha256-(?P<hex>[0-9a-f]{64})(?:\.[a-z0-9]+)?")

# What may stand behind a variant's name in that of a candidate.
_SUFFIXES = ("", SANDBOX, CHANGED)

Group = tuple[str, str]


class _Config(msgspec.Struct):
    created: Annotated[datetime, Meta(tz=True)]


@dataclass(frozen=True)
class Pruning:
    """What would be deleted: digests, indexes first, each with its tags, and how many tags are kept.

    `undated` are the tags of candidates that are kept since nothing tells how old they are.
    """

    repository: str
    doomed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kept: int = 0
    undated: tuple[str, ...] = ()


def require_keep(keep: int) -> None:
    """Raise BadInput for a number of candidates to keep below one: the newest may be on its way to a release."""
    if keep < 1:
        raise BadInput(f"--keep {keep}", wanted="how many candidates of each variant are kept: 1 or more")


def plan_pruning(repository: Repository, published: Published, *, keep: int, variants: Sequence[str] = ()) -> Pruning:
    """Return what may be deleted of a repository: candidates, but for the `keep` newest of each variant.

    One that tells no time may be on its way: it is kept, and takes the place of no other. With `variants` only theirs
    go. Raises as `Repository` does: where anything that is kept cannot be read, nobody knows what it leads to, and
    nothing is deleted.
    """
    require_keep(keep)
    stored = {tag: one for tag in repository.tags() if (one := repository.manifest(tag)) is not None}
    groups = _candidates(stored, {fold_tag(name + suffix) for name in variants for suffix in _SUFFIXES})
    times = {group: _time([stored[tag] for tag in tags], repository) for group, tags in groups.items()}
    old = {tag for group in _older(times, keep) for tag in groups[group]}
    undated = sorted(tag for group, time in times.items() if time is None for tag in groups[group])
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
    told = {digest: tuple(doomed[digest]) for digest in ordered}
    return Pruning(repository.name, told, len(stored) - _tags(doomed), tuple(undated))


def agreed(first: Pruning, again: Pruning) -> Pruning:
    """Return what two plans of a repository both say: what was tagged, or lost a tag, in between keeps its digest."""
    doomed = {digest: tags for digest, tags in first.doomed.items() if again.doomed.get(digest) == tags}
    return replace(again, doomed=doomed, kept=again.kept + _tags(again.doomed) - _tags(doomed))


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
    return replace(pruning, doomed=deleted, kept=pruning.kept + _tags(pruning.doomed) - _tags(deleted))


def _tags(doomed: Mapping[str, Sequence[str]]) -> int:
    return sum(map(len, doomed.values()))


def _candidates(stored: Iterable[str], only: set[str]) -> dict[Group, list[str]]:
    """Return the tags of each candidate, or of those of some variants."""
    groups: dict[Group, list[str]] = {}
    for tag in stored:
        candidate = parse_candidate(tag)
        if candidate is not None and (not only or candidate.variant in only):
            groups.setdefault((candidate.variant, candidate.identity), []).append(tag)
    return groups


def _older(times: Mapping[Group, float | None], keep: int) -> set[Group]:
    """Return the candidates beyond the newest `keep` of each variant, of those whose time is known."""
    newest_first = sorted(((time, group) for group, time in times.items() if time is not None), reverse=True)
    ours: dict[str, list[Group]] = {}
    for _, group in newest_first:
        ours.setdefault(group[0], []).append(group)
    return {group for mine in ours.values() for group in mine[keep:]}


def _time(candidates: Sequence[Stored], repository: Repository) -> float | None:
    """Return the time that orders a candidate: its index tells it, and before there is one, its images do.

    None where nothing tells it, or not all that would have to.
    """
    told = [epoch_of(_index(one, repository)) for one in candidates if one.media_type in INDEX_TYPES]
    known = [time for time in told if time is not None]
    return max(known) if known else _newest([_created(one, repository) for one in candidates])


def _newest(times: Sequence[float | None]) -> float | None:
    known = [time for time in times if time is not None]
    return max(known) if known and len(known) == len(times) else None


def _created(stored: Stored, repository: Repository) -> float | None:
    """Return when an image says it was made, which is the time of its pins (SOURCE_DATE_EPOCH); None if it does not."""
    subject = f"{repository.name}@{stored.digest}"
    is_index = stored.media_type in INDEX_TYPES
    try:
        images = images_of(_index(stored, repository), subject) if is_index else {}
        config = "" if is_index else parse_manifest(stored.content, subject).config.digest
    except PublishRefused:
        # Two images of one platform, or what is no image at all.
        return None
    if is_index:
        inner = [one for image in images.values() if (one := repository.manifest(image.digest)) is not None]
        return _newest([_created(one, repository) for one in inner])
    try:
        return read_json(repository.blob(config) or b"", _Config).created.timestamp()
    except NotJsonError:
        return None


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
        for entry in _index(stored, repository).manifests:
            if entry.digest in found:
                continue
            found.add(entry.digest)
            inner = repository.manifest(entry.digest) if entry.media_type in INDEX_TYPES else None
            if inner is not None:
                waiting.append(inner)
    return found


def _index(stored: Stored, repository: Repository) -> Index:
    try:
        return read_json(stored.content, Index)
    except NotJsonError as error:
        name = f"{repository.name}@{stored.digest}"
        raise BadInput(
            f"{name}: an index that cannot be read, so nobody knows what it leads to: {said(str(error))}",
            wanted="OCI indexes",
            do=f"docker buildx imagetools inspect --raw {name}; nothing is pruned while it has a tag",
        ) from None
