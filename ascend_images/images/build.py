"""Builds images: what is planned is gated, costed, built side by side, read back, recorded and summed up."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import msgspec

from ascend_images.errors import AscendImagesError, BadInput, BuildFailed, MissingTool
from ascend_images.files import write_atomic
from ascend_images.images import bake
from ascend_images.images.builders import (
    Site,
    costs_on,
    fault_of,
    find_sites,
    require_one_place,
    require_sites,
    require_stand_ins,
    work_of,
    workers_of,
)
from ascend_images.images.cache import require_exporter
from ascend_images.images.engine import Run, run_command
from ascend_images.images.gate import check_plans, load_lock, refusal
from ascend_images.images.network import secret_files
from ascend_images.images.outcome import Failure, Outcome, build_failed, report, summary_path
from ascend_images.images.plan import BuildPlan, target_of, with_shared_packages
from ascend_images.images.progress import SHOWN_LINES, Line
from ascend_images.images.readback import differences, give_local_name, read_back, read_metadata
from ascend_images.images.record import TRIED_AGAIN, Record, changed_since, record_of, write_record
from ascend_images.images.run import Ended, Interrupted, Job, View, run_next
from ascend_images.images.schedule import Schedule, Work, Worker
from ascend_images.images.show import view_on
from ascend_images.images.sources import stage_source
from ascend_images.images.stages import stage_names
from ascend_images.images.transient import RETRIES, is_transient
from ascend_images.pins.lockfile import LockFile
from ascend_images.scratch import private_folder


def require_jobs(jobs: int) -> None:
    """Raise BadInput for a number of builds at a time that is below none."""
    if jobs < 0:
        raise BadInput(f"--jobs {jobs}", wanted="how many images are built at a time: 1 or more")


def build(
    plans: Sequence[BuildPlan],
    *,
    builders: Sequence[str] = (),
    jobs: int = 0,
    stream: TextIO | None = None,
    stages: Callable[[str], Iterable[str]] = stage_names,
    run: Run = run_command,
    told: Callable[[str], None] | None = None,
) -> tuple[Record, ...]:
    """Build all plans and return their records.

    `builders` names those that share the work, each with `jobs` images at a time (0: as many as its engine's memory is
    good for); where none is named it is the engine's own.
    Progress and results go to `stream`, standard error by default. Raises BadInput for plans that must not be built and
    for emulation nobody asked for, MissingTool for a builder, an emulator or room that is not there, BuildFailed, after
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
    sites = find_sites(builders, jobs=jobs, images=len(shared), run=run)
    require_one_place(shared, sites)
    require_sites(shared, sites)
    require_stand_ins(shared, sites, run)
    for site in sites:
        require_exporter(shared[0].choices.cache_to, site.engine, site.builder)
    costs = costs_on(sites, shared, locks, run=run)
    _say(out, *costs.said, *dict.fromkeys(note for plan in shared for note in plan.notes))
    costs.require_room()
    _stage(shared)
    outcome = _Build(shared, locks, sites, run).run(out, told)
    _say(out, *report(outcome))
    if outcome.failed:
        raise build_failed(outcome)
    return tuple(outcome.built)


def reasons_against(
    plans: Sequence[BuildPlan], *, stages: Callable[[str], Iterable[str]] = stage_names
) -> tuple[str, ...]:
    """Return what there is to be told of plans before they are built, why they would be refused last."""
    shared = with_shared_packages(plans)
    error = refusal(shared, stages=stages)
    notes = tuple(dict.fromkeys(note for plan in shared for note in plan.notes))
    return (*notes, f"warning: this would not be built:\n{error}") if error else notes


def room_for(
    plans: Sequence[BuildPlan], *, builders: Sequence[str] = (), jobs: int = 0, run: Run = run_command
) -> tuple[str, ...]:
    """Return what plans would cost, and that they would be refused where there is less room; as `build` counts it."""
    shared = with_shared_packages(plans)
    try:
        locks = [load_lock(plan) for plan in shared]
    except BadInput:
        return ()  # `reasons_against` says so
    try:
        costs = costs_on(find_sites(builders, jobs=jobs, images=len(shared), run=run), shared, locks, run=run)
    except MissingTool as error:
        return (f"note: whether there is room was not asked: {error.found}",)
    try:
        costs.require_room()
    except MissingTool as error:
        return (*costs.said, f"warning: this would not be built:\n{error}")
    return tuple(costs.said)


class _Build:
    """One call's builds: the processes, and what is done as each ends."""

    def __init__(self, plans: Sequence[BuildPlan], locks: Sequence[LockFile], sites: Sequence[Site], run: Run) -> None:
        self._plans = {plan.name: plan for plan in plans}
        self._locks = {plan.name: lock for plan, lock in zip(plans, locks, strict=True)}
        self._sites = {site.name: site for site in sites}
        self._run = run
        self._works = {plan.name: work_of(plan, lock) for plan, lock in zip(plans, locks, strict=True)}
        self._schedule = Schedule(self._works.values(), workers_of(plans, locks, sites, run))
        self._tries: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self._secrets: dict[str, dict[str, Path]] = {}
        self.outcome = Outcome(tuple(plans), builders=tuple(self._sites))

    def run(self, stream: TextIO, told: Callable[[str], None] | None) -> Outcome:
        """Run all builds; the summary is written, and `told`, whatever happens. Raises Interrupted."""
        root = self.outcome.plans[0].root
        # Of an earlier call: whoever finds a summary finds the one of the last call that got as far as here.
        summary_path(root).unlink(missing_ok=True)
        try:
            with self._work() as work, view_on(stream, list(self._plans)) as view:
                run_next(lambda: self._next(view, work), view=view, on_end=lambda ended: self._tried(view, work, ended))
        except Interrupted as interrupt:
            self.outcome.interrupted = True
            self.outcome.stopped = interrupt.names
            _say(stream, *report(self.outcome))
            raise
        finally:
            content = msgspec.json.format(msgspec.json.encode(self.outcome.as_data()), indent=2)
            write_atomic(summary_path(root), content + b"\n")
            if told is not None:
                told(content.decode())
        return self.outcome

    @contextmanager
    def _work(self) -> Iterator[Path]:
        """Yield a private folder for bake files and metadata, which is gone afterwards, as the secrets' are.

        In a new folder there is no metadata of an earlier build.
        """
        with ExitStack() as stack:
            work = stack.enter_context(private_folder())
            for plan in self._plans.values():
                self._secrets[plan.name] = stack.enter_context(secret_files(plan.network.secrets()))
            yield work

    def _next(self, view: View, work: Path) -> Job | None:
        """Return the next build, for the builder that is chosen for it; None while none may begin.

        One whose files are not what the call began with any more is a failure: it would be pushed by the name of those.
        """
        while (taken := self._schedule.take()) is not None:
            name = taken[0].name
            changed = changed_since(self._plans[name], self._locks[name])
            if changed is None:
                return self._job(*taken, work)
            self._schedule.ended(taken[0])
            self._fail_between(view, name, str(changed))
        return None

    def _job(self, taken: Work, worker: Worker, work: Path) -> Job:
        """Return the process that builds an image on a builder; the plan knows its builder from here on."""
        site, plan = self._sites[worker.name], self._plans[taken.name]
        plan = self._plans[plan.name] = replace(plan, choices=replace(plan.choices, builder=site.name))
        file = work / f"{plan.target}.bake.json"
        target = target_of(plan, self._secrets[plan.name], driver=site.builder.driver)
        file.write_bytes(bake.bake_file([(plan.target, target)]))
        metadata = _metadata(work, plan)
        # Of a try before this one.
        metadata.unlink(missing_ok=True)
        command = (
            *(*site.docker, "buildx", "bake", "--file", str(file), "--progress", "rawjson"),
            *("--metadata-file", str(metadata), "--builder", site.name, plan.target),
        )
        # From 0.20 on buildx asks before it reads what lies outside of the folder; the bake file is our own.
        environment = {**os.environ, "BUILDX_BAKE_ENTITLEMENTS_FS": "0"}
        note = f"builder: {site.name}" if len(self._sites) > 1 else ""
        again = plan.name in self._seconds
        return Job(plan.name, command, plan.root, plan.log, environment, plan.network.hide, note, again)

    def _tried(self, view: View, work: Path, ended: Ended) -> bool:
        """Take the end of one try; what the engine alone made fail is built once more."""
        name = ended.job.name
        self._seconds[name] = self._seconds.get(name, 0.0) + ended.seconds
        may_again = ended.code != 0 and is_transient(ended.failure) and self._tries[name] < RETRIES
        if may_again and self._schedule.put_back(self._works[name]):
            self._tries[name] += 1
            _log(self._plans[name], TRIED_AGAIN, mode="a")
            view.said(name, Line(TRIED_AGAIN, heading=True))
            return False
        self._schedule.ended(self._works[name])
        return self._ended(view, work, replace(ended, seconds=self._seconds[name]))

    def _ended(self, view: View, work: Path, ended: Ended) -> bool:
        """Take the end of one build: an image that is what it should be is recorded, anything else is a failure."""
        plan = self._plans[ended.job.name]
        if ended.code != 0:
            lost = self._lost(view, plan, ended)
            reason = lost or ("" if ended.failure else _ending(ended))
            self.outcome.failed.append(Failure(plan, ended.seconds, None if lost else ended.failure, reason))
            return False
        try:
            self.outcome.built.append(self._record(plan, _metadata(work, plan), ended.seconds))
        except AscendImagesError as error:
            self._fail(plan, ended.seconds, str(error))
            return False
        return True

    def _lost(self, view: View, plan: BuildPlan, ended: Ended) -> str:
        """Return what is to be said where a build failed by its builder, which then gets no other; else nothing."""
        if ended.failure is not None and ended.failure.code is not None:
            return ""  # a command ran to its end there
        name = plan.choices.builder
        fault = fault_of(self._sites[name], self._run)
        if not fault:
            return ""
        for work in self._schedule.lose(name):
            self._fail_between(view, work.name, f"no builder is left for it: {name} does not answer any more")
        return f"the builder {name} does not answer any more: {fault}\n{_ending(ended)}"

    def _fail_between(self, view: View, name: str, reason: str) -> None:
        """Note the failure of an image that is not being built: it was never begun, or waits to be tried again."""
        seconds = self._seconds.get(name, 0.0)
        self._fail(self._plans[name], seconds, reason)
        view.ended(name, False, seconds)

    def _fail(self, plan: BuildPlan, seconds: float, reason: str) -> None:
        """Note a failure of which the log says nothing yet."""
        self.outcome.failed.append(Failure(plan, seconds, None, reason))
        # What stands there of one that was never begun is of an earlier call.
        _log(plan, reason, mode="a" if plan.name in self._seconds else "w")

    def _record(self, plan: BuildPlan, metadata: Path, seconds: float) -> Record:
        site = self._sites[plan.choices.builder]
        run = site.runner(self._run)
        said = read_metadata(metadata, plan.target)
        # The name stands for the new image from here on, so what is said of the old one goes first.
        plan.record.unlink(missing_ok=True)
        changed = changed_since(plan, self._locks[plan.name])
        if changed is not None:
            raise changed
        made = read_back(plan, said, engine=site.engine, builder=site.builder, run=run)
        wrong = differences(plan, made.config)
        if wrong:
            raise BuildFailed(
                "\n".join(["the image is not configured as its image.json says:", *(f"  {line}" for line in wrong)]),
                wanted="ENTRYPOINT, CMD, SHELL, ENV, WORKDIR and labels as rendered",
                do=f"invoke render --check --variant {plan.variant.name}",
            )
        give_local_name(plan, made.digest, builder=site.builder, run=run)
        record = record_of(plan, made, self._locks[plan.name], seconds=seconds)
        write_record(plan.record, record)
        return record


def _metadata(work: Path, plan: BuildPlan) -> Path:
    """Return where buildx writes what it made of a plan."""
    return work / f"{plan.target}.metadata.json"


def _log(plan: BuildPlan, text: str, *, mode: str) -> None:
    """Write a line to the log of an image that is not being built at the moment; `mode` is that of `open`."""
    plan.log.parent.mkdir(parents=True, exist_ok=True)
    with plan.log.open(mode, encoding="utf-8") as log:
        log.write(f"{text}\n")


def _stage(plans: Sequence[BuildPlan]) -> None:
    """Copy local checkouts for the build, each once."""
    staged = {(source, plan.staging) for plan in plans for source in plan.sources}
    for source, folder in sorted(staged, key=lambda pair: pair[0].name):
        stage_source(source, folder)


def _ending(ended: Ended) -> str:
    """Return how a build ended that said no reason: its code and the last lines of its log."""
    how = f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
    try:
        last = ended.job.log.read_text(encoding="utf-8", errors="replace").splitlines()[-SHOWN_LINES:]
    except OSError:
        last = []
    return "\n".join([f"docker buildx ended with {how}", *(f"| {line}" for line in last)])


def _say(stream: TextIO, *texts: str) -> None:
    for text in texts:
        print(text, file=stream, flush=True)
