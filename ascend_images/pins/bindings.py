"""Which pinned package comes from which index: the one answer for locks and for what is rendered."""

import functools
from dataclasses import dataclass

from packaging.markers import Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from ascend_images.errors import BadInput
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant


@dataclass(frozen=True, kw_only=True)
class Binding:
    """A package, by its normalised name, that an index serves for some architectures of a variant."""

    package: str
    index: str
    arches: tuple[Arch, ...]


def bindings(variant: Variant) -> tuple[Binding, ...]:
    """Return which pinned package comes from which index; all others come from the default one.

    Raises BadInput for an entry that is no requirement, and for two indexes that serve one package.
    """
    found: list[Binding] = []
    for package in variant.packages:
        name = canonicalize_name(package)
        servers: dict[Arch, str] = {}
        for arch in variant.platforms:
            for index, entry in variant.indexes.items():
                if not any(
                    _serves(text, name, variant.pin(package, arch), variant.python, arch) for text in entry.serves
                ):
                    continue
                if arch in servers:
                    raise BadInput(
                        f"indexes {servers[arch]} and {index} both serve {package} for {arch.value}",
                        wanted="one index for each package",
                        do=f"narrow index.{index}.serves in versions.toml",
                    )
                servers[arch] = index
        found += [
            Binding(package=str(name), index=index, arches=tuple(arch for arch in servers if servers[arch] == index))
            for index in dict.fromkeys(servers.values())
        ]
    return tuple(found)


def bound(variant: Variant, arch: Arch) -> dict[str, str]:
    """Return the name of the index of each package that does not come from the default one there."""
    return {binding.package: binding.index for binding in bindings(variant) if arch in binding.arches}


def range_served(text: str, name: str, python: str, arch: Arch) -> SpecifierSet | None:
    """Return which versions of a package, by its normalised name, an index's entry serves in an image.

    None where the entry is about another package or another image. Raises BadInput for an entry that is no requirement.
    """
    package, specifier, marker = _entry(text)
    return specifier if package == name and _applies(marker, python, arch) else None


@functools.lru_cache(maxsize=1024)
def _entry(text: str) -> tuple[str, SpecifierSet, Marker | None]:
    """Return the normalised name, the range and the marker of an index's entry; raises BadInput."""
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise BadInput(f'"{text}" is not what an index can serve: {error}', wanted="a requirement (PEP 508)") from None
    return canonicalize_name(requirement.name), requirement.specifier, requirement.marker


def _serves(text: str, name: str, pin: str, python: str, arch: Arch) -> bool:
    """Tell whether an index's entry is about a package at its pinned version."""
    served = range_served(text, name, python, arch)
    return served is not None and (not served or _within(served, pin))


def _within(specifier: SpecifierSet, pin: str) -> bool:
    """Tell whether a pinned version is in a range; of a pin that is a range itself that cannot be said."""
    try:
        return specifier.contains(Version(pin), prereleases=True)
    except InvalidVersion:
        return False


def _applies(marker: Marker | None, python: str, arch: Arch) -> bool:
    return marker is None or marker.evaluate(marker_environment(python, arch))


def marker_environment(python: str, arch: Arch) -> dict[str, str]:
    """Return the values of environment markers in an image; Python's patch release is taken as 0, as uv does."""
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "os_name": "posix",
        "platform_machine": arch.kernel,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
    }
