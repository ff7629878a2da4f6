"""What an index has of a distribution: its releases, their files, and which of them an installer takes."""

from dataclasses import dataclass
from datetime import date
from typing import Protocol

from packaging.version import InvalidVersion, Version

from ascend_images.lock.metadata import Metadata
from ascend_images.lock.target import Target


class IndexUnreachableError(Exception):
    """An index gave no answer, or none that says whether a package is there."""


@dataclass(frozen=True)
class File:
    """A file of a release as the index lists it; `sha256` is empty and `published` (UTC) None where it does not say.

    `url` holds a login only where the index lists another one than its own: `Catalog` knows that.
    """

    filename: str
    url: str
    sha256: str
    wheel: bool
    has_metadata: bool = False
    yanked: bool = False
    published: date | None = None


@dataclass(frozen=True)
class Release:
    """One version of a distribution on one index."""

    name: str
    version: str
    files: tuple[File, ...] = ()

    @property
    def yanked(self) -> bool:
        """Whether its publisher took all of it back."""
        return bool(self.files) and all(file.yanked for file in self.files)

    def best_wheel(self, target: Target) -> File | None:
        """Return the wheel an installer would take there, None where only an sdist is left."""
        ranked = [(target.rank(file.filename), file.filename, file) for file in self.wheels]
        fitting = [(rank, name, file) for rank, name, file in ranked if rank is not None]
        return min(fitting, key=lambda entry: entry[:2])[2] if fitting else None

    @property
    def wheels(self) -> tuple[File, ...]:
        """Its wheels, for whatever machine."""
        return tuple(file for file in self.files if file.wheel)

    @property
    def sdist(self) -> File | None:
        """Its source distribution, a .tar.gz rather than a .zip."""
        sdists = [file for file in self.files if not file.wheel]
        return min(sdists, key=lambda file: not file.filename.endswith(".tar.gz"), default=None)

    def usable(self, target: Target) -> tuple[File, ...]:
        """Return the files an installer may take there: every wheel that fits, or the sdist where none does."""
        wheels = tuple(file for file in self.wheels if target.rank(file.filename) is not None)
        return wheels or ((self.sdist,) if self.sdist else ())


class Packages(Protocol):
    """Where releases and metadata come from; the index, or recorded answers."""

    def release(self, name: str, version: str, index: str | None = None) -> Release | None:
        """Return one version's files, None where the index does not have it; raises IndexUnreachableError."""

    def renewed(self, name: str, version: str, index: str | None = None) -> Release | None:
        """Return the same as the index has it now, not as a list says that was kept; raises IndexUnreachableError."""

    def probe(self, index: str, name: str) -> None:
        """Ask an index about one package with little patience; raises IndexUnreachableError when it cannot be asked."""

    def metadata(self, file: File) -> Metadata:
        """Return what a distribution asks for; raises IndexUnreachableError."""

    def sha256(self, file: File) -> str:
        """Return a file's checksum, downloading the file where the index does not say."""


def normal_version(text: str) -> str:
    """Return a version in normal form, or the text itself where it is none."""
    try:
        return str(Version(text))
    except InvalidVersion:
        return text
