"""Who wants a package of a lock: each demand on it, in which version, and in which file it stands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from ascend_images.errors import BadInput, nearest
from ascend_images.lock.components import Asked, Component, asked, asked_extras, distribution
from ascend_images.lock.demands import Demand, Settled, requirement_text
from ascend_images.lock.distributions import Distributions
from ascend_images.lock.explain import Ask
from ascend_images.lock.means import Means
from ascend_images.lock.sources import read_demands
from ascend_images.pins.lockfile import LockFile
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant


@dataclass(frozen=True)
class Wanted:
    """A package in the lock of one variant: how it stands there, who asks for it and whose demand was lifted.

    `arches` are those for which all of this is the same.
    """

    variant: str
    package: str
    arches: tuple[Arch, ...]
    standing: str
    asks: tuple[str, ...]


def wanted(
    variant: Variant, locks: Mapping[Arch, LockFile], package: str, folders: Mapping[str, Path], means: Means
) -> tuple[Wanted, ...]:
    """Return who wants `package` in a variant's locks, architectures with the same answer together.

    What distributions and sources ask for is read as for a lock, by way of the cache. Raises BadInput for a name that
    nothing of the variant has or asks for, LookupIncomplete where something could not be read.
    """
    name = str(canonicalize_name(package))
    demands = read_demands(variant, folders, means.cache, means.mirror.git, offline=means.offline)
    answers: dict[tuple[str, tuple[str, ...]], list[Arch]] = {}
    known: set[str] = set()
    for arch, lock in locks.items():
        one = asked(variant, arch, demands, means.places)
        everyone = _everyone(one, lock, means)
        asks = tuple(_asks(one, everyone, name))
        known |= {*lock.versions, *one.given, *one.pins}
        standing = _standing(one, lock, name)
        if standing or asks:
            answers.setdefault((standing or "not in the lock", asks), []).append(arch)
    if not answers:
        raise BadInput(f'{variant.name}: no package "{package}", and nothing asks for it', wanted=nearest(name, known))
    return tuple(
        Wanted(variant.name, name, tuple(arches), standing, asks) for (standing, asks), arches in answers.items()
    )


def wanted_text(found: Sequence[Wanted]) -> str:
    """Return it for people."""
    lines = []
    for one in found:
        where = " and ".join(arch.value for arch in one.arches)
        lines.append(f"{one.variant} {where}: {one.package}: {one.standing}")
        lines += [f"  {ask}" for ask in one.asks] or ["  nothing asks for it"]
    return "\n".join(lines)


def _everyone(one: Asked, lock: LockFile, means: Means) -> tuple[Component, ...]:
    lookups = Distributions(means.packages, one, means.way.indexes(one.variant.indexes))
    found, _ = lookups.find({name: version for name, version in lock.versions.items() if name not in one.given})
    return (
        *one.sources,
        *one.rules,
        *(distribution(one, d.name, d.version, d.metadata.requires, d.where)[0] for d in found.values()),
    )


def _asks(one: Asked, everyone: Sequence[Component], name: str) -> list[str]:
    """Return the demands on a package that count there, lifted ones with the reason for which they do not."""
    extras = asked_extras(everyone, one.target)
    lines = []
    for component in everyone:
        for entry in component.settled:
            demand = entry.demand
            if demand.name != name or not one.target.holds(demand.requirement.marker, extras.get(component.key, ())):
                continue
            if component.without:
                lines.append(f"{_written(component, demand)}; not installed for it: {component.without}")
            elif entry.relaxed:
                lines.append(
                    f'{_written(component, demand)}; "{entry.relaxed.demand}" is lifted: {entry.relaxed.reason}'
                )
            else:
                lines.append(str(Ask(component, entry)))
    return list(dict.fromkeys(lines))


def _written(component: Component, demand: Demand) -> str:
    return str(Ask(component, Settled(demand, demand.requirement)))


def _standing(one: Asked, lock: LockFile, name: str) -> str:
    """Return how a package stands in a lock, nothing where it does not."""
    if source := one.given.get(name):
        return one.source_text(source)
    never = one.exclusion_text(name)
    if never:
        return never
    pin = one.pins.get(name)
    said = f", pinned {requirement_text(pin.requirement)} ({pin.where})" if pin else ""
    version = lock.versions.get(name)
    return f"{version}{said}" if version else ""
