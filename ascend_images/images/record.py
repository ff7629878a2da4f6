"""The record of one build: what it made, and of which pins, lock, base and checkouts."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from ascend_images.digest import digest_of
from ascend_images.errors import BadInput, BuildFailed
from ascend_images.files import write_json
from ascend_images.images.cache import not_exported
from ascend_images.images.epoch import Epoch
from ascend_images.images.gate import load_lock
from ascend_images.images.plan import BuildPlan, record_path
from ascend_images.images.readback import Layer, Made
from ascend_images.json_text import read_json_file
from ascend_images.pins.lockfile import LockFile
from ascend_images.pins.platform import Arch

#: What a log says between two tries of one build.
TRIED_AGAIN = "the engine lost a layer while it exported the image: tried again"


class LocalRecord(msgspec.Struct, frozen=True):
    """A local checkout that stood in for a source: where it lay, its commit, and whether it held more than that."""

    folder: str
    commit: str
    dirty: bool


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one build made.

    `digest` is what the image's name stands for, `manifest` the image's own manifest (the same for the same build),
    `config` its configuration, all as digests. `bytes` is the size as it is sent; it and `layers` are None where they
    could not be read. `seconds` are those of all its tries. `compression` is what was asked for, `layers` what became
    of it: a builder keeps a layer that it has packed already. `not_locked` are pins that were taken as they were at the
    time. `inputs` is what the lock was made from, `dockerfile` and `lock` are hashes of the files used, `resolved` is
    the variant with every pin, `contexts` what replaced stages. `system` are the operating system's packages, by which
    a later build of the same can be told apart; None where they could not be read. `image` is the name under which it
    was pushed, or the one on the engine. `not_cached` is why its cache was not exported, empty where it was or was not
    asked for. `typed` are the words besides the variant that made the image what it is (`--sandbox`, `--set …`).
    """

    schema: Literal[1] = 1
    variant: str
    arch: Arch
    image: str
    tag: str
    pushed: bool
    digest: str
    manifest: str
    config: str
    bytes: int | None
    layers: tuple[Layer, ...] | None
    seconds: float
    unlocked: bool
    incomplete: tuple[str, ...]
    not_locked: tuple[str, ...] = ()
    epoch: Epoch
    builder: str
    base: str
    inputs: str
    dockerfile: str
    lock: str
    contexts: dict[str, str]
    local: dict[str, LocalRecord]
    resolved: dict[str, Any]
    compression: str = "gzip"
    system: dict[str, str] | None = None
    not_cached: str = ""
    typed: tuple[str, ...] = ()


def record_of(plan: BuildPlan, made: Made, lock: LockFile, *, seconds: float) -> Record:
    """Return the record of what `plan` made from `lock` in so many seconds."""
    return Record(
        variant=plan.variant.name,
        arch=plan.arch,
        image=plan.image,
        tag=plan.tag,
        pushed=plan.choices.push,
        digest=made.digest,
        manifest=made.manifest,
        config=made.config_digest,
        bytes=made.bytes,
        layers=made.layers,
        seconds=round(seconds, 2),
        unlocked=plan.choices.unlocked,
        incomplete=lock.incomplete,
        not_locked=plan.not_locked,
        epoch=plan.choices.epoch,
        builder=plan.choices.builder or "default",
        base=plan.base,
        inputs=lock.inputs,
        dockerfile=digest_of(plan.rendered.text.encode()),
        lock=lock.digest,
        contexts=dict(sorted(plan.contexts.items())),
        local={source.name: LocalRecord(str(source.folder), source.commit, source.dirty) for source in plan.sources},
        # By way of JSON, so that a record and the same one read back are equal.
        resolved=msgspec.json.decode(msgspec.json.encode(plan.variant)),
        compression=plan.choices.compression,
        system=made.system,
        not_cached=_not_cached(plan),
        typed=plan.choices.typed,
    )


def build_again(variant: str, arches: Iterable[Arch], records: Iterable[Record], *, push: bool = True) -> str:
    """Return what to type to build a variant for these architectures by the words that made `records`."""
    words = dict.fromkeys(word for record in records for word in record.typed)
    named = ",".join(arch.value for arch in arches)
    return " ".join(["invoke build", f"--variant {variant}", f"--arch {named}", *words, *(["--push"] if push else [])])


def _not_cached(plan: BuildPlan) -> str:
    if not plan.choices.cache_to:
        return ""
    try:
        text = plan.log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # What an earlier try could not export, the last one may have.
    return not_exported(text.rpartition(f"{TRIED_AGAIN}\n")[2])


def changed_since(plan: BuildPlan, lock: LockFile) -> BuildFailed | None:
    """Return what is wrong where a plan's files are not those any more that its name, labels and record are made of.

    They are read before the first image is built; buildx reads them again as each begins, which may be hours later.
    """
    try:
        same = load_lock(plan) == lock and plan.rendered.file.read_bytes().decode() == plan.rendered.text
    except (BadInput, OSError, UnicodeDecodeError):
        same = False
    if same:
        return None
    return BuildFailed(
        f"{plan.name}: its lock or its Dockerfile was changed after the call had begun",
        wanted="the files that the call began with",
        do=f"invoke build --variant {plan.variant.name}",
    )


def write_record(path: Path, record: Record) -> None:
    """Write a record, whole or not at all."""
    write_json(path, record)


def load_record(path: Path) -> Record | None:
    """Return the record at `path`, None when there is none; raises BadInput when the file is not one."""
    wanted = "a file that `invoke build` wrote"
    try:
        return read_json_file(path, Record, what="the record of a build", wanted=wanted, do=f"rm -r {path}")
    except FileNotFoundError:
        return None


def find_record(folder: Path, variant: str, arch: Arch) -> Record | None:
    """Return the record of a variant's build for one architecture in a folder of records, None where there is none.

    Raises BadInput where the file is none, or the record of something else.
    """
    path = record_path(folder, variant, arch)
    record = load_record(path)
    if record is not None and (record.variant, record.arch) != (variant, arch):
        raise BadInput(
            f"{path}: the record of {record.variant} {record.arch.value}",
            wanted=f"that of {variant} {arch.value}",
            do=f"invoke build --variant {variant} --arch {arch.value}",
        )
    return record
