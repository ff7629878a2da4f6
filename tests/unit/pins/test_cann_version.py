"""Versions of CANN and of drivers: what is read, how it is ordered, what is refused."""

import itertools
from contextlib import suppress

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ascend_images.errors import BadInput
from ascend_images.pins.cann_version import ReleaseVersion, driver_version_of

DRIVERS_IN_ORDER = [
    "23.0.0",
    "23.0.2.1",
    "23.0.3",
    "24.1.rc1",
    "24.1.rc1.b030",
    "24.1.rc1.b060",
    "24.1.rc2",
    "24.1.rc3",
    "24.1.rc3.7",
    "24.1.0",
    "24.1.0.3",
    "25.0.rc1",
    "25.0.rc1.1",
    "25.2.0",
    "25.3.rc1",
    "25.3.0",
    "25.5.0",
    "25.5.2",
    "25.7.rc1",
    "26.0.RC1",
    "26.1.0",
    "26.1.0.b061",
    "26.1.1",
    "26.2.RC1",
]
CANN_IN_ORDER = [
    "8.0.RC3",
    "8.0.0",
    "8.1.RC1.alpha001",
    "8.1.RC1.alpha002",
    "8.1.RC1",
    "8.2.RC1",
    "8.2.RC2",
    "8.3.rc1.alpha003",
    "8.3.RC1",
    "8.3.RC2",
    "8.3.RC10",
    "8.5.0.alpha001",
    "8.5.0.alpha002",
    "8.5.0.beta.1",
    "8.5.0",
    "8.5.1",
    "8.5.2",
    "8.10.0",
    "9.0.0-beta.1",
    "9.0.0-beta.2",
    "9.0.0",
    "9.0.1",
    "9.1.0-beta.1",
    "9.1.0-beta.3",
    "9.1.0",
    "9.2.0",
]
NONSENSE = [
    "",
    " ",
    "9",
    "9.1",
    "9.1.",
    ".9.1.0",
    "v9.1.0",
    " 9.1.0",
    "9.1.0\n",
    "9.1.0-",
    "9.1.0-910b",
    "9.1.0-gamma.1",
    "9.1.0-beta.",
    "9.1.0-beta.1.2",
    "9.1.x",
    "9.1.rc",
    "9.rc1.0",
    "9.1.0rc1",
    "9..0",
    "09.1.0",
    "9.1.00",
    "-9.1.0",
    "9.1.0+cpu",
    "9.1.T6",
    "latest",
    "2.9.0.post2",
    "\u0669.\u0661.\u0660",
    "9.1.0.b",
    "9.1.0." + "1" * 5000,
]

numbers = st.integers(0, 10**6).map(str)
separators = st.sampled_from([".", "-"])
padded = st.from_regex(r"[0-9]{1,4}", fullmatch=True)


@st.composite
def version_texts(draw: st.DrawFn) -> str:
    small = st.integers(0, 3).map(str)  # small numbers, so that equal and neighbouring versions are common
    number = draw(st.sampled_from([small, numbers]))
    text = f"{draw(number)}.{draw(number)}.{draw(st.sampled_from(['', 'rc', 'RC', 'Rc']))}{draw(number)}"
    text += "".join(f".{patch}" for patch in draw(st.lists(number, max_size=2)))
    if draw(st.booleans()):
        text += f"{draw(separators)}{draw(st.sampled_from(['alpha', 'Alpha', 'beta', 'BETA']))}"
        text += draw(st.sampled_from(["", f"{draw(padded)}", f".{draw(padded)}"]))
    if draw(st.booleans()):
        text += f".{draw(st.sampled_from('bB'))}{draw(padded)}"
    return text


versions = version_texts().map(ReleaseVersion.parse)


@pytest.mark.parametrize("in_order", [DRIVERS_IN_ORDER, CANN_IN_ORDER], ids=["drivers", "cann"])
@pytest.mark.parametrize("spelled", [str, str.lower, str.upper])
def test_each_version_precedes_all_that_follow_it_in_any_case(in_order, spelled):
    for earlier, later in itertools.combinations(in_order, 2):
        before, after = ReleaseVersion.parse(earlier), ReleaseVersion.parse(spelled(later))
        assert before < after
        assert after > before
        assert before <= after
        assert after >= before
        assert before != after


def test_sorting_puts_candidates_before_releases():
    shuffled = ["8.5.0", "8.3.RC2", "8.3.rc1", "8.5.0.alpha002", "8.1.RC1.alpha001", "8.1.rc1"]
    assert sorted(shuffled, key=ReleaseVersion.parse) == [
        "8.1.RC1.alpha001",
        "8.1.rc1",
        "8.3.rc1",
        "8.3.RC2",
        "8.5.0.alpha002",
        "8.5.0",
    ]


@pytest.mark.parametrize("text", DRIVERS_IN_ORDER + CANN_IN_ORDER)
def test_the_text_comes_back_as_it_was(text):
    assert str(ReleaseVersion.parse(text)) == text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("8.3.RC2", "8.3.rc2"),
        ("8.1.RC1.alpha001", "8.1.rc1.ALPHA001"),
        ("9.1.0-beta.3", "9.1.0-Beta.3"),
        ("9.1.0-beta.3", "9.1.0.beta3"),
        ("24.1.rc1.b030", "24.1.RC1.B030"),
    ],
)
def test_spellings_of_one_release_are_equal_and_share_a_hash(one, other):
    assert ReleaseVersion.parse(one) == ReleaseVersion.parse(other)
    assert len({ReleaseVersion.parse(one), ReleaseVersion.parse(other)}) == 1


def test_a_fourth_number_of_zero_is_a_version_of_its_own():
    assert ReleaseVersion.parse("24.1.0") < ReleaseVersion.parse("24.1.0.0")


@pytest.mark.parametrize(
    ("text", "series"),
    [("9.1.0-beta.3", "9.1"), ("8.3.RC2", "8.3"), ("8.5.0.alpha002", "8.5"), ("25.0.rc1.1", "25.0"), ("9.1.0", "9.1")],
)
def test_the_series_is_the_first_two_numbers(text, series):
    assert ReleaseVersion.parse(text).series == series


@pytest.mark.parametrize("text", NONSENSE)
def test_nonsense_is_refused_and_shown(text):
    with pytest.raises(BadInput) as error:
        ReleaseVersion.parse(text)
    assert repr(text) in error.value.found
    assert "8.3.RC2" in error.value.wanted


def test_no_instance_holds_nonsense():
    with pytest.raises(BadInput):
        ReleaseVersion("latest")


def test_a_version_is_not_its_text():
    version = ReleaseVersion.parse("9.1.0")
    assert version != "9.1.0"
    with pytest.raises(TypeError):
        assert version < "9.2.0"


def test_a_version_cannot_be_changed():
    with pytest.raises(AttributeError):
        ReleaseVersion.parse("9.1.0").text = "9.2.0"


@pytest.mark.parametrize(
    ("package", "driver"),
    [
        ("7.5.0.5.220-24.1.0.3", "24.1.0.3"),
        ("7.7.0.1.231-25.0.rc1.1", "25.0.rc1.1"),
        ("24.1.rc3", "24.1.rc3"),
        ("26.1.0-beta.1", "26.1.0-beta.1"),
        ("7.8.0.7.220-26.1.0-beta.1", "26.1.0-beta.1"),
    ],
)
def test_the_driver_stands_behind_the_hyphen_of_a_package_string(package, driver):
    assert str(driver_version_of(package)) == driver


@pytest.mark.parametrize("package", ["", "-", "7.5.0.5.220-", "-24.1.0.3", "7.5.0-24.1.0.3-1", "driver-24.1.0.3"])
def test_a_package_string_without_a_driver_is_refused(package):
    with pytest.raises(BadInput, match="names no driver version") as error:
        driver_version_of(package)
    assert "7.5.0.5.220-24.1.0.3" in error.value.wanted


@given(version_texts())
def test_every_version_comes_back_as_it_was_read(text):
    assert str(ReleaseVersion.parse(text)) == text


@given(version_texts())
def test_case_never_matters(text):
    variants = {ReleaseVersion.parse(spelled) for spelled in (text, text.lower(), text.upper())}
    assert len(variants) == 1


@given(versions, versions)
def test_of_two_versions_exactly_one_relation_holds(one, other):
    assert [one < other, one == other, one > other].count(True) == 1
    assert (one < other) == (other > one)
    if one == other:
        assert hash(one) == hash(other)


@given(versions, versions, versions)
def test_order_is_transitive(one, two, three):
    if one <= two and two <= three:
        assert one <= three
    if one == two and two == three:
        assert one == three


@given(versions, padded)
def test_a_stage_precedes_and_a_patch_follows_what_it_belongs_to(version, number):
    assume(not {"a", "b"} & set(version.text.lower()))  # neither a stage nor a build yet
    assert ReleaseVersion.parse(f"{version}.alpha{number}") < ReleaseVersion.parse(f"{version}-beta.{number}") < version
    assert version < ReleaseVersion.parse(f"{version}.b{number}") < ReleaseVersion.parse(f"{version}.{int(number)}")


@given(st.one_of(st.text(), st.text(alphabet="0123456789.-rcalphbet\u0663\u00b2")))
def test_any_text_is_a_version_or_bad_input(text):
    for parse in (ReleaseVersion.parse, driver_version_of):
        with suppress(BadInput):
            assert str(parse(text)) in text
