"""What several checks ask of packages: which are this project's, and which belong to torch."""

from __future__ import annotations

from ..answers import Given
from ..words import Facts, canonical


def ours(given: Given) -> set[str]:
    """Return the distributions that the pins, the lock and the sources brought; the others are the base image's."""
    locked = given.lock.packages if given.lock else {}
    return {*map(canonical, given.pins), *locked, *source_distributions(given)}


TORCH_FAMILY = ("torch", "torch_npu", "torchvision", "torchaudio")


def source_distributions(given: Given) -> dict[str, Facts]:
    """Return the sources that are installed as a distribution, by its normal name."""
    return {canonical(source.get("distribution") or source["name"]): source for source in given.sources}
