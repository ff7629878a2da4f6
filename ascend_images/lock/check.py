"""A finished set against everything that is asked of it: what it does not meet, and why that is meant."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ascend_images.lock.components import Asked, Component, asked_extras
from ascend_images.lock.demands import Have, Kind, Unmet, requirement_text, unmet_demands
from ascend_images.pins.lockfile import Conflict
from ascend_images.pins.model import Relax


@dataclass(frozen=True)
class Verdict:
    """What a set does not meet: `conflicts` on purpose, as `pip check` will say it, `unexplained` by mistake."""

    conflicts: tuple[Conflict, ...] = ()
    unexplained: tuple[tuple[Component, Unmet], ...] = ()
    used: tuple[Relax, ...] = ()
    """The relaxations that explain something."""


def check(asked: Asked, components: Sequence[Component], versions: Mapping[str, str]) -> Verdict:
    """Hold the sources' original demands and those of every distribution of the set against the set.

    `components` are all distributions of the set with what they ask for, `versions` the set itself, by normalised name.
    """
    have = {name: Have(version, f"{name} {version} is in the set") for name, version in versions.items()}
    have |= {component.key: component.have for component in asked.sources}
    everyone = (*asked.sources, *asked.rules, *components)
    extras = asked_extras(everyone, asked.target)
    conflicts: dict[tuple[str, str], Conflict] = {}
    unexplained: list[tuple[Component, Unmet]] = []
    used: list[Relax] = []
    for component in everyone:
        for unmet in _unmet(asked, component, have, extras.get(component.key, ())):
            if not unmet.reason:
                unexplained.append((component, unmet))
                continue
            used += [unmet.settled.relaxed] if unmet.settled.relaxed else []
            if _is_seen_by_pip(asked, component, unmet):
                conflict = _conflict(component, unmet)
                conflicts[conflict.whose, conflict.demand] = conflict
    ordered = tuple(conflicts[key] for key in sorted(conflicts))
    return Verdict(ordered, tuple(unexplained), tuple(dict.fromkeys(used)))


def _unmet(asked: Asked, component: Component, have: Mapping[str, Have], extras: Iterable[str]) -> list[Unmet]:
    return unmet_demands(
        component.settled,
        have,
        asked.target,
        excluded=asked.excluded,
        complete=True,
        extras=extras,
        without=component.without,
    )


def _is_seen_by_pip(asked: Asked, component: Component, unmet: Unmet) -> bool:
    """`pip check` knows what is registered, looks at run-time demands alone and takes no extra as asked for."""
    demand = unmet.settled.demand
    return component.registered and demand.kind is Kind.RUN and asked.target.holds(demand.requirement.marker)


def _conflict(component: Component, unmet: Unmet) -> Conflict:
    return Conflict(
        whose=component.key,
        version=component.version,
        demand=requirement_text(unmet.settled.demand.requirement),
        found=unmet.found,
        reason=unmet.reason,
    )
