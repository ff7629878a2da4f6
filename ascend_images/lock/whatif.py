"""What other versions of pinned packages would break among the demands of sources and packages, without resolving.

What everybody asks for is worked out once; then a version costs no more than the demands that speak of it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
from packaging.requirements import Requirement

from ascend_images.errors import BadInput
from ascend_images.lock import explain
from ascend_images.lock.components import Asked, Component, active, asked, asked_extras, distribution, pins
from ascend_images.lock.demands import Demand, Settled
from ascend_images.lock.distributions import Distribution, Distributions
from ascend_images.lock.explain import Contradiction
from ascend_images.lock.means import Means
from ascend_images.lock.metadata import Metadata
from ascend_images.lock.release import File, IndexUnreachableError, Packages, Release
from ascend_images.lock.solve import Look, look
from ascend_images.lock.sources import LocalCheckout, source_demands
from ascend_images.pins.model import Relax
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Checkout, Variant


@dataclass
class Remembering:
    """A package index that is asked each thing once, and is not waited for again when it gave no answer."""

    packages: Packages
    _answers: dict[tuple[str, ...], Release | Metadata | IndexUnreachableError | None] = field(default_factory=dict)

    def release(self, name: str, version: str, index: str | None = None) -> Release | None:
        """Return one version's files, None where the index does not have it; raises IndexUnreachableError."""
        key = ("release", name, version, index or "")
        answer = self._once(key, lambda: self.packages.release(name, version, index))
        return answer if isinstance(answer, Release) else None

    def renewed(self, name: str, version: str, index: str | None = None) -> Release | None:
        """Return the same as the index has it now; raises IndexUnreachableError."""
        key = ("renewed", name, version, index or "")
        answer = self._once(key, lambda: self.packages.renewed(name, version, index))
        return answer if isinstance(answer, Release) else None

    def probe(self, index: str, name: str) -> None:
        """Ask an index about one package with little patience; raises IndexUnreachableError when it cannot be asked."""
        self._once(("probe", index, name), lambda: self.packages.probe(index, name))

    def metadata(self, file: File) -> Metadata:
        """Return what a distribution asks for; raises IndexUnreachableError."""
        answer = self._once(("metadata", file.url), lambda: self.packages.metadata(file))
        return answer if isinstance(answer, Metadata) else Metadata()

    def sha256(self, file: File) -> str:
        """Return a file's checksum, downloading the file where the index does not say."""
        return self.packages.sha256(file)

    def _once(
        self, key: tuple[str, ...], question: Callable[[], Release | Metadata | None]
    ) -> Release | Metadata | None:
        if key not in self._answers:
            try:
                self._answers[key] = question()
            except IndexUnreachableError as error:
                self._answers[key] = error
        answer = self._answers[key]
        if isinstance(answer, IndexUnreachableError):
            raise answer
        return answer


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What a variant's sources and pinned packages ask for on one architecture, markers and extras worked out.

    `against` is what the pins do not meet as they are, by the package that it is about.
    """

    asked: Asked
    everyone: tuple[Component, ...]
    lookups: Distributions
    against: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Against:
    """What speaks against a change: contradictions, pins that cannot be had, relaxations that would lift nothing."""

    contradictions: tuple[Contradiction, ...] = ()
    problems: tuple[BadInput, ...] = ()
    idle: tuple[Relax, ...] = ()


def declared_demands(source: Checkout) -> tuple[Demand, ...]:
    """Return what versions.toml itself says that a source asks for, which no file has to be read for.

    Raises BadInput for what is no requirement.
    """
    # Where a source is not said to need anything to be built, its files would tell: nothing is taken for granted here.
    install = source.install if source.build_requires else "none"
    alone = msgspec.structs.replace(source, requirements=(), install=install)
    return source_demands(alone, LocalCheckout(source.name, Path()))


def standing(variant: Variant, arch: Arch, demands: Mapping[str, Sequence[Demand]], means: Means) -> Standing:
    """Return what a variant asks for; raises BadInput and LookupIncomplete as looking at its pins does."""
    seen = look(asked(variant, arch, demands, means.places), means)
    return Standing(
        asked=seen.asked,
        everyone=tuple(_counting(seen)),
        lookups=seen.lookups,
        against=frozenset(one.package for one in seen.contradictions),
    )


def against(before: Standing, changed: Variant) -> Against:
    """Return what speaks against the pins of `changed`, the same variant with other versions of some packages.

    Raises LookupIncomplete where what the new versions ask for cannot be read.
    """
    arch = before.asked.target.arch
    pinned = pins(changed, arch)
    moved = {name: pin for name, pin in pinned.items() if str(pin.requirement) != _pinned(before, name)}
    new = replace(before.asked, variant=changed, pins=pinned)
    lookups = Distributions(before.lookups.packages, new, before.lookups.addresses)
    found, problems = lookups.find({name: pin.version for name, pin in moved.items() if pin.version})
    components, idle = _components(new, found)
    about = {*moved, *(entry.demand.name for one in components for entry in one.settled)}
    others = [_about(one, about) for one in before.everyone if one.key not in moved]
    # Sources and rules are among the others already.
    alone = replace(new, sources=tuple(one for one in others if one.source), rules=())
    packages = [*(one for one in others if not one.source), *components]
    told = explain.contradictions(alone, packages)
    return Against(
        contradictions=tuple(one for one in told if one.package not in before.against),
        problems=problems,
        idle=idle,
    )


def _pinned(before: Standing, name: str) -> str:
    pin = before.asked.pins.get(name)
    return str(pin.requirement) if pin else ""


def _components(new: Asked, found: Mapping[str, Distribution]) -> tuple[list[Component], tuple[Relax, ...]]:
    components: list[Component] = []
    idle: list[Relax] = []
    for name, known in found.items():
        component, unused = distribution(new, name, known.version, known.metadata.requires, known.where)
        components.append(component)
        idle += unused
    return components, tuple(idle)


def _counting(seen: Look) -> Iterator[Component]:
    """Yield every component with the demands that count, as demands that always count."""
    everyone = (*seen.asked.sources, *seen.asked.rules, *seen.components)
    extras = asked_extras(everyone, seen.asked.target)
    for one in everyone:
        counting = active(one, seen.asked.target, extras.get(one.key, ()))
        yield replace(one, settled=tuple(map(_always, counting)))


def _always(entry: Settled) -> Settled:
    if entry.left is None or entry.left.marker is None:
        return entry
    left = Requirement(str(entry.left))
    left.marker = None
    return replace(entry, left=left)


def _about(one: Component, names: set[str]) -> Component:
    return replace(one, settled=tuple(entry for entry in one.settled if entry.demand.name in names))
