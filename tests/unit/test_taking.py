"""Patches from elsewhere: taken as they are, or not at all where they change anything but pins and what is of them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ascend_images.errors import BadInput, MissingTool
from ascend_images.taking import take
from tests.publish_kit import commit, git

pytestmark = pytest.mark.subprocess

Patches = Callable[..., Path]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A committed project with a program, pins, a lock and a rendered file."""
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "t")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "t@t")
    root = tmp_path / "project"
    for name in ("versions.toml", "versions.lock", "locks/a2.amd64.txt", "dockerfiles/rendered/a2.Dockerfile", "x.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{name}\n")
    (root / ".gitignore").write_text("build/\n")
    git(root, "init", "--quiet", "--initial-branch=main")
    commit(root)
    return root


@pytest.fixture
def patches(root: Path, tmp_path: Path) -> Patches:
    """Return a function that makes patches of what is done in a clone, one a call."""

    def make(*changes: Callable[[Path], object]) -> Path:
        clone, folder = tmp_path / "clone", tmp_path / "patches"
        git(tmp_path, "clone", "--quiet", str(root), str(clone))
        for change in changes:
            change(clone)
            commit(clone)
        git(clone, "format-patch", "--quiet", "--binary", "--output-directory", str(folder), "origin/main")
        return folder

    return make


def write(path: str, text: str = "new\n") -> Callable[[Path], object]:
    def change(root: Path) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)

    return change


def link(path: str) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        (root / path).unlink(missing_ok=True)
        (root / path).symlink_to("/etc/passwd")

    return change


def head(root: Path) -> str:
    return git(root, "rev-parse", "HEAD").strip()


def require_as_before(root: Path, before: str) -> None:
    assert head(root) == before
    assert git(root, "status", "--porcelain") == ""
    assert (root / "x.py").read_text() == "x.py\n"
    assert list((root / "build").glob("take-*")) == []
    assert len(git(root, "worktree", "list").splitlines()) == 1


def test_pins_locks_and_rendered_files_are_taken_each_commit_as_it_was(root: Path, patches: Patches) -> None:
    new = ("versions.toml", "versions.lock", "locks/a2.amd64.txt", "locks/a9.arm64.txt")
    rendered = ("dockerfiles/rendered/a2.Dockerfile", "dockerfiles/rendered/a2.image.json")
    folder = patches(*map(write, new), *map(write, rendered))
    told = take(root, folder).splitlines()
    assert len(told) == len([*new, *rendered])
    assert told[-1] == f"taken: {git(root, 'rev-parse', '--short', 'HEAD').strip()} x"
    assert [(root / name).read_text() for name in (*new, *rendered)] == ["new\n"] * len(told)
    assert git(root, "branch", "--show-current").strip() == "main"
    require_as_before(root, head(root))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (write("x.py"), "x.py is changed"),
        (write("ascend_images/new.py"), "ascend_images/new.py is changed"),
        (write("scripts/setup.sh"), "scripts/setup.sh is changed"),
        (write(".github/workflows/x.yml"), ".github/workflows/x.yml is changed"),
        (write("locks/.gitattributes"), "locks/.gitattributes is changed"),
        (write("locks/x.py"), "locks/x.py is changed"),
        (write("locks/more/x.txt"), "locks/more/x.txt is changed"),
        (write("dockerfiles/rendered/x.sh"), "dockerfiles/rendered/x.sh is changed"),
        (write("dockerfiles/a2.Dockerfile"), "dockerfiles/a2.Dockerfile is changed"),
        (write("sub/versions.toml"), "sub/versions.toml is changed"),
        (lambda root: (root / "x.py").unlink(), "x.py is changed"),
        (lambda root: (root / "x.py").rename(root / "locks" / "x.txt"), "x.py is changed"),
        (link("versions.toml"), "versions.toml is no plain file: mode 120000"),
        (link("locks/new.txt"), "locks/new.txt is no plain file: mode 120000"),
        (lambda root: (root / "versions.toml").chmod(0o755), "versions.toml is no plain file: mode 100755"),
        (lambda root: (root / "versions.lock").unlink(), "versions.lock is removed"),
    ],
)
def test_whatever_else_is_changed_nothing_is_taken(
    root: Path, patches: Patches, change: Callable[[Path], object], found: str
) -> None:
    before = head(root)
    folder = patches(write("versions.toml"), change)
    with pytest.raises(BadInput) as raised:
        take(root, folder)
    assert raised.value.found == found
    require_as_before(root, before)


def test_what_a_later_commit_undoes_is_refused_too(root: Path, patches: Patches) -> None:
    before = head(root)
    folder = patches(write("x.py"), write("x.py", "x.py\n"), write("versions.toml"))
    with pytest.raises(BadInput, match=r"^x\.py is changed\n"):
        take(root, folder)
    require_as_before(root, before)


def test_no_hook_of_the_project_is_run(root: Path, patches: Patches, tmp_path: Path) -> None:
    folder = patches(write("versions.toml"))
    for name in ("post-checkout", "applypatch-msg", "pre-applypatch", "post-applypatch", "post-merge"):
        hook = root / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        hook.chmod(0o755)
    take(root, folder)
    assert not (tmp_path / "ran").exists()


def test_a_project_below_the_top_of_its_repository(root: Path, tmp_path: Path, patches: Patches) -> None:
    """versions.toml at the top is somebody else's there."""
    (root / "below").mkdir()
    (root / "below" / "versions.toml").write_text("x\n")
    commit(root)
    before = head(root)
    with pytest.raises(BadInput, match=r"^versions\.toml is changed"):
        take(root / "below", patches(write("below/versions.toml"), write("versions.toml")))
    assert head(root) == before


def test_patches_that_do_not_apply(root: Path, patches: Patches) -> None:
    folder = patches(write("versions.toml"))
    (root / "versions.toml").write_text("other\n")
    before = commit(root)
    with pytest.raises(BadInput, match="does not apply"):
        take(root, folder)
    require_as_before(root, before)


def test_what_is_not_committed_is_not_lost(root: Path, patches: Patches) -> None:
    before = head(root)
    folder = patches(write("versions.toml"))
    (root / "versions.toml").write_text("mine\n")
    with pytest.raises(MissingTool, match=r"versions\.toml"):
        take(root, folder)
    assert (head(root), (root / "versions.toml").read_text()) == (before, "mine\n")


def test_no_patches(root: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no patch is there"):
        take(root, tmp_path / "nowhere")
    (tmp_path / "x.patch").mkdir()
    with pytest.raises(BadInput, match="cannot be read"):
        take(root, tmp_path)


def test_no_repository(tmp_path: Path) -> None:
    (tmp_path / "x.patch").write_text("")
    with pytest.raises(BadInput, match="no git repository"):
        take(tmp_path, tmp_path)
