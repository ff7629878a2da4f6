"""The vendors' compatibility tables, read once from compat.toml beside this module."""

import functools
from pathlib import Path

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from ascend_images.pins.model import ArchName
from ascend_images.pins.table import Table


class Companions(Table, frozen=True, kw_only=True):
    """What is built against one torch."""

    torchvision: str
    torchaudio: str = ""


class VllmAscendRow(Table, frozen=True, kw_only=True):
    """What one release of vLLM Ascend is made for; `torch_npu` is the full version."""

    vllm: str
    python: str
    cann: str
    torch_npu: str
    triton_ascend: str = ""
    cann_by_chip: dict[str, str] = msgspec.field(default_factory=dict)
    """Another CANN for a chip, by CANN's word for it."""


class MindSpeedRow(Table, frozen=True, kw_only=True):
    """What one release of MindSpeed is recommended with."""

    cann: str
    torch: str
    python: str


class NumpyRange(Table, frozen=True, kw_only=True):
    """The numpy that some series of CANN take; an empty range means any. `python` narrows it to some Pythons."""

    series: tuple[str, ...]
    range: str
    python: str = ""


class Libraries(Table, frozen=True, kw_only=True):
    """The newest symbol versions of an operating system's C and C++ libraries."""

    glibc: str
    glibcxx: str


class Abi(Table, frozen=True, kw_only=True):
    """The symbol versions that the binaries of some versions of a package ask for."""

    package: str
    versions: str = ""
    glibc: str = ""
    glibcxx: str = ""


class BridgeRange(Table, frozen=True, kw_only=True):
    """The megatron-core that a range of mcore-bridge takes."""

    bridge: str
    megatron: str


class Refusal(Table, frozen=True, kw_only=True):
    """The range of another package, `needs`, outside which some versions of a package refuse to be imported."""

    package: str
    versions: str
    needs: str
    range: str


class MissingWheels(Table, frozen=True, kw_only=True):
    """Releases that have no wheel for some Pythons, on one architecture or, without `arch`, on both."""

    package: str
    versions: tuple[str, ...]
    python: str
    arch: ArchName | None = None


class Compat(Table, frozen=True, kw_only=True):
    """compat.toml: `sources` says where each table was read."""

    sources: dict[str, str]
    torch_npu: dict[str, str]
    torch: dict[str, Companions]
    vllm_ascend: dict[str, VllmAscendRow]
    mindspeed: dict[str, MindSpeedRow]
    numpy: tuple[NumpyRange, ...]
    os: dict[str, Libraries]
    abi: tuple[Abi, ...]
    mcore_bridge: tuple[BridgeRange, ...]
    imports: tuple[Refusal, ...]
    wheels: tuple[MissingWheels, ...]
    triton_importers: tuple[str, ...]


@functools.cache
def compat() -> Compat:
    """Return the tables."""
    return msgspec.toml.decode((Path(__file__).parent / "compat.toml").read_bytes(), type=Compat)


@functools.lru_cache(maxsize=4096)
def version(text: str) -> Version | None:
    """Return a PEP 440 version, or None for text that is none."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


@functools.lru_cache(maxsize=1024)
def fits(text: str, specifier: str) -> bool:
    """Return whether a version, pre-releases included, is in the range of a specifier."""
    return SpecifierSet(specifier).contains(text, prereleases=True)


def base_version(text: str) -> str:
    """Return a version without its post, pre and local parts: torch's for `2.10.0.post4`."""
    parsed = version(text)
    return parsed.base_version if parsed else text
