"""Checks: what npu-smi says, and whether the image was made for the chips that it names."""

from __future__ import annotations

from ..answers import NOT_LIVE, Given, Said, check, failed, not_run, passed, unknown
from ..facts.npu import NPU_SMI_PATHS, NPU_SMI_SECONDS
from ..npu_smi import CANN_TAG, UNKNOWN, Listing, parse
from ..process import NO_END
from ..words import count, few, last_line
from .families import host_families, made_for
from .nodes import because_of, driver_version, hindered, mounts

#: Codes of the driver that come where another container or process has the device.
_BUSY = (-8005, -8020)


@check(
    "npu-smi",
    "Does npu-smi run, wherever it lies, and list the chips?",
    "Mount the host's npu-smi and driver; where a code says that the device is in use, stop what uses it or take "
    "another "
    "device (`invoke doctor` on the host names the container).",
)
def check_npu_smi(given: Given) -> list[Said]:
    """Its code -8005 usually means that another container holds the device (vllm-ascend#2698).

    It is documented at two places, and a mount of the wrong one leaves an empty directory of that name.
    """
    hindrance = hindered(given, "driver-mounted", "device-access")
    if hindrance is not None:
        return [hindrance]
    facts = given.facts["npu_smi"]
    if not facts["path"]:
        return [_absent(given)]
    listing, code = parse(facts["text"]), facts["code"]
    if code is None:
        return [unknown(facts["path"], "it was not run")]
    if code == 0 and listing.chips and not listing.errors:
        return _listed(facts["path"], listing)
    return [_refused(given, facts["path"], code, listing)]


def _absent(given: Given) -> Said:
    """Return what to say where no npu-smi is: the version file then tells the driver at least."""
    directory = given.facts["npu_smi"]["directory"]
    if directory:
        found = f"{directory} is a directory: docker makes one where the file that it shall mount is not on the host"
        return failed("npu-smi", found, "the host's npu-smi, a file", mounts(given))
    version = driver_version(given.facts["driver_files"])
    beside = f"; the driver is {version} by its version.info" if version else ""
    return unknown("npu-smi", f"in none of {', '.join(NPU_SMI_PATHS)}, nor on PATH{beside}", mounts(given))


def _listed(path: str, listing: Listing) -> list[Said]:
    """Return what a readable table says; chips that are not OK have been seen to work, so that is told, not judged."""
    names = ", ".join(dict.fromkeys(chip.name for chip in listing.chips))
    answers = [passed(path, f"{count(len(listing.chips), 'chip')} ({names}), driver {listing.version}")]
    ill = [f"NPU {chip.npu}: {chip.health}" for chip in listing.chips if chip.health.upper() != "OK"]
    if ill:
        found = f"not every chip is OK: {few(ill)}; some work all the same"
        answers.append(unknown("health", found, f"npu-smi info -t health -i {ill[0].split()[1].rstrip(':')}"))
    return answers


def _refused(given: Given, path: str, code: int, listing: Listing) -> Said:
    """Return what to say of an npu-smi that listed nothing or ended badly: its code in words, and what is usual."""
    error = next((error for error in listing.errors if error.code is not None), None)
    error = error or next(iter(listing.errors), None)
    text = error.line if error else last_line(given.facts["npu_smi"]["text"]) or "it printed nothing"
    found = f"no answer within {NPU_SMI_SECONDS:.0f} s" if code == NO_END else f"exit code {code}: {text}"
    if error:
        found += f" ({error.meaning})"
    if error and error.code in _BUSY:
        if given.facts.get("host", {}).get("holders"):
            return not_run("npu-smi", "because of device-holder: another container has the device")
        then = (
            "who holds it cannot be seen from in here; look at two things on the host: `invoke doctor` (or "
            "docker ps with "
            "the devices of each container), and the processes in `npu-smi info`"
        )
        return failed("npu-smi", found, "the table of chips", then)
    if error and error.code is None and given.facts["user"]["uid"] != 0:
        return unknown("npu-smi", found, "start the container as root to see whether npu-smi works at all")
    if code == 0:
        return unknown("npu-smi", f"it ran and listed no chip: {text}", f"run it by hand: {path} info")
    return failed(
        "npu-smi", found, "the table of chips", f"run it by hand, in the container and on the host: {path} info"
    )


@check(
    "chip",
    "Are the chips of this host those that the image was made for?",
    "Use the image of the same stack for this host's chips, or a host with the chips that the image is for.",
)
def check_chip(given: Given) -> list[Said]:
    """An image for A2 asserts at start on an A3 host, and its name does not say so before (vllm-ascend#11160)."""
    if not given.facts["live"]:
        return [NOT_LIVE]
    hindrance = hindered(given, "driver-mounted", "device-access") or because_of(given, "npu-smi")
    families = {} if hindrance is not None else host_families(given)
    if hindrance is not None:
        return [hindrance]
    if not families:
        return [not_run("", "hardware unknown: npu-smi names no chip")]
    wanted, says = made_for(given)
    shown = ", ".join(f"{family} ({name})" for family, name in families.items())
    if not wanted:
        return [unknown("", f"this host's chips are {shown}; which ones the image is for is not known")]
    others = [family for family in families if family not in (wanted, UNKNOWN)]
    if others:
        return [
            failed(
                others[0],
                f"the image is for {wanted} ({says}), this host's chips are {shown}",
                f"an image for {others[0]}",
                sibling(given, CANN_TAG[others[0]]),
            )
        ]
    if UNKNOWN in families:
        then = "npu-smi info -t board -i 0 -c 0 names the chip; compare it with the pins' soc_version"
        return [unknown("", f"the family of a chip cannot be told: {families[UNKNOWN]}", then)]
    return [passed(wanted, shown)]


def sibling(given: Given, tag: str) -> str:
    """Return how to get the image for another chip: its name where whoever started the container knows it."""
    known = given.facts.get("container", {}).get("siblings", {}).get(tag)
    if known:
        return f"use {known}"
    name = given.image.get("variant")
    this = f" (this one is {name})" if name else ""
    return f"use the image of this stack for chip {tag}: invoke variants lists them{this}"
