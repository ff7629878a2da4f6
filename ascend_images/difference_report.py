"""What differs between two states, as text for a terminal and as Markdown for a pull request."""

import html
import re
from collections.abc import Iterator, Sequence

from ascend_images.diffing import Difference
from ascend_images.pins.differences import Change, Shared

#: Characters: GitHub takes 65,536 for a text, and somebody may want to write something above it.
_MOST = 60_000
_MOST_OF_A_CELL = 200
_ARCHES = ("amd64", "arm64")


def as_text(found: Difference) -> str:
    """Return the difference for a terminal: pins, packages, Dockerfiles, in that order."""
    head = f"{found.before} -> {found.after}"
    if not found.anything:
        return "\n".join([f"{head}: nothing differs", *_noted(found)])
    parts = [
        "\n".join([head, *_noted(found)]),
        "\n".join(_variants(found)),
        _section("pins", [_line(one) for one in found.pins]),
        _section("packages", [_line(one) for one in found.packages]),
    ]
    parts += [_section(f"Dockerfile{_in(one.among)}", one.lines) for one in found.dockerfiles]
    return "\n\n".join(part for part in parts if part)


def as_markdown(found: Difference, most: int = _MOST) -> str:
    """Return the difference for a pull request, of `most` characters at most: long parts folded, and cut."""
    head = f"**{_cell(found.before)} → {_cell(found.after)}**"
    if not found.anything:
        return "\n\n".join([f"{head}: nothing differs", *(f"- {_cell(note)}" for note in _noted(found))]) + "\n"
    lists = [f"- {_cell(text)}" for text in (*_variants(found), *_noted(found))]
    rest = most - len(head) - 400
    # Pins are few, and are what a reviewer decides on.
    parts = [head, *(["\n".join(_cut(lists, rest // 6, found))] if lists else [])]
    if found.pins:
        parts.append("\n".join(["#### Pins", "", *_table(found.pins, rest // 3, found)]))
    if found.packages:
        table = "\n".join(_table(found.packages, rest // 4, found))
        parts.append(_folded(f"Packages: {_count(len(found.packages), 'change')}", table))
    if found.dockerfiles:
        lines = [line for one in found.dockerfiles for line in (f"# {among(one.among)}", *one.lines)]
        parts.append(_folded("Dockerfile", _fenced(_cut(lines, rest // 4 - 20, found))))
    return "\n\n".join(parts) + "\n"


def among(labels: Sequence[str]) -> str:
    """Return names of variants, or of variants on architectures, as a list for people: `a2, a3 on arm64`."""
    by_variant: dict[str, list[str]] = {}
    for label in labels:
        name, _, last = label.rpartition(" ")
        arch = last if last in _ARCHES else ""
        by_variant.setdefault(name if arch else label, []).append(arch)
    by_arches: dict[tuple[str, ...], list[str]] = {}
    for name, arches in by_variant.items():
        by_arches.setdefault(() if set(arches) == set(_ARCHES) else tuple(filter(None, arches)), []).append(name)
    texts = [
        f"{', '.join(names)} on {' and '.join(arches)}".strip() if arches else ", ".join(names)
        for arches, names in by_arches.items()
    ]
    return "; ".join(texts)


def _line(one: Shared) -> str:
    return f"{one.change}{_in(one.among)}"


def _in(labels: Sequence[str]) -> str:
    where = among(labels)
    return f" ({where})" if where else ""


def _section(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, *(f"  {line}" for line in lines)]) if lines else ""


def _variants(found: Difference) -> Iterator[str]:
    for word, names in (("new", found.added), ("removed", found.removed)):
        if names:
            yield f"{word}: {', '.join(names)}"


def _noted(found: Difference) -> Iterator[str]:
    yield from (f"note: {note}" for note in found.notes)


def _table(rows: Sequence[Shared], most: int, found: Difference) -> list[str]:
    lines = [_row(row.change, among(row.among)) for row in rows]
    return ["| what | before | after | where |", "|---|---|---|---|", *_cut(lines, most, found)]


def _row(change: Change, where: str) -> str:
    cells = (change.subject, change.before, change.after, where)
    return f"| {' | '.join(_cell(cell) or ' ' for cell in cells)} |"


def _cut(lines: Sequence[str], most: int, found: Difference) -> list[str]:
    """Return the first lines, of `most` characters together, and what to type for the others."""
    kept: list[str] = []
    for number, line in enumerate(lines):
        most -= len(line) + 1
        if most < 0:
            to = "" if found.after.startswith("the ") else f" --to {found.after}"
            return [*kept, f"… and {len(lines) - number} more: invoke diff --from {found.before}{to}"]
        kept.append(line)
    return kept


def _cell(text: str) -> str:
    """Return text as Markdown takes it for nothing else, on one line and not too long."""
    line = " ".join(text.split())
    line = line if len(line) <= _MOST_OF_A_CELL else f"{line[: _MOST_OF_A_CELL - 1]}…"
    return re.sub(r"([\\`*_{}\[\]|~#@])", r"\\\1", html.escape(line, quote=False))


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def _fenced(lines: Sequence[str]) -> str:
    """Return lines as a block of code, under a fence that none of them ends."""
    longest = max((len(match) for line in lines for match in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}diff", *lines, fence])


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
