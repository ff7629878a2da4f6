"""Reports as JUnit XML: what CI systems read in it, and that it is XML whatever the texts hold."""

from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.inside.words import visible
from ascend_images.verify.junit import document
from ascend_images.verify.report import Report, Result
from tests.unit.verify.sample_reports import ALL, ANY, BROKEN, FAILING, GREEN, NO_NPU, RUNC, STDERR, UNKNOWN, report


def parsed(*reports: Report) -> ElementTree.Element:
    return ElementTree.fromstring(document(reports))


def cases(root: ElementTree.Element) -> dict[str, ElementTree.Element]:
    return {case.get("name", ""): case for case in root.iter("testcase")}


def test_the_document_is_as_accepted(golden: Callable[[str, str], None]) -> None:
    golden("verify/junit.xml", document(ALL).decode())


def test_a_suite_says_which_image_it_is() -> None:
    suite = next(parsed(FAILING).iter("testsuite"))
    properties = {one.get("name"): one.get("value") for one in suite.iter("property")}
    assert properties["image"] == FAILING.image
    assert properties["digest"] == FAILING.digest
    assert properties["platform"] == FAILING.platform
    assert properties["pins"] == FAILING.pins
    assert suite.get("timestamp") == "2026-03-01T12:00:00"


def test_a_failure_has_all_of_its_text() -> None:
    failure = cases(parsed(FAILING))["entry-points[vllm.entrypoints.openai.api_server]"].find("failure")
    assert failure is not None
    assert STDERR in str(failure.text)
    assert "docker run --rm IMAGE" in str(failure.text)
    assert len(str(failure.get("message"))) <= 300


def test_unknown_and_not_run_are_skipped_with_their_reason_and_never_passed() -> None:
    named = cases(parsed(UNKNOWN))
    assert str(named["locked-packages"].find("skipped").get("message")).startswith("unknown: the image has no")  # type: ignore[union-attr]
    assert named["matmul"].find("skipped").get("message") == f"not run: {NO_NPU}"  # type: ignore[union-attr]
    bare = cases(parsed(report("a", Result(check="x", answer="unknown"))))
    assert bare["x"].find("skipped").get("message") == "unknown: no reason given"  # type: ignore[union-attr]


def test_a_cause_that_another_case_tells_is_short_in_the_message_and_whole_in_the_text() -> None:
    skipped = cases(parsed(BROKEN))["python"].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "not run: because of container"
    assert RUNC.strip() in str(skipped.text)


def test_a_pass_says_what_was_found() -> None:
    assert cases(parsed(GREEN))["python"].findtext("system-out") == "as pinned"


def test_platforms_of_one_image_and_twice_the_same_subject_stay_apart() -> None:
    same = Result(check="torch-family", answer="fail", subject="torch", found="x")
    root = parsed(report("a2", same, same), report("a2", same, platform="linux/amd64"))
    names = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert names == [
        ("a2 linux/arm64", "torch-family[torch]"),
        ("a2 linux/arm64", "torch-family[torch] (2)"),
        ("a2 linux/amd64", "torch-family[torch]"),
    ]


@pytest.mark.parametrize("when", ["", "yesterday", "2026-03-01"])
def test_a_time_that_is_none_is_left_out(when: str) -> None:
    one = Report(**{field: getattr(GREEN, field) for field in GREEN.__struct_fields__} | {"when": when})
    assert "timestamp" not in next(parsed(one).iter("testsuite")).attrib


def test_no_reports_is_an_empty_document() -> None:
    root = parsed()
    assert root.get("tests") == "0"
    assert len(root) == 0


@given(st.lists(ANY, max_size=3))
def test_it_is_xml_whatever_the_texts_hold_and_the_numbers_add_up(reports: list[Report]) -> None:
    root = parsed(*reports)
    for element in (root, *root.iter("testsuite")):
        assert int(element.get("tests", "")) == len(list(element.iter("testcase")))
        assert int(element.get("failures", "")) == len(list(element.iter("failure")))
        assert int(element.get("skipped", "")) == len(list(element.iter("skipped")))
    assert [suite.get("tests") for suite in root] == [str(len(one.results)) for one in reports]
    for suite, one in zip(root, reports, strict=True):
        found = [str(failure.text) for failure in suite.iter("failure")]
        for result, text in zip(one.of("fail"), found, strict=True):
            assert visible(result.found) in text
