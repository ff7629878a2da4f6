"""What a source asks for comes from its declared files, at its commit or in a checkout of that very project."""

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from ascend_images.errors import BadInput, LookupIncomplete
from ascend_images.lock.demands import Kind
from ascend_images.lock.git import GitClient
from ascend_images.lock.reach import UnreachableError
from ascend_images.lock.sources import (
    LocalCheckout,
    RemoteCommit,
    UnreadSourcesError,
    local_checkouts,
    read_demands,
    require_commits,
    source_demands,
)
from tests.lock_kit import real, source, variant
from tests.upstream import make_checkout


def checkout(folder: Path, files: dict[str, str], *, git: bool = True) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if git:
        (folder / ".git").mkdir(parents=True)
    return folder


VLLM = source("vllm", "0.23.0", requirements=("requirements/common.txt",))
COMMON = {"requirements/common.txt": "numpy\nregex>=2024\n", "vllm/__init__.py": ""}


def texts(one: object, folder: Path) -> list[tuple[str, str, Kind]]:
    found = source_demands(one, LocalCheckout("x", folder))  # type: ignore[arg-type]
    return [(str(entry.requirement), entry.where, entry.kind) for entry in found]


def test_a_sources_demands_are_those_of_its_files_its_declared_ones_and_its_build(tmp_path: Path) -> None:
    one = msgspec.structs.replace(VLLM, declares=("tensorboard",), build_requires=("cmake>=3.26",))
    assert texts(one, checkout(tmp_path, COMMON)) == [
        ("numpy", "requirements/common.txt:1", Kind.RUN),
        ("regex>=2024", "requirements/common.txt:2", Kind.RUN),
        ("tensorboard", "versions.toml sources.vllm.declares", Kind.RUN),
        ("cmake>=3.26", "versions.toml sources.vllm.build_requires", Kind.BUILD),
    ]


def test_what_says_nothing_of_its_build_is_built_with_setuptools(tmp_path: Path) -> None:
    assert texts(VLLM, checkout(tmp_path, COMMON))[-1] == ("setuptools", "its setup.py", Kind.BUILD)


def test_a_source_that_is_not_installed_is_not_built(tmp_path: Path) -> None:
    one = msgspec.structs.replace(VLLM, install="pythonpath", build_requires=("cmake>=3.26",))
    assert {kind for _, _, kind in texts(one, checkout(tmp_path, COMMON))} == {Kind.RUN}


def test_a_file_that_is_not_there_names_source_and_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"has no file requirements/common\.txt"):
        texts(VLLM, checkout(tmp_path, {}))


def test_a_checkout_is_known_by_its_project_or_its_module(tmp_path: Path) -> None:
    by_module = checkout(tmp_path / "a", {"vllm/__init__.py": ""})
    by_project = checkout(tmp_path / "b", {"pyproject.toml": '[project]\nname = "vLLM"'})
    in_src = checkout(tmp_path / "c", {"src/vllm/__init__.py": ""})
    one = variant({}, sources=(VLLM,))
    for folder in (by_module, by_project, in_src):
        assert local_checkouts(one, {"vllm": folder})["vllm"].folder == folder


@pytest.mark.parametrize(
    ("files", "git", "message"),
    [
        ({}, True, "a checkout of another project: it has no vllm"),
        ({"vllm_ascend/__init__.py": ""}, True, "a checkout of another project: it has no vllm"),
        ({"pyproject.toml": '[project]\nname = "vllm-ascend"'}, True, 'another project, it is of "vllm-ascend"'),
        ({"vllm/__init__.py": ""}, False, "not a git checkout"),
    ],
)
def test_a_folder_that_is_no_checkout_of_the_project_is_refused(
    files: dict[str, str], git: bool, message: str, tmp_path: Path
) -> None:
    folder = checkout(tmp_path / "x", files, git=git)
    folder.mkdir(exist_ok=True)
    with pytest.raises(BadInput) as failure:
        local_checkouts(variant({}, sources=(VLLM,)), {"vllm": folder})
    assert message in str(failure.value)
    assert "wanted: a git checkout of https://example.invalid/vllm" in str(failure.value)


def test_a_folder_that_is_not_there_and_a_source_that_is_not_known_are_refused(tmp_path: Path) -> None:
    one = variant({}, sources=(VLLM,))
    with pytest.raises(BadInput, match="no such directory"):
        local_checkouts(one, {"vllm": tmp_path / "nothing"})
    with pytest.raises(BadInput, match='variant small: unknown source "vlm"') as failure:
        local_checkouts(one, {"vlm": tmp_path})
    assert 'did you mean "vllm"?' in str(failure.value)


def test_all_sources_that_could_not_be_fetched_are_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: RemoteCommit, path: str) -> str:
        raise LookupIncomplete(f"{self.source}: no answer", do=f"read them: --source {self.source}=DIR")

    monkeypatch.setattr(RemoteCommit, "read", fail)
    other = msgspec.structs.replace(VLLM, name="verl")
    with pytest.raises(LookupIncomplete) as failure:
        read_demands(variant({}, sources=(VLLM, other)), {}, tmp_path, {})
    assert failure.value.found == "small: vllm and verl could not be read:\n  vllm: no answer\n  verl: no answer"
    assert failure.value.do == ("the same again with checkouts on this machine: --source vllm=DIR --source verl=DIR")
    assert isinstance(failure.value, UnreadSourcesError)
    assert failure.value.names == ("vllm", "verl")


def test_a_commit_that_is_not_known_is_told_with_all_other_sources_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(self: RemoteCommit, path: str) -> str:
        if self.source == "gone":
            raise LookupIncomplete(f"gone: no answer about {path}")
        if self.source == "wrong":
            raise BadInput("wrong: has no such file")
        return ""

    monkeypatch.setattr(RemoteCommit, "read", read)
    known = [msgspec.structs.replace(VLLM, name=name, commit="a" * 40) for name in ("gone", "there", "wrong", "given")]
    bare = msgspec.structs.replace(VLLM, name="other")
    one = variant({}, sources=(*known[:2], VLLM, *known[2:], bare))
    with pytest.raises(UnreadSourcesError) as failure:
        require_commits(one, {"given": tmp_path, "other": tmp_path}, tmp_path, {})
    assert failure.value.names == ("gone", "vllm", "wrong")
    assert "vllm: which commit of" in failure.value.found
    assert "wrong: has no such file" in failure.value.found
    require_commits(one, {"vllm": tmp_path, "other": tmp_path}, tmp_path, {})


def test_a_repository_that_gives_no_answer_is_told_with_its_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(self: GitClient, repository: str, *_: str) -> str:
        raise UnreachableError(f"{repository}: no answer in time")

    monkeypatch.setattr(GitClient, "file", lost)
    files = RemoteCommit("vllm", "https://a.example/vllm", "a" * 40, tmp_path, {"https://a.example/": "https://m/"})
    with pytest.raises(UnreadSourcesError) as failure:
        files.read("requirements.txt")
    assert failure.value.found == (
        f"vllm: https://a.example/vllm (asked by way of a mirror: https://m/vllm) at {'a' * 40} could not be read: "
        "no answer in time"
    )


def git(folder: Path, *arguments: str) -> str:
    settings = ["-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *settings, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, str]:
    """A repository, and a commit of it that no branch or tag leads to."""
    folder = tmp_path / "upstream"
    make_checkout(real("a2").sources[0], folder)
    commit = git(folder, "rev-parse", "HEAD")
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(folder, "config", "uploadpack.allowFilter", "true")
    (folder / "requirements/common.txt").write_text("numpy>=3\n")
    git(folder, "commit", "-q", "--amend", "-a", "-m", "another")
    git(folder, "tag", "v2")
    return folder, commit


def remote(repository: Path, revision: str, cache: Path, **fields: object) -> RemoteCommit:
    return RemoteCommit("vllm", repository.as_uri(), revision, cache, **fields)  # type: ignore[arg-type]


@pytest.mark.subprocess
def test_one_file_of_one_commit_is_fetched_and_kept(repository: tuple[Path, str], tmp_path: Path) -> None:
    folder, commit = repository
    files = remote(folder, commit, tmp_path / "cache")
    assert "xgrammar" in files.read("requirements/common.txt")
    with pytest.raises(BadInput, match=r"has no file requirements/gone\.txt"):
        files.read("requirements/gone.txt")
    shutil.rmtree(folder)
    assert "xgrammar" in remote(folder, commit, tmp_path / "cache").read("requirements/common.txt")


@pytest.mark.subprocess
def test_a_tag_is_read_as_it_is_now(repository: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = repository
    assert remote(folder, "v2", tmp_path / "cache").read("requirements/common.txt") == "numpy>=3\n"
    (folder / "requirements/common.txt").write_text("numpy>=4\n")
    git(folder, "commit", "-q", "-a", "-m", "later")
    git(folder, "tag", "-f", "v2")
    assert remote(folder, "v2", tmp_path / "cache").read("requirements/common.txt") == "numpy>=4\n"


@pytest.mark.subprocess
def test_a_mirror_is_asked_instead(repository: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = repository
    files = RemoteCommit(
        "vllm",
        "https://git.example/upstream",
        "v2",
        tmp_path / "cache",
        {"https://git.example": folder.parent.as_uri()},
    )
    assert files.read("requirements/common.txt") == "numpy>=3\n"


@pytest.mark.subprocess
@pytest.mark.parametrize("revision", ["v9", "0" * 40])
def test_a_revision_that_is_not_there_says_how_to_go_on(
    revision: str, repository: tuple[Path, str], tmp_path: Path
) -> None:
    with pytest.raises(LookupIncomplete) as failure:
        remote(repository[0], revision, tmp_path / "cache").read("requirements/common.txt")
    assert f"at {revision} could not be read" in str(failure.value)
    assert "--source vllm=DIR" in str(failure.value)


@pytest.mark.subprocess
def test_no_code_of_a_source_is_run_and_nothing_is_written_into_a_checkout(
    repository: tuple[Path, str], tmp_path: Path
) -> None:
    folder, commit = repository
    trap = "raise SystemExit('run')"
    (folder / "setup.py").write_text(trap)
    before = sorted(path for path in folder.rglob("*") if ".git" not in path.parts)
    vllm = msgspec.structs.replace(real("a2").sources[0], git=folder.as_uri(), commit=commit)
    one = variant({}, sources=(vllm,))
    local = read_demands(one, {"vllm": folder}, tmp_path / "cache", {})
    assert local["vllm"][0].requirement.name == "numpy"
    assert sorted(path for path in folder.rglob("*") if ".git" not in path.parts) == before
    assert len(read_demands(one, {}, tmp_path / "cache", {})["vllm"]) > 40


@pytest.mark.subprocess
def test_an_address_that_the_user_s_git_turns_into_http_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gitconfig").write_text('[url "http://me:s3cret@corp.example/"]\ninsteadOf = https://git.example/\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    files = RemoteCommit("up", "https://git.example/up", "v2", tmp_path / "cache")
    with pytest.raises(BadInput, match=r"git asks http://\*\*\*@corp\.example/up in place of https://git\.example/up"):
        files.read("x")


@pytest.mark.parametrize("path", ["../secret", "/etc/hostname", "sub/../../secret", "link"])
def test_a_file_outside_of_a_checkout_is_none_of_its(path: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("six\n")
    folder = checkout(tmp_path / "vllm", COMMON)
    (folder / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(BadInput, match="has no file"):
        LocalCheckout("vllm", folder).read(path)


@pytest.mark.subprocess
def test_offline_a_commit_that_was_read_is_known_and_nothing_is_asked(
    repository: tuple[Path, str], tmp_path: Path
) -> None:
    folder, commit = repository
    remote(folder, commit, tmp_path / "cache").read("requirements/common.txt")
    again = remote(folder, commit, tmp_path / "cache", offline=True)
    assert "xgrammar" in again.read("requirements/common.txt")
    with pytest.raises(LookupIncomplete, match="nothing is asked now"):
        again.read("setup.py")


@pytest.mark.subprocess
def test_what_is_kept_of_a_repository_is_for_its_owner_alone(repository: tuple[Path, str], tmp_path: Path) -> None:
    folder, commit = repository
    remote(folder, commit, tmp_path / "cache").read("requirements/common.txt")
    (kept,) = (tmp_path / "cache" / "files").iterdir()
    assert [oct(path.stat().st_mode & 0o777) for path in (kept.parent, kept)] == ["0o700", "0o600"]
