"""Hosts for tests: a directory that stands for one, with an npu-smi that gives set answers; and facts of hosts."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from ascend_images.host.facts import Container, EngineFacts, HostFacts, Node, Output

SAMPLES = Path(__file__).parent / "data" / "npu-smi"

MANAGERS = ("davinci_manager", "devmm_svm", "hisi_hdc")
DRIVER = {"version": "26.1.0", "package_version": "26.1.0", "compatible_version_fw": "[7.0.0,8.9.9]"}
INSTALL = {"username": "HwHiAiUser", "usergroup": "HwHiAiUser", "driver_install_path_param": "/usr/local/Ascend"}


def sample(name: str) -> str:
    """Return a sample output of npu-smi."""
    return (SAMPLES / f"{name}.txt").read_text(encoding="utf-8")


def nodes(
    *numbers: int, managers: tuple[str, ...] = MANAGERS, mode: int = 0o660, owner: int = 1000
) -> tuple[Node, ...]:
    """Return the nodes of some chips and of managers."""
    names = [*(f"davinci{number}" for number in numbers), *managers]
    return tuple(Node(f"/dev/{name}", mode, owner, owner) for name in names)


def host(**changes: object) -> HostFacts:
    """Return the facts of an A2 host with chips 3, 5 and 6, all in order, with changes."""
    home = "/usr/local/Ascend"
    facts: dict[str, object] = {
        "machine": "x86_64",
        "nodes": nodes(3, 5, 6),
        "paths": {
            f"{home}/driver/lib64": "dir",
            f"{home}/driver/version.info": "file",
            "/usr/local/dcmi": "dir",
            "/usr/local/bin/npu-smi": "file",
            "/etc/ascend_install.info": "file",
        },
        "driver": DRIVER,
        "firmware": {"version": "7.7.0.1.231"},
        "install": INSTALL,
        "npu_smi": "/usr/local/bin/npu-smi",
        "info": Output(0, sample("a2-910b4").replace("Warning", "OK").replace("23.0.2.1", "26.1.0")),
        "boards": {"3": Output(0, sample("board-a2"))},
    }
    return HostFacts(**{**facts, **changes})  # type: ignore[arg-type]


def engine(*containers: Container, runtimes: tuple[str, ...] = ("runc",), default: str = "runc") -> EngineFacts:
    """Return the facts of an engine."""
    return EngineFacts(runtimes=runtimes, default_runtime=default, containers=containers)


def container(name: str, *numbers: int, **more: object) -> Container:
    """Return a running container that was given some chips."""
    devices = tuple(f"/dev/davinci{number}" for number in numbers)
    return Container(name=name, devices=devices, **more)  # type: ignore[arg-type]


def write(root: Path, path: str, text: str = "", mode: int = 0o644) -> Path:
    """Write a file of the host that `root` stands for."""
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)
    return file


def write_npu_smi(root: Path, answers: Mapping[str, tuple[int, str]], path: str = "/usr/local/bin/npu-smi") -> Path:
    """Write an npu-smi that gives a code and a text for each line of arguments, and 255 for any other.

    A text that begins with `!` is shell to run instead.
    """
    cases = [
        f"{shlex.quote(words)}) {text[1:] if text.startswith('!') else f'printf %s {shlex.quote(text)}'}; exit {code};;"
        for words, (code, text) in answers.items()
    ]
    script = "\n".join(["#!/bin/sh", 'case "$*" in', *cases, "*) echo unknown option; exit 255;;", "esac", ""])
    return write(root, path, script, 0o755)


def stand_in(root: Path, numbers: tuple[int, ...] = (0,), home: str = "/usr/local/Ascend") -> Path:
    """Make an A2 host of a directory, npu-smi apart; the nodes are files, which anybody can make."""
    for name in (*(f"davinci{number}" for number in numbers), *MANAGERS):
        write(root, f"/dev/{name}", mode=0o660)
    lines = [
        "Version=26.0.rc1",
        "# nothing",
        "package_version=26.1.0",
        "Version=again",
        "compatible_version_fw=[7.0.0,8.9.9]",
    ]
    write(root, f"{home}/driver/version.info", "\n".join(lines))
    write(root, f"{home}/driver/lib64/libascend_hal.so")
    write(root, f"{home}/firmware/version.info", "Version=7.7.0.1.231\r\npackage_version=25.0.rc1.1\r\n")
    write(root, "/etc/ascend_install.info", f"UserGroup=HwHiAiUser\nDriver_Install_Path_Param={home}\n")
    write(root, "/usr/local/dcmi/dcmi_interface_api.h")
    return root
