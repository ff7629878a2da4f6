"""What asks and what is pinned: the sources, distributions and rules of one variant, their relaxations applied."""

import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from ascend_images.errors import BadInput, unknown
from ascend_images.lock.demands import Demand, Have, Settled, lifts_nothing, parse_requirement, settle
from ascend_images.lock.target import Target
from ascend_images.pins import rules
from ascend_images.pins.model import Relax
from ascend_images.pins.places import Kind, Places, in_own_stack
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Checkout, Variant


@dataclass(frozen=True, kw_only=True)
class Component:
    """A source or a distribution with what it asks for, or a rule that asks for something.

    `name` is what versions.toml calls it, `registered` whether pip will see it in the image, `without` the reason for
    which it is installed without what it asks for, `relaxable` whether `whose` of a relaxation can name it.
    """

    name: str
    version: str = ""
    settled: tuple[Settled, ...] = ()
    source: bool = False
    registered: bool = True
    without: str = ""
    relaxable: bool = True
    distribution: str = ""

    @property
    def label(self) -> str:
        """Name and version, for people."""
        return f"{self.name} {self.version}".strip()

    @property
    def key(self) -> str:
        """Normalised name of its distribution."""
        return str(canonicalize_name(self.distribution or self.name))

    @property
    def have(self) -> Have:
        """The component as something that others ask for."""
        label = f"{self.label} is a source" if self.source else f"{self.key} {self.version} is in the set"
        return Have(self.version, label, registered=self.registered, source=self.source)


@dataclass(frozen=True)
class Pin:
    """A pinned package: what versions.toml says of it for one architecture, and in which of its tables."""

    name: str
    requirement: Requirement
    where: str

    @property
    def version(self) -> str:
        """The version, empty where the pin is a range."""
        clauses = list(self.requirement.specifier)
        return clauses[0].version if len(clauses) == 1 and clauses[0].operator == "==" else ""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Everything that the pins and the sources ask for on one target, before an index was asked."""

    variant: Variant
    target: Target
    sources: tuple[Component, ...]
    rules: tuple[Component, ...]
    pins: Mapping[str, Pin]
    relaxed: Mapping[str, tuple[Relax, ...]] = field(default_factory=dict)
    """Relaxations of distributions, by normalised name."""
    places: Places = in_own_stack

    @property
    def given(self) -> dict[str, Component]:
        """Sources by the normalised name of their distribution."""
        return {component.key: component for component in self.sources}

    @property
    def excluded(self) -> Callable[[str], str | None]:
        """Return a function that gives the reason for which a package is never installed, None where it may be.

        A package that a source brings is there, whatever the index has under its name.
        """
        pattern_of = self._exclusion

        def reason_of(name: str) -> str | None:
            pattern = pattern_of(name)
            return None if pattern is None else self.variant.exclude[pattern]

        return reason_of

    @property
    def _exclusion(self) -> Callable[[str], str | None]:
        """Return a function that gives the pattern of `exclude` which a package falls under, None for no such."""
        given = self.given
        patterns = {pattern: str(canonicalize_name(pattern)) for pattern in self.variant.exclude}

        def pattern_of(name: str) -> str | None:
            if name in given:
                return None
            return next((one for one, normal in patterns.items() if fnmatch.fnmatchcase(name, normal)), None)

        return pattern_of

    def exclusion_text(self, name: str) -> str:
        """Return why a package is never installed and where that is said, empty where it may be."""
        pattern = self._exclusion(name)
        if pattern is None:
            return ""
        return f"never installed: {self.variant.exclude[pattern]} ({self._place('exclude', pattern)})"

    def source_text(self, source: Component) -> str:
        """Return that a component is a source, and where that is said."""
        return f"{source.label} is a source ({self._place('sources', source.name)})"

    def _place(self, kind: Kind, name: str) -> str:
        return self.places(self.variant, kind, name)


def asked(
    variant: Variant, arch: Arch, demands: Mapping[str, Sequence[Demand]], places: Places = in_own_stack
) -> Asked:
    """Put together what `variant` asks for on one architecture; `demands` are those of its sources, by name.

    Raises BadInput for a relaxation that names nobody, and for those of sources that lift nothing.
    """
    relaxations = _by_component(variant)
    sources = []
    idle: list[BadInput] = []
    for source in variant.sources:
        settled, unused = settle(demands[source.name], relaxations.get(source.name, ()))
        idle += [lifts_nothing(relax, demands[source.name], stack=variant.stack) for relax in unused]
        sources.append(_of_source(source, settled, variant))
    raise_all(idle)
    names = {source.name for source in variant.sources}
    return Asked(
        variant=variant,
        target=Target(arch, variant.python),
        sources=tuple(sources),
        rules=_of_rules(variant),
        pins=pins(variant, arch, places),
        relaxed={name: tuple(found) for name, found in relaxations.items() if name not in names},
        places=places,
    )


def raise_all(errors: Sequence[BadInput]) -> None:
    """Raise what was found wrong, all of it in one error."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise BadInput("\n".join(str(error) for error in errors))


def _of_source(source: Checkout, settled: tuple[Settled, ...], variant: Variant) -> Component:
    without = "" if source.dependencies else f"versions.toml installs it without what it asks for ({variant.stack})"
    return Component(
        name=source.name,
        version=source.installed_version,
        settled=settled,
        source=True,
        registered=source.install == "editable",
        without=without,
        distribution=source.distribution,
    )


def _of_rules(variant: Variant) -> tuple[Component, ...]:
    name = f"CANN {variant.cann}"
    demands = [Demand(name, parse_requirement(line, name), "the rules") for line in rules.constraints(variant)]
    if not demands:
        return ()
    return (Component(name=name, settled=settle(demands, ())[0], registered=False, relaxable=False),)


def pins(variant: Variant, arch: Arch, places: Places = in_own_stack) -> dict[str, Pin]:
    """Return the pinned packages by normalised name; raises BadInput for what is neither version nor specifier."""
    found = {}
    for package in variant.packages:
        where = places(variant, "packages", package)
        text = variant.pin(package, arch)
        try:
            specifier = f"=={Version(text)}"
        except InvalidVersion:
            specifier = text
        name = str(canonicalize_name(package))
        requirement = parse_requirement(f"{name} {specifier}", f"{where}: {package}")
        found[name] = Pin(name, requirement, where)
    return found


def _by_component(variant: Variant) -> dict[str, list[Relax]]:
    """Return the relaxations by the name of a source, or by the normalised one of a pinned distribution."""
    sources = {canonicalize_name(source.distribution): source.name for source in variant.sources}
    sources |= {canonicalize_name(source.name): source.name for source in variant.sources}
    packages = {canonicalize_name(package): package for package in variant.packages}
    found: dict[str, list[Relax]] = {}
    for relax in variant.relax:
        name = canonicalize_name(relax.whose)
        if name not in sources and name not in packages:
            raise unknown(
                "component",
                relax.whose,
                [*variant.packages, *(source.name for source in variant.sources)],
                where=f'stack {variant.stack}: the relaxation of "{relax.demand}"',
            )
        if name not in sources:
            _require_exact(variant, packages[name], relax)
        found.setdefault(sources.get(name, str(name)), []).append(relax)
    return found


def _require_exact(variant: Variant, package: str, relax: Relax) -> None:
    try:
        Version(variant.packages[package])
    except InvalidVersion:
        raise BadInput(
            f'stack {variant.stack}: the relaxation of "{relax.demand}" is for whichever {package} is found',
            wanted=f"one version of it: what {package}{variant.packages[package]} asks for differs between versions",
            do=f"pin {package} exactly in stack.{variant.stack}.packages",
        ) from None


def distribution(
    asked: Asked, name: str, version: str, requires: Iterable[Requirement], where: str
) -> tuple[Component, tuple[Relax, ...]]:
    """Return a distribution as a component; also the relaxations that lift nothing of it."""
    # People know a package by the name under which it is pinned.
    written = {str(canonicalize_name(package)): package for package in asked.variant.packages}
    without = {str(canonicalize_name(package)): why for package, why in asked.variant.no_dependencies.items()}
    demands = [Demand(name, requirement, where) for requirement in requires]
    settled, idle = settle(demands, asked.relaxed.get(name, ()))
    component = Component(
        name=written.get(name, name),
        version=version,
        settled=settled,
        without=without.get(name, ""),
        relaxable=bool(name in asked.pins and asked.pins[name].version),
    )
    return component, idle


def active(component: Component, target: Target, extras: Iterable[str] = ()) -> list[Settled]:
    """Return the demands that are left and count on the target with these extras of the component asked for."""
    extras = tuple(extras)
    return [
        entry
        for entry in component.settled
        if entry.left is not None and target.holds(entry.left.marker, extras) and not component.without
    ]


def asked_extras(components: Iterable[Component], target: Target) -> dict[str, frozenset[str]]:
    """Return the extras that are asked of each component, by the normalised name of its distribution."""
    all_components = tuple(components)
    found: dict[str, frozenset[str]] = {}
    while True:
        before = dict(found)
        for component in all_components:
            for entry in active(component, target, found.get(component.key, ())):
                if entry.left is not None and entry.left.extras:
                    name = entry.demand.name
                    found[name] = found.get(name, frozenset()) | entry.left.extras
        if found == before:
            return found
