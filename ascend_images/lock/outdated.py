"""Asks what is newer than the pins: releases on package indexes, tags and branches, base images."""

import concurrent.futures
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from ascend_images.errors import BadInput, MissingTool
from ascend_images.lock.digests import ImageHost
from ascend_images.lock.git import GitHost, Refs
from ascend_images.lock.image_tags import TagHost
from ascend_images.lock.newer import LEAST, Answer, Found, Kind, Subject, version_of
from ascend_images.lock.newer_images import moved_digest, newer_cann, repository
from ascend_images.lock.newer_refs import checkout, newer_refs
from ascend_images.lock.newer_releases import Releases, newer_releases
from ascend_images.lock.patience import in_parallel
from ascend_images.lock.reach import UnreachableError
from ascend_images.lock.way import DIRECTLY, Way
from ascend_images.pins.variant import Variant

#: How many remotes are asked at a time.
_AT_A_TIME = 4


@dataclass(frozen=True, kw_only=True)
class Hosts:
    """Whom to ask, by way of which mirror.

    `addresses` are those of the named package indexes, and that of `default` where it is another than usual.
    """

    packages: Releases
    addresses: Mapping[str, str]
    git: GitHost
    images: ImageHost
    tags: TagHost
    way: Way = DIRECTLY


def subjects(variants: Sequence[Variant], locked: Callable[[Variant], Mapping[str, str]]) -> tuple[Subject, ...]:
    """Return the pins of variants, each once; `locked` gives the locked versions of a variant by normalised name."""
    found: dict[tuple[Kind, str, str], list[tuple[Variant, str]]] = {}
    for variant in variants:
        for name, pin in variant.packages.items():
            current = pin if version_of(pin) else locked(variant).get(str(canonicalize_name(name)), "")
            found.setdefault(("package", name, pin), []).append((variant, current))
        for source in variant.sources:
            found.setdefault(("source", source.name, source.ref), []).append((variant, source.version))
        found.setdefault(("cann", "cann", variant.base_cann), []).append((variant, variant.base_cann))
        found.setdefault(("base image", variant.base_image, variant.base_digest), []).append((variant, ""))
    return tuple(
        Subject(
            kind=kind,
            name=name,
            pinned=pinned,
            variants=tuple(variant for variant, _ in users),
            current=max((current for _, current in users), key=lambda text: (version_of(text) or LEAST, text)),
        )
        for (kind, name, pinned), users in found.items()
    )


def ask(pins: Sequence[Subject], hosts: Hosts) -> tuple[Found, ...]:
    """Return what is newer than each of the pins, in their order; what gives no answer is told in its place."""
    numbers: dict[Kind, list[int]] = {}
    for number, one in enumerate(pins):
        numbers.setdefault(one.kind, []).append(number)
    with concurrent.futures.ThreadPoolExecutor(_AT_A_TIME) as pool:
        repositories = dict.fromkeys(checkout(pins[number]).git for number in numbers.get("source", ()))
        refs = {place: pool.submit(_answer, hosts.git.refs, place, hosts.way) for place in repositories}
        lists = dict.fromkeys(repository(pins[number]) for number in numbers.get("cann", ()))
        tags = {place: pool.submit(_answer, hosts.tags.tags, place, hosts.way) for place in lists}
        bases = numbers.get("base image", ())
        digests = {n: pool.submit(moved_digest, pins[n], hosts.images, hosts.way) for n in bases}
        packages = in_parallel(
            lambda number: newer_releases(pins[number], hosts.packages, hosts.addresses), numbers.get("package", ())
        )
        found: dict[int, Found] = {n: one for n, one in packages.items() if isinstance(one, Found)}
        found |= {n: newer_refs(pins[n], refs[checkout(pins[n]).git].result()) for n in numbers.get("source", ())}
        found |= {n: newer_cann(pins[n], tags[repository(pins[n])].result()) for n in numbers.get("cann", ())}
        found |= {n: future.result() for n, future in digests.items()}
    return tuple(found[number] for number in sorted(found))


def _answer(question: Callable[[str], Refs | tuple[str, ...]], place: str, way: Way) -> Answer:
    """Return an answer, or why there is none as text."""
    try:
        return question(place)
    except (UnreachableError, MissingTool, BadInput, OSError) as error:
        return f"{way.told(place)}: {getattr(error, 'found', '') or error}"
