"""What workflows are told: what is to be built, where it is verified, what was published meanwhile, what is newer."""

import json
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import tasks
from ascend_images import publishing, workflow
from ascend_images.errors import BadInput, MissingTool, PublishRefused
from ascend_images.pins.load import load as load_pins
from ascend_images.pins.lockfile import LockFile, file_name
from ascend_images.pins.platform import Arch
from ascend_images.pins.questions import asked, is_commit
from ascend_images.pins.resolve import resolve_all
from ascend_images.pins.versions_lock import FILE as VERSIONS_LOCK
from ascend_images.pins.versions_lock import LockedBase, LockedRef, LockedRun, VersionsLock
from ascend_images.publish.machines import Machines, machines
from ascend_images.publish.manifest import write_joined
from ascend_images.publish.published import FILE, Published, append, load
from ascend_images.trial import Broken
from ascend_images.updating import Outdated, Update
from tests import publish_kit
from tests.publish_kit import FakeRegistry, World, commit, repository
from tests.unit.publish.samples import publication

pytestmark = pytest.mark.subprocess

HARDWARE = ("a2", "a3", "310p", "a5")
BOTH = machines("amd64,arm64", hardware=HARDWARE)


def complete(root: Path, name: str) -> None:
    """Make the locks of a variant complete, as a machine that reaches the indexes writes them."""
    for arch in Arch:
        path = root / "locks" / file_name(name, arch)
        lock = LockFile.load(path)
        hashed = tuple(one for one in lock.packages if one.hashes)
        path.write_text(str(msgspec.structs.replace(lock, incomplete=(), packages=hashed)))


def answer(root: Path) -> None:
    """Have versions.lock answer whatever the variants ask of it."""
    questions = asked(resolve_all(load_pins(root / "versions.toml"), allow_broken=True))
    told: dict[str, Any] = {"learned": date(2026, 11, 30), "how": "by a test"}
    lock = VersionsLock(
        git=tuple(
            LockedRef(
                repository=one.repository,
                ref=one.ref,
                kind="commit" if is_commit(one.ref) else "tag",
                commit=one.ref if is_commit(one.ref) else "1" * 40,
                submodules=(),
                **told,
            )
            for one in questions.refs
        ),
        base=tuple(
            LockedBase(
                image=one.image, platforms={arch.platform: f"sha256:{'2' * 64}" for arch in one.platforms}, **told
            )
            for one in questions.bases
        ),
        run=tuple(LockedRun(url=one.url, sha256=one.sha256 or "3" * 64, bytes=1, **told) for one in questions.runs),
    )
    (root / VERSIONS_LOCK).write_text(str(lock), encoding="utf-8")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    registry = FakeRegistry()
    (tmp_path / "project").mkdir()
    world = World(tmp_path / "project", lambda name: repository(registry, name), registry)
    answer(world.root)
    pins = load_pins(world.root / "versions.toml")
    monkeypatch.setattr(publish_kit, "pins", lambda: pins)
    locks = world.root / "locks"
    monkeypatch.setattr(publish_kit, "lock_text", lambda name, arch: (locks / file_name(name, arch)).read_bytes())
    for name in ("a2", "a3"):
        complete(world.root, name)
    commit(world.root)
    return world


def planned(world: World, *names: str, there: Machines = BOTH) -> list[str]:
    return [one.name for one in workflow.plan(world.root, names, there).variants]


def publish(world: World, name: str) -> None:
    world.build(name)
    world.verify(*world.manifest(name))
    world.promote(name)


# --- the plan


def test_what_is_not_published_is_built_and_what_could_not_be_is_told(world: World) -> None:
    plan = workflow.plan(world.root, (), BOTH)
    assert [one.name for one in plan.variants] == ["a2", "a3"]
    assert "incomplete" in plan.left_out["310p"]
    assert "a2" not in plan.left_out


def test_a_lock_that_is_not_there_is_told(world: World) -> None:
    (world.root / "locks" / "a3.arm64.txt").unlink()
    assert workflow.plan(world.root, (), BOTH).left_out["a3"].startswith("a3.arm64.txt is not there")


def test_a_pin_that_versions_lock_does_not_answer_is_told(world: World) -> None:
    """What is taken as it is today could never be published: each architecture may have taken another."""
    lock = VersionsLock.load(world.root / VERSIONS_LOCK)
    (base,) = (one for one in lock.base if one.image.endswith("cann:9.1.0-a3-ubuntu22.04-py3.12"))
    others = tuple(one for one in lock.base if one != base)
    (world.root / VERSIONS_LOCK).write_text(str(msgspec.structs.replace(lock, base=others)))
    plan = workflow.plan(world.root, (), BOTH)
    assert [one.name for one in plan.variants] == ["a2"]
    assert plan.left_out["a3"] == f"the base image is {base.image}, not locked: invoke lock --variant a3"
    (world.root / VERSIONS_LOCK).write_text(str(msgspec.structs.replace(lock, base=others, git=())))
    assert " more): invoke lock --variant a3" in workflow.plan(world.root, (), BOTH).left_out["a3"]
    assert planned(world, "a3") == ["a3"]


def test_what_is_published_is_built_again_once_it_would_be_another(world: World) -> None:
    publish(world, "a2")
    assert planned(world) == ["a3"]
    (world.root / "dockerfiles" / "rendered" / "a2.Dockerfile").write_text("FROM other\n")
    assert planned(world) == ["a2", "a3"]


def test_a_commit_that_is_gone_is_no_reason_to_build_nothing(world: World) -> None:
    publish(world, "a2")
    history = load(world.root / FILE)
    (one,) = history.publications
    gone = msgspec.structs.replace(history, publications=(msgspec.structs.replace(one, commit="0" * 40),))
    (world.root / FILE).write_bytes(msgspec.json.encode(gone))
    assert planned(world) == ["a2", "a3"]


def test_what_is_named_is_built_whatever_is_published(world: World) -> None:
    publish(world, "a2")
    assert planned(world, "a2", "310p") == ["a2", "310p"]


def test_each_image_is_verified_where_there_are_npus_of_its_kind(world: World) -> None:
    there = machines("a2:amd64 a3:arm64", "amd64:big,linux", hardware=HARDWARE)
    outputs = workflow.plan(world.root, ["a3"], there, without_npu="no A3 with an Intel").outputs()
    assert json.loads(outputs["verifications"]) == {
        "include": [
            {
                "variant": "a3",
                "arch": "amd64",
                "platform": "linux/amd64",
                "runner": ["big", "linux"],
                "npu": "",
                "environment": "pull",
            },
            {
                "variant": "a3",
                "arch": "arm64",
                "platform": "linux/arm64",
                "runner": ["self-hosted", "linux", "ascend-a3", "ARM64"],
                "npu": "--require-npu",
                "environment": "npu",
            },
        ]
    }
    assert [one["runner"] for one in json.loads(outputs["builds"])["include"]] == [["big", "linux"], "ubuntu-24.04-arm"]
    assert (outputs["any"], outputs["words"], json.loads(outputs["variants"])) == ("true", "a3", ["a3"])


A2_ALONE = machines("a2:amd64,arm64", hardware=HARDWARE)
NO_A3 = (
    "no machine has its NPUs for linux/amd64, linux/arm64 (NPU_ARCH), and no reason is published for that (WITHOUT_NPU)"
)


def test_what_nothing_could_verify_is_left_out_before_it_is_built(world: World) -> None:
    plan = workflow.plan(world.root, (), A2_ALONE)
    assert [one.name for one in plan.variants] == ["a2"]
    assert plan.left_out["a3"] == NO_A3
    assert planned(world, there=machines("a2:arm64 a3:amd64,arm64", hardware=HARDWARE)) == ["a3"]


def test_a_published_reason_has_it_built(world: World) -> None:
    plan = workflow.plan(world.root, (), A2_ALONE, without_npu="no A3 at hand")
    assert [one.name for one in plan.variants] == ["a2", "a3"]


def test_a_run_that_nothing_could_verify_is_refused(world: World) -> None:
    with pytest.raises(PublishRefused, match="a3: no machine has its NPUs") as error:
        workflow.plan(world.root, ["a2", "a3"], A2_ALONE)
    assert "a2" not in str(error.value)
    publish(world, "a2")
    with pytest.raises(PublishRefused, match="a3: no machine has its NPUs"):
        workflow.plan(world.root, (), A2_ALONE)
    publish(world, "a3")
    assert planned(world, there=A2_ALONE) == []


def test_what_is_named_and_could_not_be_published_is_told(world: World) -> None:
    plan = workflow.plan(world.root, ["a2", "310p"], BOTH)
    assert list(plan.warnings()) == ["310p"]
    title, why = plan.warnings()["310p"]
    assert title == "could not be published as committed"
    assert "incomplete" in why or "not locked" in why


def test_what_is_left_out_is_said_beside_what_programs_read(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("GITHUB_ACTIONS", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tasks, "ROOT", world.root)
    context = SimpleNamespace(config=SimpleNamespace(run=SimpleNamespace(dry=False)))
    tasks.plan.body(context, [], npu_arch="a2:amd64,arm64", build_runners="amd64:big")
    told = capsys.readouterr()
    assert 'variants=["a2"]' in told.out
    assert '"runner": "big"' in told.out
    assert f"left out: a3: {NO_A3}\n" in told.err


WARNED = {"a3": ("left out", "50% of\nit"), "a2": ("left out", "x")}


def test_warnings_are_told_to_people() -> None:
    assert workflow.warn(WARNED, {}) == "left out: a3: 50% of it\nleft out: a2: x"
    assert workflow.warn({}, {}) == ""


def test_github_shows_warnings_at_the_run_and_in_its_summary(tmp_path: Path) -> None:
    summary = tmp_path / "summary"
    text = workflow.warn(WARNED, {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)})
    assert text == "::warning::left out: a3: 50%25 of it\n::warning::left out: a2: x"
    assert summary.read_text() == "## Plan\n\n```\nleft out: a3: 50% of it\nleft out: a2: x\n```\n"


# --- the image


def test_the_image_to_verify_is_named_by_its_digest(world: World) -> None:
    world.build("a2")
    (joined,) = world.manifest("a2")
    assert workflow.joined_image(world.root, "a2") == f"{joined.repository}@{joined.digest}"
    arm64 = joined.platforms["linux/arm64"].manifest
    assert workflow.joined_image(world.root, "a2", Arch.ARM64) == f"{joined.repository}@{arm64}"


def test_a_platform_that_was_not_joined(world: World) -> None:
    world.build("a2")
    (joined,) = world.manifest("a2")
    only = msgspec.structs.replace(joined, platforms={"linux/amd64": joined.platforms["linux/amd64"]})
    write_joined(world.root / publishing.MANIFESTS / "a2.json", only)
    with pytest.raises(PublishRefused, match="joined of linux/amd64"):
        workflow.joined_image(world.root, "a2", Arch.ARM64)


def test_a_platform_that_the_variant_is_not_built_for(world: World) -> None:
    world.build("a2", arches=[Arch.AMD64])
    path = world.root / "versions.toml"
    path.write_text(path.read_text().replace("[variant.a2]\n", '[variant.a2]\nplatforms = ["amd64"]\n'))
    world.manifest("a2")
    with pytest.raises(BadInput, match="variant a2 is not built for linux/arm64") as raised:
        workflow.joined_image(world.root, "a2", Arch.ARM64)
    assert raised.value.do == ""


def test_nothing_was_joined(world: World) -> None:
    with pytest.raises(PublishRefused, match="not joined yet"):
        workflow.joined_image(world.root, "a2")
    with pytest.raises(BadInput, match="no variant is named"):
        workflow.joined_image(world.root, "")


# --- what was published


def test_what_two_runs_published_is_remembered_in_the_order_of_time(world: World, tmp_path: Path) -> None:
    publish(world, "a2")
    publish(world, "a3")
    both = load(world.root / FILE)
    days = ("2026-11-29T12:00:00Z", "2026-11-30T12:00:00Z")
    a2, a3 = (msgspec.structs.replace(one, when=day) for one, day in zip(both.publications, days, strict=True))
    for name, one in (("first", a2), ("second", a3)):
        (tmp_path / name).write_bytes(msgspec.json.encode(msgspec.structs.replace(both, publications=(one,))))
    (world.root / FILE).unlink()
    said: list[str] = []
    assert workflow.remember(world.root, "", tmp_path / "second", said.append) == [a3]
    assert workflow.remember(world.root, "", tmp_path / "first", said.append) == [a2]
    assert workflow.remember(world.root, "", tmp_path / "first", said.append) == []
    assert load(world.root / FILE).publications == (a2, a3)


def test_a_branch_that_is_not_proposed_holds_nothing_and_that_is_said(world: World) -> None:
    said: list[str] = []
    assert workflow.remember(world.root, "origin/published", None, said.append) == []
    assert said == ["origin/published is not here: nothing is proposed, as far as was fetched"]
    assert workflow.remember(world.root, "HEAD", None, said.append) == [], "a commit without the file"
    assert not (world.root / FILE).exists()


def test_what_was_mistyped_is_not_taken_for_nothing(world: World, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--from origin/publisched: no such commit here"):
        workflow.remember(world.root, "origin/publisched", None, print)
    with pytest.raises(BadInput, match=r"nothing\.json: no such file"):
        workflow.remember(world.root, "", tmp_path / "nothing.json", print)


def test_git_that_cannot_tell_is_not_taken_for_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(world, "a2")
    commit(world.root)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    for what in ("HEAD", "origin/published"):
        with pytest.raises(MissingTool, match="dubious ownership"):
            workflow.remember(world.root, what, None, print)


def sequence(*days: str) -> Published:
    """Return a list of publications, each of a day of November and of nothing else than it says."""
    one = publication()
    return Published(
        publications=tuple(msgspec.structs.replace(one, tag=day, when=f"2026-11-{day[:2]}T00:00:00Z") for day in days)
    )


@pytest.mark.parametrize(
    ("mine", "theirs", "merged"),
    [
        ("", "", ""),
        ("01 02", "", "01 02"),
        ("", "01 02", "01 02"),
        # What follows another stays behind it, whatever clocks said of either.
        ("30", "30 02", "30 02"),
        ("30 02", "30", "30 02"),
        ("30 02", "30 02 01", "30 02 01"),
        ("01 30 02", "01 05 02", "01 05 30 02"),
        # Only of what two added apart from each other do they decide.
        ("01 04", "01 03", "01 03 04"),
        ("01 04 06", "01 03 05", "01 03 04 05 06"),
        ("01 30 02", "01 03", "01 03 30 02"),
        ("04", "03", "03 04"),
        # Two that contradict each other: what is here keeps its place.
        ("01 02 03", "02 01 04", "01 02 03 04"),
    ],
)
def test_what_is_remembered_comes_behind_what_it_followed(mine: str, theirs: str, merged: str) -> None:
    made = sequence(*mine.split()).joined_with(sequence(*theirs.split()))
    assert [one.tag for one in made.publications] == merged.split()


def test_what_is_remembered_twice_is_there_once(world: World, tmp_path: Path) -> None:
    """As job `index` does it: the branch that is proposed, then what a run has published on top of that."""
    (tmp_path / "now").write_bytes(msgspec.json.encode(sequence("30", "29", "28")))
    append(world.root / FILE, sequence("30").publications)
    for expected in (2, 0):
        assert len(workflow.remember(world.root, "", tmp_path / "now", print)) == expected
    assert [one.tag for one in load(world.root / FILE).publications] == ["30", "29", "28"]


def test_what_a_branch_holds_is_remembered(world: World) -> None:
    publish(world, "a2")
    commit(world.root)
    held = load(world.root / FILE)
    (world.root / FILE).unlink()
    assert workflow.remember(world.root, "main", None, print) == list(held.publications)
    assert load(world.root / FILE) == held


@pytest.mark.parametrize(("revision", "file"), [("", None), ("main", Path("x"))])
def test_one_place_is_remembered_at_a_time(world: World, revision: str, file: Path | None) -> None:
    with pytest.raises(BadInput, match="what is to be remembered"):
        workflow.remember(world.root, revision, file, print)


def test_a_file_that_is_no_list_of_publications(world: World, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(BadInput, match="not the list"):
        workflow.remember(world.root, "", tmp_path / "x.json", print)


# --- updates


def update(name: str, bump: str, **fields: Any) -> Update:
    return Update(kind="package", name=name, pinned="1", variants=("a2",), newest="2", bump=bump, **fields)


BROKEN = Broken(rule="r", message="m", wanted="w", variants=("a2",), known=True)


def test_updates_that_break_nothing_become_one_pull_request_a_pin() -> None:
    found = Outdated(
        variants=("a2",),
        updates=(
            update("evalscope", "invoke bump ms-swift.evalscope 2\ninvoke bump verl.evalscope 2"),
            update("torch", "invoke bump ms-swift.torch 3", breaks=(BROKEN,)),
            update("fla", "invoke bump ms-swift.fla 'release/1.5 x'", breaks=(BROKEN,), fitting="1.5"),
            update("base", "invoke lock --variant a2 --update base"),
        ),
        not_reached={},
    )
    outputs = workflow.updates(found)
    assert outputs["any"] == "true"
    assert json.loads(outputs["updates"])["include"] == [
        {"name": name, "version": version, "branch": f"update/{plain}", "artifact": f"update-{plain}"}
        for name, version, plain in (
            ("ms-swift.evalscope", "2", "ms-swift.evalscope-2"),
            ("verl.evalscope", "2", "verl.evalscope-2"),
            ("ms-swift.fla", "release/1.5 x", "ms-swift.fla-release-1.5-x"),
        )
    ]


def test_nothing_to_update() -> None:
    assert workflow.updates(Outdated(variants=("a2",), updates=(), not_reached={}))["any"] == "false"


# --- outputs


def test_outputs_are_told_to_people_and_to_the_runner(tmp_path: Path) -> None:
    place = tmp_path / "outputs"
    place.write_text("before=1\n")
    text = workflow.tell({"a": "1", "b": "[2]"}, {"GITHUB_OUTPUT": str(place)})
    assert text == "a=1\nb=[2]"
    assert place.read_text() == "before=1\na=1\nb=[2]\n"
    assert workflow.tell({"a": "1"}, {}) == "a=1"
