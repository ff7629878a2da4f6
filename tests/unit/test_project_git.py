"""What git complains of, told to people."""

import subprocess
from pathlib import Path

import pytest

from ascend_images import project_git
from ascend_images.errors import MissingTool
from ascend_images.project_git import commit_of, committed, complaint, git, require_repository
from tests import publish_kit

ADVICE = "To add an exception for this directory, call:\n\n\t"
SAFE = "git config --global --add safe.directory"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("", "exit code 1"),
        (
            f"fatal: detected dubious ownership in repository at '/x'\n{ADVICE}{SAFE} /x\n",
            "detected dubious ownership in repository at '/x'",
        ),
        (
            "fatal: Unable to create '/x/.git/index.lock': File exists.\n\nAnother git process seems to be running.\n",
            "Unable to create '/x/.git/index.lock': File exists.",
        ),
        (
            "error: gpg failed to sign the data\nfatal: failed to write commit object\n",
            "gpg failed to sign the data; failed to write commit object",
        ),
        ("one\n\nerror: two\nthree\n", "one\n  error: two\n  three"),
        ("".join(f"{number}\n" for number in range(99)), "\n  ".join(str(number) for number in range(89, 99))),
    ],
)
def test_gits_own_words_count_and_else_the_last_lines_of_a_hook(said: str, told: str) -> None:
    assert complaint(subprocess.CompletedProcess([], 1, "", said)) == told


@pytest.mark.parametrize(
    ("said", "do"),
    [
        # git 2.35.2, before its words were others
        (f"fatal: unsafe repository ('/x y' is owned by someone else)\n{ADVICE}{SAFE} '/x y'\n", f"{SAFE} '/x y'"),
        ("fatal: not a git repository: /gone/.git/worktrees/x\n", "git status"),
    ],
)
def test_a_repository_that_git_refuses_is_told_with_what_to_type(
    monkeypatch: pytest.MonkeyPatch, said: str, do: str
) -> None:
    refusal = subprocess.CompletedProcess([], 128, "", said)
    monkeypatch.setattr(project_git, "run", lambda *_, **__: refusal)
    with pytest.raises(MissingTool, match="git refuses: ") as error:
        require_repository(Path())
    assert error.value.do == do


def test_what_gives_no_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(command: list[str], *, limit: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(command, limit)

    monkeypatch.setattr(project_git, "run", late)
    with pytest.raises(MissingTool, match="git status gave no answer within 120 s"):
        git(Path(), "status")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    publish_kit.git(root, "init", "--quiet", "--initial-branch=main")
    (root / "file").write_bytes(b"\xff\r\n")
    publish_kit.commit(root)
    return root


@pytest.mark.subprocess
def test_the_content_of_a_file_at_a_revision(root: Path) -> None:
    head = publish_kit.git(root, "rev-parse", "HEAD").strip()
    assert commit_of(root, "main") == head
    assert committed(root, "main", "file") == b"\xff\r\n"


@pytest.mark.subprocess
@pytest.mark.parametrize("revision", ["main", "gone", "origin/published", "@{upstream}", "--output=x", ""])
def test_what_is_not_there_is_nothing(root: Path, revision: str) -> None:
    assert committed(root, revision, "no file") is None
    assert bool(commit_of(root, revision)) is (revision == "main")
    assert not (root / "x:.").exists()
    assert [path.name for path in root.iterdir() if path.name != ".git"] == ["file"]


@pytest.mark.subprocess
def test_without_a_repository_nothing_is_there(tmp_path: Path) -> None:
    assert (commit_of(tmp_path, "HEAD"), committed(tmp_path, "HEAD", "file")) == ("", None)


@pytest.mark.subprocess
@pytest.mark.parametrize("how", ["no git", "of somebody else", "damaged"])
def test_git_that_cannot_tell_is_not_taken_for_nothing(root: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    blob = publish_kit.git(root, "rev-parse", "HEAD:file").strip()
    if how == "no git":
        monkeypatch.setattr(project_git, "_command", lambda *_: ["no-such-git"])
    elif how == "of somebody else":
        monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    else:
        (root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(MissingTool) as raised:
        committed(root, "HEAD", "file")
    assert raised.value.do
    if how != "damaged":
        with pytest.raises(MissingTool):
            commit_of(root, "HEAD")


@pytest.mark.subprocess
def test_the_repository_is_the_projects_whatever_the_caller_says(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a hook of another repository's."""
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    assert committed(root, "HEAD", "file")
    require_repository(root)
