"""What `invoke lock` does: several variants, `--source name=DIR` for those that have that source, files written."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ascend_images.errors import AscendImagesError, BadInput, unknown
from ascend_images.lock.lock import known_locks, lock_variant, write_locks
from ascend_images.lock.means import Means, silent
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant


def parse_sources(options: Sequence[str], variants: Sequence[Variant]) -> dict[str, Path]:
    """Return the folders that `name=DIR` options name; raises BadInput for a name that no variant has."""
    known = {source.name: source.name for variant in variants for source in variant.sources}
    # Typed as people type: "ms-swift", "megatron-lm".
    folded = {name.casefold(): name for name in known}
    folders: dict[str, Path] = {}
    for option in options:
        name, equals, folder = option.partition("=")
        if not equals or not name or not folder:
            raise BadInput(f'--source "{option}"', wanted="name=DIR, a source and a checkout of it on this machine")
        own = folded.get(name.casefold())
        if own is None:
            raise unknown("source", name, known, where="--source")
        if own in folders:
            raise BadInput(f"--source {own} is given twice", wanted="one folder a source")
        folders[own] = Path(folder).expanduser()
    return folders


def lock_variants(
    variants: Sequence[Variant],
    folder: Path,
    sources: Mapping[str, Path],
    means: Means,
    *,
    arches: Sequence[Arch] = (),
    told: Callable[[str], None] = silent,
) -> tuple[Path, ...]:
    """Lock variants one after the other into `folder` and return the files; all their architectures by default.

    One that fails does not stop the others. Raises its error then, or one that tells all, of the first one's class.
    """
    written: list[Path] = []
    failed: list[AscendImagesError] = []
    for variant in variants:
        own = {name: path for name, path in sources.items() if name in {source.name for source in variant.sources}}
        wanted = [arch for arch in variant.platforms if not arches or arch in arches]
        try:
            locks = lock_variant(variant, wanted, own, means, known=known_locks(variant, folder))
        except AscendImagesError as error:
            failed.append(error)
            continue
        paths = write_locks(locks, folder)
        written += paths
        for path, lock in zip(paths, locks.values(), strict=True):
            told(
                f"{path}: {len(lock.packages)} packages" + ("" if lock.complete else f", {_gaps(len(lock.incomplete))}")
            )
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise type(failed[0])("\n".join(str(error) for error in failed))
    return tuple(written)


def _gaps(count: int) -> str:
    return f"incomplete: {count} of them without a hash"
