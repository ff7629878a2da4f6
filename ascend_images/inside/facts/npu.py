"""Facts: NPUs and the host's driver as a container sees them: user, device nodes, driver files, npu-smi."""

from __future__ import annotations

import os
import pwd
import re
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from ..host_facts import gather as host_gather
from ..npu_smi import UNKNOWN, parse, parse_board
from ..process import run
from ..tree import Tree
from ..words import INSTALL_ROOT, Facts, entries

#: The node of one NPU; its number is the one by which the host knows it.
NODE = re.compile(r"/dev/davinci([0-9]+)")
VISIBLE = "ASCEND_VISIBLE_DEVICES"
RT_VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"

#: Where npu-smi lies by the documentation of vllm-ascend, of ms-swift and of the driver, in this order.
NPU_SMI_PATHS = (
    "/usr/local/bin/npu-smi",
    "/usr/local/sbin/npu-smi",
    f"{INSTALL_ROOT}/driver/tools/npu-smi",
    "/usr/bin/npu-smi",
    "/usr/sbin/npu-smi",
)
NPU_SMI_SECONDS = 60.0
# The table of sixteen chips with their processes has some 10 kB.
_TEXT_LIMIT = 60_000
_DRIVER_LIBRARIES = tuple(f"{INSTALL_ROOT}/driver/lib64{folder}" for folder in ("", "/common", "/driver"))


def npu_facts(tree: Tree, environment: Mapping[str, str]) -> Facts:
    """Return what a container sees of NPUs and of the host's driver; without any, as in a build, the fields are empty.

    `environment` is this process's, as it goes into a report. npu-smi runs only where an NPU has a node.
    """
    host = host_gather("/", ask=False) if tree.live else {"nodes": [], "paths": {}, "driver": {}, "install": {}}
    nodes = [{**node, "usable": os.access(node["path"], os.R_OK | os.W_OK)} for node in host["nodes"]]
    return {
        "user": user_facts() if tree.live else None,
        "devices": {"nodes": nodes, "visible": {name: environment.get(name) for name in (VISIBLE, RT_VISIBLE)}},
        "driver_files": {"paths": host["paths"], "version": host["driver"], "install": host["install"]},
        "npu_smi": npu_smi_facts(tree, run_it=bool(npu_numbers(nodes))),
    }


def user_facts() -> Facts:
    """Return who this process is; the name is that of /etc/passwd, empty where it has no entry."""
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = ""
    return {"uid": uid, "gid": os.getgid(), "groups": sorted(os.getgroups()), "name": name}


def npu_numbers(nodes: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the numbers of the NPUs among device nodes: the N of /dev/davinciN."""
    found = (NODE.fullmatch(node["path"]) for node in nodes)
    return sorted(int(match[1]) for match in found if match)


def npu_smi_facts(tree: Tree, *, run_it: bool, limit: float = NPU_SMI_SECONDS) -> Facts:
    """Return where npu-smi lies and, where it is to run, what it printed.

    `directory` is a directory in its place, which docker makes where the file that it shall bind is missing. `code` is
    the exit code as a shell tells it (124: no end in time), None where it was not run; `board` is what
    `npu-smi info -t board` printed of the first NPU, asked only where the table does not tell the family.
    """
    on_path = [found] if tree.live and (found := shutil.which("npu-smi")) else []
    places = [*NPU_SMI_PATHS, *on_path]
    facts: Facts = {
        "path": next((path for path in places if os.path.isfile(tree.at(path))), ""),
        "directory": next((path for path in places if tree.is_dir(path)), ""),
        "code": None,
        "text": "",
        "board": None,
    }
    if not (run_it and tree.live and facts["path"]):
        return facts
    facts["code"], facts["text"] = ask_npu_smi(facts["path"], ["info"], limit)
    chips = parse(facts["text"]).chips
    if chips and facts["code"] == 0 and any(chip.family == UNKNOWN for chip in chips):
        facts["board"] = ask_board(facts["path"], chips[0].npu, limit)
    return facts


def ask_board(path: str, npu: int, limit: float) -> str:
    """Return the board of an NPU: by its first chip, which A2, A3 and 310P want, else without, as a 950 does."""
    words = ["info", "-t", "board", "-i", str(npu)]
    _, text = ask_npu_smi(path, [*words, "-c", "0"], limit)
    return text if parse_board(text).chip_name else ask_npu_smi(path, words, limit)[1]


def ask_npu_smi(path: str, words: Sequence[str], limit: float) -> tuple[int, str]:
    """Run npu-smi; return its exit code as a shell tells it, and what it printed."""
    folders = [*filter(None, entries(os.environ.get("LD_LIBRARY_PATH", ""))), *_DRIVER_LIBRARIES]
    ran = run([path, *words], env={**os.environ, "LC_ALL": "C", "LD_LIBRARY_PATH": ":".join(folders)}, limit=limit)
    parts = [ran.stdout.decode(errors="replace").rstrip(), ran.stderr.rstrip()]
    text = "\n".join(part for part in parts if part)[:_TEXT_LIMIT]
    return ran.code, text
