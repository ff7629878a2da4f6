"""Requirement files and static pyproject.toml files of a source, read into demands."""

import posixpath
import re
from collections.abc import Callable, Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ascend_images.errors import BadInput
from ascend_images.lock.demands import Demand, Kind, parse_requirement
from ascend_images.toml_text import NotTomlError, read_toml

#: Reads one file of a source by its path in it.
Reader = Callable[[str], str]

_INCLUDE = re.compile(r"^(?:-r|--requirement)(?:\s+|=|(?<=-r))(?P<path>\S+)$")
# Where packages come from is said by versions.toml alone.
_INDEX_OPTIONS = re.compile(
    r"^(?:-i|-f|--index-url|--extra-index-url|--find-links|--trusted-host|--pre|--prefer-binary|--no-binary|--only-binary)\b"
)
_COMMENT = re.compile(r"(^|\s)#.*$")


def requirement_file(whose: str, path: str, read: Reader) -> tuple[Demand, ...]:
    """Return the demands of a requirement file and of the files it includes; raises BadInput naming file and line."""
    return tuple(_file(whose, posixpath.normpath(path), read, ()))


def _file(whose: str, path: str, read: Reader, within: tuple[str, ...]) -> Iterator[Demand]:
    if path in within:
        raise BadInput(f"{whose}: {path} includes itself by way of {' -> '.join(within)}")
    for number, line in _logical_lines(read(path)):
        where = f"{path}:{number}"
        if include := _INCLUDE.match(line):
            nested = posixpath.normpath(posixpath.join(posixpath.dirname(path), include["path"]))
            yield from _file(whose, nested, read, (*within, path))
        elif _INDEX_OPTIONS.match(line):
            continue
        elif line.startswith("-"):
            raise BadInput(f"{whose}: {where}: an option that is not understood: {line}", do=_DECLARE)
        elif re.match(r"^(?:git\+|https?://|file:|\.{0,2}/)", line):
            raise BadInput(f"{whose}: {where}: an address in place of a package: {line}", do=_DECLARE)
        else:
            # Options of one requirement (hashes) follow it after a blank.
            yield Demand(whose, parse_requirement(re.split(r"\s--", line)[0], f"{whose}: {where}"), where)


_DECLARE = "leave the file out of `requirements` and write what it asks for into `declares`"


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that say something, joined where one continues, each with the number of its first line."""
    start, held = 0, ""
    for number, raw in enumerate(text.lstrip("\ufeff").splitlines(), start=1):
        line = _COMMENT.sub("", raw).strip()
        start = start or number
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        joined = (held + line).strip()
        if joined:
            yield start, joined
        start, held = 0, ""
    if held.strip():
        yield start, held.strip()


def pyproject_file(whose: str, path: str, read: Reader, *, built: bool) -> tuple[Demand, ...]:
    """Return the static demands of a pyproject.toml, what building it takes too where it is `built`.

    Raises BadInput when it is no TOML, has no [project] table or computes its dependencies.
    """
    try:
        document = read_toml(read(path))
    except NotTomlError as error:
        raise BadInput(f"{whose}: {path}: {error}") from None
    project = document.get("project")
    if not isinstance(project, dict):
        raise BadInput(f"{whose}: {path} has no [project] table", do=_DECLARE)
    if "dependencies" in _lines(project, "dynamic", whose, path):
        raise BadInput(f"{whose}: {path} leaves its dependencies to the build (dynamic)", do=_DECLARE)
    place = f"{path} [project]"
    run = [Demand(whose, _parse(line, whose, place), place) for line in _lines(project, "dependencies", whose, path)]
    build_place = f"{path} [build-system]"
    system = document.get("build-system", {})
    lines = _lines(system, "requires", whose, path) if built else ()
    build = [Demand(whose, _parse(line, whose, build_place), build_place, Kind.BUILD) for line in lines]
    return (*run, *build)


def _lines(table: object, key: str, whose: str, path: str) -> list[str]:
    """Return a list of texts in a table, none where the key is not there; raises BadInput for anything else."""
    found = table.get(key, []) if isinstance(table, dict) else table
    if not isinstance(found, list) or not all(isinstance(line, str) for line in found):
        raise BadInput(f"{whose}: {path}: {key} is no list of texts", do=_DECLARE)
    return found


def _parse(line: object, whose: str, place: str) -> Requirement:
    return parse_requirement(str(line), f"{whose}: {place}")


def project_name(text: str) -> str:
    """Return the normalised name a pyproject.toml gives its project, empty where it gives none."""
    try:
        name = read_toml(text).get("project", {}).get("name", "")
    except (NotTomlError, AttributeError):
        return ""
    return str(canonicalize_name(name)) if isinstance(name, str) else ""
