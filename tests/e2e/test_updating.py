"""`invoke outdated`, `bump` and `diff` with remotes of this machine: git and packages over https, a registry."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ascend_images.sandbox.registry import Registry
from tests.e2e.git_server import git_server, make_authority
from tests.e2e.package_index import PackageIndex, package_index
from tests.e2e.test_versions_lock import git, push
from tests.lock_kit import ROOT
from tests.unit.test_updating import PINS

pytestmark = pytest.mark.e2e

HOST = "127.0.0.1"
BASE = "910b-ubuntu22.04-py3.11"
NUMPY = "numpy is pinned to 1.26.4; opencv-python-headless 4.12.0.88 asks for numpy>=2 (its own metadata)"


@dataclass(kw_only=True)
class Project:
    """A project below git whose remotes all lie on this machine."""

    folder: Path
    index: PackageIndex
    repositories: Path
    environment: dict[str, str]
    authority: Path

    def invoke(self, *words: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "invoke", *words]
        if words[0] in ("lock", "outdated", "bump"):
            command += ["--ca-bundle", str(self.authority)]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    @property
    def clean(self) -> bool:
        return git(self.folder, "status", "--porcelain") == ""


def tag(repositories: Path, name: str, requirements: str, *tags: str) -> None:
    """Commit a list of requirements to a repository, which is made where there is none, and tag it."""
    folder = repositories / name
    if not folder.exists():
        folder.mkdir(parents=True)
        git(folder, "-c", "init.defaultBranch=main", "init", "-q")
        for key in ("allowAnySHA1InWant", "allowFilter"):
            git(folder, "config", f"uploadpack.{key}", "true")
    (folder / "requirements.txt").write_text(requirements)
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", requirements)
    for one in tags:
        git(folder, "tag", one)


def fill(index: PackageIndex) -> None:
    for version in ("1.26.4", "1.26.5", "2.2.6"):
        index.add("numpy", version)
    index.add("numpy", "1.26.9", yanked=True)
    index.add("opencv-python-headless", "4.11.0.86", "numpy>=1.21")
    index.add("opencv-python-headless", "4.12.0.88", "numpy>=2")
    index.add("six", "1.0")
    index.add("six", "1.9", "seven>=1")
    index.add("six", "2.0rc1")
    index.add("seven", "1.0")
    # What sources without a pyproject.toml are built with.
    index.add("setuptools", "80.10.2")
    index.add("wheel", "0.45.1")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    one = Registry(tmp_path_factory.mktemp("registry"))
    try:
        place = one.start()
        for release in ("8.1.rc1", "9.1.0"):
            push(place, "cann", f"{release}-{BASE}", ["amd64", "arm64"])
        yield place
    finally:
        one.stop()


@pytest.fixture
def project(tmp_path: Path, registry: str) -> Iterator[Project]:
    folder, repositories = tmp_path / "project", tmp_path / "repositories"
    tag(repositories, "vllm", "six<2\n", "v0.18.0")
    tag(repositories, "vllm", "numpy>=2\n", "v0.19.0")
    tag(repositories, "moving", "six\n")
    authority = make_authority(tmp_path / "authority", HOST)
    folder.mkdir()
    shutil.copy(ROOT / "tasks.py", folder)
    with git_server(repositories, authority, HOST) as server, package_index(authority, HOST) as index:
        fill(index)
        pins = PINS.replace("https://git.example.invalid/", server.url).replace(
            "quay.io/ascend/cann", f"{registry}/cann"
        )
        (folder / "versions.toml").write_text(
            pins.replace('declares = ["six<2"]', 'requirements = ["requirements.txt"]')
        )
        (folder / ".gitignore").write_text("build/\n__pycache__/\n")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))}
        environment = {
            **kept, "UV_DEFAULT_INDEX": index.url, "NO_PROXY": HOST, "no_proxy": HOST,
            "XDG_CACHE_HOME": str(tmp_path / "cache"), "UV_CACHE_DIR": str(tmp_path / "uv"),
        }  # fmt: skip
        made = Project(
            folder=folder, index=index, repositories=repositories, environment=environment, authority=authority.ca
        )
        made.invoke("lock", "--all")
        made.invoke("render")
        git(folder, "-c", "init.defaultBranch=main", "init", "-q")
        for key, value in (("user.name", "T"), ("user.email", "t@example.invalid"), ("commit.gpgsign", "false")):
            git(folder, "config", key, value)
        git(folder, "add", "--all")
        git(folder, "commit", "-q", "-m", "one")
        yield made


def test_outdated_tells_what_is_newer_and_what_it_would_break(project: Project) -> None:
    told = project.invoke("outdated")
    assert f"breaks demand: {NUMPY}" in told
    assert "numpy 1.26.4 -> 2.2.6" in told
    assert "1.26.5 breaks none of that" in told, "1.26.9 was taken back"
    assert "vllm v0.18.0 -> v0.19.0  (small)\n      next: invoke bump small.vllm v0.19.0" in told
    assert "cann 8.1.rc1 -> 9.1.0" in told
    assert "pre-release: 2.0rc1" in told
    assert project.clean
    tag(project.repositories, "moving", "six>1\n")
    assert "the branch is " in project.invoke("outdated")


def test_what_only_resolving_shows_is_told_before_anyone_tries(project: Project) -> None:
    told = project.invoke("outdated", "--variant", "small", "--resolve")
    assert "breaks resolution: small: a contradiction" in told
    assert "vllm 0.19.0 asks for numpy>=2 (requirements.txt" in told


def test_a_remote_that_is_down_is_listed_and_ends_with_6(project: Project) -> None:
    shutil.move(project.repositories / "vllm", project.repositories / "gone")
    told = project.invoke("outdated", code=6)
    assert "so nothing is known of vllm v0.18.0" in told
    assert "numpy 1.26.4 -> 2.2.6" in told
    project.index.down = True
    shutil.rmtree(Path(project.environment["XDG_CACHE_HOME"]))
    told = project.invoke("outdated", code=6)
    assert "so nothing is known of numpy 1.26.4, opencv-python-headless 4.11.0.86, six 1.0" in told


def test_a_bump_is_one_commit_of_pins_locks_and_rendered_files(project: Project) -> None:
    before = project.text("versions.toml")
    told = project.invoke("bump", "six", "1.9", "--commit")
    assert told.count("package six: 1.0 -> 1.9 (small)") == 1
    assert project.clean
    assert project.text("versions.toml") == before.replace('six = "1.0"', 'six = "1.9"')
    assert "seven==1.0" in project.text("locks/small.arm64.txt")
    assert git(project.folder, "log", "-1", "--format=%B") == (
        "Bump small.six 1.0 -> 1.9\n\nPins:\n- package six: 1.0 -> 1.9 (small)\n\n"
        "Packages:\n- seven: added, 1.0 (small on arm64)\n- six: 1.0 -> 1.9 (small on arm64)"
    )
    for check in (["lock", "--check"], ["render", "--check"]):
        command = [sys.executable, "-m", "invoke", *check]
        assert subprocess.run(command, cwd=project.folder, env=project.environment).returncode == 0
    told = project.invoke("diff", "--from", "HEAD~1", "--markdown")
    assert "| package six | 1.0 | 1.9 | small |" in told
    assert "| seven |   | 1.0 | small on arm64 |" in told
    assert project.invoke("diff", "--from", "HEAD") == "HEAD -> the working tree: nothing differs\n"


def test_a_source_is_bumped_to_the_commit_of_its_tag(project: Project) -> None:
    tag(project.repositories, "vllm", "six\n", "v0.18.1")
    commit = git(project.repositories / "vllm", "rev-parse", "v0.18.1")
    dry = project.invoke("bump", "vllm", "0.18.1", "--dry-run")
    assert project.clean
    told = project.invoke("bump", "vllm", "0.18.1")
    assert f"({commit[:12]}) (small)" in told
    assert dry.split("\n\n", 2)[2] == told.split("\n\n", 2)[2]
    assert commit in project.text("dockerfiles/rendered/small.Dockerfile")
    assert "v0.18.0" not in project.text("versions.lock")


@pytest.mark.parametrize(
    ("words", "code", "found"),
    [
        (("opencv-python-headless", "4.12.0.88"), 2, "opencv-python-headless 4.12.0.88 asks for numpy>=2"),
        (("numpy", "2.2.6"), 2, "numpy-cann: numpy 2.2.6 with CANN 8.1.rc1"),
        (("vllm", "v0.19.0"), 2, "vllm 0.19.0 asks for numpy>=2"),
        (("vllm", "v0.18.0rc9"), 2, "v0.18.0rc9: not found on the remote"),
        (("six", "7.7"), 2, "no index has six==7.7"),
    ],
)
def test_a_bump_that_cannot_be_had_changes_nothing(
    project: Project, words: tuple[str, ...], code: int, found: str
) -> None:
    assert found in project.invoke("bump", *words, code=code)
    assert project.clean


def test_a_bump_changes_nothing_where_a_remote_is_down(project: Project) -> None:
    shutil.move(project.repositories / "vllm", project.repositories / "gone")
    project.invoke("bump", "vllm", "v0.19.0", code=6)
    assert project.clean
    project.index.down = True
    shutil.rmtree(Path(project.environment["XDG_CACHE_HOME"]))
    project.invoke("bump", "six", "1.9", code=6)
    assert project.clean
    assert [path.name for path in (project.folder / "build").iterdir()] == ["turns"]
