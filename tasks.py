"""What a person types: one task a verb. `invoke -l` lists them, `invoke -h VERB` says what each takes."""

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from invoke import Collection, Context, Task

from ascend_images import cli

ROOT = Path(__file__).parent

VARIANT = "a variant or one of its aliases; repeat it for several"
SET = "key=value changes a pin for this call; repeat it: --set torch_npu=2.10.0.post2 --set sources.vllm.ref=v0.22.0"
SOURCE = "name=DIR takes a source from a local checkout; repeat it"
JSON = "print JSON for programs"


def verb(**help_texts: str) -> Callable[[Callable[..., None]], Task[Any]]:
    """Make a task of a function: long flags only, lists where a flag may be repeated, errors as exit codes."""

    def make(function: Callable[..., None]) -> Task[Any]:
        repeated = [name for name in ("variant", "set", "source") if name in help_texts]
        return Task(cli.reporting(function), iterable=repeated, help=help_texts, auto_shortflags=False)

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
    print(report.as_json(chosen) if json else "\n\n".join(report.variant_text(one) for one in chosen))


@verb(variant=VARIANT, set=SET, json=JSON)
def check(_: Context, variant: Iterable[str], set: Iterable[str], json: bool = False) -> None:  # noqa: A002
    """Ask whether the pins fit together: what is broken, what is accepted and why, what no table knows."""
    from ascend_images.pins import report
    from ascend_images.selection import select

    names = tuple(variant)
    chosen = select(ROOT, names, everything=not names, sets=tuple(set), allow_broken=True).variants
    print(report.as_json({one.name: one.findings for one in chosen}) if json else report.findings_text(chosen))
    cli.refuse_broken(chosen)


@verb(
    variant=VARIANT,
    all="all variants",
    arch="architecture(s) to lock; those of the variant by default",
    set=SET,
    source=SOURCE,
    mirror="a [mirror.NAME] of versions.toml to ask instead",
)
def lock(
    _: Context,
    variant: Iterable[str],
    set: Iterable[str],  # noqa: A002
    source: Iterable[str],
    all: bool = False,  # noqa: A002
    arch: str = "",
    mirror: str = "",
) -> None:
    """Resolve the pins to the whole package set, and write the package locks (asks package indexes and git hosts)."""
    from ascend_images import locking
    from ascend_images.selection import select

    selection = select(ROOT, tuple(variant), everything=all, sets=tuple(set))
    arches = cli.architectures([arch] if arch else [])
    folders = cli.source_folders(source)
    for line in locking.lock(selection, arches, folders, mirror=mirror, say=lambda text: print(text, file=sys.stderr)):
        print(line)


@verb(variant=VARIANT, set=SET, check="write nothing; list what is out of date and fail if anything is")
def render(_: Context, variant: Iterable[str], set: Iterable[str], check: bool = False) -> None:  # noqa: A002
    """Write the Dockerfiles and what lies beside them; all variants unless some are named."""
    from ascend_images import generated
    from ascend_images.selection import select

    names = tuple(variant)
    selection = select(ROOT, names, everything=not names, sets=tuple(set))
    if check:
        generated.require_current(selection, everything=not names)
    for path in () if check else generated.write(selection, everything=not names):
        print(path)


@verb(
    variant=VARIANT,
    all="all variants",
    arch="architecture(s): amd64 or arm64, in any spelling; the host's by default",
    platform="the same as Docker writes it: linux/arm64",
    set=SET,
    source=SOURCE,
    wheels="a folder of wheels that are taken before any index",
    base_image="a base image from elsewhere, or of another release",
    mirror="a [mirror.NAME] of versions.toml, for this build alone",
    ca_bundle="a company's certificates (PEM), for this build alone",
    push="push to the registry, each architecture under its own tag",
    builder="a buildx builder; the engine's own by default",
    jobs="how many images are built at a time",
    dry_run="print the bake file and build nothing",
    unlocked="take what no hash is known for; the record and the image's labels say so",
    sandbox="with stand-ins for everything that comes from outside",
    json="print the summary as JSON at the end",
)
def build(
    _: Context,
    variant: Iterable[str],
    set: Iterable[str],  # noqa: A002
    source: Iterable[str],
    all: bool = False,  # noqa: A002
    arch: str = "",
    platform: str = "",
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
    from ascend_images.images.build import build, summary_path
    from ascend_images.images.plan import Choices, source_date_epoch
    from ascend_images.images.plan import dry_run as bake_file
    from ascend_images.selection import select

    arches = cli.architectures([arch] if arch else [], [platform] if platform else [])
    selection = select(ROOT, tuple(variant), everything=all, sets=tuple(set), base_image=base_image)
    choices = Choices(
        push=push,
        builder=builder,
        unlocked=unlocked,
        base_image=selection.base_image,
        wheels=Path(wheels).expanduser() if wheels else None,
        epoch=source_date_epoch(ROOT, os.environ),
        arch_typed=bool(arches),
    )
    wishes = planning.Wishes(
        arches=arches,
        choices=choices,
        sources=cli.source_folders(source),
        mirror=mirror,
        ca_bundle=Path(ca_bundle).expanduser() if ca_bundle else None,
        contexts=stand_ins if sandbox else None,
    )
    plans = planning.plans_for(selection, wishes)
    if dry_run:
        print(bake_file(plans).decode())
        return
    try:
        build(plans, jobs=jobs)
    finally:
        if json and summary_path(ROOT).is_file():
            print(summary_path(ROOT).read_text(encoding="utf-8"), end="")


def stand_ins(variant: Any, arch: Any, lock: Any) -> dict[str, str]:
    """Return the sandbox's contexts for a variant; what takes long is said."""
    from ascend_images.sandbox.standins import prepare

    return prepare(variant, arch, lock, lambda text: print(text, file=sys.stderr, flush=True))


@verb()
def schema(_: Context) -> None:
    """Write versions.schema.json, which editors complete and check versions.toml with."""
    from ascend_images import generated

    print(generated.write_schema(ROOT))


namespace = Collection(variants, show, check, lock, render, build, schema)
