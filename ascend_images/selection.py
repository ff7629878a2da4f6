"""Which variants a command line means, and where their files lie.

What versions.toml says lies in the tree: versions.lock, `dockerfiles/rendered` and `locks`. Variants changed by `--set`
or another base image get theirs below `build/`, so that what is committed always answers versions.toml.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ascend_images.errors import BadInput
from ascend_images.pins.load import load
from ascend_images.pins.model import Pins
from ascend_images.pins.questions import Unanswered, check
from ascend_images.pins.resolve import resolve, resolve_all, variant_name
from ascend_images.pins.tags import BaseTag, ImageRef
from ascend_images.pins.variant import Variant
from ascend_images.pins.versions_lock import FILE, VersionsLock

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
    more: VersionsLock = field(default_factory=VersionsLock)
    """What was learned for changed pins, which counts before versions.lock."""

    @property
    def locked(self) -> VersionsLock:
        """What the names of the chosen variants mean."""
        return self.pins.locked.having(*self.more.entries)

    @property
    def output(self) -> Path:
        """The folder below which versions.lock, `dockerfiles/rendered` and `locks` lie."""
        return output_folder(self.root, changed=self.changed)

    @property
    def locks(self) -> Path:
        """The folder of the package locks."""
        return self.output / "locks"

    @property
    def everything(self) -> bool:
        """Whether these are all the variants of versions.toml, as it says them."""
        return not self.changed and len(self.variants) == len(self.pins.variant)

    def unanswered(self) -> tuple[Unanswered, ...]:
        """Return the pins of the chosen variants that versions.lock does not answer."""
        return check(self.locked, self.variants, others=resolve_all(self.pins, allow_broken=True))


def output_folder(root: Path, *, changed: bool) -> Path:
    """Return where files of variants lie: the project's root, or below it for changed pins."""
    return root / "build" if changed else root


def select(
    root: Path,
    names: Sequence[str] = (),
    *,
    everything: bool = False,
    sets: Sequence[str] = (),
    base_image: str = "",
    allow_broken: bool = False,
    to_be_locked: bool = False,
    anew: bool = False,
) -> Selection:
    """Return what was chosen: the named variants, or all; raises BadInput for choices that do not go together.

    `to_be_locked`: a ref that versions.lock does not know yet is no fault; `anew`: nor is a versions.lock that cannot
    be read.
    """
    pins = _pins(root, anew=anew)
    if everything and names:
        raise BadInput(f"--all and --variant {names[0]}", wanted="one of them")
    if not everything and not names:
        raise BadInput("no variant is named", wanted="--variant NAME, repeated at will, or --all", do="invoke variants")
    if everything and not sets and not base_image:
        variants = resolve_all(pins, allow_broken=allow_broken, to_be_locked=to_be_locked)
        return Selection(root=root, pins=pins, variants=variants)
    chosen = dict.fromkeys(variant_name(pins, name) for name in (names or pins.variant))
    if base_image and len(chosen) > 1:
        raise BadInput(f"--base-image {base_image} for {len(chosen)} variants", wanted="one --variant")
    same = base_image if base_image and _is_same_base(pins, next(iter(chosen)), sets, base_image) else ""
    other = base_image if base_image != same else ""
    changed = bool(sets or other)
    more = VersionsLock.load(output_folder(root, changed=True) / FILE) if changed else VersionsLock()
    meant = msgspec.structs.replace(pins, locked=pins.locked.having(*more.entries))
    variants = tuple(
        resolve(meant, name, sets, base_image=other, allow_broken=allow_broken, to_be_locked=to_be_locked)
        for name in chosen
    )
    return Selection(root=root, pins=pins, variants=variants, changed=changed, base_image=same, more=more)


def _pins(root: Path, *, anew: bool) -> Pins:
    try:
        return load(root / PINS_FILE)
    except BadInput:
        if not anew:
            raise
    return load(root / PINS_FILE, locked=False)


def _is_same_base(pins: Pins, name: str, sets: Sequence[str], base_image: str) -> bool:
    """Return whether an image is the pinned base from another place, as far as its tag tells."""
    reference = ImageRef.parse(base_image).require_tag()
    pinned = ImageRef.parse(resolve(pins, name, sets, allow_broken=True).base_image)
    try:
        found, wanted = BaseTag.parse(reference.tag or ""), BaseTag.parse(pinned.tag or "")
    except BadInput:
        return True  # a name of somebody's own: the image's own check tells what it holds
    return str(found).lower().removesuffix("-devel") == str(wanted).lower().removesuffix("-devel")
