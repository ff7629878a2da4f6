"""Facts: git checkouts. Nothing is written to them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..process import Ran, run
from ..tree import Tree
from ..words import Facts, canonical, last_line
from .elf import read_elf, shared_objects


def source_facts(tree: Tree, source: Mapping[str, Any]) -> Facts:
    """Return a checkout's commit, changes, submodules, and what its build left in it. Nothing is written."""
    path = source.get("path", "")
    facts: Facts = {"present": bool(path) and tree.is_dir(path), "head": "", "changed": None, "submodules": None,
                    "git_error": "", "version": None, "device_type": None, "extensions": []}  # fmt: skip
    if not facts["present"]:
        return facts
    where = tree.at(path)
    package = f"{path}/{source['module'].replace('.', '/')}" if source.get("module") else path
    # setuptools-scm writes this file from the version that it was told, or has guessed.
    facts["version"] = assigned(tree.text(f"{package}/_version.py"), "__version__")
    facts["device_type"] = assigned(tree.text(f"{package}/_build_info.py"), "__device_type__")
    if source.get("compiles"):
        # An extension may lie beside the package: vllm_ascend's does in part.
        for extension in shared_objects(tree, path):
            elf = read_elf(tree.outside(extension))
            facts["extensions"].append({"file": extension, "machine": elf.machine if elf else ""})
    if not os.path.exists(os.path.join(where, ".git")):
        facts["git_error"] = "it holds no .git"
        return facts
    head = git(where, "rev-parse", "HEAD")
    if not head.ok:
        facts["git_error"] = last_line(head.stderr) or "git failed"
        return facts
    facts["head"] = head.stdout.decode().strip()
    status = git(where, "status", "--porcelain", "-z", "--untracked-files=normal", limit=300)
    if status.ok:
        facts["changed"] = [
            line for line in status.stdout.decode(errors="replace").split("\0") if line and not build_output(line)
        ]
    else:
        facts["git_error"] = last_line(status.stderr) or "git status failed"
    facts["submodules"] = submodules(where)
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


def git(where: str, *words: str, limit: float = 60) -> Ran:
    """Run git without letting it write: by default `git status` would renew the index."""
    env = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C",
           "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}  # fmt: skip
    return run(["git", "--no-optional-locks", "-C", where, *words], env=env, limit=limit)


def build_output(status: str) -> bool:
    """Tell whether a line of `git status` is an untracked file that an installation makes."""
    name = status[3:].rstrip("/")
    last = name.split("/")[-1]
    return status.startswith("??") and (
        last.endswith((".egg-info", ".so", ".pyc")) or last in ("build", "__pycache__", "_version.py", "_build_info.py")
    )


def submodules(where: str) -> list[Facts]:
    """Return each submodule of a checkout with the commit that is recorded and the one that is there."""
    listing = git(where, "ls-tree", "-r", "-z", "HEAD")
    found = []
    for line in listing.stdout.decode(errors="replace").split("\0"):
        head, _, path = line.partition("\t")
        if head.startswith("160000 "):
            inside = os.path.join(where, path)
            # Without its own .git, git would answer for the checkout around it.
            there = git(inside, "rev-parse", "HEAD") if os.path.exists(os.path.join(inside, ".git")) else None
            found.append(
                {"path": path, "recorded": head.split()[2], "head": there.stdout.decode().strip() if there else ""}
            )
    return found


def assigned(text: str | None, name: str) -> str | None:
    """Return the text that a Python file assigns to a name, read without running it."""
    found = re.search(rf"^\s*{name}\b[^'\"\n#]*=\s*['\"]([^'\"\n]*)['\"]", text or "", re.MULTILINE)
    return found.group(1) if found else None
