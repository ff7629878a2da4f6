"""What the tests of locks share: an index made of a few lines, variants made of a few pins, a resolver that knows."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from ascend_images.lock.means import Means
from ascend_images.lock.metadata import Metadata
from ascend_images.lock.release import File, IndexUnreachableError, Release
from ascend_images.lock.resolver import Question
from ascend_images.pins.model import Pins, Relax
from ascend_images.pins.resolve import resolve
from ascend_images.pins.variant import Checkout, Variant
from tests.pins_kit import committed

ROOT = Path(__file__).parents[1]
#: The default index, and the ones a variant may name.
DEFAULT = ""


@cache
def pins() -> Pins:
    return committed()


@cache
def real(name: str) -> Variant:
    return resolve(pins(), name)


def variant(packages: Mapping[str, str], **fields: Any) -> Variant:
    """Return a variant of these packages and nothing else but `fields`: CANN 9.1.0, Python 3.12."""
    nothing: dict[str, Any] = {
        "name": "small", "stack": "small", "sources": (), "relax": (), "exclude": {}, "no_dependencies": {},
        "metadata": (), "indexes": {}, "python": "3.12", "cann": "9.9.0",
    }  # fmt: skip
    return msgspec.structs.replace(real("a2"), packages=dict(packages), **{**nothing, **fields})


def source(name: str, version: str = "1.0", *declares: str, **fields: Any) -> Checkout:
    given: dict[str, Any] = {
        "git": f"https://example.invalid/{name}", "ref": "v1", "path": f"/{name}", "module": name.replace("-", "_"),
        "distribution": name, "declares": declares,
    }  # fmt: skip
    return Checkout(name=name, version=version, **{**given, **fields})


def relax(whose: str, demand: str, reason: str = "seen to work") -> Relax:
    return Relax(whose=whose, demand=demand, reason=reason)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class FakeIndex:
    """An index in memory: `add` its distributions; `down` are indexes that give no answer."""

    down: set[str] = field(default_factory=set)
    releases: dict[tuple[str, str, str], list[File]] = field(default_factory=dict)
    asks: dict[str, Metadata] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def add(
        self,
        pin: str,
        *requires: str,
        tag: str = "py3-none-any",
        sdist: bool = False,
        index: str = DEFAULT,
        build: Sequence[str] = (),
        known: bool = True,
        requires_python: str = "",
        extras: Sequence[str] = (),
        published: date | None = None,
    ) -> "FakeIndex":
        written, _, version = pin.partition("==")
        name = str(canonicalize_name(written))
        stem = f"{name.replace('-', '_')}-{version}"
        filename = f"{stem}.tar.gz" if sdist else f"{stem}-{tag}.whl"
        file = File(
            filename, f"https://example.invalid/{filename}", digest(index + filename), not sdist, published=published
        )
        self.releases.setdefault((index, name, version), []).append(file)
        self.asks[file.sha256] = Metadata(
            requires=tuple(map(Requirement, requires)),
            requires_python=requires_python,
            extras=tuple(extras),
            build=tuple(map(Requirement, build)),
            known=known,
        )
        return self

    def release(self, name: str, version: str, index: str | None = None) -> Release | None:
        self.asked.append((index or DEFAULT, name))
        if (index or DEFAULT) in self.down:
            raise IndexUnreachableError("no answer in time")
        files = self.releases.get((index or DEFAULT, name, version))
        return Release(name, version, tuple(files)) if files else None

    def renewed(self, name: str, version: str, index: str | None = None) -> Release | None:
        return self.release(name, version, index)

    def probe(self, index: str, name: str) -> None:
        self.release(name, "0", index)

    def metadata(self, file: File) -> Metadata:
        return self.asks[file.sha256]

    def sha256(self, file: File) -> str:
        return file.sha256


@dataclass
class Newest:
    """A resolver for small sets: the newest version that the demands met so far allow, without going back."""

    index: FakeIndex
    questions: list[Question] = field(default_factory=list)

    def resolve(self, question: Question) -> dict[str, str]:
        self.questions.append(question)
        target, found = question.target, {}
        given = {str(canonicalize_name(placeholder.name)): placeholder for placeholder in question.given}
        queue = [*question.pins, *question.extra]
        for name, placeholder in given.items():
            if name not in question.exclude:
                found[name] = placeholder.version
                queue += placeholder.requires
        while queue:
            requirement = queue.pop(0)
            name = str(canonicalize_name(requirement.name))
            if name in found or name in question.exclude or not target.holds(requirement.marker):
                continue
            version = question.constrained.get(name) or self._pick(name, requirement, question)
            found[name] = version
            known = question.metadata.get((name, version))
            queue += known.requires if known else self._requires(name, version, question)
        return found

    def _versions(self, name: str, question: Question) -> list[str]:
        index = question.bound.get(name, ("", DEFAULT))[1]
        return [
            version
            for (where, own, version), files in self.index.releases.items()
            if (where, own) == (index, name) and Release(name, version, tuple(files)).usable(question.target)
        ]

    def _pick(self, name: str, requirement: Requirement, question: Question) -> str:
        fitting = [version for version in self._versions(name, question) if requirement.specifier.contains(version)]
        pinned = [pin for pin in question.pins if pin.name == name]
        fitting = [version for version in fitting if all(pin.specifier.contains(version) for pin in pinned)]
        preferred = question.preferred.get(name)
        assert fitting, f"the test's index has nothing for {requirement}"
        return preferred if preferred in fitting else max(fitting, key=Version)

    def _requires(self, name: str, version: str, question: Question) -> Sequence[Requirement]:
        release = self.index.release(name, version, question.bound.get(name, ("", DEFAULT))[1])
        assert release is not None
        file = release.best_wheel(question.target) or release.sdist
        assert file is not None
        return self.index.metadata(file).requires


def means(index: FakeIndex, tmp_path: Path, say: Callable[[str], None] | None = None) -> Means:
    made = Means(packages=index, resolver=Newest(index), cache=tmp_path / "cache")
    return replace(made, say=say) if say else made
