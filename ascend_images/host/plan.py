"""The plan of a run: from what was asked and what the host offers to one container, or to the reason why there is none.

Every form of it (a docker command, a Compose file, a pod, a container of the Docker SDK) is made from the same plan.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from docker.types import Mount as DockerMount

from ascend_images.errors import BadInput
from ascend_images.host import workspace
from ascend_images.host.access import Identity, groups_needed, identify, require_passwd_entry
from ascend_images.host.devices import NONE, choose_devices, device_numbers, devices_in_pod
from ascend_images.host.engine import ASCEND, VISIBLE
from ascend_images.host.facts import EngineFacts, HostFacts
from ascend_images.host.needs import driver_files, nodes_for, opened_nodes
from ascend_images.host.npu_smi import UNKNOWN
from ascend_images.host.ports import Ports, require_own_network
from ascend_images.host.request import Mount, RunRequest, size_in_bytes

# As in the docker run lines of vllm-ascend: docker's own 64 MB end at the first data loader with workers.
_SHM_SIZE = "1g"


@dataclass(frozen=True)
class Device:
    """A device node, or a directory of them: its path on the host and its path in the container."""

    host: str
    container: str


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """One container in full.

    `numbers` are N of each /dev/davinciN it gets, `count` how many that are (in a pod the scheduler chooses which).
    `runtime` is `ascend` where it must be named. `uid` and `gids` say who the user is by number, as far as it is known.
    `notes` are for people: what was left out and what nobody could tell.
    """

    title: str
    image: str
    machine: str = ""
    family: str = UNKNOWN
    numbers: tuple[int, ...] = ()
    count: int = 0
    devices: tuple[Device, ...] = ()
    mounts: tuple[Mount, ...] = ()
    groups: tuple[int, ...] = ()
    user: str = ""
    uid: int = 0
    gids: tuple[int, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    runtime: str = ""
    shm_size: str = ""
    network: str = ""
    ports: tuple[Ports, ...] = ()
    ipc: str = ""
    name: str = ""
    privileged: bool = False
    interactive: bool = False
    command: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def plan_run(
    request: RunRequest, host: HostFacts, engine: EngineFacts, passwd: str | None, family: str = UNKNOWN
) -> RunPlan:
    """Return the plan of a container on this host.

    `passwd` is the text of the image's /etc/passwd, None where it could not be read; `family` the host's chip family.
    Raises BadInput and MissingTool for what cannot work; the plan never has more rights than were asked for.
    """
    if request.devices != NONE:
        _require_fit(request, host, family)
    chips = family if family != UNKNOWN else request.family
    numbers, notes = choose_devices(request.devices, host, engine, chips)
    paths = nodes_for(numbers, host, chips) if numbers else ()
    # A directory that stands for a host is known to no runtime.
    by_runtime = bool(numbers) and host.root == "/" and ASCEND in (engine.default_runtime, *engine.runtimes)
    files, missing = driver_files(host, chips, by_runtime=by_runtime) if numbers else ((), ())
    who = identify(request.user or request.image_user, passwd)
    groups = groups_needed(who, opened_nodes(paths, host), request.groups)
    notes = (*notes, *missing, *_unknown(request, family, len(numbers)), require_passwd_entry(who, len(numbers)))
    return RunPlan(
        **_common(request, who, groups),
        family=chips,
        numbers=numbers,
        count=len(numbers),
        devices=() if by_runtime else tuple(Device(_at(host, path), path) for path in paths),
        mounts=_mounts(request, who, (replace(file, source=_at(host, file.source)) for file in files)),
        groups=groups,
        env={**_environment(request), **({VISIBLE: ",".join(map(str, numbers))} if by_runtime else {})},
        runtime=ASCEND if by_runtime and engine.default_runtime != ASCEND else "",
        shm_size=request.shm_size or (_SHM_SIZE if numbers and not request.ipc else ""),
        notes=tuple(note for note in notes if note),
    )


def plan_pod(request: RunRequest, host: HostFacts, passwd: str | None, family: str = UNKNOWN) -> RunPlan:
    """Return the plan of a pod, whose devices a device plugin brings, with the driver's libraries and npu-smi.

    It may be made on any machine: the files that device plugins leave out and the group of the nodes are told by this
    host where it has NPUs, and a note says so where it has none. Raises BadInput as `plan_run` does.
    """
    present = device_numbers(host)
    chips = request.family if request.family != UNKNOWN else family
    count = devices_in_pod(request.devices, chips, present)
    if count and present:
        _require_fit(request, host, family)
    files, missing = driver_files(host, chips, by_runtime=True) if count and present else ((), ())
    who = identify(request.user or request.image_user, passwd)
    nodes = [f"/dev/davinci{number}" for number in present] if count else []
    groups = groups_needed(who, opened_nodes(nodes, host), request.groups)
    notes = (*missing, *_of_pods(request, who, count, present), require_passwd_entry(who, count))
    return RunPlan(
        **_common(request, who, groups),
        family=chips,
        count=count,
        mounts=_mounts(request, who, files),
        groups=groups,
        env=_environment(request),
        shm_size=request.shm_size or (_SHM_SIZE if count and not request.ipc else ""),
        notes=tuple(note for note in notes if note),
    )


def container_arguments(plan: RunPlan) -> dict[str, Any]:
    """Return the plan as arguments of the Docker SDK's `containers.create`."""
    words: dict[str, Any] = {
        "image": plan.image,
        "command": list(plan.command) or None,
        "name": plan.name or None,
        "devices": [f"{device.host}:{device.container}:rwm" for device in plan.devices],
        "mounts": [DockerMount(m.target, m.source, type="bind", read_only=m.read_only) for m in plan.mounts],
        "group_add": list(plan.groups),
        "user": plan.user or None,
        "environment": dict(plan.env),
        "runtime": plan.runtime or None,
        "shm_size": plan.shm_size or None,
        "network": plan.network or None,
        "ports": _host_ports(plan.ports),
        "ipc_mode": plan.ipc or None,
        "privileged": plan.privileged,
        "tty": plan.interactive,
        "stdin_open": plan.interactive,
    }
    return {name: value for name, value in words.items() if value not in (None, [], {}, False)}


def _host_ports(ports: Iterable[Ports]) -> dict[str, Any]:
    """Return ports as the Docker SDK takes them: for each of the container's, those of the host."""
    found: dict[str, list[Any]] = {}
    for one in ports:
        for inside, outside in zip(one.container, one.host, strict=True):
            place = (one.address, outside) if one.address and outside else (one.address,) if one.address else outside
            found.setdefault(f"{inside}/{one.protocol}", []).append(place)
    return dict(found)


def _common(request: RunRequest, who: Identity, groups: Iterable[int]) -> dict[str, Any]:
    """What a plan takes from the request as it is."""
    if request.shm_size:
        size_in_bytes(request.shm_size)
    require_own_network(request.ports, request.network)
    return {
        "title": request.title,
        "image": request.image,
        "machine": request.machine,
        "user": request.user,
        "uid": who.uid,
        "gids": tuple(dict.fromkeys([*([] if who.gid is None else [who.gid]), *groups])),
        "network": request.network,
        "ports": request.ports,
        "ipc": request.ipc,
        "name": request.name,
        "privileged": request.privileged,
        "interactive": request.interactive,
        "command": request.command,
    }


def _require_fit(request: RunRequest, host: HostFacts, family: str) -> None:
    """Raise BadInput for an image made for other chips than the host's, or for another architecture."""
    if UNKNOWN not in (request.family, family) and request.family != family:
        sibling = request.siblings.get(family, "")
        raise BadInput(
            f"{request.image} is for {request.family}, and the chips of this host are {family}",
            wanted=f"an image for {family}",
            do=f"invoke run --variant {sibling}" if sibling else "invoke variants",
        )
    if request.machine and host.machine and request.machine != host.machine:
        raise BadInput(
            f"{request.image} is for {request.machine}, and this host is {host.machine}: an emulator reaches no NPU",
            wanted=f"an image for {host.machine}",
            do="invoke run without --image, or --devices none",
        )


def _mounts(request: RunRequest, who: Identity, files: Iterable[Mount]) -> tuple[Mount, ...]:
    """Return the driver's files, the workspace and what was typed, which wins over the driver's files."""
    for mount in request.mounts:
        if not who.is_root and (mount.target == "/root" or mount.target.startswith("/root/")):
            raise BadInput(
                f"--mount {mount.source}:{mount.target}: user {who.uid} may not enter /root",
                wanted="another folder in the container",
                do=f"--workspace {mount.source}, which is for models and caches",
            )
    own = [*([workspace.workspace_mount(request.workspace)] if request.workspace else []), *request.mounts]
    targets = [mount.target.rstrip("/") for mount in own]
    twice = next((target for target in targets if targets.count(target) > 1), "")
    if twice:
        raise BadInput(f"two mounts have the target {twice}", wanted="one mount for each target")
    return (*(file for file in files if file.target not in targets), *own)


def _environment(request: RunRequest) -> dict[str, str]:
    return {**(workspace.ENVIRONMENT if request.workspace else {}), **request.env}


def _unknown(request: RunRequest, family: str, devices: int) -> list[str]:
    """Return notes on what nobody could tell of a container with NPUs, and on rights it was given."""
    notes = []
    if devices and family == UNKNOWN:
        taken = "" if request.family == UNKNOWN else f"; {request.family} is assumed, which the image is for"
        notes.append(f"the chip family of this host is unknown{taken}")
    if request.privileged:
        notes.append("--privileged gives the container every device of the host, also those of other containers")
    return notes


def _of_pods(request: RunRequest, who: Identity, count: int, present: tuple[int, ...]) -> list[str]:
    notes = []
    if request.ports:
        first = request.ports[0].first
        notes.append(f"a pod opens no port of its node: a Service, or kubectl port-forward pod/NAME {first}")
    if count and request.devices:
        notes.append(f"the cluster's scheduler chooses which {count} NPUs the pod gets")
    if count and not present:
        notes.append("this machine has no NPU: what files of a node's driver the pod needs besides could not be seen")
        if not who.is_root:
            notes.append(f"the group of the nodes, which user {who.uid} needs, could not be seen: --group-add GID")
    return notes


def _at(host: HostFacts, path: str) -> str:
    """Return where a path of the host lies for the engine: below the directory that stands for a host, if one does."""
    return path if host.root == "/" else f"{host.root.rstrip('/')}{path}"
