"""Processor architectures: the two that exist here, every way they are written, and the host's own."""

import platform
from enum import StrEnum

from ascend_images.errors import BadInput


class Arch(StrEnum):
    """An architecture by Docker's name for it."""

    AMD64 = "amd64"
    ARM64 = "arm64"

    @property
    def kernel(self) -> str:
        """The name that the kernel, wheels and CANN's packages use: `x86_64` or `aarch64`."""
        return "x86_64" if self is Arch.AMD64 else "aarch64"

    @property
    def platform(self) -> str:
        """The platform as Docker writes it: `linux/amd64` or `linux/arm64`."""
        return f"linux/{self.value}"

    @property
    def uv_platform(self) -> str:
        """The value for `uv pip compile --python-platform`; torch_npu's wheels are manylinux_2_28 on both."""
        return f"{self.kernel}-manylinux_2_28"

    @property
    def qemu(self) -> str:
        """The name under which an emulator of this architecture is registered in /proc/sys/fs/binfmt_misc."""
        return f"qemu-{self.kernel}"


_SPELLINGS = {
    "x86": Arch.AMD64,
    "x86_64": Arch.AMD64,
    "amd64": Arch.AMD64,
    "arm": Arch.ARM64,
    "arm64": Arch.ARM64,
    "aarch64": Arch.ARM64,
}

# The variants that say no more than the architecture does; containerd drops these two when it normalises a platform.
# "arm" has none: with a variant Docker means 32-bit ARM by it.
_EMPTY_VARIANTS = {"amd64": "v1", "x86_64": "v1", "arm64": "v8", "aarch64": "v8"}

_WANTED_ARCH = "one of " + ", ".join(_SPELLINGS) + " (in any case)"


def parse_arch(text: str) -> Arch:
    """Return the architecture that `text` names, in any case and with blanks around it; raises BadInput."""
    arch = _SPELLINGS.get(text.strip().lower())
    if arch is None:
        raise BadInput(f"unknown architecture {text!r}", wanted=_WANTED_ARCH)
    return arch


def parse_platform(text: str) -> Arch:
    """Return the architecture of a platform such as `linux/arm64` or `linux/arm64/v8`, or a bare one.

    Raises BadInput for another operating system, an unknown architecture and a variant that asks for more than it.
    """
    system, slash, rest = text.strip().lower().partition("/")
    if not slash:
        return parse_arch(text)
    name, slash, variant = rest.partition("/")
    arch = _SPELLINGS.get(name)
    if system != "linux" or arch is None or (slash and variant != _EMPTY_VARIANTS.get(name)):
        raise BadInput(f"unknown platform {text!r}", wanted=f"linux/amd64, linux/arm64, or {_WANTED_ARCH}")
    return arch


def host_arch() -> Arch:
    """Return the architecture of this machine; raises BadInput when no Ascend image exists for it."""
    machine = platform.machine()
    try:
        return parse_arch(machine)
    except BadInput:
        raise BadInput(
            f"this machine's architecture is {machine!r}, for which there is no CANN",
            wanted=_WANTED_ARCH,
            do="name the architecture: --arch arm64",
        ) from None
