"""From what was typed after `nox -s verify --` to verified images and their reports."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import msgspec

from ascend_images.errors import AscendImagesError, BadInput, MissingTool
from ascend_images.files import write_atomic
from ascend_images.host import gather
from ascend_images.host.chips import chips_of
from ascend_images.host.connect import connect, is_local
from ascend_images.host.devices import device_numbers, require_readable
from ascend_images.host.driver import driver_text, judge
from ascend_images.host.engine import engine_facts
from ascend_images.host.facts import EngineFacts, HostFacts
from ascend_images.host.plan import RunPlan, container_arguments, plan_run
from ascend_images.host.request import Mount, RunRequest, host_folder
from ascend_images.images.image_json import image_json, pins_digest
from ascend_images.images.plan import RECORDS, record_path
from ascend_images.images.publish import SANDBOX, image_name, is_stand_in
from ascend_images.images.record import load_record
from ascend_images.pins.load import load
from ascend_images.pins.lockfile import file_name
from ascend_images.pins.model import Pins
from ascend_images.pins.platform import Arch, parse_arch
from ascend_images.pins.resolve import resolve_all
from ascend_images.pins.tags import arch_tag
from ascend_images.pins.variant import IMAGE_FOLDER, Variant
from ascend_images.selection import PINS_FILE, select
from ascend_images.verify import junit, markdown, page, terminal
from ascend_images.verify.outside import all_checks
from ascend_images.verify.report import REPORT_FOLDER, Report, load_reports, write_report
from ascend_images.verify.verification import Expectation, Job, verify

#: Named contexts that stood in for what a build takes from outside, by stage: what the sandbox hands over.
Contexts = Callable[[Variant, Arch], Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What was typed. `host_root` is where this machine's file system is looked at for NPUs and their driver."""

    root: Path
    variants: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    platform: str = ""
    require_npu: bool = False
    devices: str = ""
    model: str = ""
    host: str = ""
    host_root: str = "/"
    report_dir: Path = REPORT_FOLDER
    import_limit: float = 300.0
    contexts: Contexts | None = None


@dataclass(frozen=True, kw_only=True)
class Target:
    """One image to verify: `name` for people, `reference` for the engine, the variant whose pins it is held against."""

    name: str
    reference: str
    variant: Variant | None
    arch: Arch | None


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where images are verified: an engine, what it knows of its machine's containers; and all pins of this project."""

    client: docker.DockerClient
    engine: EngineFacts
    pins: Pins


def check_ids() -> list[str]:
    """Return the id of every check, in the order in which they are asked."""
    return [one.id for one in all_checks()]


def targets(wishes: Wishes) -> tuple[Target, ...]:
    """Return what is to be verified; raises BadInput for what does not go together."""
    if not wishes.variants and not wishes.images:
        raise BadInput(
            "neither a variant nor an image is named",
            wanted="--variant NAME or --image REF, repeated at will",
            do="nox -s verify -- --variant a2",
        )
    if wishes.images and wishes.variants and (len(wishes.images) > 1 or len(wishes.variants) > 1):
        raise BadInput(
            f"{len(wishes.images)} --image for {len(wishes.variants)} --variant",
            wanted="one image for one variant, or either of them repeated alone",
        )
    arch = parse_arch(wishes.platform.removeprefix("linux/")) if wishes.platform else None
    if not wishes.variants:
        names = dict.fromkeys(wishes.images)
        return tuple(Target(name=name, reference=name, variant=None, arch=arch) for name in names)
    chosen = select(wishes.root, wishes.variants, allow_broken=True).variants
    image = next(iter(wishes.images), "")
    return tuple(
        Target(name=one.name, reference=image or _reference(wishes, one, arch), variant=one, arch=arch)
        for one in chosen
    )


def find_place(wishes: Wishes) -> Place:
    """Return the engine and what its machine offers, all that was typed looked at before anything is started.

    Raises BadInput for what cannot be meant, MissingTool where no engine answers.
    """
    require_readable(wishes.devices)
    host_folder(wishes.host_root)
    _require_writable(wishes.report_dir)
    load_reports(wishes.report_dir)  # what else lies there would spoil the page over all of them, an hour later
    client = connect(wishes.host)
    if wishes.model and is_local(client) and not Path(wishes.model).is_dir():
        raise BadInput(f"--model {wishes.model}: no such folder", wanted="a folder with a model on this machine")
    return Place(client=client, engine=engine_facts(client), pins=load(wishes.root / PINS_FILE))


def verify_target(wishes: Wishes, place: Place, target: Target) -> Report:
    """Verify one image and write its report; raises MissingTool where the engine does not answer."""
    platform = f"linux/{target.arch.value}" if target.arch else ""
    facts = _host_facts(wishes, place, target.reference)
    plan, refused = _plan(wishes, place.engine, facts, target)
    chips = chips_of(facts)
    arguments = container_arguments(plan) if plan else {}
    for word in ("image", "command"):
        arguments.pop(word, None)
    report = verify(
        place.client,
        Job(
            name=target.name,
            reference=target.reference,
            platform=platform,
            expectation=_expectation(wishes, target, place.client),
            siblings=_siblings(place.pins, target.variant),
            asked=plan.numbers if plan else (),
            arguments=arguments,
            require_npu=wishes.require_npu,
            import_limit=wishes.import_limit,
            model=IMAGE_MODEL if wishes.model and plan else "",
            refused=refused,
            build=_build_line(wishes, target),
            host=_host_summary(place, facts),
            judge=lambda cann: msgspec.to_builtins(judge(cann, driver_text(facts), chips.family, place.pins)),
        ),
    )
    write_report(wishes.report_dir, report)
    return report


def tell(wishes: Wishes, reports: Sequence[Report], *, width: int, color: bool) -> Iterator[str]:
    """Write every form of the reports, and yield what a terminal of so many columns shows of them."""
    if not reports:
        return
    folder = wishes.report_dir
    write_atomic(folder / "junit.xml", junit.document(reports))
    summary = markdown.summary(reports)
    write_atomic(folder / "summary.md", summary.encode())
    markdown.append_to_step_summary(summary, os.environ)
    write_atomic(folder / "index.html", page.page(load_reports(folder)).encode())
    for report in reports:
        yield terminal.table(report, width=width, color=color)
    yield f"reports: {folder}/index.html (page), junit.xml, summary.md, one JSON file for each image"


#: Where a model of `--model` lies in the container.
IMAGE_MODEL = "/mnt/model"


def _siblings(pins: Pins, variant: Variant | None) -> dict[str, str]:
    """Return the images for other chips that differ from a variant in nothing else, by chip."""
    if variant is None:
        return {}
    same = [
        one
        for one in resolve_all(pins, allow_broken=True)
        if (one.stack, one.os, one.python, one.cann, one.base_cann)
        == (variant.stack, variant.os, variant.python, variant.cann, variant.base_cann)
    ]
    return {one.chip.cann_tag: f"{one.repository}:{one.tag}" for one in same if one.name != variant.name}


def _reference(wishes: Wishes, variant: Variant, arch: Arch | None) -> str:
    """Return the image of a variant: the one that was built here last, else the one that is published."""
    known = [arch] if arch else [parse_arch(os.uname().machine), *variant.platforms]
    for one in known:
        record = load_record(record_path(wishes.root / RECORDS, variant.name, one))
        if record is not None and bool(wishes.contexts) == is_stand_in(record.tag, record.resolved):
            return record.image
    if wishes.contexts:
        return image_name(variant, SANDBOX, known[0])
    return f"{variant.repository}:{arch_tag(variant.tag, arch) if arch else variant.tag}"


def _build_line(wishes: Wishes, target: Target) -> str:
    """Return the command that makes an image which the engine does not have."""
    if target.variant is None:
        return "docker image ls"
    return f"invoke build --variant {target.variant.name}{' --sandbox' if wishes.contexts else ''}"


def _require_writable(folder: Path) -> None:
    """Raise BadInput where no report can be written; better before an hour of verification than after it."""
    try:
        write_atomic(folder / ".writable", b"")
        (folder / ".writable").unlink()
    except OSError as error:
        raise BadInput(
            f"--report-dir {folder}: {error.strerror}", wanted="a folder in which files can be made"
        ) from None


def _expectation(wishes: Wishes, target: Target, client: docker.DockerClient) -> Expectation | None:
    """Return image.json and lock of the pins, or of the stand-ins that were built with in their place."""
    if target.variant is None:
        return None
    arch = target.arch or _arch_of(client, target.reference) or parse_arch(os.uname().machine)
    lock = wishes.root / "locks" / file_name(target.variant.name, arch)
    document = image_json(target.variant)
    if wishes.contexts is not None:
        contexts = wishes.contexts(target.variant, arch)
        document = (Path(contexts["facts"]) / IMAGE_FOLDER.lstrip("/") / "image.json").read_text(encoding="utf-8")
        lock = next(Path(contexts["lock"]).glob("*.txt"), lock)
    text = lock.read_text(encoding="utf-8") if lock.is_file() else ""
    return Expectation(image=document, lock=text, pins=pins_digest(target.variant))


def _arch_of(client: docker.DockerClient, reference: str) -> Arch | None:
    try:
        return parse_arch(str(client.images.get(reference).attrs["Architecture"]))
    except (docker.errors.APIError, BadInput):
        return None


def _host_facts(wishes: Wishes, place: Place, reference: str) -> HostFacts:
    """Return the facts of the engine's machine: looked at directly where it is this one, else from a container."""
    if is_local(place.client):
        return gather.local(host_folder(wishes.host_root))
    try:
        return gather.remote(place.client, reference)
    except MissingTool:
        return HostFacts()  # an image that does not start, or has no Python: the container's own check says so


def _plan(
    wishes: Wishes, engine: EngineFacts, host: HostFacts, target: Target
) -> tuple[RunPlan | None, dict[str, str] | None]:
    """Return what gives the container its NPUs, or why it cannot be given those that were asked for.

    The image's family is left open: that it is another than the host's is a finding, and no reason not to look.
    """
    if not device_numbers(host) and not wishes.devices:
        return None, None
    mounts = (Mount(wishes.model, IMAGE_MODEL),) if wishes.model else ()
    request = RunRequest(image=target.reference, title=target.name, devices=wishes.devices, mounts=mounts)
    try:
        return plan_run(request, host, engine, None, chips_of(host).family), None
    except AscendImagesError as error:
        return None, {"found": error.found, "wanted": error.wanted, "next": error.do}


def _host_summary(place: Place, facts: HostFacts) -> dict[str, Any]:
    """Return what a report says of the host."""
    chips = chips_of(facts)
    version = place.client.version()
    return {
        "machine": facts.machine,
        "engine": str(version.get("Version", "")),
        "family": chips.family if device_numbers(facts) else "",
        "npus": [chip.name for chip in chips.chips],
        "devices": list(device_numbers(facts)),
        "driver": driver_text(facts),
    }
