"""Hosts, engines and requests for the tests of `invoke run`, each as plain facts."""

from pathlib import Path
from typing import Any

from ascend_images.host.facts import Container, EngineFacts, HostFacts, Node, Output
from ascend_images.host.request import RunRequest

SAMPLES = Path(__file__).parent / "data" / "npu-smi"
OWNER = 1000

DRIVER = "/usr/local/Ascend/driver"
FILES = {
    f"{DRIVER}/lib64": "dir",
    f"{DRIVER}/version.info": "file",
    "/usr/local/dcmi": "dir",
    "/usr/local/bin/npu-smi": "file",
    "/etc/ascend_install.info": "file",
}
MANAGERS = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")

PASSWD = """\
root:x:0:0:root:/root:/bin/bash
nobody:x:65534:65534::/nonexistent:/bin/false
ann:x:1100:1100::/home/ann:/bin/sh
"""


def nodes(*paths: str, mode: int = 0o660, uid: int = OWNER, gid: int = OWNER) -> tuple[Node, ...]:
    return tuple(Node(path=path, mode=mode, uid=uid, gid=gid) for path in paths)


def host(count: int = 1, *, without: str = "", paths: dict[str, str] | None = None, **more: Any) -> HostFacts:
    """A host with `count` chips and everything that C01's probe shows, less one path."""
    names = [*(f"/dev/davinci{number}" for number in range(count)), *MANAGERS]
    found = FILES if paths is None else paths
    facts: dict[str, Any] = {
        "nodes": nodes(*(name for name in names if name != without)),
        "paths": {path: kind for path, kind in found.items() if path != without},
        "npu_smi": "/usr/local/bin/npu-smi" if "/usr/local/bin/npu-smi" in found else "",
    }
    return HostFacts(**{**facts, **more})


def a5_host() -> HostFacts:
    """A host with a 950: its bus is a node and a folder of nodes, and it has no /dev/devmm_svm."""
    files = {**FILES, DRIVER: "dir", "/etc/hixlep": "dir", "/lib/route.conf": "file"}
    paths = ("/dev/davinci0", "/dev/davinci_manager", "/dev/hisi_hdc", "/dev/ummu", "/dev/uburma/udma0")
    return host(paths=files, nodes=nodes(*paths))


def sample(name: str) -> Output:
    """What `npu-smi info` gave on a recorded host."""
    return Output(code=0, text=(SAMPLES / f"{name}.txt").read_text(encoding="utf-8"))


def engine(*held: tuple[str, int], runtimes: tuple[str, ...] = ("runc",), default: str = "runc") -> EngineFacts:
    """An engine whose containers, by name, each hold one device."""
    containers = tuple(Container(name=name, devices=(f"/dev/davinci{number}",)) for name, number in held)
    return EngineFacts(runtimes=runtimes, default_runtime=default, containers=containers)


def request(**more: Any) -> RunRequest:
    return RunRequest(**{"image": "demo:a2", "title": "a2", "family": "A2", "devices": "0", **more})
