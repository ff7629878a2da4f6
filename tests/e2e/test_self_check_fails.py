"""Builds that must fail: one thing of the sandbox's a2 is spoilt each, and its own check names it and stops the build.

What is spoilt is the rendered file, a context or the facts, in a copy; everything else is the bake file that
`--dry-run` prints. Then the same rendered files by plain `docker build`, in a tree that has nothing of the tool.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ascend_images.images.bake import target_name
from ascend_images.pins.platform import host_arch
from ascend_images.sandbox.wheels import stand_in
from tests.e2e.builds import ROOT, invoke

pytestmark = pytest.mark.e2e

ARCH = host_arch()
TARGET = target_name("a2", ARCH)
#: The last line of the rendered file before what is checked is looked at.
BEFORE_CHECK = "\nCOPY --from=facts-out /out/root/ /\n"
OVERLAY = "a2-verl-qwen3.5-overlay"


@pytest.fixture(scope="module")
def bake() -> dict[str, Any]:
    """Return the bake file of the sandbox's a2."""
    ended = invoke("build", "--variant", "a2", "--sandbox", "--arch", ARCH.value, "--dry-run")
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

    def before_check(self, *instructions: str) -> None:
        """Add instructions to what is checked."""
        lines = BEFORE_CHECK + "".join(f"{line}\n" for line in instructions)
        self.dockerfile(lambda text: text.replace(BEFORE_CHECK, lines, 1))

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
        # The check is the last step of its stage.
        assert re.search(r"^ > \[check (\d)/\1\] RUN", ended.stderr, re.MULTILINE), ended.stderr[-3000:]
        return ended.stderr


@pytest.fixture
def spoilt(bake: dict[str, Any], tmp_path: Path) -> Spoilt:
    return Spoilt(bake, tmp_path)


def findings(output: str) -> dict[str, str]:
    """Return what the check said failed: check and subject, and the indented lines below."""
    # The engine shows each line as `#58 1.807 TEXT`, then those of the failed step once more without that.
    said = "\n".join(re.findall(r"^#\d+ \d+\.\d+ (.*)$", output, re.MULTILINE))
    return {
        match["what"]: re.sub(r"\n {9}", "\n", match["more"])
        for match in re.finditer(r"^FAIL +(?P<what>\S.*)(?P<more>(?:\n {9}.*)*)", said, re.MULTILINE)
    }


def test_a_wrong_version(spoilt: Spoilt) -> None:
    """A step after all others that brings another version of a package, as installers do on the way."""
    wheel = stand_in("peft", "0.18.0", python="3.12", arch=ARCH)
    other = spoilt.folder / "other"
    other.mkdir()
    (other / wheel.file_name).write_bytes(wheel.pack())
    spoilt.target["contexts"]["other"] = str(other)
    pip = "python3 -m pip install --no-index --no-deps --no-compile --root-user-action ignore"
    spoilt.before_check(f"RUN --network=none --mount=from=other,target=/tmp/other {pip} /tmp/other/*.whl")
    (what, more), *others = findings(spoilt.build()).items()
    assert (what, others) == ("pinned-packages: peft", [])
    assert "found:  0.18.0\nwanted: 0.19.1\n" in more


def test_a_source_that_is_imported_from_elsewhere(spoilt: Spoilt) -> None:
    """A wheel of vLLM beside its checkout, in site-packages, which Python looks through first."""
    site = "$(python3 -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')"
    spoilt.before_check(f'RUN mkdir "{site}/vllm" && touch "{site}/vllm/__init__.py"')
    (what, more), *others = findings(spoilt.build()).items()
    assert (what, others) == ("source-origin: vllm", [])
    assert re.search(r"found: .*/site-packages/vllm/__init__\.py\nwanted: vllm from /vllm", more)


def test_an_import_from_the_root_folder_that_finds_a_namespace_package(spoilt: Spoilt) -> None:
    """Registered nowhere, /vllm is what `import vllm` finds when a program is started in /."""
    spoilt.dockerfile(lambda text: re.sub(r"^.*install_editable /vllm$", ":", text, flags=re.MULTILINE))
    (what, more), *others = findings(spoilt.build()).items()
    assert (what, others) == ("source-origin: vllm", [])
    assert "found:  an empty namespace package of the folder /vllm\n" in more


def test_an_environment_that_names_another_cann(spoilt: Spoilt) -> None:
    spoilt.before_check("ENV ASCEND_HOME_PATH=/usr/local/Ascend/cann-9.0.0")
    (what, more), *others = findings(spoilt.build()).items()
    assert (what, others) == ("environment-release: CANN 9.0.0", [])
    assert "found:  ASCEND_HOME_PATH (/usr/local/Ascend/cann-9.0.0)\nwanted: CANN 9.1.0 only\n" in more


def test_an_entrypoint_that_names_another_cann(spoilt: Spoilt) -> None:
    """In image.json, which is what a step can see of it; that the image's own is that one is read off the image."""

    def old(image: dict[str, Any]) -> None:
        image["entrypoint"] = [word.replace("cann-9.1.0", "cann-9.0.0") for word in image["entrypoint"]]

    spoilt.image_json(old)
    (what, more), *others = findings(spoilt.build()).items()
    assert (what, others) == ("start-up: CANN 9.0.0", [])
    assert "found:  named by ENTRYPOINT\nwanted: CANN 9.1.0 only\n" in more


def without_tvm_ffi(spoilt: Spoilt) -> Path:
    """Leave out of the lock and the pins what happened to be taken out of public images as a leftover."""
    (lock,) = spoilt.context("lock").glob("*.txt")
    lock.write_text(re.sub(r"^apache-tvm-ffi==.*\n(?: .*\n)*", "", lock.read_text(), flags=re.MULTILINE))
    return lock


def test_a_package_that_another_one_asks_for_is_left_out(spoilt: Spoilt) -> None:
    without_tvm_ffi(spoilt)
    spoilt.image_json(lambda image: image["packages"][ARCH.value].pop("apache-tvm-ffi"))
    (what, more), *others = findings(spoilt.build()).items()
    assert (what, others) == ("package-demands: xgrammar", [])
    assert "asks for apache-tvm-ffi (found none)\n" in more


def test_an_entry_point_that_does_not_import_while_its_package_does(spoilt: Spoilt) -> None:
    """The same, lifted with a reason: no demand is broken then, `import vllm` passes, and its server does not start."""
    lifted = {"whose": "xgrammar", "demand": "apache-tvm-ffi", "reason": "thought to be a leftover"}
    lock = without_tvm_ffi(spoilt)
    conflict = json.dumps({**lifted, "version": "0.2.9", "found": ""})
    lock.write_text(lock.read_text().replace("# inputs:", f"# conflict: {conflict}\n# inputs:", 1))

    def lift(image: dict[str, Any]) -> None:
        image["packages"][ARCH.value].pop("apache-tvm-ffi")
        image["relax"].append(lifted)

    spoilt.image_json(lift)
    output = spoilt.build()
    (what, more), *others = findings(output).items()
    assert (what, others) == ("entry-points: vllm.entrypoints.openai.api_server", [])
    assert "found:  exit code 1: ModuleNotFoundError: No module named 'tvm_ffi'\n" in more
    # What the same cause stops is named behind it; vllm is not among that, so it was imported.
    assert (
        f"not run  entry-points (xgrammar, trl.GRPOTrainer): because of {what}, which fails in the same way" in output
    )


# --- plain docker build


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a copy of what a build context is, without the tool and without git."""
    folder = tmp_path / "tree"
    for name in ("dockerfiles/rendered", "locks"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "image_check.py", folder / "scripts")
    shutil.copytree(ROOT / "ascend_images" / "inside", folder / "ascend_images" / "inside")
    shutil.copy(ROOT / ".dockerignore", folder)
    return folder


def docker_build(
    tree: Path, variant: str, contexts: Mapping[str, str], *options: str
) -> subprocess.CompletedProcess[str]:
    command = ["docker", "build", "-f", f"dockerfiles/rendered/{variant}.Dockerfile", "--progress=plain"]
    command += [word for name, place in contexts.items() for word in ("--build-context", f"{name}={place}")]
    return subprocess.run(
        [*command, "--output=type=cacheonly", *options, "."], cwd=tree, capture_output=True, text=True
    )


def test_a_plain_docker_build_needs_nothing_of_the_tool(bake: dict[str, Any], tree: Path) -> None:
    ended = docker_build(tree, "a2", bake["target"][TARGET]["contexts"], "--no-cache-filter=check")
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert re.search(r" a2: \d+ checks: \d+ pass, 0 fail, ", ended.stderr)


def test_a_plain_docker_build_refuses_an_incomplete_lock_unless_unlocked(bake: dict[str, Any], tree: Path) -> None:
    lock = tree / "locks" / f"a2.{ARCH.value}.txt"
    gap = '# incomplete: six==1.17.0: index "x" could not be reached'
    lock.write_text("\n".join([gap, *(line for line in lock.read_text().splitlines() if "# incomplete" not in line)]))
    contexts = {name: bake["target"][TARGET]["contexts"][name] for name in ("cann", "fetch")}
    refused = docker_build(tree, "a2", contexts, "--target=lock-checked")
    assert refused.returncode != 0
    assert gap in refused.stderr
    assert "build stopped: the lock of a2 is incomplete" in refused.stderr
    assert "UNLOCKED=1" in refused.stderr
    taken = docker_build(tree, "a2", contexts, "--target=lock-checked", "--build-arg=UNLOCKED=1")
    assert taken.returncode == 0, taken.stderr[-3000:]


def test_a_plain_docker_build_refuses_a_cann_package_without_a_checksum(bake: dict[str, Any], tree: Path) -> None:
    contexts = {name: bake["target"][TARGET]["contexts"][name] for name in ("cann", "fetch")}
    refused = docker_build(tree, OVERLAY, contexts, f"--target=cann-run-{ARCH.value}")
    assert refused.returncode != 0
    assert "build stopped: no sha256 is known for Ascend-cann-toolkit_8.5.2_linux-" in refused.stderr
    assert "UNLOCKED=1" in refused.stderr
