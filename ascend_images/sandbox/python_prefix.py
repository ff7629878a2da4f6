"""A CPython of the wanted series from this machine, copied so that it works at another place in a stand-in base."""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from uv import find_uv_bin

from ascend_images.errors import MissingTool
from ascend_images.pins.platform import Arch, host_arch
from ascend_images.sandbox.process import call
from ascend_images.sandbox.store import code_digest, digest, store_dir, stored
from ascend_images.sandbox.tree import set_times
from ascend_images.sandbox.wheel_file import install_wheel

# Left out: what no program of an image asks for, and other people's packages.
_LEFT_OUT = (
    "__pycache__",
    "site-packages",
    "test",
    "tests",
    "idlelib",
    "turtledemo",
    "tkinter",
    "lib2to3",
    "share",
    "*.a",
)
_KEPT_FOLDERS = ("bin", "include", "lib")
_TEXT_LIMIT = 4 << 20
# Folders of an operating system: its Python is spread over them and cannot be copied.
_SYSTEM_PREFIXES = (Path("/usr"), Path("/usr/local"), Path("/"))


def find_prefixes(series: str, arch: Arch, environment: Mapping[str, str] = os.environ) -> Iterator[Path]:
    """Yield the prefixes of CPythons of a series (`3.12`) that can be copied, the likeliest first.

    Asked: pyenv's versions, the Pythons that uv knows, at last uv to fetch one; for another architecture than this
    machine's only the last. The caller takes the first that runs in the base.
    """
    seen: set[Path] = set()
    finders = (_pyenv_prefixes, _uv_prefixes) if arch is host_arch() else ()
    for find in (*finders, partial(_fetched_prefixes, arch=arch)):
        for prefix in find(series, environment):
            real = prefix.resolve()
            if real not in seen and real not in _SYSTEM_PREFIXES and _is_whole(real, series):
                seen.add(real)
                yield real


def no_python(series: str, tried: str) -> MissingTool:
    """Return the error for a machine that has no such Python."""
    return MissingTool(
        f"no CPython {series} that a stand-in base could take ({tried})",
        wanted=f"a CPython {series} under a version manager; an operating system's own cannot be copied",
        do=f"one of: uv python install {series}   |   pyenv install {series}",
    )


def python_context(series: str, arch: Arch, home: str, prefix: Path) -> Path:
    """Return a folder that holds the Python of `prefix` at `home` (an absolute path), with pip and no more in it."""
    program = prefix / "bin" / f"python{series}"
    status = program.stat()
    key = digest(
        str(prefix),
        home,
        status.st_size,
        status.st_mtime_ns,
        code_digest("python_prefix.py", "wheel_file.py", "tree.py"),
    )
    name = f"{Path(home).name}-{arch.value}"
    return stored("python", name, key, lambda folder: _copy(prefix, series, home, folder), large=True)


def _copy(prefix: Path, series: str, home: str, folder: Path) -> None:
    target = folder / home.lstrip("/")
    for name in _KEPT_FOLDERS:
        shutil.copytree(prefix / name, target / name, symlinks=True, ignore=_ignored(prefix / "bin", series))
    for name in ("python3", "python"):
        _link(target / "bin" / name, f"{home}/bin/python{series}")
    _move(target, str(prefix), home)
    packages = target / "lib" / f"python{series}" / "site-packages"
    packages.mkdir()
    for wheel in sorted((prefix / "lib" / f"python{series}" / "ensurepip" / "_bundled").glob("*.whl")):
        install_wheel(wheel, packages, target / "bin", f"{home}/bin/python{series}")
    set_times(folder)


def _ignored(programs: Path, series: str) -> Callable[[str, list[str]], set[str]]:
    """Return the filter of what is not copied."""
    patterns = shutil.ignore_patterns(*_LEFT_OUT)

    def ignored(folder: str, names: list[str]) -> set[str]:
        if Path(folder) == programs:
            # The other programs are scripts that name the old prefix.
            return {name for name in names if name != f"python{series}"}
        return set(patterns(folder, names))

    return ignored


def _move(target: Path, old: str, new: str) -> None:
    """Put the new prefix in place of the old one: in what Python compiles with, and where it seeks libpython."""
    for path in target.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        if path.suffix in {".so", ".0"} or path.parent.name == "bin":
            _move_binary(path, old.encode(), new.encode())
        elif path.name.startswith(("_sysconfigdata", "Makefile")) or path.suffix == ".pc":
            text = path.read_text(encoding="utf-8", errors="surrogateescape")
            if old in text and len(text) < _TEXT_LIMIT:
                path.write_text(text.replace(old, new), encoding="utf-8", errors="surrogateescape")


def _move_binary(path: Path, old: bytes, new: bytes) -> None:
    """Replace the whole string `<old>/lib` (a run path) where the new one is not longer; the rest is zeros."""
    if len(new) > len(old):
        return
    content = path.read_bytes()
    moved = content.replace(old + b"/lib\0", new + b"/lib\0" + bytes(len(old) - len(new)))
    if moved != content:
        path.chmod(0o755)
        path.write_bytes(moved)


def _link(path: Path, target: str) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _is_whole(prefix: Path, series: str) -> bool:
    """Tell whether a prefix holds a complete Python: program, library, headers, and the wheel of pip."""
    library = prefix / "lib" / f"python{series}"
    return (
        (prefix / "bin" / f"python{series}").is_file()
        and (prefix / "include" / f"python{series}" / "Python.h").is_file()
        and any((library / "ensurepip" / "_bundled").glob("pip-*.whl"))
    )


def _pyenv_prefixes(series: str, environment: Mapping[str, str]) -> list[Path]:
    root = environment.get("PYENV_ROOT") or (Path(environment.get("HOME") or "/root") / ".pyenv")
    found = [path for path in Path(root).glob(f"versions/{series}.*") if re.fullmatch(r"[0-9.]+", path.name)]
    return sorted(found, key=lambda path: [int(part) for part in path.name.split(".")], reverse=True)


def _uv_prefixes(series: str, environment: Mapping[str, str]) -> list[Path]:
    return _prefix_of(
        _uv(["python", "find", "--no-project", "--system", "--no-python-downloads", series], environment), series
    )


def _fetched_prefixes(series: str, environment: Mapping[str, str], arch: Arch) -> list[Path]:
    folder = store_dir() / "fetched-python"
    name = f"cpython-{series}-linux-{arch.kernel}-gnu"
    _uv(["python", "install", "--no-bin", name], {**environment, "UV_PYTHON_INSTALL_DIR": str(folder)})
    return sorted(folder.glob(f"cpython-{series}.*-linux-{arch.kernel}-gnu"), reverse=True)


def _prefix_of(program: str, series: str) -> list[Path]:
    """Return the prefix of a Python, unless it is of another series or does not run."""
    if not program:
        return []
    asked = call([program, "-c", "import sys; print(sys.base_prefix, '%d.%d' % sys.version_info[:2])"], check=False)
    prefix, _, found = asked.stdout.strip().rpartition(" ")
    return [Path(prefix)] if asked.returncode == 0 and found == series else []


def _uv(arguments: list[str], environment: Mapping[str, str]) -> str:
    """Return what uv answers on standard output; nothing where it fails."""
    # This project's own environment would be found first.
    outside = {**environment, "VIRTUAL_ENV": "", "UV_PYTHON_PREFERENCE": "managed"}
    done = call([find_uv_bin(), *arguments], check=False, environment=outside)
    return done.stdout.strip() if done.returncode == 0 else ""


def bundled_pip(prefix: Path, series: str) -> Path:
    """Return the wheel of pip that a CPython brings; Python runs it as it is, by putting it on PYTHONPATH."""
    return max((prefix / "lib" / f"python{series}" / "ensurepip" / "_bundled").glob("pip-*.whl"))
