"""versions.lock: what the refs, base images and .run packages of versions.toml mean, each with its date and source.

Reading and writing, all of it pure; `ascend_images.lock.versions` learns what stands in the file, and
`ascend_images.pins.questions` says what variants ask of it. It lies beside versions.toml.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Literal, Self

import msgspec
from msgspec import Meta

from ascend_images.digest import Digest, DigestIfAny
from ascend_images.errors import BadInput
from ascend_images.files import read_regular
from ascend_images.pins.table import Table, Text
from ascend_images.pins.validate import faults
from ascend_images.toml_text import NotTomlError, read_toml

FILE = "versions.lock"

Kind = Literal["tag", "annotated tag", "branch", "commit"]
# \Z and not $, which takes a line's end as well.
Commit = Annotated[str, Meta(pattern=r"^[0-9a-f]{40}\Z")]
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Platform = Annotated[str, Meta(pattern=r"^linux/(amd64|arm64)\Z")]

_TABLES = ("git", "base", "run")
_HEAD = """\
# Made by: invoke lock
# What the names in versions.toml mean: commits, digests, checksums, each with the day it was learned and how.
schema = 1
"""


class Submodule(Table, frozen=True, kw_only=True):
    """A submodule of a commit, at whatever depth: its path from the top, its address, its commit."""

    path: Text
    url: Text
    commit: Commit


class LockedRef(Table, frozen=True, kw_only=True):
    """The commit of a ref; an annotated tag is peeled. Without `submodules` they were never read; () is none."""

    repository: Text
    ref: Text
    kind: Kind
    commit: Commit
    learned: date
    how: Text
    submodules: tuple[Submodule, ...] | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What it is found by."""
        return self.repository, self.ref

    @property
    def short(self) -> str:
        """What is locked, as much as tells it from another."""
        return self.commit[:12]

    def __str__(self) -> str:
        return self.commit


class LockedBase(Table, frozen=True, kw_only=True):
    """The digest of a base image for each platform, and of its index; an image without an index has none."""

    image: Text
    index: DigestIfAny = ""
    platforms: Annotated[dict[Platform, Digest], Meta(min_length=1)]
    learned: date
    how: Text

    @property
    def key(self) -> tuple[str, str]:
        """What it is found by."""
        return self.image, ""

    @property
    def digest(self) -> str:
        """What the image's name means: its index, or the one image there is."""
        return self.index or next(iter(self.platforms.values()))

    @property
    def short(self) -> str:
        """What is locked, as much as tells it from another."""
        return self.digest[:19]

    def __str__(self) -> str:
        return self.digest


class LockedRun(Table, frozen=True, kw_only=True):
    """The checksum and the size of a CANN .run package; its address holds the architecture."""

    url: Text
    sha256: Sha256
    bytes: Annotated[int, Meta(gt=0)]
    learned: date
    how: Text

    @property
    def key(self) -> tuple[str, str]:
        """What it is found by."""
        return self.url, ""

    @property
    def short(self) -> str:
        """What is locked, as much as tells it from another."""
        return f"sha256 {self.sha256[:12]}"

    def __str__(self) -> str:
        return f"sha256 {self.sha256}"


Entry = LockedRef | LockedBase | LockedRun


class VersionsLock(Table, frozen=True, kw_only=True):
    """versions.lock; what is not known has no entry."""

    schema: Literal[1] = 1
    git: tuple[LockedRef, ...] = ()
    base: tuple[LockedBase, ...] = ()
    run: tuple[LockedRun, ...] = ()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All that it says."""
        return (*self.git, *self.base, *self.run)

    def beside(self, other: Self) -> Self:
        """Return the lock without what `other` says too, whenever and however it was learned."""
        known = [_meaning(one) for one in other.entries]
        tables = {name: tuple(one for one in getattr(self, name) if _meaning(one) not in known) for name in _TABLES}
        return msgspec.structs.replace(self, **tables)

    def ref(self, repository: str, ref: str) -> LockedRef | None:
        """Return what a ref of a repository means, None where that is not known."""
        return next((entry for entry in self.git if entry.key == (repository, ref)), None)

    def base_image(self, image: str) -> LockedBase | None:
        """Return the digests of a base image, by its reference as it is pinned."""
        return next((entry for entry in self.base if entry.image == image), None)

    def run_file(self, url: str) -> LockedRun | None:
        """Return the checksum of a .run package, by its address."""
        return next((entry for entry in self.run if entry.url == url), None)

    def having(self, *entries: Entry) -> Self:
        """Return this lock with these entries in the place of those that they replace."""
        tables: dict[str, dict[tuple[str, str], Entry]] = {
            name: {entry.key: entry for entry in getattr(self, name)} for name in _TABLES
        }
        for entry in entries:
            name = "git" if isinstance(entry, LockedRef) else "base" if isinstance(entry, LockedBase) else "run"
            tables[name][entry.key] = entry
        return msgspec.structs.replace(
            self, **{name: tuple(table[key] for key in sorted(table)) for name, table in tables.items()}
        )

    def __str__(self) -> str:
        ordered = self.having()
        tables = [_table(name, entry) for name in _TABLES for entry in getattr(ordered, name)]
        return "\n".join([_HEAD, *tables])

    @classmethod
    def parse(cls, text: str, path: Path | str = FILE) -> Self:
        """Read the text of a versions.lock; `path` is for messages. Raises BadInput that names every fault."""
        do = "make it again: invoke lock --all --fresh"
        try:
            raw = read_toml(text)
        except NotTomlError as error:
            raise BadInput(f"{path}: not TOML: {error}", wanted="a file that `invoke lock` made", do=do) from None
        found = [str(fault) for fault in faults(raw, cls)]
        if found:
            raise BadInput("\n".join(f"{path}: {fault}" for fault in found), do=do)
        lock = msgspec.convert(raw, cls)
        for name in _TABLES:
            keys = [entry.key for entry in getattr(lock, name)]
            for key in keys:
                if keys.count(key) > 1:
                    raise BadInput(f"{path}: {name}: {' '.join(key).strip()} stands there twice", wanted="once", do=do)
        return lock

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a versions.lock; an empty one where there is no file. Raises BadInput where it cannot be read."""
        try:
            return cls.parse(read_regular(path).decode(), path)
        except FileNotFoundError:
            return cls()
        except (OSError, UnicodeDecodeError) as error:
            why = (error.strerror or error) if isinstance(error, OSError) else "it is not UTF-8"
            raise BadInput(f"{path}: cannot be read: {why}", do="make it again: invoke lock --all --fresh") from None


def _meaning(entry: Entry) -> Entry:
    return msgspec.structs.replace(entry, learned=date.min, how="by whatever way")


def _table(name: str, entry: Entry) -> str:
    lines = [f"[[{name}]]"]
    for key, value in msgspec.structs.asdict(entry).items():
        if isinstance(value, tuple) and value:
            lines += [f"{key} = [", *(f"    {_inline(msgspec.structs.asdict(one))}," for one in value), "]"]
        elif value not in (None, ""):
            lines.append(f"{key} = {_value(value)}")
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return _inline(dict(sorted(value.items())))
    if isinstance(value, tuple):
        return "[]"
    # A string of JSON is one of TOML, but for this one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _inline(values: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f"{_key(key)} = {_value(value)}" for key, value in values.items()) + " }"


def _key(key: str) -> str:
    return key if key.isidentifier() else _value(key)


@dataclass(frozen=True)
class Change:
    """What a name meant before and means now; empty where nothing was or is known."""

    subject: str
    before: str
    after: str

    def __str__(self) -> str:
        if self.before == self.after:
            return f"{self.subject}: {self.after}, learned again"
        return f"{self.subject}: {self.before or 'not known'} -> {self.after or 'dropped'}"


def changes(before: VersionsLock, after: VersionsLock) -> tuple[Change, ...]:
    """Return what differs between two locks, in their order; "learned again" where only date and source differ."""
    found = []
    for name in _TABLES:
        old = {entry.key: entry for entry in getattr(before, name)}
        new = {entry.key: entry for entry in getattr(after, name)}
        for key in sorted({**old, **new}):
            if old.get(key) != new.get(key):
                shown = [str(table[key]) if key in table else "" for table in (old, new)]
                found.append(Change(" ".join(key).strip(), *shown))
    return tuple(found)
