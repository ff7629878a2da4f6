"""Two commands that build one image take turns; those that build others do not wait."""

import inspect
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

import tasks
from ascend_images import generated
from ascend_images.images.turns import in_turn
from ascend_images.pins.platform import Arch
from ascend_images.planning import Wishes, turns
from ascend_images.selection import Selection, select

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
        *("files-a2", "files-a3"),
    )


def test_files_that_are_made_for_one_call_are_had_alone_whatever_the_architecture() -> None:
    changed = select(ROOT, ("a2",), sets=("python=3.11",))
    first, second = (turns(changed, Wishes(arches=(arch,))) for arch in Arch)
    assert {*first} & {*second} == {"files-a2"}
    assert generated.turns(changed) == ("files-a2",)
    assert turns(select(ROOT, ("a2",)), Wishes(arches=(Arch.AMD64,))) == ("a2.amd64",)


def test_who_writes_such_files_waits_for_the_build_that_reads_them(tmp_path: Path) -> None:
    said: list[str] = []
    written = threading.Event()
    selection = replace(select(ROOT, ("a2",)), root=tmp_path, changed=True)

    def write() -> None:
        with generated.held(selection, said.append):
            written.set()

    thread = threading.Thread(target=write)
    with in_turn(tmp_path, ["files-a2"], pytest.fail):
        thread.start()
        deadline = time.monotonic() + 10
        while not said and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not written.is_set()
    thread.join(10)
    assert written.is_set()
    assert said[0].startswith("files-a2: waiting for another build of it to end")


def test_committed_files_are_written_without_a_turn(tmp_path: Path) -> None:
    with generated.held(replace(select(ROOT, ("a2",)), root=tmp_path), pytest.fail):
        assert not list(tmp_path.iterdir())


@pytest.mark.subprocess
@pytest.mark.parametrize("line", ["render --set", "build --dry-run --set", "build --dry-run --source"])
def test_each_command_that_writes_such_files_takes_the_turn(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Asked(Exception):
        pass

    def held(selection: Selection, _: object, sources: Iterable[str] = ()) -> None:
        raise Asked(*generated.turns(selection, sources))

    monkeypatch.setattr(generated, "held", held)
    verb, *_, option = line.split()
    given = {"set": ["python=3.11"]} if option == "--set" else {"source": [f"vllm={tmp_path}"]}
    body = inspect.unwrap(getattr(tasks, verb).body)
    names = [name for name, one in inspect.signature(body).parameters.items() if one.default is one.empty][1:]
    flags = {"dry_run": True} if verb == "build" else {}
    with pytest.raises(Asked, match="files-a2"):
        body(None, **{name: [] for name in names} | {"variant": ["a2"]} | given | flags)


@pytest.mark.subprocess
def test_a_turn_ends_with_a_process_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import os, signal\nfrom pathlib import Path\nfrom ascend_images.images.turns import in_turn\n"
        f"with in_turn(Path({str(tmp_path)!r}), ['a2.amd64'], print):\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT)
    with in_turn(tmp_path, ["a2.amd64"], pytest.fail):
        pass
