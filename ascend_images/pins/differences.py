"""What differs between two states of variants: their pins, and the package sets that were locked for them. All pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from ascend_images.pins.cann_layout import cann_layout
from ascend_images.pins.lockfile import LockFile
from ascend_images.pins.model import Hardware
from ascend_images.pins.platform import Arch
from ascend_images.pins.table import Table
from ascend_images.pins.variant import Checkout, Variant

#: Fields of a variant that are its name, or that other fields give.
_FOLLOWING = ("name", "findings", "base_cann", "cann_home", "cann_scripts", "python_home", "os_family", "tag_template")
#: Fields that are told one by one: by the name of a package, a source, a file.
_TAKEN_APART = ("packages", "sources", "relax", "env", "indexes", "metadata", "chip", "runs")
#: The value of what is there or not, and is nothing else.
_THERE = "there"


class Change(Table, frozen=True, kw_only=True):
    """One thing that differs: `table` and `name` say what, empty is what is not there on that side."""

    table: str
    name: str
    before: str
    after: str

    @property
    def subject(self) -> str:
        """What it is about, as people call it."""
        return f"{self.table} {self.name}".strip()

    def __str__(self) -> str:
        if not self.before or not self.after:
            word, value = ("added", self.after) if self.after else ("removed", self.before)
            return f"{self.subject}: {word}" if value == _THERE else f"{self.subject}: {word}, {value}"
        return f"{self.subject}: {self.before} -> {self.after}"


class Shared(Table, frozen=True, kw_only=True):
    """A change beside the variants (or the locks of variants) in which it is the same."""

    change: Change
    among: tuple[str, ...]


def pin_changes(before: Variant, after: Variant) -> tuple[Change, ...]:
    """Return what differs between the pins of two variants, or of one variant at two times, in their order."""
    return _changes(_flat(before), _flat(after))


def package_changes(before: LockFile, after: LockFile) -> tuple[Change, ...]:
    """Return what differs between two package locks: versions first, then files, gaps and lifted demands."""
    old, new = ({one.name: one for one in lock.packages} for lock in (before, after))
    versions = _changes(*({_Key("", name): one.version for name, one in side.items()} for side in (old, new)))
    same = [name for name, one in old.items() if name in new and new[name].version == one.version]
    files = _changes(
        *({_Key("files of", f"{name} {side[name].version}"): _hashes(side[name].hashes) for name in same}
          for side in (old, new))
    )  # fmt: skip
    return (*sorted(versions, key=lambda change: change.name), *files, *_changes(_gaps(before), _gaps(after)))


def shared(found: Mapping[str, Iterable[Change]]) -> tuple[Shared, ...]:
    """Return changes by the names under which they were found, each once with all its names, in order of appearance."""
    among: dict[Change, list[str]] = {}
    for name, changes in found.items():
        for change in changes:
            among.setdefault(change, []).append(name)
    return tuple(Shared(change=change, among=tuple(names)) for change, names in among.items())


@dataclass(frozen=True)
class _Key:
    table: str
    name: str


def _changes(before: Mapping[_Key, str], after: Mapping[_Key, str]) -> tuple[Change, ...]:
    every = {**before, **after}
    order = {table: number for number, table in enumerate(dict.fromkeys(key.table for key in every))}
    return tuple(
        Change(table=key.table, name=key.name, before=before.get(key, ""), after=after.get(key, ""))
        for key in sorted(every, key=lambda key: order[key.table])
        if before.get(key, "") != after.get(key, "")
    )


def _flat(variant: Variant) -> dict[_Key, str]:
    """Return the pins of a variant one by one, in the order in which people look at them."""
    left_out = (*_FOLLOWING, *_TAKEN_APART)
    fields = {name: getattr(variant, name) for name in variant.__struct_fields__ if name not in left_out}
    one_value = {name: value for name, value in fields.items() if not isinstance(value, dict | tuple)}
    flat = {_Key("", _words(name)): _text(value) for name, value in one_value.items()}
    flat |= {_Key("hardware", _words(name)): _text(getattr(variant.chip, name)) for name in _CHIP}
    flat |= {_Key("package", name): version for name, version in variant.packages.items()}
    flat |= {_Key("source", name): text for source in variant.sources for name, text in _source(source)}
    flat |= {_Key("relaxed", f"{one.whose}: {one.demand}"): one.reason for one in variant.relax}
    flat |= {_Key("run package", run.file): f"{run.url} sha256:{run.checksum}" for run in variant.runs}
    flat |= {_Key("env", name): value or _EMPTY for name, value in _own_environment(variant).items()}
    for name, value in fields.items():
        if isinstance(value, dict):
            flat |= {_Key(_words(name), key): _text(one) or _EMPTY for key, one in value.items()}
        elif isinstance(value, tuple):
            flat |= {_Key(_words(name), _text(one)): _THERE for one in value}
    flat |= {_Key("index", name): _text(index) for name, index in variant.indexes.items()}
    flat |= {_Key("metadata", f"{one.name} {one.version}"): _text(one.requires) for one in variant.metadata}
    return flat


def _own_environment(variant: Variant) -> dict[str, str]:
    """Return the environment less what CANN's release and the hardware give."""
    given = cann_layout(variant.cann, variant.python_home).environment
    given = {**given, "CANN_VERSION": variant.cann, "SOC_VERSION": variant.soc_version}
    own = {name: value.removesuffix(f":{given.get(name)}") for name, value in variant.env.items()}
    return {name: value for name, value in own.items() if value != given.get(name)}


_CHIP = tuple(field for field in Hardware.__struct_fields__ if field != "npu_smi_names")
_EMPTY = '""'


def _words(name: str) -> str:
    return name.replace("_", " ")


def _source(source: Checkout) -> list[tuple[str, str]]:
    """Return a source's ref and commit under its name, and whatever else is said of it under that of the key."""
    known = f" ({source.commit[:12]})" if source.commit and source.commit != source.ref else ""
    rows = [(source.name, source.ref + known)]
    for field in source.__struct_fields__:
        value = getattr(source, field)
        if field not in ("name", "ref", "commit") and value not in ("", (), {}):
            rows.append((f"{source.name} {_words(field)}", _text(value)))
    return rows


def _text(value: object) -> str:
    if isinstance(value, Arch):
        return value.value
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    return msgspec.json.encode(value).decode()


def _gaps(lock: LockFile) -> dict[_Key, str]:
    found = {_Key("not learned:", text): _THERE for text in lock.incomplete}
    for one in lock.conflicts:
        found[_Key("demand lifted:", f"{one.whose} asks for {one.demand}")] = f"{one.found or 'none'}; {one.reason}"
    return found


def _hashes(hashes: Iterable[str]) -> str:
    """Return the checksums of a package's files, as much as tells them from others."""
    return ", ".join(digest.removeprefix("sha256:")[:12] for digest in hashes) or "no checksum"
