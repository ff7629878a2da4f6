"""The Python of a stand-in base: found under a version manager, copied without other people's packages, moved."""

import itertools
import zipfile
from pathlib import Path

import pytest

from ascend_images.errors import MissingTool
from ascend_images.pins.platform import Arch, host_arch
from ascend_images.sandbox import python_prefix
from ascend_images.sandbox.python_prefix import bundled_pip, find_prefixes, no_python, python_context

HOME = "/usr/local/python3.12.9"


def python(root: Path, version: str, series: str = "3.12") -> Path:
    """Make what the prefix of a CPython looks like."""
    prefix = root / "versions" / version
    library = prefix / "lib" / f"python{series}"
    for name, content in {
        f"bin/python{series}": f"\x7fELF {prefix}/lib\0end".encode(),
        "bin/pip": f"#!{prefix}/bin/python".encode(),
        f"include/python{series}/Python.h": b"",
        f"lib/python{series}/os.py": b"",
        f"lib/python{series}/test/x.py": b"",
        f"lib/python{series}/site-packages/other/__init__.py": b"",
        f"lib/python{series}/_sysconfigdata_linux.py": f"prefix = '{prefix}'".encode(),
        "lib/libpython.a": b"large",
    }.items():
        path = prefix / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    wheel = library / "ensurepip/_bundled/pip-23.2.1-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pip/__init__.py", "")
        archive.writestr("pip-23.2.1.dist-info/METADATA", "Metadata-Version: 2.1\nName: pip\nVersion: 23.2.1\n")
        archive.writestr("pip-23.2.1.dist-info/entry_points.txt", "[console_scripts]\npip3 = pip:main\n")
        archive.writestr("pip-23.2.1.dist-info/RECORD", "pip/__init__.py,,\n")
    return prefix


def first(root: Path, series: str, count: int) -> list[Path]:
    return list(itertools.islice(find_prefixes(series, host_arch(), {"PYENV_ROOT": str(root)}), count))


def test_the_newest_of_the_series_under_pyenv_comes_first(tmp_path: Path) -> None:
    for version in ("3.12.1", "3.12.10", "3.12.9"):
        python(tmp_path, version)
    python(tmp_path, "3.11.7", "3.11")
    python(tmp_path, "3.12-dev")
    assert [prefix.name for prefix in first(tmp_path, "3.12", 3)] == ["3.12.10", "3.12.9", "3.12.1"]
    assert [prefix.name for prefix in first(tmp_path, "3.11", 1)] == ["3.11.7"]


def test_a_prefix_without_headers_or_pip_is_passed_over(tmp_path: Path) -> None:
    good = python(tmp_path, "3.12.1")
    (python(tmp_path, "3.12.2") / "include/python3.12/Python.h").unlink()
    bundled_pip(python(tmp_path, "3.12.3"), "3.12").unlink()
    assert first(tmp_path, "3.12", 1) == [good]


def test_the_copy_has_pip_and_no_other_packages(tmp_path: Path) -> None:
    folder = python_context("3.12", host_arch(), HOME, python(tmp_path, "3.12.1"))
    found = {str(path.relative_to(folder / HOME[1:])) for path in folder.rglob("*") if not path.is_dir()}
    assert found == {
        *("bin/python", "bin/python3", "bin/python3.12", "bin/pip3", "include/python3.12/Python.h"),
        *("lib/python3.12/os.py", "lib/python3.12/_sysconfigdata_linux.py"),
        "lib/python3.12/ensurepip/_bundled/pip-23.2.1-py3-none-any.whl",
        "lib/python3.12/site-packages/pip/__init__.py",
        *(
            f"lib/python3.12/site-packages/pip-23.2.1.dist-info/{name}"
            for name in ("METADATA", "entry_points.txt", "RECORD", "INSTALLER")
        ),
    }
    assert (folder / HOME[1:] / "bin/pip3").read_text().startswith(f"#!{HOME}/bin/python3.12\n")
    assert (folder / HOME[1:] / "bin/python3").readlink() == Path(f"{HOME}/bin/python3.12")


def test_nothing_in_the_copy_names_the_place_it_came_from(tmp_path: Path) -> None:
    prefix = python(tmp_path, "3.12.1")
    folder = python_context("3.12", host_arch(), HOME, prefix)
    assert [path for path in folder.rglob("*") if path.is_file() and str(prefix).encode() in path.read_bytes()] == []
    program = (folder / HOME[1:] / "bin/python3.12").read_bytes()
    assert program.startswith(f"\x7fELF {HOME}/lib\0".encode())
    assert program.endswith(b"end")
    assert len(program) == (prefix / "bin/python3.12").stat().st_size


def test_without_a_python_the_two_ways_to_get_one_are_named() -> None:
    error = no_python("3.12", "found none")
    assert isinstance(error, MissingTool)
    assert "uv python install 3.12" in error.do
    assert "pyenv install 3.12" in error.do


def test_this_machines_python_is_none_of_another_architecture(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Arch.ARM64 if host_arch() is Arch.AMD64 else Arch.AMD64
    python(tmp_path, "3.12.1")
    asked: list[list[str]] = []

    def uv(arguments: list[str], _environment: object) -> str:
        asked.append(arguments)
        python(state / "stand-ins/fetched-python", "x")
        (state / "stand-ins/fetched-python/versions/x").rename(
            state / f"stand-ins/fetched-python/cpython-3.12.4-linux-{other.kernel}-gnu"
        )
        return ""

    monkeypatch.setattr(python_prefix, "_uv", uv)
    (found,) = find_prefixes("3.12", other, {"PYENV_ROOT": str(tmp_path)})
    assert found.name == f"cpython-3.12.4-linux-{other.kernel}-gnu"
    assert asked == [["python", "install", "--no-bin", f"cpython-3.12-linux-{other.kernel}-gnu"]]
