"""The failures this project reports to people, each class with its own exit code.

Raise anywhere; `ascend_images.cli.reporting` turns them into one message and one exit code. A message says what was
found, what was wanted and what to type next.
"""

import difflib
from collections.abc import Iterable

from ascend_images.inside.words import visible

_MOST_SAID = 201


class AscendImagesError(Exception):
    """A failure that a person can act on.

    `found` says what is wrong as it was seen, `wanted` what would have been right, `do` the next thing to type.
    """

    exit_code = 1

    def __init__(self, found: str, *, wanted: str = "", do: str = "") -> None:
        super().__init__(found)
        self.found = found
        self.wanted = wanted
        self.do = do

    def __str__(self) -> str:
        lines = [self.found]
        if self.wanted:
            lines.append(f"  wanted: {self.wanted}")
        if self.do:
            lines.append(f"  next:   {self.do}")
        # Whatever was quoted: a terminal must not obey it.
        return visible("\n".join(lines))


class BadInput(AscendImagesError):
    """What was typed or written in a file cannot be meant: unknown names, broken rules, contradictions."""

    exit_code = 2


class MissingTool(AscendImagesError):
    """Something this machine must have is not there: an engine, a disk large enough, a Python."""

    exit_code = 3


class BuildFailed(AscendImagesError):
    """At least one image could not be built."""

    exit_code = 4


class CheckFailed(AscendImagesError):
    """An image or a rendered file is not what the pins say."""

    exit_code = 5


class LookupIncomplete(AscendImagesError):
    """A lookup on the network could not be finished; what was known before is kept."""

    exit_code = 6


class PublishRefused(AscendImagesError):
    """A publication that must not happen."""

    exit_code = 7


def one_line(text: str, width: int = 0) -> str:
    """Return text as one visible line, cut to `width` characters where that is not 0."""
    line = " ".join(visible(text).split())
    return line if not width or len(line) <= width else f"{line[: width - 1]}…"


def said(text: str) -> str:
    """Return words of others as a message may quote them: in one line, so that none is taken for ours, and not long."""
    return one_line(text, _MOST_SAID)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `did you mean "x"?` for the known name nearest to `name`, or the list of the known ones."""
    names = sorted(known)
    close = difflib.get_close_matches(name.casefold(), [n.casefold() for n in names], n=1, cutoff=0.6)
    for candidate in names:
        if close and candidate.casefold() == close[0]:
            return f'did you mean "{candidate}"?'
    return "one of: " + ", ".join(names) if names else "none is known"


def unknown(kind: str, name: str, known: Iterable[str], *, where: str = "") -> BadInput:
    """Return the error for a `kind` of thing (`variant`, `key` …) that has no such name."""
    place = f"{where}: " if where else ""
    return BadInput(f'{place}unknown {kind} "{name}"', wanted=nearest(name, known))
