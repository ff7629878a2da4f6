"""Every check of a verification is one test, so that CI systems count, filter and keep a history of them."""

import pytest

from ascend_images import verifying
from ascend_images.inside.answers import Answer
from ascend_images.verify.report import Report, Result, verdict


def _text(result: Result) -> str:
    lines = [f"{result.subject}: {result.found}" if result.subject else result.found]
    lines += [f"  wanted: {result.wanted}"] if result.wanted else []
    lines += [f"  next:   {result.next}"] if result.next else []
    return "\n".join(lines)


def test_check(report: Report, target: verifying.Target, check: str) -> None:
    results = tuple(result for result in report.results if result.check == check)
    answer = verdict(results)
    said = "\n".join(_text(result) for result in results if result.answer == answer.value)
    if answer is Answer.FAIL:
        pytest.fail(f"{target.name} {check}\n{said}", pytrace=False)
    if answer is not Answer.PASS:
        pytest.skip(f"{answer.value}: {said}")
