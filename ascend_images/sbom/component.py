"""A bill of materials before it has a format: components, and the package URLs by which they are known elsewhere."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from packageurl import PackageURL

CANN_LICENCE = "LicenseRef-CANN"

_GITHUB = re.compile(r"https://github\.com/(?P<owner>[^/]+)/(?P<name>[^/]+?)(?:\.git)?/?")


class Kind(StrEnum):
    """What a component is, as far as formats tell apart."""

    IMAGE = "image"
    BASE = "base image"
    CANN = "CANN"
    PYTHON = "Python"
    PACKAGE = "Python package"
    SOURCE = "source"
    SYSTEM = "system package"


@dataclass(frozen=True, kw_only=True)
class Component:
    """One thing in an image; empty is what is not known.

    `purl` is its package URL (github.com/package-url/purl-spec), `sha256` the hash of its file, as hex digits, where
    that is one file, `one_of` those of which one was installed. `place` is where it comes from, `note` what is to be
    said of it, `parts` what it holds itself.
    """

    kind: Kind
    name: str
    version: str = ""
    purl: str = ""
    sha256: str = ""
    one_of: tuple[str, ...] = ()
    place: str = ""
    licence: str = ""
    supplier: str = ""
    note: str = ""
    parts: tuple["Component", ...] = ()

    @property
    def key(self) -> str:
        """What tells it from any other of the same image."""
        return f"{self.kind.value} {self.name} {self.version}"


@dataclass(frozen=True, kw_only=True)
class Bill:
    """The whole: `created` is a time in seconds, that of the pins and so the same for the same build."""

    name: str
    created: int
    image: Component
    base: Component
    parts: tuple[Component, ...]
    notes: tuple[str, ...] = ()

    def all_parts(self) -> Iterator[Component]:
        """Yield what the image holds, and what that holds."""
        for part in self.parts:
            yield part
            yield from part.parts


def oci_purl(name: str, digest: str, **more: str) -> str:
    """Return the package URL of an image; `more` are qualifiers, empty ones left out."""
    qualifiers = {"repository_url": name, **{key: value for key, value in more.items() if value}}
    return str(PackageURL("oci", None, name.rpartition("/")[2].lower(), digest or None, qualifiers))


def git_purl(url: str, revision: str) -> str:
    """Return the package URL of a git commit: of its own type at GitHub, which the specification has one for."""
    found = _GITHUB.fullmatch(url)
    if found:
        return str(PackageURL("github", found["owner"], found["name"], revision))
    name = url.rstrip("/").rpartition("/")[2].removesuffix(".git")
    return str(PackageURL("generic", None, name, revision, {"vcs_url": f"git+{url}@{revision}"}))
