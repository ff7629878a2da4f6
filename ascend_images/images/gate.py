"""What must hold before a build starts: a lock that is current and complete, checksums, contexts that are stages."""

from collections.abc import Callable, Iterable, Sequence

from ascend_images.errors import BadInput, nearest
from ascend_images.images.cache import TO, shared_places
from ascend_images.images.plan import BuildPlan
from ascend_images.pins.lockfile import LockFile, foreign, moved_pins

_NAMED = 3  # gaps of a lock that a message names; the lock file names all


def check_plans(plans: Sequence[BuildPlan], *, stages: Callable[[str], Iterable[str]], verb: str = "build") -> None:
    """Raise what `refusal` returns, if it returns anything."""
    error = refusal(plans, stages=stages, verb=verb)
    if error is not None:
        raise error


def refusal(
    plans: Sequence[BuildPlan], *, stages: Callable[[str], Iterable[str]], verb: str = "build"
) -> BadInput | None:
    """Return an error that says all that is wrong with all plans, None where each may be built.

    `stages` gives the names of a Dockerfile's stages, `verb` is what was typed: what to type next names it again.
    """
    problems = [*_same_names(plans), *_same_caches(plans)]
    for plan in plans:
        problems += [*_context_problems(plan, stages), *_lock_problems(plan, verb)]
    if len(problems) <= 1:
        return problems[0] if problems else None
    # One cause (a lock that is missing for both architectures) is one way out.
    ways = dict.fromkeys(problem.do for problem in problems if problem.do)
    return BadInput(
        "\n".join(f"- {problem.found}" for problem in problems),
        wanted="; ".join(dict.fromkeys(problem.wanted for problem in problems if problem.wanted)),
        do="\n          ".join(ways),
    )


def load_lock(plan: BuildPlan) -> LockFile:
    """Return the lock that the plan installs from; raises BadInput when there is none or it is not one."""
    return LockFile.load(plan.lock)


def _same_names(plans: Sequence[BuildPlan]) -> list[BadInput]:
    names: dict[str, list[str]] = {}
    for plan in plans:
        names.setdefault(plan.local_image, []).append(plan.name)
    return [
        BadInput(f"{' and '.join(builds)} would both be {image}", wanted="each image once in one call")
        for image, builds in names.items()
        if len(builds) > 1
    ]


def _same_caches(plans: Sequence[BuildPlan]) -> list[BadInput]:
    """A cache of one image alone: builds that run at once would each replace it."""
    if len(plans) < 2:
        return []
    return [
        BadInput(
            f"{TO} {place}: {len(plans)} images would each put their cache there, in place of the others'",
            wanted="a place for each image",
            do=f"{TO} registry, or one image in one call",
        )
        for place in dict.fromkeys(place for plan in plans for place in shared_places(plan.choices.cache_to))
    ]


def _context_problems(plan: BuildPlan, stages: Callable[[str], Iterable[str]]) -> list[BadInput]:
    """BuildKit ignores a context that replaces nothing, and builds the real thing instead: so it is an error here."""
    known = tuple(stages(plan.rendered.text))
    return [
        BadInput(
            f'{plan.name}: the context "{name}" replaces nothing: no stage of {plan.rendered.file.name} has that name',
            wanted=nearest(name, known),
        )
        for name in plan.contexts
        if name not in known
    ]


def _lock_problems(plan: BuildPlan, verb: str) -> list[BadInput]:
    make = f"invoke lock --variant {plan.variant.name}{_of_base(plan)}"
    if not plan.lock.is_file():
        return [BadInput(f"{plan.name} has no lock: {_shown(plan)} is not there", wanted="a lock file", do=make)]
    try:
        lock = load_lock(plan)
    except BadInput as problem:
        return [problem]
    found = foreign(lock, _shown(plan), plan.variant.name, plan.arch)
    if found:
        return [BadInput(found, wanted="the lock of what is built", do=make)]
    stale = _stale(plan, lock, make)
    if plan.choices.unlocked:
        return stale
    # Beside a lock of other pins it is no way out.
    without = "build a candidate that is never promoted" if plan.choices.push else "build without"
    unlocked = "" if stale else f"; or {without}: invoke {verb} --variant {plan.variant.name} --unlocked"
    return [*stale, *_gaps(plan, lock, make, unlocked), *_checksum_problems(plan, unlocked)]


def _stale(plan: BuildPlan, lock: LockFile, make: str) -> list[BadInput]:
    """What was locked for other pins: the image would be another than its pins, its tag and its labels say."""
    problems = [
        BadInput(f"{plan.name}: {one.found}", wanted=one.wanted, do=one.do)
        for one in plan.unanswered
        if one.state != "missing"
    ]
    moved = moved_pins(lock, plan.pinned)
    if moved:
        found = f"{plan.name}: {_shown(plan)} was made from other pins: {'; '.join(moved)}"
        problems.append(BadInput(found, wanted="a lock of these pins", do=make))
    return problems


def _gaps(plan: BuildPlan, lock: LockFile, make: str, unlocked: str) -> list[BadInput]:
    """Packages of which no hash is known; `unlocked` is the way out beside `make`."""
    if not lock.incomplete:
        return []
    more = len(lock.incomplete) - _NAMED
    named = "; ".join(lock.incomplete[:_NAMED]) + (f"; and {more} more" if more > 0 else "")
    return [
        BadInput(
            f"{plan.name}: {_shown(plan)} is incomplete: {named}",
            wanted="every package with its hash",
            # Where the lock must be made anyway, that is said once.
            do=f"{make}, where those can be reached{unlocked}" if unlocked else make,
        )
    ]


def _checksum_problems(plan: BuildPlan, unlocked: str) -> list[BadInput]:
    """CANN packages that nothing could be checked against, unless a context brings them."""
    if f"cann-run-{plan.arch.value}" in plan.contexts:
        return []
    files = [run.file for run in plan.variant.runs if run.arch is plan.arch and not run.checksum]
    if not files:
        return []
    return [
        BadInput(
            f"{plan.name}: no sha256 is known for {', '.join(files)}",
            wanted="a checksum for everything that is downloaded",
            do=f"invoke lock --variant {plan.variant.name}, then invoke render{unlocked}",
        )
    ]


def _of_base(plan: BuildPlan) -> str:
    """Return what `invoke lock`, which takes no base image, is told instead of a base of other pins."""
    if not plan.choices.other_base:
        return ""
    variant = plan.pinned
    release = f"base_cann={variant.base_cann}" if variant.overlay else f"cann={variant.cann}"
    return f" --set {release} --set os={variant.os} --set python={variant.python}"


def _shown(plan: BuildPlan) -> str:
    return str(plan.lock.relative_to(plan.root) if plan.lock.is_relative_to(plan.root) else plan.lock)
