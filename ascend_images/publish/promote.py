"""Readable tags for what passed its checks: written last, only forward, read back, and put on record.

What is about to be written is kept in a file first. So a promotion that is killed anywhere leaves tags that each stand
for something whole and verified, and the next one puts on record what the killed one had done.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from ascend_images.digest import digest_of
from ascend_images.errors import BadInput, PublishRefused
from ascend_images.files import read_regular, write_atomic
from ascend_images.images.cache import is_cache_tag
from ascend_images.images.candidate import identity, parse_candidate
from ascend_images.images.epoch import reason_against
from ascend_images.images.publish import SANDBOX, is_loopback
from ascend_images.json_text import NotJsonError, read_json
from ascend_images.pins.lockfile import file_name
from ascend_images.pins.platform import Arch, parse_platform
from ascend_images.pins.variant import Variant
from ascend_images.project_git import commit_of, committed
from ascend_images.publish.complete import require_complete
from ascend_images.publish.forward import Move, planned_moves
from ascend_images.publish.index import ORDER
from ascend_images.publish.lock import FOLDER, one_at_a_time, require_nothing_forgotten
from ascend_images.publish.manifest import Joined
from ascend_images.publish.published import FILE, Publication, append, facts_of, load
from ascend_images.publish.registry import INDEX, Repository
from ascend_images.publish.required import Proof

_PENDING = FOLDER / "pending"


def require_pinned(joined: Joined, variant: Variant) -> None:
    """Raise PublishRefused unless what was joined is what versions.toml says of the variant, locked, and released.

    An image of stand-ins gets a name that says so, and only on this machine's own registry.
    """
    stand_in = is_stand_in(joined, variant)
    again = f"invoke build --variant {variant.name}{' --sandbox' if joined.tag.endswith(SANDBOX) else ''} --push"
    if stand_in and not is_loopback(joined.repository):
        raise PublishRefused(
            f"{joined.repository}:{joined.tag} is made of stand-ins", wanted="a registry on loopback for those"
        )
    if joined.repository != variant.repository or not (stand_in or joined.tag == variant.tag):
        raise PublishRefused(
            f"{joined.variant} was built as {joined.repository}:{joined.tag}",
            wanted=f"{variant.repository}:{variant.tag}, as versions.toml says",
            do=f"{_named_there(joined, variant)}{again}",
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


def _named_there(joined: Joined, variant: Variant) -> str:
    """Return what comes before building again, where that would be refused: stand-ins are pushed to loopback alone."""
    if not joined.tag.endswith(SANDBOX) or is_loopback(variant.repository):
        return ""
    stack = f"[stack.{variant.stack}]"
    return f'write repository = "{joined.repository}" into {stack} of versions.toml; invoke render; commit both; '


def is_stand_in(joined: Joined, variant: Variant) -> bool:
    """Say whether what was joined is made of stand-ins; its tag says so."""
    return joined.tag == f"{variant.tag}{SANDBOX}"


def building_commit(root: Path, joined: Joined, dockerfile: str, *, stand_in: bool = False) -> str:
    """Return the commit of this project that holds the rendered file and the locks which were built.

    Raises PublishRefused, and MissingTool where git cannot tell. Stand-ins (`stand_in`) are built from a lock of their
    own.
    """
    head = commit_of(root, "HEAD")
    found = _at_head(root, dockerfile)
    if not head or found != joined.dockerfile:
        raise PublishRefused(
            f"{joined.variant}: the commit that is checked out does not hold the {dockerfile} that was built: {found}",
            wanted=f"{joined.dockerfile}: whoever reads the list of tags finds the file there",
            do="commit it, or check out the commit that was built",
        )
    if not stand_in:
        _require_locks(root, joined)
    return head


def require_time(root: Path, joined: Joined, *, now: float) -> None:
    """Raise PublishRefused for an image whose time would make it newer than all that is published after it.

    Raises MissingTool where git cannot tell.
    """
    if reason := reason_against(root, joined.epoch, now):
        raise PublishRefused(
            f"{joined.variant}: {reason}",
            wanted="a time that is over: by it what is published later takes the place of what was before",
            do=f"see which clock is wrong; then invoke build --variant {joined.variant} --push",
        )


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

    Whatever is asked of the reports has been asked before. Raises PublishRefused, MissingTool where git cannot tell
    what is on record, and LookupIncomplete where the registry does not answer; then each tag stands for what it stood
    for, or for the new digest, and the same command goes on.
    """
    if dry_run:
        published = load(root / FILE)
        require_nothing_forgotten(root, published)
        require_complete(joined, repository)
        return planned_moves(publication, published, repository)
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
        stand_in=is_stand_in(joined, variant),
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


def _settle_pending(root: Path, new: Publication, repository: Repository, say: Callable[[str], None]) -> None:
    """Put on record what a promotion did that did not come to its end, unless it is the one that is made now."""
    for path in sorted((root / _PENDING).glob("*.json")):
        try:
            pending = read_json(read_regular(path), Publication)
        except (OSError, NotJsonError) as error:
            raise BadInput(
                f"{path}: cannot be read: {error}", do=f"mend it by hand, or move it away if {FILE} holds what it names"
            ) from None
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
