"""Makes what Python sees of a source while it imports something else: how it is registered, and names of modules.

Those are the names in the checkout's folders that are on Python's path; of its files only metadata is there.
Arguments: the folder to write to, the source's layer, and the place of the checkout in it.
"""

import os
import pathlib
import shutil
import sys


def metadata(path: pathlib.Path) -> bool:
    """Tell whether a folder describes a distribution."""
    return path.is_dir() and path.name.endswith((".egg-info", ".dist-info"))


def search_path(layer: pathlib.Path, checkout: str) -> list[str]:
    """Return the folders of a checkout that Python searches for modules: by .pth files, and by PYTHONPATH."""
    # What lies elsewhere with this ending are weights of models.
    files = [file for file in layer.rglob("*.pth") if file.parent.name in ("site-packages", "dist-packages")]
    lines = [line.strip() for file in files for line in file.read_text("utf-8", "replace").splitlines()]
    entries = [*lines, *os.environ.get("PYTHONPATH", "").split(":")]
    return [entry.rstrip("/") for entry in entries if (entry.rstrip("/") + "/").startswith(checkout + "/")]


def write(root: pathlib.Path, layer: pathlib.Path, checkout: str) -> None:
    """Write what there is of the source to `root`."""
    place = layer / checkout.lstrip("/")

    def checkouts(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if pathlib.Path(folder, name) == place]

    shutil.copytree(layer, root, symlinks=True, dirs_exist_ok=True, ignore=checkouts)
    for entry in search_path(layer, checkout):
        folder = root / entry.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        for found in sorted((layer / entry.lstrip("/")).iterdir()):
            if metadata(found):
                shutil.copytree(found, folder / found.name, symlinks=True, dirs_exist_ok=True)
            elif found.is_dir():
                (folder / found.name).mkdir(exist_ok=True)
            else:
                (folder / found.name).touch()


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3])
