"""Contradictions of the real stacks, found against the real index: each is told by who asked, and what would lift it.

The sources are read from checkouts that hold the requirement lists of tests/data/upstream.
"""

import re
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from ascend_images.errors import BadInput
from ascend_images.lock.lock import lock_variant
from ascend_images.pins.model import Relax
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant
from ascend_images.selection import select
from tests.upstream import folder_name, make_checkout

pytestmark = [pytest.mark.e2e, pytest.mark.network]

ROOT = Path(__file__).parents[2]
#: One variant for each stack.
STACKS = {variant.stack: variant for variant in select(ROOT, everything=True).variants}
RELAXED = [(stack, index) for stack, variant in STACKS.items() for index in range(len(variant.relax))]

#: A pin that contradicts what a source or distribution of the stack asks for: stack, package, version, who asks.
PLANTED = [
    ("ms-swift", "protobuf", "6.31.0", "vllm 0.23.0+empty"),
    ("ms-swift-cann8.5", "transformers", "5.0.0", "vllm 0.18.0+empty"),
    ("ms-swift-310p", "fastapi", "0.130.0", "vllm-ascend 0.23.0"),
    ("verl-qwen3.5", "tensordict", "0.11.0", "verl"),
    ("verl", "transformers", "5.15.0", "verl 0.9.0"),
]


@pytest.fixture(scope="module")
def checkouts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the checkouts of every source at every ref; return their folder."""
    folder = tmp_path_factory.mktemp("upstream")
    for variant in STACKS.values():
        for source in variant.sources:
            if not (folder / folder_name(source)).exists():
                make_checkout(source, folder / folder_name(source))
    return folder


def refused(variant: Variant, checkouts: Path, relax: Sequence[Relax]) -> str:
    sources = {source.name: checkouts / folder_name(source) for source in variant.sources}
    with pytest.raises(BadInput) as caught:
        lock_variant(msgspec.structs.replace(variant, relax=tuple(relax)), [Arch.ARM64], sources)
    return str(caught.value)


@pytest.mark.parametrize(("stack", "index"), RELAXED, ids=lambda value: str(value))
def test_without_any_one_relaxation_the_lock_fails_and_names_who_asked(stack: str, index: int, checkouts: Path) -> None:
    variant = STACKS[stack]
    lifted = variant.relax[index]
    message = refused(variant, checkouts, [relax for relax in variant.relax if relax is not lifted])
    package = re.split(r"[<>=!~]", lifted.demand)[0]
    assert re.search(rf"^  {re.escape(lifted.whose)} \S+ asks for {re.escape(package)}", message, re.MULTILINE)
    assert f'whose = "{lifted.whose}"' in message
    assert f'demand = "{package}' in message


def test_every_stack_has_a_contradiction_planted() -> None:
    assert {stack for stack, *_ in PLANTED} == set(STACKS)


@pytest.mark.parametrize(("stack", "package", "version", "who"), PLANTED)
def test_a_planted_contradiction_is_explained(
    stack: str, package: str, version: str, who: str, checkouts: Path
) -> None:
    variant = STACKS[stack]
    planted = msgspec.structs.replace(variant, packages={**variant.packages, package: version})
    start = time.monotonic()
    message = refused(planted, checkouts, variant.relax)
    assert f"{package} is pinned to {version} (versions.toml " in message
    assert f"{who} asks for {package}" in message or f"{who} 0 asks for {package}" in message
    # Not a measure of speed: it is found before anything is resolved, so it cannot take as long as that.
    assert time.monotonic() - start < 60


def test_a_relaxation_that_lifts_nothing_is_refused_with_what_there_is(checkouts: Path) -> None:
    variant = STACKS["ms-swift"]
    message = refused(variant, checkouts, [*variant.relax, Relax(whose="vllm", demand="numpy<2", reason="x")])
    assert "numpy" in message
    assert "vllm" in message
