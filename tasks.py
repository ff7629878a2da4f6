"""What a person types: one task a verb. `invoke -l` lists them, `invoke -h VERB` says what each takes."""

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from invoke import Collection, Context, Task

from ascend_images import call, cli

ROOT = Path(__file__).parent

VARIANT = "a variant or one of its aliases; repeat it for several"
SET = "key=value changes a pin for this call; repeat it: --set torch_npu=2.10.0.post2 --set sources.vllm.ref=v0.22.0"
SOURCE = "name=DIR takes a source from a local checkout; repeat it"
JSON = "print JSON for programs"


def verb(**help_texts: str) -> Callable[[Callable[..., None]], Task[Any]]:
    """Make a task of a function: long flags only, lists where a flag may be repeated, errors as exit codes."""

    def make(function: Callable[..., None]) -> Task[Any]:
        repeated = [
            name
            for name in ("variant", "set", "source", "arch", "platform", "group_add", "mount", "env")
            if name in help_texts
        ]
        return Task(cli.reporting(call.repeating(function)), iterable=repeated, help=help_texts, auto_shortflags=False)

    return make


@verb(json=JSON)
def variants(_: Context, json: bool = False) -> None:
    """List the variants."""
    from ascend_images.pins import report
    from ascend_images.selection import select

    chosen = select(ROOT, everything=True, allow_broken=True).variants
    print(report.as_json(report.variants_data(chosen)) if json else report.variants_text(chosen))


@verb(variant=VARIANT, set=SET, json=JSON)
def show(_: Context, variant: Iterable[str], set: Iterable[str], json: bool = False) -> None:  # noqa: A002
    """Show variants in full: every pin, resolved, and what the rules say."""
    from ascend_images.pins import report
    from ascend_images.selection import select

    chosen = select(ROOT, tuple(variant), sets=tuple(set), allow_broken=True).variants
    print(report.as_json(report.show_data(chosen)) if json else "\n\n".join(report.variant_text(one) for one in chosen))


@verb(variant=VARIANT, set=SET, json=JSON)
def check(_: Context, variant: Iterable[str], set: Iterable[str], json: bool = False) -> None:  # noqa: A002
    """Ask whether the pins fit together: what is broken, what is accepted and why, what no table knows."""
    from ascend_images.pins import report
    from ascend_images.selection import select

    names = tuple(variant)
    chosen = select(ROOT, names, everything=not names, sets=tuple(set), allow_broken=True).variants
    print(report.as_json({one.name: one.findings for one in chosen}) if json else report.findings_text(chosen))
    report.require_fitting(chosen)


@verb(
    variant=VARIANT,
    all="all variants",
    arch="architecture(s) to lock, repeated or divided by commas; those of the variant by default",
    set=SET,
    source=SOURCE,
    mirror="a [mirror.NAME] of versions.toml to ask instead",
    ca_bundle="a company's certificates (PEM), trusted besides this machine's own",
)
def lock(
    _: Context,
    variant: Iterable[str],
    set: Iterable[str],  # noqa: A002
    source: Iterable[str],
    arch: Iterable[str],
    all: bool = False,  # noqa: A002
    mirror: str = "",
    ca_bundle: str = "",
) -> None:
    """Resolve the pins to the whole package set, and write the package locks (asks package indexes and git hosts)."""
    from ascend_images import locking
    from ascend_images.selection import select

    selection = select(ROOT, tuple(variant), everything=all, sets=tuple(set))
    arches = cli.architectures(arch)
    folders = cli.source_folders(source)
    made = locking.lock(
        selection,
        arches,
        folders,
        mirror=mirror,
        ca_bundle=cli.folder(ca_bundle) if ca_bundle else None,
        say=lambda text: print(text, file=sys.stderr),
    )
    for line in made:
        print(line)


@verb(variant=VARIANT, set=SET, check="write nothing; list what is out of date and fail if anything is")
def render(_: Context, variant: Iterable[str], set: Iterable[str], check: bool = False) -> None:  # noqa: A002
    """Write the Dockerfiles and what lies beside them; all variants unless some are named."""
    from ascend_images import generated
    from ascend_images.selection import select

    names = tuple(variant)
    selection = select(ROOT, names, everything=not names, sets=tuple(set))
    changed = []
    if check:
        generated.require_current(selection, everything=not names)
    else:
        changed = generated.write(selection, everything=not names)
    print("\n".join(map(str, changed)) or generated.up_to_date(selection))


@verb(
    variant=VARIANT,
    all="all variants",
    arch="architecture(s), repeated or divided by commas: amd64 or arm64, in any spelling; the host's by default",
    platform="the same as Docker writes it: linux/arm64",
    set=SET,
    source=SOURCE,
    wheels="a folder of wheels that are taken before any index",
    base_image="a base image from elsewhere, or of another release",
    mirror="a [mirror.NAME] of versions.toml, for this build alone",
    ca_bundle="a company's certificates (PEM), for this build alone",
    push="push to the registry, each architecture under its own tag; refused for what is not under a name of its own",
    builder="a buildx builder; the engine's own by default",
    jobs="how many images are built at a time",
    dry_run="print the bake file (JSON) and build nothing; on standard error, why the build would be refused",
    unlocked="take what no hash is known for; the record and the image's labels say so",
    sandbox="with stand-ins for everything that comes from outside; the tag ends in -sandbox",
    json="print build/summary.json at the end: images built (digest …), failed (step, error, log …), skipped",
)
def build(
    _: Context,
    variant: Iterable[str],
    set: Iterable[str],  # noqa: A002
    source: Iterable[str],
    arch: Iterable[str],
    platform: Iterable[str],
    all: bool = False,  # noqa: A002
    wheels: str = "",
    base_image: str = "",
    mirror: str = "",
    ca_bundle: str = "",
    push: bool = False,
    builder: str = "",
    jobs: int = 0,
    dry_run: bool = False,
    unlocked: bool = False,
    sandbox: bool = False,
    json: bool = False,
) -> None:
    """Build images from their locks, and have each check itself."""
    from ascend_images import planning
    from ascend_images.images.build import build, reasons_against, require_jobs
    from ascend_images.images.plan import Choices, source_date_epoch
    from ascend_images.images.plan import dry_run as bake_file
    from ascend_images.images.turns import in_turn
    from ascend_images.selection import select

    require_jobs(jobs)
    arches = cli.architectures(arch, platform)
    selection = select(ROOT, tuple(variant), everything=all, sets=tuple(set), base_image=base_image)
    choices = Choices(
        push=push,
        builder=builder,
        unlocked=unlocked,
        base_image=selection.base_image,
        other_base="" if selection.base_image else base_image,
        wheels=cli.folder(wheels) if wheels else None,
        epoch=source_date_epoch(ROOT, os.environ),
        arch_typed=bool(arches),
    )
    wishes = planning.Wishes(
        arches=arches,
        choices=choices,
        sources=cli.source_folders(source),
        mirror=mirror,
        ca_bundle=cli.folder(ca_bundle) if ca_bundle else None,
        contexts=stand_ins if sandbox else None,
    )
    if dry_run:
        plans = planning.plans_for(selection, wishes)
        for text in reasons_against(plans):
            print(call.completed(text), file=sys.stderr)
        print(bake_file(plans).decode())
        return
    with in_turn(ROOT, planning.turns(selection, wishes), lambda text: print(text, file=sys.stderr, flush=True)):
        build(planning.plans_for(selection, wishes), jobs=jobs, told=print if json else None)


def stand_ins(variant: Any, arch: Any, lock: Any) -> dict[str, str]:
    """Return the sandbox's contexts for a variant; what takes long is said."""
    from ascend_images.sandbox.standins import prepare

    return prepare(variant, arch, lock, lambda text: print(text, file=sys.stderr, flush=True))


@verb(
    variant="the variant whose image is run, or one of its aliases",
    set="key=value changes a pin, and so the image's name; repeat it",
    image="another image, by its full name",
    sandbox="the image that invoke build --sandbox made",
    devices="NPUs by N of /dev/davinciN: 0,1 or 0-3, all, or none; one free card by default (an A3 card is two)",
    user="who runs the command: a uid, uid:gid or a name; the image's own user by default",
    group_add="another group of the user, by number; the group that owns the NPUs is added anyway; repeat it",
    mount="SOURCE:TARGET or SOURCE:TARGET:ro; repeat it",
    env="NAME=VALUE; repeat it",
    workspace="a folder for models and caches, at /mnt/workspace in the container",
    network="docker's --network, such as host",
    ipc="docker's --ipc, such as host",
    shm_size="docker's --shm-size; 1g by default",
    name="a name for the container",
    privileged="give the container all rights and devices; never needed for NPUs",
    print="print the command and run nothing",
    format="docker, or print a file instead: compose, k8s",
    resource="the device plugin's resource of a pod; by default huawei.com/Ascend910, Ascend310P or npu, by the chip",
    host_root="a folder that stands for the host's file system",
)
def run(
    _: Context,
    variant: Iterable[str],
    set: Iterable[str],  # noqa: A002
    group_add: Iterable[str],
    mount: Iterable[str],
    env: Iterable[str],
    image: str = "",
    sandbox: bool = False,
    devices: str = "",
    user: str = "",
    workspace: str = "",
    network: str = "",
    ipc: str = "",
    shm_size: str = "",
    name: str = "",
    privileged: bool = False,
    print: bool = False,  # noqa: A002
    format: str = "docker",  # noqa: A002
    resource: str = "",
    host_root: str = "/",
) -> None:
    """Run a command in an image with this host's NPUs: invoke run --variant a2 -- COMMAND. Nothing may follow it."""
    from ascend_images import running

    wishes = running.Wishes(
        variants=tuple(variant),
        sets=tuple(set),
        image=image,
        sandbox=sandbox,
        devices=devices,
        user=user,
        groups=tuple(group_add),
        mounts=tuple(mount),
        env=tuple(env),
        workspace=workspace,
        network=network,
        ipc=ipc,
        shm_size=shm_size,
        name=name,
        privileged=privileged,
        show=print,
        form=format,
        resource=resource,
        host_root=host_root,
        command=cli.words_after_dashes(),
    )
    sys.stdout.write(running.run(ROOT, wishes, say=lambda text: sys.stderr.write(f"{text}\n")))


@verb(
    variant="compare this host with a variant: its hardware, its CANN, its architectures",
    devices="the NPUs that are wanted, as in --devices 0,1: a problem where they are missing or busy",
    host_root="a folder that stands for the host's file system",
    json=JSON,
)
def doctor(_: Context, variant: Iterable[str], devices: str = "", host_root: str = "/", json: bool = False) -> None:
    """Ask what this machine lacks to build images and to run them; ends with 3 if anything is a problem."""
    from ascend_images import doctoring
    from ascend_images.pins import report

    found = doctoring.diagnose(doctoring.question_for(ROOT, tuple(variant), devices), root=host_root)
    print(report.as_json(found) if json else doctoring.as_text(found))
    doctoring.require_sound(found)


@verb()
def schema(_: Context) -> None:
    """Write versions.schema.json, which editors complete and check versions.toml with."""
    from ascend_images import generated

    print(generated.write_schema(ROOT))


@verb()
def docs(_: Context) -> None:
    """Write docs/verify.md, which tells of every check what it asks, why, and how it is mended."""
    from ascend_images import generated

    print(generated.write_check_docs(ROOT))


namespace = Collection(variants, show, check, lock, render, build, run, doctor, schema, docs)
