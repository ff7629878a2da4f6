"""What is not stood in for: how pip is asked for it, for this machine and for another architecture."""

from pathlib import Path

import pytest

from ascend_images.errors import LookupIncomplete, MissingTool
from ascend_images.pins.platform import Arch, host_arch
from ascend_images.sandbox import wheels
from ascend_images.sandbox.process import Done

FOREIGN = Arch.ARM64 if host_arch() is Arch.AMD64 else Arch.AMD64
LINE = "uv==1.0 --hash=sha256:00"


class Pip:
    """The pip of a machine's Python: what it was asked, and how it ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, code: int = 0) -> None:
        self.asked: list[str] = []
        self.listed = ""
        self.code = code
        monkeypatch.setattr(wheels, "find_prefixes", lambda *_: iter([Path("/python")]))
        monkeypatch.setattr(wheels, "bundled_pip", lambda *_: Path("/python/pip.whl"))
        monkeypatch.setattr(wheels, "call", self.call)

    def call(self, command: list[str], **_options: object) -> Done:
        self.asked = command
        self.listed = Path(command[-1]).read_text()
        return Done(command, self.code, "", "no index answers")


def test_for_this_machine_pip_takes_what_runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pip = Pip(monkeypatch)
    wheels._download("3.11", host_arch(), [LINE], tmp_path)
    assert pip.asked[:4] == ["/python/bin/python3.11", "-m", "pip", "download"]
    assert [word for word in pip.asked if word.startswith("--platform")] == []
    assert pip.listed == f"{LINE}\n"


def test_for_another_architecture_an_older_libc_does_as_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of two files of one version the hash may be that of the older kind, and pip looks at no other tags than these."""
    pip = Pip(monkeypatch)
    wheels._download("3.11", FOREIGN, [LINE], tmp_path)
    names = [word.removeprefix("--platform=") for word in pip.asked if word.startswith("--platform=")]
    assert names == [f"{libc}_{FOREIGN.kernel}" for libc in ("manylinux_2_28", "manylinux_2_17", "manylinux2014")]
    assert "--python-version=3.11" in pip.asked


def test_an_index_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Pip(monkeypatch, code=1)
    with pytest.raises(LookupIncomplete, match="no index answers") as raised:
        wheels._download("3.11", FOREIGN, [LINE], tmp_path)
    assert raised.value.wanted == "uv==1.0"


def test_a_machine_without_that_python_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Pip(monkeypatch)
    monkeypatch.setattr(wheels, "find_prefixes", lambda *_: iter(()))
    with pytest.raises(MissingTool, match=r"no CPython 3\.11"):
        wheels._download("3.11", FOREIGN, [LINE], tmp_path)
