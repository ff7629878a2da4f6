"""Names of pins: which place of versions.toml is meant, and what moves along with it."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_images.errors import BadInput
from ascend_images.pins.edit import edited
from ascend_images.pins.load import parse
from ascend_images.pins.targets import Target, edits, find, owners, wanted
from ascend_images.toml_text import read_toml

REAL = (Path(__file__).parents[3] / "versions.toml").read_text(encoding="utf-8")
RAW = read_toml(REAL)
SMALL: dict[str, Any] = {
    "stack": {
        "base": {"packages": {"setuptools": "80"}, "sources": {"vllm": {"ref": "v0.18.0", "version": "0.18.0.1"}}},
        "a.b": {"extends": "base", "cann": "9.1.0", "packages": {"torch": "2.10.0", "ruamel.yaml": "0.18"}},
        "c": {
            "extends": "base",
            "cann": "9.0.0",
            "packages": {"torch": "2.10.0", "torchvision": "0.25.0", "torchaudio": "2.10.0"},
            "sources": {"MindSpeed": {"ref": "core_r0.16.0", "version": "0.16.0"}},
        },
    }
}


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("setuptools", "base.setuptools"),
        ("Setup_Tools".replace("_", ""), "base.setuptools"),
        ("ruamel.yaml", "a.b.ruamel.yaml"),
        ("ruamel_yaml", "a.b.ruamel.yaml"),
        ("a.b.torch", "a.b.torch"),
        ("A.B.Torch", "a.b.torch"),
        ("c.cann", "c.cann"),
        ("mindspeed", "c.MindSpeed"),
        ("MindSpeed.version", "c.MindSpeed.version"),
        ("vllm", "base.vllm"),
    ],
)
def test_a_name_means_one_pin_whatever_its_spelling(name: str, label: str) -> None:
    assert find(SMALL, name).label == label


def test_what_several_stacks_pin_has_to_be_named_with_its_stack() -> None:
    with pytest.raises(BadInput) as error:
        find(SMALL, "torch")
    assert error.value.found == "torch is pinned in 2 places: a.b.torch (2.10.0), c.torch (2.10.0)"
    assert error.value.do == "invoke bump a.b.torch VERSION"


def test_a_name_of_nothing_is_told_with_the_nearest() -> None:
    with pytest.raises(BadInput, match=r'unknown pin "torchvisoin"\n  wanted: did you mean "(c\.)?torchvision"'):
        find(SMALL, "torchvisoin")


def test_a_pin_from_an_extended_stack_becomes_one_of_the_stack_that_is_named() -> None:
    target = find(SMALL, "c.vllm")
    assert target == Target(stack="c", kind="source", name="vllm", value="v0.18.0", own=False)
    changes = wanted(SMALL, {"c.vllm": "0.19.1"})
    assert [(edit.path, edit.value) for edit in edits(SMALL, changes)] == [
        (("stack", "c", "sources", "vllm", "ref"), "v0.19.1"),
        # Else it would have the version that stands in the other stack.
        (("stack", "c", "sources", "vllm", "version"), "0.19.1"),
    ]


def test_a_version_goes_with_the_ref_that_it_stood_beside() -> None:
    changes = wanted(SMALL, {"MindSpeed": "core_r0.17.0"})
    assert [(edit.path[-1], edit.value) for edit in edits(SMALL, changes)] == [
        ("ref", "core_r0.17.0"),
        ("version", None),
    ]
    both = wanted(SMALL, {"MindSpeed": "a" * 40, "MindSpeed.version": "0.17.1"})
    assert [(edit.path[-1], edit.value) for edit in edits(SMALL, both)][-1] == ("version", "0.17.1")


def test_torch_takes_its_companions_by_the_table() -> None:
    assert [str(one) for one in wanted(SMALL, {"c.torch": "2.9.0"})] == [
        "c.torch 2.10.0 -> 2.9.0",
        "c.torchvision 0.25.0 -> 0.24.0",
        "c.torchaudio 2.10.0 -> 2.9.0",
    ]
    # From 2.11 on torchaudio follows torch no longer; a stack without companions has none to move.
    assert [one.target.name for one in wanted(SMALL, {"c.torch": "2.11.0"})] == ["torch", "torchvision"]
    assert [one.target.name for one in wanted(SMALL, {"a.b.torch": "2.9.0"})] == ["torch"]


def test_a_companion_that_is_given_is_taken_as_it_is_given() -> None:
    changes = wanted(SMALL, {"c.torch": "2.9.0", "c.torchvision": "0.24.1"})
    assert [one.value for one in changes] == ["2.9.0", "0.24.1", "2.9.0"]


def test_companions_that_no_table_knows_have_to_be_said() -> None:
    with pytest.raises(BadInput) as error:
        wanted(SMALL, {"c.torch": "99.0"})
    assert error.value.do == "say it: --also c.torchvision=VERSION"
    assert len(wanted(SMALL, {"c.torch": "99.0", "c.torchvision": "1", "c.torchaudio": "1"})) == 3


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ({"setuptools": "81", "base.setuptools": "82"}, "base.setuptools is given twice"),
        ({"setuptools": " "}, 'base.setuptools: " " is no version'),
    ],
)
def test_what_cannot_be_meant_is_refused(typed: dict[str, str], found: str) -> None:
    with pytest.raises(BadInput, match=found):
        wanted(SMALL, typed)


def test_a_package_that_is_a_source_of_the_same_stack_too_means_neither() -> None:
    stack = {"packages": {"vllm": "1"}, "sources": {"vllm": {"ref": "v1"}}}
    with pytest.raises(BadInput, match="is a package and a source"):
        find({"stack": {"x": stack}}, "x.vllm")


def test_owners_are_where_the_pins_of_stacks_stand() -> None:
    assert [one.label for one in owners(SMALL, ["a.b", "c"], "package", "setuptools")] == ["base.setuptools"]
    assert [one.label for one in owners(SMALL, ["a.b", "c"], "package", "torch")] == ["a.b.torch", "c.torch"]
    assert owners(SMALL, ["a.b"], "package", "numpy") == ()


def every_label() -> list[str]:
    labels = []
    for stack, table in RAW["stack"].items():
        labels += [f"{stack}.{name}" for name in table.get("packages", {})]
        labels += [f"{stack}.{name}" for name, source in table.get("sources", {}).items() if "ref" in source]
        labels += [f"{stack}.cann"] * ("cann" in table)
    return labels


@settings(max_examples=60)
@given(label=st.sampled_from(every_label()))
def test_every_pin_of_the_real_file_can_be_named_and_moved(label: str) -> None:
    target = find(RAW, label)
    assert target.label == label
    assert target.own
    value = {"cann": "9.0.1", "source": "v9.9.9"}.get(target.kind, "9.9.9")
    if label.endswith(".torch"):
        value = "2.12.0"
    pins = parse(edited(REAL, edits(RAW, wanted(RAW, {label: value}))))
    stack = pins.stack[target.stack]
    now = {"cann": lambda: stack.cann, "source": lambda: stack.sources[target.name].ref}
    assert now.get(target.kind, lambda: stack.packages[target.name])() == value
