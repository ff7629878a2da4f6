"""What a lock is made with: the indexes, the resolver, a folder for answers, and whom to tell."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from ascend_images.errors import BadInput, MissingTool
from ascend_images.images.network import require_tls
from ascend_images.lock.anew import UvAnew
from ascend_images.lock.catalog import Catalog, default_index
from ascend_images.lock.host_settings import require_checked_hosts
from ascend_images.lock.release import Packages
from ascend_images.lock.resolver import Resolver
from ascend_images.lock.way import Way
from ascend_images.pins.addresses import is_https, masked
from ascend_images.pins.model import Mirror
from ascend_images.pins.places import Places, in_own_stack


def silent(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, kw_only=True)
class Means:
    """Where packages come from, what resolves, where answers of git hosts are kept.

    `mirror` replaces addresses of named indexes and of git hosts, `mirror_name` is its name; `say` is told what a
    person may want to know; `places` knows where pins stand. When `offline`, answers come from `cache` alone. With
    `as_of`, no package counts that was published after that day.
    """

    packages: Packages
    resolver: Resolver
    cache: Path
    mirror: Mirror = field(default_factory=Mirror)
    say: Callable[[str], None] = silent
    offline: bool = False
    as_of: date | None = None
    mirror_name: str = ""
    places: Places = in_own_stack

    @property
    def way(self) -> Way:
        """By way of which mirror remotes are asked."""
        return Way(self.mirror_name, self.mirror)


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder in which answers of indexes and git hosts are kept; it may be deleted at any time.

    Raises MissingTool where there is none.
    """
    given = environment.get("XDG_CACHE_HOME")
    try:
        return (Path(given) if given else Path.home() / ".cache") / "ascend-images"
    except RuntimeError:
        raise MissingTool(
            "this user has no home folder: answers of indexes and git hosts can be kept nowhere",
            wanted="HOME, or a folder for them",
            do="XDG_CACHE_HOME=DIR invoke lock …",
        ) from None


def _require_https(url: str) -> None:
    if not is_https(url):
        raise BadInput(
            f"{masked(url)} is not an https address",
            wanted="an https address: TLS stays on, with your company's CA if need be",
            do="mend the mirror, or UV_DEFAULT_INDEX, UV_INDEX_URL or PIP_INDEX_URL",
        )


def usual_means(
    mirror: Mirror | None = None,
    say: Callable[[str], None] = silent,
    *,
    offline: bool = False,
    as_of: date | None = None,
    fresh: bool = False,
) -> Means:
    """Return the indexes and the uv of this machine, by way of `mirror` where one is chosen.

    When `offline`, nothing is asked that was not answered before; `as_of` leaves out what was published later. When
    `fresh`, lists of versions that were kept do not count.

    Raises BadInput where certificates would go unchecked: by a variable, by a configuration file of this machine, or
    by an address without TLS.
    """
    require_tls(os.environ)
    require_checked_hosts(os.environ)
    mirror = mirror or Mirror()
    default = mirror.index.get("default") or default_index(os.environ)
    for url in (default, *mirror.index.values(), *mirror.git.values()):
        _require_https(url)
    cache = cache_folder()
    resolver = UvAnew(default, as_of=as_of, offline=offline, fresh=fresh)
    packages = Catalog(cache, default, offline, fresh)
    return Means(
        packages=packages, resolver=resolver, cache=cache, mirror=mirror, say=say, offline=offline, as_of=as_of
    )
