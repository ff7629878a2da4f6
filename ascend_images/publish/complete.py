"""Whether all that was joined is in the registry, and is what it was joined of by its own account.

What was joined is told by a file that goes from job to job; the index and the images in the registry tell it too.
"""

import msgspec

from ascend_images.errors import PublishRefused
from ascend_images.images.plan import LABEL_SANDBOX, LABEL_UNLOCKED
from ascend_images.images.publish import is_stand_in
from ascend_images.json_text import NotJsonError, read_json
from ascend_images.publish.index import NOTE_IDENTITY, Index, images_of, parse_index, parse_manifest
from ascend_images.publish.manifest import Joined, notes_of
from ascend_images.publish.registry import Repository, Stored


class _Settings(msgspec.Struct, rename="pascal"):
    labels: dict[str, str] | None = None


class _Config(msgspec.Struct):
    config: _Settings | None = None


def require_complete(joined: Joined, repository: Repository) -> Stored:
    """Return the index as the registry has it; raises PublishRefused unless all of what it leads to is there.

    Its annotations must be those of all that was joined, and the labels of its images must tell its pins.
    """
    subject = f"{repository.name}@{joined.digest}"
    stored = repository.manifest(joined.digest)
    if stored is None:
        raise _incomplete(joined, subject)
    index = parse_index(stored.content, subject)
    images = {arch.platform: entry.digest for arch, entry in images_of(index, subject).items()}
    wanted = {platform: part.manifest for platform, part in joined.platforms.items()}
    if images != wanted:
        raise PublishRefused(
            f"{subject}: holds {images}", wanted=str(wanted), do=f"invoke manifest --variant {joined.variant}"
        )
    _require_annotations(joined, index, subject)
    for entry in index.manifests:
        _require_image(joined, entry.digest, repository, is_image=entry.digest in images.values())
    return stored


def _require_annotations(joined: Joined, index: Index, subject: str) -> None:
    for name, wanted in notes_of(joined).items():
        found = index.annotations.get(name)
        if found != wanted:
            raise _other(joined, f"{subject}: its annotation {name} is {found or 'not there'}", wanted)


def _require_image(joined: Joined, digest: str, repository: Repository, *, is_image: bool) -> None:
    """Raise PublishRefused unless a manifest and its parts are there; the labels of an image are read, if it is one."""
    subject = f"{repository.name}@{digest}"
    manifest = repository.manifest(digest)
    if manifest is None:
        raise _incomplete(joined, subject)
    parts = parse_manifest(manifest.content, subject)
    if is_image:
        content = repository.blob(parts.config.digest)
        if content is None:
            raise _incomplete(joined, f"{repository.name}@{parts.config.digest}")
        _require_labels(joined, content, subject)
    for part in parts.layers if is_image else (parts.config, *parts.layers):
        if not repository.has_blob(part.digest):
            raise _incomplete(joined, f"{repository.name}@{part.digest}")


def _require_labels(joined: Joined, config: bytes, subject: str) -> None:
    labels = labels_of(config, subject)
    # What was built elsewhere than here need not have the label; the index says the same.
    found = labels.get(NOTE_IDENTITY, joined.identity)
    if found != joined.identity:
        raise _other(joined, f"{subject}: its label {NOTE_IDENTITY} is {found}", joined.identity)
    if is_stand_in(joined.tag, joined.resolved):
        return
    for label in (LABEL_UNLOCKED, LABEL_SANDBOX):
        if label in labels:
            raise _other(joined, f"{subject}: its label {label} is {labels[label]}", "an image without that label")


def labels_of(config: bytes, subject: str) -> dict[str, str]:
    """Return the labels in the configuration of an image; raises PublishRefused for bytes that are none."""
    try:
        settings = read_json(config, _Config).config
    except NotJsonError as error:
        raise PublishRefused(
            f"{subject}: its configuration cannot be read: {error}", wanted="that of an image"
        ) from None
    return (settings.labels if settings else None) or {}


def _other(joined: Joined, found: str, wanted: str) -> PublishRefused:
    return PublishRefused(found, wanted=wanted, do=f"invoke manifest --variant {joined.variant}")


def _incomplete(joined: Joined, what: str) -> PublishRefused:
    return PublishRefused(
        f"{joined.variant}: {what} is not in the registry any more",
        wanted=f"all of {joined.digest}",
        do=f"invoke build --variant {joined.variant} --push, then invoke manifest --variant {joined.variant}",
    )
