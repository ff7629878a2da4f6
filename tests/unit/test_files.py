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


def test_a_link_is_followed_and_stays_one(tmp_path: Path) -> None:
    inside, outside = tmp_path / "project", tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "x").write_text("old")
    inside.mkdir()
    (inside / "x").symlink_to("../elsewhere/x")
    (inside / "twice").symlink_to("x")
    (inside / "dangling").symlink_to(outside / "y")
    for name in ("x", "twice", "dangling"):
        write_atomic(inside / name, f"new {name}")
        assert (inside / name).is_symlink()
        assert (inside / name).read_text() == f"new {name}"
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"x": "new twice", "y": "new dangling"}
    assert sorted(path.name for path in inside.iterdir()) == ["dangling", "twice", "x"]


def test_the_temporary_file_lies_beside_what_a_link_leads_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere may be another file system, which no rename reaches."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "x").symlink_to("elsewhere/x")
    replaced: list[tuple[Path, Path]] = []
    monkeypatch.setattr(Path, "replace", lambda one, other: replaced.append((one.parent, other)))
    write_atomic(tmp_path / "x", "new")
    assert replaced == [(tmp_path / "elsewhere", tmp_path / "elsewhere/x")]


@pytest.mark.parametrize("target", ["x", "gone/y", "pipe", "."])
def test_what_a_link_cannot_be_written_through_is_refused_by_its_name(tmp_path: Path, target: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "x").symlink_to(target)
    with pytest.raises(OSError) as error:
        write_atomic(tmp_path / "x", "new")
    assert error.value.filename == str(tmp_path / "x")
    assert (tmp_path / "x").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipe", "x"]


def test_what_is_no_file_is_not_written_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(OSError) as error:
            write_atomic(tmp_path / name, "new")
        assert error.value.filename == str(tmp_path / name)
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "folder").is_dir()


@pytest.mark.parametrize(
    ("before", "mode", "after"),
    [
        (None, 0o644, 0o644),
        (None, 0o600, 0o600),
        (0o664, 0o644, 0o664),
        (0o600, 0o644, 0o600),
        (0o444, 0o644, 0o444),
        (0o755, 0o644, 0o755),
        (0o664, 0o600, 0o600),
        (0o400, 0o600, 0o400),
    ],
)
def test_a_file_keeps_its_mode_but_for_what_others_may_not_read(
    tmp_path: Path, before: int | None, mode: int, after: int
) -> None:
    path = tmp_path / "x"
    if before is not None:
        path.write_text("old")
        path.chmod(before)
    write_atomic(path, "new", mode=mode)
    assert path.stat().st_mode & 0o7777 == after
    assert path.read_bytes() == b"new"


def test_a_file_keeps_its_owner_and_group_as_far_as_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_text("old")
    real = Path.stat

    def stat(path: Path, **words: bool) -> os.stat_result:
        found = list(real(path, **words))
        if path.name == "x":
            found[4:6] = [4242, 4343]
        return os.stat_result(found)

    asked: list[tuple[int, int]] = []

    def chown(_: object, owner: int, group: int) -> None:
        asked.append((owner, group))
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr(os, "chown", chown)
    write_atomic(tmp_path / "x", "new")
    assert asked == [(4242, -1), (-1, 4343)]
    assert (tmp_path / "x").read_text() == "new"


@pytest.mark.parametrize("text", ["x = " + "[" * 9999, "x = " + "9" * 5000, "x = 1979-02-30", "x", "x = 1\nx = 2"])
def test_whatever_is_wrong_with_a_toml_text_is_one_kind_of_error(text: str) -> None:
    with pytest.raises(NotTomlError):
        read_toml(text)
    assert read_toml('x = "y"') == {"x": "y"}
