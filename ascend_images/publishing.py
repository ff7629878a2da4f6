"""From what was typed to indexes, readable tags, the lists of tags, the matrix of CI, and pruned registries."""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ascend_images.errors import AscendImagesError, BadInput, LookupIncomplete, PublishRefused
from ascend_images.images.plan import BUILD_FOLDER, record_path
from ascend_images.images.publish import SANDBOX
from ascend_images.images.record import Record, load_record
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
from ascend_images.publish.lock import PROPOSED, git, one_at_a_time, require_nothing_forgotten
from ascend_images.publish.manifest import Joined, join, load_joined, write_joined
from ascend_images.publish.published import Publication
from ascend_images.publish.registry import Repository
from ascend_images.publish.sign import Cosign, require_key, sign_all
from ascend_images.publish.tag_words import Words
from ascend_images.selection import PINS_FILE, Selection, select
from ascend_images.verify.report import Report, load_reports

Say = Callable[[str], None]
Open = Callable[[str], Repository]

#: Where joinings leave what they made, below the repository's root.
MANIFESTS = Path(BUILD_FOLDER) / "manifests"

#: What is wrong with one variant, or its registry, and says nothing of the others.
_OF_ONE = (PublishRefused, LookupIncomplete, BadInput)

_HTTPS = re.compile(r"https://(?:[^@/]*@)?(?P<where>[A-Za-z0-9.-]+(?::[0-9]+)?/[^?#\s]+?)(?:\.git)?/?")
_SSH = re.compile(r"(?:ssh://)?git@(?P<host>[A-Za-z0-9.-]+)[:/](?P<path>[^?#\s]+?)(?:\.git)?/?")


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
    sign = _signer(require_key(wish.sign), program()) if wish.sign else None
    reports = load_reports(wish.reports)
    selection = chosen(root, names)
    named = aliases(selection.pins, resolve_all(selection.pins, allow_broken=True))
    lines: list[str] = []
    refused: list[AscendImagesError] = []
    for variant in selection.variants:
        try:
            joined = load_joined(root / MANIFESTS / f"{variant.name}.json", variant.name)
            publication = _publication(root, variant, joined, wish, reports, checks, named[variant.name], environment)
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
        require_nothing_forgotten(root, history, PROPOSED)
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
            lines.append(f"{name}: {plan.kept} tags kept")
    return lines


def web_address(root: Path, environment: Mapping[str, str] = os.environ) -> str:
    """Return this project's address on the web: of the CI that runs, else of its git remote; empty where unknown."""
    server, name = environment.get("GITHUB_SERVER_URL", ""), environment.get("GITHUB_REPOSITORY", "")
    if server and name:
        return f"{server.rstrip('/')}/{name}"
    said = git(root, "remote", "get-url", "origin")
    text = said.stdout.decode(errors="replace").strip() if said is not None and said.returncode == 0 else ""
    if found := _HTTPS.fullmatch(text):
        return f"https://{found['where']}"
    if found := _SSH.fullmatch(text):
        return f"https://{found['host']}/{found['path']}"
    return ""


def _joined(root: Path, variant: Variant, records: Path, opened: Open) -> Joined:
    found = _records(root / records, variant)
    repository = ImageRef.parse(next(iter(found.values())).image).name if found else variant.repository
    joined = join(variant.name, variant.platforms, found, opened(repository))
    write_joined(root / MANIFESTS / f"{variant.name}.json", joined)
    return joined


def _records(folder: Path, variant: Variant) -> dict[Arch, Record]:
    """Return the records of a variant's builds; those of CI lie together in a folder of any name."""
    found = {arch: load_record(record_path(folder, variant.name, arch)) for arch in variant.platforms}
    return {arch: record for arch, record in found.items() if record is not None}


def _publication(
    root: Path,
    variant: Variant,
    joined: Joined,
    wish: Promotion,
    reports: Sequence[Report],
    checks: Sequence[str],
    named: Sequence[str],
    environment: Mapping[str, str],
) -> Publication:
    """Return what would be put on record of a variant; raises PublishRefused for what must not be."""
    promoting.require_pinned(joined, variant)
    _require_platforms(joined, variant)
    proofs = required.proofs(joined, reports, required.required(checks), without_npu=bool(wish.without_npu))
    dockerfile = dockerfile_path(Path(), variant.name).as_posix()
    suffix = SANDBOX if promoting.is_stand_in(joined, variant) else ""
    return promoting.publication_of(
        joined,
        variant,
        proofs,
        aliases=[f"{alias}{suffix}" for alias in named],
        when=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        commit=promoting.building_commit(root, joined, dockerfile, stand_in=bool(suffix)),
        source=web_address(root, environment),
        dockerfile=dockerfile,
        reason=wish.without_npu,
    )


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
