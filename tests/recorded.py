"""The package index as it was when the committed locks were made, as far as they need it, and nothing more.

`tests/data/metadata/index.jsonl` holds one line a release: the files that fit an image, their checksums, and what they
ask for (extras that nobody takes left out). `python -m tests.recorded DIR` records it anew for the locks in `locks/`,
from the real index, with checkouts in DIR (see tests/upstream.py).
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ascend_images.lock.components import asked, asked_extras
from ascend_images.lock.demands import met
from ascend_images.lock.distributions import Distribution
from ascend_images.lock.lock import known_locks
from ascend_images.lock.means import Means, usual_means
from ascend_images.lock.metadata import Metadata
from ascend_images.lock.release import File, IndexUnreachableError, Packages, Release, normal_version
from ascend_images.lock.resolver import Question, UnresolvableError
from ascend_images.lock.solve import Solved, look, solve
from ascend_images.lock.sources import read_demands
from ascend_images.pins.lockfile import LockFile
from ascend_images.pins.platform import Arch
from ascend_images.pins.resolve import resolve_all
from ascend_images.pins.variant import Variant
from tests.lock_kit import ROOT, pins
from tests.upstream import checkouts

INDEX = ROOT / "tests/data/metadata/index.jsonl"
LOCKS = ROOT / "locks"
UNREACHED = "its host name is not known here"


@dataclass
class Recorded:
    """Answers of the default index from the record; every other index is out of reach, as it was then."""

    releases: Mapping[tuple[str, str], Release]
    asks: Mapping[str, Metadata]

    def release(self, name: str, version: str, index: str | None = None) -> Release | None:
        if index:
            raise IndexUnreachableError(UNREACHED)
        return self.releases.get((name, normal_version(version)))

    def renewed(self, name: str, version: str, index: str | None = None) -> Release | None:
        return self.release(name, version, index)

    def probe(self, index: str, name: str) -> None:
        raise IndexUnreachableError(UNREACHED)

    def metadata(self, file: File) -> Metadata:
        return self.asks[file.filename]

    def sha256(self, file: File) -> str:
        return file.sha256


@dataclass(frozen=True)
class FromLocks:
    """A resolver that knows the committed locks, and refuses a question which they are no answer to."""

    locks: Mapping[Arch, LockFile]

    def resolve(self, question: Question) -> dict[str, str]:
        given = {str(canonicalize_name(placeholder.name)): placeholder for placeholder in question.given}
        found = {**self.locks[question.target.arch].versions, **{name: one.version for name, one in given.items()}}
        wrong = [str(one) for one in self._demands(question) if not self._is_met(one, found, question)]
        wrong += [f"excluded: {name}" for name in found.keys() & question.exclude]
        if wrong:
            raise UnresolvableError("\n".join(wrong))
        return found

    @staticmethod
    def _demands(question: Question) -> list[Requirement]:
        asked_of_given = [requirement for placeholder in question.given for requirement in placeholder.requires]
        asked_otherwise = [requirement for metadata in question.metadata.values() for requirement in metadata.requires]
        return [*question.pins, *question.extra, *asked_of_given, *asked_otherwise]

    @staticmethod
    def _is_met(requirement: Requirement, found: Mapping[str, str], question: Question) -> bool:
        name = str(canonicalize_name(requirement.name))
        if name in question.exclude or not question.target.holds(requirement.marker):
            return True
        return name in found and met(requirement, found[name])


@cache
def recorded() -> Recorded:
    """Return the recorded index."""
    releases, asks = {}, {}
    for line in INDEX.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        files = []
        for filename, sha256, number in entry["files"]:
            file = File(filename, f"https://example.invalid/{filename}", sha256, wheel=filename.endswith(".whl"))
            files.append(file)
            asks[filename] = _metadata(entry["metadata"][number])
        releases[entry["name"], entry["version"]] = Release(entry["name"], entry["version"], tuple(files))
    return Recorded(releases, asks)


def recorded_means(variant: Variant, cache: Path) -> Means:
    """Return the means to lock a variant from what was recorded."""
    return Means(packages=recorded(), resolver=FromLocks(known_locks(variant, LOCKS)), cache=cache)


def _metadata(entry: Mapping[str, Any]) -> Metadata:
    return Metadata(
        requires=tuple(map(Requirement, entry.get("requires", ()))),
        requires_python=entry.get("python", ""),
        extras=tuple(entry.get("extras", ())),
        build=tuple(map(Requirement, entry.get("build", ()))),
        known=entry.get("known", True),
    )


@dataclass
class _Recorder:
    """Collects what locking asks of an index."""

    packages: Packages
    releases: dict[tuple[str, str], dict[str, tuple[File, Metadata]]] = field(default_factory=dict)
    extras: dict[str, set[str]] = field(default_factory=dict)

    def take(self, solved: Solved) -> None:
        target = solved.asked.target
        everyone = (*solved.asked.sources, *solved.components)
        for name, names in asked_extras(everyone, target).items():
            self.extras.setdefault(name, set()).update(names)
        for known in solved.distributions.values():
            self._take(known, solved)

    def _take(self, known: Distribution, solved: Solved) -> None:
        release = known.release
        if release is None:
            # What is not known of "+cpu" is taken from its namesake.
            release = self.packages.release(known.name, known.version.partition("+")[0])
        if release is None:
            return
        kept = self.releases.setdefault((release.name, normal_version(release.version)), {})
        for file in release.usable(solved.asked.target):
            if file.filename not in kept:
                kept[file.filename] = file, self.packages.metadata(file)

    def lines(self) -> list[str]:
        return [self._line(*key, files) for key, files in sorted(self.releases.items())]

    def _line(self, name: str, version: str, files: Mapping[str, tuple[File, Metadata]]) -> str:
        told: list[dict[str, Any]] = []
        rows = []
        for filename, (file, metadata) in sorted(files.items()):
            entry = self._entry(name, metadata, sdist=not file.wheel)
            if entry not in told:
                told.append(entry)
            rows.append([filename, file.sha256, told.index(entry)])
        return json.dumps({"name": name, "version": version, "files": rows, "metadata": told}, separators=(",", ":"))

    def _entry(self, name: str, metadata: Metadata, *, sdist: bool) -> dict[str, Any]:
        extras = sorted(extra for extra in metadata.extras if extra in self.extras.get(name, ()))
        entry: dict[str, Any] = {
            "requires": [str(line) for line in metadata.requires if _counts(line, extras)],
            "python": metadata.requires_python,
            "extras": extras,
            "build": [str(line) for line in metadata.build] if sdist else [],
        }
        if not metadata.known:
            entry["known"] = False
        return {key: value for key, value in entry.items() if value or key == "known"}


def _counts(requirement: Requirement, extras: list[str]) -> bool:
    """Tell whether a line can ever count: those of extras that nobody asks for are most of them."""
    text = str(requirement.marker or "")
    return "extra" not in text or any(f'"{extra}"' in text for extra in extras)


def main() -> None:
    """Record the index for the committed locks."""
    parser = argparse.ArgumentParser(description="Record the package index for the committed locks.")
    parser.add_argument("folder", type=Path, help="where the checkouts of tests/upstream.py lie")
    where = parser.parse_args().folder.resolve()
    variants = resolve_all(pins())
    folders = checkouts(variants, where)
    usual = usual_means()
    recorder = _Recorder(usual.packages)
    for variant in variants:
        demands = read_demands(variant, folders[variant.name], usual.cache, {})
        means = replace(usual, resolver=FromLocks(known_locks(variant, LOCKS)))
        for arch in variant.platforms:
            recorder.take(solve(look(asked(variant, arch, demands), means), means, {}, {}))
    INDEX.parent.mkdir(parents=True, exist_ok=True)
    INDEX.write_text("\n".join(recorder.lines()) + "\n", encoding="utf-8")
    print(f"{INDEX}: {len(recorder.releases)} releases")


if __name__ == "__main__":
    main()
