"""Trees and the store: the same bytes each time, whole or not at all, made once."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from ascend_images.sandbox.store import code_digest, digest, stored
from ascend_images.sandbox.tree import TIMESTAMP, File, Folder, Link, Tree, tar_gz, text_file, write_tree

TREE: Tree = {
    "bin/run": text_file("#!/bin/sh", executable=True),
    "etc/a.conf": text_file("a=1"),
    "empty": Folder(),
    "latest": Link("bin"),
}


def test_a_tree_is_written_with_modes_and_links(tmp_path: Path) -> None:
    write_tree(TREE, tmp_path / "x")
    assert (tmp_path / "x/latest/run").read_text() == "#!/bin/sh\n"
    assert (tmp_path / "x/bin/run").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "x/empty").is_dir()


def test_times_tell_contents_of_one_size_apart_and_are_the_same_each_time(tmp_path: Path) -> None:
    """BuildKit takes a file of the same size and time, in a context of the same name, for the one it has."""
    for folder, content, target in (("a", b"1", "x"), ("b", b"1", "x"), ("c", b"2", "y")):
        write_tree({"file": File(content), "link": Link(target), "folder": Folder()}, tmp_path / folder)
    times = {
        folder: [(tmp_path / folder / name).lstat().st_mtime_ns for name in ("file", "link", "folder")]
        for folder in "abc"
    }
    assert times["a"] == times["b"]
    assert times["a"][0] != times["c"][0]
    assert times["a"][1] != times["c"][1]
    assert times["a"][2] == times["c"][2]
    assert all(time / 1e9 < 1.4e9 for time in [*times["a"], *times["c"]])


def test_an_archive_is_the_same_in_any_order_and_spells_out_its_folders() -> None:
    first, second = tar_gz(TREE), tar_gz(dict(reversed(TREE.items())))
    assert first == second
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        members = {member.name: member for member in archive}
    assert set(members) == {"bin", "bin/run", "etc", "etc/a.conf", "empty", "latest"}
    assert {member.mtime for member in members.values()} == {TIMESTAMP}
    assert {(member.uid, member.gid) for member in members.values()} == {(0, 0)}
    assert members["latest"].linkname == "bin"


def test_the_prefix_stands_before_each_name() -> None:
    with tarfile.open(fileobj=io.BytesIO(tar_gz({"a": File(b"x")}, prefix="top-1/"))) as archive:
        assert archive.getnames() == ["top-1/a"]


def test_what_is_stored_is_made_once_per_key(tmp_path: Path) -> None:
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "a").write_text("1")

    first = stored("kind", "name", "1", make)
    assert stored("kind", "name", "1", make) == first
    assert stored("kind", "name", "2", make) != first
    assert len(made) == 2
    assert (first / "a").read_text() == "1"


def test_what_is_large_takes_the_place_of_its_predecessor(state: Path) -> None:
    def make(folder: Path) -> None:
        (folder / "a").touch()

    for name in ("thing", "thing-else"):
        for key in (digest(1), digest(2)):
            stored("kind", name, key, make, large=True)
    found = {path.name for path in (state / "stand-ins/kind").iterdir() if path.is_dir()}
    assert found == {f"thing-{digest(2)}", f"thing-else-{digest(2)}"}


def test_what_could_not_be_made_leaves_nothing_and_is_made_again(state: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("")
        raise ValueError("broken off")

    with pytest.raises(ValueError, match="broken off"):
        stored("kind", "name", "1", fail)
    assert [path.name for path in (state / "stand-ins/kind").iterdir()] == [".name.lock"]
    assert list(stored("kind", "name", "1", lambda folder: (folder / "a").touch()).iterdir())


def test_a_digest_depends_on_values_alone_and_tells_them_apart() -> None:
    assert digest({"a": 1, "b": [2]}) == digest(json.loads('{"b": [2], "a": 1}'))
    assert digest(["a", "b"]) != digest(["ab"])


def test_the_digest_of_code_covers_data_folders() -> None:
    assert code_digest("files/cann") != code_digest("files/wheels") != code_digest("elf.py")
