"""Checkouts of the sources as far as a lock reads them, made from the requirement lists in tests/data/upstream.

`python -m tests.upstream DIR` makes one git checkout a source and revision in DIR, each with the files that say what it
asks for and an empty module, and prints the `--source` options that lock every variant from them.
"""

import argparse
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ascend_images.pins.load import load
from ascend_images.pins.resolve import resolve_all
from ascend_images.pins.variant import Checkout, Variant

ROOT = Path(__file__).parents[1]
LISTS = ROOT / "tests/data/upstream"
_IDENTITY = ("-c", "user.name=Tests", "-c", "user.email=tests@example.invalid", "-c", "commit.gpgsign=false")


def folder_name(source: Checkout) -> str:
    """Return the name of a source's folder: the source at its ref."""
    return f"{source.name}@{source.ref}"


def lay_out(source: Checkout, folder: Path) -> None:
    """Write the source's files, without git: the lists, and the module that tells whose checkout it is."""
    lists = LISTS / folder_name(source)
    if lists.is_dir():
        shutil.copytree(lists, folder)
    elif source.requirements:
        raise SystemExit(f"{lists.relative_to(ROOT)} is missing: {', '.join(source.requirements)} of {source.name}")
    module = folder.joinpath(*source.module.split("."))
    module.mkdir(parents=True)
    (module / "__init__.py").touch()


def make_checkout(source: Checkout, folder: Path) -> None:
    """Make the source's checkout in `folder`, one commit."""
    lay_out(source, folder)
    for command in (
        ["init", "-q"],
        ["add", "--all"],
        [*_IDENTITY, "commit", "-q", "-m", f"{source.name} {source.ref}"],
    ):
        subprocess.run(["git", "-C", str(folder), *command], check=True)


def checkouts(variants: Sequence[Variant], where: Path) -> dict[str, dict[str, Path]]:
    """Make what is missing of the variants' checkouts in `where`; return the folder of each source by variant."""
    found: dict[str, dict[str, Path]] = {}
    for variant in variants:
        for source in variant.sources:
            folder = where / folder_name(source)
            if not folder.exists():
                make_checkout(source, folder)
            found.setdefault(variant.name, {})[source.name] = folder
    return found


def main() -> None:
    """Make the checkouts of all variants and print the options that name them."""
    parser = argparse.ArgumentParser(description="Make checkouts from the recorded requirement lists.")
    parser.add_argument("folder", type=Path)
    where = parser.parse_args().folder.resolve()
    where.mkdir(parents=True, exist_ok=True)
    for name, folders in checkouts(resolve_all(load(ROOT / "versions.toml")), where).items():
        options = " ".join(f"--source {source}={folder}" for source, folder in folders.items())
        print(f"invoke lock --variant {name} {options}")


if __name__ == "__main__":
    main()
