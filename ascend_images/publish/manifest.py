"""Joins what was built for each architecture into one index, from recorded digests alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from ascend_images.digest import Digest, digest_of, is_digest
from ascend_images.errors import BadInput, PublishRefused
from ascend_images.files import write_json
from ascend_images.images.candidate import candidate_tag, identity, parse_candidate
from ascend_images.images.epoch import Epoch
from ascend_images.images.image_json import pins_digest
from ascend_images.images.publish import is_stand_in
from ascend_images.images.record import Record, build_again
from ascend_images.json_text import NotJsonError, read_json, read_json_file
from ascend_images.pins.platform import Arch
from ascend_images.pins.tags import ImageRef
from ascend_images.pins.variant import Variant
from ascend_images.publish.index import (
    NOTE_EPOCH,
    NOTE_IDENTITY,
    NOTE_JOINED,
    NOTE_VARIANT,
    ORDER,
    Descriptor,
    Platform,
    attestations_of,
    images_of,
    index_bytes,
    parse_index,
    parse_manifest,
)
from ascend_images.publish.registry import INDEX, INDEX_TYPES, MANIFEST_TYPES, Repository


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One architecture's share: `digest` as it was pushed, `manifest` and `config` of the image itself."""

    digest: Digest
    manifest: Digest
    config: Digest


class Joined(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one joining made: the index under its candidate tag, and of what.

    `tag` is the readable tag that it is meant for, `identity` stands for all pins, `pins` for those that image.json and
    reports name, `dockerfile` is the hash of the rendered file, `epoch` a time in seconds that orders candidates, and
    `resolved` the variant with every pin. `unlocked` says that something was taken as it was on its day. `platforms`,
    and `locks`, the hashes of the package locks, are by platform as Docker writes it.
    """

    schema: Literal[1] = 1
    variant: str
    repository: str
    tag: str
    candidate: str
    digest: Digest
    identity: Digest
    pins: Digest
    dockerfile: str
    locks: dict[str, str]
    epoch: Epoch
    unlocked: bool
    platforms: dict[str, Part]
    resolved: dict[str, Any]

    @property
    def seal(self) -> str:
        """The digest over all of it but the digest of the index, which holds the seal among its annotations.

        The file goes from job to job, and the index stays where only whoever may push can write.
        """
        return digest_of(msgspec.json.encode(msgspec.structs.replace(self, digest=""), order="deterministic"))


def require_joinable(variant: str, declared: Sequence[Arch], records: Mapping[Arch, Record]) -> None:
    """Raise PublishRefused unless these records are of one image for exactly the declared architectures."""
    missing = [arch for arch in declared if arch not in records]
    if missing:
        raise PublishRefused(
            f"{variant}: no record of a build for {_platforms(missing)}",
            wanted=f"one for each declared platform: {_platforms(declared)}",
            do=build_again(variant, missing, records.values()),
        )
    ours = [records[arch] for arch in declared]
    for arch, record in records.items():
        if record.arch is not arch or record.variant != variant:
            raise PublishRefused(f"{variant} {arch.value}: the record is of {record.variant} {record.arch.value}")
    kept = [record.arch for record in ours if not record.pushed]
    if kept:
        raise PublishRefused(
            f"{variant}: built for {_platforms(kept)}, but not pushed",
            wanted="images in the registry",
            do=build_again(variant, kept, records.values()),
        )
    _require_tags_of_their_own(variant, ours)
    _require_same_pins(variant, ours)


def join(variant: str, declared: Sequence[Arch], records: Mapping[Arch, Record], repository: Repository) -> Joined:
    """Write the index of a variant's images under its candidate tag; return what was joined.

    Raises PublishRefused for records that do not belong together, a digest that is gone, and an image that is not what
    its record says, and BadInput for a record of pins that are none; then nothing is written.
    """
    require_joinable(variant, declared, records)
    first = records[declared[0]]
    pins = _resolved(first)
    for arch in declared:
        _require_pinned_base(records[arch], pins)
    of = identity(first.resolved)
    found = {arch: _image(records[arch], repository) for arch in ORDER if arch in declared}
    unsealed = Joined(
        variant=variant,
        repository=repository.name,
        tag=first.tag,
        candidate=candidate_tag(_called(first), of),
        digest="",
        identity=of,
        pins=pins_digest(pins),
        dockerfile=first.dockerfile,
        locks={arch.platform: records[arch].lock for arch in found},
        epoch=first.epoch,
        unlocked=any(_unsettled(record, pins) for record in records.values()),
        platforms={
            arch.platform: Part(
                digest=records[arch].digest, manifest=found[arch][0].digest, config=records[arch].config
            )
            for arch in found
        },
        resolved=first.resolved,
    )
    content = index_bytes(
        {arch: image for arch, (image, _) in found.items()},
        {arch: attested for arch, (_, attested) in found.items()},
        notes_of(unsealed),
    )
    _put(repository, unsealed.candidate, content, INDEX)
    return msgspec.structs.replace(unsealed, digest=digest_of(content))


def notes_of(joined: Joined) -> dict[str, str]:
    """Return the annotations that the index of what was joined has."""
    return {
        NOTE_VARIANT: joined.variant,
        NOTE_IDENTITY: joined.identity,
        NOTE_EPOCH: str(joined.epoch),
        NOTE_JOINED: joined.seal,
    }


def write_joined(path: Path, joined: Joined) -> None:
    """Write what was joined, whole or not at all."""
    write_json(path, joined)


def load_joined(path: Path, variant: str) -> Joined:
    """Return what was joined; raises PublishRefused where nothing was, BadInput for a file that is something else."""
    do = f"invoke manifest --variant {variant}"
    try:
        joined = read_json_file(path, Joined, what="what `invoke manifest` wrote", do=do)
    except FileNotFoundError:
        raise PublishRefused(f"{variant}: not joined yet", wanted="an index of its images", do=do) from None
    if joined.variant != variant:
        raise BadInput(f"{path}: what was joined of {joined.variant}", wanted=f"of {variant}", do=do)
    return joined


def _resolved(record: Record) -> Variant:
    try:
        return msgspec.convert(record.resolved, Variant)
    except msgspec.ValidationError as error:
        raise BadInput(
            f"the record of {record.variant} {record.arch.value} does not hold the pins of a variant: {error}",
            wanted="a record that `invoke build` wrote, as this version of it does",
            do=build_again(record.variant, [record.arch], [record]),
        ) from None


def _unsettled(record: Record, pins: Variant) -> bool:
    """Say whether a build took something as it was on its day: packages, refs, or a base whose digest is not known."""
    moving_base = "cann" in record.contexts and not ImageRef.parse(pins.base_reference).digest
    return bool(record.unlocked or record.incomplete or record.not_locked or moving_base)


def _called(record: Record) -> str:
    """Return what a candidate is called besides its identity: as it was pushed, `-sandbox` behind it for stand-ins."""
    pushed = parse_candidate(ImageRef.parse(record.image).tag or "")
    return pushed.variant if pushed else record.variant


def _require_tags_of_their_own(variant: str, records: Sequence[Record]) -> None:
    """Raise PublishRefused where the images do not each have a tag that is neither another's nor the readable one."""
    owners: dict[str, Arch] = {}
    for record in records:
        reference = ImageRef.parse(record.image)
        if reference.name != ImageRef.parse(records[0].image).name:
            raise PublishRefused(
                f"{variant}: pushed to {records[0].image} and {record.image}", wanted="one repository for both"
            )
        if reference.tag in (None, record.tag) or record.image in owners:
            others = [owners[record.image], record.arch] if record.image in owners else [record.arch]
            raise PublishRefused(
                f"{variant}: {_platforms(others)} pushed as {record.image}: the last one would win",
                wanted="a tag of its own for each architecture",
            )
        owners[record.image] = record.arch


def _require_pinned_base(record: Record, pins: Variant) -> None:
    """Raise PublishRefused where another base took the place of the one whose digest is among the pins."""
    pinned = ImageRef.parse(pins.base_reference).digest
    # Where none is pinned, what was joined is not locked.
    if pinned is None or "cann" not in record.contexts or is_stand_in(record.tag, record.resolved):
        return
    if not record.base.endswith(f"@{pinned}"):
        raise PublishRefused(
            f"{record.variant} {record.arch.value}: built on {record.base}, and its pins say {pinned}",
            wanted=f"{pins.base_reference}, or that digest from another place",
            do=f"name the digest (--base-image NAME:TAG@{pinned}), or leave --base-image out",
        )


def _require_same_pins(variant: str, records: Sequence[Record]) -> None:
    """Raise PublishRefused where two records are not of the same pins, rendered file, tag and day of pins."""
    first = records[0]
    for other in records[1:]:
        pairs = {
            "pins": (identity(first.resolved), identity(other.resolved)),
            "rendered files": (first.dockerfile, other.dockerfile),
            "tags": (first.tag, other.tag),
            # The time of the last commit that changed versions.toml or a lock.
            "commits of the pins (SOURCE_DATE_EPOCH)": (str(first.epoch), str(other.epoch)),
        }
        different = [f"{what}: {one} and {two}" for what, (one, two) in pairs.items() if one != two]
        if different:
            arches = [first.arch, other.arch]
            raise PublishRefused(
                f"{variant}: {_platforms(arches)} were built from different {'; '.join(different)}",
                wanted="both built from one commit",
                do=build_again(variant, arches, records),
            )


def _image(record: Record, repository: Repository) -> tuple[Descriptor, tuple[Descriptor, ...]]:
    """Return the one image in what was pushed, and its attestations; raises PublishRefused."""
    subject = f"{repository.name}@{record.digest}"
    if not is_digest(record.digest):
        raise PublishRefused(f"{subject}: not a digest", wanted="what was pushed, by its digest")
    stored = repository.manifest(record.digest)
    if stored is None:
        raise _gone(record, record.digest, repository)
    if stored.media_type in INDEX_TYPES:
        index = parse_index(stored.content, subject)
        images = images_of(index, subject)
        if set(images) != {record.arch}:
            raise PublishRefused(
                f"{subject}: holds images for {_platforms(list(images)) or 'no platform'}",
                wanted=f"one image for {record.arch.platform}",
            )
        image = images[record.arch]
        attested = attestations_of(index, image.digest)
    else:
        media_type = stored.media_type
        image = Descriptor(media_type=media_type, digest=stored.digest, size=len(stored.content))
        attested = ()
    _require_image(record, image, repository)
    return image, attested


def _require_image(record: Record, image: Descriptor, repository: Repository) -> None:
    """Raise PublishRefused unless the image is there, is the recorded one, and says its architecture itself."""
    subject = f"{repository.name}@{image.digest}"
    if image.media_type not in MANIFEST_TYPES:
        raise PublishRefused(f"{subject}: of the type {image.media_type}", wanted="the manifest of an image")
    if image.digest != record.manifest:
        raise PublishRefused(f"{subject}: not the manifest in its record", wanted=record.manifest)
    stored = repository.manifest(image.digest)
    if stored is None:
        raise _gone(record, image.digest, repository)
    config = parse_manifest(stored.content, subject).config
    content = repository.blob(config.digest)
    if content is None:
        raise _gone(record, config.digest, repository)
    try:
        platform = read_json(content, Platform)
    except NotJsonError:
        platform = Platform()
    if platform.arch is not record.arch or config.digest != record.config:
        said = "/".join(filter(None, (platform.os, platform.architecture, platform.variant))) or "no platform"
        raise PublishRefused(
            f"{subject}: its configuration {config.digest} says {said}",
            wanted=f"{record.config} and {record.arch.platform}, as recorded",
        )


def _put(repository: Repository, tag: str, content: bytes, media_type: str) -> None:
    """Put a manifest under a candidate's tag, unless it is there."""
    if parse_candidate(tag) is None:
        raise BadInput(f"{tag} is not the tag of a candidate")
    found = repository.manifest(tag)
    if found is None or found.digest != digest_of(content):
        repository.put(tag, content, media_type)


def _gone(record: Record, digest: str, repository: Repository) -> PublishRefused:
    return PublishRefused(
        f"{record.variant} {record.arch.value}: {repository.name}@{digest} is not in the registry any more",
        wanted=f"the recorded digest of {record.arch.platform}",
        do=build_again(record.variant, [record.arch], [record]),
    )


def _platforms(arches: Sequence[Arch]) -> str:
    return " and ".join(arch.platform for arch in arches)
