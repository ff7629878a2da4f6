"""What `invoke bump` can name in versions.toml: a package, a source, a source's version, a stack's CANN release."""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from packaging.utils import canonicalize_name

from ascend_images.errors import BadInput, unknown
from ascend_images.pins.compat import base_version, compat
from ascend_images.pins.edit import Edit
from ascend_images.pins.load import extended
from ascend_images.pins.overrides import version_of_ref, with_v
from ascend_images.pins.variant import TORCH_TRIO

Kind = Literal["package", "source", "version", "cann"]


@dataclass(frozen=True, kw_only=True)
class Target:
    """A pin of one stack: `name` as the file spells it, `value` what is pinned now, `own` whether it stands there.

    What a stack only has from the one that it extends is not its own.
    """

    stack: str
    kind: Kind
    name: str
    value: str
    own: bool = True

    @property
    def label(self) -> str:
        """What tells it from the same pin of another stack: `ms-swift.vllm`."""
        return f"{self.stack}.{self.short}"

    @property
    def short(self) -> str:
        """Its name without its stack."""
        return f"{self.name}.version" if self.kind == "version" else self.name


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A pin and the value it is to have."""

    target: Target
    value: str

    def __str__(self) -> str:
        return f"{self.target.label} {self.target.value or '(nothing)'} -> {self.value}"


def wanted(raw: Mapping[str, Any], typed: Mapping[str, str]) -> tuple[Wanted, ...]:
    """Return the pins that were typed with their new values, and those that go with them: torch takes its companions.

    `raw` is the document of the file as it was read. Raises BadInput for a name of nothing, a name of several pins, and
    a torch whose companions no table knows.
    """
    found = [_wanted(find(raw, name), value) for name, value in typed.items()]
    labels = [one.target.label for one in found]
    for label in labels:
        if labels.count(label) > 1:
            raise BadInput(f"{label} is given twice", wanted="one value")
    for one in tuple(found):
        if one.target.kind == "package" and canonicalize_name(one.target.name) == TORCH_TRIO[0]:
            found += _companions(raw, one, labels)
    return tuple(found)


def edits(raw: Mapping[str, Any], changes: tuple[Wanted, ...]) -> tuple[Edit, ...]:
    """Return what to change in the file, so that these pins have these values."""
    return tuple(edit for one in changes for edit in _edits(raw, one))


def find(raw: Mapping[str, Any], name: str) -> Target:
    """Return the pin that is called `name`, with its stack before it or without; raises BadInput."""
    everything = [target for target in _targets(raw) if target.own and _is_called(target.short, name, target.kind)]
    if len(everything) == 1:
        return everything[0]
    if everything:
        choices = ", ".join(f"{target.label} ({target.value})" for target in everything)
        raise BadInput(
            f"{name} is pinned in {len(everything)} places: {choices}",
            wanted="one of them",
            do=f"invoke bump {everything[0].label} VERSION",
        )
    qualified = [target for target in _targets(raw) if _is_qualified(target, name)]
    if len(qualified) == 1:
        return qualified[0]
    if qualified:
        kinds = " and ".join(f"a {target.kind}" for target in qualified)
        raise BadInput(f"{name} is {kinds}", wanted="a name that means one pin", do="change versions.toml by hand")
    known = dict.fromkeys(text for target in _targets(raw) for text in (target.short, target.label))
    raise unknown("pin", name, known, where=f"invoke bump {name}")


def owners(raw: Mapping[str, Any], stacks: Iterable[str], kind: Kind, name: str) -> tuple[Target, ...]:
    """Return where the pins of some stacks stand: in each of them, or in the one that it has the pin from."""
    there = {(target.stack, target.kind, target.name): target for target in _targets(raw)}
    found: dict[str, Target] = {}
    for stack in stacks:
        at: str = stack
        target = there.get((at, kind, name))
        while target is not None and not target.own:
            at = raw["stack"][at]["extends"]
            target = there.get((at, kind, name))
        if target is not None:
            found.setdefault(target.label, target)
    return tuple(found.values())


def _wanted(target: Target, value: str) -> Wanted:
    if not value.strip():
        raise BadInput(f'{target.label}: "{value}" is no version', wanted="a version, a ref, or a specifier")
    return Wanted(target=target, value=with_v(target.name, value) if target.kind == "source" else value)


def _is_called(short: str, name: str, kind: Kind) -> bool:
    if kind == "package":
        return canonicalize_name(short) == canonicalize_name(name)
    return short.casefold() == name.casefold()


def _is_qualified(target: Target, name: str) -> bool:
    stack, dot, rest = name[: len(target.stack)], name[len(target.stack) :][:1], name[len(target.stack) + 1 :]
    return stack.casefold() == target.stack.casefold() and dot == "." and _is_called(target.short, rest, target.kind)


def _targets(raw: Mapping[str, Any]) -> Iterator[Target]:
    """Yield every pin of every stack, those that it has from the stack it extends as well."""
    for name, whole in extended(copy.deepcopy(raw["stack"])).items():
        own = raw["stack"][name]
        if whole.get("cann"):
            yield Target(stack=name, kind="cann", name="cann", value=whole["cann"], own="cann" in own)
        for package, version in whole.get("packages", {}).items():
            stands = package in own.get("packages", {})
            yield Target(stack=name, kind="package", name=package, value=version, own=stands)
        for source, table in whole.get("sources", {}).items():
            here = own.get("sources", {}).get(source, {})
            if table.get("ref"):
                yield Target(stack=name, kind="source", name=source, value=table["ref"], own="ref" in here)
                version = table.get("version", "")
                stands = "version" in here or "ref" in here
                yield Target(stack=name, kind="version", name=source, value=version, own=stands)


def _companions(raw: Mapping[str, Any], torch: Wanted, given: Sequence[str]) -> Iterator[Wanted]:
    """Yield torchvision and torchaudio as they are built against a torch, where pinned and not given."""
    row = compat().torch.get(base_version(torch.value))
    pinned = [target for target in _targets(raw) if target.stack == torch.target.stack and target.kind == "package"]
    for name in TORCH_TRIO[1:]:
        for target in pinned:
            if canonicalize_name(target.name) != name or target.label in given:
                continue
            if row is None:
                raise BadInput(
                    f"which {name} goes with torch {torch.value} is in no table",
                    wanted="torch, torchvision and torchaudio together: each is built against one torch",
                    do=f"say it: --also {target.label}=VERSION",
                )
            value = getattr(row, name)
            if value and value != target.value:
                yield Wanted(target=target, value=value)


def _edits(raw: Mapping[str, Any], one: Wanted) -> Iterator[Edit]:
    target = one.target
    table = ("stack", target.stack)
    if target.kind == "cann":
        yield Edit((*table, "cann"), one.value)
    elif target.kind == "package":
        yield Edit((*table, "packages", target.name), one.value)
    elif target.kind == "version":
        yield Edit((*table, "sources", target.name, "version"), one.value)
    else:
        source = (*table, "sources", target.name)
        yield Edit((*source, "ref"), one.value)
        # A version belongs to the ref that it stood beside, in this stack or in the one that it extends.
        parent = raw["stack"][target.stack].get("extends", "")
        inherited = _source(extended(copy.deepcopy(raw["stack"])).get(parent, {}), target.name).get("version", "")
        own = _source(raw["stack"][target.stack], target.name)
        if inherited:
            yield Edit((*source, "version"), version_of_ref(one.value))
        elif "version" in own:
            yield Edit((*source, "version"), None)


def _source(stack: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = stack.get("sources", {}).get(name, {})
    return found
