"""The operating system's packages in an image, read from the files in which dpkg and rpm keep them."""

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from ascend_images.images.engine import Run, run_command
from ascend_images.scratch import private_folder

#: Where dpkg (Debian, Ubuntu) keeps its packages, and rpm from 4.16 on (openEuler 22.03 and later).
DPKG_STATUS = "var/lib/dpkg/status"
RPM_DATABASE = "var/lib/rpm/rpmdb.sqlite"

# The header of a package in rpm's database (rpm's docs, "RPM v4 header"): two counts, index entries, then the data.
_COUNTS = struct.Struct(">II")
_ENTRY = struct.Struct(">IIII")
_TAGS = {1000: "name", 1001: "version", 1002: "release", 1022: "arch"}
_MOST_ENTRIES = 0xFFFF


def dpkg_packages(text: str) -> dict[str, str]:
    """Return the version of each installed package by name in the text of dpkg's status file.

    Of one name with several architectures each but the first has its architecture behind it, `libc6:i386`.
    """
    found: dict[str, str] = {}
    for stanza in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line and line[:1] not in " \t")
        name, version = fields.get("Package", ""), fields.get("Version", "")
        if name and version and fields.get("Status", "").split()[-1:] == ["installed"]:
            found[name if name not in found else f"{name}:{fields.get('Architecture', '')}"] = version
    return dict(sorted(found.items()))


def rpm_packages(database: Path) -> dict[str, str]:
    """Return `version-release` of each package by name in an rpm database; of one name several are divided by commas.

    Raises ValueError for a file that is none.
    """
    try:
        with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as opened:
            blobs = [row[0] for row in opened.execute("SELECT blob FROM Packages")]
    except sqlite3.Error as error:
        raise ValueError(f"not an rpm database: {error}") from None
    found: dict[str, list[str]] = {}
    for blob in blobs:
        header = dict(_header(blob))
        if header.get("name"):
            found.setdefault(header["name"], []).append(f"{header.get('version', '')}-{header.get('release', '')}")
    return {name: ", ".join(sorted(versions)) for name, versions in sorted(found.items())}


def packages_in(folder: Path) -> dict[str, str] | None:
    """Return the packages of the database that lies in `folder` under its own name; None where none can be read."""
    status, database = folder / Path(DPKG_STATUS).name, folder / Path(RPM_DATABASE).name
    if status.is_file():
        return dpkg_packages(status.read_text(encoding="utf-8", errors="replace"))
    if database.is_file():
        try:
            return rpm_packages(database)
        except ValueError:
            return None
    return None


def packages_in_engine(image: str, run: Run = run_command) -> dict[str, str] | None:
    """Return the packages of an image of the engine's, None where they cannot be read.

    No program of the image runs: a container is made, and its database copied out.
    """
    made = run(["docker", "container", "create", "--network=none", image, "true"])
    container = made.out.strip()
    if made.code != 0 or not container:
        return None
    try:
        with private_folder() as folder:
            for path in (DPKG_STATUS, RPM_DATABASE):
                if run(["docker", "container", "cp", f"{container}:/{path}", str(folder)]).code == 0:
                    return packages_in(folder)
            return None
    finally:
        run(["docker", "container", "rm", "--force", container])


def _header(blob: bytes) -> Iterator[tuple[str, str]]:
    """Yield the texts of a package's header that are asked for; of what is cut off, what is there."""
    if len(blob) < _COUNTS.size:
        return
    entries, _ = _COUNTS.unpack_from(blob)
    data = _COUNTS.size + min(entries, _MOST_ENTRIES) * _ENTRY.size
    if data > len(blob):
        return
    for number in range(min(entries, _MOST_ENTRIES)):
        tag, _, offset, _ = _ENTRY.unpack_from(blob, _COUNTS.size + number * _ENTRY.size)
        if tag in _TAGS:
            end = blob.find(b"\0", data + offset)
            yield _TAGS[tag], blob[data + offset : end if end >= 0 else None].decode(errors="replace")
