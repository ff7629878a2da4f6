"""Reports: what they count, and how they are kept in a folder."""

from pathlib import Path
from typing import Literal

import msgspec
import pytest
from hypothesis import given

from ascend_images.errors import BadInput
from ascend_images.verify.report import ANSWERS, Report, Result, load_reports, verdict, write_report
from tests.unit.verify.sample_reports import ALL, ANY, CALM, EMPTY, FAILING, GREEN, UNKNOWN, report


def test_a_report_counts_its_checks_by_what_each_says_as_a_whole() -> None:
    assert list(FAILING.counts.items()) == [("fail", 2), ("unknown", 2), ("not run", 6), ("pass", 3)]
    assert list(FAILING.answers.items()) == [("fail", 2), ("unknown", 3), ("not run", 6), ("pass", 3)]
    assert CALM.verdicts["matmul"] == "pass"
    assert CALM.counts["not run"] == CALM.answers["not run"] - 1
    assert [result.check for result in FAILING.of("fail")] == ["torch-family", "entry-points"]


def test_only_a_failure_makes_a_report_fail() -> None:
    assert [one.failed for one in (FAILING, UNKNOWN, GREEN, EMPTY)] == [True, False, False, False]


def test_reports_come_back_from_a_folder_as_they_were_written_by_name_and_platform(tmp_path: Path) -> None:
    for one in reversed(ALL):
        write_report(tmp_path, one)
    assert load_reports(tmp_path) == sorted(ALL, key=lambda one: (one.name, one.platform))


def test_images_and_platforms_have_files_of_their_own(tmp_path: Path) -> None:
    arches = ("arm64", "amd64")
    paths = {write_report(tmp_path, report("a2", platform=f"linux/{arch}")) for arch in arches}
    assert {path.name for path in paths} == {"a2.linux-arm64.json", "a2.linux-amd64.json"}
    # References that differ in nothing but signs that no file name should have.
    names = {write_report(tmp_path, report(name)).name for name in ("quay.io/a/b:1", "quay.io/a-b:1", "quay.io-a-b-1")}
    assert len(names) == 3


def test_an_empty_folder_has_no_reports(tmp_path: Path) -> None:
    assert load_reports(tmp_path) == []


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b"\xff", b'{"schema": 2}', msgspec.json.encode({**msgspec.to_builtins(GREEN), "more": 1})],
    ids=["empty", "list", "no fields", "no text", "another schema", "unknown field"],
)
def test_a_json_file_that_is_no_report_is_named_with_the_next_step(tmp_path: Path, content: bytes) -> None:
    write_report(tmp_path, GREEN)
    (tmp_path / "other.json").write_bytes(content)
    with pytest.raises(BadInput, match=r"other\.json: not a report") as error:
        load_reports(tmp_path)
    assert error.value.do == f"rm -r {tmp_path}/other.json, or name another folder of reports"


@given(ANY)
def test_counts_add_up(one: Report) -> None:
    assert sum(one.counts.values()) == len({result.check for result in one.results})
    assert sum(one.answers.values()) == len(one.results)
    assert tuple(one.counts) == tuple(one.answers) == ANSWERS
    assert one.failed == (one.counts["fail"] > 0) == (one.answers["fail"] > 0)


@pytest.mark.parametrize(
    ("answers", "whole"),
    [
        (("pass", "not run"), "pass"),
        (("pass", "unknown", "not run"), "unknown"),
        (("pass", "unknown", "fail"), "fail"),
        (("not run", "not run"), "not run"),
        (("not run", "unknown"), "unknown"),
        ((), "not run"),
    ],
)
def test_the_worst_answer_decides_and_not_run_only_where_nothing_else_is_said(
    answers: tuple[Literal["pass", "fail", "unknown", "not run"], ...], whole: str
) -> None:
    assert verdict(Result("x", answer) for answer in answers).value == whole
