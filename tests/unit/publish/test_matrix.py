"""What CI must build: only what is rendered, locked or based otherwise than at a commit."""

from pathlib import Path

import pytest

from ascend_images.errors import BadInput
from ascend_images.pins.platform import Arch
from ascend_images.pins.versions_lock import VersionsLock
from ascend_images.publish.matrix import changed_since, matrix
from tests.publish_kit import commit, project, variant
from tests.remotes import digest, locked_base

pytestmark = pytest.mark.subprocess

A2, A3 = variant("a2"), variant("a3")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    project(tmp_path, "a2", "a3")
    for name in ("a2", "a3"):
        (tmp_path / "dockerfiles" / "rendered" / f"{name}.image.json").write_text("{}\n")
        for arch in Arch:
            (tmp_path / "locks").mkdir(exist_ok=True)
            (tmp_path / "locks" / f"{name}.{arch.value}.txt").write_text("six==1\n")
    write_bases(tmp_path, "1")
    commit(tmp_path)
    return tmp_path


def write_bases(root: Path, index: str, *, amd64: str = "2") -> None:
    entries = [
        locked_base(one.base_image, index=index, platforms={"linux/amd64": digest(amd64), "linux/arm64": digest("3")})
        for one in (A2,)
    ]
    (root / "versions.lock").write_text(str(VersionsLock().having(*entries)))


def names(root: Path, revision: str = "HEAD") -> list[str]:
    return [one.name for one in changed_since(root, revision, (A2, A3))]


def test_one_entry_for_each_variant_and_architecture_with_its_runner() -> None:
    entries = matrix([A2, variant("a3", platforms=(Arch.ARM64,))])["include"]
    assert [(one["variant"], one["arch"], one["runner"]) for one in entries] == [
        ("a2", "amd64", "ubuntu-24.04"),
        ("a2", "arm64", "ubuntu-24.04-arm"),
        ("a3", "arm64", "ubuntu-24.04-arm"),
    ]
    assert entries[2]["npu"] == ["self-hosted", "linux", "ascend-a3"]


def test_nothing_changed_nothing_is_built(root: Path) -> None:
    (root / "README.md").write_text("more\n")
    assert names(root) == []


CHANGES = (
    "dockerfiles/rendered/a3.Dockerfile",
    "dockerfiles/rendered/a3.image.json",
    "locks/a3.amd64.txt",
    "locks/a3.arm64.txt",
)


@pytest.mark.parametrize("path", CHANGES)
@pytest.mark.parametrize("committed", [True, False])
def test_a_variant_whose_files_changed_is_built(root: Path, path: str, committed: bool) -> None:
    (root / path).write_text("other\n")
    if committed:
        commit(root)
    assert names(root, "HEAD~1" if committed else "HEAD") == ["a3"]


@pytest.mark.parametrize("path", CHANGES)
def test_a_file_that_is_new_or_gone_counts(root: Path, path: str) -> None:
    (root / path).unlink()
    assert names(root) == ["a3"]
    commit(root)
    assert names(root) == []
    (root / path).write_text("new\n")
    assert names(root) == ["a3"]


def test_a_variant_whose_base_has_another_digest_is_built(root: Path) -> None:
    write_bases(root, "1", amd64="4")
    assert names(root) == ["a2"]


def test_a_base_whose_attestation_alone_is_another_is_the_same(root: Path) -> None:
    write_bases(root, "9")
    assert names(root) == []


@pytest.mark.parametrize("revision", ["nowhere", "--help", "-x", "HEAD~99", ""])
def test_a_revision_that_is_not_there(root: Path, revision: str) -> None:
    with pytest.raises(BadInput, match="no such commit here"):
        names(root, revision)


def test_without_a_repository_there_is_no_revision(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such commit here"):
        names(tmp_path)
