"""Reports as one HTML page: what stands where, that nothing is loaded, and that no text becomes markup."""

import base64
import hashlib
import re
from collections.abc import Callable
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_images.inside.words import visible
from ascend_images.verify.page import page
from ascend_images.verify.report import Report, Result
from tests.unit.verify.sample_reports import (
    ALL,
    ANY,
    BROKEN,
    CALM,
    EMPTY,
    FAILING,
    GREEN,
    ODD_ONE,
    RUNC,
    STDERR,
    TORCH,
    UNKNOWN,
    report,
)

VOID = {"meta", "input"}


class Page(HTMLParser):
    """A page taken apart: its elements with their attributes, and its texts; raises for one that is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def of(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def headings(text: str) -> list[str]:
    return re.findall(r'<th scope="col" class="check[^"]*" title="([^"]+)"', text)


def test_the_page_is_as_accepted(golden: Callable[[str, str], None]) -> None:
    golden("verify/page.html", page(ALL))


def test_images_and_checks_that_fail_come_first_then_what_is_not_known() -> None:
    text = page([GREEN, UNKNOWN, FAILING])
    assert re.findall(r'class="name" [^>]*>([^<]+)<', text) == ["a2", "a3", "310p"]
    assert headings(text)[:4] == ["torch-family", "entry-points", "pinned-packages", "locked-packages"]
    assert headings(text)[-3:] == ["architecture", "operating-system", "python"]


def test_the_order_of_the_reports_does_not_matter_to_what_is_shown() -> None:
    assert headings(page(ALL))[:3] == headings(page(ALL))[:3]
    assert re.findall(r'class="name" [^>]*>([^<]+)<', page(ALL)) == re.findall(
        r'class="name" [^>]*>([^<]+)<', page(ALL[::-1])
    )


def test_a_failure_of_several_images_is_told_once_with_their_names() -> None:
    text = page([report("a2", TORCH), report("a3", TORCH), report("a3", TORCH, platform="linux/amd64")])
    listed = text[text.index('id="failures"') : text.index("Every image and every answer")]
    assert listed.count("<article") == 1
    for name in ("a2 linux/arm64", "a3 linux/arm64", "a3 linux/amd64"):
        assert f"<li>{name}</li>" in listed


def test_the_title_says_how_it_went() -> None:
    def title(*reports: Report) -> str:
        return re.findall("<h1>(.*)</h1>", page(reports))[0]

    assert title(FAILING, GREEN) == "1 of 2 images failed"
    assert title(GREEN) == "1 image verified, no failure"
    assert title() == "No image was verified"


def test_checks_are_counted_and_answers_only_where_an_image_is_opened() -> None:
    text = page([CALM])
    assert re.findall(r"<li class=\"[a-z-]+\">. (\d+ [a-z ]+)</li>", text) == [
        "0 fail",
        "0 unknown",
        "5 not run",
        "3 pass",
    ]
    assert '<dt>checks</dt><dd class="text">0 fail, 0 unknown, 5 not run, 3 pass</dd>' in text
    assert '<dt>answers</dt><dd class="text">0 fail, 0 unknown, 6 not run, 3 pass</dd>' in text


def test_a_long_cause_is_one_reason_of_all_images_and_whole_in_each_cell() -> None:
    other = report("a3", Result(check="python", answer="not run", found=f"because of container: other {RUNC}"))
    text = page([BROKEN, other])
    listed = text[text.index('id="reasons"') : text.index("Every image and every answer")]
    assert listed.count(">because of container<") == 1
    assert "<li>a3 linux/arm64</li>" in listed
    assert RUNC not in listed
    assert f"because of container: other {RUNC}" in text


def test_an_image_of_which_nothing_was_asked_is_told_apart() -> None:
    text = page([EMPTY, GREEN])
    assert "nothing asked" in text
    assert text.count('<span class="unseen">not asked</span>') == 3


def test_every_cell_opens_what_was_found() -> None:
    taken = Page(page(ALL))
    places = [attributes["id"] for _, attributes in taken.elements if "id" in attributes]
    assert len(places) == len(set(places))
    targets = {attributes["popovertarget"] for attributes in taken.of("button")}
    panels = {attributes["id"] for attributes in taken.of("div") if "popover" in attributes}
    assert targets == panels
    answered = sum(len({result.check for result in one.results}) for one in ALL)
    assert len(panels) == answered + len(ALL)
    assert all(attributes["aria-labelledby"] in places for attributes in taken.of("div") if "popover" in attributes)


def test_headings_of_rows_and_columns_say_so_and_buttons_have_names() -> None:
    taken = Page(page(ALL))
    assert {attributes["scope"] for attributes in taken.of("th")} == {"row", "col"}
    cells = [attributes for attributes in taken.of("button") if attributes["popovertarget"].startswith("cell-")]
    marks = [attributes["aria-label"] for attributes in cells if "aria-label" in attributes]
    assert "torch-family, a2 linux/arm64: fail" in marks
    assert [attributes["for"] for attributes in taken.of("label")] == ["only"]


def test_only_failures_leaves_the_rows_and_columns_that_have_one() -> None:
    text = page([FAILING, GREEN])
    rows = re.findall(r"<tr(?: class=\"(\w+)\")?>\s*<th scope=\"row\"", text)
    assert rows == ["", "calm"]
    shown = re.findall(r'class="check fail" title="([^"]+)"', text)
    assert shown == ["torch-family", "entry-points"]


def test_nothing_is_loaded_and_nothing_runs() -> None:
    text = page(ALL)
    taken = Page(text)
    assert not {"script", "link", "img", "iframe", "form", "base"} & {tag for tag, _ in taken.elements}
    assert not {"src", "href", "style"} & {name for _, attributes in taken.elements for name in attributes}
    assert not [name for _, attributes in taken.elements for name in attributes if name.startswith("on")]
    style = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)[0]
    assert not re.search(r"url\(|@import", style)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = next(one["content"] for one in taken.of("meta") if one.get("http-equiv") == "Content-Security-Policy")
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_a_failure_is_whole_and_its_markup_is_text() -> None:
    taken = Page(page([FAILING, ODD_ONE]))
    assert STDERR in taken.texts
    assert visible(ODD_ONE.of("fail")[0].found) in taken.texts
    assert "<b>odd</b>|`x`" in "".join(taken.texts)


KNOWN = {tag for tag, _ in Page(page(ALL)).elements}


@settings(max_examples=50)
@given(st.lists(ANY, max_size=3))
def test_no_text_of_an_image_becomes_markup(reports: list[Report]) -> None:
    text = page(reports)
    text.encode()
    taken = Page(text)
    assert {tag for tag, _ in taken.elements} <= KNOWN
    assert not [name for _, attributes in taken.elements for name in attributes if name.startswith("on")]
    for one in reports:
        for result in one.of("fail"):
            assert not result.found or visible(result.found) in taken.texts
    assert page(reports) == text
