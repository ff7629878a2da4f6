"""Two images compared: the first file that differs is named, with what differs of it, whatever that is."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ascend_images.errors import BuildFailed
from ascend_images.images.compare import compare, lines, read_layout, system_packages

File = dict[str, Any]
STATUS = "Package: curl\nStatus: install ok installed\nVersion: {}\n"


def archive(files: dict[str, File], *, order: bool = True) -> bytes:
    """A layer: by path what it holds; `data`, `mode`, `mtime`, `uid`, `link`, `type`, `pax` as wanted."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(files, reverse=not order):
            said = {"data": b"x", "mode": 0o644, "mtime": 1, "uid": 0, "type": tarfile.REGTYPE, **files[path]}
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode, entry.mtime, entry.uid = said["type"], said["mode"], said["mtime"], said["uid"]
            entry.linkname = said.get("link", "")
            entry.pax_headers = said.get("pax", {})
            content = said["data"] if said["type"] == tarfile.REGTYPE else b""
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def layout(folder: Path, *layers: bytes, level: int = 6, index: bool = False, **config: Any) -> Path:
    """An image layout with these layers, packed by gzip; `level` 0: not packed at all."""

    def blob(content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        place = folder / "blobs" / "sha256" / digest
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        return f"sha256:{digest}"

    packed = [gzip.compress(one, level, mtime=0) if level else one for one in layers]
    document = {
        "history": [{"created_by": "ENV A=1", "empty_layer": True}, *({"created_by": f"RUN {n}"} for n in "abc")],
        "rootfs": {"diff_ids": [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in layers]},
        **config,
    }
    manifest = {
        "config": {"digest": blob(json.dumps(document).encode())},
        "layers": [{"digest": blob(one)} for one in packed],
    }
    entry = {"digest": blob(json.dumps(manifest).encode())}
    if index:
        attestation = {"digest": "sha256:0", "platform": {"os": "unknown"}}
        inner = {"manifests": [{**entry, "platform": {"os": "linux"}}, attestation]}
        entry = {"digest": blob(json.dumps(inner).encode())}
    (folder / "index.json").write_text(json.dumps({"manifests": [entry]}))
    return folder


@pytest.fixture
def said(tmp_path: Path) -> Callable[..., list[str]]:
    """Return what is said of two images whose second layers hold these files; the first ones are equal."""

    def compared(one: dict[str, File], other: dict[str, File], **more: Any) -> list[str]:
        same = archive({"etc/same": {}})
        first = read_layout(layout(tmp_path / "1", same, archive(one)))
        second = read_layout(layout(tmp_path / "2", same, archive(other), **more))
        return lines(compare(first, second))

    return compared


def test_the_same_digest_is_the_same_image_and_nothing_is_opened(tmp_path: Path) -> None:
    one = read_layout(layout(tmp_path / "1", b"no archive at all"))
    comparison = compare(one, read_layout(layout(tmp_path / "2", b"no archive at all")))
    assert comparison.same
    assert comparison.first_file is None


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        ({"data": b"a\nb\n"}, {"data": b"a\nc\n"}, "content (4 bytes each); line 2: 'b' / 'c'"),
        ({"data": b"a"}, {"data": b"a\nc"}, "content (1 / 3 bytes); line 2: '(nothing)' / 'c'"),
        ({"data": b"\0a"}, {"data": b"\0b"}, "content (2 bytes each)"),
        ({"mode": 0o644}, {"mode": 0o755}, "mode 0644 / 0755"),
        ({"mtime": 1}, {"mtime": 2}, "mtime 1 / 2 (seconds since 1970)"),
        ({"uid": 0}, {"uid": 7}, "owner 0:0 / 7:0"),
        ({"type": tarfile.SYMTYPE, "link": "a"}, {"type": tarfile.SYMTYPE, "link": "b"}, "leads to a / b"),
        ({"type": tarfile.SYMTYPE, "link": "a"}, {"type": tarfile.DIRTYPE}, "a symbolic link / a folder"),
        ({"type": tarfile.REGTYPE}, {"type": tarfile.FIFOTYPE}, "a file / a special file"),
        (
            {"pax": {"SCHILY.xattr.security.capability": "a"}},
            {"pax": {"SCHILY.xattr.security.capability": "b"}},
            "extended attributes: SCHILY.xattr.security.capability",
        ),
        ({"mode": 0o600, "mtime": 3}, {}, "mode 0600 / 0644; mtime 3 / 1 (seconds since 1970)"),
    ],
)
def test_whatever_differs_of_a_file_is_said(said, one: File, other: File, what: str) -> None:
    assert said({"opt/x": one, "opt/z": {}}, {"opt/x": other, "opt/z": {}}) == ["layer 2 (RUN b):", f"  /opt/x: {what}"]


def test_the_first_file_is_named_first_and_many_are_counted(said) -> None:
    text = said({f"f{n:02}": {"mtime": 5} for n in range(14)}, {f"f{n:02}": {} for n in range(14)})
    assert text[1].startswith("  /f00: mtime")
    assert text[-1] == "  and 4 more paths"


def test_a_file_of_one_image_alone_is_said_to_be(said) -> None:
    assert said({"a": {}}, {"b": {}})[1:] == ["  /a: in the first image alone", "  /b: in the second image alone"]


def test_the_lowest_layer_with_a_differing_file_has_the_first_one(tmp_path: Path) -> None:
    low, high = archive({"a": {"mtime": 9}}), archive({"0": {"mtime": 9}})
    first = read_layout(layout(tmp_path / "1", low, high))
    second = read_layout(layout(tmp_path / "2", archive({"a": {}}), archive({"0": {}})))
    found = compare(first, second).first_file
    assert found is not None
    assert (found[0].number, found[1].path) == (1, "a")


def test_the_same_files_packed_otherwise_are_not_opened(tmp_path: Path) -> None:
    content = archive({"a": {"data": b"x" * 9000}})
    first, second = layout(tmp_path / "1", content), layout(tmp_path / "2", content, level=1)
    text = lines(compare(read_layout(first), read_layout(second)))
    assert text == ["layer 1 (RUN a):", "  the same files, packed differently: another compressor or version"]


def test_the_same_files_in_another_order_are_said_to_be(tmp_path: Path) -> None:
    files: dict[str, File] = {"a": {}, "b": {}}
    first = read_layout(layout(tmp_path / "1", archive(files)))
    second = read_layout(layout(tmp_path / "2", archive(files, order=False)))
    assert lines(compare(first, second))[1] == (
        "  the same files with the same properties, written in another order or form"
    )


def test_a_layer_too_many_is_said_to_be(tmp_path: Path) -> None:
    one, other = archive({"a": {}}), archive({"b": {}})
    first, second = read_layout(layout(tmp_path / "1", one)), read_layout(layout(tmp_path / "2", one, other))
    assert lines(compare(first, second))[:2] == ["layer 2 (RUN b):", "  in the second image alone"]


@pytest.mark.parametrize(
    ("content", "why"), [(b"no archive", "ReadError"), (b"\x28\xb5\x2f\xfd....", "it is packed by zstd")]
)
def test_a_layer_that_cannot_be_read_is_said_to_be(tmp_path: Path, content: bytes, why: str) -> None:
    first = read_layout(layout(tmp_path / "1", content, level=0))
    second = read_layout(layout(tmp_path / "2", content + b"!", level=0))
    assert f"it cannot be looked into: {why}" in lines(compare(first, second))[1]


def test_a_layer_cut_off_is_no_exception(tmp_path: Path) -> None:
    folder = layout(tmp_path / "1", archive({"a": {"data": b"x" * 100_000}}))
    first = read_layout(folder)
    blob = first.blob(first.layers[0].digest)
    blob.write_bytes(blob.read_bytes()[:-30])
    text = lines(compare(first, read_layout(layout(tmp_path / "2", archive({"b": {}})))))
    assert "it cannot be looked into" in text[1]


def test_configurations_are_compared_key_by_key(said) -> None:
    text = said({"a": {}}, {"a": {}}, config={"Env": ["A=1"]})
    assert text == ['configuration: config.Env[0]: (nothing) / "A=1"']


def test_manifests_that_differ_alone_are_said_to(tmp_path: Path) -> None:
    first, second = (read_layout(layout(tmp_path / name, archive({"a": {}}))) for name in "12")
    other = type(second)(second.folder, "sha256:other", second.manifest, second.config)
    assert lines(compare(first, other)) == ["the manifests alone differ: in annotations, or in how they are written"]


def test_a_moved_archive_of_the_distribution_explains_what_differs_and_is_said_first(said) -> None:
    files = [{"var/lib/dpkg/status": {"data": STATUS.format(version).encode()}} for version in "12"]
    assert said(*files)[:2] == [
        "the operating system's packages are not the same: its archive moved between the two builds",
        "  curl: 1 / 2",
    ]


def test_many_moved_packages_are_counted(said) -> None:
    stanza = "Package: p{}\nStatus: install ok installed\nVersion: {}\n"
    files = [
        {"var/lib/dpkg/status": {"data": "\n".join(stanza.format(n, version) for n in range(13)).encode()}}
        for version in "12"
    ]
    assert said(*files)[11] == "  and 3 more"


def test_the_systems_packages_are_those_of_the_highest_layer(tmp_path: Path) -> None:
    layers = [archive({"./var/lib/dpkg/status": {"data": STATUS.format(version).encode()}}) for version in "12"]
    assert system_packages(read_layout(layout(tmp_path / "1", *layers))) == {"curl": "2"}
    assert system_packages(read_layout(layout(tmp_path / "2", archive({"a": {}})))) is None


def test_an_index_with_an_attestation_holds_one_image(tmp_path: Path) -> None:
    plain = read_layout(layout(tmp_path / "1", b"x"))
    assert read_layout(layout(tmp_path / "2", b"x", index=True)).digest == plain.digest


@pytest.mark.parametrize(
    "index", ["", "[]", "{}", '{"manifests": []}', '{"manifests": [{"digest": "sha256:1"}, {"digest": "sha256:2"}]}']
)
def test_what_is_no_layout_with_one_image_is_refused(tmp_path: Path, index: str) -> None:
    (tmp_path / "index.json").write_text(index)
    with pytest.raises(BuildFailed, match="not an image layout with one image in it"):
        read_layout(tmp_path)
