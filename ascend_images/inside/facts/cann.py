"""Facts: the version files of CANN, and whether the host's driver is there."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from ..tree import Tree
from ..words import INSTALL_ROOT, Facts, entries

_INFO_LINE = re.compile(r"^\s*([A-Za-z_][\w .-]*?)\s*[=:]\s*(.*?)\s*$", re.MULTILINE)


def info(text: str | None) -> dict[str, str]:
    """Read a version file of the vendor: `key=value` or `Key : value` lines; keys in lower case."""
    return {key.lower(): value for key, value in _INFO_LINE.findall(text or "")}


def cann_facts(tree: Tree, image: Mapping[str, Any]) -> Facts:
    """Return what the version files say of toolkit, operators and NNAL; each kind in the order in which it is believed.

    Until 8.3 the toolkit has a version.cfg; from 8.5 on `<home>/<arch>-linux/ascend_toolkit_install.info`, which some
    9.x releases lack: then the name of the directory that the link `cann` leads to.
    """
    homes = [
        home
        for home in (image.get("cann_home"), f"{INSTALL_ROOT}/cann", f"{INSTALL_ROOT}/ascend-toolkit/latest")
        if home
    ]
    homes = list(dict.fromkeys(tree.resolve(home) for home in homes if tree.is_dir(home)))
    toolkit: list[Facts] = []
    ops: list[Facts] = []
    for home in homes:
        for path in tree.glob(f"{home}/*-linux/ascend_toolkit_install.info") + tree.glob(
            f"{home}/ascend_toolkit_install.info"
        ):
            toolkit.append({"file": path, "version": info(tree.text(path)).get("version", "")})
        config = re.search(r"running_version=\[[^\]:]*:([^\]]+)\]", tree.text(f"{home}/version.cfg") or "")
        if config:
            toolkit.append({"file": f"{home}/version.cfg", "version": config.group(1)})
        named = re.search(r"/(?:cann[-_]|ascend-toolkit/)([0-9][^/]*)$", home)
        if named:
            toolkit.append({"file": home, "version": named.group(1)})
        for pattern in (
            "*-linux/ascend_*ops*_install.info",
            "*-linux/ascend_*kernels*_install.info",
            "ascend_*ops*_install.info",
        ):
            for path in tree.glob(f"{home}/{pattern}"):
                said = info(tree.text(path))
                ops.append(
                    {"file": path, "version": said.get("version", ""), "chip": chip_of(said.get("package_name", ""))}
                )
    nnal = []
    for path in (*tree.glob(f"{INSTALL_ROOT}/nnal/*install.info"), f"{INSTALL_ROOT}/nnal/atb/latest/version.info",
                 f"{INSTALL_ROOT}/nnal/version.info"):  # fmt: skip
        said = info(tree.text(path))
        version = said.get("version") or said.get("ascend-cann-atb") or said.get("ascend-cann-atb version") or ""
        if version:
            nnal.append({"file": path, "version": version})
    latest = tree.resolve(f"{INSTALL_ROOT}/nnal/atb/latest")
    if tree.is_dir(latest) and re.match(r"[0-9]", posixpath.basename(latest)):
        nnal.append({"file": latest, "version": posixpath.basename(latest)})
    return {"toolkit": toolkit, "ops": ops, "nnal": nnal}


def chip_of(package: str) -> str:
    """Return the chip in a package's name, such as Ascend-cann-910b-ops or Atlas-A3-cann-kernels."""
    found = re.search(r"cann-([0-9A-Za-z]+)-ops|kernels-([0-9A-Za-z]+)|Atlas-([0-9A-Za-z]+)-cann-kernels", package)
    return next((group for group in found.groups() if group), "") if found else ""


def driver_present(tree: Tree, environment: Mapping[str, str]) -> bool:
    """Tell whether the host's driver library is there; it never comes with an image."""
    folders = [
        f"{INSTALL_ROOT}/driver/lib64",
        f"{INSTALL_ROOT}/driver/lib64/driver",
        *entries(environment.get("LD_LIBRARY_PATH", "")),
    ]
    return any("devlib" not in folder and folder and tree.exists(f"{folder}/libascend_hal.so") for folder in folders)


def stub_folders(tree: Tree, image: Mapping[str, Any], machine: str) -> list[str]:
    """Return CANN's folders of link stubs. Where there is no driver, set_env.sh puts them last in LD_LIBRARY_PATH."""
    home = image.get("cann_home") or f"{INSTALL_ROOT}/ascend-toolkit/latest"
    folders = (f"{home}/devlib", f"{home}/{machine}-linux/devlib", f"{home}/{machine}-linux/devlib/linux/{machine}")
    return [folder for folder in folders if tree.is_dir(folder)]
