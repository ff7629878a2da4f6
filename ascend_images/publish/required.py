"""What the reports of an image must say before it gets a readable tag.

For every platform, and for the very digest: `pass` for every required check by name. Skipped, unknown, missing and the
report of another digest are no pass. Every check is required but those in OPTIONAL; a new check is from its first day.
A fail counts wherever it stands.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ascend_images.errors import PublishRefused
from ascend_images.publish.manifest import Joined, Part
from ascend_images.verify.report import Report

#: Checks that ask for more than an image and one NPU, or about something else than the image; each with the reason.
OPTIONAL = {
    "devices-given": "says whether the verifying host could give its NPUs; the NPU checks tell what came of it",
    "visibility": "a variable of the verifying host; devices and matmul tell whether NPUs were seen",
    "all-reduce": "takes two NPUs",
    "generate": "takes a model",
    "tag": "images are verified by digest before they have a tag; the tag is made from the pins",
    "host-driver": "about the verifying host",
    "atb-abi": "not every image has ATB; environment-set-env asks for its variables where it has",
}
#: Checks that only a host with an NPU answers. They can be waived as a whole, with a reason that is published.
NPU = ("npu", "driver-mounted", "device-access", "npu-smi", "chip", "devices", "matmul")

#: What the pins must have for a check to be asked at all, by its name; where they have it not, it says `not run`.
_ASKED_OF: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
    "patches": lambda pins: pins["patches"],
    "compiled-extensions": lambda pins: any(source["compiles"] for source in pins["sources"]),
    "source-commit": lambda pins: pins["sources"],
    "source-origin": lambda pins: pins["sources"],
    "source-version": lambda pins: pins["sources"],
}

_SHOWN = 12
_COMPARES = "nox -s verify -- --variant NAME --image …"


@dataclass(frozen=True)
class Proof:
    """What was shown of one platform: the checks that passed, those that were waived, and where."""

    passed: tuple[str, ...]
    waived: tuple[str, ...] = ()


def required(checks: Iterable[str]) -> tuple[str, ...]:
    """Return those of all checks that an image must pass, in their order."""
    return tuple(name for name in checks if name not in OPTIONAL)


def proofs(
    joined: Joined,
    reports: Sequence[Report],
    needed: Sequence[str],
    *,
    without_npu: bool = False,
    stand_in: bool = False,
) -> dict[str, Proof]:
    """Return what reports show of each platform; raises PublishRefused that lists everything that is lacking.

    `without_npu` waives NPU checks that no host with an NPU was asked; not one that was asked and did not pass. A check
    of what the pins have none of (`patches`) need not have been run. `stand_in`: the images are of the sandbox.
    """
    made: dict[str, Proof] = {}
    void = {name for name in needed if name in _ASKED_OF and not _ASKED_OF[name](joined.resolved)}
    lacking: list[str] = []
    for platform, part in joined.platforms.items():
        ours = [one for one in reports if one.platform == platform and one.digest in _digests(joined, part)]
        if not ours:
            lacking.append(f"{platform}: {_no_report(platform, reports)}")
            continue
        lacking += [f"{platform}: {text}" for text in _fails(ours)]
        if not any(report.pins == joined.pins for report in ours):
            lacking.append(f"{platform}: no report that compares it with its pins ({_COMPARES})")
            continue
        waivable = NPU if without_npu else ()
        answers = {name: _answer(name, ours, joined.pins) for name in needed}
        waived = tuple(name for name in needed if answers[name] == "not run" and name in waivable)
        lacking += [
            f"{platform}: {name}: {answer}"
            for name, answer in answers.items()
            # A fail is told by `_fails`, whichever check it is of.
            if answer not in ("pass", "fail") and name not in waived and not (answer == "not run" and name in void)
        ]
        made[platform] = Proof(tuple(name for name in needed if answers[name] == "pass"), waived)
    if lacking:
        more = [f"and {len(lacking) - _SHOWN} more"] if len(lacking) > _SHOWN else []
        raise PublishRefused(
            "\n".join([f"{joined.variant} {joined.digest} is not verified:", *_indented([*lacking[:_SHOWN], *more])]),
            wanted="a report for this digest that says pass for every required check, on every platform",
            do="; ".join(
                verification
                for platform, verification in verifications(joined, without_npu=without_npu, stand_in=stand_in).items()
                if any(text.startswith(f"{platform}: ") for text in lacking)
            ),
        )
    return made


def verifications(joined: Joined, *, without_npu: bool = False, stand_in: bool = False) -> dict[str, str]:
    """Return what to type on a host of each platform to have its image verified, with NPUs unless those are waived.

    By the digest of its image: an engine that has several of an index asks one of them alone.
    """
    verify = f"nox -s verify -- --variant {joined.variant}"
    more = ("" if without_npu else " --require-npu") + (" --sandbox" if stand_in else "")
    return {
        platform: f"{verify} --image {joined.repository}@{part.manifest} --platform {platform}{more}"
        for platform, part in joined.platforms.items()
    }


def _digests(joined: Joined, part: Part) -> tuple[str, ...]:
    """Return every digest that stands for one image alone, given its platform.

    An engine with the containerd store calls an image by the digest that was pulled: of the index, of what was pushed
    for one architecture, or of the manifest. One with a graph driver calls it by its configuration, which names the
    layers in its turn.
    """
    return joined.digest, part.digest, part.manifest, part.config


def _no_report(platform: str, reports: Sequence[Report]) -> str:
    others = sorted({one.digest for one in reports if one.platform == platform})
    return f"no report for this digest; there is one for {', '.join(others)}" if others else "no report"


def _fails(reports: Sequence[Report]) -> list[str]:
    """Return every fail, of a required check or not."""
    found = [
        f"{result.check}: fail: {' '.join(f'{result.subject}: {result.found}'.split())[:120]}"
        for report in reports
        for result in report.of("fail")
    ]
    return list(dict.fromkeys(found))


def _answer(name: str, reports: Sequence[Report], pins: str) -> str:
    """Return what reports say of a check as a whole: pass where one has it and none says fail or unknown.

    What a report against other pins found well was found of those; what it found amiss is of the image.
    """
    said = {
        result.answer
        for report in reports
        for result in report.results
        if result.check == name and (report.pins == pins or result.answer in ("fail", "unknown"))
    }
    for answer in ("fail", "unknown", "pass", "not run"):
        if answer in said:
            return answer
    return "missing"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]
