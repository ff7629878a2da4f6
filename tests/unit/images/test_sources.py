"""Local checkouts as sources: what is refused, and what exactly is copied for the build."""

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from ascend_images.errors import BadInput, MissingTool
from ascend_images.images.sources import declared_name, local_source, local_sources, stage_source, staged_path
from ascend_images.pins.load import load
from ascend_images.pins.resolve import resolve

pytestmark = pytest.mark.subprocess

A2 = resolve(load(Path(__file__).parents[3] / "versions.toml"), "a2")
VLLM = next(source for source in A2.sources if source.name == "vllm")


def git(folder: Path, *arguments: str) -> str:
    settings = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always")
    command = ["git", "-C", str(folder), *settings, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def project(folder: Path, name: str = "vllm", files: dict[str, str] | None = None) -> Path:
    """A checkout of a project of that name with one commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    for path, text in {"pyproject.toml": f'[project]\nname = "{name}"\n', **(files or {})}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


def listing(folder: Path) -> set[str]:
    files = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())
    return {str(path) for path in files if ".git" not in path.parts}


def test_a_checkout_is_known_by_its_commit(tmp_path: Path) -> None:
    folder = project(tmp_path / "vllm")
    (found,) = local_sources(A2, {"VLLM": folder})
    assert (found.name, found.commit, found.dirty) == ("vllm", git(folder, "rev-parse", "HEAD"), False)
    assert found.stage == "src-vllm"
    assert found.description == found.commit


@pytest.mark.parametrize("change", ["edit", "new", "delete", "staged"])
def test_changes_make_a_checkout_dirty(tmp_path: Path, change: str) -> None:
    folder = project(tmp_path / "vllm", files={"a.py": "1\n"})
    if change == "delete":
        (folder / "a.py").unlink()
    else:
        (folder / ("new.py" if change == "new" else "a.py")).write_text("2\n")
    if change == "staged":
        git(folder, "add", "-A")
    found = local_source(VLLM, folder)
    assert found.dirty
    assert found.description == f"{found.commit}+dirty"


def test_ignored_files_do_not_make_it_dirty(tmp_path: Path) -> None:
    folder = project(tmp_path / "vllm", files={".gitignore": "*.so\n"})
    (folder / "x.so").write_text("built")
    assert not local_source(VLLM, folder).dirty


def test_an_unknown_source_is_an_error_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as error:
        local_sources(A2, {"vlm": tmp_path})
    assert error.value.wanted == 'did you mean "vllm"?'


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such folder"):
        local_source(VLLM, tmp_path / "none")


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not a git checkout"):
        local_source(VLLM, tmp_path)


def test_a_folder_inside_a_checkout_is_refused_with_its_top(tmp_path: Path) -> None:
    folder = project(tmp_path / "vllm", files={"vllm/__init__.py": ""})
    with pytest.raises(BadInput, match="inside a git checkout") as error:
        local_source(VLLM, folder / "vllm")
    assert error.value.do == f"--source vllm={folder}"


def test_a_checkout_without_a_commit_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "vllm"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "pyproject.toml").write_text('[project]\nname = "vllm"\n')
    with pytest.raises(BadInput, match="has no commit"):
        local_source(VLLM, folder)


def test_a_checkout_of_another_project_is_refused_and_named(tmp_path: Path) -> None:
    folder = project(tmp_path / "x", name="vllm-ascend", files={"vllm_ascend/__init__.py": ""})
    git(folder, "remote", "add", "origin", "https://me:pass@github.com/vllm-project/vllm-ascend")
    with pytest.raises(BadInput, match="a checkout of another project") as error:
        local_source(VLLM, folder)
    assert "its project is called vllm-ascend" in error.value.found
    assert "pass" not in str(error.value)


@pytest.mark.parametrize("evidence", ["name", "remote", "ssh", "commit", "package"])
def test_one_sign_of_the_project_is_enough(tmp_path: Path, evidence: str) -> None:
    """A fork, a renamed remote, a project whose name only its setup.py computes."""
    folder = project(tmp_path / "x", name="vllm" if evidence == "name" else "fork-of-it", files={"vllm/a.py": ""})
    source = VLLM
    if evidence == "remote":
        git(folder, "remote", "add", "mine", "https://github.com/me/vllm.git")
    elif evidence == "ssh":
        git(folder, "remote", "add", "mine", "git@github.com:me/vllm")
    elif evidence == "commit":
        source = msgspec.structs.replace(VLLM, commit=git(folder, "rev-parse", "HEAD"))
    elif evidence == "package":
        (folder / "pyproject.toml").write_text("[tool.x]\n")
    assert local_source(source, folder).name == "vllm"


@pytest.mark.parametrize(
    ("file", "text", "name"),
    [
        ("pyproject.toml", '[project]\nname = "Flash_Linear.Attention"\n', "flash-linear-attention"),
        ("setup.cfg", "[metadata]\nname = my_thing\n", "my-thing"),
        ("setup.py", "setup(\n    name='vllm_ascend', version=v)", "vllm-ascend"),
        ("setup.py", "setup(name=compute())", ""),
        ("pyproject.toml", "not toml [", ""),
        ("pyproject.toml", 'project = "x"\n', ""),
    ],
)
def test_a_projects_name_is_read_and_nothing_is_run(tmp_path: Path, file: str, text: str, name: str) -> None:
    (tmp_path / file).write_text(text)
    assert declared_name(tmp_path) == name


def test_the_copy_holds_the_files_as_they_lie_there_without_what_git_ignores(tmp_path: Path) -> None:
    folder = project(
        tmp_path / "vllm",
        files={
            "vllm/__init__.py": "old\n",
            "gone.py": "",
            "run.sh": "#!/bin/sh\n",
            ".gitignore": ".env\nbuild/\n",
            ".dockerignore": ".git\nvllm\n",
            "sub/.dockerignore": "kept\n",
        },
    )
    (folder / "vllm" / "__init__.py").write_text("edited\n")
    (folder / "new é.py").write_text("new\n")
    (folder / "gone.py").unlink()
    (folder / ".env").write_text("PASSWORD=1\n")
    (folder / "build").mkdir()
    (folder / "build" / "big.o").write_text("x")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("run.sh")
    source = local_source(VLLM, folder)
    copy = stage_source(source, tmp_path / "staging")
    assert copy == staged_path(source, tmp_path / "staging")
    assert listing(copy) == {
        "pyproject.toml",
        ".gitignore",
        "vllm/__init__.py",
        "new é.py",
        "run.sh",
        "link",
        "sub/.dockerignore",
    }
    assert (copy / "vllm" / "__init__.py").read_text() == "edited\n"
    assert os.access(copy / "run.sh", os.X_OK)
    assert (copy / "link").readlink() == Path("run.sh")


def test_the_copy_is_a_checkout_of_that_commit_one_commit_deep(tmp_path: Path) -> None:
    folder = project(tmp_path / "vllm")
    (folder / "b.py").write_text("b\n")
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "-m", "second")
    copy = stage_source(local_source(VLLM, folder), tmp_path / "staging")
    assert git(copy, "rev-parse", "HEAD") == git(folder, "rev-parse", "HEAD")
    assert git(copy, "rev-list", "--count", "HEAD") == "1"
    assert git(copy, "status", "--porcelain") == ""
    assert git(copy, "remote", "get-url", "origin") == VLLM.git
    assert git(folder, "status", "--porcelain") == "", "looking changes nothing in somebody's checkout"


def whole(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("submodules", [False, True])
def test_two_copies_of_one_commit_are_the_same_to_the_last_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, submodules: bool
) -> None:
    folder = with_submodule(tmp_path) if submodules else project(tmp_path / "vllm")
    git(folder, "gc", "--quiet")
    source = local_source(msgspec.structs.replace(VLLM, submodules=submodules), folder)
    copies = []
    for date in ("2026-01-01T00:00:00Z", "2026-02-02T00:00:00Z"):
        monkeypatch.setenv("GIT_COMMITTER_DATE", date)
        copies.append(whole(stage_source(source, tmp_path / date)))
    assert copies[0] == copies[1]


def test_a_worktree_is_a_checkout_too(tmp_path: Path) -> None:
    folder = project(tmp_path / "vllm")
    git(folder, "worktree", "add", "--quiet", str(tmp_path / "other"))
    copy = stage_source(local_source(VLLM, tmp_path / "other"), tmp_path / "staging")
    assert (copy / ".git").is_dir()
    assert git(copy, "rev-parse", "HEAD") == git(folder, "rev-parse", "HEAD")


def test_copying_again_replaces_the_copy_and_leaves_nothing_else(tmp_path: Path) -> None:
    folder = project(tmp_path / "vllm", files={"a.py": "1\n"})
    stage_source(local_source(VLLM, folder), tmp_path / "staging")
    (folder / "a.py").write_text("2\n")
    first = stage_source(local_source(VLLM, folder), tmp_path / "staging")
    (folder / "a.py").write_text("3\n")
    second = stage_source(local_source(VLLM, folder), tmp_path / "staging")
    assert first == second
    assert (second / "a.py").read_text() == "3\n"
    assert len(list((tmp_path / "staging").iterdir())) == 2, "the clean copy and the dirty one"


def with_submodule(tmp_path: Path) -> Path:
    part = project(tmp_path / "part", name="part", files={"x.py": "x\n"})
    folder = project(tmp_path / "vllm")
    git(folder, "submodule", "--quiet", "add", str(part), "third/part")
    git(folder, "commit", "--quiet", "-m", "with a part")
    return folder


def test_submodules_come_along_as_git_lays_them_out(tmp_path: Path) -> None:
    folder = with_submodule(tmp_path)
    source = local_source(msgspec.structs.replace(VLLM, submodules=True), folder)
    assert not source.dirty
    copy = stage_source(source, tmp_path / "staging")
    assert (copy / "third" / "part" / "x.py").read_text() == "x\n"
    assert (copy / "third" / "part" / ".git").is_file()
    status = git(copy, "submodule", "status")
    assert git(folder / "third" / "part", "rev-parse", "HEAD") in status
    assert not status.startswith(("-", "+"))
    assert git(copy, "status", "--porcelain") == ""


def test_an_empty_submodule_is_refused_with_the_command_that_fills_it(tmp_path: Path) -> None:
    origin = with_submodule(tmp_path)
    folder = tmp_path / "again"
    git(tmp_path, "clone", "--quiet", str(origin), str(folder))
    source = local_source(msgspec.structs.replace(VLLM, submodules=True), folder)
    with pytest.raises(BadInput, match="its submodule third/part is empty") as error:
        stage_source(source, tmp_path / "staging")
    assert "submodule update --init third/part" in error.value.do
    assert list((tmp_path / "staging").iterdir()) == [], "nothing half-copied stays"


def test_a_repository_in_the_environment_is_not_mistaken_for_the_folders_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a git hook, which runs with GIT_DIR set."""
    folder = project(tmp_path / "vllm")
    wanted = git(folder, "rev-parse", "HEAD")
    other = project(tmp_path / "other", name="other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert local_source(VLLM, folder).commit == wanted


def test_a_machine_without_git_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project(tmp_path / "vllm")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingTool, match="no git command"):
        local_source(VLLM, folder)


@pytest.mark.parametrize("path", ["../outside", "/etc", "third/../../outside", ".", "link/part"])
def test_a_submodule_outside_of_the_checkout_is_refused(tmp_path: Path, path: str) -> None:
    project(tmp_path / "outside", name="other")
    folder = project(tmp_path / "vllm")
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / ".gitmodules").write_text(f'[submodule "x"]\n\tpath = {path}\n\turl = https://x.example/x\n')
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "-m", "submodule")
    source = local_source(msgspec.structs.replace(VLLM, submodules=True), folder)
    before = listing(tmp_path / "outside")
    with pytest.raises(BadInput, match="outside of the checkout"):
        stage_source(source, tmp_path / "staging")
    assert listing(tmp_path / "outside") == before
    assert list((tmp_path / "staging").iterdir()) == []


def test_a_checkout_of_another_user_is_told_with_the_setting_that_trusts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path / "vllm")
    # git's own way to try it.
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(BadInput, match="belongs to another user") as error:
        local_source(VLLM, folder)
    assert error.value.do == f"git config --global --add safe.directory {folder}"


@pytest.mark.parametrize("text", ["x = " + "[" * 5000, "x = " + "9" * 5000, 'project = "vllm"', "[[["])
def test_a_pyproject_that_cannot_be_read_names_no_project(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    assert declared_name(tmp_path) == ""


def test_files_whose_names_are_no_text_come_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project(tmp_path / "vllm")
    (folder / os.fsdecode(b"x\xff.py")).write_text("x\n")
    source = local_source(VLLM, folder)
    assert (stage_source(source, tmp_path / "staging") / os.fsdecode(b"x\xff.py")).is_file()
