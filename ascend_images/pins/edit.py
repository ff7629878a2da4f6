"""versions.toml changed key by key: every other line, comment and blank stays as it was, to the byte.

A document that tomlkit writes whole comes out in another order where tables of one stack lie apart, so each change is
made in the lines of one table, and the result is read again to see that it says what was meant.
"""

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from ascend_images.errors import BadInput
from ascend_images.pins.validate import dotted
from ascend_images.toml_text import NotTomlError, common_length, read_toml

Path = tuple[str, ...]


@dataclass(frozen=True)
class Edit:
    """A key of the file and its new value; None removes the key."""

    path: Path
    value: str | None


@dataclass(frozen=True)
class _Section:
    """The lines of one table: `path` is its header's, `array` says that it is one of several of that name."""

    path: Path
    array: bool
    first: int
    last: int


def edited(text: str, edits: Sequence[Edit]) -> str:
    """Return the text of a versions.toml with these keys changed.

    Keys that are not there yet are added to their table, which is made where there is none. Raises BadInput where the
    text is no TOML, or so laid out that the change cannot be made in one table.
    """
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    changed = text.removeprefix(mark)
    wanted = _read(changed)
    for edit in edits:
        if not _expect(wanted, edit):
            raise _layout([edit])
        changed = _with(changed, edit)
    if _read_back(changed) != wanted:
        raise _layout(edits)
    return mark + changed


def _read(text: str) -> dict[str, Any]:
    try:
        return copy.deepcopy(read_toml(text))
    except NotTomlError as error:
        raise BadInput(f"versions.toml: not TOML: {error}", wanted="valid TOML") from None


def _read_back(text: str) -> dict[str, Any] | None:
    try:
        return read_toml(text)
    except NotTomlError:
        return None


def _layout(edits: Sequence[Edit]) -> BadInput:
    keys = ", ".join(dotted(edit.path) for edit in edits)
    return BadInput(
        f"versions.toml is laid out in a way in which {keys} cannot be changed by a program",
        wanted="each table under a header of its own: [stack.NAME.packages]",
        do="make the change by hand",
    )


def _expect(document: dict[str, Any], edit: Edit) -> bool:
    """Make the change in what was read of the file; tell whether that can be."""
    table: Any = document
    for part in edit.path[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            return False
    if edit.value is None:
        table.pop(edit.path[-1], None)
    else:
        table[edit.path[-1]] = edit.value
    return True


def _with(text: str, edit: Edit) -> str:
    """Return the text with one change made where its key stands, or in its table, or in a new one."""
    # Not `splitlines`: a text may hold what Unicode calls the end of a line.
    lines = [line for line in re.split(r"(?<=\n)", text) if line]
    sections = _sections(lines)
    holding = next((one for one in sections if _holds(lines, one, edit.path)), None)
    if holding is not None:
        return _spliced(lines, holding, _replaced(_text(lines, holding), edit))
    if edit.value is None:
        return text
    own = next((one for one in reversed(sections) if one.path == edit.path[:-1] and not one.array), None)
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    line = f"{tomlkit.key(edit.path[-1]).as_string()} = {tomlkit.item(edit.value).as_string()}{end}"
    if own is not None:
        return _inserted(lines, _end(lines, own), line)
    header = f"[{tomlkit.key(list(edit.path[:-1])).as_string()}]{end}"
    near = _nearest(sections, edit.path)
    return _inserted(lines, _end(lines, near) if near else len(lines), f"{end}{header}{line}")


def _sections(lines: Sequence[str]) -> list[_Section]:
    """Return the tables of a text in their order, that of the lines before the first header with an empty path."""
    headers: list[tuple[int, Path, bool]] = [(0, (), False)]
    for number, line in enumerate(lines):
        path = _header(line) if line.lstrip().startswith("[") else None
        # Within a list or a text of several lines, what stands before it in its table is no document.
        if path is not None and _read_back("".join(lines[headers[-1][0] : number])) is not None:
            headers.append((number, path, line.lstrip().startswith("[[")))
    ends = [number for number, *_ in headers[1:]] + [len(lines)]
    return [_Section(path, array, number, end) for (number, path, array), end in zip(headers, ends, strict=True)]


def _header(line: str) -> Path | None:
    """Return the path of a header's line, None for any other line."""
    value: Any = _read_back(line)
    parts = []
    while isinstance(value, dict | list) and value:
        if isinstance(value, list):
            value = value[0]
        else:
            key, value = next(iter(value.items()))
            parts.append(key)
    return tuple(parts) if parts and value == {} else None


def _text(lines: Sequence[str], section: _Section) -> str:
    return "".join(lines[section.first : section.last])


def _holds(lines: Sequence[str], section: _Section, path: Path) -> bool:
    if section.array or section.path != path[: len(section.path)]:
        return False
    table: Any = _read_back(_text(lines, section))
    for part in path:
        if not isinstance(table, Mapping) or part not in table:
            return False
        table = table[part]
    return True


def _replaced(text: str, edit: Edit) -> str:
    """Return the text of a table with a key changed or removed that stands in it."""
    try:
        document = tomlkit.parse(text)
        table: Any = document
        for part in edit.path[:-1]:
            table = table[part]
        if edit.value is None:
            del table[edit.path[-1]]
        else:
            table[edit.path[-1]] = edit.value
        return tomlkit.dumps(document)
    except TOMLKitError as error:
        raise BadInput(
            f"{dotted(edit.path)} cannot be changed in versions.toml: {error}", do="make the change by hand"
        ) from None


def _spliced(lines: Sequence[str], section: _Section, text: str) -> str:
    return "".join([*lines[: section.first], text, *lines[section.last :]])


def _end(lines: Sequence[str], section: _Section) -> int:
    """Return the number of the line behind a table's last key: blanks and comments behind it belong to what follows."""
    last = section.last
    while last > section.first + 1 and _is_idle(lines[last - 1]):
        last -= 1
    # A "#" that begins a line may stand in a text of several lines.
    return last if _read_back("".join(lines[section.first : last])) is not None else section.last


def _is_idle(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _inserted(lines: Sequence[str], number: int, text: str) -> str:
    before = "".join(lines[:number])
    if before and not before.endswith("\n"):
        before += "\n"
    return before + text + "".join(lines[number:])


def _nearest(sections: Sequence[_Section], path: Path) -> _Section | None:
    """Return the last table that shares most of a path, at the least the kind of thing and its name."""
    depth = {one: common_length(one.path, path) for one in sections}
    most = max(depth.values())
    return next(one for one in reversed(sections) if depth[one] == most) if most > 1 else None
