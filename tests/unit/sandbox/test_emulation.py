"""scripts/emulation.sh: what it leaves alone, what it does, what it says where it cannot. Programs are stood in for."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ascend_images.sandbox.debian import EMULATION

pytestmark = pytest.mark.subprocess

ENABLED = "enabled\ninterpreter /usr/libexec/qemu\nflags: PF\noffset 0\n"
KERNEL = "/proc/sys/fs/binfmt_misc"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def binfmt(tmp_path: Path) -> Path:
    """The folder that stands for the kernel's, mounted and with nothing registered."""
    folder = tmp_path / "binfmt_misc"
    folder.mkdir()
    (folder / "register").touch()
    return folder


@pytest.fixture
def run(tmp_path: Path, binfmt: Path) -> Run:
    """Return a function that runs the script on an x86_64 machine whose programs are these; each notes its call."""
    programs = tmp_path / "programs"
    programs.mkdir()
    script = tmp_path / "emulation.sh"
    text = EMULATION.read_text().replace(KERNEL, str(binfmt)).replace("/usr/bin/qemu-", f"{tmp_path}/qemu-")
    script.write_text(text.replace(":/usr/local/sbin:/usr/sbin:/sbin", ""))
    for name in ("bash", "cat", "grep", "mktemp", "mv", "rm", "tail"):
        real = next(path for folder in ("/usr/bin", "/bin") if (path := Path(folder, name)).exists())
        (programs / name).symlink_to(real)

    def call(*words: str, **bodies: str) -> "subprocess.CompletedProcess[str]":
        for name, body in {"id": "echo 0", "uname": "echo x86_64", **bodies}.items():
            path = programs / name.replace("_", "-")
            path.write_text(f'#!/bin/bash\necho {path.name} "$@" >>{tmp_path}/called\n{body}\n')
            path.chmod(0o755)
        own = {"PATH": str(programs), "TMPDIR": str(tmp_path)}
        return subprocess.run(["bash", str(script), *words], env=own, capture_output=True, text=True)

    return call


def called(tmp_path: Path) -> list[str]:
    lines = (tmp_path / "called").read_text().splitlines()
    return [line for line in lines if not line.startswith(("id ", "uname"))]


def registering(binfmt: Path) -> str:
    return f"printf '{ENABLED}'".replace("\n", "\\n") + f" >{binfmt}/$2"


def test_it_says_how_it_is_used(run: Run) -> None:
    assert os.access(EMULATION, os.X_OK)
    assert run("--help").stdout.startswith("usage: scripts/emulation.sh")
    for words in ((), ("mips",)):
        done = run(*words)
        assert done.returncode == 2
        assert done.stderr.startswith("usage: scripts/emulation.sh")


def test_a_machine_of_that_architecture_needs_none(run: Run, tmp_path: Path) -> None:
    done = run("amd64")
    assert (done.returncode, done.stdout) == (0, "emulation: this machine is amd64 itself\n")
    assert called(tmp_path) == []


def test_what_is_registered_is_left_alone(run: Run, binfmt: Path, tmp_path: Path) -> None:
    (binfmt / "qemu-aarch64").write_text(ENABLED)
    done = run("arm64", id="echo 1000")
    assert (done.returncode, done.stdout) == (
        0,
        "emulation: an emulator of arm64 is registered already, and left alone\n",
    )
    assert called(tmp_path) == []


def test_packages_are_installed_and_the_one_emulator_registered(run: Run, binfmt: Path, tmp_path: Path) -> None:
    install = f"if [[ $1 == install ]]; then mv {tmp_path}/programs/later {tmp_path}/programs/update-binfmts; fi"
    done = run("arm64", apt_get=install, later=registering(binfmt))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("emulation: programs of arm64 run here now\n")
    update, installed, _ = called(tmp_path)
    assert update.startswith("apt-get update")
    assert installed.endswith("qemu-user-static binfmt-support")
    assert (binfmt / "qemu-aarch64").read_text() == ENABLED


def test_what_is_installed_is_registered_after_mounting(run: Run, binfmt: Path, tmp_path: Path) -> None:
    (tmp_path / "qemu-aarch64-static").touch()
    (binfmt / "register").unlink()
    done = run("arm64", update_binfmts=registering(binfmt), mount=f"echo >{binfmt}/register")
    assert done.returncode == 0, done.stderr
    assert called(tmp_path) == [
        f"mount -t binfmt_misc binfmt_misc {binfmt}",
        "update-binfmts --enable qemu-aarch64",
    ]


@pytest.mark.parametrize(
    ("bodies", "said", "then"),
    [
        ({"id": "echo 1000"}, "and this user is not root", "type: sudo scripts/emulation.sh arm64"),
        ({}, "and this machine has no apt", "with this machine's package manager"),
        ({"apt_get": "echo E: no such package; exit 100"}, "E: no such package", "See why above"),
        ({"update_binfmts": "exit 1"}, "is not there, enabled and with flag F", "update-binfmts --display"),
        ({"update_binfmts": "", "mount": "exit 32"}, "cannot be mounted", "outside of containers"),
    ],
)
def test_what_cannot_be_done_is_said(
    run: Run, binfmt: Path, tmp_path: Path, bodies: dict[str, str], said: str, then: str
) -> None:
    if "update_binfmts" in bodies:
        (tmp_path / "qemu-aarch64-static").touch()
    if "mount" in bodies:
        (binfmt / "register").unlink()
    done = run("arm64", **bodies)
    assert done.returncode == 3
    assert said in done.stderr
    assert then in done.stderr


@pytest.mark.parametrize("text", ["disabled\nflags: PF\n", "enabled\nflags: P\n"])
def test_an_emulator_that_containers_do_not_find_is_none(run: Run, binfmt: Path, tmp_path: Path, text: str) -> None:
    (binfmt / "qemu-aarch64").write_text(text)
    (tmp_path / "qemu-aarch64-static").touch()
    done = run("arm64", update_binfmts="exit 1")
    assert done.returncode == 3
    assert (binfmt / "qemu-aarch64").read_text() == text
