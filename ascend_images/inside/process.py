"""Other programs: run with a time limit, their ends told apart."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
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


def run(command: Sequence[str], *, cwd: str = "/", env: Mapping[str, str] | None = None, limit: float = 60) -> Ran:
    """Run a command to its end or for `limit` seconds; with time up, whatever it started ends as well.

    Output goes to files and not to pipes: a grandchild that lives on cannot hold us up. Of stderr the end is kept.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
        except OSError as error:
            return Ran(127, "", False, b"", f"{command[0]}: {error.strerror}")
        timed_out = False
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            timed_out = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        size = err.seek(0, os.SEEK_END)
        err.seek(max(0, size - 8000))
        code = process.returncode
        name = signal.Signals(-code).name if code < 0 and not timed_out else ""
        return Ran(max(code, 0), name, timed_out, out.read(), err.read().decode(errors="replace"))
