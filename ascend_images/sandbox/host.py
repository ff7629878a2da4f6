"""A stand-in for the file system of an Atlas host: device nodes, the driver's files, an npu-smi.

The nodes are those of /dev/null under other names, so a container can be given them; making them takes root.
"""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ascend_images.errors import MissingTool
from ascend_images.pins.platform import Arch, host_arch
from ascend_images.sandbox.data import data_text, filled
from ascend_images.sandbox.elf import shared_object
from ascend_images.sandbox.tree import File, Tree, write_tree

_NULL = os.makedev(1, 3)
_MANAGERS = ("davinci_manager", "devmm_svm", "hisi_hdc")
#: The user and group that own the nodes of a real host: HwHiAiUser, as the driver's installer makes it.
OWNER = 1000


@dataclass(frozen=True)
class Chip:
    """A kind of chip as npu-smi tells of it: layout of its table, its names, its memory in MB, its managers' nodes."""

    layout: str
    name: str
    npu_name: str
    memory: int
    managers: tuple[str, ...] = _MANAGERS


CHIPS = {
    "a2": Chip("a2", "910B3", "", 65536),
    "a3": Chip("a3", "Ascend910", "9392", 65536),
    "310p": Chip("310p", "310P3", "", 44280),
    "950": Chip("950", "Ascend950PR", "9579", 114688, ("davinci_manager", "hisi_hdc", "ummu")),
}


def make_host(
    root: Path,
    chip: str,
    numbers: Sequence[int] = (0,),
    *,
    driver: str = "25.5.0",
    arch: Arch | None = None,
    owner: int = OWNER,
    mode: int = 0o660,
) -> Path:
    """Make the file system of a host with chips `numbers` of a kind below `root`, and return `root`.

    `driver` is the version in version.info, `owner` the uid and gid of the nodes and `mode` their permissions. Raises
    MissingTool where this user may make no device nodes.
    """
    kind = CHIPS[chip]
    values = {
        "LAYOUT": kind.layout,
        "NAME": kind.name,
        "NPU_NAME": kind.npu_name or "''",
        "MEMORY": str(kind.memory),
        "VERSION": driver,
    }
    hal = shared_object(arch or host_arch(), "libascend_hal.so", ("halGetDeviceInfo", "drvGetDevNum"))
    home = "usr/local/Ascend"
    tree: Tree = {
        "usr/local/bin/npu-smi": File(filled(data_text("host/npu-smi.sh"), values).encode(), 0o755),
        "usr/local/dcmi/dcmi_interface_api.h": File(b"#pragma once\n"),
        f"{home}/driver/lib64/driver/libascend_hal.so": File(hal, 0o755),
        f"{home}/driver/lib64/libascend_hal.so": File(hal, 0o755),
        f"{home}/driver/version.info": File(
            _lines(Version=driver, ascendhal_version="7.35.23", package_version=driver)
        ),
        f"{home}/firmware/version.info": File(_lines(Version="7.8.0.2.212", package_version=driver)),
        "etc/ascend_install.info": File(
            _lines(UserName="HwHiAiUser", UserGroup="HwHiAiUser", Driver_Install_Path_Param="/usr/local/Ascend")
        ),
    }
    write_tree(tree, root)
    for name in (*(f"davinci{number}" for number in numbers), *kind.managers):
        _node(root / "dev" / name, owner, mode)
    return root


def _node(path: Path, owner: int, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.mknod(path, stat.S_IFCHR | mode, _NULL)
        os.chown(path, owner, owner)
        path.chmod(mode)  # mknod heeds the umask
    except PermissionError:
        raise MissingTool(
            f"this user may not make the device node {path}", wanted="root, outside a user namespace"
        ) from None


def _lines(**values: str) -> bytes:
    return "".join(f"{key}={value}\n" for key, value in values.items()).encode()
