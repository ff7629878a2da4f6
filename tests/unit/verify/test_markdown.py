"""Reports as Markdown: what GitHub reads in them, and how much of it."""

import html
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ascend_images.errors import BadInput
from ascend_images.inside.words import visible
from ascend_images.verify.markdown import STEP_LIMIT, append_to_step_summary, summary
from ascend_images.verify.report import Report
from tests.unit.verify.sample_reports import ALL, ANY, CALM, EMPTY, FAILING, GREEN, STDERR, UNKNOWN, not_run, report

NOT_RUN = report("a6", *not_run("chip", "matmul"))

TAGS = {"table", "tr", "th", "td", "pre", "details", "summary", "span"}


def parse(text: str) -> list:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ")][1:]


def test_the_summary_is_as_accepted(golden: Callable[[str, str], None]) -> None:
    golden("verify/summary.md", summary(ALL))


def test_every_image_has_a_row_with_a_mark() -> None:
    assert [row.split(" | ")[0] for row in rows(summary([FAILING, UNKNOWN, GREEN, CALM, NOT_RUN, EMPTY]))] == [
        "| ❌ fail",
        "| ❔ no failure, 1 unknown",
        "| ✅ pass",
        "| ✅ no failure, 5 not run",
        "| ⬜ not run",
        "| ❔ nothing asked",
    ]


def test_no_reports_is_said() -> None:
    assert "No image was verified." in summary([])


def test_a_long_text_is_folded_behind_its_last_line_and_whole() -> None:
    text = summary([FAILING])
    assert "<summary>ImportError: libascend_hal.so: cannot open shared object file" in text
    assert html.escape(STDERR).replace("\n", "&#10;") in text


@given(ANY)
def test_no_text_adds_a_cell_to_a_row(one: Report) -> None:
    (row,) = rows(summary([one]))
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 9


def inline(tokens: list) -> list:
    return [child for token in tokens for child in (token.children or [])]


@given(st.lists(ANY, max_size=3))
def test_no_text_of_an_image_becomes_markup(reports: list[Report]) -> None:
    tokens = parse(summary(reports))
    kinds = [token.type for token in tokens]
    failures = sum(one.answers["fail"] for one in reports)
    assert kinds.count("heading_open") == 1 + failures + sum(one.failed for one in reports)
    assert kinds.count("table_open") == bool(reports)
    assert kinds.count("tr_open") == (1 + len(reports) if reports else 0)
    assert not {"code_block", "fence", "hr", "blockquote_open", "ordered_list_open"} & set(kinds)
    assert {child.type for child in inline(tokens)} <= {
        "text", "text_special", "html_inline", "strong_open", "strong_close", "softbreak"
    }  # fmt: skip
    markup = "".join(token.content for token in [*tokens, *inline(tokens)] if token.type.startswith("html_"))
    assert set(re.findall(r"</?([^\s>/]+)", markup)) <= TAGS
    assert all(match in ("<span>", "<details>") or " " not in match for match in re.findall(r"<[^>]*>", markup))


@given(ANY)
def test_failures_are_whole(one: Report) -> None:
    shown = html.unescape(re.sub(r"</?span>", "", summary([one])))
    for result in one.of("fail"):
        for text in (result.found, result.wanted, result.next):
            assert html.unescape(html.escape(visible(text).strip("\n"))) in shown


def test_it_is_appended_where_the_runner_says(tmp_path: Path) -> None:
    path = tmp_path / "summary"
    path.write_text("before\n", encoding="utf-8")
    assert append_to_step_summary("one\n", {"GITHUB_STEP_SUMMARY": str(path)}) == path
    append_to_step_summary("two", {"GITHUB_STEP_SUMMARY": str(path)})
    assert path.read_text(encoding="utf-8") == "before\none\ntwo\n"


@pytest.mark.parametrize("environ", [{}, {"GITHUB_STEP_SUMMARY": ""}])
def test_without_a_runner_nothing_is_written(environ: dict[str, str]) -> None:
    assert append_to_step_summary("text", environ) is None


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be written") as error:
        append_to_step_summary("text", {"GITHUB_STEP_SUMMARY": str(tmp_path)})
    assert error.value.do == "unset GITHUB_STEP_SUMMARY"


@given(st.integers(0, STEP_LIMIT + 1000), st.integers(0, 40_000), st.booleans())
def test_never_more_than_github_takes_and_a_cut_is_told(
    tmp_path_factory: pytest.TempPathFactory, before: int, lines: int, folded: bool
) -> None:
    path = tmp_path_factory.mktemp("step") / "summary"
    path.write_bytes(b"x" * before)
    text = ("<details>\n" if folded else "") + "ä line of a summary that is long\n" * lines
    append_to_step_summary(text, {"GITHUB_STEP_SUMMARY": str(path)})
    written = path.read_bytes()[before:].decode()
    assert not written or before + len(written.encode()) <= STEP_LIMIT
    if written.rstrip() != text.rstrip():
        assert not written or "Cut here" in written
        assert written.count("<details>") == written.count("</details>")
        assert all(
            line in ("", "<details>", "</details>", "ä line of a summary that is long") or line.startswith("**Cut here")
            for line in written.splitlines()
        )
