"""The package lock's file format, and the hash that tells a lock of other pins from a current one.

`locks/<variant>.<arch>.txt` is a requirements file that pip and uv read, under a head of `# key: value` lines. No
address stands in it: where a package comes from is said by the indexes, once.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from ascend_images.digest import digest_of, is_digest
from ascend_images.errors import BadInput
from ascend_images.files import read_regular
from ascend_images.pins.platform import Arch, parse_platform
from ascend_images.pins.variant import Variant

#: Part of the inputs hash: to be raised when the same pins would be locked differently.
_SCHEMA = 1

_HEAD = re.compile(r"^# (?P<key>[A-Za-z][A-Za-z ]*): (?P<value>.*)$")
_PACKAGE = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s\\;]+)(?P<more> \\)?$")
_HASH = re.compile(r"^    --hash=(?P<hash>sha256:[0-9a-f]{64})(?P<more> \\)?$")
_ONCE = ("variant", "platform", "python", "inputs", "content")
_OPTIONAL = ("parts",)
# Lines that the digest of the content leaves out: its own, and the one for people.
_NOT_CONTENT = ("# content:", "# Made by:")
#: Parts of the inputs that are told apart where a lock is not current, besides each source.
_PARTS = ("packages", "no_dependencies", "relax", "exclude", "indexes", "metadata")
_SHORT = 12  # hex digits of a part's hash: they tell changes apart, they check nothing
_MANY = ("source", "incomplete", "differs", "sdist", "conflict")


class Conflict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A demand that the locked set does not meet, on purpose: exactly what `pip check` may say in the image.

    `whose` of `version` asks for `demand` and finds version `found` of it, or none where `found` is empty; `reason` is
    that of the relaxation, exclusion or other entry that lifts the demand.
    """

    whose: str
    version: str
    demand: str
    found: str
    reason: str


class LockedPackage(msgspec.Struct, frozen=True):
    """One package of the set; without hashes where the index that serves it could not be reached."""

    name: str
    version: str
    hashes: tuple[str, ...] = ()


class LockFile(msgspec.Struct, frozen=True, kw_only=True):
    """The whole third-party package set of one variant on one architecture.

    `inputs` is the hash of what was asked (`inputs_hash`), `parts` those of its parts, by which is told which of them
    are others now (`moved_pins`); `elsewhere` says which sources were read in a checkout that is not known to be what
    they are pinned to (an older lock may lack that), `incomplete` what could not be learned, `differs` what is not the
    same on the other architecture, `conflicts` which demands are not met on purpose, `sdists` which packages have no
    wheel there; what building those takes is part of the set.
    """

    variant: str
    arch: Arch
    python: str
    inputs: str
    parts: Mapping[str, str] = msgspec.field(default_factory=dict)
    elsewhere: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()
    sdists: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    packages: tuple[LockedPackage, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether everything was learned, so that every package can be checked by its hash."""
        return not self.incomplete

    @property
    def versions(self) -> dict[str, str]:
        """Locked version by normalised name."""
        return {package.name: package.version for package in self.packages}

    @property
    def digest(self) -> str:
        """The digest of the file's text, by which records name the lock that was installed from."""
        return digest_of(str(self).encode())

    def __str__(self) -> str:
        head = [
            f"# Made by: invoke lock --variant {self.variant}",
            f"# variant: {self.variant}",
            f"# platform: {self.arch.platform}",
            f"# python: {self.python}",
            f"# inputs: {self.inputs}",
            *([f"# parts: {msgspec.json.encode(self.parts, order='sorted').decode()}"] if self.parts else []),
            *(f"# source: {_one_line(text)}" for text in self.elsewhere),
            *(f"# incomplete: {_one_line(text)}" for text in self.incomplete),
            *(f"# differs: {_one_line(text)}" for text in self.differs),
            *(f"# sdist: {name}" for name in self.sdists),
            *(f"# conflict: {msgspec.json.encode(conflict).decode()}" for conflict in self.conflicts),
        ]
        text = "\n".join([*head, *(_package_text(package) for package in self.packages)]) + "\n"
        return text.replace(f"# inputs: {self.inputs}\n", f"# inputs: {self.inputs}\n# content: {_content(text)}\n", 1)

    @classmethod
    def parse(cls, text: str, path: Path | str = "lock file") -> Self:
        """Read a lock file's text; `path` is for messages. Raises BadInput, naming the line, on anything else."""
        return cls(**_Reader(str(path)).read(text))  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the lock file at `path`; raises BadInput when it is not there or not one."""
        try:
            text = read_regular(path).decode().replace("\r\n", "\n")
        except (OSError, UnicodeDecodeError) as error:
            why = (error.strerror or error) if isinstance(error, OSError) else "it is not UTF-8"
            raise BadInput(
                f"{path}: cannot be read: {why}",
                do=f"make it: invoke lock --variant {_variant_of(path)}",
            ) from None
        return cls.parse(text, path)


def file_name(variant: str, arch: Arch) -> str:
    """Return the name of a lock file in its folder: `<variant>.<arch>.txt`."""
    return f"{variant}.{arch.value}.txt"


def _content(text: str) -> str:
    """Return `sha256:…` over the lines of a lock file that say what is locked, by which a change by hand shows."""
    lines = [line for line in text.split("\n") if not line.startswith(_NOT_CONTENT)]
    return digest_of("\n".join(lines).encode("utf-8", "surrogatepass"))


def _variant_of(path: Path | str) -> str:
    """Return the variant that the name of a lock file is for."""
    return Path(path).name.removesuffix(".txt").rpartition(".")[0] or "NAME"


def is_current(lock: LockFile, variant: Variant) -> bool:
    """Tell, from the pins alone, whether `lock` was made from what `variant` asks for today."""
    return lock.inputs == inputs_hash(variant, lock.arch) and lock.python == variant.python


def inputs_hash(variant: Variant, arch: Arch) -> str:
    """Return `sha256:…` over everything that a lock of this variant and architecture is made from.

    A pure function of the pins: what a source's files say is told by its commit. Reasons and whatever has no part in
    choosing packages (paths, environment, checks) are left out, so that rewording one leaves the locks current.
    """
    return digest_of(msgspec.json.encode(_inputs(variant, arch), order="sorted"))


def input_parts(variant: Variant, arch: Arch) -> dict[str, str]:
    """Return a short hash of each part of the inputs by its name in versions.toml, each source apart."""
    asked = _inputs(variant, arch)
    sources = {f"sources.{name}": value for name, value in asked.pop("sources").items()}
    parts = {name: asked[name] for name in _PARTS} | sources
    return {
        name: hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:_SHORT]
        for name, value in parts.items()
    }


def _inputs(variant: Variant, arch: Arch) -> dict[str, Any]:
    return {
        "schema": _SCHEMA,
        "arch": arch.value,
        "python": variant.python,
        "packages": {str(canonicalize_name(name)): variant.pin(name, arch) for name in variant.packages},
        "no_dependencies": sorted(canonicalize_name(name) for name in variant.no_dependencies),
        "relax": sorted([relax.whose, relax.demand] for relax in variant.relax),
        "exclude": sorted(variant.exclude),
        "indexes": {name: [index.url, sorted(index.serves)] for name, index in variant.indexes.items()},
        "metadata": sorted([entry.name, entry.version, sorted(entry.requires)] for entry in variant.metadata),
        "sources": {
            source.name: {
                "git": source.git,
                "revision": source.revision,
                "distribution": source.distribution,
                "version": source.installed_version,
                "install": source.install,
                "requirements": list(source.requirements),
                "declares": sorted(source.declares),
                "build_requires": sorted(source.build_requires),
                "dependencies": source.dependencies,
            }
            for source in variant.sources
        },
    }


def foreign(lock: LockFile, shown: str, variant: str, arch: Arch) -> str:
    """Say that the lock file `shown` is that of another variant or architecture than its name says, empty where not."""
    if (lock.variant, lock.arch) == (variant, arch):
        return ""
    return f"{shown} is the lock of {lock.variant} {lock.arch.value}, not of {variant} {arch.value}"


def moved_pins(lock: LockFile, variant: Variant) -> tuple[str, ...]:
    """Return which pins of `variant` a lock does not answer, in words; nothing for a current one."""
    if is_current(lock, variant):
        return ()
    moved = [f"python is {variant.python}, locked {lock.python}"] if lock.python != variant.python else []
    moved += _moved_versions(lock, variant)
    now = input_parts(variant, lock.arch)
    differing = [name for name in {**now, **lock.parts} if lock.parts and now.get(name) != lock.parts.get(name)]
    for name in differing:
        if name == "packages" and any(_is_pin(text, variant) for text in moved):
            continue
        gone = name not in now
        moved.append(f"{name} is gone" if gone else f"{name} is new" if name not in lock.parts else f"{name} changed")
    return tuple(moved) or ("something that decides on packages changed",)


def _moved_versions(lock: LockFile, variant: Variant) -> list[str]:
    moved = []
    for name in variant.packages:
        pin = variant.pin(name, lock.arch)
        locked = lock.versions.get(str(canonicalize_name(name)), "")
        if not locked or not _meets(locked, pin):
            moved.append(f"{name} is {pin}, {f'locked {locked}' if locked else 'not locked'}")
    return moved


def _is_pin(text: str, variant: Variant) -> bool:
    return text.partition(" is ")[0] in variant.packages


def _meets(version: str, pin: str) -> bool:
    """Return whether a locked version is what a pin says: a version, or a specifier."""
    try:
        return Version(version) == Version(pin)
    except InvalidVersion:
        pass
    try:
        return SpecifierSet(pin).contains(version, prereleases=True)
    except InvalidSpecifier:
        return False


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _package_text(package: LockedPackage) -> str:
    line = f"{package.name}=={package.version}"
    return " \\\n".join([line, *(f"    --hash={digest}" for digest in package.hashes)])


class _Reader:
    """Reads one lock file line by line; every complaint names file and line."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.number = 0
        self.once: dict[str, str] = {}
        self.many: dict[str, list[str]] = {key: [] for key in _MANY}
        self.packages: list[tuple[str, str, list[str]]] = []
        self.continues = False

    def bad(self, found: str, wanted: str = "") -> BadInput:
        variant = self.once.get("variant") or _variant_of(self.path)
        do = f"make the lock again: invoke lock --variant {variant}"
        return BadInput(f"{self.path}:{self.number}: {found}", wanted=wanted, do=do)

    def read(self, text: str) -> Mapping[str, object]:
        for self.number, line in enumerate(text.split("\n"), start=1):
            if line:
                self._line(line)
            elif self.continues:
                raise self.bad("a line that continues ends here", "a --hash line")
        if self.continues:
            raise self.bad("the file ends in a line that continues", "a --hash line")
        missing = [key for key in _ONCE if key not in self.once]
        if missing:
            raise self.bad(f"the head lacks {', '.join(missing)}", "a file that `invoke lock` made")
        self._no_silent_gaps()
        fields = self._fields()
        if self.once["content"] != _content(text):
            raise BadInput(
                f"{self.path}: was changed after it was made: its lines are not those of its digest (# content:)",
                wanted="a lock as `invoke lock` wrote it: what it holds was resolved and checked as a whole",
                do=f"make the lock again: invoke lock --variant {self.once['variant']}; or undo the change",
            )
        return fields

    def _line(self, line: str) -> None:
        if line.startswith("#"):
            self._head(line)
        elif self.continues:
            self._hash(line)
        else:
            self._package(line)

    def _head(self, line: str) -> None:
        match = _HEAD.match(line)
        if self.continues or match is None:
            raise self.bad(f"not a line of a lock's head: {line[:80]}", "# key: value")
        key, value = match["key"], match["value"]
        if key in self.many:
            self.many[key].append(value)
        elif key in self.once:
            raise self.bad(f'the head says "{key}" twice')
        elif key in (*_ONCE, *_OPTIONAL):
            self.once[key] = value
        elif key != "Made by":
            raise self.bad(f'unknown key "{key}" in the head', "one of: " + ", ".join((*_ONCE, *_OPTIONAL, *_MANY)))

    def _package(self, line: str) -> None:
        match = _PACKAGE.match(line)
        if match is None:
            raise self.bad(f"not a locked package: {line[:80]}", "name==version, exactly")
        name, version = match["name"], match["version"]
        try:
            normal = str(Version(version))
        except InvalidVersion:
            raise self.bad(f'"{version}" is not a version') from None
        if name != canonicalize_name(name) or version != normal:
            raise self.bad(f"{name}=={version} is not in normal form", f"{canonicalize_name(name)}=={normal}")
        if self.packages and self.packages[-1][0] >= name:
            raise self.bad(f"{name} stands after {self.packages[-1][0]}", "each package once, in alphabetical order")
        self.packages.append((name, version, []))
        self.continues = match["more"] is not None

    def _hash(self, line: str) -> None:
        match = _HASH.match(line)
        if match is None:
            raise self.bad(f"not a hash: {line.strip()[:80]}", "--hash=sha256:<64 hex digits>")
        self.packages[-1][2].append(match["hash"])
        self.continues = match["more"] is not None

    def _no_silent_gaps(self) -> None:
        """A package without a hash is one that the head owns up to; anything else was edited by hand."""
        for name, version, hashes in self.packages:
            if not hashes and not any(text.startswith(f"{name}=={version}:") for text in self.many["incomplete"]):
                raise self.bad(
                    f"{name}=={version} has no hash, and no `# incomplete: {name}=={version}: …` line says why"
                )

    def _sdists(self) -> tuple[str, ...]:
        known = {name for name, _, _ in self.packages}
        for name in self.many["sdist"]:
            if name not in known:
                raise self.bad(f'the head calls "{name}" an sdist, but it is not a package of the lock')
        return tuple(self.many["sdist"])

    def _parts(self) -> Mapping[str, str]:
        try:
            return msgspec.json.decode(self.once.get("parts", "{}"), type=dict[str, str])
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise self.bad(f"the line of parts cannot be read: {error}") from None

    def _fields(self) -> Mapping[str, object]:
        if not is_digest(self.once["inputs"]):
            raise self.bad(f"not a hash of inputs: {self.once['inputs'][:80]}", "sha256:<64 hex digits>")
        try:
            arch = parse_platform(self.once["platform"])
            conflicts = tuple(msgspec.json.decode(text, type=Conflict) for text in self.many["conflict"])
        except BadInput as error:
            raise self.bad(error.found, error.wanted) from None
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise self.bad(f"a conflict line cannot be read: {error}") from None
        return {
            "variant": self.once["variant"],
            "arch": arch,
            "python": self.once["python"],
            "inputs": self.once["inputs"],
            "parts": self._parts(),
            "elsewhere": tuple(self.many["source"]),
            "incomplete": tuple(self.many["incomplete"]),
            "differs": tuple(self.many["differs"]),
            "sdists": self._sdists(),
            "conflicts": conflicts,
            "packages": tuple(LockedPackage(name, version, tuple(hashes)) for name, version, hashes in self.packages),
        }
