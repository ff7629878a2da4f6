"""A run as a Compose file."""

from ascend_images.host.plan import RunPlan
from ascend_images.host.yaml_text import Value, yaml_text


def compose_text(plan: RunPlan) -> str:
    """Return a Compose file with the container of a plan as its one service."""
    return yaml_text({"services": {service_name(plan.title): _literal(_service(plan))}})


def service_name(title: str) -> str:
    """Return a name that Compose takes, made from any other: letters, digits, dots, dashes and underscores."""
    return "".join(sign if sign.isascii() and (sign.isalnum() or sign in "._-") else "-" for sign in title)


def _service(plan: RunPlan) -> dict[str, Value]:
    service: dict[str, Value] = {
        "image": plan.image,
        "container_name": plan.name,
        "runtime": plan.runtime,
        "user": plan.user,
        "group_add": [str(group) for group in plan.groups],
        "devices": [f"{device.host}:{device.container}" for device in plan.devices],
        "environment": plan.env,
        "volumes": [
            {
                "type": "bind",
                "source": mount.source,
                "target": mount.target,
                **({"read_only": True} if mount.read_only else {}),
                "bind": {"create_host_path": False},
            }
            for mount in plan.mounts
        ],
        "shm_size": plan.shm_size,
        "network_mode": plan.network,
        "ports": [str(ports) for ports in plan.ports],
        "ipc": plan.ipc,
        "privileged": plan.privileged,
        "stdin_open": plan.interactive,
        "tty": plan.interactive,
        "command": list(plan.command),
    }
    return {key: value for key, value in service.items() if value}


def _literal(value: Value) -> Value:
    """Return the value with every `$` doubled: Compose puts variables in for a single one."""
    if isinstance(value, str):
        return value.replace("$", "$$")
    if isinstance(value, dict):
        return {key: _literal(item) for key, item in value.items()}
    return [_literal(item) for item in value] if isinstance(value, list) else value
