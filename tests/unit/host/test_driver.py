"""Drivers against CANN: the versions' order, a table of lines and bounds, products with lines of their own."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.errors import BadInput
from ascend_images.host.driver import driver_text, judge, judge_firmware
from ascend_images.host.facts import HostFacts, Output
from ascend_images.pins.cann_version import ReleaseVersion
from ascend_images.pins.drivers import DriverRange
from ascend_images.pins.load import parse
from ascend_images.pins.model import Pins, Series
from tests.host_kit import sample
from tests.pins_kit import committed

ROOT = Path(__file__).parents[3]
PINS = committed()


def table(**series: Series) -> Pins:
    return msgspec.structs.replace(
        PINS, series={name.removeprefix("v").replace("_", "."): s for name, s in series.items()}
    )


BOUNDS = table(v8_0=Series(drivers=(">=24.1.rc2",)), v8_5=Series(drivers=(">=25.0.rc1",)))
HOSTS = {"A": "24.1.rc3", "B": "23.0.3", "C": "25.2.0", "D": "7.5.0.5.220-24.1.0.3", "E": ""}


@pytest.mark.parametrize(
    ("cann", "states"),
    [
        ("8.5.1", {"A": "unsupported", "B": "unsupported", "C": "supported", "D": "unsupported", "E": "unknown"}),
        ("8.0.RC3", {"A": "supported", "B": "unsupported", "C": "supported", "D": "supported", "E": "unknown"}),
        ("8.0.rc3", {"A": "supported", "B": "unsupported", "C": "supported", "D": "supported", "E": "unknown"}),
        ("7.0.0", dict.fromkeys("ABCDE", "unknown")),
        ("no version", dict.fromkeys("ABCDE", "unknown")),
    ],
)
def test_bounds(cann: str, states: dict[str, str]) -> None:
    assert {name: judge(cann, text, "A2", BOUNDS).state for name, text in HOSTS.items()} == states


def test_the_project_s_own_table_says_the_same_of_8_5() -> None:
    states = {name: judge("8.5.1", text, "A2", PINS).state for name, text in HOSTS.items()}
    assert states == {"A": "unsupported", "B": "unsupported", "C": "supported", "D": "unsupported", "E": "unknown"}


@pytest.mark.parametrize(
    ("cann", "driver", "state"),
    [
        ("9.1.0", "25.0.rc1.1", "unsupported"),
        ("9.1.0", "25.2.rc1", "supported"),
        ("9.1.0-beta.3", "25.5.1", "supported"),
        ("9.1.0", "26.1.0.b061", "supported"),
        ("9.1.0", "25.4.0", "unknown"),
        ("9.1.0", "27.0.rc1", "unknown"),
        ("9.0.1", "24.1.rc1.b030", "unsupported"),
        ("8.2.RC1", "24.1.rc1", "unsupported"),
        ("8.2.rc1", "24.1.rc3.7", "supported"),
        ("8.2.rc1", "25.2.1", "unknown"),
        ("8.1.rc1", "25.0.rc1", "unknown"),
        ("9.1.0", "not a version", "unknown"),
    ],
)
def test_lines_of_release_notes(cann: str, driver: str, state: str) -> None:
    verdict = judge(cann, driver, "A2", PINS)
    assert verdict.state == state
    assert driver in verdict.found
    assert verdict.why


@pytest.mark.parametrize(
    ("cann", "driver", "family", "state"),
    [
        ("9.1.0", "25.7.rc1", "950", "supported"),
        ("9.1.0", "25.1.rc1", "950", "supported"),
        ("9.1.0", "25.1.rc1", "A2", "unsupported"),
        ("9.1.0", "25.7.rc1", "A2", "unknown"),
        ("9.1.0", "26.1.0", "950", "unknown"),
        ("8.5.1", "25.7.rc1", "950", "unknown"),
        ("8.5.1", "26.1.0", "950", "unknown"),
        ("9.1.0", "26.1.0", "910", "supported"),
        ("9.1.0", "26.1.0", "unknown", "unknown"),
        ("9.1.0", "23.0.3", "unknown", "unsupported"),
        ("8.5.1", "25.2.0", "unknown", "supported"),
    ],
)
def test_a_product_with_lines_of_its_own_is_judged_by_them_alone(
    cann: str, driver: str, family: str, state: str
) -> None:
    assert judge(cann, driver, family, PINS).state == state


ORDER = ["23.0.3", "24.1.rc2", "24.1.rc3", "24.1.0", "24.1.0.3", "25.0.rc1", "25.0.rc1.1", "25.2.0"]


@pytest.mark.parametrize("upper", [False, True])
def test_a_bound_takes_itself_and_all_after_it(upper: bool) -> None:
    for place, bound in enumerate(ORDER):
        pins = table(v9_1=Series(drivers=(f">={bound}",)))
        states = [judge("9.1.0", one.upper() if upper else one, "A2", pins).state for one in ORDER]
        assert states == ["unsupported"] * place + ["supported"] * (len(ORDER) - place)


@given(st.sampled_from(ORDER), st.sampled_from(ORDER), st.sampled_from(ORDER))
def test_a_range_has_two_ends(first: str, last: str, version: str) -> None:
    inside = ORDER.index(first) <= ORDER.index(version) <= ORDER.index(last)
    assert (ReleaseVersion.parse(version) in DriverRange.parse(f">={first},<={last}")) == inside


@given(
    st.integers(0, 99), st.integers(0, 99), st.booleans(), st.integers(0, 99), st.lists(st.integers(0, 99), max_size=3)
)
def test_a_line_takes_every_version_of_it_and_none_is_older(
    major: int, minor: int, candidate: bool, number: int, patches: list[int]
) -> None:
    line = DriverRange.parse(f"{major}.{minor}")
    version = ReleaseVersion.parse(f"{major}.{minor}.{'rc' * candidate}{number}" + "".join(f".{p}" for p in patches))
    assert version in line
    assert version >= line.first
    assert ReleaseVersion.parse(f"{major}.{minor + 1}.0") not in line


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_text_makes_it_raise(cann: str, driver: str) -> None:
    assert judge(cann, driver, "A2", PINS).state == "unknown" or driver


@pytest.mark.parametrize("text", ["", "25", "25.2.0", ">25.2.0", ">= 25.2.0", ">=25.2", "025.2", "25.2,25.3", "25.x"])
def test_a_table_with_another_form_is_refused_with_its_line(text: str) -> None:
    own = (ROOT / "versions.toml").read_text(encoding="utf-8")
    with pytest.raises(BadInput, match=r'series\."8\.1"\.drivers\[0\]'):
        parse(own.replace('[series."8.1"]', f'[series."8.1"]\ndrivers = ["{text}"]'))


def test_lines_for_hardware_that_is_not_there_are_refused() -> None:
    own = (ROOT / "versions.toml").read_text(encoding="utf-8")
    with pytest.raises(BadInput, match=r'series\.8\.1\.drivers_for: unknown hardware "a55"'):
        parse(own.replace('[series."8.1"]', '[series."8.1"]\ndrivers_for = { a55 = ["25.1"] }'))


@pytest.mark.parametrize(
    ("driver", "info", "text"),
    [
        ({"version": "26.0.rc1", "package_version": "26.1.0"}, "", "26.1.0"),
        ({"version": "24.1.rc1"}, "", "24.1.rc1"),
        ({}, "a2-910b4", "23.0.2.1"),
        ({"innerversion": "V100"}, "", ""),
        ({}, "", ""),
    ],
)
def test_where_a_driver_s_version_stands(driver: dict[str, str], info: str, text: str) -> None:
    facts = HostFacts(driver=driver, info=Output(0, sample(info)) if info else None)
    assert driver_text(facts) == text


@pytest.mark.parametrize(
    ("firmware", "ranges", "state"),
    [
        ("7.7.0.1.231", "[7.0.0,8.9.9]", "supported"),
        ("8.9.9.9", "[7.0.0,8.9.9]", "supported"),
        ("9.0.0", "[7.0.0,8.9.9]", "unsupported"),
        ("6.9.9", "[7.0.0,8.9.9],[9.0.0,9.9.9]", "unsupported"),
        ("9.0.0.105.229", "[7.0.0,8.9.9],[9.0.0,9.9.9]", "supported"),
        ("7.7.0", "", "unknown"),
        ("", "[7.0.0,8.9.9]", "unknown"),
        ("seven", "[7.0.0,8.9.9]", "unknown"),
        ("7.7.0", "[24.0,24.0.]", "unsupported"),
        ("24.0.1", "[24.0,24.0.]", "supported"),
        ("7.7.0", "[.,.]", "unknown"),
        ("9" * 5000, "[7.0.0,8.9.9]", "unknown"),
        ("7.7.0", f"[7.0.0,{'9' * 5000}]", "unknown"),
    ],
)
def test_firmware_against_what_the_driver_takes(firmware: str, ranges: str, state: str) -> None:
    facts = HostFacts(firmware={"version": firmware}, driver={"compatible_version_fw": ranges})
    assert judge_firmware(facts).state == state


@given(st.text(), st.text())
def test_no_firmware_makes_it_raise(firmware: str, ranges: str) -> None:
    assert judge_firmware(HostFacts(firmware={"version": firmware}, driver={"compatible_version_fw": ranges}))
