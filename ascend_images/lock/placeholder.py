"""Placeholder wheels: metadata and nothing else, so that a resolver knows what is not on any index it can reach."""

import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version


@dataclass(frozen=True)
class Placeholder:
    """A distribution that a resolver shall take as given."""

    name: str
    version: str
    requires: tuple[Requirement, ...] = ()
    extras: tuple[str, ...] = ()


def write_wheel(placeholder: Placeholder, folder: Path) -> Path:
    """Write the placeholder's wheel into `folder` and return its path."""
    name = re.sub(r"[-_.]+", "_", placeholder.name).lower()
    version = str(Version(placeholder.version))
    info = f"{name}-{version}.dist-info"
    head = ["Metadata-Version: 2.1", f"Name: {canonicalize_name(placeholder.name)}", f"Version: {version}"]
    head += [f"Provides-Extra: {extra}" for extra in placeholder.extras]
    head += [f"Requires-Dist: {line}" for line in _lines(placeholder.requires)]
    wheel = ["Wheel-Version: 1.0", "Generator: ascend-images", "Root-Is-Purelib: true", "Tag: py3-none-any"]
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{info}/METADATA", "\n".join(head) + "\n")
        archive.writestr(f"{info}/WHEEL", "\n".join(wheel) + "\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def _lines(requires: Iterable[Requirement]) -> list[str]:
    """Return Requires-Dist values; a demand with an address keeps its name alone, for it is answered by a pin."""
    lines = []
    for requirement in requires:
        plain = Requirement(str(requirement))
        plain.url = None
        lines.append(str(plain))
    return lines
