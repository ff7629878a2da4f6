"""Checks: what different shells see."""

from __future__ import annotations

from ..answers import NOT_LIVE, Given, Said, check, failed, not_run, passed
from ..words import LISTS, entries, few
from .environment import in_env_order
from .releases import LOGIN, places_of_release


@check("shells", "Do `sh -c` and a login shell see the same Python and the same environment?")
def check_shells(given: Given) -> list[Said]:
    """/etc/profile of some systems sets PATH anew; a login shell then finds another Python, or none."""
    facts = given.facts["environment"]
    if not given.facts["live"]:
        return [NOT_LIVE]
    answers = []
    released = {name.replace(LOGIN, "") for where in places_of_release(given).values() for name in where}
    for label, words in (("sh", "sh -c"), ("login", "bash -l")):
        if facts[label] is None:
            answers.append(
                failed(
                    words,
                    "it ends before it could answer",
                    "a shell",
                    f"run it: {words}" + (" 'env'" if label == "sh" else ""),
                )
            )
            continue
        wrong = []
        if facts["python3"].get(label) != facts["python3"]["process"]:
            wrong.append(f"python3 is {facts['python3'].get(label) or 'not found'}")
        for name in LISTS:
            wanted = [entry for entry in entries(given.env().get(name, "")) if entry and given.exists(entry)]
            missing, ordered = in_env_order(given, name, wanted, entries(facts[label].get(name, "")))
            if name in released:
                continue
            if missing or not ordered:
                wrong.append(f"{name} lacks {few(missing)}" if missing else f"{name} has another order")
        for name in sorted(given.image.get("env", {})):
            if name not in LISTS and facts[label].get(name) != given.env().get(name) and name not in released:
                wrong.append(f"{name} is {facts[label].get(name, 'not set')}")
        cause = given.failures("start-up") if label == "login" else []
        if wrong and cause:
            answers.append(not_run(words, f"because of start-up: {cause[0][1].subject}"))
        elif wrong:
            answers.append(
                failed(
                    words,
                    "; ".join(wrong),
                    f"python3 is {facts['python3']['process']}, everything as in ENV",
                    "see what /etc/profile, /etc/profile.d and root's start-up files change",
                )
            )
        else:
            answers.append(passed(words))
    return answers
