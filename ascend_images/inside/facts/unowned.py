"""Facts: what Python would load though no distribution and no source of the pins has it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..answers import of_cann
from ..tree import Tree
from ..words import FEW, Facts, canonical
from .distributions import CUDA_LIBRARY, Recorded

_HOOKS = ("sitecustomize", "usercustomize")
_PACKAGES = ("site-packages", "dist-packages")
#: Python's own folders on its path, whose modules it finds before any other.
_STANDARD = re.compile(r"/lib(?:64)?/python3[.0-9]*(?:/lib-dynload)?$|\.zip$")
_USER_SITES = ("/root/.local/lib/python*/site-packages", "/home/*/.local/lib/python*/site-packages")


def unowned_facts(
    tree: Tree,
    folders: Sequence[str],
    found: Sequence[Facts],
    files: Sequence[Sequence[Recorded]],
    image: Mapping[str, Any],
) -> Facts:
    """Return what no RECORD has, by what Python does with it; `folders` are those of its path, in its order.

    `start`: what it runs whenever it starts. `user_site`: what lies in a user's own folder, which comes before
    site-packages. `shadows`: what would be imported in place of a distribution's module of the same name. `files`:
    modules in the folders of distributions, by the distribution's name.
    """
    owned = {file.path for recorded in files for file in recorded}
    checkouts = tuple(f"{source['path'].rstrip('/')}/" for source in image.get("sources", []) if source.get("path"))
    return {
        "start": [
            path
            for path in _started(tree, folders)
            if path not in owned and not _leads_to(tree, path, checkouts) and not _of_system(tree, path)
        ],
        "user_site": [
            f"{folder}/{name}"
            for pattern in _USER_SITES
            for folder in tree.glob(pattern)
            for name in tree.names(folder)
        ],
        "shadows": sorted(_shadows(tree, folders, owned, checkouts)),
        "files": _inner_files(tree, found, files, owned),
    }


def _started(tree: Tree, folders: Sequence[str]) -> Iterator[str]:
    """Yield what Python runs at its start: the customizing modules, and .pth files where those are read."""
    for folder in folders:
        packages = folder.endswith(_PACKAGES)
        for name in tree.names(folder):
            if name.partition(".")[0] in _HOOKS or (packages and name.endswith(".pth")):
                yield f"{folder}/{name}"


def _leads_to(tree: Tree, path: str, checkouts: tuple[str, ...]) -> bool:
    """Tell whether a .pth file does nothing but put checkouts of the pins on the path, as an editable install does."""
    if not path.endswith(".pth") or not checkouts:
        return False
    lines = [line.strip() for line in (tree.text(path, 1 << 16) or "import").splitlines()]
    return all(f"{line}/".startswith(checkouts) for line in lines if line and not line.startswith("#"))


def _of_system(tree: Tree, path: str) -> bool:
    """Tell whether a package of the operating system owns a file: Debian's Python has a sitecustomize.py."""
    return any(
        path in (tree.text(listing) or "").splitlines()
        for listing in tree.glob("/var/lib/dpkg/info/*python*.list")
        if path.startswith("/usr/")
    )


def _module(name: str) -> str:
    """Return what an entry of a folder is imported as, empty where it is no module."""
    stem, dot, end = name.partition(".")
    return stem if not dot or end in ("py", "pyc") or end.endswith("so") else ""


def _shadows(tree: Tree, folders: Sequence[str], owned: set[str], checkouts: tuple[str, ...]) -> Iterator[str]:
    """Yield what lies on Python's path, in no RECORD, under the name of a module that one has.

    Checkouts are compared with their commits, Python's own folders belong to it, and users' own are told as a whole.
    """
    named: dict[str, set[str]] = {}
    for folder in folders:
        length = len(folder) + 1
        inner = {path[length:].split("/")[0] for path in owned if path.startswith(f"{folder}/")}
        named[folder] = {name for name in inner if _module(name) and name != "__pycache__"}
    modules = {_module(name) for names in named.values() for name in names}
    for folder in folders:
        if _STANDARD.search(folder) or "/.local/lib/" in folder or f"{folder}/".startswith(checkouts):
            continue
        for name in tree.names(folder):
            if name not in named[folder] and _module(name) in modules and _holds_module(tree, f"{folder}/{name}"):
                yield f"{folder}/{name}"


def _holds_module(tree: Tree, path: str) -> bool:
    """Tell whether a path is a file, or a folder with an __init__: only that comes before other modules of its name."""
    return tree.is_file(path) or any(name.startswith("__init__.") for name in tree.names(path))


def _inner_files(
    tree: Tree, found: Sequence[Facts], files: Sequence[Sequence[Recorded]], owned: set[str]
) -> list[Facts]:
    """Return the modules below folders of distributions that no RECORD has.

    A folder in which a distribution without RECORD may have written is left out: whose a file is cannot be told there.
    """
    untold = {facts["location"] for facts in found if facts["record"] is None}
    owners: dict[str, str] = {}
    for facts, recorded in zip(found, files):
        if recorded and facts["location"] not in untold and not of_cann(facts):
            for name in facts["modules"]:
                if name != ".." and tree.is_dir(f"{facts['location']}/{name}"):
                    owners.setdefault(f"{facts['location']}/{name}", canonical(facts["name"]))
    extra: dict[str, list[str]] = {}
    for folder, owner in sorted(owners.items()):
        paths = (path for path in _modules_below(tree, folder) if path not in owned)
        # Those of CUDA are a fact of torch.
        extra.setdefault(owner, []).extend(path for path in paths if not CUDA_LIBRARY.search(path))
    return [
        {"owner": owner, "count": len(paths), "files": paths[:FEW]} for owner, paths in sorted(extra.items()) if paths
    ]


def _modules_below(tree: Tree, folder: str) -> Iterator[str]:
    start = tree.at(folder)
    for place, folders, names in os.walk(start):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            if name.endswith((".py", ".pyc", ".so")):
                yield f"{folder}{place[len(start) :]}/{name}"


def preload_facts(tree: Tree) -> list[str]:
    """Return what /etc/ld.so.preload makes the loader load into every program."""
    text = tree.text("/etc/ld.so.preload", 1 << 16) or ""
    return [word for line in text.splitlines() for word in line.partition("#")[0].replace(":", " ").split()]
