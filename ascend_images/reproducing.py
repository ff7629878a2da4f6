"""Builds the same images twice, from nothing and in two places, and compares what comes out."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import msgspec

from ascend_images.digest import digest_of
from ascend_images.errors import BuildFailed, CheckFailed
from ascend_images.files import write_atomic
from ascend_images.images import bake
from ascend_images.images.builder import Builder
from ascend_images.images.builders import Site, find_sites, require_sites
from ascend_images.images.compare import Comparison, Layout, compare, lines, read_layout, system_packages
from ascend_images.images.engine import Run, run_command
from ascend_images.images.gate import check_plans
from ascend_images.images.network import secret_files
from ascend_images.images.plan import BUILD_FOLDER, BuildPlan, packing, target_of
from ascend_images.images.run import Ended, Job, run_jobs
from ascend_images.images.show import view_on
from ascend_images.images.stages import stage_names
from ascend_images.scratch import private_folder

_IMAGE = "docker-image://"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one of two builds happens: an engine by its address (empty: the one in use), or a builder of its."""

    name: str
    host: str = ""
    builder: str = ""


@dataclass(frozen=True, kw_only=True)
class Reproduced:
    """What became of one plan: how the two images compare, and where they lie while they differ."""

    plan: BuildPlan
    places: tuple[Place, Place]
    comparison: Comparison
    folder: Path


def two_places(second_host: str = "", builder: str = "") -> tuple[Place, Place]:
    """Return the places of both builds: the engine in use, and another engine, another builder, or the same again."""
    first = Place(name="this engine")
    if builder:
        return first, Place(name=f"builder {builder}", builder=builder)
    if second_host:
        return first, Place(name="a second engine", host=second_host)
    return first, Place(name="this engine again")


def reproduce(
    plans: Sequence[BuildPlan],
    places: tuple[Place, Place],
    *,
    stream: TextIO | None = None,
    stages: Callable[[str], Iterable[str]] = stage_names,
    run: Run = run_command,
) -> tuple[Reproduced, ...]:
    """Build every plan in both places and compare; progress goes to `stream`, standard error by default.

    Every step runs anew: nothing that a builder keeps is used, and nothing of it is pruned. No image gets a name, no
    record is written. Before the first build: BadInput for plans that must not be built and for emulation nobody asked
    for, MissingTool for an engine or a builder that is not there. Raises BuildFailed where a build fails.
    """
    check_plans(plans, stages=stages, verb="reproduce")
    sites = _sites(plans, places, run)
    out = stream or sys.stderr
    with tempfile.TemporaryDirectory(prefix="ascend-images-layouts-") as layouts:
        elsewhere = list(plans)
        if places[1].host or places[1].builder:
            elsewhere = with_images_as_layouts(plans, Path(layouts), sites[0].builder, run)
        return tuple(_both(pair, places, sites, out) for pair in zip(plans, elsewhere, strict=True))


def _sites(plans: Sequence[BuildPlan], places: tuple[Place, Place], run: Run) -> list[Site]:
    """Return who builds in each place: one that cannot is no matter to learn after the other has built for long."""
    found = []
    for place in places:
        with _at(place.host):
            sites = find_sites([place.builder], run=run)
        require_sites(plans, sites)
        found += sites
    return found


def _both(
    pair: tuple[BuildPlan, BuildPlan], places: tuple[Place, Place], sites: Sequence[Site], stream: TextIO
) -> Reproduced:
    """Build a plan, as each place takes it, and compare; what is the same is removed again."""
    folder = pair[0].root / BUILD_FOLDER / "reproduce" / f"{pair[0].variant.name}.{pair[0].arch.value}"
    shutil.rmtree(folder, ignore_errors=True)
    for number, (plan, place, site) in enumerate(zip(pair, places, sites, strict=True), start=1):
        with _at(place.host):
            _export(plan, site, folder / str(number), f"{plan.name}, {place.name}", stream)
    made = [read_layout(folder / str(number)) for number in (1, 2)]
    found = Reproduced(plan=pair[0], places=places, comparison=compare(*made), folder=folder)
    write_atomic(folder / "report.json", msgspec.json.format(msgspec.json.encode(_data(found)), indent=2))
    if found.comparison.same:
        for layout in made:
            shutil.rmtree(layout.folder)
    return found


def told(found: Sequence[Reproduced]) -> str:
    """Return what is to be told of images that came out the same."""
    return "\n".join(
        f"{one.plan.name}: the same image twice: {one.comparison.first}" for one in found if one.comparison.same
    )


def require_same(found: Sequence[Reproduced]) -> None:
    """Raise CheckFailed for images that did not come out the same, with the first file that differs."""
    different = [one for one in found if not one.comparison.same]
    if not different:
        return
    text = []
    for one in different:
        text.append(f"{one.plan.name} came out as two images")
        pair = zip(one.places, (one.comparison.first, one.comparison.second), strict=True)
        text += [f"  {place.name}: {digest}" for place, digest in pair]
        text += [f"  {line}" for line in lines(one.comparison)]
    folder = different[0].folder
    raise CheckFailed(
        "\n".join(text),
        wanted="the same manifest from the same pins and the same lock",
        do=f"see {folder.relative_to(different[0].plan.root)}: both images as OCI layouts, and report.json",
    )


def with_images_as_layouts(
    plans: Sequence[BuildPlan], folder: Path, builder: Builder, run: Run = run_command
) -> list[BuildPlan]:
    """Return the plans for a place that lacks the images which replace stages here: each as a layout in `folder`.

    The client hands a layout over with the build, so no registry is needed. Raises BuildFailed where one cannot be
    written; an image that this engine does not have is left to the place to fetch.
    """
    layouts: dict[str, str] = {}
    for value in sorted({value for plan in plans for value in plan.contexts.values() if value.startswith(_IMAGE)}):
        if run(["docker", "image", "inspect", "--format", "{{.Id}}", value.removeprefix(_IMAGE)]).code == 0:
            layouts[value] = _as_layout(value, folder / str(len(layouts)), builder)
    return [
        replace(plan, contexts={name: layouts.get(value, value) for name, value in plan.contexts.items()})
        for plan in plans
    ]


def _as_layout(context: str, folder: Path, builder: Builder) -> str:
    """Write an image of the engine's as an OCI layout; return that as a context."""
    command = ["docker", "buildx", "build", "--builder", builder.name, "--provenance=false", "--progress=plain"]
    command += ["--build-context", f"image={context}", "--file=-"]
    command += ["--output", bake.attributes({"type": "oci", "dest": str(folder), "tar": "false"})]
    with private_folder() as empty:
        done = subprocess.run([*command, str(empty)], input="FROM image\n", capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise BuildFailed(f"{context.removeprefix(_IMAGE)} cannot be given to another builder: {said}")
    return f"oci-layout://{folder}@{without_time(read_layout(folder))}"


def without_time(layout: Layout) -> str:
    """Take the time of its making out of the image in a layout; return its new digest.

    BuildKit 0.12 takes over a base's time from a layout, and from nothing else: the image would differ by it.
    """
    config = {key: value for key, value in layout.config.items() if key != "created"}
    described = {**layout.manifest, "config": {**layout.manifest["config"], **_blob(layout, config)}}
    manifest = _blob(layout, described)
    index = {"schemaVersion": 2, "manifests": [{"mediaType": layout.manifest["mediaType"], **manifest}]}
    write_atomic(layout.folder / "index.json", msgspec.json.encode(index))
    return str(manifest["digest"])


def _blob(layout: Layout, document: Mapping[str, Any]) -> dict[str, Any]:
    """Write a document into a layout; return what refers to it."""
    content = msgspec.json.encode(document)
    digest = digest_of(content)
    write_atomic(layout.blob(digest), content)
    return {"digest": digest, "size": len(content)}


def _export(plan: BuildPlan, site: Site, folder: Path, title: str, stream: TextIO) -> None:
    """Build a plan with no cache and write the image to `folder`, as an OCI layout; raises BuildFailed."""
    folder.mkdir(parents=True)
    ended: list[Ended] = []
    with private_folder() as work, secret_files(plan.network.secrets()) as secrets:
        target = exported(plan, target_of(plan, secrets, driver=site.builder.driver), folder)
        file = work / "bake.json"
        file.write_bytes(bake.bake_file([(plan.target, target)]))
        job = Job(
            title,
            (*site.docker, "buildx", "bake", "--file", str(file), "--progress", "rawjson", "--builder", site.name),
            plan.root,
            folder.parent / f"{folder.name}.log",
            {**os.environ, "BUILDX_BAKE_ENTITLEMENTS_FS": "0"},
            plan.network.hide,
        )

        def on_end(one: Ended) -> bool:
            ended.append(one)
            return one.code == 0

        with view_on(stream, [title]) as view:
            run_jobs([job], at_once=1, view=view, on_end=on_end)
    if ended[0].code != 0:
        failure = ended[0].failure
        raise BuildFailed(
            f"{title}: the build failed{f':{os.linesep}{failure}' if failure else ''}",
            wanted="two images to compare",
            do=f"see {job.log.relative_to(plan.root)}",
        )


def exported(plan: BuildPlan, target: bake.Target, folder: Path) -> bake.Target:
    """Return a plan's target, its image going to a folder and nowhere else, and nothing taken from a cache."""
    output = {"type": "oci", "dest": str(folder), "tar": "false", "oci-mediatypes": "true", **packing(plan)}
    return msgspec.structs.replace(
        target,
        tags=(),
        output=(bake.attributes(output),),
        attest=(bake.attributes({"type": "provenance", "disabled": "true"}),),
        no_cache=True,
    )


@contextmanager
def _at(host: str) -> Iterator[None]:
    """Have the docker client talk to another engine: the same for what it starts (buildx) and for all that is asked."""
    if not host:
        yield
        return
    names = ("DOCKER_HOST", "DOCKER_CONTEXT", "BUILDX_BUILDER")
    before = {name: os.environ.get(name) for name in names}
    try:
        for name in names:
            os.environ.pop(name, None)
        os.environ["DOCKER_HOST"] = host
        yield
    finally:
        os.environ.pop("DOCKER_HOST", None)
        os.environ.update({name: value for name, value in before.items() if value is not None})


def _data(one: Reproduced) -> dict[str, object]:
    """Return what is written of one comparison; the operating system's packages only where they may explain it."""
    system: dict[str, object] = {}
    if one.comparison.layers:
        for number in ("1", "2"):
            with suppress(BuildFailed):
                system[number] = system_packages(read_layout(one.folder / number))
    return {
        "schema": 1,
        "variant": one.plan.variant.name,
        "arch": one.plan.arch.value,
        "places": [place.name for place in one.places],
        "same": one.comparison.same,
        "comparison": one.comparison,
        "system": system,
    }
