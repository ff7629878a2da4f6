"""Running builds shown to a person: a table that is redrawn on a terminal, plain lines everywhere else."""

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from ascend_images.images.progress import BuildState, Line
from ascend_images.images.run import View

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

_REDRAW_SECONDS = 0.25


_OPTIONS = re.compile(r" --(?:mount|network|link|from)\b\S*")
_WIDTH = 100


@contextmanager
def view_on(stream: TextIO, names: Sequence[str]) -> Iterator[View]:
    """Yield the view that suits `stream`: the table on a terminal that can redraw, plain lines otherwise."""
    if stream.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        with live_view(stream, names) as view:
            yield view
    else:
        yield PlainView(stream)


class PlainView:
    """A line as each step begins and ends, headed by the image's name; what steps print stays in the logs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def started(self, name: str) -> None:
        """Say that a build began."""
        self._say(name, "building")

    def said(self, name: str, line: Line) -> None:
        """Pass a heading on, without the options of its RUN and cut to a terminal's width."""
        if line.heading:
            self._say(name, shortened(line.text))

    def update(self, name: str, state: BuildState) -> None:
        """Nothing to redraw."""

    def ended(self, name: str, ok: bool, seconds: float) -> None:
        """Say how a build ended."""
        self._say(name, f"{'built' if ok else 'FAILED'} after {seconds:.1f} s")

    def interrupted(self, name: str, seconds: float) -> None:
        """Say that a build was interrupted."""
        self._say(name, f"interrupted after {seconds:.1f} s")

    def _say(self, name: str, text: str) -> None:
        print(f"{name}: {text}", file=self._stream, flush=True)


def shortened(heading: str) -> str:
    """Return a step's heading as one line that a person can read: the log file has all of it."""
    plain = " ".join(_OPTIONS.sub("", heading).split())
    return plain if len(plain) <= _WIDTH else f"{plain[: _WIDTH - 1]}…"


@contextmanager
def live_view(stream: TextIO, names: Sequence[str]) -> Iterator[View]:
    """Yield a view that redraws one row an image on the terminal behind `stream`."""
    from rich.console import Console
    from rich.live import Live

    # Redrawn by the loop that reads the builds, never by a thread beside it.
    with Live(console=Console(file=stream, force_terminal=True), auto_refresh=False) as live:
        yield _LiveView(live, names)


@dataclass
class _Row:
    """What is shown of one build."""

    status: str = "waiting"
    began: float = 0.0
    seconds: float = 0.0
    steps: str = ""
    now: str = ""


_STYLES: Mapping[str, str] = {
    "waiting": "dim",
    "building": "cyan",
    "built": "green",
    "FAILED": "bold red",
    "interrupted": "yellow",
}


class _LiveView:
    """One row an image: where it stands, for how long, and what it does now."""

    def __init__(self, live: "Live", names: Sequence[str]) -> None:
        self._live = live
        self._rows = {name: _Row() for name in names}
        self._drawn = 0.0

    def started(self, name: str) -> None:
        row = self._rows.setdefault(name, _Row())
        row.status, row.began = "building", time.monotonic()
        self._draw(now=True)

    def said(self, name: str, line: Line) -> None:
        """The table shows steps, not their output."""

    def update(self, name: str, state: BuildState) -> None:
        row = self._rows[name]
        row.seconds = time.monotonic() - row.began
        row.steps = f"{state.done}/{state.known}"
        step = state.current
        row.now = step.name if step else ""
        if step and step.lines:
            row.now += f" — {step.lines[-1]}"
        self._draw(now=False)

    def ended(self, name: str, ok: bool, seconds: float) -> None:
        self._set_end(name, "built" if ok else "FAILED", seconds)

    def interrupted(self, name: str, seconds: float) -> None:
        self._set_end(name, "interrupted", seconds)

    def _set_end(self, name: str, status: str, seconds: float) -> None:
        row = self._rows[name]
        row.status, row.seconds, row.now = status, seconds, ""
        self._draw(now=True)

    def _draw(self, *, now: bool) -> None:
        if now or time.monotonic() - self._drawn >= _REDRAW_SECONDS:
            self._drawn = time.monotonic()
            self._live.update(self._table(), refresh=True)

    def _table(self) -> "Table":
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_header=False, pad_edge=False, expand=True)
        for ratio in (None, None, None, None, 1):
            table.add_column(no_wrap=True, overflow="ellipsis", ratio=ratio)
        for name, row in self._rows.items():
            seconds = "" if row.status == "waiting" else f"{row.seconds:.0f} s"
            # As Text: a step's name may hold brackets, which are markup in a plain string.
            status = Text(row.status, style=_STYLES[row.status])
            table.add_row(Text(name), status, Text(seconds), Text(row.steps), Text(row.now))
        return table
