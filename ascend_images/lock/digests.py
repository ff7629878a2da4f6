"""What a base image's name means: its digest for each platform, asked of its registry by way of buildx."""

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Protocol

from ascend_images.digest import digest_of, is_digest
from ascend_images.errors import BadInput, MissingTool
from ascend_images.images.network import mirrored_image
from ascend_images.lock.reach import NotThereError, Outcome, UnreachableError, listed, plain_reason
from ascend_images.lock.way import DIRECTLY, Way
from ascend_images.pins.platform import parse_platform
from ascend_images.pins.questions import AskedBase
from ascend_images.pins.versions_lock import LockedBase

HOW = "docker buildx imagetools inspect"

_TIMEOUT = 120


@dataclass(frozen=True)
class Digests:
    """The digest of an image for each platform that CANN exists for; `index` is empty where there is but one image."""

    index: str
    platforms: Mapping[str, str]

    @property
    def digest(self) -> str:
        """What the image's name means."""
        return self.index or next(iter(self.platforms.values()), "")


class ImageHost(Protocol):
    """What is asked of image registries."""

    def digests(self, image: str) -> Digests:
        """Return what an image's name, or its name at a digest, means.

        Raises NotThereError where the registry has none of it, UnreachableError where it gives no answer.
        """


@dataclass(frozen=True)
class Imagetools:
    """The registries as the docker client reaches them, with its logins; `mirrors` replaces image repositories."""

    mirrors: Mapping[str, str] = field(default_factory=dict)
    timeout: float = _TIMEOUT

    def digests(self, image: str) -> Digests:
        """Return what an image's name means; raises NotThereError, UnreachableError, and MissingTool without buildx."""
        place = mirrored_image(image, self.mirrors) or image
        raw = self._inspect("--raw", place)
        manifest = manifest_of(raw)
        if "manifests" in manifest:
            return index_digests(raw, manifest)
        digest = digest_of(raw)
        # By digest, so that the configuration is that of this image even if the tag moves meanwhile.
        at_digest = f"{place.partition('@')[0]}@{digest}"
        return Digests("", _of_config(self._inspect("--format", "{{json .Image}}", at_digest), digest))

    def _inspect(self, *arguments: str) -> bytes:
        try:
            done = subprocess.run(
                ["docker", "buildx", "imagetools", "inspect", *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self.timeout,
                check=False,
            )
        except FileNotFoundError:
            raise MissingTool("no docker command on PATH", wanted="the docker client with buildx") from None
        except subprocess.TimeoutExpired:
            raise UnreachableError("no answer in time") from None
        if done.returncode:
            raise refusal(done.stderr.decode(errors="replace"))
        return done.stdout


def refusal(said: str) -> Exception:
    """Return what a failed inspection means: nothing there, no answer, or no buildx."""
    lower = said.lower()
    if "is not a docker command" in lower or "unknown command" in lower:
        return MissingTool("the docker client has no buildx", wanted="buildx 0.13 or newer", do="install docker-buildx")
    if re.search(r": not found\s*$|manifest unknown|name unknown|404 not found", lower):
        return NotThereError("not found in the registry")
    if "invalid reference format" in lower:
        return NotThereError("no name that an image can have")
    return UnreachableError(plain_reason(said))


def manifest_of(raw: bytes) -> dict[str, Any]:
    """Return a manifest or an index; raises UnreachableError for anything else."""
    try:
        manifest = json.loads(raw)
    except ValueError:
        manifest = None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("manifests", manifest.get("config")), list | dict):
        raise UnreachableError("an answer that is no manifest of an image")
    return manifest


def index_digests(raw: bytes, index: Mapping[str, Any]) -> Digests:
    """Return the digests in an index, of each platform the first as an engine takes it; attestations are no images."""
    platforms: dict[str, str] = {}
    for entry in index["manifests"]:
        digest = entry.get("digest") if isinstance(entry, dict) else None
        platform = _platform(entry.get("platform")) if isinstance(entry, dict) else ""
        if platform and isinstance(digest, str) and is_digest(digest):
            platforms.setdefault(platform, digest)
    return Digests(digest_of(raw), dict(sorted(platforms.items())))


def _of_config(raw: bytes, digest: str) -> dict[str, str]:
    try:
        platform = _platform(json.loads(raw))
    except ValueError:
        platform = ""
    return {platform: digest} if platform else {}


def _platform(entry: object) -> str:
    """Return the platform of an index's entry or of an image's configuration; nothing for one without CANN."""
    if not isinstance(entry, dict):
        return ""
    words = [str(entry.get(key) or "") for key in ("os", "architecture", "variant")]
    try:
        return parse_platform("/".join(filter(None, words))).platform
    except BadInput:
        return ""


def settle_base(
    asked: AskedBase, old: LockedBase | None, host: ImageHost, *, today: date, renew: bool, way: Way = DIRECTLY
) -> Outcome[LockedBase]:
    """Return what comes of asking for a base image; a locked one is kept while its registry has it.

    Raises UnreachableError where the registry gave no answer.
    """
    update = f"take what is there now: invoke lock --variant {asked.variants[0]} --update base"
    notes: tuple[str, ...] = ()
    try:
        found = host.digests(asked.image)
    except NotThereError as error:
        if old is None or not _is_there(asked, old, host):
            return Outcome(entry=old, problem=_not_there(asked, old, way, str(error)))
        note = f"{way.told(asked.image)}: {error} any more; its digest {old.digest[:19]} still is, and is kept"
        return Outcome(entry=old, notes=(note,))
    entry = LockedBase(image=asked.image, index=found.index, platforms=dict(found.platforms), learned=today, how=HOW)
    if old is not None and found.digest == old.digest and dict(found.platforms) == old.platforms:
        entry = old if old.how == HOW else entry
    elif old is not None and not renew:
        if not _is_there(asked, old, host):
            return Outcome(entry=old, problem=_not_there(asked, old, way, f"it is {found.digest[:19]} now", update))
        notes = (f"{way.told(asked.image)}: it is {found.digest[:19]} now; {old.digest[:19]} is kept ({update})",)
        entry = old
    lacking = [arch.platform for arch in asked.platforms if arch.platform not in entry.platforms]
    if lacking:
        problem = _lacking(asked, entry, way, lacking)
        return Outcome(entry=entry if entry.platforms else old, problem=problem, notes=notes)
    return Outcome(entry=entry, notes=notes)


def _is_there(asked: AskedBase, old: LockedBase, host: ImageHost) -> bool:
    repository = re.sub(r":[^/:@]*$", "", asked.image.partition("@")[0])
    try:
        return host.digests(f"{repository}@{old.digest}").digest == old.digest
    except NotThereError:
        return False


def _not_there(asked: AskedBase, old: LockedBase | None, way: Way, said: str, do: str = "") -> BadInput:
    known = f", and its registry has the locked digest {old.digest} no longer" if old else ""
    elsewhere = "" if way.label else ", or name a mirror that has it: --mirror NAME"
    return BadInput(
        f"{way.told(asked.image)}: {said}{known}",
        wanted=f"the base image of {listed(asked.variants)}",
        do=do or f"mend `cann`, `os` or `python` in versions.toml{elsewhere}",
    )


def _lacking(asked: AskedBase, entry: LockedBase, way: Way, lacking: list[str]) -> BadInput:
    return BadInput(
        f"{way.told(asked.image)}: no image for {listed(lacking)}; "
        f"it has {listed(sorted(entry.platforms)) or 'none for Linux'}",
        wanted=f"every platform of {listed(asked.variants)}",
        do="pin another base, or set `platforms` of the variant to what there is",
    )
