"""Builds images: what is planned is gated, costed, built side by side, read back, recorded and summed up."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import msgspec

from ascend_images.errors import AscendImagesError, BadInput, BuildFailed
from ascend_images.files import write_atomic
from ascend_images.images import bake
from ascend_images.images.builder import Builder, find_builder
from ascend_images.images.cost import GB, cost_of, require_architectures, require_room
from ascend_images.images.engine import Engine, Run, require_engine, run_command
from ascend_images.images.gate import check_plans, load_lock, refusal
from ascend_images.images.network import secret_files
from ascend_images.images.plan import BUILD_FOLDER, COMPRESSIONS, BuildPlan, target_of, with_shared_packages
from ascend_images.images.progress import SHOWN_LINES, FailedStep, Line
from ascend_images.images.readback import differences, read_back, read_metadata
from ascend_images.images.record import Record, record_of, write_record
from ascend_images.images.run import Ended, Interrupted, Job, View, run_jobs
from ascend_images.images.show import view_on
from ascend_images.images.sources import stage_source
from ascend_images.images.stages import stage_names
from ascend_images.images.transient import RETRIES, is_transient
from ascend_images.pins.lockfile import LockFile
from ascend_images.scratch import private_folder

#: Raised when a reader of an older summary would misread a newer one.
SUMMARY_SCHEMA = 1
_MOST_JOBS = 4
_JOB_MEMORY = 8 * GB


@dataclass(frozen=True)
class Failure:
    """Why there is no image: the step that failed, or what was wrong with what the build made."""

    plan: BuildPlan
    seconds: float
    step: FailedStep | None
    reason: str = ""

    def __str__(self) -> str:
        return str(self.step) if self.step else f"error:   {self.reason}"


@dataclass
class Outcome:
    """What became of the images of one call; an image that is in neither list was not built."""

    plans: tuple[BuildPlan, ...]
    built: list[Record] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    interrupted: bool = False
    stopped: tuple[str, ...] = ()
    """Names of the plans that were being built when somebody interrupted."""

    @property
    def skipped(self) -> list[BuildPlan]:
        """The plans that were not built, or not to their end, because somebody interrupted."""
        ended = {(record.variant, record.arch) for record in self.built}
        ended |= {(failure.plan.variant.name, failure.plan.arch) for failure in self.failed}
        return [plan for plan in self.plans if (plan.variant.name, plan.arch) not in ended]

    def as_data(self) -> dict[str, Any]:
        """Return the summary as it is written: failed images first."""
        return {
            "schema": SUMMARY_SCHEMA,
            "interrupted": self.interrupted,
            "failed": [_failure_data(failure) for failure in self.failed],
            "built": [_built_data(record) for record in self.built],
            "skipped": [_names(plan) for plan in self.skipped],
        }


def require_jobs(jobs: int) -> None:
    """Raise BadInput for a number of builds at a time that is below none."""
    if jobs < 0:
        raise BadInput(f"--jobs {jobs}", wanted="how many images are built at a time: 1 or more")


def build(
    plans: Sequence[BuildPlan],
    *,
    jobs: int = 0,
    stream: TextIO | None = None,
    stages: Callable[[str], Iterable[str]] = stage_names,
    run: Run = run_command,
    told: Callable[[str], None] | None = None,
) -> tuple[Record, ...]:
    """Build all plans, `jobs` at a time (0: as many as the engine's memory is good for), and return their records.

    Progress and results go to `stream`, standard error by default. Raises BadInput for plans that must not be built and
    for emulation nobody asked for, MissingTool for an engine, an emulator or room that is not there, BuildFailed, after
    all have ended, if one failed; Interrupted when somebody interrupts. `build/summary.json` says what became of each;
    once builds were begun, `told` is given its text.
    """
    require_jobs(jobs)
    if not plans:
        return ()
    out = stream or sys.stderr
    shared = with_shared_packages(plans)
    check_plans(shared, stages=stages)
    locks = [load_lock(plan) for plan in shared]
    name = shared[0].choices.builder
    engine = require_engine(builder=name, run=run)
    builder = find_builder(name, context=engine.context, run=run)
    require_architectures(shared, builder)
    at_once = jobs if jobs > 0 else default_jobs(engine, len(shared))
    costs = cost_of(shared, locks, engine=engine, builder=builder, at_once=min(at_once, len(shared)), run=run)
    _say(out, str(costs), *dict.fromkeys(note for plan in shared for note in plan.notes))
    require_room(costs, engine)
    _stage(shared)
    outcome = _Build(shared, locks, engine, builder, run).run(at_once, out, told)
    _say(out, *_report(outcome))
    if outcome.failed:
        raise _build_failed(outcome)
    return tuple(outcome.built)


def reasons_against(
    plans: Sequence[BuildPlan], *, stages: Callable[[str], Iterable[str]] = stage_names
) -> tuple[str, ...]:
    """Return what there is to be told of plans before they are built, why they would be refused last."""
    shared = with_shared_packages(plans)
    error = refusal(shared, stages=stages)
    notes = tuple(dict.fromkeys(note for plan in shared for note in plan.notes))
    return (*notes, f"warning: this would not be built:\n{error}") if error else notes


def default_jobs(engine: Engine, images: int) -> int:
    """Return how many images are built at a time where nobody says: one for each 8 GB of the engine's memory."""
    return max(1, min(images, _MOST_JOBS, engine.memory // _JOB_MEMORY))


def summary_path(root: Path) -> Path:
    """Return where the summary of the last call goes."""
    return root / BUILD_FOLDER / "summary.json"


class _Build:
    """One call's builds: the processes, and what is done as each ends."""

    def __init__(
        self, plans: Sequence[BuildPlan], locks: Sequence[LockFile], engine: Engine, builder: Builder, run: Run
    ) -> None:
        self._plans = {plan.name: plan for plan in plans}
        self._locks = {plan.name: lock for plan, lock in zip(plans, locks, strict=True)}
        self._engine = engine
        self._builder = builder
        self._run = run
        self._metadata: dict[str, Path] = {}
        self.outcome = Outcome(tuple(plans))

    def run(self, at_once: int, stream: TextIO, told: Callable[[str], None] | None) -> Outcome:
        """Run all builds; the summary is written, and `told`, whatever happens. Raises Interrupted."""
        root = self.outcome.plans[0].root
        # Of an earlier call: whoever finds a summary finds the one of the last call that got as far as here.
        summary_path(root).unlink(missing_ok=True)
        try:
            with self._jobs() as jobs, view_on(stream, list(self._plans)) as view:
                self._run_jobs(jobs, at_once, view)
        except Interrupted as interrupt:
            self.outcome.interrupted = True
            self.outcome.stopped = interrupt.names
            _say(stream, *_report(self.outcome))
            raise
        finally:
            content = msgspec.json.format(msgspec.json.encode(self.outcome.as_data()), indent=2)
            write_atomic(summary_path(root), content + b"\n")
            if told is not None:
                told(content.decode())
        return self.outcome

    def _run_jobs(self, jobs: Sequence[Job], at_once: int, view: View) -> None:
        """Run the jobs, and once more those that the engine alone made fail."""
        for tries_left in reversed(range(RETRIES + 1)):
            again: list[Job] | None = [] if tries_left else None
            run_jobs(jobs, at_once=at_once, view=view, on_end=partial(self._tried, view, again))
            if not again:
                return
            jobs = again

    def _tried(self, view: View, again: list[Job] | None, ended: Ended) -> bool:
        """Take the end of one try; a job that is to be run once more goes to `again`, where that is a list."""
        if again is None or ended.code == 0 or not is_transient(ended.failure):
            return self._ended(ended)
        view.said(
            ended.job.name, Line("the engine lost a layer while it exported the image: tried again", heading=True)
        )
        again.append(ended.job)
        return False

    @contextmanager
    def _jobs(self) -> Iterator[list[Job]]:
        """Yield the jobs, their bake files and secrets in private folders that are gone afterwards.

        The metadata files lie there too: in a new folder there is none of an earlier build.
        """
        with ExitStack() as stack:
            work = stack.enter_context(private_folder())
            jobs = []
            for plan in self._plans.values():
                secrets = stack.enter_context(secret_files(plan.network.secrets()))
                file = work / f"{plan.target}.bake.json"
                file.write_bytes(bake.bake_file([(plan.target, target_of(plan, secrets, driver=self._builder.driver))]))
                self._metadata[plan.name] = work / f"{plan.target}.metadata.json"
                jobs.append(self._job(plan, file))
            yield jobs

    def _job(self, plan: BuildPlan, file: Path) -> Job:
        command = (
            *("docker", "buildx", "bake", "--file", str(file), "--progress", "rawjson"),
            *("--metadata-file", str(self._metadata[plan.name]), "--builder", self._builder.name, plan.target),
        )
        # From 0.20 on buildx asks before it reads what lies outside of the folder; the bake file is our own.
        environment = {**os.environ, "BUILDX_BAKE_ENTITLEMENTS_FS": "0"}
        return Job(plan.name, command, plan.root, plan.log, environment, plan.network.hide)

    def _ended(self, ended: Ended) -> bool:
        """Take the end of one build: an image that is what it should be is recorded, anything else is a failure."""
        plan = self._plans[ended.job.name]
        if ended.code != 0:
            failure = Failure(plan, ended.seconds, ended.failure, "" if ended.failure else _ending(ended))
            self.outcome.failed.append(failure)
            return False
        try:
            self.outcome.built.append(self._record(plan, ended.seconds))
        except AscendImagesError as error:
            self.outcome.failed.append(Failure(plan, ended.seconds, None, str(error)))
            with plan.log.open("a", encoding="utf-8") as log:
                log.write(f"{error}\n")
            return False
        return True

    def _record(self, plan: BuildPlan, seconds: float) -> Record:
        metadata = read_metadata(self._metadata[plan.name], plan.target)
        # The name stands for the new image from here on, so what is said of the old one goes first.
        plan.record.unlink(missing_ok=True)
        made = read_back(plan, metadata, engine=self._engine, builder=self._builder, run=self._run)
        wrong = differences(plan, made.config)
        if wrong:
            raise BuildFailed(
                "\n".join(["the image is not configured as its image.json says:", *(f"  {line}" for line in wrong)]),
                wanted="ENTRYPOINT, CMD, SHELL, ENV, WORKDIR and labels as rendered",
                do=f"invoke render --check --variant {plan.variant.name}",
            )
        record = record_of(plan, made, self._locks[plan.name], seconds=seconds)
        write_record(plan.record, record)
        return record


def _stage(plans: Sequence[BuildPlan]) -> None:
    """Copy local checkouts for the build, each once."""
    staged = {(source, plan.staging) for plan in plans for source in plan.sources}
    for source, folder in sorted(staged, key=lambda pair: pair[0].name):
        stage_source(source, folder)


def _report(outcome: Outcome) -> list[str]:
    """Return what is said at the end, failed images first."""
    lines = []
    for failure in outcome.failed:
        plan = failure.plan
        lines.append(f"FAILED {plan.name} after {failure.seconds:.1f} s")
        lines += [f"  {line}" for line in (f"log:     {_below(plan.log, plan.root)}", *str(failure).splitlines())]
    for record in outcome.built:
        size = f", {record.bytes / 10**6:.0f} MB" if record.bytes is not None else ""
        lines.append(f"built {record.variant} {record.arch.value} in {record.seconds:.1f} s{size}")
        lines += [f"  image:   {record.image}", f"  digest:  {record.digest}", *_packing_note(record)]
    lines += [f"{'interrupted' if plan.name in outcome.stopped else 'skipped'} {plan.name}" for plan in outcome.skipped]
    root = outcome.plans[0].root
    return [*lines, f"summary: {_below(summary_path(root), root)}"]


def _packing_note(record: Record) -> list[str]:
    """Return what is to be said where layers are packed in another way than was asked for; the base's are never."""
    other = sorted({layer.compression for layer in record.layers or ()} - {record.compression})
    if record.compression == COMPRESSIONS[0] or not other:
        return []
    counts = ", ".join(f"{number} {how}" for how, number in _packed(record).items())
    return [f"  layers:  {counts}; those of the base and those that the builder had already stay as they were"]


def _packed(record: Record) -> dict[str, int]:
    """Return how many layers are packed in each way, by the manifest."""
    return dict(sorted(Counter(layer.compression for layer in record.layers or ()).items()))


def _build_failed(outcome: Outcome) -> BuildFailed:
    names = ", ".join(failure.plan.name for failure in outcome.failed)
    first = outcome.failed[0].plan
    return BuildFailed(
        f"{len(outcome.failed)} of {len(outcome.plans)} images could not be built: {names}",
        wanted="all of them",
        do=f"see {_below(first.log, first.root)}",
    )


def _ending(ended: Ended) -> str:
    """Return how a build ended that said no reason: its code and the last lines of its log."""
    how = f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
    try:
        last = ended.job.log.read_text(encoding="utf-8", errors="replace").splitlines()[-SHOWN_LINES:]
    except OSError:
        last = []
    return "\n".join([f"docker buildx ended with {how}", *(f"| {line}" for line in last)])


def _failure_data(failure: Failure) -> dict[str, Any]:
    step = failure.step
    return {
        **_names(failure.plan),
        "log": _below(failure.plan.log, failure.plan.root),
        "seconds": round(failure.seconds, 2),
        "step": step.step if step else "",
        "command": step.command if step else "",
        "line": step.line if step else None,
        "code": step.code if step else None,
        "error": step.error if step else failure.reason,
        "output": list(step.output) if step else [],
    }


def _built_data(record: Record) -> dict[str, Any]:
    return {
        "variant": record.variant,
        "arch": record.arch.value,
        "image": record.image,
        "digest": record.digest,
        "manifest": record.manifest,
        "config": record.config,
        "bytes": record.bytes,
        "packed": _packed(record),
        "seconds": record.seconds,
        "pushed": record.pushed,
        "unlocked": record.unlocked,
    }


def _names(plan: BuildPlan) -> Mapping[str, str]:
    return {"variant": plan.variant.name, "arch": plan.arch.value, "image": plan.image}


def _below(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _say(stream: TextIO, *texts: str) -> None:
    for text in texts:
        print(text, file=stream, flush=True)
