"""Prints which distributions of the base image go before the locked ones come: COPY cannot delete.

Arguments: a requirements file, then names and patterns (`nvidia-*`) that must not be there either.
"""

import fnmatch
import importlib.metadata
import pathlib
import re
import sys
import sysconfig


def normal(name: str) -> str:
    """Return a distribution's name in normal form (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def to_remove(installed: list[str], locked: str, patterns: list[str]) -> list[str]:
    """Return the installed names that a requirements file brings anew, or that one of the patterns names."""
    names = {normal(line.partition("==")[0]) for line in locked.splitlines() if line[:1].isalnum()}
    found = {normal(name) for name in installed}
    unwanted = {name for name in found for pattern in patterns if fnmatch.fnmatchcase(name, pattern)}
    return sorted(found & names | unwanted)


if __name__ == "__main__":
    # Not what CANN brings in folders of its own on PYTHONPATH.
    folders = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    there = [str(found.metadata["Name"]) for found in importlib.metadata.distributions(path=folders)]
    for line in to_remove(there, pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"), sys.argv[2:]):
        print(line)
