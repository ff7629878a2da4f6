"""`invoke lock` against the real index: a complete lock, files that install by it, contradictions named."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_images.lock.resolver import find_uv
from ascend_images.pins.lockfile import LockFile, file_name
from ascend_images.pins.platform import Arch
from tests.lock_kit import ROOT, real
from tests.upstream import checkouts

pytestmark = [pytest.mark.e2e, pytest.mark.network]

NAME = "a3-cann8.5"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a project that `invoke lock` reads, without any lock."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("tasks.py", "versions.toml", "versions.lock"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folders = checkouts([real(NAME)], tmp_path_factory.mktemp("sources"))[NAME]
    return [word for name, folder in folders.items() for word in ("--source", f"{name}={folder}")]


def invoke_lock(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "invoke", "lock", "--variant", NAME, *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True)


@pytest.fixture(scope="module")
def lock(project: Path, sources: list[str]) -> Path:
    done = invoke_lock(project, "--arch", "arm64", *sources)
    # Where git hosts and registries are out of reach, that is told at the end.
    assert done.returncode in (0, 6), done.stderr
    path = project / "locks" / file_name(NAME, Arch.ARM64)
    assert f"locks/{path.name}: " in done.stdout
    return path


def test_the_arm64_lock_of_a3_with_cann_8_5_is_complete_with_a_hash_for_every_package(lock: Path) -> None:
    made = LockFile.load(lock)
    assert made.complete
    assert all(package.hashes for package in made.packages)
    assert made.versions["torch-npu"] == "2.9.0.post2"
    assert {conflict.whose for conflict in made.conflicts} >= {"vllm", "vllm-ascend", "mindspeed"}
    assert [path.name for path in lock.parent.iterdir()] == [lock.name]


def test_the_committed_lock_explains_the_same_conflicts_as_a_new_one(lock: Path) -> None:
    new, committed = LockFile.load(lock), LockFile.load(ROOT / "locks" / lock.name)
    assert new.inputs == committed.inputs
    assert {(c.whose, c.demand) for c in new.conflicts} == {(c.whose, c.demand) for c in committed.conflicts}


def test_its_lines_install_by_their_hashes(lock: Path, tmp_path: Path) -> None:
    text = lock.read_text()
    lines = [re.search(rf"^{name}==(?:.+\\\n)*.+$", text, re.MULTILINE) for name in ("six", "einops", "attrs")]
    (tmp_path / "some.txt").write_text("\n".join(line[0] for line in lines if line) + "\n")
    command = [find_uv(), "pip", "install", "--no-deps", "--require-hashes", "--python", sys.executable]
    subprocess.run([*command, "--target", str(tmp_path / "into"), "-r", str(tmp_path / "some.txt")], check=True)
    assert (tmp_path / "into/einops/__init__.py").is_file()


def test_a_contradiction_ends_with_exit_code_2_and_leaves_the_lock_as_it_was(
    lock: Path, project: Path, sources: list[str]
) -> None:
    before = lock.read_bytes()
    done = invoke_lock(project, "--arch", "arm64", "--set", "peft=0.20.1", "--set", "fastapi=0.130.0", *sources)
    assert done.returncode == 2
    assert "fastapi is pinned to 0.130.0" in done.stderr
    assert "vllm-ascend 0.18.0 asks for fastapi<0.124.0 (requirements.txt:" in done.stderr
    assert "peft is pinned to 0.20.1" in done.stderr
    assert "mcore-bridge 1.4.3 asks for peft>=0.11,<0.20 (requirements.txt:" in done.stderr
    assert "Traceback" not in done.stderr
    assert lock.read_bytes() == before


def test_without_one_of_its_relaxations_the_stack_fails_and_names_who_asked(
    lock: Path, project: Path, sources: list[str], tmp_path: Path
) -> None:
    for name in ("tasks.py", "versions.lock"):
        shutil.copy(project / name, tmp_path)
    entry = '[[stack."ms-swift-cann8.5".relax]]\nwhose = "vllm-ascend"\ndemand = "torch-npu==2.9.0"\n'
    text = (project / "versions.toml").read_text()
    assert entry in text
    (tmp_path / "versions.toml").write_text(re.sub(re.escape(entry) + r"reason = .*\n", "", text))
    done = invoke_lock(tmp_path, *sources)
    assert done.returncode == 2
    assert "vllm-ascend 0.18.0 asks for torch-npu==2.9.0 (requirements.txt:" in done.stderr
    assert 'whose = "vllm-ascend"' in done.stderr
    assert not (tmp_path / "locks").exists()


def test_a_checkout_of_another_project_ends_in_exit_code_2(project: Path, sources: list[str]) -> None:
    folders = dict(word.split("=", 1) for word in sources if "=" in word)
    done = invoke_lock(project, "--source", f"vllm={folders['MindSpeed']}")
    assert done.returncode == 2
    assert "a checkout of another project" in done.stderr
