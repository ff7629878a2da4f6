"""The set_env scripts: they set what the real ones set, in that order, and break where those break."""

import subprocess
from pathlib import Path

import pytest

from ascend_images.pins.cann_layout import cann_layout
from ascend_images.pins.platform import host_arch
from ascend_images.sandbox import cann_tree
from ascend_images.sandbox.tree import write_tree

pytestmark = pytest.mark.subprocess

PYTHON = "/usr/local/python3.12.13"
PLAIN = {"PATH": "/usr/bin:/bin:/sbin", "LD_LIBRARY_PATH": "/before", "PYTHONPATH": "/modules"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_tree(cann_tree.release_tree("8.5.2", host_arch(), "910b"), tmp_path)
    return tmp_path


def sourced(
    root: Path, *scripts: str, before: str = "", environment: dict[str, str] = PLAIN
) -> "subprocess.CompletedProcess[str]":
    lines = [before, *(f"source {root}{script}" for script in scripts), "env"]
    command = ["bash", "--norc", "-c", "\n".join(lines)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def variables(root: Path, *scripts: str, environment: dict[str, str] = PLAIN) -> dict[str, str]:
    done = sourced(root, *scripts, environment=environment)
    assert done.returncode == 0, done.stderr
    text = done.stdout.replace(str(root), "")
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def test_together_they_add_what_our_images_have_in_env_in_the_same_order(root: Path) -> None:
    layout = cann_layout("8.5.2", PYTHON)
    found = variables(root, *layout.scripts)
    for name, value in layout.environment.items():
        wanted = [
            entry
            for entry in value.replace("{kernel_arch}", host_arch().kernel).split(":")
            if "/Ascend" in entry or entry == ""
        ]
        if name in {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "CMAKE_PREFIX_PATH"}:
            added = [entry for entry in found[name].split(":") if "/Ascend" in entry and not entry.endswith("/devlib")]
            assert added == wanted, name
        elif name != "ASCEND_TOOLKIT_LATEST_HOME":
            assert found[name] == value, name


def test_what_was_there_stays_behind_what_is_added(root: Path) -> None:
    found = variables(root, "/usr/local/Ascend/ascend-toolkit/set_env.sh")
    assert found["LD_LIBRARY_PATH"].split(":")[-2:] == ["/before", "/usr/local/Ascend/cann-8.5.2/devlib"]
    assert found["PYTHONPATH"].endswith(":/modules")
    assert found["PATH"].endswith(":/usr/bin:/bin:/sbin")


def test_an_older_release_goes_and_what_names_latest_stays(root: Path) -> None:
    old = f"{root}/usr/local/Ascend/cann-8.5.1/lib64"
    latest = f"{root}/usr/local/Ascend/ascend-toolkit/latest/lib64"
    found = variables(
        root,
        "/usr/local/Ascend/ascend-toolkit/set_env.sh",
        environment={**PLAIN, "LD_LIBRARY_PATH": f"{old}:{latest}:"},
    )
    assert "cann-8.5.1" not in found["LD_LIBRARY_PATH"]
    # The empty last element, which means the current directory, is kept as well.
    assert found["LD_LIBRARY_PATH"].endswith(
        "/driver:/usr/local/Ascend/ascend-toolkit/latest/lib64::/usr/local/Ascend/cann-8.5.2/devlib"
    )


def test_where_the_driver_is_mounted_no_stubs_are_added(root: Path) -> None:
    driver = root / "usr/local/Ascend/driver/lib64"
    driver.mkdir(parents=True)
    (driver / "libascend_hal.so").touch()
    found = variables(
        root, "/usr/local/Ascend/ascend-toolkit/set_env.sh", environment={**PLAIN, "LD_LIBRARY_PATH": str(driver)}
    )
    assert "devlib" not in found["LD_LIBRARY_PATH"]


def test_the_toolkit_script_breaks_under_set_u(root: Path) -> None:
    failed = sourced(root, "/usr/local/Ascend/ascend-toolkit/set_env.sh", before="set -u")
    assert failed.returncode != 0
    assert "$1: unbound variable" in failed.stderr


def test_the_atb_script_breaks_under_set_u(root: Path) -> None:
    failed = sourced(root, "/usr/local/Ascend/nnal/atb/set_env.sh", before="set -u")
    assert failed.returncode != 0
    assert "ZSH_VERSION: unbound variable" in failed.stderr


def test_the_atb_script_takes_the_abi_it_is_told(root: Path) -> None:
    found = variables(root, "/usr/local/Ascend/nnal/atb/set_env.sh --cxx_abi=0")
    assert found["ATB_HOME_PATH"] == "/usr/local/Ascend/nnal/atb/latest/atb/cxx_abi_0"


def test_the_atb_script_asks_torch_where_it_is_told_nothing(root: Path) -> None:
    (root / "bin").mkdir()
    (root / "bin/python3").write_text("#!/bin/sh\necho False\n")
    (root / "bin/python3").chmod(0o755)
    script = "/usr/local/Ascend/nnal/atb/set_env.sh"
    assert variables(root, script)["ATB_HOME_PATH"].endswith("/cxx_abi_1")
    old = variables(root, script, environment={**PLAIN, "PATH": f"{root}/bin:{PLAIN['PATH']}"})
    assert old["ATB_HOME_PATH"].endswith("/cxx_abi_0")


def test_the_words_of_the_command_do_not_become_options(root: Path) -> None:
    script = f'source {root}/usr/local/Ascend/ascend-toolkit/set_env.sh && exec "$@"'
    done = subprocess.run(
        ["bash", "-c", script, "--", "printenv", "ASCEND_HOME_PATH"],
        env=PLAIN,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == f"{root}/usr/local/Ascend/cann-8.5.2"
