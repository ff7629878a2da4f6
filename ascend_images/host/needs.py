"""What a container needs of a host beside the chips: the managers' device nodes and the driver's files, by family.

Sources: the docker run lines in the documentation of vllm-ascend (all families), Ascend/cann-container-image and
ms-swift; the default list of the Ascend Docker Runtime, base.list.
"""

from collections.abc import Iterable, Sequence

from ascend_images.errors import MissingTool
from ascend_images.host.facts import HostFacts, Node
from ascend_images.host.npu_smi import A5, UNKNOWN
from ascend_images.host.request import Mount

#: Where images look for the driver (LD_LIBRARY_PATH), wherever the host has it.
INSTALL_ROOT = "/usr/local/Ascend"

_MANAGERS = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
# The bus between the chips of a 950: directories of nodes, which docker takes whole. Its single cards work without.
_BUS = ("/dev/ummu", "/dev/uburma")
_SVM = "/dev/devmm_svm"

# Where npu-smi lies on hosts; images have all of these folders in PATH.
_TOOLS = ("/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi", "/usr/bin/npu-smi", "/usr/sbin/npu-smi")
# Files below the driver's folder that several NPUs or nodes need to find one another.
_NETWORK = ("driver/tools/hccn_tool", "driver/topo")
_SETTINGS = ("/usr/local/dcmi", "/etc/ascend_install.info", "/etc/hccn.conf", "/etc/hccl_rootinfo.json")
_A5_SETTINGS = ("/etc/hixlep", "/lib/route.conf", "/usr/bin/urma_admin")
# What the Ascend Docker Runtime mounts without being told (base.list).
_BY_RUNTIME = frozenset({f"{INSTALL_ROOT}/driver/lib64", "/usr/local/dcmi", "/usr/local/bin/npu-smi"})

# What goes wrong in a container without them.
_WITHOUT = {
    f"{INSTALL_ROOT}/driver/version.info": "tools that read the driver's version will not find it",
    "/etc/ascend_install.info": "CANN's set_env.sh from 8.5 on looks for the driver there",
}


def nodes_for(numbers: Sequence[int], host: HostFacts, family: str) -> tuple[str, ...]:
    """Return the device nodes of some chips and of their managers; raises MissingTool naming every one that lacks.

    Where the family is unknown, a bus of a 950 tells that it is one, which has no /dev/devmm_svm.
    """
    present = {node.path for node in host.nodes}
    bus = [path for path in _BUS if _nodes_at(path, host.nodes)]
    is_a5 = family == A5 or (family == UNKNOWN and bool(bus))
    wanted = [f"/dev/davinci{number}" for number in numbers]
    wanted += [path for path in _MANAGERS if path != _SVM or not is_a5 or _SVM in present]
    missing = [path for path in wanted if path not in present]
    if missing:
        raise MissingTool(
            f"this host has no {', '.join(missing)}",
            wanted="the device nodes of the chips and of the driver's managers",
            do="invoke doctor",
        )
    return tuple(wanted + (bus if is_a5 else []))


def opened_nodes(paths: Iterable[str], host: HostFacts) -> tuple[Node, ...]:
    """Return the nodes behind some paths, those inside a directory of nodes included."""
    return tuple(node for path in paths for node in _nodes_at(path, host.nodes))


def driver_files(
    host: HostFacts, family: str, *, by_runtime: bool = False
) -> tuple[tuple[Mount, ...], tuple[str, ...]]:
    """Return the mounts of the driver's files that the host has, and a note on each that containers would miss.

    With `by_runtime` the Ascend Docker Runtime brings its own, and only the rest is returned. Raises MissingTool for a
    host without the driver's libraries, which no image holds.
    """
    root = _install_root(host)
    libraries = f"{root}/driver/lib64"
    if host.paths.get(libraries) != "dir":
        raise MissingTool(
            f"this host has no {libraries}, so torch_npu would not find libascend_hal.so",
            wanted="the driver's libraries, which come from the host and are in no image",
            do="invoke doctor",
        )
    mounts: list[Mount] = []
    notes: list[str] = []
    whole = family == A5 and f"{root}/driver" in host.paths
    own = ["driver"] if whole else ["driver/lib64", "driver/version.info", *_NETWORK]
    settings = [*_SETTINGS, *(_A5_SETTINGS if family == A5 else ())]
    for source, target in [
        *((f"{root}/{name}", f"{INSTALL_ROOT}/{name}") for name in own),
        *((path, path) for path in settings),
        *_npu_smi(host, notes),
    ]:
        if source in host.paths and not _is_folder_for_file(source, host, notes):
            mounts.append(Mount(source, target, kind=host.paths[source]))
    notes += _lacking(root, host)
    return tuple(mount for mount in mounts if not (by_runtime and mount.target in _BY_RUNTIME)), tuple(notes)


def _install_root(host: HostFacts) -> str:
    """Return the folder of the driver's installation; what the host's own record says counts where it is true."""
    recorded = host.install.get("driver_install_path_param", "").rstrip("/")
    return recorded if f"{recorded}/driver/lib64" in host.paths else INSTALL_ROOT


def _npu_smi(host: HostFacts, notes: list[str]) -> list[tuple[str, str]]:
    """Return where npu-smi lies and where the container gets it: the same place if PATH has it, else /usr/local/bin."""
    places = (host.npu_smi, *_TOOLS, f"{_install_root(host)}/driver/tools/npu-smi")
    found = next((path for path in places if host.paths.get(path) == "file"), "")
    if found:
        return [(found, found if found in _TOOLS else _TOOLS[0])]
    folder = next((path for path in _TOOLS if host.paths.get(path) == "dir"), "")
    why = f"{folder} is a folder, which docker makes for a missing file" if folder else "this host has no npu-smi"
    notes.append(f"{why}: the container will have none")
    return []


def _is_folder_for_file(path: str, host: HostFacts, notes: list[str]) -> bool:
    """Return whether a folder lies where a file should, as docker makes one for the missing source of a `-v`."""
    is_folder = path.endswith((".info", ".conf", ".json", "/hccn_tool")) and host.paths[path] == "dir"
    if is_folder:
        notes.append(f"{path} is a folder, which docker makes for a missing file: it is not mounted")
    return is_folder


def _lacking(root: str, host: HostFacts) -> list[str]:
    effects = {path.replace(f"{INSTALL_ROOT}/", f"{root}/"): effect for path, effect in _WITHOUT.items()}
    return [f"this host has no {path}: {effect}" for path, effect in effects.items() if path not in host.paths]


def _nodes_at(path: str, nodes: Iterable[Node]) -> list[Node]:
    return [node for node in nodes if node.path == path or node.path.startswith(f"{path}/")]
