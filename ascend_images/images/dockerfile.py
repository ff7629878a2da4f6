"""Reads a Dockerfile into its instructions: flags, text, heredocs and line numbers, as BuildKit does."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ascend_images.errors import BadInput

_INSTRUCTION = re.compile(r"\s*(?P<name>[A-Za-z]+)(?:\s+(?P<rest>.*))?$", re.DOTALL)
_FLAG = re.compile(r"--(?P<key>[a-z-]+)(?:=(?P<value>\S*))?(?:\s+|$)")
_HEREDOC = re.compile(r"(?<!<)<<(?P<chomp>-?)(?P<quote>['\"]?)(?P<name>[A-Za-z_][A-Za-z0-9_.]*)(?P=quote)")
_WITH_HEREDOC = frozenset({"RUN", "COPY", "ADD"})


@dataclass(frozen=True, kw_only=True)
class Heredoc:
    """A heredoc of an instruction; `line` is the number of its first line of text."""

    name: str
    line: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One instruction: its name in capitals, its flags in their order, the rest as one line, its heredocs."""

    name: str
    line: int
    flags: tuple[tuple[str, str], ...]
    text: str
    heredocs: tuple[Heredoc, ...] = ()


def instructions(text: str, *, path: str = "Dockerfile") -> tuple[Instruction, ...]:
    """Return the instructions of a Dockerfile; raises BadInput, with the line, for text that is none."""
    return tuple(_instructions(text.split("\n"), path))


def _instructions(lines: list[str], path: str) -> Iterator[Instruction]:
    number = 0
    while number < len(lines):
        if not lines[number].strip() or lines[number].lstrip().startswith("#"):
            number += 1
            continue
        first = number + 1
        joined, number = _joined(lines, number)
        match = _INSTRUCTION.match(joined)
        if match is None:
            raise BadInput(f"{path}:{first}: not an instruction: {joined.strip()[:60]}", wanted="NAME arguments")
        name, rest = match["name"].upper(), (match["rest"] or "").strip()
        heredocs: list[Heredoc] = []
        if name in _WITH_HEREDOC:
            for mark in _HEREDOC.finditer(rest):
                heredoc, number = _heredoc(lines, number, mark, f"{path}:{first}")
                heredocs.append(heredoc)
        flags, rest = _flags(rest)
        yield Instruction(name=name, line=first, flags=flags, text=rest, heredocs=tuple(heredocs))


def _joined(lines: list[str], number: int) -> tuple[str, int]:
    """Return the instruction that begins at a line, continued lines joined, and the number after its last line.

    Comments and empty lines between continued lines are no part of it.
    """
    parts: list[str] = []
    while number < len(lines):
        line = lines[number].rstrip()
        number += 1
        if parts and (not line.strip() or line.lstrip().startswith("#")):
            continue
        if not line.endswith("\\"):
            parts.append(line)
            break
        parts.append(line[:-1])
    return " ".join(part.strip() for part in parts), number


def _heredoc(lines: list[str], number: int, mark: re.Match[str], where: str) -> tuple[Heredoc, int]:
    first = number
    while number < len(lines):
        line = lines[number].lstrip("\t") if mark["chomp"] else lines[number]
        if line == mark["name"]:
            body = lines[first:number]
            if mark["chomp"]:
                body = [text.lstrip("\t") for text in body]
            text = "".join(f"{text}\n" for text in body)
            return Heredoc(name=mark["name"], line=first + 1, text=text), number + 1
        number += 1
    raise BadInput(f"{where}: the heredoc {mark['name']} does not end", wanted=f"a line that holds just {mark['name']}")


def _flags(rest: str) -> tuple[tuple[tuple[str, str], ...], str]:
    flags = []
    while match := _FLAG.match(rest):
        flags.append((match["key"], match["value"] or ""))
        rest = rest[match.end() :]
    return tuple(flags), rest
