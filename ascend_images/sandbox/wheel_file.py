"""Wheels by hand: written from a few texts, the same bytes each time, and unpacked as an installer would."""

import base64
import configparser
import hashlib
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.utils import canonicalize_name

_DATE = (1980, 1, 1, 0, 0, 0)
PURE = "py3-none-any"


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """What a wheel holds: `files` by path in site-packages, `requires` its Requires-Dist lines, `scripts` by name."""

    name: str
    version: str
    tag: str = PURE
    files: Mapping[str, bytes]
    requires: Sequence[str] = ()
    provides_extra: Sequence[str] = ()
    scripts: Mapping[str, str] = field(default_factory=dict)
    entry_points: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    summary: str = "Stand-in: carries a real distribution's name and version, and next to nothing else"

    @property
    def stem(self) -> str:
        """Name and version as they begin file names: in normal form, `-` written as `_`."""
        return f"{canonicalize_name(self.name).replace('-', '_')}-{self.version}"

    @property
    def file_name(self) -> str:
        """The wheel's file name (packaging.python.org, "Binary distribution format")."""
        return f"{self.stem}-{self.tag}.whl"

    @property
    def metadata(self) -> str:
        """The text of METADATA."""
        head = ["Metadata-Version: 2.1", f"Name: {self.name}", f"Version: {self.version}", f"Summary: {self.summary}"]
        extras = [f"Provides-Extra: {extra}" for extra in self.provides_extra]
        return "\n".join([*head, *extras, *(f"Requires-Dist: {line}" for line in self.requires)]) + "\n"

    def pack(self) -> bytes:
        """Return the bytes of the wheel."""
        info = f"{self.stem}.dist-info"
        pure = str(self.tag == PURE).lower()
        contents = dict(sorted(self.files.items()))
        contents[f"{info}/METADATA"] = self.metadata.encode()
        tags = "".join(f"Tag: {tag}\n" for tag in _single_tags(self.tag))
        contents[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: stand-in\nRoot-Is-Purelib: {pure}\n{tags}".encode()
        groups = {**({"console_scripts": self.scripts} if self.scripts else {}), **self.entry_points}
        if groups:
            contents[f"{info}/entry_points.txt"] = _entry_points(groups).encode()
        record = "".join(f"{name},{_record(content)}\n" for name, content in contents.items()) + f"{info}/RECORD,,\n"
        contents[f"{info}/RECORD"] = record.encode()
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in contents.items():
                member = zipfile.ZipInfo(name, _DATE)
                member.external_attr = 0o100644 << 16
                member.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(member, content)
        return packed.getvalue()


def install_wheel(wheel: Path, packages: Path, programs: Path, python: str) -> None:
    """Unpack a pure wheel into `packages` as pip would: console scripts in `programs`, INSTALLER, RECORD complete.

    `python` is the interpreter that the scripts will name.
    """
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
        (info,) = {name.split("/")[0] for name in archive.namelist() if name.split("/")[0].endswith(".dist-info")}
    lines = (packages / info / "RECORD").read_text().splitlines()
    (packages / info / "INSTALLER").write_bytes(b"pip\n")
    lines.append(f"{info}/INSTALLER,{_record(b'pip' + bytes([10]))}")
    for name, target in _console_scripts(packages / info / "entry_points.txt").items():
        path = programs / name
        path.write_text(_script(python, target))
        path.chmod(0o755)
        relative = f"../../../bin/{name}"
        lines.append(f"{relative},{_record(path.read_bytes())}")
    (packages / info / "RECORD").write_text("\n".join(lines) + "\n")


def _script(python: str, target: str) -> str:
    module, _, function = target.partition(":")
    return f"#!{python}\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n"


def _console_scripts(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    parser.read(path)
    return (
        {k: re.sub(r"\s", "", v) for k, v in parser["console_scripts"].items()}
        if parser.has_section("console_scripts")
        else {}
    )


def _entry_points(groups: Mapping[str, Mapping[str, str]]) -> str:
    return "\n".join(
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in sorted(entries.items()))
        for group, entries in sorted(groups.items())
    )


def _record(content: bytes) -> str:
    return f"sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()},{len(content)}"


def _single_tags(tag: str) -> list[str]:
    pythons, abis, platforms = (part.split(".") for part in tag.split("-"))
    return [f"{python}-{abi}-{platform}" for python in pythons for abi in abis for platform in platforms]
