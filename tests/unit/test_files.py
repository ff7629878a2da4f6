"""Files are read whole or refused, and written whole or not at all."""

import os
from pathlib import Path

import pytest

from ascend_images.files import read_regular, write_atomic
from ascend_images.toml_text import NotTomlError, read_toml


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\0\xff\r\n")
    (tmp_path / "link").symlink_to("x")
    assert read_regular(tmp_path / "x") == read_regular(tmp_path / "link") == b"\0\xff\r\n"


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path, tmp_path / "gone"):
        with pytest.raises(OSError) as error:
            read_regular(path)
        assert error.value.filename == str(path)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(OSError, match="larger than 64 MB"):
        read_regular(tmp_path / "x")


def test_a_disk_that_is_full_names_the_file_and_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_atomic(tmp_path / "x", "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(OSError, match="No space left") as error:
        write_atomic(tmp_path / "x", "new")
    assert error.value.filename == str(tmp_path / "x")
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_text() == "old"


@pytest.mark.parametrize("text", ["x = " + "[" * 9999, "x = " + "9" * 5000, "x = 1979-02-30", "x", "x = 1\nx = 2"])
def test_whatever_is_wrong_with_a_toml_text_is_one_kind_of_error(text: str) -> None:
    with pytest.raises(NotTomlError):
        read_toml(text)
    assert read_toml('x = "y"') == {"x": "y"}
