"""From pins to one tag for two architectures, as a user types it; what must not be released moves no tag.

A small a2 is built of stand-ins for both architectures, one of them under emulation, and goes through a registry of the
test's own: pushed, joined, verified on a stand-in host, promoted, listed. The tests follow one another.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ascend_images.pins.platform import Arch
from ascend_images.publish.index import images_of, parse_index
from ascend_images.publish.published import FILE, load
from ascend_images.publish.registry import Repository
from ascend_images.sandbox.host import make_host
from ascend_images.verify.report import load_reports
from tests.e2e.builds import ROOT, docker, invoke

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.network,
    pytest.mark.skipif(os.geteuid() != 0, reason="emulation and device nodes take root"),
]

DATA = ROOT / "tests" / "data" / "two-architectures"
TAG = "v0.18.0-cann8.5.1-torch_npu2.9.0-910b-ubuntu22.04-py3.11-sandbox"
ALIAS = "latest-ms-swift-910b-ubuntu-sandbox"
EPOCH = 1_700_000_000
BUILD = ("build", "--variant", "a2", "--arch", "amd64,arm64", "--sandbox", "--push", "--json")
#: A line of ENV that is right for one architecture alone, which the image's own check says.
OF_AMD64 = 'BLAS_HOME = "/usr/lib/x86_64-linux-gnu"'
#: What the image says of itself where it runs; the last of it was compiled for its architecture.
LOOK = "uname -m; python3 -c 'from vllm_ascend import vllm_ascend_C as c; print(*c.built_with(), c.__file__)'"


@dataclass(frozen=True)
class Project:
    """A committed project in a folder, whose images go to one repository."""

    folder: Path
    repository: str

    def commit(self, number: int) -> None:
        """Render the pins and commit everything; the time of the commit orders what is built of it."""
        assert invoke("render", folder=self.folder).returncode == 0
        date = f"{EPOCH + number} +0000"
        own = {**os.environ, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        for words in (("add", "--all"), ("commit", "--quiet", "--message", f"{number}")):
            command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", *words]
            subprocess.run(command, cwd=self.folder, env=own, check=True)

    def pin(self, environment: str, number: int) -> None:
        """Write the pins anew, with a line more in the environment of the image, and commit them."""
        pins = (DATA / "versions.toml").read_text().replace("@REPOSITORY@", self.repository)
        (self.folder / "versions.toml").write_text(f"{pins}{environment}\n")
        self.commit(number)

    def verify(self, arch: Arch, host: Path) -> subprocess.CompletedProcess[str]:
        """Type what `nox -s verify -- …` runs for one platform of the joined candidate.

        By that platform's own digest: of an index the engine shows this machine's image, once it has that.
        """
        image = f"{self.repository}@{self.manifest()['platforms'][arch.platform]['digest']}"
        words = ["--variant", "a2", "--sandbox", "--image", image, "--platform", arch.platform]
        words += ["--host-root", str(host), "--require-npu", "--report-dir", "build/verify"]
        command = [sys.executable, "-m", "tests.verify", *words]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True)

    def manifest(self) -> dict[str, Any]:
        """Return what was joined last."""
        found: dict[str, Any] = json.loads((self.folder / "build/manifests/a2.json").read_text())
        return found

    def joined(self) -> str:
        """Return the digest of what was joined last."""
        return str(self.manifest()["digest"])

    def tags(self) -> dict[str, str]:
        """Return what each readable tag of the registry stands for."""
        client = Repository(self.repository)
        named = [tag for tag in client.tags() if not tag.startswith("candidate-")]
        return {tag: stored.digest for tag in named if (stored := client.manifest(tag)) is not None}


@pytest.fixture(scope="module")
def project(registry: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("two") / "project"
    for name in ("tasks.py", ".dockerignore", "scripts/image_check.py", "tests/stand_ins.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    for name in ("ascend_images/inside", "tests/verify"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / ".gitignore").write_text("build/\n__pycache__/\n")
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(folder)], check=True)
    made = Project(folder, f"{registry}/ascend/ms-swift")
    made.pin("", 1)
    yield made
    left = docker("image", "ls", "--all", "--quiet", "--no-trunc", made.repository).split()
    if left:
        docker("image", "rm", "--force", *dict.fromkeys(left))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> dict[Arch, Path]:
    """Stand-in hosts with one chip of A2, by architecture."""
    top = tmp_path_factory.mktemp("hosts")
    return {arch: make_host(top / arch.value, "a2", arch=arch) for arch in Arch}


@pytest.fixture(scope="module")
def published(project: Project, host: dict[Arch, Path]) -> str:
    """Do the whole of it once; return the digest that the tags stand for."""
    done = invoke(*BUILD, folder=project.folder)
    assert done.returncode == 0, done.stderr[-5000:]
    done = invoke("manifest", "--variant", "a2", folder=project.folder)
    assert done.returncode == 0, done.stderr
    assert project.tags() == {}
    for arch in Arch:
        verified = project.verify(arch, host[arch])
        assert verified.returncode == 0, verified.stdout
    done = invoke("promote", "--variant", "a2", folder=project.folder)
    assert done.returncode == 0, done.stderr
    assert invoke("tags", folder=project.folder).returncode == 0
    project.commit(2)
    return project.joined()


def test_one_index_holds_an_image_for_each_architecture(project: Project, published: str) -> None:
    assert project.tags() == {TAG: published, ALIAS: published}
    stored = Repository(project.repository).manifest(TAG)
    assert stored is not None
    images = images_of(parse_index(stored.content, TAG), TAG)
    assert list(images) == [Arch.AMD64, Arch.ARM64]
    records = [json.loads((project.folder / f"build/records/a2.{arch.value}.json").read_text()) for arch in images]
    assert [entry.digest for entry in images.values()] == [record["manifest"] for record in records]


def test_each_was_verified_on_its_own_and_in_full(project: Project, published: str) -> None:
    reports = {report.platform: report for report in load_reports(project.folder / "build/verify")}
    parts = project.manifest()["platforms"]
    assert {platform: report.digest for platform, report in reports.items()} == {
        arch.platform: parts[arch.platform]["digest"] for arch in Arch
    }
    for report in reports.values():
        assert {"compiled-extensions", "chip", "matmul"} <= {result.check for result in report.of("pass")}
    (publication,) = load(project.folder / FILE).publications
    assert publication.digest == published
    assert set(publication.checks) == set(reports)
    assert publication.waived == {}


@pytest.mark.parametrize("arch", Arch)
def test_pulled_by_tag_each_platform_gets_its_own_image(project: Project, published: str, arch: Arch) -> None:
    """What runs tells which image it is; an engine that has several of one name shows its own machine's."""
    names = [f"{project.repository}:{tag}" for tag in (TAG, ALIAS)]
    try:
        for name in names:
            docker("pull", "--quiet", f"--platform={arch.platform}", name)
            (image,) = json.loads(docker("image", "inspect", name))
            assert f"{project.repository}@{published}" in image["RepoDigests"]
        words = ("--rm", "--network=none", f"--platform={arch.platform}", names[0], "bash", "-c", LOOK)
        machine, torch, torch_npu, extension = docker("run", *words).split()
        assert machine == arch.kernel
        assert (torch.partition("+")[0], torch_npu) == ("2.9.0", "2.9.0")
        assert extension.startswith("/vllm-ascend/vllm_ascend/")
        assert f"-{arch.kernel}-" in extension
    finally:
        for name in names:
            docker("image", "rm", "--force", name)


def test_the_lists_of_tags_name_it(project: Project, published: str) -> None:
    for name in ("docs/supported_tags.md", "docs/supported_tags.zh.md"):
        text = (project.folder / name).read_text()
        assert published in text
        assert TAG in text
    done = invoke("tags", "--check", folder=project.folder)
    assert done.returncode == 0, done.stderr


def test_where_one_architecture_is_broken_nothing_moves(project: Project, published: str) -> None:
    before = project.tags()
    project.pin(OF_AMD64, 3)
    done = invoke(*BUILD, folder=project.folder)
    assert done.returncode == 4, done.stderr[-5000:]
    summary = json.loads(done.stdout)
    assert [one["arch"] for one in summary["built"]] == ["amd64"]
    assert [one["arch"] for one in summary["failed"]] == ["arm64"]
    assert "environment-paths" in (project.folder / "build/logs/a2.arm64.log").read_text()
    done = invoke("manifest", "--variant", "a2", folder=project.folder)
    assert done.returncode == 7
    assert "linux/arm64" in done.stderr
    done = invoke("promote", "--variant", "a2", folder=project.folder)
    assert done.returncode == 7
    assert "other pins" in done.stderr
    assert project.tags() == before == {TAG: published, ALIAS: published}
    assert len(load(project.folder / FILE).publications) == 1


def test_where_one_check_fails_nothing_moves(
    project: Project, published: str, host: dict[Arch, Path], tmp_path: Path
) -> None:
    """On a host with other chips the emulated image does not pass; what passes on the other platform does not help."""
    before = project.tags()
    project.pin('TASK_QUEUE_ENABLE = "1"', 4)
    assert invoke(*BUILD, folder=project.folder).returncode == 0
    assert invoke("manifest", "--variant", "a2", folder=project.folder).returncode == 0
    assert project.joined() != published
    assert project.verify(Arch.AMD64, host[Arch.AMD64]).returncode == 0
    others = make_host(tmp_path / "host", "a3", (0, 1), arch=Arch.ARM64)
    assert project.verify(Arch.ARM64, others).returncode == 1
    done = invoke("promote", "--variant", "a2", folder=project.folder)
    assert done.returncode == 7
    assert "linux/arm64: chip: fail" in done.stderr
    assert "linux/amd64" not in done.stderr
    assert project.tags() == before == {TAG: published, ALIAS: published}
    assert len(load(project.folder / FILE).publications) == 1
