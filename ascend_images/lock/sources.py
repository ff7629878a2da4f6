"""What each source asks for: its declared files at the pinned commit, or in a local checkout, none of it run."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Protocol

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ascend_images.errors import BadInput, LookupIncomplete, unknown
from ascend_images.files import read_regular
from ascend_images.lock.demands import Demand, Kind, parse_requirement
from ascend_images.lock.git import GitClient
from ascend_images.lock.kept import keep
from ascend_images.lock.reach import UnreachableError, listed
from ascend_images.lock.requirement_files import project_name, pyproject_file, requirement_file
from ascend_images.lock.way import Way
from ascend_images.pins.model import Mirror
from ascend_images.pins.questions import is_commit
from ascend_images.pins.variant import Checkout, Variant


class UnreadSourcesError(LookupIncomplete):
    """What these sources ask for could not be read; `names` are all of them."""

    def __init__(self, found: str, names: Sequence[str]) -> None:
        super().__init__(found, wanted="the files that say what these sources need", do=from_checkouts(names))
        self.names = tuple(names)


def from_checkouts(names: Iterable[str]) -> str:
    """Return what to type where sources cannot be read: whichever command it was, with checkouts of them."""
    folders = " ".join(f"--source {name}=DIR" for name in names)
    return f"the same again with checkouts on this machine: {folders}"


class Files(Protocol):
    """The files of one source."""

    def read(self, path: str) -> str:
        """Return a file's text; raises BadInput where there is none, LookupIncomplete where it cannot be asked."""


@dataclass(frozen=True)
class LocalCheckout:
    """A checkout on this machine, its working tree as it is."""

    source: str
    folder: Path

    def read(self, path: str) -> str:
        """Return a file's text; raises BadInput where there is none."""
        try:
            if not (self.folder / path).resolve().is_relative_to(self.folder.resolve()):
                raise _no_file(self.source, path, str(self.folder))
            return read_regular(self.folder / path).decode()
        except (OSError, ValueError):
            raise _no_file(self.source, path, str(self.folder)) from None


@dataclass(frozen=True)
class RemoteCommit:
    """One commit in a repository elsewhere; of its content only the files that are read are fetched.

    `instead_of` replaces beginnings of addresses (a mirror). Files of a full commit are kept in `cache` for ever; when
    `offline` there are no others.
    """

    source: str
    git: str
    revision: str
    cache: Path
    instead_of: Mapping[str, str] = field(default_factory=dict)
    offline: bool = False

    def read(self, path: str) -> str:
        """Return a file's text; raises BadInput where there is none, LookupIncomplete where it cannot be fetched."""
        kept = self._kept(path)
        if kept.is_file():
            return kept.read_text(encoding="utf-8")
        if self.offline:
            raise self._incomplete("it was never fetched, and nothing is asked now (--offline)")
        try:
            text = GitClient(self.cache, self.instead_of).file(self.git, self.revision, path)
        except UnreachableError as error:
            raise self._incomplete(str(error)) from None
        if text is None:
            raise _no_file(self.source, path, f"{self.git} at {self.revision}")
        if is_commit(self.revision):
            keep(kept, text)
        return text

    def _kept(self, path: str) -> Path:
        key = hashlib.sha256(f"{self.git}|{self.revision}|{path}".encode()).hexdigest()[:32]
        return self.cache / "files" / key

    def _incomplete(self, why: str) -> LookupIncomplete:
        place = Way(mirror=Mirror(git=dict(self.instead_of))).told(self.git)
        # Whoever asked it said of what already.
        why = why.removeprefix(f"{self.git}: ")
        return UnreadSourcesError(f"{self.source}: {place} at {self.revision} could not be read: {why}", [self.source])


def _no_file(source: str, path: str, place: str) -> BadInput:
    return BadInput(
        f"{source}: {place} has no file {path}",
        wanted=f"the files that `requirements` of sources.{source} names",
        do="mend `requirements` or `ref` of that source",
    )


def local_checkouts(variant: Variant, folders: Mapping[str, Path]) -> dict[str, LocalCheckout]:
    """Return the checkouts that `--source name=DIR` named; raises BadInput for one that is not that project's."""
    known = {source.name: source for source in variant.sources}
    for name in folders:
        if name not in known:
            raise unknown("source", name, known, where=f"variant {variant.name}")
    return {name: _checked(known[name], folder) for name, folder in folders.items()}


def _checked(source: Checkout, folder: Path) -> LocalCheckout:
    wanted = f"a git checkout of {source.git}"
    if not folder.is_dir():
        raise BadInput(f"--source {source.name}={folder}: no such directory", wanted=wanted)
    if not (folder / ".git").exists():
        raise BadInput(f"--source {source.name}={folder}: not a git checkout", wanted=wanted)
    checkout = LocalCheckout(source.name, folder)
    pyproject = folder / "pyproject.toml"
    named = project_name(checkout.read("pyproject.toml")) if pyproject.is_file() else ""
    if named and named == canonicalize_name(source.distribution or source.name):
        return checkout
    if not _has_module(source.module, folder):
        of = f', it is of "{named}"' if named else f": it has no {source.module.replace('.', '/')}"
        raise BadInput(f"--source {source.name}={folder}: a checkout of another project{of}", wanted=wanted)
    return checkout


def _has_module(module: str, folder: Path) -> bool:
    inside = PurePosixPath(*module.split("."))
    return any((folder / root / inside).is_dir() or (folder / root / f"{inside}.py").is_file() for root in ("", "src"))


def read_demands(
    variant: Variant,
    folders: Mapping[str, Path],
    cache: Path,
    instead_of: Mapping[str, str],
    *,
    offline: bool = False,
) -> dict[str, tuple[Demand, ...]]:
    """Return what each source of the variant asks for, by source name, in the order of the sources.

    Raises BadInput for files that cannot be meant and one UnreadSourcesError for all that could not be fetched.
    """
    local = local_checkouts(variant, folders)
    found: dict[str, tuple[Demand, ...]] = {}
    lost: dict[str, str] = {}
    for source in variant.sources:
        files: Files = local.get(source.name) or RemoteCommit(
            source.name, source.git, source.revision, cache, instead_of, offline
        )
        try:
            found[source.name] = source_demands(source, files)
        except LookupIncomplete as error:
            lost[source.name] = error.found
    if lost:
        raise _unread(variant, lost)
    return found


def require_commits(
    variant: Variant,
    folders: Mapping[str, Path],
    cache: Path,
    instead_of: Mapping[str, str],
    *,
    offline: bool = False,
) -> None:
    """Raise UnreadSourcesError where files are to be read at a commit that is not known.

    What a ref says at the moment is not taken for what it means. The error is about all sources that cannot be read,
    so that whoever has checkouts can name them at once.
    """
    bare = [one for one in variant.sources if one.requirements and not one.commit and one.name not in folders]
    lost = {one.name: f"{one.name}: which commit of {one.git} is {one.ref} is not known" for one in bare}
    if not lost:
        return
    for source in variant.sources:
        if source.name not in lost and source.name not in folders:
            files = RemoteCommit(source.name, source.git, source.revision, cache, instead_of, offline)
            try:
                source_demands(source, files)
            except (BadInput, LookupIncomplete) as error:
                lost[source.name] = error.found
    raise _unread(variant, {one.name: lost[one.name] for one in variant.sources if one.name in lost})


def _unread(variant: Variant, lost: Mapping[str, str]) -> UnreadSourcesError:
    """Return the error for sources that could not be read, by their names; each text says why."""
    told = "\n".join(f"  {why}" for why in lost.values())
    return UnreadSourcesError(f"{variant.name}: {listed(list(lost))} could not be read:\n{told}", list(lost))


def source_demands(source: Checkout, files: Files) -> tuple[Demand, ...]:
    """Return what one source asks for to run and, where it is built, to be built."""
    built = source.install == "editable"
    demands: list[Demand] = []
    for path in source.requirements:
        if PurePosixPath(path).name == "pyproject.toml":
            demands += pyproject_file(source.name, path, files.read, built=built)
        else:
            demands += requirement_file(source.name, path, files.read)
    demands += _written(source.name, "declares", source.declares, Kind.RUN)
    if built:
        demands += _written(source.name, "build_requires", source.build_requires, Kind.BUILD)
        if not any(demand.kind is Kind.BUILD for demand in demands):
            demands.append(Demand(source.name, Requirement("setuptools"), "its setup.py", Kind.BUILD))
    return tuple(demands)


def _written(name: str, key: str, lines: Sequence[str], kind: Kind) -> list[Demand]:
    where = f"versions.toml sources.{name}.{key}"
    return [Demand(name, parse_requirement(line, where), where, kind) for line in lines]
