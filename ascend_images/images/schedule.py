"""Which image is built next, and by which of several builders: chosen from what each has already, without any clock.

An image goes to a builder whose machine is of its architecture; to one that emulates only where no builder of the call
is, and where that was asked for. Among those it goes to the one that already has most of what it is made of, since a
builder that has neither its base nor its packages fetches and installs them first.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ascend_images.images.builder import Builder
from ascend_images.pins.platform import Arch


@dataclass(frozen=True, kw_only=True)
class Work:
    """An image to be built; `parts` says how much work each part of it is where a builder has not got it.

    Parts with the same key are the same thing in several images. Their unit is bytes of disk (cost.py), but any unit
    that is proportional to time will do.
    """

    name: str
    arch: Arch
    parts: Mapping[Hashable, int]
    may_emulate: bool = False


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A builder, how many images it builds at a time, and the parts that it has from before."""

    builder: Builder
    jobs: int
    held: frozenset[Hashable] = frozenset()

    @property
    def name(self) -> str:
        """The builder's name."""
        return self.builder.name

    def is_native(self, work: Work) -> bool:
        """Say whether it builds an image on a machine of its architecture, as far as that is known."""
        return self.builder.can_build(work.arch) and not self.builder.emulates(work.arch)

    def can_take(self, work: Work) -> bool:
        """Say whether it may build an image at all, natively or under emulation that was asked for."""
        return self.is_native(work) or (work.may_emulate and self.builder.can_build(work.arch))


def takers(work: Work, workers: Iterable[Worker]) -> list[Worker]:
    """Return the builders that may be given an image: those of its architecture if there are any."""
    able = [worker for worker in workers if worker.can_take(work)]
    return [worker for worker in able if worker.is_native(work)] or able


@dataclass
class _Station:
    """A builder during the call: what it builds, and what it has, or will have when that has ended."""

    worker: Worker
    running: dict[str, Work] = field(default_factory=dict)
    held: set[Hashable] = field(default_factory=set)
    coming: set[Hashable] = field(default_factory=set)
    known: dict[str, int] = field(default_factory=dict)
    """What `missing` said since the last image was begun."""

    @property
    def load(self) -> float:
        """How much of what it may build at a time it builds."""
        return len(self.running) / self.worker.jobs

    def missing(self, work: Work) -> int:
        """Return how much work an image's parts are that it has not got and does not make."""
        if work.name not in self.known:
            self.known[work.name] = sum(
                size for part, size in work.parts.items() if part not in self.held and part not in self.coming
            )
        return self.known[work.name]

    def awaited(self, work: Work) -> int:
        """Return how much work an image's parts are that another image there is being built with: it waits for them."""
        return sum(size for part, size in work.parts.items() if part in self.coming)

    def begin(self, work: Work) -> None:
        """Begin an image."""
        self.running[work.name] = work
        self.coming |= work.parts.keys() - self.held
        self.known.clear()

    def end(self, work: Work) -> None:
        """End an image; what it was made of is there from now on, even where it failed in the end."""
        del self.running[work.name]
        self.held |= work.parts.keys()
        self.coming -= self.held


class Schedule:
    """The images of one call that wait, and the builders that they are handed to one by one.

    With `affinity` off a free builder takes the next image in line, whatever it is made of: what the simulation in
    docs/scaling.md compares with.
    """

    def __init__(self, works: Iterable[Work], workers: Sequence[Worker], *, affinity: bool = True) -> None:
        self._waiting = {work.name: work for work in works}
        self._stations = {worker.name: _Station(worker, held=set(worker.held)) for worker in workers}
        self._affinity = affinity
        self._again: set[str] = set()
        self._known_takers: dict[tuple[Arch, bool], list[_Station]] = {}

    def take(self) -> tuple[Work, Worker] | None:
        """Hand out the next image and its builder; None where none can begin before another one has ended."""
        if all(station.load >= 1 for station in self._stations.values()):
            return None
        chosen = self._best() if self._affinity else self._next()
        if chosen is None:
            return None
        work, station = chosen
        del self._waiting[work.name]
        station.begin(work)
        return work, station.worker

    def ended(self, work: Work) -> None:
        """Note that an image is not being built any more, however that ended."""
        for station in self._stations.values():
            if work.name in station.running:
                station.end(work)

    def put_back(self, work: Work) -> bool:
        """Have an image that has ended built once more, after all that wait; say whether a builder is left for it."""
        self.ended(work)
        if not self._takers(work):
            return False
        self._waiting[work.name] = work
        self._again.add(work.name)
        return True

    def lose(self, worker: str) -> list[Work]:
        """Give no more images to a builder; return those that wait and that no other one may build: they wait no more.

        What it builds at the moment ends by itself.
        """
        self._stations.pop(worker, None)
        self._known_takers.clear()
        stranded = [work for work in self._waiting.values() if not self._takers(work)]
        for work in stranded:
            del self._waiting[work.name]
        return stranded

    def _takers(self, work: Work) -> list[_Station]:
        """Return those of the builders that are left that may be given an image."""
        kind = work.arch, work.may_emulate
        if kind not in self._known_takers:
            workers = [station.worker for station in self._stations.values()]
            self._known_takers[kind] = [self._stations[worker.name] for worker in takers(work, workers)]
        return self._known_takers[kind]

    def _next(self) -> tuple[Work, _Station] | None:
        """Return the first image in line that a builder is free for, and the one of those that has least to do."""
        for work in self._waiting.values():
            free = [station for station in self._takers(work) if station.load < 1]
            if free:
                return work, min(free, key=lambda station: station.load)
        return None

    def _best(self) -> tuple[Work, _Station] | None:
        """Return the image and the free builder that suit each other best.

        Each image has a home: the builder that lacks least of it. Another one takes it only if so much waits for that
        home that fetching and making what it lacks is no longer.
        """
        offers = [_Offer(work, takers) for work in self._waiting.values() if (takers := self._takers(work))]
        backlog: Counter[str] = Counter()
        for offer in offers:
            backlog[offer.home.worker.name] += offer.least
        best: tuple[tuple[float, ...], Work, _Station] | None = None
        for number, offer in enumerate(offers):
            most = backlog[offer.home.worker.name] / offer.home.worker.jobs
            for station, missing in offer.missing:
                more = missing - offer.least
                if station.load >= 1 or (more > 0 and missing > most):
                    continue
                share = missing / (offer.whole or 1)
                rank = (offer.work.name in self._again, more, station.load, station.awaited(offer.work), share, number)
                if best is None or rank < best[0]:
                    best = rank, offer.work, station
        return None if best is None else (best[1], best[2])


class _Offer:
    """An image that waits, and what each builder that may build it lacks of it; there is at least one."""

    def __init__(self, work: Work, takers: Sequence[_Station]) -> None:
        self.work = work
        self.whole = sum(work.parts.values())
        self.missing = [(station, station.missing(work)) for station in takers]
        self.home, self.least = min(self.missing, key=lambda pair: (pair[1], pair[0].load))
