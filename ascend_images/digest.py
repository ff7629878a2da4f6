"""Digests as registries and locks write them."""

import hashlib


def digest_of(content: bytes) -> str:
    """Return `sha256:…` over bytes, as the OCI image specification writes a digest."""
    return "sha256:" + hashlib.sha256(content).hexdigest()
