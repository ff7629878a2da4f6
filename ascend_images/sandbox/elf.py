"""Small ELF shared objects, written by hand: the stand-in CANN's libraries, for both architectures, with no compiler.

Each function of such a library returns 0, or does what little is written here for it. A linker can link against it and
the dynamic loader can load it: it has a soname, needs the libraries it names, and needs no C library, so it loads
whatever the image's is.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from ascend_images.pins.platform import Arch

# e_machine, and the machine code of `return 0`.
_MACHINE = {
    Arch.AMD64: (62, bytes.fromhex("31c0c3")),  # xor eax, eax; ret
    Arch.ARM64: (183, bytes.fromhex("00008052c0035fd6")),  # mov w0, #0; ret
}
_PAGE = 0x10000  # the largest page size of arm64 kernels

_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 1, 2, 0x6474E551
_SHT_PROGBITS, _SHT_STRTAB, _SHT_HASH, _SHT_DYNAMIC, _SHT_DYNSYM = 1, 3, 5, 6, 11
_DT_NEEDED, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 1, 4, 5, 6, 10, 11, 14
_GLOBAL_FUNCTION = 0x12
_SYMBOL, _DYNAMIC = struct.Struct("<IBBHQQ"), struct.Struct("<QQ")
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT, _SECTION = struct.Struct("<IIQQQQQQ"), struct.Struct("<IIQQQQIIQQ")
_SEGMENTS = 4
_TEXT_SECTION = 4
_NO_CODE: Mapping[str, bytes] = MappingProxyType({})


def storing(arch: Arch, value: int) -> bytes:
    """Return the machine code of `*p = value; return 0`; p points to 32 bits, `value` has at most 16."""
    nothing = _MACHINE[arch][1]
    if arch is Arch.AMD64:
        return b"\xc7\x07" + struct.pack("<I", value) + nothing  # mov dword [rdi], value
    return struct.pack("<II", 0x52800001 | value << 5, 0xB9000001) + nothing  # mov w1, #value; str w1, [x0]


def answering(arch: Arch, text: str) -> bytes:
    """Return the machine code of `return text`, a pointer to a C string, which lies behind the code."""
    code = "488d0501000000c3" if arch is Arch.AMD64 else "40000010c0035fd6"  # lea rax, [rip + 1]; ret | adr x0, #8; ret
    return bytes.fromhex(code) + text.encode() + b"\0"


def shared_object(
    arch: Arch,
    soname: str,
    functions: Sequence[str],
    *,
    needed: Sequence[str] = (),
    imports: Sequence[str] = (),
    code: Mapping[str, bytes] = _NO_CODE,
) -> bytes:
    """Return an ELF64 shared object whose `functions` each return 0, but for those that have `code` of their own.

    It needs the libraries `needed`, and takes the symbols `imports` from them: without those libraries it does not
    load, and a linker that checks says which symbols are missing.
    """
    machine, nothing = _MACHINE[arch]
    strings, offsets = _string_table([soname, *needed, *imports, *functions])
    start = _HEADER.size + _SEGMENTS * _SEGMENT.size
    hash_at = _aligned(start)
    hashes = _hash_table(len(imports) + len(functions))
    symbols_at = _aligned(hash_at + len(hashes))
    symbols_size = (1 + len(imports) + len(functions)) * _SYMBOL.size
    strings_at = symbols_at + symbols_size
    text_at = _aligned(strings_at + len(strings))
    codes = {name: code.get(name, nothing) for name in functions}
    text, places = _text(codes.values())
    symbols = b"".join(
        [
            bytes(_SYMBOL.size),
            *(_SYMBOL.pack(offsets[name], _GLOBAL_FUNCTION, 0, 0, 0, 0) for name in imports),
            *(
                _SYMBOL.pack(offsets[name], _GLOBAL_FUNCTION, 0, _TEXT_SECTION, text_at + places[own], len(own))
                for name, own in codes.items()
            ),
        ]
    )
    dynamic_at = _aligned(text_at + len(text))
    # The writable part lies one page further on than in the file, so that it has a page of its own.
    dynamic_address = dynamic_at + _PAGE
    dynamic = b"".join(
        _DYNAMIC.pack(tag, value)
        for tag, value in [
            *((_DT_NEEDED, offsets[name]) for name in needed),
            (_DT_SONAME, offsets[soname]),
            (_DT_HASH, hash_at),
            (_DT_STRTAB, strings_at),
            (_DT_SYMTAB, symbols_at),
            (_DT_STRSZ, len(strings)),
            (_DT_SYMENT, _SYMBOL.size),
            (0, 0),
        ]
    )
    names, name_at = _string_table([".hash", ".dynsym", ".dynstr", ".text", ".dynamic", ".shstrtab"])
    names_at = dynamic_at + len(dynamic)
    sections_at = _aligned(names_at + len(names))
    sections = [
        bytes(_SECTION.size),
        _SECTION.pack(name_at[".hash"], _SHT_HASH, 2, hash_at, hash_at, len(hashes), 2, 0, 8, 4),
        _SECTION.pack(name_at[".dynsym"], _SHT_DYNSYM, 2, symbols_at, symbols_at, symbols_size, 3, 1, 8, _SYMBOL.size),
        _SECTION.pack(name_at[".dynstr"], _SHT_STRTAB, 2, strings_at, strings_at, len(strings), 0, 0, 1, 0),
        _SECTION.pack(name_at[".text"], _SHT_PROGBITS, 6, text_at, text_at, len(text), 0, 0, 4, 0),
        _SECTION.pack(
            name_at[".dynamic"], _SHT_DYNAMIC, 3, dynamic_address, dynamic_at, len(dynamic), 3, 0, 8, _DYNAMIC.size
        ),
        _SECTION.pack(name_at[".shstrtab"], _SHT_STRTAB, 0, 0, names_at, len(names), 0, 0, 1, 0),
    ]
    text_end = text_at + len(text)
    segments = [
        _SEGMENT.pack(_PT_LOAD, 5, 0, 0, 0, text_end, text_end, _PAGE),
        _SEGMENT.pack(_PT_LOAD, 6, dynamic_at, dynamic_address, dynamic_address, len(dynamic), len(dynamic), _PAGE),
        _SEGMENT.pack(_PT_DYNAMIC, 6, dynamic_at, dynamic_address, dynamic_address, len(dynamic), len(dynamic), 8),
        _SEGMENT.pack(_PT_GNU_STACK, 6, 0, 0, 0, 0, 0, 16),
    ]
    header = _HEADER.pack(
        b"\x7fELF\x02\x01\x01", 3, machine, 1, 0, _HEADER.size, sections_at, 0,
        _HEADER.size, _SEGMENT.size, len(segments), _SECTION.size, len(sections), len(sections) - 1,
    )  # fmt: skip
    return _placed(
        {
            0: header + b"".join(segments),
            hash_at: hashes,
            symbols_at: symbols,
            strings_at: strings,
            text_at: text,
            dynamic_at: dynamic,
            names_at: names,
            sections_at: b"".join(sections),
        }
    )


def _aligned(position: int) -> int:
    return (position + 15) & ~15


def _text(codes: Iterable[bytes]) -> tuple[bytes, dict[bytes, int]]:
    """Return the text section, with every code in it once, and where in it each begins."""
    text, places = bytearray(), dict[bytes, int]()
    for code in codes:
        if code not in places:
            text += bytes(_aligned(len(text)) - len(text))
            places[code] = len(text)
            text += code
    return bytes(text), places


def _placed(parts: dict[int, bytes]) -> bytes:
    """Return the parts at their offsets, zeros between them."""
    image = bytearray()
    for offset, part in sorted(parts.items()):
        image += bytes(offset - len(image)) + part
    return bytes(image)


def _string_table(names: Sequence[str]) -> tuple[bytes, dict[str, int]]:
    table, offsets = bytearray(b"\0"), {}
    for name in names:
        offsets[name] = len(table)
        table += name.encode() + b"\0"
    return bytes(table), offsets


def _hash_table(symbols: int) -> bytes:
    """Return the DT_HASH section (System V ABI, "Hash Table"): one bucket, whose chain holds every symbol."""
    count = symbols + 1
    chain = [0, *range(2, count), 0] if symbols else [0]
    return struct.pack(f"<{3 + count}I", 1, count, 1 if symbols else 0, *chain)
