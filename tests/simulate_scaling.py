"""How long many images take on several builders: the project's own choice of builders, run against a clock.

`python -m tests.simulate_scaling` prints the tables of docs/scaling.md. Nothing in it is random and nothing is built:
`ascend_images.images.schedule` hands out the images, and each takes as long as the figures below say.
"""

import heapq
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import count, product

from ascend_images.images.builder import OWN_DRIVER, Builder
from ascend_images.images.cost import BASE, MB, SOURCE, on_disk
from ascend_images.images.schedule import Schedule, Work, Worker
from ascend_images.pins.platform import Arch

# --- Measured, on two cores, with a real set of 265 packages (one run each, gzip).
INSTALL_SECONDS = 62.0  # downloading and installing the packages
PACK_SECONDS = 129.0  # packing their layers
PACKAGES_GB = 1.28  # those layers, as they are sent
UNPACKED_GB = 3.4  # … and as they lie on a disk
SOURCE_SECONDS = 4.9  # one source installed, packed and its image checked
UNPACK_GB_PER_SECOND = 0.568 / 13  # an engine unpacks what it pulls

# --- Assumed.
BASE_GB = 10.0  # a CANN base image with operators, as it is sent
LINK_GB_PER_SECOND = 0.1  # between a builder and the registry, in each direction; the registry has no limit of its own
SOURCES = 4  # of a stack, installed one after the other
SOURCES_GB = 0.1
JOBS = 2  # images at a time on a builder, none of which slows the other one down

# --- The images: each stack on each chip and operating system, for both architectures.
STACKS, CHIPS, SYSTEMS = 10, 5, 2

BUILDERS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Image:
    """One image, by what it is made of; its packages are installed on the base of the first chip, for all chips."""

    stack: int
    chip: int
    system: int
    arch: Arch

    @property
    def name(self) -> str:
        """Its name."""
        return f"{self.stack}-{self.chip}-{self.system}-{self.arch.value}"

    @property
    def base(self) -> Hashable:
        """Its base image."""
        return "base", self.chip, self.system, self.arch

    @property
    def packages_base(self) -> Hashable:
        """The base image in which its packages are installed."""
        return "base", 0, self.system, self.arch

    @property
    def packages(self) -> Hashable:
        """Its packages' layers."""
        return "packages", self.stack, self.system, self.arch

    @property
    def work(self) -> Work:
        """It as the project sees it, which knows sizes and no times."""
        gb = 1000 * MB
        parts: dict[Hashable, int] = {self.base: BASE * MB, self.packages_base: BASE * MB}
        parts[self.packages] = on_disk(int(UNPACKED_GB * gb))
        parts["own", self.name] = on_disk(SOURCES * SOURCE * MB)
        return Work(name=self.name, arch=self.arch, parts=parts)


def images() -> list[Image]:
    """Return the images in the order in which `invoke build --all` has them."""
    every = product(range(STACKS), range(CHIPS), range(SYSTEMS), (Arch.AMD64, Arch.ARM64))
    return [Image(*one) for one in every]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How the builders, empty at first, work together.

    With `affinity` a builder goes on with what it has already, without it takes what is next in line. With `cache` the
    registry has each image's cache, from before one of its sources was changed.
    """

    builders: int
    affinity: bool = True
    cache: bool = False
    jobs: int = JOBS


@dataclass
class Machine:
    """A builder at work: when each part is there, and until when its link is busy in each direction."""

    ready: dict[Hashable, float] = field(default_factory=dict)
    down: float = 0.0
    up: float = 0.0


@dataclass
class Result:
    """What came of it: seconds, what went over the wire in GB, and who built which image when."""

    seconds: float = 0.0
    pulled: float = 0.0
    from_cache: float = 0.0
    pushed: float = 0.0
    installs: int = 0
    runs: list[tuple[str, str, float, float]] = field(default_factory=list)


class Simulation:
    """One run of all images over the builders of a setting, half of them of each architecture."""

    def __init__(self, setting: Setting, wanted: list[Image]) -> None:
        self._setting = setting
        self._images = {image.name: image for image in wanted}
        workers = [Worker(builder=one, jobs=setting.jobs) for one in builders(setting.builders)]
        self._works = {image.name: image.work for image in wanted}
        self._schedule = Schedule(self._works.values(), workers, affinity=setting.affinity)
        self._machines = {worker.name: Machine() for worker in workers}
        self._stored: set[Hashable] = {image.packages for image in wanted} if setting.cache else set()
        self._events: list[tuple[float, int, str, Image, str, float]] = []
        self._number = count()
        self.result = Result()

    def run(self) -> Result:
        """Build all of them."""
        self._hand_out(0.0)
        while self._events:
            now, _, what, image, worker, began = heapq.heappop(self._events)
            if what == "built":
                self._at(self._push(image, worker, now), "ended", image, worker, began)
                continue
            self._schedule.ended(self._works[image.name])
            self.result.runs.append((image.name, worker, began, now))
            self.result.seconds = now
            self._hand_out(now)
        return self.result

    def _hand_out(self, now: float) -> None:
        while (taken := self._schedule.take()) is not None:
            image, worker = self._images[taken[0].name], taken[1].name
            self._at(self._build(image, self._machines[worker], now), "built", image, worker, now)

    def _at(self, when: float, what: str, image: Image, worker: str, began: float) -> None:
        heapq.heappush(self._events, (when, next(self._number), what, image, worker, began))

    def _build(self, image: Image, machine: Machine, now: float) -> float:
        """Return when an image that is begun now will be built: its base and its packages side by side, then itself."""
        there = max(self._packages(image, machine, now), self._pull(image.base, BASE_GB, machine, now))
        return max(now, there) + SOURCES * SOURCE_SECONDS

    def _packages(self, image: Image, machine: Machine, now: float) -> float:
        """Return when a builder has the packages: by then or already, from the cache, or installed on their base."""
        if image.packages not in machine.ready:
            if self._setting.cache:
                self.result.from_cache += PACKAGES_GB
                return self._pull(image.packages, PACKAGES_GB, machine, now)
            begin = max(now, self._pull(image.packages_base, BASE_GB, machine, now))
            machine.ready[image.packages] = begin + INSTALL_SECONDS + PACK_SECONDS
            self.result.installs += 1
        return machine.ready[image.packages]

    def _pull(self, part: Hashable, size: float, machine: Machine, now: float) -> float:
        if part not in machine.ready:
            machine.down = max(now, machine.down) + size / LINK_GB_PER_SECOND
            machine.ready[part] = machine.down + size / UNPACK_GB_PER_SECOND
            self.result.pulled += size
        return machine.ready[part]

    def _push(self, image: Image, worker: str, now: float) -> float:
        """Return when an image is pushed that is built now: its sources, and its packages once for all chips."""
        machine = self._machines[worker]
        size = SOURCES_GB
        if image.packages not in self._stored:
            self._stored.add(image.packages)
            size += PACKAGES_GB
        machine.up = max(now, machine.up) + size / LINK_GB_PER_SECOND
        self.result.pushed += size
        return machine.up


def builders(number: int) -> Iterator[Builder]:
    """Yield builders, as many for one architecture as for the other; one alone is of both, as two nodes of one are."""
    both = frozenset(arch.platform for arch in Arch)
    for index in range(number):
        own = both if number == 1 else frozenset({list(Arch)[index % 2].platform})
        yield Builder(f"builder-{index}", OWN_DRIVER, own, own)


def simulate(setting: Setting, wanted: list[Image] | None = None) -> Result:
    """Return what comes of building the images (all of them by default) in a setting."""
    return Simulation(setting, images() if wanted is None else wanted).run()


def tables() -> str:
    """Return the tables of docs/scaling.md."""
    new = [_row(number, _pair(number)) for number in BUILDERS]
    cached = [_row(number, _pair(number, cache=True)) for number in BUILDERS]
    every = len(images())
    alone = [simulate(Setting(builders=every, affinity=False, cache=cache, jobs=1)) for cache in (False, True)]
    head = "| builders | in line: minutes | GB pulled | {0} | by what they have: minutes | GB pulled | {0} |"
    rule = "|--:|--:|--:|--:|--:|--:|--:|"
    lines = [
        "Packages are new, no cache helps:",
        "",
        *(head.format("sets installed"), rule, *new),
        "",
        "One source of each image was changed, the registry's cache has the rest:",
        "",
        *(head.format("of it cache"), rule, *cached),
        "",
        "A machine of its own for each image, as in a matrix of CI jobs:",
        "",
        *("| machines | cache | minutes | GB pulled | of it cache | GB pushed |", "|--:|---|--:|--:|--:|--:|"),
    ]
    for result, said in zip(alone, ("no", "yes"), strict=True):
        numbers = (result.pulled, result.from_cache, result.pushed)
        lines.append(f"| {every} | {said} | {_minutes(result)} | " + " | ".join(f"{one:.0f}" for one in numbers) + " |")
    return "\n".join(lines) + "\n"


def _pair(number: int, *, cache: bool = False) -> list[Result]:
    return [simulate(Setting(builders=number, affinity=affinity, cache=cache)) for affinity in (False, True)]


def _row(number: int, pair: list[Result]) -> str:
    cells = [f"{number}"]
    for result in pair:
        last = f"{result.from_cache:.0f}" if result.from_cache else f"{result.installs}"
        cells += [_minutes(result), f"{result.pulled:.0f}", last]
    return f"| {' | '.join(cells)} |"


def _minutes(result: Result) -> str:
    return f"{result.seconds / 60:.0f}"


if __name__ == "__main__":
    print(tables(), end="")
