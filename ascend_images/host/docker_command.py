"""A run as a docker command: words for a process, and text for a shell."""

import shlex

from ascend_images.host.plan import RunPlan
from ascend_images.host.request import Mount


def docker_words(plan: RunPlan) -> list[str]:
    """Return the command word by word; the container is removed when it ends."""
    return [word for line in _lines(plan) for word in line]


def docker_text(plan: RunPlan) -> str:
    """Return the command as text that sh and bash run unchanged, an option a line."""
    return " \\\n  ".join(map(shlex.join, _lines(plan))) + "\n"


def _lines(plan: RunPlan) -> list[list[str]]:
    """Return the words of the command, those together that belong together."""
    options = [
        ("--name", plan.name),
        ("--runtime", plan.runtime),
        *(("--device", _device(device.host, device.container)) for device in plan.devices),
        *(("--group-add", str(group)) for group in plan.groups),
        ("--user", plan.user),
        *(("--mount", _mount(mount)) for mount in plan.mounts),
        *(("-e", f"{name}={value}") for name, value in plan.env.items()),
        ("--shm-size", plan.shm_size),
        ("--network", plan.network),
        *(("--publish", str(ports)) for ports in plan.ports),
        ("--ipc", plan.ipc),
    ]
    return [
        ["docker", "run", "--rm", *(["-it"] if plan.interactive else [])],
        *([option, value] for option, value in options if value),
        *([["--privileged"]] if plan.privileged else []),
        [plan.image, *plan.command],
    ]


def _device(host: str, container: str) -> str:
    return host if host == container else f"{host}:{container}"


def _mount(mount: Mount) -> str:
    """Return a bind as `--mount` takes it: unlike `-v`, it makes no folder where the source is missing."""
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
    return ",".join(map(_csv, fields + (["readonly"] if mount.read_only else [])))


def _csv(field: str) -> str:
    """Return a field of the comma-separated line that docker reads there (Go's encoding/csv)."""
    return '"' + field.replace('"', '""') + '"' if any(sign in field for sign in ',"\n\r') else field
