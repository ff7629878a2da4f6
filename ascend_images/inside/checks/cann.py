"""Checks: CANN's own versions, its operators, ATB."""

from __future__ import annotations

import re

from ..answers import NO_PINS, NOT_LIVE, Given, Said, check, failed, not_run, passed, unknown
from ..words import base_version, release_key


@check(
    "cann-release",
    "Do the version files of toolkit, operators and NNAL name the pinned CANN release?",
    "Take the base image of the pinned release, and lay packages over it that are all of one release.",
)
def check_cann_release(given: Given) -> list[Said]:
    """Public images lay one release over the base image of another, and their tags name a third.

    Files write 8.3.RC2 where tags write 8.3.rc2. Some 9.x releases have no such file (vllm-ascend#10525); then
    directory names count.
    """
    wanted = given.image.get("cann", "")
    if not wanted:
        return [NO_PINS]
    answers = []
    for part in ("toolkit", "ops", "nnal"):
        said = [fact for fact in given.facts["cann"][part] if fact["version"]]
        # A file that says more than the release (8.5.1.2.220) agrees with it.
        wrong = [fact for fact in said if not f"{release_key(fact['version'])}.".startswith(f"{release_key(wanted)}.")]
        if wrong:
            found = ", ".join(f"{fact['version']} in {fact['file']}" for fact in wrong)
            answers.append(
                failed(
                    part,
                    found,
                    f"CANN {wanted}",
                    "look at the base image's tag, and at the packages that were laid over it",
                )
            )
        elif said:
            answers.append(passed(part, said[0]["version"]))
        else:
            answers.append(unknown(part, "no version file known to us, in no layout known to us"))
    return answers


@check(
    "operator-package",
    "Is CANN's operator package the one for the image's chip?",
    "Install the operator package of the image's chip, and no other.",
)
def check_operator_package(given: Given) -> list[Said]:
    """Operators of another chip are found out only when a kernel is missing at run time.

    With vLLM Ascend's own, built for another chip, it was at start (vllm-ascend#11160).
    """
    wanted = given.image.get("chip", "")
    if not wanted:
        return [NO_PINS]
    chips = {fact["chip"]: fact["file"] for fact in given.facts["cann"]["ops"] if fact["chip"]}
    if not chips:
        return [unknown("ops", "no install file of an operator package")]
    wrong = {chip: file for chip, file in chips.items() if chip.lower() != wanted.lower()}
    if wrong:
        return [
            failed(
                "ops",
                ", ".join(f"{chip} ({file})" for chip, file in sorted(wrong.items())),
                wanted,
                "install the operators of this chip only",
            )
        ]
    return [passed("ops", ", ".join(chips))]


@check(
    "atb-abi",
    "Has ATB the C++ ABI of torch?",
    "Correct the ATB entries in ENV, or source its set_env.sh with --cxx_abi as torch has it.",
)
def check_atb_abi(given: Given) -> list[Said]:
    """ENV of the base images up to 8.3 names cxx_abi_0, which is wrong for torch 2.7 and later.

    Dumps of real environments hold both paths (vllm-ascend#3689): the ATB script corrects one and leaves the other.
    """
    env = given.env()
    if not given.facts["live"]:
        return [NOT_LIVE]
    named = {
        name: found.group(1)
        for name in ("ATB_HOME_PATH", "LD_LIBRARY_PATH", "PATH")
        if (found := re.search(r"/cxx_abi_([01])", env.get(name, "")))
    }
    if env.get("ATB_CXX_ABI"):
        named["ATB_CXX_ABI"] = env["ATB_CXX_ABI"]
    if not named:
        return (
            [unknown("ATB", "no variable names an ABI of ATB")]
            if given.image
            else [not_run("ATB", "no variable names it")]
        )
    torch = given.version("torch")
    abi = given.facts["torch"]["cxx11_abi"]
    if abi is None and torch:
        # From 2.7 on every wheel of torch is built with the new ABI.
        numbers = [int(number) for number in base_version(torch).split(".")[:2]]
        abi = True if numbers >= [2, 7] else None
    if abi is None and not torch:
        return [not_run("ATB", "the image has no torch")]
    if abi is None:
        return [unknown("ATB", f"the ABI of torch {torch} is not known")]
    wrong = [f"{name}: {value}" for name, value in named.items() if value != str(int(abi))]
    if wrong:
        return [
            failed("ATB", ", ".join(wrong), f"cxx_abi_{int(abi)}, as torch {torch}", "correct the ATB entries in ENV")
        ]
    return [passed("ATB", f"cxx_abi_{int(abi)}")]
