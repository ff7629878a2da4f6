"""Makes what Python sees of a source while it imports something else: how it is registered, and names of modules.

Those are the names in the checkout's folders that are on Python's path; of its files only metadata is there.
Arguments: the folder to write to, the source's layer, and the place of the checkout in it.
"""

import os
import pathlib
import shutil
import sys

METADATA = (".egg-info", ".dist-info")


def search_path(layer: pathlib.Path, checkout: str) -> list[str]:
    """Return the folders of a checkout that Python searches for modules: by .pth files, and by PYTHONPATH."""
    # What lies elsewhere with this ending are weights of models.
    folders = ("site-packages", "dist-packages")
    files = [file for file in layer.rglob("*.pth") if file.parent.name in folders and file.is_file()]
    lines = [line.strip() for file in files for line in file.read_text("utf-8", "replace").splitlines()]
    entries = [*lines, *os.environ.get("PYTHONPATH", "").split(":")]
    return [entry.rstrip("/") for entry in entries if (entry.rstrip("/") + "/").startswith(checkout + "/")]


def is_folder(path: pathlib.Path) -> bool:
    """Tell whether a path is a folder itself: on one that stands in for a link no link could be copied later."""
    return path.is_dir() and not path.is_symlink()


def write(root: pathlib.Path, layer: pathlib.Path, checkout: str) -> None:
    """Write what there is of the source to `root`."""
    place = layer / checkout.lstrip("/")

    def checkouts(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if pathlib.Path(folder, name) == place]

    shutil.copytree(layer, root, symlinks=True, dirs_exist_ok=True, ignore=checkouts)
    for entry in search_path(layer, checkout):
        if is_folder(layer / entry.lstrip("/")):
            write_names(root / entry.lstrip("/"), layer / entry.lstrip("/"))


def write_names(folder: pathlib.Path, searched: pathlib.Path) -> None:
    """Write the names that Python finds in a folder; of what they name, metadata alone."""
    folder.mkdir(parents=True, exist_ok=True)
    for found in sorted(searched.iterdir()):
        there = folder / found.name
        if is_folder(found) and found.name.endswith(METADATA):
            shutil.copytree(found, there, symlinks=True, dirs_exist_ok=True)
        elif is_folder(found):
            there.mkdir(exist_ok=True)
        elif found.is_file() and found.name.endswith(METADATA):
            shutil.copy(found, there)
        else:
            there.touch()


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3])
