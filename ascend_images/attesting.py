"""From what was typed to bills of materials, written or attached to images in a registry, and signatures verified."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ascend_images.errors import BadInput, PublishRefused
from ascend_images.images.candidate import LABEL_IDENTITY, identity
from ascend_images.images.record import Record, build_again, find_record
from ascend_images.pins.lockfile import LockFile, file_name
from ascend_images.pins.platform import Arch
from ascend_images.pins.tags import ImageRef
from ascend_images.pins.versions_lock import FILE as VERSIONS_LOCK
from ascend_images.pins.versions_lock import VersionsLock
from ascend_images.publish import published
from ascend_images.publish.complete import labels_of
from ascend_images.publish.index import parse_manifest
from ascend_images.publish.referrers import attach
from ascend_images.publish.registry import Repository, Stored
from ascend_images.publish.sign import Cosign, require_key, require_signed
from ascend_images.publishing import chosen
from ascend_images.sbom import cyclonedx, spdx
from ascend_images.sbom.bill import bill_of
from ascend_images.sbom.component import Bill
from ascend_images.scratch import private_folder
from ascend_images.selection import output_folder


@dataclass(frozen=True, kw_only=True)
class Format:
    """A form of a bill: how it is made, its media type, the end of its file's name, and what cosign calls it."""

    make: Callable[[Bill], bytes]
    media_type: str
    ending: str
    cosign: str


FORMATS = {
    "spdx": Format(make=spdx.spdx, media_type=spdx.MEDIA_TYPE, ending="spdx.json", cosign="spdxjson"),
    "cyclonedx": Format(
        make=cyclonedx.cyclonedx, media_type=cyclonedx.MEDIA_TYPE, ending="cdx.json", cosign="cyclonedx"
    ),
}


@dataclass(frozen=True, kw_only=True)
class Document:
    """The bill of one image."""

    record: Record
    form: Format
    content: bytes

    @property
    def title(self) -> str:
        """The name of its file."""
        return f"{self.record.variant}.{self.record.arch.value}.{self.form.ending}"


def documents(
    root: Path, names: Sequence[str], records: Path, *, arches: Sequence[Arch] = (), form: str = "spdx"
) -> list[Document]:
    """Return the bill of every image of these variants that has a record, or of those of some architectures.

    Raises BadInput where there is no record, where its lock is not here any more, and for an unknown form.
    """
    if form not in FORMATS:
        raise BadInput(f"--format {form}", wanted=" or ".join(FORMATS))
    learned = VersionsLock.load(root / VERSIONS_LOCK)
    made = []
    for variant in chosen(root, names, allow_broken=True).variants:
        built = {arch: find_record(root / records, variant.name, arch) for arch in arches or variant.platforms}
        missing = [arch for arch, record in built.items() if record is None]
        if len(missing) == len(built) or (arches and missing):
            raise BadInput(
                f"{variant.name}: no record of a build for {' and '.join(arch.platform for arch in missing)}",
                wanted="what a build leaves in build/records",
                do=f"invoke build --variant {variant.name}",
            )
        for record in filter(None, built.values()):
            content = FORMATS[form].make(bill_of(record, lock_of(root, record), learned))
            made.append(Document(record=record, form=FORMATS[form], content=content))
    return made


def only(found: Sequence[Document]) -> Document:
    """Return the one document; raises BadInput for several, since one output holds one."""
    if len(found) > 1:
        names = ", ".join(f"{one.record.variant} {one.record.arch.value}" for one in found)
        raise BadInput(f"there are bills of {names}", wanted="one", do="name one by --variant and --arch")
    return found[0]


def require_pushing(pushed: bool, output: str) -> None:
    """Raise BadInput for a key without `--push`, and for a file with it."""
    if not pushed:
        raise BadInput("--sign without --push", wanted="both: a signed statement lies in the registry")
    if output:
        raise BadInput("--push with --output", wanted="one of them: without --push the file is written")


def lock_of(root: Path, record: Record) -> LockFile:
    """Return the package lock that a build installed from; raises BadInput where it is not here any more."""
    folders = [root / "locks", output_folder(root, changed=True) / "locks"]
    if "lock" in record.contexts:
        folders.insert(0, Path(record.contexts["lock"]))
    for path in (folder / file_name(record.variant, record.arch) for folder in folders):
        if path.is_file():
            lock = LockFile.load(path)
            if lock.digest == record.lock:
                return lock
    name = f"{record.variant} {record.arch.value}"
    raise BadInput(
        f"{name}: the lock that it was built from is not here any more ({record.lock})",
        wanted="the package set of the image",
        do=f"check out what was built, or: {build_again(record.variant, [record.arch], [record], push=record.pushed)}",
    )


def push(
    found: Sequence[Document],
    *,
    sign: str = "",
    opened: Callable[[str], Repository] = Repository,
    program: Callable[[], Cosign] = Cosign,
) -> list[str]:
    """Attach each bill to its image in the registry, and with a key also as a signed statement; a line for each.

    Raises PublishRefused for an image that was not pushed, or is gone; as `attach` and `Cosign` do besides.
    """
    cosign = program() if sign else None
    key = require_key(sign) if sign else ""
    lines = []
    for one in found:
        repository = opened(ImageRef.parse(one.record.image).name)
        subject = f"{repository.name}@{one.record.manifest}"
        digest = _attach(repository, one)
        if cosign is not None:
            with private_folder() as folder:
                predicate = folder / one.title
                predicate.write_bytes(one.content)
                cosign.attest(subject, key, predicate, one.form.cosign)
        lines.append(f"{subject} has {one.form.media_type} {digest}{', and a signed statement' if sign else ''}")
    return lines


def verify_signatures(
    root: Path,
    names: Sequence[str],
    key: str,
    *,
    opened: Callable[[str], Repository] = Repository,
    program: Callable[[], Cosign] = Cosign,
) -> list[str]:
    """Return the digests of each variant's last publication, after making sure that each is signed by a public key.

    Raises PublishRefused for one that is not, for a variant that was never published, and where its tag stands for
    something else, which is what people get.
    """
    cosign = program()
    public = require_key(key)
    history = published.load(root / published.FILE).publications
    references = []
    for variant in chosen(root, names, allow_broken=True).variants:
        mine = [one for one in history if one.variant == variant.name]
        if not mine:
            raise PublishRefused(
                f"{variant.name} is not published: {published.FILE} does not name it",
                wanted="a publication",
                do=f"invoke promote --variant {variant.name} --sign KEY",
            )
        _require_tagged(mine[-1], opened(mine[-1].repository))
        digests = (mine[-1].digest, *mine[-1].platforms.values())
        references += [f"{mine[-1].repository}@{digest}" for digest in digests]
    require_signed(cosign, references, public)
    return references


def _require_tagged(last: published.Publication, repository: Repository) -> None:
    """Raise PublishRefused unless the tag stands for what was published last."""
    stored = repository.manifest(last.tag)
    if stored is None or stored.digest != last.digest:
        raise PublishRefused(
            f"{last.repository}:{last.tag} stands for {stored.digest if stored else 'nothing'}",
            wanted=f"{last.digest}, which {published.FILE} says was published last",
            do=f"git pull, where {published.FILE} may name it; else find out who wrote the tag",
        )


def _attach(repository: Repository, one: Document) -> str:
    record = one.record
    again = build_again(record.variant, [record.arch], [record])
    if not record.pushed:
        raise PublishRefused(
            f"{record.variant} {record.arch.value} was built, but not pushed", wanted="an image in a registry", do=again
        )
    subject = repository.manifest(record.manifest)
    if subject is None:
        raise PublishRefused(
            f"{repository.name}@{record.manifest} is not in the registry any more", wanted="the image", do=again
        )
    _require_recorded(repository, record, subject)
    notes = {"org.opencontainers.image.created": spdx.timestamp(record.epoch)}
    return attach(repository, subject, one.content, one.form.media_type, title=one.title, notes=notes)


def _require_recorded(repository: Repository, record: Record, subject: Stored) -> None:
    """Raise PublishRefused unless an image has the recorded configuration, and a label that names the recorded pins.

    A bill is made of the record; what the image says of itself must be the same.
    """
    name = f"{repository.name}@{subject.digest}"
    config = parse_manifest(subject.content, name).config.digest
    if config != record.config:
        raise PublishRefused(f"{name}: its configuration is {config}", wanted=f"{record.config}, as recorded")
    found = labels_of(repository.blob(config) or b"", name).get(LABEL_IDENTITY, "not there")
    wanted = identity(record.resolved)
    if found != wanted:
        raise PublishRefused(f"{name}: its label {LABEL_IDENTITY} is {found}", wanted=f"{wanted}, as recorded")
