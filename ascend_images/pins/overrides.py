"""`--set key=value`: changes to one variant's pins from the command line, checked like the file itself."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from packaging.utils import canonicalize_name

from ascend_images.errors import BadInput, unknown
from ascend_images.pins.model import Source, Stack, VariantEntry
from ascend_images.pins.texts import text_faults
from ascend_images.pins.validate import Fault, faults
from ascend_images.pins.values import entry_faults, stack_faults
from ascend_images.pins.variant import TORCH_TRIO
from ascend_images.toml_text import NotTomlError, read_toml

#: Keys that a variant's own table holds as well; an override sets them there, where they win.
_VARIANT_KEYS = ("cann", "base_cann", "os", "python", "tag", "soc_version")
_STACK_KEYS = ("repository", "workdir", "release")
_TABLES = ("packages", "env", "install_env", "accept", "exclude", "no_dependencies", "sources")
#: `--set "relax.vllm=opencv-python-headless>=4.13"`: lifts that demand of that source or distribution.
_RELAX = "relax."
#: Sources whose tags begin with "v"; their versions are taken with or without it.
_WITH_V = ("vllm", "vllm-ascend")

_VERSION_IN_REF = re.compile(r"^(?:core_)?[vr]?(?P<version>[0-9]+(?:\.[0-9]+)+(?:[._-]?(?:a|b|rc|post|dev)[0-9]*)*)$")


@dataclass(frozen=True)
class Override:
    """One `key=value` as it was typed."""

    key: str
    value: str


def parse_overrides(texts: Sequence[str]) -> tuple[Override, ...]:
    """Split each `key=value`; raises BadInput for one without a key, and for one key given two values."""
    parsed: dict[str, Override] = {}
    overrides: list[Override] = []
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            raise BadInput(
                f'--set "{text}"', wanted="key=value", do="--set torch=2.10.0, or --set sources.vllm.ref=v0.23.0"
            )
        if key in parsed and parsed[key].value != value and not key.startswith(_RELAX):
            raise BadInput(f'--set {key} is given twice: "{parsed[key].value}" and "{value}"', wanted="one value")
        parsed[key] = Override(key, value)
        overrides.append(parsed[key])
    return tuple(overrides)


def overridden(stack: Stack, entry: VariantEntry, overrides: Sequence[Override]) -> tuple[Stack, VariantEntry]:
    """Return a stack and a variant's entry with the overrides applied; raises BadInput for what cannot be meant."""
    if not overrides:
        return stack, entry
    _check_torch_trio(stack, overrides)
    _check_once(stack, overrides)
    raw_stack: dict[str, Any] = _plain(stack)
    raw_entry: dict[str, Any] = _plain(entry)
    for override in overrides:
        _apply(override, raw_stack, raw_entry)
    for raw, kind in ((raw_stack, Stack), (raw_entry, VariantEntry)):
        _refuse([*text_faults(raw)] or faults(raw, kind))
    changed = msgspec.convert(raw_stack, Stack), msgspec.convert(raw_entry, VariantEntry)
    _refuse([*stack_faults(changed[0]), *entry_faults(changed[1])])
    return changed


def _refuse(found: Sequence[Fault]) -> None:
    if found:
        raise BadInput("\n".join(f"--set {fault}" for fault in found))


def version_of_ref(ref: str) -> str:
    """Return the version that a ref such as `v0.23.0` or `core_v0.16.0` names, or nothing."""
    match = _VERSION_IN_REF.match(ref)
    return match["version"] if match else ""


def with_v(source: str, ref: str) -> str:
    """Return a ref of vLLM or vLLM Ascend as its tag is written: a bare version gets its `v`."""
    return f"v{ref}" if source in _WITH_V and re.match(r"^[0-9]+(\.[0-9]+)+", ref) else ref


def _plain(table: msgspec.Struct) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(table))
    return plain


def _apply(override: Override, stack: dict[str, Any], entry: dict[str, Any]) -> None:
    head, _, rest = override.key.partition(".")
    if override.key in _VARIANT_KEYS:
        entry[override.key] = override.value
    elif override.key in _STACK_KEYS:
        stack[override.key] = _value(override, bool if override.key == "release" else str)
    elif head == "sources" and rest:
        _set_source(override, *_split_source(override, stack["sources"]), stack)
    elif override.key.startswith(_RELAX) and rest:
        stack["relax"].append({"whose": rest, "demand": override.value, "reason": "asked for with --set"})
    elif head in _TABLES and rest:
        _set_in_table(override, head, rest, stack)
    elif not rest and override.key in stack["sources"]:
        _set_source(override, override.key, "ref", stack)
    elif not rest and _package(override.key, stack):
        stack["packages"][_package(override.key, stack)] = override.value
    else:
        raise unknown("key", override.key, _known(stack), where="--set")


def _set_in_table(override: Override, table: str, name: str, stack: dict[str, Any]) -> None:
    if table == "packages":
        name = _package(name, stack) or name
    stack[table][name] = override.value


def _split_source(override: Override, sources: Mapping[str, Any]) -> tuple[str, str]:
    """Return the source and the field, `env.X` for one variable, that a key `sources.…` names; raises BadInput."""
    rest = override.key.removeprefix("sources.")
    # A name may hold dots itself.
    name = max((name for name in sources if rest.startswith(f"{name}.")), key=len, default="")
    if not name:
        raise unknown("source", rest.partition(".")[0], sources, where=f"--set {override.key}")
    field = rest.removeprefix(f"{name}.")
    fields = {f.name for f in msgspec.structs.fields(Source)}
    if field not in fields and not re.fullmatch(r"env\..+", field):
        raise unknown("key", field, [*fields, "env.…"], where=f"--set {override.key}")
    return name, field


def _set_source(override: Override, name: str, field: str, stack: dict[str, Any]) -> None:
    source = stack["sources"][name]
    if field == "ref":
        # A version belongs to the ref that it stood beside.
        source["ref"], source["version"] = with_v(name, override.value), ""
        return
    if field.startswith("env."):
        source["env"][field.removeprefix("env.")] = override.value
        return
    kind = next(f.type for f in msgspec.structs.fields(Source) if f.name == field)
    source[field] = _value(override, kind)


def _value(override: Override, kind: Any) -> Any:
    """Return the text itself where text is wanted, else what it means as a TOML value."""
    if _takes_text(kind):
        return override.value
    try:
        document = read_toml(f"value = {override.value}")
        if len(document) > 1:
            raise NotTomlError("more than a value")
        return document["value"]
    except NotTomlError:
        raise BadInput(
            f"--set {override.key}={override.value[:80]}", wanted='a TOML value, such as true or ["a", "b"]'
        ) from None


def _takes_text(kind: Any) -> bool:
    """Return whether a field takes text: some take none that is empty, and some none but that and a pattern."""
    return not faults("text", kind) or not faults("", kind)


def _package(name: str, stack: dict[str, Any]) -> str:
    """Return the stack's own spelling of a package, or nothing."""
    wanted = canonicalize_name(name)
    return next((known for known in stack["packages"] if canonicalize_name(known) == wanted), "")


def _known(stack: dict[str, Any]) -> list[str]:
    return [
        *_VARIANT_KEYS,
        *_STACK_KEYS,
        *stack["packages"],
        *stack["sources"],
        *(f"{table}.…" for table in _TABLES),
        "relax.…",
    ]


def _check_once(stack: Stack, overrides: Sequence[Override]) -> None:
    """Raise BadInput where two keys that are spelled differently mean one thing and want two values of it."""
    meant: dict[tuple[str, ...], Override] = {}
    for override in overrides:
        first = meant.setdefault(_meaning(stack, override), override)
        if first.value != override.value and not override.key.startswith(_RELAX):
            raise BadInput(
                f'--set {first.key}="{first.value}" and --set {override.key}="{override.value}" mean the same thing',
                wanted="one value",
            )


def _meaning(stack: Stack, override: Override) -> tuple[str, ...]:
    head, _, rest = override.key.partition(".")
    if head == "sources" and rest:
        return ("sources", *_split_source(override, stack.sources))
    if head == "packages" and rest:
        return ("packages", canonicalize_name(rest))
    if override.key in (*_VARIANT_KEYS, *_STACK_KEYS) or rest:
        return (override.key,)
    return ("sources", override.key, "ref") if override.key in stack.sources else ("packages", canonicalize_name(head))


def _check_torch_trio(stack: Stack, overrides: Sequence[Override]) -> None:
    """Torch is overridden with torchvision and torchaudio, and they never without it: one build serves all three."""
    names = {canonicalize_name(override.key.removeprefix("packages.")) for override in overrides}
    given = [name for name in TORCH_TRIO if name in names]
    if given and len(given) < len(TORCH_TRIO) and "torch" in stack.packages:
        missing = [name for name in TORCH_TRIO if name not in names]
        raise BadInput(
            f"--set {given[0]} without {' and '.join(missing)}",
            wanted="torch, torchvision and torchaudio together: each is built against one torch",
            do=" ".join(f"--set {name}=…" for name in missing),
        )
