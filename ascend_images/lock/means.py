"""What a lock is made with: the indexes, the resolver, a folder for answers, and whom to tell."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ascend_images.lock.catalog import Catalog, Packages, default_index
from ascend_images.lock.resolver import Resolver, Uv
from ascend_images.pins.model import Mirror


def silent(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, kw_only=True)
class Means:
    """Where packages come from, what resolves, where answers of git hosts are kept.

    `mirror` replaces addresses of named indexes and of git hosts; `say` is told what a person may want to know.
    """

    packages: Packages
    resolver: Resolver
    cache: Path
    mirror: Mirror = field(default_factory=Mirror)
    say: Callable[[str], None] = silent


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder in which answers of indexes and git hosts are kept; it may be deleted at any time."""
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ascend-images"


def usual_means(mirror: Mirror | None = None, say: Callable[[str], None] = silent) -> Means:
    """Return the indexes and the uv of this machine, by way of `mirror` where one is chosen."""
    mirror = mirror or Mirror()
    default = mirror.index.get("default") or default_index(os.environ)
    cache = cache_folder()
    return Means(packages=Catalog(cache, default), resolver=Uv(default), cache=cache, mirror=mirror, say=say)
