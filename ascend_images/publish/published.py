"""published.json: every publication, in the order in which they were made; only ever added to."""

import heapq
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ascend_images.digest import Digest, DigestIfAny
from ascend_images.errors import BadInput
from ascend_images.files import read_regular, write_json
from ascend_images.json_text import NotJsonError, read_json
from ascend_images.pins.variant import Variant
from ascend_images.pins.versions_lock import Platform
from ascend_images.publish.web_address import ADDRESS, PATH

FILE = "published.json"

# What the lists show as it is, or links to: no sign of it is markup.
Repository = Annotated[str, Meta(pattern=r"^[A-Za-z0-9.:/_\[\]-]+\Z")]
Tag = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}\Z")]
Commit = Annotated[str, Meta(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})\Z")]
Source = Annotated[str, Meta(pattern=rf"^({ADDRESS})?\Z")]
File = Annotated[str, Meta(pattern=rf"^{PATH}\Z")]

#: A UTC time in ISO 8601, so written that the order of the texts is that of the times.
When = Annotated[str, Meta(pattern=r"^[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]Z\Z")]

#: Packages that tell what an image is, beside its sources.
_TOLD = ("torch", "torch_npu", "triton-ascend", "transformers")


class Facts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an image is, as it was built: pins may have moved on since.

    `hardware` is its key in versions.toml, `hardware_name` what people call it; `components` are sources and packages
    with their versions, in the order in which they are shown.
    """

    hardware: str
    hardware_name: str
    chip: str
    cann: str
    base_cann: str
    os: str
    python: str
    components: dict[str, str]
    experimental: str = ""


class Publication(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One promotion: which tags of a repository stand for which digest from then on, and why they may.

    Their order is their place in the file; `when` tells people the day. `commit` is the commit of this project whose
    rendered `dockerfile` was built, and `source` this project's address on the web (empty where it has none). `epoch`
    orders the candidates of a variant, in seconds. `platforms` names the image's manifest and `checks` what passed,
    each by platform; `waived` are checks that were not asked, with the reason. `signed` is the fingerprint of the
    public key that the digests were signed for (`publish.sign`), empty where they were not. `stand_in` says that it is
    made of the sandbox's stand-ins.
    """

    repository: Repository
    tag: Tag
    aliases: tuple[Tag, ...]
    digest: Digest
    variant: str
    when: When
    commit: Commit
    source: Source
    dockerfile: File
    identity: Digest
    pins: Digest
    epoch: int
    platforms: dict[Platform, Digest]
    checks: dict[Platform, tuple[str, ...]]
    waived: dict[str, str]
    facts: Facts
    signed: DigestIfAny = ""
    stand_in: bool = False

    @property
    def tags(self) -> tuple[str, ...]:
        """The tag and the aliases."""
        return (self.tag, *self.aliases)

    def same_as(self, other: "Publication") -> bool:
        """Say whether two publications gave the same tags to the same digest, and why they might, whenever they did."""
        decides = ("repository", "tags", "digest", "identity", "checks", "waived", "signed")
        return all(getattr(self, name) == getattr(other, name) for name in decides)

    def after(self, before: "Publication") -> "Publication":
        """Return this publication with what an earlier one of the same digest has shown of it besides.

        So a verification that asks less, or a promotion without a signature, takes nothing back.
        """
        if (self.digest, self.identity) != (before.digest, before.identity):
            return self
        stronger = before if _shows_more(before, self) else self
        return msgspec.structs.replace(
            self, checks=stronger.checks, waived=stronger.waived, signed=self.signed or before.signed
        )


class Published(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file, oldest publication first."""

    schema: Literal[1] = 1
    publications: tuple[Publication, ...] = ()

    def of_tag(self, repository: str, tag: str) -> tuple[Publication, ...]:
        """Return the publications that gave a tag, oldest first."""
        return tuple(one for one in self.publications if one.repository == repository and tag in one.tags)

    def with_more(self, *more: Publication) -> "Published":
        """Return the file with publications added, but for one that adds nothing to the last of its tag.

        Time never goes back in it: a clock that does says no time that is earlier than the last one's.
        """
        kept = list(self.publications)
        for one in more:
            before = Published(publications=tuple(kept)).of_tag(one.repository, one.tag)
            added = one.after(before[-1]) if before else one
            if not before or not before[-1].same_as(added):
                when = max(added.when, kept[-1].when) if kept else added.when
                kept.append(msgspec.structs.replace(added, when=when))
        return Published(publications=tuple(kept))

    def joined_with(self, other: "Published") -> "Published":
        """Return the file with what another one holds besides, each publication behind what it followed there.

        What both hold keeps its place, and so does the order of each. Only between what the two added apart from each
        other do the clocks of those who made it decide.
        """
        mine = self.publications
        behind: dict[int, list[Publication]] = {}
        last = -1
        for one in other.publications:
            if one in mine:
                last = max(last, mine.index(one))
                behind.setdefault(last, [])
            else:
                behind.setdefault(last, []).append(one)
        starts = sorted({-1, *behind})
        merged: list[Publication] = []
        for start, end in zip(starts, [*starts[1:], len(mine)], strict=True):
            merged += mine[max(start, 0) : start + 1]
            merged += heapq.merge(mine[start + 1 : end], behind.get(start, ()), key=lambda one: one.when)
        return Published(publications=tuple(merged))


def _shows_more(one: Publication, other: Publication) -> bool:
    """Say whether all that passed for the other passed for one as well, and that with more, or less was waived."""
    passed = {platform: set(names) for platform, names in one.checks.items()}
    covers = all(set(names) <= passed.get(platform, set()) for platform, names in other.checks.items())
    differs = (one.checks, one.waived.keys()) != (other.checks, other.waived.keys())
    return differs and covers and one.waived.keys() <= other.waived.keys()


def facts_of(variant: Variant) -> Facts:
    """Return what people want to know of an image of a variant."""
    return Facts(
        hardware=variant.hardware,
        hardware_name=variant.chip.name,
        chip=variant.chip.cann_tag,
        cann=variant.cann,
        base_cann=variant.base_cann,
        os=variant.os,
        python=variant.python,
        components={
            **{source.name: source.ref or source.commit for source in variant.sources},
            **{name: variant.packages[name] for name in _TOLD if name in variant.packages},
        },
        experimental=variant.experimental,
    )


def parse(content: bytes, path: Path | str = FILE) -> Published:
    """Read the content of published.json; `path` is for messages. Raises BadInput."""
    try:
        return read_json(content, Published)
    except NotJsonError as error:
        raise BadInput(
            f"{path}: not the list of what was published: {error}",
            wanted="the file as `invoke promote` wrote it",
            # Nothing that puts another file in its place: what was promoted last may be on record here alone.
            do=f"mend it by hand (conflict marks, a comma), or update this project if a newer one wrote it: {path}",
        ) from None


def load(path: Path) -> Published:
    """Read published.json; nothing is published where there is no file. Raises BadInput where it cannot be read."""
    try:
        return parse(read_regular(path), path)
    except FileNotFoundError:
        return Published()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from None


def append(path: Path, more: Iterable[Publication]) -> Published:
    """Add publications to published.json, whole or not at all; return what is in it now.

    Only whoever holds the lock of publications may (`ascend_images.publish.lock`).
    """
    before = load(path)
    after = before.with_more(*more)
    if after != before or not path.exists():
        write(path, after)
    return after


def write(path: Path, published: Published) -> None:
    """Write published.json, whole or not at all; only whoever holds the lock of publications may."""
    write_json(path, published, indent=1)
