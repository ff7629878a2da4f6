"""Caches that outlive a builder: `--cache-to` and `--cache-from` in docker's words, for each image a place of its own.

The words are those of https://docs.docker.com/build/cache/backends/, as far as they leave an image what it is: `inline`
would write into its configuration, and so change its digest.
"""

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ascend_images.errors import BadInput, MissingTool, PublishRefused
from ascend_images.images.builder import Builder
from ascend_images.images.engine import Engine, ImageStore
from ascend_images.images.progress import NO_CACHE
from ascend_images.images.publish import CHANGED, SANDBOX, is_loopback
from ascend_images.pins.platform import Arch
from ascend_images.pins.tags import ImageRef, arch_tag, fold_tag
from ascend_images.pins.variant import Variant

PREFIX = "cache-"
TO = "--cache-to"
FROM = "--cache-from"

# The attribute that says where a cache lies, by type and option, and whether the type goes without it.
_PLACES = {
    ("registry", TO): ("ref", False),
    ("registry", FROM): ("ref", False),
    ("local", TO): ("dest", True),
    ("local", FROM): ("src", True),
    ("gha", TO): ("scope", False),
    ("gha", FROM): ("scope", False),
}
_MODES = ("min", "max")
_FORMS = {
    TO: "registry, type=registry,ref=NAME:cache-TAG, type=local,dest=DIR or type=gha; each with mode=max or without",
    FROM: "registry, type=registry,ref=NAME:TAG, type=local,src=DIR or type=gha",
}
# What a job of GitHub Actions gives its own actions alone: a step of it must hand them on.
_TOKEN, _SERVERS = "ACTIONS_RUNTIME_TOKEN", ("ACTIONS_RESULTS_URL", "ACTIONS_CACHE_URL")

_EXPORTING = re.compile(r"#(?P<number>[0-9]+) exporting cache to .*")


@dataclass(frozen=True, kw_only=True)
class Cache:
    """One `--cache-to` or `--cache-from`: docker's type, and its ref, folder or scope; empty: a place for each image.

    `mode` is what is exported: `min` the layers of the image, `max` those of every stage.
    """

    type: str
    place: str = ""
    mode: str = _MODES[0]


def cache_of(text: str, option: str, environment: Mapping[str, str]) -> Cache:
    """Return what was typed for an option, TO or FROM.

    Raises BadInput for anything but the forms above, and MissingTool for GitHub's cache outside of its jobs, where
    buildx would cache nothing and not say so.
    """
    values = _values(text, option)
    kind = values.pop("type", "")
    if (kind, option) not in _PLACES:
        raise BadInput(f'{option} "{text}"', wanted=_FORMS[option], do=f"{option} registry")
    key, needed = _PLACES[kind, option]
    place, mode = values.pop(key, ""), values.pop("mode", _MODES[0]) if option == TO else _MODES[0]
    if values or mode not in _MODES or (needed and not place):
        raise BadInput(f'{option} "{text}"', wanted=_FORMS[option], do=f"{option} registry")
    if kind == "gha":
        _require_job(option, environment)
    if kind == "registry" and place:
        place = str(ImageRef.parse(place).require_tag())
    return Cache(type=kind, place=str(Path(place).expanduser().absolute()) if kind == "local" else place, mode=mode)


def cache_tag(variant: Variant, suffix: str, arch: Arch) -> str:
    """Return the tag of an image's cache in its own repository: `cache-a2-aarch64`."""
    return arch_tag(fold_tag(f"{PREFIX}{variant.name}{suffix}"), arch)


def is_cache_tag(tag: str) -> bool:
    """Say whether a tag is that of a cache, by its beginning."""
    return tag.startswith(PREFIX)


def export_of(cache: Cache, variant: Variant, suffix: str, arch: Arch) -> dict[str, str]:
    """Return what an image's cache is exported with; an error of it never fails the build.

    As an image manifest, since not every registry takes the index of layers that BuildKit writes by default.
    """
    forms = {"image-manifest": "true", "oci-mediatypes": "true"} if cache.type == "registry" else {}
    key, _ = _PLACES[cache.type, TO]
    place = cache.place or _own_place(cache, variant, suffix, arch)
    return {"type": cache.type, key: place, "mode": cache.mode, **forms, "ignore-error": "true"}


def imports_of(cache: Cache, variant: Variant, suffix: str, arch: Arch) -> list[dict[str, str]]:
    """Return what an image's cache is imported from; what is not there yet is passed over by BuildKit.

    An image of changed pins has most steps in common with that of the pins, so it reads its cache too.
    """
    key, _ = _PLACES[cache.type, FROM]
    suffixes = [suffix, ""] if suffix == CHANGED else [suffix]
    places = [cache.place] if cache.place else [_own_place(cache, variant, one, arch) for one in suffixes]
    return [{"type": cache.type, key: place} for place in places]


def require_places(exports: Iterable[Cache], variant: Variant, suffix: str, repositories: Iterable[str]) -> None:
    """Raise BadInput for an export that would take an image's tag, PublishRefused for stand-ins that leave the machine.

    `repositories` are those of images.
    """
    known = {variant.repository, *repositories}
    for cache in exports:
        if cache.type != "registry":
            continue
        reference = ImageRef.parse(cache.place or variant.repository)
        if cache.place and reference.name in known and not is_cache_tag(reference.tag or ""):
            raise BadInput(
                f"{TO} type=registry,ref={cache.place}: images have their tags there",
                wanted=f"a tag that begins with {PREFIX}",
                do=f"{TO} registry, or {TO} type=registry,ref={reference.name}:{PREFIX}NAME",
            )
        if suffix == SANDBOX and not is_loopback(reference.name):
            raise PublishRefused(
                f"{TO} with --sandbox: the cache of stand-ins would go to {reference.name}",
                wanted="a registry on this machine's loopback for stand-ins, or a folder",
                do=f"{TO} type=local,dest=DIR",
            )


def shared_places(exports: Iterable[Cache]) -> list[str]:
    """Return the exports that one image alone can have: a second one's would take the place of the first's."""
    return [f"type={one.type},{_PLACES[one.type, TO][0]}={one.place}" for one in exports if one.place]


def require_exporter(exports: Iterable[Cache], engine: Engine, builder: Builder) -> None:
    """Raise MissingTool where the engine's own builder can export no cache (Docker's documentation of its driver)."""
    if any(exports) and builder.is_own and engine.store is not ImageStore.CONTAINERD:
        raise MissingTool(
            f"{TO}: {builder.name} is an engine with its {engine.driver} graph driver, whose builder exports no cache",
            wanted="an engine with the containerd image store, or a builder of another driver",
            do="docker buildx create --driver docker-container --name NAME, then --builder NAME",
        )


def not_exported(log: str) -> str:
    """Return why a build's cache was not exported, by the text of its log; nothing where it was, or was not meant to.

    BuildKit ends such a step with an error, and the build well.
    """
    lines = log.splitlines()
    numbers = [found["number"] for line in lines if (found := _EXPORTING.fullmatch(line))]
    endings = [f"#{number} {NO_CACHE}" for number in numbers]
    errors = [line.removeprefix(end) for end in endings for line in lines if line.startswith(end)]
    return "; ".join(dict.fromkeys(errors))


def _values(text: str, option: str) -> dict[str, str]:
    if "=" not in text:
        return {"type": text.strip()}
    try:
        (words,) = csv.reader([text], strict=True)
    except (csv.Error, ValueError):
        words = []
    pairs = [word.strip().partition("=") for word in words]
    if not pairs or not all(key and value for key, _, value in pairs) or len({one[0] for one in pairs}) < len(pairs):
        raise BadInput(f'{option} "{text}"', wanted=_FORMS[option], do=f"{option} registry")
    return {key.lower(): value for key, _, value in pairs}


def _own_place(cache: Cache, variant: Variant, suffix: str, arch: Arch) -> str:
    tag = cache_tag(variant, suffix, arch)
    return f"{variant.repository}:{tag}" if cache.type == "registry" else tag


def _require_job(option: str, environment: Mapping[str, str]) -> None:
    if environment.get(_TOKEN) and any(environment.get(name) for name in _SERVERS):
        return
    raise MissingTool(
        f"{option} type=gha: {_TOKEN} and {' or '.join(_SERVERS)} are not set",
        wanted="a job of GitHub Actions that hands them to its steps; buildx would cache nothing, and not say so",
        do=f"{option} registry",
    )
