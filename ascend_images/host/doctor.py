"""What a host's facts mean for running NPU containers, line by line: what is well, what is wrong, what nobody knows."""

import stat
from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

from ascend_images.errors import BadInput, MissingTool
from ascend_images.host.access import Identity, groups_needed
from ascend_images.host.chips import HostChips, chips_of, family_by_tag
from ascend_images.host.devices import device_numbers
from ascend_images.host.driver import Verdict, driver_text, judge, judge_firmware
from ascend_images.host.engine import ASCEND
from ascend_images.host.facts import EngineFacts, HostFacts, Output
from ascend_images.host.holders import busy_code, find_busy, holder_of
from ascend_images.host.needs import driver_files, nodes_for
from ascend_images.host.npu_smi import UNKNOWN
from ascend_images.inside.words import visible
from ascend_images.pins.model import Pins
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant


class State(StrEnum):
    """What a line says of its subject; `not here` is for what a host need not have, and unknown is never ok."""

    OK = "ok"
    PROBLEM = "problem"
    UNKNOWN = "unknown"
    ABSENT = "not here"


class Line(msgspec.Struct, frozen=True):
    """One line of a doctor: its state, about what, what was found, what was wanted, and the next step."""

    state: State
    subject: str
    found: str
    wanted: str = ""
    next: str = ""


class User(msgspec.Struct, frozen=True):
    """Who asks: uid and gid, and all groups."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a host is examined for: a variant's images, some devices, a user; each may be missing.

    `inside` is what npu-smi gave in a container that was to have the devices.
    """

    pins: Pins
    variant: Variant | None = None
    devices: tuple[int, ...] = ()
    user: User | None = None
    inside: Output | None = None


def examine(facts: HostFacts, engine: EngineFacts | None, asked: Question) -> tuple[Line, ...]:
    """Return what a host is like for its NPUs; nothing is raised whatever the facts hold.

    A host with no trace of NPUs gets one line, `not here`: images are built on such hosts. It is a problem where
    devices are asked for, and where a driver is installed that brings no nodes.
    """
    if not _has_traces(facts):
        return (_nothing(asked),)
    chips = chips_of(facts)
    lines = (
        *_nodes(facts, chips, asked),
        *_libraries(facts, chips),
        *_permissions(facts, asked.user),
        _npu_smi(facts, chips),
        *_family(chips, asked.variant),
        *_machine(facts, asked.variant),
        *_health(chips),
        *_driver(facts, chips, asked),
        *_holders(facts, engine, asked),
        *_runtime(engine),
    )
    return tuple(map(_visible, lines))


def _visible(line: Line) -> Line:
    """Return a line as a terminal may have it: what npu-smi prints and what containers are called may hold anything."""
    found, wanted, then = map(visible, (line.found, line.wanted, line.next))
    return Line(line.state, visible(line.subject), found, wanted, then)


def _nothing(asked: Question) -> Line:
    found = "no /dev/davinciN, no driver, no npu-smi"
    if asked.devices:
        wanted = ", ".join(f"/dev/davinci{number}" for number in asked.devices)
        return Line(State.PROBLEM, "NPU", found, wanted, "use a host with NPUs, or install their driver (Ascend HDK)")
    return Line(State.ABSENT, "NPU", found, next="images can be built here, and run on an Atlas host")


def _has_traces(facts: HostFacts) -> bool:
    return bool(facts.nodes or facts.driver or facts.install or facts.npu_smi)


def _nodes(facts: HostFacts, chips: HostChips, asked: Question) -> Iterator[Line]:
    """Ask for the nodes of the chips, those that were asked for above all, and of their managers."""
    numbers = device_numbers(facts)
    subject = "NPU nodes"
    if not numbers:
        installed = bool(facts.driver or facts.install)
        found = "no /dev/davinciN" + (", though a driver is installed" if installed else "")
        then = "sudo dmesg | grep -i davinci" if installed else "install the NPU's driver and firmware (Ascend HDK)"
        yield Line(State.PROBLEM, subject, found, "a node for each chip, which the driver makes", then)
        return
    family = chips.family
    if family == UNKNOWN and asked.variant:
        family = _family_of(asked.variant)
    try:
        nodes_for(asked.devices or numbers, facts, family)
    except MissingTool as error:
        then = "the driver makes them: npu-smi info, and sudo dmesg | grep -i davinci"
        yield Line(State.PROBLEM, subject, error.found, error.wanted, then)
    else:
        yield Line(State.OK, subject, f"{len(numbers)} chips: davinci{_ranges(numbers)}, and their managers'")


def _libraries(facts: HostFacts, chips: HostChips) -> Iterator[Line]:
    """Ask for the driver's libraries, which containers get from the host: no image holds them."""
    try:
        driver_files(facts, chips.family)
    except MissingTool as error:
        then = "reinstall the driver (Ascend HDK), or mend Driver_Install_Path_Param in /etc/ascend_install.info"
        yield Line(State.PROBLEM, "driver files", error.found, error.wanted, then)


def _permissions(facts: HostFacts, user: User | None) -> Iterator[Line]:
    """Ask whether this user may open the nodes; containers that run as root may in any case."""
    if user is None or not facts.nodes:
        return
    subject = "permissions"
    owners = sorted({f"{stat.filemode(stat.S_IFCHR | node.mode)} {node.uid}:{node.gid}" for node in facts.nodes})
    found = f"user {user.uid} may not read and write the nodes ({', '.join(owners)})"
    group = facts.install.get("usergroup", "")
    try:
        needed = groups_needed(Identity(user.uid, user.gid, None), facts.nodes, user.groups)
    except BadInput as error:
        yield Line(State.PROBLEM, subject, error.found, error.wanted, "run as root, as containers do by default")
        return
    missing = [gid for gid in needed if gid not in user.groups]
    if missing:
        name = group or " ".join(map(str, missing))
        wanted = f"membership in group {', '.join(map(str, missing))}{f' ({group})' if group else ''}"
        then = f'sudo usermod -aG {name} "$USER" (then log in again), or run as root, as containers do by default'
        yield Line(State.PROBLEM, subject, found, wanted, then)
    else:
        yield Line(State.OK, subject, f"user {user.uid} may read and write all nodes ({', '.join(owners)})")


def _npu_smi(facts: HostFacts, chips: HostChips) -> Line:
    """Ask whether npu-smi is there and answers; a device that is busy is told by its holder's line alone."""
    subject = "npu-smi"
    folders = [path for path, kind in facts.paths.items() if path.endswith("/npu-smi") and kind == "dir"]
    if not facts.npu_smi and folders:
        found = f"{folders[0]} is a directory, which docker makes for a missing file that is mounted"
        return Line(State.PROBLEM, subject, found, "the driver's program", f"sudo rmdir {folders[0]}")
    if not facts.npu_smi:
        found = "none in /usr/local/bin, /usr/local/sbin, /usr/bin, /usr/sbin or the driver's tools"
        then = "it comes with the driver; what the driver's files tell is used without it"
        return Line(State.UNKNOWN, subject, found, "npu-smi, to ask chips for name and health", then)
    if facts.info is None:
        return Line(State.UNKNOWN, subject, f"{facts.npu_smi}, which was not asked", next=f"{facts.npu_smi} info")
    if busy_code(facts.info):
        return Line(State.UNKNOWN, subject, f"{facts.npu_smi}: the driver refuses it a device (see busy NPU)")
    if facts.info.code == 0 and chips.chips:
        return Line(State.OK, subject, f"{facts.npu_smi} {chips.listing.tool_version}".rstrip())
    return Line(State.PROBLEM, subject, _said(facts.npu_smi, facts.info, chips), "a table of chips", _mend(chips))


def _said(program: str, info: Output, chips: HostChips) -> str:
    """Say how npu-smi ended, with its own last words."""
    ends = {124: "did not come back", 126: "may not be started", 127: "cannot be started", 0: "lists no chip"}
    lines = info.text.strip().splitlines()
    words = next((error.line for error in chips.listing.errors), lines[-1].strip() if lines else "no output")
    return f"{program} info {ends.get(info.code, f'ended with {info.code}')}: {words}"


def _mend(chips: HostChips) -> str:
    return next((error.meaning for error in chips.listing.errors), "sudo dmesg | grep -i davinci, and npu-smi info")


def _family(chips: HostChips, variant: Variant | None) -> Iterator[Line]:
    """Ask which chips these are, and whether they are the variant's."""
    found = f"{chips.family}{f', SoC {chips.soc}' if chips.soc else ''}: {chips.why}"
    subject = "chips"
    if chips.family == UNKNOWN:
        then = "compare with `npu-smi info -t board -i ID`; what a command line or versions.toml states counts anyway"
        yield Line(State.UNKNOWN, subject, found, f"{variant.chip.name}" if variant else "", then)
    elif variant and variant.chip.cann_tag != chips.cann_tag:
        wanted = f"{variant.chip.name} ({_family_of(variant)}), which variant {variant.name} is made for"
        yield Line(State.PROBLEM, subject, found, wanted, "invoke variants lists those for other chips")
    else:
        yield Line(State.OK, subject, found)


def _machine(facts: HostFacts, variant: Variant | None) -> Iterator[Line]:
    """Ask whether the variant has images for this machine's architecture."""
    if variant is None or facts.machine in {arch.kernel for arch in variant.platforms}:
        return
    wanted = " or ".join(arch.kernel for arch in variant.platforms)
    known = facts.machine in {arch.kernel for arch in Arch}
    state = State.PROBLEM if known or facts.machine else State.UNKNOWN
    yield Line(state, "architecture", facts.machine or "not told", wanted, f"variant.{variant.name}.platforms")


def _health(chips: HostChips) -> Iterator[Line]:
    """Ask each chip's health. Chips under Alarm have been seen to work, so that only Critical is a problem."""
    bad = [chip for chip in chips.chips if chip.health.upper() != "OK"]
    for chip in bad:
        which = f"NPU {chip.npu}{f' chip {chip.chip}' if chip.chip is not None else ''}"
        state = State.PROBLEM if chip.health.upper() == "CRITICAL" else State.UNKNOWN
        then = f"npu-smi info -t health -i {chip.npu} names the error codes; chips under Alarm may still work"
        yield Line(state, "health", f"{which} ({chip.name}): {chip.health or 'not told'}", "OK", then)
    if chips.chips and not bad:
        yield Line(State.OK, "health", f"{len(chips.chips)} chips are OK")


def _driver(facts: HostFacts, chips: HostChips, asked: Question) -> Iterator[Line]:
    """Ask the driver's version, against the variant's CANN where there is one, and the firmware's."""
    text = driver_text(facts)
    if asked.variant:
        family = chips.family if chips.family != UNKNOWN else _family_of(asked.variant)
        cann = asked.variant.cann
        then = f"install a driver that CANN {cann} takes, or build for the CANN of this one: [series] in versions.toml"
        yield _judged("driver", judge(cann, text, family, asked.pins), then)
    elif text:
        yield Line(State.OK, "driver", text)
    else:
        found = "neither version.info nor npu-smi tells its version"
        yield Line(State.UNKNOWN, "driver", found, "driver/version.info", "reinstall the driver (Ascend HDK)")
    if facts.firmware or facts.driver.get("compatible_version_fw"):
        yield _judged("firmware", judge_firmware(facts), "install the firmware of the driver's own release")


def _judged(subject: str, verdict: Verdict, then: str) -> Line:
    state = {"supported": State.OK, "unsupported": State.PROBLEM, "unknown": State.UNKNOWN}[verdict.state]
    found = f"{verdict.found}: {verdict.why}"
    return Line(state, subject, found) if state is State.OK else Line(state, subject, found, verdict.wanted, then)


def _holders(facts: HostFacts, engine: EngineFacts | None, asked: Question) -> Iterator[Line]:
    """Ask who holds the devices that are asked for, or that the driver refuses; else tell who holds any."""
    numbers = device_numbers(facts)
    refused = busy_code(facts.info) or busy_code(asked.inside)
    wanted = asked.devices or (numbers if refused else ())
    busy = find_busy(wanted, engine, facts.info, asked.inside, root=facts.root)
    yield from (Line(State.PROBLEM, one.subject, one.found, one.wanted, one.next) for one in busy)
    if busy or not numbers:
        return
    if engine is None:
        then = "invoke doctor, once an engine answers"
        yield Line(State.UNKNOWN, "in use", "no engine answers, so its containers are not known", "", then)
        return
    held = [
        f"NPU {number} by container {name}" for number in numbers if (name := holder_of(number, engine, facts.root))
    ]
    yield Line(State.OK, "in use", ", ".join(held) or "no running container was given an NPU")


def _runtime(engine: EngineFacts | None) -> Iterator[Line]:
    """Ask for Ascend Docker Runtime, which nobody needs."""
    subject = "Ascend Docker Runtime"
    if engine is None:
        return
    if engine.default_runtime == ASCEND:
        yield Line(State.OK, subject, "the engine's default runtime")
    elif ASCEND in engine.runtimes:
        yield Line(State.OK, subject, "there, by --runtime=ascend")
    else:
        yield Line(State.ABSENT, subject, "not registered with the engine; `invoke run` names devices itself")


def _family_of(variant: Variant) -> str:
    """Return npu-smi's word for the chips that a variant is made for."""
    return family_by_tag(variant.chip.cann_tag)


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers in order as `0-7` or `0-3,6`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
