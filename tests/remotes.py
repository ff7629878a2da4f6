"""Git hosts, registries and file servers made of a few lines, and variants that ask them for something."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import msgspec

from ascend_images.lock.digests import Digests
from ascend_images.lock.git import Refs, Tag
from ascend_images.lock.reach import NotThereError, UnreachableError
from ascend_images.lock.run_files import Downloaded
from ascend_images.lock.versions import Hosts
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Checkout, RunFile, Variant
from ascend_images.pins.versions_lock import LockedBase, LockedRef, LockedRun, Submodule
from tests.lock_kit import source, variant

TODAY = date(2026, 11, 30)
BEFORE = date(2026, 10, 1)
IMAGE = "quay.io/ascend/cann:9.1.0-910b-ubuntu22.04-py3.12"


def commit(letter: str) -> str:
    """Return a commit that is easy to tell from others."""
    return letter * 40


def sha(letter: str) -> str:
    return letter * 64


def digest(letter: str) -> str:
    return f"sha256:{sha(letter)}"


@dataclass
class FakeGit:
    """Repositories in memory. `down` says why some give no answer; `loose` are commits that no ref leads to."""

    tags: dict[str, dict[str, Tag]] = field(default_factory=dict)
    branches: dict[str, dict[str, str]] = field(default_factory=dict)
    loose: set[str] = field(default_factory=set)
    tag_objects: dict[str, str] = field(default_factory=dict)
    holds: dict[str, tuple[Submodule, ...]] = field(default_factory=dict)
    down: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def tag(self, repository: str, name: str, at: str, *, annotated: bool = False) -> None:
        self.tags.setdefault(repository, {})[name] = Tag(at, annotated)

    def branch(self, repository: str, name: str, at: str) -> None:
        self.branches.setdefault(repository, {})[name] = at

    def refs(self, repository: str) -> Refs:
        self._ask("refs", repository)
        return Refs(self.tags.get(repository, {}), self.branches.get(repository, {}))

    def fetched(self, repository: str, object_id: str) -> str:
        self._ask("fetched", repository, object_id)
        if object_id in self.tag_objects:
            return self.tag_objects[object_id]
        there = {tag.commit for tag in self.tags.get(repository, {}).values()}
        there |= {*self.branches.get(repository, {}).values(), *self.loose}
        return object_id if object_id in there else ""

    def submodules(self, repository: str, commit: str) -> tuple[Submodule, ...]:
        self._ask("submodules", repository, commit)
        if f"{repository} {commit}" in self.down:
            raise UnreachableError(self.down[f"{repository} {commit}"])
        return self.holds.get(commit, ())

    def _ask(self, *question: str) -> None:
        self.asked.append(question)
        if question[1] in self.down:
            raise UnreachableError(self.down[question[1]])


@dataclass
class FakeImages:
    """A registry in memory: what each name or `name@digest` means."""

    there: dict[str, Digests] = field(default_factory=dict)
    down: dict[str, str] = field(default_factory=dict)

    def add(self, image: str, index: str, **platforms: str) -> None:
        made = Digests(index, {f"linux/{arch}": value for arch, value in platforms.items()})
        self.there[image] = made
        self.there[f"{image.rpartition(':')[0]}@{made.digest}"] = made

    def digests(self, image: str) -> Digests:
        if image in self.down:
            raise UnreachableError(self.down[image])
        if image not in self.there:
            raise NotThereError("not found in the registry")
        return self.there[image]


@dataclass
class FakeFiles:
    """A file server in memory: checksum and size by address; None for a size is a server that does not say."""

    there: dict[str, Downloaded] = field(default_factory=dict)
    sizes: dict[str, int | None] = field(default_factory=dict)
    down: dict[str, str] = field(default_factory=dict)
    downloaded: list[str] = field(default_factory=list)

    def size(self, url: str) -> int | None:
        return self.sizes.get(url, self._get(url).bytes)

    def download(self, url: str) -> Downloaded:
        self.downloaded.append(url)
        return self._get(url)

    def _get(self, url: str) -> Downloaded:
        if url in self.down:
            raise UnreachableError(self.down[url])
        if url not in self.there:
            raise NotThereError("not found on the server (HTTP 404)")
        return self.there[url]


def hosts(git: FakeGit | None = None, images: FakeImages | None = None, files: FakeFiles | None = None) -> Hosts:
    return Hosts(git=git or FakeGit(), images=images or FakeImages(), files=files or FakeFiles())


def repository(name: str) -> str:
    return f"https://example.invalid/{name}"


def asking(name: str = "vllm", ref: str = "v1", **fields: Any) -> Checkout:
    """Return a source that asks for a ref."""
    return source(name, "1.0", ref=ref, **fields)


def run_file(file: str, arch: Arch = Arch.AMD64, sha256: str = "") -> RunFile:
    return RunFile(part="toolkit", arch=arch, url=f"https://example.invalid/{file}", file=file, sha256=sha256)


def wanting(*sources: Checkout, runs: tuple[RunFile, ...] = (), **fields: Any) -> Variant:
    """Return a variant that asks for these sources and files, and for IMAGE unless another is named."""
    return variant({}, sources=sources, runs=runs, **{"base_image": IMAGE, **fields})


def locked_ref(name: str = "vllm", ref: str = "v1", at: str = "a", kind: str = "tag", **fields: Any) -> LockedRef:
    how = fields.pop("how", "git fetch" if kind == "commit" else "git ls-remote")
    entry = {"repository": repository(name), "ref": ref, "kind": kind, "commit": commit(at), "how": how}
    return msgspec.convert({**entry, "learned": BEFORE, **fields}, LockedRef)


def locked_base(image: str = IMAGE, index: str = "1", platforms: Mapping[str, str] | None = None) -> LockedBase:
    digests = platforms or {"linux/amd64": digest("2"), "linux/arm64": digest("3")}
    return LockedBase(
        image=image, index=digest(index) if index else "", platforms=dict(digests), learned=BEFORE,
        how="docker buildx imagetools inspect",
    )  # fmt: skip


def locked_run(file: str = "toolkit.run", at: str = "a", size: int = 7) -> LockedRun:
    return LockedRun(
        url=f"https://example.invalid/{file}", sha256=sha(at), bytes=size, learned=BEFORE, how="a download"
    )
