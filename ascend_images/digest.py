"""Digests as registries and locks write them."""

import hashlib
import re
from typing import Annotated

from msgspec import Meta

#: The form of a digest by SHA-256, whole.
FORM = r"^sha256:[0-9a-f]{64}\Z"

#: The digest of something, in what is read from files and registries: it becomes part of addresses there.
Digest = Annotated[str, Meta(pattern=FORM)]
#: The same, or empty where there is none.
DigestIfAny = Annotated[str, Meta(pattern=rf"^\Z|{FORM}")]


def digest_of(content: bytes) -> str:
    """Return `sha256:…` over bytes, as the OCI image specification writes a digest."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def is_digest(text: str) -> bool:
    """Say whether a text is a digest as `digest_of` gives it."""
    return re.match(FORM, text) is not None
