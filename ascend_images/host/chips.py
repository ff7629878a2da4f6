"""Which chips a host has, and of which family: from npu-smi's board output first, then from its table."""

from dataclasses import dataclass, replace

from ascend_images.host.facts import HostFacts
from ascend_images.host.npu_smi import (
    CANN_TAG,
    FAMILY_OF_TAG,
    UNKNOWN,
    Board,
    Chip,
    Listing,
    parse,
    parse_board,
    parse_mapping,
)


@dataclass(frozen=True)
class HostChips:
    """A host's chips as npu-smi tells them.

    `family` is one of npu-smi's (A2, A3, 310P, 950, 910) or unknown; `soc` the SOC_VERSION, empty where it is not told;
    `why` says what the family was told by, or in the tool's own words why it could not be told. `listing` is the table.
    """

    family: str
    soc: str
    why: str
    chips: tuple[Chip, ...]
    listing: Listing

    @property
    def cann_tag(self) -> str:
        """The chip word in the tags of CANN images; empty where the family is unknown."""
        return CANN_TAG.get(self.family, "")


def chips_of(facts: HostFacts) -> HostChips:
    """Return the chips of a host; whatever its npu-smi said or did not say, nothing is raised.

    The board decides: every A3 is called `Ascend910` in the table, where its SoC is not to be seen.
    """
    listing = parse(facts.info.text if facts.info else "")
    chips = _with_nodes(listing.chips, facts)
    boards = [parse_board(output.text) for _, output in sorted(facts.boards.items())]
    told = {board.family for board in boards} - {UNKNOWN}
    if not told:
        told = {chip.family for chip in chips}
    socs = {board.soc for board in boards if board.soc} or {chip.soc for chip in chips if chip.soc}
    family = next(iter(told)) if len(told) == 1 else UNKNOWN
    return HostChips(
        family=family,
        soc=next(iter(socs)) if len(socs) == 1 and family != UNKNOWN else "",
        why=_why(family, chips, boards, facts),
        chips=chips,
        listing=listing,
    )


def family_by_tag(cann_tag: str) -> str:
    """Return the family whose chips a CANN image with this chip word in its tag is for; unknown for another word."""
    return FAMILY_OF_TAG.get(cann_tag, UNKNOWN)


def _with_nodes(chips: tuple[Chip, ...], facts: HostFacts) -> tuple[Chip, ...]:
    """Return the chips with their davinci numbers; where the table does not tell one, `npu-smi info -m` does."""
    rows = parse_mapping(facts.mapping.text if facts.mapping else "").chips
    known = {(row.npu, row.chip): row.phy for row in rows}
    return tuple(
        replace(chip, davinci=known.get((chip.npu, chip.chip))) if chip.davinci is None else chip for chip in chips
    )


def _why(family: str, chips: tuple[Chip, ...], boards: list[Board], facts: HostFacts) -> str:
    names = ", ".join(sorted({chip.name for chip in chips}))
    if family != UNKNOWN:
        board = next((board for board in boards if board.family == family), None)
        return board.text if board else f"npu-smi calls its chips {names}"
    if not facts.npu_smi:
        return "there is no npu-smi to tell it"
    if any(board.chip_name for board in boards):
        return "npu-smi's board output: " + "; ".join(board.text for board in boards if board.chip_name)
    if chips:
        return f"npu-smi calls its chips {names}"
    said = (facts.info.text if facts.info else "").strip().splitlines()
    return f"npu-smi info says: {said[-1].strip()}" if said else "npu-smi info printed nothing"
