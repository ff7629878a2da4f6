"""Checks: what takes more than the inside of an image: its container, its tag, its own pins, the host."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ascend_images.inside.answers import Check, Given, Said, failed, not_run, passed, unknown
from ascend_images.inside.asking import ask_all
from ascend_images.inside.checks import CHECKS
from ascend_images.inside.lock import Lock
from ascend_images.inside.pep440 import Pep440
from ascend_images.inside.words import few, release_key, same_version

Facts = dict[str, Any]

#: Asked before all others: without facts there is nothing to ask the others of.
FIRST: list[Check] = []
#: Asked after those of check.py, whose findings they may hang on.
LAST: list[Check] = []


def _check(
    place: list[Check], name: str, question: str, mend: str
) -> Callable[[Callable[[Given], list[Said]]], Callable[[Given], list[Said]]]:
    def register(ask: Callable[[Given], list[Said]]) -> Callable[[Given], list[Said]]:
        place.append(Check(name, question, " ".join((ask.__doc__ or "").split()), ask, mend))
        return ask

    return register


def all_checks() -> list[Check]:
    """Return every check of a verification in the order in which they are asked."""
    return [*FIRST, *CHECKS, *LAST]


def ask(facts: Facts, image: Mapping[str, Any], lock: Lock | None, pep: Pep440 | None) -> dict[str, list[Said]]:
    """Return what each check says, by its id.

    `facts` is check.py's document with what was seen from outside: `container`, `host` and `own` (what the image says
    of itself); it holds `container` alone where check.py gave nothing, and then no other check runs.
    """
    answers: dict[str, list[Said]] = {}
    for one in FIRST:
        answers[one.id] = one.ask(Given(facts, image, lock, pep, answers)) or [passed()]
    if "distributions" not in facts:
        return answers | {one.id: [not_run("", "because of container")] for one in [*CHECKS, *LAST]}
    answers |= ask_all(facts, image, lock, pep)
    for one in LAST:
        answers[one.id] = one.ask(Given(facts, image, lock, pep, answers)) or [passed()]
    return answers


@_check(
    FIRST,
    "container",
    "Does a container of the image start, and does check.py come to its end in it?",
    "Start the image by hand with the same command and look at what it writes; give it memory where it was killed.",
)
def check_container(given: Given) -> list[Said]:
    """An image that does not start, or whose Python does not run, answers no other question."""
    seen = given.facts["container"]
    if seen["answered"]:
        return [passed(seen["reference"])]
    if seen["failure"]:
        return [failed(seen["reference"], seen["failure"]["found"], seen["failure"]["wanted"], seen["failure"]["next"])]
    lines = [line.strip() for line in seen["output"].splitlines() if line.strip()]
    end = f": {lines[-1]}" if lines else ""
    if seen["timed_out"]:
        how = f"no end within the time limit{end}"
    elif seen["killed"]:
        how = "killed by the kernel: out of memory"
    elif seen["exit"] == 137:
        how = "killed from outside (SIGKILL) before its facts were whole"
    elif seen["exit"] is None:
        how = f"did not start{end}"
    else:
        how = f"exit code {seen['exit']} before its facts were whole{end}"
    then = f"docker run --rm {seen['reference']} python3 --version"
    return [failed(seen["reference"], how, "python3 (3.9 or later) that runs check.py to its end", then)]


@_check(
    FIRST,
    "devices-given",
    "Could the container be given the NPUs that were asked for?",
    "Name devices that the host has and that no other container holds.",
)
def check_devices_given(given: Given) -> list[Said]:
    """A device belongs to one ordinary container at a time; npu-smi then fails with -8005 (vllm-ascend#2698)."""
    refused: Mapping[str, str] | None = given.facts["host"].get("refused")
    asked: Sequence[int] = given.facts["container"]["asked"]
    if refused:
        return [failed("NPU", refused["found"], refused["wanted"], refused["next"])]
    if not asked:
        return [not_run("", "no NPU was asked for, and the host has none to give")]
    return [passed(", ".join(f"NPU {number}" for number in asked))]


#: What image.json says that does not change what is in the image.
_NO_CONTENT = ("schema", "aliases", "experimental", "release", "tag", "repository", "platforms", "runtime", "accept")


@_check(
    FIRST,
    "own-pins",
    "Was the image built from the pins that it is compared with?",
    "Build it again from today's versions.toml, or verify it with the checkout of versions.toml it was built from.",
)
def check_own_pins(given: Given) -> list[Said]:
    """An image of last week's pins under this week's tag is another image.

    What the other checks ask is then whether it is what it says of itself.
    """
    own = given.facts["own"]
    if not given.facts["container"]["answered"]:
        return [not_run("", "because of container")]
    if own["wanted_image"] is None:
        return [not_run("", "it is compared with what it says of itself: name pins with --variant")]
    if not own["image"]:
        return [unknown("image.json", "the image has none, so it does not say what it was built from")]
    answers = []
    pins = own["wanted_image"]
    then = f"invoke build --variant {pins.get('variant', 'NAME')}"
    differing = sorted(
        key for key in {*own["image"], *pins} if key not in _NO_CONTENT and own["image"].get(key) != pins.get(key)
    )
    if differing:
        shown = [f"{key} ({_difference(own['image'].get(key), pins.get(key))})" for key in differing]
        answers.append(failed("image.json", f"built from other pins: {few(shown)}", "the pins of versions.toml", then))
    found, wanted = own["lock"], own["wanted_lock"]
    if found is None and wanted is not None:
        answers.append(unknown("lock.txt", "the image has none, so it does not say which packages were locked"))
    # Other pins have another lock.
    if not differing and found is not None and wanted is not None and found != wanted:
        names = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
        text = f"built from another lock: {few(names)}"
        answers.append(failed("lock.txt", text, "the lock beside versions.toml", then))
    return answers


def _difference(own: Any, wanted: Any) -> str:
    """Return the first difference of two values of image.json, in few words."""
    if isinstance(own, dict) and isinstance(wanted, dict):
        for key in sorted({*own, *wanted}):
            if own.get(key) != wanted.get(key):
                return f"{key}: {_difference(own.get(key), wanted.get(key))}"
    if isinstance(own, list) and isinstance(wanted, list):
        for one, other in zip(own, wanted, strict=False):
            if one != other:
                name = one.get("name", "") if isinstance(one, dict) else ""
                return f"{name + ': ' if name else ''}{_difference(one, other)}"
        return f"{len(own)} entries, wanted {len(wanted)}"
    return f"{own!r}, wanted {wanted!r}"


#: Words of a tag, each with the name of what it says.
_TAG_WORDS = {
    "cann": re.compile(r"(?:^|-)cann(?P<said>[0-9][0-9a-z.]*(?:-(?:alpha|beta)[.0-9]*)?)(?=-|$)"),
    "torch_npu": re.compile(r"(?:^|-)torch_npu(?P<said>[0-9][0-9a-z._]*)(?=-|$)"),
    "chip": re.compile(r"(?:^|-)(?P<said>910b|910|310p|950|a3)(?=-|$)"),
    "os": re.compile(r"(?:^|-)(?P<said>(?:ubuntu|openeuler)[0-9]+\.[0-9]+)(?=-|$)"),
    "python": re.compile(r"(?:^|-)py(?P<said>3\.?[0-9]+)(?=-|$)"),
    "arch": re.compile(r"-(?P<said>x86_64|aarch64|amd64|arm64)$"),
}
_ARCHES = {"x86_64": "amd64", "aarch64": "arm64"}


def tag_of(reference: str) -> str:
    """Return the tag of an image reference, empty where it has none."""
    name = reference.partition("@")[0]
    return name.rpartition(":")[2] if ":" in name.rpartition("/")[2] else ""


def tag_words(reference: str) -> dict[str, str]:
    """Return what the tag of an image reference says of it: cann, torch_npu, chip, os, python, arch."""
    found = {word: pattern.search(tag_of(reference).lower()) for word, pattern in _TAG_WORDS.items()}
    return {word: match["said"] for word, match in found.items() if match}


def _seen_of_tag(given: Given) -> dict[str, str]:
    """Return what the facts say of that which tags name; what is not known is left out."""
    facts = given.facts
    system = facts["system"]
    cann = next((fact["version"] for fact in facts["cann"]["toolkit"] if fact["version"]), "")
    chips = {fact["chip"].lower() for fact in facts["cann"]["ops"] if fact["chip"]}
    seen = {
        "cann": cann,
        "torch_npu": given.version("torch_npu"),
        "chip": chips.pop() if len(chips) == 1 else "",
        "os": f"{system['id']}{system['version']}".lower() if system["id"] else "",
        "python": ".".join(facts["python"]["version"].split(".")[:2]),
        "arch": given.arch,
    }
    return {word: value for word, value in seen.items() if value}


def _agrees(word: str, said: str, seen: str) -> bool:
    if word == "cann":
        return f"{release_key(seen)}.".startswith(f"{release_key(said)}.")
    if word == "torch_npu":
        return same_version(said, seen) or same_version(said, seen.replace("+", "_"))
    if word == "python":
        return said.replace(".", "") == seen.replace(".", "")
    return _ARCHES.get(said, said) == _ARCHES.get(seen, seen)


@_check(
    LAST,
    "tag",
    "Is in the image what its tag says?",
    "Tag the image for what is in it, or build it again from the pins that the tag names.",
)
def check_tag(given: Given) -> list[Said]:
    """Tags lie: an openEuler build was published under Ubuntu's tag (vllm-ascend#586).

    The tag that an image's own pins give it is right where it is what those pins say, which the other checks ask.
    """
    reference = given.facts["container"]["reference"]
    said, seen = tag_words(reference), _seen_of_tag(given)
    if not said:
        return [not_run(reference, "its tag names no version, chip, operating system or architecture")]
    if _is_tag_of_pins(tag_of(reference), given.image):
        said = {word: value for word, value in said.items() if word == "arch"}
    # What the pins say otherwise has its finding already.
    known = given.failures("operating-system", "cann-release", "operator-package", "torch-family", "python")
    answers = []
    for word, value in said.items():
        if word not in seen:
            answers.append(unknown(word, f"the tag says {value}; what the image has could not be told"))
        elif not _agrees(word, value, seen[word]):
            if known:
                answers.append(not_run(word, f"because of {known[0][0]}: {known[0][1].found}"))
            else:
                then = "docker tag it anew, or look at what it was built from"
                answers.append(failed(word, f"{word} {seen[word]}, tagged {value}", f"{word} {value}", then))
    return answers or [passed(reference, tag_of(reference))]


def _is_tag_of_pins(tag: str, image: Mapping[str, Any]) -> bool:
    """Tell whether a tag is the one of an image's pins, with what builds put behind it."""
    own = str(image.get("tag") or "")
    return bool(own) and re.fullmatch(rf"{re.escape(own)}(?:-sandbox|-changed)*(?:-x86_64|-aarch64)?", tag) is not None


@_check(
    LAST,
    "host-driver",
    "Does the vendor's table pair the host's driver with the image's CANN?",
    "Install a driver that the table lists for this CANN release, or take the image of another release.",
)
def check_host_driver(given: Given) -> list[Said]:
    """An official image gave a CANN error on a host with another driver release (gpustack#755)."""
    judged: Mapping[str, str] | None = given.facts["host"].get("judgement")
    if not given.facts["host"].get("devices"):
        return [not_run("", "the host has no NPU")]
    if not judged:
        return [unknown("driver", "the image's CANN release is not known, so no table says which drivers it takes")]
    subject = f"driver {judged['found']}"
    if judged["state"] == "unsupported":
        wanted = f"for CANN {judged['cann']}: {judged['wanted']}"
        return [failed(subject, judged["why"], wanted, "invoke doctor says more of this host")]
    return [passed(subject, judged["why"]) if judged["state"] == "supported" else unknown(subject, judged["why"])]
