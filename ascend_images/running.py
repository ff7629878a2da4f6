"""From the words of `invoke run` to a container, or to the text that makes one elsewhere."""

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import docker

from ascend_images.errors import BadInput, MissingTool, unknown
from ascend_images.host import request as asked
from ascend_images.host.chips import chips_of, family_by_tag
from ascend_images.host.compose import compose_text
from ascend_images.host.connect import connect, is_local
from ascend_images.host.devices import NONE, device_numbers, require_readable
from ascend_images.host.docker_command import docker_text, docker_words
from ascend_images.host.driver import driver_text, judge
from ascend_images.host.engine import ENGINE_NEXT, engine_facts
from ascend_images.host.facts import EngineFacts, HostFacts
from ascend_images.host.gather import local, remote
from ascend_images.host.image import Image, family_of_image, look_at
from ascend_images.host.kubernetes import pod_text
from ascend_images.host.npu_smi import UNKNOWN
from ascend_images.host.plan import RunPlan, plan_pod, plan_run
from ascend_images.host.ports import parse_ports
from ascend_images.host.request import RunRequest
from ascend_images.host.workspace import require_writable
from ascend_images.images.publish import image_name
from ascend_images.pins.model import Pins
from ascend_images.pins.platform import Arch, host_arch, parse_arch
from ascend_images.pins.tags import ImageRef
from ascend_images.pins.variant import Variant
from ascend_images.planning import name_suffix
from ascend_images.selection import Selection, select

Say = Callable[[str], None]
Execute = Callable[[str, list[str]], Any]

DOCKER, COMPOSE, KUBERNETES = "docker", "compose", "k8s"
FORMATS = (DOCKER, COMPOSE, KUBERNETES)


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """The options of `invoke run` as typed, and the words after `--`.

    `sandbox` means the image that was built with stand-ins. `form` is one of FORMATS; only a docker command is run, and
    only when `show` does not ask to see it instead. `host_root` is the folder that stands for the host's file system.
    """

    variants: Sequence[str] = ()
    sets: Sequence[str] = ()
    image: str = ""
    sandbox: bool = False
    devices: str = ""
    user: str = ""
    groups: Sequence[str] = ()
    mounts: Sequence[str] = ()
    env: Sequence[str] = ()
    workspace: str = ""
    name: str = ""
    network: str = ""
    ports: Sequence[str] = ()
    ipc: str = ""
    shm_size: str = ""
    privileged: bool = False
    show: bool = False
    form: str = DOCKER
    resource: str = ""
    host_root: str = "/"
    command: Sequence[str] = ()

    @property
    def runs(self) -> bool:
        """Whether a container is started."""
        return self.form == DOCKER and not self.show


def run(root: Path, wishes: Wishes, *, say: Say, execute: Execute = os.execvp) -> str:
    """Start the container in place of this process, or return the text that was asked for instead.

    docker takes over the terminal and the signals, and its exit code, which is the command's, becomes this process's.
    Raises BadInput for options that cannot be meant, MissingTool where the host or its engine lacks something.
    """
    if wishes.form not in FORMATS:
        raise unknown("format", wishes.form, FORMATS)
    if wishes.resource and wishes.form != KUBERNETES:
        raise BadInput(f"--resource {wishes.resource} --format {wishes.form}", wanted="--format k8s")
    require_readable(wishes.devices.strip())
    variant, selection = _variant(root, wishes)
    client = _client(wishes, say)
    here = client is None or is_local(client)
    plan = _plan(wishes, variant, selection, client, here=here)
    for note in plan.notes:
        say(f"note: {note}")
    if wishes.form == KUBERNETES:
        return pod_text(plan, wishes.resource)
    if here:
        _require_folders(plan, wishes)
    if wishes.form == COMPOSE:
        return compose_text(plan)
    if wishes.show:
        return docker_text(plan)
    sys.stdout.flush()
    try:
        execute("docker", docker_words(plan))
    except FileNotFoundError:
        raise MissingTool("no docker command on PATH", wanted="the docker client", do="invoke doctor") from None
    return ""


def _plan(
    wishes: Wishes,
    variant: Variant | None,
    selection: Selection,
    client: docker.DockerClient | None,
    *,
    here: bool,
) -> RunPlan:
    pins = selection.pins
    has_npus = wishes.devices.strip() != NONE
    reference = wishes.image
    if reference:
        image = look_at(client, reference, wishes.user, for_chip=has_npus)
    else:
        reference, image = _own_image(wishes, variant, selection, client)
    request = _request(wishes, variant, pins, reference, image)
    if image.is_missing and wishes.runs and not wishes.image:
        raise MissingTool(
            f"{reference} is not built here",
            wanted="that, or its published tag pulled to this engine, or --image REF, which docker pulls",
            do=_build_command(wishes),
        )
    host = _host(wishes, client, reference, here=here)
    if has_npus and wishes.form != KUBERNETES:
        _require_npus(wishes, host)
    family = chips_of(host).family
    notes = []
    if image.is_missing and wishes.form != KUBERNETES:
        notes.append(_missing_note(wishes, reference))
    if has_npus and request.family == UNKNOWN:
        notes.append(f"for which chips {reference} is, is unknown: no label, SOC_VERSION, image.json or tag tells it")
    if variant and has_npus:
        verdict = judge(variant.cann, driver_text(host), family, pins)
        if verdict.state == "unsupported":
            notes.append(f"driver {verdict.found}: {verdict.why}; wanted: {verdict.wanted}")
    if wishes.form == KUBERNETES:
        plan = plan_pod(request, host, image.passwd, family)
    else:
        plan = plan_run(request, host, engine_facts(client) if client else EngineFacts(), image.passwd, family)
    return replace(plan, notes=(*notes, *plan.notes))


def _client(wishes: Wishes, say: Say) -> docker.DockerClient | None:
    """Return the engine, without which a container cannot be started, but a command can be shown."""
    try:
        return connect()
    except MissingTool as error:
        if wishes.runs:
            raise MissingTool(error.found, wanted=error.wanted, do=ENGINE_NEXT) from None
        if wishes.form != KUBERNETES:
            say(f"note: {error.found}; which devices other containers hold could not be seen")
        return None


def _variant(root: Path, wishes: Wishes) -> tuple[Variant | None, Selection]:
    """Return the variant, None where only an image is named; raises BadInput unless one of them is."""
    if len(wishes.variants) > 1 or not (wishes.variants or wishes.image):
        names = " and ".join(f"--variant {name}" for name in wishes.variants) or "no variant is named"
        raise BadInput(names, wanted="one --variant, or an --image", do="invoke variants")
    everything = not wishes.variants
    chosen = select(root, tuple(wishes.variants), everything=everything, sets=tuple(wishes.sets), allow_broken=True)
    return (None if everything else chosen.variants[0]), chosen


def _own_image(
    wishes: Wishes, variant: Variant | None, selection: Selection, client: docker.DockerClient | None
) -> tuple[str, Image]:
    """Return the variant's image for the engine's architecture as `invoke build` leaves it, with its name.

    Where there is none, it is the one that was pulled by the published tag, if the engine has that.
    """
    if variant is None:
        raise BadInput("no variant is named", wanted="one --variant, or an --image")
    arch = parse_arch(client.info()["Architecture"]) if client else host_arch()
    if arch not in variant.platforms:
        declared = ", ".join(platform.value for platform in variant.platforms)
        raise BadInput(f"variant {variant.name} is not built for {arch.value}", wanted=f"an engine on {declared}")
    suffix = name_suffix(selection, variant, sandbox=wishes.sandbox)
    built = image_name(variant, suffix, arch)
    image = look_at(client, built, wishes.user)
    if image.is_missing:
        published = f"{variant.repository}:{variant.tag}{suffix}"
        pulled = look_at(client, published, wishes.user)
        if not pulled.is_missing:
            return published, pulled
    return built, image


def _request(wishes: Wishes, variant: Variant | None, pins: Pins, reference: str, image: Image) -> RunRequest:
    ImageRef.parse(reference)
    family = family_of_image(image, reference) if wishes.image else UNKNOWN
    if variant and family == UNKNOWN:
        family = family_by_tag(variant.chip.cann_tag)
    own = next((arch.kernel for arch in Arch if reference.endswith(f"-{arch.kernel}")), "")
    return RunRequest(
        image=reference,
        title=variant.name if variant else "run",
        family=family,
        machine=image.machine or (own if variant else ""),
        siblings=_siblings(variant, pins),
        image_user=image.user,
        devices=wishes.devices.strip(),
        user=wishes.user,
        groups=asked.parse_groups(wishes.groups),
        mounts=tuple(asked.parse_mount(text) for text in wishes.mounts),
        ports=tuple(parse_ports(text) for text in wishes.ports),
        env=asked.parse_env(wishes.env),
        workspace=str(Path(wishes.workspace).expanduser().absolute()) if wishes.workspace else "",
        name=wishes.name,
        network=wishes.network,
        ipc=wishes.ipc,
        shm_size=wishes.shm_size,
        privileged=wishes.privileged,
        interactive=sys.stdin.isatty() and sys.stdout.isatty(),
        command=tuple(wishes.command),
    )


def _siblings(variant: Variant | None, pins: Pins) -> dict[str, str]:
    """Return the variants of the same stack for other chips, by family; the plainest of several."""
    found: dict[str, str] = {}
    for name, entry in sorted(pins.variant.items(), key=lambda item: (len(item[0]), item[0]), reverse=True):
        if variant and entry.stack == variant.stack and entry.hardware != variant.hardware:
            found[family_by_tag(pins.hardware[entry.hardware].cann_tag)] = name
    return found


def _host(wishes: Wishes, client: docker.DockerClient | None, reference: str, *, here: bool) -> HostFacts:
    """Return the facts of the machine that will run the container; none are needed for one without NPUs."""
    if wishes.devices.strip() == NONE:
        return HostFacts()
    if here:
        return local(asked.host_folder(wishes.host_root))
    # A pod runs on the nodes of a cluster, which a remote engine's machine tells no more of than this one.
    return HostFacts() if client is None or wishes.form == KUBERNETES else remote(client, reference)


def _missing_note(wishes: Wishes, reference: str) -> str:
    """Say what becomes of an image that the engine lacks: docker asks its registry for it.

    A variant's is what `invoke build` leaves on the engine; under that name no registry may have it.
    """
    if wishes.image:
        return f"{reference} is not on this engine, so docker pulls it; docker images lists those that are here"
    return f"{reference} is not built here: {_build_command(wishes)}"


def _build_command(wishes: Wishes) -> str:
    words = [word for name in wishes.variants for word in ("--variant", name)]
    words += ["--sandbox"] if wishes.sandbox else []
    words += [word for text in wishes.sets for word in ("--set", text)]
    return f"invoke build {shlex.join(words)}"


def _require_npus(wishes: Wishes, host: HostFacts) -> None:
    """Raise MissingTool for a text that names a host's devices and driver where there is no such host."""
    if wishes.runs or device_numbers(host):
        return
    what = "a Compose file" if wishes.form == COMPOSE else "a docker command"
    raise MissingTool(
        f"this host has no NPU (no /dev/davinciN), and {what} names the device nodes and driver files of its host",
        wanted="the host that it is for, or a form that needs none: --format k8s",
        do="type it on that host, or DOCKER_HOST=ssh://user@host before it, or --devices none",
    )


def _require_folders(plan: RunPlan, wishes: Wishes) -> None:
    """Raise BadInput for folders of this machine that were named and cannot be used."""
    asked.require_sources(asked.parse_mount(text) for text in wishes.mounts)
    if wishes.workspace:
        require_writable(str(Path(wishes.workspace).expanduser().absolute()), plan.uid, plan.gids)
