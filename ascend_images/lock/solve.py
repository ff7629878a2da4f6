"""One variant on one architecture: what its pins say before resolving, then a set that meets all that is asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ascend_images.errors import BadInput, LookupIncomplete
from ascend_images.lock import explain
from ascend_images.lock.check import Verdict, check
from ascend_images.lock.components import Asked, Component, active, distribution
from ascend_images.lock.demands import Kind, lifts_nothing
from ascend_images.lock.distributions import Distribution, Distributions, build_demands
from ascend_images.lock.explain import Contradiction
from ascend_images.lock.means import Means
from ascend_images.lock.metadata import Metadata
from ascend_images.lock.patience import in_parallel
from ascend_images.lock.placeholder import Placeholder
from ascend_images.lock.release import IndexUnreachableError
from ascend_images.lock.resolver import Question, UnresolvableError
from ascend_images.pins.model import Relax

#: Rounds in which exclusions and build requirements that only the set shows are added; three are the usual number.
_ROUNDS = 12
_UNKNOWN_VERSION = "0"


@dataclass(frozen=True, kw_only=True)
class Look:
    """What shows before anything is resolved: pinned distributions, and all that is wrong with the pins.

    `idle` are relaxations that name none of their component's demands here, each with the error that says so.
    """

    asked: Asked
    lookups: Distributions
    pinned: Mapping[str, Distribution]
    components: tuple[Component, ...]
    contradictions: tuple[Contradiction, ...] = ()
    problems: tuple[BadInput, ...] = ()
    idle: tuple[tuple[Relax, BadInput], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Solved:
    """A set that stands: its packages with what is known of each, and the demands that it does not meet on purpose."""

    asked: Asked
    distributions: Mapping[str, Distribution]
    components: tuple[Component, ...]
    verdict: Verdict
    hashes: Mapping[str, tuple[str, ...]]

    @property
    def versions(self) -> dict[str, str]:
        """The set, without the sources."""
        return {name: known.version for name, known in self.distributions.items()}


def look(asked: Asked, means: Means) -> Look:
    """Ask about the pinned distributions and return what shows.

    Raises LookupIncomplete where an index is lost, unless what sources and pins say is contradictory by itself.
    """
    lookups = Distributions(means.packages, asked, means.way.indexes(asked.variant.indexes))
    try:
        pinned, problems = lookups.find({name: pin.version for name, pin in asked.pins.items() if pin.version})
    except LookupIncomplete:
        direct = explain.contradictions(asked, ())
        if not direct:
            raise
        return Look(asked=asked, lookups=lookups, pinned={}, components=(), contradictions=direct)
    components = []
    idle: list[tuple[Relax, BadInput]] = []
    for known in pinned.values():
        component, unused = _component(asked, known)
        components.append(component)
        demands = [entry.demand for entry in component.settled]
        idle += [(relax, lifts_nothing(relax, demands, stack=asked.variant.stack)) for relax in unused]
    return Look(
        asked=asked,
        lookups=lookups,
        pinned=pinned,
        components=tuple(components),
        contradictions=explain.contradictions(asked, components),
        problems=problems,
        idle=tuple(idle),
    )


def _component(asked: Asked, known: Distribution) -> tuple[Component, tuple[Relax, ...]]:
    return distribution(asked, known.name, known.version, known.metadata.requires, known.where)


def solve(
    seen: Look,
    means: Means,
    held: Mapping[str, str],
    near: Mapping[str, Distribution],
    kept: Mapping[str, str] | None = None,
) -> Solved:
    """Return the set, as near to the versions `held` by another architecture as there are files for.

    `near` are distributions that are likely in it, as far as they are known: the other architecture's. Versions of
    `kept` are taken where they fit and were not taken back by their publisher. Raises BadInput where demands cannot be
    met, and LookupIncomplete where an index is lost.
    """
    asked = seen.asked
    keep = _fitting(seen, means, kept or {}, yanked=False)
    found = _resolve(seen, means, _fitting(seen, means, held), near, keep)
    components = tuple(_component(asked, known)[0] for known in found.values())
    verdict = check(asked, components, {name: known.version for name, known in found.items()})
    told = explain.of_unmet(verdict.unexplained, asked)
    explain.refuse(asked.variant.name, asked.variant.stack, told)
    return Solved(
        asked=asked,
        distributions=found,
        components=components,
        verdict=verdict,
        hashes=_hashes(seen, means, found),
    )


def _fitting(seen: Look, means: Means, held: Mapping[str, str], *, yanked: bool = True) -> dict[str, str]:
    """Return those of the versions that can be had here: not pinned otherwise, with a file for the target.

    Without `yanked`, those that were taken back are left out.
    """
    asked = seen.asked
    open_ones = {
        name: version
        for name, version in held.items()
        if name not in seen.pinned and name not in asked.given and name not in seen.lookups.bound
    }
    releases = in_parallel(lambda name: means.packages.release(name, open_ones[name]), open_ones)
    return {
        name: version
        for name, version in open_ones.items()
        if (release := releases[name]) is not None
        and not isinstance(release, IndexUnreachableError)
        and release.usable(asked.target)
        and (yanked or not release.yanked)
    }


def _resolve(
    seen: Look,
    means: Means,
    held: Mapping[str, str],
    near: Mapping[str, Distribution],
    kept: Mapping[str, str],
) -> dict[str, Distribution]:
    """Return the set with all that is known of it, what building its sdists takes included."""
    asked = seen.asked
    excluded = _excluded_so_far(seen)
    build: dict[str, tuple[Requirement, ...]] = {}
    for _ in range(_ROUNDS):
        versions = _ask(seen, means, replace(_question(seen, excluded, build, near), preferred=kept), held)
        more = {name for name in versions if asked.excluded(name) is not None}
        if more:
            excluded |= more
            continue
        found = near = _known(seen, versions)
        needed = build_demands(tuple(found.values()), _is_there(asked, versions), asked)
        if not needed.keys() - build.keys():
            return found
        build |= needed
    raise LookupIncomplete(
        f"{asked.variant.name}: no end to what building its packages takes: {', '.join(sorted(build))}",
        do="exclude or pin what asks for it",
    )


def _is_there(asked: Asked, versions: Mapping[str, str]) -> Callable[[str], bool]:
    """Return a function that tells whether a build finds a package without asking for it."""
    return lambda name: name in versions or name in asked.pins or asked.excluded(name) is not None


def _excluded_so_far(seen: Look) -> set[str]:
    """Return the excluded names that can be told from what was read; patterns name no package by themselves."""
    named = {entry.demand.name for one in (*seen.asked.sources, *seen.components) for entry in one.settled}
    named |= {str(canonicalize_name(name)) for name in seen.asked.variant.exclude if not name.endswith("*")}
    return {name for name in named if seen.asked.excluded(name) is not None}


def _ask(seen: Look, means: Means, question: Question, held: Mapping[str, str]) -> dict[str, str]:
    resolve = means.resolver.resolve
    try:
        if held:
            try:
                return resolve(replace(question, constrained=held))
            except UnresolvableError:
                # One of them cannot be had here: keep to the others as far as that goes.
                return resolve(replace(question, preferred={**question.preferred, **held}))
        return resolve(question)
    except UnresolvableError as error:
        raise explain.in_the_resolvers_words(seen.asked, seen.components, str(error), means.as_of) from None


def _known(seen: Look, versions: Mapping[str, str]) -> dict[str, Distribution]:
    """Return all that is known of a set, the sources left out: they are no packages."""
    packages = {name: version for name, version in versions.items() if name not in seen.asked.given}
    found, problems = seen.lookups.find(
        {name: version for name, version in packages.items() if name not in seen.pinned}
    )
    explain.refuse(seen.asked.variant.name, seen.asked.variant.stack, (), *problems)
    found = {**seen.pinned, **found}
    return {name: found[name] for name in sorted(packages)}


def _question(
    seen: Look, excluded: set[str], build: Mapping[str, Sequence[Requirement]], near: Mapping[str, Distribution]
) -> Question:
    asked = seen.asked
    unreached = {name for name, known in seen.pinned.items() if known.unreached}
    from_sources = [
        entry.left
        for component in asked.sources
        for entry in component.settled
        if entry.left is not None and entry.demand.kind is Kind.BUILD
    ]
    from_rules = [entry.left for rule in asked.rules for entry in active(rule, asked.target) if entry.left is not None]
    from_sdists = [requirement for requirements in build.values() for requirement in requirements]
    return Question(
        target=asked.target,
        pins=tuple(pin.requirement for name, pin in asked.pins.items() if name not in unreached),
        extra=(*from_sources, *from_rules, *from_sdists),
        given=(*_given_sources(seen), *_given_packages(seen, unreached)),
        bound={
            name: (index, seen.lookups.addresses[index])
            for name, index in seen.lookups.bound.items()
            if name not in unreached
        },
        metadata={**_of_sdists(seen, near), **_metadata(seen, unreached)},
        exclude=frozenset(excluded),
    )


def _left(component: Component) -> tuple[Requirement, ...]:
    """Return what the resolver shall know that a component asks for at run time."""
    if component.without:
        return ()
    return tuple(entry.left for entry in component.settled if entry.left is not None and entry.demand.kind is Kind.RUN)


def _given_sources(seen: Look) -> list[Placeholder]:
    return [
        Placeholder(component.key, component.version or _UNKNOWN_VERSION, _left(component))
        for component in seen.asked.sources
    ]


def _given_packages(seen: Look, names: set[str]) -> list[Placeholder]:
    return [
        Placeholder(
            component.key,
            component.version,
            _left(component),
            seen.pinned[component.key].metadata.extras,
        )
        for component in seen.components
        if component.key in names
    ]


def _metadata(seen: Look, unreached: set[str]) -> dict[tuple[str, str], Metadata]:
    """Return what pinned distributions ask for where their own metadata does not say it: relaxed, or an sdist's."""
    entries = {}
    for component in seen.components:
        known = seen.pinned[component.key]
        changed = component.key in seen.asked.relaxed or bool(component.without)
        if component.key not in unreached and (changed or (known.sdist and known.metadata.known)):
            entries[component.key, known.version] = Metadata(_left(component), extras=known.metadata.extras)
    return entries


def _of_sdists(seen: Look, near: Mapping[str, Distribution]) -> dict[tuple[str, str], Metadata]:
    """Return what sdists ask for as it was read: the resolver would build each of them to learn the same."""
    return {
        (name, known.version): known.metadata
        for name, known in near.items()
        if known.sdist and known.metadata.known and name not in seen.pinned
    }


def _hashes(seen: Look, means: Means, found: Mapping[str, Distribution]) -> dict[str, tuple[str, ...]]:
    """Return the checksums of all files that an installer may take on the target, by package."""
    target = seen.asked.target
    files = {name: known.release.usable(target) for name, known in found.items() if known.release is not None}
    digests = in_parallel(means.packages.sha256, [file for usable in files.values() for file in usable])
    lost = [str(digest) for digest in digests.values() if isinstance(digest, IndexUnreachableError)]
    if lost:
        raise LookupIncomplete(f"a checksum could not be learned: {lost[0]}", do="try again when the index answers")
    return {name: tuple(sorted({f"sha256:{digests[file]}" for file in usable})) for name, usable in files.items()}
