"""A report on a terminal: failures first and whole, one line a reason, and nothing that a terminal obeys."""

import re
from collections.abc import Callable
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ascend_images.errors import one_line
from ascend_images.verify.report import ANSWERS, Report, Result
from ascend_images.verify.terminal import (
    about,
    alike,
    counted,
    host_line,
    overall,
    passing,
    reason,
    several,
    short_digest,
    table,
    visible,
)
from tests.unit.verify.sample_reports import (
    ALL,
    ANY,
    BROKEN,
    CALM,
    EMPTY,
    FAILING,
    GREEN,
    IMPORT,
    NO_PINS,
    ODD_ONE,
    RUNC,
    STDERR,
    UNKNOWN,
)


@pytest.mark.parametrize("width", [40, 80, 160])
def test_the_table_is_as_accepted(golden: Callable[[str, str], None], width: int) -> None:
    golden(f"verify/terminal-{width}.txt", "\n".join(table(one, width=width, color=False) for one in ALL))


def test_colours_change_nothing_but_colours(golden: Callable[[str, str], None]) -> None:
    coloured = table(ODD_ONE, width=80, color=True)
    assert "\x1b[1;31mFAIL\x1b[0m" in coloured
    plain = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", coloured).splitlines()]
    assert plain == table(ODD_ONE, width=80, color=False).splitlines()


def test_what_decides_is_told_by_the_caller_not_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [table(FAILING, width=90, color=color) for color in (False, True)]
    for name, value in {"COLUMNS": "30", "TERM": "dumb", "NO_COLOR": "1", "FORCE_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    assert [table(FAILING, width=90, color=color) for color in (False, True)] == before


def test_a_failure_stands_first_and_whole() -> None:
    text = table(FAILING, width=400, color=False)
    assert text.index("FAIL") < text.index("unknown") < text.index("not run") < text.index("\npass")
    for line in (*STDERR.splitlines(), IMPORT.wanted, IMPORT.next):
        assert line.strip() in text


def test_checks_that_lack_the_same_are_one_line() -> None:
    lines = table(FAILING, width=400, color=False).splitlines()
    assert f"unknown  pinned-packages (transformers, peft), locked-packages: {NO_PINS}" in lines
    assert sum(line.startswith("not run") for line in lines) == 1


def test_image_digest_platform_and_host_are_told() -> None:
    text = table(FAILING, width=120, color=False)
    for words in (FAILING.image, FAILING.digest, FAILING.platform, "2 × 910B3", "driver 25.2.0"):  # noqa: RUF001
        assert words in text


def test_an_image_of_which_nothing_was_asked_does_not_pass() -> None:
    assert table(EMPTY, width=80, color=False).splitlines()[-1] == (
        "nothing: 0 checks: 0 fail, 0 unknown, 0 not run, 0 pass"
    )
    assert "\x1b[32m" not in table(EMPTY, width=80, color=True)


@given(ANY, st.integers(-1, 200))
def test_nothing_that_a_terminal_obeys_gets_through_and_no_line_is_too_wide(one: Report, width: int) -> None:
    text = table(one, width=width, color=False)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]", text)
    text.encode()
    assert all(cell_len(line.expandtabs(1)) <= max(width, 24) for line in text.splitlines())


@given(st.text(st.characters(codec=None)))
def test_visible_text_stays_visible_text(text: str) -> None:
    assert visible(visible(text)) == visible(text)
    visible(text).encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\r\nb\rc\n", "a\nb\nc\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\u202eabc\ud800\ufffe", "\\u202eabc\\ud800\\ufffe"),
        ("环境\t🚀 é", "环境\t🚀 é"),
    ],
)
def test_control_characters_are_told_by_their_numbers(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_one_line_is_cut_where_asked() -> None:
    assert one_line(" a\n b\tc ") == "a b c"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("abcd", 4) == "abcd"


@pytest.mark.parametrize(
    ("host", "line"),
    [
        ({}, ""),
        ({"machine": "aarch64", "driver": "", "npus": [], "smi": None}, "machine aarch64"),
        ({"npus": ["910B3"] * 8 + ["910B1"]}, "npus 8 × 910B3 910B1"),  # noqa: RUF001
        ({"runtime": True, "busy": False, "memory": 64}, "runtime yes, busy no, memory 64"),
        ({"machine": "aarch64", "refused": {"found": "NPU 7 is held", "next": ""}}, "machine aarch64"),
        ({"npus": [{"name": "910B3"}, ["910B3"]], "devices": [0, 1]}, "devices 0 1"),
        ({"info": "line\n" * 100}, "info " + ("line " * 12)[:59] + "…"),
    ],
)
def test_a_host_is_one_line(host: dict[str, object], line: str) -> None:
    assert host_line(host) == line


_nested = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just("NESTED"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.just("NESTED"), inner, max_size=2),
    max_leaves=6,
)


@given(
    st.dictionaries(st.just("key"), _nested.map(lambda value: {"inner": value}) | _nested.map(lambda value: [[value]]))
)
def test_nothing_nested_gets_into_the_line_of_a_host(host: dict[str, object]) -> None:
    assert host_line(host) == ""


def test_a_cause_that_another_check_tells_in_full_is_named_by_that_check_alone() -> None:
    assert [reason(result) for result in BROKEN.results] == [
        RUNC,
        "no NPU was asked for",
        "because of container",
        "because of container",
        "because of chip: A3",
    ]
    text = table(BROKEN, width=400, color=False)
    assert text.count(RUNC) == 1
    assert "not run  python, chip: because of container\n" in text


@given(st.text(), st.sampled_from(ANSWERS))
def test_a_reason_is_the_whole_text_or_its_beginning(found: str, answer: Literal["pass", "fail", "unknown"]) -> None:
    for text in (found, f"because of chip: {found}"):
        said = reason(Result(check="a", answer=answer, found=text))
        assert said == text or (answer == "not run" and said == "because of chip")


def test_a_check_passes_as_a_whole_though_an_answer_was_not_run() -> None:
    assert passing(CALM) == ["architecture", "python", "matmul"]
    assert passing(FAILING) == ["architecture", "operating-system", "python"]
    assert passing(GREEN) == ["architecture", "python", "torch-family"]


def test_what_an_image_is_as_a_whole_and_nothing_asked_is_no_answer() -> None:
    images = (FAILING, UNKNOWN, GREEN, CALM, EMPTY)
    assert [overall(one.results) for one in images] == ["fail", "unknown", "pass", "pass", ""]


def test_words() -> None:
    assert short_digest("sha256:" + "ab" * 32) == "abababababab"
    assert short_digest("") == ""
    assert [several(number, "check") for number in (0, 1, 2)] == ["0 checks", "1 check", "2 checks"]
    assert about(Result(check="a", answer="pass")) == "a"
    assert about(IMPORT) == "entry-points: vllm.entrypoints.openai.api_server"
    assert counted(dict.fromkeys(ANSWERS, 0)) == "0 fail, 0 unknown, 0 not run, 0 pass"


@given(ANY)
def test_grouping_loses_no_check_and_no_subject(one: Report) -> None:
    told = {(group.answer, check) for group in alike(one.results) for check in group.subjects}
    assert told == {(result.answer, result.check) for result in one.results}
    subjects = {subject for group in alike(one.results) for names in group.subjects.values() for subject in names}
    assert subjects == {result.subject for result in one.results} - {""}
