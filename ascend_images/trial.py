"""What newer versions would break, before anyone takes them: by the rules, by what packages ask for, by resolution."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
from packaging.utils import canonicalize_name

from ascend_images.errors import BadInput, LookupIncomplete
from ascend_images.lock import explain
from ascend_images.lock.demands import Demand, settle
from ascend_images.lock.lock import known_locks, lock_variant
from ascend_images.lock.means import Means
from ascend_images.lock.newer import Subject
from ascend_images.lock.sources import read_demands
from ascend_images.lock.whatif import Remembering, Standing, against, declared_demands, standing
from ascend_images.pins.compat import base_version, compat
from ascend_images.pins.model import Relax
from ascend_images.pins.platform import Arch
from ascend_images.pins.resolve import resolve
from ascend_images.pins.table import Table
from ascend_images.pins.variant import TORCH_TRIO, Variant
from ascend_images.selection import Selection

#: Seconds after which no further resolution is begun.
RESOLVE_SECONDS = 600


class Broken(Table, frozen=True, kw_only=True):
    """What a newer version would break, and for which variants.

    `rule` is the id of a rule, or `demand` for what a package asks for, or `resolution` for what no set of versions
    meets; `known` is false where that could not be told.
    """

    rule: str
    message: str
    wanted: str = ""
    variants: tuple[str, ...] = ()
    known: bool = True


@dataclass
class Trial:
    """Tries newer versions: by the rules, by what pinned packages ask for, and by resolution where that was asked."""

    selection: Selection
    means: Means
    resolves: bool = False
    clock: Callable[[], float] = time.monotonic
    not_tried: list[str] = field(default_factory=list)
    unread: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By stack, its sources whose files could not be read: what versions.toml says of them counts alone."""
    _before: dict[tuple[str, Arch], Standing] = field(default_factory=dict)
    _sources: dict[str, Mapping[str, Sequence[Demand]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.means = replace(self.means, packages=Remembering(self.means.packages))
        self._until = self.clock() + RESOLVE_SECONDS

    def breaks(self, one: Subject, version: str) -> tuple[Broken, ...]:
        """Return what a newer version of a pin would break, each thing once with the variants that it is for."""
        found: dict[Broken, list[str]] = {}
        for name, broken in self._found(one, version):
            found.setdefault(broken, []).append(name)
        return tuple(msgspec.structs.replace(broken, variants=tuple(names)) for broken, names in found.items())

    def fits(self, one: Subject, version: str) -> bool:
        """Tell whether a newer version would break nothing."""
        return next(self._found(one, version), None) is None

    def unchecked(self, one: Subject) -> tuple[str, ...]:
        """Return the sources whose demands a newer version of a pin was not held against: they could not be read."""
        if one.kind != "package":
            return ()
        return tuple(dict.fromkeys(name for variant in one.variants for name in self.unread.get(variant.stack, ())))

    def _found(self, one: Subject, version: str) -> Iterator[tuple[str, Broken]]:
        """Yield what a newer version would break, beside the name of the variant."""
        # The packages of a stack are the same on all its hardware.
        of_stacks: dict[str, list[Broken]] = {}
        for variant in one.variants:
            try:
                changed = resolve(
                    self.selection.pins, variant.name, _settings(one, version), allow_broken=True, to_be_locked=True
                )
            except BadInput as error:
                undescribed = one.kind == "cann" and version not in self.selection.pins.cann
                wanted = f'a table [cann."{version}"] in versions.toml' if undescribed else error.wanted
                yield variant.name, Broken(rule="pins", message=error.found, wanted=wanted)
                continue
            # One cause, one finding: what breaks a rule breaks demands as well.
            broken = list(_newly_broken(variant, changed))
            if not broken and variant.stack not in of_stacks:
                of_stacks[variant.stack] = list(self._of_packages(one, version, variant, changed))
            for each in broken or of_stacks[variant.stack]:
                yield variant.name, each

    def _of_packages(self, one: Subject, version: str, before: Variant, changed: Variant) -> Iterator[Broken]:
        """Yield what a newer version would break beyond rules."""
        demands = list(self._demands(before, changed)) if one.kind == "package" else []
        yield from demands
        if self.resolves and not demands:
            yield from self._resolution(one, version, changed)

    def _of_sources(self, variant: Variant) -> Mapping[str, Sequence[Demand]]:
        """Return what the sources of a stack ask for: of one whose files cannot be read what versions.toml says."""
        if variant.stack not in self._sources:
            found: dict[str, Sequence[Demand]] = {}
            unread = []
            for source in variant.sources:
                alone = msgspec.structs.replace(variant, sources=(source,))
                try:
                    found |= read_demands(alone, {}, self.means.cache, self.means.mirror.git)
                except (BadInput, LookupIncomplete):
                    unread.append(source.name)
                    found[source.name] = declared_demands(source)
            self._sources[variant.stack] = found
            if unread:
                self.unread[variant.stack] = tuple(unread)
        return self._sources[variant.stack]

    def _standing(self, variant: Variant, arch: Arch) -> Standing:
        """Return what the packages and the sources of a stack ask for, as far as these can be read."""
        key = variant.stack, arch
        if key not in self._before:
            self._before[key] = standing(self._as_read(variant), arch, self._of_sources(variant), self.means)
        return self._before[key]

    def _as_read(self, variant: Variant) -> Variant:
        """Return the variant without the relaxations of demands that could not be read: they would lift nothing."""
        demands = self._of_sources(variant)
        names = {
            canonicalize_name(name): source.name
            for source in variant.sources
            for name in (source.distribution, source.name)
            if source.name in self.unread.get(variant.stack, ())
        }

        def lifts(relax: Relax) -> bool:
            source = names.get(canonicalize_name(relax.whose))
            return source is None or not settle(demands[source], (relax,))[1]

        return msgspec.structs.replace(variant, relax=tuple(filter(lifts, variant.relax)))

    def _demands(self, before: Variant, changed: Variant) -> Iterator[Broken]:
        """Yield what sources and pinned packages ask for that the changed pins do not meet, each package once."""
        found: dict[str, Broken] = {}
        try:
            # ARM first: its versions have no local part.
            for arch in sorted(before.platforms, reverse=True):
                known = self._standing(before, arch)
                seen = against(known, self._as_read(changed))
                for one in seen.contradictions:
                    found.setdefault(one.package, Broken(rule="demand", message=_told(one)))
                for problem in seen.problems:
                    message = problem.found
                    found.setdefault(message, Broken(rule="demand", message=message, wanted=problem.wanted))
                for relax in seen.idle:
                    message = f'the relaxation of {relax.whose}, demand "{relax.demand}", would lift nothing'
                    found.setdefault(message, Broken(rule="relaxation", message=message, wanted="no such relaxation"))
        except BadInput as error:
            found[error.found] = Broken(rule="demand", message=error.found, wanted=error.wanted)
        except LookupIncomplete as error:
            found[error.found] = Broken(rule="demand", message=error.found, known=False)
        yield from found.values()

    def _resolution(self, one: Subject, version: str, variant: Variant) -> Iterator[Broken]:
        """Yield why no set of versions meets the pins, or why that could not be told."""
        if self.clock() > self._until:
            self.not_tried.append(f"{one.name} {version} in {variant.name}")
            return
        known = known_locks(variant, self.selection.locks)
        try:
            lock_variant(variant, variant.platforms, {}, self.means, known=known)
        except BadInput as error:
            yield Broken(rule="resolution", message=error.found)
        except LookupIncomplete as error:
            yield Broken(rule="resolution", message=error.found, known=False)


def _newly_broken(before: Variant, changed: Variant) -> Iterator[Broken]:
    """Yield the rules that a change breaks."""
    known = {(finding.rule, finding.message) for finding in before.findings}
    for one in changed.findings:
        if one.state == "broken" and (one.rule, one.message) not in known:
            yield Broken(rule=one.rule, message=one.message, wanted=one.wanted)


def _told(one: explain.Contradiction) -> str:
    """Return a contradiction in one line: what is fixed, and who asks for what."""
    asks = dict.fromkeys(map(str, (*one.against, *one.along)))
    # Which stack's pin it is, is said beside it.
    fixed = re.sub(r" \(versions\.toml stack\..*\)$", "", one.fixed)
    return "; ".join(filter(None, [fixed, *asks]))


def _settings(one: Subject, version: str) -> tuple[str, ...]:
    """Return a newer version as `--set` takes it; torch moves with what is built against it."""
    if one.kind == "source":
        return (f"sources.{one.name}.ref={version}",)
    if one.kind == "cann":
        return (f"{'base_cann' if one.variants[0].overlay else 'cann'}={version}",)
    name = canonicalize_name(one.name)
    packages = one.variants[0].packages
    trio = {str(canonicalize_name(other)): other for other in packages if canonicalize_name(other) in TORCH_TRIO}
    if name not in trio:
        return (f"packages.{one.name}={version}",)
    row = compat().torch.get(base_version(version)) if name == TORCH_TRIO[0] else None
    moved = {TORCH_TRIO[1]: row.torchvision, TORCH_TRIO[2]: row.torchaudio} if row else {}
    wanted = {**{other: moved.get(other, "") or packages[own] for other, own in trio.items()}, str(name): version}
    return tuple(f"packages.{trio[other]}={value}" for other, value in wanted.items())
