"""Candidates: images on their way, known by all of their pins, under tags that nobody takes for a release.

Some registries remove what has no tag within the hour, so each part of an image has one from the start
(vllm-project/vllm-ascend issue 10347).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ascend_images.digest import digest_of
from ascend_images.pins.platform import Arch, parse_arch
from ascend_images.pins.tags import arch_tag, fold_tag
from ascend_images.pins.variant import Variant

#: The label and annotation that hold an identity in full.
LABEL_IDENTITY = "io.ascend-images.identity"
PREFIX = "candidate-"
_DIGITS = 12
_TAG = re.compile(rf"{PREFIX}(?P<variant>.+)-(?P<identity>[0-9a-f]{{{_DIGITS}}})(?:-(?P<kernel>x86_64|aarch64))?")
# What the rules say of pins, and by what other names they are called, makes no other image.
_NO_PINS = ("aliases", "findings")


@dataclass(frozen=True)
class Candidate:
    """What a candidate's tag says: variant (folded as tags are), the first digits of its identity, its architecture."""

    variant: str
    identity: str
    arch: Arch | None


def identity(resolved: Mapping[str, Any] | Variant) -> str:
    """Return `sha256:…` over every pin of a resolved variant, be it one or the JSON of one in a record."""
    document = msgspec.to_builtins(resolved)
    pins = {key: value for key, value in document.items() if key not in _NO_PINS}
    return digest_of(msgspec.json.encode(pins, order="deterministic"))


def candidate_tag(variant: str, of: str, arch: Arch | None = None) -> str:
    """Return the tag of a candidate of an identity: for all architectures, or for one."""
    tag = fold_tag(f"{PREFIX}{variant}-{of.removeprefix('sha256:')[:_DIGITS]}")
    return arch_tag(tag, arch) if arch else tag


def parse_candidate(tag: str) -> Candidate | None:
    """Return what a candidate's tag says, None for any other tag."""
    found = _TAG.fullmatch(tag)
    if found is None:
        return None
    return Candidate(found["variant"], found["identity"], parse_arch(found["kernel"]) if found["kernel"] else None)
