"""Build processes: so many at a time, each with a log of its own, all of them ended when somebody interrupts."""

import os
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Protocol, Self, cast

from ascend_images.images.progress import BuildState, FailedStep, Line

# What a build has after a signal to end its steps: BuildKit took 1.5 s at most when it was tried.
GRACE_SECONDS = 20.0
_TICK_SECONDS = 0.25
_READ_BYTES = 1 << 16
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """The builds were ended because of a signal; `signum` is its number, `names` are the jobs that were under way."""

    def __init__(self, signum: int, names: tuple[str, ...] = ()) -> None:
        super().__init__(signum)
        self.signum = signum
        self.names = names


@dataclass(frozen=True)
class Job:
    """One process to run: `command` in `cwd`, what it says on stderr going to `log`."""

    name: str
    command: tuple[str, ...]
    cwd: Path
    log: Path
    environment: Mapping[str, str]
    hide: tuple[str, ...] = ()
    note: str = ""
    """What is told of it as it begins; the first line of its part of the log."""
    again: bool = False
    """Whether it was run before in this call: its log goes on where that ended, else it is begun anew."""


@dataclass(frozen=True)
class Ended:
    """How a job ended: its exit code (negative: the signal that killed it), its time, and what failed in it."""

    job: Job
    code: int
    seconds: float
    failure: FailedStep | None


class View(Protocol):
    """Shows running jobs to a person."""

    def started(self, name: str) -> None:
        """A job began."""

    def said(self, name: str, line: Line) -> None:
        """A job's build said something; it stands in the log as well."""

    def update(self, name: str, state: BuildState) -> None:
        """A job still runs: called several times a second."""

    def ended(self, name: str, ok: bool, seconds: float) -> None:
        """A job ended, and whether all is well with it."""

    def interrupted(self, name: str, seconds: float) -> None:
        """A job was ended, or ended, after somebody had interrupted."""


def run_jobs(jobs: Sequence[Job], *, at_once: int, view: View, on_end: Callable[[Ended], bool]) -> None:
    """Run all jobs, at most `at_once` at a time; one that fails does not stop the others.

    `on_end` and signals are as with `run_next`.
    """
    waiting, running = deque(jobs), 0

    def next_job() -> Job | None:
        nonlocal running
        if not waiting or running >= max(1, at_once):
            return None
        running += 1
        return waiting.popleft()

    def ended(end: Ended) -> bool:
        nonlocal running
        running -= 1
        return on_end(end)

    run_next(next_job, view=view, on_end=ended)


def run_next(next_job: Callable[[], Job | None], *, view: View, on_end: Callable[[Ended], bool]) -> None:
    """Run the jobs that `next_job` gives; it is asked at the beginning and whenever one has ended, until it gives None.

    `on_end` is called with each as it ends, from this thread, and says whether all is well with it. SIGINT, SIGTERM or
    SIGHUP ends the running jobs (SIGINT to their whole process groups; SIGKILL after a grace period or a second
    signal), starts no other, calls `on_end` for none of them, and raises Interrupted once they are gone.
    """
    with _Runner(view, on_end) as runner, _signals_to(runner.interrupt):
        runner.run(next_job)


@dataclass
class _Running:
    """A process under way."""

    job: Job
    process: subprocess.Popen[bytes]
    log: IO[str]
    began: float
    state: BuildState
    stderr: IO[bytes]
    partial: bytes = b""

    @property
    def fileno(self) -> int:
        """The descriptor that its output comes from."""
        return self.stderr.fileno()

    def signal(self, signum: int) -> None:
        """Send a signal to the process and all it started (the docker client runs buildx as a child)."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signum)


class _Runner:
    """One loop over the outputs of all processes: no threads, so nothing to lock."""

    def __init__(self, view: View, on_end: Callable[[Ended], bool]) -> None:
        self._view = view
        self._on_end = on_end
        self._selector = selectors.DefaultSelector()
        self._running: dict[int, _Running] = {}
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._signal = 0
        self._signals = 0
        self._deadline = 0.0
        self._stopped: list[str] = []
        self._ended = False

    def __enter__(self) -> Self:
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        return self

    def __exit__(self, *_: object) -> None:
        # Only after an unexpected error are there any left: nothing may go on building behind our back.
        for running in list(self._running.values()):
            running.signal(signal.SIGKILL)
            running.process.wait()
            self._close(running)
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def interrupt(self, signum: int) -> None:
        """Note a signal; called from a signal handler, so it does next to nothing."""
        self._signal = self._signal or signum
        self._signals += 1
        with suppress(BlockingIOError):
            os.write(self._wake_write, b"!")

    def run(self, next_job: Callable[[], Job | None]) -> None:
        """Run the jobs; raises Interrupted."""
        passed_on = 0
        self._start_what_may(next_job)
        while self._running:
            for running in self._ready():
                self._read(running)
            if self._signals > passed_on or (self._signal and time.monotonic() > self._deadline):
                self._pass_on(first=passed_on == 0)
                passed_on = self._signals
            if self._ended:
                self._start_what_may(next_job)
        if self._signal:
            raise Interrupted(self._signal, tuple(self._stopped))

    def _start_what_may(self, next_job: Callable[[], Job | None]) -> None:
        self._ended = False
        while not self._signal and (job := next_job()) is not None:
            self._start(job)

    def _start(self, job: Job) -> None:
        job.log.parent.mkdir(parents=True, exist_ok=True)
        log = job.log.open("a" if job.again else "w", encoding="utf-8", buffering=1)
        try:
            process = subprocess.Popen(
                _with_its_parent(job.command),
                cwd=job.cwd,
                env=dict(job.environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                # A process group of its own: a Ctrl-C in the terminal reaches it through us alone, and once.
                start_new_session=True,
            )
        except BaseException:
            log.close()
            raise
        stderr = cast("IO[bytes]", process.stderr)  # a pipe was asked for
        running = _Running(job, process, log, time.monotonic(), BuildState(job.hide), stderr)
        self._running[running.fileno] = running
        self._selector.register(running.fileno, selectors.EVENT_READ)
        self._view.started(job.name)
        if job.note:
            self._tell(running, (Line(job.note, True),))

    def _ready(self) -> Iterator[_Running]:
        """Wait for output, a signal or the next tick, and yield the jobs that have something to read."""
        for key, _ in self._selector.select(_TICK_SECONDS):
            if key.fd == self._wake_read:
                os.read(self._wake_read, _READ_BYTES)
            elif key.fd in self._running:
                yield self._running[key.fd]
        for running in self._running.values():
            self._view.update(running.job.name, running.state)

    def _read(self, running: _Running) -> None:
        data = os.read(running.fileno, _READ_BYTES)
        *lines, running.partial = (running.partial + data).split(b"\n")
        if not data and running.partial:
            lines, running.partial = [running.partial], b""
        for line in lines:
            self._tell(running, running.state.feed(line.decode(errors="replace")))
        if not data:
            self._end(running)

    def _tell(self, running: _Running, lines: Sequence[Line]) -> None:
        for line in lines:
            running.log.write(line.text + "\n")
            self._view.said(running.job.name, line)

    def _end(self, running: _Running) -> None:
        code = running.process.wait()
        seconds = time.monotonic() - running.began
        self._tell(running, running.state.end())
        self._close(running)
        self._ended = True
        if self._signal:
            self._stopped.append(running.job.name)
            self._view.interrupted(running.job.name, seconds)
            return
        failure = running.state.failed_step() if code else None
        well = self._on_end(Ended(running.job, code, seconds, failure))
        self._view.ended(running.job.name, well, seconds)

    def _close(self, running: _Running) -> None:
        self._selector.unregister(running.fileno)
        del self._running[running.fileno]
        running.log.close()
        running.stderr.close()

    def _pass_on(self, *, first: bool) -> None:
        """Ask the running processes to end; insist when asked again or when the grace period is over."""
        self._deadline = time.monotonic() + GRACE_SECONDS
        for running in self._running.values():
            running.signal(signal.SIGINT if first else signal.SIGKILL)


def _with_its_parent(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command that is ended (SIGTERM) when this process is killed, where util-linux can have it so."""
    setpriv = shutil.which("setpriv")
    if setpriv is None or shutil.which(command[0]) is None:
        return tuple(command)
    return (setpriv, "--pdeathsig", "TERM", "--", *command)


@contextmanager
def _signals_to(handler: Callable[[int], None]) -> Iterator[None]:
    """Have SIGINT, SIGTERM and, unless it is ignored (nohup), SIGHUP call `handler` meanwhile.

    Only the main thread may do that; another one leaves them alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(signum: int, _: FrameType | None) -> None:
        handler(signum)

    hangup_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    caught = [signum for signum in _SIGNALS if signum is not signal.SIGHUP or not hangup_ignored]
    before = {signum: signal.signal(signum, handle) for signum in caught}
    try:
        yield
    finally:
        for signum, previous in before.items():
            signal.signal(signum, previous if previous is not None else signal.SIG_DFL)
