"""What variants ask of versions.lock, and whether it answers: all of it pure."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant
from ascend_images.pins.versions_lock import FILE, VersionsLock

State = Literal["moved", "missing", "differs"]
About = Literal["ref", "base image", "run package"]

_COMMIT = re.compile(r"[0-9a-f]{40}")


def is_commit(ref: str) -> bool:
    """Whether a ref is a commit, in full."""
    return _COMMIT.fullmatch(ref) is not None


@dataclass(frozen=True, kw_only=True)
class AskedRef:
    """A ref that variants ask for, by these pins."""

    repository: str
    ref: str
    pins: tuple[str, ...]
    variants: tuple[str, ...]
    submodules: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """What its entry is found by."""
        return self.repository, self.ref


@dataclass(frozen=True, kw_only=True)
class AskedBase:
    """A base image that variants ask for, on these platforms."""

    image: str
    platforms: tuple[Arch, ...]
    variants: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str]:
        """What its entry is found by."""
        return self.image, ""


@dataclass(frozen=True, kw_only=True)
class AskedRun:
    """A .run package that variants ask for; `sha256` is what versions.toml itself says of it."""

    url: str
    pin: str
    variants: tuple[str, ...]
    sha256: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What its entry is found by."""
        return self.url, ""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Everything that variants ask of a lock, each thing once, in order."""

    refs: tuple[AskedRef, ...]
    bases: tuple[AskedBase, ...]
    runs: tuple[AskedRun, ...]


def asked(variants: Iterable[Variant]) -> Asked:
    """Return what the variants ask of a lock."""
    refs: dict[tuple[str, str], AskedRef] = {}
    bases: dict[str, AskedBase] = {}
    runs: dict[str, AskedRun] = {}
    for variant in variants:
        own = (variant.name,)
        for source in variant.sources:
            one = AskedRef(
                repository=source.git,
                ref=source.ref,
                pins=(f"sources.{source.name}",),
                variants=own,
                submodules=source.submodules,
            )
            refs[one.key] = _joined(refs[one.key], one) if one.key in refs else one
        known = bases.get(variant.base_image)
        bases[variant.base_image] = AskedBase(
            image=variant.base_image,
            platforms=tuple(sorted({*(known.platforms if known else ()), *variant.platforms})),
            variants=(*(known.variants if known else ()), *own),
        )
        for run in variant.runs:
            pin = f'cann."{variant.cann}".run.{run.part}'
            before = runs[run.url].variants if run.url in runs else ()
            runs[run.url] = AskedRun(url=run.url, pin=pin, variants=_once(before + own), sha256=run.sha256)
    return Asked(
        refs=tuple(refs[key] for key in sorted(refs)),
        bases=tuple(bases[key] for key in sorted(bases)),
        runs=tuple(runs[key] for key in sorted(runs)),
    )


def _joined(one: AskedRef, other: AskedRef) -> AskedRef:
    return AskedRef(
        repository=one.repository,
        ref=one.ref,
        pins=_once(one.pins + other.pins),
        variants=_once(one.variants + other.variants),
        submodules=one.submodules or other.submodules,
    )


def _once(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


@dataclass(frozen=True, kw_only=True)
class Unanswered:
    """A pin that the lock does not answer: it moved, or nothing was ever learned, or the two say different things.

    `found` is the pin and what is the matter with it, `wanted` what would be right, `do` the command to type next.
    """

    about: About
    state: State
    variants: tuple[str, ...]
    found: str
    wanted: str
    do: str

    def __str__(self) -> str:
        return f"{', '.join(self.variants)}: {self.found}"


def check(lock: VersionsLock, variants: Sequence[Variant], others: Sequence[Variant] = ()) -> tuple[Unanswered, ...]:
    """Return each pin of the variants that the lock does not answer, each once; nothing where it answers all.

    What `others` ask for stands in the lock for them: no pin of `variants` is said to have moved from it.
    """
    pins = asked(variants)
    needed = {one.key for one in asked((*variants, *others)).refs}
    return (
        *(finding for one in pins.refs for finding in _check_ref(lock, one, needed)),
        *(finding for one in pins.bases for finding in _check_base(lock, one)),
        *(finding for one in pins.runs for finding in _check_run(lock, one)),
    )


def _finding(
    one: AskedRef | AskedBase | AskedRun,
    state: State,
    found: str,
    wanted: str,
    update: str = "",
) -> Unanswered:
    about: About = "ref" if isinstance(one, AskedRef) else "base image" if isinstance(one, AskedBase) else "run package"
    do = f"invoke lock --variant {one.variants[0]}{update}"
    return Unanswered(about=about, state=state, variants=one.variants, found=found, wanted=wanted, do=do)


def _check_ref(lock: VersionsLock, one: AskedRef, needed: Collection[tuple[str, str]]) -> Iterable[Unanswered]:
    """Of a commit in full a lock has nothing to say but what its submodules are: it means itself, on any day."""
    pin = " and ".join(one.pins)
    wanted = f"the commit of {one.ref} in {FILE}"
    entry = lock.ref(one.repository, one.ref)
    if entry is None and not is_commit(one.ref):
        before = [old.ref for old in lock.git if old.repository == one.repository and old.key not in needed]
        said = f"locked {' and '.join(before)}" if before else "not locked"
        yield _finding(one, "moved" if before else "missing", f"{pin}.ref is {one.ref}, {said}", wanted)
    elif entry is not None and is_commit(one.ref) and entry.commit != one.ref:
        yield _finding(one, "differs", f"{pin}.ref is the commit {one.ref}, locked {entry.commit}", wanted)
    elif one.submodules and (entry is None or entry.submodules is None):
        yield _finding(
            one,
            "missing",
            f"{pin}.ref is {one.ref}, whose submodules are not locked",
            f"the commits of its submodules in {FILE}",
        )


def _check_base(lock: VersionsLock, one: AskedBase) -> Iterable[Unanswered]:
    entry = lock.base_image(one.image)
    if entry is None:
        # The same chip, system and Python on another CANN release is what this pin moved from.
        place, _, tag = one.image.rpartition(":")
        rest = tag.partition("-")[2]
        before = [
            old.image for old in lock.base if old.image.startswith(f"{place}:") and old.image.endswith(f"-{rest}")
        ]
        said = f"locked {' and '.join(image.rpartition(':')[2] for image in before)}" if before else "not locked"
        state: State = "moved" if before else "missing"
        yield _finding(one, state, f"the base image is {one.image}, {said}", f"its digests in {FILE}")
        return
    lacking = [arch.platform for arch in one.platforms if arch.platform not in entry.platforms]
    if lacking:
        yield _finding(
            one,
            "differs",
            f"the base image {one.image} is locked for {' and '.join(sorted(entry.platforms))}, "
            f"not for {' and '.join(lacking)}",
            f"an image for {' and '.join(lacking)}, or `platforms` without it",
            " --update base",
        )


def _check_run(lock: VersionsLock, one: AskedRun) -> Iterable[Unanswered]:
    entry = lock.run_file(one.url)
    file = one.url.rsplit("/", 1)[-1]
    if entry is None and one.sha256:
        return
    if entry is None:
        before = [old.url for old in lock.run if old.url.rsplit("/", 1)[-1] == file]
        said = f"locked {before[0]}" if before else "not locked"
        yield _finding(
            one, "moved" if before else "missing", f"{one.pin} is {one.url}, {said}", f"its checksum in {FILE}"
        )
    elif one.sha256 and one.sha256 != entry.sha256:
        yield _finding(
            one,
            "differs",
            f"{one.pin}: sha256 of {file} is {one.sha256[:12]}…, locked {entry.sha256[:12]}…",
            "the same checksum in versions.toml and in the lock",
        )


def answered(variant: Variant, lock: VersionsLock) -> Variant:
    """Return the variant with what the lock says of its refs, base image and .run packages.

    Whatever was said of them before by another lock is dropped.
    """
    sources = []
    for source in variant.sources:
        entry = lock.ref(source.git, source.ref)
        known = source.ref if is_commit(source.ref) else entry.commit if entry else ""
        sources.append(msgspec.structs.replace(source, commit=known))
    runs = []
    for run in variant.runs:
        file = lock.run_file(run.url)
        runs.append(msgspec.structs.replace(run, locked=file.sha256 if file else ""))
    base = lock.base_image(variant.base_image)
    return msgspec.structs.replace(
        variant, sources=tuple(sources), runs=tuple(runs), base_digest=base.digest if base else ""
    )


def pruned(lock: VersionsLock, variants: Iterable[Variant]) -> VersionsLock:
    """Return the lock without what none of the variants asks for."""
    pins = asked(variants)
    refs, images, urls = ({one.key for one in table} for table in (pins.refs, pins.bases, pins.runs))
    return msgspec.structs.replace(
        lock,
        git=tuple(entry for entry in lock.git if entry.key in refs),
        base=tuple(entry for entry in lock.base if entry.key in images),
        run=tuple(entry for entry in lock.run if entry.key in urls),
    )
