"""The operating system of the stand-ins: what it is made with, and what is said where that is missing."""

import shutil
from pathlib import Path

import pytest

from ascend_images.errors import BuildFailed, MissingTool
from ascend_images.pins.platform import Arch
from ascend_images.sandbox import debian, process
from ascend_images.sandbox.debian import os_archive, os_image
from ascend_images.sandbox.process import Done, call

FOREIGN = Arch.ARM64 if debian.host_arch() is Arch.AMD64 else Arch.AMD64
HOST = debian.host_arch()


class Programs:
    """Programs that are on this machine, and what was called of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *there: str, user: int = 0) -> None:
        self.called: list[list[str]] = []
        self.fails: set[str] = set()
        monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name in there else None)
        monkeypatch.setattr(debian.os, "geteuid", lambda: user)
        monkeypatch.setattr(debian, "call", self.call)
        monkeypatch.setattr(debian, "docker", lambda arguments, **options: self.call(["docker", *arguments], **options))
        monkeypatch.setattr(debian, "_pack", self.pack)

    def call(self, command: list[str], *, check: bool = True, **_options: object) -> Done:
        self.called.append(command)
        code = int(any(word in self.fails for word in command[:3]))
        if check and code:
            raise BuildFailed(f"{command[0]} ended with 1")
        return Done(command, code, "", "")

    def pack(self, root: Path, folder: Path) -> None:
        self.called.append(["pack", root.name])
        (folder / "root.tar.gz").touch()


def test_it_is_made_by_debootstrap_from_its_default_mirror_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = Programs(monkeypatch, "debootstrap")
    said: list[str] = []
    folder = os_archive(HOST, said.append)
    assert os_archive(HOST, said.append) == folder
    (made, packed) = programs.called
    assert made[:3] == ["debootstrap", f"--arch={HOST.value}", "--variant=minbase"]
    assert made[-2] == debian.SUITE
    assert "://" not in " ".join(made)
    assert packed == ["pack", "root"]
    assert len(said) == 1


def test_debootstrap_is_installed_where_there_is_apt(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = Programs(monkeypatch, "apt-get")
    os_archive(HOST, print)
    assert [command[:2] for command in programs.called[:2]] == [["apt-get", "update"], ["apt-get", "install"]]
    assert "debootstrap" in programs.called[1]


def test_without_root_it_is_said_that_debootstrap_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    Programs(monkeypatch, "debootstrap", user=1000)
    with pytest.raises(MissingTool, match="needs root") as raised:
        os_archive(HOST, print)
    assert "--base-image" in raised.value.do


def test_without_debootstrap_and_apt_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    Programs(monkeypatch)
    with pytest.raises(MissingTool, match="no debootstrap on PATH"):
        os_archive(HOST, print)


def test_for_a_foreign_architecture_an_emulator_is_there_first(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = Programs(monkeypatch, "debootstrap")
    os_archive(FOREIGN, print)
    (emulation, made, _) = programs.called
    assert emulation == [str(debian.EMULATION), FOREIGN.value]
    assert made[1] == f"--arch={FOREIGN.value}"
    assert f"python{debian.PYTHON}" in made[3]


def test_a_machine_that_cannot_emulate_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = Programs(monkeypatch, "debootstrap")
    programs.fails.add(str(debian.EMULATION))
    with pytest.raises(MissingTool, match=f"runs {FOREIGN.kernel} programs") as raised:
        os_archive(FOREIGN, print)
    assert raised.value.do == f"sudo scripts/emulation.sh {FOREIGN.value}"
    assert len(programs.called) == 1


def test_this_machines_own_architecture_needs_no_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = Programs(monkeypatch)
    debian.need_emulation(HOST)
    assert programs.called == []


def test_what_debootstrap_could_not_finish_is_not_kept(monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    programs = Programs(monkeypatch, "debootstrap")
    programs.fails.add("debootstrap")
    with pytest.raises(BuildFailed):
        os_archive(HOST, print)
    assert [path for path in (state / "stand-ins/os").iterdir() if path.is_dir()] == []


def test_an_image_that_the_engine_has_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = Programs(monkeypatch, "debootstrap")
    name = os_image(HOST, print)
    assert [command[1:3] for command in programs.called] == [["image", "inspect"]]
    programs.fails.add("inspect")
    assert os_image(HOST, print) == name
    assert programs.called[-1][:2] == ["docker", "import"]
    assert programs.called[-1][-1] == name


@pytest.mark.subprocess
def test_a_program_that_fails_says_its_last_lines() -> None:
    with pytest.raises(BuildFailed, match="ended with 3:\n  broken") as raised:
        call(["sh", "-c", "echo broken >&2; exit 3"])
    assert raised.value.exit_code == 4
    assert call(["sh", "-c", "exit 3"], check=False).returncode == 3


@pytest.mark.subprocess
def test_a_program_that_is_missing_is_named() -> None:
    with pytest.raises(MissingTool, match="no not-a-program command on PATH") as raised:
        call(["not-a-program"], missing="type this")
    assert raised.value.do == "type this"


def test_the_last_lines_are_few_and_indented() -> None:
    assert process.last_lines("a\nb\nc", 2) == "  b\n  c"
