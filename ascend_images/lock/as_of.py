"""Packages as they were on a day: what is asked for in one exact version that was published only later."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from packaging.specifiers import Specifier

from ascend_images.errors import BadInput
from ascend_images.lock.components import active, asked_extras
from ascend_images.lock.demands import is_exact
from ascend_images.lock.means import Means
from ascend_images.lock.patience import in_parallel
from ascend_images.lock.release import IndexUnreachableError, Release
from ascend_images.lock.solve import Look


@dataclass(frozen=True)
class _Exact:
    """A package that is asked for in one version, by a pin or by `whose`."""

    name: str
    version: str
    whose: str = ""

    def told(self, when: str) -> str:
        return f"{self.name} {self.version} ({'; '.join(filter(None, [when, self.whose]))})"


def younger(looks: Sequence[Look], means: Means) -> tuple[BadInput, ...]:
    """Return what is wrong with pins on the day of `means`: all at once those that came later, and those of no date.

    Files count as the resolver counts them: one by one, those without a date not at all, and those of indexes that are
    named for their packages always.
    """
    if means.as_of is None:
        return ()
    late: dict[_Exact, date] = {}
    undated: dict[_Exact, None] = {}
    for seen in looks:
        for one, release in _releases(seen, means):
            days = [file.published for file in release.usable(seen.asked.target)]
            known = [day for day in days if day is not None]
            if not known:
                undated[one] = None
            elif min(known) > means.as_of:
                late[one] = max(min(known), late.get(one, min(known)))
    return (*_late(late, means.as_of), *_undated(undated, means.as_of))


def _releases(seen: Look, means: Means) -> Iterator[tuple[_Exact, Release]]:
    """Yield what is pinned exactly, or asked for so, with its files on the default index."""
    bound = seen.lookups.bound
    for name, known in seen.pinned.items():
        if known.release is not None and name not in bound:
            yield _Exact(name, known.version), known.release
    asked = [one for one in _demanded(seen) if one.name not in bound]
    found = in_parallel(lambda one: means.packages.release(one.name, one.version), asked)
    for one in asked:
        release = found[one]
        # Whatever gives no answer is told by the resolver.
        if release is not None and not isinstance(release, IndexUnreachableError):
            yield one, release


def _demanded(seen: Look) -> tuple[_Exact, ...]:
    """Return what sources and pinned packages ask for in one version, of packages that no pin decides on."""
    asked = seen.asked
    everyone = (*asked.sources, *seen.components)
    extras = asked_extras(everyone, asked.target)
    found: dict[_Exact, None] = {}
    for one in everyone:
        for entry in active(one, asked.target, extras.get(one.key, ())):
            name = entry.demand.name
            decided = name in asked.pins or name in asked.given or asked.excluded(name) is not None
            if entry.left is not None and is_exact(entry.left) and not decided:
                found[_Exact(name, _version(entry.left.specifier), f"{one.label} asks for it")] = None
    return tuple(found)


def _version(clauses: Iterable[Specifier]) -> str:
    return next(one.version for one in clauses if one.operator in ("==", "===") and not one.version.endswith(".*"))


def _late(found: Mapping[_Exact, date], day: date) -> Iterator[BadInput]:
    if found:
        youngest = max(found.values())
        told = ", ".join(one.told(str(when)) for one, when in found.items())
        yield BadInput(
            f"pins younger than {day}: {told}",
            wanted=f"--as-of {youngest} or later, or older pins",
            do=f"the same again with --as-of {youngest}",
        )


def _undated(found: Iterable[_Exact], day: date) -> Iterator[BadInput]:
    if found:
        told = ", ".join(one.told("") if one.whose else f"{one.name} {one.version}" for one in found)
        yield BadInput(
            f"the index does not say when these were published, so nothing is known of {day}: {told}",
            wanted="an index that says it (PEP 700), as the default one does",
            do="the same again without --as-of, or without the mirror",
        )
