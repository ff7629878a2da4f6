"""What a distribution asks for, read from its wheel or sdist without running any of its code."""

import ast
import email.parser
import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from ascend_images.toml_text import NotTomlError, read_toml

#: From this version of the format on, a PKG-INFO says everything unless it lists a field as dynamic.
_TOLD_IN_FULL = Version("2.2")
#: What a setup.py without a pyproject.toml is built with.
DEFAULT_BUILD: tuple[Requirement, ...] = (Requirement("setuptools>=40.8.0"),)
#: What reading a file raises that is no archive, or half of one.
_BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError)


@dataclass(frozen=True)
class Metadata:
    """Demands of one distribution.

    `build` holds what building an sdist takes; `known` is False where only running its setup.py would tell.
    """

    requires: tuple[Requirement, ...] = ()
    requires_python: str = ""
    extras: tuple[str, ...] = ()
    build: tuple[Requirement, ...] = ()
    known: bool = True


def _requirements(lines: Iterable[str]) -> tuple[Requirement, ...]:
    """Parse Requires-Dist values; what old tools wrote and nobody can parse any more is left out, as pip does."""
    parsed = []
    for line in lines:
        try:
            parsed.append(Requirement(line))
        except InvalidRequirement:
            continue
    return tuple(parsed)


def parse_metadata(text: str) -> Metadata:
    """Read a METADATA or PKG-INFO file."""
    message = email.parser.HeaderParser().parsestr(text)
    lines = message.get_all("Requires-Dist", [])
    try:
        version = Version(str(message.get("Metadata-Version", "1.0")))
    except InvalidVersion:
        version = Version("1.0")
    dynamic = {str(field).strip().lower() for field in message.get_all("Dynamic", [])}
    return Metadata(
        requires=_requirements(str(line) for line in lines),
        requires_python=str(message.get("Requires-Python") or ""),
        extras=tuple(str(extra) for extra in message.get_all("Provides-Extra", [])),
        known=bool(lines) or (version >= _TOLD_IN_FULL and "requires-dist" not in dynamic),
    )


def whole(metadata: Metadata) -> Metadata:
    """Return the metadata as that of a wheel, which is built: what it does not say, it does not ask for."""
    return replace(metadata, known=True)


def parse_requires_txt(text: str) -> tuple[Requirement, ...]:
    """Read an egg-info requires.txt: sections `[extra]`, `[:marker]` or `[extra:marker]`."""
    lines: list[str] = []
    condition = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            extra, _, marker = line[1:-1].partition(":")
            parts = [f"({marker})"] if marker else []
            parts += [f'extra == "{extra}"'] if extra else []
            condition = " and ".join(parts)
        elif line:
            own, _, own_marker = line.partition(";")
            parts = [f"({own_marker.strip()})"] if own_marker else []
            markers = " and ".join([*parts, *([condition] if condition else [])])
            lines.append(f"{own}; {markers}" if markers else own)
    return _requirements(lines)


def wheel_metadata(file: io.BufferedIOBase | io.RawIOBase) -> Metadata:
    """Read the metadata of an open wheel; raises ValueError when it has none or is no archive."""
    try:
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                if name.count("/") == 1 and name.endswith(".dist-info/METADATA"):
                    return whole(parse_metadata(archive.read(name).decode("utf-8", "replace")))
    except _BROKEN as error:
        raise ValueError(f"not a wheel: {error}") from None
    raise ValueError("the wheel holds no METADATA")


def sdist_metadata(content: bytes, filename: str) -> Metadata:
    """Read the metadata of an sdist from its PKG-INFO, egg-info and pyproject.toml; raises ValueError on no archive."""
    files = _small_files(content, filename)
    info = parse_metadata(files.get("PKG-INFO", ""))
    pyproject = _toml(files.get("pyproject.toml", ""))
    build = DEFAULT_BUILD
    if pyproject is not None and isinstance(pyproject.get("build-system"), dict):
        build = _requirements(pyproject["build-system"].get("requires", ()))
    requires, known = info.requires, info.known
    if not requires and "requires.txt" in files:
        requires, known = parse_requires_txt(files["requires.txt"]), True
    elif not known and "SOURCES.txt" in files:
        # setuptools wrote an egg-info without requires.txt: it asks for nothing.
        known = True
    elif not known and pyproject is not None and "project" in pyproject:
        project = pyproject["project"]
        if "dependencies" not in project.get("dynamic", ()):
            requires, known = _requirements(project.get("dependencies", ())), True
    elif not known and "setup.py" in files:
        told = setup_demands(files["setup.py"])
        requires, known = told or (), told is not None
    return Metadata(requires, info.requires_python, info.extras, build, known)


def setup_demands(code: str) -> tuple[Requirement, ...] | None:
    """Read what a setup.py asks for without running it: a literal list, or none at all; None where it computes it."""
    if "requires" not in code and "setup.cfg" not in code:
        return ()
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    setups = [call for call in calls if getattr(call.func, "attr", getattr(call.func, "id", "")) == "setup"]
    return _literal_demands(setups[0]) if setups else None


def _literal_demands(call: ast.Call) -> tuple[Requirement, ...] | None:
    for keyword in call.keywords:
        if keyword.arg is None:
            return None
        if keyword.arg in ("install_requires", "requires"):
            try:
                value = ast.literal_eval(keyword.value)
            except ValueError:
                return None
            return _requirements(value.splitlines() if isinstance(value, str) else map(str, value))
    return ()


def _toml(text: str) -> dict[str, dict[str, list[str]]] | None:
    try:
        return read_toml(text) if text else None
    except NotTomlError:
        return None


def _wanted(path: str) -> str | None:
    """Return the name under which a member of an sdist is kept, None for the many that say nothing here."""
    parts = path.strip("/").split("/")
    if len(parts) == 2 and parts[1] in ("PKG-INFO", "pyproject.toml", "setup.py"):
        return parts[1]
    if len(parts) in (3, 4) and parts[-2].endswith(".egg-info") and parts[-1] in ("requires.txt", "SOURCES.txt"):
        return parts[-1]
    return None


def _small_files(content: bytes, filename: str) -> dict[str, str]:
    try:
        return _of_zip(content) if filename.endswith(".zip") else _of_tar(content)
    except _BROKEN as error:
        raise ValueError(f"not an archive: {error}") from None


def _of_zip(content: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            if key := _wanted(name):
                found.setdefault(key, archive.read(name).decode("utf-8", "replace"))
    return found


def _of_tar(content: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for member in tar:
            if member.isfile() and (key := _wanted(member.name)):
                stream = tar.extractfile(member)
                if stream is not None:
                    found.setdefault(key, stream.read().decode("utf-8", "replace"))
    return found
