"""Readable tags for what passed its checks: written last, only forward, read back, and put on record.

What is about to be written is kept in a file first. So a promotion that is killed anywhere leaves tags that each stand
for something whole and verified, and the next one puts on record what the killed one had done.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ascend_images.digest import digest_of
from ascend_images.errors import BadInput, PublishRefused
from ascend_images.files import read_regular, write_atomic
from ascend_images.images.cache import is_cache_tag
from ascend_images.images.candidate import identity, parse_candidate
from ascend_images.images.publish import SANDBOX, is_loopback
from ascend_images.pins.lockfile import file_name
from ascend_images.pins.platform import Arch, parse_platform
from ascend_images.pins.variant import Variant
from ascend_images.publish.complete import require_complete
from ascend_images.publish.index import NOTE_EPOCH, NOTE_VARIANT, ORDER, parse_index
from ascend_images.publish.lock import FOLDER, committed, git, one_at_a_time, require_nothing_forgotten
from ascend_images.publish.manifest import Joined
from ascend_images.publish.published import FILE, Publication, Published, append, facts_of, load
from ascend_images.publish.registry import INDEX, INDEX_TYPES, Repository, Stored
from ascend_images.publish.required import Proof

_PENDING = FOLDER / "pending"


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


def require_pinned(joined: Joined, variant: Variant) -> None:
    """Raise PublishRefused unless what was joined is what versions.toml says of the variant, locked, and released.

    An image of stand-ins gets a name that says so, and only on this machine's own registry.
    """
    stand_in = is_stand_in(joined, variant)
    again = f"invoke build --variant {variant.name} --push"
    if stand_in and not is_loopback(joined.repository):
        raise PublishRefused(
            f"{joined.repository}:{joined.tag} is made of stand-ins", wanted="a registry on loopback for those"
        )
    if joined.repository != variant.repository or not (stand_in or joined.tag == variant.tag):
        raise PublishRefused(
            f"{joined.variant} was built as {joined.repository}:{joined.tag}",
            wanted=f"{variant.repository}:{variant.tag}, as versions.toml says",
            do=again,
        )
    if identity(joined.resolved) != joined.identity or joined.identity != identity(variant):
        different = _different(joined.resolved, msgspec.json.decode(msgspec.json.encode(variant)))
        raise PublishRefused(
            f"{joined.variant} was built from other pins than versions.toml has now: {', '.join(different)}",
            wanted="what versions.toml says",
            do=again,
        )
    if joined.unlocked and not stand_in:
        raise PublishRefused(
            f"{joined.variant} was built with --unlocked, or from a lock that is not complete, or from a ref or a base "
            "image that versions.lock does not know",
            wanted="an image of which everything is locked",
            do=f"invoke lock --variant {variant.name}",
        )
    if parse_candidate(joined.tag) or is_cache_tag(joined.tag):
        whose = "cache" if is_cache_tag(joined.tag) else "candidate"
        raise PublishRefused(f"{joined.tag} is a {whose}'s tag", wanted="another form of tag in versions.toml")


def is_stand_in(joined: Joined, variant: Variant) -> bool:
    """Say whether what was joined is made of stand-ins; its tag says so."""
    return joined.tag == f"{variant.tag}{SANDBOX}"


def building_commit(root: Path, joined: Joined, dockerfile: str, *, stand_in: bool = False) -> str:
    """Return the commit of this project that holds the rendered file and the locks which were built.

    Raises PublishRefused. Stand-ins (`stand_in`) are built from a lock of their own.
    """
    head = git(root, "rev-parse", "--verify", "HEAD^{commit}")
    found = _at_head(root, dockerfile)
    if head is None or head.returncode != 0 or found != joined.dockerfile:
        raise PublishRefused(
            f"{joined.variant}: the commit that is checked out does not hold the {dockerfile} that was built: {found}",
            wanted=f"{joined.dockerfile}: whoever reads the list of tags finds the file there",
            do="commit it, or check out the commit that was built",
        )
    if not stand_in:
        _require_locks(root, joined)
    return head.stdout.decode().strip()


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


def promote(
    root: Path,
    publication: Publication,
    joined: Joined,
    repository: Repository,
    *,
    dry_run: bool = False,
    say: Callable[[str], None],
) -> list[Move]:
    """Write the readable tags, and add them to published.json; with `dry_run` only say what would become of each.

    Whatever is asked of the reports has been asked before. Raises PublishRefused, and LookupIncomplete where the
    registry does not answer; then each tag stands for what it stood for, or for the new digest, and the same command
    goes on.
    """
    if dry_run:
        require_complete(joined, repository)
        return planned_moves(publication, load(root / FILE), repository)
    with one_at_a_time(root, say):
        _settle_pending(root, publication, repository, say)
        published = load(root / FILE)
        require_nothing_forgotten(root, published)
        stored = require_complete(joined, repository)
        moves = planned_moves(publication, published, repository)
        pending = root / _PENDING / _pending_name(publication)
        write_atomic(pending, msgspec.json.encode(publication))
        done: list[str] = []
        try:
            for move in moves:
                if move.before != move.after:
                    repository.put(move.tag, stored.content, stored.media_type or INDEX)
                _read_back(repository, move)
                done.append(move.tag)
        except BaseException:
            _record_done(root, publication, done)
            raise
        append(root / FILE, [publication])
        pending.unlink(missing_ok=True)
    return moves


def publication_of(
    joined: Joined,
    variant: Variant,
    proofs: Mapping[str, Proof],
    *,
    aliases: Sequence[str],
    when: str,
    commit: str,
    source: str,
    dockerfile: str,
    reason: str,
) -> Publication:
    """Return the publication that a promotion puts on record; `reason` is why checks were waived."""
    waived = sorted({name for proof in proofs.values() for name in proof.waived})
    return Publication(
        repository=joined.repository,
        tag=joined.tag,
        aliases=tuple(aliases),
        digest=joined.digest,
        variant=joined.variant,
        when=when,
        commit=commit,
        source=source,
        dockerfile=dockerfile,
        identity=joined.identity,
        pins=joined.pins,
        epoch=joined.epoch,
        platforms={platform: joined.platforms[platform].manifest for platform in _ordered(joined.platforms)},
        checks={platform: proofs[platform].passed for platform in _ordered(proofs)},
        waived=dict.fromkeys(waived, reason),
        facts=facts_of(variant),
    )


def _require_locks(root: Path, joined: Joined) -> None:
    """Raise PublishRefused where HEAD has other package locks than were built, which nobody would ever build then."""
    for platform, wanted in joined.locks.items():
        path = f"locks/{file_name(joined.variant, parse_platform(platform))}"
        found = _at_head(root, path)
        if found != wanted:
            raise PublishRefused(
                f"{joined.variant}: the commit that is checked out does not hold the {path} that was built: {found}",
                wanted=wanted,
                do="check out the commit that was built, or build and verify again",
            )


def _at_head(root: Path, path: str) -> str:
    """Return the digest of a file as the commit that is checked out holds it, or that it has none."""
    content = committed(root, "HEAD", path)
    return digest_of(content) if content is not None else "no such file"


def _pending_name(publication: Publication) -> str:
    """Return a name of its own for each tag: one file must not take the place of another repository's."""
    of = digest_of(f"{publication.repository}:{publication.tag}".encode()).removeprefix("sha256:")
    return f"{publication.variant}-{of[:12]}.json"


def _require_forward(new: Publication, tag: str, stored: Stored, published: Published) -> None:
    """Raise PublishRefused where a tag stands for something newer, or for something that was not published here."""
    subject = f"{new.repository}:{tag}"
    history = [one.digest for one in published.of_tag(new.repository, tag)]
    epoch = _epoch(new, tag, stored, published)
    if epoch is None:
        raise PublishRefused(
            f"{subject} stands for {stored.digest}, which was not published from here",
            wanted=f"nothing, {new.digest}, or a digest in {FILE}",
            do=f"git pull, where {FILE} may name it; else remove the tag, or choose another in versions.toml",
        )
    went_on = new.digest in history and stored.digest in history[history.index(new.digest) :]
    if epoch > new.epoch or went_on:
        raise PublishRefused(
            f"{subject} stands for {stored.digest}, which is newer than {new.digest}",
            wanted="tags that only move forward",
            do="build what versions.toml says now, and promote that",
        )


def _epoch(new: Publication, tag: str, stored: Stored, published: Published) -> int | None:
    """Return the time that orders what a tag stands for; None for what is not an image of the same variant of ours.

    What is not in published.json was promoted where its record was lost, or is not yet here; the index then tells.
    """
    known = [one.epoch for one in published.of_tag(new.repository, tag) if one.digest == stored.digest]
    if known:
        return known[-1]
    if stored.media_type not in INDEX_TYPES:
        return None
    notes = parse_index(stored.content, f"{new.repository}:{tag}").annotations
    text = notes.get(NOTE_EPOCH, "")
    return int(text) if notes.get(NOTE_VARIANT) == new.variant and text.isdecimal() else None


def _settle_pending(root: Path, new: Publication, repository: Repository, say: Callable[[str], None]) -> None:
    """Put on record what a promotion did that did not come to its end, unless it is the one that is made now."""
    for path in sorted((root / _PENDING).glob("*.json")):
        try:
            pending = msgspec.json.decode(read_regular(path), type=Publication)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadInput(f"{path}: cannot be read: {error}", do=f"rm {path}") from None
        if pending.repository != repository.name or pending.same_as(new):
            continue
        stored = [repository.manifest(tag) for tag in pending.tags]
        done = tuple(
            tag
            for tag, one in zip(pending.tags, stored, strict=True)
            if one is not None and one.digest == pending.digest
        )
        if pending.tag in done:
            aliases = tuple(tag for tag in pending.aliases if tag in done)
            append(root / FILE, [msgspec.structs.replace(pending, aliases=aliases)])
            say(f"put on record: {pending.repository}:{', '.join(done)}, which an interrupted promotion wrote")
        path.unlink(missing_ok=True)


def _record_done(root: Path, publication: Publication, done: Sequence[str]) -> None:
    """Put on record the tags that stand for it already: where machines last one job, no next promotion is here."""
    if publication.tag in done:
        aliases = tuple(tag for tag in publication.aliases if tag in done)
        # What ended the promotion is told; its note stays, with all that it was about to do.
        with suppress(OSError):
            append(root / FILE, [msgspec.structs.replace(publication, aliases=aliases)])


def _read_back(repository: Repository, move: Move) -> None:
    stored = repository.manifest(move.tag)
    if stored is None or stored.digest != move.after:
        now = stored.digest if stored else "nothing"
        raise PublishRefused(
            f"{repository.name}:{move.tag} stands for {now} right after it was written",
            wanted=f"{move.after}; somebody else writes the same tag",
            do="see who else promotes; then the same command again",
        )


def _different(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    return [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]


def _ordered(platforms: Mapping[str, object]) -> list[str]:
    known: list[Arch] = [parse_platform(platform) for platform in platforms]
    return [arch.platform for arch in ORDER if arch in known]
