"""A Variant: one image, fully resolved. Frozen data, made by `resolve`, read by every other room."""

from ascend_images.pins import model
from ascend_images.pins.platform import Arch
from ascend_images.pins.table import Table


class Checkout(model.Source, frozen=True, kw_only=True):
    """A source of the stack with every default filled in: one git checkout kept in the image.

    `commit` is what the ref means by versions.lock, or the ref itself where that is a commit; empty where it is not
    known.
    """

    name: str
    commit: str = ""

    @property
    def revision(self) -> str:
        """What is fetched: the commit where it is known, else the ref."""
        return self.commit or self.ref

    @property
    def installed_version(self) -> str:
        """The version of its distribution in the image, local part included."""
        return f"{self.version}+{self.local_version}" if self.local_version else self.version


class RunFile(Table, frozen=True, kw_only=True):
    """One CANN .run package for one architecture; versions.toml says `sha256`, versions.lock says `locked`."""

    part: str
    arch: Arch
    url: str
    file: str
    sha256: str
    locked: str = ""

    @property
    def checksum(self) -> str:
        """Its sha256 by whoever says one, empty where nobody does."""
        return self.sha256 or self.locked


class Finding(Table, frozen=True, kw_only=True):
    """What a rule said of a variant; `state` is broken, accepted or unknown."""

    rule: str
    state: str
    message: str
    reason: str
    wanted: str = ""


class Variant(Table, frozen=True, kw_only=True):
    """stack x hardware x OS x Python: everything that a rendered Dockerfile, a lock or a check needs to know."""

    name: str
    aliases: tuple[str, ...]
    experimental: str
    stack: str
    release: bool
    repository: str
    tag: str
    tag_template: str
    platforms: tuple[Arch, ...]

    hardware: str
    chip: model.Hardware
    soc_version: str
    cann: str
    base_cann: str
    base_image: str
    """The base image's name and tag, as it is pinned."""
    os: str
    os_family: str
    python: str
    python_home: str
    cann_home: str
    cann_scripts: tuple[str, ...]
    """Shell words of each set_env script, in the order they are sourced."""
    runs: tuple[RunFile, ...]
    """Empty unless the CANN release is laid over a base of another release."""

    packages: dict[str, str]
    """Pinned packages by name as written: an exact version or a specifier, without a local version."""
    no_dependencies: dict[str, str]
    relax: tuple[model.Relax, ...]
    exclude: dict[str, str]
    accept: dict[str, str]
    sources: tuple[Checkout, ...]
    env: dict[str, str]
    """The image's environment in order; values may hold `{kernel_arch}` (x86_64 or aarch64)."""
    install_env: dict[str, str]
    runtime: dict[str, model.Decision]
    checks: tuple[str, ...]
    patches: tuple[model.Patch, ...]
    system_packages: tuple[str, ...]
    workdir: str
    indexes: dict[str, model.Index]
    metadata: tuple[model.Metadata, ...]
    findings: tuple[Finding, ...]
    base_digest: str = ""
    """What the base image's name means by versions.lock; empty where that is not known."""

    @property
    def base_reference(self) -> str:
        """The base image as it is taken: at its digest where that is known."""
        if self.base_digest and "@" not in self.base_image:
            return f"{self.base_image}@{self.base_digest}"
        return self.base_image

    @property
    def overlay(self) -> bool:
        """Whether the CANN release is laid over a base image of another one."""
        return self.cann != self.base_cann

    def pin(self, package: str, arch: Arch) -> str:
        """Return the pinned version of a package for an architecture: on x86_64 the torch trio is the CPU build."""
        version = self.packages[package]
        if arch is Arch.AMD64 and package in TORCH_TRIO and "+" not in version:
            return f"{version}+cpu"
        return version


TORCH_TRIO = ("torch", "torchvision", "torchaudio")

#: Places in the image that belong to this project.
IMAGE_FOLDER = "/opt/ascend-images"
