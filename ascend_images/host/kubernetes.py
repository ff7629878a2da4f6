"""A run as a Kubernetes pod, whose NPUs a device plugin brings."""

import re

from ascend_images.errors import BadInput
from ascend_images.host.npu_smi import A2, A3, A5, FIRST, P310
from ascend_images.host.plan import RunPlan
from ascend_images.host.request import Mount, size_in_bytes
from ascend_images.host.yaml_text import Value, yaml_text

#: The resource that MindCluster's device plugin offers, by family; for a 950 the one of vllm-ascend's own cluster.
RESOURCES = {
    A2: "huawei.com/Ascend910",
    A3: "huawei.com/Ascend910",
    FIRST: "huawei.com/Ascend910",
    P310: "huawei.com/Ascend310P",
    A5: "huawei.com/npu",
}

_ARCHES = {"x86_64": "amd64", "aarch64": "arm64"}
_RESOURCE = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?", re.ASCII)
_LABEL_LENGTH = 63
_SHM = "shm"


def pod_text(plan: RunPlan, resource: str = "") -> str:
    """Return the manifest of a pod that runs once; `resource` replaces the family's own.

    Raises BadInput for a family without a resource, a name that is none, and options that a pod cannot have.
    """
    pod: dict[str, Value] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": _label(plan.name or plan.title)},
        "spec": _spec(plan, _resource(plan, resource) if plan.count else ""),
    }
    return yaml_text(pod)


def _spec(plan: RunPlan, resource: str) -> dict[str, Value]:
    spec: dict[str, Value] = {
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/arch": _ARCHES[plan.machine]} if plan.machine in _ARCHES else {},
        "hostNetwork": _is_host("--network", plan.network),
        "hostIPC": _is_host("--ipc", plan.ipc),
        "securityContext": _users(plan),
        "containers": [_container(plan, resource)],
        "volumes": [*_volumes(plan), *_memory(plan)],
    }
    return {key: value for key, value in spec.items() if value}


def _container(plan: RunPlan, resource: str) -> dict[str, Value]:
    # Kubernetes puts the value of NAME in for $(NAME), and takes $$ for one $.
    container: dict[str, Value] = {
        "name": _label(plan.title),
        "image": plan.image,
        # `args` leave the image's ENTRYPOINT, which sources CANN's set_env scripts, in place.
        "args": [word.replace("$", "$$") for word in plan.command],
        "env": [{"name": name, "value": value.replace("$", "$$")} for name, value in plan.env.items()],
        "ports": [
            {"containerPort": port, **({} if ports.protocol == "tcp" else {"protocol": ports.protocol.upper()})}
            for ports in plan.ports
            for port in ports.container
        ],
        "resources": {"limits": {resource: plan.count}} if resource else {},
        "securityContext": {"privileged": True} if plan.privileged else {},
        "stdin": plan.interactive,
        "tty": plan.interactive,
        "volumeMounts": [
            *(
                {"name": _volume(number), "mountPath": mount.target, **({"readOnly": True} if mount.read_only else {})}
                for number, mount in enumerate(plan.mounts)
            ),
            *({"name": _SHM, "mountPath": "/dev/shm"} for _ in _memory(plan)),  # noqa: S108 - a mount point, no file
        ],
    }
    return {key: value for key, value in container.items() if value}


def _users(plan: RunPlan) -> dict[str, Value]:
    users: dict[str, Value] = {}
    if plan.user:
        first, *rest = plan.gids or (0,)
        users = {"runAsUser": plan.uid, "runAsGroup": first, "supplementalGroups": rest}
    elif plan.groups:
        users = {"supplementalGroups": list(plan.groups)}
    return {key: value for key, value in users.items() if value or key != "supplementalGroups"}


def _volumes(plan: RunPlan) -> list[Value]:
    return [
        {"name": _volume(number), "hostPath": {"path": mount.source, **_kind(mount)}}
        for number, mount in enumerate(plan.mounts)
    ]


def _kind(mount: Mount) -> dict[str, str]:
    """Return the type of a hostPath: without one a container runtime makes a folder where the path is missing."""
    kinds = {"file": "File", "dir": "Directory"}
    return {"type": kinds[mount.kind]} if mount.kind else {}


def _memory(plan: RunPlan) -> list[Value]:
    """Return the volume that stands for docker's shared memory, if there is to be one."""
    if not plan.shm_size:
        return []
    return [{"name": _SHM, "emptyDir": {"medium": "Memory", "sizeLimit": str(size_in_bytes(plan.shm_size))}}]


def _resource(plan: RunPlan, typed: str) -> str:
    name = typed or RESOURCES.get(plan.family, "")
    if not name:
        raise BadInput(
            "which chips the pod is for is unknown, and so is the name of the resource to ask for",
            wanted="the name that the cluster's device plugin gives it",
            do="kubectl describe nodes | grep huawei.com, then --resource NAME",
        )
    if not _RESOURCE.fullmatch(name):
        raise BadInput(f"--resource {name}", wanted="a resource's full name", do="--resource huawei.com/Ascend910")
    return name


def _is_host(option: str, value: str) -> bool:
    if value not in ("", "host"):
        raise BadInput(f"{option} {value}", wanted=f"{option} host, or none: pods have no other", do="--format docker")
    return value == "host"


def _label(text: str) -> str:
    """Return a DNS label made from a name (RFC 1123): small letters, digits and dashes, at most 63."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:_LABEL_LENGTH].strip("-") or "run"


def _volume(number: int) -> str:
    return f"host-{number}"
