"""The plan of one build: a variant, an architecture and what was chosen on the command line, as one frozen value."""

import zipfile
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from ascend_images.errors import BadInput
from ascend_images.images import bake
from ascend_images.images.cache import Cache, export_of, imports_of
from ascend_images.images.candidate import LABEL_IDENTITY, candidate_tag, identity
from ascend_images.images.epoch import FALLBACK
from ascend_images.images.network import DIRECT, Network
from ascend_images.images.publish import SANDBOX, image_name
from ascend_images.images.sources import LocalSource, staged_path
from ascend_images.pins.lockfile import file_name
from ascend_images.pins.platform import Arch
from ascend_images.pins.questions import Unanswered
from ascend_images.pins.tags import BaseTag, ImageRef
from ascend_images.pins.variant import Variant

#: Where builds leave their files, below the repository's root; git ignores it.
BUILD_FOLDER = "build"
#: Where they leave their records.
RECORDS = Path(BUILD_FOLDER) / "records"
#: Labels that say how an image was built; what is in it is said by the rendered file's own.
LABEL_UNLOCKED = "io.ascend-images.unlocked"
LABEL_SOURCE = "io.ascend-images.source."
LABEL_SANDBOX = "io.ascend-images.sandbox"

#: How layers may be packed. gzip is what every engine can pull; zstd is packed faster and smaller.
COMPRESSIONS = ("gzip", "zstd")

_IMAGE_CONTEXT = "docker-image://"


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """A rendered Dockerfile and its image.json, and where the build finds them.

    `file` is the Dockerfile, `facts` the folder that replaces the stage of that name where the committed image.json is
    not the one that is meant (None: the committed one is).
    """

    file: Path
    text: str
    image: Mapping[str, Any]
    facts: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What was chosen on the command line for all images of one call.

    `builder` names a buildx builder, empty for the engine's own; `base_image` is another place of the pinned base,
    `other_base` a base of other pins, for which the variant was resolved; `epoch` becomes SOURCE_DATE_EPOCH, in
    seconds; `arch_typed` says that the architecture was typed, so that emulating it is meant. `compression` is how
    layers are packed that the builder does not have yet; those that it has stay as they are. `cache_to` and
    `cache_from` are caches that outlive the builder. `typed` are the words that make the image what it is, for whoever
    is to type them again.
    """

    push: bool = False
    builder: str = ""
    unlocked: bool = False
    base_image: str = ""
    other_base: str = ""
    wheels: Path | None = None
    epoch: int = FALLBACK
    arch_typed: bool = False
    compression: str = COMPRESSIONS[0]
    cache_to: tuple[Cache, ...] = ()
    cache_from: tuple[Cache, ...] = ()
    typed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.compression not in COMPRESSIONS:
            raise BadInput(f"--compression {self.compression}", wanted=" or ".join(COMPRESSIONS))


@dataclass(frozen=True, kw_only=True)
class BuildPlan:
    """All that decides one image: what is built, from what, under which name.

    `variant` is what the image says of itself, the commits of local checkouts included; `pinned` the same without
    those, which is what locks are made for. `unanswered` are pins of what no context replaces that versions.lock does
    not answer. `root` is the repository, the build's context. `contexts` hold folders or
    `docker-image://…` by the stage they replace. `suffix` stands behind the tag where that alone would be wrong.
    """

    variant: Variant
    pinned: Variant
    arch: Arch
    root: Path
    rendered: Rendered
    choices: Choices = field(default_factory=Choices)
    contexts: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[LocalSource, ...] = ()
    network: Network = DIRECT
    suffix: str = ""
    unanswered: tuple[Unanswered, ...] = ()

    @property
    def name(self) -> str:
        """What people call it: `a2 arm64`."""
        return f"{self.variant.name} {self.arch.value}"

    @property
    def target(self) -> str:
        """Its name in the bake file."""
        return bake.target_name(self.variant.name, self.arch)

    @property
    def tag(self) -> str:
        """The image's tag for all architectures."""
        return f"{self.variant.tag}{self.suffix}"

    @property
    def identity(self) -> str:
        """What the image is known by until it is promoted: `sha256:…` over all of its pins."""
        return identity(self.variant)

    @property
    def image(self) -> str:
        """The image's full name: the one on this engine, or where it is pushed, that of a candidate."""
        if not self.choices.push:
            return self.local_image
        tag = candidate_tag(f"{self.variant.name}{self.suffix}", self.identity, self.arch)
        return f"{self.variant.repository}:{tag}"

    @property
    def local_image(self) -> str:
        """Its full name on an engine where it is run, the tag of its architecture included."""
        return image_name(self.variant, self.suffix, self.arch)

    @property
    def lock(self) -> Path:
        """The lock file that the build installs from: in the folder that replaces the stage `lock`, or in `locks/`."""
        given = self.contexts.get("lock")
        folder = Path(given) if given is not None else self.root / "locks"
        return folder / file_name(self.variant.name, self.arch)

    @property
    def base(self) -> str:
        """The base image's reference, or the folder that replaces it."""
        return self.contexts.get("cann", self.variant.base_reference).removeprefix(_IMAGE_CONTEXT)

    @property
    def record(self) -> Path:
        """Where its record goes."""
        return record_path(self.root / RECORDS, self.variant.name, self.arch)

    @property
    def log(self) -> Path:
        """Where its log goes."""
        return self.root / BUILD_FOLDER / "logs" / f"{self.variant.name}.{self.arch.value}.log"

    @property
    def staging(self) -> Path:
        """Where local checkouts are copied to for the build."""
        return self.root / BUILD_FOLDER / "sources"

    @property
    def labels(self) -> dict[str, str]:
        """The labels that this build adds to those of the rendered file: functions of what is built alone."""
        labels = {f"{LABEL_SOURCE}{source.name.lower()}": source.description for source in self.sources}
        labels[LABEL_IDENTITY] = self.identity
        if self.choices.unlocked:
            labels[LABEL_UNLOCKED] = "true"
        if self.suffix == SANDBOX:
            labels[LABEL_SANDBOX] = "true"
        return labels

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever builds ought to be told of it."""
        return (
            *self.network.notes,
            *_base_notes(self.variant, self.choices.base_image),
            *_mirror_notes(self.variant, self.network),
            *(f"not locked: {text}" for text in self.not_locked),
        )

    @property
    def not_locked(self) -> tuple[str, ...]:
        """The pins that are taken as they are today, since versions.lock does not say what they mean."""
        return tuple(
            one.found
            for one in self.unanswered
            # A file without a checksum stops a build that is not `unlocked`.
            if one.state == "missing" and (one.about != "run package" or self.choices.unlocked)
        )


def record_path(folder: Path, variant: str, arch: Arch) -> Path:
    """Return where the record of a variant for one architecture lies in a folder of records."""
    return folder / f"{variant}.{arch.value}.json"


def make_plan(
    variant: Variant,
    arch: Arch,
    *,
    root: Path,
    rendered: Rendered,
    choices: Choices,
    contexts: Mapping[str, str] | None = None,
    sources: Sequence[LocalSource] = (),
    network: Network = DIRECT,
    suffix: str = "",
) -> BuildPlan:
    """Return the plan; raises BadInput for an architecture the variant is not built for and choices that clash.

    `contexts` come from the caller (the sandbox's stand-ins, for one). Local checkouts, `--wheels`, `--base-image` and
    a mirror of the base registry become contexts here, in front of those. `rendered` must be of
    `with_local_sources(variant, sources)`.
    """
    if arch not in variant.platforms:
        declared = ", ".join(platform.value for platform in variant.platforms)
        raise BadInput(f"variant {variant.name} is not built for {arch.value}", wanted=f"one of {declared}")
    chosen = dict(contexts or {})
    if network.base and "cann" not in chosen:
        chosen["cann"] = _IMAGE_CONTEXT + network.base
        chosen.setdefault("fetch", chosen["cann"])
    if choices.base_image:
        # Sources are fetched in the same image: another `fetch` would still be the pinned base.
        chosen["cann"] = chosen["fetch"] = _IMAGE_CONTEXT + str(_base_image(variant, choices.base_image))
    if choices.wheels is not None:
        chosen["wheels"] = str(_wheels(choices.wheels))
    if rendered.facts is not None:
        chosen["facts"] = str(rendered.facts)
    staging = root / BUILD_FOLDER / "sources"
    chosen.update((source.stage, str(staged_path(source, staging))) for source in sources)
    return BuildPlan(
        variant=with_local_sources(variant, sources),
        pinned=variant,
        arch=arch,
        root=root,
        rendered=rendered,
        choices=choices,
        contexts=chosen,
        sources=tuple(sources),
        network=network,
        suffix=suffix,
    )


def with_local_sources(variant: Variant, sources: Sequence[LocalSource]) -> Variant:
    """Return the variant with the commits of local checkouts in place of the pinned ones, as its image will say."""
    commits = {source.name: source.commit for source in sources}
    replaced = (
        msgspec.structs.replace(source, commit=commits.get(source.name, source.commit)) for source in variant.sources
    )
    return msgspec.structs.replace(variant, sources=tuple(replaced)) if commits else variant


def with_shared_packages(plans: Sequence[BuildPlan]) -> list[BuildPlan]:
    """Return the plans, those that differ only by chip installing their packages on one base for all.

    The packages are installed beside the base and copied into each image, so the work is done once and the layer is the
    same; sources are fetched in that base as well. A plan that says itself what `packages-base` or `fetch` is keeps it.
    """
    groups: dict[tuple[str, ...], set[str]] = {}
    for plan in filter(_shares_packages, plans):
        groups.setdefault(_base_kind(plan), set()).add(plan.base)
    return [_on_packages_base(plan, groups.get(_base_kind(plan), set())) for plan in plans]


def target_of(plan: BuildPlan, secrets: Mapping[str, Path], *, driver: str = "docker") -> bake.Target:
    """Return the plan as a bake target; `secrets` are files by id, `driver` is the builder's.

    Media types are always OCI's, so that the digest does not depend on what else is asked for. What is pushed carries
    minimal provenance (the image manifest's digest stays the same with it); what is kept by the engine carries none.
    """
    cached = (plan.variant, plan.suffix, plan.arch)
    return bake.Target(
        # Relative to the repository, where bake is run: what is printed is the same on every machine.
        context=".",
        dockerfile=_relative(plan.rendered.file, plan.root),
        contexts={name: _relative_context(value, plan.root) for name, value in sorted(plan.contexts.items())},
        args={
            "SOURCE_DATE_EPOCH": str(plan.choices.epoch),
            **({"UNLOCKED": "1"} if plan.choices.unlocked else {}),
        },
        labels=plan.labels,
        tags=(plan.image,),
        platforms=(plan.arch.platform,),
        output=(bake.attributes(_output(plan, driver)),),
        secret=tuple(bake.attributes({"id": name, "src": str(path)}) for name, path in secrets.items()),
        attest=(bake.attributes(_provenance(plan)),),
        cache_from=tuple(
            bake.attributes(one) for cache in plan.choices.cache_from for one in imports_of(cache, *cached)
        ),
        cache_to=tuple(bake.attributes(export_of(cache, *cached)) for cache in plan.choices.cache_to),
    )


def dry_run(plans: Sequence[BuildPlan]) -> bytes:
    """Return the bake file of all plans as it would be run from the repository's root, one target after the other.

    Plans that share their packages do so here as well.
    Secrets stand there by the name that their file would have in a private folder; nothing of them is written.
    """
    return bake.bake_file(
        (plan.target, target_of(plan, {name: Path(f"<private folder>/{name}") for name in plan.network.secrets()}))
        for plan in with_shared_packages(plans)
    )


def _output(plan: BuildPlan, driver: str) -> dict[str, str]:
    # Another builder than the engine's own keeps what it builds to itself; `docker` hands it to the engine.
    kind = "image" if plan.choices.push or driver == "docker" else "docker"
    push = {"push": "true"} if plan.choices.push else {}
    return {"type": kind, **push, "oci-mediatypes": "true", **packing(plan)}


def packing(plan: BuildPlan) -> dict[str, str]:
    """Return what an output is told of compression: nothing where that is BuildKit's own, gzip."""
    return {} if plan.choices.compression == COMPRESSIONS[0] else {"compression": plan.choices.compression}


def _provenance(plan: BuildPlan) -> dict[str, str]:
    return {"type": "provenance", **({"mode": "min"} if plan.choices.push else {"disabled": "true"})}


def _base_image(variant: Variant, text: str) -> ImageRef:
    """Return the base image named on the command line; raises BadInput if by its tag it is for something else."""
    reference = ImageRef.parse(text).require_tag()
    try:
        tag = BaseTag.parse(reference.tag or "")
    except BadInput:
        return reference  # a name of somebody's own: the image's own check tells what it holds
    differences = [
        f"{what} {found}, not {wanted}"
        for what, found, wanted in (
            ("chip", tag.chip, variant.chip.cann_tag),
            ("CANN", tag.release, variant.base_cann),
            ("OS", tag.os, variant.os),
            ("Python", tag.python, variant.python),
        )
        if (str(found).lower() != wanted.lower())
    ]
    if differences:
        raise BadInput(
            f"--base-image {text} does not fit variant {variant.name}: {'; '.join(differences)}",
            wanted=f"a base like {variant.base_image}",
            do=f"leave --base-image out, or choose the variant for that base (SoC is {variant.soc_version} here)",
        )
    return reference


def _base_notes(variant: Variant, text: str) -> tuple[str, ...]:
    """Return what is to be said of a base image whose tag is somebody's own."""
    if not text:
        return ()
    try:
        BaseTag.parse(ImageRef.parse(text).tag or "")
    except BadInput:
        pinned = f"CANN {variant.base_cann}, {variant.chip.cann_tag}, {variant.os} and Python {variant.python}"
        unsaid = f"--base-image {text}: its name does not say which CANN, chip, OS and Python it holds"
        return (f"{unsaid}; {pinned} are taken for granted, and the image's own check will tell",)
    return ()


def _mirror_notes(variant: Variant, network: Network) -> tuple[str, ...]:
    if not network.base or not variant.base_digest:
        return ()
    update = f"invoke lock --variant {variant.name} --update base --mirror NAME"
    return (f"{network.base} is taken; where the mirror has another image under that name: {update}",)


def _wheels(folder: Path) -> Path:
    if not folder.is_dir():
        raise BadInput(f"--wheels {folder}: no such folder", wanted="a folder of wheels")
    wheels = sorted(folder.glob("*.whl"))
    if not wheels:
        raise BadInput(f"--wheels {folder}: no wheel in it", wanted="a folder of .whl files")
    for path in wheels:
        fault = _wheel_fault(path)
        if fault:
            raise BadInput(f"--wheels {folder}: {path.name} {fault}", wanted="a folder of .whl files")
    return folder.resolve()


def _wheel_fault(path: Path) -> str:
    """Return why a file of that name is no wheel, or nothing."""
    if not path.is_file():
        return "is no file"
    try:
        parse_wheel_filename(path.name)
    except InvalidWheelFilename:
        return "has no wheel's name: NAME-VERSION-PYTHON-ABI-PLATFORM.whl"
    return "" if zipfile.is_zipfile(path) else "is no zip archive, as wheels are"


def _shares_packages(plan: BuildPlan) -> bool:
    """Say whether the plan's base is an image and its packages are installed on that."""
    is_image = plan.contexts.get("cann", _IMAGE_CONTEXT).startswith(_IMAGE_CONTEXT)
    return is_image and "packages-base" not in plan.contexts


def _on_packages_base(plan: BuildPlan, bases: AbstractSet[str]) -> BuildPlan:
    """Return the plan with the first of several bases as its `packages-base`, and to fetch in."""
    if len(bases) < 2 or not _shares_packages(plan):
        return plan
    base = _IMAGE_CONTEXT + min(bases)
    return replace(plan, contexts={"fetch": base, **plan.contexts, "packages-base": base})


def _base_kind(plan: BuildPlan) -> tuple[str, ...]:
    """What decides how packages are installed, the chip left out."""
    variant = plan.variant
    return (variant.base_cann, variant.os, variant.python, variant.python_home, plan.arch.value)


def _relative(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _relative_context(value: str, root: Path) -> str:
    if "://" in value:
        return value
    relative = _relative(Path(value), root)
    # A bare word would be taken for the name of another target or an image.
    return relative if relative.startswith(("/", ".")) else f"./{relative}"
