"""What must be built, as a matrix for CI: one entry for each variant and architecture, with the runner it takes."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ascend_images.errors import BadInput
from ascend_images.files import read_regular
from ascend_images.images.rendered import dockerfile_path, image_json_path
from ascend_images.pins.lockfile import file_name
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant
from ascend_images.pins.versions_lock import FILE as VERSIONS_LOCK
from ascend_images.pins.versions_lock import VersionsLock
from ascend_images.project_git import commit_of, committed

#: GitHub's own runners by architecture (docs.github.com, "Choosing the runner for a job"): each builds natively.
RUNNERS: Mapping[Arch, str] = {Arch.AMD64: "ubuntu-24.04", Arch.ARM64: "ubuntu-24.04-arm"}


def npu_labels(variant: Variant) -> list[str]:
    """Return the labels of a self-hosted runner whose NPUs a variant is for."""
    return ["self-hosted", "linux", f"ascend-{variant.hardware}"]


def matrix(
    variants: Iterable[Variant], runners: Mapping[Arch, str | list[str]] = RUNNERS
) -> dict[str, list[dict[str, Any]]]:
    """Return a matrix as GitHub takes it: `include`, one entry a build."""
    return {
        "include": [
            {
                "variant": variant.name,
                "arch": arch.value,
                "platform": arch.platform,
                "runner": runners[arch],
                "npu": npu_labels(variant),
            }
            for variant in variants
            for arch in variant.platforms
        ]
    }


def changed_since(root: Path, revision: str, variants: Sequence[Variant]) -> list[Variant]:
    """Return the variants whose rendered file, lock or base digest is another than at a revision, in their order.

    Every architecture of such a variant is built: its images must be of the same pins. Raises BadInput for a revision
    that is not there, MissingTool where git cannot tell.
    """
    commit = commit_of(root, revision)
    if not commit:
        raise BadInput(
            f"--changed-since {revision}: no such commit here",
            wanted="a commit, branch or tag",
            do="git fetch --unshallow, where the history is cut off",
        )
    before = _lock(committed(root, commit, VERSIONS_LOCK))
    now = _lock(_content(root / VERSIONS_LOCK))
    return [
        variant
        for variant in variants
        if _base(before, variant) != _base(now, variant)
        or any(_content(root / path) != committed(root, commit, path) for path in _files(variant))
    ]


def _files(variant: Variant) -> list[str]:
    """Return the paths, below the root, of what is built."""
    here = Path()
    rendered = [dockerfile_path(here, variant.name), image_json_path(here, variant.name)]
    return [
        *(path.as_posix() for path in rendered),
        *(f"locks/{file_name(variant.name, arch)}" for arch in variant.platforms),
    ]


def _base(lock: VersionsLock, variant: Variant) -> str:
    entry = lock.base_image(variant.base_image)
    return str(dict(sorted(entry.platforms.items()))) if entry else ""


def _lock(content: bytes | None) -> VersionsLock:
    return VersionsLock.parse(content.decode(errors="replace")) if content else VersionsLock()


def _content(path: Path) -> bytes | None:
    try:
        return read_regular(path)
    except OSError:
        return None
