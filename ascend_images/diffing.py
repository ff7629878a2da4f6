"""Two states of the project compared: git revisions, the working tree, or two variants of it."""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ascend_images.errors import AscendImagesError, BadInput, MissingTool, nearest
from ascend_images.files import read_regular
from ascend_images.images.rendered import dockerfile_path
from ascend_images.pins.differences import Change, Shared, package_changes, pin_changes, shared
from ascend_images.pins.edit import Edit, edited
from ascend_images.pins.load import parse
from ascend_images.pins.lockfile import LockFile, file_name
from ascend_images.pins.model import Pins, PinsFile
from ascend_images.pins.platform import Arch
from ascend_images.pins.resolve import resolve_all, variant_name
from ascend_images.pins.table import Table
from ascend_images.pins.validate import faults
from ascend_images.pins.variant import Variant
from ascend_images.pins.versions_lock import FILE, VersionsLock
from ascend_images.project_git import complaint, git, require_repository
from ascend_images.selection import PINS_FILE
from ascend_images.toml_text import NotTomlError, read_toml

WORKING_TREE = "the working tree"
LOCKS = Path("locks")


@dataclass(frozen=True)
class State:
    """The project's files at one time: `read` returns one by its path below the root, None where it is not there."""

    name: str
    read: Callable[[Path], str | None]


class DockerfileChange(Table, frozen=True, kw_only=True):
    """What differs between two rendered Dockerfiles, as a unified difference; `among` are the variants it is for."""

    among: tuple[str, ...]
    lines: tuple[str, ...]


class Difference(Table, frozen=True, kw_only=True):
    """What differs between two states: pins, then packages, then Dockerfiles, each change with whom it is for.

    `added` and `removed` are variants that only one of them has; `notes` say what could not be compared.
    """

    before: str
    after: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    pins: tuple[Shared, ...] = ()
    packages: tuple[Shared, ...] = ()
    dockerfiles: tuple[DockerfileChange, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def anything(self) -> bool:
        """Whether anything differs."""
        return bool(self.added or self.removed or self.pins or self.packages or self.dockerfiles)


def compare(root: Path, before: str, after: str = "", names: Sequence[str] = ()) -> Difference:
    """Return what differs from `before` to `after`: two variants, or two git revisions.

    Without `after` the working tree is compared with a revision. `names` are the variants that are looked at, all
    where none is named. Raises BadInput for what is neither a revision nor a variant and for a state that cannot be
    read, MissingTool without git and where it refuses.
    """
    if not before:
        raise BadInput(
            "nothing to compare with", wanted="a git revision or a variant", do="invoke diff --from HEAD, or --from a2"
        )
    here = working_tree(root)
    pins = _pins(here)
    variants = [_is_variant(pins, text) for text in (before, after) if text]
    if not any(variants):
        return between(revision(root, before, pins), revision(root, after, pins) if after else here, names)
    if not all(variants) or not after:
        other = after if variants[0] else before
        raise BadInput(
            f"{before if variants[0] else after} is a variant" + (f", and {other} is none" if other else ""),
            wanted="two variants, or two git revisions (of which --to may be left out)",
            do=f"invoke diff --from {before} --to VARIANT",
        )
    if names:
        raise BadInput(
            f"--variant {names[0]}, and two variants are compared", wanted="one of the two", do="leave it out"
        )
    return _of_variants(here, pins, before, after)


def working_tree(root: Path) -> State:
    """Return the files as they lie below `root` now."""

    def read(path: Path) -> str | None:
        try:
            return read_regular(root / path).decode(errors="replace")
        except FileNotFoundError:
            return None

    return State(WORKING_TREE, read)


def revision(root: Path, text: str, pins: Pins) -> State:
    """Return the files of a git revision; raises BadInput where there is no such one, MissingTool where git refuses."""
    said = git(root, "rev-parse", "--verify", "--end-of-options", f"{text}^{{commit}}")
    if said.returncode:
        require_repository(root)
        raise _no_revision(root, text, pins, said.stderr)
    commit = said.stdout.strip()
    return State(text, lambda path: _file(root, text, f"{commit}:./{path.as_posix()}"))


def _file(root: Path, text: str, name: str) -> str | None:
    """Return a file of a revision by git's name for it, links followed as in the working tree; None without one."""
    shown = git(root, "cat-file", "--batch", "--follow-symlinks", asked=f"{name}\n")
    header, _, content = shown.stdout.partition("\n")
    if header.split(" ")[1:2] == ["blob"]:
        return content[:-1]
    # "missing" is also said where the revision has the file, but its content is damaged or was never fetched.
    lost = header.endswith(" missing") and git(root, "rev-parse", "--verify", "--quiet", name).returncode == 0
    if shown.returncode or lost:
        shown.stdout = ""
        why = complaint(shown) if shown.stderr else "its content is not in this repository"
        raise MissingTool(f"{name.partition(':./')[2]} of {text} cannot be read: {why}", do="git fsck")
    return None


def _no_revision(root: Path, text: str, pins: Pins, said: str) -> BadInput:
    """Return why git knows no such revision."""
    own = [line.removeprefix("error: ") for line in said.splitlines() if line.startswith("error: ")]
    if own:
        return BadInput(f'git cannot take "{text}" for a revision: {"; ".join(own)}', wanted="a commit", do="git log")
    if git(root, "rev-parse", "--verify", "--quiet", "HEAD").returncode:
        return BadInput("this git repository has no commit yet", wanted="a revision to compare with", do="git log")
    variants = f"of variants, {nearest(text, pins.variant)}"
    if git(root, "rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        return BadInput(
            f'"{text}" is no variant, and not in this clone, which is shallow',
            wanted=f"a clone with its history; {variants}",
            do="git fetch --unshallow",
        )
    return BadInput(
        f'"{text}" is neither a variant nor a git revision here',
        wanted=f"such as HEAD, a branch, a tag, a commit; {variants}",
        do="git log --oneline",
    )


def _is_variant(pins: Pins, text: str) -> bool:
    return text.lower() in {name.lower() for own, entry in pins.variant.items() for name in (own, *entry.aliases)}


def _pins(state: State) -> Pins:
    """Return the pins of a state; keys that another version of this program knew are left out of a revision."""
    text = state.read(Path(PINS_FILE))
    if text is None:
        raise BadInput(f"{state.name} has no {PINS_FILE}", wanted="a state of this project")
    try:
        if state.name != WORKING_TREE:
            text = edited(text, [Edit(path, None) for path in _unknown_keys(text)])
        pins = parse(text.removeprefix("\ufeff"))
        return msgspec.structs.replace(pins, locked=VersionsLock.parse(state.read(Path(FILE)) or "schema = 1\n"))
    except BadInput as error:
        raise _of_state(state, error) from None


def _unknown_keys(text: str) -> Iterator[tuple[str, ...]]:
    try:
        found = faults(read_toml(text.removeprefix("\ufeff")), PinsFile)
    except NotTomlError:
        return
    for fault in found:
        path = tuple(part for part in fault.path if isinstance(part, str))
        if fault.message.startswith("unknown key") and path == fault.path:
            yield path


def _of_state(state: State, error: AscendImagesError) -> BadInput:
    do = error.do if state.name == WORKING_TREE else "compare with a revision that this program can read"
    return BadInput(f"{state.name}: {error.found}", wanted=error.wanted, do=do)


def _variants(state: State, pins: Pins) -> dict[str, Variant]:
    try:
        return {variant.name: variant for variant in resolve_all(pins, allow_broken=True)}
    except BadInput as error:
        raise _of_state(state, error) from None


def between(before: State, after: State, names: Sequence[str] = ()) -> Difference:
    """Return what differs between two states of the files, in the named variants or in all of them."""
    pins = _pins(after)
    old, new = _variants(before, _pins(before)), _variants(after, pins)
    known = {**old, **new}
    chosen = {name if name in known else variant_name(pins, name) for name in names} or set(known)
    pairs = {name: (old[name], new[name]) for name in new if name in old and name in chosen}
    found = _compared(before, after, pairs)
    return msgspec.structs.replace(
        found,
        added=tuple(name for name in new if name not in old and name in chosen),
        removed=tuple(name for name in old if name not in new and name in chosen),
    )


def _of_variants(state: State, pins: Pins, before: str, after: str) -> Difference:
    variants = _variants(state, pins)
    one, other = (variants[variant_name(pins, name)] for name in (before, after))
    found = _compared(state, state, {"": (one, other)})
    return msgspec.structs.replace(found, before=one.name, after=other.name)


def _compared(before: State, after: State, pairs: Mapping[str, tuple[Variant, Variant]]) -> Difference:
    notes: list[str] = []
    packages: dict[str, tuple[Change, ...]] = {}
    for label, (one, other) in pairs.items():
        for arch in (arch for arch in Arch if arch in {*one.platforms, *other.platforms}):
            locks = [_lock(before, one, arch, notes), _lock(after, other, arch, notes)]
            if locks[0] is not None and locks[1] is not None:
                packages[f"{label} {arch.value}".strip()] = package_changes(locks[0], locks[1])
    return Difference(
        before=before.name,
        after=after.name,
        pins=shared({label: pin_changes(one, other) for label, (one, other) in pairs.items()}),
        packages=shared(packages),
        dockerfiles=tuple(_dockerfiles(before, after, pairs, notes)),
        notes=tuple(dict.fromkeys(notes)),
    )


def _lock(state: State, variant: Variant, arch: Arch, notes: list[str]) -> LockFile | None:
    path = LOCKS / file_name(variant.name, arch)
    text = state.read(path)
    if text is None:
        notes.append(f"{path}: not in {state.name}, so its packages are not compared")
        return None
    try:
        return LockFile.parse(text.replace("\r\n", "\n"), path)
    except BadInput as error:
        notes.append(f"{state.name}: {error.found}; its packages are not compared")
        return None


def _dockerfiles(
    before: State, after: State, pairs: Mapping[str, tuple[Variant, Variant]], notes: list[str]
) -> Iterator[DockerfileChange]:
    """Yield the differences of rendered files, one that changes the same lines in several files once."""
    found: dict[tuple[str, ...], tuple[list[str], tuple[str, ...]]] = {}
    for label, (one, other) in pairs.items():
        paths = [dockerfile_path(Path(), variant.name) for variant in (one, other)]
        texts = [state.read(path) for state, path in zip((before, after), paths, strict=True)]
        for state, path, text in zip((before, after), paths, texts, strict=True):
            if text is None:
                notes.append(f"{path}: not in {state.name}, so it is not compared")
        if texts[0] is None or texts[1] is None or texts[0] == texts[1]:
            continue
        lines = _unified(texts[0], texts[1], *map(str, paths))
        changed = tuple(line for line in lines[2:] if line[:1] in "+-")
        found.setdefault(changed, ([], lines))[0].append(label)
    for among, lines in found.values():
        yield DockerfileChange(among=tuple(among), lines=lines)


def _unified(before: str, after: str, old: str, new: str) -> tuple[str, ...]:
    return tuple(difflib.unified_diff(before.splitlines(), after.splitlines(), old, new, lineterm="", n=2))
