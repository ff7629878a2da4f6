"""What the sandbox builds with in place of everything that comes from outside: the named contexts of a variant."""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from ascend_images.errors import BuildFailed, MissingTool
from ascend_images.images.engine import require_engine
from ascend_images.images.image_json import image_document
from ascend_images.pins.lockfile import LockFile
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant
from ascend_images.program import program_files, write_program
from ascend_images.sandbox import base
from ascend_images.sandbox.cann_run import run_context
from ascend_images.sandbox.checkouts import checkout_context, head
from ascend_images.sandbox.debian import OS
from ascend_images.sandbox.registry import Registry
from ascend_images.sandbox.store import digest, stored
from ascend_images.sandbox.tree import set_times
from ascend_images.sandbox.wheels import lock_context, package_set, wheels_context


def prepare(
    variant: Variant, arch: Arch, lock: LockFile | None, say: Callable[[str], None] = lambda _text: None
) -> dict[str, str]:
    """Return the named contexts that stand in for what a build of `variant` takes from outside.

    Name of a stage -> a folder, or `docker-image://…` for the base image. All of it is made once and found again. `say`
    is told what takes long. Raises BadInput for a variant without a stand-in base, MissingTool, LookupIncomplete or
    BuildFailed where something cannot be made.
    """
    # Before anything is made, which takes minutes.
    require_engine()
    image = base.base_image(variant, arch, say)
    _share(image, say)
    packages = package_set(variant, arch, lock)
    conflicts = lock.conflicts if lock is not None else ()
    wheels = wheels_context(variant, arch, lock)
    sources = {source.name: checkout_context(source, packages, conflicts) for source in variant.sources}
    contexts = {
        "cann": f"docker-image://{image}",
        "fetch": f"docker-image://{image}",
        **{f"src-{name.lower()}": str(folder) for name, folder in sources.items()},
        "wheels": str(wheels),
        "lock": str(lock_context(variant, arch, lock, wheels)),
        "facts": str(facts_context(variant, image, {name: head(folder) for name, folder in sources.items()})),
    }
    if variant.overlay:
        contexts[f"cann-run-{arch.value}"] = str(run_context(variant, arch))
    return contexts


def facts_context(variant: Variant, image: str, commits: Mapping[str, str]) -> Path:
    """Return a folder with the image's own facts, true of an image that is made from stand-ins.

    That is the variant's image.json but for what a stand-in cannot have: the commits of its sources, the operating
    system, the name of its base image. check.py is the project's own.
    """
    document = image_document(variant)
    for source in document["sources"]:
        source["commit"] = commits[source["name"]]
    document |= {"os": OS, "base_image": image}
    text = msgspec.json.format(msgspec.json.encode(document), indent=2)

    def make(folder: Path) -> None:
        place = folder / "opt" / "ascend-images"
        place.mkdir(parents=True)
        (place / "image.json").write_bytes(text + b"\n")
        write_program(place)
        set_times(folder)

    return stored(
        "facts", variant.name, digest(text.decode(), *(content.decode() for content in program_files().values())), make
    )


def _share(image: str, say: Callable[[str], None]) -> None:
    """Push the base image to the sandbox's registry where that runs, for builders that do not see this engine's.

    An engine on another machine does not reach it; its builds take the image by name, so that is no failure.
    """
    try:
        base.push(image, Registry().address)
    except (MissingTool, BuildFailed) as error:
        if isinstance(error, BuildFailed):
            say(f"the stand-in base is not in the sandbox's registry: {error.found}")
