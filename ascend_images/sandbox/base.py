"""The stand-in for CANN's base images: a small Debian with a CPython and a CANN release that holds no CANN.

Layout, ENV, ENTRYPOINT and start-up files are those of github.com/Ascend/cann-container-image (the Dockerfiles under
`cann/`, 8.5.1 to 9.1.0-beta.3). /etc/os-release says Debian, since that is what it is.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ascend_images.errors import BadInput, BuildFailed
from ascend_images.pins.cann_layout import (
    ATB_HOME,
    ATB_SCRIPT,
    DRIVER_LIBRARIES,
    INSTALL_ROOT,
    SYSTEM_PATH,
    TOOLKIT_SCRIPT,
    cann_layout,
)
from ascend_images.pins.cann_version import ReleaseVersion
from ascend_images.pins.platform import Arch, host_arch
from ascend_images.pins.tags import BaseTag, ImageRef
from ascend_images.pins.variant import Variant
from ascend_images.sandbox import cann_tree
from ascend_images.sandbox.data import data_text
from ascend_images.sandbox.debian import PYTHON, SUITE, Say, need_emulation, os_image, os_key
from ascend_images.sandbox.os_python import os_python_context
from ascend_images.sandbox.process import docker, last_lines
from ascend_images.sandbox.python_prefix import find_prefixes, no_python, python_context
from ascend_images.sandbox.store import code_digest, digest, locked, store_dir
from ascend_images.sandbox.tree import Tree, set_times, text_file, write_tree
from ascend_images.sandbox.wheel_file import install_wheel
from ascend_images.sandbox.wheels import stand_in

REPOSITORY = "ascend-images-sandbox/cann"
LABEL = "io.ascend-images.stand-in"
# A change to one of these makes another base.
_MADE_BY = (
    "base.py", "cann_tree.py", "data.py", "elf.py", "os_python.py", "python_prefix.py", "tree.py", "wheel_file.py",
    "wheels.py", "files/cann", "files/wheels.toml",
)  # fmt: skip
# Modules that a copied CPython imports only where the libraries are there that it is linked to.
_PROBED = "bz2, ctypes, lzma, readline, sqlite3, ssl, uuid, zlib"
#: The pip set of the real images (`absl-py` is missing in 8.5), in older versions than any lock has, so that what a
#: lock replaces is there to be uninstalled. The last lines are what the first ones depend on.
PIP_SET = {
    "attrs": "23.2.0", "Cython": "3.0.12", "numpy": "1.24.0", "decorator": "4.4.2", "sympy": "1.12", "cffi": "1.16.0",
    "PyYAML": "6.0", "pathlib2": "2.3.7.post1", "psutil": "5.9.8", "protobuf": "3.20.0", "scipy": "1.11.4",
    "requests": "2.31.0", "absl-py": "2.1.0",
    "mpmath": "1.3.0", "pycparser": "2.21", "six": "1.16.0", "certifi": "2024.2.2", "charset-normalizer": "3.3.2",
    "idna": "3.6", "urllib3": "2.2.0",
}  # fmt: skip


def base_image(variant: Variant, arch: Arch, say: Say) -> str:
    """Return the name of the stand-in for the variant's base image, after making it if this engine lacks it.

    Raises BadInput for a base that has no stand-in, MissingTool where this machine lacks what it is made with.
    """
    tag = base_tag(variant)
    cann_tree.check_release(tag.cann)
    need_emulation(arch)
    name = f"{REPOSITORY}:{tag}-{arch.kernel}"
    with locked(store_dir() / f".base-{tag}-{arch.value}.lock"):
        key = digest(
            str(tag),
            arch,
            variant.python_home,
            variant.chip.ops_package,
            os_key(arch),
            code_digest(*_MADE_BY),
        )
        if image_label(name) != key:
            _make(variant, tag, arch, name, key, say)
    return name


def base_tag(variant: Variant) -> BaseTag:
    """Return the tag of the base image that is stood in for; raises BadInput where there is none for it."""
    tag = BaseTag.parse(ImageRef.parse(variant.base_image).tag or "")
    if variant.os_family != "ubuntu":
        raise BadInput(
            f"{variant.name}: the sandbox has no stand-in for {variant.os}",
            wanted="a variant on Ubuntu; openEuler is rendered only, since its package manager has no repository here",
            do=f"invoke render --variant {variant.name}",
        )
    return tag


def image_label(name: str) -> str:
    """Return what the label of a stand-in image says it was made from; nothing where the engine has no such image."""
    asked = docker(["image", "inspect", "--format", "{{json .Config.Labels}}", name], check=False)
    labels = json.loads(asked.stdout or "null") if asked.returncode == 0 else None
    return str((labels or {}).get(LABEL, ""))


def push(name: str, registry: str) -> str:
    """Push a stand-in image to a registry; return its name there."""
    there = f"{registry}/{name}"
    docker(["tag", name, there])
    docker(["push", "--quiet", there])
    return there


def environment(tag: BaseTag, python_home: str) -> dict[str, str]:
    """Return the ENV of the real base image in its order, with its empty last elements.

    Release and `latest` paths both stand in it; from 9.0 on the driver and the release's libraries come first.
    """
    top, latest = f"{INSTALL_ROOT}/cann-{tag.cann}", f"{INSTALL_ROOT}/ascend-toolkit/latest"
    atb = [f"{ATB_HOME}/{name}" for name in ("lib", "examples", "tests/atbopstest")]
    release, newest = _libraries(top), _libraries(latest)
    if tag.release < ReleaseVersion.parse("9.0.0"):
        # The two trailing slashes are the original's.
        drivers = [DRIVER_LIBRARIES[0], *(f"{folder}/" for folder in DRIVER_LIBRARIES[1:])]
        libraries = [*atb, *_tools(latest), *newest, *_tools(top), *release, *drivers]
    else:
        libraries = [*release, *DRIVER_LIBRARIES, *atb, *_tools(latest), *newest]
    programs = [
        f"{ATB_HOME}/bin",
        *(f"{latest}/{name}" for name in ("bin", "compiler/ccec_compiler/bin", "tools/ccec_compiler/bin")),
        *(f"{top}/tools/{name}" for name in ("show_kernel_debug_data", "msobjdump")),
        *(f"{top}/{name}" for name in ("bin", "tools/ccec_compiler/bin", "tools/profiler/bin")),
        f"{top}/tools/ascend_system_advisor/asys",
    ]
    modules = [
        f"{folder}/{name}"
        for folder in (latest, top)
        for name in ("python/site-packages", "opp/built-in/op_impl/ai_core/tbe")
    ]
    ours = cann_layout(tag.cann, python_home).environment
    same = {name: value for name, value in ours.items() if name.startswith(("ATB_", "LCCL_", "ASCEND_", "TOOLCHAIN_"))}
    return {
        "PATH": ":".join([*programs, f"{python_home}/bin", *SYSTEM_PATH]),
        "LD_LIBRARY_PATH": ":".join([*libraries, f"{python_home}/lib", ""]),
        "PYTHONPATH": ":".join([*modules, ""]),
        "CMAKE_PREFIX_PATH": f"{top}/toolkit/tools/tikicpulib/lib/cmake:{top}/lib64/cmake",
        **same,
    }


def dockerfile(tag: BaseTag, python_home: str, system: str, key: str) -> str:
    """Return the Dockerfile that puts the folders `python` and `cann` of its context on the operating system."""
    entrypoint = " && ".join([*(f"source {script}" for script in _scripts(tag, "${ATB_CXX_ABI:-1}")), 'exec "$@"'])
    return (
        "\n".join(
            [
                f"FROM {system}",
                "COPY python/ /",
                "COPY cann/ /",
                *(f"ENV {name}={json.dumps(value)}" for name, value in environment(tag, python_home).items()),
                'SHELL ["/bin/bash", "-c"]',
                f"RUN python3 -c 'import {_PROBED}' && python3 -m pip --version",
                f"LABEL {LABEL}={key}",
                f"ENTRYPOINT {json.dumps(['/bin/bash', '-c', entrypoint, '--'])}",
            ]
        )
        + "\n"
    )


def _make(variant: Variant, tag: BaseTag, arch: Arch, name: str, key: str, say: Say) -> None:
    """Build the image with the first Python that runs in it."""
    system = os_image(arch, say)
    tried = "found none"
    for origin, python in _pythons(variant, tag, arch):
        say(f"making the stand-in for {variant.base_image} with the Python {origin}")
        with tempfile.TemporaryDirectory(prefix=".base-", dir=store_dir()) as made:
            context = Path(made)
            _write_cann(variant, tag, arch, context / "cann")
            (context / "Dockerfile").write_text(dockerfile(tag, variant.python_home, system, key))
            shutil.copytree(python, context / "python", symlinks=True, copy_function=_hard_link)
            built = docker(
                ["buildx", "build", "--load", f"--platform={arch.platform}", f"--tag={name}", "--progress=plain", made],
                check=False,
                environment={"BUILDX_NO_DEFAULT_ATTESTATIONS": "1", "BUILDX_GIT_INFO": "0"},
            )
        if built.returncode == 0:
            return
        if "python3 -c" not in built.stderr:
            raise BuildFailed(
                f"the stand-in base {name} could not be built:\n{last_lines(built.stderr)}", do="docker info"
            )
        tried = f"tried the one {origin}, which does not run on Debian {SUITE}"
    raise no_python(tag.python, tried)


def _pythons(variant: Variant, tag: BaseTag, arch: Arch) -> Iterator[tuple[str, Path]]:
    """Yield Pythons for a base: where each is from, and a folder that holds it at its place."""
    if arch is not host_arch() and tag.python == PYTHON:
        # Another architecture's Python lies on no machine, and fetching one needs a host that not everybody reaches.
        yield f"of Debian {SUITE}", os_python_context(tag.python, arch, variant.python_home)
        return
    for prefix in find_prefixes(tag.python, arch):
        yield f"in {prefix}", python_context(tag.python, arch, variant.python_home, prefix)


def _write_cann(variant: Variant, tag: BaseTag, arch: Arch, folder: Path) -> None:
    write_tree({**cann_tree.release_tree(tag.cann, arch, variant.chip.ops_package), **_startup_files(tag)}, folder)
    packages = folder / variant.python_home.lstrip("/") / "lib" / f"python{tag.python}" / "site-packages"
    programs = folder / variant.python_home.lstrip("/") / "bin"
    for path in (packages, programs):
        path.mkdir(parents=True)
    for name, version in PIP_SET.items():
        if name == "absl-py" and tag.release < ReleaseVersion.parse("9.0.0"):
            continue
        wheel = stand_in(name, version, python=tag.python, arch=arch)
        path = folder / wheel.file_name
        path.write_bytes(wheel.pack())
        install_wheel(path, packages, programs, f"{variant.python_home}/bin/python{tag.python}")
        path.unlink()
    set_times(folder)


def _scripts(tag: BaseTag, abi: str) -> tuple[str, ...]:
    """Return the set_env scripts in the order they are sourced; from 9.0.1 on the last one is told the C++ ABI."""
    option = f" --cxx_abi={abi}" if tag.release >= ReleaseVersion.parse("9.0.1") else ""
    compiler = f"{INSTALL_ROOT}/cann-{tag.cann}/share/info/ascendnpu-ir/bin/set_env.sh"
    return TOOLKIT_SCRIPT, compiler, f"{ATB_SCRIPT}{option}"


def _startup_files(tag: BaseTag) -> Tree:
    """Return Ubuntu's start-up files, with the lines that the real base appends to two of them.

    The option's value is the one it has while the real image is built.
    """
    lines = "".join(f"source {script}\n" for script in _scripts(tag, "1"))
    return {
        "etc/profile": text_file(data_text("cann/profile") + lines),
        "root/.bashrc": text_file(data_text("cann/bashrc") + lines),
        "root/.profile": text_file(data_text("cann/root_profile")),
    }


def _libraries(top: str) -> list[str]:
    names = ("lib64", "lib64/plugin/opskernel", "lib64/plugin/nnengine", "opp/built-in/op_impl/ai_core/tbe/op_tiling")
    return [f"{top}/{name}" for name in names]


def _tools(top: str) -> list[str]:
    return [f"{top}/tools/aml/lib64", f"{top}/tools/aml/lib64/plugin"]


def _hard_link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
