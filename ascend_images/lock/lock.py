"""From a variant to its package locks: ask the sources, look at the pins, resolve, write."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ascend_images.errors import BadInput
from ascend_images.files import write_atomic
from ascend_images.lock import explain
from ascend_images.lock.as_of import younger
from ascend_images.lock.components import asked
from ascend_images.lock.differences import differences
from ascend_images.lock.distributions import Distribution
from ascend_images.lock.elsewhere import read_elsewhere
from ascend_images.lock.means import Means, usual_means
from ascend_images.lock.solve import Look, Solved, look, solve
from ascend_images.lock.sources import read_demands
from ascend_images.pins.lockfile import LockedPackage, LockFile, file_name, input_parts, inputs_hash, is_current
from ascend_images.pins.model import Relax
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant


def lock_variant(
    variant: Variant,
    arches: Sequence[Arch],
    sources: Mapping[str, Path],
    means: Means | None = None,
    *,
    known: Mapping[Arch, LockFile] | None = None,
    kept: Mapping[Arch, Mapping[str, str]] | None = None,
) -> dict[Arch, LockFile]:
    """Return the package locks of `variant` for `arches`, the versions of the later ones held to those of the first.

    `sources` names checkouts on this machine by source; the files of the others are fetched at their commits. Each
    lock is made from nothing but what `kept` has for its architecture: versions that are taken where they still fit.
    `known` may hold locks that there are (any, for it is quicker to know what has to be built), and the one of an
    architecture that is not asked for now counts as the first while it is current.

    Raises BadInput for contradictions, pins that no index has and relaxations that lift nothing, all that was found in
    one error, and LookupIncomplete where what has to be known could not be asked.
    """
    means = means or usual_means()
    demands = read_demands(variant, sources, means.cache, means.mirror.git, offline=means.offline)
    elsewhere = read_elsewhere(variant, sources)
    for one in elsewhere:
        means.say(str(one))
    looks = [look(asked(variant, arch, demands, means.places), means) for arch in _in_order(arches)]
    _refuse(variant, looks, younger(looks, means))
    current = {a: lock for a, lock in (known or {}).items() if a not in arches and is_current(lock, variant)}
    held = next((lock.versions for lock in current.values()), {})
    near: dict[str, Distribution] = {}
    solved: dict[Arch, Solved] = {}
    for seen in looks:
        arch = seen.asked.target.arch
        near |= seen.lookups.sdists(known[arch]) if known and arch in known else {}
        solved[arch] = solve(seen, means, held, near, (kept or {}).get(arch, {}))
        near |= solved[arch].distributions
        held = held or solved[arch].versions
    _say_needless(variant, tuple(solved.values()), means.say)
    _say_unread(variant, tuple(solved.values()), means.say)
    _say_yanked(variant, tuple(solved.values()), means.say)
    versions = {arch: lock.versions for arch, lock in current.items()}
    versions |= {arch: one.versions for arch, one in solved.items()}
    notes = tuple(one.note for one in elsewhere)
    return {arch: _lock(variant, arch, solved[arch], versions, (known or {}).get(arch), notes) for arch in arches}


def write_locks(locks: Mapping[Arch, LockFile], folder: Path) -> tuple[Path, ...]:
    """Write locks into `folder`, each whole or not at all, and return their paths."""
    written = []
    for arch, lock in locks.items():
        path = folder / file_name(lock.variant, arch)
        write_atomic(path, str(lock))
        written.append(path)
    return tuple(written)


def known_locks(variant: Variant, folder: Path) -> dict[Arch, LockFile]:
    """Return the locks of the variant that lie in `folder`; what cannot be read counts as not there."""
    found = {}
    for arch in variant.platforms:
        try:
            found[arch] = LockFile.load(folder / file_name(variant.name, arch))
        except BadInput:
            continue
    return found


def _in_order(arches: Sequence[Arch]) -> list[Arch]:
    """Return the architectures, that with the fewest packages first: what there is for ARM there is for x86_64 too."""
    return sorted(arches, key=lambda arch: arch is not Arch.ARM64)


def _refuse(variant: Variant, looks: Sequence[Look], more: Sequence[BadInput]) -> None:
    """Raise one error for all that shows on any architecture, each thing once."""
    idle: dict[Relax, list[BadInput]] = {}
    for seen in looks:
        for relax, error in seen.idle:
            idle.setdefault(relax, []).append(error)
    # A demand may be there on one architecture alone.
    problems = [errors[0] for errors in idle.values() if len(errors) == len(looks)]
    problems += [*(problem for seen in looks for problem in seen.problems), *more]
    told = explain.together(one for seen in looks for one in seen.contradictions)
    explain.refuse(variant.name, variant.stack, told, *{str(problem): problem for problem in problems}.values())


def _lock(
    variant: Variant,
    arch: Arch,
    solved: Solved,
    versions: Mapping[Arch, Mapping[str, str]],
    old: LockFile | None,
    elsewhere: tuple[str, ...],
) -> LockFile:
    others = [other for other in versions if other is not arch]
    found = solved.distributions
    # What an index said of a version once holds while it cannot be asked.
    known = {(one.name, one.version): one.hashes for one in old.packages if one.hashes} if old else {}
    hashes = {name: solved.hashes.get(name) or known.get((name, one.version), ()) for name, one in found.items()}
    return LockFile(
        variant=variant.name,
        arch=arch,
        python=variant.python,
        inputs=inputs_hash(variant, arch),
        parts=input_parts(variant, arch),
        elsewhere=elsewhere,
        incomplete=tuple(
            f"{name}=={one.version}: {one.unreached}"
            for name, one in found.items()
            if one.unreached and not hashes[name]
        ),
        differs=tuple(line for other in others for line in differences(solved, versions[other], other)),
        sdists=tuple(name for name, one in found.items() if one.sdist),
        conflicts=solved.verdict.conflicts,
        packages=tuple(LockedPackage(name, one.version, hashes[name]) for name, one in found.items()),
    )


def _say_needless(variant: Variant, solved: Sequence[Solved], say: Callable[[str], None]) -> None:
    """Tell of relaxations of demands that the set meets anyway: no fault, but they could go."""
    used = {relax for one in solved for relax in one.verdict.used}
    for relax in variant.relax:
        if relax not in used:
            say(
                f'{variant.name}: the relaxation of {relax.whose}, demand "{relax.demand}", is not needed: '
                "the set meets that demand"
            )


def _say_unread(variant: Variant, solved: Sequence[Solved], say: Callable[[str], None]) -> None:
    """Tell of sdists whose demands only their setup.py computes: the resolver ran it, the check could not read them."""
    names = {name for one in solved for name, known in one.distributions.items() if known.sdist and not known.certain}
    for name in sorted(names):
        say(f"{variant.name}: what {name} asks for is computed by its setup.py: not checked against the set")


def _say_yanked(variant: Variant, solved: Sequence[Solved], say: Callable[[str], None]) -> None:
    """Tell of releases that their publishers took back: what is pinned exactly is taken all the same."""
    every = [known for one in solved for known in one.distributions.values()]
    for name, version in sorted({(one.name, one.version) for one in every if one.release and one.release.yanked}):
        say(f"{variant.name}: {name} {version} was taken back by its publisher (yanked): pin another version")
