"""What an image is made of, by the record of its build, the lock it was installed from, and known commits."""

from collections.abc import Iterator, Mapping

import msgspec
from packageurl import PackageURL
from packaging.utils import canonicalize_name

from ascend_images.errors import BadInput
from ascend_images.images.publish import is_stand_in
from ascend_images.images.record import Record
from ascend_images.images.view import labels
from ascend_images.pins.bindings import bound
from ascend_images.pins.lockfile import LockedPackage, LockFile
from ascend_images.pins.tags import ImageRef, split_os
from ascend_images.pins.variant import Checkout, RunFile, Variant
from ascend_images.pins.versions_lock import Submodule, VersionsLock
from ascend_images.sbom.component import CANN_LICENCE, Bill, Component, Kind, git_purl, oci_purl

_CANN_SUPPLIER = "Huawei"
# Type and namespace of an operating system's packages, by its family (purl-spec, types deb and rpm).
_SYSTEMS = {"ubuntu": ("deb", "ubuntu"), "openeuler": ("rpm", "openeuler")}


def bill_of(record: Record, lock: LockFile, learned: VersionsLock) -> Bill:
    """Return the bill of what a build made, of its record, the lock it installed from, and the submodules' commits.

    Raises BadInput for a record whose variant cannot be read.
    """
    try:
        variant = msgspec.convert(record.resolved, Variant)
    except msgspec.ValidationError as error:
        raise BadInput(
            f"the record of {record.variant} {record.arch.value} holds no variant of today: {error}",
            wanted="a record of this version",
            do=f"invoke build --variant {record.variant} --arch {record.arch.value}",
        ) from None
    parts = (
        *_cann(variant, record),
        _python(variant),
        *_sources(variant, record, learned),
        *_packages(variant, lock),
        *_system(variant, record),
    )
    return Bill(
        name=f"{record.variant} {record.arch.platform}",
        created=record.epoch,
        image=_image(variant, record),
        base=_base(variant, record),
        parts=parts,
        notes=tuple(_notes(record)),
    )


def _image(variant: Variant, record: Record) -> Component:
    name = ImageRef.parse(record.image).name
    return Component(
        kind=Kind.IMAGE,
        name=name,
        version=record.tag,
        purl=oci_purl(name, record.manifest, arch=record.arch.value),
        sha256=record.manifest.removeprefix("sha256:"),
        licence=labels(variant)["org.opencontainers.image.licenses"],
        note=labels(variant)["org.opencontainers.image.description"],
    )


def _base(variant: Variant, record: Record) -> Component:
    """Return the base image; one that a folder stood in for is told by the name of what it stood in for."""
    try:
        reference = ImageRef.parse(record.base)
    except BadInput:
        return Component(kind=Kind.BASE, name=variant.base_image, note="a folder stood in for it")
    digest = reference.digest or ""
    return Component(
        kind=Kind.BASE,
        name=reference.name,
        version=reference.tag or digest,
        purl=oci_purl(reference.name, digest, tag=reference.tag or ""),
        sha256=digest.removeprefix("sha256:") if digest.startswith("sha256:") else "",
    )


def _cann(variant: Variant, record: Record) -> Iterator[Component]:
    of_base = "what the base image has of it; its parts are not told apart"
    yield _cann_part("CANN", variant.base_cann, note=of_base)
    for run in variant.runs:
        if run.arch is record.arch:
            yield _run(variant, run)


def _run(variant: Variant, run: RunFile) -> Component:
    qualifiers = {"download_url": run.url, **({"checksum": f"sha256:{run.checksum}"} if run.checksum else {})}
    purl = str(PackageURL("generic", "ascend", f"cann-{run.part}", variant.cann, qualifiers))
    note = "" if run.checksum else "no checksum is known"
    return _cann_part(f"CANN {run.part}", variant.cann, purl=purl, place=run.url, sha256=run.checksum, note=note)


def _cann_part(
    name: str, version: str, *, purl: str = "", place: str = "", sha256: str = "", note: str = ""
) -> Component:
    return Component(
        kind=Kind.CANN,
        name=name,
        version=version,
        purl=purl or str(PackageURL("generic", "ascend", "cann", version)),
        place=place,
        sha256=sha256,
        licence=CANN_LICENCE,
        supplier=_CANN_SUPPLIER,
        note=note,
    )


def _python(variant: Variant) -> Component:
    """Return the interpreter; its prefix in the base images tells its whole version."""
    whole = variant.python_home.rpartition("python")[2]
    version = whole if f"{whole}.".startswith(f"{variant.python}.") else variant.python
    return Component(
        kind=Kind.PYTHON, name="CPython", version=version, purl=str(PackageURL("generic", None, "python", version))
    )


def _sources(variant: Variant, record: Record, learned: VersionsLock) -> Iterator[Component]:
    patched = _patched(variant)
    for source in variant.sources:
        local = record.local.get(source.name)
        commit = local.commit if local else source.commit
        where = "" if local else source.git
        parts = [_submodule(source, sub) for sub in (() if local else _submodules(source, learned))]
        if source.distribution and source.version:
            name = str(canonicalize_name(source.distribution))
            parts.append(_package(name, source.installed_version, patched, note=f"installed from {source.path}"))
        changed = "with changes that are in no commit" if local and local.dirty else ""
        notes = ["a local checkout stood in for it" if local else "", changed, "" if commit else "commit not known"]
        yield Component(
            kind=Kind.SOURCE,
            name=source.name,
            version=(local.commit if local else source.ref) or source.installed_version,
            purl=git_purl(where, commit or source.ref) if where else "",
            place=f"git+{where}@{commit or source.ref}" if where else "",
            note="; ".join(filter(None, notes)),
            parts=tuple(parts),
        )


def _submodules(source: Checkout, learned: VersionsLock) -> tuple[Submodule, ...]:
    """Return the submodules; those of a commit never change, whenever they were learned."""
    if not source.submodules:
        return ()
    known = (one for one in learned.git if (one.repository, one.commit) == (source.git, source.commit))
    return next((one.submodules for one in known if one.submodules is not None), ())


def _submodule(source: Checkout, sub: Submodule) -> Component:
    return Component(
        kind=Kind.SOURCE,
        name=f"{source.name}/{sub.path}",
        version=sub.commit,
        purl=git_purl(sub.url, sub.commit),
        place=f"git+{sub.url}@{sub.commit}",
    )


def _packages(variant: Variant, lock: LockFile) -> Iterator[Component]:
    served = {name: variant.indexes[index].url for name, index in bound(variant, lock.arch).items()}
    patched = _patched(variant)
    for package in lock.packages:
        notes = ["built from its source distribution"] if package.name in lock.sdists else []
        notes += [] if package.hashes else ["no hash is known"]
        yield _package(
            package.name,
            package.version,
            patched,
            note="; ".join(notes),
            index=served.get(package.name, ""),
            hashes=_hex(package),
        )


def _package(
    name: str,
    version: str,
    patched: Mapping[str, str],
    *,
    note: str = "",
    index: str = "",
    hashes: tuple[str, ...] = (),
) -> Component:
    return Component(
        kind=Kind.PACKAGE,
        name=name,
        version=version,
        purl=str(PackageURL("pypi", None, name, version, {"repository_url": index} if index else None)),
        sha256=hashes[0] if len(hashes) == 1 else "",
        one_of=hashes if len(hashes) > 1 else (),
        note="; ".join(filter(None, (note, patched.get(name, "")))),
    )


def _hex(package: LockedPackage) -> tuple[str, ...]:
    return tuple(text.removeprefix("sha256:") for text in package.hashes)


def _patched(variant: Variant) -> dict[str, str]:
    """Return what this project changes in installed packages, by their normalised names."""
    said: dict[str, list[str]] = {}
    for patch in variant.patches:
        said.setdefault(str(canonicalize_name(patch.distribution)), []).append(f"{patch.file}: {patch.reason}")
    return {name: "changed here: " + "; ".join(texts) for name, texts in said.items()}


def _system(variant: Variant, record: Record) -> Iterator[Component]:
    family, release = split_os(variant.os)
    kind, namespace = _SYSTEMS[family]
    for key, versions in (record.system or {}).items():
        name, _, arch = key.partition(":") if kind == "deb" else (key, "", "")
        for version in versions.split(", "):
            qualifiers = {"distro": f"{namespace}-{release}", **({"arch": arch} if arch else {})}
            # The stand-in for every base is of another distribution, whichever its packages would be taken for.
            purl = "" if _is_stand_in(record) else str(PackageURL(kind, namespace, name, version, qualifiers))
            yield Component(kind=Kind.SYSTEM, name=key, version=version, purl=purl)


def _notes(record: Record) -> Iterator[str]:
    """Yield what whoever reads the bill must know of it."""
    if _is_stand_in(record):
        yield (
            "Made of stand-ins: names, versions and commits are those of what they stand in for, hashes and system "
            "packages their own."
        )
    if record.unlocked:
        yield "Built with --unlocked: what has no hash or commit here was taken as it was on that day."
    for text in record.not_locked:
        yield f"Not locked: {text}"
    if record.system is None:
        yield "The operating system's packages could not be read."
    yield "Python packages that the base image has besides those listed are not listed."


def _is_stand_in(record: Record) -> bool:
    return is_stand_in(record.tag, record.resolved)
