"""What several checks ask of chips: which family an image was made for, and which are here."""

from __future__ import annotations

from ..answers import Given
from ..npu_smi import A2, A3, A5, FAMILY_OF_TAG, P310, UNKNOWN, family_of, parse, parse_board

#: The family by vLLM Ascend's `__device_type__` in small letters, its underscores left out.
_FAMILY_OF_DEVICE_TYPE = {"a2": A2, "a3": A3, "310p": P310, "a5": A5}


def made_for(given: Given) -> tuple[str, str]:
    """Return the family that the image was made for, and what says so: pins, operators, what vLLM Ascend was built for.

    Empty where nothing says it, or in a way not known here.
    """
    family, says = meant_for(given)
    built = given.facts["built_for"]["device_type"]
    if says or not built:
        return family, says
    return family_of_device_type(built), f"vLLM Ascend built for {built}"


def meant_for(given: Given) -> tuple[str, str]:
    """Return the family that pins or operators name, and which of them; empty where none does, or in unknown words."""
    chip = str(given.image.get("chip", "")).lower()
    if chip:
        return FAMILY_OF_TAG.get(chip, ""), f"chip {chip} of image.json"
    for fact in given.facts["cann"]["ops"]:
        if fact["chip"]:
            return FAMILY_OF_TAG.get(fact["chip"].lower(), ""), f"operators for {fact['chip']}"
    return "", ""


def plain_device_type(device_type: str) -> str:
    """Return vLLM Ascend's device type in a form to compare: A2, _310P and AscendDeviceType.A3 occur."""
    return device_type.rpartition(".")[2].strip("_").lower()


def family_of_device_type(device_type: str) -> str:
    """Return the family of a device type, empty where it is unknown."""
    return _FAMILY_OF_DEVICE_TYPE.get(plain_device_type(device_type), "")


def host_families(given: Given) -> dict[str, str]:
    """Return the families of the chips here, each with the name that tells it; `unknown` is among them."""
    facts = given.facts["npu_smi"]
    chips = parse(facts["text"]).chips if facts["code"] == 0 else ()
    families = {chip.family: chip.name for chip in chips}
    if not chips and given.facts["probe"]:
        said = given.facts["probe"]["count"]["said"]
        families = {family_of(name): name for result in said for name in result.get("names", []) if name}
    if UNKNOWN in families and facts["board"]:
        board = parse_board(facts["board"])
        families.pop(UNKNOWN)
        families[board.family] = board.text
    return families
