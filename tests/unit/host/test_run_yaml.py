"""YAML as this project writes it, read back by the rules of YAML that it uses."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.host.yaml_text import yaml_text


def read(text: str) -> Any:
    """Read back blocks of mappings and lists whose leaves are JSON, which is YAML."""
    lines = [(len(line) - len(line.lstrip(" ")), line.strip(" ")) for line in text.removesuffix("\n").split("\n")]
    value, rest = block(lines)
    assert rest == []
    return value


def block(lines: list[tuple[int, str]]) -> tuple[Any, list[tuple[int, str]]]:
    indent, first = lines[0]
    is_list = first.startswith("- ")
    items: list[Any] = []
    while lines and lines[0][0] == indent and lines[0][1].startswith("- ") == is_list:
        word = lines[0][1]
        if is_list:
            lines = [(indent + 2, word[2:]), *lines[1:]]
            if entry(word[2:]) or word[2:].startswith("- "):
                value, lines = block(lines)
            else:
                value, lines = json.loads(word[2:]), lines[1:]
            items.append(value)
        else:
            key, rest = entry(word) or pytest.fail(word)
            lines = lines[1:]
            if rest:
                value = json.loads(rest)
            else:
                value, lines = block(lines)
            items.append((key, value))
    return (items if is_list else dict(items)), lines


def entry(text: str) -> tuple[str, str] | None:
    match = re.fullmatch(r'([A-Za-z]\w*|"(?:[^"\\]|\\.)*"):(?: (.*))?', text)
    return (json.loads(match[1]) if match[1][0] == '"' else match[1], match[2] or "") if match else None


VALUES = st.recursive(
    st.text(st.characters(exclude_categories=["Cs"])) | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), VALUES, min_size=1))
def test_what_is_written_is_read_back(value: dict[str, Any]) -> None:
    assert read(yaml_text(value)) == value


@pytest.mark.parametrize("text", ["yes", "NO", "null", "1", "1.0", "0x1", "- a", "a: b", "#", "", "~", "2026-01-01"])
def test_texts_that_yaml_takes_for_more_are_quoted(text: str) -> None:
    assert yaml_text({"key": text}) == f'key: "{text}"\n'
    assert yaml_text({text: 1}) == f'"{text}": 1\n'


@pytest.mark.parametrize("sign", ["\x00", "\x7f", "\x85", "\x9f", "\u2028", "\u2029", "\ufeff", "\n", "\t"])
def test_signs_that_yaml_does_not_print_are_escaped(sign: str) -> None:
    text = yaml_text({"key": sign, sign: 1})
    assert sign not in text.replace("\n", "") if sign != "\n" else text.count("\n") == 2
    assert read(text) == {"key": sign, sign: 1}


def test_signs_beyond_sixteen_bits_stay_as_they_are() -> None:
    assert yaml_text({"key": "\U0001f600 昇腾"}) == 'key: "\U0001f600 昇腾"\n'


def test_blocks_are_indented_by_two() -> None:
    value = {"a": [{"b": 1, "c": [[1, 2], []]}, True], "d": {}}
    assert yaml_text(value) == "a:\n  - b: 1\n    c:\n      - - 1\n        - 2\n      - []\n  - true\nd: {}\n"
