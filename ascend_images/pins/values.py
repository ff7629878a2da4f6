"""What pins must be beyond their types: names that are legal and told apart, versions, paths, addresses.

Each fault has the path of its key. What needs a whole variant is asked elsewhere: by the rules, and when rendering.
"""

import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from functools import lru_cache
from pathlib import PurePosixPath

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from ascend_images.errors import BadInput
from ascend_images.pins.addresses import holds_password, is_https, masked, parts_of
from ascend_images.pins.compat import version
from ascend_images.pins.model import Mirror, Pins, Run, Source, Stack, VariantEntry
from ascend_images.pins.tags import ImageRef
from ascend_images.pins.validate import Fault
from ascend_images.pins.variant import IMAGE_FOLDER

Path = tuple[str | int, ...]

# Names of variants are names of files, of bake targets and of `--variant`.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
# By the core metadata specification of packaging.python.org; in a pattern a star stands for any text.
_PACKAGE = re.compile(r"[A-Z0-9](?:[A-Z0-9._-]*[A-Z0-9])?", re.IGNORECASE)
_PACKAGE_PATTERN = re.compile(r"[A-Z0-9*](?:[A-Z0-9._*-]*[A-Z0-9*])?", re.IGNORECASE)
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_LOCAL_VERSION = re.compile(r"(?:[a-z0-9]+(?:\.[a-z0-9]+)*)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PYTHON = re.compile(r"(?:3\.(?:0|[1-9][0-9]?))?")
_SOC = re.compile(r"(?:[A-Za-z0-9_-]+)?")
_FOLDER = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+)+")
# Digits that a version's number may have: Python itself refuses more than 4,300, and none has ten.
_LONGEST_VERSION = 128

# Folders of an image that belong to its system: a source may lie nowhere below these …
_SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys"),
    *("/tmp", "/usr", "/var", IMAGE_FOLDER),  # noqa: S108 - in an image
)
# … nor at one of these, which hold folders of others.
_SHARED = ("/home", "/media", "/mnt", "/opt", "/root", "/srv")
_PLACEHOLDERS = ("arch", "ops")


def pins_faults(pins: Pins) -> Iterator[Fault]:
    """Yield what is wrong with the values of a versions.toml whose types are right, each cause once."""
    yield from _names(pins)
    yield from _repository(("base", "image"), pins.base.image)
    for name, release in pins.cann.items():
        for part, run in release.run.items():
            yield from _run(("cann", name, "run", part), run)
    for name, index in pins.index.items():
        yield from _address(("index", name, "url"), index.url)
        yield from _requirements(("index", name, "serves"), index.serves)
    for name, mirror in pins.mirror.items():
        yield from _mirror(("mirror", name), mirror)
    for number, entry in enumerate(pins.metadata):
        yield from _matching(("metadata", number, "name"), entry.name, _PACKAGE, "the name of a distribution")
        yield from _requirements(("metadata", number, "requires"), entry.requires)
    told = set()
    for name, stack in pins.stack.items():
        for fault in stack_faults(stack, ("stack", name)):
            # An extending stack has what it extends, faults included.
            if (fault.path[2:], fault.message) not in told:
                told.add((fault.path[2:], fault.message))
                yield fault
    for name, variant in pins.variant.items():
        yield from entry_faults(variant, ("variant", name))


def entry_faults(entry: VariantEntry, path: Path = ()) -> Iterator[Fault]:
    """Yield what is wrong with the values of a variant's own table."""
    yield from _matching((*path, "python"), entry.python, _PYTHON, "Python's X.Y, such as 3.12")
    yield from _matching((*path, "soc_version"), entry.soc_version, _SOC, "a build target, such as ascend910b1")
    for platform in dict.fromkeys(entry.platforms):
        if entry.platforms.count(platform) > 1:
            yield Fault((*path, "platforms"), f'"{platform}" stands there twice')


def stack_faults(stack: Stack, path: Path = ()) -> Iterator[Fault]:
    """Yield what is wrong with the values of a stack, extended or not."""
    if stack.repository:
        yield from _repository((*path, "repository"), stack.repository)
    yield from _matching((*path, "python"), stack.python, _PYTHON, "Python's X.Y, such as 3.12")
    yield from _packages(stack, path)
    for table in ("env", "install_env", "runtime"):
        for name in getattr(stack, table):
            yield from _matching((*path, table, name), name, _VARIABLE, "the name of a variable")
    yield from _twins((*path, "sources"), stack.sources, str.lower, "in case alone")
    for name, source in stack.sources.items():
        yield from _source((*path, "sources", name), source)
    yield from _places(stack, path)
    if stack.end_of_support and not _is_day(stack.end_of_support):
        yield Fault((*path, "end_of_support"), f'"{stack.end_of_support[:80]}" is no day, such as 2027-06-30')
    yield from _all_matching((*path, "checks"), stack.checks, _DOTTED, "a module or module.attribute")
    for number, patch in enumerate(stack.patches):
        here = (*path, "patches", number)
        yield from _matching((*here, "distribution"), patch.distribution, _PACKAGE, "the name of a distribution")
        yield from _below((*here, "file"), patch.file)


def _names(pins: Pins) -> Iterator[Fault]:
    """Yield names that cannot be one, and names that file systems, registries or people would take for each other."""
    for table in ("hardware", "series", "cann", "index", "mirror", "stack", "variant"):
        named: Mapping[str, object] = getattr(pins, table)
        yield from _twins((table,), named, str.lower, "in case alone")
        for name in named:
            yield from _matching((table, name), name, _NAME, "letters, digits and ._+-, the first no sign")
    owners = {name.lower(): name for name in pins.variant}
    for name, entry in pins.variant.items():
        for number, alias in enumerate(entry.aliases):
            where = ("variant", name, "aliases", number)
            yield from _matching(where, alias, _NAME, "letters, digits and ._+-, the first no sign")
            owner = owners.setdefault(alias.lower(), name)
            if owner != name:
                yield Fault(where, f'variants "{owner}" and "{name}" are both called "{alias}"')


def _packages(stack: Stack, path: Path) -> Iterator[Fault]:
    yield from _twins((*path, "packages"), stack.packages, canonicalize_name, "in spelling alone")
    for name, pin in stack.packages.items():
        here = (*path, "packages", name)
        yield from _matching(here, name, _PACKAGE, "the name of a distribution")
        if not _is_pin(pin):
            yield Fault(here, f'"{pin[:80]}" is neither a version nor a specifier such as ">=4.13,<5"')
    for table in ("exclude", "no_dependencies"):
        for name in getattr(stack, table):
            yield from _matching((*path, table, name), name, _PACKAGE_PATTERN, "a distribution, or a pattern with *")
    for number, relax in enumerate(stack.relax):
        here = (*path, "relax", number)
        yield from _matching((*here, "whose"), relax.whose, _PACKAGE, "a source or a distribution")
        yield from _requirements((*here, "demand"), [relax.demand])


def _source(path: Path, source: Source) -> Iterator[Fault]:
    if source.git:
        yield from _address((*path, "git"), source.git)
    if source.path:
        yield from _place((*path, "path"), source.path)
    if source.module:
        yield from _matching((*path, "module"), source.module, _DOTTED, "the name of a module")
    if source.distribution:
        yield from _matching((*path, "distribution"), source.distribution, _PACKAGE, "the name of a distribution")
    if source.version and not _is_version(source.version):
        yield Fault((*path, "version"), f'"{source.version[:80]}" is not a version')
    yield from _matching((*path, "local_version"), source.local_version, _LOCAL_VERSION, "letters and digits")
    for number, file in enumerate(source.requirements):
        yield from _below((*path, "requirements", number), file)
    yield from _requirements((*path, "declares"), source.declares)
    yield from _requirements((*path, "build_requires"), source.build_requires)
    yield from _all_matching((*path, "checks"), source.checks, _DOTTED, "a module or module.attribute")
    for name in source.env:
        yield from _matching((*path, "env", name), name, _VARIABLE, "the name of a variable")


def _place(path: Path, text: str) -> Iterator[Fault]:
    """Yield why a checkout may not lie at a path of the image."""
    if not _FOLDER.fullmatch(text):
        yield Fault(path, f'"{text}" is not the path of a folder, such as /vllm: letters, digits, ._- and no ..')
    elif text in _SHARED or any(text == system or text.startswith(f"{system}/") for system in _SYSTEM):
        yield Fault(path, f'"{text}" belongs to the image\'s system: write a folder of its own, such as /vllm')


def _places(stack: Stack, path: Path) -> Iterator[Fault]:
    """Yield checkouts that would lie at one place or one in another."""
    placed = [(name, PurePosixPath(source.path)) for name, source in stack.sources.items() if source.path]
    for number, (name, place) in enumerate(placed):
        for other, known in placed[:number]:
            where = (*path, "sources", name, "path")
            if place == known:
                yield Fault(where, f'"{place}" is the folder of source {other} too')
            elif known in place.parents:
                yield Fault(where, f'"{place}" lies in the folder of source {other}, {known}')
            elif place in known.parents:
                yield Fault(where, f'in "{place}" lies the folder of source {other}, {known}')


def _mirror(path: Path, mirror: Mirror) -> Iterator[Fault]:
    for original, replacement in mirror.git.items():
        yield from _address((*path, "git", original), original)
        yield from _address((*path, "git", original), replacement)
    for name, url in mirror.index.items():
        yield from _address((*path, "index", name), url)
    for original, replacement in mirror.registry.items():
        yield from _repository((*path, "registry", original), original)
        yield from _repository((*path, "registry", original), replacement)
    for family, url in mirror.os.items():
        # The packages of an operating system are signed: http will do.
        parts = parts_of(url)
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or holds_password(url):
            yield Fault((*path, "os", family), f"{masked(url)} is not an http(s) address without a password")


def _run(path: Path, run: Run) -> Iterator[Fault]:
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(run.url) if name is not None]
    except ValueError as error:
        yield Fault((*path, "url"), f"{masked(run.url)}: {error}")
        return
    for name in names:
        if name not in _PLACEHOLDERS:
            wanted = " and ".join(f"{{{known}}}" for known in _PLACEHOLDERS)
            yield Fault((*path, "url"), f"{{{name}}} stands for nothing there; {wanted} do")
            return
    yield from _address((*path, "url"), run.url.format(arch="x86_64", ops="910b"))


def _address(path: Path, url: str) -> Iterator[Fault]:
    if not is_https(url):
        yield Fault(path, f"{masked(url)} is not an https address")
    elif "@" in url.split("/")[2]:
        yield Fault(path, f"{masked(url)} holds a user or a password, which would be published")


def _repository(path: Path, text: str) -> Iterator[Fault]:
    """Yield why a text is no image repository, or part of one that a mirror may name, without tag and digest."""
    try:
        # Behind a port a colon would be taken for the one of a tag.
        ImageRef.parse(f"{text}/x")
    except BadInput as error:
        yield Fault(path, f"{error.found.replace('/x', '', 1)}; wanted: host/name, without a tag")


def _below(path: Path, text: str) -> Iterator[Fault]:
    place = PurePosixPath(text)
    if place.is_absolute() or ".." in place.parts:
        yield Fault(path, f'"{text}" is not a path below the folder that it is read from')


def _requirements(path: Path, lines: Iterable[str]) -> Iterator[Fault]:
    for line in lines:
        if not _is_requirement(line):
            yield Fault(path, f'"{line[:80]}" is not a requirement such as "numpy>=2; python_version >= \'3.12\'"')


def _all_matching(path: Path, texts: Iterable[str], pattern: re.Pattern[str], wanted: str) -> Iterator[Fault]:
    for number, text in enumerate(texts):
        yield from _matching((*path, number), text, pattern, wanted)


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _matching(path: Path, text: str, pattern: re.Pattern[str], wanted: str) -> Iterator[Fault]:
    if not pattern.fullmatch(text):
        yield Fault(path, f'"{text[:80]}" is not {wanted}')


def _twins(path: Path, names: Iterable[str], fold: Callable[[str], str], how: str) -> Iterator[Fault]:
    """Yield names that are the same once folded."""
    known: dict[str, str] = {}
    for name in names:
        twin = known.setdefault(fold(name), name)
        if twin != name:
            yield Fault((*path, name), f'"{twin}" and "{name}" differ {how}')


@lru_cache(maxsize=4096)
def _is_version(text: str) -> bool:
    return len(text) <= _LONGEST_VERSION and version(text) is not None


@lru_cache(maxsize=4096)
def _is_pin(text: str) -> bool:
    if len(text) > _LONGEST_VERSION or _is_version(text):
        return len(text) <= _LONGEST_VERSION
    try:
        return len(SpecifierSet(text)) > 0
    except InvalidSpecifier:
        return False


@lru_cache(maxsize=4096)
def _is_requirement(text: str) -> bool:
    try:
        # What comes from an address has no version that a lock could hold.
        return Requirement(text).url is None
    except (InvalidRequirement, RecursionError):
        return False
