"""A minimal Debian for the stand-ins: made by debootstrap once, packed, and imported into the engine."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from ascend_images.errors import BuildFailed, MissingTool
from ascend_images.pins.platform import Arch, host_arch
from ascend_images.sandbox.process import call, docker
from ascend_images.sandbox.store import digest, stored

REPOSITORY = "ascend-images-sandbox/os"
#: The release of Debian that is nearest to Ubuntu 22.04: its packages have the names that the stacks ask for.
SUITE = "bookworm"
#: The series of its own Python.
PYTHON = "3.11"
EMULATION = Path(__file__).resolve().parents[2] / "scripts" / "emulation.sh"
#: /etc/os-release of the stand-in, in the words of base-image tags.
OS = "debian12"

# What the real base images install, and the libraries that a copied CPython is linked to.
_PACKAGES = (
    "ca-certificates", "gcc", "g++", "make", "cmake", "git", "wget", "jq", "curl", "libnuma-dev",
    "libssl3", "libffi8", "libsqlite3-0", "zlib1g", "libbz2-1.0", "liblzma5", "libreadline8", "libncursesw6",
    "libuuid1",
)  # fmt: skip
# Under emulation each package takes its time (ca-certificates alone a minute): what compiles a source, and no more.
_EMULATED_PACKAGES = ("g++", "git", f"python{PYTHON}", f"libpython{PYTHON}-dev")
_LEFT_OUT = (
    "./dev/*", "./proc/*", "./sys/*", "./tmp/*", "./usr/share/doc/*", "./usr/share/info/*", "./usr/share/locale/*",
    "./usr/share/man/*", "./var/cache/apt/*", "./var/lib/apt/lists/*", "./var/log/*",
)  # fmt: skip

Say = Callable[[str], None]


def os_key(arch: Arch) -> str:
    """Return the short hash of everything that the operating system is made from."""
    return digest(SUITE, arch, packages_of(arch), _LEFT_OUT)


def os_image(arch: Arch, say: Say) -> str:
    """Return the name of the operating system's image, imported if this engine lacks it.

    Raises MissingTool where debootstrap cannot be had or may not be run, BuildFailed where it fails.
    """
    name = f"{REPOSITORY}:{SUITE}-{arch.value}-{os_key(arch)}"
    if docker(["image", "inspect", "--format", "{{.Id}}", name], check=False).returncode != 0:
        (archive,) = os_archive(arch, say).glob("root.tar*")
        docker(["import", f"--platform={arch.platform}", str(archive), name])
    return name


def os_archive(arch: Arch, say: Say) -> Path:
    """Return the folder with the packed operating system, made once for all stand-ins; raises as `os_image` does."""

    def make(folder: Path) -> None:
        _need_debootstrap()
        need_emulation(arch)
        minutes = "about a minute" if arch is host_arch() else "some minutes under emulation"
        say(f"making the operating system of the stand-ins (Debian {SUITE}, {arch.value}): {minutes}, once")
        root = folder / "root"
        options = [f"--arch={arch.value}", "--variant=minbase", f"--include={','.join(packages_of(arch))}"]
        try:
            call(["debootstrap", *options, SUITE, str(root)])
            _pack(root, folder)
        finally:
            shutil.rmtree(root, ignore_errors=True)

    return stored("os", f"{SUITE}-{arch.value}", os_key(arch), make, large=True)


def need_emulation(arch: Arch) -> None:
    """Have programs of `arch` run here and in containers, by scripts/emulation.sh; nothing where they do already.

    Raises MissingTool where that takes root, or cannot be done here.
    """
    if arch is host_arch():
        return
    try:
        call([str(EMULATION), arch.value])
    except BuildFailed as error:
        raise MissingTool(
            f"a stand-in base for {arch.value} runs {arch.kernel} programs, which this machine does not: {error.found}",
            wanted=f"an emulator registered as {arch.qemu}",
            do=f"sudo scripts/emulation.sh {arch.value}",
        ) from None


def packages_of(arch: Arch) -> tuple[str, ...]:
    """Return the packages of the operating system for an architecture."""
    return _PACKAGES if arch is host_arch() else _EMULATED_PACKAGES


def _pack(root: Path, folder: Path) -> None:
    """Pack a root folder; compressed, since the engine would do that on one thread and slower."""
    packer = ["zstd", "-3", "-T0", "-q"] if shutil.which("zstd") else ["gzip", "-1", "-n"]
    path = folder / ("root.tar.zst" if packer[0] == "zstd" else "root.tar.gz")
    left_out = [f"--exclude={name}" for name in _LEFT_OUT]
    tar_command = ["tar", "-C", str(root), "--numeric-owner", *left_out, "-cf", "-", "."]
    with path.open("wb") as target, subprocess.Popen(tar_command, stdout=subprocess.PIPE) as tar:
        packed = subprocess.run(packer, stdin=tar.stdout, stdout=target, check=False)
    if tar.returncode != 0 or packed.returncode != 0:
        codes = f"tar ended with {tar.returncode}, {packer[0]} with {packed.returncode}"
        raise BuildFailed(f"the stand-ins' operating system could not be packed: {codes}", do="df -h")


def _need_debootstrap() -> None:
    """Install debootstrap if it is missing; raises MissingTool where it cannot be had or may not be run."""
    if os.geteuid() != 0:
        raise MissingTool(
            "the stand-ins' operating system is made by debootstrap, which needs root",
            wanted="root, this once: what was made is kept",
            do="run this as root, or build on a real base: --base-image",
        )
    if shutil.which("debootstrap"):
        return
    if not shutil.which("apt-get"):
        raise MissingTool(
            "no debootstrap on PATH, and no apt to get it by",
            wanted="debootstrap",
            do="install debootstrap by this machine's package manager",
        )
    packages = ["debootstrap", "debian-archive-keyring", "zstd"]
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    call(["apt-get", "update", "-q"], check=False, environment=quiet)
    call(["apt-get", "install", "-qy", "--no-install-recommends", *packages], environment=quiet)
