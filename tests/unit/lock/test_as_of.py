"""Packages as of a day: every exact pin that came later is told at once, with the first day that would do."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ascend_images.errors import BadInput
from ascend_images.lock.lock import lock_variant
from ascend_images.pins.model import Index
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant
from tests.lock_kit import FakeIndex, means, source, variant

DAY = date(2026, 1, 31)
ARM, X86 = "cp312-cp312-manylinux_2_28_aarch64", "cp312-cp312-manylinux_2_28_x86_64"
CPU = "https://cpu.example/whl"


def index() -> FakeIndex:
    made = FakeIndex().add("numpy==1.26.4", published=date(2024, 2, 5))
    made.add("protobuf==6.33.6", published=date(2026, 3, 18))
    return made.add("xgrammar==0.2.9", tag=ARM, published=date(2026, 11, 9)).add(
        "xgrammar==0.2.9", tag=X86, published=date(2026, 11, 10)
    )


def lock(one: Variant, made: FakeIndex, tmp_path: Path, day: date | None = DAY, **folders: Path) -> Any:
    return lock_variant(one, tuple(Arch), folders, replace(means(made, tmp_path), as_of=day))


PINS = {"numpy": "1.26.4", "protobuf": "6.33.6", "xgrammar": "0.2.9"}


def test_all_pins_that_came_later_are_told_at_once_with_the_day_that_would_do(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as failure:
        lock(variant(PINS), index(), tmp_path)
    assert failure.value.found == (
        "pins younger than 2026-01-31: protobuf 6.33.6 (2026-03-18), xgrammar 0.2.9 (2026-11-10)"
    )
    assert failure.value.wanted == "--as-of 2026-11-10 or later, or older pins"
    assert failure.value.do == "the same again with --as-of 2026-11-10"
    assert lock(variant(PINS), index(), tmp_path, date(2026, 11, 10)), "that day will do"
    assert lock(variant(PINS), index(), tmp_path, None), "without a day nobody asks when"


def test_what_sources_and_pinned_packages_ask_for_in_one_version_counts_as_well(tmp_path: Path) -> None:
    (tmp_path / "vllm/.git").mkdir(parents=True)
    (tmp_path / "vllm/vllm").mkdir()
    one = variant({"app": "1"}, sources=(source("vllm", "1.0", "protobuf==6.33.6"),))
    made = index().add("app==1", "xgrammar==0.2.9", published=DAY).add("setuptools==80", published=DAY)
    with pytest.raises(BadInput) as failure:
        lock(one, made, tmp_path, vllm=tmp_path / "vllm")
    assert failure.value.found == (
        "pins younger than 2026-01-31: protobuf 6.33.6 (2026-03-18; vllm 1.0 asks for it), "
        "xgrammar 0.2.9 (2026-11-10; app 1 asks for it)"
    )


def test_a_file_of_that_day_is_enough_and_ranges_are_the_resolvers(tmp_path: Path) -> None:
    made = index().add("protobuf==6.33.6", published=DAY)
    assert lock(variant({"protobuf": "6.33.6", "numpy": ">=1"}), made, tmp_path)


def test_an_index_that_says_no_dates_is_told_as_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as failure:
        lock(variant({"numpy": "1.26.4", "six": "1"}), index().add("six==1"), tmp_path)
    assert failure.value.found == (
        "the index does not say when these were published, so nothing is known of 2026-01-31: six 1"
    )


def test_a_named_index_is_asked_as_it_is(tmp_path: Path) -> None:
    made = FakeIndex().add("torch==2.9.0", tag=ARM, published=DAY).add("torch==2.9.0+cpu", tag=X86, index=CPU)
    bound = {"cpu": Index(url=CPU, serves=("torch; platform_machine == 'x86_64'",))}
    assert lock(variant({"torch": "2.9.0"}, indexes=bound), made, tmp_path)
