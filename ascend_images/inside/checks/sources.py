"""Checks: git checkouts, and what is imported from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..answers import NO_PINS, NO_SOURCES, NOT_LIVE, Given, Said, check, failed, in_image, not_run, passed, unknown
from ..words import canonical, count, few
from .families import family_of_device_type, meant_for, plain_device_type


@check(
    "source-commit",
    "Is every checkout at its pinned commit, unchanged, with its submodules?",
    "Build the image again: a source is fetched by its locked commit, with its submodules, and nobody edits it there.",
)
def check_source_commit(given: Given) -> list[Said]:
    """A checkout that is one commit off, or edited by hand, is another program under the same name.

    Branches move: releases/v0.18.0 of vLLM Ascend went to another CANN while images named it.
    """
    if not given.image:
        return [NO_PINS]
    answers = []
    for source in given.sources:
        name, path, facts = source["name"], source.get("path", ""), given.facts["sources"][source["name"]]
        commit = source.get("commit") or (source["ref"] if re.fullmatch(r"[0-9a-f]{40}", source.get("ref", "")) else "")
        again = f"build it again from {source.get('git', 'its repository')}"
        if not facts["present"]:
            answers.append(failed(name, f"{path} is not there", f"a checkout at {path}", again))
            continue
        if not facts["head"]:
            answers.append(unknown(name, f"git in {path}: {facts['git_error']}"))
            continue
        if commit and facts["head"] != commit:
            answers.append(failed(name, f"{path} is at {facts['head']}", f"{commit} ({source.get('ref', '')})", again))
            continue
        missing = (
            [sub["path"] for sub in facts["submodules"] or [] if not sub["head"]] if source.get("submodules") else []
        )
        moved = [
            f"{sub['path']} at {sub['head'][:12]}"
            for sub in facts["submodules"] or []
            if sub["head"] and sub["head"] != sub["recorded"]
        ]
        if missing:
            answers.append(
                failed(name, f"submodules missing: {few(missing)}", "every submodule at its recorded commit", again)
            )
        elif moved:
            answers.append(
                failed(name, f"submodules elsewhere: {few(moved)}", "every submodule at its recorded commit", again)
            )
        elif facts["changed"] and not source.get("local"):
            answers.append(
                failed(
                    name,
                    f"{path} has {count(len(facts['changed']), 'change')}: {few(facts['changed'])}",
                    "a clean checkout",
                    in_image(given, f"git -C {path} diff"),
                )
            )
        elif facts["changed"] is None:
            answers.append(unknown(name, f"git in {path}: {facts['git_error']}"))
        elif not commit:
            answers.append(
                unknown(name, f"at {facts['head']}; the pins name no commit, only {source.get('ref') or 'nothing'}")
            )
        else:
            answers.append(passed(name, facts["head"]))
    return answers or [NO_SOURCES]


@check(
    "source-origin",
    "Does every source import from its checkout, wherever Python is started?",
    "Install the source in editable compat mode, after everything that depends on it, and keep its checkout out "
    "of WORKDIR.",
)
def check_source_origin(given: Given) -> list[Said]:
    """In WORKDIR, a checkout's folder shadowed the editable installation as a namespace package (vllm-ascend#725).

    Asked from `/`, WORKDIR and an empty directory.
    """
    if not given.image:
        return [NO_PINS]
    if given.facts["origins"] is None:
        return [NOT_LIVE]
    answers = []
    for source in given.sources:
        module, path = source.get("module", ""), source.get("path", "")
        if not module or source.get("install") == "none":
            continue
        own = canonical(source.get("distribution") or source["name"])
        if own in given.blamed("damaged-packages", "duplicate-packages") and source.get("install") == "editable":
            answers.append(not_run(module, f"because of the distribution {own}, which is damaged"))
            continue
        if not given.facts["sources"][source["name"]]["present"]:
            answers.append(not_run(module, "because of source-commit: the checkout is not there"))
            continue
        seen = {place: modules[module] for place, modules in given.facts["origins"].items() if module in modules}
        lost = {place: origin_text(origin) for place, origin in seen.items() if not inside(origin["origin"], path)}
        wanted = f"{module} from {path}, wherever Python is started"
        if not lost:
            if len({origin["origin"] for origin in seen.values()}) > 1:
                text = ", ".join(f"from {place}: {origin['origin']}" for place, origin in seen.items())
                answers.append(failed(module, text, wanted, "look for a second folder of that name in the checkout"))
            else:
                answers.append(passed(module, next(iter(seen.values()))["origin"] if seen else ""))
        elif len(lost) < len(seen):
            text = "; ".join(f"started in {place}: {said}" for place, said in lost.items())
            answers.append(
                failed(
                    module,
                    f"the import depends on the directory: {text}",
                    wanted,
                    "install it in editable compat mode, and keep its checkout out of WORKDIR",
                )
            )
        else:
            answers.append(
                failed(
                    module,
                    next(iter(lost.values())),
                    wanted,
                    f"install {source['name']} from {path}, after everything that depends on it",
                )
            )
    return answers or [not_run("", "the pins name no source that is imported")]


def inside(path: str, folder: str) -> bool:
    """Tell whether a path lies below a folder."""
    return bool(folder) and path.startswith(folder.rstrip("/") + "/")


def origin_text(origin: Mapping[str, Any]) -> str:
    """Return in words where a module comes from."""
    if origin["error"]:
        return str(origin["error"])
    if origin["namespace"]:
        return f"an empty namespace package of the folder {', '.join(origin['namespace'])}"
    return f"imported from {origin['origin']}"


@check(
    "source-version",
    "Has every source the version that the pins say, as a distribution and in itself?",
    "Tell the version to its build: SETUPTOOLS_SCM_PRETEND_VERSION, from the pin.",
)
def check_source_version(given: Given) -> list[Said]:
    """A checkout fetched by commit has no tags, so setuptools-scm guesses its version.

    vLLM Ascend branches on `vllm.__version__` in some fifty places.
    """
    if not given.image:
        return [NO_PINS]
    answers = []
    for source in given.sources:
        name, wanted = source["name"], source.get("version", "")
        if not wanted:
            continue
        told = f"tell the version to its build (SETUPTOOLS_SCM_PRETEND_VERSION={wanted.split('+')[0]})"
        inner = given.facts["sources"][name]["version"]
        if inner is not None and inner not in (wanted, wanted.split("+")[0]):
            answers.append(failed(name, f"{source['module']}.__version__ is {inner}", wanted.split("+")[0], told))
            continue
        if source.get("install") != "editable":
            answers += [passed(name, inner)] if inner is not None else []
            continue
        distribution = source.get("distribution") or name
        found = given.version(distribution)
        if not found and canonical(source.get("module", "")) in given.blamed("source-origin"):
            answers.append(not_run(name, f"because of source-origin: {source['module']}"))
        elif not found:
            answers.append(
                failed(
                    name,
                    f"no distribution {distribution}",
                    f"{distribution} {wanted}",
                    f"install {source.get('path')} in editable mode",
                )
            )
        elif found != wanted:
            answers.append(failed(name, f"{distribution} {found}", wanted, told))
        else:
            answers.append(passed(name, found))
    return answers or [not_run("", "the pins name no source that says its version")]


@check(
    "compiled-extensions",
    "Is what is compiled for a chip there, for this machine and this chip?",
    "Compile it again with SOC_VERSION of the image's chip, on the image's architecture.",
)
def check_compiled_extensions(given: Given) -> list[Said]:
    """A wheel built for A2 asserts at start on an A3 host, and its name does not say so (vllm-ascend#11160)."""
    answers = wheel_answers(given)
    if not given.image:
        return answers or [NO_PINS]
    for source in given.sources:
        if not source.get("compiles"):
            continue
        name, facts = source["name"], given.facts["sources"][source["name"]]
        built, wanted = facts["device_type"], given.image.get("device_type", "")
        machines = {extension["machine"] for extension in facts["extensions"]}
        again = f"compile {name} again for {given.image.get('soc_version', 'the chip')}"
        if not facts["present"]:
            answers.append(not_run(name, "because of source-commit: the checkout is not there"))
        elif not facts["extensions"]:
            answers.append(failed(name, f"no shared object below {source['path']}", "its compiled extension", again))
        elif given.facts["machine"] not in machines:
            answers.append(
                failed(
                    name,
                    f"extensions for {', '.join(sorted(machines)) or 'no known machine'}",
                    given.facts["machine"],
                    again,
                )
            )
        elif built and wanted and plain_device_type(built) != plain_device_type(wanted):
            answers.append(failed(name, f"built for device type {built}", wanted, again))
        elif not built and wanted:
            answers.append(unknown(name, "its _build_info.py names no device type"))
        else:
            answers.append(
                passed(name, f"{count(len(facts['extensions']), 'shared object')}, device type {built or 'not told'}")
            )
    return answers or [not_run("", "nothing in it is compiled for a chip")]


def wheel_answers(given: Given) -> list[Said]:
    """Return what chip a vLLM Ascend that came as a wheel was built for; nothing where it is a source of the pins."""
    built = given.facts["built_for"]
    if not built["device_type"] or any(source.get("module") == "vllm_ascend" for source in given.sources):
        return []
    wanted, says = meant_for(given)
    if not wanted:
        found = f"built for device type {built['device_type']}; which chip the image is for is not known"
        return [unknown("vllm-ascend", found)]
    if family_of_device_type(built["device_type"]) == wanted:
        return [passed("vllm-ascend", f"device type {built['device_type']}")]
    then = "install the wheel for this chip, or compile it from source with SOC_VERSION of the chip"
    found = f"built for device type {built['device_type']} ({built['file']})"
    return [failed("vllm-ascend", found, f"{wanted}, by {says}", then)]
