"""Newer base images: CANN releases that have one for every image, and other images behind the same name."""

import re
from collections.abc import Iterable, Iterator

from ascend_images.errors import BadInput, MissingTool
from ascend_images.lock.digests import ImageHost
from ascend_images.lock.newer import Answer, Found, Incomplete, Subject
from ascend_images.lock.reach import NotThereError, UnreachableError
from ascend_images.lock.way import DIRECTLY, Way
from ascend_images.pins.cann_version import ReleaseVersion
from ascend_images.pins.tags import BaseTag, ImageRef


def repository(one: Subject) -> str:
    """Return the repository of the base images."""
    image = one.variants[0].base_image.partition("@")[0]
    return re.sub(r":[^/:]*$", "", image)


def newer_cann(one: Subject, tags: Answer) -> Found:
    """Return the newer CANN releases that there are base images of, for the chips, systems and Pythons in use."""
    if not isinstance(tags, tuple):
        return Found(subject=one, unreached=(str(tags),))
    wanted = {_row(tag) for variant in one.variants if (tag := _tag(variant.base_image)) is not None}
    there: dict[ReleaseVersion, set[tuple[str, str, str]]] = {}
    for text in tags:
        tag = _base_tag(text)
        if tag is not None and _row(tag) in wanted:
            there.setdefault(tag.release, set()).add(_row(tag))
    newer = sorted((release for release in there if release > ReleaseVersion.parse(one.pinned)), reverse=True)
    complete = [release for release in newer if there[release] == wanted]
    final = [release for release in complete if _is_final(release)]
    pre = [release for release in complete if not _is_final(release) and (not final or release > final[0])]
    partly = [release for release in newer if there[release] != wanted and _is_final(release)]
    return Found(
        subject=one,
        newer=tuple(map(str, final)),
        prereleases=tuple(map(str, pre)),
        incomplete=tuple(
            Incomplete(version=str(release), lacks=tuple(_lacking(wanted - there[release]))) for release in partly
        ),
    )


def _lacking(rows: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    for chip, system, python in sorted(rows):
        yield f"{chip} on {system} with Python {python}"


def _row(tag: BaseTag) -> tuple[str, str, str]:
    return tag.chip, tag.os, tag.python


def _tag(image: str) -> BaseTag | None:
    try:
        return _base_tag(ImageRef.parse(image).tag or "")
    except BadInput:
        return None


def _base_tag(text: str) -> BaseTag | None:
    try:
        tag = BaseTag.parse(text)
    except BadInput:
        return None
    return None if tag.devel else tag


def _is_final(release: ReleaseVersion) -> bool:
    return not re.search(r"rc|alpha|beta", str(release), re.IGNORECASE)


def moved_digest(one: Subject, images: ImageHost, way: Way = DIRECTLY) -> Found:
    """Return what a base image's name means now, where that is another image than the locked one."""
    if not one.pinned:
        return Found(subject=one)
    try:
        now = images.digests(one.name).digest
    except NotThereError as error:
        return Found(subject=one, notes=(f"{error} any more{way.instead(one.name)}",))
    except (UnreachableError, MissingTool, OSError) as error:
        return Found(subject=one, unreached=(f"{way.told(one.name)}: {getattr(error, 'found', '') or error}",))
    return Found(subject=one, moved=now if now != one.pinned else "")
