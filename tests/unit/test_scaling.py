"""The simulation behind docs/scaling.md: its tables stand there, and what it says holds together."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests import simulate_scaling
from tests.simulate_scaling import BUILDERS, JOBS, Result, Setting, images, simulate

PAGE = Path(__file__).parents[2] / "docs" / "scaling.md"


@cache
def result(builders: int, affinity: bool, cached: bool) -> Result:
    return simulate(Setting(builders=builders, affinity=affinity, cache=cached))


def test_the_page_has_the_tables_that_the_simulation_prints(golden: Callable[[str, str], None]) -> None:
    text = simulate_scaling.tables()
    golden("scaling.md", text)
    assert text in PAGE.read_text(encoding="utf-8"), "type: python -m tests.simulate_scaling, and put it there"


def test_a_second_run_says_the_same() -> None:
    setting = Setting(builders=8)
    assert simulate(setting) == simulate(setting)


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("affinity", [False, True])
def test_twice_the_builders_are_never_slower(affinity: bool, cached: bool) -> None:
    times = [result(number, affinity, cached).seconds for number in BUILDERS]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("cached", [False, True])
def test_builders_that_go_on_with_what_they_have_pull_less(cached: bool) -> None:
    for number in BUILDERS:
        assert result(number, True, cached).pulled <= result(number, False, cached).pulled


@pytest.mark.parametrize("builders", BUILDERS)
def test_every_image_is_built_once_on_a_machine_of_its_architecture_and_no_builder_has_too_many(builders: int) -> None:
    runs = result(builders, True, False).runs
    assert sorted(name for name, *_ in runs) == sorted(image.name for image in images())
    arches = {one.name: one.natives for one in simulate_scaling.builders(builders)}
    assert all(f"linux/{name.rpartition('-')[2]}" in arches[place] for name, place, *_ in runs)
    for builder in arches:
        ends = sorted(
            [(began, 1) for _, place, began, _ in runs if place == builder]
            + [(ended, -1) for _, place, _, ended in runs if place == builder]
        )
        there = 0
        for _, change in ends:
            there += change
            assert there <= JOBS


def test_one_image_takes_what_the_figures_say() -> None:
    """Base, packages, sources and the way to the registry, one after the other."""
    s = simulate_scaling
    base = s.BASE_GB / s.LINK_GB_PER_SECOND + s.BASE_GB / s.UNPACK_GB_PER_SECOND
    packages = s.INSTALL_SECONDS + s.PACK_SECONDS
    push = (s.PACKAGES_GB + s.SOURCES_GB) / s.LINK_GB_PER_SECOND
    found = simulate(Setting(builders=1), images()[:1])
    assert found.seconds == pytest.approx(base + packages + s.SOURCES * s.SOURCE_SECONDS + push)
    assert (found.pulled, found.installs) == (s.BASE_GB, 1)
