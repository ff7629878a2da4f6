"""How the locks of a selection stand to its pins, from the files alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ascend_images.errors import BadInput, CheckFailed
from ascend_images.pins.lockfile import LockFile, file_name, foreign, moved_pins
from ascend_images.pins.platform import Arch
from ascend_images.selection import Selection


@dataclass(frozen=True)
class Standing:
    """How the locks of so many variants stand to the pins: what no longer answers them, and what was never learned."""

    variants: int
    stale: tuple[BadInput, ...]
    missing: tuple[str, ...]

    def told(self) -> str:
        """Return what is to be said where no lock is stale."""
        lacking = f", but for what is not locked ({len(self.missing)} things, see above)" if self.missing else ""
        many = "" if self.variants == 1 else "s"
        return f"the locks of {self.variants} variant{many} answer their pins{lacking}"

    def require(self) -> None:
        """Raise CheckFailed that names each pin that moved, if any did."""
        if self.stale:
            raise CheckFailed(
                "\n".join(error.found for error in self.stale),
                wanted="; ".join(dict.fromkeys(error.wanted for error in self.stale)),
                do="\n          ".join(dict.fromkeys(error.do for error in self.stale)),
            )


def standing(selection: Selection, arches: Sequence[Arch] = ()) -> Standing:
    """Return how the locks of the chosen variants stand to their pins, from the files alone."""
    stale, missing = [], []
    for one in selection.unanswered():
        if one.state == "missing":
            missing.append(str(one))
        else:
            stale.append(BadInput(str(one), wanted=one.wanted, do=one.do))
    there: dict[str, LockFile] = {}
    for variant in selection.variants:
        for arch in arches or variant.platforms:
            path = selection.locks / file_name(variant.name, arch)
            shown = str(path.relative_to(selection.root))
            do = f"invoke lock --variant {variant.name}"
            if not path.exists():
                stale.append(BadInput(f"{variant.name}: {shown} is not there", wanted="a lock of these pins", do=do))
                continue
            try:
                lock = LockFile.load(path)
            except BadInput as error:
                stale.append(error)
                continue
            other = foreign(lock, shown, variant.name, arch)
            if other:
                stale.append(BadInput(other, wanted="a lock of its own", do=do))
                continue
            there[shown] = lock
            moved = moved_pins(lock, variant)
            if moved:
                found = f"{variant.name}: {shown} was made from other pins: {'; '.join(moved)}"
                stale.append(BadInput(found, wanted="a lock of these pins", do=do))
    return Standing(len(selection.variants), tuple(stale), (*missing, *_lacking(there)))


def _lacking(locks: dict[str, LockFile]) -> Iterator[str]:
    """Yield what the locks themselves say that they were not made from, or do not have."""
    elsewhere: dict[str, list[str]] = {}
    for shown, lock in locks.items():
        for note in lock.elsewhere:
            elsewhere.setdefault(note, []).append(shown)
    for note, files in elsewhere.items():
        yield f"what a source asks for at its pin: {note} ({', '.join(files)})"
    bare = [f"{shown} ({len(lock.incomplete)})" for shown, lock in locks.items() if lock.incomplete]
    if bare:
        yield f"packages without hashes: {', '.join(bare)}"
