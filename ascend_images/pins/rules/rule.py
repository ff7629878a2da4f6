"""What a rule is, what it is asked of, and what it says."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from packaging.utils import canonicalize_name

from ascend_images.pins.cann_version import ReleaseVersion
from ascend_images.pins.compat import Compat
from ascend_images.pins.model import Pins
from ascend_images.pins.variant import Checkout, Variant


@dataclass(frozen=True)
class Problem:
    """What a rule found; `unknown` where its table does not say."""

    message: str
    wanted: str = ""
    unknown: bool = False


@dataclass(frozen=True)
class Rule:
    """One rule: its id, why it is one, and the function that asks it."""

    id: str
    why: str
    ask: Callable[["Asked"], Iterable[Problem]]


@dataclass(frozen=True)
class Asked:
    """What a rule is asked of: the variant, all pins, and its packages by normalised name."""

    variant: Variant
    pins: Pins
    packages: dict[str, str]
    sources: dict[str, Checkout]
    tables: Compat

    def package(self, name: str) -> str:
        """Return the pinned version of a package, or nothing."""
        return self.packages.get(name, "")


@lru_cache(maxsize=1024)
def release_of(text: str) -> ReleaseVersion:
    """Return a release of CANN, of which few are asked about often."""
    return ReleaseVersion.parse(text)


@lru_cache(maxsize=4096)
def canonical(name: str) -> str:
    """Return the normalised name of a package (PEP 503)."""
    return str(canonicalize_name(name))


def canonical_pattern(pattern: str) -> str:
    """Return a pattern of names as it matches normalised ones."""
    return pattern.lower().replace("_", "-")
