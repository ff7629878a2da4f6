"""The time that images carry: of their pins, and never one that would be newer than all that comes after it."""

import os
import subprocess
from pathlib import Path

import pytest

from ascend_images import project_git
from ascend_images.errors import BadInput, MissingTool
from ascend_images.images.epoch import FALLBACK, reason_against, source_date_epoch

PINS, README = 1_600_000_001, 1_600_000_500


def commit(root: Path, path: str, time: int) -> None:
    (root / path).parent.mkdir(exist_ok=True)
    (root / path).write_text(str(time))
    git = ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@t"]
    dates = {"GIT_COMMITTER_DATE": f"{time} +0000", "GIT_AUTHOR_DATE": "1500000000 +0000"}
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", path], check=True, env={**os.environ, **dates})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project whose pins are older than its last commit, and newer than its first."""
    root = tmp_path / "project"
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    commit(root, "LICENSE", PINS - 1)
    commit(root, "versions.toml", PINS)
    commit(root, "README.md", README)
    return root


def test_the_callers_time_is_obeyed(tmp_path: Path) -> None:
    assert source_date_epoch(tmp_path, {"SOURCE_DATE_EPOCH": " 1700000000 "}) == 1700000000


@pytest.mark.parametrize("text", ["yesterday", "-1", "1.5", "1" * 12])
def test_a_time_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInput, match="SOURCE_DATE_EPOCH is"):
        source_date_epoch(tmp_path, {"SOURCE_DATE_EPOCH": text})


@pytest.mark.subprocess
def test_the_time_is_that_of_the_last_commit_of_pins_or_locks(tmp_path: Path) -> None:
    assert source_date_epoch(tmp_path, {}) == FALLBACK, "no repository"
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    assert source_date_epoch(tmp_path, {}) == FALLBACK, "no commit"
    commit(tmp_path, "README.md", 1600000000)
    assert source_date_epoch(tmp_path, {}, push=True) == FALLBACK, "no commit of pins"
    commit(tmp_path, "versions.toml", 1600000000)
    commit(tmp_path, "locks/a2.amd64.txt", 1600000001)
    commit(tmp_path, "README.md", 1600000002)
    assert source_date_epoch(tmp_path, {}) == 1600000001


@pytest.mark.subprocess
def test_the_repository_is_that_of_the_project_whatever_a_hook_says(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    assert source_date_epoch(root, {}) == PINS


@pytest.mark.subprocess
def test_git_that_cannot_tell_is_no_project_without_commits(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root in a container that has somebody else's project."""
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(MissingTool, match="dubious ownership") as raised:
        source_date_epoch(root, {})
    assert "safe.directory" in raised.value.do
    assert source_date_epoch(root, {"SOURCE_DATE_EPOCH": "7"}) == 7
    monkeypatch.setattr(project_git, "_command", lambda *_: ["no-such-git"])
    with pytest.raises(MissingTool, match="not installed"):
        source_date_epoch(root, {})


@pytest.mark.subprocess
@pytest.mark.parametrize("epoch", [0, 7, PINS, README])
def test_any_older_time_may_be_pushed(root: Path, epoch: int) -> None:
    """That of the pins, of HEAD, of whatever others build reproducibly by."""
    assert source_date_epoch(root, {"SOURCE_DATE_EPOCH": str(epoch)}, push=True) == epoch


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (4102444800, "the time of the pins is 2100-01-01 00:00:00 UTC, and now it is 2020-"),
        (99999999999, "the time of the pins is 5138-11-16 09:46:39 UTC, and now it is 2020-"),
        (README + 1, "the time of the pins is 2020-09-13 12:35:01 UTC, and HEAD is of 2020-09-13 12:35:00 UTC"),
    ],
)
def test_what_would_be_newer_than_all_that_comes_is_not_pushed(root: Path, given: int, reason: str) -> None:
    now = README + 3600.0
    environment = {"SOURCE_DATE_EPOCH": str(given)}
    with pytest.raises(BadInput) as raised:
        source_date_epoch(root, environment, push=True, clock=lambda: now)
    assert raised.value.found.startswith(reason)
    assert raised.value.do == "unset SOURCE_DATE_EPOCH"
    assert source_date_epoch(root, environment, clock=lambda: now) == given, "what stays here is the caller's matter"


@pytest.mark.subprocess
def test_a_commit_whose_clock_was_ahead_is_not_pushed_until_then(root: Path) -> None:
    with pytest.raises(BadInput, match="and now it is") as raised:
        source_date_epoch(root, {}, push=True, clock=lambda: PINS - 3600.0)
    assert "SOURCE_DATE_EPOCH to an earlier time" in raised.value.do
    # Two machines' clocks differ by minutes.
    assert source_date_epoch(root, {}, push=True, clock=lambda: PINS - 60.0) == PINS


@pytest.mark.subprocess
def test_pins_of_a_clock_that_was_ahead_of_the_next_commits(root: Path) -> None:
    commit(root, "versions.toml", README + 100)
    commit(root, "more.md", README)
    assert reason_against(root, README + 100, README + 1000.0) == ""
    assert "HEAD is of" in reason_against(root, README + 101, README + 1000.0)


def test_a_time_that_has_no_year(tmp_path: Path) -> None:
    assert reason_against(tmp_path, 10**15, 0.0).startswith("the time of the pins is 1000000000000000 s, and now")


@pytest.mark.subprocess
def test_a_shallow_clone_pushes_no_time_that_it_does_not_know(root: Path, tmp_path: Path) -> None:
    clones = {}
    for depth in (1, 2, 3):
        clones[depth] = tmp_path / f"depth {depth}"
        source = f"file://{root}"
        subprocess.run(["git", "clone", "--quiet", f"--depth={depth}", source, str(clones[depth])], check=True)
    for depth in (1, 2):
        with pytest.raises(BadInput, match="shallow clone") as raised:
            source_date_epoch(clones[depth], {}, push=True)
    assert "git fetch --unshallow" in raised.value.do
    assert source_date_epoch(clones[1], {}) == README, "an image that stays here"
    assert source_date_epoch(clones[1], {"SOURCE_DATE_EPOCH": str(PINS)}, push=True) == PINS
    assert source_date_epoch(clones[3], {}, push=True) == PINS
