"""Other programs: run with a time limit, their ends told apart, none left behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Bytes of a program's output that are kept; whatever writes four times as much is ended.
OUTPUT_LIMIT = 16 << 20
_TOO_MUCH = 4 * OUTPUT_LIMIT
#: Seconds between two looks at how much a program has written.
_LOOK = 0.25


# What a shell says of a command without an end in time, and of one that a signal ended (plus its number).
NO_END, _SIGNALLED = 124, 128


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

    @property
    def code(self) -> int:
        """The exit code as a shell tells it: 124 for no end in time, 128 and the signal's number for a crash."""
        if self.timed_out:
            return NO_END
        return _SIGNALLED + _signal_number(self.signal) if self.signal else self.exit


class _Running:
    """The process groups that `run` has started and not seen end, from several threads; after `end` none starts."""

    def __init__(self) -> None:
        # Reentrant: the signal handler that calls `end` may interrupt the thread that holds it.
        self._lock = threading.RLock()
        self._groups: set[int] = set()
        self._ended = False

    def start(self, command: Sequence[str], **options: object) -> subprocess.Popen[bytes] | None:
        """Start a command as the leader of a group; None after `end`. Raises OSError where it cannot start."""
        with self._lock:
            if self._ended:
                return None
            process: subprocess.Popen[bytes] = subprocess.Popen(  # type: ignore[call-overload]
                command, start_new_session=True, **options
            )
            self._groups.add(process.pid)
            return process

    def forget(self, group: int) -> None:
        """Leave a group alone from now on: its leader has been waited for, and its number may be used again."""
        with self._lock:
            self._groups.discard(group)

    def end(self) -> None:
        """Kill every group."""
        with self._lock:
            self._ended = True
            for group in self._groups:
                kill_group(group)


_RUNNING = _Running()


def end_all() -> None:
    """Kill whatever `run` has started, in whichever thread, and let nothing start any more: this process ends too."""
    _RUNNING.end()


def kill_group(group: int) -> None:
    """Kill a process group, whether or not anything of it is left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def run(
    command: Sequence[str],
    *,
    cwd: str = "/",
    env: Mapping[str, str] | None = None,
    limit: float = 60,
    stdin: bytes = b"",
) -> Ran:
    """Run a command to its end or for `limit` seconds; with time up, whatever it started ends as well.

    Output goes to files and not to pipes: a grandchild that lives on cannot hold us up. Of stdout the beginning is kept
    (`OUTPUT_LIMIT`), of stderr the end; a command that does not stop writing is killed, which its stderr then says.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        try:
            process = _RUNNING.start(command, cwd=cwd, env=env, stdin=given, stdout=out, stderr=err)
        except (OSError, ValueError) as error:
            return Ran(127, "", False, b"", f"{command[0]}: {getattr(error, 'strerror', None) or error}")
        if process is None:
            return Ran(0, signal.SIGTERM.name, False, b"", "")
        timed_out = flooded = False
        try:
            flooded = not _wait(process, limit, (out.fileno(), err.fileno()))
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            # Also where an exception passes through: what was started here must not live on.
            if process.returncode is None:
                kill_group(process.pid)
                process.wait()
            _RUNNING.forget(process.pid)
        out.seek(0)
        size = err.seek(0, os.SEEK_END)
        err.seek(max(0, size - 8000))
        code = process.returncode
        name = _signal_name(-code) if code < 0 and not timed_out else ""
        said = err.read().decode(errors="replace")
        if flooded:
            said = f"{said}\nended by check.py: it wrote more than {_TOO_MUCH >> 20} MB"
        return Ran(max(code, 0), name, timed_out, out.read(OUTPUT_LIMIT), said)


def _signal_name(number: int) -> str:
    """Return a signal's name; most real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _signal_number(name: str) -> int:
    """Return the number of a signal by the name that `_signal_name` gives it."""
    return int(name.split()[1]) if " " in name else signal.Signals[name].value


def _wait(process: subprocess.Popen[bytes], limit: float, outputs: Sequence[int]) -> bool:
    """Wait for the end of a process; False where it wrote too much to wait any longer. Raises TimeoutExpired.

    `Popen.wait` with a time limit only looks every 50 ms, which with thirty programs is a second: the kernel tells it
    at once by a file descriptor, where it is Linux 5.3 or later and the container may ask.
    """
    until = time.monotonic() + limit
    try:
        end = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        end = -1
    try:
        while not _ended(process, end, min(_LOOK, max(0.0, until - time.monotonic()))):
            if any(os.fstat(output).st_size > _TOO_MUCH for output in outputs):
                return False
            if time.monotonic() >= until:
                raise subprocess.TimeoutExpired(process.args, limit)
    finally:
        if end >= 0:
            os.close(end)
    return True


def _ended(process: subprocess.Popen[bytes], end: int, limit: float) -> bool:
    """Wait for at most `limit` seconds; tell whether the process has ended. `end` is its pidfd, -1 for none."""
    if end < 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(limit)
        return process.returncode is not None
    if not select.select([end], [], [], limit)[0]:
        return False
    process.wait()
    return True
