"""Whatever is wrong with a JSON text, or with a file that should hold one, is one kind of error."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ascend_images.errors import BadInput, PublishRefused
from ascend_images.images.record import load_record
from ascend_images.json_text import NotJsonError, read_json, read_json_file
from ascend_images.publish.complete import labels_of
from ascend_images.publish.index import parse_index, parse_manifest
from ascend_images.publish.manifest import load_joined
from ascend_images.verify.report import load_reports

DEEP = b"[" * 200_000 + b"]" * 200_000


class Some(msgspec.Struct):
    facts: Any = None
    size: int = 0


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"\xff",
        b'{"facts": "\xff"}',
        b"[]",
        b'{"size": "x"}',
        b'{"facts": ' + DEEP + b"}",
        b'"\\ud800"',
        b"{}x",
    ],
    ids=["empty", "half", "no text", "no text inside", "list", "another type", "deep", "surrogate", "more behind"],
)
def test_what_is_not_such_a_document_is_one_kind_of_error(text: bytes, tmp_path: Path) -> None:
    with pytest.raises(NotJsonError) as error:
        read_json(text, Some)
    assert "\n" not in str(error.value)
    (tmp_path / "x.json").write_bytes(text)
    with pytest.raises(BadInput, match=r"x\.json: not a list of things: ") as raised:
        read_json_file(tmp_path / "x.json", Some, what="a list of things", wanted="one", do="rm it")
    assert (raised.value.wanted, raised.value.do) == ("one", "rm it")


def folder(path: Path) -> None:
    path.mkdir()


def sparse(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(1 << 40)


def deep(path: Path) -> None:
    path.write_bytes(b'{"schema": 1, "facts": ' + DEEP + b', "resolved": ' + DEEP + b"}")


NO_FILES: dict[str, Callable[[Path], object]] = {"a folder": folder, "a pipe": os.mkfifo, "large": sparse, "deep": deep}
READERS: dict[str, Callable[[Path], object]] = {
    "any": lambda path: read_json_file(path, Some, what="x"),
    "record": load_record,
    "joined": lambda path: load_joined(path, "a2"),
    "reports": lambda path: load_reports(path.parent),
}


@pytest.mark.parametrize("what", NO_FILES)
@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_never_ends_or_is_none_is_refused_at_once(tmp_path: Path, what: str, reader: str) -> None:
    path = tmp_path / "a2.json"
    NO_FILES[what](path)
    with pytest.raises(BadInput, match=r"a2\.json: not "):
        READERS[reader](path)


def test_a_file_that_is_not_there_is_for_the_caller(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_json_file(tmp_path / "x", Some, what="x")


def test_a_link_to_nothing_is_no_report(tmp_path: Path) -> None:
    (tmp_path / "a.json").symlink_to("nothing")
    with pytest.raises(BadInput, match=r"a\.json: not a report of a verification"):
        load_reports(tmp_path)


@pytest.mark.parametrize("parse", [parse_index, parse_manifest, labels_of])
def test_what_a_registry_has_is_refused_where_it_is_too_deep(parse: Callable[[bytes, str], object]) -> None:
    deep = b'{"annotations": ' + DEEP + b', "config": {"Labels": ' + DEEP + b"}}"
    with pytest.raises(PublishRefused, match=r"^some: "):
        parse(deep, "some")
