from pathlib import Path

import pytest

from ascend_images.errors import BadInput, CheckFailed
from ascend_images.images.rendered import (
    RENDERED,
    State,
    check_rendered,
    dockerfile_path,
    image_json_path,
    require_rendered,
    write_rendered,
)
from ascend_images.pins.load import load
from ascend_images.pins.resolve import resolve_all
from tests.unit.images.mini import mini

ROOT = Path(__file__).parents[3]


def test_what_is_committed_is_what_the_pins_give() -> None:
    require_rendered(ROOT, resolve_all(load(ROOT / "versions.toml")))


def test_what_was_just_written_is_up_to_date(tmp_path: Path) -> None:
    written = write_rendered(tmp_path, [mini()])
    assert written == [RENDERED / "mini.Dockerfile", RENDERED / "mini.image.json"]
    assert check_rendered(tmp_path, [mini()]) == []
    assert write_rendered(tmp_path, [mini()]) == []


def test_a_changed_file_is_listed_with_the_difference_and_what_mends_it(tmp_path: Path) -> None:
    write_rendered(tmp_path, [mini()])
    path = dockerfile_path(tmp_path, "mini")
    path.write_text(path.read_text().replace("FROM scratch AS wheels", "FROM scratch AS weels"))
    (stale,) = check_rendered(tmp_path, [mini()])
    assert (stale.path, stale.state) == (RENDERED / "mini.Dockerfile", State.CHANGED)
    assert "-FROM scratch AS weels" in stale.snippet
    assert "+FROM scratch AS wheels" in stale.snippet
    assert stale.do == "invoke render --variant mini"
    assert str(stale).splitlines()[0] == "dockerfiles/rendered/mini.Dockerfile is out of date"


def test_a_long_difference_is_cut(tmp_path: Path) -> None:
    write_rendered(tmp_path, [mini()])
    dockerfile_path(tmp_path, "mini").write_text("nothing\n" * 100)
    (stale,) = check_rendered(tmp_path, [mini()])
    assert len(stale.snippet.splitlines()) == 13
    assert stale.snippet.endswith("…")


def test_a_missing_file_and_one_of_no_variant_are_listed(tmp_path: Path) -> None:
    write_rendered(tmp_path, [mini(), mini(name="gone")])
    image_json_path(tmp_path, "mini").unlink()
    found = [(stale.path.name, stale.state) for stale in check_rendered(tmp_path, [mini()])]
    assert found == [
        ("gone.Dockerfile", State.LEFTOVER),
        ("gone.image.json", State.LEFTOVER),
        ("mini.image.json", State.MISSING),
    ]


def test_a_variant_whose_name_begins_like_another_is_not_taken_for_it(tmp_path: Path) -> None:
    variants = [mini(), mini(name="mini-cann8.5")]
    write_rendered(tmp_path, variants, all_of_them=True)
    assert check_rendered(tmp_path, variants) == []


def test_writing_all_removes_what_belongs_to_no_variant_and_writing_some_does_not(tmp_path: Path) -> None:
    write_rendered(tmp_path, [mini(), mini(name="gone")])
    (tmp_path / RENDERED / "README.md").write_text("not ours")
    write_rendered(tmp_path, [mini()])
    assert dockerfile_path(tmp_path, "gone").is_file()
    removed = write_rendered(tmp_path, [mini()], all_of_them=True)
    assert [path.name for path in removed] == ["gone.Dockerfile", "gone.image.json"]
    assert sorted(path.name for path in (tmp_path / RENDERED).iterdir()) == [
        "README.md",
        "mini.Dockerfile",
        "mini.image.json",
    ]


def test_nothing_is_written_when_one_variant_cannot_be_rendered(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        write_rendered(tmp_path, [mini(), mini(name="bad", os_family="suse")])
    assert not (tmp_path / RENDERED).exists()


def test_stale_files_end_in_the_exit_code_of_a_failed_check(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed) as error:
        require_rendered(tmp_path, [mini()])
    assert error.value.exit_code == 5
    assert "mini.Dockerfile is missing" in str(error.value)
    assert "invoke render --variant mini" in str(error.value)


def test_what_mends_is_about_those_that_were_asked_for(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed) as error:
        require_rendered(tmp_path, iter([mini(), mini(name="other")]), all_of_them=False)
    assert error.value.do == "invoke render --variant mini --variant other"
    with pytest.raises(CheckFailed) as error:
        require_rendered(tmp_path, [mini()])
    assert error.value.do == "invoke render"
