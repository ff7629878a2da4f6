"""What pins must be beyond their types: each fault is told with its key, once."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.pins.load import parse
from ascend_images.pins.model import Mirror, Patch, Relax, Run, Source, Stack, VariantEntry
from ascend_images.pins.texts import control_character, text_faults
from ascend_images.pins.values import entry_faults, pins_faults, stack_faults
from tests.pins_kit import committed

PINS = committed()
STACK = Stack(repository="quay.io/ascend/x", python="3.12", packages={"torch": "2.10.0"})
VLLM = Source(git="https://x.example/vllm", ref="v1", path="/vllm", module="vllm")


def told(**changes: Any) -> list[str]:
    return [str(fault) for fault in stack_faults(msgspec.structs.replace(STACK, **changes), ("stack", "x"))]


def source(**changes: Any) -> dict[str, Any]:
    return {"sources": {"vllm": msgspec.structs.replace(VLLM, **changes)}}


def test_the_project_s_own_pins_have_no_fault() -> None:
    assert list(pins_faults(PINS)) == []
    assert told() == []


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"repository": "Quay.io/X"}, "repository"),
        ({"repository": "quay.io/ascend/x:tag"}, "repository"),
        ({"repository": "quay.io/ascend/x@sha256:1"}, "repository"),
        ({"repository": "https://quay.io/x"}, "repository"),
        ({"python": "3"}, "python"),
        ({"python": "3.12.1"}, "python"),
        ({"packages": {"torch_npu": "1", "torch-npu": "1"}}, "packages.torch-npu"),
        ({"packages": {"a/b": "1"}}, 'packages."a/b"'),
        ({"packages": {"six": "one"}}, "packages.six"),
        ({"packages": {"six": "=1"}}, "packages.six"),
        ({"packages": {"six": ","}}, "packages.six"),
        ({"packages": {"six": "9" * 5000}}, "packages.six"),
        ({"exclude": {"a b": "r"}}, 'exclude."a b"'),
        ({"no_dependencies": {"a;b": "r"}}, 'no_dependencies."a;b"'),
        ({"relax": (Relax(whose="a b", demand="six", reason="r"),)}, "relax[0].whose"),
        ({"relax": (Relax(whose="a", demand="six>", reason="r"),)}, "relax[0].demand"),
        ({"relax": (Relax(whose="a", demand="six @ https://x/y", reason="r"),)}, "relax[0].demand"),
        ({"env": {"A-B": "1"}}, "env.A-B"),
        ({"install_env": {"1A": "1"}}, "install_env.1A"),
        ({"checks": ("os; import sys",)}, "checks[0]"),
        (source(git="http://x.example/vllm"), "sources.vllm.git"),
        (source(git="https://me:pw@x.example/vllm"), "sources.vllm.git"),
        (source(path="/"), "sources.vllm.path"),
        (source(path="/vllm/"), "sources.vllm.path"),
        (source(path="/a/../b"), "sources.vllm.path"),
        (source(path="/a//b"), "sources.vllm.path"),
        (source(path="/a b"), "sources.vllm.path"),
        (source(path="/usr"), "sources.vllm.path"),
        (source(path="/usr/local/vllm"), "sources.vllm.path"),
        (source(path="/etc/vllm"), "sources.vllm.path"),
        (source(path="/opt"), "sources.vllm.path"),
        (source(path="/opt/ascend-images"), "sources.vllm.path"),
        (source(path="/opt/ascend-images/x"), "sources.vllm.path"),
        (source(module="vllm/x"), "sources.vllm.module"),
        (source(distribution="a b"), "sources.vllm.distribution"),
        (source(version="main"), "sources.vllm.version"),
        (source(local_version="A+b"), "sources.vllm.local_version"),
        (source(requirements=("../x",)), "sources.vllm.requirements[0]"),
        (source(requirements=("/etc/x",)), "sources.vllm.requirements[0]"),
        (source(declares=("six>",)), "sources.vllm.declares"),
        (source(build_requires=("six @ https://x/y",)), "sources.vllm.build_requires"),
        (source(checks=("a b",)), "sources.vllm.checks[0]"),
        (source(env={"A B": "1"}), 'sources.vllm.env."A B"'),
        ({"sources": {"vllm": VLLM, "VLLM": msgspec.structs.replace(VLLM, path="/b")}}, "sources.VLLM"),
        ({"sources": {"vllm": VLLM, "b": VLLM}}, "sources.b.path"),
        ({"sources": {"vllm": VLLM, "b": msgspec.structs.replace(VLLM, path="/vllm/b")}}, "sources.b.path"),
        ({"sources": {"b": msgspec.structs.replace(VLLM, path="/vllm/b"), "vllm": VLLM}}, "sources.vllm.path"),
        ({"end_of_support": "2027-02-30"}, "end_of_support"),
        ({"end_of_support": "20270228"}, "end_of_support"),
        (
            {"patches": (Patch(distribution="x", file="../x", find="a", replace="b", count=1, reason="r"),)},
            "patches[0].file",
        ),
    ],
)
def test_a_fault_of_a_stack_is_told_by_its_key(changes: dict[str, Any], key: str) -> None:
    (fault,) = told(**changes)
    assert fault.startswith(f"stack.x.{key}: ")
    assert len(fault) < 250


@pytest.mark.parametrize(
    "changes",
    [
        {"repository": "localhost:5000/x"},
        {"repository": "ascend/x"},
        {"packages": {"six": ">=1,<2", "a": "1.0+cpu", "b": "==1.*", "c": "~=1.2"}},
        {"exclude": {"nvidia-*": "r", "*-cu12": "r"}},
        source(path="/opt/vllm"),
        source(path="/workspace/a.b_c-d"),
        source(path="/vllm-ascend"),
        source(version="5.3.0.dev0"),
        {"end_of_support": "2028-02-29"},
        {"sources": {"vllm": VLLM, "vllm-ascend": msgspec.structs.replace(VLLM, path="/vllm-ascend")}},
    ],
)
def test_what_may_be_is_no_fault(changes: dict[str, Any]) -> None:
    assert told(**changes) == []


def pins_with(**changes: Any) -> list[str]:
    return [str(fault) for fault in pins_faults(msgspec.structs.replace(PINS, **changes))]


A2 = PINS.variant["a2"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"variant": {"a2": A2, "A2": A2}}, 'variant.A2: "a2" and "A2" differ in case alone'),
        ({"variant": {"../a2": A2}}, 'variant."../a2": "../a2" is not letters'),
        (
            {"variant": {"a2": A2, "b": msgspec.structs.replace(A2, aliases=("A2",))}},
            'variant.b.aliases[0]: variants "a2" and "b" are both called "A2"',
        ),
        ({"stack": {**PINS.stack, "Common": PINS.stack["common"]}}, "stack.Common: "),
        ({"hardware": {**PINS.hardware, "A2": PINS.hardware["a2"]}}, "hardware.A2: "),
        ({"base": msgspec.structs.replace(PINS.base, image="quay.io/ascend/cann:latest")}, "base.image: "),
        ({"mirror": {"x": Mirror(git={"https://a.example/": "http://b.example/"})}}, "mirror.x.git"),
        ({"mirror": {"x": Mirror(git={"https://a.example/": "https://me:pw@b.example/"})}}, "mirror.x.git"),
        ({"mirror": {"x": Mirror(index={"default": "http://b.example"})}}, "mirror.x.index.default"),
        ({"mirror": {"x": Mirror(index={"default": "https://[::1"})}}, "mirror.x.index.default"),
        ({"mirror": {"x": Mirror(os={"ubuntu": "http://me:pw@b.example"})}}, "mirror.x.os.ubuntu"),
        ({"mirror": {"x": Mirror(os={"ubuntu": "ftp://b.example"})}}, "mirror.x.os.ubuntu"),
        ({"mirror": {"x": Mirror(registry={"quay.io/a": "https://b.example/a"})}}, "mirror.x.registry"),
        ({"mirror": {"x": Mirror(registry={"quay.io/a": "b.example/a:tag"})}}, "mirror.x.registry"),
        ({"mirror": {"x": Mirror(registry={"quay.io/a": "me:pw@b.example/a"})}}, "mirror.x.registry"),
    ],
)
def test_a_fault_of_the_file_is_told_by_its_key_and_no_password(changes: dict[str, Any], expected: str) -> None:
    found = pins_with(**changes)
    assert len(found) == 1
    assert found[0].startswith(expected)
    assert "me:pw" not in found[0] or "registry" in expected


def test_mirrors_of_every_kind_are_fine() -> None:
    mirror = Mirror(
        git={"https://a.example/": "https://b.example/a/"},
        registry={"quay.io/ascend/cann": "b.example:5000/cann", "quay.io": "b.example:5000"},
        index={"default": "https://b.example/simple"},
        os={"ubuntu": "http://b.example/ubuntu"},
    )
    assert pins_with(mirror={"x": mirror}) == []


@pytest.mark.parametrize(
    "url",
    [
        "https://x.example/{arch}{foo}.run",
        "https://x.example/{arch.run",
        "https://x.example/{}",
        "http://x.example/{arch}",
    ],
)
def test_an_address_of_a_package_that_cannot_be_filled_in_is_told(url: str) -> None:
    release = msgspec.structs.replace(PINS.cann["8.5.2"], run={"toolkit": Run(url=url)})
    (fault,) = pins_with(cann={**PINS.cann, "8.5.2": release})
    assert fault.startswith('cann."8.5.2".run.toolkit.url: ')


def test_a_variant_for_one_architecture_twice_is_told() -> None:
    entry = VariantEntry(stack="x", hardware="a2", platforms=("amd64", "amd64"))
    assert [str(fault) for fault in entry_faults(entry)] == ['platforms: "amd64" stands there twice']


def test_a_fault_of_an_extended_stack_is_told_once() -> None:
    text = Path(__file__).parents[3].joinpath("versions.toml").read_text(encoding="utf-8")
    with pytest.raises(Exception, match=r"stack\.common\.packages\.fastapi") as caught:
        parse(text.replace('fastapi = "0.123.10"', 'fastapi = "one"'))
    assert str(caught.value).count("fastapi") == 1


@pytest.mark.parametrize("character", ["\n", "\r", "\0", "\t", "\x1b", "\x7f", "\x85", "\u2028", "\u202e", "\ud800"])
def test_a_control_character_is_found_in_keys_and_texts_at_any_depth(character: str) -> None:
    raw = {"a": [{"b": f"x{character}"}], f"c{character}": 1}
    assert sorted(str(fault).partition(": ")[2] for fault in text_faults(raw)) == [
        f"holds the control character U+{ord(character):04X}, which cannot stand there",
        f"the key holds U+{ord(character):04X}",
    ]


@given(st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp", "Cf"))))
def test_other_text_is_fine(text: str) -> None:
    assert control_character(text) == ""


def test_no_depth_is_too_much() -> None:
    raw: Any = "x\n"
    for _ in range(100_000):
        raw = {"a": raw}
    assert len(list(text_faults(raw))) == 1


@given(st.recursive(st.text(max_size=4) | st.integers() | st.none(), lambda inner: st.dictionaries(st.text(), inner)))
def test_any_data_is_looked_through(raw: Any) -> None:
    for fault in text_faults(raw):
        assert not control_character(str(fault))
