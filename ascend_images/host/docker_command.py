"""A run as a docker command: words for a process, and one line for a shell."""

import shlex

from ascend_images.host.plan import RunPlan
from ascend_images.host.request import Mount


def docker_words(plan: RunPlan) -> list[str]:
    """Return the command word by word; the container is removed when it ends."""
    words = ["docker", "run", "--rm"]
    if plan.interactive:
        words.append("-it")
    for option, value in [
        ("--name", plan.name),
        ("--runtime", plan.runtime),
        *(("--device", _device(device.host, device.container)) for device in plan.devices),
        *(("--group-add", str(group)) for group in plan.groups),
        ("--user", plan.user),
        *(("--mount", _mount(mount)) for mount in plan.mounts),
        *(("-e", f"{name}={value}") for name, value in plan.env.items()),
        ("--shm-size", plan.shm_size),
        ("--network", plan.network),
        ("--ipc", plan.ipc),
    ]:
        if value:
            words += [option, value]
    if plan.privileged:
        words.append("--privileged")
    return [*words, plan.image, *plan.command]


def docker_line(plan: RunPlan) -> str:
    """Return the command as one line that sh and bash run unchanged."""
    return shlex.join(docker_words(plan))


def _device(host: str, container: str) -> str:
    return host if host == container else f"{host}:{container}"


def _mount(mount: Mount) -> str:
    """Return a bind as `--mount` takes it: unlike `-v`, it makes no folder where the source is missing."""
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
    return ",".join(map(_csv, fields + (["readonly"] if mount.read_only else [])))


def _csv(field: str) -> str:
    """Return a field of the comma-separated line that docker reads there (Go's encoding/csv)."""
    return '"' + field.replace('"', '""') + '"' if any(sign in field for sign in ',"\n\r') else field
