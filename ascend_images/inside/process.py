"""Other programs: run with a time limit, their ends told apart, none left behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


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


def run(command: Sequence[str], *, cwd: str = "/", env: Mapping[str, str] | None = None, limit: float = 60) -> Ran:
    """Run a command to its end or for `limit` seconds; with time up, whatever it started ends as well.

    Output goes to files and not to pipes: a grandchild that lives on cannot hold us up. Of stderr the end is kept.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = _RUNNING.start(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        except OSError as error:
            return Ran(127, "", False, b"", f"{command[0]}: {error.strerror}")
        if process is None:
            return Ran(0, signal.SIGTERM.name, False, b"", "")
        timed_out = False
        try:
            _wait(process, limit)
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
        name = signal.Signals(-code).name if code < 0 and not timed_out else ""
        return Ran(max(code, 0), name, timed_out, out.read(), err.read().decode(errors="replace"))


def _wait(process: subprocess.Popen[bytes], limit: float) -> None:
    """Wait for the end of a process; raises TimeoutExpired.

    `Popen.wait` with a time limit only looks every 50 ms, which with thirty programs is a second: the kernel tells it
    at once by a file descriptor, where it is Linux 5.3 or later and the container may ask.
    """
    try:
        end = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        process.wait(limit)
        return
    try:
        ready, _, _ = select.select([end], [], [], limit)
    finally:
        os.close(end)
    if not ready:
        raise subprocess.TimeoutExpired(process.args, limit)
    process.wait()
