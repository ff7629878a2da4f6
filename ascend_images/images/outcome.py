"""What became of the images of one call: told at the end, failed ones first, and written as a summary for programs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ascend_images.errors import BuildFailed
from ascend_images.images.plan import BUILD_FOLDER, COMPRESSIONS, RECORDS, BuildPlan, record_path
from ascend_images.images.progress import FailedStep
from ascend_images.images.record import Record, build_again

#: Raised when a reader of an older summary would misread a newer one.
SUMMARY_SCHEMA = 1


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
    builders: tuple[str, ...] = ()
    """The builders among which the images were divided; told of each image where there are several."""

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


def summary_path(root: Path) -> Path:
    """Return where the summary of the last call goes."""
    return root / BUILD_FOLDER / "summary.json"


def report(outcome: Outcome) -> list[str]:
    """Return what is said at the end, failed images first."""
    lines = []
    for failure in outcome.failed:
        plan = failure.plan
        lines.append(f"FAILED {plan.name} after {failure.seconds:.1f} s")
        lines += _builder_line(outcome, plan.choices.builder)
        lines += [f"  {line}" for line in (f"log:     {_below(plan.log, plan.root)}", *str(failure).splitlines())]
    for record in outcome.built:
        size = f", {record.bytes / 10**6:.0f} MB" if record.bytes is not None else ""
        lines.append(f"built {record.variant} {record.arch.value} in {record.seconds:.1f} s{size}")
        lines += _builder_line(outcome, record.builder)
        lines += [f"  image:   {record.image}", f"  digest:  {record.digest}", *_packing_note(record)]
        lines += [f"  cache:   not exported: {record.not_cached}"] if record.not_cached else []
    lines += [f"{'interrupted' if plan.name in outcome.stopped else 'skipped'} {plan.name}" for plan in outcome.skipped]
    root = outcome.plans[0].root
    lines.append(f"summary: {_below(summary_path(root), root)}")
    return lines if outcome.failed or outcome.skipped else [*lines, *_next(outcome)]


def _next(outcome: Outcome) -> list[str]:
    """Return what comes after a push: the architectures that have no record here yet, else joining what was pushed."""
    lines = []
    pushed = [record for record in outcome.built if record.pushed]
    for variant, plan in {plan.variant.name: plan for plan in outcome.plans}.items():
        mine = [record for record in pushed if record.variant == variant]
        lacking = [
            arch
            for arch in plan.variant.platforms
            if not record_path(plan.root / RECORDS, variant, arch).is_file()
            and all(record.arch is not arch for record in mine)
        ]
        if mine and lacking:
            lines.append(f"next: {build_again(variant, lacking, mine)}")
        elif mine:
            lines.append(f"next: invoke manifest --variant {variant}")
    return lines


def _builder_line(outcome: Outcome, builder: str) -> list[str]:
    """Return by which of several builders an image was built; nothing for one that was never given to any."""
    return [f"  builder: {builder}"] if builder and len(outcome.builders) > 1 else []


def _packing_note(record: Record) -> list[str]:
    """Return what is to be said where layers are packed in another way than was asked for; the base's are never."""
    other = sorted({layer.compression for layer in record.layers or ()} - {record.compression})
    if record.compression == COMPRESSIONS[0] or not other:
        return []
    counts = ", ".join(f"{number} {how}" for how, number in _packed(record).items())
    return [
        f"  layers:  {counts}; those of the base and those that the builder had already stay as they were",
        f"  next:    for {record.compression} in all but the base's: a builder without this image (--builder NAME)",
    ]


def _packed(record: Record) -> dict[str, int]:
    """Return how many layers are packed in each way, by the manifest."""
    return dict(sorted(Counter(layer.compression for layer in record.layers or ()).items()))


def build_failed(outcome: Outcome) -> BuildFailed:
    """Return the error that a call with failed images ends with."""
    names = ", ".join(failure.plan.name for failure in outcome.failed)
    first = outcome.failed[0].plan
    return BuildFailed(
        f"{len(outcome.failed)} of {len(outcome.plans)} images could not be built: {names}",
        wanted="all of them",
        do=f"see {_below(first.log, first.root)}",
    )


def _failure_data(failure: Failure) -> dict[str, Any]:
    step = failure.step
    return {
        **_names(failure.plan),
        "builder": failure.plan.choices.builder,
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
        "builder": record.builder,
        "digest": record.digest,
        "manifest": record.manifest,
        "config": record.config,
        "bytes": record.bytes,
        "packed": _packed(record),
        "seconds": record.seconds,
        "pushed": record.pushed,
        "unlocked": record.unlocked,
        "not_cached": record.not_cached,
    }


def _names(plan: BuildPlan) -> Mapping[str, str]:
    return {"variant": plan.variant.name, "arch": plan.arch.value, "image": plan.image}


def _below(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
