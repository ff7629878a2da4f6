"""OCI image indexes: one image for each platform, in a fixed order; the same parts always give the same bytes."""

from collections.abc import Mapping

import msgspec

from ascend_images.digest import Digest
from ascend_images.errors import BadInput, PublishRefused
from ascend_images.images.candidate import LABEL_IDENTITY
from ascend_images.images.epoch import EPOCH
from ascend_images.json_text import NotJsonError, read_json
from ascend_images.pins.platform import Arch, parse_platform
from ascend_images.publish.registry import INDEX

#: The order of platforms in every index.
ORDER = (Arch.AMD64, Arch.ARM64)

#: Annotations of an index: which variant and pins it was joined for, and the time that orders it among others.
NOTE_VARIANT = "io.ascend-images.variant"
NOTE_IDENTITY = LABEL_IDENTITY
NOTE_EPOCH = "io.ascend-images.epoch"
#: And the digest of all that the joining put on record, but for the digest of the index itself.
NOTE_JOINED = "io.ascend-images.joined"

# How BuildKit marks what it attests of an image: an entry of no platform that names the image's manifest.
_REFERENCE_TYPE = "vnd.docker.reference.type"
_REFERENCE_DIGEST = "vnd.docker.reference.digest"
_ATTESTATION = "attestation-manifest"


class Platform(msgspec.Struct, frozen=True, omit_defaults=True):
    """A platform as indexes and configurations write it; keys that decide nothing here are not kept."""

    architecture: str = ""
    os: str = ""
    variant: str = ""

    @property
    def arch(self) -> Arch | None:
        """The architecture, None for a platform that no Ascend image exists for."""
        try:
            return parse_platform("/".join(filter(None, (self.os, self.architecture, self.variant))))
        except BadInput:
            return None


class Descriptor(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    """One entry of an index, or a part of a manifest: a digest, its type and its size in bytes."""

    media_type: str
    digest: Digest
    size: int
    platform: Platform | None = None
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class Index(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """An image index."""

    schema_version: int = 2
    media_type: str = INDEX
    manifests: tuple[Descriptor, ...] = ()
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class Manifest(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The manifest of one image: its configuration and its layers."""

    config: Descriptor
    layers: tuple[Descriptor, ...] = ()


def parse_index(content: bytes, subject: str) -> Index:
    """Read an index; raises PublishRefused, naming `subject`, for bytes that are none."""
    try:
        return read_json(content, Index)
    except NotJsonError as error:
        raise PublishRefused(f"{subject}: not an image index: {error}", wanted="an index of images") from None


def parse_manifest(content: bytes, subject: str) -> Manifest:
    """Read a manifest; raises PublishRefused, naming `subject`, for bytes that are none."""
    try:
        return read_json(content, Manifest)
    except NotJsonError as error:
        raise PublishRefused(f"{subject}: not the manifest of an image: {error}", wanted="one image") from None


def epoch_of(index: Index) -> int | None:
    """Return the time that orders an index among others, in seconds; None where it tells none."""
    text = index.annotations.get(NOTE_EPOCH, "")
    return int(text) if EPOCH.fullmatch(text) else None


def images_of(index: Index, subject: str) -> dict[Arch, Descriptor]:
    """Return the image of each platform; raises PublishRefused for two of one platform. Attestations are no images."""
    images: dict[Arch, Descriptor] = {}
    for entry in index.manifests:
        arch = entry.platform.arch if entry.platform else None
        if arch is None:
            continue
        if arch in images:
            raise PublishRefused(
                f"{subject}: two images for {arch.platform}: {images[arch].digest} and {entry.digest}",
                wanted="exactly one for each platform",
            )
        images[arch] = entry
    return images


def attestations_of(index: Index, manifest: str) -> tuple[Descriptor, ...]:
    """Return what an index holds of attestations of one image, by the digest of the image's manifest."""
    return tuple(
        entry
        for entry in index.manifests
        if entry.annotations.get(_REFERENCE_TYPE) == _ATTESTATION
        and entry.annotations.get(_REFERENCE_DIGEST) == manifest
    )


def index_bytes(
    images: Mapping[Arch, Descriptor], attestations: Mapping[Arch, tuple[Descriptor, ...]], notes: Mapping[str, str]
) -> bytes:
    """Return the index of these images, then of what is attested of them, both in the order of platforms."""
    arches = [arch for arch in ORDER if arch in images]
    ours = [
        Descriptor(
            media_type=images[arch].media_type,
            digest=images[arch].digest,
            size=images[arch].size,
            platform=Platform(architecture=arch.value, os="linux"),
        )
        for arch in arches
    ]
    attested = [_in_order(entry) for arch in arches for entry in attestations.get(arch, ())]
    index = Index(manifests=(*ours, *attested), annotations=dict(sorted(notes.items())))
    return msgspec.json.encode(index)


def _in_order(entry: Descriptor) -> Descriptor:
    return msgspec.structs.replace(entry, annotations=dict(sorted(entry.annotations.items())))
