"""By way of which mirror something was asked, as messages say it."""

import pytest

from ascend_images.lock.way import DIRECTLY, Way, default_place
from ascend_images.pins.model import Index, Mirror

CN = Way(
    "cn",
    Mirror(
        git={
            "https://github.com/": "https://m.example/gh/",
            "https://github.com/own/": "https://user:word@own.example/",
        },
        registry={"quay.io/ascend/cann": "swr.example/cann"},
        index={"default": "https://m.example/simple"},
    ),
)


@pytest.mark.parametrize(
    ("place", "address"),
    [
        ("https://github.com/vllm/vllm", "https://m.example/gh/vllm/vllm"),
        ("https://github.com/own/tool", "https://***@own.example/tool"),
        ("quay.io/ascend/cann:9.1.0", "swr.example/cann:9.1.0"),
    ],
)
def test_what_a_mirror_has_is_told_with_its_address_there(place: str, address: str) -> None:
    assert CN.told(place) == f"{place} (asked by way of mirror cn: {address})"
    assert Way(mirror=CN.mirror).told(place) == f"{place} (asked by way of a mirror: {address})"
    assert DIRECTLY.told(place) == place


@pytest.mark.parametrize("place", ["https://gitcode.com/Ascend/MindSpeed", "quay.io/ascend/cannery:1"])
def test_what_it_does_not_have_is_asked_at_its_own_address(place: str) -> None:
    assert CN.told(place) == place


def test_a_mirror_is_advised_only_where_none_was_chosen() -> None:
    assert "--mirror NAME" in DIRECTLY.advice
    assert CN.advice == Way("cn").advice == Way(mirror=CN.mirror).advice == ""


def test_the_default_index_is_named_with_its_address_where_that_is_a_mirrors() -> None:
    addresses = CN.indexes({"cpu": Index(url="https://cpu.example", serves=("torch",))})
    assert addresses == {"cpu": "https://cpu.example", "default": "https://m.example/simple"}
    assert default_place(addresses) == "the default index (https://m.example/simple)"
    assert default_place({"cpu": "https://cpu.example"}) == "the default index"
