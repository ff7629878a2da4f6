"""Two states of the project compared: what is told, in which order, and how it is cut for a pull request."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ascend_images import diffing
from ascend_images.difference_report import among, as_markdown, as_text
from ascend_images.diffing import Difference, DockerfileChange, compare
from ascend_images.errors import BadInput, MissingTool
from ascend_images.pins.differences import Change, Shared
from ascend_images.pins.lockfile import LockedPackage, LockFile
from ascend_images.selection import PINS_FILE, select
from tests.unit.test_updating import LOCK, PINS

pytestmark = pytest.mark.subprocess

TWO = PINS.replace('platforms = ["arm64"]', 'platforms = ["arm64", "amd64"]')


def git(folder: Path, *words: str) -> str:
    settings = ["-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *settings, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def write(project: Path, pins: str, *packages: str) -> None:
    """Write pins, and what would be locked and rendered for them."""
    (project / PINS_FILE).write_text(pins)
    (project / "versions.lock").write_text(LOCK)
    selection = select(project, everything=True, allow_broken=True)
    for folder in ("locks", "dockerfiles/rendered"):
        (project / folder).mkdir(exist_ok=True, parents=True)
    for variant in selection.variants:
        lines = [f"FROM {variant.base_image}", *(f"RUN fetch {one.name} {one.revision}" for one in variant.sources)]
        path = project / "dockerfiles/rendered" / f"{variant.name}.Dockerfile"
        path.write_text("\n".join([f"# {variant.name}", *lines, "RUN check", "CMD bash", ""]))
        for arch in variant.platforms:
            held = [LockedPackage(*text.split("=="), (f"sha256:{'1' * 64}",)) for text in sorted(packages)]
            lock = LockFile(
                variant=variant.name, arch=arch, python="3.11", inputs=f"sha256:{'0' * 64}", packages=tuple(held)
            )
            (project / "locks" / f"{variant.name}.{arch.value}.txt").write_text(str(lock))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    write(tmp_path, TWO, "numpy==1.26.4", "six==1.0")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "-m", "one")
    return tmp_path


def moved(project: Path) -> None:
    changed = TWO.replace('six = "1.0"', 'six = "1.9"').replace('ref = "v0.18.0"', 'ref = "v0.19.0"')
    write(project, changed, "numpy==1.26.4", "six==1.9", "new==1")


def test_the_working_tree_against_a_revision(project: Path, golden: Callable[[str, str], None]) -> None:
    assert not compare(project, "HEAD").anything
    moved(project)
    found = compare(project, "HEAD")
    golden("updates/diff.txt", as_text(found) + "\n")
    golden("updates/diff.md", as_markdown(found))


def test_two_revisions_and_the_named_variants_alone(project: Path) -> None:
    moved(project)
    git(project, "commit", "--quiet", "--all", "-m", "two")
    found = compare(project, "HEAD~1", "main", ["small"])
    assert {str(one.change) for one in found.pins} == {
        "package six: 1.0 -> 1.9", "source vllm: v0.18.0 -> v0.19.0", "source vllm version: 0.18.0 -> 0.19.0",
    }  # fmt: skip
    assert {one.among for one in found.pins} == {("small",)}
    base = compare(project, "HEAD~1", "HEAD", ["base"])
    assert base.pins == base.dockerfiles == ()
    assert [str(one.change) for one in base.packages] == ["new: added, 1", "six: 1.0 -> 1.9"]


def test_two_variants_are_compared_in_the_working_tree(project: Path) -> None:
    found = compare(project, "base", "small")
    assert (found.before, found.after) == ("base", "small")
    lines = as_text(found).splitlines()
    assert "  package six: added, 1.0" in lines
    assert "packages" not in lines
    assert lines.index("pins") < lines.index("Dockerfile")


def test_a_variant_that_only_one_state_has_is_told(project: Path) -> None:
    (project / PINS_FILE).write_text(TWO.replace("[variant.base]", "[variant.other]"))
    found = compare(project, "HEAD")
    assert (found.added, found.removed) == (("other",), ("base",))
    assert "new: other\nremoved: base" in as_text(found)
    assert compare(project, "HEAD", names=["base"]).added == ()


def test_what_is_not_there_on_one_side_is_noted_and_is_no_difference(project: Path) -> None:
    shutil.rmtree(project / "locks")
    (project / "locks").mkdir()
    (project / "locks" / "small.amd64.txt").write_text("nonsense")
    (project / "dockerfiles/rendered/base.Dockerfile").unlink()
    found = compare(project, "HEAD")
    assert not found.anything
    notes = "\n".join(found.notes)
    assert "locks/small.arm64.txt: not in the working tree" in notes
    assert "not a locked package: nonsense; its packages are not compared" in notes
    assert "dockerfiles/rendered/base.Dockerfile: not in the working tree" in notes


def test_a_key_that_was_known_once_is_left_out_of_a_revision(project: Path) -> None:
    (project / PINS_FILE).write_text(TWO.replace('ref = "main"\n', f'ref = "main"\ncommit = "{"d" * 40}"\n'))
    git(project, "commit", "--quiet", "--all", "-m", "with a key of old")
    (project / PINS_FILE).write_text(TWO)
    assert not compare(project, "HEAD").anything


@pytest.mark.parametrize(
    ("before", "after", "names", "found"),
    [
        ("", "", (), "nothing to compare with"),
        ("nonsense", "", (), '"nonsense" is neither a variant nor a git revision here'),
        ("--version", "", (), '"--version" is neither a variant nor a git revision here'),
        ("HEAD", "nonsense", (), '"nonsense" is neither a variant nor a git revision here'),
        ("small", "", (), "small is a variant"),
        ("small", "HEAD", (), "small is a variant, and HEAD is none"),
        ("HEAD", "small", (), "small is a variant, and HEAD is none"),
        ("small", "base", ("small",), "--variant small, and two variants are compared"),
        ("HEAD", "", ("nonsense",), 'unknown variant "nonsense"'),
    ],
)
def test_what_cannot_be_compared_is_refused(
    project: Path, before: str, after: str, names: tuple[str, ...], found: str
) -> None:
    with pytest.raises(BadInput) as error:
        compare(project, before, after, names)
    assert error.value.found == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("schema = ", "not TOML"),
        (TWO.replace("schema = 1", "schema = 2"), "schema: Invalid enum value 2"),
        (TWO.replace('hardware = "a2"', 'hardware = "a9"'), 'unknown hardware "a9"'),
    ],
)
def test_a_revision_that_cannot_be_read_is_named(project: Path, text: str, found: str) -> None:
    (project / PINS_FILE).write_text(text)
    git(project, "commit", "--quiet", "--all", "-m", "broken")
    (project / PINS_FILE).write_text(TWO)
    with pytest.raises(BadInput) as error:
        compare(project, "HEAD")
    assert error.value.found.startswith("HEAD: ")
    assert found in error.value.found
    git(project, "rm", "--quiet", "--cached", PINS_FILE)
    git(project, "commit", "--quiet", "-m", "gone")
    with pytest.raises(BadInput, match=r"HEAD has no versions\.toml"):
        compare(project, "HEAD")


def test_without_git_two_variants_can_be_compared_and_revisions_cannot(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert compare(project, "base", "small").anything
    with pytest.raises(MissingTool, match="git is not installed"):
        compare(project, "HEAD")


# --- git cannot be used -----------------------------------------------------------------------------------------------


def test_where_no_repository_is_the_revision_is_not_blamed(project: Path) -> None:
    shutil.rmtree(project / ".git")
    with pytest.raises(BadInput, match=r"^no git repository here"):
        compare(project, "HEAD")


def test_a_repository_of_another_user_is_told_with_what_makes_git_take_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    with pytest.raises(MissingTool, match=r"^git refuses: detected dubious ownership in repository at ") as error:
        compare(project, "HEAD")
    assert error.value.do == f"git config --global --add safe.directory {project}"


def test_what_a_shallow_clone_lacks_is_no_typing_error(project: Path) -> None:
    moved(project)
    git(project, "commit", "--quiet", "--all", "-m", "two")
    clone = project / "build" / "clone"
    git(project, "clone", "--quiet", "--depth=1", project.as_uri(), str(clone))
    assert not compare(clone, "HEAD").anything
    with pytest.raises(BadInput, match='"HEAD~1" is no variant, and not in this clone, which is shallow') as error:
        compare(clone, "HEAD~1")
    assert error.value.do == "git fetch --unshallow"


def test_a_repository_without_a_commit_says_so(project: Path) -> None:
    git(project, "checkout", "--quiet", "--orphan", "empty")
    with pytest.raises(BadInput, match="this git repository has no commit yet"):
        compare(project, "HEAD")


def test_what_git_says_of_a_name_is_told(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "error: short object ID beef is ambiguous\nhint: The candidates are:\nfatal: Needed a single revision\n"
    real = diffing.git

    def ambiguous(root: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        if words[-1] == "beef^{commit}":
            return subprocess.CompletedProcess([], 128, "", said)
        return real(root, *words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(diffing, "git", ambiguous)
    with pytest.raises(BadInput, match='cannot take "beef" for a revision: short object ID beef is ambiguous'):
        compare(project, "beef")


def test_a_repository_that_is_damaged_is_not_taken_for_one_without_the_file(project: Path) -> None:
    blob = git(project, "rev-parse", f"HEAD:{PINS_FILE}")
    path = project / ".git" / "objects" / blob[:2] / blob[2:]
    path.chmod(0o644)
    path.write_bytes(b"damaged")
    with pytest.raises(MissingTool, match=rf"(?s)^{PINS_FILE} of HEAD cannot be read: error: .*unable to unpack"):
        compare(project, "HEAD")
    path.unlink()
    with pytest.raises(MissingTool, match=rf"^{PINS_FILE} of HEAD cannot be read: its content is not in this repos"):
        compare(project, "HEAD")


def test_links_of_a_revision_are_followed(project: Path) -> None:
    (project / "shared").mkdir()
    (project / PINS_FILE).rename(project / "shared" / PINS_FILE)
    (project / PINS_FILE).symlink_to(f"shared/{PINS_FILE}")
    (project / "locks").rename(project / "shared" / "locks")
    (project / "locks").symlink_to("shared/locks")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "-m", "links")
    found = compare(project, "HEAD")
    assert not found.anything
    assert found.notes == ()
    (project / PINS_FILE).unlink()
    (project / PINS_FILE).symlink_to(project.parent / "outside.toml")
    git(project, "commit", "--quiet", "--all", "-m", "a link that leads out")
    (project.parent / "outside.toml").write_text(TWO)
    with pytest.raises(BadInput, match=r"HEAD has no versions\.toml"):
        compare(project, "HEAD")


# --- for people -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (["a2", "a3"], "a2, a3"),
        (["a2 amd64", "a2 arm64", "a3 amd64", "a3 arm64"], "a2, a3"),
        (["a2 amd64", "a3 arm64", "a5 arm64"], "a2 on amd64; a3, a5 on arm64"),
        (["arm64"], "on arm64"),
        (["amd64", "arm64"], ""),
        ([""], ""),
    ],
)
def test_variants_and_architectures_are_listed_as_people_do(labels: list[str], text: str) -> None:
    assert among(labels) == text


def large(number: int) -> Difference:
    changes = [
        Shared(change=Change(table="package", name=f"name{n}", before="1|`*", after="<b>\n2"), among=("a2",))
        for n in range(number)
    ]
    lines = tuple(f"+line {n} ````" for n in range(number))
    return Difference(
        before="HEAD", after="the working tree", pins=tuple(changes), packages=tuple(changes),
        dockerfiles=(DockerfileChange(among=("a2",), lines=lines),), notes=tuple(f"note {n}" for n in range(number)),
    )  # fmt: skip


@pytest.mark.parametrize("number", [1, 100, 10_000])
def test_markdown_for_a_pull_request_is_never_longer_than_one_takes(number: int) -> None:
    text = as_markdown(large(number))
    assert len(text) <= 60_000
    assert text.count("<details>") == text.count("</details>") == 2
    assert text.count("`````") == 2, "a fence that no line ends"
    assert ("more: invoke diff --from HEAD" in text) == (number == 10_000)
    assert "| package name0 | 1\\|\\`\\* | &lt;b&gt; 2 | a2 |" in text


def test_what_does_not_differ_is_said_in_one_line() -> None:
    found = Difference(before="HEAD", after="the working tree")
    assert as_text(found) == "HEAD -> the working tree: nothing differs"
    assert as_markdown(found) == "**HEAD → the working tree**: nothing differs\n"
