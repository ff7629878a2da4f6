"""Freezes an image that somebody else built: its packages as a lock, the rest as the start of a stack."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker

from ascend_images.errors import AscendImagesError, BadInput
from ascend_images.files import write_atomic
from ascend_images.host.connect import connect, plainly
from ascend_images.images.plan import BUILD_FOLDER
from ascend_images.images.system import packages_in_engine
from ascend_images.pins import load
from ascend_images.pins.lockfile import LockFile, file_name, inputs_hash
from ascend_images.pins.model import Pins
from ascend_images.pins.platform import parse_platform
from ascend_images.pins.resolve import resolve
from ascend_images.selection import PINS_FILE
from ascend_images.verify.checkouts import files_of
from ascend_images.verify.container import Files, Observed, observe
from ascend_images.verify.freeze import Frozen, freeze, stack_text
from ascend_images.verify.verification import document_of

#: Inputs of a lock that answers no pins: those of its stack do not resolve yet.
NO_INPUTS = f"sha256:{'0' * 64}"
# Facts of an image without its pins: nothing of it is imported but torch, and nothing is judged.
_NO_PINS = b'{"schema": 1}'
_PINS_FILE = "no-pins.json"
# Seconds; what takes longest is reading every file that packages own.
_LIMIT = 900.0


@dataclass(frozen=True, kw_only=True)
class Written:
    """The files of one freeze, and what a person ought to look at."""

    stack: Path
    lock: Path
    system: Path | None
    frozen: Frozen


def freeze_image(
    root: Path, reference: str, name: str = "", *, platform: str = "", say: Callable[[str], None]
) -> Written:
    """Look at an image, and write what it is below `build/freeze/<name>`; versions.toml is not touched.

    Raises BadInput for an image that cannot be had or looked at, for a platform that is none, for a name that is taken
    and one that was frozen before, whose files somebody may have filled in;
    LookupIncomplete where a registry gives no answer, MissingTool where no engine does.
    """
    pins = load.load(root / PINS_FILE)
    own = new_name(name, reference, pins)
    require_new(root, own, pins)
    wanted = parse_platform(platform).platform if platform else ""
    client = connect()
    say(f"looking at {reference}")
    seen, facts = look(client, reference, wanted)
    with plainly(), files_of(client, seen.digest) as read:
        made = freeze(reference, seen.digest, parse_platform(seen.platform), facts, seen.config, read, pins)
    made.review[:0] = _own(seen)
    return write(root, made, own, pins, packages_in_engine(seen.digest))


def look(client: docker.DockerClient, reference: str, platform: str = "") -> tuple[Observed, dict[str, Any]]:
    """Return what a container of the image showed, and its facts; raises BadInput where those could not be gathered."""
    files = Files(words=lambda inner: ("--image-json", inner.path(_PINS_FILE)), beside=lambda _: {_PINS_FILE: _NO_PINS})
    seen = observe(client, reference, files, platform=platform, limit=_LIMIT)
    facts = document_of(seen.document).get("facts")
    if not isinstance(facts, dict) or facts["python"]["error"]:
        said = seen.output.strip().splitlines()[-1:] or ["it wrote nothing"]
        how = "did not end in time" if seen.timed_out else f"ended with {seen.exit}"
        raise BadInput(
            f"{reference} cannot be looked at: check.py {how} in it: {said[0]}",
            wanted="an image of this machine's architecture with a python3 (3.9 or newer) on its PATH",
            do=f"docker run --rm {reference} python3 --version",
        )
    return seen, facts


def new_name(name: str, reference: str, pins: Pins) -> str:
    """Return what the stack and its variant will be called; raises BadInput for a name that is taken or none."""
    taken = _taken(pins)
    if name:
        if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", name):
            raise BadInput(f"--name {name}", wanted="lower-case letters, digits and ._-, at most 64, the first no sign")
        if name.lower() in taken:
            raise BadInput(f"--name {name}: a stack or a variant is called that", wanted="another name")
        return name
    last = reference.partition("@")[0].rpartition("/")[2].partition(":")[0]
    plain = "frozen-" + (re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")[:40] or "image")
    number = 1
    own = plain
    while own in taken:
        number += 1
        own = f"{plain}-{number}"
    return own


def require_new(root: Path, name: str, pins: Pins) -> None:
    """Raise BadInput where the files of an earlier freeze lie at a name: what was filled in there is not undone."""
    if not os.path.lexists(_folder(root, name)):
        return
    taken = _taken(pins)
    number = 2
    while os.path.lexists(_folder(root, f"{name}-{number}")) or f"{name}-{number}" in taken:
        number += 1
    shown = _folder(root, name).relative_to(root)
    raise BadInput(
        f"{shown} is there already, of an earlier freeze",
        wanted="another --name: what was filled in there would be lost",
        do=f"--name {name}-{number}; or rm -r {shown}",
    )


def _folder(root: Path, name: str) -> Path:
    return root / BUILD_FOLDER / "freeze" / name


def _taken(pins: Pins) -> set[str]:
    taken = {one.lower() for one in (*pins.stack, *pins.variant)}
    return taken | {alias.lower() for entry in pins.variant.values() for alias in entry.aliases}


def write(root: Path, made: Frozen, name: str, pins: Pins, system: dict[str, str] | None = None) -> Written:
    """Write stack, lock and the list of the operating system's packages of what was found."""
    folder = _folder(root, name)
    text = stack_text(made, name, pins)
    write_atomic(folder / "stack.toml", text)
    lock = folder / "locks" / file_name(name, made.arch)
    write_atomic(lock, _lock_text(_lock(root, made, name, text), made))
    listed = folder / "system.txt" if system else None
    if listed is not None and system:
        write_atomic(listed, "".join(f"{package} {version}\n" for package, version in system.items()))
    return Written(stack=folder / "stack.toml", lock=lock, system=listed, frozen=made)


def told(written: Written, root: Path) -> str:
    """Return what is printed of a freeze: what was found, where it lies, what to look at, what to do next."""
    made = written.frozen
    files = [written.stack, written.lock, *([written.system] if written.system else [])]
    what = (f"CANN {made.cann}", made.hardware or "hardware unknown", made.os, f"Python {made.python}", made.arch.value)
    counts = (
        f"{len(made.packages)} packages, {len(made.pinned)} of them pinned",
        f"{len(made.sources)} sources",
        f"{len(made.conflicts)} demands not met",
        f"{len(made.env)} settings",
    )
    lines = [
        f"{made.reference}: {', '.join(what)}",
        f"  {'; '.join(counts)}",
        *(f"  {path.relative_to(root)}" for path in files),
    ]
    if made.review:
        lines += ["look at:", *(f"  - {line}" for line in made.review)]
    lines += _next(written, root)
    return "\n".join(lines)


def _next(written: Written, root: Path) -> list[str]:
    stack, name = written.stack.relative_to(root), written.stack.parent.name
    # A stack that lacks something stops every command that reads the file, those for other variants too.
    filled = f"fill in what is listed above in {stack}, then append it" if written.frozen.review else f"append {stack}"
    kept = "it keeps these versions where they fit, and learns the hashes"
    return [
        f"next: {filled} to {PINS_FILE}; invoke check --variant {name}",
        f"      copy {written.lock.relative_to(root)} to locks/; invoke lock --variant {name}: {kept}",
    ]


def _own(seen: Observed) -> list[str]:
    """Return what is to be said of an image that this project made: it knows its pins itself."""
    variant = document_of(seen.own.image).get("variant", "")
    if not variant:
        return []
    return [f"it was made by this project, as {variant}: its /opt/ascend-images/image.json says every pin"]


def _lock_text(lock: LockFile, made: Frozen) -> str:
    """Return the text of the lock, whose first line says what made it: not `invoke lock`."""
    _, _, rest = str(lock).partition("\n")
    return f"# Made by: invoke freeze --image {made.reference} --name {lock.variant}\n{rest}"


def _lock(root: Path, made: Frozen, name: str, text: str) -> LockFile:
    """Return the lock; it answers the stack's pins where those resolve as they stand."""
    inputs = NO_INPUTS
    try:
        whole = f"{(root / PINS_FILE).read_text(encoding='utf-8')}\n{text}"
        inputs = inputs_hash(resolve(load.parse(whole, PINS_FILE), name, allow_broken=True), made.arch)
    except AscendImagesError as error:
        why = error.found.replace("\n", "; ")
        made.review.append(f"the stack does not resolve as it stands, so its lock answers no pins: {why}")
    return LockFile(
        variant=name,
        arch=made.arch,
        python=made.python,
        inputs=inputs,
        incomplete=made.gaps,
        conflicts=made.conflicts,
        packages=made.locked,
    )
