"""From what was typed to indexes, readable tags, the lists of tags, the matrix of CI, and pruned registries."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ascend_images.errors import AscendImagesError, BadInput, LookupIncomplete, PublishRefused
from ascend_images.images.plan import BUILD_FOLDER
from ascend_images.images.publish import SANDBOX, is_stand_in
from ascend_images.images.record import Record, find_record
from ascend_images.images.rendered import dockerfile_path
from ascend_images.pins import report
from ascend_images.pins.load import load
from ascend_images.pins.platform import Arch
from ascend_images.pins.resolve import resolve_all
from ascend_images.pins.tags import ImageRef
from ascend_images.pins.variant import Variant
from ascend_images.publish import matrix as matrices
from ascend_images.publish import promote as promoting
from ascend_images.publish import prune as pruning
from ascend_images.publish import published, required, tag_page
from ascend_images.publish.aliases import aliases
from ascend_images.publish.lock import one_at_a_time, require_nothing_forgotten
from ascend_images.publish.manifest import Joined, join, load_joined, write_joined
from ascend_images.publish.published import Publication
from ascend_images.publish.registry import Repository
from ascend_images.publish.sign import Cosign, require_key, sign_all
from ascend_images.publish.tag_words import Words
from ascend_images.publish.web_address import linked_address
from ascend_images.selection import PINS_FILE, Selection, select
from ascend_images.verify.report import REPORT_FOLDER, Report, file_name, read_reports

Say = Callable[[str], None]
Open = Callable[[str], Repository]

#: Where joinings leave what they made, below the repository's root.
MANIFESTS = Path(BUILD_FOLDER) / "manifests"

#: What is wrong with one variant, or its registry, and says nothing of the others.
_OF_ONE = (PublishRefused, LookupIncomplete, BadInput)


@dataclass(frozen=True, kw_only=True)
class Promotion:
    """What was typed for a promotion.

    A folder of reports, why the NPU checks are waived (empty: they are not), and the key to sign with (empty: none).
    """

    reports: Path
    without_npu: str = ""
    sign: str = ""
    dry_run: bool = False


def manifest(root: Path, names: Sequence[str], records: Path, *, opened: Open = Repository) -> list[Joined]:
    """Join what was built of each variant.

    Raises PublishRefused, BadInput and LookupIncomplete for what cannot be joined, after the others were.
    """
    made: list[Joined] = []
    refused: list[AscendImagesError] = []
    for variant in chosen(root, names).variants:
        try:
            made.append(_joined(root, variant, records, opened))
        except _OF_ONE as error:
            refused.append(error)
    _raise_all(refused)
    return made


def promote(
    root: Path,
    names: Sequence[str],
    wish: Promotion,
    *,
    checks: Sequence[str],
    say: Say,
    opened: Open = Repository,
    environment: Mapping[str, str] = os.environ,
    program: Callable[[], Cosign] = Cosign,
) -> list[str]:
    """Give each variant its readable tags; return a line for each tag.

    `checks` are the names of all checks of a verification. What is to be signed is, and is verified, before a tag is
    written. Raises MissingTool or BadInput where it cannot be signed by that key; PublishRefused for what is not
    verified or would move a tag back, BadInput for a file that cannot be read, and LookupIncomplete where a registry
    does not answer, each after the other variants had their turn.
    """
    wish = replace(wish, without_npu=_reason(wish.without_npu))
    sign = _signer(require_key(wish.sign), program()) if wish.sign else None
    reports, unreadable = read_reports(wish.reports)
    selection = chosen(root, names)
    every = resolve_all(selection.pins, allow_broken=True)
    named = aliases(selection.pins, every)
    spoiled = _spoiled(every, unreadable)
    source = linked_address(root, environment, say)
    lines: list[str] = []
    refused: list[AscendImagesError] = []
    for variant in selection.variants:
        try:
            _raise_all(spoiled.get(variant.name, ()))
            joined = load_joined(root / MANIFESTS / f"{variant.name}.json", variant.name)
            publication = _publication(root, variant, joined, wish, reports, checks, named[variant.name], source)
            repository = opened(joined.repository)
            if sign is not None:
                # What would be refused gets no signature.
                promoting.promote(root, publication, joined, repository, dry_run=True, say=say)
            if sign is not None and not wish.dry_run:
                publication = sign(publication)
            moves = promoting.promote(root, publication, joined, repository, dry_run=wish.dry_run, say=say)
        except _OF_ONE as error:
            refused.append(error)
        else:
            would = "would be " if wish.dry_run else ""
            lines += [f"{would}{joined.repository}:{move}" for move in moves]
    for line in lines if refused else ():
        say(line)
    _raise_all(refused)
    return lines


def after_joining(made: Sequence[Joined]) -> list[str]:
    """Return the next thing to type for each index: to verify its images, each on a machine of its architecture."""
    return [
        f"next: {'; '.join(required.verifications(one, stand_in=is_stand_in(one.tag, one.resolved)).values())}"
        for one in made
    ]


def after_promoting(names: Sequence[str], *, dry_run: bool) -> str:
    """Return the next thing to type after a promotion, or after a dry run of one."""
    words = " ".join(f"--variant {name}" for name in names)
    return f"invoke promote {words}" if dry_run else f"invoke tags, and commit {published.FILE} and the lists"


def tags(root: Path, *, check: bool = False) -> list[Path]:
    """Write the lists of supported tags, or with `check` raise CheckFailed where one is out of date."""
    pins = load(root / PINS_FILE)
    variants = resolve_all(pins, allow_broken=True)
    history = published.load(root / published.FILE)

    def make(words: Words) -> str:
        return tag_page.page(words, pins, variants, history)

    if check:
        tag_page.require_pages(root, make)
        return []
    return tag_page.write_pages(root, make)


def matrix(root: Path, names: Sequence[str], changed_since: str = "") -> str:
    """Return what must be built, as JSON on one line."""
    variants: Sequence[Variant] = select(root, tuple(names), everything=not names, allow_broken=True).variants
    if changed_since:
        variants = matrices.changed_since(root, changed_since, variants)
    return json.dumps(matrices.matrix(variants))


def prune(
    root: Path, names: Sequence[str], *, keep: int, delete: bool = False, say: Say, opened: Open = Repository
) -> list[str]:
    """Return what may be deleted of old candidates, and with `delete` delete it; a line for each digest.

    Raises PublishRefused where published.json lacks what is known to be published, and as `plan_pruning` does.
    """
    pruning.require_keep(keep)
    variants = select(root, tuple(names), everything=not names, allow_broken=True).variants
    lines = []
    with one_at_a_time(root, say):
        history = published.load(root / published.FILE)
        require_nothing_forgotten(root, history)
        for name in sorted({variant.repository for variant in variants}):
            mine = [variant.name for variant in variants if variant.repository == name] if names else []
            repository = opened(name)
            plan = pruning.plan_pruning(repository, history, keep=keep, variants=mine)
            done = "deleted" if delete else "would delete"
            if delete:
                again = pruning.plan_pruning(repository, history, keep=keep, variants=mine)
                plan = pruning.prune(repository, pruning.agreed(plan, again))
            lines += [
                f"{done} {name}@{digest} ({', '.join(tagged) or 'attached to one of these'})"
                for digest, tagged in plan.doomed.items()
            ]
            lines += [f"kept {name}:{tag}: nothing tells how old it is" for tag in plan.undated]
            lines.append(f"{name}: {plan.kept} tags kept")
    return lines


def _joined(root: Path, variant: Variant, records: Path, opened: Open) -> Joined:
    found = _records(root / records, variant)
    repository = ImageRef.parse(next(iter(found.values())).image).name if found else variant.repository
    joined = join(variant.name, variant.platforms, found, opened(repository))
    write_joined(root / MANIFESTS / f"{variant.name}.json", joined)
    return joined


def _records(folder: Path, variant: Variant) -> dict[Arch, Record]:
    """Return the records of a variant's builds; those of CI lie together in a folder of any name."""
    found = {arch: find_record(folder, variant.name, arch) for arch in variant.platforms}
    return {arch: record for arch, record in found.items() if record is not None}


def reports_folder(typed: Path) -> Path:
    """Return the folder of reports; raises BadInput where another one was typed than the usual, and is not there."""
    if typed != REPORT_FOLDER and not typed.is_dir():
        raise BadInput(f"--reports {typed}: no such folder", wanted="a folder with reports of `nox -s verify`")
    return typed


def _spoiled(variants: Sequence[Variant], unreadable: Mapping[str, BadInput]) -> dict[str, list[BadInput]]:
    """Return what is wrong with the reports of each variant that cannot be read.

    Raises the first of those that may be about any image, and may say of it that it fails.
    """
    owners = {file_name(one.name, arch.platform): one.name for one in variants for arch in one.platforms}
    found: dict[str, list[BadInput]] = {}
    for name, error in unreadable.items():
        if name not in owners:
            raise error
        found.setdefault(owners[name], []).append(error)
    return found


def _publication(
    root: Path,
    variant: Variant,
    joined: Joined,
    wish: Promotion,
    reports: Sequence[Report],
    checks: Sequence[str],
    named: Sequence[str],
    source: str,
) -> Publication:
    """Return what would be put on record of a variant; raises PublishRefused for what must not be."""
    promoting.require_pinned(joined, variant)
    promoting.require_time(root, joined, now=time.time())
    _require_platforms(joined, variant)
    stand_in = promoting.is_stand_in(joined, variant)
    proofs = required.proofs(
        joined, reports, required.required(checks), without_npu=bool(wish.without_npu), stand_in=stand_in
    )
    dockerfile = dockerfile_path(Path(), variant.name).as_posix()
    suffix = SANDBOX if stand_in else ""
    return promoting.publication_of(
        joined,
        variant,
        proofs,
        aliases=[f"{alias}{suffix}" for alias in named],
        when=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        commit=promoting.building_commit(root, joined, dockerfile, stand_in=bool(suffix)),
        source=source,
        dockerfile=dockerfile,
        reason=wish.without_npu,
    )


def _reason(text: str) -> str:
    """Return why the NPU checks are waived, as it is published; raises BadInput for what is no line of text."""
    reason = text.strip()
    if text and not (reason and reason.isprintable()):
        raise BadInput(f"--without-npu {text!r}", wanted="the reason, a line of text: it is published with the tag")
    return reason


def _signer(key: str, cosign: Cosign) -> Callable[[Publication], Publication]:
    """Return what signs the index and each image of a publication by digest, and puts the key on record."""

    def sign(publication: Publication) -> Publication:
        digests = (publication.digest, *publication.platforms.values())
        references = [f"{publication.repository}@{digest}" for digest in digests]
        return msgspec.structs.replace(publication, signed=sign_all(cosign, references, key))

    return sign


def _require_platforms(joined: Joined, variant: Variant) -> None:
    declared = {arch.platform for arch in variant.platforms}
    if set(joined.platforms) != declared:
        raise PublishRefused(
            f"{variant.name}: joined of {', '.join(joined.platforms)}",
            wanted=f"every declared platform: {', '.join(sorted(declared))}",
            do=f"invoke manifest --variant {variant.name}",
        )


def chosen(root: Path, names: Sequence[str], *, allow_broken: bool = False) -> Selection:
    """Return the named variants; raises BadInput where none is named."""
    if not names:
        raise BadInput("no variant is named", wanted="--variant NAME, repeated at will", do="invoke variants")
    return select(root, tuple(names), allow_broken=allow_broken)


def _raise_all(refused: Sequence[AscendImagesError]) -> None:
    """Raise one error for all; alone it is raised as it is."""
    if len(refused) == 1:
        raise refused[0]
    if refused:
        lookups = all(isinstance(error, LookupIncomplete) for error in refused)
        raise (LookupIncomplete if lookups else PublishRefused)("\n".join(map(str, refused)))


def as_json(joined: Sequence[Joined]) -> str:
    """Return what was joined as JSON, by variant, without the pins that are in its file."""
    data = {one.variant: msgspec.structs.replace(one, resolved={}) for one in joined}
    return report.as_json(data)
