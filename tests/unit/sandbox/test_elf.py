"""The libraries of the stand-in CANN: they load, their functions answer 0, and they need what they name."""

import _ctypes
import ctypes
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.pins.platform import Arch, host_arch
from ascend_images.sandbox.elf import answering, shared_object, storing

SYMBOL = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=20)


def write(folder: Path, name: str, **options: list[str]) -> Path:
    path = folder / name
    functions = options.pop("functions", ["one", "two"])
    path.write_bytes(shared_object(host_arch(), name, functions, **options))
    return path


def test_every_function_of_a_library_can_be_called_and_answers_0(tmp_path: Path) -> None:
    library = ctypes.CDLL(str(write(tmp_path, "libfirst_of_all.so", functions=["one", "two", "three"])))
    assert [library.one(), library.two(), library.three()] == [0, 0, 0]
    with pytest.raises(AttributeError, match="four"):
        library.four()


@given(st.integers(0, 0xFFFF), st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=40))
def test_a_function_does_what_its_code_says_and_the_others_answer_0(value: int, text: str) -> None:
    code = {"count": storing(host_arch(), value), "name": answering(host_arch(), text)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "libcoded.so"
        path.write_bytes(shared_object(host_arch(), "libcoded.so", ["one", "count", "name", "two"], code=code))
        library = ctypes.CDLL(str(path))
        found = ctypes.c_uint32(0xFFFFFFFF)
        library.name.restype = ctypes.c_char_p
        assert (library.count(ctypes.byref(found)), found.value) == (0, value)
        assert library.name() == text.encode()
        assert [library.one(), library.two()] == [0, 0]
        _ctypes.dlclose(library._handle)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        # mov w1, #2; str w1, [x0]; mov w0, #0; ret
        (storing(Arch.ARM64, 2), ["52800041", "b9000001", "52800000", "d65f03c0"]),
        # adr x0, #8; ret; then the text
        (answering(Arch.ARM64, "abc"), ["10000040", "d65f03c0", "00636261"]),
    ],
)
def test_arm64_has_its_own_code(code: bytes, words: list[str]) -> None:
    assert [f"{word:08x}" for (word,) in struct.iter_unpack("<I", code)] == words


def test_a_library_does_not_load_without_the_library_it_needs(tmp_path: Path) -> None:
    path = write(tmp_path, "libneedy.so", needed=["libnot_to_be_found.so"], imports=["missing"])
    with pytest.raises(OSError, match=r"libnot_to_be_found\.so: cannot open shared object file"):
        ctypes.CDLL(str(path))


def test_a_library_loads_once_the_library_it_needs_is_loaded(tmp_path: Path) -> None:
    first = ctypes.CDLL(str(write(tmp_path, "libof_the_driver.so", functions=["hal"])), mode=ctypes.RTLD_GLOBAL)
    second = ctypes.CDLL(str(write(tmp_path, "libof_cann.so", needed=["libof_the_driver.so"], imports=["hal"])))
    assert (first.hal(), second.one()) == (0, 0)


@pytest.mark.parametrize(("arch", "machine"), [(Arch.AMD64, 62), (Arch.ARM64, 183)])
def test_the_header_names_the_architecture(arch: Arch, machine: int) -> None:
    content = shared_object(arch, "libx.so", ["f"])
    assert content[:4] == b"\x7fELF"
    assert struct.unpack_from("<HH", content, 16) == (3, machine)


@given(st.lists(SYMBOL, unique=True, max_size=12), st.lists(SYMBOL, unique=True, max_size=3))
def test_every_name_stands_in_the_symbol_table_at_its_place(functions: list[str], imports: list[str]) -> None:
    imports = [name for name in imports if name not in functions]
    content = shared_object(Arch.ARM64, "libx.so", functions, imports=imports)
    sections = struct.unpack_from("<Q", content, 40)[0]
    symbols, names = (struct.unpack_from("<IIQQQQIIQQ", content, sections + 64 * index) for index in (2, 3))
    found = []
    for index in range(1, symbols[5] // symbols[9]):
        name, _, _, section, value, size = struct.unpack_from("<IBBHQQ", content, symbols[4] + symbols[9] * index)
        start = names[4] + name
        text = content[start : content.index(b"\0", start)].decode()
        found.append((text, section, content[value : value + size]))
    code = bytes.fromhex("00008052c0035fd6")
    assert found == [*((name, 0, b"") for name in imports), *((name, 4, code) for name in functions)]
