"""What a person types: one task a verb. `invoke -l` lists them, `invoke -h VERB` says what each takes."""

import inspect
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invoke import Collection, Context, Task

from ascend_images import call, cli

if TYPE_CHECKING:
    from ascend_images.standing import Standing

ROOT = Path(__file__).parent

VARIANT = "a variant or one of its aliases; repeat it for several"
SET = "key=value changes a pin for this call; repeat it: --set torch_npu=2.10.0.post2 --set sources.vllm.ref=v0.22.0"
SOURCE = "name=DIR takes a source from a local checkout; repeat it"
JSON = "print JSON for programs"

#: Options that may be repeated, in whichever verb has them without a default.
REPEATED = (
    *("variant", "set", "source", "arch", "platform", "update", "also", "builder"),
    *("group_add", "mount", "env", "publish", "cache_to", "cache_from"),
)


def verb(**help_texts: str) -> Callable[[Callable[..., None]], Task[Any]]:
    """Make a task of a function: long flags only, lists where a flag may be repeated, errors as exit codes."""

    def make(function: Callable[..., None]) -> Task[Any]:
        of = inspect.signature(function).parameters
        repeated = [name for name in REPEATED if name in help_texts and of[name].default is inspect.Parameter.empty]
        return Task(cli.reporting(call.repeating(function)), iterable=repeated, help=help_texts, auto_shortflags=False)

    return make


def _say(text: str) -> None:
    """Tell a person what goes on, beside what a command prints for programs."""
    print(text, file=sys.stderr, flush=True)


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
    update="learn this one anew: a source, base, a .run package (toolkit, ops, nnal) or a package; repeat it",
    fresh="learn everything anew, nothing is kept",
    offline="ask nobody: from what was learned before",
    as_of="YYYY-MM-DD: leave out packages that were published after that day",
    check="write nothing, ask nobody: does each lock still answer the pins?",
    explain="a package: who wants it, in which version, from which file; nothing is written",
    mirror="a [mirror.NAME] of versions.toml to ask instead",
    ca_bundle="a company's certificates (PEM), trusted besides this machine's own",
)
def lock(
    _: Context,
    variant: Iterable[str],
    set: Iterable[str],  # noqa: A002
    source: Iterable[str],
    arch: Iterable[str],
    update: Iterable[str],
    all: bool = False,  # noqa: A002
    fresh: bool = False,
    offline: bool = False,
    as_of: str = "",
    check: bool = False,
    explain: str = "",
    mirror: str = "",
    ca_bundle: str = "",
) -> None:
    """Write what the pins mean: commits, digests, checksums, the whole package set (asks hosts and indexes)."""
    from ascend_images import locking
    from ascend_images.selection import select
    from ascend_images.standing import standing

    anew = {"--update": tuple(update), "--fresh": fresh}
    asked = {"--as-of": as_of, "--source": tuple(source), "--mirror": mirror, "--ca-bundle": ca_bundle}
    cli.excludes("--check", check, {**anew, **asked, "--explain": explain})
    cli.excludes("--explain", explain, {**anew, "--as-of": as_of})
    cli.excludes("--offline", offline, anew)
    names, arches = tuple(variant), cli.architectures(arch)
    choice = {"everything": all or (check and not names), "sets": tuple(set), "allow_broken": check}
    if check:
        print(_answer(standing(select(ROOT, names, **choice), arches)))
        return
    asking = {
        "mirror": mirror,
        "ca_bundle": cli.folder(ca_bundle) if ca_bundle else None,
        "say": _say,
    }
    folders = cli.source_folders(source)
    with ExitStack() as stack:
        if not explain:
            stack.enter_context(locking.alone(ROOT, asking["say"]))
        selection = select(ROOT, names, **choice, to_be_locked=True, anew=all and fresh)
        if explain:
            lines = locking.explain(selection, arches, folders, explain, offline=offline, **asking)
        else:
            renewal = locking.Renewal(
                update=tuple(update), fresh=fresh, offline=offline, as_of=cli.day(as_of, "--as-of")
            )
            lines = locking.lock(selection, arches, folders, renewal=renewal, **asking)
        for line in lines:
            print(line)


def _answer(found: "Standing") -> str:
    """Tell what is not locked, and return what is to be said; raises CheckFailed for locks that are stale."""
    for text in found.missing:
        print(f"not locked: {text}", file=sys.stderr)
    found.require()
    return found.told()


@verb(
    image="the image, by its name, as the engine or a registry has it",
    name="what the stack and its variant will be called; made from the image's name by default",
    platform="linux/arm64 where the image exists for several",
)
def freeze(_: Context, image: str = "", name: str = "", platform: str = "") -> None:
    """Write the packages of an image that somebody else built as a lock, and the rest as the start of a stack."""
    from ascend_images import freezing
    from ascend_images.errors import BadInput

    if not image:
        raise BadInput("no image is named", wanted="--image REF", do="docker image ls")
    written = freezing.freeze_image(ROOT, image, name, platform=platform, say=_say)
    print(freezing.told(written, ROOT))


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
        with generated.held(selection, _say):
            changed = generated.write(selection, everything=not names)
    print("\n".join(map(str, changed)) or generated.up_to_date(selection))


@verb(
    variant=VARIANT,
    resolve="try the newest versions out: does any set of packages meet them? (takes minutes)",
    mirror="a [mirror.NAME] of versions.toml to ask instead",
    ca_bundle="a company's certificates (PEM), trusted besides this machine's own",
    json=JSON,
)
def outdated(
    _: Context,
    variant: Iterable[str],
    resolve: bool = False,
    mirror: str = "",
    ca_bundle: str = "",
    json: bool = False,
) -> None:
    """List what is newer than the pins, and what each would break (asks indexes, git hosts and registries)."""
    from ascend_images import update_report, updating
    from ascend_images.pins import report
    from ascend_images.selection import select

    names = tuple(variant)
    found = updating.outdated(
        select(ROOT, names, everything=not names, allow_broken=True),
        mirror=mirror,
        ca_bundle=cli.folder(ca_bundle) if ca_bundle else None,
        resolves=resolve,
        say=_say,
    )
    print(report.as_json(found) if json else update_report.as_text(found))
    found.require()


@verb(
    name="a package, a source (or SOURCE.version) or cann; STACK.NAME where several stacks pin it: ms-swift.vllm",
    version="the version, ref or specifier that it is to have",
    also="NAME=VERSION, moved in the same step; repeat it",
    source=SOURCE,
    dry_run="do everything and write nothing",
    commit="commit what changed, and nothing else",
    mirror="a [mirror.NAME] of versions.toml to ask instead",
    ca_bundle="a company's certificates (PEM), trusted besides this machine's own",
)
def bump(
    _: Context,
    name: str,
    version: str,
    also: Iterable[str],
    source: Iterable[str],
    dry_run: bool = False,
    commit: bool = False,
    mirror: str = "",
    ca_bundle: str = "",
) -> None:
    """Move a pin: versions.toml, locks and rendered files, all of them or none."""
    from ascend_images import bumping

    wishes = bumping.Wishes(
        typed=bumping.pairs(name, version, tuple(also)),
        sources=cli.source_folders(source),
        mirror=mirror,
        ca_bundle=cli.folder(ca_bundle) if ca_bundle else None,
        dry_run=dry_run,
        commit=commit,
    )
    print(bumping.bump(ROOT, wishes, _say))


@verb(
    variant=VARIANT,
    from_="a git revision, or a variant",
    to="another one; the working tree by default",
    markdown="as Markdown, for a pull request",
    json=JSON,
)
def diff(
    _: Context,
    variant: Iterable[str],
    from_: str = "",
    to: str = "",
    markdown: bool = False,
    json: bool = False,
) -> None:
    """Show what differs between two revisions or two variants: pins, packages, Dockerfiles."""
    from ascend_images import difference_report, diffing
    from ascend_images.pins import report

    found = diffing.compare(ROOT, from_, to, tuple(variant))
    if json:
        print(report.as_json(found))
    else:
        print(difference_report.as_markdown(found) if markdown else difference_report.as_text(found))


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
    push="push each architecture as a candidate, under a tag that its pins decide (invoke manifest and promote go on); "
    "refused for what is not under a name of its own",
    cache_to="export the build cache: registry (a tag beside the images for each), or as docker buildx writes it: "
    "type=registry,ref=…, type=local,dest=…, type=gha; repeat it; a failing export fails no build",
    cache_from="import a build cache: registry, type=registry,ref=…, type=local,src=… or type=gha; repeat it",
    builder="a buildx builder, or a docker context, whose engine builds then; repeated (with --push), the images are "
    "divided among them; the engine's own by default",
    jobs="how many images are built at a time, by each builder",
    dry_run="print the bake file (JSON) and build nothing; on standard error, why the build would be refused",
    compression="how layers are packed: gzip, which every engine pulls, or zstd, which is faster and smaller; of "
    "layers made in this build: those that the builder has already, and the base's, stay as they are",
    unlocked="take what no hash is known for; the record and the image's labels say so; a lock of other pins is "
    "refused all the same",
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
    cache_to: Iterable[str],
    cache_from: Iterable[str],
    builder: Iterable[str],
    all: bool = False,  # noqa: A002
    wheels: str = "",
    base_image: str = "",
    mirror: str = "",
    ca_bundle: str = "",
    push: bool = False,
    jobs: int = 0,
    dry_run: bool = False,
    compression: str = "gzip",
    unlocked: bool = False,
    sandbox: bool = False,
    json: bool = False,
) -> None:
    """Build images from their locks, and have each check itself."""
    from ascend_images import generated, planning
    from ascend_images.images import cache
    from ascend_images.images.build import build, reasons_against, require_jobs, room_for
    from ascend_images.images.epoch import source_date_epoch
    from ascend_images.images.plan import Choices
    from ascend_images.images.plan import dry_run as bake_file
    from ascend_images.images.turns import in_turn
    from ascend_images.selection import select

    require_jobs(jobs)
    arches = cli.architectures(arch, platform)
    selection = select(ROOT, tuple(variant), everything=all, sets=tuple(set), base_image=base_image)
    choices = Choices(
        push=push,
        unlocked=unlocked,
        base_image=selection.base_image,
        other_base="" if selection.base_image else base_image,
        wheels=cli.folder(wheels) if wheels else None,
        epoch=source_date_epoch(ROOT, os.environ, push=push),
        arch_typed=bool(arches),
        compression=compression,
        cache_to=tuple(cache.cache_of(text, cache.TO, os.environ) for text in cache_to),
        cache_from=tuple(cache.cache_of(text, cache.FROM, os.environ) for text in cache_from),
        typed=call.of_what_is_made(),
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
        with generated.held(selection, _say, wishes.sources):
            plans = planning.plans_for(selection, wishes)
        for text in (*reasons_against(plans), *room_for(plans, builders=tuple(builder), jobs=jobs)):
            print(call.completed(text), file=sys.stderr)
        print(bake_file(plans).decode())
        return
    with in_turn(ROOT, planning.turns(selection, wishes), _say):
        plans = planning.plans_for(selection, wishes)
        build(plans, builders=tuple(builder), jobs=jobs, told=print if json else None)


@verb(
    variant=VARIANT,
    all="all variants",
    arch="architecture(s), repeated or divided by commas; the host's by default",
    set=SET,
    base_image="a base image from elsewhere, or of another release",
    mirror="a [mirror.NAME] of versions.toml, for these builds alone",
    ca_bundle="a company's certificates (PEM), for these builds alone",
    builder="the second build's buildx builder; by default an engine that is started for it, and removed",
    one_engine="build both times on the engine in use: what differs from engine to engine is not seen then",
    unlocked="take what no hash is known for",
    sandbox="with stand-ins for everything that comes from outside",
)
def reproduce(
    _: Context,
    variant: Iterable[str],
    set: Iterable[str],  # noqa: A002
    arch: Iterable[str],
    all: bool = False,  # noqa: A002
    base_image: str = "",
    mirror: str = "",
    ca_bundle: str = "",
    builder: str = "",
    one_engine: bool = False,
    unlocked: bool = False,
    sandbox: bool = False,
) -> None:
    """Build images twice from nothing, on two engines, and compare them: 0 if they are the same, 5 if not."""
    from ascend_images import planning, reproducing
    from ascend_images.images.epoch import source_date_epoch
    from ascend_images.images.plan import Choices
    from ascend_images.images.turns import in_turn
    from ascend_images.sandbox.second_engine import second_engine
    from ascend_images.selection import select

    arches = cli.architectures(arch)
    selection = select(ROOT, tuple(variant), everything=all, sets=tuple(set), base_image=base_image)
    choices = Choices(
        unlocked=unlocked,
        base_image=selection.base_image,
        other_base="" if selection.base_image else base_image,
        epoch=source_date_epoch(ROOT, os.environ),
        arch_typed=bool(arches),
    )
    wishes = planning.Wishes(
        arches=arches,
        choices=choices,
        mirror=mirror,
        ca_bundle=cli.folder(ca_bundle) if ca_bundle else None,
        contexts=stand_ins if sandbox else None,
    )
    with (
        in_turn(ROOT, planning.turns(selection, wishes), _say),
        ExitStack() as stack,
    ):
        plans = planning.plans_for(selection, wishes)
        host = "" if builder or one_engine else stack.enter_context(second_engine())
        found = reproducing.reproduce(plans, reproducing.two_places(host, builder))
    if text := reproducing.told(found):
        print(text)
    reproducing.require_same(found)


def stand_ins(variant: Any, arch: Any, lock: Any) -> dict[str, str]:
    """Return the sandbox's contexts for a variant; what takes long is said."""
    from ascend_images.sandbox.standins import prepare

    return prepare(variant, arch, lock, _say)


@verb(stop="stop it; what was pushed to it stays")
def registry(_: Context, stop: bool = False) -> None:
    """Start a registry on this machine's loopback, to try publishing out, and print its address."""
    from ascend_images.sandbox.registry import Registry

    own = Registry()
    if stop:
        print(f"stopped; its images are in {own.folder}" if own.stop() else "it does not run")
    else:
        print(own.start())


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
    publish="docker's --publish: HOST:CONTAINER opens a port of the container on the host; repeat it",
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
    publish: Iterable[str],
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
        ports=tuple(publish),
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

    question = doctoring.question_for(ROOT, tuple(variant), devices)
    found = doctoring.diagnose(question, root=host_root, project=ROOT)
    print(report.as_json(found) if json else doctoring.as_text(found))
    doctoring.require_sound(found)


RECORDS = "a folder with the records of builds; build/records by default"
REPORTS = "a folder with the reports of nox -s verify; build/verify by default"


@verb(variant=VARIANT, records=RECORDS, json=JSON)
def manifest(_: Context, variant: Iterable[str], records: str = "build/records", json: bool = False) -> None:
    """Join what was built and pushed for each architecture into one index, under a candidate's tag."""
    from ascend_images import publishing

    made = publishing.manifest(ROOT, tuple(variant), cli.folder(records))
    if json:
        print(publishing.as_json(made))
    else:
        print("\n".join(f"{one.repository}:{one.candidate} is {one.digest}" for one in made))
    for line in publishing.after_joining(made):
        _say(line)


@verb(
    variant=VARIANT,
    reports=REPORTS,
    without_npu="why the checks that need an NPU were not asked; published with the tag",
    sign="sign every digest first, with cosign and this key: a file (COSIGN_PASSWORD opens it), env://NAME or a KMS's",
    dry_run="say what would become of each tag, and write nothing",
)
def promote(
    _: Context,
    variant: Iterable[str],
    reports: str = "build/verify",
    without_npu: str = "",
    sign: str = "",
    dry_run: bool = False,
) -> None:
    """Give readable tags to what is joined, if a report for its digest passes every required check."""
    from ascend_images import publishing, verifying

    wish = publishing.Promotion(
        reports=publishing.reports_folder(cli.folder(reports)), without_npu=without_npu, sign=sign, dry_run=dry_run
    )
    lines = publishing.promote(
        ROOT,
        tuple(variant),
        wish,
        checks=verifying.check_ids(),
        say=_say,
    )
    print("\n".join(lines))
    _say(f"next: {call.completed(publishing.after_promoting(tuple(variant), dry_run=dry_run))}")


@verb(
    variant=VARIANT,
    arch="architecture(s), repeated or divided by commas; all that were built by default",
    format="spdx (SPDX 2.3) or cyclonedx (CycloneDX 1.6), both JSON",
    output="a file to write; standard output by default",
    push="attach it to the image in the registry, for each architecture",
    sign="with --push: attach it also as a signed statement, with cosign and this key (see invoke promote --help)",
    records=RECORDS,
)
def sbom(
    _: Context,
    variant: Iterable[str],
    arch: Iterable[str],
    format: str = "spdx",  # noqa: A002
    output: str = "",
    push: bool = False,
    sign: str = "",
    records: str = "build/records",
) -> None:
    """Say what a built image is made of, as a software bill of materials; attach it to the pushed image."""
    from ascend_images import attesting
    from ascend_images.files import write_atomic

    arches = cli.architectures(arch)
    found = attesting.documents(ROOT, tuple(variant), cli.folder(records), arches=arches, form=format)
    if push or sign:
        attesting.require_pushing(push, output)
        print("\n".join(attesting.push(found, sign=sign)))
    elif output:
        write_atomic(cli.folder(output), attesting.only(found).content)
    else:
        sys.stdout.write(attesting.only(found).content.decode())


@verb(variant=VARIANT, key="the public key: a file, env://NAME or a KMS's")
def signature(_: Context, variant: Iterable[str], key: str = "") -> None:
    """Verify with cosign that every digest of what was promoted last is signed by a key; 7 where one is not."""
    from ascend_images import attesting

    print("\n".join(f"signed: {one}" for one in attesting.verify_signatures(ROOT, tuple(variant), key)))


@verb(check="write nothing; fail if a list is out of date")
def tags(_: Context, check: bool = False) -> None:
    """Write docs/supported_tags.md and its Chinese twin, from versions.toml and published.json."""
    from ascend_images import publishing

    print("\n".join(map(str, publishing.tags(ROOT, check=check))) or "the lists of tags are up to date")


@verb(variant=VARIANT, changed_since="a commit: only what is rendered, locked or based otherwise than there")
def matrix(_: Context, variant: Iterable[str], changed_since: str = "") -> None:
    """Print what must be built, as a matrix for CI: variant, architecture, and the runner that takes it."""
    from ascend_images import publishing

    print(publishing.matrix(ROOT, tuple(variant), changed_since))


@verb(
    variant=VARIANT,
    keep="how many candidates of each variant are kept, the newest; 3 by default",
    delete="delete them; without it they are only listed",
)
def prune(_: Context, variant: Iterable[str], keep: int = 3, delete: bool = False) -> None:
    """List old candidates in the registries, or delete them; never what a kept tag or index leads to."""
    from ascend_images import publishing

    lines = publishing.prune(ROOT, tuple(variant), keep=keep, delete=delete, say=_say)
    print("\n".join(lines))


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


@verb(
    variant="build these; else the variants whose published image is not what the tree says",
    npu_arch="architectures of which there are machines with NPUs, divided by commas, or none; by hardware, divided by "
    "blanks: 'a2:amd64,arm64 a3:arm64'",
    without_npu="why checks that need an NPU are not asked where no machine has one; see invoke promote --help",
    build_runners="labels of the machines that build, by architecture, divided by blanks: "
    "'amd64:self-hosted,linux,X64'; GitHub's own by default",
)
def plan(
    _: Context,
    variant: Iterable[str],
    npu_arch: str = "amd64,arm64",
    without_npu: str = "",
    build_runners: str = "",
) -> None:
    """Say what a run of CI has to build, and where it is verified; in a workflow, as outputs of the step."""
    from ascend_images import workflow
    from ascend_images.pins.load import load
    from ascend_images.publish.machines import machines
    from ascend_images.selection import PINS_FILE

    there = machines(npu_arch, build_runners, hardware=load(ROOT / PINS_FILE).hardware)
    found = workflow.plan(ROOT, tuple(variant), there, without_npu=without_npu)
    if told := workflow.warn(found.warnings()):
        _say(told)
    print(workflow.tell(found.outputs()))


@verb(
    variant="the variant that was joined; repeat it for several",
    platform="linux/arm64 for the image of that platform alone; the index of all by default",
)
def joined(_: Context, variant: Iterable[str], platform: Iterable[str]) -> None:
    """Print the image that invoke manifest made of a variant, by digest: what is to be verified."""
    from ascend_images import workflow

    arches = cli.architectures(platform=platform) or (None,)
    names = tuple(variant) or ("",)
    print("\n".join(workflow.joined_image(ROOT, name, arch) for name in names for arch in arches))


@verb(
    from_="a git revision whose published.json is taken, such as the branch of an open pull request",
    file="a published.json from elsewhere",
)
def remember(_: Context, from_: str = "", file: str = "") -> None:
    """Add to published.json what another one holds and this one lacks."""
    from ascend_images import workflow

    added = workflow.remember(ROOT, from_, cli.folder(file) if file else None, _say)
    print("\n".join(f"added {one.repository}:{one.tag}, {one.digest}" for one in added) or "nothing to add")


@verb(
    branch="the branch that is pushed; it is written over, unless somebody else pushed to it",
    base="the branch that it is for",
    title="the pull request's title, and that of the commit of the index",
    body="a file of Markdown: what the pull request says",
)
def propose(_: Context, branch: str = "", base: str = "main", title: str = "", body: str = "") -> None:
    """Open a pull request (by gh) of what HEAD has on top of a branch, and of published.json and the tag lists."""
    from ascend_images import proposing

    wish = proposing.Proposal(branch=branch, base=base, title=title, body=cli.folder(body) if body else None)
    print(proposing.propose(ROOT, wish))


@verb(
    variant=VARIANT,
    resolve="try the newest versions out: does any set of packages meet them? (takes minutes)",
    mirror="a [mirror.NAME] of versions.toml to ask instead",
)
def updates(_: Context, variant: Iterable[str], resolve: bool = False, mirror: str = "") -> None:
    """Say which pins invoke bump could move without breaking a rule; in a workflow, as outputs of the step."""
    from ascend_images import updating, workflow
    from ascend_images.selection import select

    names = tuple(variant)
    found = updating.outdated(
        select(ROOT, names, everything=not names, allow_broken=True),
        mirror=mirror,
        resolves=resolve,
        say=_say,
    )
    print(workflow.tell(workflow.updates(found)))
    found.require()


@verb(patches="a folder of *.patch, as git format-patch writes them")
def take(_: Context, patches: str = "") -> None:
    """Commit patches from elsewhere if they change nothing but pins, locks and rendered files; else none of them."""
    from ascend_images import taking
    from ascend_images.errors import BadInput

    if not patches:
        raise BadInput("no folder is named", wanted="--patches DIR")
    print(taking.take(ROOT, cli.folder(patches)))


namespace = Collection(
    *(variants, show, check, lock, freeze, outdated, bump, diff, render, build, reproduce, registry, run, doctor),
    *(manifest, promote, sbom, signature, tags, matrix, prune, schema, docs),
    *(plan, joined, remember, propose, updates, take),
)
