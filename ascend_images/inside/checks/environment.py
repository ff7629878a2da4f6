"""Checks: the environment against the file system, the pins and the set_env scripts."""

from __future__ import annotations

from collections.abc import Sequence

from ..answers import NO_PINS, NOT_LIVE, Given, Said, check, failed, not_run, passed, unknown
from ..words import LISTS, comes_from_host, count, entries, few, without_secrets
from .releases import LOGIN, places_of_release, released_variables, releases_of


@check(
    "environment-release",
    "Does no variable lead to another CANN release?",
    "Replace the paths of the old release in ENV, and in what a shell reads at its start.",
)
def check_environment_release(given: Given) -> list[Said]:
    """Where one CANN release is laid over another, the base image's variables still name the old one.

    A public recipe for 8.5.2 over 8.5.1 ships like that.
    """
    if not given.image.get("cann"):
        return [NO_PINS if not given.image else unknown("", "image.json names no CANN release")]
    if not given.facts["live"]:
        return [NOT_LIVE]
    set_env = given.facts["environment"]["set_env"] or {"lists": {}}
    known = {said.subject for _, said in given.failures("start-up")}
    known |= {
        f"CANN {release}"
        for release in releases_of(given, [entry for found in set_env["lists"].values() for entry in found])
    }
    answers = []
    for release, where in sorted(places_of_release(given).items()):
        if f"CANN {release}" in known and all(name.endswith(LOGIN) for name in where):
            continue  # a login shell only does what start-up files and set_env scripts say
        names = [
            f"{name} ({found[0]}{f' and {len(found) - 1} more' if len(found) > 1 else ''})"
            for name, found in sorted(where.items())
        ]
        answers.append(
            failed(
                f"CANN {release}",
                few(names),
                f"CANN {given.image['cann']} only",
                "replace them in ENV, and in what a shell reads at its start",
            )
        )
    return answers


def blamed_variables(given: Given) -> set[str]:
    """Return the variables that an earlier check of the environment has named, so that one cause gives one finding."""
    names = released_variables(given)
    names |= {name for named in dead_entries(given).values() for name, _ in named}
    return names | {said.subject for _, said in given.failures("environment-paths", "environment-values")}


def may_be_missing(name: str) -> bool:
    """Tell whether a variable names places that are made when they are used."""
    return "CACHE" in name or name.startswith("XDG_") or name in ("HF_HOME", "TORCH_HOME", "TMPDIR", "HOME")


def dead_entries(given: Given) -> dict[str, list[tuple[str, str]]]:
    """Return the paths that are missing: first missing part -> variables and their entries.

    Driver and devlib come from the host; what set_env.sh itself adds is the vendor's; what leads to another CANN
    release is a finding of its own.
    """
    set_env = given.facts["environment"]["set_env"] or {"lists": {}, "values": {}}
    exempt = {entry for found in set_env["lists"].values() for entry in found} | set(set_env["values"].values())
    dead: dict[str, list[tuple[str, str]]] = {}
    for name, value in given.env().items():
        if not (name in LISTS or name.endswith(("PATH", "HOME"))) or may_be_missing(name):
            continue
        for entry in entries(value):
            known = given.facts["paths"].get(entry, {"exists": True})
            if not (known["exists"] or comes_from_host(entry) or entry in exempt or releases_of(given, [entry])):
                dead.setdefault(known["missing"], []).append((name, entry))
    return dead


@check(
    "environment-paths",
    "Does every path in the environment exist?",
    "Correct ENV: the message names what is missing and what lies there instead.",
)
def check_environment_paths(given: Given) -> list[Said]:
    """A published CANN image's home variable pointed to a directory that was not there (cann-container-image#61)."""
    if not given.facts["live"]:
        return [NOT_LIVE]
    answers = []
    for missing, named in sorted(dead_entries(given).items()):
        near = given.facts["paths"][named[0][1]]["near"]
        listed = few(f"{entry} in {name}" if name in LISTS else f"{name}={entry}" for name, entry in named)
        wanted = f"a path that exists{f'; there is {near}' if near else ''}"
        answers.append(failed(missing, f"not there: {listed}", wanted, "correct ENV"))
    for name in LISTS:
        if "" in entries(given.env().get(name, "")) and name in given.image.get("env", {}):
            found = f"{name} has an empty entry: whatever directory a program is started in is searched"
            answers.append(failed(name, found, "no empty entry", "correct ENV"))
    return answers


def in_order(given: Given, wanted: Sequence[str], found: Sequence[str]) -> tuple[list[str], bool]:
    """Return which paths of a list are missing from another, and whether the rest stands in the same order."""
    here = [given.real(entry) for entry in found]
    missing = [entry for entry in wanted if given.real(entry) not in here]
    rest = iter(here)
    ordered = all(any(given.real(entry) == other for other in rest) for entry in wanted if entry not in missing)
    return missing, ordered


def in_env_order(given: Given, name: str, wanted: Sequence[str], found: Sequence[str]) -> tuple[list[str], bool]:
    """Compare a list of paths as `in_order` does, where set_env scripts may have been sourced on top of it.

    ENTRYPOINT and login shells source them: they put their own entries in front once more.
    """
    missing, ordered = in_order(given, wanted, found)
    added = {
        given.real(entry) for entry in (given.facts["environment"]["set_env"] or {"lists": {}})["lists"].get(name, [])
    }
    renewed = sorted(wanted, key=lambda entry: given.real(entry) not in added)
    return missing, ordered or in_order(given, renewed, found)[1]


@check(
    "environment-values",
    "Has every variable of the pins its value?",
    "Put the variable in ENV; what only a shell's start-up file sets does not count.",
)
def check_environment_values(given: Given) -> list[Said]:
    """What only an interactive shell sees is a defect: `docker run IMAGE vllm serve …` reads no .bashrc."""
    if not given.image:
        return [NO_PINS]
    blamed, answers = blamed_variables(given), []
    wanted = {"SOC_VERSION": given.image["soc_version"]} if given.image.get("soc_version") else {}
    wanted.update(
        {
            name: str(value).replace("{kernel_arch}", given.facts["machine"])
            for name, value in given.image.get("env", {}).items()
        }
    )
    if not given.facts["live"]:
        return [NOT_LIVE]
    if not wanted:
        return [not_run("", "the pins set no variable")]
    for name, value in wanted.items():
        found = given.env().get(name)
        if name in blamed or found == "(hidden)":
            continue
        if found is None:
            answers.append(failed(name, "not set", value or "an empty value", "put it in ENV"))
        elif name in LISTS:
            missing, ordered = in_env_order(given, name, [entry for entry in entries(value) if entry], entries(found))
            if missing:
                answers.append(failed(name, f"lacks {few(missing)}", f"all of {few(entries(value))}", "correct ENV"))
            elif not ordered:
                answers.append(failed(name, f"another order: {found}", value, "correct ENV"))
        elif found != without_secrets(value):
            answers.append(
                failed(
                    name, found or "(empty)", value or "(empty)", "correct ENV, or leave out the -e that replaces it"
                )
            )
    return answers or [passed("", count(len(wanted), "variable"))]


def without_set_env(given: Given) -> Said | None:
    """Return what to say where there is nothing of set_env scripts to compare ENV with."""
    set_env = given.facts["environment"]["set_env"]
    if not given.facts["live"]:
        return NOT_LIVE
    if set_env is None:
        return unknown("", "image.json names no set_env scripts") if given.image else NO_PINS
    if set_env["error"]:
        then = "source them by hand in bash, outside strict mode"
        return failed("set_env.sh", set_env["error"], "scripts that can be sourced", then)
    if not set_env["lists"] and not set_env["values"]:
        return unknown("set_env.sh", "the scripts can be sourced and set nothing")
    return None


@check(
    "environment-set-env",
    "Does ENV agree with what CANN's set_env scripts would set?",
    "Add the entries to ENV that the message lists, in the order of the scripts.",
)
def check_environment_set_env(given: Given) -> list[Said]:
    """ENV is what a command without a shell sees. Every entry that the scripts add must be in it, in their order."""
    set_env = given.facts["environment"]["set_env"]
    instead = without_set_env(given)
    if instead is not None:
        return [instead]
    blamed, answers = blamed_variables(given), []
    for release in releases_of(given, [entry for added in set_env["lists"].values() for entry in added]):
        if f"CANN {release}" not in {said.subject for _, said in given.failures("start-up", "environment-release")}:
            then = "see which release the link ascend-toolkit/latest and the scripts themselves lead to"
            answers.append(failed("set_env.sh", f"sets up CANN {release}", f"CANN {given.image['cann']}", then))
        blamed |= {name for name, added in set_env["lists"].items() if releases_of(given, added)}
        blamed |= {name for name, value in set_env["values"].items() if releases_of(given, [value])}
    for name, added in sorted(set_env["lists"].items()):
        wanted = [entry for entry in added if not comes_from_host(entry) and given.exists(entry)]
        missing, ordered = in_order(given, wanted, entries(given.env().get(name, "")))
        if name not in blamed and missing:
            answers.append(
                failed(
                    name,
                    f"lacks {few(missing)}",
                    f"what the set_env scripts add: {few(wanted)}",
                    f"add to {name} in ENV: {':'.join(missing)}",
                )
            )
        elif name not in blamed and not ordered:
            here = [
                entry for entry in entries(given.env().get(name, "")) if given.real(entry) in map(given.real, wanted)
            ]
            answers.append(
                failed(
                    name, f"another order: {':'.join(here)}", ":".join(wanted), "put ENV in the order of the scripts"
                )
            )
    for name, value in sorted(set_env["values"].items()):
        found = given.env().get(name)
        if name in blamed or comes_from_host(value):
            continue
        if found is None or (found != value and given.real(found) != given.real(value)):
            answers.append(
                failed(
                    name,
                    "not set" if found is None else found or "(empty)",
                    f"{value or '(empty)'}, as the set_env scripts set it",
                    f"correct {name} in ENV",
                )
            )
    return answers
