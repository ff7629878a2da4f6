"""What a host offers to containers: device nodes, driver, npu-smi; and what its engine knows of them."""

import msgspec


class Node(msgspec.Struct, frozen=True):
    """A device node: its path on the host, its permission bits (0o660) and the ids that own it."""

    path: str
    mode: int
    uid: int
    gid: int


class Output(msgspec.Struct, frozen=True):
    """What a command gave: its exit code (127: it could not be started, 124: no end in time) and its text."""

    code: int
    text: str


class HostFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A host as it was seen; nothing is judged here.

    `root` is where the host's file system was looked at (`/`, or a directory that stands for it); every path below is
    the host's own. `nodes` are the NPUs' and their managers', `paths` which of the driver's known files and directories
    exist ("file" or "dir"). `driver`, `firmware` and `install` are the lines of version.info and ascend_install.info,
    keys in lower case, empty where there is no such file. `npu_smi` is where npu-smi lies, `info` and `mapping` what
    `npu-smi info` and `npu-smi info -m` gave, `boards` what `npu-smi info -t board` gave by NPU id.
    """

    root: str = "/"
    machine: str = ""
    nodes: tuple[Node, ...] = ()
    paths: dict[str, str] = {}
    driver: dict[str, str] = {}
    firmware: dict[str, str] = {}
    install: dict[str, str] = {}
    npu_smi: str = ""
    info: Output | None = None
    mapping: Output | None = None
    boards: dict[str, Output] = {}


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """A running container, as far as NPUs go: device paths on the host, the effective ASCEND_VISIBLE_DEVICES."""

    name: str
    devices: tuple[str, ...] = ()
    visible: str = ""
    privileged: bool = False


class EngineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the Docker Engine of a host knows: its runtimes, the default one, the containers that run now."""

    runtimes: tuple[str, ...] = ()
    default_runtime: str = ""
    containers: tuple[Container, ...] = ()
