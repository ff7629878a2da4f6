"""Checks: what different shells see."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from ..answers import NOT_LIVE, Given, Said, check, failed, in_image, not_run, passed, unknown
from ..words import LISTS, entries, few, without_secrets
from .environment import blamed_variables, in_env_order, in_order
from .releases import released_variables


@check(
    "shells",
    "Do `sh -c`, a login shell and `docker exec` see the same Python and the same environment?",
    "Take out of /etc/profile, /etc/profile.d and root's start-up files what sets PATH or another variable anew.",
)
def check_shells(given: Given) -> list[Said]:
    """/etc/profile of some systems sets PATH anew; a login shell then finds another Python, or none.

    `docker exec` does not pass by ENTRYPOINT: what only its set_env scripts add is absent there, and what the pins say
    must be there all the same.
    """
    facts = given.facts["environment"]
    if not given.facts["live"]:
        return [NOT_LIVE]
    answers = [shell_answer(given, label, words) for label, words in (("sh", "sh -c"), ("login", "bash -l"))]
    if not facts["env_runs"]:
        then = f"run it: {in_image(given, '/usr/bin/env true')}"
        answers.append(failed("/usr/bin/env", "it does not run", "what the first line of scripts names", then))
    if not facts["env_runs"] and given.reference:
        answers.append(not_run("docker exec", "because of /usr/bin/env, which tells the environment from outside"))
    elif facts.get("exec") is not None:
        answers.append(exec_answer(given, facts["exec"], facts["python3"].get("exec")))
    elif given.reference:
        then = f'c=$(docker run -d {shlex.quote(given.reference)} sleep 600); docker exec "$c" env; docker rm -f "$c"'
        answers.append(
            unknown("docker exec", "the container had ended, or has no shell, before it could be asked", then)
        )
    return answers


def shell_answer(given: Given, label: str, words: str) -> Said:
    """Return what a shell sees, compared with the process that check.py is."""
    facts = given.facts["environment"]
    if facts[label] is None:
        then = f"run it: {in_image(given, words + (' env' if label == 'sh' else ' -c env'))}"
        return failed(words, "it ends before it could answer", "a shell", then)
    released = released_variables(given)
    wrong = []
    if facts["python3"].get(label) != facts["python3"]["process"]:
        wrong.append(f"python3 is {facts['python3'].get(label) or 'not found'}")
    for name in LISTS:
        wanted = [entry for entry in entries(given.env().get(name, "")) if entry and given.exists(entry)]
        missing, ordered = in_env_order(given, name, wanted, entries(facts[label].get(name, "")))
        if name not in released and (missing or not ordered):
            wrong.append(f"{name} lacks {few(missing)}" if missing else f"{name} has another order")
    for name in sorted(given.image.get("env", {})):
        if name not in LISTS and facts[label].get(name) != given.env().get(name) and name not in released:
            wrong.append(f"{name} is {facts[label].get(name, 'not set')}")
    cause = given.failures("start-up") if label == "login" else []
    if wrong and cause:
        return not_run(words, f"because of start-up: {cause[0][1].subject}")
    if wrong:
        return failed(
            words,
            "; ".join(wrong),
            f"python3 is {facts['python3']['process']}, everything as in ENV",
            "see what /etc/profile, /etc/profile.d and root's start-up files change",
        )
    return passed(words)


def exec_answer(given: Given, found: Mapping[str, str], python: str | None) -> Said:
    """Return what `docker exec` sees; somebody outside looked. Without pins its Python alone counts, if asked."""
    wrong = []
    own = {given.facts["environment"]["python3"]["process"], given.facts["python"]["executable"]}
    if python == "" and not given.image:
        return unknown("docker exec", "it finds no python3, and the image has no pins that say whether it should")
    if python == "":
        wrong.append("python3 is not found")
    elif python is not None and python not in own and given.real(python) not in own:
        wrong.append(f"python3 is {python}")
    blamed = blamed_variables(given)
    for name, template in sorted(given.image.get("env", {}).items()):
        wanted, value = str(template).replace("{kernel_arch}", given.facts["machine"]), found.get(name)
        if name in blamed or value == "(hidden)":
            continue
        if value is None:
            wrong.append(f"{name} is not set")
        elif name in LISTS:
            missing, ordered = in_order(given, [entry for entry in entries(wanted) if entry], entries(value))
            if missing or not ordered:
                wrong.append(f"{name} lacks {few(missing)}" if missing else f"{name} has another order")
        elif value != without_secrets(wanted):
            wrong.append(f"{name} is {value or '(empty)'}")
    if wrong:
        wanted = "python3 of the image and every variable of the pins"
        return failed("docker exec", "; ".join(wrong), wanted, "put it in ENV: ENTRYPOINT reaches no `docker exec`")
    return passed("docker exec")
