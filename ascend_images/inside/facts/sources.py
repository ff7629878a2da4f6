"""Facts: git checkouts. Nothing is written to them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..tree import Tree
from ..words import Facts, canonical
from .elf import read_elf, shared_objects
from .git import GitError, Source, differences, head, repository


def source_facts(tree: Tree, source: Mapping[str, Any]) -> Facts:
    """Return a checkout's commit, changes, submodules, and what its build left in it. Nothing is written."""
    path = source.get("path", "")
    facts: Facts = {"present": bool(path) and tree.is_dir(path), "head": "", "changed": None, "submodules": None,
                    "git_error": "", "version": None, "device_type": None, "extensions": []}  # fmt: skip
    if not facts["present"]:
        return facts
    package = f"{path}/{source['module'].replace('.', '/')}" if source.get("module") else path
    # setuptools-scm writes this file from the version that it was told, or has guessed.
    facts["version"] = assigned(tree.text(f"{package}/_version.py"), "__version__")
    facts["device_type"] = assigned(tree.text(f"{package}/_build_info.py"), "__device_type__")
    if source.get("compiles"):
        # An extension may lie beside the package: vllm_ascend's does in part.
        for extension in shared_objects(tree, path):
            elf = read_elf(tree.outside(extension))
            facts["extensions"].append({"file": extension, "machine": elf.machine if elf else ""})
    inner = package[len(path) + 1 :]
    return {**facts, **git_facts(tree, path, Source(package=inner, compiles=bool(source.get("compiles"))))}


def git_facts(tree: Tree, path: str, source: Source) -> Facts:
    """Return a checkout's commit, and where programs of the image run, how it differs from it and its submodules."""
    try:
        found = repository(tree, path)
        if found is None:
            return {"git_error": "it holds no .git"}
        facts: Facts = {"head": head(tree, found)}
    except GitError as error:
        return {"git_error": str(error)}
    if not tree.live:
        return {**facts, "git_error": "its files are compared in the image only, and this is a directory"}
    try:
        facts["changed"], facts["submodules"] = differences(tree, path, source)
    except (GitError, OSError, ValueError) as error:
        facts["git_error"] = str(error)
    return facts


def built_for(tree: Tree, found: Sequence[Facts]) -> Facts:
    """Return the device type that vLLM Ascend was built for and the file that says so; empty where none says.

    A wheel lies in the folder of its distribution, an editable installation in its checkout.
    """
    for distribution in found:
        if canonical(distribution["name"]) == "vllm-ascend":
            for folder in (distribution["editable"], distribution["location"]):
                file = f"{folder}/vllm_ascend/_build_info.py"
                device_type = assigned(tree.text(file), "__device_type__") if folder else None
                if device_type:
                    return {"file": file, "device_type": device_type}
    return {"file": "", "device_type": ""}


def assigned(text: str | None, name: str) -> str | None:
    """Return the text that a Python file assigns to a name, read without running it."""
    found = re.search(rf"^\s*{name}\b[^'\"\n#]*=\s*['\"]([^'\"\n]*)['\"]", text or "", re.MULTILINE)
    return found.group(1) if found else None
