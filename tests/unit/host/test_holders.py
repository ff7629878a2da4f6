"""Who holds a busy device: a container by name, or nobody that is known, and then no guess is stated as a fact."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.host.facts import Container, EngineFacts, Output
from ascend_images.host.holders import busy_code, find_busy, holder_of, suspects
from tests.host_kit import container, engine, sample

CODES = ["error-8005", "error-8020"]


@pytest.mark.parametrize("code", CODES)
def test_a_container_that_has_the_device_is_named(code: str) -> None:
    inside = Output(255, sample(code))
    [busy] = find_busy((7,), engine(container("other", 7)), Output(0, sample("a2-910b4")), inside)
    assert busy.found == "NPU 7 is in use by container other"
    assert busy.next == "take others, or end that container: docker stop other"


def test_a_container_that_has_the_device_is_named_before_anything_failed() -> None:
    [busy] = find_busy((7,), engine(container("other", 7)))
    assert busy.found == "NPU 7 is in use by container other"


@pytest.mark.parametrize("code", CODES)
def test_where_nobody_holds_it_the_code_is_told_and_where_to_look(code: str) -> None:
    crowd = engine(container("six", 6), container("seventy", 70, 17), Container(name="all", privileged=True))
    [busy] = find_busy((7,), crowd, None, Output(255, sample(code)))
    assert "holder not found" in busy.found
    assert f"ret is {code.removeprefix('error')}'" in busy.found
    assert "usually" in busy.found
    assert "sudo fuser -v /dev/davinci7" in busy.next
    assert "crictl ps" in busy.next
    assert "privileged ones (all)" in busy.next
    said = f"{busy.subject} {busy.found} {busy.wanted} {busy.next}".lower()
    assert not any(word in said for word in ("--privileged", "driver missing", "image is broken", "chmod", "reinstall"))


def test_without_an_engine_its_containers_are_not_known() -> None:
    [busy] = find_busy((), None, Output(255, sample("error-8020")))
    assert "no engine answered" in busy.found
    assert "/dev/davinci*" in busy.next


def test_another_device_is_no_concern() -> None:
    assert find_busy((7,), engine(container("other", 6)), Output(0, sample("a2-910b4"))) == ()
    assert find_busy((), engine(container("other", 6))) == ()


def test_devices_of_one_container_are_one_finding() -> None:
    crowd = engine(container("a", 0, 1), container("b", 2))
    assert [busy.found for busy in find_busy((0, 1, 2, 3), crowd)] == [
        "NPU 0,1 are in use by container a",
        "NPU 2 is in use by container b",
    ]


@pytest.mark.parametrize(
    ("visible", "held"),
    [
        ("7", True),
        ("0,7", True),
        ("6-8", True),
        ("0-2,4", False),
        ("17", False),
        ("", False),
        ("void", False),
        ("7-", False),
        ("8-6", False),
        ("a,7", True),
        ("Ascend910-7", False),
    ],
)
def test_ascend_s_runtime_gives_what_its_variable_names(visible: str, held: bool) -> None:
    assert bool(holder_of(7, engine(Container(name="x", visible=visible)))) == held


def test_a_path_of_a_host_that_a_directory_stands_for_counts() -> None:
    elsewhere = engine(Container(name="x", devices=("/tmp/host/dev/davinci3",)))
    assert holder_of(3, elsewhere, "/tmp/host") == "x"
    assert holder_of(3, elsewhere) == ""


def test_a_privileged_container_is_a_suspect_and_no_holder() -> None:
    crowd = engine(Container(name="agent", privileged=True))
    assert (holder_of(0, crowd), suspects(crowd)) == ("", ("agent",))


@pytest.mark.parametrize("name", ["error-no-permission", "error-no-library", "a2-910b4", "board-a2"])
def test_other_output_says_nothing_of_a_busy_device(name: str) -> None:
    assert busy_code(Output(1, sample(name))) == ""
    assert busy_code(None) == ""


@given(st.text(), st.text(), st.integers(0, 20))
def test_no_text_makes_it_raise(visible: str, output: str, device: int) -> None:
    crowd = EngineFacts(containers=(Container(name="x", visible=visible, devices=(visible,)),))
    assert len(find_busy((device,), crowd, Output(0, output))) <= 1
