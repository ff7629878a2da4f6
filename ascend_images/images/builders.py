"""The builders of one call: how each is reached, how many images it builds at a time, and what each has already.

A builder is named as `docker buildx ls` lists it: one that somebody made (docker-container, kubernetes, remote), or a
docker context, whose engine then builds by itself. buildx refuses the engine of another context than the one in use
(`docker buildx bake --builder`), so all that is asked of such an engine goes through its context.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ascend_images.errors import BadInput, MissingTool
from ascend_images.images.builder import Builder, find_builder
from ascend_images.images.cost import (
    GB,
    Costs,
    cost_of,
    has_image,
    parts_of,
    require_architectures,
    require_room,
    there_already,
)
from ascend_images.images.engine import Engine, Run, docker_command, require_engine, run_command
from ascend_images.images.plan import BuildPlan
from ascend_images.images.publish import SANDBOX
from ascend_images.images.schedule import Work, Worker, takers
from ascend_images.pins.lockfile import LockFile

_IMAGE = "docker-image://"
# The driver that buildx says nothing of before it has connected; the others begin to run when they build.
_REMOTE = "remote"
_MOST_JOBS = 4
_JOB_MEMORY = 8 * GB


@dataclass(frozen=True, kw_only=True)
class Site:
    """A builder and the way to it: `context` is the docker context of its engine, empty for the one in use.

    `engine` is the builder's own or, for one of another driver, the one in use, which what it builds is handed to.
    """

    builder: Builder
    engine: Engine
    context: str = ""
    jobs: int = 1

    @property
    def name(self) -> str:
        """What it is called in records, in summaries and on the command line."""
        return self.builder.name

    @property
    def docker(self) -> list[str]:
        """How the docker client is called for it."""
        return docker_command(self.context)

    def runner(self, run: Run) -> Run:
        """Return a `run` whose docker commands go to this builder's engine."""
        return run if not self.context else lambda command: run([*self.docker, *command[1:]])


def find_sites(names: Sequence[str], *, jobs: int = 0, images: int = 1, run: Run = run_command) -> list[Site]:
    """Return the builders of these names, or the own one of the engine in use where none is named.

    Each builds `jobs` images at a time; 0: as many of `images` as its engine's memory is good for. Raises MissingTool
    for all that are not there or do not answer.
    """
    sites: list[Site] = []
    faults: list[MissingTool] = []
    for name in dict.fromkeys(names) or [""]:
        try:
            sites.append(_site(name, jobs, images, run))
        except MissingTool as error:
            faults.append(error)
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise MissingTool("\n".join(fault.found for fault in faults), wanted=faults[0].wanted, do=faults[0].do)
    return sites


def default_jobs(engine: Engine, images: int) -> int:
    """Return how many images are built at a time where nobody says: one for each 8 GB of the engine's memory."""
    return max(1, min(images, _MOST_JOBS, engine.memory // _JOB_MEMORY))


def require_one_place(plans: Iterable[BuildPlan], sites: Sequence[Site]) -> None:
    """Raise BadInput for images that would be left on several engines, where nothing finds them together."""
    places = sorted({site.context or site.engine.context for site in sites})
    if len(places) > 1 and not all(plan.choices.push for plan in plans):
        names = " ".join(f"--builder {site.name}" for site in sites)
        raise BadInput(
            f"{names}: each image would be left on the engine that built it ({', '.join(places)})",
            wanted="--push, so that all of them are in one registry; or one builder",
            do=f"{names} --push",
        )


def require_sites(plans: Iterable[BuildPlan], sites: Sequence[Site]) -> None:
    """Raise unless one of the builders may build each plan; see `require_architectures`."""
    for plan in plans:
        errors: list[BadInput | MissingTool] = []
        for site in sites:
            try:
                require_architectures([plan], site.builder)
            except (BadInput, MissingTool) as error:
                errors.append(error)
        if len(errors) == len(sites):
            # A builder that could emulate it is nearer than one that cannot build it at all.
            raise min(errors, key=lambda error: error.exit_code)


def require_stand_ins(plans: Iterable[BuildPlan], sites: Sequence[Site], run: Run = run_command) -> None:
    """Raise MissingTool for a builder without the sandbox's base images: they are in no registry that it could ask."""
    wanted = sorted(
        {
            value.removeprefix(_IMAGE)
            for plan in plans
            for value in plan.contexts.values()
            if plan.suffix == SANDBOX and value.startswith(_IMAGE)
        }
    )
    for site in sites:
        if not site.context and site.builder.is_own:
            continue  # where they are made
        missing = [image for image in wanted if not site.builder.is_own or not has_image(image, site.runner(run))]
        if missing:
            copy = f"docker image save {' '.join(missing)} | {' '.join(site.docker)} image load"
            raise MissingTool(
                f'--builder "{site.name}" has no {", ".join(missing)}: stand-ins are on the engine in use alone',
                wanted="a builder that has them, or no --sandbox",
                # Docker 26 may say that it did not unpack what it loaded so: builds take it all the same.
                do=copy if site.builder.is_own else f"leave --builder {site.name} out",
            )


@dataclass(frozen=True)
class CostsOn:
    """What a call costs on each of its builders, where that builds all that the schedule may give it."""

    each: tuple[tuple[Site, Costs], ...]

    @property
    def said(self) -> list[str]:
        """What is told of it: each image once, then each builder."""
        if len(self.each) == 1:
            return [str(self.each[0][1])]
        images = {cost.name: line for _, costs in self.each for cost, line in costs.lines}
        return [
            *images.values(),
            *(f"builder {site.name}: if it built all: {costs.total}" for site, costs in self.each if costs.images),
        ]

    def require_room(self) -> None:
        """Raise MissingTool if a builder has less room than the images take, or the largest where others share them."""
        for site, costs in self.each:
            largest = sorted(costs.images, key=lambda cost: cost.disk)[-1:]
            require_room(costs if len(self.each) == 1 else replace(costs, images=tuple(largest)), site.engine)


def costs_on(
    sites: Sequence[Site], plans: Sequence[BuildPlan], locks: Sequence[LockFile], run: Run = run_command
) -> CostsOn:
    """Return what the plans cost on each builder; asks each what it has already."""
    pairs = list(zip(plans, locks, strict=True))
    workers = [Worker(builder=site.builder, jobs=site.jobs) for site in sites]
    may_take = [{one.name for one in takers(work_of(*pair), workers)} for pair in pairs]
    each = []
    for site in sites:
        own = [pair for pair, names in zip(pairs, may_take, strict=True) if site.name in names]
        costs = cost_of(
            [plan for plan, _ in own],
            [lock for _, lock in own],
            engine=site.engine,
            builder=site.builder,
            at_once=min(site.jobs, len(own)),
            run=site.runner(run),
        )
        each.append((site, costs))
    return CostsOn(tuple(each))


def work_of(plan: BuildPlan, lock: LockFile) -> Work:
    """Return a plan as the schedule sees it."""
    return Work(name=plan.name, arch=plan.arch, parts=parts_of(plan, lock), may_emulate=plan.choices.arch_typed)


def workers_of(
    plans: Sequence[BuildPlan], locks: Sequence[LockFile], sites: Sequence[Site], run: Run = run_command
) -> list[Worker]:
    """Return the builders as the schedule sees them, with what each has of these plans; one alone is asked nothing."""
    held = [
        there_already(plans, locks, builder=site.builder, run=site.runner(run)) if len(sites) > 1 else frozenset()
        for site in sites
    ]
    return [Worker(builder=site.builder, jobs=site.jobs, held=has) for site, has in zip(sites, held, strict=True)]


def fault_of(site: Site, run: Run = run_command) -> str:
    """Return why a builder does not answer any more, in docker's words; nothing where it does."""
    through = site.runner(run)
    try:
        builder = find_builder(site.name, run=through)
        if not builder.runs and builder.driver == _REMOTE:
            _wake(site.name, through)
            return ""
    except MissingTool as error:
        return error.found
    return builder.fault or ("" if builder.runs else "none of its nodes runs")


def _site(name: str, jobs: int, images: int, run: Run) -> Site:
    """Return the builder of one name; raises MissingTool."""
    if not name:
        engine = require_engine(run=run)
        builder = find_builder(context=engine.context, run=run)
        return Site(builder=builder, engine=engine, jobs=jobs or default_jobs(engine, images))
    builder = find_builder(name, run=run)
    if builder.fault:
        raise _unreachable(name, builder.fault)
    context = ""
    if builder.is_own:
        # Without a question to the engine in use, which need not answer where another one builds.
        context = "" if name == run(["docker", "context", "show"]).out.strip() else name
        engine = require_engine(context=context, run=run)
    else:
        engine = require_engine(builder=name, run=run)
        if not builder.runs and builder.driver == _REMOTE:
            _wake(name, run)
            builder = find_builder(name, run=run)
    return Site(builder=builder, engine=engine, context=context, jobs=jobs or default_jobs(engine, images))


def _wake(name: str, run: Run) -> None:
    """Have buildx connect to a builder elsewhere, of which it says nothing before; others begin when they build."""
    answer = run(["docker", "buildx", "inspect", "--bootstrap", name])
    if answer.code != 0:
        raise _unreachable(name, (answer.err.strip().splitlines() or [f"exit code {answer.code}"])[-1])


def _unreachable(name: str, said: str) -> MissingTool:
    return MissingTool(
        f'--builder "{name}" does not answer: {said.removeprefix("ERROR: ")}',
        wanted="builders that are there, before anything is built",
        do=f"docker buildx inspect --bootstrap {name}; or leave --builder {name} out",
    )
