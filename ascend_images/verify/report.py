"""The report of one verified image: what was asked, what was answered, of which image on which host."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from ascend_images.errors import BadInput
from ascend_images.files import write_json
from ascend_images.images.plan import BUILD_FOLDER
from ascend_images.inside.answers import Answer, whole
from ascend_images.json_text import read_json_file

#: Where verifications leave their reports, below the repository's root.
REPORT_FOLDER = Path(BUILD_FOLDER) / "verify"
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


def verdict(results: Iterable[Result]) -> Answer:
    """Return what a check says as a whole: its worst answer, and `not run` only where nothing else is said."""
    return whole(Answer(result.answer) for result in results)


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
    def verdicts(self) -> dict[str, str]:
        """What each check says as a whole, in the order in which they were asked."""
        results: dict[str, list[Result]] = {}
        for result in self.results:
            results.setdefault(result.check, []).append(result)
        return {check: verdict(of_check).value for check, of_check in results.items()}

    @property
    def counts(self) -> dict[str, int]:
        """How many checks say each as a whole, in the order of ANSWERS; one check may give several answers."""
        counted = Counter(self.verdicts.values())
        return {answer: counted[answer] for answer in ANSWERS}

    @property
    def answers(self) -> dict[str, int]:
        """How many results have each answer, in the order of ANSWERS."""
        return {answer: len(self.of(answer)) for answer in ANSWERS}

    @property
    def failed(self) -> bool:
        """Whether any check failed."""
        return any(result.answer == "fail" for result in self.results)

    @property
    def file_name(self) -> str:
        """The name of its JSON file: one for each image and platform."""
        return file_name(self.name, self.platform)


def file_name(name: str, platform: str) -> str:
    """Return the name of the file in which a report of an image for a platform is kept."""
    plain = "".join(sign if sign.isalnum() or sign in ".-_" else "-" for sign in name)
    # Two references may differ in nothing but signs that no file name should have.
    apart = "" if plain == name else f".{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return f"{plain}{apart}.{platform.replace('/', '-')}.json"


def write_report(folder: Path, report: Report) -> Path:
    """Write a report as JSON into a folder, whole or not at all; return its path."""
    path = folder / report.file_name
    write_json(path, report, indent=1)
    return path


def load_reports(folder: Path) -> list[Report]:
    """Return all reports of a folder, by name and platform. Raises BadInput for a JSON file that is none."""
    reports, unreadable = read_reports(folder)
    for error in unreadable.values():
        raise error
    return reports


def read_reports(folder: Path) -> tuple[list[Report], dict[str, BadInput]]:
    """Return the reports of a folder, by name and platform, and what is wrong with JSON files that are none, by name.

    A folder that is not there has no reports.
    """
    reports: list[Report] = []
    unreadable: dict[str, BadInput] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            reports.append(_read(path))
        except BadInput as error:
            unreadable[path.name] = error
    return sorted(reports, key=lambda report: (report.name, report.platform)), unreadable


def _read(path: Path) -> Report:
    what, wanted = "a report of a verification", "a folder with nothing but reports of `nox -s verify`"
    do = f"rm -r {path}, or name another folder of reports"
    try:
        return read_json_file(path, Report, what=what, wanted=wanted, do=do)
    except FileNotFoundError:
        raise BadInput(f"{path}: not {what}: it leads to nothing", wanted=wanted, do=do) from None
