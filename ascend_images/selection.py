"""Which variants a command line means, and where their files lie.

What versions.toml says lies in the tree: `dockerfiles/rendered` and `locks`. Variants changed by `--set` or another
base image get theirs below `build/`, so that what is committed always answers versions.toml.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ascend_images.errors import BadInput
from ascend_images.pins.load import load
from ascend_images.pins.model import Pins
from ascend_images.pins.resolve import resolve, resolve_all, variant_name
from ascend_images.pins.tags import BaseTag, ImageRef
from ascend_images.pins.variant import Variant

PINS_FILE = "versions.toml"


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The chosen variants; `changed` where the command line changed their pins."""

    root: Path
    pins: Pins
    variants: tuple[Variant, ...]
    changed: bool = False
    base_image: str = ""
    """A base image that replaces the pinned one without being another: the same release, chip, system and Python."""

    @property
    def output(self) -> Path:
        """The folder below which `dockerfiles/rendered` and `locks` lie."""
        return self.root / "build" if self.changed else self.root

    @property
    def locks(self) -> Path:
        """The folder of the package locks."""
        return self.output / "locks"


def select(
    root: Path,
    names: Sequence[str] = (),
    *,
    everything: bool = False,
    sets: Sequence[str] = (),
    base_image: str = "",
    allow_broken: bool = False,
) -> Selection:
    """Return what was chosen: the named variants, or all; raises BadInput for choices that do not go together."""
    pins = load(root / PINS_FILE)
    if everything and names:
        raise BadInput(f"--all and --variant {names[0]}", wanted="one of them")
    if not everything and not names:
        raise BadInput("no variant is named", wanted="--variant NAME, repeated at will, or --all", do="invoke variants")
    if everything and not sets and not base_image:
        return Selection(root=root, pins=pins, variants=resolve_all(pins, allow_broken=allow_broken))
    chosen = dict.fromkeys(variant_name(pins, name) for name in (names or pins.variant))
    if base_image and len(chosen) > 1:
        raise BadInput(f"--base-image {base_image} for {len(chosen)} variants", wanted="one --variant")
    same = base_image if base_image and _is_same_base(pins, next(iter(chosen)), sets, base_image) else ""
    other = base_image if base_image != same else ""
    variants = tuple(resolve(pins, name, sets, base_image=other, allow_broken=allow_broken) for name in chosen)
    return Selection(root=root, pins=pins, variants=variants, changed=bool(sets or other), base_image=same)


def _is_same_base(pins: Pins, name: str, sets: Sequence[str], base_image: str) -> bool:
    """Return whether an image is the pinned base from another place, as far as its tag tells."""
    reference = ImageRef.parse(base_image).require_tag()
    pinned = ImageRef.parse(resolve(pins, name, sets, allow_broken=True).base_image)
    try:
        found, wanted = BaseTag.parse(reference.tag or ""), BaseTag.parse(pinned.tag or "")
    except BadInput:
        return True  # a name of somebody's own: the image's own check tells what it holds
    return str(found).lower().removesuffix("-devel") == str(wanted).lower().removesuffix("-devel")
