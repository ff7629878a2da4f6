"""Builds that must fail: one thing of the sandbox's a2 is spoilt each, and its own check names it and stops the build.

What is spoilt is the rendered file or the facts in a copy; everything else is the bake file that `--dry-run` prints.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
TARGET = "a2_amd64"
#: Where in the rendered file the image is finished and its check has not begun.
BEFORE_CHECK = "# The image's own check;"


@pytest.fixture(scope="module")
def bake() -> dict[str, Any]:
    """Return the bake file of the sandbox's a2."""
    command = [sys.executable, "-m", "invoke", "build", "--variant", "a2", "--sandbox", "--arch", "amd64", "--dry-run"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


class Spoilt:
    """A copy of what a2 is built from, to be spoilt."""

    def __init__(self, bake: dict[str, Any], folder: Path) -> None:
        self.bake = json.loads(json.dumps(bake))
        self.target = self.bake["target"][TARGET]
        self.folder = folder
        # Nothing is kept: what is asked is whether it builds.
        self.target |= {"output": ["type=cacheonly"], "tags": []}

    def dockerfile(self, change: Callable[[str], str]) -> None:
        text = (ROOT / self.target["dockerfile"]).read_text()
        changed = change(text)
        assert changed != text
        path = self.folder / "Dockerfile"
        path.write_text(changed)
        self.target["dockerfile"] = str(path)

    def context(self, name: str) -> Path:
        """Return a copy of a context's folder, which the build takes instead."""
        copy = self.folder / name
        shutil.copytree(self.target["contexts"][name], copy)
        self.target["contexts"][name] = str(copy)
        return copy

    def image_json(self, change: Callable[[dict[str, Any]], object]) -> None:
        path = self.context("facts") / "opt" / "ascend-images" / "image.json"
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    def build(self) -> str:
        """Build; return what was printed. The build must fail, and at the check."""
        path = self.folder / "bake.json"
        path.write_text(json.dumps(self.bake))
        command = ["docker", "buildx", "bake", "--file", str(path), "--progress", "plain", TARGET]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert ended.returncode != 0
        assert re.search(r"^#\d+ \[check 1/1\]", ended.stderr, re.MULTILINE), ended.stderr[-3000:]
        return ended.stderr


@pytest.fixture
def spoilt(bake: dict[str, Any], tmp_path: Path) -> Spoilt:
    return Spoilt(bake, tmp_path)


def before_check(line: str) -> Callable[[str], str]:
    return lambda text: text.replace(BEFORE_CHECK, f"{line}\n{BEFORE_CHECK}", 1)


def failed(output: str) -> list[str]:
    """Return the findings that failed: check and subject."""
    return re.findall(r"FAIL +([\w-]+: .*)", output.split("ERROR: ", maxsplit=1)[0])


def test_a_wrong_version(spoilt: Spoilt) -> None:
    spoilt.image_json(lambda image: image["packages"]["amd64"].update(peft="0.18.0"))
    output = spoilt.build()
    assert failed(output) == ["pinned-packages: peft"]
    assert "0.19.1" in output


def test_a_source_that_is_imported_from_elsewhere(spoilt: Spoilt) -> None:
    site = "$(python3 -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')"
    spoilt.dockerfile(before_check(f'RUN mkdir "{site}/swift" && touch "{site}/swift/__init__.py"'))
    output = spoilt.build()
    assert "source-origin: swift" in failed(output)[0]
    assert "/site-packages/swift/__init__.py" in output


def test_an_import_from_the_root_folder_that_finds_a_namespace_package(spoilt: Spoilt) -> None:
    # Registered nowhere, /vllm is what `import vllm` finds when a program is started in /.
    spoilt.dockerfile(lambda text: re.sub(r"^.*install_editable /vllm$", ":", text, flags=re.MULTILINE))
    output = spoilt.build()
    assert any("vllm" in finding for finding in failed(output))
    assert "namespace" in output


def test_an_environment_that_names_another_cann(spoilt: Spoilt) -> None:
    spoilt.dockerfile(before_check("ENV ASCEND_HOME_PATH=/usr/local/Ascend/cann-9.0.0"))
    output = spoilt.build()
    assert failed(output) == ["environment-release: CANN 9.0.0"]
    assert "ASCEND_HOME_PATH (/usr/local/Ascend/cann-9.0.0)" in output


def test_an_entrypoint_that_names_another_cann(spoilt: Spoilt) -> None:
    def old(image: dict[str, Any]) -> None:
        image["entrypoint"] = [word.replace("cann-9.1.0", "cann-9.0.0") for word in image["entrypoint"]]

    spoilt.image_json(old)
    output = spoilt.build()
    assert failed(output) == ["start-up: CANN 9.0.0"]
    assert "named by ENTRYPOINT" in output


def test_an_entry_point_that_does_not_import_while_its_package_does(spoilt: Spoilt) -> None:
    # What happened to public images: apache-tvm-ffi, which xgrammar links, was taken out as a leftover.
    (lock,) = spoilt.context("lock").glob("*.txt")
    lock.write_text(re.sub(r"^apache-tvm-ffi==.*\n(?: .*\n)*", "", lock.read_text(), flags=re.MULTILINE))
    spoilt.image_json(lambda image: image["packages"]["amd64"].pop("apache-tvm-ffi"))
    output = spoilt.build()
    print("\n".join(failed(output)))
    assert any("xgrammar" in finding or "api_server" in finding for finding in failed(output))
    assert "libtvm_ffi" in output or "apache-tvm-ffi" in output


def test_a_plain_docker_build_needs_nothing_of_the_tool(bake: dict[str, Any], tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name in ("dockerfiles", "locks"):
        shutil.copytree(ROOT / name, tree / name)
    (tree / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "image_check.py", tree / "scripts")
    shutil.copy(ROOT / ".dockerignore", tree)
    contexts = bake["target"][TARGET]["contexts"]
    words = [word for name, place in contexts.items() for word in ("--build-context", f"{name}={place}")]
    command = [
        "docker",
        "buildx",
        "build",
        "-f",
        "dockerfiles/rendered/a2.Dockerfile",
        *words,
        "--output=type=cacheonly",
    ]
    ended = subprocess.run([*command, "."], cwd=tree, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-3000:]
