"""Plans of real variants in a folder of the test's own, with a lock, and nothing that talks to an engine."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ascend_images.images.image_json import image_document
from ascend_images.images.network import DIRECT, Network
from ascend_images.images.plan import BuildPlan, Choices, Rendered, make_plan
from ascend_images.images.sources import LocalSource
from ascend_images.pins.lockfile import LockedPackage, LockFile, file_name, inputs_hash
from ascend_images.pins.model import Pins
from ascend_images.pins.platform import Arch
from ascend_images.pins.resolve import resolve
from ascend_images.pins.variant import Variant
from tests.pins_kit import committed

ROOT = Path(__file__).parents[3]
DOCKERFILE = "FROM scratch AS wheels\nFROM scratch AS lock\nFROM scratch AS facts\nFROM base AS cann\n"
DOCKERFILE += "FROM cann AS fetch\nFROM cann AS packages-base\nFROM fetch AS src-vllm\nFROM packages-base\n"
HASH = f"sha256:{'0' * 64}"

Plans = Callable[..., BuildPlan]


@cache
def pins() -> Pins:
    return committed()


@cache
def variant(name: str) -> Variant:
    return resolve(pins(), name)


def lock_of(one: Variant, arch: Arch, /, **changed: Any) -> LockFile:
    """A complete and current lock of one small package, with some fields changed."""
    lock = LockFile(
        variant=one.name,
        arch=arch,
        python=one.python,
        inputs=inputs_hash(one, arch),
        packages=(LockedPackage("six", "1.17.0", (HASH,)),),
    )
    return msgspec.structs.replace(lock, **changed)


@pytest.fixture
def plan_of(tmp_path: Path) -> Plans:
    """Makes a plan of a variant; its lock lies in `locks/` unless `lock` is None."""

    def make(
        name: str | Variant = "a2",
        arch: Arch = Arch.AMD64,
        *,
        text: str = DOCKERFILE,
        choices: Choices | None = None,
        contexts: Mapping[str, str] | None = None,
        sources: tuple[LocalSource, ...] = (),
        network: Network = DIRECT,
        lock: Mapping[str, Any] | None = {},
        facts: Path | None = None,
        suffix: str = "",
    ) -> BuildPlan:
        one = variant(name) if isinstance(name, str) else name
        file = tmp_path / "dockerfiles" / "rendered" / f"{one.name}.Dockerfile"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if lock is not None:
            (tmp_path / "locks").mkdir(exist_ok=True)
            (tmp_path / "locks" / file_name(one.name, arch)).write_text(str(lock_of(one, arch, **lock)))
        return make_plan(
            one,
            arch,
            root=tmp_path,
            rendered=Rendered(file=file, text=text, image=image_document(one), facts=facts),
            choices=choices or Choices(),
            contexts=contexts,
            sources=sources,
            network=network,
            suffix=suffix,
        )

    return make
