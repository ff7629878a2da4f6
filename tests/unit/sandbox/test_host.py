"""The stand-in host is read by the same code as a real one."""

import os
import subprocess
from pathlib import Path

import pytest

from ascend_images.errors import MissingTool
from ascend_images.host.npu_smi import parse, parse_board
from ascend_images.inside import host_facts
from ascend_images.sandbox.host import CHIPS, make_host

pytestmark = [
    pytest.mark.subprocess,
    pytest.mark.skipif(os.geteuid() != 0, reason="making device nodes takes root"),
]

FAMILIES = {"a2": "A2", "a3": "A3", "310p": "310P", "950": "950"}


@pytest.mark.parametrize("chip", sorted(CHIPS))
def test_npu_smi_of_a_stand_in_host_is_read_as_its_family(tmp_path: Path, chip: str) -> None:
    root = make_host(tmp_path, chip, (2, 3))
    facts = host_facts.gather(str(root))
    listing = parse(facts["info"]["text"])
    assert [found.davinci for found in listing.chips] == [2, 3]
    assert {found.memory_total for found in listing.chips} == {CHIPS[chip].memory}
    assert listing.unknown == ()
    boards = [parse_board(board["text"]) for board in facts["boards"].values()]
    assert {board.family for board in boards} == {FAMILIES[chip]}


def test_the_nodes_have_the_owner_and_mode_of_a_real_host(tmp_path: Path) -> None:
    facts = host_facts.gather(str(make_host(tmp_path, "a2", (7,), owner=1000, mode=0o660)))
    node = next(node for node in facts["nodes"] if node["path"] == "/dev/davinci7")
    assert (node["mode"], node["uid"], node["gid"]) == (0o660, 1000, 1000)
    assert facts["driver"]["version"] == "25.5.0"


def test_without_nodes_npu_smi_fails_as_in_a_container_that_has_none(tmp_path: Path) -> None:
    root = make_host(tmp_path, "a2", ())
    done = subprocess.run([root / "usr/local/bin/npu-smi", "info"], capture_output=True, text=True)
    assert done.returncode == 255
    assert parse(done.stdout).errors[0].code == -8005


def test_npu_smi_says_what_lies_beside_it(tmp_path: Path) -> None:
    root = make_host(tmp_path, "a2", (0,))
    (root / "usr/local/bin/npu-smi.says").write_text(
        "dcmi model initialized failed, because the device is used. ret is -8020\n"
    )
    done = subprocess.run([root / "usr/local/bin/npu-smi", "info"], capture_output=True, text=True)
    assert (done.returncode, parse(done.stdout).errors[0].code) == (255, -8020)


def test_who_may_make_no_nodes_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "mknod", refuse)
    with pytest.raises(MissingTool, match="davinci0"):
        make_host(tmp_path, "a2", (0,))
