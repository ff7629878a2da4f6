"""What is asked of a run: the image, its NPUs, its user, its mounts; and the words of a command line, read."""

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ascend_images.errors import BadInput
from ascend_images.host.engine import VISIBLE
from ascend_images.host.npu_smi import UNKNOWN
from ascend_images.host.ports import Ports
from ascend_images.inside.words import device_numbers

_SIZE = re.compile(r"([1-9][0-9]{0,11})([bkmg]?)b?", re.IGNORECASE | re.ASCII)
_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_GROUP = re.compile(r"[0-9]{1,10}", re.ASCII)
_MOUNT_WANTED = "SOURCE:TARGET or SOURCE:TARGET:ro, both absolute (./ and ~ may begin the source)"


@dataclass(frozen=True)
class Mount:
    """A file or folder of the host in the container: its path there, its path in the container.

    `kind` is "file" or "dir", empty where nobody has looked.
    """

    source: str
    target: str
    read_only: bool = True
    kind: str = ""


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What was asked, before the host is looked at.

    `title` names what is run for people (`a2`). `family` is the chip family the image is for and `machine` its
    architecture by the kernel's name; both empty or `unknown` where nothing tells. `siblings` are the variants that
    would fit other families. `image_user` is the image's own USER. `devices` are N of /dev/davinciN as typed: `0,2-3`,
    `all`, `none`, or empty for one card. `workspace` is a folder of the host for models and caches.
    """

    image: str
    title: str = "run"
    family: str = UNKNOWN
    machine: str = ""
    siblings: Mapping[str, str] = field(default_factory=dict)
    image_user: str = ""
    devices: str = ""
    user: str = ""
    groups: tuple[int, ...] = ()
    mounts: tuple[Mount, ...] = ()
    ports: tuple[Ports, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    workspace: str = ""
    name: str = ""
    network: str = ""
    ipc: str = ""
    shm_size: str = ""
    privileged: bool = False
    interactive: bool = False
    command: tuple[str, ...] = ()


def parse_devices(text: str) -> tuple[int, ...]:
    """Return the device numbers of `0,2-3`, each once, in their order; raises BadInput for anything else."""
    numbers = device_numbers(text)
    if numbers is None:
        raise BadInput(
            f"--devices {text}",
            wanted="numbers of /dev/davinciN such as 0,1 or 0-3, or all, or none",
            do="invoke doctor",
        )
    return numbers


def parse_mount(text: str) -> Mount:
    """Return the mount that `SOURCE:TARGET[:ro|:rw]` means, or the same as Docker writes it: `type=bind,source=…`.

    A source alone has the same path in the container. As with Docker, what is typed may be written to unless it says
    `ro`. Raises BadInput for another form, and for the name of a volume, which could be a folder forgotten to be
    written as one.
    """
    mount = _from_keys(text) if text.startswith("type=") else _from_colons(text)
    if not mount.target.startswith("/") or "\0" in mount.target:
        raise BadInput(f'--mount "{text}": the target is no absolute path', wanted=_MOUNT_WANTED)
    return mount


def require_sources(mounts: Iterable[Mount]) -> None:
    """Raise BadInput for a typed mount whose source this machine has not; only to be asked where it is the host."""
    for mount in mounts:
        if not Path(mount.source).exists():
            # An empty folder is no help to who is only to read in it.
            named = f"--mount FOLDER:{shlex.quote(mount.target)}:ro, with the folder that holds it"
            raise BadInput(
                f"--mount {mount.source}:{mount.target}: there is no {mount.source}",
                wanted="a file or folder that is there",
                do=named if mount.read_only else f"mkdir -p {shlex.quote(mount.source)}",
            )


def host_folder(text: str) -> str:
    """Return the absolute path of the folder that stands for a host's file system; raises BadInput if it is none."""
    path = Path(text).expanduser().absolute()
    if not path.is_dir():
        raise BadInput(
            f"--host-root {text}: there is no such folder",
            wanted="a folder with the host's dev, etc and usr in it, or / for this machine",
            do="--host-root /",
        )
    return str(path)


def parse_env(texts: Iterable[str]) -> dict[str, str]:
    """Return the variables of `NAME=VALUE` words; raises BadInput for another form and for the device selector."""
    variables: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or name != name.strip():
            raise BadInput(f'--env "{text}"', wanted="NAME=VALUE", do="--env HCCL_CONNECT_TIMEOUT=600")
        if name == VISIBLE:
            raise BadInput(
                f"--env {name} would be a second word on which devices the container gets",
                wanted="the devices by their own option, which sets it where it is needed",
                do=f"--devices {value or 'none'}",
            )
        variables[name] = value
    return variables


def parse_groups(texts: Iterable[str]) -> tuple[int, ...]:
    """Return the group ids typed, each once; raises BadInput for a name, whose id only the image would know."""
    for text in texts:
        if not _GROUP.fullmatch(text):
            raise BadInput(f'--group-add "{text}"', wanted="a group's number", do="ls -ln /dev/davinci0")
    return tuple(dict.fromkeys(int(text) for text in texts))


def size_in_bytes(text: str) -> int:
    """Return the bytes of a size as Docker writes it (`64m`, `1g`); raises BadInput."""
    match = _SIZE.fullmatch(text)
    if not match:
        raise BadInput(f"--shm-size {text}", wanted="a number and b, k, m or g", do="--shm-size 16g")
    return int(match[1]) * _BYTES[match[2].lower()]


def _from_colons(text: str) -> Mount:
    source, *rest = text.split(":")
    mode = rest.pop() if rest and rest[-1] in ("ro", "rw") else "rw"
    if len(rest) > 1:
        raise BadInput(f'--mount "{text}"', wanted=_MOUNT_WANTED)
    path = _source(source, text)
    return Mount(path, rest[0] if rest else path, mode == "ro")


def _from_keys(text: str) -> Mount:
    keys = {"src": "source", "dst": "target", "destination": "target", "ro": "readonly"}
    pairs = [word.partition("=") for word in text.split(",")]
    values = {keys.get(key, key): value for key, _, value in pairs}
    if values.pop("type") != "bind" or not {"source", "target"} <= set(values) <= {"source", "target", "readonly"}:
        raise BadInput(f'--mount "{text}"', wanted="type=bind,source=…,target=…[,readonly]")
    read_only = values.get("readonly", "false").lower() in ("", "true", "1")
    return Mount(_source(values["source"], text), values["target"], read_only)


def _source(source: str, text: str) -> str:
    if not source.startswith(("/", "./", "../", "~")) and source not in (".", ".."):
        raise BadInput(f'--mount "{text}": "{source}" is no path', wanted=_MOUNT_WANTED, do=f"--mount ./{text}")
    return os.path.abspath(os.path.expanduser(source))  # noqa: PTH100, PTH111 - resolving would follow links as well
