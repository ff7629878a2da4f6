"""The Docker Engine that builds: what it is, whether it is new enough, and how much room it has.

Asked through the `docker` client, since the build goes through it too: so this is the engine that will build, whether
DOCKER_HOST, a docker context or the default socket names it.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from ascend_images.errors import MissingTool
from ascend_images.pins.platform import Arch, parse_arch

# The oldest versions on which the rendered files were built: Docker 26's own frontend is the first tried that takes all
# of their instructions without a `# syntax=` line, and buildx 0.13 the first tried that reads these bake files.
ENGINE_MINIMUM = (26,)
BUILDX_MINIMUM = (0, 13)

WANTED = "Docker Engine 26 or newer with the containerd image store, the docker client, and buildx 0.13 or newer"
START = "scripts/engine.sh start"

# An engine on this machine answers in well under a second; one behind ssh may need to log in first.
_TIMEOUT_SECONDS = 60

#: What only a containerd's data folder holds.
CONTENT = "io.containerd.content.v1.content"


class Answer(NamedTuple):
    """What a command gave: its exit code and its two outputs."""

    code: int
    out: str
    err: str


Run = Callable[[Sequence[str]], Answer]


class ImageStore(StrEnum):
    """Where an engine keeps images; only the first takes attestations and OCI media types."""

    CONTAINERD = "containerd"
    GRAPH_DRIVER = "graph driver"


@dataclass(frozen=True)
class Engine:
    """One Docker Engine as the client sees it.

    `version` and `buildx` are as printed (`26.1.5+dfsg1`); `root` is the engine's data folder, on its own machine;
    `context` is the docker context in use and `endpoint` its address; memory is in bytes. `arch` is None where the
    engine's machine is neither of the two architectures that CANN exists for.
    """

    version: str
    buildx: str
    store: ImageStore
    driver: str
    root: Path
    context: str
    endpoint: str
    arch: Arch | None
    cpus: int
    memory: int

    @property
    def is_local(self) -> bool:
        """Whether it is reached through a socket of this machine, so that its folders may be looked at."""
        return self.endpoint.startswith("unix://")


def run_command(command: Sequence[str]) -> Answer:
    """Run `command` and return what it gave; raises MissingTool if it is not there or does not come back."""
    try:
        done = subprocess.run(
            list(command),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise MissingTool(f"no {command[0]} command on PATH", wanted=WANTED, do=START) from None
    except OSError as error:
        raise MissingTool(
            f"the {command[0]} command does not start: {error.strerror}", wanted=WANTED, do=START
        ) from None
    except subprocess.TimeoutExpired:
        raise MissingTool(
            f"`{' '.join(command[:2])}` did not come back within {_TIMEOUT_SECONDS} s",
            wanted="a Docker Engine that answers",
            do="docker info",
        ) from None
    return Answer(done.returncode, done.stdout, done.stderr)


def docker_command(context: str = "") -> list[str]:
    """Return how the docker client is called for a docker context; the current one when `context` is empty."""
    return ["docker", "--context", context] if context else ["docker"]


def dotted_version(text: str) -> tuple[int, ...] | None:
    """Return the numbers a version begins with (`v0.13.1+ds1` gives 0, 13, 1), or None when there are none."""
    match = re.match(r"v?([0-9]{1,9}(?:\.[0-9]{1,9})*)", text.strip())
    return tuple(int(part) for part in match[1].split(".")) if match else None


def find_engine(*, context: str = "", run: Run = run_command) -> Engine:
    """Return the engine that answers, whatever its version.

    Raises MissingTool when there is no client, when no engine answers it, and when this user may not talk to it.
    """
    docker = docker_command(context)
    answer = run([*docker, "info", "--format", "{{json .}}"])
    info = _json_object(answer.out)
    if not info.get("ServerVersion"):
        raise _no_engine(answer, info)
    client = _table(info.get("ClientInfo"))
    endpoint = run([*docker, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"])
    return Engine(
        version=str(info["ServerVersion"]),
        buildx=_buildx_version(client),
        store=_store(info),
        driver=str(info.get("Driver", "")),
        root=Path(str(info.get("DockerRootDir") or "/var/lib/docker")),
        context=context or str(client.get("Context") or "default"),
        endpoint=endpoint.out.strip() if endpoint.code == 0 else "",
        arch=_arch(str(info.get("Architecture", ""))),
        cpus=_number(info.get("NCPU")),
        memory=_number(info.get("MemTotal")),
    )


def require_engine(*, context: str = "", builder: str = "", run: Run = run_command) -> Engine:
    """Return the engine that will build, checked; raises MissingTool with what to type next.

    With `builder` another buildx builder does the building: then only the client's side is looked at more closely, as
    that builder brings its own BuildKit and image store.
    """
    engine = find_engine(context=context, run=run)
    if not builder:
        _check_engine(engine)
    _check_buildx(engine)
    return engine


def free_bytes(engine: Engine) -> int | None:
    """Return how many bytes an engine on this machine can still write; None when its disk is not this machine's.

    Layers are unpacked by containerd, whose folder may lie on another disk than the engine's own: the smaller counts.
    """
    if not engine.is_local:
        return None
    known = [free for folder in data_folders(engine.root) if (free := _free_of(folder)) is not None]
    return min(known, default=None)


def data_folders(root: Path) -> list[Path]:
    """Return the folders an engine with the data folder `root` writes image data to.

    A containerd that the engine runs itself keeps its data inside that folder, one that runs beside it (the Debian
    packages' in /var/lib/containerd, this project's own) in a sibling.
    """
    beside = root.parent / "containerd"
    try:
        return [root, beside] if (beside / CONTENT).exists() else [root]
    except PermissionError:
        return [root]


def _json_object(text: str) -> dict[str, Any]:
    try:
        return _table(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _no_engine(answer: Answer, info: Mapping[str, Any]) -> MissingTool:
    said = " ".join([*map(str, _list(info.get("ServerErrors"))), answer.err]).strip().splitlines()
    last = said[-1].strip() if said else f"exit code {answer.code}, no output"
    if "permission denied" in last.lower():
        return MissingTool(
            f"a Docker Engine is there, but this user may not talk to it: {last}",
            wanted="a user in the group docker, or root",
            do='sudo usermod -aG docker "$USER" (then log in again)',
        )
    if answer.code == 0 and info and "ServerVersion" not in info:
        return MissingTool(
            "the docker command does not answer as Docker's does (is it podman's?)", wanted=WANTED, do=START
        )
    return MissingTool(f"no Docker Engine answers: {last}", wanted=WANTED, do=START)


def _buildx_version(client: Mapping[str, Any]) -> str:
    for plugin in map(_table, _list(client.get("Plugins"))):
        if plugin.get("Name") == "buildx" and not plugin.get("Err"):
            return str(plugin.get("Version", ""))
    return ""


def _store(info: Mapping[str, Any]) -> ImageStore:
    """Return the kind of store; the engine says `driver-type` in `docker info` for a containerd snapshotter only."""
    pairs = [pair for pair in _list(info.get("DriverStatus")) if isinstance(pair, list) and len(pair) == 2]
    snapshotter = any(key == "driver-type" and "containerd.snapshotter" in str(value) for key, value in pairs)
    return ImageStore.CONTAINERD if snapshotter else ImageStore.GRAPH_DRIVER


def _arch(machine: str) -> Arch | None:
    return parse_arch(machine) if machine in {arch.kernel for arch in Arch} else None


def _check_engine(engine: Engine) -> None:
    version = dotted_version(engine.version)
    if version is None or version < ENGINE_MINIMUM:
        raise MissingTool(
            f"Docker Engine {engine.version} is too old (context {engine.context})",
            wanted=WANTED,
            do="upgrade that engine, or name a newer one: docker context use NAME",
        )
    if engine.store is not ImageStore.CONTAINERD:
        raise MissingTool(
            f"Docker Engine {engine.version} keeps images in its {engine.driver} graph driver",
            wanted="the containerd image store: without it images have no attestations and other digests",
            do='add {"features": {"containerd-snapshotter": true}} to its /etc/docker/daemon.json and restart it',
        )


def _check_buildx(engine: Engine) -> None:
    version = dotted_version(engine.buildx)
    if version is None or version < BUILDX_MINIMUM:
        raise MissingTool(
            f"buildx {engine.buildx} is too old" if version else "the docker client has no buildx plugin",
            wanted="buildx 0.13 or newer",
            do="install it: apt-get install docker-buildx (Debian, Ubuntu) or docker-buildx-plugin (Docker's packages)",
        )


def _free_of(folder: Path) -> int | None:
    """Return the free bytes where `folder` is; an engine's folder is often closed to users, its parent is not."""
    for place in (folder, *folder.parents):
        try:
            return shutil.disk_usage(place).free
        except PermissionError:
            continue
        except OSError:  # not on this machine at all: an engine in a virtual machine behind a local socket
            return None
    return None
