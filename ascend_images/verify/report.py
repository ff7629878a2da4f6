"""The report of one verified image: what was asked, what was answered, of which image on which host."""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import msgspec

from ascend_images.errors import BadInput
from ascend_images.files import write_atomic

#: Answers in the order in which people want to see them.
ANSWERS = ("fail", "unknown", "not run", "pass")


class Result(msgspec.Struct, frozen=True):
    """One answer of one check: about what, what was found, what was wanted, and the next step."""

    check: str
    answer: Literal["pass", "fail", "unknown", "not run"]
    subject: str = ""
    found: str = ""
    wanted: str = ""
    next: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one verification of one image found.

    `name` is the variant's name, or the reference where there is none; `image` the reference that was verified,
    `digest` what the engine calls it (`sha256:…`), `platform` as Docker writes it (linux/arm64), `pins` the digest of
    the pins that it was compared with (empty: none), `when` a UTC time in ISO 8601, `seconds` how long it took.
    `host` says where: the machine's architecture, NPUs, driver. `facts` is what check.py saw in the container.
    """

    schema: Literal[1] = 1
    name: str
    image: str
    digest: str
    platform: str
    pins: str
    when: str
    seconds: float
    host: dict[str, Any]
    results: tuple[Result, ...]
    facts: dict[str, Any]

    def of(self, answer: str) -> tuple[Result, ...]:
        """Return the results with one answer."""
        return tuple(result for result in self.results if result.answer == answer)

    @property
    def counts(self) -> dict[str, int]:
        """How many results have each answer, worst first."""
        counted = Counter(result.answer for result in self.results)
        return {answer: counted.get(answer, 0) for answer in ANSWERS}  # type: ignore[call-overload]

    @property
    def failed(self) -> bool:
        """Whether any check failed."""
        return any(result.answer == "fail" for result in self.results)

    @property
    def file_name(self) -> str:
        """The name of its JSON file: one for each image and platform."""
        plain = "".join(sign if sign.isalnum() or sign in ".-_" else "-" for sign in self.name)
        # Two references may differ in nothing but signs that no file name should have.
        apart = "" if plain == self.name else f".{hashlib.sha256(self.name.encode()).hexdigest()[:8]}"
        return f"{plain}{apart}.{self.platform.replace('/', '-')}.json"


def write_report(folder: Path, report: Report) -> Path:
    """Write a report as JSON into a folder, whole or not at all; return its path."""
    path = folder / report.file_name
    write_atomic(path, msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    return path


def load_reports(folder: Path) -> list[Report]:
    """Return all reports of a folder, by name and platform. Raises BadInput for a JSON file that is none."""
    reports = []
    for path in sorted(folder.glob("*.json")):
        try:
            reports.append(msgspec.json.decode(path.read_bytes(), type=Report))
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadInput(
                f"{path}: not a report of a verification: {error}",
                wanted="a folder with nothing but reports of `nox -s verify`",
                do=f"rm {path}, or name another folder: --report-dir DIR",
            ) from None
    return sorted(reports, key=lambda report: (report.name, report.platform))
