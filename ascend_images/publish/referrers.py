"""What is attached to an image: manifests that name it as their subject, listed by the registry or under a tag.

By the OCI specifications 1.1: image-spec manifest.md (`subject`, "Guidelines for Artifact Usage") and
distribution-spec "Pushing Manifests with Subject". A registry that does not list them gets the list as an index
under the tag `sha256-<hex>` of the subject, kept by whoever attaches.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from ascend_images.digest import digest_of, is_digest
from ascend_images.errors import PublishRefused
from ascend_images.json_text import NotJsonError, read_json
from ascend_images.publish.registry import INDEX, MANIFEST, Repository, Stored

# The configuration of what has none (image-spec, "Guidance for an Empty Descriptor").
_EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
_EMPTY = b"{}"
_ATTEMPTS = 3


class _List(msgspec.Struct):
    manifests: list[dict[str, Any]]


def attach(
    repository: Repository, subject: Stored, content: bytes, media_type: str, *, title: str, notes: Mapping[str, str]
) -> str:
    """Attach a file to an image that is there; return the attachment's digest.

    `title` is the file's name for whoever fetches it, `notes` are annotations. The same file with the same of these is
    attached once. Raises as `Repository` does, and PublishRefused where the tag of the list holds something else, or
    somebody else goes on writing it.
    """
    config = _part(_EMPTY_TYPE, _EMPTY)
    layer = {**_part(media_type, content), "annotations": {"org.opencontainers.image.title": title}}
    common = {"mediaType": MANIFEST, "artifactType": media_type, "annotations": dict(notes)}
    about = {"mediaType": subject.media_type, "digest": subject.digest, "size": len(subject.content)}
    manifest = _json({**common, "schemaVersion": 2, "config": config, "layers": [layer], "subject": about})
    for blob in (_EMPTY, content):
        repository.put_blob(blob)
    digest = digest_of(manifest)
    repository.put(digest, manifest, MANIFEST)
    if repository.referrers(subject.digest) is None:
        _list_under_tag(repository, subject.digest, {**common, **_part(MANIFEST, manifest)})
    return digest


def attached(repository: Repository, digest: str, media_type: str = "") -> tuple[str, ...]:
    """Return the digests of what is attached to an image, of one media type or all; raises as `attach` does."""
    content = repository.referrers(digest)
    if content is None:
        entries = _listed(repository, tag_of(digest))
    else:
        entries = _entries(content, f"{repository.name}: what refers to {digest}")
    return tuple(one["digest"] for one in entries if media_type in ("", one.get("artifactType")))


def tag_of(digest: str) -> str:
    """Return the tag that lists what is attached to a digest, where the registry does not."""
    return digest.replace(":", "-", 1)


def _list_under_tag(repository: Repository, digest: str, entry: Mapping[str, Any]) -> None:
    """Add an entry to the list under the tag, and read it back: a tag has no compare-and-swap."""
    tag = tag_of(digest)
    for _ in range(_ATTEMPTS):
        entries = _listed(repository, tag)
        if any(one.get("digest") == entry["digest"] for one in entries):
            return
        repository.put(tag, _index([*entries, entry]), INDEX)
    if not any(one.get("digest") == entry["digest"] for one in _listed(repository, tag)):
        raise PublishRefused(
            f"{repository.name}:{tag} does not hold what was just written there",
            wanted="nobody else who attaches to the same image at the same time",
            do="the same command again",
        )


def _listed(repository: Repository, tag: str) -> list[dict[str, Any]]:
    stored = repository.manifest(tag)
    return _entries(stored.content, f"{repository.name}:{tag}") if stored is not None else []


def _entries(content: bytes, subject: str) -> list[dict[str, Any]]:
    """Return the entries of an index word for word: what others attached stays as it is.

    What is attached may be deleted by its digest: one that is none would be an address of something else.
    """
    try:
        entries = read_json(content, _List).manifests
    except NotJsonError:
        entries = [{}]
    if all(is_digest(str(entry.get("digest"))) for entry in entries):
        return entries
    raise PublishRefused(f"{subject}: not an index of attachments", wanted="an OCI image index, or nothing")


def _index(entries: list[Any]) -> bytes:
    ordered = sorted(entries, key=lambda entry: str(entry["digest"]))
    return _json({"schemaVersion": 2, "mediaType": INDEX, "manifests": ordered})


def _part(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest_of(content), "size": len(content)}


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
