"""uv, asked to resolve: one question in, versions or its own explanation out."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Protocol

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ascend_images.errors import LookupIncomplete, MissingTool
from ascend_images.lock.metadata import Metadata
from ascend_images.lock.placeholder import Placeholder, write_wheel
from ascend_images.lock.target import Target
from ascend_images.scratch import private_folder

#: The name under which uv speaks of the pins in its explanations.
PINS = "versions-toml"
_TIMEOUT = 1800
#: Settings of the environment that may reach uv; any other one would be a second place that says what is resolved.
_KEPT = ("UV_CACHE_DIR", "UV_NO_CACHE", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "UV_HTTP_TIMEOUT", "UV_HTTP_RETRIES",
         "UV_OFFLINE", "UV_KEYRING_PROVIDER", "UV_PYTHON_INSTALL_DIR")  # fmt: skip
_PINNED = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s;\\]+)")
_GIVEN = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*) @ ")
_UNREACHED = ("network connectivity is disabled", "network was disabled", "error sending request", "dns error",
              "failed to fetch", "connection refused", "operation timed out")  # fmt: skip


class UnresolvableError(Exception):
    """No set of versions meets the question; the text is uv's own explanation."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """Everything one resolution is asked.

    `pins` and `extra` are requirements, `given` distributions that are taken as they are, `bound` the index (name,
    address) of each pin that does not come from the default one, `metadata` what distributions ask for where it is
    not what their own metadata says, `preferred` versions to take where they fit, `constrained` versions to take.
    """

    target: Target
    pins: tuple[Requirement, ...] = ()
    extra: tuple[Requirement, ...] = ()
    given: tuple[Placeholder, ...] = ()
    bound: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    metadata: Mapping[tuple[str, str], Metadata] = field(default_factory=dict)
    exclude: frozenset[str] = frozenset()
    preferred: Mapping[str, str] = field(default_factory=dict)
    constrained: Mapping[str, str] = field(default_factory=dict)


class Resolver(Protocol):
    """Finds a set of versions."""

    def resolve(self, question: Question) -> dict[str, str]:
        """Return the version of every package that is needed, by normalised name, the given ones too.

        Raises UnresolvableError, or LookupIncomplete where an index could not be asked.
        """


@dataclass(frozen=True)
class Uv:
    """The uv that this project pins, in a process of its own. `arguments` are added to each call.

    `as_of` leaves out what was published after that day (UTC); indexes that are named for their packages, which need
    not say when a file came, are asked as they are.
    """

    default_index: str | None = None
    arguments: tuple[str, ...] = ()
    as_of: date | None = None
    offline: bool = False

    def resolve(self, question: Question) -> dict[str, str]:
        """Ask uv; see `Resolver.resolve`."""
        with private_folder() as scratch:
            folder = scratch / "question"
            folder.mkdir()
            command = _write_question(question, folder)
            done = self._run([*command, *self._more, *self.arguments], folder)
            if done.returncode == 0:
                return _parse((folder / "out.txt").read_text(encoding="utf-8"), question.given)
            raise _failure(done.stderr, folder)

    @property
    def _more(self) -> list[str]:
        # The day itself counts.
        before = ["--exclude-newer", (self.as_of + timedelta(days=1)).isoformat() + "T00:00:00Z"] if self.as_of else []
        return [*before, *(["--offline"] if self.offline else [])]

    def _run(self, command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("UV_") or name in _KEPT}
        if self.default_index:
            environment["UV_DEFAULT_INDEX"] = self.default_index
        try:
            return subprocess.run(
                [find_uv(), *command],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise LookupIncomplete(f"uv found no answer within {_TIMEOUT} s", do="try again") from None


def find_uv() -> str:
    """Return the path of uv, that of this Python environment first; raises MissingTool."""
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
    if found is None:
        raise MissingTool("uv is not installed", do="pip install -e . (it is a dependency of this project)")
    return found


def _write_question(question: Question, folder: Path) -> list[str]:
    """Write uv's input files into an empty folder and return its arguments."""
    project, wheels = folder / "project", folder / "wheels"
    project.mkdir()
    wheels.mkdir()
    lines = [
        f"{canonicalize_name(placeholder.name)} @ {write_wheel(placeholder, wheels).as_uri()}"
        for placeholder in question.given
    ]
    (folder / "requirements.in").write_text("\n".join([*lines, *map(str, question.extra)]) + "\n", encoding="utf-8")
    (project / "pyproject.toml").write_bytes(_toml(_project(question)))
    (folder / "uv.toml").write_bytes(_toml({"dependency-metadata": _metadata(question.metadata)}))
    (folder / "exclude.txt").write_text("\n".join(sorted(question.exclude)) + "\n", encoding="utf-8")
    (folder / "constraints.txt").write_text(_exact(question.constrained))
    if question.preferred:
        # uv keeps to the versions of an output file that is already there, wherever they fit.
        (folder / "out.txt").write_text(_exact(question.preferred))
    return [
        "--config-file", "uv.toml", "--no-progress", "--color", "never",
        "pip", "compile", "--quiet", "--no-python-downloads", "--no-header", "--no-annotate",
        "--python-version", question.target.python, "--python-platform", question.target.arch.uv_platform,
        "--excludes", "exclude.txt", "--constraints", "constraints.txt", "--output-file", "out.txt",
        "requirements.in", "project/pyproject.toml",
    ]  # fmt: skip


def _exact(versions: Mapping[str, str]) -> str:
    return "".join(f"{name}=={version}\n" for name, version in sorted(versions.items()))


def _toml(document: Mapping[str, object]) -> bytes:
    import tomlkit

    return tomlkit.dumps(document).encode()


def _project(question: Question) -> dict[str, object]:
    indexes = dict(question.bound.values())
    return {
        "project": {
            "name": PINS,
            "version": "0",
            "requires-python": f"=={question.target.python}.*",
            "dependencies": [str(pin) for pin in question.pins],
        },
        "tool": {
            "uv": {
                "sources": {name: {"index": index} for name, (index, _) in question.bound.items()},
                "index": [
                    {"name": name, "url": url, "explicit": True, "exclude-newer": False}
                    for name, url in indexes.items()
                ],
            }
        },
    }


def _metadata(entries: Mapping[tuple[str, str], Metadata]) -> list[dict[str, object]]:
    return [
        {
            "name": name,
            "version": version,
            "requires-dist": [str(requirement) for requirement in metadata.requires],
            "provides-extra": list(metadata.extras),
        }
        for (name, version), metadata in sorted(entries.items())
    ]


def _parse(text: str, given: Sequence[Placeholder]) -> dict[str, str]:
    versions: dict[str, str] = {}
    known = {str(canonicalize_name(placeholder.name)): placeholder.version for placeholder in given}
    for line in text.splitlines():
        if match := _PINNED.match(line):
            versions[str(canonicalize_name(match["name"]))] = match["version"]
        elif match := _GIVEN.match(line):
            name = str(canonicalize_name(match["name"]))
            versions[name] = known[name]
    return versions


def _failure(text: str, folder: Path) -> Exception:
    """Return what a failed run means: a contradiction, an index out of reach, or something that is uv's own."""
    plain = text.replace(str(folder), "").strip()
    lowered = plain.lower()
    if any(sign in lowered for sign in _UNREACHED):
        return LookupIncomplete(f"a package index could not be asked:\n{_last(plain)}", do="try again when it answers")
    if "no solution found" in lowered or "unsatisfiable" in lowered:
        return UnresolvableError(plain)
    return ResolverFailedError(f"uv could not resolve:\n{_last(plain)}", do="run it again; uv's own words are above")


class ResolverFailedError(LookupIncomplete):
    """uv stopped for a reason that is neither a contradiction nor a missing answer (an sdist that does not build)."""


def _last(text: str) -> str:
    return "\n".join(text.splitlines()[-12:])
