"""Reports as one self-contained HTML page: images by checks, failures first, every cell opening its finding."""

import base64
import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import markupsafe

from ascend_images.errors import one_line
from ascend_images.inside.words import visible
from ascend_images.verify.report import ANSWERS, Report, Result
from ascend_images.verify.terminal import (
    Alike,
    about,
    alike,
    counted,
    host_line,
    overall,
    reason,
    several,
    short_digest,
)

_TEMPLATE = "page.html.j2"

#: Answers as marks that need no colour.
MARKS = {"fail": "✗", "unknown": "?", "not run": "○", "pass": "✓"}


@dataclass(frozen=True)
class Cell:
    """What one check said of one image; no results where it was not asked. `id` is the finding's place on the page."""

    id: str
    check: str
    results: tuple[Result, ...]

    @property
    def answer(self) -> str:
        """What the check says as a whole."""
        return overall(self.results)


@dataclass(frozen=True)
class Row:
    """One image, and what each check said of it, in the order of the columns."""

    id: str
    report: Report
    cells: tuple[Cell, ...]

    @property
    def title(self) -> str:
        """The image's name and platform."""
        return one_line(f"{self.report.name} {self.report.platform}")


@dataclass(frozen=True)
class Finding:
    """A failure, and the images that have it, word for word the same."""

    result: Result
    images: tuple[str, ...]


@dataclass(frozen=True)
class Reason:
    """Why some checks gave no answer, and on which images."""

    group: Alike
    images: tuple[str, ...]


def page(reports: Sequence[Report]) -> str:
    """Return the page over some reports: the same text for the same reports, with nothing to load and no script."""
    rows = _rows(reports)
    return _template().render(
        title=_title(reports),
        rows=rows,
        columns=_columns(reports),
        failing={cell.check for row in rows for cell in row.cells if cell.answer == "fail"},
        findings=_findings(rows),
        reasons=_reasons(rows),
        totals={answer: sum(report.counts[answer] for report in reports) for answer in ANSWERS},
        times=sorted(report.when for report in reports),
    )


def _title(reports: Sequence[Report]) -> str:
    failed = sum(report.failed for report in reports)
    images = several(len(reports), "image")
    if not reports:
        return "No image was verified"
    return f"{failed} of {images} failed" if failed else f"{images} verified, no failure"


def _columns(reports: Sequence[Report]) -> list[str]:
    """Return the checks by the worst that they say of an image, those alike in the order in which they were asked."""
    verdicts: dict[str, list[str]] = {}
    # An image that was asked less, or by an older check.py, says less of the order.
    for report in sorted(reports, key=lambda report: -len(report.verdicts)):
        for check, said in report.verdicts.items():
            verdicts.setdefault(check, []).append(said)
    return sorted(verdicts, key=lambda check: min(map(ANSWERS.index, verdicts[check])))


def _rows(reports: Sequence[Report]) -> list[Row]:
    """Return an image each, those with the most failures first, then those with the most that is not known."""
    columns, rows = _columns(reports), []
    order = sorted(
        reports,
        key=lambda report: (-report.counts["fail"], -report.counts["unknown"], report.name, report.platform),
    )
    for number, report in enumerate(order, 1):
        results: dict[str, list[Result]] = {}
        for result in report.results:
            results.setdefault(result.check, []).append(result)
        cells = tuple(
            Cell(f"cell-{number}-{place}", check, tuple(results.get(check, ())))
            for place, check in enumerate(columns, 1)
        )
        rows.append(Row(f"image-{number}", report, cells))
    return rows


def _findings(rows: Sequence[Row]) -> list[Finding]:
    """Return the failures, what most images have first."""
    images: dict[Result, list[str]] = {}
    for row in rows:
        for result in dict.fromkeys(row.report.of("fail")):
            images.setdefault(result, []).append(row.title)
    found = [Finding(result, tuple(names)) for result, names in images.items()]
    return sorted(found, key=lambda finding: -len(finding.images))


def _reasons(rows: Sequence[Row]) -> list[Reason]:
    """Return what is unknown, then what was not run, by reason."""
    reasons = []
    for answer in ("unknown", "not run"):
        for group in alike(result for row in rows for result in row.report.of(answer)):
            images = [
                row.title
                for row in rows
                if any((reason(result), result.next) == (group.found, group.next) for result in row.report.of(answer))
            ]
            reasons.append(Reason(group, tuple(images)))
    return reasons


def _shown(value: Any) -> Any:
    """Return what an expression of the template gave as it may be shown; markup of the template stays as it is."""
    return visible(value) if isinstance(value, str) and not isinstance(value, markupsafe.Markup) else value


def _source_hash(style: str) -> str:
    """Return how a Content-Security-Policy names a style sheet: by the hash of its text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}"


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).resolve().parent),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    environment.filters.update(
        about=about,
        counted=counted,
        host=host_line,
        line=one_line,
        several=several,
        short=short_digest,
        source_hash=_source_hash,
    )
    environment.globals["marks"] = MARKS
    return environment.get_template(_TEMPLATE)
