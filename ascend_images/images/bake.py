"""Bake files: the JSON that `docker buildx bake` reads, one target an image and platform."""

import csv
import io
import re
from collections.abc import Iterable, Mapping

import msgspec

from ascend_images.errors import BadInput
from ascend_images.pins.platform import Arch

# What buildx 0.13 takes in a target's name; a dot is refused, a digit in front is not.
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


class Target(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """One target: the keys that buildx 0.13 reads and that are used here, each under its own name.

    buildx ignores a key it does not know without a word, so there is no way to write another one.
    """

    context: str
    dockerfile: str
    contexts: dict[str, str] = msgspec.field(default_factory=dict)
    args: dict[str, str] = msgspec.field(default_factory=dict)
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    tags: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    attest: tuple[str, ...] = ()
    cache_from: tuple[str, ...] = ()
    cache_to: tuple[str, ...] = ()
    no_cache: bool = False


def target_name(variant: str, arch: Arch) -> str:
    """Return the name of a target, `<variant>_<arch>`, with `_` for each character that bake refuses in names."""
    return _NOT_IN_NAMES.sub("_", f"{variant}_{arch.value}")


def bake_file(targets: Iterable[tuple[str, Target]]) -> bytes:
    """Return the JSON of a bake file with these named targets, all of them in its default group.

    Raises BadInput for a name that bake refuses and for a name given twice: folding may make two variants equal.
    """
    named: dict[str, Target] = {}
    for name, target in targets:
        if not name or _NOT_IN_NAMES.search(name):
            raise BadInput(f"{name!r} cannot be the name of a bake target", wanted="letters, digits, _ and -")
        if name in named:
            raise BadInput(f'two images would both be the bake target "{name}"', wanted="a name for each image")
        named[name] = target
    document = {
        "group": {"default": {"targets": list(named)}},
        "target": {name: escaped(msgspec.to_builtins(target)) for name, target in named.items()},
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def escaped(value: object) -> object:
    """Return `value` with every string in it, keys too, protected from bake: `${` and `%{` begin templates there."""
    match value:
        case str():
            return value.replace("${", "$${").replace("%{", "%%{")
        case dict():
            return {escaped(key): escaped(item) for key, item in value.items()}
        case list() | tuple():
            return [escaped(item) for item in value]
        case _:
            return value


def attributes(values: Mapping[str, str]) -> str:
    """Return `key=value,key=value` as outputs, secrets and attestations are written: one line of CSV.

    Raises BadInput for a line break, which no such line can hold.
    """
    for key, value in values.items():
        if "\n" in value or "\r" in value:
            raise BadInput(f"{key} holds a line break: {value!r}", wanted="a path or name on one line")
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(f"{key}={value}" for key, value in values.items())
    return line.getvalue()
