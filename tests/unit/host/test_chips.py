"""Which family a host is: by its board, else by its table; what nobody can tell stays unknown, with the text."""

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ascend_images
from ascend_images.host.chips import chips_of, family_by_tag
from ascend_images.host.facts import HostFacts, Output
from ascend_images.host.npu_smi import CANN_TAG
from tests.host_kit import sample


def seen(info: str = "", *boards: str, mapping: str = "", code: int = 0) -> HostFacts:
    return HostFacts(
        npu_smi="/usr/local/bin/npu-smi",
        info=Output(code, info),
        mapping=Output(0, mapping),
        boards={str(number): Output(0, text) for number, text in enumerate(boards)},
    )


def board(kind: str = "", name: str = "", npu: str = "") -> str:
    return f"[WARN] one: two\r\n\tChip Type   :  {kind}  \r\n Chip Name :{name} \r\nNPU Name  : {npu}\r\n"


@pytest.mark.parametrize(
    ("text", "family", "soc"),
    [
        (board("Ascend", "910B3"), "A2", "ascend910b3"),
        (board("", "Ascend910", "9382"), "A3", "ascend910_9382"),
        (board("", "Ascend950PR", "9999"), "950", "ascend950pr_9999"),
        (board("Ascend", "310P3"), "310P", "ascend310p3"),
    ],
)
def test_a_board_tells_family_and_soc(text: str, family: str, soc: str) -> None:
    chips = chips_of(seen("a table of another kind", text))
    assert (chips.family, chips.soc, chips.cann_tag) == (family, soc, CANN_TAG[family])


@pytest.mark.parametrize(
    ("name", "family", "soc"),
    [
        ("a2-910b3-26", "A2", "ascend910b3"),
        ("a3-2npu", "A3", ""),
        ("310p3-duo", "310P", "ascend310p3"),
        ("950", "950", ""),
        ("first-910", "910", ""),
        ("310b4", "unknown", ""),
    ],
)
def test_without_a_board_the_table_tells(name: str, family: str, soc: str) -> None:
    chips = chips_of(seen(sample(name)))
    assert chips.family == family
    if soc or family == "unknown":
        assert chips.soc == soc


def test_the_board_counts_before_the_table() -> None:
    assert chips_of(seen(sample("a2-910b4"), sample("board-a3"))).family == "A3"


def test_a_board_without_a_name_leaves_it_to_the_table() -> None:
    assert chips_of(seen(sample("a3-2npu"), sample("board-a2-without-c"))).family == "A3"


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (HostFacts(), "there is no npu-smi to tell it"),
        (seen("", board("Ascend", "970X")), "970X"),
        (seen("", sample("board-a2"), sample("board-a3")), "910B2C"),
        (seen(sample("310b4")), "310B4"),
        (seen(sample("error-8005"), code=255), "-8005"),
        (seen(""), "npu-smi info printed nothing"),
    ],
)
def test_an_unknown_family_says_why(facts: HostFacts, why: str) -> None:
    chips = chips_of(facts)
    assert (chips.family, chips.soc, chips.cann_tag) == ("unknown", "", "")
    assert why in chips.why


def test_chips_of_two_families_are_no_family() -> None:
    mixed = sample("a2-910b4").replace("910B4-1 ", "970X    ").replace("910B2C", "310P3 ")
    assert chips_of(seen(mixed)).family == "unknown"


def test_each_chip_has_the_number_of_its_node() -> None:
    assert [chip.davinci for chip in chips_of(seen(sample("a3-2npu"))).chips] == [8, 9, 10, 11]
    assert [chip.davinci for chip in chips_of(seen(sample("310p3-duo"))).chips] == list(range(8))
    assert [chip.davinci for chip in chips_of(seen(sample("950"))).chips] == [0, 1, 6, 7]


def test_where_the_table_does_not_tell_a_node_the_mapping_does() -> None:
    table = sample("a2-910b4").replace("| 5     910B4-1 ", "| 3     910B4-1 ")
    assert [chip.davinci for chip in chips_of(seen(table)).chips][:2] == [None, None]
    heads = ("NPU ID", "Chip ID", "Chip Logic ID", "Chip Phy-ID", "Chip Name")
    rows = [heads, ("3", "0", "0", "3", "910B4"), ("3", "1", "-", "-", "Mcu")]
    mapping = "\n".join("".join(f"{cell:<20}" for cell in row) for row in rows)
    assert chips_of(seen(table, mapping=mapping)).chips[0].davinci == 3


@pytest.mark.parametrize(("family", "tag"), CANN_TAG.items())
def test_a_chip_word_of_a_tag_names_a_family(family: str, tag: str) -> None:
    assert family_by_tag(tag) == family
    assert family_by_tag(f"{tag}x") == "unknown"


@given(st.text(), st.text(), st.text())
def test_no_text_makes_it_raise(info: str, text: str, mapping: str) -> None:
    assert chips_of(seen(info, text, mapping=mapping)).family


def test_nothing_that_builds_asks_npu_smi() -> None:
    """A SoC that is written down wins, since whoever builds cannot detect: rooms before `host` do not know it."""
    package = Path(ascend_images.__file__).parent
    rooms = [path for room in ("pins", "lock", "images", "sandbox") for path in (package / room).rglob("*.py")]
    imported = {
        name
        for path in [*rooms, package / "planning.py", package / "selection.py"]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else
            [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        )
    }  # fmt: skip
    assert "ascend_images.pins.variant" in imported
    assert not [name for name in imported if name.startswith("ascend_images.host") or "npu_smi" in name]
