"""From a selection and the choices of a command line to the plans of a build."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

import msgspec

from ascend_images import generated
from ascend_images.errors import BadInput
from ascend_images.files import write_json
from ascend_images.images.cache import require_places
from ascend_images.images.image_json import image_document
from ascend_images.images.network import network_for
from ascend_images.images.plan import BuildPlan, Choices, Rendered, make_plan, with_local_sources
from ascend_images.images.publish import require_publishable, tag_suffix
from ascend_images.images.render import render
from ascend_images.images.rendered import dockerfile_path, require_rendered, write_rendered
from ascend_images.images.sources import LocalSource, local_sources
from ascend_images.pins.lockfile import LockFile, file_name
from ascend_images.pins.platform import Arch, host_arch
from ascend_images.pins.questions import Unanswered, check
from ascend_images.pins.resolve import pinned_images, resolve, resolve_all
from ascend_images.pins.tags import ImageRef
from ascend_images.pins.variant import IMAGE_FOLDER, Variant
from ascend_images.program import write_program
from ascend_images.selection import Selection

#: Named contexts for a variant on an architecture, given its lock where there is one: what the sandbox hands over.
Contexts = Callable[[Variant, Arch, LockFile | None], Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What was asked of a build besides its variants."""

    arches: tuple[Arch, ...] = ()
    choices: Choices = field(default_factory=Choices)
    sources: Mapping[str, Path] = field(default_factory=dict)
    mirror: str = ""
    ca_bundle: Path | None = None
    contexts: Contexts | None = None


def plans_for(selection: Selection, wishes: Wishes) -> list[BuildPlan]:
    """Return one plan for each variant and architecture, the host's where none was asked for.

    Raises BadInput for choices that do not go together, PublishRefused for what must not be pushed under its name, and
    CheckFailed for a rendered file that is out of date.
    """
    if wishes.contexts and wishes.choices.wheels:
        raise BadInput(
            f"--sandbox with --wheels {wishes.choices.wheels}: stand-ins take the place of every package",
            wanted="one of the two",
            do="leave --sandbox out to build with your wheels, or --wheels to build with stand-ins",
        )
    arches = wishes.arches or (host_arch(),)
    return [_plan(selection, wishes, variant, arch) for variant in selection.variants for arch in arches]


def turns(selection: Selection, wishes: Wishes) -> tuple[str, ...]:
    """Return the names of what a build must have for itself.

    That is each image, each copy of a local checkout, and the files of each variant that are made for this call alone.
    """
    arches = wishes.arches or (host_arch(),)
    images = [f"{variant.name}.{arch.value}" for variant in selection.variants for arch in arches]
    copies = [f"source-{quote(name.lower(), safe='')}" for name in wishes.sources]
    return (*images, *copies, *generated.turns(selection, wishes.sources))


def _plan(selection: Selection, wishes: Wishes, variant: Variant, arch: Arch) -> BuildPlan:
    local = local_sources(variant, wishes.sources)
    suffix = name_suffix(selection, variant, sandbox=wishes.contexts is not None, local=bool(local))
    if wishes.choices.push:
        pushed = suffix or _suffix_of_base(selection, variant, wishes.choices.base_image)
        require_publishable(variant, pushed, dirty=[source.name for source in local if source.dirty])
    require_places(wishes.choices.cache_to, variant, suffix, _repositories(selection))
    contexts = dict(wishes.contexts(variant, arch, _lock(selection, variant, arch)) if wishes.contexts else {})
    if selection.changed and "lock" not in contexts:
        contexts["lock"] = str(selection.locks)
    plan = make_plan(
        variant,
        arch,
        root=selection.root,
        rendered=_rendered(selection, variant, local, contexts.pop("facts", "")),
        choices=wishes.choices,
        contexts=contexts,
        sources=local,
        network=network_for(variant, mirrors=selection.pins.mirror, mirror=wishes.mirror, ca_bundle=wishes.ca_bundle),
        suffix=suffix,
    )
    return replace(plan, unanswered=_unanswered(selection, plan))


def _unanswered(selection: Selection, plan: BuildPlan) -> tuple[Unanswered, ...]:
    """Return the pins that versions.lock does not answer, of what the build takes from outside."""
    sources = (one for one in plan.pinned.sources if f"src-{one.name.lower()}" not in plan.contexts)
    runs = (one for one in plan.pinned.runs if one.arch is plan.arch)
    own = () if f"cann-run-{plan.arch.value}" in plan.contexts else tuple(runs)
    taken = msgspec.structs.replace(plan.pinned, sources=tuple(sources), runs=own, platforms=(plan.arch,))
    others = resolve_all(selection.pins, allow_broken=True)
    found = check(selection.locked, [taken], others=others)
    return tuple(one for one in found if one.about != "base image" or "cann" not in plan.contexts)


def name_suffix(selection: Selection, variant: Variant, *, sandbox: bool = False, local: bool = False) -> str:
    """Return what stands behind the tag of an image of a chosen variant: the name that `invoke build` gives it.

    `local` says that a local checkout is in it.
    """
    changed = local or (selection.changed and not _is_pinned(selection, variant))
    pinned = pinned_images(selection.pins) if changed else ()
    return tag_suffix(variant, sandbox=sandbox, changed=changed, pinned=pinned)


def _suffix_of_base(selection: Selection, variant: Variant, base_image: str) -> str:
    """Return what stands behind the tag of an image that is pushed: that of another base, by its digest, is changed."""
    if not base_image:
        return ""
    pinned = ImageRef.parse(variant.base_reference).digest
    other = pinned is None or ImageRef.parse(base_image).digest != pinned
    return tag_suffix(variant, sandbox=False, changed=other, pinned=pinned_images(selection.pins))


def _repositories(selection: Selection) -> set[str]:
    return {ImageRef.parse(name).name for name in pinned_images(selection.pins)}


def _is_pinned(selection: Selection, variant: Variant) -> bool:
    """Say whether a variant that the command line set something of is what versions.toml says all the same."""
    try:
        pinned = resolve(selection.pins, variant.name, allow_broken=True)
    except BadInput:
        return False
    # What the rules say of a change leaves out accepts that it makes needless.
    return msgspec.structs.replace(variant, findings=()) == msgspec.structs.replace(pinned, findings=())


def _lock(selection: Selection, variant: Variant, arch: Arch) -> LockFile | None:
    path = selection.locks / file_name(variant.name, arch)
    return LockFile.load(path) if path.is_file() else None


def _rendered(selection: Selection, variant: Variant, local: Sequence[LocalSource], facts: str) -> Rendered:
    """Return the rendered file: the committed one, or one below `build/` where the command line changed it."""
    meant = with_local_sources(variant, local)
    own = selection.changed or bool(local)
    root = selection.root / "build" if own else selection.root
    text = render(meant)
    if own:
        write_rendered(root, [meant])
    else:
        require_rendered(root, [meant], all_of_them=False)
    document = msgspec.json.decode(_facts_file(Path(facts)).read_bytes()) if facts else image_document(meant)
    commits = {source.name: source.commit for source in local}
    for source in document["sources"]:
        if source["name"] in commits:
            # What a person is working on need not be committed; the record and the labels say whether it was.
            source |= {"commit": commits[source["name"]], "local": True}
    folder = _facts_folder(selection.root, variant.name, document) if own else Path(facts) if facts else None
    return Rendered(file=dockerfile_path(root, variant.name), text=text, image=document, facts=folder)


def _facts_folder(root: Path, name: str, document: Mapping[str, object]) -> Path:
    """Write the folder that replaces the stage `facts` where another image.json than the committed one is meant."""
    folder = root / "build" / "facts" / name
    write_json(_facts_file(folder), document)
    write_program(_facts_file(folder).parent)
    return folder


def _facts_file(folder: Path) -> Path:
    return folder / IMAGE_FOLDER.lstrip("/") / "image.json"
