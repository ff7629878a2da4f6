"""What a lock is made for: one Python on one architecture, its markers and the wheels that fit it."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from packaging.markers import Marker
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from ascend_images.pins.bindings import marker_environment
from ascend_images.pins.platform import Arch

#: torch_npu's wheels and every base image's C library (glibc 2.35 and 2.38) allow this much; uv is told the same.
_GLIBC = range(35, 4, -1)
_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}


@dataclass(frozen=True)
class Target:
    """CPython `python` ("3.12") on Linux of one architecture."""

    arch: Arch
    python: str

    @cached_property
    def environment(self) -> dict[str, str]:
        """The values of environment markers there."""
        return marker_environment(self.python, self.arch)

    def holds(self, marker: Marker | None, extras: Iterable[str] = ()) -> bool:
        """Tell whether a demand with this marker counts there, with these extras asked for."""
        if marker is None:
            return True
        return any(marker.evaluate({**self.environment, "extra": extra}) for extra in ("", *extras))

    @cached_property
    def tags(self) -> dict[Tag, int]:
        """Wheel tags that fit, each with its rank, the best first."""
        major, _, minor = self.python.partition(".")
        version = (int(major), int(minor))
        machine = self.arch.kernel
        platforms = [
            name
            for minor_glibc in _GLIBC
            for name in (f"manylinux_2_{minor_glibc}_{machine}", *_legacy(minor_glibc, machine))
        ] + [f"linux_{machine}"]
        ordered = [
            *cpython_tags(version, platforms=platforms),
            *compatible_tags(version, f"cp{major}{minor}", platforms),
        ]
        ranks: dict[Tag, int] = {}
        for tag in ordered:
            ranks.setdefault(tag, len(ranks))
        return ranks

    def rank(self, filename: str) -> int | None:
        """Return how well a wheel fits, the smaller the better, or None where it does not fit at all."""
        try:
            tags = parse_wheel_filename(filename)[3]
        except InvalidWheelFilename:
            return None
        ranks = [self.tags[tag] for tag in tags if tag in self.tags]
        return min(ranks) if ranks else None


def _legacy(glibc: int, machine: str) -> tuple[str, ...]:
    name = _LEGACY.get(glibc)
    # The two oldest were never defined for ARM.
    known = name is not None and (machine == "x86_64" or glibc == 17)
    return (f"{name}_{machine}",) if known else ()
