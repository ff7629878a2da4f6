"""Whether a host's driver goes with a CANN release, and its firmware with the driver."""

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from ascend_images.errors import BadInput
from ascend_images.host.facts import HostFacts
from ascend_images.host.npu_smi import CANN_TAG, UNKNOWN, parse
from ascend_images.pins.cann_version import ReleaseVersion, driver_version_of
from ascend_images.pins.drivers import DriverRange
from ascend_images.pins.model import Pins, Series

State = Literal["supported", "unsupported", "unknown"]

# Numbers of few digits each: int() refuses thousands of them. Some files end a bound with a dot.
_NUMBERS = r"[0-9]{1,6}(?:\.[0-9]{1,6})*"
_RANGE = re.compile(rf"\[({_NUMBERS})\.?,({_NUMBERS})\.?\]", re.ASCII)
_FIRMWARE = re.compile(_NUMBERS, re.ASCII)


class Verdict(msgspec.Struct, frozen=True):
    """What a table says of a version: `found` as it was seen, `wanted` what the table names, `why` in words."""

    state: State
    found: str
    wanted: str
    why: str


def driver_text(facts: HostFacts) -> str:
    """Return the version of a host's driver as it is written there; empty where nothing tells it.

    version.info's package_version counts before its Version, which some releases leave behind; without that file
    npu-smi's table tells the driver's version too.
    """
    said = facts.driver.get("package_version") or facts.driver.get("version")
    return said or (parse(facts.info.text).version if facts.info else "")


def judge(cann: str, driver: str, family: str, pins: Pins) -> Verdict:
    """Say whether a driver goes with a CANN release on chips of a family, by the table in versions.toml.

    `driver` is a version or a package string (`7.5.0.5.220-24.1.0.3`), `family` one of npu-smi's or unknown. What is
    older than everything the table names is unsupported. A release, a product or a driver that the table does not know
    is unknown: release notes name lines, and say nothing of newer ones. The 950 is never judged by the others' lines.
    """
    if not driver:
        return Verdict(
            "unknown", "no driver version", "", "the host has no driver/version.info, and npu-smi tells none"
        )
    try:
        version = driver_version_of(driver)
    except BadInput:
        return Verdict("unknown", driver, "", "this text is no version of a driver")
    lists = _lists(cann, family, pins)
    verdicts = [_judge(version, ranges) for ranges in lists]
    wanted = " or ".join(", ".join(str(one) for one in ranges) for ranges in lists if ranges)
    if not wanted:
        product = "" if family == UNKNOWN else f" on {family}"
        return Verdict("unknown", driver, "", f"no table says which drivers CANN {cann} takes{product}")
    if len(set(verdicts)) > 1:
        return Verdict("unknown", driver, wanted, "the chip is not known, and chips have driver lines of their own")
    why = {
        "supported": f"CANN {cann} takes it",
        "unsupported": f"it is older than every driver that CANN {cann} takes",
        "unknown": f"the table of CANN {cann} does not name it",
    }[verdicts[0]]
    return Verdict(verdicts[0], driver, wanted, why)


def judge_firmware(facts: HostFacts) -> Verdict:
    """Say whether the firmware is in the ranges that the driver's own version.info names (compatible_version_fw)."""
    firmware = facts.firmware.get("version", "")
    text = facts.driver.get("compatible_version_fw", "")
    ranges = _RANGE.findall(text)
    if not firmware:
        return Verdict("unknown", "no firmware version", text, "the host has no firmware/version.info")
    if not ranges or not _FIRMWARE.fullmatch(firmware):
        return Verdict("unknown", firmware, text, "the driver does not say in numbers which firmware it takes")
    if any(_within(firmware, first, last) for first, last in ranges):
        return Verdict("supported", firmware, text, "the driver takes it")
    return Verdict("unsupported", firmware, text, "the driver names another range")


def _lists(cann: str, family: str, pins: Pins) -> list[list[DriverRange]]:
    """Return the lists that may be the one for these chips: one for a family that is known, else all of the release."""
    try:
        series = pins.series.get(ReleaseVersion.parse(cann).series, Series())
    except BadInput:
        return []
    tag = CANN_TAG.get(family)
    if tag is None:
        return [_ranges(texts) for texts in (series.drivers, *series.drivers_for.values())]
    for name, hardware in pins.hardware.items():
        if hardware.cann_tag == tag and any(name in other.drivers_for for other in pins.series.values()):
            return [_ranges(series.drivers_for.get(name, ()))]
    return [_ranges(series.drivers)]


def _ranges(texts: Sequence[str]) -> list[DriverRange]:
    return [DriverRange.parse(text) for text in texts]


def _judge(version: ReleaseVersion, ranges: Sequence[DriverRange]) -> State:
    if any(version in one for one in ranges):
        return "supported"
    return "unsupported" if ranges and version < min(one.first for one in ranges) else "unknown"


def _within(version: str, first: str, last: str) -> bool:
    """Whether a firmware is in a range; its further numbers count as part of what stands before them."""
    number, low, high = (tuple(map(int, text.split("."))) for text in (version, first, last))
    return low <= number and number[: len(high)] <= high
