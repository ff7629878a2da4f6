"""Facts: the environment of processes and shells, what set_env scripts add, the paths that these name."""

from __future__ import annotations

import difflib
import os
import posixpath
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ..process import run
from ..tree import Tree
from ..words import LISTS, OWN_VARIABLES, SYSTEM_PATH, Facts, entries, shown_value

# What the shell hands on, told by the Python that runs this: the image's `env` may be broken, `export -p` is quoted in
# every shell's own way, and Python's own os.environ has what it sets itself (PEP 538).
_TELL = "import sys; sys.stdout.buffer.write(open('/proc/self/environ', 'rb').read())"
_SHELL_PROBE = (
    r"printf '\0\0'; command -v python3 || true; printf '\0'; "
    f"{shlex.quote(sys.executable or 'python3')} -I -S -c {shlex.quote(_TELL)}"
)
PROXY = re.compile(r"(?:https?|ftp|all|no)_proxy", re.IGNORECASE)


def shown(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment fit for a report: sorted, no secrets, nothing that differs from one process to the next."""
    kept = {}
    for name in sorted(environment):
        if name in OWN_VARIABLES or "%%" in name or "()" in name or given_by_engine(name, environment):
            continue
        kept[name] = shown_value(name, environment[name])
    return kept


def given_by_engine(name: str, environment: Mapping[str, str]) -> bool:
    """Tell whether a variable is a proxy that the engine gave to this build step or container, and not ENV.

    The engine gives it in capitals and in small letters. It is no part of the image, and must not get into its report.
    """
    twin = name.lower() if name.isupper() else name.upper()
    return PROXY.fullmatch(name) is not None and environment.get(twin) == environment[name]


def environment_facts(tree: Tree, image: Mapping[str, Any], bytecode: str) -> Facts:
    """Return the environment of this process, of `sh -c`, of a login shell, and what the set_env scripts add.

    `env_runs`: whether /usr/bin/env runs, by which scripts find their interpreters. `bytecode` is a folder outside of
    the image for what is compiled.
    """
    facts: Facts = {"process": shown(os.environ) if tree.live else {}, "sh": None, "login": None, "set_env": None}
    facts["env_runs"] = run(["/usr/bin/env", "true"]).ok if tree.live else None
    facts["python3"] = {"process": tree.resolve(shutil.which("python3") or "") if tree.live else ""}
    if not tree.live:
        return facts
    for label, command in (("sh", ["sh", "-c", _SHELL_PROBE]), ("login", ["bash", "-lc", _SHELL_PROBE])):
        found = shell_environment(command, os.environ)
        if found is not None:
            facts["python3"][label] = tree.resolve(found[0]) if found[0] else ""
            facts[label] = shown(found[1])
    if image.get("cann_scripts"):
        facts["set_env"] = set_env_facts(image["cann_scripts"], image.get("python_home", ""), bytecode)
    return facts


def shell_environment(command: Sequence[str], env: Mapping[str, str]) -> tuple[str, dict[str, str]] | None:
    """Run a shell with the probe; return what `python3` is there, and its environment. None where it did not run."""
    ran = run(command, env=env, limit=120)
    _, mark, answer = ran.stdout.partition(b"\0\0")
    if not mark:
        return None
    python, _, variables = answer.decode(errors="replace").partition("\0")
    return python.strip(), dict(line.split("=", 1) for line in variables.split("\0") if "=" in line)


def set_env_facts(scripts: Sequence[str], python_home: str, bytecode: str) -> Facts:
    """Source the set_env scripts in an environment that is nearly empty and return what they add to it.

    Each entry of `scripts` is text for the shell (a path, perhaps with options). torch is kept from loading torch_npu:
    the ATB script may import it only to ask for its ABI, and what is compiled for that lands in `bytecode`.
    """
    before = {"PATH": f"{python_home}/bin:{SYSTEM_PATH}" if python_home else SYSTEM_PATH, "HOME": "/root", "LANG": "C",
              "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYTHONPYCACHEPREFIX": bytecode}  # fmt: skip
    program = "; ".join([*(f"source {script}" for script in scripts), _SHELL_PROBE])
    found = shell_environment(["bash", "-c", program], before)
    if found is None:
        return {"lists": {}, "values": {}, "error": "the scripts end the shell that sources them"}
    added = {name: value for name, value in found[1].items() if before.get(name) != value and name not in OWN_VARIABLES}
    lists = {
        name: list(
            dict.fromkeys(
                entry for entry in entries(added[name]) if entry and entry not in entries(before.get(name, ""))
            )
        )
        for name in LISTS
        if name in added
    }
    return {"lists": lists, "values": {name: added[name] for name in sorted(added) if name not in LISTS}, "error": ""}


def path_facts(tree: Tree, environment: Facts, startup: Sequence[Facts], image: Mapping[str, Any]) -> Facts:
    """Return, for every absolute path that the environment or a start-up file names, whether and where it is."""
    named: list[str] = [script.split()[0] for script in image.get("cann_scripts", [])]
    for variables in (environment["process"], environment["sh"], environment["login"]):
        for value in (variables or {}).values():
            named.extend(entry for entry in entries(value) if entry.startswith("/") and "\n" not in entry)
    for values in (environment["set_env"] or {}).get("lists", {}).values():
        named.extend(values)
    for value in (environment["set_env"] or {}).get("values", {}).values():
        named.extend(entry for entry in entries(value) if entry.startswith("/"))
    for value in image.get("env", {}).values():
        named.extend(entry for entry in entries(value) if entry.startswith("/"))
    for document in startup:
        named.extend(script["path"] for script in document["scripts"])
    return {path: one_path(tree, path) for path in sorted(set(named))}


def one_path(tree: Tree, path: str) -> Facts:
    """Return where a path leads; where it is missing, its first missing part and what lies there that is like it."""
    real = tree.resolve(path)
    if os.path.exists(tree.outside(real)):
        return {"exists": True, "real": real}
    parent = posixpath.dirname(real)
    missing = real
    while parent != "/" and not os.path.exists(tree.outside(parent)):
        missing, parent = parent, posixpath.dirname(parent)
    name = posixpath.basename(missing)
    beside = [entry for entry in tree.names(parent) if name in entry or (entry in name and len(entry) > 3)]
    beside = beside or difflib.get_close_matches(name, tree.names(parent), n=1)
    return {
        "exists": False,
        "real": real,
        "missing": missing,
        "near": posixpath.join(parent, beside[0]) if beside else "",
    }
