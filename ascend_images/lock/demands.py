"""What components ask for, what relaxations leave of it, and which demands a set of versions does not meet."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import Specifier, SpecifierSet
from packaging.utils import canonicalize_name

from ascend_images.errors import BadInput
from ascend_images.lock.target import Target
from ascend_images.pins.model import Relax


class Kind(StrEnum):
    """When a demand has to be met: while the component runs, or while it is built."""

    RUN = "run"
    BUILD = "build"


@dataclass(frozen=True)
class Demand:
    """One requirement of one component, and the place it was read in."""

    whose: str
    requirement: Requirement
    where: str
    kind: Kind = Kind.RUN

    @property
    def name(self) -> str:
        """Normalised name of the package that is asked for."""
        return str(canonicalize_name(self.requirement.name))


@dataclass(frozen=True)
class Settled:
    """A demand beside what the relaxations leave of it: `left` is None where it is lifted whole."""

    demand: Demand
    left: Requirement | None
    relaxed: Relax | None = None

    @property
    def reason(self) -> str:
        """Why it was relaxed; empty where it was not."""
        return self.relaxed.reason if self.relaxed else ""


@dataclass(frozen=True)
class Have:
    """A component of the set: its version, what people call it, and whether `pip` will see it in the image."""

    version: str
    label: str
    registered: bool = True
    source: bool = False


@dataclass(frozen=True)
class Unmet:
    """A demand that the set does not meet; `reason` is why that is meant, empty where nothing explains it."""

    settled: Settled
    found: str
    """The version there is, empty where pip finds none."""
    reason: str
    problem: str
    """What is found, for people."""


def requirement_text(requirement: Requirement, *, marker: bool = False) -> str:
    """Return a requirement the way people write it, without its marker unless asked for."""
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    text = f"{requirement.name}{extras}{_clauses(requirement.specifier)}"
    return f"{text}; {requirement.marker}" if marker and requirement.marker else text


def clauses_text(requirement: Requirement, clauses: Iterable[Specifier] = ()) -> str:
    """Return the package of a requirement with some of its clauses, with all of them where none is named."""
    return f"{requirement.name}{_clauses(tuple(clauses) or requirement.specifier)}"


def _clauses(clauses: Iterable[Specifier]) -> str:
    return ",".join(sorted(map(str, clauses), key=_clause_order))


def _clause_order(clause: str) -> tuple[int, str]:
    return ("!" in clause, {"=": "0", "~": "1", ">": "2", "<": "3"}.get(clause[0], "4") + clause)


def parse_requirement(text: str, where: str) -> Requirement:
    """Parse one requirement; raises BadInput naming the place."""
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise BadInput(f"{where}: not a requirement: {text}", wanted=str(error).splitlines()[0]) from None


def clauses_broken(requirement: Requirement, version: str) -> SpecifierSet:
    """Return the clauses of a requirement that a version does not meet."""
    broken = [clause for clause in requirement.specifier if not clause.contains(version, prereleases=True)]
    return SpecifierSet(",".join(map(str, broken)))


def met(requirement: Requirement, version: str) -> bool:
    """Tell whether a version meets a requirement; development versions count like any other.

    A version that nobody knows (that of a source at a bare commit) is not held against it.
    """
    return not version or requirement.specifier.contains(version, prereleases=True)


def is_exact(requirement: Requirement) -> bool:
    """Tell whether a requirement names one version alone."""
    return any(
        clause.operator == "===" or (clause.operator == "==" and not clause.version.endswith(".*"))
        for clause in requirement.specifier
    )


def _left_of(demand: Requirement, lifted: Requirement) -> tuple[bool, Requirement | None]:
    """Return whether `lifted` names this demand or a part of it, and what is left when it is taken away."""
    if canonicalize_name(demand.name) != canonicalize_name(lifted.name):
        return False, demand
    if lifted.marker is not None and str(lifted.marker) != str(demand.marker):
        return False, demand
    if not lifted.specifier:
        return True, None
    wanted: set[Specifier] = set(lifted.specifier)
    if not wanted <= set(demand.specifier):
        return False, demand
    left = Requirement(str(demand))
    left.specifier = SpecifierSet(",".join(str(clause) for clause in demand.specifier if clause not in wanted))
    return True, left


def settle(demands: Sequence[Demand], relaxations: Iterable[Relax]) -> tuple[tuple[Settled, ...], tuple[Relax, ...]]:
    """Apply relaxations of one component to its demands; also return the relaxations that named none of them.

    A relaxation names a demand by its package and all or some of its clauses, compared as versions and not as text;
    without a clause it lifts the demand whole.
    """
    settled = [Settled(demand, demand.requirement) for demand in demands]
    idle: list[Relax] = []
    for relax in relaxations:
        lifted = parse_requirement(relax.demand, f"versions.toml: relax of {relax.whose}")
        named = False
        for number, entry in enumerate(settled):
            if entry.left is None:
                continue
            matches, left = _left_of(entry.left, lifted)
            if matches:
                named = True
                settled[number] = replace(entry, left=left, relaxed=relax)
        if not named:
            idle.append(relax)
    return tuple(settled), tuple(idle)


def lifts_nothing(relax: Relax, demands: Iterable[Demand], *, stack: str) -> BadInput:
    """Return the error for a relaxation that names no demand of its component."""
    lifted = parse_requirement(relax.demand, "versions.toml: relax")
    same = [demand for demand in demands if demand.name == canonicalize_name(lifted.name)]
    asked = "; ".join(f"{requirement_text(d.requirement, marker=True)} ({d.where})" for d in same)
    return BadInput(
        f'stack {stack}: the relaxation of {relax.whose}, demand "{relax.demand}", lifts nothing',
        wanted=f"{relax.whose} asks for {asked}" if same else f"{relax.whose} asks for no {lifted.name} at all",
        do=f'mend or delete the [[stack.{stack}.relax]] entry with whose = "{relax.whose}"',
    )


def unmet_demands(
    settled: Iterable[Settled],
    have: Mapping[str, Have],
    target: Target,
    *,
    excluded: Callable[[str], str | None],
    complete: bool,
    extras: Iterable[str] = (),
    without: str = "",
) -> list[Unmet]:
    """Return the demands of one component that the set does not meet, those that are explained too.

    `excluded` gives the reason for which a package is never installed. While the set is not `complete`, a package
    that it lacks is no fault yet. `without` is the reason for which the component goes without all it asks for.

    An exclusion explains why a package is missing, but not a demand for one exact version of it: who asks for that
    was made against that very build, so leaving it out wants a relaxation by name.
    """
    extras = tuple(extras)
    found: list[Unmet] = []
    for entry in settled:
        requirement = entry.demand.requirement
        if not target.holds(requirement.marker, extras):
            continue
        there = have.get(entry.demand.name)
        if there is None:
            why = excluded(entry.demand.name)
            if why is None and not complete:
                continue
            reason = _absence_reason(entry, why, without)
            problem = f"it is never installed ({why})" if why else "it is not in the set"
            found.append(Unmet(entry, "", reason, problem))
        elif not met(requirement, there.version):
            left = entry.left
            explained = entry.reason if left is None or met(left, there.version) else ""
            version = there.version if there.registered else ""
            found.append(Unmet(entry, version, explained or without, there.label))
        elif not there.registered:
            reason = "it is found on PYTHONPATH, where pip sees no version of it"
            found.append(Unmet(entry, "", f"{there.label}: {reason}", there.label))
    return found


def _absence_reason(entry: Settled, why: str | None, without: str) -> str:
    if entry.left is None:
        return entry.reason
    if why and not is_exact(entry.left):
        return why
    return without
