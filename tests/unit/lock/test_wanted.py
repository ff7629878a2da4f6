"""Who wants a package of a lock: each demand with its place, lifted ones with their reason, once for all that agree."""

from pathlib import Path

import pytest

from ascend_images.errors import BadInput
from ascend_images.lock.lock import lock_variant
from ascend_images.lock.wanted import wanted, wanted_text
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant
from tests.lock_kit import FakeIndex, means, relax, source, variant

BOTH = (Arch.AMD64, Arch.ARM64)


def index() -> FakeIndex:
    made = FakeIndex().add("app==1", "numpy<2", 'decord; platform_machine == "x86_64"').add("numpy==1.26.4")
    return made.add("decord==0.6", "numpy").add("opencv==4.13", "numpy>=2").add("loner==1").add("setuptools==80")


PINS = {"app": "1", "numpy": "1.26.4", "opencv": "4.13", "loner": "1"}
ONE = variant(PINS, relax=(relax("opencv", "numpy>=2"),), exclude={"triton": "another has its folder"})


def told(package: str, tmp_path: Path, one: Variant = ONE) -> str:
    made = means(index(), tmp_path)
    folders = {}
    for each in one.sources:
        folders[each.name] = tmp_path / each.name
        (folders[each.name] / ".git").mkdir(parents=True)
        (folders[each.name] / each.module).mkdir()
    locks = lock_variant(one, BOTH, folders, made)
    return wanted_text(wanted(one, locks, package, folders, made))


def test_every_demand_is_told_with_its_place_and_a_lifted_one_with_its_reason(tmp_path: Path) -> None:
    assert told("NumPy", tmp_path).splitlines() == [
        "small amd64: numpy: 1.26.4, pinned numpy==1.26.4 (versions.toml stack.small.packages)",
        "  app 1 asks for numpy<2 (its own metadata)",
        "  decord 0.6 asks for numpy (its own metadata)",
        '  opencv 4.13 asks for numpy>=2 (its own metadata); "numpy>=2" is lifted: seen to work',
        "small arm64: numpy: 1.26.4, pinned numpy==1.26.4 (versions.toml stack.small.packages)",
        "  app 1 asks for numpy<2 (its own metadata)",
        '  opencv 4.13 asks for numpy>=2 (its own metadata); "numpy>=2" is lifted: seen to work',
    ]


def test_what_is_wanted_on_one_architecture_is_told_for_that_alone(tmp_path: Path) -> None:
    assert told("decord", tmp_path).splitlines() == [
        "small amd64: decord: 0.6",
        "  app 1 asks for decord (its own metadata)",
    ]


def test_a_package_that_only_a_pin_wants_is_told_once_for_both(tmp_path: Path) -> None:
    assert told("loner", tmp_path).splitlines() == [
        "small amd64 and arm64: loner: 1, pinned loner==1 (versions.toml stack.small.packages)",
        "  nothing asks for it",
    ]


def test_what_is_never_installed_and_what_is_a_source_are_told_as_that(tmp_path: Path) -> None:
    vllm = source("vllm", "0.23.0", "numpy", "triton")
    one = variant(PINS, relax=ONE.relax, exclude=ONE.exclude, sources=(vllm,))
    assert told("triton", tmp_path / "a", one).splitlines() == [
        "small amd64 and arm64: triton: never installed: another has its folder (versions.toml stack.small.exclude)",
        "  vllm 0.23.0 asks for triton (versions.toml sources.vllm.declares)",
    ]
    assert "vllm 0.23.0 is a source" in told("vllm", tmp_path / "b", one)


def test_a_name_of_nothing_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match='no package "numpi"') as failure:
        told("numpi", tmp_path)
    assert failure.value.wanted == 'did you mean "numpy"?'
