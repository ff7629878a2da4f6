"""The committed JSON schema is the model's, and both say yes and no to the same files."""

import copy
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ascend_images.pins.model import Pins
from ascend_images.pins.schema import SCHEMA_FILE, schema_text
from ascend_images.pins.validate import faults

ROOT = Path(__file__).parents[3]
RAW = tomllib.loads((ROOT / "versions.toml").read_text())
VALIDATOR = jsonschema.Draft202012Validator(json.loads(schema_text()))


def test_the_committed_schema_is_what_the_model_gives() -> None:
    assert (ROOT / SCHEMA_FILE).read_text() == schema_text(), "type: invoke schema"


def test_the_project_s_file_is_valid_by_the_schema() -> None:
    assert [error.message for error in VALIDATOR.iter_errors(RAW)] == []


def tables(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every table of a file."""
    if isinstance(value, dict):
        yield path
        for key, item in value.items():
            yield from tables(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from tables(item, (*path, index))


def changed(path: tuple[Any, ...], change: Any) -> Any:
    raw = copy.deepcopy(RAW)
    place = raw
    for part in path:
        place = place[part]
    change(place)
    return raw


def agree(raw: Any) -> bool:
    """Return whether the file is right, and fail where model and schema disagree on it."""
    by_model, by_schema = not faults(raw, Pins), VALIDATOR.is_valid(raw)
    assert by_model == by_schema
    return by_model


@pytest.mark.parametrize("path", list(tables(RAW)), ids=lambda path: ".".join(map(str, path)) or "top")
def test_model_and_schema_agree_on_a_table_with_a_key_of_no_meaning(path: tuple[Any, ...]) -> None:
    agree(changed(path, lambda table: table.update({"no_such_key": 1})))


@pytest.mark.parametrize("path", list(tables(RAW)), ids=lambda path: ".".join(map(str, path)) or "top")
def test_model_and_schema_agree_on_a_table_that_lacks_a_key(path: tuple[Any, ...]) -> None:
    def drop_first(table: dict[str, Any]) -> None:
        if table:
            table.pop(next(iter(table)))

    agree(changed(path, drop_first))


@pytest.mark.parametrize(
    ("path", "change"),
    [
        (("index", "ascend"), {"url": "http://index.example"}),
        (("index", "ascend"), {"serves": "triton"}),
        (("variant", "a2"), {"platforms": []}),
        (("variant", "a2"), {"platforms": ["arm"]}),
        (("stack", "ms-swift", "sources", "vllm"), {"commit": "abc"}),
        (("stack", "ms-swift", "sources", "vllm"), {"path": "vllm"}),
        (("stack", "ms-swift", "sources", "vllm"), {"install": "wheel"}),
        (("stack", "verl", "patches", 0), {"count": 0}),
        (("stack", "ms-swift", "packages"), {"torch": ""}),
        (("cann", "8.5.2", "run"), {"drivers": {"url": "https://x.example"}}),
        (("cann", "8.5.2", "run", "ops"), {"sha256": {"x.run": "1234"}}),
        ((), {"schema": 2}),
    ],
)
def test_model_and_schema_refuse_the_same_values(path: tuple[Any, ...], change: dict[str, Any]) -> None:
    assert not agree(changed(path, lambda table: table.update(change)))
