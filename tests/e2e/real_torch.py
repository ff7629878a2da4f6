"""The real torch and torch_npu in an image without CANN: stand-ins for its libraries, made from what torch_npu needs.

The wheels are fetched once by pip and kept in the sandbox's store. Outside torch, torch_npu's libraries need seven of
CANN's and are bound at load: every symbol must be there, and no more than the symbols has to be.
"""

import ctypes
import os
import re
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace
from uv import find_uv_bin

from ascend_images.pins.load import load
from ascend_images.pins.platform import Arch, host_arch
from ascend_images.pins.resolve import resolve
from ascend_images.pins.variant import Variant
from ascend_images.sandbox.base import base_image
from ascend_images.sandbox.elf import answering, shared_object, storing
from ascend_images.sandbox.store import code_digest, digest, stored
from ascend_images.sandbox.tree import File, Folder, Tree, write_tree
from tests.e2e.builds import ROOT

ARCH = host_arch()
PYTHON = "3.11"
CANN = "9.0.0"
TORCH = "2.13.0+cpu" if ARCH is Arch.AMD64 else "2.13.0"
TORCH_NPU = "2.13.0"
#: A release of torch_npu for another torch: which of the two is the wrong one makes no difference to the pair.
OTHER_TORCH_NPU = "2.12.0"
#: What the stand-in CANN counts, and what it calls each of them.
DEVICES = 2
SOC = "Ascend910B3"

HOME = f"/usr/local/Ascend/cann-{CANN}"
_ATB = f"/usr/local/Ascend/nnal/atb/{CANN}/atb/cxx_abi_1/lib"


class UnobtainableError(Exception):
    """The wheels cannot be had on this machine."""


@dataclass(frozen=True)
class Wheels:
    """Folders of wheels: torch and torch_npu with all that they need, and torch_npu for another torch."""

    pair: Path
    other: Path


def wheels() -> Wheels:
    """Return the wheels, fetched on first use; raises UnobtainableError."""
    index = load(ROOT / "versions.toml").index["torch-cpu"].url

    def make(folder: Path) -> None:
        pair = folder / "pair"
        _fetch(pair, "--no-deps", f"--extra-index-url={index}", f"torch=={TORCH}")
        _fetch(pair, f"--find-links={pair}", f"torch=={TORCH}", f"torch_npu=={TORCH_NPU}")
        _fetch(folder / "other", "--no-deps", f"torch_npu=={OTHER_TORCH_NPU}")

    key = digest(PYTHON, TORCH, TORCH_NPU, OTHER_TORCH_NPU)
    folder = stored("real-torch", ARCH.value, key, make, large=True)
    return Wheels(folder / "pair", folder / "other")


def _fetch(folder: Path, *words: str) -> None:
    options = ["--quiet", "--disable-pip-version-check", "--retries=1", "--only-binary=:all:"]
    command = [sys.executable, "-m", "pip", "download", *options, f"--python-version={PYTHON}", f"--dest={folder}"]
    done = subprocess.run([*command, *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise UnobtainableError(f"{words[-1]}: {(done.stderr.strip().splitlines() or ['pip said nothing'])[-1]}")


def base_variant() -> Variant:
    """Return a2 on the base image whose Python the wheels are for."""
    pins = load(ROOT / "versions.toml")
    return replace(
        resolve(pins, "a2", allow_broken=True),
        cann=CANN,
        base_cann=CANN,
        base_image=f"quay.io/ascend/cann:{CANN}-910b-ubuntu22.04-py{PYTHON}",
        python=PYTHON,
        python_home=pins.cann[CANN].python_home[PYTHON],
    )


# --- what torch_npu asks of CANN


@dataclass(frozen=True)
class Symbols:
    """What a shared object needs, what it defines, and what it must find elsewhere."""

    needed: frozenset[str]
    defined: frozenset[str]
    wanted: frozenset[str]


_SECTION, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
_SHT_DYNAMIC, _SHT_DYNSYM, _DT_NEEDED, _STB_GLOBAL = 6, 11, 1, 1


def symbols(content: bytes) -> Symbols:
    """Read the dynamic symbols of an ELF64 object. A weak one may stay undefined, so it is not wanted."""
    at, (size, count) = struct.unpack_from("<Q", content, 40)[0], struct.unpack_from("<HH", content, 58)
    headers = [_SECTION.unpack_from(content, at + size * index) for index in range(count)]

    def body(header: tuple[int, ...]) -> bytes:
        return content[header[4] : header[4] + header[5]]

    def text(strings: bytes, offset: int) -> str:
        return strings[offset : strings.index(b"\0", offset)].decode()

    by_kind = {header[1]: header for header in headers}
    table, dynamic = by_kind[_SHT_DYNSYM], by_kind[_SHT_DYNAMIC]
    strings, libraries = body(headers[table[6]]), body(headers[dynamic[6]])
    defined, wanted = set(), set()
    for name, info, _, section, _, _ in _SYMBOL.iter_unpack(body(table)):
        if section:
            defined.add(text(strings, name))
        elif info >> 4 == _STB_GLOBAL:
            wanted.add(text(strings, name))
    tags = struct.iter_unpack("<QQ", body(dynamic))
    needed = frozenset(text(libraries, value) for tag, value in tags if tag == _DT_NEEDED)
    return Symbols(needed, frozenset(defined), frozenset(wanted))


def _objects(folder: Path, name: str) -> dict[str, Symbols]:
    """Return the symbols of what importing a package loads: its extension module and its libraries."""
    (wheel,) = folder.glob(f"{name}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        paths = [path for path in archive.namelist() if re.fullmatch(rf"{name}/(_C\.[^/]*|lib/[^/]*)\.so", path)]
        return {path.rpartition("/")[2]: symbols(archive.read(path)) for path in paths}


def cann_libraries(folder: Path) -> dict[str, list[str]]:
    """Return the libraries of CANN that the torch_npu of a folder needs, each with the functions asked of it.

    CANN's are those that neither torch nor this Python process and the compilers' libraries have.
    """
    ours, torch = _objects(folder, "torch_npu"), _objects(folder, "torch")
    needed = _united(one.needed for one in ours.values()) - {*ours, *torch}
    # Names of the system's libraries have a number at their end.
    libraries: dict[str, list[str]] = {name: [] for name in sorted(needed) if name.endswith(".so")}
    defined = _united(one.defined for one in (*ours.values(), *torch.values()))
    system = [ctypes.CDLL(name) for name in (None, "libstdc++.so.6", "libgcc_s.so.1", "libm.so.6")]
    for name in sorted(_united(one.wanted for one in ours.values()) - defined):
        if not any(hasattr(library, name) for library in system):
            libraries[_library_of(name)].append(name)
    return libraries


def _united(parts: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*parts)


def _library_of(function: str) -> str:
    """Return the library that has a function of CANN: a guess, which is good enough since all of them are loaded."""
    if "3atb" in function:
        return "libatb.so"
    return "libacl_op_compiler.so" if function.startswith("aclop") else "libascendcl.so"


# --- images


def cann_path(library: str) -> str:
    """Return where a library of CANN lies in an image."""
    return f"{_ATB if library == 'libatb.so' else f'{HOME}/lib64'}/{library}"


def stand_ins(folder: Path) -> Path:
    """Return a folder with stand-ins, at their places, of the libraries of CANN that the torch_npu of `folder` needs.

    Like the real one, libascendcl.so does not load without the host's driver.
    """
    code = {"aclrtGetDeviceCount": storing(ARCH, DEVICES), "aclrtGetSocName": answering(ARCH, SOC)}
    needed = {"libascendcl.so": ["libruntime.so"]}

    def make(made: Path) -> None:
        # torch_npu asks for this folder of the toolkit by its name.
        tree: Tree = {f"{HOME}/runtime".lstrip("/"): Folder()}
        for name, functions in cann_libraries(folder).items():
            content = shared_object(ARCH, name, functions, needed=needed.get(name, []), code=code)
            tree[cann_path(name).lstrip("/")] = File(content, 0o755)
        write_tree(tree, made)

    key = digest(folder.parent.name, Path(__file__).read_text(encoding="utf-8"), code_digest("elf.py", "tree.py"))
    return stored("real-torch-cann", ARCH.value, key, make, large=True)


INSTALL = """\
RUN --network=none --mount=type=tmpfs,target=/tmp --mount=type=bind,from=wheels,target=/wheels \\
    --mount=type=bind,from=uv,source=uv,target=/mnt/uv \\
    /mnt/uv pip install -q --system --no-cache --no-config --no-index --no-deps /wheels/*.whl
"""


def green() -> tuple[str, ...]:
    """Return the lines that build an image of torch, torch_npu and the stand-in CANN on the sandbox's base."""
    return (
        f"FROM {base_image(base_variant(), ARCH, print)}",
        INSTALL,
        "COPY --from=cann / /",
        # Bytecode of what an import loads, and of no more. As in any build, CANN's stub of the driver stands in for it.
        f"RUN --network=none LD_LIBRARY_PATH={HOME}/devlib:$LD_LIBRARY_PATH python3 -c 'import torch_npu'",
    )


def build(name: str, lines: Iterable[str], **contexts: Path) -> str:
    """Build an image; return its name. Its layers stay uncompressed, since they go nowhere."""
    reference = f"ascend-images-test/real-torch:{name}"
    places = {"uv": Path(find_uv_bin()).parent, **contexts}
    options = [f"--build-context={key}={folder}" for key, folder in places.items()]
    options.append(f"--output=type=image,name={reference},compression=uncompressed,unpack=true")
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run(
            ["docker", "buildx", "build", "--progress=plain", "--file=-", *options, empty],
            input="\n".join(lines),
            capture_output=True,
            text=True,
            env={**os.environ, "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"},
        )
    assert done.returncode == 0, done.stderr[-4000:]
    return reference
