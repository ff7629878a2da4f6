"""Two commands that build one image take turns; those that build others do not wait."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ascend_images.images.turns import in_turn
from ascend_images.pins.platform import Arch
from ascend_images.planning import Wishes, turns
from ascend_images.selection import select

ROOT = Path(__file__).parents[3]


def test_one_after_the_other_and_whose_turn_it_is_is_said(tmp_path: Path) -> None:
    events: list[str] = []
    said: list[str] = []
    first_in = threading.Event()

    def second() -> None:
        first_in.wait(10)
        with in_turn(tmp_path, ["a3.amd64", "a2.amd64"], said.append):
            events.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with in_turn(tmp_path, ["a2.amd64"], said.append):
        first_in.set()
        deadline = time.monotonic() + 10
        while not said and time.monotonic() < deadline:
            time.sleep(0.01)
        events.append("first")
    thread.join(10)
    assert events == ["first", "second"]
    (line,) = said
    assert line.startswith("a2.amd64: waiting for another build of it to end (process ")


def test_other_images_and_later_commands_do_not_wait(tmp_path: Path) -> None:
    with in_turn(tmp_path, ["a2.amd64"], pytest.fail), in_turn(tmp_path, ["a2.arm64", "a3.amd64"], pytest.fail):
        pass
    with in_turn(tmp_path, ["a2.amd64", "a2.amd64"], pytest.fail):
        pass


def test_a_build_takes_a_turn_for_each_image_and_each_copy_of_a_checkout() -> None:
    selection = select(ROOT, ("a2", "a3"))
    wishes = Wishes(arches=(Arch.AMD64, Arch.ARM64), sources={"VLLM": Path("x"), "../x": Path("y")})
    assert turns(selection, wishes) == (
        *("a2.amd64", "a2.arm64", "a3.amd64", "a3.arm64"),
        *("source-vllm", "source-..%2Fx"),
    )


@pytest.mark.subprocess
def test_a_turn_ends_with_a_process_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import os, signal\nfrom pathlib import Path\nfrom ascend_images.images.turns import in_turn\n"
        f"with in_turn(Path({str(tmp_path)!r}), ['a2.amd64'], print):\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT)
    with in_turn(tmp_path, ["a2.amd64"], pytest.fail):
        pass
