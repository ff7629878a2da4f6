"""Checks: what packages demand of one another."""

from __future__ import annotations

import re

from ..answers import NO_LOCK, NOTHING_INSTALLED, Given, Said, check, failed, of_cann, passed, unknown, variant_option
from ..pep440 import Pep440
from ..words import canonical, count, few, same_version
from .ours import ours, source_distributions


def same_demand(text: str) -> tuple[str, str]:
    """Return a requirement in a form to compare: its name and its specifiers in order, without marker and extras."""
    found = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;()]*)", text)
    if not found:
        return text.strip(), ""
    parts = [re.sub(r"\s+", "", part) for part in found.group(2).split(",")]
    return canonical(found.group(1)), ",".join(sorted(part for part in parts if part))


def unmet_demands(given: Given, pep: Pep440) -> dict[tuple[str, str, str], str]:
    """Return what `pip check` would say: (whose, name, specifier) -> the version found, empty where it is missing."""
    unmet = {}
    for whose, facts in given.installed.items():
        for line in [] if of_cann(facts) else facts["requires"]:
            try:
                demand = pep.demand(line, given.facts["python"]["markers"])
            except ValueError:
                continue
            if demand is None:
                continue
            found = given.version(demand[0])
            if not found or (demand[1] and pep.allows(demand[1], found) is False):
                unmet[(whose, *same_demand(line))] = found
    return unmet


@check(
    "package-demands",
    "Are exactly those demands of packages unmet that the pins lift?",
    "Change the pins so that the demand is met, or lift it by a `relax` with a reason; remove a `relax` that is "
    "no longer needed. Then lock again.",
)
def check_package_demands(given: Given) -> list[Said]:
    """These stacks contradict themselves by design, so plain `pip check` is never clean.

    A new conflict fails: numpy 2 beside what needs numpy 1 was one (vllm-ascend#1875). So does an accepted one that is
    gone.
    """
    if given.lock is None:
        return [NO_LOCK]
    if not given.installed:
        return [NOTHING_INSTALLED]
    if given.pep is None:
        return [unknown("", "no `packaging` in the image, alone or in pip, to compare versions with")]
    unmet = unmet_demands(given, given.pep)
    accepted = {
        (canonical(conflict["whose"]), *same_demand(conflict["demand"])): conflict for conflict in given.lock.conflicts
    }
    # Conflicts name a source as the pins do; metadata names its distribution.
    names = {canonical(source["name"]): name for name, source in source_distributions(given).items()}
    accepted = {
        (names.get(whose, whose), name, demand): conflict for (whose, name, demand), conflict in accepted.items()
    }
    blamed = given.blamed(
        "torch-family", "pinned-packages", "locked-packages", "forbidden-packages", "duplicate-packages"
    )
    answers = []
    new: dict[str, list[str]] = {}
    for whose, name, demand in sorted(set(unmet) - set(accepted)):
        if whose not in blamed and name not in blamed:
            new.setdefault(whose, []).append(f"{name}{demand} (found {unmet[whose, name, demand] or 'none'})")
    known = ours(given)
    for whose, demands in new.items():
        found = f"{whose} {given.version(whose)} asks for {few(demands)}"
        wanted = "demands that are met, or lifted by a `relax` with a reason"
        then = f"invoke lock{variant_option(given)}"
        if whose in known:
            answers.append(failed(whose, found, wanted, then))
        else:
            answers.append(unknown(whose, f"{found}; it is the base image's own"))
    for whose, name, demand in sorted(set(accepted) - set(unmet)):
        if whose not in blamed and name not in blamed:
            answers.append(
                failed(
                    whose,
                    f"{whose} {given.version(whose) or '(not installed)'} no longer conflicts over {name}{demand}",
                    f"the conflict that is accepted because: {accepted[(whose, name, demand)].get('reason', '')}",
                    f"remove its `relax`, then invoke lock{variant_option(given)}",
                )
            )
    for key in sorted(set(accepted) & set(unmet)):
        wanted = accepted[key].get("found", "")
        if (
            wanted != unmet[key]
            and not (wanted and unmet[key] and same_version(wanted, unmet[key]))
            and key[1] not in blamed
        ):
            answers.append(
                failed(
                    key[0],
                    f"{key[0]} asks for {key[1]}{key[2]}, found {unmet[key] or 'none'}",
                    f"{key[1]} {wanted or 'not installed'}, as accepted",
                    "install what lock.txt says",
                )
            )
    return answers or [passed("", f"{count(len(accepted), 'conflict')}, all accepted")]
