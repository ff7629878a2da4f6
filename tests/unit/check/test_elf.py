"""Symbol versions read off ELF headers: files made by hand, the real C library, and any damage to either."""

import struct
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

#: Where the dynamic segment of `elf` finds its address: one page on, as linkers do it.
SHIFT = 0x1000


def elf(
    needs: dict[str, list[str]], defines: tuple[str, ...] = (), *, machine: int = 62, weak: tuple[str, ...] = ()
) -> bytes:
    """Return an ELF file that asks `needs` (library -> versions) and defines versions; no sections, as if stripped."""
    strings, places = bytearray(b"\0"), {}
    for text in [*needs, *(version for versions in needs.values() for version in versions), *defines]:
        places[text] = len(strings)
        strings += text.encode() + b"\0"
    need = b""
    for index, (library, versions) in enumerate(needs.items()):
        following = 0 if index == len(needs) - 1 else 16 + 16 * len(versions)
        need += struct.pack("<HHIII", 1, len(versions), places[library], 16, following)
        for number, version in enumerate(versions):
            flags = 2 if version in weak else 0
            need += struct.pack("<IHHII", 0, flags, 2, places[version], 0 if number == len(versions) - 1 else 16)
    define = b""
    for index, version in enumerate(defines):
        define += struct.pack("<HHHHIII", 1, 0, index + 1, 1, 0, 20, 0 if index == len(defines) - 1 else 28)
        define += struct.pack("<II", places[version], 0)
    start = 64 + 2 * 56
    at = {"strings": start, "need": start + len(strings), "define": start + len(strings) + len(need)}
    dynamic_at = at["define"] + len(define)
    tags = [(5, at["strings"] + SHIFT)]
    if needs:
        tags += [(0x6FFFFFFE, at["need"] + SHIFT), (0x6FFFFFFF, len(needs))]
    if defines:
        tags += [(0x6FFFFFFC, at["define"] + SHIFT), (0x6FFFFFFD, len(defines))]
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in [*tags, (0, 0)])
    whole = dynamic_at + len(dynamic)
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, machine, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, SHIFT, SHIFT, whole, whole, SHIFT)
    segment = struct.pack("<IIQQQQQQ", 2, 6, dynamic_at, dynamic_at + SHIFT, 0, len(dynamic), len(dynamic), 8)
    return head + load + segment + bytes(strings) + need + define + dynamic


def test_needs_and_definitions_are_read(check: SimpleNamespace, tmp_path: Path) -> None:
    file = tmp_path / "x.so"
    file.write_bytes(
        elf({"libstdc++.so.6": ["GLIBCXX_3.4.99", "CXXABI_1.3"], "libc.so.6": ["GLIBC_2.17"]}, ("X_1", "X_2"))
    )
    found = check.read_elf(str(file))
    assert found.machine == "x86_64"
    assert found.needs == {"libstdc++.so.6": ["GLIBCXX_3.4.99", "CXXABI_1.3"], "libc.so.6": ["GLIBC_2.17"]}
    assert found.defines == ["X_1", "X_2"]


def test_a_weak_need_is_none(check: SimpleNamespace, tmp_path: Path) -> None:
    file = tmp_path / "x.so"
    file.write_bytes(elf({"libc.so.6": ["GLIBC_2.17", "GLIBC_2.99"]}, weak=("GLIBC_2.99",)))
    assert check.read_elf(str(file)).needs == {"libc.so.6": ["GLIBC_2.17"]}


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"#!/bin/sh\n", b"\x7fELF\x01\x01\x01" + bytes(60)])
def test_what_is_no_64_bit_elf_file_is_none(check: SimpleNamespace, tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "x.so"
    file.write_bytes(data)
    assert check.read_elf(str(file)) is None


def test_the_real_c_library_defines_versions(check: SimpleNamespace) -> None:
    offers, machine = check.system_library_versions(check.Tree("/"))
    if offers["libc.so.6"] is None:
        pytest.skip("this machine has no GNU C library in a place known to us")
    assert "GLIBC_2.17" in offers["libc.so.6"]
    assert machine in ("x86_64", "aarch64")


WHOLE = elf({"libstdc++.so.6": ["GLIBCXX_3.4.99"], "libc.so.6": ["GLIBC_2.17"]}, ("X_1", "X_2"))


@given(
    cut=st.integers(0, len(WHOLE)),
    changes=st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=12),
)
def test_no_damage_crashes_the_reader(
    check: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory, cut: int, changes: list[tuple[int, int]]
) -> None:
    data = bytearray(WHOLE)
    for place, value in changes:
        data[place] = value
    file = tmp_path_factory.getbasetemp() / "damaged.so"
    file.write_bytes(data[:cut])
    found = check.read_elf(str(file))
    assert found is None or isinstance(found.needs, dict)


def test_a_library_in_site_packages_that_wants_too_new_a_system_is_found(
    check: SimpleNamespace, tmp_path: Path
) -> None:
    site = "/usr/local/python3.12.13/lib/python3.12/site-packages"
    files = {
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6": elf({}, ("GLIBCXX_3.4", "GLIBCXX_3.4.9", "GLIBCXX_3.4.30")),
        "/usr/lib/x86_64-linux-gnu/libc.so.6": elf({}, ("GLIBC_2.17", "GLIBC_2.35")),
        f"{site}/triton/_C/libtriton.so": elf({"libstdc++.so.6": ["GLIBCXX_3.4.30", "GLIBCXX_3.4.99"]}),
        f"{site}/fine/x.so.1": elf({"libc.so.6": ["GLIBC_2.17"]}),
        # Wheels carry objects for other machines, and copies of libstdc++ under names of their own.
        f"{site}/data/arm.so": elf({"libc.so.6": ["GLIBC_2.99"]}, machine=183),
        f"{site}/fine/y.so": elf({"libstdc++-1a2b.so.6": ["GLIBCXX_3.4.98"]}),
    }
    for name, data in files.items():
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    image = {"schema": 1, "python": "3.12", "python_home": "/usr/local/python3.12.13"}
    facts = check.gather(check.Tree(str(tmp_path)), image, bytecode="")
    said = check.ask_all(facts, image, None, None)["elf-needs"]
    assert [(one.answer.value, one.subject) for one in said] == [("fail", f"{site}/triton/_C/libtriton.so")]
    assert said[0].found == "asks for GLIBCXX_3.4.99 of libstdc++.so.6"
    assert said[0].wanted == "at most GLIBCXX_3.4.30"
