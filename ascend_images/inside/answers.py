"""What a check is, what it is given, and what it may answer."""

from __future__ import annotations

import enum
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .facts.npu import npu_numbers
from .lock import Lock
from .pep440 import Pep440
from .words import ARCH_OF_MACHINE, FOLDER, INSTALL_ROOT, Facts, canonical


class Answer(enum.Enum):
    """What a check may answer; unknown is never pass."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    UNKNOWN = "unknown"
    NOT_RUN = "not run"


def whole(answers: Iterable[Answer]) -> Answer:
    """Return what a check says as a whole: its worst answer, and `not run` only where nothing else is said."""
    said = set(answers)
    return next((one for one in (Answer.FAIL, Answer.UNKNOWN, Answer.PASS) if one in said), Answer.NOT_RUN)


@dataclass(frozen=True)
class Said:
    """One answer: about what, what was found, what was wanted, and the next step."""

    answer: Answer
    subject: str = ""
    found: str = ""
    wanted: str = ""
    next: str = ""


def passed(subject: str = "", found: str = "") -> Said:
    """Answer `pass`."""
    return Said(Answer.PASS, subject, found)


def failed(subject: str, found: str, wanted: str, then: str) -> Said:
    """Answer `fail`: what was found, what was wanted, and what to do then."""
    return Said(Answer.FAIL, subject, found, wanted, then)


def unknown(subject: str, found: str, then: str = "") -> Said:
    """Answer `unknown`: it could not be told, and why."""
    return Said(Answer.UNKNOWN, subject, found, "", then)


def not_run(subject: str, because: str, then: str = "") -> Said:
    """Answer `not run`, and why."""
    return Said(Answer.NOT_RUN, subject, because, "", then)


NO_PINS = unknown("", f"the image has no {FOLDER}/image.json, so its pins are not known")
NO_LOCK = unknown("", f"the image has no {FOLDER}/lock.txt, so its locked packages are not known")
NOT_LIVE = not_run("", "the image's programs run in the image only, and this is a directory")
NOTHING_INSTALLED = not_run("", "no installed distribution was found")
NO_SOURCES = not_run("", "the pins name no source")


@dataclass(frozen=True)
class Given:
    """What a check may look at. `earlier` holds what the checks before it said, by check."""

    facts: Facts
    image: Mapping[str, Any]
    lock: Lock | None = None
    pep: Pep440 | None = None
    earlier: Mapping[str, Sequence[Said]] = field(default_factory=dict)

    @property
    def arch(self) -> str:
        """The architecture in Docker's words."""
        machine = str(self.facts["machine"])
        return ARCH_OF_MACHINE.get(machine, machine)

    @property
    def pins(self) -> dict[str, str]:
        """The pinned packages for this architecture, as written."""
        pins: dict[str, str] = self.image.get("packages", {}).get(self.arch, {})
        return pins

    @property
    def sources(self) -> list[Facts]:
        """The pinned git checkouts."""
        return list(self.image.get("sources", []))

    @cached_property
    def installed(self) -> dict[str, Facts]:
        """Distributions by normal name; of several with one name the one that Python takes."""
        first: dict[str, Facts] = {}
        for facts in self.facts["distributions"]:
            first.setdefault(canonical(facts["name"]), facts)
        return first

    def version(self, name: str) -> str:
        """Return the installed version of a distribution, empty where there is none."""
        facts = self.installed.get(canonical(name))
        return str(facts["version"]) if facts else ""

    def env(self) -> dict[str, str]:
        """Return the environment that this check was started with."""
        variables: dict[str, str] = self.facts["environment"]["process"]
        return variables

    def real(self, path: str) -> str:
        """Return where a path leads, links followed."""
        known = self.facts["paths"].get(path)
        return str(known["real"]) if known else path

    def exists(self, path: str) -> bool:
        """Tell whether a path that the environment or a start-up file names exists."""
        known = self.facts["paths"].get(path)
        return bool(known and known["exists"])

    @property
    def reference(self) -> str:
        """The image's reference where somebody outside started the container; empty where check.py was."""
        return str(self.facts.get("container", {}).get("reference", ""))

    def failures(self, *checks: str) -> list[tuple[str, Said]]:
        """Return what earlier checks found, each with the check's id; all of them where none is named."""
        return [
            (name, said)
            for name, answers in self.earlier.items()
            if name in checks or not checks
            for said in answers
            if said.answer is Answer.FAIL
        ]

    def blamed(self, *checks: str) -> set[str]:
        """Return the subjects of earlier failures, where one lists several each of them."""
        return {canonical(name) for _, said in self.failures(*checks) for name in re.split(r",\s*", said.subject)}


def of_cann(distribution: Mapping[str, Any]) -> bool:
    """Tell whether a distribution lies in CANN's own directories: the vendor's business."""
    return str(distribution["location"]).startswith(f"{INSTALL_ROOT}/")


@dataclass(frozen=True)
class Check:
    """A question with an id. Asked in the order in which they stand here; an answer of nothing means `pass`."""

    id: str
    question: str
    why: str
    ask: Callable[[Given], list[Said]]
    mend: str


CHECKS: list[Check] = []


def check(
    name: str, question: str, mend: str
) -> Callable[[Callable[[Given], list[Said]]], Callable[[Given], list[Said]]]:
    """Register a function as the check of that name; its docstring says why the question is asked.

    `mend` says in general how a failure is mended; what to do about one finding stands in the finding.
    """

    def register(ask: Callable[[Given], list[Said]]) -> Callable[[Given], list[Said]]:
        CHECKS.append(Check(name, question, " ".join((ask.__doc__ or "").split()), ask, mend))
        return ask

    return register


def variant_option(given: Given) -> str:
    """Return the option that names the variant, for commands to type; empty where it is not known."""
    name = given.image.get("variant")
    return f" --variant {name}" if name else ""


def in_image(given: Given, command: str, *options: str) -> str:
    """Return how to run a command in the image: as it stands in a container, by way of a new one from outside.

    `options` are those that `invoke run` needs besides; only with one of them, or with NPUs, is it more than docker.
    """
    if not given.reference:
        return command
    image = shlex.quote(given.reference)
    if options or npu_numbers(given.facts["devices"]["nodes"]):
        return " ".join([f"invoke run --image {image}", *options, f"-- {command}"])
    return f"docker run --rm {image} {command}"
