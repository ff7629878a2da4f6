"""Newer releases of packages: what the index of each image has for its Python and its architectures."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from ascend_images.lock.newer import LEAST, Found, Incomplete, Subject, newest_first, version_of
from ascend_images.lock.patience import in_parallel
from ascend_images.lock.release import IndexUnreachableError, Packages, Release
from ascend_images.lock.target import Target
from ascend_images.lock.way import default_place
from ascend_images.pins.bindings import range_served
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import TORCH_TRIO

#: How many releases are looked into for the Python that they ask for.
_LOOKED_INTO = 10
_CPU = "cpu"


class Releases(Packages, Protocol):
    """A package index that can be asked for every release of a package."""

    def every_release(self, name: str, index: str | None = None) -> tuple[Release, ...]:
        """Return every version of a package that the index has, in no order; raises IndexUnreachableError."""


def newer_releases(one: Subject, packages: Releases, addresses: Mapping[str, str]) -> Found:
    """Return the newer releases of a package: what each image's index has for its Python and architectures."""
    targets = dict.fromkeys(Target(arch, variant.python) for variant in one.variants for arch in variant.platforms)
    there: dict[Target, dict[Version, Release]] = {}
    unreached: dict[str, None] = {}
    for target in targets:
        releases, lost = _on_target(one, target, packages, addresses)
        unreached |= dict.fromkeys(lost)
        if not lost:
            there[target] = releases
    floor = _floor(one, there.values())
    every = {version for releases in there.values() for version in releases if version > floor}
    lacking: dict[Version, list[str]] = {}
    for version in every:
        lacks = [_named(target) for target, releases in there.items() if not _usable(releases.get(version), target)]
        if len(lacks) < len(there):
            lacking[version] = lacks
    complete = newest_first(version for version, lacks in lacking.items() if not lacks)
    look = _Python(there, packages)
    final = look.kept([version for version in complete if not version.is_prerelease])
    refused = dict(look.refused)
    pre = look.kept([version for version in complete if version.is_prerelease and _is_ahead(version, final)])
    partly = {version: lacks for version, lacks in lacking.items() if lacks and not version.is_prerelease} | refused
    return Found(
        subject=one,
        newer=tuple(map(str, final)),
        prereleases=tuple(map(str, pre)),
        incomplete=tuple(
            Incomplete(version=str(version), lacks=tuple(partly[version])) for version in newest_first(partly)
        ),
        unreached=(*unreached, *look.lost),
    )


def _reason(error: IndexUnreachableError) -> str:
    """Return why an index gave no answer, without the address of the package: one cause for all its packages."""
    text = str(error).partition(" for url: ")[0]
    refused = re.search(r"too many (\d+) error responses", text)
    return f"it answers {refused[1]}" if refused else text


def _is_ahead(version: Version, final: Sequence[Version]) -> bool:
    return not final or version > final[0]


def _on_target(
    one: Subject, target: Target, packages: Releases, addresses: Mapping[str, str]
) -> tuple[dict[Version, Release], list[str]]:
    """Return the releases that an installer would be given there, by public version, and the indexes that are lost."""
    name = str(canonicalize_name(one.name))
    indexes = one.variants[0].indexes
    ranges = {
        index: [served for text in entry.serves if (served := _served(text, name, target)) is not None]
        for index, entry in indexes.items()
    }
    serving = {index: served for index, served in ranges.items() if served}
    found: dict[Version, Release] = {}
    lost = []
    for index in (None, *serving):
        if index is None and any(not str(served) for every in serving.values() for served in every):
            continue  # all its versions come from elsewhere
        try:
            releases = packages.every_release(name, addresses[index] if index else None)
        except IndexUnreachableError as error:
            place = f'index "{index}" ({addresses[index]})' if index else default_place(addresses)
            # One cause for all its packages, whatever their addresses.
            lost.append(f"{place}: {_reason(error)}")
            continue
        for release in releases:
            version = version_of(release.version)
            if version is not None and _binding(serving, version) == index and _is_build(one, target, version):
                found[Version(version.public)] = release
    return found, lost


def _served(text: str, name: str, target: Target) -> SpecifierSet | None:
    return range_served(text, name, target.python, target.arch)


def _binding(serving: Mapping[str, Sequence[SpecifierSet]], version: Version) -> str | None:
    """Return the index that serves a version, None for the default one."""
    for index, ranges in serving.items():
        if any(served.contains(version, prereleases=True) for served in ranges):
            return index
    return None


def _is_build(one: Subject, target: Target, version: Version) -> bool:
    """Tell whether a release is the build of its version that is taken there: on x86_64 torch's CPU build."""
    wanted = _CPU if target.arch is Arch.AMD64 and canonicalize_name(one.name) in TORCH_TRIO else None
    return version.local == wanted


def _floor(one: Subject, there: Iterable[Mapping[Version, Release]]) -> Version:
    """Return the version that others are newer than: the current one, or the newest that a range takes."""
    current = version_of(one.current)
    if current is not None:
        return Version(current.public)
    try:
        taken = SpecifierSet(one.pinned)
    except InvalidSpecifier:
        return LEAST
    return max((version for releases in there for version in releases if version in taken), default=LEAST)


def _usable(release: Release | None, target: Target) -> bool:
    """Tell whether an installer finds a file there; what was taken back (yanked) is none."""
    if release is None:
        return False
    kept = tuple(file for file in release.files if not file.yanked)
    return bool(replace(release, files=kept).usable(target))


def _named(target: Target) -> str:
    return f"{target.arch.kernel} with Python {target.python}"


@dataclass
class _Python:
    """Looks into releases for the Python that they ask for: it stands in metadata, not in the names of all files."""

    there: Mapping[Target, Mapping[Version, Release]]
    packages: Packages
    refused: dict[Version, list[str]] = field(default_factory=dict)
    lost: dict[str, None] = field(default_factory=dict)

    def kept(self, versions: Sequence[Version]) -> list[Version]:
        """Return the versions from the first one on that is for every Python: older ones ask for less."""
        for number, version in enumerate(versions[:_LOOKED_INTO]):
            lacks = self._lacks(version)
            if not lacks:
                return list(versions[number:])
            self.refused[version] = lacks
        return []

    def _lacks(self, version: Version) -> list[str]:
        asked = in_parallel(
            lambda target: _asked_python(self.there[target][version], target, self.packages), self.there
        )
        self.lost |= dict.fromkeys(str(text) for text in asked.values() if isinstance(text, IndexUnreachableError))
        return [
            f"{_named(target)} (it asks for Python {text})"
            for target, text in asked.items()
            if isinstance(text, str) and not _takes(text, target.python)
        ]


def _asked_python(release: Release, target: Target, packages: Packages) -> str:
    kept = replace(release, files=tuple(file for file in release.files if not file.yanked))
    file = kept.best_wheel(target) or kept.sdist
    return packages.metadata(file).requires_python if file else ""


def _takes(specifier: str, python: str) -> bool:
    try:
        wanted = SpecifierSet(specifier)
    except InvalidSpecifier:
        return True
    # The newest patch release there will be: ">=3.12.2" is no reason to refuse Python 3.12.
    return any(wanted.contains(f"{python}.{patch}", prereleases=True) for patch in (0, 99))
