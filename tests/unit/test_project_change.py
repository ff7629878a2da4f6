"""A change of the project's files: what is copied, what is put in place, and what is left when something goes wrong."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ascend_images import project_change, project_git
from ascend_images.errors import BadInput, CheckFailed, MissingTool
from ascend_images.pins.versions_lock import FILE
from ascend_images.project_change import Copy, Placed, beside, commit, put, require_clean
from ascend_images.selection import PINS_FILE
from tests.unit.test_gentle import Interrupted, interrupted_at

LOCK, OTHER, DOCKERFILE = "locks/small.arm64.txt", "locks/base.arm64.txt", "dockerfiles/rendered/small.Dockerfile"
FILES = (PINS_FILE, FILE, LOCK, OTHER, DOCKERFILE)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("old")
    return tmp_path


def changing(project: Path, *names: str, meanwhile: tuple[str, ...] = ()) -> list[str]:
    """Change the named files in a copy, and others in the project meanwhile; return what was put in its place."""
    with beside(project, "old") as copy:
        for name in names:
            (copy.folder / name).write_text("new")
        for name in meanwhile:
            (project / name).write_text("meanwhile")
        with put(project, copy) as placed:
            return [str(path) for path in placed.paths]


def state(project: Path) -> dict[str, str]:
    return {name: (project / name).read_text() for name in FILES if (project / name).exists()}


# --- what is put in place ---------------------------------------------------------------------------------------------


def test_only_what_the_change_made_is_put_in_its_place(project: Path) -> None:
    assert changing(project, PINS_FILE, LOCK, meanwhile=(FILE, OTHER, DOCKERFILE)) == [PINS_FILE, LOCK]
    assert state(project) == {PINS_FILE: "new", LOCK: "new", **dict.fromkeys((FILE, OTHER, DOCKERFILE), "meanwhile")}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_changed_meanwhile_is_not_overwritten(project: Path, name: str) -> None:
    with pytest.raises(BadInput) as error:
        changing(project, *FILES, meanwhile=(name,))
    assert error.value.found == f"{name} was changed in the meantime"
    assert state(project) == {**dict.fromkeys(FILES, "old"), name: "meanwhile"}


def test_neither_is_one_that_was_made_or_removed_meanwhile(project: Path) -> None:
    (project / LOCK).unlink()
    with pytest.raises(BadInput, match=f"^{LOCK} was changed in the meantime"):
        changing(project, PINS_FILE, LOCK, meanwhile=(LOCK,))
    with beside(project, "old") as copy:
        for name in (LOCK, OTHER):
            (copy.folder / name).write_text("new")
            (project / name).unlink()
        with pytest.raises(BadInput, match=f"^{OTHER}, {LOCK} were changed in the meantime"), put(project, copy):
            pass


def test_pins_that_were_changed_before_the_copy_was_made_are_not_overwritten(project: Path) -> None:
    (project / PINS_FILE).write_text("meanwhile")
    with pytest.raises(BadInput, match=r"versions\.toml was changed in the meantime"):
        changing(project, PINS_FILE)
    assert state(project)[PINS_FILE] == "meanwhile"


def test_what_else_is_made_in_the_copy_is_not_put_anywhere(project: Path) -> None:
    with beside(project, "old") as copy:
        for name in ("build/x", "locks/notes", "other"):
            (copy.folder / name).parent.mkdir(exist_ok=True)
            (copy.folder / name).write_text("new")
        with put(project, copy) as placed:
            assert placed.paths == ()
    assert list((project / "build").iterdir()) == []


# --- what is copied ---------------------------------------------------------------------------------------------------


def test_what_lies_beside_the_files_is_no_concern_of_a_change(project: Path) -> None:
    for folder in (project / "locks", project / "dockerfiles/rendered"):
        (folder / ".#small.arm64.txt").symlink_to("me@machine.1234:5678")
        (folder / ".#small.Dockerfile").symlink_to("me@machine.1234:5678")
        os.mkfifo(folder / "pipe.txt")
        os.mkfifo(folder / "pipe.Dockerfile")
        (folder / "folder.txt").mkdir()
        for name in ("large", ".large.txt", ".large.Dockerfile"):
            with (folder / name).open("wb") as stream:
                stream.truncate(1 << 40)
    with beside(project, "old") as copy:
        assert sorted(map(str, copy.was)) == sorted(FILES)
    assert changing(project, PINS_FILE) == [PINS_FILE]


def test_a_pipe_in_the_place_of_a_file_is_named_and_nothing_is_changed(project: Path) -> None:
    (project / LOCK).unlink()
    os.mkfifo(project / LOCK)
    with pytest.raises(OSError, match="not a regular file") as error:
        changing(project, PINS_FILE, LOCK)
    assert error.value.filename == str(project / LOCK)
    assert (project / PINS_FILE).read_text() == "old"


def linked(project: Path, name: str, target: str) -> Path:
    """Move a file elsewhere and put a link in its place."""
    place = (project / name).parent / target
    place.parent.mkdir(exist_ok=True)
    (project / name).rename(place)
    (project / name).symlink_to(target)
    return place


def test_links_are_followed_and_stay(project: Path) -> None:
    places = [linked(project, PINS_FILE, "shared/pins"), linked(project, LOCK, "../../outside.txt")]
    (project / OTHER).unlink()
    (project / OTHER).symlink_to("../shared/made")
    assert changing(project, PINS_FILE, LOCK, OTHER) == [PINS_FILE, OTHER, LOCK]
    assert [place.read_text() for place in (*places, project / "shared/made")] == ["new"] * 3
    assert all((project / name).is_symlink() for name in (PINS_FILE, LOCK, OTHER))


def undone(project: Path, copy: Copy) -> None:
    with put(project, copy):
        assert (project / OTHER).read_text() == "new"
        raise Interrupted


def test_what_links_lead_to_is_as_it_was_where_something_goes_wrong(project: Path) -> None:
    place = linked(project, PINS_FILE, "shared/pins")
    (project / OTHER).unlink()
    (project / OTHER).symlink_to("../shared/made")
    with beside(project, "old") as copy:
        for name in (PINS_FILE, OTHER):
            (copy.folder / name).write_text("new")
        with pytest.raises(Interrupted):
            undone(project, copy)
    assert place.read_text() == "old"
    assert (project / OTHER).is_symlink()
    assert not (project / "shared/made").exists()


# --- the commit -------------------------------------------------------------------------------------------------------


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(project: Path) -> Path:
    (project / ".gitignore").write_text("build/\nmark\n")
    git(project, "init", "--quiet", "--initial-branch=main")
    for key, value in (("user.name", "T"), ("user.email", "t@example.invalid"), ("commit.gpgsign", "false")):
        git(project, "config", key, value)
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "-m", "one")
    return project


def hook(repository: Path, name: str, script: str) -> None:
    path = repository / ".git/hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def committing(project: Path, said: list[str] | None = None, names: tuple[str, ...] = (PINS_FILE, LOCK)) -> str:
    with beside(project, "old") as copy:
        for name in names:
            (copy.folder / name).write_text("new")
        with put(project, copy) as placed:
            return commit(project, placed, "two", (said if said is not None else []).append)


def left(repository: Path) -> list[str]:
    """Return what git left behind and shows as changed."""
    return [path.name for path in (repository / ".git").rglob("*.lock*")] + git(
        repository, "status", "--porcelain"
    ).splitlines()


@pytest.mark.subprocess
def test_a_commit_that_is_interrupted_leaves_no_lock_and_no_change(repository: Path) -> None:
    hook(repository, "pre-commit", "echo >mark; exec sleep 20")
    before, head = state(repository), git(repository, "rev-parse", "HEAD")
    with interrupted_at(repository / "mark"), pytest.raises(Interrupted):
        committing(repository)
    assert left(repository) == []
    assert state(repository) == before
    assert git(repository, "rev-parse", "HEAD") == head


@pytest.mark.subprocess
def test_a_commit_that_was_made_when_it_is_interrupted_stays_with_its_files(repository: Path) -> None:
    hook(repository, "post-commit", "echo >mark; exec sleep 20")
    said: list[str] = []
    with interrupted_at(repository / "mark"), pytest.raises(Interrupted):
        committing(repository, said)
    assert git(repository, "log", "--format=%s").splitlines() == ["two", "one"]
    assert left(repository) == []
    assert (state(repository)[PINS_FILE], state(repository)[LOCK]) == ("new", "new")
    assert said == [f"the commit {git(repository, 'rev-parse', 'HEAD')[:12]} was made, and stays"]


@pytest.mark.subprocess
def test_an_error_after_the_commit_was_made_does_not_say_that_nothing_was_changed(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = project_change.git

    def refusing(root: Path, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        done = real(root, *words, **more)
        if words[0] == "commit":
            done.returncode, done.stderr = 128, "fatal: unable to write new index file"
        return done

    monkeypatch.setattr(project_change, "git", refusing)
    said: list[str] = []
    with pytest.raises(MissingTool, match="git commit refused: unable to write new index file") as error:
        committing(repository, said)
    assert (error.value.wanted, state(repository)[PINS_FILE], len(said)) == ("", "new", 1)
    assert left(repository) == []


@pytest.mark.subprocess
def test_somebody_elses_commit_meanwhile_is_not_taken_for_ours(repository: Path) -> None:
    hook(
        repository,
        "pre-commit",
        "git update-ref HEAD $(git commit-tree -p HEAD -m other 'HEAD^{tree}'); echo no; exit 1",
    )
    before = state(repository)
    with pytest.raises(MissingTool, match="git commit refused: no"):
        committing(repository)
    assert git(repository, "log", "--format=%s").splitlines() == ["other", "one"]
    assert state(repository) == before
    assert left(repository) == []


@pytest.mark.subprocess
def test_files_that_git_ignores_are_not_taken_for_committed(repository: Path) -> None:
    git(repository, "rm", "--quiet", "--cached", "-r", *FILES)
    (repository / ".gitignore").write_text("*\n")
    git(repository, "commit", "--quiet", "--all", "-m", "nothing")
    before = state(repository)
    with pytest.raises(MissingTool, match="git add refused: "):
        committing(repository)
    assert state(repository) == before


@pytest.mark.subprocess
def test_what_is_staged_and_cannot_be_put_back_is_told(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hook(repository, "pre-commit", "exit 1")
    real = project_change.git

    def refusing(root: Path, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        if words[0] == "reset":
            return subprocess.CompletedProcess([], 128, "", "fatal: Unable to create 'index.lock': File exists.\n\nx\n")
        return real(root, *words, **more)

    monkeypatch.setattr(project_change, "git", refusing)
    said: list[str] = []
    with pytest.raises(MissingTool, match="git commit refused: exit code 1"):
        committing(repository, said)
    why = "what is staged cannot be put back: Unable to create 'index.lock': File exists."
    assert said == [f"{why}; next: git reset -- versions.toml versions.lock locks dockerfiles/rendered"]


@pytest.mark.subprocess
def test_hooks_have_all_the_time_they_take_and_the_language_of_the_user(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, tuple[float | None, str | None]] = {}
    real = project_git.run

    def run(command: list[str], *, environment: dict[str, str], limit: float | None, **more: Any) -> Any:
        asked[command[3]] = (limit, environment.get("LC_ALL"))
        return real(command, environment=environment, limit=limit, **more)

    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setattr(project_git, "run", run)
    committing(repository)
    assert asked.pop("commit") == (None, "de_DE.UTF-8")
    assert set(asked.values()) == {(120, "C")}


@pytest.mark.subprocess
def test_of_a_link_what_it_leads_to_is_committed(repository: Path) -> None:
    linked(repository, PINS_FILE, "shared/pins")
    (repository / "locks").rename(repository / "shared/locks")
    (repository / "locks").symlink_to("shared/locks")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "-m", "links")
    require_clean(repository)
    committing(repository)
    assert git(repository, "show", "--name-only", "--format=").splitlines() == [
        "shared/locks/small.arm64.txt",
        "shared/pins",
    ]
    assert left(repository) == []
    (repository / "shared/pins").write_text("being worked on")
    with pytest.raises(CheckFailed, match="not committed yet: shared/pins"):
        require_clean(repository)


@pytest.mark.subprocess
def test_a_link_that_leads_out_of_the_repository_is_no_part_of_a_commit(repository: Path) -> None:
    linked(repository, PINS_FILE, f"../{repository.name}.toml")
    git(repository, "commit", "--quiet", "--all", "-m", "a link")
    with pytest.raises(BadInput, match=r"no commit can be made here: .*\.toml' is outside repository at "):
        require_clean(repository)
    with pytest.raises(MissingTool, match=r"git add refused: .*outside repository"):
        commit(repository, Placed((Path(PINS_FILE),)), "two", [].append)


@pytest.mark.subprocess
def test_where_git_cannot_be_used_no_commit_is_begun(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    with pytest.raises(MissingTool, match="no commit can be made here: git refuses: detected dubious owner") as refused:
        require_clean(repository)
    assert refused.value.do == f"git config --global --add safe.directory {repository}; or leave --commit out"
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingTool, match="no commit can be made here: git is not installed"):
        require_clean(repository)
