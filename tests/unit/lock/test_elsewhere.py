"""A checkout that is not at the pin leaves a trace: on the terminal and in the lock."""

import subprocess
from pathlib import Path

import pytest

from ascend_images.lock import elsewhere
from ascend_images.lock.elsewhere import read_elsewhere
from tests.lock_kit import source, variant

PINNED, OTHER = "a" * 40, "b" * 40
FILES = ("requirements.txt",)


def said(monkeypatch: pytest.MonkeyPatch, head: str, status: str = "", **fields: object) -> list[tuple[str, str]]:
    monkeypatch.setattr(elsewhere, "_git", lambda _, question, *__: head if question == "rev-parse" else status)
    one = variant({}, sources=(source("vllm", requirements=FILES, **fields), source("verl", requirements=FILES)))
    return [(found.note, str(found)) for found in read_elsewhere(one, {"vllm": Path("/x/vllm")})]


def test_nothing_is_said_of_a_checkout_at_the_pinned_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, PINNED, commit=PINNED) == []


def test_another_commit_is_told_beside_the_pinned_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ((note, text),) = said(monkeypatch, OTHER, commit=PINNED)
    assert note == "vllm read at bbbbbbbbbbbb, pinned aaaaaaaaaaaa"
    assert text == (
        "--source vllm=/x/vllm is at bbbbbbbbbbbb, not at the pinned aaaaaaaaaaaa: what it asks for is taken from "
        "there all the same, and the lock says so"
    )


def test_a_pin_whose_commit_is_not_known_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    ((note, text),) = said(monkeypatch, OTHER)
    assert note == "vllm read at bbbbbbbbbbbb, pinned v1, whose commit is not known"
    assert "is at bbbbbbbbbbbb, and which commit the pinned v1 is is not known: what it asks for" in text


def test_files_that_were_changed_are_told_at_the_pinned_commit_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    ((note, text),) = said(monkeypatch, PINNED, " M requirements.txt", commit=PINNED)
    assert note == "vllm read at aaaaaaaaaaaa with uncommitted changes, pinned aaaaaaaaaaaa"
    assert "with uncommitted changes, which the pinned commit does not have" in text


def test_a_checkout_of_which_git_says_nothing_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    ((note, _),) = said(monkeypatch, "", commit=PINNED)
    assert note == "vllm read at no commit, pinned aaaaaaaaaaaa"


def test_a_source_of_which_no_file_is_read_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "_git", lambda *_: OTHER)
    assert read_elsewhere(variant({}, sources=(source("vllm"),)), {"vllm": Path("/x")}) == ()


@pytest.mark.subprocess
def test_git_is_asked_and_nothing_of_the_checkout_is_run_or_written(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        settings = ["-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", "-C", tmp_path, *settings, *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q")
    (tmp_path / "requirements.txt").write_text("numpy\n")
    git("add", "--all")
    git("commit", "-q", "-m", "one")
    (tmp_path / "ran.sh").write_text("#!/bin/sh\ntouch ran\n")
    (tmp_path / "ran.sh").chmod(0o755)
    git("config", "core.fsmonitor", "./ran.sh")
    one = variant({}, sources=(source("vllm", requirements=FILES, commit=git("rev-parse", "HEAD")),))
    (tmp_path / "ran").unlink(missing_ok=True)
    index = (tmp_path / ".git/index").read_bytes()
    assert read_elsewhere(one, {"vllm": tmp_path}) == ()
    (tmp_path / "requirements.txt").write_text("numpy<2\n")
    (found,) = read_elsewhere(one, {"vllm": tmp_path})
    assert "with uncommitted changes" in found.note
    assert (tmp_path / ".git/index").read_bytes() == index
    assert not (tmp_path / "ran").exists()


@pytest.mark.subprocess
def test_a_repository_of_the_callers_is_not_asked_in_the_checkouts_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a git hook, which runs with GIT_DIR and GIT_INDEX_FILE set."""
    heads = []
    for name in ("vllm", "callers"):
        subprocess.run(["git", "init", "-q", tmp_path / name], check=True)
        who = ["-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", tmp_path / name, *who, "commit", "-q", "--allow-empty", "-m", name], check=True)
        heads.append(elsewhere._git(tmp_path / name, "rev-parse", "HEAD"))
    for variable, path in (("GIT_DIR", ""), ("GIT_INDEX_FILE", "index"), ("GIT_OBJECT_DIRECTORY", "objects")):
        monkeypatch.setenv(variable, str(tmp_path / "callers/.git" / path))
    one = variant({}, sources=(source("vllm", requirements=FILES, commit=heads[0]),))
    assert heads[0] != heads[1]
    assert read_elsewhere(one, {"vllm": tmp_path / "vllm"}) == ()
