"""Checks: what people start must import."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from ..answers import NOT_LIVE, Given, Said, check, failed, in_image, not_run, passed
from ..words import canonical, last_line, without_log_lines

#: What the end of stderr says where only the driver, or a device, is missing.
_NO_DRIVER = re.compile(
    r"libascend_hal\.so|libdrvdsmi_host\.so|libdcmi\.so|npu-smi|\baclInit\b|\b(?:aclrt|rt)(?:Set|Get)Device|"
    r"\bdrv[A-Z]\w+|\b[Nn]o NPU|NPU.{0,40}(?:not available|not found)"
)
NO_DRIVER = "no driver in a build: torch_npu needs libraries that the host's driver brings"
#: What vLLM Ascend says on a chip that it was not built for.
_WRONG_CHIP = re.compile(r"device type.{0,80}does not match", re.IGNORECASE)

#: Checks whose findings explain why something does not import.
_CAUSES = tuple(
    """
    pinned-packages locked-packages damaged-packages duplicate-packages shared-files forbidden-packages package-demands
    source-origin source-commit elf-needs
    """.split()
)


def blame(given: Given, stderr: str) -> str:
    """Return the earlier finding that explains why an import failed, empty where none does."""
    for name, said in given.failures("torch-family"):
        return f"{name}: {said.found}"
    for name, said in given.failures(*_CAUSES):
        for subject in re.split(r",\s*", said.subject):
            facts = given.installed.get(canonical(subject))
            words = [
                subject,
                *(facts["modules"] if facts else [subject.replace("-", "_")]),
                *modules_of(given, subject),
            ]
            if name == "elf-needs":
                words = [posixpath.basename(subject)]
            if any(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", stderr) for word in words):
                return f"{name}: {said.subject}"
    return ""


def modules_of(given: Given, subject: str) -> list[str]:
    """Return the module and the folder of the source that a finding is about, by its name or its distribution's."""
    name = canonical(subject)
    named = [
        source
        for source in given.sources
        if name in (canonical(source["name"]), canonical(source.get("distribution") or source["name"]))
    ]
    return [source[key] for source in named for key in ("module", "path") if source.get(key)]


def blame_host(given: Given, stderr: str) -> str:
    """Return the finding about the host that explains why an import failed, empty where none does."""
    patterns = {"driver-mounted": _NO_DRIVER, "device-access": _NO_DRIVER, "npu-smi": _NO_DRIVER, "chip": _WRONG_CHIP}
    causes = (
        pair for name, pattern in patterns.items() if pattern.search(ending(stderr)) for pair in given.failures(name)
    )
    return next((f"{name}: {said.subject}" for name, said in causes), "")


def how_it_ended(ran: Mapping[str, Any]) -> str:
    """Return in words how a program ended that did not end well."""
    if ran["timed_out"]:
        return "no end within the time limit"
    return f"killed by {ran['signal']}" if ran["signal"] else f"exit code {ran['exit']}"


def root_cause(stderr: str) -> str:
    """Return the last line of a traceback, or of the one that it names as its direct cause.

    torch says of every failure of torch_npu that it could not load a backend; why stands in the traceback before.
    """
    before, _, _ = stderr.partition("\nThe above exception was the direct cause of the following exception:")
    return last_line(without_log_lines(before))


def ending(stderr: str) -> str:
    """Return what of a traceback tells the cause: its end, and the line of the direct cause far above it."""
    return f"{root_cause(stderr)}\n{stderr[-1500:]}"


@check(
    "entry-points",
    "Does everything import that people start, each in a process of its own?",
    "Run the import by hand and read its traceback; a missing module belongs into the lock, a missing library "
    "into the image.",
)
def check_entry_points(given: Given) -> list[Said]:
    """`import vllm` passes where `import vllm.entrypoints.openai.api_server`, which people start, does not.

    Where only the host's driver is missing the answer is `not run`. A build imports after each source that it lays over
    the packages; what has asked for nothing of those that came later is not imported again at its end, and the report's
    facts name it (`imported_ahead`). A container that is verified imports everything.
    """
    if given.facts["imports"] is None:
        return [NOT_LIVE]
    answers, causes = [], dict[str, str]()
    for name, ran in given.facts["imports"].items():
        if ran["exit"] == 0 and not ran["signal"] and not ran["timed_out"]:
            answers.append(passed(name))
            continue
        end = root_cause(ran["stderr"])
        cause = f"{how_it_ended(ran)}: {end}" if end else how_it_ended(ran)
        if because := blame(given, ran["stderr"]) or blame_host(given, ran["stderr"]):
            answers.append(not_run(name, f"because of {because}"))
        elif not given.facts["driver"] and not ran["timed_out"] and _NO_DRIVER.search(ending(ran["stderr"])):
            answers.append(not_run(name, NO_DRIVER, "run this check on a host with its driver mounted"))
        elif end and cause in causes:
            answers.append(not_run(name, f"because of entry-points: {causes[cause]}, which fails in the same way"))
        else:
            causes[cause] = name
            # A last part with a capital is an attribute.
            module = name.rpartition(".")[0] if name.rpartition(".")[2][:1].isupper() else ""
            then = in_image(given, f"python3 -c 'import {module or name}'")
            answers.append(failed(name, cause, f"import {name}", then))
    return answers or [not_run("", "nothing to import: neither torch, vLLM nor a module of the pins")]
