"""Checks: NPUs in the container, the host's driver, and whether this user may use them."""

from __future__ import annotations

from collections.abc import Sequence

from ..answers import NOT_LIVE, Given, Said, check, failed, not_run, passed, unknown, variant_option
from ..facts.npu import VISIBLE, npu_numbers
from ..words import INSTALL_ROOT, Facts, count, few

NO_NPU = "no NPU here (no /dev/davinci*)"
DRIVER_LIBRARIES = f"{INSTALL_ROOT}/driver/lib64"


def nodes(given: Given) -> list[int]:
    """Return the numbers of the NPUs that have a node in the container."""
    return npu_numbers(given.facts["devices"]["nodes"])


def asked(given: Given) -> list[int]:
    """Return the numbers of the NPUs that were asked for: of check.py, or of whoever started the container."""
    wanted: list[int] = given.facts["asked"]["devices"] or given.facts.get("container", {}).get("asked", [])
    return wanted


def required(given: Given) -> bool:
    """Tell whether NPUs were insisted on, of check.py or of whoever started the container; naming some does too."""
    outside = given.facts.get("container", {}).get("npu_required", False)
    return bool(given.facts["asked"]["require"] or outside or asked(given))


def davinci(numbers: Sequence[int]) -> str:
    """Return NPUs in words: davinci0, davinci1."""
    return ", ".join(f"davinci{number}" for number in numbers)


def mounts(given: Given) -> str:
    """Return how a container gets what NPUs need: what prints its start, or who it was started by looks at its host."""
    if given.reference:
        return "see what this host has for containers, and what it lacks: invoke doctor"
    option = variant_option(given)
    if option:
        return f"start the container as this prints it: invoke run{option} --print"
    named = "with IMAGE set to its image, which docker ps names, start the container as this prints it"
    return f'{named}: invoke run --image "$IMAGE" --print'


def because_of(given: Given, *checks: str) -> Said | None:
    """Return `not run` with the first finding of the checks named, None where they found nothing."""
    for name in checks:
        for _, said in given.failures(name):
            return not_run("", f"because of {name}: {said.subject}")
    return None


def hindered(given: Given, *checks: str) -> Said | None:
    """Return why a question to NPUs cannot be asked: nothing runs here, an earlier finding, or there is none."""
    if not given.facts["live"]:
        return NOT_LIVE
    because = because_of(given, "visibility", "npu", *checks)
    if because is not None:
        return because
    return None if nodes(given) else not_run("", NO_NPU)


def visible_entries(given: Given) -> list[str]:
    """Return every value of ASCEND_VISIBLE_DEVICES, in order: a container's configuration may hold several.

    A process sees one of them only, so more than one is known where somebody looked from outside.
    """
    configured: list[str] = given.facts.get("container", {}).get("env", [])
    found = [entry.partition("=")[2] for entry in configured if entry.partition("=")[0] == VISIBLE]
    own = given.facts["devices"]["visible"].get(VISIBLE)
    return found or ([own] if own is not None else [])


@check(
    "visibility",
    "Does ASCEND_VISIBLE_DEVICES name NPUs, and are they there?",
    "Let one component alone write ASCEND_VISIBLE_DEVICES, never the image, and start the container with Ascend Docker "
    "Runtime or with --device for each node.",
)
def check_visibility(given: Given) -> list[Said]:
    """Several components wrote the variable, the last entry was empty and the runtime mounted nothing (HAMi#2954).

    Without Ascend Docker Runtime the variable mounts nothing either.
    """
    if not given.facts["live"]:
        return [NOT_LIVE]
    found, here, wanted = visible_entries(given), nodes(given), asked(given)
    if not found:
        return [passed(VISIBLE, "not set")] if here else [not_run("", NO_NPU)]
    effective = found[-1].strip()
    listed = ", ".join(value or "(empty)" for value in found)
    several = f"{len(found)} entries: {listed}" if len(found) > 1 else "1 entry"
    if here:
        shown = effective or "(empty)"
        return [passed(VISIBLE, f"{shown}; warning: {several}; the last one counts" if len(found) > 1 else shown)]
    if effective.lower() == "void" and not wanted:
        return [not_run(VISIBLE, "void: no NPU was wanted")]
    mounted = f"; 0 nodes of {len(wanted)} asked for" if wanted else ""
    if not effective:
        then = "see what sets it: the image's ENV, docker's -e, a device plugin; the last entry counts"
        text = f"its effective value is empty ({several}){mounted}"
        return [failed(VISIBLE, text, "one entry that names NPUs, or none", then)]
    then = f"is the Ascend runtime in use (docker run --runtime=ascend)? An image must not set it; {mounts(given)}"
    text = f"asked for {effective} ({several}), none mounted{mounted}"
    return [failed(VISIBLE, text, f"a node for {effective}", then)]


@check(
    "npu",
    "Is there an NPU where one is insisted on?",
    "Run it on a host with NPUs and give the container their nodes, or do not insist: leave out --require-npu.",
)
def check_npu(given: Given) -> list[Said]:
    """An image that nobody ran on an NPU is not known to work; where that is asked for, silence must not pass."""
    if not given.facts["live"]:
        return [NOT_LIVE]
    here = nodes(given)
    if here:
        return [passed("", davinci(here))]
    because = because_of(given, "visibility")
    if because is not None:
        return [because]
    if not required(given):
        return [not_run("", NO_NPU)]
    wanted = asked(given)
    then = "run this on a host with NPUs (invoke doctor)" if given.reference else f"on a host with NPUs {mounts(given)}"
    if wanted:
        return [failed("/dev/davinci*", f"{NO_NPU}: 0 of {count(len(wanted), 'NPU')}", davinci(wanted), then)]
    return [failed("/dev/davinci*", NO_NPU, "an NPU, as --require-npu insists", then)]


@check(
    "driver-mounted",
    "Are the host's driver libraries mounted where there is an NPU?",
    "Start the container with the host's /usr/local/Ascend/driver/lib64 mounted, and with the driver's version.info.",
)
def check_driver_mounted(given: Given) -> list[Said]:
    """A container with nodes but without the driver's libraries cannot import torch_npu (vllm-ascend#1440).

    They never come with an image: nothing is wrong with it then.
    """
    hindrance = hindered(given)
    if hindrance is not None:
        return [hindrance]
    files = given.facts["driver_files"]
    if not given.facts["driver"]:
        there = DRIVER_LIBRARIES in files["paths"]
        what = f"{DRIVER_LIBRARIES} holds no libascend_hal.so" if there else f"there is no {DRIVER_LIBRARIES}"
        wanted = f"the host's driver in {DRIVER_LIBRARIES}"
        return [failed("driver", f"host driver libraries not mounted: {what}", wanted, mounts(given))]
    version = driver_version(files)
    if version:
        return [passed("driver", version)]
    # The default mounts of Ascend Docker Runtime leave this file out.
    found = "its libraries are mounted, its version.info is not: what reads that cannot tell which driver this is"
    return [unknown("driver", found, f"mount {INSTALL_ROOT}/driver/version.info as well")]


def driver_version(files: Facts) -> str:
    """Return the driver's version by its version.info; where the file has both, package_version is the full one."""
    return str(files["version"].get("package_version") or files["version"].get("version", ""))


@check(
    "device-access",
    "May this user read and write the NPUs' nodes, and does HCCL find it in /etc/passwd?",
    "Add the group that owns the nodes (--group-add), or build an image whose /etc/passwd has the user.",
)
def check_device_access(given: Given) -> list[Said]:
    """Nodes are 0660 and owned by the driver's user: others get no NPU (vllm-ascend#9490).

    HCCL's start over several cards fails for a user without a passwd entry.
    """
    hindrance = hindered(given)
    if hindrance is not None:
        return [hindrance]
    user, answers = given.facts["user"], []
    closed: dict[tuple[int, int, int], list[str]] = {}
    for node in given.facts["devices"]["nodes"]:
        if not node["usable"]:
            closed.setdefault((node["mode"], node["uid"], node["gid"]), []).append(node["path"])
    who = f"uid {user['uid']} (groups {', '.join(map(str, sorted({user['gid'], *user['groups']})))})"
    for (mode, uid, gid), paths in sorted(closed.items()):
        may_group = mode & 0o060 == 0o060
        then = f"--group-add {gid}" if may_group else f"--user {uid}"
        answers.append(
            failed(
                few(paths),
                f"{who} may not read and write: mode {mode:04o}, owner {uid}:{gid}",
                "read and write",
                f"start the container with {then}, or as root",
            )
        )
    if not user["name"] and len(nodes(given)) > 1:
        answers.append(
            failed(
                f"uid {user['uid']}",
                f"no passwd entry, and {count(len(nodes(given)), 'NPU')}: HCCL's start over several cards needs one",
                f"a passwd entry for uid {user['uid']}",
                f"build an image that has it (RUN useradd --create-home --uid {user['uid']} npu), "
                "or start the container as root",
            )
        )
    return answers or [passed(f"uid {user['uid']}", user["name"])]
