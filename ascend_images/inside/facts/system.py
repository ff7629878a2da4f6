"""Facts: the operating system, and what `python3` means."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from ..process import run
from ..tree import Tree
from ..words import MARK, Facts, json_object, marked, without_secrets
from .elf import elf_machine


def system_facts(tree: Tree) -> Facts:
    """Return the operating system's name and version as os-release says them."""
    values = {}
    for line in (tree.text("/etc/os-release") or "").splitlines():
        key, _, value = line.partition("=")
        values[key.strip()] = value.strip().strip("\"'")
    return {"id": values.get("ID", ""), "version": values.get("VERSION_ID", "")}


_PYTHON_PROBE = """
import json, os, platform, sys
implementation = sys.implementation
print("\\n" + sys.argv[1] + json.dumps({
    "executable": sys.executable, "prefix": sys.prefix, "version": platform.python_version(),
    "paths": [path for path in sys.path if path],
    "markers": {
        "implementation_name": implementation.name,
        "implementation_version": "{0.major}.{0.minor}.{0.micro}".format(implementation.version),
        "os_name": os.name, "platform_machine": platform.machine(),
        "platform_python_implementation": platform.python_implementation(),
        "platform_system": platform.system(), "platform_release": "", "platform_version": "",
        "python_full_version": platform.python_version(),
        "python_version": ".".join(platform.python_version_tuple()[:2]), "sys_platform": sys.platform,
    },
}))
"""


def python_facts(tree: Tree, image: Mapping[str, Any]) -> Facts:
    """Return what `python3` means in the image, where it looks for packages, and its environment markers."""
    home = image.get("python_home", "")
    if tree.live:
        ran = run([shutil.which("python3") or sys.executable, "-c", _PYTHON_PROBE, MARK], limit=60)
        python = json_object(marked(ran.stdout)) if ran.ok else {}
        if python:
            seen: dict[str, str] = {}
            for path in python["paths"]:
                if os.path.isdir(path):
                    seen.setdefault(tree.resolve(path), path)
            python["paths"] = list(seen)
            return {**python, "error": ""}
        error = without_secrets(ran.stderr[-2000:]) or "it ended and said nothing"
        return {"executable": "", "prefix": "", "version": "", "paths": [], "markers": {}, "error": error}
    version = image.get("python", "")
    paths = [
        *tree.glob(f"{home or '/usr/local'}/lib/python{version or '3*'}/site-packages"),
        *tree.glob(f"/usr/local/lib/python{version or '3*'}/dist-packages"),
        *tree.glob("/usr/lib/python3/dist-packages"),
    ]
    executable = f"{home}/bin/python3" if home and tree.exists(f"{home}/bin/python3") else ""
    machine = elf_machine(tree, executable) or platform.machine()
    markers = {
        "implementation_name": "cpython",
        "implementation_version": version,
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "platform_release": "",
        "platform_version": "",
        "python_full_version": version,
        "python_version": version,
        "sys_platform": "linux",
    }
    whole = {"executable": executable, "prefix": home, "version": version, "paths": list(dict.fromkeys(paths))}
    return {**whole, "markers": markers, "error": ""}
