"""Facts: which symbol versions of the C libraries are asked for, and which are there."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..tree import Tree
from ..words import ELF_MACHINE, FEW, Facts


@dataclass(frozen=True)
class Elf:
    """What an ELF file asks of libraries, by name, and the versions that it defines itself."""

    machine: str
    needs: dict[str, list[str]]
    defines: list[str]


def elf_machine(tree: Tree, path: str) -> str:
    """Return the machine an executable was built for, empty where that cannot be told."""
    if not tree.is_file(path):
        return ""
    try:
        with open(tree.at(path), "rb") as stream:
            head = stream.read(20)
    except OSError:
        return ""
    return ELF_MACHINE.get(int.from_bytes(head[18:20], "little"), "") if head[:4] == b"\x7fELF" else ""


def read_elf(path: str) -> Elf | None:
    """Read version needs and definitions from the headers of a 64-bit ELF file; None for anything else.

    They are found by way of the dynamic segment (DT_VERNEED, DT_VERDEF): sections may be stripped. Layouts are those
    of the System V ABI and of the Linux Standard Base, "Symbol Versioning".
    """
    # Opening a pipe would wait for somebody who writes.
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _ElfReader(data).elf()
    except (OSError, ValueError, KeyError, IndexError, OverflowError, struct.error):
        return None


class _ElfReader:
    """Finds its way in one ELF file; raises ValueError, struct.error or IndexError where it is not well-formed."""

    STRTAB, VERNEED, VERNEEDNUM, VERDEF, VERDEFNUM = 5, 0x6FFFFFFE, 0x6FFFFFFF, 0x6FFFFFFC, 0x6FFFFFFD

    def __init__(self, data: mmap.mmap) -> None:
        if data[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian
            raise ValueError("not such a file")
        self.data = data
        self.loads: list[tuple[int, int, int]] = []
        self.tags: dict[int, int] = {}
        (at,), (size, number) = self.words("<Q", 32), self.words("<HH", 54)
        for index in range(number):
            kind, _, offset, address, _, length = self.words("<IIQQQQ", at + index * size)
            if kind == 1:  # PT_LOAD
                self.loads.append((address, offset, length))
            elif kind == 2:  # PT_DYNAMIC
                for entry in range(offset, offset + length, 16):
                    tag, value = self.words("<QQ", entry)
                    if tag == 0:
                        break
                    self.tags.setdefault(tag, value)

    def words(self, layout: str, at: int) -> tuple[int, ...]:
        return struct.unpack_from(layout, self.data, at)

    def place(self, address: int) -> int:
        """Return where in the file an address lies."""
        for start, offset, length in self.loads:
            if start <= address < start + length:
                return address - start + offset
        raise ValueError("an address outside every segment")

    def name(self, offset: int) -> str:
        start = self.place(self.tags[self.STRTAB]) + offset
        end = self.data.find(b"\0", start)
        if end < 0:
            raise ValueError("a name without an end")
        return self.data[start:end].decode("ascii", "replace")

    def records(self, tag: int, count_tag: int, layout: str) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield the records of a list, each with its place; the last word of each says how far the next one is."""
        at = self.place(self.tags[tag]) if tag in self.tags else 0
        for _ in range(min(self.tags.get(count_tag, 0), 1000) if at else 0):
            record = self.words(layout, at)
            yield at, record
            at += record[-1]

    def elf(self) -> Elf:
        needs: dict[str, list[str]] = {}
        for at, (_, number, file, first, _) in self.records(self.VERNEED, self.VERNEEDNUM, "<HHIII"):
            inner = at + first
            for _ in range(number):
                _, flags, _, version, following = self.words("<IHHII", inner)
                if not flags & 2:  # VER_FLG_WEAK: its absence is only a warning
                    needs.setdefault(self.name(file), []).append(self.name(version))
                inner += following
        defines = [
            self.name(self.words("<I", at + record[5])[0])
            for at, record in self.records(self.VERDEF, self.VERDEFNUM, "<HHHHIII")
        ]
        return Elf(ELF_MACHINE.get(self.words("<H", 18)[0], ""), needs, defines)


#: The libraries whose versions come with the operating system and not with a package.
SYSTEM_LIBRARIES = ("libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1")


def shared_objects(tree: Tree, folder: str) -> Iterator[str]:
    """Yield the shared objects below a folder, sorted; links to them are not followed."""
    start = tree.resolve(folder)
    for place, folders, names in os.walk(tree.outside(start)):
        folders[:] = sorted(name for name in folders if name != ".git")
        inside = start + place[len(tree.outside(start)) :]
        for name in sorted(names):
            if (name.endswith(".so") or ".so." in name) and not os.path.islink(os.path.join(place, name)):
                yield f"{inside}/{name}"


def elf_facts(tree: Tree, folders: Sequence[str]) -> Facts:
    """Return the symbol versions that shared objects below the folders ask of the system's libraries, and its offer.

    `needs`: library -> symbol version -> how many files ask for it, and the first of them.
    """
    offers, machine = system_library_versions(tree)
    needs: dict[str, dict[str, Facts]] = {library: {} for library in SYSTEM_LIBRARIES}
    seen = set()
    for folder in folders:
        for path in shared_objects(tree, folder):
            if path in seen:
                continue
            seen.add(path)
            elf = read_elf(tree.outside(path))
            if elf is None or (machine and elf.machine != machine):
                continue  # wheels carry objects for other machines as data
            for library in SYSTEM_LIBRARIES:
                for version in elf.needs.get(library, ()):
                    asked = needs[library].setdefault(version, {"count": 0, "files": []})
                    asked["count"] += 1
                    if len(asked["files"]) < FEW:
                        asked["files"].append(path)
    return {"offers": offers, "needs": needs}


def system_library_versions(tree: Tree) -> tuple[dict[str, list[str] | None], str]:
    """Return the symbol versions of each system library (None: it is not there), and the machine they are for."""
    folders = [
        "/lib64",
        "/usr/lib64",
        *tree.glob("/lib/*-linux-gnu"),
        *tree.glob("/usr/lib/*-linux-gnu"),
        "/lib",
        "/usr/lib",
    ]
    offers: dict[str, list[str] | None] = {}
    machine = ""
    for library in SYSTEM_LIBRARIES:
        offers[library] = None
        for folder in folders:
            elf = read_elf(tree.at(f"{folder}/{library}"))
            if elf is not None:
                offers[library], machine = sorted(elf.defines), machine or elf.machine
                break
    return offers, machine
