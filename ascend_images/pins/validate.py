"""Faults of raw data against the model: all of them, each with the path of its key."""

from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

import msgspec

from ascend_images.errors import nearest


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong, and the path of the key at which it stands."""

    path: tuple[str | int, ...]
    message: str

    def __str__(self) -> str:
        return f"{dotted(self.path)}: {self.message}" if self.path else self.message


def dotted(path: tuple[str | int, ...]) -> str:
    """Return a key path as it is written in TOML: `cann."9.1.0".bases[0]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        plain = part.replace("-", "").replace("_", "").isalnum()
        text += ("." if text else "") + (part if plain else f'"{part}"')
    return text


def faults(raw: Any, kind: Any, path: tuple[str | int, ...] = ()) -> list[Fault]:
    """Return every fault of `raw` as a value of the msgspec type `kind`."""
    try:
        msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        return _inside(raw, kind, path) or [Fault(path, _plain(str(error)))]
    return []


def _inside(raw: Any, kind: Any, path: tuple[str | int, ...]) -> list[Fault]:
    """Return the faults of the parts of `raw`; none where the fault is that of `raw` itself."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if isinstance(raw, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _in_table(raw, kind, path)
    if isinstance(raw, dict) and get_origin(kind) is dict:
        key_type, value_type = get_args(kind)
        found = [f for key in raw for f in faults(key, key_type, (*path, key))]
        return found + [f for key, value in raw.items() for f in faults(value, value_type, (*path, key))]
    if isinstance(raw, list) and get_origin(kind) is tuple:
        return [f for i, value in enumerate(raw) for f in faults(value, get_args(kind)[0], (*path, i))]
    return []


def _in_table(raw: dict[str, Any], kind: type[msgspec.Struct], path: tuple[str | int, ...]) -> list[Fault]:
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    found = [Fault((*path, key), f'unknown key "{key}": {nearest(key, fields)}') for key in raw if key not in fields]
    for name, field in fields.items():
        if name in raw:
            found += faults(raw[name], field.type, (*path, name))
        elif field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT:
            found.append(Fault(path, f'"{name}" is missing'))
    return found


def _plain(message: str) -> str:
    """Return msgspec's message without the path, which stands before it already."""
    return message.split(" - at `", maxsplit=1)[0].replace("`", '"')
