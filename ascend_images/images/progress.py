"""What a running build says: the stream of `buildx --progress=rawjson` read, and searched for the failing step."""

import base64
import binascii
import json
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

#: How a step ends that could not read or write a cache: the build goes on without it.
NO_CACHE = "NO CACHE: "

KEPT_LINES = 200  # of each step's output, for finding the trap's line
SHOWN_LINES = 20  # of the failing step's output, in messages

# What the strict shell's trap prints in every RUN of a rendered file (dockerfiles/templates/build.sh), and what a step
# prints that ends itself with a reason.
_TRAP = re.compile(
    r"line (?P<line>\d+) failed \((?P<code>\d+)\): (?P<command>.*?)(?: \((?P<inside>in \S+, line \d+ of build\.sh)\))?"
)
_STOPPED = re.compile(r"build stopped: (?P<reason>.*)")
_EXIT_CODE = re.compile(r"did not complete successfully: exit code: (\d+)")
_CANCELED = "context canceled"
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True)
class FailedStep:
    """The step of a build that failed.

    `step` is its name in the build (`[packages 2/3] RUN …`), `command` the line that failed where the step's trap said
    so, else the instruction; `line` (of the step's script) and `code` are None where nothing told them; `inside` says
    where the line is in a function that the steps share. `error` is the reason that the step itself gave, else the
    engine's; `output` its last lines.
    """

    step: str
    command: str
    line: int | None
    code: int | None
    error: str
    output: tuple[str, ...]
    inside: str = ""

    def __str__(self) -> str:
        inside = f", {self.inside}" if self.inside else ""
        where = f" (line {self.line} of it{inside})" if self.line is not None else ""
        lines = [f"step:    {self.step}{where}" if self.step else "before any step ran"]
        # A step that ends itself with a reason has no failing line: the instruction stands above already.
        if self.command and not self.step.endswith(self.command):
            lines.append(f"command: {self.command}")
        if self.error:
            lines.append(f"error:   {self.error}")
        return "\n".join([*lines, *(f"| {line}" for line in self.output)])


class Messages:
    """Splits the stream into the statuses it holds and the plain text between them.

    buildx 0.13 writes each status as JSON over many lines, later ones on one line; errors of the client itself, such
    as a Dockerfile it cannot parse, come as text in the same stream.
    """

    def __init__(self) -> None:
        self._open: list[str] = []

    def feed(self, line: str) -> Iterator[Mapping[str, Any] | str]:
        """Yield what `line` (with or without its end) completes: a status, or text."""
        text = line.rstrip("\r\n")
        if not self._open and not text.startswith("{"):
            if text:
                yield text
            return
        self._open.append(text)
        # Only an unindented brace can end a status: deeper ones are indented by the encoder.
        if text.startswith("}") or len(self._open) == 1:
            yield from self._close()

    def end(self) -> Iterator[str]:
        """Yield the lines of a status that was cut off."""
        rest, self._open = self._open, []
        yield from filter(None, rest)

    def _close(self) -> Iterator[Mapping[str, Any] | str]:
        # Text may begin with a brace too; then the status is what follows the last unindented one.
        begin = max(index for index, text in enumerate(self._open) if text.startswith("{"))
        try:
            status = json.loads("\n".join(self._open[begin:]))
        except ValueError:
            status = None
        if isinstance(status, dict):
            before, self._open = self._open[:begin], []
            yield from before
            yield status
        elif self._open[-1].startswith("}"):
            yield from self.end()


@dataclass
class Step:
    """One step (BuildKit's vertex) and what is known of it."""

    number: int
    name: str
    started: str = ""
    completed: str = ""
    cached: bool = False
    error: str = ""
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    partial: dict[int, str] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        """Whether it has begun and not ended."""
        return bool(self.started) and not self.completed

    @property
    def canceled(self) -> bool:
        """Whether it ended because another step failed or somebody interrupted the build."""
        return self.error.endswith(_CANCELED)

    @property
    def of_cache(self) -> bool:
        """Whether it reads or writes a cache that outlives the builder; an error of it fails no build."""
        return self.name.startswith(("importing cache manifest from ", "exporting cache to "))

    @property
    def internal(self) -> bool:
        """Whether it is BuildKit's own work (loading definitions and contexts) and no instruction of the file."""
        return self.name.startswith(("[internal]", "[context "))


@dataclass(frozen=True)
class Line:
    """One line for the log; `heading` is set for those that say what a step does, not what it prints."""

    text: str
    heading: bool


class BuildState:
    """All that one build has said so far; text in `hide` (credentials) is blotted out of everything."""

    def __init__(self, hide: Sequence[str] = ()) -> None:
        self.steps: dict[str, Step] = {}
        self.texts: deque[str] = deque(maxlen=KEPT_LINES)
        self._hide = tuple(sorted(filter(None, hide), key=len, reverse=True))
        self._messages = Messages()

    # --- reading -----------------------------------------------------------------------------------------------------

    def feed(self, line: str) -> list[Line]:
        """Take one line of the stream; return the lines for the log that it gives."""
        return [said for message in self._messages.feed(line) for said in self._take(message)]

    def end(self) -> list[Line]:
        """Take the end of the stream; return what was still open as lines for the log."""
        said = [said for text in self._messages.end() for said in self._take(text)]
        for step in self.steps.values():
            said += self._flush(step)
        return said

    def _take(self, message: Mapping[str, Any] | str) -> list[Line]:
        if isinstance(message, str):
            text = self._clean(message)
            self.texts.append(text)
            return [Line(text, heading=False)]
        said: list[Line] = []
        # One status may hold a step several times, ended and begun again: its last word counts.
        vertexes = {str(vertex.get("digest", "")): vertex for vertex in message.get("vertexes") or ()}
        for digest, vertex in vertexes.items():
            said += self._vertex(digest, vertex)
        for log in message.get("logs") or ():
            said += self._log(log)
        for warning in message.get("warnings") or ():
            said.append(Line(f"warning: {self._clean(_decoded(warning.get('short')))}", heading=True))
        return said

    def _vertex(self, digest: str, vertex: Mapping[str, Any]) -> list[Line]:
        name = self._clean(" ".join(str(vertex.get("name", "")).split()))
        step = self.steps.setdefault(digest, Step(len(self.steps) + 1, name))
        said: list[Line] = []
        if vertex.get("started") and not step.started:
            said.append(Line(f"#{step.number} {step.name}", heading=not step.internal))
        ended_before = step.completed
        step.started = str(vertex.get("started") or step.started)
        step.completed = str(vertex.get("completed") or "")
        step.cached = bool(vertex.get("cached", step.cached))
        step.error = self._clean(str(vertex.get("error") or ""))
        if step.completed and step.completed != ended_before:
            said += self._flush(step)
            said.append(Line(f"#{step.number} {_ending(step)}", heading=not step.internal))
        return said

    def _log(self, log: Mapping[str, Any]) -> list[Line]:
        step = self.steps.get(str(log.get("vertex", "")))
        if step is None:
            return []
        stream = int(log.get("stream") or 1)
        *whole, rest = (step.partial.get(stream, "") + _decoded(log.get("data"))).split("\n")
        step.partial[stream] = rest
        return [self._output(step, text, str(log.get("timestamp", ""))) for text in whole]

    def _flush(self, step: Step) -> list[Line]:
        rest = [text for text in step.partial.values() if text]
        step.partial.clear()
        return [self._output(step, text, step.completed) for text in rest]

    def _output(self, step: Step, text: str, timestamp: str) -> Line:
        clean = self._clean(text)
        step.lines.append(clean)
        return Line(f"#{step.number} {_seconds(step.started, timestamp):.2f} {clean}", heading=False)

    def _clean(self, text: str) -> str:
        """Return `text` without control sequences, as the terminal would leave it, and without what is to be hidden."""
        shown = _CONTROL.sub("", text.rstrip("\r").rpartition("\r")[2])
        for secret in self._hide:
            shown = shown.replace(secret, "***")
        return shown

    # --- asking ------------------------------------------------------------------------------------------------------

    @property
    def done(self) -> int:
        """How many of the file's steps have ended."""
        return sum(1 for step in self.steps.values() if step.completed and not step.internal)

    @property
    def known(self) -> int:
        """How many of the file's steps are known; grows while the build finds its way."""
        return sum(1 for step in self.steps.values() if not step.internal)

    @property
    def current(self) -> Step | None:
        """The running step that began last, if one runs."""
        running = [step for step in self.steps.values() if step.running]
        return max(running, key=lambda step: step.number, default=None)

    def failed_step(self) -> FailedStep | None:
        """Return the step that failed: the first that ended in an error and was not cut short by another's.

        Without one the fault lies before all steps, in what the client said: that is returned. None if nothing did.
        """
        guilty = [step for step in self.steps.values() if step.error and not step.canceled and not step.of_cache]
        if guilty:
            return _failed(min(guilty, key=lambda step: step.completed))
        errors = [text for text in self.texts if text.startswith("ERROR:")]
        if not errors:
            return None
        error = errors[-1].removeprefix("ERROR:").strip()
        return FailedStep("", "", None, None, error, tuple(self.texts)[-SHOWN_LINES:])


def _failed(step: Step) -> FailedStep:
    trap = _last(_TRAP, step.lines)
    stopped = _last(_STOPPED, step.lines)
    exit_code = _EXIT_CODE.search(step.error)
    return FailedStep(
        step=step.name,
        command=trap["command"] if trap else step.name.partition("] ")[2] or step.name,
        line=int(trap["line"]) if trap else None,
        code=int(trap["code"]) if trap else int(exit_code[1]) if exit_code else None,
        error=stopped["reason"] if stopped else _short(step.error),
        output=tuple(step.lines)[-SHOWN_LINES:],
        inside=(trap["inside"] or "") if trap else "",
    )


def _last(pattern: re.Pattern[str], lines: Sequence[str] | deque[str]) -> re.Match[str] | None:
    return next((found for line in reversed(lines) if (found := pattern.fullmatch(line))), None)


def _ending(step: Step) -> str:
    if step.canceled:
        return "CANCELED"
    if step.error:
        return f"{NO_CACHE if step.of_cache else 'ERROR: '}{_short(step.error)}"
    return "CACHED" if step.cached else f"DONE {_seconds(step.started, step.completed):.1f}s"


def _short(error: str) -> str:
    """Return an error without the whole script that a failed RUN repeats in it: the exit code is what it adds."""
    exit_code = _EXIT_CODE.search(error)
    return f"exit code {exit_code[1]}" if exit_code else error


def _decoded(data: object) -> str:
    """Return the text of a log entry, which the stream carries in base64."""
    try:
        return base64.b64decode(str(data or ""), validate=True).decode(errors="replace")
    except (binascii.Error, ValueError):
        return ""


def _seconds(start: str, end: str) -> float:
    try:
        return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())
    except ValueError:
        return 0.0
