"""Contradictions as people think of them: who asks for what, in which file, and which relaxation would decide it.

Three looks, from near to far: what sources and rules ask for against the pins and each other, which takes no network;
what pinned distributions ask for; and what only the resolver saw, told in its own words beside the places it speaks of.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from packaging.requirements import Requirement
from packaging.specifiers import Specifier
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from ascend_images.errors import BadInput
from ascend_images.lock.components import Asked, Component, active, asked_extras
from ascend_images.lock.demands import (
    Kind,
    Settled,
    Unmet,
    clauses_broken,
    clauses_text,
    is_exact,
    met,
    requirement_text,
)
from ascend_images.lock.resolver import PINS

#: Steps just above and just below a version that a clause names.
_ABOVE, _BELOW = ".0.0.1", ".999999"
_LARGEST = "999999"
#: Relaxations that are written out where only the resolver saw the contradiction.
_SHOWN = 4


@dataclass(frozen=True)
class Ask:
    """One demand beside the component that makes it."""

    component: Component
    settled: Settled

    @property
    def requirement(self) -> Requirement:
        """What relaxations leave of the demand."""
        return self.settled.left or self.settled.demand.requirement

    def __str__(self) -> str:
        demand = self.settled.demand
        build = " to be built" if demand.kind is Kind.BUILD else ""
        return f"{self.component.label} asks for {requirement_text(self.requirement)}{build} ({self.place})"

    @property
    def place(self) -> str:
        """Where the demand stands, in words."""
        where = self.settled.demand.where
        written = where.startswith(("versions.toml", "the rules", "its ", "the metadata"))
        return where if written else f"{where} of {self.component.name}"


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """Demands on one package that nothing meets together.

    `fixed` says what decided the package's version, empty where only demands stand against each other; `against` are
    the demands that it does not meet, `along` those that ask for just that; `decide` the relaxations that would settle
    it, each one alone where nothing is fixed, all of them where something is.
    """

    package: str
    against: tuple[Ask, ...]
    fixed: str = ""
    along: tuple[Ask, ...] = ()
    decide: tuple[tuple[str, str], ...] = ()

    def text(self, stack: str) -> str:
        """Return it for people, the lines to type included."""
        lines = [f"{self.package}:"]
        lines += dict.fromkeys(f"  {ask}" for ask in self.against)
        lines += [f"  {self.fixed}"] if self.fixed else []
        lines += dict.fromkeys(f"  {ask}" for ask in self.along)
        if not self.decide:
            return "\n".join([*lines, "  pin another version"])
        which = "this would lift that demand:" if len(self.decide) == 1 else (
            "these would lift those demands:" if self.fixed else "one of these would decide it:"
        )  # fmt: skip
        lines.append(f"  {which}")
        for whose, demand in self.decide:
            lines += [f"    {line}" for line in relax_lines(stack, whose, demand)]
        return "\n".join(lines)


def relax_lines(stack: str, whose: str, demand: str) -> tuple[str, ...]:
    """Return the entry of versions.toml that lifts one demand."""
    table = stack if re.fullmatch(r"[A-Za-z0-9_-]+", stack) else f'"{stack}"'
    return (f"[[stack.{table}.relax]]", f'whose = "{whose}"', f'demand = "{demand}"', 'reason = "…"')


def together(found: Iterable[Contradiction]) -> tuple[Contradiction, ...]:
    """Return contradictions of several architectures as people count them: one a package and cause."""
    merged: dict[tuple[str, str], Contradiction] = {}
    for one in found:
        key = one.package, one.fixed
        merged[key] = _joined(merged[key], one) if key in merged else one
    return tuple(merged.values())


def _joined(one: Contradiction, other: Contradiction) -> Contradiction:
    return replace(
        one,
        against=tuple(dict.fromkeys((*one.against, *other.against))),
        along=tuple(dict.fromkeys((*one.along, *other.along))),
        decide=tuple(dict.fromkeys((*one.decide, *other.decide))),
    )


def refuse(variant: str, stack: str, contradictions: Sequence[Contradiction], *more: BadInput) -> None:
    """Raise one BadInput that tells all contradictions and whatever else was found wrong, where there is any."""
    if not contradictions and not more:
        return
    if len(more) == 1 and not contradictions:
        raise more[0]
    texts = [contradiction.text(stack) for contradiction in contradictions]
    texts += [f"{error.found}\n  {error.do}" for error in more]
    count = f"{len(contradictions)} contradictions" if len(contradictions) > 1 else "a contradiction"
    head = f"{variant}: {count}" if contradictions else f"{variant}: pins that cannot be had"
    raise BadInput(
        "\n".join([head, *texts]),
        wanted="pins and demands that can all be met",
        do="change a pin, or write a relaxation with its reason, then the same again",
    )


def contradictions(asked: Asked, components: Sequence[Component]) -> tuple[Contradiction, ...]:
    """Return what cannot be met among the pins, sources, rules and these distributions, package by package."""
    everyone = (*asked.sources, *asked.rules, *components)
    extras = asked_extras(everyone, asked.target)
    asks: dict[str, list[Ask]] = {}
    for component in everyone:
        for entry in active(component, asked.target, extras.get(component.key, ())):
            asks.setdefault(entry.demand.name, []).append(Ask(component, entry))
    found = (_about(asked, package, asks[package]) for package in sorted(asks))
    return tuple(contradiction for contradiction in found if contradiction)


def _about(asked: Asked, package: str, asks: Sequence[Ask]) -> Contradiction | None:
    fixed = _fixed(asked, package)
    if fixed is not None:
        return _against_fixed(package, asks, *fixed)
    never = asked.exclusion_text(package)
    if never:
        exact = [ask for ask in asks if is_exact(ask.requirement)]
        return _decided(package, exact, f"{package} is {never}", (), {ask: ask.requirement.name for ask in exact})
    return _among_themselves(asked, package, asks)


def _fixed(asked: Asked, package: str) -> tuple[str, str] | None:
    """Return the version that a package has before anything is resolved, and who says so."""
    if source := asked.given.get(package):
        return source.version, asked.source_text(source)
    pin = asked.pins.get(package)
    if pin is not None and pin.version:
        return pin.version, f"{package} is pinned to {pin.version} ({pin.where})"
    return None


def _against_fixed(package: str, asks: Sequence[Ask], version: str, who: str) -> Contradiction | None:
    broken = [ask for ask in asks if not met(ask.requirement, version)]
    along = [
        ask
        for ask in asks
        if ask not in broken and any(not compatible(ask.requirement, other.requirement) for other in broken)
    ]
    return _decided(package, broken, who, along, {ask: _lifting(ask.requirement, version) for ask in broken})


def _lifting(requirement: Requirement, version: str) -> str:
    """Return the part of a requirement that has to be lifted for a version to meet it."""
    return clauses_text(requirement, clauses_broken(requirement, version))


def _decided(
    package: str, broken: Sequence[Ask], who: str, along: Sequence[Ask], demands: Mapping[Ask, str]
) -> Contradiction | None:
    if not broken:
        return None
    decide = _lines((ask, demands[ask]) for ask in broken)
    return Contradiction(package=package, against=tuple(broken), fixed=who, along=tuple(along), decide=decide)


def _lines(choices: Iterable[tuple[Ask, str]]) -> tuple[tuple[str, str], ...]:
    """Return whose demand a relaxation would name and how, each demand once, however it is spelled."""
    found: dict[tuple[str, frozenset[Specifier]], tuple[str, str]] = {}
    for ask, demand in choices:
        if ask.component.relaxable:
            key = ask.component.name, frozenset(Requirement(demand).specifier)
            found.setdefault(key, (ask.component.name, demand))
    return tuple(found.values())


def _among_themselves(asked: Asked, package: str, asks: Sequence[Ask]) -> Contradiction | None:
    """Return the demands on an open package of which two exclude each other; a pinned range is a demand too."""
    pin = asked.pins.get(package)
    if pin is not None:
        out = [ask for ask in asks if not compatible(ask.requirement, pin.requirement)]
        who = f"{requirement_text(pin.requirement)} is pinned ({pin.where})"
        if out:
            return _decided(package, out, who, (), {ask: _opposed(ask, [pin.requirement]) for ask in out})
    pairs = [
        (one, other)
        for one, other in itertools.combinations(asks, 2)
        if not compatible(one.requirement, other.requirement)
    ]
    if not pairs:
        return None
    involved = [ask for ask in asks if any(ask in pair for pair in pairs)]
    decide = _lines((ask, _opposed(ask, [other.requirement for other in _others(ask, pairs)])) for ask in involved)
    return Contradiction(package=package, against=tuple(involved), decide=decide)


def _others(ask: Ask, pairs: Iterable[tuple[Ask, Ask]]) -> list[Ask]:
    return [other for pair in pairs if ask in pair for other in pair if other is not ask]


def _opposed(ask: Ask, others: Sequence[Requirement]) -> str:
    """Return the clauses of a demand that exclude others', the whole of it where only together they do."""
    clauses = [
        clause
        for clause in ask.requirement.specifier
        if any(not _overlap([clause], list(other.specifier)) for other in others)
    ]
    return clauses_text(ask.requirement, clauses)


def compatible(one: Requirement, other: Requirement) -> bool:
    """Tell whether some version meets both requirements."""
    return _overlap(list(one.specifier), list(other.specifier))


def _overlap(one: Sequence[Specifier], other: Sequence[Specifier]) -> bool:
    """Try the versions that the clauses name and those just beside them: if any version is in all, one of these is."""
    clauses = [*one, *other]
    return not clauses or any(
        all(clause.contains(version, prereleases=True) for clause in clauses) for version in _witnesses(clauses)
    )


def _witnesses(clauses: Iterable[Specifier]) -> list[Version]:
    texts = {"0", _LARGEST}
    for clause in clauses:
        named = clause.version.removesuffix(".*")
        try:
            version = Version(named)
        except InvalidVersion:
            continue
        texts |= {named, version.base_version + _ABOVE}
        for length in range(1, len(version.release) + 1):
            head, last = version.release[: length - 1], version.release[length - 1]
            if last:
                texts.add(".".join(map(str, (*head, last - 1))) + _BELOW)
            texts.add(".".join(map(str, (*head, last + 1))))
    return [Version(text) for text in sorted(texts)]


def of_unmet(found: Sequence[tuple[Component, Unmet]], asked: Asked) -> tuple[Contradiction, ...]:
    """Return what a finished set does not meet and nothing explains, as contradictions."""
    by_package: dict[str, list[tuple[Ask, Unmet]]] = {}
    for component, unmet in found:
        by_package.setdefault(unmet.settled.demand.name, []).append((Ask(component, unmet.settled), unmet))
    told = []
    for package, entries in sorted(by_package.items()):
        fixed = _fixed(asked, package)
        who = fixed[1] if fixed else f"{package}: {entries[0][1].problem}"
        demands = {
            ask: _lifting(ask.requirement, unmet.found) if unmet.found else ask.requirement.name
            for ask, unmet in entries
        }
        contradiction = _decided(package, [ask for ask, _ in entries], who, (), demands)
        told += [contradiction] if contradiction else []
    return tuple(told)


def in_the_resolvers_words(
    asked: Asked, components: Sequence[Component], text: str, as_of: date | None = None
) -> BadInput:
    """Return the error for what only the resolver saw: its explanation, and where the demands it speaks of stand.

    `as_of` is the day after which nothing counted that was published later.
    """
    text = _without_settings(text)
    everyone = (*asked.sources, *asked.rules, *components)
    said = {str(canonicalize_name(word)) for word in re.findall(r"[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]", text)}
    extras = asked_extras(everyone, asked.target)
    asks = [
        Ask(component, entry)
        for component in everyone
        if component.key in said or not component.relaxable
        for entry in active(component, asked.target, extras.get(component.key, ()))
        if entry.demand.name in said and entry.left is not None and entry.left.specifier
    ]
    pins = [pin for name, pin in asked.pins.items() if name in said]
    lines = [f"{asked.variant.name}: the resolver finds no set that meets all demands. What it speaks of:"]
    lines += [f"  {ask}" for ask in asks]
    lines += [f"  {requirement_text(pin.requirement)} is pinned ({pin.where})" for pin in pins]
    lines.append("In its own words:")
    lines += [f"  {line}" for line in text.replace(PINS, "versions.toml").splitlines() if line.strip()]
    # A pinned distribution is likelier to be the odd one than a source is.
    choices = sorted((ask for ask in asks if ask.component.relaxable), key=lambda ask: ask.component.source)
    if choices:
        lines.append("  lifting one of these may decide it:")
    for ask in choices[:_SHOWN]:
        demand = clauses_text(ask.requirement)
        lines += [f"    {line}" for line in relax_lines(asked.variant.stack, ask.component.name, demand)]
    later = f"take a later day than {as_of} (--as-of), " if as_of else ""
    lift = "lift one demand with its reason; a distribution's demand is lifted once it is pinned"
    return BadInput(
        "\n".join(lines),
        wanted="pins and demands that can all be met",
        do=f"{later}change a pin, or {lift}",
    )


def _without_settings(text: str) -> str:
    """Return the resolver's text less its hints on settings of its own, which nobody can give it here."""
    return "\n".join(re.sub(r" Consider using `exclude-newer.*$", "", line) for line in text.splitlines())
