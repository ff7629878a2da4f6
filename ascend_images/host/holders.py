"""Who holds a busy NPU.

An NPU belongs to one ordinary container at a time; a process of a user other than root in another mount namespace
counts as one and takes all NPUs (vendor manual, Atlas 200I A2 24.1.RC3, installation guide). The driver then answers
others with -8005 or -8020, which usually means that, but not always
(https://github.com/vllm-project/vllm-ascend/issues/2698).
"""

import re
from collections.abc import Sequence

import msgspec

from ascend_images.host.facts import Container, EngineFacts, Output
from ascend_images.host.npu_smi import parse

#: The driver's codes for a device that it does not let this process have.
BUSY_CODES = (-8005, -8020)

_VISIBLE = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")


class Busy(msgspec.Struct, frozen=True):
    """A device that somebody else has, or may have: in words what was found, what was wanted, and what to do."""

    subject: str
    found: str
    wanted: str
    next: str


def holder_of(device: int, engine: EngineFacts, root: str = "/") -> str:
    """Return the name of the running container that was given /dev/davinci<device>; empty where there is none.

    `root` is where the host's file system was looked at: devices of another root are other devices.
    A privileged container was given every device and may use none, so that it is not named here: see `suspects`.
    """
    return next((one.name for one in engine.containers if _was_given(device, one, root)), "")


def suspects(engine: EngineFacts) -> tuple[str, ...]:
    """Return the names of the privileged containers, which may use any device."""
    return tuple(one.name for one in engine.containers if one.privileged)


def busy_code(output: Output | None) -> str:
    """Return the line of npu-smi's output, on the host or in a container, that says a device is busy, or nothing."""
    errors = parse(output.text).errors if output else ()
    return next((error.line for error in errors if error.code in BUSY_CODES), "")


def find_busy(
    devices: Sequence[int], engine: EngineFacts | None, *outputs: Output | None, root: str = "/"
) -> tuple[Busy, ...]:
    """Return who is in the way of a container that wants `devices`; nothing where nobody is known to be.

    `outputs` are what npu-smi gave, on the host or in the container. With a busy code in one of them and no holder the
    answer is that none was found; what the code usually means is not stated as a fact.
    """
    held: dict[str, list[int]] = {}
    for device in devices:
        if engine and (name := holder_of(device, engine, root)):
            held.setdefault(name, []).append(device)
    line = next((line for output in outputs if (line := busy_code(output))), "")
    if held or not line:
        return tuple(_held(numbers, name) for name, numbers in held.items())
    return (_no_holder(devices, engine, line),)


def _held(devices: Sequence[int], name: str) -> Busy:
    subject = f"NPU {','.join(map(str, devices))}"
    return Busy(
        subject,
        f"{subject} {'is' if len(devices) == 1 else 'are'} in use by container {name}",
        "NPUs that no other container holds",
        f"take others, or end that container: docker stop {name}",
    )


def _no_holder(devices: Sequence[int], engine: EngineFacts | None, line: str) -> Busy:
    nodes = " ".join(f"/dev/davinci{device}" for device in devices) or "/dev/davinci*"
    privileged = ", ".join(suspects(engine)) if engine else ""
    unseen = "" if engine else " (no engine answered, so its containers are not known)"
    return Busy(
        "busy NPU",
        f"npu-smi says {line!r}, which usually means that something else uses the NPU; holder not found{unseen}",
        "an NPU that nothing else holds",
        f"look at two things: processes that have the node open (sudo fuser -v {nodes}), and containers that this "
        f"engine does not tell of: {f'privileged ones ({privileged}), ' if privileged else ''}another engine's or "
        "Kubernetes' (sudo crictl ps)",
    )


def _was_given(device: int, container: Container, root: str) -> bool:
    if f"{root.rstrip('/')}/dev/davinci{device}" in container.devices:
        return True
    return any(low <= device <= high for low, high in _visible(container.visible))


def _visible(text: str) -> list[tuple[int, int]]:
    """Return the ranges of `0-2,4`; `void` and what is no number give none."""
    matches = (_VISIBLE.fullmatch(part.strip()) for part in text.split(","))
    return [(int(match[1]), int(match[2] or match[1])) for match in matches if match]
