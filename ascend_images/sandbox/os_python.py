"""The operating system's own Python at the place of a stand-in base's: a virtual environment of it.

It serves where no other Python can be had, as for an architecture that is not this machine's. It cannot be copied,
being spread over the system; what makes an environment of it is in docs.python.org, "venv".
"""

from pathlib import Path

from ascend_images.pins.platform import Arch, host_arch
from ascend_images.sandbox.python_prefix import bundled_pip, find_prefixes, no_python
from ascend_images.sandbox.store import code_digest, digest, stored
from ascend_images.sandbox.tree import Link, Tree, set_times, text_file, write_tree
from ascend_images.sandbox.wheel_file import install_wheel

_SETTINGS = "home = /usr/bin\ninclude-system-site-packages = false"


def os_python_context(series: str, arch: Arch, home: str) -> Path:
    """Return a folder with the environment at `home` (an absolute path), with pip and no more in it.

    Raises MissingTool where this machine has no Python of the series to take pip from.
    """
    prefix = next(find_prefixes(series, host_arch()), None)
    if prefix is None:
        raise no_python(series, "found none to take pip from")
    pip = bundled_pip(prefix, series)
    key = digest(series, home, pip.name, code_digest("os_python.py", "wheel_file.py", "tree.py"))

    def make(folder: Path) -> None:
        target = folder / home.lstrip("/")
        write_tree(_environment(series), target)
        packages = target / "lib" / f"python{series}" / "site-packages"
        packages.mkdir(parents=True)
        install_wheel(pip, packages, target / "bin", f"{home}/bin/python{series}")
        set_times(folder)

    return stored("python", f"{Path(home).name}-{arch.value}-own", key, make, large=True)


def _environment(series: str) -> Tree:
    program = f"python{series}"
    return {
        "pyvenv.cfg": text_file(_SETTINGS),
        f"bin/{program}": Link(f"/usr/bin/{program}"),
        "bin/python3": Link(program),
        "bin/python": Link(program),
    }
