"""Facts of a host that runs NPUs: device nodes, the driver's files, and what npu-smi says; nothing is judged.

The same program looks at this machine (`root` is /), at a directory that stands for a host, and from a container at the
machine of a remote engine, whose directories are mounted below `root`.

Names of nodes and paths: the vendor's list of what Ascend Docker Runtime mounts (hiascend.com, MindCluster), and for
the 950 the containers in the documentation of github.com/vllm-project/vllm-ascend (installation, KV pool).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import stat
import sys
from collections.abc import Sequence
from typing import Any

from . import npu_smi
from .process import NO_END, run
from .tree import Tree

#: Where the driver lies unless /etc/ascend_install.info names another place.
INSTALL_ROOT = "/usr/local/Ascend"
INSTALL_INFO = "/etc/ascend_install.info"
_INSTALL_KEY = "driver_install_path_param"

_NODE = re.compile(r"v?davinci[0-9]{1,6}")
_MANAGERS = (
    "davinci_manager",
    "davinci_manager_docker",
    "devmm_svm",
    "hisi_hdc",
    "xsmem_dev",
    "svm0",
    "ts_aisle",
    "upgrade",
    "event_sched",
    "log_drv",
)
#: The bus between the chips of a 950: a node, or a directory with one for each device.
_BUS = ("ummu", "uburma")

_PATHS = (
    INSTALL_INFO,
    "/etc/hccl_rootinfo.json",
    "/etc/hccn.conf",
    "/etc/hixlep",
    "/lib/route.conf",
    "/usr/bin/urma_admin",
    "/usr/local/dcmi",
    "/var/log/npu",
    "/var/queue_schedule",
)
_DRIVER_PATHS = (
    "driver",
    "driver/include",
    "driver/lib64",
    "driver/tools",
    "driver/tools/hccn_tool",
    "driver/topo",
    "driver/version.info",
    "firmware",
    "firmware/version.info",
)
_NPU_SMI = ("/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi", "/usr/bin/npu-smi", "/usr/sbin/npu-smi")
_DRIVER_LIBRARIES = ("driver/lib64", "driver/lib64/common", "driver/lib64/driver")

# The table of sixteen chips takes some seconds on a busy host; a driver that hangs never answers.
_TIME_LIMIT = 60.0
_CANNOT_START = 127
# Characters of an answer that are kept: the table of sixteen chips with their processes has some ten thousand.
_TEXT_LIMIT = 200_000
# Kinds of chip in one host of which a board is asked: there is one, and a table that names hundreds is none.
_KINDS = 8


def gather(root: str = "/", *, ask: bool = True, limit: float = _TIME_LIMIT) -> dict[str, Any]:
    """Return the facts of the host whose file system is at `root`, with the field names of `HostFacts`.

    `ask`: run npu-smi, each call for at most `limit` seconds. One that is missing, hangs or crashes is a fact like any
    other; a host without anything of all this gives empty fields.
    """
    tree = Tree(root)
    install = _keys(tree, INSTALL_INFO)
    home = install.get(_INSTALL_KEY, "").rstrip("/")
    home = home if home.startswith("/") else INSTALL_ROOT
    programs = [*_NPU_SMI, f"{home}/driver/tools/npu-smi"]
    facts: dict[str, Any] = {
        "root": tree.root,
        "machine": platform.machine(),
        "nodes": _nodes(tree),
        "paths": _existing(tree, [*_PATHS, *(f"{home}/{path}" for path in _DRIVER_PATHS), *programs]),
        "driver": _keys(tree, f"{home}/driver/version.info"),
        "firmware": _keys(tree, f"{home}/firmware/version.info"),
        "install": install,
        "npu_smi": next((path for path in programs if os.path.isfile(tree.at(path))), ""),
    }
    if ask and facts["npu_smi"]:
        facts.update(_NpuSmi(tree, facts["npu_smi"], home, limit).answers())
    return facts


def _nodes(tree: Tree) -> list[dict[str, Any]]:
    """The device nodes, in the order of their names and numbers; a directory that docker made in place of one is none.

    Below another root than / whatever is no directory counts: who makes such a root may not be allowed to make nodes.
    """
    names = [name for name in tree.names("/dev") if _NODE.fullmatch(name) or name in _MANAGERS or name in _BUS]
    names += [f"{folder}/{name}" for folder in _BUS for name in tree.names(f"/dev/{folder}")]
    nodes = []
    for name in sorted(names, key=lambda name: (re.sub("[0-9]+$", "", name), len(name), name)):
        try:
            found = os.stat(tree.at(f"/dev/{name}"))
        except OSError:
            continue
        is_node = stat.S_ISCHR(found.st_mode) if tree.live else not stat.S_ISDIR(found.st_mode)
        if is_node:
            mode = stat.S_IMODE(found.st_mode)
            nodes.append({"path": f"/dev/{name}", "mode": mode, "uid": found.st_uid, "gid": found.st_gid})
    return nodes


def _existing(tree: Tree, paths: Sequence[str]) -> dict[str, str]:
    """Which of the paths lead to something, links followed, as "file" or "dir"."""
    kinds = {}
    for path in paths:
        if tree.is_dir(path):
            kinds[path] = "dir"
        elif tree.exists(path):
            kinds[path] = "file"
    return kinds


def _keys(tree: Tree, path: str) -> dict[str, str]:
    """The KEY=VALUE lines of a file, keys in small letters; the first of two equal keys counts."""
    keys: dict[str, str] = {}
    for line in (tree.text(path) or "").splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip() and not key.lstrip().startswith("#"):
            keys.setdefault(key.strip().lower(), value.strip())
    return keys


class _NpuSmi:
    """The host's npu-smi, asked: the table, the mapping, and a board of each kind of chip."""

    def __init__(self, tree: Tree, path: str, home: str, limit: float) -> None:
        self._program = tree.at(path)
        self._limit = limit
        # npu-smi needs the driver's libraries, which the loader finds by itself on no system.
        folders = [tree.at(f"{home}/{folder}") for folder in _DRIVER_LIBRARIES]
        folders += [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
        self._environment = {**os.environ, "LC_ALL": "C", "LD_LIBRARY_PATH": ":".join(folders)}

    def answers(self) -> dict[str, Any]:
        """Return the answers by their fields; nothing more is asked of one that cannot start or never ends."""
        info = self._ask("info")
        answers: dict[str, Any] = {"info": info}
        if info["code"] not in (_CANNOT_START, NO_END):
            answers["mapping"] = self._ask("info", "-m")
            answers["boards"] = {str(npu): self._board(npu) for npu in self._one_of_each(info["text"])}
        return answers

    def _one_of_each(self, text: str) -> list[int]:
        """The first NPU of each chip name; of a table that nobody could read, the first NPU of `info -l`."""
        first: dict[str, int] = {}
        for chip in npu_smi.parse(text).chips:
            first.setdefault(chip.name, chip.npu)
        if first:
            return list(first.values())[:_KINDS]
        return [card.npu for card in npu_smi.parse_list(self._ask("info", "-l")["text"]).cards[:1]]

    def _board(self, npu: int) -> dict[str, Any]:
        """The board with `-c 0`, which A2, A3 and 310P name their chip with, else without it, as a 950 does."""
        words = ("info", "-t", "board", "-i", str(npu))
        with_chip = self._ask(*words, "-c", "0")
        if with_chip["code"] == NO_END or npu_smi.parse_board(with_chip["text"]).chip_name:
            return with_chip
        return self._ask(*words)

    def _ask(self, *words: str) -> dict[str, Any]:
        ran = run([self._program, *words], env=self._environment, limit=self._limit)
        parts = [ran.stdout.decode(errors="replace").rstrip(), ran.stderr.rstrip()]
        return {"code": ran.code, "text": "\n".join(part for part in parts if part)[:_TEXT_LIMIT]}


def main(words: Sequence[str] | None = None) -> int:
    """Print the facts as JSON."""
    parser = argparse.ArgumentParser(description="Print the facts of a host that runs NPUs, as JSON.")
    parser.add_argument("--root", metavar="DIR", default="/", help="where the host's file system is (default: /)")
    parser.add_argument("--no-npu-smi", action="store_true", help="do not run npu-smi")
    options = parser.parse_args(words)
    json.dump(gather(options.root, ask=not options.no_npu_smi), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
