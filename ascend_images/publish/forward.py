"""What becomes of readable tags: they only move forward, and stand for what was published from here.

What orders two images of a variant is the time of their pins first, and of the same pins the order on record.
"""

from dataclasses import dataclass

from ascend_images.errors import PublishRefused
from ascend_images.publish.index import NOTE_VARIANT, epoch_of, parse_index
from ascend_images.publish.lock import PROPOSED
from ascend_images.publish.published import FILE, Publication, Published
from ascend_images.publish.registry import INDEX_TYPES, Repository, Stored


@dataclass(frozen=True)
class Move:
    """One tag: what it stands for (empty: nothing yet) and what it will."""

    tag: str
    before: str
    after: str

    def __str__(self) -> str:
        if self.before == self.after:
            return f"{self.tag}: {self.after}, as it is"
        return f"{self.tag}: {self.before or 'new'} -> {self.after}"


def planned_moves(publication: Publication, published: Published, repository: Repository) -> list[Move]:
    """Return what becomes of each tag; raises PublishRefused for one that would go back, or that is somebody else's."""
    moves = []
    for tag in publication.tags:
        stored = repository.manifest(tag)
        if stored is not None and stored.digest != publication.digest:
            _require_forward(publication, tag, stored, published)
        owners = {one.variant for one in published.of_tag(publication.repository, tag)} - {publication.variant}
        if owners:
            raise PublishRefused(
                f"{publication.repository}:{tag} was published for {', '.join(sorted(owners))}",
                wanted=f"a tag of its own for {publication.variant}",
            )
        moves.append(Move(tag, stored.digest if stored else "", publication.digest))
    return moves


def _require_forward(new: Publication, tag: str, stored: Stored, published: Published) -> None:
    """Raise PublishRefused where a tag stands for something newer, or for something that was not published here."""
    subject = f"{new.repository}:{tag}"
    history = [one for one in published.publications if _is_ours(one, new, tag)]
    known = [one.epoch for one in history if one.digest == stored.digest]
    epoch = known[-1] if known else _told_epoch(new, tag, stored)
    if epoch is None:
        raise PublishRefused(
            f"{subject} stands for {stored.digest}, which was not published from here",
            wanted=f"nothing, {new.digest}, or a digest in {FILE}",
            do=f"git pull, where {FILE} may name it; else remove the tag, or choose another in versions.toml",
        )
    if epoch == new.epoch and not known:
        raise PublishRefused(
            f"{subject} stands for {stored.digest}, of the same pins as {new.digest}, and {FILE} does not hold it: "
            "nothing says which of the two is newer",
            wanted="tags that only move forward",
            do=f"git fetch, then invoke remember --from {PROPOSED}; if its record is lost for good, remove the tag",
        )
    digests = [one.digest for one in history]
    went_on = new.digest in digests and stored.digest in digests[digests.index(new.digest) :]
    if epoch > new.epoch or went_on:
        raise PublishRefused(
            f"{subject} stands for {stored.digest}, which is newer than {new.digest}",
            wanted="tags that only move forward",
            do="build what versions.toml says now, and promote that; where the time of the former's pins is wrong, "
            "remove the tag",
        )


def _is_ours(one: Publication, new: Publication, tag: str) -> bool:
    """Say whether a publication tells of a tag: it gave it, or it is of the same variant, whatever its tags."""
    return one.repository == new.repository and (one.variant == new.variant or tag in one.tags)


def _told_epoch(new: Publication, tag: str, stored: Stored) -> int | None:
    """Return the time that an index tells of itself; None for what is not an index of the same variant of ours.

    What is not in published.json was promoted where its record was lost, or is not yet here.
    """
    if stored.media_type not in INDEX_TYPES:
        return None
    index = parse_index(stored.content, f"{new.repository}:{tag}")
    return epoch_of(index) if index.annotations.get(NOTE_VARIANT) == new.variant else None
