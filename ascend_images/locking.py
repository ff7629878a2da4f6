"""Locks the variants of a selection, one after the other, and says what is not known of each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ascend_images.errors import unknown
from ascend_images.lock.lock import known_locks, lock_variant, write_locks
from ascend_images.lock.means import usual_means
from ascend_images.pins.lockfile import LockFile
from ascend_images.pins.model import Mirror
from ascend_images.pins.platform import Arch
from ascend_images.selection import Selection


def lock(
    selection: Selection,
    arches: Sequence[Arch],
    sources: Mapping[str, Path],
    *,
    mirror: str = "",
    say: Callable[[str], None],
) -> Iterator[str]:
    """Write the locks of every selected variant, and yield what to tell of each; raises what `lock_variant` raises."""
    mirrors = selection.pins.mirror
    if mirror and mirror not in mirrors:
        raise unknown("mirror", mirror, mirrors, where="--mirror")
    names = {source.name.lower(): source.name for variant in selection.variants for source in variant.sources}
    for name in sources:
        if name.lower() not in names:
            raise unknown("source", name, names.values(), where="--source")
    means = usual_means(mirrors[mirror] if mirror else Mirror(), say)
    for variant in selection.variants:
        own = {source.name for source in variant.sources}
        given = {names[name.lower()]: folder for name, folder in sources.items() if names[name.lower()] in own}
        known = known_locks(variant, selection.locks)
        locks = lock_variant(variant, arches or variant.platforms, given, means, known=known)
        for path, made in zip(write_locks(locks, selection.locks), locks.values(), strict=True):
            yield _told(path.relative_to(selection.root), made)


def _told(path: Path, lock: LockFile) -> str:
    lines = [f"{path}: {len(lock.packages)} packages, {len(lock.conflicts)} demands lifted"]
    lines += [f"  incomplete: {gap}" for gap in lock.incomplete]
    return "\n".join(lines)
