"""Facts: where modules come from and what imports, each in a process of its own."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..process import run
from ..words import MARK, Facts, canonical, entries, json_object, last_line, marked, without_secrets

_ORIGIN_PROBE = """
import importlib.util, json, sys
answers = {}
for name in sys.argv[2:]:
    try:
        spec = importlib.util.find_spec(name)
        answers[name] = {
            "origin": (spec.origin or "") if spec else "",
            "namespace": sorted(spec.submodule_search_locations) if spec and spec.origin is None else [],
            "error": "" if spec else "no module of this name",
        }
    except BaseException as error:
        answers[name] = {"origin": "", "namespace": [], "error": "{}: {}".format(type(error).__name__, error)}
print("\\n" + sys.argv[1] + json.dumps(answers))
"""

# Where a package has no bytecode, as in images that are built without, each process would compile all of it again: what
# one compiles is kept for the others outside of the image. Where it has, it is read as everybody reads it.
_IMPORT_PROBE = """
import importlib, os, sys
name = sys.argv[1]
parts = name.split(".")
if not any(os.path.isdir(os.path.join(place, parts[0], "__pycache__")) for place in sys.path):
    sys.pycache_prefix, sys.dont_write_bytecode = sys.argv[2], False
for length in range(len(parts), 0, -1):
    module = ".".join(parts[:length])
    try:
        found = importlib.import_module(module)
        break
    except ModuleNotFoundError as error:
        # The last part may be a name in the module before it; any other module that is missing is a failure.
        if error.name != module or length == 1:
            raise
for part in parts[length:]:
    found = getattr(found, part)
"""


def quiet_environment() -> dict[str, str]:
    """Return this process's environment for an import: it shall not write bytecode into the image."""
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


def module_origins(python: str, modules: Sequence[str], place: str, limit: float) -> Facts:
    """Ask where modules would come from when Python is started in a directory.

    They are not imported; packages around them are.
    """
    if not modules:
        return {}
    ran = run([python, "-c", _ORIGIN_PROBE, MARK, *modules], cwd=place, env=quiet_environment(), limit=limit)
    answers = json_object(marked(ran.stdout)) if ran.ok else {}
    if answers:
        return answers
    if len(modules) > 1:  # one that crashes must not take the others' answers with it
        return {module: module_origins(python, [module], place, limit)[module] for module in modules}
    error = last_line(ran.stderr) or ran.signal or ("no answer in time" if ran.timed_out else "no answer")
    return {modules[0]: {"origin": "", "namespace": [], "error": error}}


def entry_points(image: Mapping[str, Any], found: Sequence[Facts]) -> list[str]:
    """Return what must import: torch and torch_npu where installed, then every module and check of the pins."""
    installed = {canonical(facts["name"]) for facts in found}
    names = [module for module in ("torch", "torch_npu") if canonical(module) in installed]
    if not image:
        names += [module for module in ("vllm", "vllm_ascend") if canonical(module) in installed]
    for source in image.get("sources", []):
        names += [source["module"]] if source.get("module") and source.get("install") != "none" else []
        names += source.get("checks", [])
    return list(dict.fromkeys([*names, *image.get("checks", [])]))


def imports(
    python: str, names: Sequence[str], place: str, bytecode: str, stubs: Sequence[str], limit: float, jobs: int
) -> Facts:
    """Import each name in a process of its own, `jobs` at a time. What a failed one wrote last is kept.

    `bytecode` is a folder outside of the image for what is compiled.
    """
    env = quiet_environment()
    if stubs:
        env["LD_LIBRARY_PATH"] = ":".join([*filter(None, entries(env.get("LD_LIBRARY_PATH", ""))), *stubs])

    def one(name: str) -> Facts:
        ran = run([python, "-c", _IMPORT_PROBE, name, bytecode], cwd=place, env=env, limit=limit)
        stderr = "" if ran.ok else without_secrets(ran.stderr[-6000:]).replace(place, "(an empty directory)")
        return {"exit": ran.exit, "signal": ran.signal, "timed_out": ran.timed_out, "stderr": stderr}

    with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
        return dict(zip(names, pool.map(one, names)))
