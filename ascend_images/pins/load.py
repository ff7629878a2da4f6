"""Reading versions.toml: text to typed Pins, every fault with its line."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ascend_images.errors import BadInput, unknown
from ascend_images.files import read_regular
from ascend_images.pins.model import Pins, PinsFile
from ascend_images.pins.resolve import pinned_images
from ascend_images.pins.texts import text_faults
from ascend_images.pins.validate import Fault, faults
from ascend_images.pins.values import pins_faults
from ascend_images.pins.versions_lock import FILE, VersionsLock
from ascend_images.toml_text import NotTomlError, common_length, read_toml

#: Lists of names to which an extending stack adds; every other list is replaced.
_APPENDED = ("checks", "apt", "yum")


def load(path: Path, *, locked: bool = True) -> Pins:
    """Read a versions.toml and the versions.lock beside it; raises BadInput naming file and line of every fault found.

    Unless `locked`, the lock is left out of account.
    """
    try:
        text = read_regular(path).decode("utf-8-sig")
    except OSError as error:
        raise BadInput(
            f"{path}: {error.strerror}", wanted="a versions.toml", do="run this in the project's folder"
        ) from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: byte {error.start} is not UTF-8", wanted="a TOML file in UTF-8") from None
    pins = parse(text, str(path))
    return msgspec.structs.replace(pins, locked=VersionsLock.load(path.with_name(FILE))) if locked else pins


def parse(text: str, name: str = "versions.toml") -> Pins:
    """Read the text of a versions.toml called `name`; raises BadInput, also where two variants would be one image."""
    try:
        raw = read_toml(text)
    except NotTomlError as error:
        raise BadInput(f"{name}: not TOML: {error}", wanted="valid TOML") from None
    _refuse(name, text, [*text_faults(raw)] or faults(raw, PinsFile))
    raw["stack"] = extended(raw["stack"])
    pins = msgspec.convert(raw, Pins)
    _refuse(name, text, [*pins_faults(pins)])
    _check_names(pins)
    pinned_images(pins)
    return pins


def _refuse(name: str, text: str, found: Sequence[Fault]) -> None:
    if found:
        raise BadInput(
            "\n".join(_located(name, text, fault) for fault in found), do="see versions.schema.json for every key"
        )


def extended(stacks: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the stacks with each `extends` carried out; raises BadInput for a name of nothing and for a circle."""
    done: dict[str, dict[str, Any]] = {}

    def complete(name: str, waiting: tuple[str, ...]) -> dict[str, Any]:
        if name in done:
            return done[name]
        own = stacks[name]
        parent = own.get("extends", "")
        if parent and parent not in stacks:
            raise unknown("stack", parent, stacks, where=f"stack.{name}.extends")
        if parent in (*waiting, name):
            raise BadInput(f"stack.{name}: extends itself by way of {' -> '.join((*waiting, name, parent))}")
        merged = _merged(_without(complete(parent, (*waiting, name)), own, name), own) if parent else own
        done[name] = merged
        return merged

    for name in stacks:
        complete(name, ())
    return done


def _without(parent: dict[str, Any], own: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the parent stack less what the child's `without` names, wherever it stands."""
    dropped = set(own.get("without", {}))
    unmatched = set(dropped)

    def pruned(value: Any) -> Any:
        if isinstance(value, dict):
            unmatched.difference_update(value)
            return {key: pruned(item) for key, item in value.items() if key not in dropped}
        if isinstance(value, list):
            unmatched.difference_update(item for item in value if isinstance(item, str))
            return [item for item in value if not (isinstance(item, str) and item in dropped)]
        return value

    kept = {
        key: pruned(value)
        if key in ("packages", "sources", "env", "accept", "exclude", "system", "no_dependencies", "checks")
        else value
        for key, value in parent.items()
        if key not in ("without", "extends")
    }
    if unmatched:
        raise BadInput(
            f"stack.{name}.without: {', '.join(sorted(unmatched))} is nothing that the extended stack has",
            do="remove it from `without`",
        )
    return kept


def _merged(parent: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(parent)
    for key, value in own.items():
        before = result.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            result[key] = _merged(before, value)
        elif isinstance(value, list) and isinstance(before, list) and key in _APPENDED:
            result[key] = before + [item for item in value if item not in before]
        else:
            result[key] = value
    return result


def _check_names(pins: Pins) -> None:
    """Check that what is named elsewhere in the file is there; raises BadInput."""
    for name, entry in pins.variant.items():
        if entry.stack not in pins.stack:
            raise unknown("stack", entry.stack, pins.stack, where=f"variant.{name}")
        if entry.hardware not in pins.hardware:
            raise unknown("hardware", entry.hardware, pins.hardware, where=f"variant.{name}")
    for name, series in pins.series.items():
        for hardware in series.drivers_for:
            if hardware not in pins.hardware:
                raise unknown("hardware", hardware, pins.hardware, where=f"series.{name}.drivers_for")
    for name, mirror in pins.mirror.items():
        for index in mirror.index:
            if index != "default" and index not in pins.index:
                raise unknown("index", index, (*pins.index, "default"), where=f"mirror.{name}.index")


def _located(name: str, text: str, fault: Fault) -> str:
    line = line_of(text, fault.path)
    return f"{name}:{line}: {fault}" if line else f"{name}: {fault}"


def line_of(text: str, path: tuple[str | int, ...]) -> int:
    """Return the line (from 1) on which the deepest part of a key path stands, or 0."""
    wanted = tuple(str(part) for part in path if isinstance(part, str))
    best, best_length, table = 0, 0, ()  # type: tuple[int, int, tuple[str, ...]]
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("["):
            header = _keys(stripped.strip("[]").split("]")[0].strip() + " = 0")
            if header is None:
                continue
            table = header
            here = table
        elif "=" in stripped and not stripped.startswith("#"):
            key = _keys(stripped.split("=", 1)[0] + "= 0")
            if key is None:
                continue
            here = (*table, *key)
        else:
            continue
        length = common_length(here, wanted)
        if length > best_length and length == len(here):
            best, best_length = number, length
    return best


def _keys(line: str) -> tuple[str, ...] | None:
    """Return the parts of the dotted key of one `key = 0` line."""
    try:
        value: Any = read_toml(line)
    except NotTomlError:
        return None
    parts = []
    while isinstance(value, dict) and value:
        key, value = next(iter(value.items()))
        parts.append(key)
    return tuple(parts)
