"""Programs are asked to end, and given the time to do so."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from ascend_images import gentle
from ascend_images.errors import MissingTool

pytestmark = pytest.mark.subprocess

#: Says that it runs, and when it was asked to end that it ended by itself.
POLITE = "trap 'sleep 0.2; echo >ended; exit' TERM; echo >started; while :; do sleep 0.05; done"


class Interrupted(KeyboardInterrupt):
    """As a signal ends a command."""


@contextmanager
def interrupted_at(mark: Path) -> Iterator[None]:
    """Interrupt this process as a signal does, once there is a file `mark`."""

    def end(_: int, __: FrameType | None) -> None:
        raise Interrupted

    def watch() -> None:
        while not mark.exists():
            if over.wait(0.01):
                return
        os.kill(os.getpid(), signal.SIGUSR1)

    over = threading.Event()
    before = signal.signal(signal.SIGUSR1, end)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        signal.signal(signal.SIGUSR1, before)


def test_a_program_gives_what_it_wrote_and_how_it_ended() -> None:
    done = gentle.run(["sh", "-c", "cat; echo no >&2; exit 3"], asked="yes")
    assert (done.returncode, done.stdout, done.stderr) == (3, "yes", "no\n")


def test_where_there_is_no_such_program_it_is_named() -> None:
    with pytest.raises(MissingTool, match="no-such-program is not installed"):
        gentle.run(["no-such-program"])


def test_one_that_takes_too_long_is_asked_to_end_and_waited_for(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        gentle.run(["sh", "-c", POLITE], folder=tmp_path, limit=0.5)
    assert (tmp_path / "ended").exists()


def test_an_interruption_asks_it_to_end_and_waits_for_it(tmp_path: Path) -> None:
    with interrupted_at(tmp_path / "started"), pytest.raises(Interrupted):
        gentle.run(["sh", "-c", POLITE], folder=tmp_path)
    assert (tmp_path / "ended").exists()


def test_one_that_does_not_listen_is_killed_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gentle, "_GRACE", 0.2)
    with pytest.raises(subprocess.TimeoutExpired):
        gentle.run(["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"], limit=0.3)


def test_what_it_leaves_in_the_background_is_not_waited_for() -> None:
    start = time.monotonic()
    assert gentle.run(["sh", "-c", "sleep 20 & echo yes"]).stdout == "yes\n"
    assert time.monotonic() - start < 10
