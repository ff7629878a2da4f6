"""image.json read: the pins of an image, their shape asked for once, so that nothing later trips over it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .words import Facts

#: Nested deeper than any image.json.
_DEPTH = 20

Shape = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _word(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _truth(value: Any) -> bool:
    return isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _listed(of: Shape) -> Shape:
    return lambda value: isinstance(value, list) and all(map(of, value))


def _mapped(of: Shape) -> Shape:
    return lambda value: isinstance(value, dict) and all(map(of, value.values()))


def _fields(wanted: Mapping[str, Shape], needed: tuple[str, ...]) -> Shape:
    """An object whose known fields are of their shape and whose needed ones are there; others may be anything."""
    return lambda value: (
        isinstance(value, dict)
        and set(needed) <= set(value)
        and all(wanted[key](item) for key, item in value.items() if key in wanted)
    )


_SOURCE = {
    **dict.fromkeys(("git", "ref", "commit", "path", "module", "distribution", "version", "install"), _text),
    "name": _word,
    "submodules": _truth,
    "compiles": _truth,
    "local": _truth,
    "checks": _listed(_word),
}
_PATCH = {**dict.fromkeys(("distribution", "file", "find"), _word), "replace": _text, "count": _number}

#: What is read of image.json, each with its shape in words; what is not named may be anything.
_SHAPES: dict[str, tuple[Shape, str]] = {
    **dict.fromkeys(
        """
        variant stack hardware chip device_type soc_version cann base_cann cann_home base_image base_digest os python
        python_home repository tag workdir
        """.split(),
        (_text, "a text"),
    ),
    **dict.fromkeys(("cann_scripts", "checks", "platforms"), (_listed(_word), "a list of texts that are not empty")),
    **dict.fromkeys(("aliases", "entrypoint"), (_listed(_text), "a list of texts")),
    **dict.fromkeys(("env", "exclude", "no_dependencies", "accept", "indexes"), (_mapped(_text), "texts by name")),
    "packages": (_mapped(_mapped(_text)), "versions by package by architecture"),
    "sources": (_listed(_fields(_SOURCE, ("name",))), "a list of sources, each with a name"),
    "patches": (
        _listed(_fields(_PATCH, ("distribution", "file", "find", "replace", "count"))),
        "a list of patches, each with distribution, file, find, replace and count",
    ),
}


def read_image(text: str) -> Facts:
    """Read image.json; an empty text means that there is none. Raises ValueError, which says what is wrong with it."""
    if not text:
        return {}
    try:
        image = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from None
    if not isinstance(image, dict) or not _number(image.get("schema")) or image["schema"] != 1:
        raise ValueError('wanted an object with "schema": 1')
    for key, (shape, wanted) in _SHAPES.items():
        if key in image and not shape(image[key]):
            raise ValueError(f'"{key}" is not {wanted}')
    for found in _texts(image):
        if "\0" in found or any("\ud800" <= sign <= "\udfff" for sign in found):
            raise ValueError(f"it holds a text that is none: {found[:60]!a}")
    return image


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield every text in a document, keys too. Raises ValueError for one that is nested too deeply."""
    if depth > _DEPTH:
        raise ValueError("it is nested too deeply")
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from _texts(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, depth + 1)
