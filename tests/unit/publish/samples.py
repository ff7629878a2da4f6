"""Publications to list."""

from typing import Any

import msgspec

from ascend_images.digest import digest_of
from ascend_images.publish.published import Publication, facts_of
from tests.publish_kit import DOCKERFILE, EPOCH, REPOSITORY, variant


def publication(of: str = "a2", **changed: Any) -> Publication:
    one = variant(of)
    made = Publication(
        repository=REPOSITORY,
        tag=one.tag,
        aliases=("latest-ms-swift-910b-ubuntu",),
        digest=digest_of(of.encode()),
        variant=of,
        when="2026-11-30T12:00:00Z",
        commit="c" * 40,
        source="https://github.com/example/ascend-images",
        dockerfile=DOCKERFILE.replace("a2", of),
        identity=digest_of(b"identity"),
        pins=digest_of(b"pins"),
        epoch=EPOCH,
        platforms={"linux/amd64": digest_of(b"amd64"), "linux/arm64": digest_of(b"arm64")},
        checks={"linux/amd64": ("container",), "linux/arm64": ("container",)},
        waived={},
        facts=facts_of(one),
    )
    return msgspec.structs.replace(made, **changed)
