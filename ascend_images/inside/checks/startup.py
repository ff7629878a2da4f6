"""Checks: ENTRYPOINT and the shells' start-up files."""

from __future__ import annotations

from ..answers import NO_PINS, Given, Said, check, failed, not_run
from ..words import few, release_key, releases_named


@check(
    "start-up",
    "Do ENTRYPOINT and the shells' start-up files name this CANN release only, and scripts that exist?",
    "Replace the lines of ENTRYPOINT, /etc/profile and root's start-up files that name another release or a "
    "missing script.",
)
def check_start_up(given: Given) -> list[Said]:
    """The base images name scripts of one release by full path in ENTRYPOINT, /etc/profile and root's .bashrc.

    A public image that laid CANN 8.5.2 over 8.5.1 still sources the scripts of 8.5.1.
    """
    if not given.facts["startup"] and not given.image.get("cann_scripts"):
        return [not_run("", "no start-up file, and no ENTRYPOINT in image.json")]
    cann, answers = release_key(given.image.get("cann", "")), []
    others: dict[str, list[str]] = {}
    missing: dict[str, list[str]] = {}
    for document in given.facts["startup"]:
        for release in document["releases"] if cann else []:
            if release_key(release) != cann:
                others.setdefault(release, []).append(document["file"])
        for script in document["scripts"]:
            if not script["guarded"] and not given.exists(script["path"]):
                missing.setdefault(script["path"], []).append(document["file"])
    for script in given.image.get("cann_scripts", []):
        if not given.exists(script.split()[0]):
            missing.setdefault(script.split()[0], []).append("image.json")
    for release, files in sorted(others.items()):
        found = f"named by {few(files)}"
        then = "replace the lines that name it"
        answers.append(failed(f"CANN {release}", found, f"CANN {given.image['cann']} only", then))
    for path, files in sorted(missing.items()):
        if not set(releases_named(path)) & set(others):
            near = given.facts["paths"].get(path, {}).get("near", "")
            wanted = f"a script that exists{f'; there is {near}' if near else ''}"
            answers.append(failed(path, f"not there, and sourced by {few(files)}", wanted, "correct what sources it"))
    # Scripts that exist are half of the question.
    return answers or ([] if cann else [NO_PINS])
