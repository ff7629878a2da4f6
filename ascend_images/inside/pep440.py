"""Versions, specifiers and requirements, by the `packaging` that an image brings."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from .words import canonical


class Pep440:
    """Versions, specifiers and requirements, as the `packaging` library of the image understands them."""

    def __init__(self, version: Any, specifiers: Any, requirements: Any) -> None:
        self._version, self._specifiers, self._requirements = version, specifiers, requirements

    def allows(self, specifier: str, version: str) -> bool | None:
        """Tell whether a version fits a specifier such as `>=1,<2`; None where either cannot be read."""
        try:
            wanted = self._specifiers.SpecifierSet(specifier)
            return bool(wanted.contains(self._version.Version(version), prereleases=True))
        except ValueError:
            return None

    def demand(self, requirement: str, markers: Mapping[str, str]) -> tuple[str, str] | None:
        """Return name and specifier of a Requires-Dist line that holds here; None where its marker says no."""
        parsed = self._requirements.Requirement(requirement)
        if parsed.marker is not None and not parsed.marker.evaluate({**markers, "extra": ""}):
            return None
        return canonical(parsed.name), str(parsed.specifier)


def pep440(folders: Sequence[str] = ()) -> Pep440 | None:
    """Find `packaging`: here, in pip, or in one of the folders; None where there is none."""
    saved = list(sys.path)
    sys.path.extend(folders)
    try:
        for prefix in ("packaging", "pip._vendor.packaging"):
            with contextlib.suppress(ImportError):
                modules = [
                    __import__(f"{prefix}.{name}", fromlist=["x"]) for name in ("version", "specifiers", "requirements")
                ]
                return Pep440(*modules)
        return None
    finally:
        sys.path[:] = saved
