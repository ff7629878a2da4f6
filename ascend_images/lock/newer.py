"""What is newer than a pin, whatever kind of pin it is: the words in which all that are asked answer."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from packaging.version import InvalidVersion, Version

from ascend_images.lock.git import Refs
from ascend_images.pins.variant import Variant

Kind = Literal["package", "source", "cann", "base image"]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One pin as variants share it: its kind and name, what is pinned, and the version that is in use by it.

    `current` is empty where that is not known: a range that nothing was locked for, a commit without a version.
    """

    kind: Kind
    name: str
    pinned: str
    variants: tuple[Variant, ...]
    current: str = ""


@dataclass(frozen=True, kw_only=True)
class Incomplete:
    """A newer version that some of the variants could not take, and what it lacks for them."""

    version: str
    lacks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is newer than a pin, each list with the newest first.

    `newer` are releases that all the variants can take, `prereleases` the same but not final; `moved` is the commit or
    the digest that stands behind the same name now; `unreached` says whom nothing could be learned from, and why;
    `notes` say what a person may want to know.
    """

    subject: Subject
    newer: tuple[str, ...] = ()
    prereleases: tuple[str, ...] = ()
    incomplete: tuple[Incomplete, ...] = ()
    moved: str = ""
    unreached: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def anything(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self.newer or self.prereleases or self.incomplete or self.moved or self.unreached or self.notes)


#: An answer: the refs of a repository, the tags of an image; or why there is none, as text.
Answer = Refs | tuple[str, ...] | str

#: A version that every other one is newer than.
LEAST = Version("0.dev0")


def version_of(text: str) -> Version | None:
    """Return a PEP 440 version, None for a text that is none."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


def newest_first(versions: Iterable[Version]) -> list[Version]:
    """Return versions in their order, the newest first."""
    return sorted(versions, reverse=True)
