"""Facts: installed distributions, the files that they own, share and lack."""

from __future__ import annotations

import base64
import concurrent.futures
import csv
import email.parser
import hashlib
import mmap
import os
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..answers import of_cann
from ..tree import Tree, open_regular
from ..words import FEW, Facts, canonical, json_object


class Recorded(NamedTuple):
    """A file of a RECORD: where it lies, its hash as written there, and its size in bytes; None where it says none."""

    path: str
    digest: str
    size: int | None = None


#: How the name of what describes a distribution ends; it lies in a directory of Python's path.
METADATA = (".dist-info", ".egg-info")
#: Bytes of a METADATA: it may hold a whole README.
_METADATA_LIMIT = 8 << 20


def distributions(
    tree: Tree, folders: Sequence[str], patched: Iterable[str] = ()
) -> tuple[list[Facts], list[list[Recorded]]]:
    """Return every distribution found, and beside each its files with the hashes that its RECORD says.

    The order within one name is that of `folders`: as in Python, the first one counts. Contents of files that the pins
    patch (paths in site-packages) and of bytecode are not compared. Missing is what is no file: a link that leads to
    nothing, a directory in its place.
    """
    exempt = (".pyc", *(f"/{file}" for file in patched))
    found: list[tuple[Facts, list[Recorded]]] = []
    jobs: list[Recorded] = []
    for folder in folders:
        for name in tree.names(folder):
            if name.endswith(METADATA) and name[0] not in "~.":
                found.append(one_distribution(tree, folder, name))
    for _, files in found:
        jobs.extend(file for file in files if file.digest and not file.path.endswith(exempt))
    same = are_files(tree, jobs)
    for facts, files in found:
        if facts["record"] is not None:
            lists = {
                "missing": [
                    file.path for file in files if not file.path.endswith(".pyc") and not tree.is_file(file.path)
                ],
                "changed": [file.path for file in files if same.get(file) is False],
                "unhashed": [
                    file.path for file in files if same.get(file) is None and may_not_be_unhashed(file, exempt)
                ],
            }
            for name, paths in lists.items():
                facts["record"].update({name: paths[:FEW], f"{name}_count": len(paths)})
    order = sorted(range(len(found)), key=lambda index: (canonical(found[index][0]["name"]), index))
    return [found[index][0] for index in order], [found[index][1] for index in order]


def may_not_be_unhashed(file: Recorded, exempt: tuple[str, ...]) -> bool:
    """Tell whether a file of a RECORD must have a hash: all but the RECORD itself, its signatures, and bytecode."""
    return not file.path.endswith((".dist-info/RECORD", ".dist-info/RECORD.jws", ".dist-info/RECORD.p7s", *exempt))


def one_distribution(tree: Tree, folder: str, name: str) -> tuple[Facts, list[Recorded]]:
    """Read one .dist-info or .egg-info."""
    place = f"{folder}/{name}"
    whole = (
        tree.text(f"{place}/METADATA", _METADATA_LIMIT)
        or tree.text(f"{place}/PKG-INFO", _METADATA_LIMIT)
        or (tree.text(place, _METADATA_LIMIT) if not tree.is_dir(place) else None)
    )
    head = email.parser.HeaderParser().parsestr(whole or "")
    guess = name.rsplit(".", 1)[0].split("-")
    origin = json_object(tree.text(f"{place}/direct_url.json"))
    editable = bool(origin.get("dir_info", {}).get("editable")) if isinstance(origin.get("dir_info"), dict) else False
    files = record_files(folder, tree.text(f"{place}/RECORD"))
    inside = sorted(
        {file.path[len(folder) + 1 :].split("/")[0] for file in files if file.path.startswith(f"{folder}/")}
    )
    facts: Facts = {
        "name": head.get("Name") or guess[0],
        "version": head.get("Version") or (guess[1] if len(guess) > 1 else ""),
        "location": folder,
        "metadata": name,
        "readable": whole is not None and bool(head.get("Version")),
        "installer": (tree.text(f"{place}/INSTALLER") or "").strip(),
        "editable": str(origin.get("url", "")).replace("file://", "") if editable else "",
        "requires": sorted(str(line) for line in head.get_all("Requires-Dist") or []),
        "modules": [
            entry for entry in inside if not entry.endswith((".dist-info", ".pth", ".egg-info", "__pycache__"))
        ],
        "record": {"files": len(files)} if files else None,
    }
    return facts, files


def record_files(folder: str, record: str | None) -> list[Recorded]:
    """Return the files of a RECORD as absolute paths, each with its hash where it has one (PEP 376, PEP 427)."""
    rows = csv.reader((record or "").replace("\0", "").splitlines())
    files = []
    try:
        for row in rows:
            if row and row[0]:
                size = int(row[2]) if len(row) > 2 and re.fullmatch("[0-9]{1,18}", row[2], re.ASCII) else None
                path = posixpath.normpath(posixpath.join(folder, row[0]))
                files.append(Recorded(path, row[1] if len(row) > 1 else "", size))
    except csv.Error:  # a field of more than 128 kB is no path
        return []
    return files


#: Files that a thread compares at a time: most are small, and handing out each takes longer than reading it.
_AT_A_TIME = 256


def are_files(tree: Tree, files: Sequence[Recorded]) -> dict[Recorded, bool | None]:
    """Return what `file_is` says of each file; hashing releases Python's lock, so there is a thread for each core."""
    parts = [files[start : start + _AT_A_TIME] for start in range(0, len(files), _AT_A_TIME)]
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        said = pool.map(lambda part: [file_is(tree, file) for file in part], parts)
        return dict(zip(files, (answer for part in said for answer in part)))


def file_is(tree: Tree, file: Recorded) -> bool | None:
    """Tell whether a file has the hash of a RECORD; None where the RECORD's hash is of a kind that proves nothing.

    A file that is missing counts as equal here, one that cannot be read does not.
    """
    method, _, wanted = file.digest.partition("=")
    if method not in ("sha256", "sha384", "sha512"):
        return None
    hasher = hashlib.new(method)
    place = tree.at(file.path)
    try:
        descriptor = open_regular(place)
    except OSError:
        return not os.path.isfile(place)
    try:
        if file.size is not None and os.fstat(descriptor).st_size != file.size:
            return False
        while block := os.read(descriptor, 1 << 20):
            hasher.update(block)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return hasher.digest() == urlsafe_bytes(wanted)


def urlsafe_bytes(text: str) -> bytes:
    """Decode base64 as RECORD files write it, without padding."""
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""


#: Top-level names that careless distributions install; nobody imports them.
_LITTER = ("test", "tests", "doc", "docs", "example", "examples", "benchmark", "benchmarks", "scripts")


def shared_files(tree: Tree, found: Sequence[Facts], files: Sequence[Sequence[Recorded]]) -> list[Facts]:
    """Return the pairs of distributions that write the same files with different contents.

    Equal files do no harm, and a namespace package of the old kind has an `__init__.py` in each of its distributions.
    """
    owners: dict[str, list[tuple[int, str]]] = {}
    for index, facts in enumerate(found):
        for path, digest, _ in [] if of_cann(facts) else files[index]:
            inner = path[len(facts["location"]) + 1 :]
            ours = path.startswith(facts["location"] + "/") and ("/" in inner or inner.endswith((".py", ".so")))
            if ours and inner.split("/")[0] not in _LITTER and ".dist-info/" not in path and not path.endswith(".pyc"):
                owners.setdefault(path, []).append((index, digest))
    pairs: dict[tuple[str, str], list[str]] = {}
    for path, claims in owners.items():
        names = sorted({canonical(found[index]["name"]) for index, _ in claims})
        if len(names) < 2 or (len({digest for _, digest in claims}) == 1 and claims[0][1]):
            continue
        if path.endswith("/__init__.py") and re.search(r"extend_path|declare_namespace", tree.text(path) or ""):
            continue
        pairs.setdefault((names[0], names[1]), []).append(path)
    return [
        {"owners": list(pair), "count": len(paths), "files": sorted(paths)[:FEW]}
        for pair, paths in sorted(pairs.items())
    ]


def module_owners(found: Sequence[Facts], files: Sequence[Sequence[Recorded]], image: Mapping[str, Any]) -> Facts:
    """Return, for each source's module, the distributions that hold a package of that name themselves."""
    owners: Facts = {}
    for source in image.get("sources", []):
        module = source.get("module", "")
        if not module:
            continue
        inner = module.replace(".", "/")
        owners[module] = sorted(
            {
                canonical(facts["name"])
                for index, facts in enumerate(found)
                for path, _, _ in files[index]
                if path in (f"{facts['location']}/{inner}/__init__.py", f"{facts['location']}/{inner}.py")
            }
        )
    return owners


CUDA_LIBRARY = re.compile(r"/lib(?:torch_cuda\w*|c10_cuda|cudart|cublas|cudnn|torch_hip)[.\w-]*\.so[.\d]*$")


def torch_facts(tree: Tree, found: Sequence[Facts], files: Sequence[Sequence[Recorded]]) -> Facts:
    """Return what torch was built for, from its files: CUDA libraries, the CUDA version it says, its C++ ABI.

    What lies in its folder of libraries counts whether or not its RECORD has it: that is where they are loaded from.
    """
    facts: Facts = {"cuda_files": [], "cuda_version": "", "cxx11_abi": None}
    for index, distribution in enumerate(found):
        if canonical(distribution["name"]) != "torch":
            continue
        folder = f"{distribution['location']}/torch/lib"
        there = [*(file.path for file in files[index]), *(f"{folder}/{name}" for name in tree.names(folder))]
        facts["cuda_files"] = sorted({path for path in there if CUDA_LIBRARY.search(path)})[:FEW]
        text = tree.text(f"{distribution['location']}/torch/version.py") or ""
        said = re.search(r"^cuda\s*(?::[^=]+)?=\s*['\"]([^'\"]+)", text, re.MULTILINE)
        facts["cuda_version"] = said.group(1) if said else ""
        facts["cxx11_abi"] = cxx11_abi(tree, f"{distribution['location']}/torch/lib/libc10.so")
        break
    return facts


def cxx11_abi(tree: Tree, library: str) -> bool | None:
    """Tell whether a C++ library was built with the new ABI: its names of std::string then hold `__cxx11`."""
    try:
        if not tree.is_file(library):
            return None
        with open(tree.at(library), "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return (data.find(b"__cxx11") >= 0) if data.find(b"GLIBCXX_") >= 0 else None
    except (OSError, ValueError):
        return None


def patch_facts(tree: Tree, folders: Sequence[str], image: Mapping[str, Any]) -> list[Facts]:
    """Return, for each patch of the pins, how often the old and the new text stand in the file."""
    facts = []
    for patch in image.get("patches", []):
        texts = [text for text in (tree.text(f"{folder}/{patch['file']}") for folder in folders) if text is not None]
        facts.append(
            {
                "distribution": patch["distribution"],
                "file": patch["file"],
                "found": bool(texts),
                "old": texts[0].count(patch["find"]) if texts else 0,
                "new": texts[0].count(patch["replace"]) if texts else 0,
            }
        )
    return facts
