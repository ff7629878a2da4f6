"""Distributions at known versions: their files, what they ask for, and which of them no index could be asked about."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from ascend_images.errors import BadInput, LookupIncomplete
from ascend_images.lock.components import Asked
from ascend_images.lock.demands import parse_requirement
from ascend_images.lock.metadata import Metadata
from ascend_images.lock.patience import in_parallel
from ascend_images.lock.release import File, IndexUnreachableError, Packages, Release
from ascend_images.lock.way import default_place
from ascend_images.pins.addresses import masked
from ascend_images.pins.bindings import bound
from ascend_images.pins.lockfile import LockFile

OWN_METADATA = "its own metadata"
_NAMED = 6


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """One version of a distribution as far as it is known.

    `unreached` says, where it is not empty, which index could not be asked about it and why: then it has no files.
    """

    name: str
    version: str
    metadata: Metadata
    where: str = OWN_METADATA
    release: Release | None = None
    file: File | None = None
    unreached: str = ""

    @property
    def sdist(self) -> bool:
        """Whether an installer has to build it."""
        return self.file is not None and not self.file.wheel

    @property
    def certain(self) -> bool:
        """Whether its metadata says all that it asks for."""
        return self.metadata.known


@dataclass
class Distributions:
    """The distributions of one target; every answer is asked for once.

    `addresses` are those of the named indexes, and that of `default` where it is another than usual.
    """

    packages: Packages
    asked: Asked
    addresses: Mapping[str, str]

    @cached_property
    def bound(self) -> dict[str, str]:
        """The index of each package that does not come from the default one."""
        return bound(self.asked.variant, self.asked.target.arch)

    @cached_property
    def unreached(self) -> dict[str, str]:
        """Why an index cannot be asked, by its name, for those that are bound to a package."""
        first = {index: package for package, index in reversed(self.bound.items())}
        answers = in_parallel(lambda index: self.packages.probe(self.addresses[index], first[index]), first)
        return {index: str(answer) for index, answer in answers.items() if isinstance(answer, IndexUnreachableError)}

    def find(self, versions: Mapping[str, str]) -> tuple[dict[str, Distribution], tuple[BadInput, ...]]:
        """Return the distributions at these versions, by normalised name, and what is wrong with the others.

        Wrong is a version that no index has or that has no file for the target. Raises LookupIncomplete where an index
        gives no answer that has to be known.
        """
        answers = in_parallel(lambda name: self._outcome(name, versions[name]), versions)
        lost = {name: answer for name, answer in answers.items() if isinstance(answer, IndexUnreachableError)}
        if lost:
            places = " and ".join(dict.fromkeys(self._index(self.bound.get(name)) for name in lost))
            why = next(iter(lost.values()))
            raise LookupIncomplete(
                f"{places} gave no answer about {len(lost)} of {len(versions)} packages: {why}",
                do="try again when it answers",
            )
        found = {name: answer for name, answer in answers.items() if isinstance(answer, Distribution)}
        return found, tuple(answer for answer in answers.values() if isinstance(answer, BadInput))

    def sdists(self, lock: LockFile) -> dict[str, Distribution]:
        """Return the sdists of an earlier lock that are still to be had: what they ask for is read, not built.

        The resolver takes them for what they are, so that this changes how long it takes and not what it finds.
        """
        try:
            return self.find({name: lock.versions[name] for name in lock.sdists})[0]
        except LookupIncomplete:
            return {}

    def _outcome(self, name: str, version: str) -> Distribution | BadInput:
        """Return the distribution or what is wrong with it, so that all of them can be told at once."""
        try:
            return self._find(name, version)
        except BadInput as error:
            return error

    def _find(self, name: str, version: str) -> Distribution:
        index = self.bound.get(name)
        if index in self.unreached:
            return self._written_down(name, version, index or "")
        release = self._release(name, version, self.addresses[index] if index else None)
        if release is None:
            raise self._missing(name, version, index)
        file = self._file(release)
        if file is None:
            raise self._unfit(release)
        metadata = self.packages.metadata(file)
        _require_python(name, version, metadata, self.asked.target.python)
        return Distribution(name=name, version=version, metadata=metadata, release=release, file=file)

    def _release(self, name: str, version: str, index: str | None = None) -> Release | None:
        """Return a release; as it is now where it had no file for the target: each is published on its own."""
        release = self.packages.release(name, version, index)
        if release is None or self._file(release):
            return release
        return self.packages.renewed(name, version, index)

    def _file(self, release: Release) -> File | None:
        return release.best_wheel(self.asked.target) or release.sdist

    def _written_down(self, name: str, version: str, index: str) -> Distribution:
        """Return what is known of a distribution without its index: versions.toml's word, or that of its namesake."""
        why = f"{self._index(index)} could not be reached: {self.unreached[index]}"
        for entry in self.asked.variant.metadata:
            if canonicalize_name(entry.name) == name and Version(entry.version) == Version(version):
                place = f"versions.toml [[metadata]] {entry.name} {entry.version}"
                requires = tuple(parse_requirement(line, place) for line in entry.requires)
                return Distribution(name=name, version=version, metadata=Metadata(requires), where=place, unreached=why)
        namesake = self._namesake(name, version)
        if namesake is None:
            raise LookupIncomplete(
                f"{name}=={version}: {why}; and what it asks for is not written down",
                wanted="its Requires-Dist lines",
                do=f"run it where that index answers, or add [[metadata]] for {name} {version} to versions.toml",
            )
        return Distribution(
            name=name,
            version=version,
            metadata=Metadata(namesake, known=False),
            where=f"the metadata of {name} {Version(version).public}",
            unreached=why,
        )

    def _namesake(self, name: str, version: str) -> tuple[Requirement, ...] | None:
        """Return what the same version of the default index asks for, less what is never installed.

        A local version ("+cpu") is another build of the same release; what only the other build needs (CUDA) is
        excluded by the stack anyway.
        """
        public = Version(version).public
        release = self._release(name, public) if public != version else None
        file = release.best_wheel(self.asked.target) if release else None
        if file is None:
            return None
        excluded = self.asked.excluded
        return tuple(
            requirement
            for requirement in self.packages.metadata(file).requires
            if excluded(str(canonicalize_name(requirement.name))) is None
        )

    def _missing(self, name: str, version: str, index: str | None) -> BadInput:
        where = self._index(index)
        others = [f'"{other}" ({self.addresses[other]})' for other in self.asked.variant.indexes if other != index]
        serves = f"{name}=={version}"
        not_asked = f"; {' and '.join(others)} not, since they serve other packages" if others else ""
        return BadInput(
            f"no index has {serves}: {where} was asked{not_asked}",
            wanted="a version that there is, or the index that has it",
            do=f'mend the pin of {name}, or write "{serves}" into `serves` of its [index.…] table in versions.toml',
        )

    def _index(self, name: str | None) -> str:
        """Return what messages call an index, None for the default one."""
        return f'index "{name}" ({masked(self.addresses[name])})' if name else default_place(self.addresses)

    def _unfit(self, release: Release) -> BadInput:
        files = [file.filename for file in release.files]
        more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
        target = self.asked.target
        return BadInput(
            f"{release.name}=={release.version} has no file for Python {target.python} on {target.arch.kernel}: "
            + ", ".join(files[:_NAMED])
            + more,
            wanted=f"a wheel for cp{target.python.replace('.', '')} and {target.arch.kernel}, or an sdist",
            do=f"pin another version of {release.name}, or bind it to the index that has one (`serves` in [index.…])",
        )


def _require_python(name: str, version: str, metadata: Metadata, python: str) -> None:
    try:
        wanted = SpecifierSet(metadata.requires_python)
    except InvalidSpecifier:
        return
    # The newest patch release there will be: ">=3.12.2" is no reason to refuse Python 3.12.
    if not any(wanted.contains(f"{python}.{patch}", prereleases=True) for patch in (0, 99)):
        raise BadInput(
            f"{name}=={version} is not for Python {python}: it asks for Python {metadata.requires_python}",
            do=f"pin another version of {name}",
        )


def sdists_in(found: Iterable[Distribution]) -> tuple[Distribution, ...]:
    """Return those that have to be built."""
    return tuple(distribution for distribution in found if distribution.sdist)


def build_demands(
    found: Sequence[Distribution], has: Callable[[str], bool], asked: Asked
) -> dict[str, tuple[Requirement, ...]]:
    """Return what building the sdists among `found` takes beyond what the set `has`, by the sdist's name.

    What names a package of the set is met by the version that is there: the pins choose it.
    """
    lacking = {
        distribution.name: tuple(
            requirement
            for requirement in distribution.metadata.build
            if asked.target.holds(requirement.marker) and not has(str(canonicalize_name(requirement.name)))
        )
        for distribution in sdists_in(found)
    }
    return {name: requirements for name, requirements in lacking.items() if requirements}
