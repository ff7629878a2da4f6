"""One call's builds with an engine that is only answered for: what is refused, and what is told at the end."""

import dataclasses
import io
import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from ascend_images.errors import BadInput, BuildFailed, MissingTool
from ascend_images.images import build as build_module
from ascend_images.images import outcome as outcome_module
from ascend_images.images.build import build, reasons_against, room_for
from ascend_images.images.builders import default_jobs
from ascend_images.images.cost import GB
from ascend_images.images.engine import Answer, Engine, ImageStore
from ascend_images.images.gate import load_lock
from ascend_images.images.network import Network
from ascend_images.images.outcome import Failure, Outcome, summary_path
from ascend_images.images.plan import BuildPlan, Choices
from ascend_images.images.progress import FailedStep
from ascend_images.images.readback import Config, Layer, Made
from ascend_images.images.record import TRIED_AGAIN, record_of, write_record
from ascend_images.images.run import Ended, Interrupted, Job
from ascend_images.images.transient import RETRIES, is_transient
from ascend_images.pins.platform import Arch
from tests.unit.images.conftest import lock_of
from tests.unit.images.test_builders import DOWN, Docker

INFO = {
    "ServerVersion": "26.1.5",
    "Driver": "overlayfs",
    "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]],
    "DockerRootDir": "/var/lib/docker",
    "Architecture": "x86_64",
    "NCPU": 2,
    "MemTotal": 24 * GB,
    "ClientInfo": {"Context": "default", "Plugins": [{"Name": "buildx", "Version": "v0.13.1"}]},
}
BUILDER = "Name: default\nDriver: docker\n\nNodes:\nPlatforms: linux/amd64\n"


def engine(command: Sequence[str]) -> Answer:
    if "info" in command:
        return Answer(0, json.dumps(INFO), "")
    if "context" in command:
        return Answer(0, "ssh://elsewhere\n", "")
    if "buildx" in command:
        return Answer(0, BUILDER, "")
    return Answer(1, "", "no such image")


def nothing_runs(*_: object, **__: object) -> None:
    raise AssertionError("a build was started")


@pytest.fixture(autouse=True)
def _no_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_module, "run_next", nothing_runs)


def left(root: Path) -> list[Path]:
    return [path for path in (root / "build").rglob("*") if path.is_file()]


def test_no_plans_are_no_builds() -> None:
    assert build([], run=engine) == ()


def test_fewer_than_none_at_a_time_is_refused(plan_of) -> None:
    with pytest.raises(BadInput, match="--jobs -1"):
        build([plan_of()], jobs=-1, stream=io.StringIO(), run=engine)


def test_a_plan_that_must_not_be_built_is_refused_before_the_engine_is_asked(plan_of, tmp_path: Path) -> None:
    def never(_: Sequence[str]) -> Answer:
        raise AssertionError("asked")

    with pytest.raises(BadInput, match="has no lock"):
        build([plan_of(lock=None)], stream=io.StringIO(), run=never)
    assert left(tmp_path) == []


def test_a_machine_without_docker_is_refused_and_nothing_is_left(plan_of, tmp_path: Path) -> None:
    def none(_: Sequence[str]) -> Answer:
        return Answer(1, "", "Cannot connect to the Docker daemon")

    with pytest.raises(MissingTool, match="no Docker Engine answers") as error:
        build([plan_of()], stream=io.StringIO(), run=none)
    assert error.value.do == "scripts/engine.sh start"
    assert left(tmp_path) == []


def test_a_foreign_architecture_is_refused_and_nothing_is_left(plan_of, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="another architecture"):
        build([plan_of("a2", Arch.ARM64)], stream=io.StringIO(), run=engine)
    assert left(tmp_path) == []


def test_a_disk_that_is_too_small_is_refused_after_the_cost_was_said(
    plan_of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ascend_images.images.cost.free_bytes", lambda _: GB)
    out = io.StringIO()
    with pytest.raises(MissingTool, match=r"has 1\.0 GB free"):
        build([plan_of()], stream=out, run=engine)
    assert "cost: a2 amd64" in out.getvalue()
    assert left(tmp_path) == []


@pytest.mark.parametrize(("memory", "images", "jobs"), [(24, 10, 3), (100, 10, 4), (100, 2, 2), (2, 5, 1)])
def test_as_many_at_a_time_as_memory_is_good_for(memory: int, images: int, jobs: int) -> None:
    one = Engine("26", "0.13", ImageStore.CONTAINERD, "", Path(), "", "", Arch.AMD64, 2, memory * GB)
    assert default_jobs(one, images) == jobs


def record_for(plan):
    made = Made(digest="sha256:d", manifest="sha256:m", config_digest="sha256:c", config=Config(), bytes=1, layers=())
    return record_of(plan, made, load_lock(plan), seconds=3)


def outcome(plan_of) -> Outcome:
    good, bad, late = plan_of("a2"), plan_of("a3"), plan_of("310p")
    step = FailedStep("[s 1/1] RUN", "pip install x", 7, 2, "exit code 2", ("last words",))
    return Outcome((good, bad, late), [record_for(good)], [Failure(bad, 2.345, step)], interrupted=True)


def test_the_summary_tells_failed_built_and_skipped_images(plan_of) -> None:
    data = outcome(plan_of).as_data()
    assert list(data) == ["schema", "interrupted", "failed", "built", "skipped"]
    (failed,) = data["failed"]
    assert (failed["variant"], failed["log"]) == ("a3", "build/logs/a3.amd64.log")
    assert (failed["command"], failed["line"], failed["output"]) == ("pip install x", 7, ["last words"])
    assert [one["digest"] for one in data["built"]] == ["sha256:d"]
    assert [one["variant"] for one in data["skipped"]] == ["310p"]
    assert json.loads(json.dumps(data)) == data


def test_failed_images_come_first_with_their_log_and_last_lines(plan_of) -> None:
    lines = outcome_module.report(outcome(plan_of))
    assert lines[0] == "FAILED a3 amd64 after 2.3 s"
    assert lines[1] == "  log:     build/logs/a3.amd64.log"
    assert "  command: pip install x" in lines
    assert "  | last words" in lines
    assert lines.index("skipped 310p amd64") > next(n for n, line in enumerate(lines) if line.startswith("built a2"))
    assert lines[-1] == "summary: build/summary.json"


def test_the_error_counts_and_names_what_failed(plan_of) -> None:
    error = outcome_module.build_failed(outcome(plan_of))
    assert error.exit_code == 4
    assert error.found == "1 of 3 images could not be built: a3 amd64"
    assert error.do == "see build/logs/a3.amd64.log"


def test_the_summary_lies_below_the_build_folder(tmp_path: Path) -> None:
    assert summary_path(tmp_path) == tmp_path / "build" / "summary.json"


def test_what_would_be_refused_is_told_before_anything_is_built(plan_of) -> None:
    note = "HTTPS_PROXY is on this machine's loopback"
    network = Network(settings={}, notes=(note,))
    said = reasons_against([plan_of("a2", lock=None, network=network), plan_of("a3", lock=None)])
    assert said[0] == note
    (warning,) = said[1:]
    assert warning.startswith("warning: this would not be built:\n- a2 amd64 has no lock")
    assert "invoke lock --variant a3" in warning


def test_what_would_be_built_is_not_warned_of(plan_of) -> None:
    assert reasons_against([plan_of("a2"), plan_of("a3")]) == ()


def test_a_dry_run_counts_the_room_as_a_build_does(plan_of, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [plan_of("a2")]
    monkeypatch.setattr("ascend_images.images.cost.free_bytes", lambda _: 10**9)
    with pytest.raises(MissingTool) as refused:
        build(plans, stream=io.StringIO(), run=engine)
    *said, last = room_for(plans, run=engine)
    assert last == f"warning: this would not be built:\n{refused.value}"
    assert "1.0 GB free" in said[0]
    monkeypatch.setattr("ascend_images.images.cost.free_bytes", lambda _: 10**12)
    assert not any("warning" in line for line in room_for(plans, run=engine))


def test_a_dry_run_that_nobody_can_be_asked_about_room_says_so(plan_of) -> None:
    assert room_for([plan_of("a2", lock=None)], run=engine) == ()  # the gate says that
    (line,) = room_for([plan_of("a2")], run=lambda _: Answer(127, "", "no docker"))
    assert line.startswith("note: whether there is room was not asked: ")


def test_what_comes_after_a_push_is_told(plan_of) -> None:
    push = Choices(push=True, typed=("--sandbox", "--set repository=localhost:5000/x"))
    plans = tuple(plan_of("a2", arch, choices=push) for arch in (Arch.AMD64, Arch.ARM64))
    records = [record_for(one) for one in plans]
    again = "invoke build --variant a2 --arch arm64 --sandbox --set repository=localhost:5000/x --push"
    assert outcome_module.report(Outcome(plans[:1], built=records[:1]))[-1] == f"next: {again}"
    write_record(plans[1].record, records[1])
    for some in (plans[:1], plans):
        last = outcome_module.report(Outcome(some, built=records[: len(some)]))[-1]
        assert last == "next: invoke manifest --variant a2"
    assert not outcome_module.report(Outcome(plans, built=records[:1]))[-1].startswith("next")  # arm64 was not built
    kept = plan_of("a2")
    record = record_for(kept)
    assert not outcome_module.report(Outcome((kept,), built=[record]))[-1].startswith("next")


def test_what_was_being_built_is_told_from_what_was_not_begun(plan_of) -> None:
    one = Outcome((plan_of("a2"), plan_of("a3")), interrupted=True, stopped=("a2 amd64",))
    assert outcome_module.report(one)[:2] == ["interrupted a2 amd64", "skipped a3 amd64"]


def test_the_summary_is_handed_over_once_builds_were_begun_and_is_never_an_earlier_one(
    plan_of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary_path(tmp_path).parent.mkdir(parents=True)
    summary_path(tmp_path).write_text("of yesterday")
    told: list[str] = []
    with pytest.raises(BadInput):
        build([plan_of(lock=None)], stream=io.StringIO(), run=engine, told=told.append)
    assert told == []

    def interrupted(*_: object, **__: object) -> None:
        raise Interrupted(2, ("a2 amd64",))

    monkeypatch.setattr(build_module, "run_next", interrupted)
    with pytest.raises(Interrupted):
        build([plan_of()], stream=io.StringIO(), run=engine, told=told.append)
    (text,) = told
    assert json.loads(text)["interrupted"] is True
    assert [one["variant"] for one in json.loads(text)["skipped"]] == ["a2"]


NOTHING = {"ServerVersion": "26.1.5"}


@pytest.mark.parametrize(
    "said",
    [
        "[" * 100_000,
        "null",
        "[]",
        json.dumps({**NOTHING, "ClientInfo": [], "DriverStatus": {}, "NCPU": "two", "MemTotal": None}),
        json.dumps({**NOTHING, "ClientInfo": {"Plugins": [None, "buildx", {"Name": 1}]}, "DriverStatus": [[], 1, [1]]}),
        json.dumps({"ServerVersion": "9" * 5000, "DriverStatus": [["driver-type", None]]}),
        json.dumps({"ServerErrors": [None, {}], "ServerVersion": ""}),
        json.dumps({"ServerErrors": "down"}),
    ],
)
def test_whatever_docker_info_says_is_no_traceback(plan_of, said: str) -> None:
    def strange(command: Sequence[str]) -> Answer:
        return Answer(0, said, "") if "info" in command else engine(command)

    with pytest.raises(MissingTool):
        build([plan_of()], stream=io.StringIO(), run=strange)


@pytest.mark.parametrize(
    ("asked", "layers", "said"),
    [
        ("gzip", ("gzip", "zstd"), []),
        ("zstd", ("zstd", "zstd"), []),
        ("zstd", ("gzip", "zstd", "gzip"), ["  layers:  2 gzip, 1 zstd; those of the base"]),
    ],
)
def test_layers_that_a_builder_had_packed_otherwise_are_told(
    plan_of, asked: str, layers: tuple[str, ...], said: list[str]
) -> None:
    packed = tuple(Layer(digest="sha256:l", media_type="", compression=how, bytes=1) for how in layers)
    record = msgspec.structs.replace(record_for(plan_of()), compression=asked, layers=packed)
    lines = outcome_module.report(Outcome((plan_of(),), [record]))
    assert [line[: len(said[0])] for line in lines if line.startswith("  layers:")] == said if said else True
    assert any(line.startswith("  layers:") for line in lines) is bool(said)
    remedy = "  next:    for zstd in all but the base's: a builder without this image (--builder NAME)"
    assert (remedy in lines) is bool(said)
    assert outcome_module._built_data(record)["packed"] == {how: layers.count(how) for how in sorted(set(layers))}


@pytest.mark.parametrize("why", ["", "connection refused"])
def test_a_cache_that_was_not_exported_is_told_and_summed_up(plan_of, why: str) -> None:
    record = msgspec.structs.replace(record_for(plan_of()), not_cached=why)
    lines = outcome_module.report(Outcome((plan_of(),), [record]))
    said = [line for line in lines if line.startswith("  cache:")]
    assert said == (["  cache:   not exported: connection refused"] if why else [])
    assert outcome_module._built_data(record)["not_cached"] == why


LOST = FailedStep(
    "exporting to image", "", None, None,
    f'failed to prepare extraction snapshot "extract-896136566-SJfr sha256:{"f" * 64}": '
    f"parent snapshot sha256:{'a' * 64} does not exist: not found", (),
)  # fmt: skip


def processes_that_end_with(*failures: FailedStep | None, begun: list[str]):
    """Stands in for the processes: the n-th that is begun ends with the n-th failure, the last one for good."""

    def run(next_job, *, on_end, **_: object) -> None:
        while (job := next_job()) is not None:
            failure = failures[min(len(begun), len(failures) - 1)]
            begun.append(job.name)
            on_end(Ended(job, 0 if failure is None else 1, 1.0, failure))

    return run


def test_an_export_that_the_engine_lost_a_layer_of_is_tried_again(plan_of, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(build_module, "run_next", processes_that_end_with(LOST, None, begun=begun))
    monkeypatch.setattr(build_module._Build, "_record", lambda _self, plan, *_: record_for(plan))
    out = io.StringIO()
    (record,) = build([plan_of()], stream=out, run=engine)
    assert record.variant == "a2"
    assert begun == ["a2 amd64"] * 2
    assert "a2 amd64: the engine lost a layer while it exported the image: tried again" in out.getvalue()


def test_a_second_try_goes_on_in_the_log_of_the_first_and_its_time_counts_with_it(
    plan_of, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[Job] = []

    def run(next_job, *, on_end, **_: object) -> None:
        for failure, seconds in ((LOST, 70.0), (None, 2.0)):
            jobs.append(next_job())
            jobs[-1].log.parent.mkdir(parents=True, exist_ok=True)
            with jobs[-1].log.open("a" if jobs[-1].again else "w") as log:
                log.write(f"try {len(jobs)}\n")
            on_end(Ended(jobs[-1], 0 if failure is None else 1, seconds, failure))

    monkeypatch.setattr(build_module, "run_next", run)
    monkeypatch.setattr(
        build_module._Build,
        "_record",
        lambda _self, plan, _metadata, seconds: msgspec.structs.replace(record_for(plan), seconds=seconds),
    )
    (record,) = build([plan_of()], stream=io.StringIO(), run=engine)
    assert record.seconds == 72.0
    assert [job.again for job in jobs] == [False, True]
    assert jobs[0].log.read_text() == f"try 1\n{TRIED_AGAIN}\ntry 2\n"


def test_an_image_that_no_builder_is_left_to_try_again_is_a_failure(
    plan_of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two are built by a builder that is lost: one failed by that, the other by what would be tried again."""
    docker = Docker()

    def run(next_job, *, on_end, **_: object) -> None:
        first, second = next_job(), next_job()
        del docker.nodes["farm"]
        on_end(Ended(first, 1, 2.0, None))
        on_end(Ended(second, 1, 3.0, LOST))
        assert next_job() is None

    monkeypatch.setattr(build_module, "run_next", run)
    plans = [plan_of(name, Arch.ARM64, choices=Choices(push=True)) for name in ("a2", "a3")]
    with pytest.raises(BuildFailed, match="2 of 2 images could not be built"):
        build(plans, builders=("farm",), jobs=2, stream=io.StringIO(), run=docker)
    data = json.loads(summary_path(tmp_path).read_text())
    assert data["skipped"] == []
    assert sorted(one["seconds"] for one in data["failed"]) == [2.0, 3.0]
    assert all("does not answer any more" in one["error"] for one in data["failed"])


CHANGED = "a3 amd64: its lock or its Dockerfile was changed after the call had begun"


def change_lock(plan: BuildPlan) -> None:
    plan.lock.write_text(str(lock_of(plan.variant, plan.arch, incomplete=("another",))))


def change_dockerfile(plan: BuildPlan) -> None:
    plan.rendered.file.write_text(f"{plan.rendered.text}RUN true\n")


def remove_lock(plan: BuildPlan) -> None:
    plan.lock.unlink()


@pytest.mark.parametrize("change", [change_lock, change_dockerfile, remove_lock])
def test_an_image_whose_files_were_changed_before_it_begins_is_not_begun(
    plan_of, change, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = [plan_of("a2"), plan_of("a3"), plan_of("a2-openeuler")]
    begun: list[str] = []

    def run(next_job, *, on_end, **_: object) -> None:
        first = next_job()
        change(plans[1])
        on_end(Ended(first, 0, 1.0, None))
        begun.append(first.name)
        processes_that_end_with(None, begun=begun)(next_job, on_end=on_end)

    monkeypatch.setattr(build_module, "run_next", run)
    monkeypatch.setattr(build_module._Build, "_record", lambda _self, plan, *_: record_for(plan))
    with pytest.raises(BuildFailed, match="1 of 3 images could not be built: a3 amd64"):
        build(plans, jobs=1, stream=io.StringIO(), run=engine)
    assert begun == ["a2 amd64", "a2-openeuler amd64"]
    (failed,) = json.loads(summary_path(tmp_path).read_text())["failed"]
    assert failed["error"].startswith(CHANGED)
    assert plans[1].log.read_text().startswith(CHANGED)


def test_an_image_whose_files_were_changed_while_it_was_built_has_no_record(
    plan_of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of("a3")
    plan.record.parent.mkdir(parents=True)
    plan.record.write_text("of the image that had the name before")

    def run(next_job, *, on_end, **_: object) -> None:
        job = next_job()
        change_lock(plan)
        assert not on_end(Ended(job, 0, 1.0, None))

    monkeypatch.setattr(build_module, "run_next", run)
    monkeypatch.setattr(build_module, "read_metadata", lambda *_: None)
    with pytest.raises(BuildFailed, match="a3 amd64"):
        build([plan], stream=io.StringIO(), run=engine)
    (failed,) = json.loads(summary_path(tmp_path).read_text())["failed"]
    assert failed["error"].startswith(CHANGED)
    assert not plan.record.exists()


def test_an_engine_that_goes_on_losing_layers_is_believed(plan_of, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(build_module, "run_next", processes_that_end_with(LOST, begun=begun))
    with pytest.raises(BuildFailed):
        build([plan_of()], stream=io.StringIO(), run=engine)
    assert len(begun) == 1 + RETRIES


def test_what_a_lost_builder_built_fails_by_its_name_and_what_only_it_could_build_with_it(
    plan_of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other builder goes on; a log of an earlier call does not pass for that of an image that was never begun."""
    docker = Docker()

    def run(next_job, *, on_end, **_: object) -> None:
        begun = []
        while (job := next_job()) is not None:
            begun.append(job)
        (lost,) = [job for job in begun if job.command[:3] == ("docker", "--context", "farm")]
        (kept,) = [job for job in begun if job is not lost]
        assert (lost.note, kept.note) == ("builder: farm", "builder: default")
        assert lost.command[-3:-1] == ("--builder", "farm")
        lost.log.parent.mkdir(parents=True, exist_ok=True)
        lost.log.write_text("ERROR: closing transport\n")
        del docker.nodes["farm"]
        on_end(Ended(lost, 1, 2.0, None))
        on_end(Ended(kept, 0, 1.0, None))
        assert next_job() is None

    monkeypatch.setattr(build_module, "run_next", run)
    monkeypatch.setattr(build_module._Build, "_record", lambda _self, plan, *_: record_for(plan))
    choices = Choices(push=True)
    plans = [plan_of(name, arch, choices=choices) for name in ("a2", "a3") for arch in (Arch.AMD64, Arch.ARM64)][:2]
    plans.append(plan_of("a3", Arch.ARM64, choices=choices))
    plans[2].log.parent.mkdir(parents=True)
    plans[2].log.write_text("of yesterday")
    out = io.StringIO()
    with pytest.raises(BuildFailed, match="2 of 3 images could not be built"):
        build(plans, builders=("default", "farm"), jobs=1, stream=out, run=docker)
    data = json.loads(summary_path(tmp_path).read_text())
    assert [(one["variant"], one["builder"]) for one in data["built"]] == [("a2", "default")]
    errors = {one["variant"]: (one["builder"], one["error"].splitlines()) for one in data["failed"]}
    assert errors["a3"] == ("", ["no builder is left for it: farm does not answer any more"])
    name, (first, *rest) = errors["a2"]
    assert name == "farm"
    assert first == f"the builder farm does not answer any more: {DOWN}"
    assert rest == ["docker buildx ended with exit code 1", "| ERROR: closing transport"]
    assert "  builder: farm\n" in out.getvalue()
    assert "  builder: default\n" in out.getvalue()
    assert plans[2].log.read_text() == "no builder is left for it: farm does not answer any more\n"


def test_a_step_that_fails_is_no_fault_of_its_builder(plan_of, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    step = FailedStep("[s 1/1] RUN", "pip install x", 7, 2, "exit code 2", ())
    monkeypatch.setattr(build_module, "run_next", processes_that_end_with(step, begun=begun))
    monkeypatch.setattr(build_module, "fault_of", nothing_runs)
    out = io.StringIO()
    with pytest.raises(BuildFailed):
        build([plan_of(), plan_of("a3")], stream=out, run=engine)
    assert begun == ["a2 amd64", "a3 amd64"]
    assert "builder:" not in out.getvalue(), "there is one alone"


@pytest.mark.parametrize(
    "failure",
    [
        None,
        dataclasses.replace(LOST, step="[packages 1/1] RUN"),
        dataclasses.replace(LOST, error="failed to push: unexpected status 500"),
    ],
)
def test_every_other_failure_is_the_builds_own(failure: FailedStep | None) -> None:
    assert not is_transient(failure)
