"""Where a pin stands: in the table that decides it, as stacks extend one another, or on the command line."""

import re
from pathlib import Path

import pytest

from ascend_images.pins.load import load, parse
from ascend_images.pins.places import InFile, Kind, in_own_stack
from ascend_images.pins.resolve import resolve
from ascend_images.toml_text import read_toml

FILE = Path(__file__).parents[3] / "versions.toml"
PINS = load(FILE)
PLACES = InFile(PINS, read_toml(FILE.read_text(encoding="utf-8")))
FULL = "1" * 40


@pytest.mark.parametrize(
    ("variant", "kind", "name", "place"),
    [
        ("a2", "packages", "setuptools", "stack.common.packages"),
        ("a2", "packages", "numpy", "stack.ms-swift.packages"),
        ("a2", "packages", "Torch-NPU", "stack.ms-swift.packages"),
        ("310p", "packages", "numpy", "stack.ms-swift.packages"),
        ("310p", "packages", "protobuf", "stack.common.packages"),
        ("a3-cann8.5", "packages", "torch_npu", 'stack."ms-swift-cann8.5".packages'),
        ("a2-verl-qwen3.5", "packages", "setuptools", "stack.common.packages"),
        ("a2", "exclude", "triton", "stack.common.exclude"),
        ("a2", "sources", "vllm", "stack.ms-swift.sources"),
        ("310p", "sources", "vllm", "stack.ms-swift.sources"),
    ],
)
def test_the_nearest_table_that_says_it_itself_is_told(variant: str, kind: Kind, name: str, place: str) -> None:
    assert PLACES(resolve(PINS, variant), kind, name) == f"versions.toml {place}"


@pytest.mark.parametrize(
    ("changed", "kind", "name"),
    [
        ("setuptools=80.9.0", "packages", "setuptools"),
        ("packages.left-pad=1.0", "packages", "left-pad"),
        ("exclude.left-pad=not wanted", "exclude", "left-pad"),
        (f"sources.ms-swift.ref={FULL}", "sources", "ms-swift"),
        ("sources.ms-swift.version=9.9", "sources", "ms-swift"),
    ],
)
def test_what_the_command_line_changed_stands_there_and_all_else_in_the_file(
    changed: str, kind: Kind, name: str
) -> None:
    variant = resolve(PINS, "a2", [changed], allow_broken=True)
    assert PLACES(variant, kind, name) == "--set"
    assert InFile(PINS, PLACES.raw, "tried")(variant, kind, name) == "tried"
    assert PLACES(variant, "packages", "numpy") == "versions.toml stack.ms-swift.packages"


def test_what_no_stack_pins_comes_with_the_cann_release() -> None:
    text = re.sub(r"^triton-ascend = .*\n", "", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    raw = read_toml(text)
    assert "triton-ascend" not in raw["stack"]["ms-swift"]["packages"]
    pins = parse(text)
    variant = resolve(pins, "a3-cann8.5", allow_broken=True)
    assert InFile(pins, raw)(variant, "packages", "triton-ascend") == 'versions.toml series."8.5".triton_ascend'


def test_without_the_file_the_own_stack_is_told() -> None:
    assert in_own_stack(resolve(PINS, "a2"), "packages", "setuptools") == "versions.toml stack.ms-swift.packages"
