"""The operating system's own Python at the place of a base image's: an environment that finds pip, and nothing else."""

from pathlib import Path

import pytest

from ascend_images.errors import MissingTool
from ascend_images.pins.platform import Arch
from ascend_images.sandbox import os_python
from ascend_images.sandbox.os_python import os_python_context
from tests.unit.sandbox.test_python_prefix import python

HOME = "/usr/local/python3.11.14"


def test_it_is_an_environment_of_the_systems_python_with_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    prefix = python(tmp_path, "3.11.7", "3.11")
    monkeypatch.setattr(os_python, "find_prefixes", lambda *_: iter([prefix]))
    folder = os_python_context("3.11", Arch.ARM64, HOME) / HOME[1:]
    links = {path.name: str(path.readlink()) for path in (folder / "bin").iterdir() if path.is_symlink()}
    assert links == {"python": "python3.11", "python3": "python3.11", "python3.11": "/usr/bin/python3.11"}
    assert (folder / "pyvenv.cfg").read_text() == "home = /usr/bin\ninclude-system-site-packages = false\n"
    assert (folder / "bin/pip3").read_text().startswith(f"#!{HOME}/bin/python3.11\n")
    packages = folder / "lib/python3.11/site-packages"
    assert {path.name for path in packages.iterdir()} == {"pip", "pip-23.2.1.dist-info"}


def test_a_machine_without_that_python_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os_python, "find_prefixes", lambda *_: iter(()))
    with pytest.raises(MissingTool, match=r"no CPython 3\.11"):
        os_python_context("3.11", Arch.ARM64, HOME)
