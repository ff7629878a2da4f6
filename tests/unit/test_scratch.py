"""Private folders: for one user, gone afterwards, and gone after whoever was killed as well."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ascend_images import scratch
from ascend_images.errors import MissingTool
from ascend_images.scratch import private_folder

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder


def test_a_folder_is_for_this_user_alone_and_gone_afterwards(place: Path) -> None:
    with private_folder() as folder:
        assert folder.parent == place
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "x").write_text("x")
    assert list(place.iterdir()) == []


def test_a_folder_is_gone_after_an_error(place: Path) -> None:
    with pytest.raises(KeyboardInterrupt), private_folder():
        raise KeyboardInterrupt
    assert list(place.iterdir()) == []


def test_a_folder_in_use_stays_and_one_of_another_kind_too(place: Path) -> None:
    (place / "ascend-images-somebody's").mkdir()
    with private_folder() as one, private_folder() as other:
        assert one.is_dir()
        assert one != other
    assert [path.name for path in place.iterdir()] == ["ascend-images-somebody's"]


@pytest.mark.subprocess
def test_what_a_killed_process_left_is_removed_by_the_next(place: Path) -> None:
    code = (
        "import os, signal\nfrom ascend_images.scratch import private_folder\n"
        "with private_folder() as folder:\n"
        "    (folder / 'secret').write_text('s3cret')\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    assert len(list(place.rglob("secret"))) == 1
    with private_folder():
        assert list(place.rglob("secret")) == []


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_a_session_folder_that_others_may_look_into_is_not_taken(
    place: Path, tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    place.chmod(mode)
    with private_folder() as folder:
        assert folder.parent == tmp_path


def test_no_room_for_a_folder_is_told_with_the_way_out(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(MissingTool, match=r"No space left on device") as error, private_folder():
        pass
    assert "TMPDIR" in error.value.do
    assert str(place) in error.value.found


def test_nowhere_to_write_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in [...]")

    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    with pytest.raises(MissingTool, match="No usable temporary directory"), private_folder():
        pass


def test_another_user_s_folder_is_left_alone(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = place / "ascend-images-theirs"
    theirs.mkdir()
    (theirs / ".held").touch()
    owner = os.getuid()
    monkeypatch.setattr(scratch.os, "getuid", lambda: owner + 1)
    scratch._remove_stale(place)
    assert theirs.is_dir()
    monkeypatch.undo()
    scratch._remove_stale(place)
    assert not theirs.is_dir()
