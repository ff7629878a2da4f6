"""Which NPUs a run gets: whole cards, free ones, those that are there."""

import pytest
from msgspec.structs import replace

from ascend_images.errors import BadInput, MissingTool
from ascend_images.host.devices import choose_devices, device_numbers, devices_in_pod
from ascend_images.host.facts import Container, EngineFacts, HostFacts, Output
from tests.run_kit import engine, host, nodes, sample

A3_FOUR = host(nodes=nodes("/dev/davinci8", "/dev/davinci9", "/dev/davinci10", "/dev/davinci11"))


def chosen(text: str, facts: HostFacts, family: str, *held: tuple[str, int]) -> tuple[int, ...]:
    return choose_devices(text, facts, engine(*held), family)[0]


@pytest.mark.parametrize("text", ["x", "0-", "none,0", "ALL"])
def test_what_cannot_be_meant_is_refused_before_the_host_is_looked_at(text: str) -> None:
    with pytest.raises(BadInput, match=f"--devices {text}"):
        choose_devices(text, HostFacts(), engine(), "A2")


def test_the_numbers_are_those_of_nodes_that_are_chips() -> None:
    names = ("/dev/davinci10", "/dev/davinci2", "/dev/davinci_manager", "/dev/vdavinci100", "/dev/davinci2x")
    assert device_numbers(HostFacts(nodes=nodes(*names))) == (2, 10)


@pytest.mark.parametrize("family", ["A2", "310P", "950", "910", "unknown"])
def test_without_a_word_it_is_the_first_free_chip(family: str) -> None:
    assert chosen("", host(4), family) == (0,)
    assert chosen("", host(4), family, ("other", 0), ("another", 1)) == (2,)


def test_on_an_a3_it_is_the_first_card_of_which_both_dies_are_free() -> None:
    assert chosen("", host(4), "A3") == (0, 1)
    assert chosen("", host(4), "A3", ("other", 1)) == (2, 3)


def test_a_chip_without_processes_and_in_good_health_comes_first() -> None:
    facts = host(nodes=nodes(*(f"/dev/davinci{number}" for number in (0, 1))), info=sample("a2-910b3-26"))
    assert choose_devices("0,1", facts, engine(), "A2") == (
        (0, 1),
        ("NPU 0: a process on this host uses it already", "NPU 1: its health is Critical"),
    )
    duo = host(8, info=sample("310p3-duo"))
    assert chosen("", duo, "310P", *((f"c{number}", number) for number in range(4))) == (5,)
    assert chosen("", A3_FOUR, "A3") == (8, 9)
    busy = replace(A3_FOUR, info=sample("a3-2npu"))
    assert chosen("", busy, "A3") == (10, 11)


def test_a_card_at_work_is_taken_when_there_is_no_other() -> None:
    facts = replace(A3_FOUR, info=sample("a3-2npu"))
    assert chosen("", facts, "A3", ("other", 10)) == (8, 9)


def test_the_dies_of_a_card_are_told_by_npu_smi() -> None:
    text = sample("a3-2npu").text.replace("| 1     9 ", "| 1     10").replace("| 0     10 ", "| 0     9  ")
    facts = replace(A3_FOUR, info=Output(code=0, text=text))
    assert chosen("8,10", facts, "A3") == (8, 10)
    with pytest.raises(BadInput, match="two dies") as error:
        chosen("8,9", facts, "A3")
    assert error.value.do == "--devices 8,9,10"


@pytest.mark.parametrize(("text", "do"), [("0", "0,1"), ("1", "0,1"), ("0-2", "0,1,2,3"), ("3,0,1", "0,1,2,3")])
def test_half_an_a3_card_is_refused_with_the_other_half(text: str, do: str) -> None:
    with pytest.raises(BadInput, match="pair") as error:
        chosen(text, host(4), "A3")
    assert error.value.do == f"--devices {do}"
    assert chosen(do, host(4), "A3") == tuple(map(int, do.split(",")))


def test_an_a3_die_whose_other_half_is_not_there_is_refused() -> None:
    with pytest.raises(BadInput, match="pair") as error:
        chosen("2", host(3), "A3")
    assert error.value.do == "--devices 2,3"


@pytest.mark.parametrize("family", ["A2", "310P", "950", "unknown"])
def test_other_families_are_taken_chip_by_chip(family: str) -> None:
    assert chosen("1", host(4), family) == (1,)


def test_all_are_all_and_none_needs_no_host() -> None:
    assert chosen("all", host(3), "A2") == (0, 1, 2)
    assert chosen("none", HostFacts(), "unknown") == ()


def test_a_device_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(BadInput, match="there is no /dev/davinci7, /dev/davinci8") as error:
        chosen("0,7,8", host(2), "A2")
    assert error.value.wanted == "some of 0,1"


@pytest.mark.parametrize("text", ["", "0", "all"])
def test_a_host_without_npus_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(MissingTool, match="no NPU") as error:
        chosen(text, HostFacts(), "A2")
    assert "--devices none" in error.value.do


@pytest.mark.parametrize("text", ["7", "0,7", "all", "6-7"])
def test_a_busy_device_is_refused_with_its_holder(text: str) -> None:
    with pytest.raises(MissingTool) as error:
        chosen(text, host(8), "A2", ("other", 7))
    assert error.value.found == "NPU 7 is in use by container other"
    assert error.value.do == "docker stop other, or --devices 0,1,2,3,4,5,6"
    for word in ("privileged", "driver", "image"):
        assert word not in str(error.value)


def test_a_device_that_others_do_not_hold_is_given() -> None:
    assert chosen("7", host(8), "A2", ("other", 6)) == (7,)


def test_when_every_card_is_held_every_holder_is_named() -> None:
    with pytest.raises(MissingTool) as error:
        chosen("", host(2), "A2", ("one", 0), ("two", 1))
    assert error.value.found == "NPU 0 is in use by container one\nNPU 1 is in use by container two"


def test_a_privileged_container_holds_nothing_but_is_told_of() -> None:
    busy = EngineFacts(containers=(Container(name="big", privileged=True),))
    assert choose_devices("0", host(1), busy, "A2") == ((0,), ("container big is privileged and may use any NPU",))


@pytest.mark.parametrize(
    ("text", "family", "count"),
    [("", "A2", 1), ("", "A3", 2), ("", "950", 1), ("0-7", "A2", 8), ("0,1,2,3", "A3", 4), ("none", "A3", 0)],
)
def test_a_pod_asks_for_a_number_of_devices(text: str, family: str, count: int) -> None:
    assert devices_in_pod(text, family) == count


def test_a_pod_takes_an_a3_by_the_card_and_all_only_where_they_can_be_counted() -> None:
    with pytest.raises(BadInput, match="dies"):
        devices_in_pod("0", "A3")
    with pytest.raises(BadInput, match="to count"):
        devices_in_pod("all", "A2")
    assert devices_in_pod("all", "A2", (0, 1, 2)) == 3
