"""`invoke bump`: what it plans, what it refuses, and that it changes all that belongs together or nothing."""

import fcntl
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ascend_images import bumping, generated, project_change
from ascend_images.bumping import Wishes, bump, pairs, planned
from ascend_images.errors import AscendImagesError, BadInput, CheckFailed, LookupIncomplete, MissingTool
from ascend_images.files import write_atomic
from ascend_images.pins.load import load
from ascend_images.pins.lockfile import LockedPackage, LockFile, file_name, inputs_hash
from ascend_images.pins.versions_lock import FILE, LockedRef, VersionsLock
from ascend_images.project_change import CONCERNED
from ascend_images.publishing import tags
from ascend_images.selection import PINS_FILE, Selection, select
from tests.lock_kit import ROOT
from tests.remotes import TODAY
from tests.unit.test_updating import LOCK, PINS

REAL = (ROOT / PINS_FILE).read_text(encoding="utf-8")
SIX = {"six": "1.9"}


def make_locks(selection: Selection, six: str) -> None:
    """Write locks that answer the pins, as locking does where everybody answers."""
    selection.locks.mkdir(exist_ok=True)
    for variant in selection.variants:
        for arch in variant.platforms:
            versions = {**variant.packages, "six": six}
            held = [LockedPackage(name, versions[name], (f"sha256:{'1' * 64}",)) for name in sorted(versions)]
            lock = LockFile(
                variant=variant.name, arch=arch, python=variant.python, inputs=inputs_hash(variant, arch),
                packages=tuple(held),
            )  # fmt: skip
            (selection.locks / file_name(variant.name, arch)).write_text(str(lock))


def know(selection: Selection) -> None:
    """Write to versions.lock what every source of the selection means."""
    refs = [
        LockedRef(repository=one.git, ref=one.ref, kind="tag", commit="e" * 40, learned=TODAY, how="git ls-remote")
        for variant in selection.variants
        for one in variant.sources
        if not one.commit
    ]
    (selection.root / FILE).write_text(str(selection.pins.locked.having(*refs)))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / PINS_FILE).write_text(PINS)
    (tmp_path / FILE).write_text(LOCK)
    selection = select(tmp_path, everything=True, to_be_locked=True)
    know(selection)
    make_locks(select(tmp_path, everything=True), "1.0")
    generated.write(select(tmp_path, everything=True), everything=True)
    return tmp_path


@pytest.fixture
def lock(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put a function in the place of locking; by default everybody answers."""

    def put(error: Exception | None = None, *, before: bool = False) -> None:
        def locking(selection: Selection, *_: Any, **__: Any) -> Iterator[str]:
            if before and error:
                raise error
            know(selection)
            answered = select(selection.root, [one.name for one in selection.variants], to_be_locked=True)
            make_locks(answered, "1.9")
            yield from (f"{one.name}: locked" for one in selection.variants)
            if error:
                raise error

        monkeypatch.setattr(bumping.locking, "lock", locking)

    put()
    return put


def state(project: Path) -> dict[Path, bytes]:
    places = [project / name for name in CONCERNED]
    files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*"))]
    return {file.relative_to(project): file.read_bytes() for file in files if file.is_file()}


def run(project: Path, typed: dict[str, str], said: list[str] | None = None, **wishes: Any) -> str:
    return bump(project, Wishes(typed=typed, **wishes), (said if said is not None else []).append)


# --- the plan ---------------------------------------------------------------------------------------------------------


def test_what_was_typed_becomes_pins_with_their_values() -> None:
    assert pairs("a", "1", ["b=2", "c=>=3,<4"]) == {"a": "1", "b": "2", "c": ">=3,<4"}
    for also in (["b"], ["=2"], ["a=2"], ["b=1", "b=2"]):
        with pytest.raises(BadInput):
            pairs("a", "1", also)


def test_a_bump_of_one_stack_changes_the_variants_that_have_it() -> None:
    plan = planned(ROOT, REAL, {"ms-swift.evalscope": "1.14.1"})
    # Stacks that extend it have its pins as well.
    assert {one.stack for one in plan.variants} == {"ms-swift", "ms-swift-310p", "ms-swift-cann8.5"}
    assert plan.title == "Bump ms-swift.evalscope 1.12.0 -> 1.14.1"
    assert plan.notes == ()


def test_a_broken_rule_is_told_once_for_all_its_variants() -> None:
    with pytest.raises(BadInput) as error:
        planned(ROOT, REAL, {"ms-swift.xgrammar": "0.2.9", "ms-swift.torch": "2.9.0"})
    assert error.value.found.count("torch-npu-torch: torch 2.9.0 with torch_npu 2.10.0.post4") == 1
    assert error.value.found.startswith("a2, a3, a2-openeuler, a3-openeuler, 310p, a5: ")
    assert "--also NAME=VERSION" in error.value.do
    assert '[stack.ms-swift.accept] torch-npu-torch = "REASON"' in error.value.do


def test_a_torch_npu_of_another_torch_tells_the_bump_of_both() -> None:
    with pytest.raises(BadInput) as error:
        planned(ROOT, REAL, {"ms-swift-cann8.5.torch_npu": "2.8.0.post2"})
    assert error.value.do == "invoke bump ms-swift-cann8.5.torch_npu 2.8.0.post2 --also ms-swift-cann8.5.torch=2.8.0"


def test_vllm_ascend_tells_which_other_pins_its_row_wants() -> None:
    with pytest.raises(BadInput) as error:
        planned(ROOT, REAL, {"ms-swift.vllm-ascend": "0.22.1rc1"})
    assert error.value.do == (
        "invoke bump ms-swift.vllm-ascend v0.22.1rc1 --also ms-swift.vllm=v0.22.1 --also ms-swift.torch_npu=2.10.0 "
        "--also ms-swift.triton-ascend=3.2.1 --also ms-swift.cann=9.0.0"
    )
    both = planned(ROOT, REAL, {"ms-swift.vllm-ascend": "0.26.0rc1", "ms-swift.vllm": "0.26.0"})
    assert [one.value for one in both.changes] == ["v0.26.0rc1", "v0.26.0"]
    assert both.notes == ()


def test_a_row_that_is_broken_on_purpose_is_told_all_the_same() -> None:
    plan = planned(ROOT, REAL, {"ms-swift-cann8.5.vllm-ascend": "0.19.1rc1"})
    assert any(
        note.startswith("the row of vLLM Ascend wants other pins as well: invoke bump ms-swift-cann8.5.vllm-ascend")
        and "--also ms-swift-cann8.5.vllm=v0.19.1" in note
        for note in plan.notes
    )


def test_what_no_table_knows_is_said_and_what_was_not_known_before_is_not() -> None:
    plan = planned(ROOT, REAL, {"ms-swift.vllm-ascend": "v0.99.0"})
    assert [note.partition(": ")[2] for note in plan.notes] == [
        "not known: vllm-ascend-row: the compatibility table has no row for vLLM Ascend 0.99.0"
    ]


def test_a_commit_without_a_version_is_said(project: Path) -> None:
    plan = planned(project, PINS, {"vllm": "f" * 40})
    assert plan.notes[0].endswith("--also small.vllm.version=VERSION")
    told = planned(project, PINS, {"vllm": "f" * 40, "vllm.version": "0.19.0"})
    assert told.notes == ()


MINDSPEED = "e4772499f7eb9fa9a68919dd1eaddef00e915b2d"  # of core_r0.16.0, by the lock


def test_another_name_of_the_same_commit_leaves_the_version_as_it_is() -> None:
    """As reported: a branch to its own locked commit lost its version, and an accept was said to accept nothing."""
    plan = planned(ROOT, REAL, {"ms-swift.MindSpeed": MINDSPEED})
    assert plan.title == f"Bump ms-swift.MindSpeed core_r0.16.0 -> {MINDSPEED}"
    assert plan.notes == ("ms-swift.MindSpeed.version stays 0.16.0: it is the same commit",)
    changed = [line for line in plan.text.splitlines() if line not in REAL.splitlines()]
    assert changed == [f'ref = "{MINDSPEED}"']
    assert {source.version for one in plan.variants for source in one.sources if source.name == "MindSpeed"} == {
        "0.16.0"
    }


def test_a_version_that_only_the_ref_said_is_written_beside_its_commit(project: Path) -> None:
    plan = planned(project, PINS, {"vllm": "e" * 40})
    assert plan.notes == ("small.vllm.version stays 0.18.0: it is the same commit",)
    assert f'ref = "{"e" * 40}"\n' in plan.text
    assert 'version = "0.18.0"\n' in plan.text
    back = planned(project, plan.text, {"vllm": "v0.18.0"})
    assert 'version = "0.18.0"' not in back.text, "the ref says it again"


def test_a_version_that_is_typed_counts_before_the_one_that_was() -> None:
    plan = planned(ROOT, REAL, {"ms-swift.MindSpeed": MINDSPEED, "ms-swift.MindSpeed.version": "0.16.1"})
    assert {source.version for one in plan.variants for source in one.sources if source.name == "MindSpeed"} == {
        "0.16.1"
    }


def test_a_commit_that_nobody_knows_asks_for_its_version_and_leaves_the_accepts_alone() -> None:
    plan = planned(ROOT, REAL, {"ms-swift.MindSpeed": "f" * 40})
    assert plan.notes[0] == (
        f"which version is at {'f' * 40} is not known; say it: --also ms-swift.MindSpeed.version=VERSION"
    )
    assert [note.split(": ")[2] for note in plan.notes[1:]] == ["mindspeed-row", "mindspeed-megatron"]


def test_where_rules_are_broken_the_version_is_asked_for_before_the_accepts() -> None:
    with pytest.raises(BadInput) as error:
        planned(ROOT, REAL, {"ms-swift.MindSpeed": "f" * 40, "ms-swift.torch": "2.9.0"})
    assert "unused-accept" not in error.value.found
    assert error.value.do.startswith(
        f"which version is at {'f' * 40} is not known; say it: --also ms-swift.MindSpeed.version=VERSION; "
        "move the other pins as well"
    )


def test_an_accept_that_a_bump_makes_needless_has_to_go_first() -> None:
    with pytest.raises(BadInput) as error:
        planned(ROOT, REAL, {"ms-swift-cann8.5.torch_npu": "2.9.0"})
    assert "unused-accept" in error.value.found
    assert 'remove first what accepts nothing from [stack."ms-swift-cann8.5".accept]' in error.value.do


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ({"six": "one"}, '"one" is neither a version nor a specifier'),
        ({"small.cann": "9.9.9"}, 'unknown CANN release "9.9.9"'),
        ({"nonsense": "1"}, 'unknown pin "nonsense"'),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_changed(project: Path, typed: Any, found: str) -> None:
    before = state(project)
    with pytest.raises(BadInput, match=found):
        run(project, typed)
    assert state(project) == before


# --- all of it or nothing ---------------------------------------------------------------------------------------------


def test_pins_locks_and_rendered_files_change_together(project: Path, lock: Callable[..., None]) -> None:
    before = state(project)
    said: list[str] = []
    told = run(project, SIX, said)
    after = state(project)
    rendered = [f"dockerfiles/rendered/small.{end}" for end in ("Dockerfile", "image.json")]
    changed = {str(path) for path in after if after[path] != before.get(path)}
    assert changed == {PINS_FILE, "locks/small.arm64.txt", *rendered}
    assert (project / PINS_FILE).read_text() == PINS.replace('six = "1.0"', 'six = "1.9"')
    assert told.startswith("Bump small.six 1.0 -> 1.9\n\nbefore -> after\n\npins\n  package six: 1.0 -> 1.9 (small)")
    assert said == ["small: locked"]
    assert [path.name for path in (project / "build").iterdir()] == ["turns"]


def test_lists_of_tags_that_are_out_of_date_by_then_are_told(project: Path, lock: Callable[..., None]) -> None:
    """Lint refuses them; a project that keeps none is told nothing."""
    page = project / "docs" / "supported_tags.md"
    write_atomic(page, "of old pins\n")
    told = run(project, SIX)
    assert told.endswith(
        "out of date: docs/supported_tags.md\nout of date: docs/supported_tags.zh.md\n  next:   invoke tags"
    )
    assert page.read_text() == "of old pins\n"
    tags(project)
    assert "invoke tags" not in run(project, {"small.six": "1.8"})


def test_a_source_leaves_no_old_ref_behind_in_the_lock(project: Path, lock: Callable[..., None]) -> None:
    run(project, {"vllm": "v0.19.0"})
    refs = [entry.ref for entry in VersionsLock.load(project / FILE).git]
    assert refs == ["main", "v0.19.0"]
    assert load(project / PINS_FILE).stack["small"].sources["vllm"].ref == "v0.19.0"


def test_a_dry_run_tells_the_same_and_writes_nothing(project: Path, lock: Callable[..., None]) -> None:
    before = state(project)
    told = run(project, SIX, dry_run=True)
    assert told.startswith("Bump small.six 1.0 -> 1.9: nothing was written\n\n")
    assert "package six: 1.0 -> 1.9" in told
    assert state(project) == before


def test_a_checkout_of_no_source_is_refused_and_one_of_another_stack_is_not(
    project: Path, lock: Callable[..., None], tmp_path: Path
) -> None:
    before = state(project)
    with pytest.raises(BadInput, match='--source: unknown source "vlm"') as error:
        run(project, SIX, sources={"vlm": tmp_path})
    assert error.value.wanted == 'did you mean "vllm"?'
    assert state(project) == before
    assert run(project, SIX, sources={"VLLM": tmp_path}).startswith("Bump small.six")


def test_a_bump_waits_for_whoever_holds_the_locks_and_reads_what_that_one_wrote(
    project: Path, lock: Callable[..., None]
) -> None:
    (project / "build" / "turns").mkdir(parents=True)
    holder = os.open(project / "build" / "turns" / "locks", os.O_RDWR | os.O_CREAT)
    fcntl.flock(holder, fcntl.LOCK_EX)
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if text.startswith("locks: waiting"):
            (project / PINS_FILE).write_text(PINS.replace("1.26.4", "1.26.3"))
            os.close(holder)

    bump(project, Wishes(typed=SIX), say)
    assert said == ["locks: waiting for another invoke lock or bump to end (process unknown)", "small: locked"]
    assert (project / PINS_FILE).read_text() == PINS.replace("1.26.4", "1.26.3").replace('six = "1.0"', 'six = "1.9"')


def test_what_is_pinned_already_changes_nothing(project: Path) -> None:
    assert run(project, {"six": "1.0"}) == "small.six is 1.0: nothing to change"


@pytest.mark.parametrize("error", [BadInput("a contradiction"), LookupIncomplete("git is down"), MissingTool("no uv")])
def test_where_locking_fails_everything_is_as_it_was(
    project: Path, lock: Callable[..., None], error: AscendImagesError
) -> None:
    lock(error, before=True)
    before = state(project)
    with pytest.raises(type(error)) as raised:
        run(project, SIX)
    assert raised.value.found.endswith("\n(nothing was changed)")
    assert state(project) == before


def test_what_was_not_known_before_and_has_no_part_in_it_does_not_stop_a_bump(
    project: Path, lock: Callable[..., None]
) -> None:
    lock(LookupIncomplete("the base image's registry is down"))
    said: list[str] = []
    assert run(project, SIX, said).startswith("Bump small.six")
    assert said[-1] == "the base image's registry is down"


def test_a_ref_that_could_not_be_asked_for_stops_it(
    project: Path, lock: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    lock(LookupIncomplete("git is down"))
    monkeypatch.setattr("tests.unit.test_bumping.know", lambda _: None)
    before = state(project)
    with pytest.raises(LookupIncomplete):
        run(project, {"vllm": "v0.19.0"})
    assert state(project) == before


@pytest.mark.parametrize("number", range(4))
def test_an_interruption_while_files_are_put_in_place_restores_them(
    project: Path, lock: Callable[..., None], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    before = state(project)
    written: list[Path] = []
    real = project_change.write_atomic

    def interrupted(path: Path, content: bytes | str) -> None:
        written.append(path)
        if len(written) == number + 1:
            raise KeyboardInterrupt
        real(path, content)

    monkeypatch.setattr(project_change, "write_atomic", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(project, SIX)
    assert state(project) == before


def test_a_file_that_was_changed_meanwhile_is_not_overwritten(
    project: Path, lock: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = PINS.replace("1.26.4", "1.26.3")
    real = bumping._drop_old

    def meanwhile(folder: Path) -> None:
        (project / PINS_FILE).write_text(other)
        real(folder)

    monkeypatch.setattr(bumping, "_drop_old", meanwhile)
    with pytest.raises(BadInput, match="was changed in the meantime"):
        run(project, SIX)
    assert (project / PINS_FILE).read_text() == other


# --- the commit -------------------------------------------------------------------------------------------------------


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(project: Path, lock: Callable[..., None]) -> Path:
    (project / ".gitignore").write_text("build/\n")
    (project / "other").write_text("committed")
    git(project, "init", "--quiet", "--initial-branch=main")
    for key, value in (("user.name", "T"), ("user.email", "t@example.invalid"), ("commit.gpgsign", "false")):
        git(project, "config", key, value)
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "-m", "one")
    return project


@pytest.mark.subprocess
def test_a_commit_holds_the_bump_alone_and_says_what_changed(repository: Path) -> None:
    (repository / "other").write_text("being worked on")
    (repository / "new").write_text("not known to git")
    told = run(repository, SIX, commit=True)
    assert git(repository, "rev-list", "--count", "HEAD") == "2"
    assert told.startswith(f"Bump small.six 1.0 -> 1.9: {git(repository, 'rev-parse', '--short', 'HEAD')}\n")
    assert git(repository, "log", "-1", "--format=%B") == (
        "Bump small.six 1.0 -> 1.9\n\nPins:\n- package six: 1.0 -> 1.9 (small)\n\n"
        "Packages:\n- six: 1.0 -> 1.9 (small on arm64)"
    )
    assert git(repository, "status", "--porcelain").splitlines() == ["M other", "?? new"]


@pytest.mark.subprocess
@pytest.mark.parametrize("path", [PINS_FILE, "locks/small.arm64.txt", "locks/new.txt", "dockerfiles/rendered/new"])
def test_a_commit_is_refused_where_it_would_take_something_else_along(repository: Path, path: str) -> None:
    place = repository / path
    place.write_text((place.read_text() if place.exists() else "") + "\n")
    before = state(repository)
    with pytest.raises(CheckFailed, match=f"not committed yet: {path}"):
        run(repository, SIX, commit=True)
    assert state(repository) == before


@pytest.mark.subprocess
def test_where_git_refuses_everything_is_as_it_was(repository: Path) -> None:
    hook = repository / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho this hook says no\nexit 1\n")
    hook.chmod(0o755)
    before = state(repository)
    with pytest.raises(MissingTool, match="git commit refused: this hook says no"):
        run(repository, SIX, commit=True)
    assert state(repository) == before
    assert git(repository, "status", "--porcelain") == ""


@pytest.mark.subprocess
def test_without_a_repository_there_is_no_commit(project: Path, lock: Callable[..., None]) -> None:
    with pytest.raises(BadInput, match="no commit can be made here"):
        run(project, SIX, commit=True)
    assert (project / PINS_FILE).read_text() == PINS
