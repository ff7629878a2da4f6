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
from ascend_images.images.build import Failure, Outcome, build, default_jobs, reasons_against, summary_path
from ascend_images.images.cost import GB
from ascend_images.images.engine import Answer, Engine, ImageStore
from ascend_images.images.gate import load_lock
from ascend_images.images.network import Network
from ascend_images.images.progress import FailedStep
from ascend_images.images.readback import Config, Layer, Made
from ascend_images.images.record import record_of
from ascend_images.images.run import Ended, Interrupted, Job
from ascend_images.images.transient import RETRIES, is_transient
from ascend_images.pins.platform import Arch

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
    monkeypatch.setattr(build_module, "run_jobs", nothing_runs)


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
    lines = build_module._report(outcome(plan_of))
    assert lines[0] == "FAILED a3 amd64 after 2.3 s"
    assert lines[1] == "  log:     build/logs/a3.amd64.log"
    assert "  command: pip install x" in lines
    assert "  | last words" in lines
    assert lines.index("skipped 310p amd64") > next(n for n, line in enumerate(lines) if line.startswith("built a2"))
    assert lines[-1] == "summary: build/summary.json"


def test_the_error_counts_and_names_what_failed(plan_of) -> None:
    error = build_module._build_failed(outcome(plan_of))
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


def test_what_was_being_built_is_told_from_what_was_not_begun(plan_of) -> None:
    one = Outcome((plan_of("a2"), plan_of("a3")), interrupted=True, stopped=("a2 amd64",))
    assert build_module._report(one)[:2] == ["interrupted a2 amd64", "skipped a3 amd64"]


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

    monkeypatch.setattr(build_module, "run_jobs", interrupted)
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
    lines = build_module._report(Outcome((plan_of(),), [record]))
    assert [line[: len(said[0])] for line in lines if line.startswith("  layers:")] == said if said else True
    assert any(line.startswith("  layers:") for line in lines) is bool(said)
    assert build_module._built_data(record)["packed"] == {how: layers.count(how) for how in sorted(set(layers))}


LOST = FailedStep(
    "exporting to image", "", None, None,
    f'failed to prepare extraction snapshot "extract-896136566-SJfr sha256:{"f" * 64}": '
    f"parent snapshot sha256:{'a' * 64} does not exist: not found", (),
)  # fmt: skip


def run_jobs_that_end_with(*failures: FailedStep | None, runs: list[list[str]]):
    """Stands in for the processes: the n-th run of jobs ends with the n-th failure, the last one for good."""

    def run(jobs: Sequence[Job], *, on_end, **_: object) -> None:
        failure = failures[min(len(runs), len(failures) - 1)]
        runs.append([job.name for job in jobs])
        for job in jobs:
            on_end(Ended(job, 0 if failure is None else 1, 1.0, failure))

    return run


def test_an_export_that_the_engine_lost_a_layer_of_is_tried_again(plan_of, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[list[str]] = []
    monkeypatch.setattr(build_module, "run_jobs", run_jobs_that_end_with(LOST, None, runs=runs))
    monkeypatch.setattr(build_module._Build, "_record", lambda _self, plan, _seconds: record_for(plan))
    out = io.StringIO()
    (record,) = build([plan_of()], stream=out, run=engine)
    assert record.variant == "a2"
    assert runs == [["a2 amd64"]] * 2
    assert "a2 amd64: the engine lost a layer while it exported the image: tried again" in out.getvalue()


def test_an_engine_that_goes_on_losing_layers_is_believed(plan_of, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[list[str]] = []
    monkeypatch.setattr(build_module, "run_jobs", run_jobs_that_end_with(LOST, runs=runs))
    with pytest.raises(BuildFailed):
        build([plan_of()], stream=io.StringIO(), run=engine)
    assert len(runs) == 1 + RETRIES


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
