#!/usr/bin/env python3
"""Asks an image whether it is what its pins say; lies in every image as /opt/ascend-images/check.py.

    python3 /opt/ascend-images/check.py

Nothing but Python 3.9 and its standard library is needed, and nothing in the image is changed. It works in two steps:

1. `gather` looks at the image and writes down facts, judging nothing: the environment, installed distributions, git
   checkouts, version files, what the entry points do when they are imported.
2. Every check is a question to those facts, to `image.json` (all pins, resolved) and to `lock.txt` (the locked
   packages). A check answers `pass`, `fail`, `unknown` (it could not be told) or `not run` (and why).

One cause gives one finding: a check that hangs on what another one found says `not run: because of …`.
Exit codes: 0 nothing failed, 2 wrong use, 5 at least one check failed.
"""

# Paths here are texts inside an image, which may be unpacked elsewhere: pathlib would take them for this machine's.
# `zip(strict=...)` needs Python 3.10; names of temporary directories are only looked for; some loops and
# lists of words are easier to read the long way.
# ruff: noqa: PTH100, PTH101, PTH103, PTH105, PTH108, PTH109, PTH110, PTH112, PTH114, PTH115, PTH118, PTH120, PTH123
# ruff: noqa: PTH208, B905, S108, PERF401, SIM905

from __future__ import annotations

import argparse
import base64
import concurrent.futures
import contextlib
import csv
import difflib
import email.parser
import enum
import fnmatch
import hashlib
import json
import mmap
import os
import platform
import posixpath
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

FOLDER = "/opt/ascend-images"
INSTALL_ROOT = "/usr/local/Ascend"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#: A JSON document; what `gather` returns is described there.
Facts = dict[str, Any]

ARCH_OF_MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}
#: e_machine of an ELF file (System V ABI).
ELF_MACHINE = {62: "x86_64", 183: "aarch64"}

#: Variables that are lists of paths; their order matters.
LISTS = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "CMAKE_PREFIX_PATH", "LD_PRELOAD")

#: Every process has its own, or a build step has them from ARG: no part of the image, and its report must not vary.
OWN_VARIABLES = tuple(
    """
    PWD OLDPWD SHLVL _ HOSTNAME TERM COLUMNS LINES UNLOCKED TARGETPLATFORM TARGETOS TARGETARCH TARGETVARIANT
    BUILDPLATFORM BUILDOS BUILDARCH BUILDVARIANT KERNEL_ARCH
    """.split()
)

#: How many examples a message names.
FEW = 5


# ---------------------------------------------------------------------------------------------------------- small tools


def canonical(name: str) -> str:
    """Return a distribution's name in normal form, without extras: Foo_Bar[x] -> foo-bar."""
    return re.sub(r"[-_.]+", "-", name.split("[", maxsplit=1)[0].strip()).lower()


def few(items: Iterable[str]) -> str:
    """Return the first items and how many more there are."""
    known = list(items)
    more = f" and {len(known) - FEW} more" if len(known) > FEW else ""
    return ", ".join(known[:FEW]) + more


def count(number: int, word: str) -> str:
    """Return a number with its word: 1 file, 2 files."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def entries(value: str) -> list[str]:
    """Return the elements of a list of paths; an empty one means the current directory."""
    return value.split(":") if value else []


def without_userinfo(text: str) -> str:
    """Hide user and password of every address in a text."""
    return re.sub(r"://[^/@\s\"']+@", "://(hidden)@", text)


def comes_from_host(path: str) -> bool:
    """Tell whether a path belongs to the host's driver or stands in for it (devlib): not the image's business."""
    return path.startswith(f"{INSTALL_ROOT}/driver") or "devlib" in path.split("/")


def release_key(release: str) -> str:
    """Return a CANN release in a form to compare: files write 8.3.RC2, tags 8.3.rc2."""
    return re.sub(r"[-_.]+", ".", release.strip().lower())


_RELEASE_IN_PATH = re.compile(
    r"/Ascend/(?:cann[-_]|ascend-toolkit/|nnal/(?:atb/)?)?(?P<release>\d+\.\d[0-9A-Za-z.]*(?:-[A-Za-z][0-9A-Za-z.]*)?)"
)


def releases_named(text: str) -> list[str]:
    """Return the CANN releases that paths in a text name, each once, in order."""
    return list(dict.fromkeys(found["release"].rstrip(".") for found in _RELEASE_IN_PATH.finditer(text)))


class Pep440:
    """Versions, specifiers and requirements, as the `packaging` library of the image understands them."""

    def __init__(self, version: Any, specifiers: Any, requirements: Any) -> None:
        self._version, self._specifiers, self._requirements = version, specifiers, requirements

    def allows(self, specifier: str, version: str) -> bool | None:
        """Tell whether a version fits a specifier such as `>=1,<2`; None where either cannot be read."""
        try:
            wanted = self._specifiers.SpecifierSet(specifier)
            return bool(wanted.contains(self._version.Version(version), prereleases=True))
        except ValueError:
            return None

    def demand(self, requirement: str, markers: Mapping[str, str]) -> tuple[str, str] | None:
        """Return name and specifier of a Requires-Dist line that holds here; None where its marker says no."""
        parsed = self._requirements.Requirement(requirement)
        if parsed.marker is not None and not parsed.marker.evaluate({**markers, "extra": ""}):
            return None
        return canonical(parsed.name), str(parsed.specifier)


def pep440(folders: Sequence[str] = ()) -> Pep440 | None:
    """Find `packaging`: here, in pip, or in one of the folders; None where there is none."""
    saved = list(sys.path)
    sys.path.extend(folders)
    try:
        for prefix in ("packaging", "pip._vendor.packaging"):
            with contextlib.suppress(ImportError):
                modules = [
                    __import__(f"{prefix}.{name}", fromlist=["x"]) for name in ("version", "specifiers", "requirements")
                ]
                return Pep440(*modules)
        return None
    finally:
        sys.path[:] = saved


def plain_version(pin: str) -> str:
    """Return the version where a pin is an exact one (2.9.0 or ==2.9.0), else an empty text."""
    found = re.fullmatch(r"(?:==)?\s*([0-9][0-9A-Za-z.+!_-]*)", pin.strip())
    return found.group(1) if found else ""


def same_version(wanted: str, found: str) -> bool:
    """Compare exact versions as `==` does: a local part (+cpu) counts where it is asked for."""
    wanted, found = wanted.lower(), found.lower()
    return found == wanted or ("+" not in wanted and found.split("+")[0] == wanted)


def base_version(version: str) -> str:
    """Return the release numbers of a version alone: 2.9.0.post1+git1 -> 2.9.0."""
    found = re.match(r"[0-9]+(\.[0-9]+)*", version)
    return found.group(0) if found else version


class Tree:
    """The image's file system: `/`, or an unpacked image elsewhere, whose links are followed inside it."""

    def __init__(self, root: str = "/") -> None:
        self.root = os.path.abspath(root)
        self.live = self.root == "/"

    def resolve(self, path: str) -> str:
        """Follow every link of an absolute path; what does not exist stays as it is written."""
        parts, done, links = path.split("/")[::-1], "", 0
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            if part == "..":
                done = posixpath.dirname(done).rstrip("/")
                continue
            here = f"{done}/{part}"
            outside = self.outside(here)
            if links < 40 and os.path.islink(outside):
                links += 1
                target = os.readlink(outside)
                done = "" if target.startswith("/") else done
                parts.extend(target.split("/")[::-1])
            else:
                done = here
        return done or "/"

    def outside(self, path: str) -> str:
        """Return where a path of the image lies for this process; links in it are not followed."""
        return path if self.live else self.root + path

    def at(self, path: str) -> str:
        """Return where a path of the image lies for this process, links followed."""
        return path if self.live else self.outside(self.resolve(path))

    def exists(self, path: str) -> bool:
        """Tell whether a path leads to something."""
        return os.path.exists(self.at(path))

    def is_dir(self, path: str) -> bool:
        """Tell whether a path leads to a directory."""
        return os.path.isdir(self.at(path))

    def names(self, path: str) -> list[str]:
        """Return what lies in a directory, sorted; nothing where it is not one."""
        try:
            return sorted(os.listdir(self.at(path)))
        except OSError:
            return []

    def text(self, path: str) -> str | None:
        """Return a file's text, None where it cannot be read."""
        try:
            with open(self.at(path), encoding="utf-8", errors="replace") as stream:
                return stream.read()
        except OSError:
            return None

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match a pattern; `*` stands for a part of one name."""
        found = [""]
        for part in pattern.strip("/").split("/"):
            if any(sign in part for sign in "*?["):
                found = [
                    f"{base}/{name}"
                    for base in found
                    for name in self.names(base or "/")
                    if fnmatch.fnmatch(name, part)
                ]
            else:
                found = [
                    f"{base}/{part}"
                    for base in found
                    if os.path.lexists(self.outside(self.resolve(base or "/") + "/" + part))
                ]
        return found


@dataclass(frozen=True)
class Ran:
    """How a command ended: its exit code, or the signal that ended it, or that its time was up."""

    exit: int
    signal: str
    timed_out: bool
    stdout: bytes
    stderr: str

    @property
    def ok(self) -> bool:
        """Whether it ended by itself and well."""
        return self.exit == 0 and not self.signal and not self.timed_out


def run(command: Sequence[str], *, cwd: str = "/", env: Mapping[str, str] | None = None, limit: float = 60) -> Ran:
    """Run a command to its end or for `limit` seconds; with time up, whatever it started ends as well.

    Output goes to files and not to pipes: a grandchild that lives on cannot hold us up. Of stderr the end is kept.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
        except OSError as error:
            return Ran(127, "", False, b"", f"{command[0]}: {error.strerror}")
        timed_out = False
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            timed_out = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        size = err.seek(0, os.SEEK_END)
        err.seek(max(0, size - 8000))
        code = process.returncode
        name = signal.Signals(-code).name if code < 0 and not timed_out else ""
        return Ran(max(code, 0), name, timed_out, out.read(), err.read().decode(errors="replace"))


# ------------------------------------------------------------------------------------------------------------ the facts


def gather(tree: Tree, image: Mapping[str, Any], *, limit: float = 300, own: str = "", jobs: int = 2) -> Facts:
    """Look at the image and return what is there.

    Programs of the image (shells, set_env scripts, imports) run only where the tree is `/`; otherwise what they would
    tell is None. `limit` is the time in seconds that one import may take, `own` a path of ours that is no leftover.
    Files are looked at before anything is imported, since imports leave files.
    """
    python = python_facts(tree, image)
    folders = list(python["paths"])
    found, files = distributions(tree, folders, {patch["file"] for patch in image.get("patches", [])})
    environment = environment_facts(tree, image)
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
        "torch": torch_facts(tree, found, files),
        "patches": patch_facts(tree, folders, image),
        "sources": {source["name"]: source_facts(tree, source) for source in image.get("sources", [])},
        "cann": cann_facts(tree, image),
        "settings": setting_facts(tree, image),
        "leftovers": leftovers(tree, image, own),
        "elf": elf_facts(
            tree, [*folders, *(source["path"] for source in image.get("sources", []) if source.get("path"))]
        ),
        "driver": driver_present(tree, environment["process"]),
        "origins": None,
        "imports": None,
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
            facts["imports"] = imports(program, entry_points(image, found), empty, stubs, limit, jobs)
    return facts


# --- system and Python


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
print(json.dumps({
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
        ran = run([shutil.which("python3") or sys.executable, "-c", _PYTHON_PROBE], limit=60)
        if ran.ok:
            python: Facts = json.loads(ran.stdout)
            seen: dict[str, str] = {}
            for path in python["paths"]:
                if os.path.isdir(path):
                    seen.setdefault(tree.resolve(path), path)
            python["paths"] = list(seen)
            return {**python, "error": ""}
        return {"executable": "", "prefix": "", "version": "", "paths": [], "markers": {}, "error": ran.stderr[-2000:]}
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


# --- environment

_SHELL_PROBE = r"printf '\0\0'; command -v python3 || true; printf '\0'; env -0"
PROXY = re.compile(r"(?:https?|ftp|all|no)_proxy", re.IGNORECASE)
_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|ACCESS_?KEY", re.IGNORECASE)


def shown(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment fit for a report: sorted, no secrets, nothing that differs from one process to the next."""
    kept = {}
    for name in sorted(environment):
        if name in OWN_VARIABLES or "%%" in name or "()" in name or given_by_engine(name, environment):
            continue
        kept[name] = (
            "(hidden)" if _SECRET_NAME.search(name) and environment[name] else without_userinfo(environment[name])
        )
    return kept


def given_by_engine(name: str, environment: Mapping[str, str]) -> bool:
    """Tell whether a variable is a proxy that the engine gave to this build step or container, and not ENV.

    The engine gives it in capitals and in small letters. It is no part of the image, and must not get into its report.
    """
    twin = name.lower() if name.isupper() else name.upper()
    return PROXY.fullmatch(name) is not None and environment.get(twin) == environment[name]


def environment_facts(tree: Tree, image: Mapping[str, Any]) -> Facts:
    """Return the environment of this process, of `sh -c`, of a login shell, and what the set_env scripts add."""
    facts: Facts = {"process": shown(os.environ) if tree.live else {}, "sh": None, "login": None, "set_env": None}
    facts["python3"] = {"process": tree.resolve(shutil.which("python3") or "") if tree.live else ""}
    if not tree.live:
        return facts
    for label, command in (("sh", ["sh", "-c", _SHELL_PROBE]), ("login", ["bash", "-lc", _SHELL_PROBE])):
        found = shell_environment(command, os.environ)
        if found is not None:
            facts["python3"][label] = tree.resolve(found[0]) if found[0] else ""
            facts[label] = shown(found[1])
    if image.get("cann_scripts"):
        facts["set_env"] = set_env_facts(image["cann_scripts"], image.get("python_home", ""))
    return facts


def shell_environment(command: Sequence[str], env: Mapping[str, str]) -> tuple[str, dict[str, str]] | None:
    """Run a shell with the probe; return what `python3` is there, and its environment. None where it did not run."""
    ran = run(command, env=env, limit=120)
    _, mark, answer = ran.stdout.partition(b"\0\0")
    if not mark:
        return None
    python, _, variables = answer.decode(errors="replace").partition("\0")
    return python.strip(), dict(line.split("=", 1) for line in variables.split("\0") if "=" in line)


def set_env_facts(scripts: Sequence[str], python_home: str) -> Facts:
    """Source the set_env scripts in an environment that is nearly empty and return what they add to it.

    Each entry of `scripts` is text for the shell (a path, perhaps with options). torch is kept from loading torch_npu:
    the ATB script may import it only to ask for its ABI.
    """
    before = {"PATH": f"{python_home}/bin:{SYSTEM_PATH}" if python_home else SYSTEM_PATH, "HOME": "/root", "LANG": "C",
              "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}  # fmt: skip
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


# --- start-up files

_STARTUP = tuple(
    """
    /etc/profile /etc/profile.d/*.sh /etc/bash.bashrc /etc/bashrc /etc/environment /root/.profile
    /root/.bash_profile /root/.bash_login /root/.bashrc
    """.split()
)
_SOURCED = re.compile(r"(?:^|[;&|({\s])(?:source|\.)\s+[\"']?(/[^\s;&|\"')}]+)")


def startup_facts(tree: Tree, image: Mapping[str, Any]) -> list[Facts]:
    """Return what shell start-up files and the ENTRYPOINT name: CANN releases, and the scripts they source."""
    texts = {"ENTRYPOINT": "\n".join(image.get("entrypoint", []))} if image.get("entrypoint") else {}
    for pattern in _STARTUP:
        for path in tree.glob(pattern):
            texts[path] = tree.text(path) or ""
    return [{"file": name, **startup_text(text)} for name, text in texts.items()]


def startup_text(text: str) -> Facts:
    """Read the text of a start-up file, comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    code = "\n".join(lines)
    scripts = []
    for path in dict.fromkeys(_SOURCED.findall(code)):
        # A script that is sourced only where it exists may be missing.
        guarded = re.search(rf"-[efrs]\s+[\"']?{re.escape(path)}[\"'\s\]]", code) is not None
        if "$" not in path and "*" not in path:
            scripts.append({"path": path, "guarded": guarded})
    return {"releases": releases_named(code), "scripts": scripts}


# --- distributions


def distributions(
    tree: Tree, folders: Sequence[str], patched: Iterable[str] = ()
) -> tuple[list[Facts], list[list[tuple[str, str]]]]:
    """Return every distribution found, and beside each its files with the hashes that its RECORD says.

    The order within one name is that of `folders`: as in Python, the first one counts. Contents of files that the pins
    patch (paths in site-packages) and of bytecode are not compared.
    """
    exempt = (".pyc", *(f"/{file}" for file in patched))
    found: list[tuple[Facts, list[tuple[str, str]]]] = []
    jobs: list[tuple[str, str]] = []
    for folder in folders:
        for name in tree.names(folder):
            if name.endswith((".dist-info", ".egg-info")) and name[0] not in "~.":
                found.append(one_distribution(tree, folder, name))
    for _, files in found:
        jobs.extend((path, digest) for path, digest in files if digest and not path.endswith(exempt))
    with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
        same = dict(zip([path for path, _ in jobs], pool.map(lambda job: file_is(tree, *job), jobs)))
    for facts, files in found:
        if facts["record"] is not None:
            missing = [path for path, _ in files if not path.endswith(".pyc") and not os.path.lexists(tree.at(path))]
            changed = [path for path, digest in files if digest and same.get(path) is False]
            facts["record"].update(
                missing=missing[:FEW], missing_count=len(missing), changed=changed[:FEW], changed_count=len(changed)
            )
    order = sorted(range(len(found)), key=lambda index: (canonical(found[index][0]["name"]), index))
    return [found[index][0] for index in order], [found[index][1] for index in order]


def one_distribution(tree: Tree, folder: str, name: str) -> tuple[Facts, list[tuple[str, str]]]:
    """Read one .dist-info or .egg-info."""
    place = f"{folder}/{name}"
    whole = (
        tree.text(f"{place}/METADATA")
        or tree.text(f"{place}/PKG-INFO")
        or (tree.text(place) if not tree.is_dir(place) else None)
    )
    head = email.parser.HeaderParser().parsestr(whole or "")
    guess = name.rsplit(".", 1)[0].split("-")
    origin = json_object(tree.text(f"{place}/direct_url.json"))
    editable = bool(origin.get("dir_info", {}).get("editable")) if isinstance(origin.get("dir_info"), dict) else False
    files = record_files(folder, tree.text(f"{place}/RECORD"))
    inside = sorted({path[len(folder) + 1 :].split("/")[0] for path, _ in files if path.startswith(f"{folder}/")})
    facts: Facts = {
        "name": head.get("Name") or guess[0],
        "version": head.get("Version") or (guess[1] if len(guess) > 1 else ""),
        "location": folder,
        "metadata": name,
        "readable": whole is not None and bool(head.get("Version")),
        "installer": (tree.text(f"{place}/INSTALLER") or "").strip(),
        "editable": str(origin.get("url", "")).replace("file://", "") if editable else "",
        "requires": sorted(str(line) for line in head.get_all("Requires-Dist") or []),
        "modules": [
            entry for entry in inside if not entry.endswith((".dist-info", ".pth", ".egg-info", "__pycache__"))
        ],
        "record": {"files": len(files)} if files else None,
    }
    return facts, files


def json_object(text: str | None) -> Facts:
    """Read a JSON object; an empty one where the text is none."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def record_files(folder: str, record: str | None) -> list[tuple[str, str]]:
    """Return the files of a RECORD as absolute paths, each with its hash where it has one (PEP 376, PEP 427)."""
    rows = csv.reader((record or "").replace("\0", "").splitlines())
    return [
        (posixpath.normpath(posixpath.join(folder, row[0])), row[1] if len(row) > 1 else "")
        for row in rows
        if row and row[0]
    ]


def file_is(tree: Tree, path: str, digest: str) -> bool:
    """Tell whether a file has the hash of a RECORD; what cannot be judged counts as equal, a missing file too."""
    method, _, wanted = digest.partition("=")
    if method != "sha256":
        return True
    hasher = hashlib.sha256()
    try:
        with open(tree.at(path), "rb") as stream:
            while block := stream.read(1 << 20):
                hasher.update(block)
    except OSError:
        return True
    return hasher.digest() == urlsafe_bytes(wanted)


def urlsafe_bytes(text: str) -> bytes:
    """Decode base64 as RECORD files write it, without padding."""
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""


#: Top-level names that careless distributions install; nobody imports them.
_LITTER = ("test", "tests", "doc", "docs", "example", "examples", "benchmark", "benchmarks", "scripts")


def shared_files(tree: Tree, found: Sequence[Facts], files: Sequence[Sequence[tuple[str, str]]]) -> list[Facts]:
    """Return the pairs of distributions that write the same files with different contents.

    Equal files do no harm, and a namespace package of the old kind has an `__init__.py` in each of its distributions.
    """
    owners: dict[str, list[tuple[int, str]]] = {}
    for index, facts in enumerate(found):
        for path, digest in [] if of_cann(facts) else files[index]:
            inner = path[len(facts["location"]) + 1 :]
            ours = path.startswith(facts["location"] + "/") and ("/" in inner or inner.endswith((".py", ".so")))
            if ours and inner.split("/")[0] not in _LITTER and ".dist-info/" not in path and not path.endswith(".pyc"):
                owners.setdefault(path, []).append((index, digest))
    pairs: dict[tuple[str, str], list[str]] = {}
    for path, claims in owners.items():
        names = sorted({canonical(found[index]["name"]) for index, _ in claims})
        if len(names) < 2 or (len({digest for _, digest in claims}) == 1 and claims[0][1]):
            continue
        if path.endswith("/__init__.py") and re.search(r"extend_path|declare_namespace", tree.text(path) or ""):
            continue
        pairs.setdefault((names[0], names[1]), []).append(path)
    return [
        {"owners": list(pair), "count": len(paths), "files": sorted(paths)[:FEW]}
        for pair, paths in sorted(pairs.items())
    ]


def module_owners(
    found: Sequence[Facts], files: Sequence[Sequence[tuple[str, str]]], image: Mapping[str, Any]
) -> Facts:
    """Return, for each source's module, the distributions that hold a package of that name themselves."""
    owners: Facts = {}
    for source in image.get("sources", []):
        module = source.get("module", "")
        if not module:
            continue
        inner = module.replace(".", "/")
        owners[module] = sorted(
            {
                canonical(facts["name"])
                for index, facts in enumerate(found)
                for path, _ in files[index]
                if path in (f"{facts['location']}/{inner}/__init__.py", f"{facts['location']}/{inner}.py")
            }
        )
    return owners


_CUDA_LIBRARY = re.compile(r"/lib(?:torch_cuda\w*|c10_cuda|cudart|cublas|cudnn|torch_hip)[.\w-]*\.so[.\d]*$")


def torch_facts(tree: Tree, found: Sequence[Facts], files: Sequence[Sequence[tuple[str, str]]]) -> Facts:
    """Return what torch was built for, from its files: CUDA libraries, the CUDA version it says, its C++ ABI."""
    facts: Facts = {"cuda_files": [], "cuda_version": "", "cxx11_abi": None}
    for index, distribution in enumerate(found):
        if canonical(distribution["name"]) != "torch":
            continue
        facts["cuda_files"] = sorted(path for path, _ in files[index] if _CUDA_LIBRARY.search(path))[:FEW]
        text = tree.text(f"{distribution['location']}/torch/version.py") or ""
        said = re.search(r"^cuda\s*(?::[^=]+)?=\s*['\"]([^'\"]+)", text, re.MULTILINE)
        facts["cuda_version"] = said.group(1) if said else ""
        facts["cxx11_abi"] = cxx11_abi(tree, f"{distribution['location']}/torch/lib/libc10.so")
        break
    return facts


def cxx11_abi(tree: Tree, library: str) -> bool | None:
    """Tell whether a C++ library was built with the new ABI: its names of std::string then hold `__cxx11`."""
    try:
        with open(tree.at(library), "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return (data.find(b"__cxx11") >= 0) if data.find(b"GLIBCXX_") >= 0 else None
    except (OSError, ValueError):
        return None


def patch_facts(tree: Tree, folders: Sequence[str], image: Mapping[str, Any]) -> list[Facts]:
    """Return, for each patch of the pins, how often the old and the new text stand in the file."""
    facts = []
    for patch in image.get("patches", []):
        texts = [text for text in (tree.text(f"{folder}/{patch['file']}") for folder in folders) if text is not None]
        facts.append(
            {
                "distribution": patch["distribution"],
                "file": patch["file"],
                "found": bool(texts),
                "old": texts[0].count(patch["find"]) if texts else 0,
                "new": texts[0].count(patch["replace"]) if texts else 0,
            }
        )
    return facts


# --- sources


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


def last_line(text: str) -> str:
    """Return the last line of a text that holds anything."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


# --- CANN

_INFO_LINE = re.compile(r"^\s*([A-Za-z_][\w .-]*?)\s*[=:]\s*(.*?)\s*$", re.MULTILINE)


def info(text: str | None) -> dict[str, str]:
    """Read a version file of the vendor: `key=value` or `Key : value` lines; keys in lower case."""
    return {key.lower(): value for key, value in _INFO_LINE.findall(text or "")}


def cann_facts(tree: Tree, image: Mapping[str, Any]) -> Facts:
    """Return what the version files say of toolkit, operators and NNAL; each kind in the order in which it is believed.

    Until 8.3 the toolkit has a version.cfg; from 8.5 on `<home>/<arch>-linux/ascend_toolkit_install.info`, which some
    9.x releases lack: then the name of the directory that the link `cann` leads to.
    """
    homes = [
        home
        for home in (image.get("cann_home"), f"{INSTALL_ROOT}/cann", f"{INSTALL_ROOT}/ascend-toolkit/latest")
        if home
    ]
    homes = list(dict.fromkeys(tree.resolve(home) for home in homes if tree.is_dir(home)))
    toolkit: list[Facts] = []
    ops: list[Facts] = []
    for home in homes:
        for path in tree.glob(f"{home}/*-linux/ascend_toolkit_install.info") + tree.glob(
            f"{home}/ascend_toolkit_install.info"
        ):
            toolkit.append({"file": path, "version": info(tree.text(path)).get("version", "")})
        config = re.search(r"running_version=\[[^\]:]*:([^\]]+)\]", tree.text(f"{home}/version.cfg") or "")
        if config:
            toolkit.append({"file": f"{home}/version.cfg", "version": config.group(1)})
        named = re.search(r"/(?:cann[-_]|ascend-toolkit/)([0-9][^/]*)$", home)
        if named:
            toolkit.append({"file": home, "version": named.group(1)})
        for pattern in (
            "*-linux/ascend_*ops*_install.info",
            "*-linux/ascend_*kernels*_install.info",
            "ascend_*ops*_install.info",
        ):
            for path in tree.glob(f"{home}/{pattern}"):
                said = info(tree.text(path))
                ops.append(
                    {"file": path, "version": said.get("version", ""), "chip": chip_of(said.get("package_name", ""))}
                )
    nnal = []
    for path in (*tree.glob(f"{INSTALL_ROOT}/nnal/*install.info"), f"{INSTALL_ROOT}/nnal/atb/latest/version.info",
                 f"{INSTALL_ROOT}/nnal/version.info"):  # fmt: skip
        said = info(tree.text(path))
        version = said.get("version") or said.get("ascend-cann-atb") or said.get("ascend-cann-atb version") or ""
        if version:
            nnal.append({"file": path, "version": version})
    latest = tree.resolve(f"{INSTALL_ROOT}/nnal/atb/latest")
    if tree.is_dir(latest) and re.match(r"[0-9]", posixpath.basename(latest)):
        nnal.append({"file": latest, "version": posixpath.basename(latest)})
    return {"toolkit": toolkit, "ops": ops, "nnal": nnal}


def chip_of(package: str) -> str:
    """Return the chip in a package's name, such as Ascend-cann-910b-ops or Atlas-A3-cann-kernels."""
    found = re.search(r"cann-([0-9A-Za-z]+)-ops|kernels-([0-9A-Za-z]+)|Atlas-([0-9A-Za-z]+)-cann-kernels", package)
    return next((group for group in found.groups() if group), "") if found else ""


def driver_present(tree: Tree, environment: Mapping[str, str]) -> bool:
    """Tell whether the host's driver library is there; it never comes with an image."""
    folders = [
        f"{INSTALL_ROOT}/driver/lib64",
        f"{INSTALL_ROOT}/driver/lib64/driver",
        *entries(environment.get("LD_LIBRARY_PATH", "")),
    ]
    return any("devlib" not in folder and folder and tree.exists(f"{folder}/libascend_hal.so") for folder in folders)


def stub_folders(tree: Tree, image: Mapping[str, Any], machine: str) -> list[str]:
    """Return CANN's folders of link stubs. Where there is no driver, set_env.sh puts them last in LD_LIBRARY_PATH."""
    home = image.get("cann_home") or f"{INSTALL_ROOT}/ascend-toolkit/latest"
    folders = (f"{home}/devlib", f"{home}/{machine}-linux/devlib", f"{home}/{machine}-linux/devlib/linux/{machine}")
    return [folder for folder in folders if tree.is_dir(folder)]


# --- settings of tools, and what a build must not leave behind


@dataclass(frozen=True)
class Setting:
    """A line of a configuration file that must not be in an image: `kind` is tls, proxy, index or secret."""

    kind: str
    files: tuple[str, ...]
    pattern: str


_PIP = ("/etc/pip.conf", "/root/.config/pip/pip.conf", "/root/.pip/pip.conf", "/etc/xdg/pip/pip.conf")
_UV = ("/root/.config/uv/uv.toml", "/etc/uv/uv.toml", "/etc/xdg/uv/uv.toml")
_GIT = ("/etc/gitconfig", "/root/.gitconfig", "/root/.config/git/config")
_APT = ("/etc/apt/apt.conf", "/etc/apt/apt.conf.d/*")
_YUM = ("/etc/yum.conf", "/etc/dnf/dnf.conf", "/etc/yum.repos.d/*.repo")
_SHELL = (
    "/etc/environment",
    "/etc/profile",
    "/etc/profile.d/*.sh",
    "/root/.bashrc",
    "/root/.profile",
    "/etc/bash.bashrc",
)
SETTINGS = (
    Setting("tls", _PIP, r"^\s*trusted-host\b"),
    Setting("tls", _UV, r"^\s*allow-insecure-host\b"),
    Setting("tls", _GIT, r"^\s*sslVerify\s*=\s*(false|0|no|off)"),
    Setting("tls", _APT, r"Verify-(Peer|Host)\s+\"?(false|0|no)|AllowInsecureRepositories\s+\"?(true|1|yes)"),
    Setting("tls", ("/etc/apt/sources.list", "/etc/apt/sources.list.d/*"), r"^[^#\n]*\btrusted\s*[=:]\s*yes"),
    Setting("tls", _YUM, r"^\s*sslverify\s*=\s*(0|false|no)"),
    Setting("tls", ("/root/.curlrc", "/etc/curlrc"), r"^\s*(insecure|-k)\b"),
    Setting("tls", ("/root/.wgetrc", "/etc/wgetrc"), r"^\s*check_?certificate\s*=\s*(off|no|0)"),
    Setting("tls", ("/root/.npmrc", "/usr/etc/npmrc"), r"^\s*strict-ssl\s*=\s*false"),
    Setting("tls", _SHELL, r"^\s*(export\s+)?(GIT_SSL_NO_VERIFY|PIP_TRUSTED_HOST|UV_INSECURE_HOST|PYTHONHTTPSVERIFY)="),
    Setting("proxy", _PIP, r"^\s*proxy\s*="),
    Setting("proxy", _GIT, r"^\s*proxy\s*="),
    Setting("proxy", _APT, r"^[^/#\n]*Acquire::(http|https|ftp)::Proxy\b(?!\s*\"?(false|DIRECT))"),
    Setting("proxy", _YUM, r"^\s*proxy\s*=\s*\S"),
    Setting("proxy", _SHELL, r"^\s*(export\s+)?(https?|ftp|all)_proxy\s*="),
    Setting("proxy", ("/root/.curlrc", "/root/.wgetrc", "/etc/wgetrc"), r"^\s*(https?_)?proxy\s*="),
    Setting("index", _PIP, r"^\s*(extra-)?index-url\s*=|^\s*find-links\s*="),
    Setting("index", _UV, r"^\s*(extra-)?index-url\s*=|^\s*\[\[index\]\]|^\s*default-index\s*="),
    Setting("index", _GIT, r"^\s*(pushI|i)nsteadOf\s*="),
    Setting("secret", (*_GIT, *_PIP), r"://[^/@\s]+:[^/@\s]+@|extraheader\s*="),
    Setting("secret", ("/root/.npmrc",), r"_authToken\s*="),
)


def setting_facts(tree: Tree, image: Mapping[str, Any]) -> list[Facts]:
    """Return every line of a configuration file that `SETTINGS` forbids, its value hidden where it may be a secret."""
    checkouts = tuple(f"{source['path']}/.git/config" for source in image.get("sources", []) if source.get("path"))
    facts = []
    for rule in SETTINGS:
        files = (*rule.files, *checkouts) if rule.files[:3] == _GIT else rule.files
        for path in dict.fromkeys(path for pattern in files for path in tree.glob(pattern)):
            if mounted(tree, path):
                continue
            for found in re.finditer(rule.pattern, tree.text(path) or "", re.MULTILINE | re.IGNORECASE):
                line = line_at(tree.text(path) or "", found.end())
                said = line.split("=")[0].strip() if rule.kind == "secret" else without_userinfo(line)
                facts.append({"kind": rule.kind, "file": path, "line": said})
    unique = {(fact["kind"], fact["file"], fact["line"]): fact for fact in facts}
    return [unique[key] for key in sorted(unique)]


def line_at(text: str, place: int) -> str:
    """Return the line of a text that holds a place."""
    return text[text.rfind("\n", 0, place) + 1 :].split("\n", 1)[0].strip()


#: Directories of caches and of builds, each with what it is; empty ones do no harm.
_LEFT = {
    "a cache": ("/root/.cache/uv", "/root/.cache/pip", "/root/.cache/ccache", "/root/.ccache", "/root/.local/share/uv",
                "/var/cache/apt/archives", "/var/lib/apt/lists", "/var/cache/yum", "/var/cache/dnf"),
    "a directory of the build": ("/out", "/wheels", "/lock", "/facts"),
}  # fmt: skip
_LEFT_FILES = {
    "a CANN package": ("/*.run", "/root/*.run", "/tmp/*.run"),
    "a wheel": ("/tmp/*.whl", "/root/*.whl"),
    "a directory of the build": ("/tmp/pip-*", "/tmp/uv-*"),
}
_SECRET_FILES = tuple(
    """
    /root/.netrc /root/.git-credentials /root/.docker/config.json /root/.pypirc /root/.ssh/id_*
    /root/.aws/credentials /root/.cache/huggingface/token /root/.huggingface/token
    /root/.modelscope/credentials/* /run/secrets/*
    """.split()
)


def leftovers(tree: Tree, image: Mapping[str, Any], own: str) -> list[Facts]:
    """Return caches, build directories and files of secrets; what is mounted is not the image's."""
    sources = [source.get("path") for source in image.get("sources", [])]
    facts = [
        {"kind": kind, "path": path}
        for kind, paths in _LEFT.items()
        for path in paths
        if path not in sources and not (own and f"{own}/".startswith(f"{path}/")) and holds_files(tree, path)
    ]
    facts += [
        {"kind": kind, "path": path}
        for kind, patterns in _LEFT_FILES.items()
        for pattern in patterns
        for path in tree.glob(pattern)
    ]
    facts += [{"kind": "secret", "path": path} for pattern in _SECRET_FILES for path in tree.glob(pattern)]
    return [fact for fact in facts if not mounted(tree, fact["path"])]


def holds_files(tree: Tree, path: str) -> bool:
    """Tell whether a directory holds any file; those by which apt locks its caches do not count."""
    if not tree.is_dir(path):
        return False
    for _, _, names in os.walk(tree.at(path)):
        if any(name not in ("lock", ".lock", "CACHEDIR.TAG", ".gitignore") for name in names):
            return True
    return False


def mounted(tree: Tree, path: str) -> bool:
    """Tell whether a path lies on a mount, so that it is the container's and not the image's."""
    if not tree.live:
        return False
    points = [
        line.split()[4] for line in (tree.text("/proc/self/mountinfo") or "").splitlines() if len(line.split()) > 4
    ]
    return any(point != "/" and (path == point or path.startswith(f"{point}/")) for point in points)


# --- ELF: which versions of the C libraries are asked for, and which are there


@dataclass(frozen=True)
class Elf:
    """What an ELF file asks of libraries, by name, and the versions that it defines itself."""

    machine: str
    needs: dict[str, list[str]]
    defines: list[str]


def elf_machine(tree: Tree, path: str) -> str:
    """Return the machine an executable was built for, empty where that cannot be told."""
    try:
        with open(tree.at(path), "rb") as stream:
            head = stream.read(20)
    except OSError:
        return ""
    return ELF_MACHINE.get(int.from_bytes(head[18:20], "little"), "") if head[:4] == b"\x7fELF" else ""


def read_elf(path: str) -> Elf | None:
    """Read version needs and definitions from the headers of a 64-bit ELF file; None for anything else.

    They are found by way of the dynamic segment (DT_VERNEED, DT_VERDEF): sections may be stripped. Layouts are those
    of the System V ABI and of the Linux Standard Base, "Symbol Versioning".
    """
    try:
        with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _ElfReader(data).elf()
    except (OSError, ValueError, KeyError, IndexError, OverflowError, struct.error):
        return None


class _ElfReader:
    """Finds its way in one ELF file; raises ValueError, struct.error or IndexError where it is not well-formed."""

    STRTAB, VERNEED, VERNEEDNUM, VERDEF, VERDEFNUM = 5, 0x6FFFFFFE, 0x6FFFFFFF, 0x6FFFFFFC, 0x6FFFFFFD

    def __init__(self, data: mmap.mmap) -> None:
        if data[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian
            raise ValueError("not such a file")
        self.data = data
        self.loads: list[tuple[int, int, int]] = []
        self.tags: dict[int, int] = {}
        (at,), (size, number) = self.words("<Q", 32), self.words("<HH", 54)
        for index in range(number):
            kind, _, offset, address, _, length = self.words("<IIQQQQ", at + index * size)
            if kind == 1:  # PT_LOAD
                self.loads.append((address, offset, length))
            elif kind == 2:  # PT_DYNAMIC
                for entry in range(offset, offset + length, 16):
                    tag, value = self.words("<QQ", entry)
                    if tag == 0:
                        break
                    self.tags.setdefault(tag, value)

    def words(self, layout: str, at: int) -> tuple[int, ...]:
        return struct.unpack_from(layout, self.data, at)

    def place(self, address: int) -> int:
        """Return where in the file an address lies."""
        for start, offset, length in self.loads:
            if start <= address < start + length:
                return address - start + offset
        raise ValueError("an address outside every segment")

    def name(self, offset: int) -> str:
        start = self.place(self.tags[self.STRTAB]) + offset
        end = self.data.find(b"\0", start)
        if end < 0:
            raise ValueError("a name without an end")
        return self.data[start:end].decode("ascii", "replace")

    def records(self, tag: int, count_tag: int, layout: str) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield the records of a list, each with its place; the last word of each says how far the next one is."""
        at = self.place(self.tags[tag]) if tag in self.tags else 0
        for _ in range(min(self.tags.get(count_tag, 0), 1000) if at else 0):
            record = self.words(layout, at)
            yield at, record
            at += record[-1]

    def elf(self) -> Elf:
        needs: dict[str, list[str]] = {}
        for at, (_, number, file, first, _) in self.records(self.VERNEED, self.VERNEEDNUM, "<HHIII"):
            inner = at + first
            for _ in range(number):
                _, flags, _, version, following = self.words("<IHHII", inner)
                if not flags & 2:  # VER_FLG_WEAK: its absence is only a warning
                    needs.setdefault(self.name(file), []).append(self.name(version))
                inner += following
        defines = [
            self.name(self.words("<I", at + record[5])[0])
            for at, record in self.records(self.VERDEF, self.VERDEFNUM, "<HHHHIII")
        ]
        return Elf(ELF_MACHINE.get(self.words("<H", 18)[0], ""), needs, defines)


#: The libraries whose versions come with the operating system and not with a package.
SYSTEM_LIBRARIES = ("libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1")


def shared_objects(tree: Tree, folder: str) -> Iterator[str]:
    """Yield the shared objects below a folder, sorted; links to them are not followed."""
    start = tree.resolve(folder)
    for place, folders, names in os.walk(tree.outside(start)):
        folders[:] = sorted(name for name in folders if name != ".git")
        inside = start + place[len(tree.outside(start)) :]
        for name in sorted(names):
            if (name.endswith(".so") or ".so." in name) and not os.path.islink(os.path.join(place, name)):
                yield f"{inside}/{name}"


def elf_facts(tree: Tree, folders: Sequence[str]) -> Facts:
    """Return the symbol versions that shared objects below the folders ask of the system's libraries, and its offer.

    `needs`: library -> symbol version -> how many files ask for it, and the first of them.
    """
    offers, machine = system_library_versions(tree)
    needs: dict[str, dict[str, Facts]] = {library: {} for library in SYSTEM_LIBRARIES}
    seen = set()
    for folder in folders:
        for path in shared_objects(tree, folder):
            if path in seen:
                continue
            seen.add(path)
            elf = read_elf(tree.outside(path))
            if elf is None or (machine and elf.machine != machine):
                continue  # wheels carry objects for other machines as data
            for library in SYSTEM_LIBRARIES:
                for version in elf.needs.get(library, ()):
                    asked = needs[library].setdefault(version, {"count": 0, "files": []})
                    asked["count"] += 1
                    if len(asked["files"]) < FEW:
                        asked["files"].append(path)
    return {"offers": offers, "needs": needs}


def system_library_versions(tree: Tree) -> tuple[dict[str, list[str] | None], str]:
    """Return the symbol versions of each system library (None: it is not there), and the machine they are for."""
    folders = [
        "/lib64",
        "/usr/lib64",
        *tree.glob("/lib/*-linux-gnu"),
        *tree.glob("/usr/lib/*-linux-gnu"),
        "/lib",
        "/usr/lib",
    ]
    offers: dict[str, list[str] | None] = {}
    machine = ""
    for library in SYSTEM_LIBRARIES:
        offers[library] = None
        for folder in folders:
            elf = read_elf(tree.at(f"{folder}/{library}"))
            if elf is not None:
                offers[library], machine = sorted(elf.defines), machine or elf.machine
                break
    return offers, machine


# --- imports, each in a process of its own

_ORIGIN_PROBE = """
import importlib.util, json, sys
answers = {}
for name in sys.argv[1:]:
    try:
        spec = importlib.util.find_spec(name)
        answers[name] = {
            "origin": (spec.origin or "") if spec else "",
            "namespace": sorted(spec.submodule_search_locations) if spec and spec.origin is None else [],
            "error": "" if spec else "no module of this name",
        }
    except BaseException as error:
        answers[name] = {"origin": "", "namespace": [], "error": "{}: {}".format(type(error).__name__, error)}
print(json.dumps(answers))
"""

_IMPORT_PROBE = """
import importlib, sys
name = sys.argv[1]
parts = name.split(".")
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
    ran = run([python, "-c", _ORIGIN_PROBE, *modules], cwd=place, env=quiet_environment(), limit=limit)
    answers = json_object(last_line(ran.stdout.decode(errors="replace"))) if ran.ok else {}
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


def imports(python: str, names: Sequence[str], place: str, stubs: Sequence[str], limit: float, jobs: int) -> Facts:
    """Import each name in a process of its own, `jobs` at a time. What a failed one wrote last is kept."""
    env = quiet_environment()
    if stubs:
        env["LD_LIBRARY_PATH"] = ":".join([*filter(None, entries(env.get("LD_LIBRARY_PATH", ""))), *stubs])

    def one(name: str) -> Facts:
        ran = run([python, "-c", _IMPORT_PROBE, name], cwd=place, env=env, limit=limit)
        stderr = "" if ran.ok else without_userinfo(ran.stderr[-6000:]).replace(place, "(an empty directory)")
        return {"exit": ran.exit, "signal": ran.signal, "timed_out": ran.timed_out, "stderr": stderr}

    with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
        return dict(zip(names, pool.map(one, names)))


# ---------------------------------------------------------------------------------------------------------- the checks


class Answer(enum.Enum):
    """What a check may answer; unknown is never pass."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    UNKNOWN = "unknown"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Said:
    """One answer: about what, what was found, what was wanted, and the next step."""

    answer: Answer
    subject: str = ""
    found: str = ""
    wanted: str = ""
    next: str = ""


def passed(subject: str = "", found: str = "") -> Said:
    """Answer `pass`."""
    return Said(Answer.PASS, subject, found)


def failed(subject: str, found: str, wanted: str, then: str) -> Said:
    """Answer `fail`: what was found, what was wanted, and what to do then."""
    return Said(Answer.FAIL, subject, found, wanted, then)


def unknown(subject: str, found: str, then: str = "") -> Said:
    """Answer `unknown`: it could not be told, and why."""
    return Said(Answer.UNKNOWN, subject, found, "", then)


def not_run(subject: str, because: str, then: str = "") -> Said:
    """Answer `not run`, and why."""
    return Said(Answer.NOT_RUN, subject, because, "", then)


NO_PINS = unknown("", f"the image has no {FOLDER}/image.json, so its pins are not known")
NO_LOCK = unknown("", f"the image has no {FOLDER}/lock.txt, so its locked packages are not known")
NOT_LIVE = not_run("", "the image's programs run in the image only, and this is a directory")


@dataclass(frozen=True)
class Lock:
    """What lock.txt says: packages by normal name, and the demands that they leave unmet on purpose."""

    platform: str = ""
    packages: dict[str, str] = field(default_factory=dict)
    conflicts: list[Facts] = field(default_factory=list)


@dataclass(frozen=True)
class Given:
    """What a check may look at. `earlier` holds what the checks before it said, by check."""

    facts: Facts
    image: Mapping[str, Any]
    lock: Lock | None = None
    pep: Pep440 | None = None
    earlier: Mapping[str, Sequence[Said]] = field(default_factory=dict)

    @property
    def arch(self) -> str:
        """The architecture in Docker's words."""
        machine = str(self.facts["machine"])
        return ARCH_OF_MACHINE.get(machine, machine)

    @property
    def pins(self) -> dict[str, str]:
        """The pinned packages for this architecture, as written."""
        pins: dict[str, str] = self.image.get("packages", {}).get(self.arch, {})
        return pins

    @property
    def sources(self) -> list[Facts]:
        """The pinned git checkouts."""
        return list(self.image.get("sources", []))

    @property
    def installed(self) -> dict[str, Facts]:
        """Distributions by normal name; of several with one name the one that Python takes."""
        first: dict[str, Facts] = {}
        for facts in self.facts["distributions"]:
            first.setdefault(canonical(facts["name"]), facts)
        return first

    def version(self, name: str) -> str:
        """Return the installed version of a distribution, empty where there is none."""
        facts = self.installed.get(canonical(name))
        return str(facts["version"]) if facts else ""

    def env(self) -> dict[str, str]:
        """Return the environment that this check was started with."""
        variables: dict[str, str] = self.facts["environment"]["process"]
        return variables

    def real(self, path: str) -> str:
        """Return where a path leads, links followed."""
        known = self.facts["paths"].get(path)
        return str(known["real"]) if known else path

    def exists(self, path: str) -> bool:
        """Tell whether a path that the environment or a start-up file names exists."""
        known = self.facts["paths"].get(path)
        return bool(known and known["exists"])

    def failures(self, *checks: str) -> list[tuple[str, Said]]:
        """Return what earlier checks found, each with the check's id; all of them where none is named."""
        return [
            (name, said)
            for name, answers in self.earlier.items()
            if name in checks or not checks
            for said in answers
            if said.answer is Answer.FAIL
        ]

    def blamed(self, *checks: str) -> set[str]:
        """Return the subjects of earlier failures, where one lists several each of them."""
        return {canonical(name) for _, said in self.failures(*checks) for name in re.split(r",\s*", said.subject)}


def of_cann(distribution: Mapping[str, Any]) -> bool:
    """Tell whether a distribution lies in CANN's own directories: the vendor's business."""
    return str(distribution["location"]).startswith(f"{INSTALL_ROOT}/")


def ours(given: Given) -> set[str]:
    """Return the distributions that the pins, the lock and the sources brought; the others are the base image's."""
    locked = given.lock.packages if given.lock else {}
    return {*map(canonical, given.pins), *locked, *source_distributions(given)}


@dataclass(frozen=True)
class Check:
    """A question with an id. Asked in the order in which they stand here; an answer of nothing means `pass`."""

    id: str
    question: str
    why: str
    ask: Callable[[Given], list[Said]]


CHECKS: list[Check] = []


def check(name: str, question: str) -> Callable[[Callable[[Given], list[Said]]], Callable[[Given], list[Said]]]:
    """Register a function as the check of that name; its docstring says why the question is asked."""

    def register(ask: Callable[[Given], list[Said]]) -> Callable[[Given], list[Said]]:
        CHECKS.append(Check(name, question, " ".join((ask.__doc__ or "").split()), ask))
        return ask

    return register


# --- platform


@check("architecture", "Is the image for the architecture that it was made for?")
def check_architecture(given: Given) -> list[Said]:
    """A lock of one architecture in an image of another installs wheels that do not load."""
    found, platforms = given.arch, given.image.get("platforms")
    if given.lock and given.lock.platform and given.lock.platform != f"linux/{found}":
        return [
            failed(
                "lock.txt",
                f"a lock for {given.lock.platform} in an image for linux/{found}",
                f"linux/{found}",
                "build this platform from its own lock",
            )
        ]
    if not platforms:
        return [NO_PINS]
    if found not in platforms:
        return [
            failed(
                found, f"Python is built for {found}", " or ".join(platforms), "build with --platform for one of these"
            )
        ]
    return [passed(found)]


@check("operating-system", "Is the operating system the one in the image's tag?")
def check_operating_system(given: Given) -> list[Said]:
    """A public image for one operating system was once published under the tag of another (vllm-ascend#586)."""
    wanted, system = given.image.get("os"), given.facts["system"]
    found = f"{system['id']}{system['version']}"
    if not wanted:
        return [NO_PINS]
    if not found:
        return [unknown(wanted, "/etc/os-release is missing or says nothing")]
    if found.lower() != wanted.lower():
        return [
            failed("os-release", found, wanted, f"look at the base image: {given.image.get('base_image', 'not known')}")
        ]
    return [passed(found)]


@check("python", "Is `python3` the pinned Python of the base image?")
def check_python(given: Given) -> list[Said]:
    """An operating-system package can bring a second Python, which then has none of the image's packages."""
    python, wanted = given.facts["python"], given.image.get("python")
    if python["error"] or not python["version"]:
        return [
            failed(
                "python3",
                f"python3 does not run: {last_line(python['error']) or 'it is not there'}",
                wanted or "a Python",
                "look at PATH and LD_LIBRARY_PATH",
            )
        ]
    if not wanted:
        return [NO_PINS]
    home = given.image.get("python_home", "")
    if not f"{python['version']}.".startswith(f"{wanted}."):
        return [
            failed(
                "python3",
                f"{python['executable']} is Python {python['version']}",
                f"Python {wanted} in {home}",
                "look at PATH, and at what the operating system's packages brought",
            )
        ]
    if home and python["prefix"] and python["prefix"].rstrip("/") != home.rstrip("/"):
        return [failed("python3", f"python3 is the one in {python['prefix']}", home, f"put {home}/bin first in PATH")]
    return [passed(f"Python {python['version']}")]


# --- packages

TORCH_FAMILY = ("torch", "torch_npu", "torchvision", "torchaudio")
#: torchvision and torchaudio by the X.Y of torch (Ascend/pytorch's and pytorch.org's tables).
_TORCH_LINES = {
    "2.5": ("0.20", "2.5"), "2.6": ("0.21", "2.6"), "2.7": ("0.22", "2.7"), "2.8": ("0.23", "2.8"),
    "2.9": ("0.24", "2.9"), "2.10": ("0.25", "2.10"), "2.11": ("0.26", "2.11"),
}  # fmt: skip


def pin_of(given: Given, name: str) -> str:
    """Return the pin of a package, whatever way its name is spelt; empty where there is none."""
    return next((pin for pinned, pin in given.pins.items() if canonical(pinned) == canonical(name)), "")


def fits_pin(given: Given, pin: str, version: str) -> bool | None:
    """Tell whether a version is what a pin says; None where that takes `packaging` and there is none."""
    exact = plain_version(pin)
    if exact:
        return same_version(exact, version)
    return given.pep.allows(pin, version) if given.pep else None


@check("duplicate-packages", "Does every distribution have one metadata directory only?")
def check_duplicate_packages(given: Given) -> list[Said]:
    """A package copied over another version of itself leaves two dist-infos, and files of both."""
    paths = [source.get("path") for source in given.sources if source.get("path")]
    places: dict[str, list[str]] = {}
    for facts in given.facts["distributions"]:
        # A checkout has an egg-info of its own beside the dist-info of its editable installation.
        checkout = any(f"{facts['location']}/".startswith(f"{path}/") for path in paths)
        beside = facts["metadata"].endswith(".egg-info") and not facts["location"].endswith(
            ("site-packages", "dist-packages")
        )
        if not checkout and not beside and not of_cann(facts):
            places.setdefault(canonical(facts["name"]), []).append(f"{facts['location']}/{facts['metadata']}")
    return [
        failed(
            name,
            f"{len(found)} of them: {', '.join(found)}",
            "one",
            "uninstall what the base image has before the lock is copied in",
        )
        for name, found in sorted(places.items())
        if len(found) > 1
    ]


@check("torch-family", "Do torch, torch_npu, torchvision and torchaudio fit together, and are they the pinned ones?")
def check_torch_family(given: Given) -> list[Said]:
    """An NPU image was published whose torch was four minor versions ahead of its torch_npu (sglang#28628).

    Told from metadata: importing needs the driver, which a builder does not have.
    """
    found = {name: given.version(name) for name in TORCH_FAMILY}
    pins = {name: pin_of(given, name) for name in TORCH_FAMILY}
    if not any(found.values()) and not any(pins.values()):
        return [not_run("torch", "neither installed nor pinned")]
    wrong, torch = [], found["torch"]
    for name in TORCH_FAMILY:
        if pins[name] and (not found[name] or fits_pin(given, pins[name], found[name]) is False):
            wrong.append(name)
    if (torch and not found["torch_npu"]) or (found["torch_npu"] and not torch):
        wrong.append("torch" if not torch else "torch_npu")
    elif base_version(torch) != base_version(found["torch_npu"]):
        wrong.append("torch_npu")
    vision, audio = _TORCH_LINES.get(".".join(base_version(torch).split(".")[:2]), ("", ""))
    for name, line in (("torchvision", vision), ("torchaudio", audio)):
        if found[name] and line and not pins[name] and not f"{found[name]}.".startswith(f"{line}."):
            wrong.append(name)
    twice = given.blamed("duplicate-packages") & {canonical(name) for name in wrong}
    if twice:
        return [not_run("torch", f"because of duplicate-packages: {', '.join(sorted(twice))}")]
    if wrong:
        said = [
            f"{name} {found[name] or 'missing'}" for name in TORCH_FAMILY if found[name] or pins[name] or name in wrong
        ]
        cuda = "; torch is a CUDA build" if torch_is_cuda(given) else ""
        wanted = ", ".join(f"{name} {pin}" for name, pin in pins.items() if pin)
        return [
            failed(
                ", ".join(dict.fromkeys(wrong)),
                ", ".join(said) + cuda,
                wanted or "torch and torch_npu of one version",
                "see which install step brought the other version; the whole set is in lock.txt",
            )
        ]
    return [passed("torch", ", ".join(f"{name} {version}" for name, version in found.items() if version))]


def torch_is_cuda(given: Given) -> bool:
    """Tell whether the installed torch is a CUDA build: by its local version, its files, or what it says of itself."""
    facts = given.facts["torch"]
    local = given.version("torch").partition("+")[2]
    return local.startswith(("cu", "rocm")) or bool(facts["cuda_files"]) or bool(facts["cuda_version"])


#: CUDA's own distributions; nvidia-ml-py and nvidia-modelopt are none.
_CUDA_NAMES = ("nvidia-cu*", "nvidia-nccl*", "nvidia-nv*", "nvidia-*-cu[0-9]*", "cuda-*", "cupy-cuda*")


def forbidden_by(given: Given, name: str) -> str:
    """Return why a distribution must not be in the image, empty where it may.

    A pin overrides a pattern, and so does a source that is installed under that name.
    """
    name = canonical(name)
    source = source_distributions(given).get(name, {})
    if any(canonical(pinned) == name for pinned in given.pins) or source.get("install") == "editable":
        return ""
    for pattern, reason in given.image.get("exclude", {}).items():
        if fnmatch.fnmatchcase(name, re.sub(r"[-_.]+", "-", pattern).lower()):
            return str(reason)
    return "CUDA only" if any(fnmatch.fnmatchcase(name, pattern) for pattern in _CUDA_NAMES) else ""


@check("forbidden-packages", "Is nothing installed that the pins exclude, and nothing for CUDA?")
def check_forbidden_packages(given: Given) -> list[Said]:
    """CUDA wheels (15 packages on x86_64), opencv-python and triton come in silently with other packages."""
    reasons: dict[str, list[str]] = {}
    for name in sorted(given.installed):
        if reason := forbidden_by(given, name):
            reasons.setdefault(reason, []).append(name)
    findings = []
    for reason, names in reasons.items():
        shared = [pair for pair in given.facts["shared_files"] if set(pair["owners"]) & set(names)]
        over = "".join(
            f"; {pair['count']} files are also those of {next(name for name in pair['owners'] if name not in names)}"
            for pair in shared
            if set(pair["owners"]) - set(names)
        )
        whole = " ".join(f"{name} {given.version(name)}," for name in names[: 2 * FEW]).rstrip(",")
        then = "exclude it when locking, or uninstall it"
        if over:
            then = "uninstall both, then install the wanted one last"
        findings.append(failed(", ".join(names), whole + over, f"not installed: {reason}", then))
    if "torch" not in given.blamed("torch-family") and torch_is_cuda(given):
        facts = given.facts["torch"]
        signs = [
            given.version("torch"),
            *facts["cuda_files"][:1],
            *([f"CUDA {facts['cuda_version']}"] if facts["cuda_version"] else []),
        ]
        findings.append(
            failed(
                "torch",
                f"torch is a CUDA build: {', '.join(signs)}",
                "torch's CPU build",
                "take torch from the CPU index (+cpu on x86_64)",
            )
        )
    return findings


def source_distributions(given: Given) -> dict[str, Facts]:
    """Return the sources that are installed as a distribution, by its normal name."""
    return {canonical(source.get("distribution") or source["name"]): source for source in given.sources}


@check("pinned-packages", "Is every pinned package there in exactly its version?")
def check_pinned_packages(given: Given) -> list[Said]:
    """Later install steps replace what earlier ones have pinned: the public recipes end in `pip install -U`."""
    if not given.pins:
        return [NO_PINS if not given.image else unknown("", f"image.json has no packages for {given.arch}")]
    answers = []
    known = {canonical(name) for name in TORCH_FAMILY} | given.blamed("duplicate-packages")
    for name, pin in sorted(given.pins.items()):
        if canonical(name) in known:
            continue
        found = given.version(name)
        if not found:
            answers.append(
                failed(name, "not installed", f"{name} {pin}", "see the build's log for what left it out or removed it")
            )
            continue
        fits = fits_pin(given, pin, found)
        if fits is None:
            answers.append(unknown(name, f"{found}; no `packaging` in the image to compare it with {pin}"))
        elif not fits:
            answers.append(
                failed(name, found, pin, "see which install step brought this version; lock.txt has the whole set")
            )
    return answers or [passed("", count(len(given.pins), "package"))]


@check("locked-packages", "Is the whole lock installed, in exactly its versions?")
def check_locked_packages(given: Given) -> list[Said]:
    """What was resolved together must be installed together."""
    if given.lock is None:
        return [NO_LOCK]
    # What a check before this one has named, and what is installed from its source.
    known = given.blamed("duplicate-packages", "torch-family", "pinned-packages") | set(source_distributions(given))
    answers = []
    for name, version in sorted(given.lock.packages.items()):
        found = given.version(name)
        if name not in known and not (found and same_version(version, found)):
            answers.append(
                failed(name, found or "not installed", version, "install the lock last, and nothing after it")
            )
    if len(answers) > FEW:
        names = [f"{said.subject} {said.found} (wanted {said.wanted})" for said in answers]
        return [
            failed(
                ", ".join(said.subject for said in answers),
                few(names),
                "what lock.txt says",
                "install the lock last, and nothing after it",
            )
        ]
    return answers or [passed("", count(len(given.lock.packages), "package"))]


#: What CANN's base images install with pip (Ascend/cann-container-image), and what that asks for.
_OF_BASE = tuple(
    """
    pip setuptools wheel attrs cython numpy decorator sympy cffi pyyaml pathlib2 psutil protobuf scipy requests
    absl-py certifi charset-normalizer idna urllib3 mpmath pycparser six
    """.split()
)


@check("extra-packages", "Is nothing installed but the lock, the sources and what the base image brought?")
def check_extra_packages(given: Given) -> list[Said]:
    """What nobody asked for may replace what was asked for.

    The build installs with uv, the base images with pip: what uv installed and the lock does not have was installed
    by a build.
    """
    if given.lock is None:
        return [NO_LOCK]
    base, open_names = set(), [canonical(name) for name in _OF_BASE]
    while open_names:
        name = open_names.pop()
        if name in base or name not in given.installed:
            continue
        base.add(name)
        open_names += [
            canonical(re.split(r"[\s;<>=!~(\[]", line)[0])
            for line in given.installed[name]["requires"]
            if "extra ==" not in line
        ]
    wanted, brought, others = ours(given), [], []
    for name, facts in given.installed.items():
        if name in wanted or of_cann(facts) or forbidden_by(given, name):
            continue
        if facts["installer"] == "uv":
            brought.append(f"{name} {facts['version']}")
        elif name not in base:
            others.append(f"{name} {facts['version']}")
    answers = []
    if brought:
        answers.append(
            failed(
                ", ".join(text.split()[0] for text in brought),
                few(brought),
                "packages of lock.txt and sources only",
                f"lock it (invoke lock --variant {variant(given)}) or leave it out",
            )
        )
    if others:
        answers.append(
            unknown(
                ", ".join(text.split()[0] for text in others),
                f"neither locked nor known to come with the base image: {few(others)}",
                "if the base image brings them, all is well",
            )
        )
    kept = sorted(base - wanted)
    return answers or [passed("", f"of the base image: {', '.join(kept)}" if kept else "")]


def variant(given: Given) -> str:
    """Return the variant's name, for commands to type."""
    return str(given.image.get("variant", "…"))


@check("shared-files", "Does every installed file belong to one distribution?")
def check_shared_files(given: Given) -> list[Said]:
    """Triton and triton-ascend write one directory; removing one then damages the other (vllm-ascend#7790)."""
    answers = []
    for pair in given.facts["shared_files"]:
        if not any(forbidden_by(given, name) for name in pair["owners"]):
            one, other = pair["owners"]
            answers.append(
                failed(
                    f"{one}, {other}",
                    f"both write {pair['count']} files: {few(pair['files'])}",
                    "one owner of each file",
                    "exclude one of the two, uninstall both and install the wanted one last",
                )
            )
    for source in given.sources:
        own = canonical(source.get("distribution") or source["name"])
        for name in given.facts["module_owners"].get(source.get("module", ""), []):
            if (name != own or source.get("install") == "pythonpath") and not forbidden_by(given, name):
                answers.append(
                    failed(
                        f"{name}, {source['name']}",
                        f"{name} {given.version(name)} holds a package {source['module']} as well",
                        f"{source['module']} from {source['path']} only",
                        f"exclude {name}",
                    )
                )
    return answers


@check("damaged-packages", "Are all files of every distribution there, as its RECORD says?")
def check_damaged_packages(given: Given) -> list[Said]:
    """After "just uninstall triton" files of triton-ascend were missing, and torch did not import (vllm-ascend#7790).

    Bytecode does not count, nor do files that the pins patch.
    """
    known = ours(given)
    blamed = {name for pair in given.facts["shared_files"] for name in pair["owners"]}
    twice = given.blamed("duplicate-packages")
    answers = []
    for name, facts in sorted(given.installed.items()):
        if of_cann(facts):
            continue
        if not facts["readable"]:
            answers.append(
                failed(
                    name,
                    f"{facts['location']}/{facts['metadata']} holds no readable metadata",
                    "METADATA with a version",
                    f"uninstall {name} and install it again",
                )
            )
            continue
        record = facts["record"]
        if record is None:
            continue
        if name in twice or (not record["missing_count"] and (not record["changed_count"] or name in blamed)):
            continue
        parts = []
        if record["missing_count"]:
            parts.append(
                f"{record['missing_count']} of {count(record['files'], 'file')} missing ({few(record['missing'])})"
            )
        if record["changed_count"]:
            parts.append(
                f"{record['changed_count']} of {count(record['files'], 'file')} changed ({few(record['changed'])})"
            )
        text = f"{name} is damaged: {', '.join(parts)}"
        if name in known or not (given.image or given.lock):
            answers.append(
                failed(
                    name,
                    text,
                    "every file as its RECORD says",
                    f"uninstall {name} and install it again, after everything that shares its files",
                )
            )
        else:
            answers.append(unknown(name, f"{text}; it is the base image's own"))
    return answers


@check("patches", "Did every patch of the pins apply?")
def check_patches(given: Given) -> list[Said]:
    """A patch by line number breaks silently when its package moves; here the text and its count are asked for."""
    answers = []
    for patch, facts in zip(given.image.get("patches", []), given.facts["patches"]):
        wanted = f"{patch['count']} times the new text and none of the old in {patch['file']}"
        # Where the new text contains the old one, the old cannot vanish.
        old = facts["old"] - (facts["new"] * patch["replace"].count(patch["find"]))
        if not facts["found"]:
            answers.append(
                failed(
                    patch["distribution"],
                    f"{patch['file']} is not there",
                    wanted,
                    "see whether the package still has this file",
                )
            )
        elif old > 0 or facts["new"] < patch["count"]:
            answers.append(
                failed(
                    patch["distribution"],
                    f"{facts['new']} times the new text, {old} times the old in {patch['file']}",
                    wanted,
                    "see whether the package has changed, and pin the patch to it",
                )
            )
    return answers


# --- demands of packages on one another


def same_demand(text: str) -> tuple[str, str]:
    """Return a requirement in a form to compare: its name and its specifiers in order, without marker and extras."""
    found = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;()]*)", text)
    if not found:
        return text.strip(), ""
    parts = [re.sub(r"\s+", "", part) for part in found.group(2).split(",")]
    return canonical(found.group(1)), ",".join(sorted(part for part in parts if part))


def unmet_demands(given: Given, pep: Pep440) -> dict[tuple[str, str, str], str]:
    """Return what `pip check` would say: (whose, name, specifier) -> the version found, empty where it is missing."""
    unmet = {}
    for whose, facts in given.installed.items():
        for line in [] if of_cann(facts) else facts["requires"]:
            try:
                demand = pep.demand(line, given.facts["python"]["markers"])
            except ValueError:
                continue
            if demand is None:
                continue
            found = given.version(demand[0])
            if not found or (demand[1] and pep.allows(demand[1], found) is False):
                unmet[(whose, *same_demand(line))] = found
    return unmet


@check("package-demands", "Are exactly those demands of packages unmet that the pins lift?")
def check_package_demands(given: Given) -> list[Said]:
    """These stacks contradict themselves by design, so plain `pip check` is never clean.

    A new conflict fails, and so does an accepted one that is gone.
    """
    if given.lock is None:
        return [NO_LOCK]
    if given.pep is None:
        return [unknown("", "no `packaging` in the image, alone or in pip, to compare versions with")]
    unmet = unmet_demands(given, given.pep)
    accepted = {
        (canonical(conflict["whose"]), *same_demand(conflict["demand"])): conflict for conflict in given.lock.conflicts
    }
    # Conflicts name a source as the pins do; metadata names its distribution.
    names = {canonical(source["name"]): name for name, source in source_distributions(given).items()}
    accepted = {
        (names.get(whose, whose), name, demand): conflict for (whose, name, demand), conflict in accepted.items()
    }
    blamed = given.blamed(
        "torch-family", "pinned-packages", "locked-packages", "forbidden-packages", "duplicate-packages"
    )
    answers = []
    new: dict[str, list[str]] = {}
    for whose, name, demand in sorted(set(unmet) - set(accepted)):
        if whose not in blamed and name not in blamed:
            new.setdefault(whose, []).append(f"{name}{demand} (found {unmet[whose, name, demand] or 'none'})")
    known = ours(given)
    for whose, demands in new.items():
        found = f"{whose} {given.version(whose)} asks for {few(demands)}"
        wanted = "demands that are met, or lifted by a `relax` with a reason"
        then = f"invoke lock --variant {variant(given)}"
        if whose in known:
            answers.append(failed(whose, found, wanted, then))
        else:
            answers.append(unknown(whose, f"{found}; it is the base image's own"))
    for whose, name, demand in sorted(set(accepted) - set(unmet)):
        if whose not in blamed and name not in blamed:
            answers.append(
                failed(
                    whose,
                    f"{whose} {given.version(whose) or '(not installed)'} no longer conflicts over {name}{demand}",
                    f"the conflict that is accepted because: {accepted[(whose, name, demand)].get('reason', '')}",
                    f"remove its `relax`, then invoke lock --variant {variant(given)}",
                )
            )
    for key in sorted(set(accepted) & set(unmet)):
        wanted = accepted[key].get("found", "")
        if (
            wanted != unmet[key]
            and not (wanted and unmet[key] and same_version(wanted, unmet[key]))
            and key[1] not in blamed
        ):
            answers.append(
                failed(
                    key[0],
                    f"{key[0]} asks for {key[1]}{key[2]}, found {unmet[key] or 'none'}",
                    f"{key[1]} {wanted or 'not installed'}, as accepted",
                    "install what lock.txt says",
                )
            )
    return answers or [passed("", f"{count(len(accepted), 'conflict')}, all accepted")]


# --- sources


@check("source-commit", "Is every checkout at its pinned commit, unchanged, with its submodules?")
def check_source_commit(given: Given) -> list[Said]:
    """A checkout that is one commit off, or edited by hand, is another program under the same name."""
    if not given.image:
        return [NO_PINS]
    answers = []
    for source in given.sources:
        name, path, facts = source["name"], source.get("path", ""), given.facts["sources"][source["name"]]
        commit = source.get("commit") or (source["ref"] if re.fullmatch(r"[0-9a-f]{40}", source.get("ref", "")) else "")
        again = f"build it again from {source.get('git', 'its repository')}"
        if not facts["present"]:
            answers.append(failed(name, f"{path} is not there", f"a checkout at {path}", again))
            continue
        if not facts["head"]:
            answers.append(unknown(name, f"git in {path}: {facts['git_error']}"))
            continue
        if commit and facts["head"] != commit:
            answers.append(failed(name, f"{path} is at {facts['head']}", f"{commit} ({source.get('ref', '')})", again))
            continue
        missing = (
            [sub["path"] for sub in facts["submodules"] or [] if not sub["head"]] if source.get("submodules") else []
        )
        moved = [
            f"{sub['path']} at {sub['head'][:12]}"
            for sub in facts["submodules"] or []
            if sub["head"] and sub["head"] != sub["recorded"]
        ]
        if missing:
            answers.append(
                failed(name, f"submodules missing: {few(missing)}", "every submodule at its recorded commit", again)
            )
        elif moved:
            answers.append(
                failed(name, f"submodules elsewhere: {few(moved)}", "every submodule at its recorded commit", again)
            )
        elif facts["changed"] and not source.get("local"):
            answers.append(
                failed(
                    name,
                    f"{path} has {count(len(facts['changed']), 'change')}: {few(facts['changed'])}",
                    "a clean checkout",
                    f"git -C {path} diff",
                )
            )
        elif facts["changed"] is None:
            answers.append(unknown(name, f"git in {path}: {facts['git_error']}"))
        elif not commit:
            answers.append(
                unknown(name, f"at {facts['head']}; the pins name no commit, only {source.get('ref') or 'nothing'}")
            )
        else:
            answers.append(passed(name, facts["head"]))
    return answers


@check("source-origin", "Does every source import from its checkout, wherever Python is started?")
def check_source_origin(given: Given) -> list[Said]:
    """In WORKDIR, a checkout's folder shadowed the editable installation as a namespace package (vllm-ascend#725).

    Asked from `/`, WORKDIR and an empty directory.
    """
    if not given.image:
        return [NO_PINS]
    if given.facts["origins"] is None:
        return [NOT_LIVE]
    answers = []
    for source in given.sources:
        module, path = source.get("module", ""), source.get("path", "")
        if not module or source.get("install") == "none":
            continue
        own = canonical(source.get("distribution") or source["name"])
        if own in given.blamed("damaged-packages", "duplicate-packages") and source.get("install") == "editable":
            answers.append(not_run(module, f"because of the distribution {own}, which is damaged"))
            continue
        if not given.facts["sources"][source["name"]]["present"]:
            answers.append(not_run(module, "because of source-commit: the checkout is not there"))
            continue
        seen = {place: modules[module] for place, modules in given.facts["origins"].items() if module in modules}
        lost = {place: origin_text(origin) for place, origin in seen.items() if not inside(origin["origin"], path)}
        wanted = f"{module} from {path}, wherever Python is started"
        if not lost:
            if len({origin["origin"] for origin in seen.values()}) > 1:
                text = ", ".join(f"from {place}: {origin['origin']}" for place, origin in seen.items())
                answers.append(failed(module, text, wanted, "look for a second folder of that name in the checkout"))
            else:
                answers.append(passed(module, next(iter(seen.values()))["origin"] if seen else ""))
        elif len(lost) < len(seen):
            text = "; ".join(f"started in {place}: {said}" for place, said in lost.items())
            answers.append(
                failed(
                    module,
                    f"the import depends on the directory: {text}",
                    wanted,
                    "install it in editable compat mode, and keep its checkout out of WORKDIR",
                )
            )
        else:
            answers.append(
                failed(
                    module,
                    next(iter(lost.values())),
                    wanted,
                    f"install {source['name']} from {path}, after everything that depends on it",
                )
            )
    return answers


def inside(path: str, folder: str) -> bool:
    """Tell whether a path lies below a folder."""
    return bool(folder) and path.startswith(folder.rstrip("/") + "/")


def origin_text(origin: Mapping[str, Any]) -> str:
    """Return in words where a module comes from."""
    if origin["error"]:
        return str(origin["error"])
    if origin["namespace"]:
        return f"an empty namespace package of the folder {', '.join(origin['namespace'])}"
    return f"imported from {origin['origin']}"


@check("source-version", "Has every source the version that the pins say, as a distribution and in itself?")
def check_source_version(given: Given) -> list[Said]:
    """A checkout fetched by commit has no tags, so setuptools-scm guesses its version.

    vLLM Ascend branches on `vllm.__version__` in some fifty places.
    """
    if not given.image:
        return [NO_PINS]
    answers = []
    for source in given.sources:
        name, wanted = source["name"], source.get("version", "")
        if not wanted:
            continue
        told = f"tell the version to its build (SETUPTOOLS_SCM_PRETEND_VERSION={wanted.split('+')[0]})"
        inner = given.facts["sources"][name]["version"]
        if inner is not None and inner not in (wanted, wanted.split("+")[0]):
            answers.append(failed(name, f"{source['module']}.__version__ is {inner}", wanted.split("+")[0], told))
            continue
        if source.get("install") != "editable":
            continue
        distribution = source.get("distribution") or name
        found = given.version(distribution)
        if not found and canonical(source.get("module", "")) in given.blamed("source-origin"):
            answers.append(not_run(name, f"because of source-origin: {source['module']}"))
        elif not found:
            answers.append(
                failed(
                    name,
                    f"no distribution {distribution}",
                    f"{distribution} {wanted}",
                    f"install {source.get('path')} in editable mode",
                )
            )
        elif found != wanted:
            answers.append(failed(name, f"{distribution} {found}", wanted, told))
        else:
            answers.append(passed(name, found))
    return answers


@check("compiled-extensions", "Is what a source compiles there, for this machine and this chip?")
def check_compiled_extensions(given: Given) -> list[Said]:
    """A wheel built for A2 asserts at start on an A3 host, and its name does not say so (vllm-ascend#11160)."""
    if not given.image:
        return [NO_PINS]
    answers = []
    for source in given.sources:
        if not source.get("compiles"):
            continue
        name, facts = source["name"], given.facts["sources"][source["name"]]
        built, wanted = facts["device_type"], given.image.get("device_type", "")
        machines = {extension["machine"] for extension in facts["extensions"]}
        again = f"compile {name} again for {given.image.get('soc_version', 'the chip')}"
        if not facts["present"]:
            answers.append(not_run(name, "because of source-commit: the checkout is not there"))
        elif not facts["extensions"]:
            answers.append(failed(name, f"no shared object below {source['path']}", "its compiled extension", again))
        elif given.facts["machine"] not in machines:
            answers.append(
                failed(
                    name,
                    f"extensions for {', '.join(sorted(machines)) or 'no known machine'}",
                    given.facts["machine"],
                    again,
                )
            )
        elif built is not None and wanted and built.split(".")[-1].strip("_").lower() != wanted.strip("_").lower():
            answers.append(failed(name, f"built for device type {built}", wanted, again))
        elif built is None and wanted:
            answers.append(unknown(name, "its _build_info.py names no device type"))
        else:
            answers.append(
                passed(name, f"{count(len(facts['extensions']), 'shared object')}, device type {built or 'not told'}")
            )
    return answers


# --- environment


@check("start-up", "Do ENTRYPOINT and the shells' start-up files name this CANN release only, and scripts that exist?")
def check_start_up(given: Given) -> list[Said]:
    """The base images name scripts of one release by full path in ENTRYPOINT, /etc/profile and root's .bashrc."""
    cann, answers = release_key(given.image.get("cann", "")), []
    others: dict[str, list[str]] = {}
    missing: dict[str, list[str]] = {}
    for document in given.facts["startup"]:
        for release in document["releases"] if cann else []:
            if release_key(release) != cann:
                others.setdefault(release, []).append(document["file"])
        for script in document["scripts"]:
            if not script["guarded"] and not given.exists(script["path"]):
                missing.setdefault(script["path"], []).append(document["file"])
    for script in given.image.get("cann_scripts", []):
        if not given.exists(script.split()[0]):
            missing.setdefault(script.split()[0], []).append("image.json")
    for release, files in sorted(others.items()):
        found = f"named by {few(files)}"
        then = "replace the lines that name it"
        answers.append(failed(f"CANN {release}", found, f"CANN {given.image['cann']} only", then))
    for path, files in sorted(missing.items()):
        if not set(releases_named(path)) & set(others):
            near = given.facts["paths"].get(path, {}).get("near", "")
            wanted = f"a script that exists{f'; there is {near}' if near else ''}"
            answers.append(failed(path, f"not there, and sourced by {few(files)}", wanted, "correct what sources it"))
    return answers


#: Stands behind the name of a variable that only a login shell has so.
LOGIN = " of a login shell"


def releases_of(given: Given, paths: Iterable[str]) -> list[str]:
    """Return the CANN releases, other than the pinned one, that paths lead to; links are followed."""
    cann = release_key(given.image.get("cann", ""))
    named = [release for path in paths for release in releases_named(given.real(path)) or releases_named(path)]
    return [release for release in dict.fromkeys(named) if cann and release_key(release) != cann]


def places_of_release(given: Given) -> dict[str, dict[str, list[str]]]:
    """Return what in the environment leads to another CANN release: release -> variable -> entries."""
    found: dict[str, dict[str, list[str]]] = {}
    for label in ("process", "sh", "login"):
        for name, value in (given.facts["environment"][label] or {}).items():
            for entry in entries(value):
                for release in releases_of(given, [entry]) if entry.startswith("/") else []:
                    where = found.setdefault(release, {})
                    if entry not in where.get(name, []):
                        where.setdefault(name + LOGIN if label == "login" else name, []).append(entry)
    return found


@check("environment-release", "Does no variable lead to another CANN release?")
def check_environment_release(given: Given) -> list[Said]:
    """Where one CANN release is laid over another, the base image's variables still name the old one."""
    if not given.image:
        return [NO_PINS]
    set_env = given.facts["environment"]["set_env"] or {"lists": {}}
    known = {said.subject for _, said in given.failures("start-up")}
    known |= {
        f"CANN {release}"
        for release in releases_of(given, [entry for found in set_env["lists"].values() for entry in found])
    }
    answers = []
    for release, where in sorted(places_of_release(given).items()):
        if f"CANN {release}" in known and all(name.endswith(LOGIN) for name in where):
            continue  # a login shell only does what start-up files and set_env scripts say
        names = [
            f"{name} ({found[0]}{f' and {len(found) - 1} more' if len(found) > 1 else ''})"
            for name, found in sorted(where.items())
        ]
        answers.append(
            failed(
                f"CANN {release}",
                few(names),
                f"CANN {given.image['cann']} only",
                "replace them in ENV, and in what a shell reads at its start",
            )
        )
    return answers


def blamed_variables(given: Given) -> set[str]:
    """Return the variables that an earlier check of the environment has named, so that one cause gives one finding."""
    names = {name.replace(LOGIN, "") for where in places_of_release(given).values() for name in where}
    names |= {name for named in dead_entries(given).values() for name, _ in named}
    return names | {said.subject for _, said in given.failures("environment-paths", "environment-values")}


def may_be_missing(name: str) -> bool:
    """Tell whether a variable names places that are made when they are used."""
    return "CACHE" in name or name.startswith("XDG_") or name in ("HF_HOME", "TORCH_HOME", "TMPDIR", "HOME")


def dead_entries(given: Given) -> dict[str, list[tuple[str, str]]]:
    """Return the paths that are missing: first missing part -> variables and their entries.

    Driver and devlib come from the host; what set_env.sh itself adds is the vendor's; what leads to another CANN
    release is a finding of its own.
    """
    set_env = given.facts["environment"]["set_env"] or {"lists": {}, "values": {}}
    exempt = {entry for found in set_env["lists"].values() for entry in found} | set(set_env["values"].values())
    dead: dict[str, list[tuple[str, str]]] = {}
    for name, value in given.env().items():
        if not (name in LISTS or name.endswith(("PATH", "HOME"))) or may_be_missing(name):
            continue
        for entry in entries(value):
            known = given.facts["paths"].get(entry, {"exists": True})
            if not (known["exists"] or comes_from_host(entry) or entry in exempt or releases_of(given, [entry])):
                dead.setdefault(known["missing"], []).append((name, entry))
    return dead


@check("environment-paths", "Does every path in the environment exist?")
def check_environment_paths(given: Given) -> list[Said]:
    """A published CANN image's home variable pointed to a directory that was not there (cann-container-image#61)."""
    answers = []
    for missing, named in sorted(dead_entries(given).items()):
        near = given.facts["paths"][named[0][1]]["near"]
        listed = few(f"{entry} in {name}" if name in LISTS else f"{name}={entry}" for name, entry in named)
        wanted = f"a path that exists{f'; there is {near}' if near else ''}"
        answers.append(failed(missing, f"not there: {listed}", wanted, "correct ENV"))
    for name in LISTS:
        if "" in entries(given.env().get(name, "")) and name in given.image.get("env", {}):
            found = f"{name} has an empty entry: whatever directory a program is started in is searched"
            answers.append(failed(name, found, "no empty entry", "correct ENV"))
    return answers


def in_order(given: Given, wanted: Sequence[str], found: Sequence[str]) -> tuple[list[str], bool]:
    """Return which paths of a list are missing from another, and whether the rest stands in the same order."""
    here = [given.real(entry) for entry in found]
    missing = [entry for entry in wanted if given.real(entry) not in here]
    rest = iter(here)
    ordered = all(any(given.real(entry) == other for other in rest) for entry in wanted if entry not in missing)
    return missing, ordered


def in_env_order(given: Given, name: str, wanted: Sequence[str], found: Sequence[str]) -> tuple[list[str], bool]:
    """Compare a list of paths as `in_order` does, where set_env scripts may have been sourced on top of it.

    ENTRYPOINT and login shells source them: they put their own entries in front once more.
    """
    missing, ordered = in_order(given, wanted, found)
    added = {
        given.real(entry) for entry in (given.facts["environment"]["set_env"] or {"lists": {}})["lists"].get(name, [])
    }
    renewed = sorted(wanted, key=lambda entry: given.real(entry) not in added)
    return missing, ordered or in_order(given, renewed, found)[1]


@check("environment-values", "Has every variable of the pins its value?")
def check_environment_values(given: Given) -> list[Said]:
    """What only an interactive shell sees is a defect: `docker run IMAGE vllm serve …` reads no .bashrc."""
    if not given.image:
        return [NO_PINS]
    blamed, answers = blamed_variables(given), []
    wanted = {"SOC_VERSION": given.image["soc_version"]} if given.image.get("soc_version") else {}
    wanted.update(
        {
            name: str(value).replace("{kernel_arch}", given.facts["machine"])
            for name, value in given.image.get("env", {}).items()
        }
    )
    if not given.facts["live"]:
        return [NOT_LIVE]
    for name, value in wanted.items():
        found = given.env().get(name)
        if name in blamed or found == "(hidden)":
            continue
        if found is None:
            answers.append(failed(name, "not set", value or "an empty value", "put it in ENV"))
        elif name in LISTS:
            missing, ordered = in_env_order(given, name, [entry for entry in entries(value) if entry], entries(found))
            if missing:
                answers.append(failed(name, f"lacks {few(missing)}", f"all of {few(entries(value))}", "correct ENV"))
            elif not ordered:
                answers.append(failed(name, f"another order: {found}", value, "correct ENV"))
        elif found != without_userinfo(value):
            answers.append(
                failed(
                    name, found or "(empty)", value or "(empty)", "correct ENV, or leave out the -e that replaces it"
                )
            )
    return answers or [passed("", count(len(wanted), "variable"))]


@check("environment-set-env", "Does ENV agree with what CANN's set_env scripts would set?")
def check_environment_set_env(given: Given) -> list[Said]:
    """ENV is what a command without a shell sees. Every entry that the scripts add must be in it, in their order."""
    set_env = given.facts["environment"]["set_env"]
    if not given.facts["live"]:
        return [NOT_LIVE]
    if set_env is None:
        return [NO_PINS] if not given.image else [unknown("", "image.json names no set_env scripts")]
    if set_env["error"]:
        return [
            failed(
                "set_env.sh",
                set_env["error"],
                "scripts that can be sourced",
                "source them by hand in bash, outside strict mode",
            )
        ]
    blamed, answers = blamed_variables(given), []
    for release in releases_of(given, [entry for added in set_env["lists"].values() for entry in added]):
        if f"CANN {release}" not in {said.subject for _, said in given.failures("start-up", "environment-release")}:
            then = "see which release the link ascend-toolkit/latest and the scripts themselves lead to"
            answers.append(failed("set_env.sh", f"sets up CANN {release}", f"CANN {given.image['cann']}", then))
        blamed |= {name for name, added in set_env["lists"].items() if releases_of(given, added)}
        blamed |= {name for name, value in set_env["values"].items() if releases_of(given, [value])}
    for name, added in sorted(set_env["lists"].items()):
        wanted = [entry for entry in added if not comes_from_host(entry) and given.exists(entry)]
        missing, ordered = in_order(given, wanted, entries(given.env().get(name, "")))
        if name not in blamed and missing:
            answers.append(
                failed(
                    name,
                    f"lacks {few(missing)}",
                    f"what the set_env scripts add: {few(wanted)}",
                    f"add to {name} in ENV: {':'.join(missing)}",
                )
            )
        elif name not in blamed and not ordered:
            here = [
                entry for entry in entries(given.env().get(name, "")) if given.real(entry) in map(given.real, wanted)
            ]
            answers.append(
                failed(
                    name, f"another order: {':'.join(here)}", ":".join(wanted), "put ENV in the order of the scripts"
                )
            )
    for name, value in sorted(set_env["values"].items()):
        found = given.env().get(name)
        if name in blamed or comes_from_host(value):
            continue
        if found is None or (found != value and given.real(found) != given.real(value)):
            answers.append(
                failed(
                    name,
                    "not set" if found is None else found or "(empty)",
                    f"{value or '(empty)'}, as the set_env scripts set it",
                    f"correct {name} in ENV",
                )
            )
    return answers


_BUILD_VARIABLES = tuple(
    """
    MAX_JOBS MAKEFLAGS CMAKE_BUILD_PARALLEL_LEVEL CMAKE_ARGS NVCC_THREADS NINJAFLAGS CFLAGS CXXFLAGS
    COMPILE_CUSTOM_KERNELS VLLM_TARGET_DEVICE SETUPTOOLS_SCM_PRETEND_VERSION* DEBIAN_FRONTEND SOURCE_DATE_EPOCH
    TORCH_DEVICE_BACKEND_AUTOLOAD CUR_TIME PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_NO_CACHE_DIR
    PIP_CERT UV_* GIT_SSL_CAINFO GIT_LFS_SKIP_SMUDGE APT_MIRROR YUM_MIRROR
    """.split()
)


@check("build-variables", "Is no variable left that only the build needs?")
def check_build_variables(given: Given) -> list[Said]:
    """MAX_JOBS=1 and MAKEFLAGS=-j1 of a build slow down everything that is compiled in the image later."""
    allowed = given.image.get("env", {})
    return [
        failed(name, f"{name}={value}", "not in ENV", "set it for the one command that needs it")
        for name, value in sorted(given.env().items())
        if name not in allowed
        and any(fnmatch.fnmatchcase(name, pattern) for pattern in _BUILD_VARIABLES)
        and not tls_off({name: value})
    ]


_OFF = ("", "0", "false", "no", "off")
#: Variables that switch verification off by being on, by being off, by naming a host, and by being empty.
_TLS_ON = ("GIT_SSL_NO_VERIFY", "SSL_NO_VERIFY", "CURL_INSECURE", "HF_HUB_DISABLE_SSL_VERIFICATION")
_TLS_OFF = ("PYTHONHTTPSVERIFY", "NODE_TLS_REJECT_UNAUTHORIZED", "CONDA_SSL_VERIFY", "NPM_CONFIG_STRICT_SSL")
_TLS_HOST = ("PIP_TRUSTED_HOST", "UV_INSECURE_HOST", "UV_ALLOW_INSECURE_HOST")
_TLS_EMPTY = ("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE")


def tls_off(env: Mapping[str, str]) -> list[str]:
    """Return the variables that switch the verification of certificates off."""
    found = []
    for name, value in sorted(env.items()):
        low = value.strip().lower()
        key = re.fullmatch(r"GIT_CONFIG_KEY_(\d+)", name)
        if (
            (name in _TLS_ON and low not in _OFF)
            or (name in _TLS_OFF and low in _OFF)
            or (name in _TLS_HOST and low)
            or (name in _TLS_EMPTY and not low)
            or (key and low.endswith("sslverify") and env.get(f"GIT_CONFIG_VALUE_{key.group(1)}", "").lower() in _OFF)
        ):
            found.append(name)
    return found


def setting_findings(given: Given, kind: str, wanted: str, then: str) -> list[Said]:
    """Return a finding for each file with forbidden settings of a kind."""
    files: dict[str, list[str]] = {}
    for fact in given.facts["settings"]:
        if fact["kind"] == kind:
            files.setdefault(fact["file"], []).append(fact["line"])
    return [failed(file, few(lines), wanted, then) for file, lines in sorted(files.items())]


@check("tls", "Is the verification of certificates on, everywhere?")
def check_tls(given: Given) -> list[Said]:
    """Behind a company's network it was switched off for git and pip, in the shipped image too (verl#6291)."""
    then = "remove it; give the build the company's CA as a secret instead (--secret id=ca)"
    answers = [
        failed(name, f"{name}={given.env()[name]}", "certificates are verified", then) for name in tls_off(given.env())
    ]
    return answers + setting_findings(given, "tls", "certificates are verified", then)


@check("proxies", "Is no proxy of the build left in the image?")
def check_proxies(given: Given) -> list[Said]:
    """A proxy's address, perhaps with a password, is nobody else's business, and nobody else reaches it."""
    then = "remove it; the engine gives proxies to a build or a container by itself (docker's config.json)"
    named = [name for name, value in sorted(given.env().items()) if PROXY.fullmatch(name) and value]
    answers = [failed(name, f"{name}={given.env()[name]}", "no proxy in ENV", then) for name in named]
    return answers + setting_findings(given, "proxy", "no proxy in a file", then)


@check("shells", "Do `sh -c` and a login shell see the same Python and the same environment?")
def check_shells(given: Given) -> list[Said]:
    """/etc/profile of some systems sets PATH anew; a login shell then finds another Python, or none."""
    facts = given.facts["environment"]
    if not given.facts["live"]:
        return [NOT_LIVE]
    answers = []
    released = {name.replace(LOGIN, "") for where in places_of_release(given).values() for name in where}
    for label, words in (("sh", "sh -c"), ("login", "bash -l")):
        if facts[label] is None:
            answers.append(
                failed(
                    words,
                    "it ends before it could answer",
                    "a shell",
                    f"run it: {words}" + (" 'env'" if label == "sh" else ""),
                )
            )
            continue
        wrong = []
        if facts["python3"].get(label) != facts["python3"]["process"]:
            wrong.append(f"python3 is {facts['python3'].get(label) or 'not found'}")
        for name in LISTS:
            wanted = [entry for entry in entries(given.env().get(name, "")) if entry and given.exists(entry)]
            missing, ordered = in_env_order(given, name, wanted, entries(facts[label].get(name, "")))
            if name in released:
                continue
            if missing or not ordered:
                wrong.append(f"{name} lacks {few(missing)}" if missing else f"{name} has another order")
        for name in sorted(given.image.get("env", {})):
            if name not in LISTS and facts[label].get(name) != given.env().get(name) and name not in released:
                wrong.append(f"{name} is {facts[label].get(name, 'not set')}")
        cause = given.failures("start-up") if label == "login" else []
        if wrong and cause:
            answers.append(not_run(words, f"because of start-up: {cause[0][1].subject}"))
        elif wrong:
            answers.append(
                failed(
                    words,
                    "; ".join(wrong),
                    f"python3 is {facts['python3']['process']}, everything as in ENV",
                    "see what /etc/profile, /etc/profile.d and root's start-up files change",
                )
            )
        else:
            answers.append(passed(words))
    return answers


# --- CANN


@check("cann-release", "Do the version files of toolkit, operators and NNAL name the pinned CANN release?")
def check_cann_release(given: Given) -> list[Said]:
    """Files write 8.3.RC2 where tags write 8.3.rc2. Some 9.x releases have no such file; then directory names count."""
    wanted = given.image.get("cann", "")
    if not wanted:
        return [NO_PINS]
    answers = []
    for part in ("toolkit", "ops", "nnal"):
        said = [fact for fact in given.facts["cann"][part] if fact["version"]]
        # A file that says more than the release (8.5.1.2.220) agrees with it.
        wrong = [fact for fact in said if not f"{release_key(fact['version'])}.".startswith(f"{release_key(wanted)}.")]
        if wrong:
            found = ", ".join(f"{fact['version']} in {fact['file']}" for fact in wrong)
            answers.append(
                failed(
                    part,
                    found,
                    f"CANN {wanted}",
                    "look at the base image's tag, and at the packages that were laid over it",
                )
            )
        elif said:
            answers.append(passed(part, said[0]["version"]))
        else:
            answers.append(unknown(part, "no version file known to us, in no layout known to us"))
    return answers


@check("operator-package", "Is CANN's operator package the one for the image's chip?")
def check_operator_package(given: Given) -> list[Said]:
    """Operators of another chip are found only when a kernel is missing at run time."""
    wanted = given.image.get("chip", "")
    if not wanted:
        return [NO_PINS]
    chips = {fact["chip"]: fact["file"] for fact in given.facts["cann"]["ops"] if fact["chip"]}
    if not chips:
        return [unknown("ops", "no install file of an operator package")]
    wrong = {chip: file for chip, file in chips.items() if chip.lower() != wanted.lower()}
    if wrong:
        return [
            failed(
                "ops",
                ", ".join(f"{chip} ({file})" for chip, file in sorted(wrong.items())),
                wanted,
                "install the operators of this chip only",
            )
        ]
    return [passed("ops", ", ".join(chips))]


@check("atb-abi", "Has ATB the C++ ABI of torch?")
def check_atb_abi(given: Given) -> list[Said]:
    """ENV of the base images up to 8.3 names cxx_abi_0, which is wrong for torch 2.7 and later."""
    env = given.env()
    if not given.facts["live"]:
        return [NOT_LIVE]
    named = {
        name: found.group(1)
        for name in ("ATB_HOME_PATH", "LD_LIBRARY_PATH", "PATH")
        if (found := re.search(r"/cxx_abi_([01])", env.get(name, "")))
    }
    if env.get("ATB_CXX_ABI"):
        named["ATB_CXX_ABI"] = env["ATB_CXX_ABI"]
    if not named:
        return (
            [unknown("ATB", "no variable names an ABI of ATB")]
            if given.image
            else [not_run("ATB", "no variable names it")]
        )
    torch = given.version("torch")
    abi = given.facts["torch"]["cxx11_abi"]
    if abi is None and torch:
        # From 2.7 on every wheel of torch is built with the new ABI.
        numbers = [int(number) for number in base_version(torch).split(".")[:2]]
        abi = True if numbers >= [2, 7] else None
    if abi is None:
        return [unknown("ATB", f"the ABI of torch {torch or '(not installed)'} is not known")]
    wrong = [f"{name}: {value}" for name, value in named.items() if value != str(int(abi))]
    if wrong:
        return [
            failed("ATB", ", ".join(wrong), f"cxx_abi_{int(abi)}, as torch {torch}", "correct the ATB entries in ENV")
        ]
    return [passed("ATB", f"cxx_abi_{int(abi)}")]


# --- libraries, leftovers


@check("elf-needs", "Does the operating system have every symbol version that the packages' libraries ask for?")
def check_elf_needs(given: Given) -> list[Said]:
    """A library that was built on a newer system asks for a GLIBCXX that this one lacks (FlagTree#376).

    Told from ELF headers, nothing is imported.
    """
    answers = []
    for library, needs in sorted(given.facts["elf"]["needs"].items()):
        offer = given.facts["elf"]["offers"][library]
        if offer is None:
            if needs:
                example = next(iter(sorted(needs.items())))[1]
                answers.append(
                    failed(
                        library,
                        f"{library} is not in the image; {few(example['files'])} need it",
                        library,
                        "install it with the operating system's packages",
                    )
                )
            continue
        lacking = {
            version: asked
            for version, asked in needs.items()
            if version not in offer and not version.endswith("_PRIVATE")
        }
        files: dict[str, list[str]] = {}
        for version, asked in lacking.items():
            for file in asked["files"]:
                files.setdefault(file, []).append(version)
        for file, versions in sorted(files.items()):
            prefix = versions[0].rsplit("_", 1)[0]
            highest = max(
                (version for version in offer if version.startswith(f"{prefix}_")), key=numbers_of, default="none"
            )
            answers.append(
                failed(
                    file,
                    f"asks for {', '.join(sorted(versions, key=numbers_of))} of {library}",
                    f"at most {highest}",
                    "take a version of the package that was built for an older system, or a newer operating system",
                )
            )
    return answers


def numbers_of(text: str) -> list[int]:
    """Return the numbers in a text, to order versions by."""
    return [int(number) for number in re.findall(r"\d+", text)]


@check("leftovers", "Are no caches, build directories, package indexes and secrets of the build left?")
def check_leftovers(given: Given) -> list[Said]:
    """They cost every user the download, and an index or a token of the builder's network is nobody else's business."""
    kinds: dict[str, list[str]] = {}
    for fact in given.facts["leftovers"]:
        kinds.setdefault(fact["kind"], []).append(fact["path"])
    then = "use a cache or secret mount for it, or a stage of its own"
    answers = [failed(few(paths), kind, "not in the image", then) for kind, paths in sorted(kinds.items())]
    answers += setting_findings(
        given, "index", "no index and no mirror in the image", "give it to the build (--mirror), not to the image"
    )
    return answers + setting_findings(
        given, "secret", "no secret in the image", "withdraw it, and give it to the build as a secret"
    )


# --- what is started

#: What the end of stderr says where only the driver, or a device, is missing.
_NO_DRIVER = re.compile(
    r"libascend_hal\.so|libdrvdsmi_host\.so|libdcmi\.so|npu-smi|\baclInit\b|\b(?:aclrt|rt)(?:Set|Get)Device|"
    r"\bdrv[A-Z]\w+|\b[Nn]o NPU|NPU.{0,40}(?:not available|not found)"
)
NO_DRIVER = "no driver in a build: torch_npu needs libraries that the host's driver brings"


#: Checks whose findings explain why something does not import.
_CAUSES = tuple(
    """
    pinned-packages locked-packages damaged-packages duplicate-packages shared-files forbidden-packages package-demands
    source-origin source-commit elf-needs
    """.split()
)


def blame(given: Given, stderr: str) -> str:
    """Return the earlier finding that explains why an import failed, empty where none does."""
    for name, said in given.failures("torch-family"):
        return f"{name}: {said.found}"
    for name, said in given.failures(*_CAUSES):
        for subject in re.split(r",\s*", said.subject):
            facts = given.installed.get(canonical(subject))
            words = [subject, *(facts["modules"] if facts else [subject.replace("-", "_")])]
            if name == "elf-needs":
                words = [posixpath.basename(subject)]
            if any(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", stderr) for word in words):
                return f"{name}: {said.subject}"
    return ""


def root_cause(stderr: str) -> str:
    """Return the last line of a traceback, or of the one that it names as its direct cause.

    torch says of every failure of torch_npu that it could not load a backend; why stands in the traceback before.
    """
    before, _, _ = stderr.partition("\nThe above exception was the direct cause of the following exception:")
    return last_line(before)


@check("entry-points", "Does everything import that people start, each in a process of its own?")
def check_entry_points(given: Given) -> list[Said]:
    """`import vllm` passes where `import vllm.entrypoints.openai.api_server`, which people start, does not.

    Where only the host's driver is missing the answer is `not run`.
    """
    if given.facts["imports"] is None:
        return [NOT_LIVE]
    answers, causes = [], dict[str, str]()
    for name, ran in given.facts["imports"].items():
        if ran["exit"] == 0 and not ran["signal"] and not ran["timed_out"]:
            answers.append(passed(name))
            continue
        end = root_cause(ran["stderr"])
        how = (
            "no end within the time limit"
            if ran["timed_out"]
            else f"killed by {ran['signal']}"
            if ran["signal"]
            else f"exit code {ran['exit']}"
        )
        cause = f"{how}: {end}" if end else how
        if because := blame(given, ran["stderr"]):
            answers.append(not_run(name, f"because of {because}"))
        elif not given.facts["driver"] and not ran["timed_out"] and _NO_DRIVER.search(ran["stderr"][-1500:]):
            answers.append(not_run(name, NO_DRIVER, "run this check on a host with its driver mounted"))
        elif end and cause in causes:
            answers.append(not_run(name, f"because of entry-points: {causes[cause]}, which fails in the same way"))
        else:
            causes[cause] = name
            answers.append(
                failed(
                    name,
                    cause,
                    f"import {name}",
                    f"python3 -c 'import {name.rpartition('.')[0] or name}'"
                    if "." in name and name.rpartition(".")[2][:1].isupper()
                    else f"python3 -c 'import {name}'",
                )
            )
    return answers


# ------------------------------------------------------------------------------------------------------ asking, telling


def ask_all(facts: Facts, image: Mapping[str, Any], lock: Lock | None, pep: Pep440 | None) -> dict[str, list[Said]]:
    """Ask every check in order; a check that finds nothing says `pass`."""
    answers: dict[str, list[Said]] = {}
    for one in CHECKS:
        answers[one.id] = one.ask(Given(facts, image, lock, pep, answers)) or [passed()]
    return answers


def parse_lock(text: str) -> Lock:
    """Read lock.txt: `name==version` lines, `# platform:` and `# conflict:`. Raises ValueError."""
    packages, conflicts, platforms = {}, [], []
    for line in text.splitlines():
        package = re.match(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s\\;]+)", line)
        if package:
            packages[canonical(package.group(1))] = package.group(2)
        elif line.startswith("# conflict:"):
            conflict = json.loads(line.partition(":")[2])
            if not isinstance(conflict, dict) or not {"whose", "demand"} <= set(conflict):
                raise ValueError(f"not a conflict: {line}")
            conflicts.append(conflict)
        elif line.startswith("# platform:"):
            platforms.append(line.partition(":")[2].strip())
    if not packages:
        raise ValueError("it holds no locked package")
    return Lock(platforms[0] if platforms else "", packages, conflicts)


def report(image: Mapping[str, Any], facts: Facts, answers: Mapping[str, Sequence[Said]]) -> str:
    """Return the report as JSON: the same text for the same image, without times or names of hosts."""
    results = [
        {
            "check": name,
            "answer": said.answer.value,
            "subject": said.subject,
            "found": said.found,
            "wanted": said.wanted,
            "next": said.next,
        }
        for name, list_of in answers.items()
        for said in list_of
    ]
    document = {"schema": 1, "variant": image.get("variant", ""), "results": results, "facts": facts}
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def table(image: Mapping[str, Any], answers: Mapping[str, Sequence[Said]]) -> str:
    """Return the answers for people: failures first and whole, what is not known after them, passes as names."""
    everything = [(name, said) for name, list_of in answers.items() for said in list_of]
    by_answer = {answer: [pair for pair in everything if pair[1].answer is answer] for answer in Answer}
    lines = []
    for name, said in by_answer[Answer.FAIL]:
        lines.append(f"FAIL     {name}{f': {said.subject}' if said.subject else ''}")
        lines += [f"         found:  {said.found}", f"         wanted: {said.wanted}", f"         next:   {said.next}"]
    for answer in (Answer.UNKNOWN, Answer.NOT_RUN):
        # Many checks may say the same: that there are no pins, that there is no driver.
        alike: dict[tuple[str, str], dict[str, list[str]]] = {}
        for name, said in by_answer[answer]:
            alike.setdefault((said.found, said.next), {}).setdefault(name, []).extend(filter(None, [said.subject]))
        for (found, then), names in alike.items():
            about = ", ".join(
                f"{name} ({', '.join(subjects)})" if subjects else name for name, subjects in names.items()
            )
            lines.append(f"{answer.value:<8} {about}: {found}{f' ({then})' if then else ''}")
    good = [name for name, list_of in answers.items() if all(said.answer is Answer.PASS for said in list_of)]
    if good:
        lines.append(f"pass     {', '.join(good)}")
    counts = ", ".join(f"{len(pairs)} {answer.value}" for answer, pairs in by_answer.items())
    return "\n".join([*lines, "", f"{image.get('variant') or 'this image'}: {counts}"]) + "\n"


def write(path: str, text: str) -> None:
    """Write a file whole or not at all, with its directory."""
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, prefix=".report.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


class MisuseError(Exception):
    """Something that was typed, or a file that was named, cannot be used."""


def read_inputs(options: argparse.Namespace, tree: Tree) -> tuple[Facts, Lock | None]:
    """Read image.json and lock.txt: those of the image, or the ones that were named. Raises MisuseError."""
    texts = []
    for named, inner in ((options.image_json, f"{FOLDER}/image.json"), (options.lock, f"{FOLDER}/lock.txt")):
        if named:
            try:
                with open(named, encoding="utf-8") as stream:
                    texts.append(stream.read())
            except (OSError, UnicodeDecodeError) as error:
                raise MisuseError(f"{named} cannot be read: {error}") from None
        else:
            texts.append(tree.text(inner) or "")
    image: Facts = {}
    if texts[0]:
        try:
            image = json.loads(texts[0])
        except ValueError as error:
            raise MisuseError(f"{options.image_json or f'{FOLDER}/image.json'} is no JSON: {error}") from None
        if not isinstance(image, dict) or image.get("schema") != 1:
            raise MisuseError(f'{options.image_json or f"{FOLDER}/image.json"}: wanted an object with "schema": 1')
    try:
        lock = parse_lock(texts[1]) if texts[1] else None
    except ValueError as error:
        raise MisuseError(f"{options.lock or f'{FOLDER}/lock.txt'} is no lock: {error}") from None
    return image, lock


def options_of(words: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; ends the process with exit code 2 where it makes no sense."""
    parser = argparse.ArgumentParser(
        prog="check.py", description="Ask an image whether it is what its pins say.", allow_abbrev=False
    )
    parser.add_argument("--image-json", metavar="FILE", help=f"pins of the image (default: {FOLDER}/image.json in it)")
    parser.add_argument("--lock", metavar="FILE", help=f"its locked packages (default: {FOLDER}/lock.txt in it)")
    parser.add_argument("--report", metavar="FILE", help="write results and facts there, as JSON")
    parser.add_argument(
        "--root", metavar="DIR", default="/", help="an unpacked image; its programs are not run (default: /)"
    )
    parser.add_argument(
        "--time-limit", metavar="SECONDS", type=float, default=300, help="for each import (default: %(default)s)"
    )
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=int,
        default=min(4, os.cpu_count() or 1),
        help="imports at a time (default: processors, at most 4)",
    )
    parser.add_argument("--list", action="store_true", help="print every check, what it asks and why, and end")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Check an image; return the exit code."""
    options = options_of(words)
    if options.list:
        print("\n\n".join(f"{one.id}: {one.question}\n    {one.why}" for one in CHECKS))
        return 0
    sys.dont_write_bytecode = True
    tree = Tree(options.root)
    try:
        if not os.path.isdir(tree.root):
            raise MisuseError(f"{options.root} is not a directory")
        if options.jobs < 1 or options.time_limit <= 0:
            raise MisuseError("--jobs and --time-limit must be above 0")
        image, lock = read_inputs(options, tree)
    except MisuseError as error:
        print(f"check.py: {error}", file=sys.stderr)
        return 2
    own = os.path.dirname(os.path.abspath(options.report)) if options.report else ""
    facts = gather(tree, image, limit=options.time_limit, own=own, jobs=options.jobs)
    pep = pep440([tree.at(path) for path in facts["python"]["paths"]])
    answers = ask_all(facts, image, lock, pep)
    sys.stdout.write(table(image, answers))
    if options.report:
        try:
            write(options.report, report(image, facts, answers))
        except OSError as error:
            print(f"check.py: the report cannot be written: {error}", file=sys.stderr)
            return 2
    return 5 if any(said.answer is Answer.FAIL for list_of in answers.values() for said in list_of) else 0


if __name__ == "__main__":
    sys.exit(main())
