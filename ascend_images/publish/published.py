"""published.json: every publication, in the order in which they were made; only ever added to."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ascend_images.errors import BadInput
from ascend_images.files import read_regular, write_json
from ascend_images.pins.variant import Variant

FILE = "published.json"

Digest = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]

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

    `when` is a UTC time in ISO 8601. `commit` is the commit of this project whose rendered `dockerfile` was built, and
    `source` this project's address on the web (empty where it has none). `epoch` orders the candidates of a variant, in
    seconds. `platforms` names the image's manifest and `checks` what passed, each by platform; `waived` are checks that
    were not asked, with the reason. `signed` is the fingerprint of the public key that the digests were signed for
    (`publish.sign`), empty where they were not.
    """

    repository: str
    tag: str
    aliases: tuple[str, ...]
    digest: Digest
    variant: str
    when: str
    commit: str
    source: str
    dockerfile: str
    identity: str
    pins: str
    epoch: int
    platforms: dict[str, Digest]
    checks: dict[str, tuple[str, ...]]
    waived: dict[str, str]
    facts: Facts
    signed: Annotated[str, Meta(pattern=r"^(sha256:[0-9a-f]{64})?\Z")] = ""

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
        """Return the file with publications added, but for one that adds nothing to the last of its tag."""
        kept = list(self.publications)
        for one in more:
            before = Published(publications=tuple(kept)).of_tag(one.repository, one.tag)
            added = one.after(before[-1]) if before else one
            if not before or not before[-1].same_as(added):
                kept.append(added)
        return Published(publications=tuple(kept))


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
        return msgspec.json.decode(content, type=Published)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{path}: not the list of what was published: {error}",
            wanted="the file as `invoke promote` wrote it",
            do=f"git checkout -- {FILE}",
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
