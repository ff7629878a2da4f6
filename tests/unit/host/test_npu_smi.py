"""The npu-smi parser: every layout and its traits, boards, lists, mappings, health, errors; no text makes it raise."""

import ast
import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.host import npu_smi
from ascend_images.host.npu_smi import (
    CANN_TAG,
    UNKNOWN,
    Card,
    Chip,
    Health,
    Listing,
    MappedChip,
    Process,
    Reading,
    family_of,
    parse,
    parse_board,
    parse_health,
    parse_list,
    parse_mapping,
)

SAMPLES = Path(__file__).parents[2] / "data" / "npu-smi"
ALL = sorted(path.name for path in SAMPLES.iterdir())
TABLES = sorted(path.name for path in SAMPLES.iterdir() if path.read_text(encoding="utf-8").startswith(("+", "[")))
PARSERS: list[Callable[[str], Reading]] = [parse, parse_board, parse_list, parse_mapping, parse_health]

Brief = tuple[int, int | None, int | None, str, str, str, int | None, int | None, str]


def sample(name: str) -> str:
    return (SAMPLES / name).read_bytes().decode()


def brief(listing: Listing) -> list[Brief]:
    return [
        (c.npu, c.chip, c.davinci, c.name, c.health, c.family, c.memory_used, c.memory_total, c.memory_kind)
        for c in listing.chips
    ]


# Whole samples


def test_a2() -> None:
    listing = parse(sample("a2-910b4.txt"))
    assert listing.version == "23.0.2.1"
    assert brief(listing) == [
        (3, 0, 3, "910B4", "OK", "A2", 2711, 32768, "HBM"),
        (5, 0, 5, "910B4-1", "Warning", "A2", 58072, 65536, "HBM"),
        (6, 0, 6, "910B2C", "OK", "A2", None, None, ""),
    ]
    assert [chip.soc for chip in listing.chips] == ["ascend910b4", "ascend910b4-1", "ascend910b2c"]
    assert listing.chips[0].bus_id == "0000:C2:00.0"
    assert listing.notices == ("DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)",)
    assert listing.unknown == ("[WARNING] hdc session is shared by two processes",)
    assert (listing.errors, listing.processes) == ((), ())


def test_a2_of_the_wide_drivers_with_ids_in_containers() -> None:
    listing = parse(sample("a2-910b3-26.txt"))
    assert brief(listing) == [
        (0, 0, 0, "910B3", "OK", "A2", 40211, 65536, "HBM"),
        (1, 0, 1, "910B3", "Critical", "A2", 3391, 65536, "HBM"),
    ]
    assert listing.processes == (
        Process(0, 0, 811204, "python3.1", 30020, None),
        Process(0, 0, 811377, "VLLM::Worker", 6700, 412),
    )
    assert listing.unknown == ()


def test_first_generation() -> None:
    listing = parse(sample("first-910.txt"))
    assert brief(listing) == [
        (0, 0, 0, "910ProB", "OK", "910", 12, 32768, "HBM"),
        (1, 0, 1, "910PremiumA", "OK", "910", 31842, 32768, "HBM"),
        (2, 0, 2, "910B", "OK", "910", 6, 32768, "HBM"),
    ]
    assert listing.chips[0].ddr_total == 13553
    assert listing.processes == (Process(1, 0, 40411, "python", 30784),)
    assert listing.unknown == ()


def test_a3() -> None:
    listing = parse(sample("a3-2npu.txt"))
    assert brief(listing) == [
        (4, 0, 8, "Ascend910", "OK", "A3", 51255, 65536, "HBM"),
        (4, 1, 9, "Ascend910", "OK", "A3", 45292, 65536, "HBM"),
        (5, 0, 10, "Ascend910", "Alarm", "A3", 3141, 65536, "HBM"),
        (5, 1, 11, "Ascend910", "OK", "A3", 2887, 65536, "HBM"),
    ]
    assert {(chip.soc, chip.dies) for chip in listing.chips} == {("", 2)}
    assert listing.processes == (Process(4, 0, 1200311, "", 48110), Process(4, 1, 1200312, "ray::Worker", 42001))
    assert listing.unknown == ()


def test_310p_duo() -> None:
    listing = parse(sample("310p3-duo.txt"))
    assert (listing.tool_version, listing.version) == ("22.0.0", "22.0.2")
    assert [(chip.npu, chip.chip, chip.davinci) for chip in listing.chips] == [
        (npu, die, 2 * card + die) for card, npu in enumerate([0, 32, 32768, 32800]) for die in (0, 1)
    ]
    assert {(chip.family, chip.soc, chip.memory_kind) for chip in listing.chips} == {("310P", "ascend310p3", "DDR")}
    assert (listing.chips[4].memory_used, listing.chips[4].memory_total) == (43001, 44280)
    assert listing.processes == (Process(32768, 0, 91733, "mindie_llm_bac", 41290),)
    assert listing.unknown == ()


def test_310b_is_read_and_of_no_family_there_is_an_image_for() -> None:
    listing = parse(sample("310b4.txt"))
    assert brief(listing) == [(0, 0, 0, "310B4", "Alarm", UNKNOWN, 3511, 15609, "DDR")]
    assert (listing.chips[0].soc, listing.chips[0].bus_id) == ("", "NA")


def test_950() -> None:
    listing = parse(sample("950.txt"))
    assert listing.version == "25.6.rc1.b169"
    assert brief(listing) == [
        (0, None, 0, "Ascend950DT", "OK", "950", 6632, 98304, "HBM"),
        (1, None, 1, "Ascend950DT", "Alarm", "950", 66466, 98304, "HBM"),
        (6, None, 6, "Ascend950PR", "UNKNOWN", "950", 7415, 131072, "HBM"),
        (7, None, 7, "Ascend950PR", "OK", "950", 56651, 114688, "HBM"),
    ]
    assert listing.processes == (Process(1, None, 90311, "python", 50120), Process(1, None, 90312, "python3", 9020))
    assert listing.unknown == ()


# Tables that say less, or contradict themselves


def without(text: str, *parts: str) -> str:
    lines = [line for line in text.splitlines() if not any(part in line for part in parts)]
    assert len(lines) < len(text.splitlines())
    return "\n".join(lines)


def test_a_chip_without_its_second_row_is_listed_with_what_is_known() -> None:
    listing = parse(without(sample("a3-2npu.txt"), "0000:8F:00.0"))
    assert listing.chips[1] == Chip(4, None, None, "Ascend910", "OK", layout="a3", dies=2)
    assert len(listing.chips) == 4


def test_a_second_row_without_its_first_is_unknown() -> None:
    lines = sample("a2-910b3-26.txt").splitlines()
    del lines[next(i for i, line in enumerate(lines) if "| 1     910B3" in line)]
    listing = parse("\n".join(lines))
    assert [chip.npu for chip in listing.chips] == [0]
    assert [line for line in listing.unknown if "0000:C2:00.0" in line] == list(listing.unknown)


@pytest.mark.parametrize("name", ["a2-910b3-26.txt", "a3-2npu.txt", "310p3-duo.txt"])
def test_without_the_second_heading_no_node_is_guessed(name: str) -> None:
    listing = parse(without(sample(name), "Bus-Id"))
    assert listing.chips
    assert {(chip.davinci, chip.memory_total) for chip in listing.chips} == {(None, None)}
    assert len(listing.unknown) == len(listing.chips)


@pytest.mark.parametrize("name", ["a2-910b3-26.txt", "a3-2npu.txt", "310p3-duo.txt", "950.txt"])
def test_without_headings_every_row_is_unknown(name: str) -> None:
    text = without(sample(name), "Name  ", "Bus-Id", "Process id")
    listing = parse(text)
    assert (listing.chips, listing.processes) == ((), ())
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert list(listing.unknown) == [line for line in rows if "npu-smi" not in line and "No running" not in line]


def test_a_row_that_was_cut_off_gives_no_numbers() -> None:
    text = sample("a2-910b3-26.txt")
    listing = parse(text[: text.index("40211/ 65536") + len("40211/ 655")])
    assert [(chip.npu, chip.memory_total) for chip in listing.chips] == [(0, None)]
    assert listing.unknown[0].endswith("40211/ 655")


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("40211/ 65536", "40211/ 6553x"),
        ("40211/ 65536", "40211       "),
        ("40211/ 65536", "            "),
        ("40211/ 65536", "402 11/65536"),
        ("12                   0    / 0 ", "12 /                 0    / 0 "),
        ("12                   0    / 0 ", "12/1                 0    / 0 "),
    ],
)
def test_memory_that_is_no_memory_is_unknown_with_its_line(was: str, now: str) -> None:
    text = sample("a2-910b3-26.txt")
    assert was in text
    listing = parse(text.replace(was, now))
    assert (listing.chips[0].memory_used, listing.chips[0].memory_total) == (None, None)
    assert len(listing.unknown) == 1
    assert "0000:C1:00.0" in listing.unknown[0]


def test_first_generation_memory_counts_only_when_it_can_be_read() -> None:
    chip = parse(sample("first-910.txt").replace("6    / 32768", "NA   / NA   ")).chips[2]
    assert (chip.family, chip.memory_total, chip.ddr_total) == (UNKNOWN, None, 15665)


def test_memory_that_is_said_not_to_be_available_is_none_and_no_puzzle() -> None:
    for size in ("NA           ", "NA   / NA    "):
        listing = parse(sample("a2-910b3-26.txt").replace("40211/ 65536 ", size))
        assert (listing.chips[0].memory_total, listing.unknown) == (None, ())


def test_without_hbm_the_memory_is_the_other_column() -> None:
    chip = parse(sample("first-910.txt").replace("6    / 32768", "0    / 0    ")).chips[2]
    assert (chip.memory_used, chip.memory_total, chip.memory_kind) == (2412, 15665, "DDR")


def test_910b_with_other_memory_than_the_first_generation_has_no_known_family() -> None:
    chip = parse(sample("first-910.txt").replace("6    / 32768", "6    / 65536")).chips[2]
    assert (chip.name, chip.family) == ("910B", UNKNOWN)


def test_a_container_that_sees_one_die_of_a3_is_a3() -> None:
    listing = parse(without(sample("a3-2npu.txt"), "| 5 ", "0000:8F:00.0", "0000:91", "0000:93", "| -    "))
    assert [(chip.npu, chip.davinci, chip.family, chip.dies) for chip in listing.chips] == [(4, 8, "A3", 1)]


def test_a_chip_printed_twice_is_not_two_dies() -> None:
    text = sample("a2-910b3-26.txt").replace("910B3    ", "Ascend910").replace("| 1     Ascend910", "| 0     Ascend910")
    listing = parse(text)
    assert [(chip.chip, chip.dies, chip.davinci, chip.family) for chip in listing.chips] == [(0, 1, None, UNKNOWN)] * 2


@pytest.mark.parametrize(("node", "bus"), [("x9 ", "0000:8F:00.0"), ("NA ", "0000:8F:00.0"), ("NA ", "NA          ")])
def test_a_second_row_is_never_taken_for_another_chip(node: str, bus: str) -> None:
    text = sample("a3-2npu.txt").replace("| 1     9  ", f"| 1     {node}").replace("0000:8F:00.0", bus)
    assert [(chip.npu, chip.chip, chip.name) for chip in parse(text).chips[:3]] == [
        (4, 0, "Ascend910"),
        (4, 1, "Ascend910"),
        (5, 0, "Ascend910"),
    ]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("0000:C1:00.0", "            "),
        ("| 0                         | 0000:C1", "| ?                         | 0000:C1"),
        ("40211/ 65536            |", "40211/ 65536 | more      |"),
        ("40211/ 65536            |", "40211/ 65536            | more"),
    ],
)
def test_a_second_row_of_another_form_is_unknown(was: str, now: str) -> None:
    text = sample("a2-910b3-26.txt")
    assert was in text
    listing = parse(text.replace(was, now))
    assert [(chip.npu, chip.chip, chip.bus_id, chip.memory_total) for chip in listing.chips] == [
        (0, None, "", None),
        (1, 0, "0000:C2:00.0", 65536),
    ]
    assert len(listing.unknown) == 1


def test_a_process_is_not_taken_for_a_second_row() -> None:
    listing = parse(without(sample("950.txt"), "Process id", "56651"))
    assert listing.chips[3] == Chip(7, None, 7, "Ascend950PR", "OK", layout="950")
    assert len(listing.unknown) == 2


def test_a_heading_of_another_form_gives_no_node() -> None:
    one_die = without(sample("a3-2npu.txt"), "0000:8F:00.0", "0000:91", "0000:93", "| -    ", "| 5 ")
    for text in (sample("a3-2npu.txt"), one_die):
        listing = parse(text.replace("Phy-ID", "Die-ID"))
        assert {(chip.davinci, chip.memory_total) for chip in listing.chips} == {(None, 65536)}


def test_text_around_bars_is_no_row() -> None:
    line = "watch: | No running processes found in NPU 1 | done"
    assert parse(line).unknown == (line,)


def test_two_tables_in_one_text() -> None:
    listing = parse(sample("a3-2npu.txt") + sample("310p3-duo.txt"))
    assert [chip.layout for chip in listing.chips] == ["a3"] * 4 + ["310p"] * 8
    assert len(listing.processes) == 3
    assert listing.unknown == ()


def test_an_unreadable_node_number_is_none_and_its_line_unknown() -> None:
    listing = parse(sample("a3-2npu.txt").replace("| 1     9  ", "| 1     NA "))
    assert [(chip.npu, chip.chip, chip.davinci) for chip in listing.chips[:2]] == [(4, 0, 8), (4, 1, None)]
    assert len(listing.unknown) == 1


def test_two_dies_without_a_node_column_are_a3_and_have_no_known_nodes() -> None:
    text = sample("a2-910b3-26.txt").replace("910B3    ", "Ascend910")
    text = text.replace("| 1     Ascend910", "| 0     Ascend910").replace(
        "| 0                         | 0000:C2", "| 1 | 0000:C2"
    )
    listing = parse(text)
    assert [(chip.npu, chip.chip, chip.davinci, chip.family) for chip in listing.chips] == [
        (0, 0, None, "A3"),
        (0, 1, None, "A3"),
    ]


def test_process_rows_that_are_none_are_unknown() -> None:
    text = sample("a3-2npu.txt").replace("1200311", "?      ").replace("42001", "many ")
    listing = parse(text + "| 4       ?                 | 7 | python | 9 |\n")
    assert listing.processes == (Process(4, 1, 1200312, "ray::Worker", None),)
    assert len(listing.unknown) == 3


def test_box_drawing_bars_are_bars() -> None:
    text = sample("a3-2npu.txt")
    drawn = ["├" + "─" * 96 + "┤" if line.startswith("+") else line.replace("|", "│") for line in text.splitlines()]
    assert parse("\n".join(drawn)) == parse(text)


# Families


@pytest.mark.parametrize(
    ("family", "names"),
    [
        ("A2", "910B1 910B2 910B2C 910B3 910B4 910B4-1 Ascend910B3 ascend910b4-1 A2G3"),
        ("A3", "910C1 Ascend910C Ascend910_9391 ascend910_9363"),
        ("310P", "310P1 310P3 310P5 310P7 Ascend310P3 ascend310p3vir08"),
        ("950", "Ascend950PR Ascend950DT 950PR Ascend950 ascend950dt_9582"),
        ("910", "910A 910ProA 910ProB 910PremiumA Ascend910A"),
        (UNKNOWN, "910B 910 Ascend910 910B5 910B33 310 310B1 310B4 310 610 910_1234 Mcu NA 1910B3 x"),
    ],
)
def test_families_by_name(family: str, names: str) -> None:
    assert {name: family_of(name) for name in names.split()} == dict.fromkeys(names.split(), family)
    assert (family in CANN_TAG) == (family != UNKNOWN)


def test_family_by_what_stands_beside_the_name() -> None:
    assert family_of("") == UNKNOWN
    assert family_of("Ascend910", two_dies=True) == "A3"
    assert family_of("Ascend910", first_memory=True) == "910"
    assert family_of("910B", first_memory=True) == "910"
    assert family_of("910B", two_dies=True) == UNKNOWN
    assert family_of("910B4", first_memory=True) == "A2"
    assert CANN_TAG == {"A2": "910b", "A3": "a3", "310P": "310p", "950": "950", "910": "910"}


def test_a_910b4_has_the_memory_of_the_first_generation_and_is_none() -> None:
    chip = Chip(0, 0, 0, "910B", "OK", memory_used=1, memory_total=32768, memory_kind="HBM", ddr_total=0, layout="a2")
    assert chip.family == UNKNOWN


# Boards


@pytest.mark.parametrize(
    ("name", "family", "soc"),
    [
        ("board-a2.txt", "A2", "ascend910b2c"),
        ("board-a3.txt", "A3", "ascend910_9392"),
        ("board-310p.txt", "310P", "ascend310p1"),
        ("board-950.txt", "950", "ascend950dt_958a"),
        ("board-a2-without-c.txt", UNKNOWN, ""),
    ],
)
def test_boards(name: str, family: str, soc: str) -> None:
    board = parse_board(sample(name))
    assert (board.family, board.soc) == (family, soc)
    assert board.errors == ()


@pytest.mark.parametrize(
    ("chip_type", "chip_name", "npu_name", "family", "soc"),
    [
        ("Ascend", "910B3", "", "A2", "ascend910b3"),
        ("Ascend", "910B3", "NA", "A2", "ascend910b3"),
        ("", "Ascend910", "9382", "A3", "ascend910_9382"),
        ("", "Ascend950PR", "9999", "950", "ascend950pr_9999"),
        ("Ascend", "310P3", "", "310P", "ascend310p3"),
        ("Ascend", "910ProB", "", "910", "ascend910prob"),
        ("Ascend", "A2G3", "", "A2", "ascend910b1"),
        ("", "Ascend950PR", "", "950", ""),
        ("", "Ascend950DT_9582", "", "950", "ascend950dt_9582"),
        ("", "Ascend910_9391", "", "A3", "ascend910_9391"),
        ("", "910C1", "", "A3", ""),
        ("", "Ascend910", "", UNKNOWN, ""),
        ("", "Ascend910", "1234", UNKNOWN, ""),
        ("Ascend", "910B", "", UNKNOWN, ""),
        ("Ascend", "310B4", "", UNKNOWN, ""),
        ("Ascend", "999Z", "x", UNKNOWN, ""),
        ("", "", "", UNKNOWN, ""),
    ],
)
def test_board_names(chip_type: str, chip_name: str, npu_name: str, family: str, soc: str) -> None:
    lines = [f"Chip Type : {chip_type}", f"Chip Name : {chip_name}", f"NPU Name : {npu_name}"]
    for text in ("\n".join(lines), "WARNING: old driver\r\n" + "\r\n".join(f"   {line}   " for line in lines)):
        board = parse_board(text)
        assert (board.family, board.soc) == (family, soc)
        assert f"Chip Name {chip_name!r}" in board.text


def test_board_keeps_every_value_and_only_what_is_none_is_unknown() -> None:
    board = parse_board(sample("board-950.txt"))
    assert board.values["Software Version"] == "25.7.rc1.6"
    assert board.values["Firmware Version"] == "9.0.0.105.229"
    assert board.values["PCIe Bus Info"] == "0000:61:00.0"
    assert board.unknown == ()
    assert parse_board(sample("board-310p.txt")).unknown == ("Warning: the card is in a low-power state",)


# Lists, mappings, health


def test_lists() -> None:
    cards = parse_list(sample("list.txt"))
    assert (cards.total, cards.cards, cards.unknown) == (2, (Card(4, 2), Card(32768, 1)), ())
    cards = parse_list(sample("list-cards.txt"))
    assert (cards.total, cards.cards, cards.unknown) == (1, (Card(8, 4),), ())


def test_list_lines_out_of_order_are_unknown() -> None:
    lines = ["Chip Count : 2", "NPU ID : x", "Total Count : 2", "Colour : 3", "Chip Count : 4"]
    known = ["NPU ID : 1", "Total Count : 1"]
    cards = parse_list("\n".join([*lines[:2], *known, *lines[2:4], "Chip Count : 3", lines[4], "NPU ID : 2"]))
    assert (cards.total, cards.cards) == (1, (Card(1, 3), Card(2, None)))
    assert list(cards.unknown) == lines


def test_mappings() -> None:
    a2, a3, a5 = (parse_mapping(sample(f"mapping-{name}.txt")) for name in ("a2", "a3", "950"))
    assert a2.chips == (
        MappedChip(0, 0, 0, None, None, "Ascend 910B4"),
        MappedChip(3, 0, 1, None, None, "Ascend 910B4"),
    )
    assert [family_of(chip.name) for chip in a2.chips] == ["A2", "A2"]
    assert [row.is_mcu for row in a2.rows] == [False, True, False, True]
    assert a3.rows == (
        MappedChip(4, 0, 0, 8, None, "Ascend910"),
        MappedChip(4, 1, 1, 9, None, "Ascend910"),
        MappedChip(4, 2, None, None, None, "Mcu"),
    )
    assert a5.rows == (MappedChip(0, 0, None, 0, 0, "Ascend950PR"), MappedChip(6, 0, None, 6, 3, "Ascend950PR"))
    assert (a2.unknown, a3.unknown, a5.unknown) == ((), (), ())


def test_mapping_rows_that_are_none_are_unknown() -> None:
    rows = ["0 0 0 Ascend 910B4", "0 0", "- 1 0 Mcu", "0 one 1 Ascend 910B4"]
    text = "\n".join(["0 0 0 early", "NPU ID  Chip ID  Chip Logic ID  Chip Name", *rows])
    mapping = parse_mapping(text)
    assert mapping.rows == (MappedChip(0, 0, 0, None, None, "Ascend 910B4"),)
    assert mapping.unknown == ("0 0 0 early", *rows[1:])


def test_health() -> None:
    assert parse_health(sample("health.txt")) == Health(statuses=("Warning",), error_codes=("80E01801", "80CF8009"))
    both = parse_health(sample("health-2chips.txt"))
    assert (both.statuses, both.status, both.error_codes) == (("OK", "Alarm"), "Alarm", ("80818C00",))
    assert parse_health("Health : OK").status == "OK"
    assert parse_health("Health Status:").status == UNKNOWN
    assert parse_health("").status == UNKNOWN
    assert parse_health("Mood : good\nword").unknown == ("Mood : good", "word")


# Errors


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize(
    ("name", "codes", "meaning"),
    [
        ("error-8005.txt", [-8005], "usually the device is used by another container or process"),
        ("error-8020.txt", [-8020, -9005], "usually the device is used by another container or process"),
        ("error-no-library.txt", [None], "libc_sec.so is missing"),
        ("error-no-permission.txt", [None], "usually this user may not"),
    ],
)
def test_errors(name: str, codes: list[int | None], meaning: str, parser: Callable[[str], Reading]) -> None:
    reading = parser(sample(name))
    assert [error.code for error in reading.errors] == codes
    assert meaning in reading.errors[0].meaning
    assert {error.line for error in reading.errors} <= set(sample(name).splitlines())
    assert reading.unknown == ()


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("bash: npu-smi: command not found", "not there"),
        ("sh: 1: npu-smi: not found", "not there"),
        ('exec: "npu-smi": executable file not found in $PATH', "not there"),
        ("/usr/local/bin/npu-smi: No such file or directory", "not there"),
        ("[Errno 2] No such file or directory: 'npu-smi'", "not there"),
        ("bash: /usr/local/bin/npu-smi: Is a directory", "a directory lies where npu-smi should"),
        ("bash: /usr/local/bin/npu-smi: Permission denied", "may not"),
        ("dcmi something else. ret is -8999", "not known here"),
    ],
)
def test_error_lines(line: str, meaning: str) -> None:
    (error,) = parse(line).errors
    assert error.line == line
    assert meaning in error.meaning


@pytest.mark.parametrize("line", ["2025-10-28 12:00:01 -0800 started", "GPU-8005", "a-8005", "-80", "rc 255"])
def test_lines_that_are_no_errors(line: str) -> None:
    assert (parse(line).errors, parse(line).unknown) == ((), (line,))


def test_an_error_after_a_table_leaves_the_table_read() -> None:
    listing = parse(sample("950.txt") + sample("error-8020.txt"))
    assert len(listing.chips) == 4
    assert [error.code for error in listing.errors] == [-8020, -9005]


# Any table: what was rendered is read back


@dataclass(frozen=True)
class Layout:
    """How a layout is written: its headings, and which names its chips have."""

    name: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    processes: str
    chip_names: tuple[str, ...]
    dies: tuple[int, ...]


LAYOUTS = [
    Layout(
        "a2",
        ("NPU   Name", "Health", "Power(W)    Temp(C)  Hugepages-Usage(page)"),
        ("Chip", "Bus-Id", "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)"),
        "NPU     Chip",
        ("910B1", "910B2C", "910B3", "910B4-1", "910ProB", "910B"),
        (1,),
    ),
    Layout(
        "a3",
        ("NPU   Name", "Health", "Power(W)    Temp(C)  Hugepages-Usage(page)"),
        ("Chip  Phy-ID", "Bus-Id", "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)"),
        "NPU     Chip",
        ("Ascend910", "910C1"),
        (1, 2),
    ),
    Layout(
        "310p",
        ("NPU     Name", "Health", "Power(W)     Temp(C)  Hugepages-Usage(page)"),
        ("Chip    Device", "Bus-Id", "AICore(%)    Memory-Usage(MB)"),
        "NPU     Chip",
        ("310P3", "310P1", "310B4"),
        (1, 2),
    ),
    Layout(
        "950",
        ("NPU ID", "Name", "Health", "Power(W)    Temp(C)  Hugepages-Usage(page)"),
        ("", "", "Bus-Id", "NPU Util(%) Memory-Usage(MB)  HBM-Usage(MB)"),
        "NPU ID",
        ("Ascend950PR", "Ascend950DT"),
        (1,),
    ),
]

names = st.text(st.characters(codec="ascii", categories=["L", "N", "P"], exclude_characters="|"), max_size=14)


@st.composite
def chips_of(draw: st.DrawFn, layout: Layout) -> list[Chip]:
    chips: list[Chip] = []
    for npu in sorted(draw(st.sets(st.integers(0, 40000), max_size=5))):
        dies = draw(st.sampled_from(layout.dies))
        for die in range(dies):
            total = draw(st.sampled_from([32768, 44280, 65536, 131072]))
            hbm = layout.name != "310p"
            davinci = npu if layout.name in ("a2", "950") else draw(st.integers(0, 99))
            ddr = draw(st.integers(0, 20000)) if layout.name == "a2" else 0
            chips.append(
                Chip(
                    npu,
                    None if layout.name == "950" else die,
                    davinci,
                    draw(st.sampled_from(layout.chip_names)),
                    draw(st.sampled_from(["OK", "Warning", "Alarm", "Critical", "UNKNOWN"])),
                    bus_id=draw(st.sampled_from(["0000:C1:00.0", "0000:0a:00.0", "NA"])),
                    memory_used=draw(st.integers(0, 131072)),
                    memory_total=total,
                    memory_kind="HBM" if hbm else "DDR",
                    ddr_total=ddr if hbm else total,
                    layout=layout.name,
                    dies=dies,
                )
            )
    return chips


@st.composite
def processes_of(draw: st.DrawFn, chips: list[Chip], in_container: bool) -> list[Process]:
    return [
        Process(
            chip.npu,
            chip.chip,
            draw(st.integers(1, 2**22)),
            draw(names),
            draw(st.integers(0, 65536)),
            draw(st.none() | st.integers(1, 2**22)) if in_container else None,
        )
        for chip in chips
        for _ in range(draw(st.integers(0, 2)))
    ]


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, Listing]:
    """A listing and one of the ways in which npu-smi could have written it."""
    layout = draw(st.sampled_from(LAYOUTS))
    chips = draw(chips_of(layout))
    in_container = draw(st.booleans())
    processes = draw(processes_of(chips, in_container))
    width = draw(st.integers(10, 40))

    def row(*cells: str) -> str:
        return "|" + "|".join(f" {cell}".ljust(width) for cell in cells) + "|"

    def frame() -> str:
        dash = draw(st.sampled_from("-="))
        return draw(st.sampled_from([f"+{dash * 98}+", f"+{dash * 27}+{dash * 15}+{dash * 54}+"]))

    def slash(used: object, total: object) -> str:
        return draw(
            st.sampled_from([f"{used} / {total}", f"{used}/ {total}", f"{used}/{total}", f"{used}      / {total}"])
        )

    lines = [
        frame(),
        row("npu-smi 25.2.1               Version: 25.2.1"),
        row(*layout.first),
        row(*layout.second),
        frame(),
    ]
    for chip in chips:
        power = draw(st.sampled_from(["832.0", "-", "NA", "0.0"]))
        usage = f"{power}   {draw(st.integers(0, 99))}     {slash(0, 0)}"
        memory = slash(chip.memory_used, chip.memory_total)
        sizes = memory if chip.memory_kind == "DDR" else f"{slash(0, chip.ddr_total)}   {memory}"
        if layout.name == "950":
            lines += [row(str(chip.npu), chip.name, chip.health, usage), row("", "", chip.bus_id, f"0     {sizes}")]
        else:
            ids = f"{chip.chip}     {chip.davinci}" if layout.name != "a2" else str(chip.chip)
            lines += [row(f"{chip.npu}     {chip.name}", chip.health, usage), row(ids, chip.bus_id, f"0     {sizes}")]
        lines.append(frame())
    if processes or draw(st.booleans()):
        extra = ["Process id in container"] if in_container else []
        lines += [frame(), row(layout.processes, "Process id", "Process name", "Process memory(MB)", *extra), frame()]
        for npu, owned in itertools.groupby(processes, key=lambda process: process.npu):
            for it in owned:
                ids = str(npu) if it.chip is None else f"{npu}       {it.chip}"
                inside = [str(it.container_pid or "NA")] if in_container else []
                lines.append(row(ids, str(it.pid), it.name, str(it.memory), *inside))
            lines.append(frame())
        busy = {process.npu for process in processes}
        lines += [row(f"No running processes found in NPU {chip.npu}") for chip in chips if chip.npu not in busy]
    notices = draw(st.sampled_from([(), ("DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)",)]))
    end = draw(st.sampled_from(["\n", "\r\n", "  \n", "\n\n"]))
    expected = Listing(
        version="25.2.1", tool_version="25.2.1", chips=tuple(chips), processes=tuple(processes), notices=notices
    )
    return end.join([*notices, *lines]), expected


@given(tables())
def test_every_table_is_read_back(table: tuple[str, Listing]) -> None:
    text, expected = table
    assert parse(text) == expected


# Any text: nothing raises, and nothing is lost


def kept(reading: Reading) -> list[str]:
    return [*reading.notices, *reading.unknown, *(error.line for error in reading.errors)]


@st.composite
def mutated(draw: st.DrawFn, names: list[str]) -> str:
    """A sample with lines dropped, doubled, swapped, cut off or brought in from another, and characters replaced."""
    lines = sample(draw(st.sampled_from(names))).splitlines()
    for _ in range(draw(st.integers(1, 6))):
        at, other = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
        kind = draw(st.sampled_from(["drop", "double", "swap", "foreign", "replace", "cut"]))
        if kind == "drop" and len(lines) > 1:
            del lines[at]
        elif kind == "double":
            lines.insert(at, lines[at])
        elif kind == "swap":
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == "foreign":
            lines.insert(at, draw(st.sampled_from(sample(draw(st.sampled_from(ALL))).splitlines())))
        elif lines[at]:
            place = draw(st.integers(0, len(lines[at]) - 1))
            rest = draw(st.characters()) + lines[at][place + 1 :] if kind == "replace" else ""
            lines[at] = lines[at][:place] + rest
    return "\n".join(lines)


@pytest.mark.parametrize("parser", PARSERS)
@given(text=st.text() | mutated(ALL) | st.text(alphabet="|+-= \n/0123456789NPUIDChipameHlthBus:.", max_size=400))
def test_no_text_makes_a_parser_raise(parser: Callable[[str], Reading], text: str) -> None:
    reading = parser(text)
    assert set(kept(reading)) <= {line.strip() for line in text.splitlines()}
    str(reading)


def furniture(line: str) -> bool:
    """Whether a line carries no fact of its own: a frame, a blank row, the title, a heading, or `No running …`."""
    words = ("npu-smi", "No running processes", "Bus-Id", "Process id", "Health")
    return not line.strip("+-=|│┃║ \t") or any(word in line for word in words) or set(line) <= set(map(chr, FRAMES))


FRAMES = range(0x2500, 0x2580)


@given(mutated(TABLES))
def test_a_damaged_table_loses_no_line_and_invents_no_number(text: str) -> None:
    listing = parse(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for chip in listing.chips:
        assert any(chip.name in line and str(chip.npu) in line for line in lines)
        assert chip.family in (*CANN_TAG, UNKNOWN)
        if chip.memory_total is not None:
            assert any(str(chip.memory_total) in line and str(chip.memory_used) in line for line in lines)
    read = len(listing.chips) + sum(bool(chip.bus_id) for chip in listing.chips) + len(listing.processes)
    assert sum(not furniture(line) for line in lines) <= read + len(kept(listing))


@pytest.mark.parametrize("name", [name for name in ALL if name not in TABLES])
def test_other_outputs_end_up_whole_in_what_the_table_parser_could_not_read(name: str) -> None:
    listing = parse(sample(name))
    assert (listing.chips, listing.processes) == ((), ())
    assert sorted(kept(listing)) == sorted(line.strip() for line in sample(name).splitlines() if line.strip())


def test_numbers_of_thousands_of_digits_are_no_numbers() -> None:
    digits = "9" * 5000
    text = sample("a3-2npu.txt").replace("65536", digits).replace("| 4  ", f"| {digits}")
    assert all(chip.memory_total is None for chip in parse(text).chips)
    assert parse_list(f"Total Count : {digits}").total is None


# Where it runs


def test_it_needs_only_the_standard_library_and_python_3_9() -> None:
    source = (Path(npu_smi.__file__).parents[1] / "inside" / "npu_smi.py").read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 9))
    modules = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    modules |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {module.split(".")[0] for module in modules} <= sys.stdlib_module_names
