"""What imports before all sources are there, and whether what comes later can change it.

A build lays its sources over the packages one after the other. After each of them `import_ahead` imports what can be by
then, in an image in which the sources to come are only registered: their metadata and the names of their modules are
there, their files are not. What asked for nothing of those sources imports in the finished image as it did here.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..process import run
from ..tree import Tree
from ..words import MARK, OWN_VARIABLES, Facts, entries, json_object, marked
from .cann import driver_present, stub_folders
from .distributions import METADATA
from .elf import elf_machine
from .environment import given_by_engine
from .imports import import_environment, recorded_imports

#: What `import_ahead` returns, and of which kind each part is.
AHEAD = {"circumstances": dict, "imports": dict, "left": list}
_PATH_PROBE = 'import json, sys; print("\\n" + sys.argv[1] + json.dumps({"path": sys.path}))'


def import_ahead(
    names: Sequence[str], absent: Sequence[str], before: Mapping[str, Any], bytecode: str, limit: float, jobs: int
) -> Facts:
    """Import names while the checkouts of some sources, at the paths `absent`, are not there.

    `before` is what this returned when more of them were not. In what it returns, `imports` are the names that import
    and asked for nothing of what is absent, each with what it asked for; `left` those that did and are to be tried
    again; `circumstances` what an import hangs on besides files.
    """
    python = shutil.which("python3") or sys.executable
    tree = Tree()
    image = {"cann_home": os.environ.get("ASCEND_TOOLKIT_HOME", "")}
    stubs = [] if driver_present(tree, os.environ) else stub_folders(tree, image, elf_machine(tree, python))
    with tempfile.TemporaryDirectory() as empty:
        now = circumstances(python, empty, stubs)
        known = dict(before["imports"]) if before.get("circumstances") == now else {}
        tried = [name for name in dict.fromkeys([*before.get("left", []), *names]) if name not in known]
        records = recorded_imports(python, tried, empty, bytecode, stubs, limit, jobs)
    # Where the loader of libraries looks into a checkout, anything that is loaded may change when that comes.
    looked = (entries(now["environment"].get(name, "")) for name in ("LD_LIBRARY_PATH", "LD_PRELOAD"))
    loader = any(_inside(entry, absent) for listed in looked for entry in listed)
    left = []
    for name, record in records.items():
        kept = {
            "absent": list(absent),
            "modules": record["modules"],
            "opened": [path for path in record["opened"] if _inside(path, absent)],
        }
        if loader or hangs_on_absent(tree, kept, now["path"]):
            left.append(name)
        elif record["imported"] and not any(_may_have_asked(words, absent) for words in record["programs"]):
            known[name] = kept
    return {"circumstances": now, "imports": known, "left": left}


def circumstances(python: str, place: str, stubs: Sequence[str]) -> Facts:
    """Return what an import in `place` hangs on besides files: the interpreter, its path, and the environment."""
    env = import_environment(stubs)
    ran = run([python, "-c", _PATH_PROBE, MARK], cwd=place, env=env, limit=60)
    return {
        "python": os.path.realpath(python),
        "path": json_object(marked(ran.stdout)).get("path", []),
        "environment": {
            name: value
            for name, value in sorted(env.items())
            if name not in OWN_VARIABLES and not given_by_engine(name, env)
        },
    }


def imported_ahead(tree: Tree, ahead: Mapping[str, Any], now: Facts, image: Mapping[str, Any]) -> set[str]:
    """Return what imported ahead, in the circumstances of `now`, and asked for nothing that came later."""
    if not now["path"] or ahead.get("circumstances") != now:
        return set()
    # The pins know a module that is found in no folder; they are not there ahead, or each commit would change them.
    modules = {source["path"]: source["module"] for source in image.get("sources", []) if source.get("module")}
    return {
        name
        for name, record in ahead["imports"].items()
        if not hangs_on_absent(tree, record, now["path"])
        and not {modules[path].partition(".")[0] for path in record["absent"] if path in modules} & {*record["modules"]}
    }


def hangs_on_absent(tree: Tree, record: Mapping[str, Any], search_path: Sequence[str]) -> bool:
    """Tell whether an import asked for something of the checkouts that were not there.

    A checkout brings all files below it but the metadata of its distribution, which is registered before; and modules:
    those in its directories that are on Python's path. Where none is, an importer of a build backend may find them, so
    whatever lies in it or one directory further down counts.
    """
    searched = [entry for entry in search_path if _inside(entry, record["absent"])]
    folders = list(searched)
    for checkout in record["absent"]:
        if not any(_inside(entry, [checkout]) for entry in searched):
            folders += [checkout, *(f"{checkout}/{name}" for name in tree.names(checkout))]
    brought = {name.partition(".")[0] for folder in folders for name in tree.names(folder)}
    if not brought.isdisjoint(record["modules"]):
        return True
    return any(not _registered(path, searched) for path in record["opened"])


def _inside(path: str, folders: Iterable[str]) -> bool:
    return any(f"{path}/".startswith(f"{folder.rstrip('/')}/") for folder in folders)


def _registered(path: str, searched: Sequence[str]) -> bool:
    """Tell whether a path is a directory that Python searches, or belongs to the metadata in one."""
    if path in searched:
        return True
    while path != "/":
        path, inner = posixpath.dirname(path), path
        if path in searched:
            return inner.endswith(METADATA)
    return False


def _may_have_asked(words: str, absent: Iterable[str]) -> bool:
    """Tell whether a program that was started may have asked for what nobody saw: another Python, or one with a path.

    What else imports start (ldconfig and gcc to find a library, uname, git) looks for no modules.
    """
    return "python" in words or any(path in words for path in absent)
