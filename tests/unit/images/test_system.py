"""The operating system's packages: dpkg's and rpm's databases, whatever is wrong with them."""

import sqlite3
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.images.engine import Answer
from ascend_images.images.system import dpkg_packages, packages_in, packages_in_engine, rpm_packages

STATUS = """\
Package: curl
Status: install ok installed
Architecture: amd64
Version: 7.88.1-10
Description: a tool
 Package: not-one

Package: gone
Status: deinstall ok config-files
Version: 1

Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36

Package: libc6
Status: install ok installed
Architecture: i386
Version: 2.36
"""


def test_installed_packages_of_dpkg_are_told_with_their_versions() -> None:
    assert dpkg_packages(STATUS) == {"curl": "7.88.1-10", "libc6": "2.36", "libc6:i386": "2.36"}


@given(st.text())
def test_any_text_for_a_status_file_gives_packages_or_none(text: str) -> None:
    assert all(name and version for name, version in dpkg_packages(text).items())


def header(**values: str) -> bytes:
    """A package's header as rpm writes it: counts, an entry for each text, the texts."""
    tags = {"name": 1000, "version": 1001, "release": 1002, "arch": 1022}
    data, entries = b"", b""
    for key, value in values.items():
        entries += struct.pack(">IIII", tags[key], 6, len(data), 1)
        data += value.encode() + b"\0"
    return struct.pack(">II", len(values), len(data)) + entries + data


def database(path: Path, *blobs: bytes) -> Path:
    with sqlite3.connect(path) as opened:
        opened.execute("CREATE TABLE Packages (hnum INTEGER PRIMARY KEY, blob BLOB NOT NULL)")
        opened.executemany("INSERT INTO Packages (blob) VALUES (?)", [(blob,) for blob in blobs])
    opened.close()
    return path


def test_packages_of_rpm_are_told_with_version_and_release(tmp_path: Path) -> None:
    curl = header(name="curl", version="8.4.0", release="3.oe2403", arch="aarch64")
    keys = [header(name="gpg-pubkey", version=version, release="1") for version in ("b", "a")]
    found = rpm_packages(database(tmp_path / "rpmdb.sqlite", curl, *keys))
    assert found == {"curl": "8.4.0-3.oe2403", "gpg-pubkey": "a-1, b-1"}


@given(blob=st.binary(max_size=80), cut=st.integers(0, 60))
def test_a_header_cut_off_or_of_anything_is_no_exception(
    blob: bytes, cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = header(name="curl", version="1", release="2")
    path = database(tmp_path_factory.mktemp("rpm") / "rpmdb.sqlite", blob, whole[:cut], whole)
    assert rpm_packages(path)["curl"]


def test_what_is_no_database_is_said(tmp_path: Path) -> None:
    path = tmp_path / "rpmdb.sqlite"
    path.write_text("none")
    with pytest.raises(ValueError, match="not an rpm database"):
        rpm_packages(path)
    assert packages_in(tmp_path) is None


class Docker:
    """A docker client with one container, from which it copies what `files` hold."""

    def __init__(self, **files: str) -> None:
        self.files = files
        self.removed: list[str] = []

    def __call__(self, command: Sequence[str]) -> Answer:
        match list(command)[2:]:
            case ["create", *_]:
                return Answer(0, "c0ffee\n", "")
            case ["cp", source, folder]:
                name = Path(source).name
                if name not in self.files:
                    return Answer(1, "", "no such file")
                (Path(folder) / name).write_text(self.files[name])
                return Answer(0, "", "")
            case ["rm", "--force", container]:
                self.removed.append(container)
                return Answer(0, "", "")
        raise AssertionError(command)


def test_an_images_packages_are_copied_out_of_a_container_that_is_removed() -> None:
    docker = Docker(status=STATUS)
    assert packages_in_engine("sha256:1", docker) == dpkg_packages(STATUS)
    assert docker.removed == ["c0ffee"]


def test_an_image_with_neither_database_has_packages_that_nobody_knows() -> None:
    docker = Docker()
    assert packages_in_engine("sha256:1", docker) is None
    assert docker.removed == ["c0ffee"]


def test_an_engine_that_makes_no_container_is_no_failure() -> None:
    assert packages_in_engine("sha256:1", lambda _: Answer(1, "", "no such image")) is None
