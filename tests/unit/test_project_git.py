"""What git complains of, told to people."""

import subprocess
from pathlib import Path

import pytest

from ascend_images import project_git
from ascend_images.errors import MissingTool
from ascend_images.project_git import complaint, git, require_repository

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
