"""What several checks ask of paths: which CANN release they lead to."""

from __future__ import annotations

from collections.abc import Iterable

from ..answers import Given
from ..words import entries, release_key, releases_named

#: Stands behind the name of a variable that only a login shell, or only `docker exec`, has so.
LOGIN = " of a login shell"
_ONLY = {"login": LOGIN, "exec": " of docker exec"}


def releases_of(given: Given, paths: Iterable[str]) -> list[str]:
    """Return the CANN releases, other than the pinned one, that paths lead to; links are followed."""
    cann = release_key(given.image.get("cann", ""))
    named = [release for path in paths for release in releases_named(given.real(path)) or releases_named(path)]
    return [release for release in dict.fromkeys(named) if cann and release_key(release) != cann]


def places_of_release(given: Given) -> dict[str, dict[str, list[str]]]:
    """Return what in the environment leads to another CANN release: release -> variable -> entries."""
    found: dict[str, dict[str, list[str]]] = {}
    for label in ("process", "sh", "login", "exec"):
        for name, value in (given.facts["environment"].get(label) or {}).items():
            for entry in entries(value):
                for release in releases_of(given, [entry]) if entry.startswith("/") else []:
                    where = found.setdefault(release, {})
                    if entry not in where.get(name, []):
                        where.setdefault(name + _ONLY.get(label, ""), []).append(entry)
    return found


def released_variables(given: Given) -> set[str]:
    """Return the names of the variables that lead to another CANN release, in whatever kind of process."""
    return {name.partition(" ")[0] for where in places_of_release(given).values() for name in where}
