"""Reports as Markdown, for the summary page of a GitHub Actions job."""

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ascend_images.errors import BadInput, one_line
from ascend_images.inside.words import visible
from ascend_images.verify.report import Report, Result
from ascend_images.verify.terminal import (
    about,
    alike,
    counted,
    host_line,
    overall,
    passing,
    several,
    short_digest,
)

_NOTHING = "❔ nothing asked"

#: What GitHub takes of one step, in bytes (docs.github.com, Workflow commands: "a maximum size of 1 MiB").
STEP_LIMIT = 1024 * 1024
_CUT = "\n**Cut here:** GitHub takes 1 MiB of one step. The JSON reports and the HTML page have all of it.\n"
VARIABLE = "GITHUB_STEP_SUMMARY"

# Longer texts are folded away behind their last line: that of a traceback says most.
_LONG_LINES, _LONG_TEXT = 12, 1500


def summary(reports: Sequence[Report]) -> str:
    """Return reports as Markdown: a table row per image, failures whole, everything else folded away.

    What is counted are checks, by what each says as a whole.
    """
    lines = ["## Verification", ""]
    if not reports:
        return "\n".join([*lines, "No image was verified.", ""])
    lines += ["| | image | platform | digest | fail | unknown | not run | pass |", "|---|---|---|---|--:|--:|--:|--:|"]
    lines += [_row(report) for report in reports]
    for report in reports:
        lines += ["", *_failures(report)] if report.failed else []
    for report in reports:
        lines += ["", *_rest(report)]
    return "\n".join([*lines, ""])


def append_to_step_summary(text: str, environ: Mapping[str, str]) -> Path | None:
    """Append Markdown to the file that GITHUB_STEP_SUMMARY names; return its path, None where it names none.

    What does not fit into GitHub's limit is cut at a line's end, with a note. Raises BadInput where the file cannot be
    written.
    """
    named = environ.get(VARIABLE, "")
    if not named:
        return None
    path = Path(named)
    try:
        taken = path.stat().st_size if path.exists() else 0
        with path.open("ab") as stream:
            stream.write(_cut(text, STEP_LIMIT - taken))
    except OSError as error:
        raise BadInput(
            f"{VARIABLE}: {named} cannot be written: {error.strerror or error}",
            wanted="a file that this user can append to, as GitHub's runner sets it",
            do=f"unset {VARIABLE}",
        ) from None
    return path


def _cut(text: str, room: int) -> bytes:
    """Return as many whole lines as fit into `room` bytes, with a note where some are left out."""
    whole = f"{text.rstrip()}\n".encode()
    if len(whole) <= room:
        return whole
    end = f"\n</details>\n{_CUT}".encode()
    kept = whole[: whole.rfind(b"\n", 0, max(room - len(end), 0)) + 1]
    lines = kept.splitlines()
    opened = lines.count(b"<details>") > lines.count(b"</details>")
    note = end if opened else _CUT.encode()
    return kept + note if len(kept) + len(note) <= room else b""


def _text(text: str) -> str:
    """Return text that Markdown and GitHub show as it stands, on one line: no markup, no link, no formula."""
    plain = re.sub(r"([\\`*_\[\]~|#])", r"\\\1", html.escape(one_line(text), quote=False))
    return plain.replace("$", "<span>$</span>")


def _block(text: str) -> str:
    """Return text for a cell of an HTML table, which Markdown does not look into before an empty line."""
    plain = visible(text).strip("\n")
    if "\n" not in plain and len(plain) <= _LONG_TEXT:
        return html.escape(plain).replace("$", "<span>$</span>")
    whole = f"<pre>{html.escape(plain)}</pre>".replace("\n", "&#10;")
    lines = plain.count("\n") + 1
    if lines <= _LONG_LINES and len(plain) <= _LONG_TEXT:
        return whole
    last = html.escape(one_line(plain.rstrip().rpartition("\n")[2], 120)).replace("$", "<span>$</span>")
    return f"<details><summary>{last} ({lines} lines)</summary>{whole}</details>"


def _mark(report: Report) -> str:
    """Return how an image did, as a mark that needs no colour and a word; what was not run is no pass."""
    counts = report.counts
    passed = f"no failure, {counts['not run']} not run" if counts["not run"] else "pass"
    marks = {
        "fail": "❌ fail",
        "unknown": f"❔ no failure, {counts['unknown']} unknown",
        "not run": "⬜ not run",
        "pass": f"✅ {passed}",
    }
    return marks.get(overall(report.results), _NOTHING)


def _row(report: Report) -> str:
    cells = [
        _mark(report),
        _text(report.name),
        _text(report.platform),
        _text(short_digest(report.digest)) or "not known",
        *(str(number) for number in report.counts.values()),
    ]
    return f"| {' | '.join(cells)} |"


def _heading(report: Report) -> str:
    return _text(f"{report.name} ({report.platform})")


def _failures(report: Report) -> list[str]:
    lines = [
        f"### ❌ {_heading(report)}",
        "",
        f"{_text(report.image)} on {_text(host_line(report.host)) or 'a host not known'}",
    ]
    for result in report.of("fail"):
        lines += ["", f"#### {_text(about(result))}", "", _finding(result)]
    return lines


def _finding(result: Result) -> str:
    rows = (("found", result.found), ("wanted", result.wanted), ("next", result.next))
    cells = "".join(f"<tr><th>{label}</th><td>{_block(value)}</td></tr>" for label, value in rows if value)
    return f"<table>{cells}</table>"


def _rest(report: Report) -> list[str]:
    """Return what is not known, by reason, and what passed, folded away."""
    title = html.escape(one_line(f"{report.name} ({report.platform})"))
    counts = f"{several(len(report.verdicts), 'check')}: {counted(report.counts)}"
    lines = ["<details>", f"<summary>{title}: {counts}</summary>", ""]
    for group in alike([*report.of("unknown"), *report.of("not run")]):
        then = f" ({_text(group.next)})" if group.next else ""
        lines.append(f"- **{group.answer}** {_text(group.names)}: {_text(group.found)}{then}")
    if names := passing(report):
        lines.append(f"- **pass** {_text(', '.join(names))}")
    return [*lines, "", "</details>"]
