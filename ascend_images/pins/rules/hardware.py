"""Rules of chips and of the base images made for them."""

import fnmatch
from collections.abc import Iterator
from functools import lru_cache

from ascend_images.pins.rules.rule import Asked, Problem, Rule
from ascend_images.pins.tags import BaseTag, ImageRef


def _soc_of_hardware(asked: Asked) -> Iterator[Problem]:
    variant = asked.variant
    known = tuple(dict.fromkeys((variant.chip.soc_version, *variant.chip.soc_versions)))
    if not any(fnmatch.fnmatchcase(variant.soc_version, pattern.lower()) for pattern in known):
        owner = next(
            (
                f" (of {hardware.name})"
                for hardware in asked.pins.hardware.values()
                if any(fnmatch.fnmatchcase(variant.soc_version, p.lower()) for p in hardware.soc_versions)
            ),
            "",
        )
        yield Problem(f"SoC {variant.soc_version}{owner} on {variant.chip.name}", f"one of {', '.join(known)}")


def _first_generation(asked: Asked) -> Iterator[Problem]:
    variant = asked.variant
    if variant.chip.cann_tag == "910" and ("vllm-ascend" in asked.sources or asked.package("vllm-ascend")):
        yield Problem(
            f"{variant.chip.name} has CANN's tag 910, the first generation, which vLLM Ascend does not support",
            "cann_tag 910b where an A2 is meant, or a stack without vllm-ascend",
        )


def _chip_of_base(asked: Asked) -> Iterator[Problem]:
    variant = asked.variant
    chip = _base_tag(variant.base_image).chip
    if chip.lower() != variant.chip.cann_tag:
        first = " (910 is the first generation, not A2)" if chip == "910" else ""
        yield Problem(
            f"the base image {variant.base_image} is for {chip}{first}, "
            f"and SoC {variant.soc_version} is of {variant.chip.cann_tag}",
            f"a base image of {variant.chip.cann_tag}",
        )


def _base_is_offered(asked: Asked) -> Iterator[Problem]:
    variant = asked.variant
    release = asked.pins.cann[variant.base_cann]
    chip = variant.chip.cann_tag
    if any(chip in b.chips and variant.os in b.os and variant.python in b.python for b in release.bases):
        return
    what = f"CANN {variant.base_cann} for {chip} on {variant.os} with Python {variant.python}"
    offered = sorted({f"{o} py{p}" for b in release.bases if chip in b.chips for o in b.os for p in b.python})
    if release.complete:
        yield Problem(
            f"there is no base image of {what}", f"one of {', '.join(offered)}" if offered else "another release"
        )
    else:
        yield Problem(f"whether there is a base image of {what} is not known", unknown=True)


def _triton_on_hardware(asked: Asked) -> Iterator[Problem]:
    chip = asked.variant.chip
    if chip.triton:
        return
    if asked.package("triton-ascend"):
        yield Problem(
            f"triton-ascend {asked.package('triton-ascend')} on {chip.name}, which it does not support",
            "a stack without triton-ascend",
        )
    for name in asked.tables.triton_importers:
        if asked.package(name) or name in asked.sources:
            yield Problem(f"{name} imports triton, which does not run on {chip.name}", f"a stack without {name}")


@lru_cache(maxsize=1024)
def _base_tag(image: str) -> BaseTag:
    return BaseTag.parse(ImageRef.parse(image).tag or "")


RULES = (
    Rule("soc-hardware", "code is compiled for one family of chips", _soc_of_hardware),
    Rule("first-generation", "CANN's tag 910 is the first generation, not the A2", _first_generation),
    Rule("base-chip", "the base image holds one chip's operators", _chip_of_base),
    Rule("base-offered", "base images exist for some chips, systems and Pythons", _base_is_offered),
    Rule("triton-hardware", "triton-ascend supports some families", _triton_on_hardware),
)
