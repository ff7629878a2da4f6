"""The files of a stand-in CANN release: the real one's places, links and install.info files, libraries that do nothing.

As in CANN 8.5 and later. The three parts are those of the vendor's packages: toolkit, operators for a chip, NNAL.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ascend_images.errors import BadInput
from ascend_images.pins.cann_layout import INSTALL_ROOT
from ascend_images.pins.cann_version import ReleaseVersion
from ascend_images.pins.platform import Arch
from ascend_images.sandbox.data import data_text
from ascend_images.sandbox.elf import shared_object
from ascend_images.sandbox.tree import Entry, File, Folder, Link, Tree, text_file

_ROOT = INSTALL_ROOT.removeprefix("/")
_OLDEST = "8.5.0"
_DRIVER_LIBRARY = "libascend_hal.so"

# Folders that ENV or a set_env script names, besides those that a file below makes.
_TOOLKIT_FOLDERS = (
    "runtime",
    "bin",
    "compiler/ccec_compiler/bin",
    "tools/ccec_compiler/bin",
    "tools/profiler/bin",
    "tools/ascend_system_advisor/asys",
    "tools/show_kernel_debug_data",
    "tools/msobjdump",
    "tools/aml/lib64/plugin",
    "toolkit/tools/tikicpulib/lib/cmake",
    "lib64/cmake",
    "lib64/plugin/opskernel",
    "lib64/plugin/nnengine",
    "opp/built-in/op_impl/ai_core/tbe",
)
_NNAL_FOLDERS = ("lib", "bin", "examples", "tests/atbopstest")

# Library -> (functions, needed libraries, symbols taken from those). Outside torch, torch_npu's extension needs these
# and NNAL's libatb.
_LIBRARIES: Mapping[str, tuple[Sequence[str], Sequence[str], Sequence[str]]] = {
    "libruntime.so": (["rtGetDeviceCount", "rtSetDevice"], [_DRIVER_LIBRARY], ["halGetDeviceInfo"]),
    "libascendcl.so": (["aclInit", "aclFinalize", "aclrtGetDeviceCount", "aclrtSetDevice"], ["libruntime.so"], []),
    "libhccl.so": (["HcclGetRootInfo", "HcclCommInitRootInfo"], ["libruntime.so"], []),
    "libgraph.so": (["aclgrphParseONNX"], [], []),
    "libge_runner.so": (["GEInitialize"], ["libgraph.so"], []),
    "libacl_op_compiler.so": (["aclopCompile"], ["libascendcl.so"], []),
    "libacl_tdt_channel.so": (["acltdtCreateChannel"], [], []),
}
_DRIVER_FUNCTIONS = ("halGetDeviceInfo", "drvGetDevNum")

# Distributions that CANN brings in a folder of PYTHONPATH, so that every package listing shows them.
_DISTRIBUTIONS = {"te": "0.4.0", "hccl": "0.1.0"}


@dataclass(frozen=True)
class Part:
    """What one package of a release installs: its files, and the links that it points to itself."""

    tree: Tree
    links: dict[str, str] = field(default_factory=dict)

    @property
    def whole(self) -> Tree:
        """Files and links as one tree."""
        linked: dict[str, Entry] = {name: Link(target) for name, target in self.links.items()}
        return {**self.tree, **linked}


def check_release(release: str) -> None:
    """Raise BadInput for a release whose layout this module does not know: everything before 8.5 lay elsewhere."""
    if ReleaseVersion.parse(release) < ReleaseVersion.parse(_OLDEST):
        raise BadInput(f"the sandbox has no stand-in for CANN {release}", wanted=f"CANN {_OLDEST} or later")


def home(release: str) -> str:
    """Return the folder of a release, relative to `/`."""
    return f"{_ROOT}/cann-{release}"


def toolkit(release: str, arch: Arch) -> Part:
    """Return what the toolkit package installs."""
    top, kernel = home(release), arch.kernel
    library_folder = f"opp/built-in/op_impl/ai_core/tbe/op_tiling/lib/linux/{kernel}"
    stub = File(shared_object(arch, _DRIVER_LIBRARY, _DRIVER_FUNCTIONS), 0o755)
    tree: Tree = {
        **{f"{top}/{name}": Folder() for name in (*_TOOLKIT_FOLDERS, library_folder)},
        **{f"{top}/lib64/{name}": _library(arch, name) for name in _LIBRARIES},
        f"{top}/set_env.sh": _script("toolkit_set_env.sh"),
        f"{top}/share/info/ascendnpu-ir/bin/set_env.sh": _script("ascendnpu_ir_set_env.sh"),
        f"{top}/share/info/ascendnpu-ir/bin/bishengir-compile": _nothing("bishengir-compile"),
        f"{top}/bin/atc": _nothing("atc"),
        f"{top}/tools/ccec_compiler/bin/bisheng": _nothing("bisheng"),
        f"{top}/include/acl/acl.h": text_file('#pragma once\nextern "C" int aclrtGetDeviceCount(unsigned int *count);'),
        f"{top}/{kernel}-linux/devlib/linux/{kernel}/{_DRIVER_LIBRARY}": stub,
        f"{top}/devlib/{_DRIVER_LIBRARY}": Link(f"../{kernel}-linux/devlib/linux/{kernel}/{_DRIVER_LIBRARY}"),
        f"{top}/{kernel}-linux/ascend_toolkit_install.info": _install_info("Ascend-cann-toolkit", release, arch),
        f"{top}/compiler/version.info": text_file(f"Version={release}.1.1\nversion_dir={release}"),
        "etc/Ascend/ascend_cann_install.info": text_file(f"Toolkit_InstallPath={INSTALL_ROOT}/cann-{release}"),
    }
    for name, version in _DISTRIBUTIONS.items():
        packages = f"{top}/python/site-packages"
        tree[f"{packages}/{name}/__init__.py"] = text_file(f'__version__ = "{version}"')
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"
        tree[f"{packages}/{name}-{version}.dist-info/METADATA"] = text_file(metadata)
    return Part(
        tree,
        {
            f"{_ROOT}/cann": f"cann-{release}",
            f"{_ROOT}/ascend-toolkit/latest": f"../cann-{release}",
            f"{_ROOT}/ascend-toolkit/set_env.sh": "../cann/set_env.sh",
        },
    )


def operators(release: str, arch: Arch, package: str) -> Part:
    """Return what the operator package of a chip installs; `package` is the chip's word in its name (`910b`, `A3`)."""
    top = home(release)
    kernels = f"{top}/opp/built-in/op_impl/ai_core/tbe/kernel"
    return Part(
        {
            f"{top}/{arch.kernel}-linux/ascend_ops_install.info": _install_info(
                f"Ascend-cann-{package}-ops", release, arch
            ),
            f"{top}/opp/version.info": text_file(f"Version={release}.1.1\nversion_dir={release}"),
            f"{kernels}/config/{package.lower()}.json": text_file('{"kernels": []}'),
        }
    )


def nnal(release: str, arch: Arch) -> Part:
    """Return what the NNAL package installs."""
    top = f"{_ROOT}/nnal/atb"
    tree: Tree = {
        f"{top}/{release}/atb/set_env.sh": _script("atb_set_env.sh"),
        f"{top}/{release}/version.info": text_file(f"Ascend-cann-atb : {release}\nplatform : {arch.kernel}"),
    }
    library = shared_object(arch, "libatb.so", ["CreateContext"], needed=["libascendcl.so"])
    for abi in ("cxx_abi_0", "cxx_abi_1"):
        tree |= {f"{top}/{release}/atb/{abi}/{name}": Folder() for name in _NNAL_FOLDERS}
        tree[f"{top}/{release}/atb/{abi}/lib/libatb.so"] = File(library, 0o755)
    return Part(tree, {f"{top}/latest": release, f"{top}/set_env.sh": "latest/atb/set_env.sh"})


def release_tree(release: str, arch: Arch, package: str) -> Tree:
    """Return a whole installed release, as a base image has it."""
    parts = (toolkit(release, arch), operators(release, arch, package), nnal(release, arch))
    return {name: entry for part in parts for name, entry in part.whole.items()}


def _script(name: str) -> File:
    return text_file(data_text(f"cann/{name}"), executable=True)


def _nothing(name: str) -> File:
    """Return a program that says it is a stand-in and fails: whoever calls it in the sandbox should know."""
    return text_file(f"#!/bin/sh\necho '{name}: a stand-in, which compiles nothing' >&2\nexit 1", executable=True)


def _library(arch: Arch, name: str) -> File:
    functions, needed, imports = _LIBRARIES[name]
    return File(shared_object(arch, name, functions, needed=needed, imports=imports), 0o755)


def _install_info(package: str, release: str, arch: Arch) -> File:
    return text_file(
        f"package_name={package}\nversion={release}\ninnerversion=stand-in\n"
        f"arch={arch.kernel}\nos=linux\npath={INSTALL_ROOT}/cann-{release}"
    )
