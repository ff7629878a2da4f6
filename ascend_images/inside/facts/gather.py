"""All facts of an image, as one JSON document; nothing is judged here."""

from __future__ import annotations

import concurrent.futures
import os
import platform
import tempfile
from collections.abc import Mapping
from typing import Any

from ..tree import Tree
from ..words import Facts
from .ahead import circumstances, imported_ahead
from .cann import cann_facts, driver_present, stub_folders
from .distributions import distributions, module_owners, patch_facts, shared_files, torch_facts
from .elf import elf_facts, elf_machine
from .environment import environment_facts, path_facts
from .imports import IMPORTED, entry_points, imports, module_origins
from .npu import npu_facts, npu_numbers
from .probes import NOTHING_ASKED, Asked, probe_facts
from .settings import leftovers, setting_facts
from .sources import built_for, source_facts
from .startup import startup_facts
from .system import python_facts, system_facts
from .unowned import preload_facts, unowned_facts


def gather(
    tree: Tree,
    image: Mapping[str, Any],
    *,
    bytecode: str,
    limit: float = 300,
    own: str = "",
    jobs: int = 2,
    asked: Asked = NOTHING_ASKED,
    ahead: Mapping[str, Any] | None = None,
) -> Facts:
    """Look at the image and return what is there.

    Programs of the image (shells, set_env scripts, imports) run only where the tree is `/`; otherwise what they would
    tell is None. `bytecode` is a folder outside of the image, where what one program compiles is kept for the others;
    `limit` is the time in seconds that one import may take, `own` a path of ours that is no leftover.
    Files are looked at before anything is imported, since imports leave files. NPUs compute only where that was asked
    for, there is one, and the host's driver is there. `ahead` is what `import_ahead` returned before the last
    source came: the names in it that no later source could have changed are not imported again.
    """
    python = python_facts(tree, image)
    folders = list(python["paths"])
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as pool:
        # A set_env script may import torch: that takes about as long as reading all files.
        asked_shells = pool.submit(environment_facts, tree, image, bytecode)
        found, files = distributions(tree, folders, {patch["file"] for patch in image.get("patches", [])})
        elf = elf_facts(
            tree, [*folders, *(source["path"] for source in image.get("sources", []) if source.get("path"))]
        )
        environment = asked_shells.result()
    startup = startup_facts(tree, image)
    facts: Facts = {
        "live": tree.live,
        "machine": elf_machine(tree, python["executable"]) or platform.machine(),
        "system": system_facts(tree),
        "python": python,
        "environment": environment,
        "startup": startup,
        "paths": path_facts(tree, environment, startup, image),
        "distributions": found,
        "shared_files": shared_files(tree, found, files),
        "module_owners": module_owners(found, files, image),
        "unowned": unowned_facts(tree, folders, found, files, image),
        "preload": preload_facts(tree),
        "torch": torch_facts(tree, found, files),
        "patches": patch_facts(tree, folders, image),
        "sources": {source["name"]: source_facts(tree, source) for source in image.get("sources", [])},
        "cann": cann_facts(tree, image),
        "settings": setting_facts(tree, image),
        "leftovers": leftovers(tree, image, own),
        "elf": elf,
        "built_for": built_for(tree, found),
        "driver": driver_present(tree, environment["process"]),
        **npu_facts(tree, environment["process"]),
        "asked": asked.facts(),
        "origins": None,
        "imports": None,
        "imported_ahead": [],
        "probe": None,
    }
    if tree.live:
        with tempfile.TemporaryDirectory() as empty:
            program = python["executable"] or "python3"
            modules = [source["module"] for source in image.get("sources", []) if source.get("module")]
            places = {
                "/": "/",
                "the working directory": image.get("workdir") or os.getcwd(),
                "an empty directory": empty,
            }
            facts["origins"] = {
                label: module_origins(program, modules, place, limit)
                for label, place in places.items()
                if os.path.isdir(place)
            }
            stubs = [] if facts["driver"] else stub_folders(tree, image, facts["machine"])
            facts["stubs"] = stubs
            names = entry_points(image, found)
            known = imported_ahead(tree, ahead, circumstances(program, empty, stubs), image) if ahead else set()
            done = imports(program, [name for name in names if name not in known], empty, bytecode, stubs, limit, jobs)
            facts["imports"] = {name: done.get(name) or dict(IMPORTED) for name in names}
            facts["imported_ahead"] = [name for name in names if name in known]
            ready = facts["driver"] and npu_numbers(facts["devices"]["nodes"])
            if asked.npu and (ready or asked.device != "npu"):
                facts["probe"] = probe_facts(program, asked, empty, limit, jobs)
    return facts
