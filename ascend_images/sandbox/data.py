"""The sandbox's data files under `files/`: texts with `@NAME@` in them, and tables."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ascend_images.pins.platform import Arch
from ascend_images.sandbox.elf import shared_object
from ascend_images.sandbox.tree import File, Tree

_FOLDER = Path(str(files("ascend_images.sandbox"))) / "files"
_TEXT, _LIBRARY = ".in", ".elf"


def data_text(name: str) -> str:
    """Return the text of a data file, by its path under `files/`."""
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def data_table(name: str) -> Mapping[str, Any]:
    """Return a TOML file under `files/`."""
    return tomllib.loads(data_text(name))


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return `text` with each `@NAME@` replaced."""
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def data_tree(name: str, values: Mapping[str, str], arch: Arch) -> Tree:
    """Return the files of a folder under `files/`; nothing where there is no such folder.

    `x.in` becomes `x`, its `@NAME@`s filled in; `x.so.elf` becomes the library `x.so`, whose soname and functions are
    the words of the file. Everything else is taken as it is.
    """
    folder = _FOLDER / name
    tree: Tree = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        relative = str(path.relative_to(folder))
        if path.suffix == _LIBRARY:
            soname, *functions = path.read_text().split()
            tree[relative.removesuffix(_LIBRARY)] = File(shared_object(arch, soname, functions))
        elif path.suffix == _TEXT:
            tree[relative.removesuffix(_TEXT)] = File(filled(path.read_text(encoding="utf-8"), values).encode())
        else:
            tree[relative] = File(path.read_bytes())
    return tree
