"""The typed, frozen model of versions.toml; its JSON schema is generated from these classes.

Every class is a table of the file, every field a key; the text beside a field is its help in an editor.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ascend_images.pins.table import Table, Text
from ascend_images.pins.versions_lock import VersionsLock

Reasons = dict[Text, Text]

# A line of host drivers, `25.2`, or all from a version on: `>=24.1.rc2`, `>=24.1.rc2,<=25.2.0`.
_NUMBER = "(0|[1-9][0-9]{0,3})"
_DRIVER = rf"{_NUMBER}\.{_NUMBER}\.(rc)?{_NUMBER}(\.{_NUMBER}){{0,3}}"
Drivers = Annotated[str, Meta(pattern=rf"^({_NUMBER}\.{_NUMBER}|>={_DRIVER}(,<={_DRIVER})?)$")]

Install = Literal["editable", "pythonpath", "none"]
ArchName = Literal["amd64", "arm64"]


class Hardware(Table, frozen=True, kw_only=True):
    """An Atlas family and what it implies."""

    name: Annotated[Text, Meta(description="Product name of the family, for people.")]
    cann_tag: Annotated[Text, Meta(description="Chip field of CANN base-image tags, and of ours.")]
    soc_version: Annotated[Text, Meta(description="vLLM Ascend's build target; stays in the image as SOC_VERSION.")]
    soc_versions: Annotated[tuple[Text, ...], Meta(description="Other targets of the family that may replace it.")]
    ops_package: Annotated[Text, Meta(description="Chip word in the name of CANN's operator package.")]
    device_type: Annotated[Text, Meta(description="Family word that a build of vLLM Ascend carries in itself.")]
    npu_smi_names: Annotated[tuple[Text, ...], Meta(description="Names that npu-smi prints for chips of the family.")]
    triton: Annotated[bool, Meta(description="Whether triton-ascend supports the family.")] = True


class Series(Table, frozen=True, kw_only=True):
    """What all CANN releases of one X.Y have in common."""

    triton_ascend: Annotated[Text | None, Meta(description="Default version; without one a stack must say it.")] = None
    drivers: Annotated[
        tuple[Drivers, ...],
        Meta(description='Host drivers (HDK) that are accepted: lines "25.2" or ">=24.1.rc2,<=25.2.0".'),
    ] = ()
    drivers_for: Annotated[
        dict[Text, tuple[Drivers, ...]],
        Meta(description="The same for hardware with driver lines of its own, by its name in [hardware]."),
    ] = msgspec.field(default_factory=dict)


class Bases(Table, frozen=True, kw_only=True):
    """The published base images of a CANN release: the product of these three lists."""

    chips: tuple[Text, ...]
    os: tuple[Text, ...]
    python: tuple[Text, ...]


class Run(Table, frozen=True, kw_only=True):
    """A CANN .run package that is laid over a base image of another release."""

    url: Annotated[Text, Meta(description="Address; {arch} is x86_64 or aarch64, {ops} the hardware's ops_package.")]
    sha256: Annotated[
        dict[Text, Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]],
        Meta(description="Checksum per file name, where a person knows one; versions.lock has what was downloaded."),
    ] = msgspec.field(default_factory=dict)


class Cann(Table, frozen=True, kw_only=True):
    """A CANN release: its base images, and its packages where it is laid over another release."""

    bases: tuple[Bases, ...]
    complete: Annotated[bool, Meta(description="Whether `bases` is the whole list; if not, others are `unknown`.")] = (
        True
    )
    python_home: Annotated[
        dict[Text, Text], Meta(description="Python's prefix in the base image, by Python version.")
    ] = msgspec.field(default_factory=dict)
    run: Annotated[dict[Literal["toolkit", "ops", "nnal"], Run], Meta(description="Packages of the release.")] = (
        msgspec.field(default_factory=dict)
    )


class BaseImage(Table, frozen=True, kw_only=True):
    """Where CANN base images come from."""

    image: Annotated[Text, Meta(description="Repository of the base images, without a tag.")]


class Index(Table, frozen=True, kw_only=True):
    """A package index, bound to what it serves; the default index needs no entry."""

    url: Annotated[Text, Meta(pattern="^https://", description="Address of the index (PEP 503), https only.")]
    serves: Annotated[
        tuple[Text, ...], Meta(description='Requirements it answers, with markers: "torch; platform_machine == …".')
    ]


class Mirror(Table, frozen=True, kw_only=True):
    """Other places for the same things, chosen when building; never in a rendered file nor in an image."""

    git: Annotated[dict[Text, Text], Meta(description="Address prefix -> its replacement, for git.")] = msgspec.field(
        default_factory=dict
    )
    registry: Annotated[dict[Text, Text], Meta(description="Image repository -> its replacement.")] = msgspec.field(
        default_factory=dict
    )
    index: Annotated[dict[Text, Text], Meta(description='Name in [index], or "default" -> its replacement.')] = (
        msgspec.field(default_factory=dict)
    )
    os: Annotated[dict[Text, Text], Meta(description='OS family ("ubuntu", "openeuler") -> its replacement.')] = (
        msgspec.field(default_factory=dict)
    )


class Metadata(Table, frozen=True, kw_only=True):
    """What a distribution asks for, written down where the index that serves it may be out of reach."""

    name: Text
    version: Text
    requires: Annotated[tuple[Text, ...], Meta(description="Its Requires-Dist lines.")]
    source: Annotated[Text, Meta(description="Where this was read.")]


class Relax(Table, frozen=True, kw_only=True):
    """Lifts one named demand of one source or distribution."""

    whose: Annotated[Text, Meta(description="A source or a distribution.")]
    demand: Annotated[Text, Meta(description="The requirement as it stands there.")]
    reason: Text


class Patch(Table, frozen=True, kw_only=True):
    """A change to an installed file that must apply in exactly so many places."""

    distribution: Text
    file: Annotated[Text, Meta(description="Path in site-packages.")]
    find: Text
    replace: Text
    count: Annotated[int, Meta(ge=1, description="How many places must match; any other number stops the build.")]
    reason: Text


class Decision(Table, frozen=True, kw_only=True):
    """A run-time setting of another project's image that was decided on by name."""

    value: Annotated[Text | None, Meta(description="Set in ENV; without a value the setting is left out.")] = None
    reason: Text


class System(Table, frozen=True, kw_only=True):
    """Packages of the operating system, by package manager."""

    apt: tuple[Text, ...] = ()
    yum: tuple[Text, ...] = ()


class Source(Table, frozen=True, kw_only=True):
    """A git checkout kept in the image."""

    git: Annotated[str, Meta(description="Address of the repository, https.")] = ""
    ref: Annotated[str, Meta(description="Tag, branch or commit; versions.lock says at which commit it is.")] = ""
    path: Annotated[str, Meta(pattern="^(/.*)?$", description="Where the checkout lies in the image.")] = ""
    module: Annotated[str, Meta(description="Import name whose origin must lie under `path`.")] = ""
    distribution: Annotated[str, Meta(description="Name of its distribution; the source's own name by default.")] = ""
    version: Annotated[
        str, Meta(description="Version of the distribution; read off the ref where it is a version.")
    ] = ""
    local_version: Annotated[str, Meta(description='Local part its build adds to the version ("empty").')] = ""
    install: Annotated[Install, Meta(description="How Python finds it.")] = "editable"
    requirements: Annotated[tuple[Text, ...], Meta(description="Files in it that say what it needs.")] = ()
    declares: Annotated[
        tuple[Text, ...], Meta(description="Demands that only its setup.py computes, written here: code is not run.")
    ] = ()
    build_requires: Annotated[tuple[Text, ...], Meta(description="Build requirements beyond its pyproject.toml.")] = ()
    dependencies: Annotated[bool, Meta(description="False: installed without what it asks for.")] = True
    submodules: Annotated[bool, Meta(description="Whether its submodules are fetched, each at its commit.")] = False
    compiles: Annotated[bool, Meta(description="Whether it builds against torch and CANN.")] = False
    env: Annotated[dict[Text, str], Meta(description="Environment of its install command alone.")] = msgspec.field(
        default_factory=dict
    )
    checks: Annotated[tuple[Text, ...], Meta(description="Modules or module.attribute that must import.")] = ()


class Stack(Table, frozen=True, kw_only=True):
    """What is installed, in which versions."""

    extends: Annotated[
        str, Meta(description="A stack this one starts from; its tables are merged, its keys replaced.")
    ] = ""
    without: Annotated[
        Reasons, Meta(description="Packages and sources of the extended stack left out, with reasons.")
    ] = msgspec.field(default_factory=dict)
    repository: Annotated[str, Meta(description="Image repository of the result, without a tag.")] = ""
    tag: Annotated[
        str, Meta(description="Template of the tag; {source}, {package}, {cann}, {cann_tag}, {os}, {python}.")
    ] = ""
    alias_tags: Annotated[
        tuple[Text, ...],
        Meta(
            description="Templates of tags that always stand for the newest; as `tag`, and {stack} (without its chip "
            "where {cann_tag} says that), {os_family}."
        ),
    ] = ("latest-{stack}-{cann_tag}-{os_family}",)
    end_of_support: Annotated[str, Meta(description="Last day on which it is supported, YYYY-MM-DD.")] = ""
    cann: Annotated[str, Meta(description="CANN release.")] = ""
    base_cann: Annotated[str, Meta(description="Release of the base image, where `cann` is laid over another.")] = ""
    os: Annotated[str, Meta(description="Operating system of the base image's tag.")] = ""
    python: Annotated[str, Meta(description="Python X.Y of the base image's tag.")] = ""
    release: Annotated[bool, Meta(description="A release takes no moving ref.")] = False
    workdir: Annotated[str, Meta(description="WORKDIR; the base's where empty.")] = ""
    packages: Annotated[
        dict[Text, Text], Meta(description="Exact versions, or a specifier where a range is meant.")
    ] = msgspec.field(default_factory=dict)
    no_dependencies: Annotated[Reasons, Meta(description="Packages installed without what they ask for.")] = (
        msgspec.field(default_factory=dict)
    )
    relax: tuple[Relax, ...] = ()
    exclude: Annotated[Reasons, Meta(description="Never installed; names may end in *.")] = msgspec.field(
        default_factory=dict
    )
    accept: Annotated[Reasons, Meta(description="Rules broken on purpose, by id.")] = msgspec.field(
        default_factory=dict
    )
    sources: dict[Text, Source] = msgspec.field(default_factory=dict)
    env: Annotated[dict[Text, str], Meta(description="Environment of the image.")] = msgspec.field(default_factory=dict)
    install_env: Annotated[dict[Text, str], Meta(description="Environment of the package installation alone.")] = (
        msgspec.field(default_factory=dict)
    )
    runtime: Annotated[dict[Text, Decision], Meta(description="Run-time settings decided by name.")] = msgspec.field(
        default_factory=dict
    )
    checks: Annotated[tuple[Text, ...], Meta(description="Further modules or attributes that must import.")] = ()
    patches: tuple[Patch, ...] = ()
    system: System = System()


class VariantEntry(Table, frozen=True, kw_only=True):
    """stack x hardware x OS x Python: one image, one rendered Dockerfile."""

    stack: Text
    hardware: Text
    aliases: Annotated[tuple[Text, ...], Meta(description="Other names it may be called by.")] = ()
    soc_version: str = ""
    cann: str = ""
    base_cann: str = ""
    os: str = ""
    python: str = ""
    tag: str = ""
    experimental: Annotated[str, Meta(description="Why it is experimental; printed and labelled.")] = ""
    platforms: Annotated[tuple[ArchName, ...], Meta(min_length=1)] = ("amd64", "arm64")


class PinsFile(Table, frozen=True, kw_only=True):
    """versions.toml."""

    schema: Literal[1]
    base: BaseImage
    hardware: dict[Text, Hardware]
    series: dict[Text, Series] = msgspec.field(default_factory=dict)
    cann: dict[Text, Cann]
    index: dict[Text, Index] = msgspec.field(default_factory=dict)
    mirror: dict[Text, Mirror] = msgspec.field(default_factory=dict)
    metadata: tuple[Metadata, ...] = ()
    stack: dict[Text, Stack]
    variant: dict[Text, VariantEntry]


class Pins(PinsFile, frozen=True, kw_only=True):
    """versions.toml, and what versions.lock says that its names mean."""

    locked: VersionsLock = VersionsLock()
