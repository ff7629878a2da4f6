"""What a Docker Engine knows of NPUs: its runtimes, and which running container was given which devices."""

from collections.abc import Collection, Mapping
from pathlib import PurePosixPath
from typing import Any

import docker
from docker.errors import DockerException, NotFound

from ascend_images.errors import MissingTool
from ascend_images.host.facts import Container, EngineFacts

#: The name under which the vendor's installer registers Ascend Docker Runtime, and its program.
ASCEND = "ascend"
_PROGRAM = "ascend-docker-runtime"

#: What to type where no engine answers, for commands whose engine is docker's own.
ENGINE_NEXT = "docker version, or set DOCKER_HOST"

VISIBLE = "ASCEND_VISIBLE_DEVICES"


def engine_facts(client: docker.DockerClient) -> EngineFacts:
    """Return the runtimes and the running containers of an engine; raises MissingTool when it does not answer."""
    try:
        info = client.api.info()
        runtimes = info.get("Runtimes") or {}
        default = str(info.get("DefaultRuntime") or "")
        ascend = {name for name, runtime in runtimes.items() if _is_ascend(name, runtime)}
        containers = [_container(client, one["Id"], ascend, default) for one in client.api.containers()]
    except (DockerException, OSError) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise MissingTool(
            f"the Docker Engine did not say which containers run: {said[-1]}",
            wanted="a Docker Engine that answers this user",
            do="docker ps",
        ) from None
    return EngineFacts(
        runtimes=tuple(sorted(runtimes)),
        default_runtime=default,
        containers=tuple(sorted((one for one in containers if one), key=lambda one: one.name)),
    )


def last_visible(environment: list[str]) -> str:
    """Return the effective ASCEND_VISIBLE_DEVICES of a container's Env list: the last entry counts, also if empty.

    Several components may each have written one (https://github.com/Project-HAMi/HAMi/issues/2954).
    """
    values = [line.partition("=")[2] for line in environment if line.startswith(f"{VISIBLE}=")]
    return values[-1].strip() if values else ""


def _container(client: docker.DockerClient, identity: str, ascend: Collection[str], default: str) -> Container | None:
    """Return a container, None for one that has ended since it was listed; `ascend` are Ascend's runtimes by name.

    Its visibility variable means nothing to any other runtime.
    """
    try:
        seen = client.api.inspect_container(identity)
    except NotFound:
        return None
    host = seen.get("HostConfig") or {}
    reads_visible = (host.get("Runtime") or default) in ascend
    return Container(
        name=str(seen.get("Name") or identity[:12]).lstrip("/"),
        devices=tuple(str(device.get("PathOnHost")) for device in host.get("Devices") or ()),
        visible=last_visible((seen.get("Config") or {}).get("Env") or []) if reads_visible else "",
        privileged=bool(host.get("Privileged")),
    )


def _is_ascend(name: str, runtime: Any) -> bool:
    """Whether a runtime is Ascend's: by the name the vendor's installer gives it, or by its program."""
    path = str(runtime.get("path") or "") if isinstance(runtime, Mapping) else ""
    return name == ASCEND or PurePosixPath(path).name == _PROGRAM
