"""Reports as JUnit XML, as CI systems read it: a suite per image, a case per answer."""

import re
from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree

from ascend_images.errors import one_line
from ascend_images.inside.words import visible
from ascend_images.verify.report import Report, Result
from ascend_images.verify.terminal import host_line, reason

# CI systems show these in tables; the whole text stands in the case.
_SHORT_NAME, _SHORT_MESSAGE = 160, 300
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}")


def document(reports: Sequence[Report]) -> bytes:
    """Return reports as one JUnit document in UTF-8, well-formed whatever the texts hold.

    Jenkins, GitLab and dorny/test-reporter tell cases apart by class and name: the class is the image's name with its
    platform, the name `check[subject]`, numbered where an image has it twice. Unknown and not run are skipped cases,
    with the reason as their message.
    """
    root = ElementTree.Element("testsuites", name="verify")
    for report in reports:
        root.append(_suite(report))
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    root.set("time", f"{sum(max(report.seconds, 0) for report in reports):.3f}")
    ElementTree.indent(root)
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _suite(report: Report) -> ElementTree.Element:
    counts, name = report.answers, one_line(f"{report.name} {report.platform}")
    suite = ElementTree.Element(
        "testsuite",
        name=name,
        tests=str(len(report.results)),
        failures=str(counts["fail"]),
        errors="0",
        skipped=str(counts["unknown"] + counts["not run"]),
        time=f"{max(report.seconds, 0):.3f}",
    )
    if when := _TIME.match(report.when):
        suite.set("timestamp", when[0])
    properties = ElementTree.SubElement(suite, "properties")
    for key, value in (
        ("image", report.image),
        ("digest", report.digest),
        ("platform", report.platform),
        ("pins", report.pins),
        ("host", host_line(report.host)),
    ):
        ElementTree.SubElement(properties, "property", name=key, value=one_line(value))
    seen: Counter[str] = Counter()
    for result in report.results:
        case = one_line(f"{result.check}[{result.subject}]" if result.subject else result.check, _SHORT_NAME)
        seen[case] += 1
        suite.append(_case(result, name, case if seen[case] == 1 else f"{case} ({seen[case]})"))
    return suite


def _case(result: Result, group: str, name: str) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname=group, name=name, time="0")
    found = one_line(reason(result), _SHORT_MESSAGE)
    if result.answer == "fail":
        failure = ElementTree.SubElement(case, "failure", type=one_line(result.check), message=found or "failed")
        failure.text = _whole(result)
    elif result.answer in ("unknown", "not run"):
        skipped = ElementTree.SubElement(case, "skipped", message=f"{result.answer}: {found or 'no reason given'}")
        skipped.text = _whole(result)
    elif result.found:
        ElementTree.SubElement(case, "system-out").text = visible(result.found)
    return case


def _whole(result: Result) -> str:
    """Return a result with nothing cut, and its subject, which a long name may not show."""
    rows = (
        ("subject", result.subject),
        ("found", result.found),
        ("wanted", result.wanted),
        ("next", result.next),
    )
    return visible("\n".join(f"{label + ':':<8} {value}" for label, value in rows if value))
