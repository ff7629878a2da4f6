"""Two images compared layer by layer, to the first file that differs: read from OCI image layouts on disk."""

import gzip
import hashlib
import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from ascend_images.errors import BuildFailed
from ascend_images.images.system import DPKG_STATUS, RPM_DATABASE, packages_in
from ascend_images.scratch import private_folder

#: How many differing files of a layer, and changed packages, a comparison names.
NAMED = 10
# Of two texts up to so many bytes the first line that differs is shown.
_MOST_TEXT = 1 << 20
_LINE = 160
_KINDS = {
    tarfile.REGTYPE: "file",
    tarfile.AREGTYPE: "file",
    tarfile.LNKTYPE: "hard link",
    tarfile.SYMTYPE: "symbolic link",
    tarfile.DIRTYPE: "folder",
}


class UnreadableLayerError(Exception):
    """A layer that cannot be looked into; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer of an image: its digest as it is sent, the digest of what it unpacks to, and the step that made it."""

    number: int
    digest: str
    unpacked: str
    step: str


@dataclass(frozen=True)
class Layout:
    """An image in an OCI image layout (the specification's `index.json` and `blobs/`)."""

    folder: Path
    digest: str
    manifest: Mapping[str, Any]
    config: Mapping[str, Any]

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Its layers, the lowest first."""
        steps = [str(one.get("created_by", "")) for one in self.config.get("history", ()) if not one.get("empty_layer")]
        unpacked = self.config.get("rootfs", {}).get("diff_ids", ())
        return tuple(
            Layer(
                number=number,
                digest=str(one["digest"]),
                unpacked=str(unpacked[number - 1]) if number <= len(unpacked) else "",
                step=steps[number - 1] if number <= len(steps) else "",
            )
            for number, one in enumerate(self.manifest.get("layers", ()), start=1)
        )

    def blob(self, digest: str) -> Path:
        """Return the file that holds what has a digest."""
        return self.folder / "blobs" / digest.replace(":", "/", 1)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a layer says of one path; `content` is a digest, empty for what holds none."""

    kind: str
    mode: int
    owner: tuple[int, int]
    mtime: float
    link: str
    size: int
    content: str
    attributes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class FileDifference:
    """A path that is not the same in both: `what` differs, and how."""

    path: str
    what: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LayerDifference:
    """A layer that is not the same in both: the first `files` that differ of `count`, or why that cannot be said."""

    layer: Layer
    files: tuple[FileDifference, ...] = ()
    count: int = 0
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two images held against each other; without differences their digests are equal.

    `layers` are those that differ, `configuration` what of the configuration does, `system` the packages of the
    operating system that are not the same, which a moved archive of the distribution explains.
    """

    first: str
    second: str
    layers: tuple[LayerDifference, ...] = ()
    configuration: tuple[str, ...] = ()
    system: tuple[str, ...] = field(default=())

    @property
    def same(self) -> bool:
        """Whether it is one image: the digests of the manifests decide, nothing else."""
        return self.first == self.second

    @property
    def first_file(self) -> tuple[Layer, FileDifference] | None:
        """The first file that differs, in the lowest layer that has one."""
        return next(((one.layer, one.files[0]) for one in self.layers if one.files), None)


def read_layout(folder: Path) -> Layout:
    """Return the one image in a layout, attestations left out; raises BuildFailed where there is not exactly one."""
    try:
        document: dict[str, Any] = json.loads((folder / "index.json").read_bytes())
        digest = ""
        while "manifests" in document:
            known = [one for one in document["manifests"] if one.get("platform", {}).get("os") != "unknown"]
            if len(known) != 1:
                raise ValueError(f"{len(known)} images")
            digest = str(known[0]["digest"])
            document = json.loads((folder / "blobs" / digest.replace(":", "/", 1)).read_bytes())
        config = json.loads((folder / "blobs" / str(document["config"]["digest"]).replace(":", "/", 1)).read_bytes())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BuildFailed(f"{folder}: not an image layout with one image in it: {error}", wanted="one image") from None
    return Layout(folder, digest, document, config)


def compare(first: Layout, second: Layout) -> Comparison:
    """Return how two images differ; layers are looked into only where they do."""
    if first.digest == second.digest:
        return Comparison(first=first.digest, second=second.digest)
    layers = tuple(_layer_differences(first, second))
    return Comparison(
        first=first.digest,
        second=second.digest,
        layers=layers,
        configuration=tuple(_configuration(first.config, second.config)),
        system=tuple(_system(first, second)) if layers else (),
    )


def lines(comparison: Comparison) -> list[str]:
    """Return a comparison of two different images for people: what explains most first."""
    text = []
    if comparison.system:
        text.append("the operating system's packages are not the same: its archive moved between the two builds")
        text += [f"  {line}" for line in comparison.system]
    for one in comparison.layers:
        text.append(f"layer {one.layer.number}{f' ({_short(one.layer.step)})' if one.layer.step else ''}:")
        text += [f"  {one.note}"] if one.note else []
        text += [f"  /{file.path}: {'; '.join(file.what)}" for file in one.files]
        if one.count > len(one.files):
            text.append(f"  and {one.count - len(one.files)} more paths")
    text += [f"configuration: {line}" for line in comparison.configuration]
    return text or ["the manifests alone differ: in annotations, or in how they are written"]


# --- layers


def _layer_differences(first: Layout, second: Layout) -> Iterator[LayerDifference]:
    ours, theirs = first.layers, second.layers
    for one, other in zip(ours, theirs, strict=False):
        if one.digest == other.digest:
            continue
        if one.unpacked == other.unpacked:
            yield LayerDifference(layer=one, note="the same files, packed differently: another compressor or version")
            continue
        yield _one_layer(first, second, one, other)
    for layer in (*ours[len(theirs) :], *theirs[len(ours) :]):
        which = "first" if len(ours) > len(theirs) else "second"
        yield LayerDifference(layer=layer, note=f"in the {which} image alone")


def _one_layer(first: Layout, second: Layout, one: Layer, other: Layer) -> LayerDifference:
    try:
        ours, theirs = entries(first.blob(one.digest)), entries(second.blob(other.digest))
        differing = sorted(path for path in {*ours, *theirs} if ours.get(path) != theirs.get(path))
        files = []
        for path in differing[:NAMED]:
            what = tuple(_what(ours.get(path), theirs.get(path)))
            if path in ours and path in theirs and ours[path].content != theirs[path].content:
                what = (*what, *_first_line(first.blob(one.digest), second.blob(other.digest), path))
            files.append(FileDifference(path=path, what=what))
    except UnreadableLayerError as error:
        return LayerDifference(layer=one, note=f"it cannot be looked into: {error}")
    note = "" if differing else "the same files with the same properties, written in another order or form"
    return LayerDifference(layer=one, files=tuple(files), count=len(differing), note=note)


def entries(blob: Path) -> dict[str, Entry]:
    """Return what a layer says of each path; raises UnreadableLayerError."""
    found = {}
    with _opened(blob) as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isreg() else None
            found[member.name.removeprefix("./").strip("/")] = Entry(
                kind=_KINDS.get(member.type, "special file"),
                mode=member.mode,
                owner=(member.uid, member.gid),
                mtime=member.mtime,
                link=member.linkname,
                size=member.size,
                content=hashlib.file_digest(stream, "sha256").hexdigest() if stream else "",  # type: ignore[arg-type]
                attributes=tuple(sorted((k, v) for k, v in member.pax_headers.items() if k.startswith("SCHILY.xattr"))),
            )
    return found


def _what(one: Entry | None, other: Entry | None) -> Iterator[str]:
    """Yield what differs between two entries for a path, the content first."""
    if one is None or other is None:
        yield f"in the {'first' if other is None else 'second'} image alone"
        return
    if one.kind != other.kind:
        yield f"a {one.kind} / a {other.kind}"
        return
    if one.content != other.content:
        sizes = f"{one.size} / {other.size} bytes" if one.size != other.size else f"{one.size} bytes each"
        yield f"content ({sizes})"
    if one.link != other.link:
        yield f"leads to {one.link} / {other.link}"
    if one.mode != other.mode:
        yield f"mode {one.mode:04o} / {other.mode:04o}"
    if one.owner != other.owner:
        yield f"owner {one.owner[0]}:{one.owner[1]} / {other.owner[0]}:{other.owner[1]}"
    if one.mtime != other.mtime:
        yield f"mtime {one.mtime:.0f} / {other.mtime:.0f} (seconds since 1970)"
    if one.attributes != other.attributes:
        names = sorted({key for key, _ in {*one.attributes} ^ {*other.attributes}})
        yield f"extended attributes: {', '.join(names)}"


def _first_line(first: Path, second: Path, path: str) -> Iterator[str]:
    """Yield the first line in which two texts differ; nothing for what is no text or long."""
    texts = [_text(blob, path) for blob in (first, second)]
    if None in texts:
        return
    ours, theirs = ((text or "").splitlines() for text in texts)
    for number in range(max(len(ours), len(theirs))):
        pair = [side[number][:_LINE] if number < len(side) else "(nothing)" for side in (ours, theirs)]
        if pair[0] != pair[1]:
            yield f"line {number + 1}: {pair[0]!r} / {pair[1]!r}"
            return


def _text(blob: Path, path: str) -> str | None:
    with _opened(blob) as archive:
        for member in archive:
            if member.name.removeprefix("./").strip("/") == path and member.isreg() and member.size <= _MOST_TEXT:
                stream = archive.extractfile(member)
                content = stream.read() if stream else b""
                return None if b"\0" in content else content.decode("utf-8", "replace")
    return None


@contextmanager
def _opened(blob: Path) -> Iterator[tarfile.TarFile]:
    """Yield a layer's archive, unpacked as it is read; raises UnreadableLayerError whatever is wrong with it."""
    try:
        with blob.open("rb") as raw:
            start = raw.read(4)
            raw.seek(0)
            if start == b"\x28\xb5\x2f\xfd":
                raise UnreadableLayerError("it is packed by zstd, which Python cannot read")
            unpacked = gzip.GzipFile(fileobj=raw) if start[:2] == b"\x1f\x8b" else nullcontext(raw)
            with unpacked as stream, tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|") as archive:
                yield archive
    except (OSError, EOFError, tarfile.TarError) as error:
        raise UnreadableLayerError(f"{type(error).__name__}: {error}") from None


# --- the configuration, and the operating system


def _configuration(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[str]:
    """Yield where two configurations differ; the digests of layers are left out, which the layers tell."""
    ours, theirs = dict(_flat(first)), dict(_flat(second))
    for key in sorted({*ours, *theirs}):
        if ours.get(key) != theirs.get(key) and not key.startswith("rootfs.diff_ids"):
            yield f"{key}: {_short(ours.get(key, '(nothing)'))} / {_short(theirs.get(key, '(nothing)'))}"


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _flat(item, f"{path}[{number}]")
    else:
        yield path, json.dumps(value, ensure_ascii=False)


def _system(first: Layout, second: Layout) -> Iterator[str]:
    """Yield which packages of the operating system differ; nothing where those of one image cannot be read."""
    ours, theirs = system_packages(first), system_packages(second)
    if ours is None or theirs is None:
        return
    changed = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
    for name in changed[:NAMED]:
        yield f"{name}: {ours.get(name, 'not there')} / {theirs.get(name, 'not there')}"
    if len(changed) > NAMED:
        yield f"and {len(changed) - NAMED} more"


def system_packages(layout: Layout) -> dict[str, str] | None:
    """Return the operating system's packages by the highest layer of an image that says them; None where none does."""
    for layer in reversed(layout.layers):
        try:
            with _opened(layout.blob(layer.digest)) as archive, private_folder() as folder:
                for member in archive:
                    name = member.name.removeprefix("./").lstrip("/")
                    stream = archive.extractfile(member) if name in (DPKG_STATUS, RPM_DATABASE) else None
                    if stream is not None:
                        (folder / Path(name).name).write_bytes(stream.read())
                        return packages_in(folder)
        except UnreadableLayerError:
            continue
    return None


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LINE else f"{flat[:_LINE]}…"
