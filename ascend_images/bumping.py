"""`invoke bump`: one pin moved with all that follows from it — locks, Dockerfiles, a commit — or nothing at all."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from ascend_images import generated, locking
from ascend_images.difference_report import among, as_text
from ascend_images.diffing import LOCKS, Difference, between, working_tree
from ascend_images.errors import AscendImagesError, BadInput, LookupIncomplete, unknown
from ascend_images.files import read_regular, write_atomic
from ascend_images.pins import rules
from ascend_images.pins.compat import base_version, compat
from ascend_images.pins.edit import edited
from ascend_images.pins.load import load, parse
from ascend_images.pins.lockfile import LockFile, file_name, is_current
from ascend_images.pins.model import Pins
from ascend_images.pins.overrides import version_of_ref, with_v
from ascend_images.pins.questions import check, is_commit, pruned
from ascend_images.pins.resolve import resolve, resolve_all
from ascend_images.pins.targets import Wanted, edits, find, wanted
from ascend_images.pins.validate import dotted
from ascend_images.pins.variant import Finding, Variant
from ascend_images.pins.versions_lock import FILE, VersionsLock
from ascend_images.project_change import beside, commit, put, require_clean
from ascend_images.publish.tag_words import PAGES
from ascend_images.selection import PINS_FILE, Selection
from ascend_images.toml_text import read_toml


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What was asked: pins with their new values, the first one by name; how to lock; what to do with the result."""

    typed: Mapping[str, str]
    sources: Mapping[str, Path] = field(default_factory=dict)
    mirror: str = ""
    ca_bundle: Path | None = None
    dry_run: bool = False
    commit: bool = False


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A bump before anything is asked of the network: the new text of versions.toml and the variants it changes."""

    changes: tuple[Wanted, ...]
    text: str
    variants: tuple[Variant, ...]
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """The bump in one line."""
        return "Bump " + ", ".join(map(str, self.changes))


def pairs(name: str, version: str, also: Sequence[str]) -> dict[str, str]:
    """Return what was typed as NAME VERSION and `--also NAME=VERSION`; raises BadInput."""
    typed = {name: version}
    for text in also:
        other, equals, value = text.partition("=")
        if not equals or not other.strip():
            raise BadInput(f'--also "{text}"', wanted="NAME=VERSION", do="--also ms-swift.torch_npu=2.11.0")
        if other.strip() in typed:
            raise BadInput(f"{other.strip()} is given twice", wanted="one value")
        typed[other.strip()] = value
    return typed


def bump(root: Path, wishes: Wishes, say: Callable[[str], None]) -> str:
    """Move pins, lock and render the variants that they change, and return what changed, for people.

    Everything is made beside the project first and put in its place at the end. Raises BadInput where the rules or what
    packages ask for are against it and for a checkout of no source, LookupIncomplete where the new pins could not be
    locked, CheckFailed where there is something uncommitted that a commit would take along; then nothing is changed.
    Another bump or lock of the project is waited for.
    """
    # The copy is locked as a project of its own, which nobody else holds.
    with locking.alone(root, say):
        return _bump(root, wishes, say)


def _bump(root: Path, wishes: Wishes, say: Callable[[str], None]) -> str:
    text = _text(root)
    _check_sources(wishes.sources, load(root / PINS_FILE))
    plan = planned(root, text, wishes.typed)
    if plan.text == text:
        return f"{', '.join(f'{one.target.label} is {one.value}' for one in plan.changes)}: nothing to change"
    if wishes.commit and not wishes.dry_run:
        require_clean(root)
    for note in plan.notes:
        say(note)
    with beside(root, text) as copy:
        folder = copy.folder
        write_atomic(folder / PINS_FILE, plan.text.encode())
        _lock(root, folder, plan, wishes, say)
        _drop_old(folder)
        generated.write(_selection(folder, plan), everything=False)
        before = replace(working_tree(root), name="before")
        found = between(before, replace(working_tree(folder), name="after"))
        told = as_text(found)
        if wishes.dry_run:
            return f"{plan.title}: nothing was written\n\n{told}"
        with put(root, copy) as placed:
            made = commit(root, placed, _message(plan, found), say) if wishes.commit else ""
    return "\n\n".join(filter(None, [plan.title + (f": {made}" if made else ""), told, _next(root)]))


def _next(root: Path) -> str:
    """Return what is to be typed next where the lists of tags, which tell of pins as well, are out of date by now."""
    from ascend_images import publishing

    if not any((root / path).is_file() for path in PAGES):
        return ""
    try:
        publishing.tags(root, check=True)
    except AscendImagesError as error:
        return f"{error.found}\n  next:   {error.do}"
    return ""


def _check_sources(given: Mapping[str, Path], pins: Pins) -> None:
    """Raise BadInput for a checkout of no source; one that the bump has no part in is not looked at."""
    known = {name for stack in pins.stack.values() for name in stack.sources}
    folded = {name.lower() for name in known}
    for name in given:
        if name.lower() not in folded:
            raise unknown("source", name, known, where="--source")


def planned(root: Path, text: str, typed: Mapping[str, str]) -> Plan:
    """Return the plan for moving pins; raises BadInput for names and versions that cannot be meant or break a rule."""
    # Faults are told with their lines before the file is changed.
    pins = _with_lock(root, parse(text.removeprefix("\ufeff")))
    raw = read_toml(text.removeprefix("\ufeff"))
    changes = wanted(raw, typed)
    kept = tuple(_kept_versions(changes, pins))
    new_text = edited(text, edits(raw, (*changes, *kept)))
    new = _with_lock(root, parse(new_text.removeprefix("\ufeff")))
    moved = tuple(_moved(pins, new))
    variants = tuple(after for _, after in moved)
    broken = _by_finding(variants, "broken")
    if broken:
        raise BadInput(
            "\n".join(f"{', '.join(names)}: {one.rule}: {one.message}" for one, names in broken.items()),
            wanted="; ".join(dict.fromkeys(one.wanted for one in broken if one.wanted)),
            do=_row_hint(changes, variants, raw)
            or _companion_hint(changes, typed)
            or "; ".join([*_version_hints(changes, variants), _accepts(variants)]),
        )
    notes = (
        *(f"{one.target.label} stays {one.value}: it is the same commit" for one in kept),
        *_notes(changes, moved, raw),
    )
    return Plan(changes=changes, text=new_text, variants=variants, notes=notes)


def _kept_versions(changes: Sequence[Wanted], pins: Pins) -> Iterator[Wanted]:
    """Yield the versions of sources that move to another name of the commit that they are at: they stay what they are.

    A ref that says a version itself needs none, and one that was typed counts.
    """
    typed = {one.target.label for one in changes}
    for one in changes:
        version = replace(one.target, kind="version")
        if one.target.kind != "source" or version.label in typed or version_of_ref(one.value):
            continue
        source = pins.stack[one.target.stack].sources[one.target.name]
        commits = {_commit(pins, source.git, with_v(one.target.name, ref)) for ref in (source.ref, one.value)}
        known = source.version or version_of_ref(source.ref)
        if known and len(commits) == 1 and "" not in commits:
            yield Wanted(target=version, value=known)


def _commit(pins: Pins, repository: str, ref: str) -> str:
    """Return the commit of a ref by versions.lock; empty where that is not known."""
    entry = pins.locked.ref(repository, ref)
    return ref if is_commit(ref) else entry.commit if entry else ""


def _version_hints(changes: Sequence[Wanted], variants: Sequence[Variant]) -> Iterator[str]:
    """Yield how to say the versions that the moved sources have lost: rules that ask for them cannot tell."""
    for one in changes:
        sources = [s for v in variants if v.stack == one.target.stack for s in v.sources if s.name == one.target.name]
        if one.target.kind == "source" and sources and not sources[0].version:
            yield f"which version is at {one.value} is not known; say it: --also {one.target.label}.version=VERSION"


def _accepts(variants: Sequence[Variant]) -> str:
    """Return what to write or remove before the same command, where rules are broken on purpose."""
    lines: dict[str, dict[str, None]] = {}
    for variant in variants:
        broken = [one.rule for one in variant.findings if one.state == "broken"]
        lines.setdefault(variant.stack, {}).update(dict.fromkeys(broken))
    told = []
    for stack, rules_broken in lines.items():
        table = f"[{dotted(('stack', stack, 'accept'))}]"
        meant = [f'{rule} = "REASON"' for rule in rules_broken if rule != rules.UNUSED_ACCEPT]
        told += [f"where it is meant, write first: {table} {' and '.join(meant)}"] if meant else []
        told += [f"remove first what accepts nothing from {table}"] if rules.UNUSED_ACCEPT in rules_broken else []
    return "; ".join(["move the other pins as well (--also NAME=VERSION)", *told])


def _text(root: Path) -> str:
    load(root / PINS_FILE)  # tells what is wrong with it
    return read_regular(root / PINS_FILE).decode()


def _with_lock(root: Path, pins: Pins) -> Pins:
    return msgspec.structs.replace(pins, locked=VersionsLock.load(root / FILE))


def _moved(old: Pins, new: Pins) -> Iterator[tuple[Variant | None, Variant]]:
    """Yield the variants whose pins are others, as they were and as they are after the change."""
    for name in new.variant:
        after = resolve(new, name, allow_broken=True, to_be_locked=True)
        before: Variant | None = None
        with contextlib.suppress(BadInput):
            before = resolve(old, name, allow_broken=True, to_be_locked=True)
        if before is None or _pins_of(before) != _pins_of(after):
            yield before, after


def _by_finding(variants: Sequence[Variant], state: str) -> dict[Finding, list[str]]:
    """Return what the rules found, each finding once with the variants that it is for."""
    found: dict[Finding, list[str]] = {}
    for variant in variants:
        for finding in variant.findings:
            if finding.state == state:
                found.setdefault(finding, []).append(variant.name)
    return found


def _pins_of(variant: Variant) -> Variant:
    return msgspec.structs.replace(variant, findings=())


def _notes(
    changes: Sequence[Wanted], moved: Sequence[tuple[Variant | None, Variant]], raw: Mapping[str, Any]
) -> Iterator[str]:
    """Yield what a person may want to know of a change that is let through."""
    variants = [after for _, after in moved]
    yield from _version_hints(changes, variants)
    hint = _row_hint(changes, variants, raw)
    if hint:
        yield f"the row of vLLM Ascend wants other pins as well: {hint}"
    known = {finding for before, _ in moved if before for finding in before.findings}
    for finding, names in _by_finding(variants, "unknown").items():
        # That an accept could not be asked follows from its rule, which is told.
        if finding not in known and finding.rule != rules.UNUSED_ACCEPT:
            yield f"{', '.join(names)}: not known: {finding.rule}: {finding.message}"


def _row_hint(changes: Sequence[Wanted], variants: Sequence[Variant], raw: Mapping[str, Any]) -> str:
    """Return the bump that meets the row of a vLLM Ascend among the changes; nothing where it is met or unknown."""
    moved = next((one for one in changes if (one.target.kind, one.target.name) == ("source", "vllm-ascend")), None)
    variant = next((one for one in variants if moved and one.stack == moved.target.stack), None)
    if moved is None or variant is None:
        return ""
    version = next(source.version for source in variant.sources if source.name == "vllm-ascend")
    row = compat().vllm_ascend.get(version)
    if row is None:
        return ""
    rows = {
        "vllm": f"v{row.vllm}",
        "torch_npu": row.torch_npu,
        "torch": base_version(row.torch_npu),
        "triton-ascend": row.triton_ascend,
        "cann": row.cann_by_chip.get(variant.chip.cann_tag, row.cann),
    }
    others = []
    given = {one.target.label: one.value for one in changes}
    for name, value in rows.items():
        with contextlib.suppress(BadInput):
            target = find(raw, f"{moved.target.stack}.{name}")
            if value and given.get(target.label, target.value).lower() != value.lower():
                others.append(f"--also {target.label}={value}")
    return f"invoke bump {moved.target.label} {moved.value} {' '.join(others)}" if others else ""


def _companion_hint(changes: Sequence[Wanted], typed: Mapping[str, str]) -> str:
    """Return the bump that moves torch with a torch_npu of another torch."""
    npu = next((one for one in changes if one.target.short.lower().replace("_", "-") == "torch-npu"), None)
    if npu is None or any(one.target.short == "torch" for one in changes):
        return ""
    if base_version(npu.value) == base_version(npu.target.value):
        return ""
    also = [f" --also {name}={value}" for name, value in list(typed.items())[1:]]
    name, version = next(iter(typed.items()))
    torch = f" --also {npu.target.stack}.torch={base_version(npu.value)}"
    return f"invoke bump {name} {version}{''.join(also)}{torch}"


def _selection(folder: Path, plan: Plan) -> Selection:
    pins = load(folder / PINS_FILE)
    variants = tuple(resolve(pins, variant.name, to_be_locked=True) for variant in plan.variants)
    return Selection(root=folder, pins=pins, variants=variants)


def _lock(root: Path, folder: Path, plan: Plan, wishes: Wishes, say: Callable[[str], None]) -> None:
    """Lock the changed variants; what was not known before the bump, and has no part in it, need not be now."""
    selection = _selection(folder, plan)
    own = {source.name.lower() for variant in selection.variants for source in variant.sources}
    try:
        for line in locking.lock(
            selection,
            (),
            {name: place for name, place in wishes.sources.items() if name.lower() in own},
            mirror=wishes.mirror,
            ca_bundle=wishes.ca_bundle,
            say=say,
        ):
            say(line)
    except LookupIncomplete as error:
        if _is_answered(root, _selection(folder, plan)):
            say(error.found)
            return
        raise _unchanged(error) from None
    except AscendImagesError as error:
        raise _unchanged(error) from None


def _drop_old(folder: Path) -> None:
    """Drop what no pin asks for any more from the new versions.lock."""
    pins = load(folder / PINS_FILE)
    kept = pruned(pins.locked, resolve_all(pins, allow_broken=True, to_be_locked=True))
    if kept != pins.locked:
        write_atomic(folder / FILE, str(kept))


def _unchanged(error: AscendImagesError) -> AscendImagesError:
    error.found = f"{error.found}\n(nothing was changed)"
    return error


def _is_answered(root: Path, selection: Selection) -> bool:
    """Tell whether the new locks say all that the old ones said, and all packages are locked for the new pins."""
    old = load(root / PINS_FILE)
    names = [variant.name for variant in selection.variants if variant.name in old.variant]
    before = [resolve(old, name, allow_broken=True, to_be_locked=True) for name in names]
    missing = {(one.about, one.state) for one in check(old.locked, before)}
    if any((one.about, one.state) not in missing for one in check(selection.pins.locked, selection.variants)):
        return False
    for variant in selection.variants:
        for arch in variant.platforms:
            name = file_name(variant.name, arch)
            try:
                lock = LockFile.load(selection.locks / name)
            except BadInput:
                return False
            if not is_current(lock, variant) or not _gaps(lock) <= _gaps_of(root / LOCKS / name):
                return False
    return True


def _gaps(lock: LockFile) -> set[str]:
    """Return the packages that could not be learned about."""
    return {gap.partition("==")[0] for gap in lock.incomplete}


def _gaps_of(path: Path) -> set[str]:
    try:
        return _gaps(LockFile.load(path))
    except BadInput:
        return set()


def _message(plan: Plan, found: Difference) -> str:
    """Return the message of the commit: the pins in its first line, then what changed in pins and packages."""
    lines = [plan.title if len(plan.title) <= 72 else f"Bump {plan.changes[0]}, and what goes with it"]
    for title, rows in (("Pins", found.pins), ("Packages", found.packages)):
        if rows:
            told = dict.fromkeys(f"- {row.change} ({among(row.among)})" for row in rows if _is_told(row.change.table))
            lines += ["", f"{title}:", *told]
    return "\n".join(lines) + "\n"


def _is_told(table: str) -> bool:
    return not re.match(r"files of|not learned", table)
