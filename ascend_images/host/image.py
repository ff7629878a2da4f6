"""What an engine knows of an image before it is run, and for which chips the image is."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import docker
import msgspec
from docker.errors import DockerException, ImageNotFound, NotFound
from docker.models.containers import Container

from ascend_images.errors import BadInput
from ascend_images.host.chips import family_by_tag
from ascend_images.host.containers import file_in
from ascend_images.host.npu_smi import A2, A3, A5, P310, UNKNOWN, family_of
from ascend_images.pins.platform import parse_arch
from ascend_images.pins.tags import ImageRef
from ascend_images.pins.variant import IMAGE_FOLDER

_LABEL = "io.ascend-images.chip"
_SOC = "SOC_VERSION"
_DOCUMENT = f"{IMAGE_FOLDER}/image.json"
_PASSWD = "/etc/passwd"  # noqa: S105 - a file's name
# image.json has some 20 kB; what is much larger is none.
_MOST_BYTES = 4 << 20

# `<chip>-<os>-py<X.Y>`, as in the tags of CANN base images and of ours: any word there is CANN's for a chip.
_CHIP_OS_PYTHON = re.compile(r"(?:^|-)([0-9]{3}[a-z]?|a[0-9])-[a-z]+[0-9]{2}\.[0-9]{2}-py3\.[0-9]+(?:-|$)", re.ASCII)
# Words that stand for chips anywhere in a tag: of vllm-ascend's images (`v0.18.0-a3-openeuler`), of verl's and of
# ms-swift's older ones (`v4.3.0-A2-py311-…`). Bare numbers (910, 950) may be anything there.
_WORDS = {
    "910b": A2, "a2": A2, "910c": A3, "a3": A3, "310p": P310, "300i": P310,
    "a5": A5, "950dt": A5, "950pr": A5,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Image:
    """What an engine knows of an image; the fields are empty, and `passwd` is None, where that could not be seen.

    `is_missing` says that the engine answered and has no such image. `document` is the chip word of its image.json.
    """

    is_missing: bool = False
    user: str = ""
    machine: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    document: str = ""
    passwd: str | None = None


def look_at(client: docker.DockerClient | None, reference: str, user: str = "", *, for_chip: bool = False) -> Image:
    """Return what an engine knows of an image that is to run as `user`, its own where empty.

    Its passwd is read only where that user is not root, and its image.json only `for_chip` where nothing else tells.
    """
    if client is None:
        return Image()
    try:
        attributes = client.images.get(reference).attrs
    except ImageNotFound:
        return Image(is_missing=True)
    except DockerException:
        return Image()
    config = attributes.get("Config") or {}
    own = str(config.get("User") or "")
    labels = config.get("Labels") or {}
    env = {name: value for name, _, value in (line.partition("=") for line in config.get("Env") or ())}
    machine = ""
    with suppress(BadInput):
        machine = parse_arch(str(attributes.get("Architecture", ""))).kernel
    is_root = (user or own).partition(":")[0] in ("", "0", "root")
    wanted = [] if is_root else [_PASSWD]
    wanted += [_DOCUMENT] if for_chip and not (labels.get(_LABEL) or env.get(_SOC)) else []
    files = _files(client, reference, wanted) if wanted else {}
    document = _chip_word(files.get(_DOCUMENT) or "")
    return Image(user=own, machine=machine, labels=labels, env=env, document=document, passwd=files.get(_PASSWD))


def family_of_image(image: Image, reference: str) -> str:
    """Return the chip family an image is for: by its label, its SOC_VERSION, its image.json or its tag; else unknown.

    The tag comes last, since anybody may give an image any.
    """
    told = (
        family_by_tag(str(image.labels.get(_LABEL, ""))),
        family_of(image.env.get(_SOC, "")),
        family_by_tag(image.document),
        family_by_reference(reference),
    )
    return next((family for family in told if family != UNKNOWN), UNKNOWN)


def family_by_reference(reference: str) -> str:
    """Return the chip family that an image's tag names; unknown where it names none, or more than one."""
    try:
        tag = (ImageRef.parse(reference).tag or "").lower()
    except BadInput:
        return UNKNOWN
    if match := _CHIP_OS_PYTHON.search(tag):
        return family_by_tag(match[1])
    told = {_WORDS[word] for word in tag.split("-") if word in _WORDS}
    return told.pop() if len(told) == 1 else UNKNOWN


def _files(client: docker.DockerClient, reference: str, paths: list[str]) -> dict[str, str | None]:
    """Return files of an image, by a container that never runs: an empty text where there is none, None if unseen."""
    try:
        container = client.containers.create(reference, ["true"])
    except (DockerException, OSError):
        return {}
    try:
        return {path: _text(container, path) for path in paths}
    finally:
        with suppress(DockerException, OSError):
            container.remove(force=True, v=True)


def _text(container: Container, path: str) -> str | None:
    try:
        content = file_in(container, path, most=_MOST_BYTES)
    except NotFound:
        return ""
    except (DockerException, OSError):
        return None
    return None if content is None else content.decode(errors="replace")


def _chip_word(text: str) -> str:
    """Return what image.json says under `chip`; empty for any other text."""
    try:
        document: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return ""
    return str(document.get("chip", "")) if isinstance(document, dict) else ""
