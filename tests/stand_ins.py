"""What the sandbox built an image of, for tests that hold the image against it."""

from collections.abc import Mapping
from pathlib import Path

from ascend_images.pins.lockfile import LockFile, file_name
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant
from ascend_images.sandbox.standins import prepare

ROOT = Path(__file__).parents[1]


def stand_ins(variant: Variant, arch: Arch) -> Mapping[str, str]:
    """Return the contexts that the sandbox builds a variant with, by its committed lock."""
    path = ROOT / "locks" / file_name(variant.name, arch)
    return prepare(variant, arch, LockFile.load(path) if path.is_file() else None)
