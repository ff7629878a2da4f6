"""Which name an image gets and whether it may be pushed under it: a pinned name never stands for anything else."""

import ipaddress
from collections.abc import Container, Iterable, Mapping
from typing import Any

from ascend_images.errors import PublishRefused
from ascend_images.pins.platform import Arch
from ascend_images.pins.tags import ImageRef, arch_tag
from ascend_images.pins.variant import Variant

#: What stands behind the tag of an image that was built from stand-ins.
SANDBOX = "-sandbox"
#: What stands behind the tag of an image of other pins, or with a local checkout, whose name would be a pinned one.
CHANGED = "-changed"


def tag_suffix(variant: Variant, *, sandbox: bool, changed: bool, pinned: Container[str]) -> str:
    """Return what the tag of an image of `variant` gets besides: nothing where its name says what it is.

    `changed` says that it is not what versions.toml says; `pinned` are the names of images that are.
    """
    if sandbox:
        return SANDBOX
    return CHANGED if changed and f"{variant.repository}:{variant.tag}" in pinned else ""


def is_stand_in(tag: str, pins: Mapping[str, Any]) -> bool:
    """Say whether an image was built from stand-ins, by its tag and the one among its pins, whatever that ends in."""
    return tag == f"{pins.get('tag')}{SANDBOX}"


def image_name(variant: Variant, suffix: str, arch: Arch) -> str:
    """Return the full name of an image for one architecture; raises BadInput for a tag that is too long."""
    return f"{variant.repository}:{arch_tag(variant.tag + suffix, arch)}"


def require_publishable(variant: Variant, suffix: str, *, dirty: Iterable[str] = ()) -> None:
    """Raise PublishRefused for stand-ins, unless the registry is this machine's own, and for a pinned name.

    `dirty` are the sources whose local checkout holds more than its commit: an image in a registry is known by its
    pins, of which that is none.
    """
    if suffix == SANDBOX and not is_loopback(variant.repository):
        raise PublishRefused(
            f"--push with --sandbox: an image of stand-ins would go to {variant.repository}",
            wanted="a registry on this machine's loopback for stand-ins, or no --push",
            do="--set repository=localhost:5000/NAME",
        )
    if suffix == CHANGED:
        raise PublishRefused(
            f"--push: {variant.repository}:{variant.tag} is the name of what versions.toml says, and this is not that: "
            "the command line changed it (--set, --base-image or --source)",
            wanted="a tag or a repository of its own for what is changed",
            do=f'--set "tag={variant.tag_template}-NAME", or --set repository=REGISTRY/NAME',
        )
    names = ", ".join(dirty)
    if names:
        raise PublishRefused(
            f"--push: the checkout of {names} holds more than its commit, which no name could tell from others",
            wanted="what is committed: a pushed image is known by its pins and commits",
            do="commit it there, or leave --push out",
        )


def is_loopback(repository: str) -> bool:
    """Say whether a repository's registry is this machine's own: localhost, 127.0.0.0/8 or ::1, with a port or not."""
    registry = ImageRef.parse(repository).registry
    host = registry[1:].partition("]")[0] if registry.startswith("[") else registry.partition(":")[0]
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
