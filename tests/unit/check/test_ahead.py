"""What imports before all sources are there: real imports, beside a checkout of which only names and metadata are."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.images.test_scripts import load

pytestmark = pytest.mark.subprocess

#: A package's modules: what each does when it is imported.
MODULES = {
    "plain": "import json, importlib.metadata\nassert list(importlib.metadata.distributions())",
    "asks": "import importlib.util\nTHERE = importlib.util.find_spec('later') is not None",
    "needs": "import later\nassert later.NAME == 'later'",
    "reads": "import os\ntry:\n    open(os.environ['LATER'] + '/later/data')\nexcept OSError:\n    pass",
    "exists": "import os, pathlib, shutil, sys, tempfile\nTHERE = os.path.isdir(os.environ['LATER'] + '/later/data')",
    "path": "import os, pathlib\nTHERE = pathlib.Path(os.environ['LATER'], 'later/data').exists()",
    "linked": "import os\nTHERE = os.access(os.environ['LATER'] + '-link/later/data', os.R_OK)",
    "loads": "import ctypes, os\ntry:\n    ctypes.CDLL(os.environ['LATER'] + '/later/x.so')\nexcept OSError:\n    pass",
    "lists": "import os\nos.listdir(os.environ['LATER'])\nos.listdir(os.environ['LATER'] + '/later')",
    "fails": "raise ImportError('libx.so')",
    "starts": "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import later'])",
    "shell": "import os\nos.system('ls ' + os.environ['LATER'])",
    "forks": "import os\nif os.fork() == 0:\n    os._exit(0)\nos.wait()",
    "finds": "import subprocess\nsubprocess.run(['true'])",
    "leaves": "import os\nos._exit(0)",
    "crashes": "import os\nos.kill(os.getpid(), 11)",
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with packages and, on Python's path, the checkout of a source that comes later."""
    (tmp_path / "lib").mkdir()
    for name, text in MODULES.items():
        (tmp_path / f"lib/{name}.py").write_text(text + "\n")
    (tmp_path / "later").mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}/lib:{tmp_path}/later")
    monkeypatch.setenv("LATER", f"{tmp_path}/later")
    (tmp_path / "later-link").symlink_to(tmp_path / "later")
    layer = tmp_path / "layer"
    checkout = layer / str(tmp_path / "later").lstrip("/")
    for name, text in {"later/__init__.py": "NAME = 'later'\n", "later/data": "", "later/later.pth": "\xff",
                       "later.egg-info/PKG-INFO": "Name: later\nVersion: 1\n", "setup.py": ""}.items():  # fmt: skip
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(text, encoding="latin-1")
    load("registered").write(tmp_path / "registered", layer, str(tmp_path / "later"))
    (tmp_path / "registered" / str(tmp_path / "later").lstrip("/")).rename(tmp_path / "later")
    return tmp_path


def comes(place: Path) -> None:
    """Let the source come."""
    later = place / "later"
    later.rename(place / "was-registered")
    (place / "layer" / str(later).lstrip("/")).rename(later)


Ahead = Callable[..., dict[str, Any]]


@pytest.fixture
def ahead(check: SimpleNamespace, place: Path) -> Ahead:
    def imported(names: list[str], *absent: str, before: dict[str, Any] | None = None) -> dict[str, Any]:
        places = [str(place / name) for name in absent]
        done: dict[str, Any] = check.import_ahead(names, places, before or {}, str(place / "bytecode"), 30, 2)
        return json.loads(json.dumps(done))  # type: ignore[no-any-return]

    return imported


def test_of_a_source_to_come_there_are_its_metadata_and_the_names_on_the_path(place: Path) -> None:
    later = place / "later"
    assert sorted(str(path.relative_to(later)) for path in later.rglob("*")) == [
        "later", "later.egg-info", "later.egg-info/PKG-INFO", "setup.py",
    ]  # fmt: skip
    assert (later / "later.egg-info/PKG-INFO").read_text() == "Name: later\nVersion: 1\n"


def test_what_is_installed_beside_a_checkout_is_there_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    site = "usr/lib/site-packages"
    files = {
        f"{site}/x.pth": "import x\n/x/src\n/x/README\n/x/nowhere\n",
        f"{site}/x-1.dist-info/METADATA": "Name: x\n",
        "usr/bin/x": "run\n",
    }
    for name, text in {**files, "x/src/x/__init__.py": "X = 1\n", "x/README": ""}.items():
        (tmp_path / "layer" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "layer" / name).write_text(text)
    (tmp_path / "layer/x/src/docs").symlink_to("/x/README")
    (tmp_path / "layer/x/src/data").symlink_to("..")
    (tmp_path / "layer/x/src/old.egg-info").write_text("Name: old\n")
    (tmp_path / f"layer/{site}/odd.pth").mkdir()
    (tmp_path / f"layer/{site}/weights.pth").symlink_to("/nowhere")
    load("registered").write(tmp_path / "out", tmp_path / "layer", "/x")
    found = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*")}
    names = {"x/src/docs", "x/src/data", "x/src/old.egg-info"}
    assert {name for name in found if (tmp_path / "out" / name).is_file()} == {*files, *names}
    assert {name for name in found if name.startswith("x")} == {"x", "x/src", "x/src/x", *names}
    # A link can be copied onto a file, not onto a folder.
    assert not any((tmp_path / "out" / name).is_symlink() for name in names)
    assert (tmp_path / "out/x/src/old.egg-info").read_text() == "Name: old\n"
    assert (tmp_path / "out/usr/bin/x").read_text() == "run\n"


def test_what_asks_for_nothing_of_a_source_to_come_is_not_imported_again(
    check: SimpleNamespace, place: Path, ahead: Ahead
) -> None:
    done = ahead(list(MODULES), "later")
    assert sorted(done["imports"]) == ["finds", "plain"]
    assert sorted(done["left"]) == ["asks", "exists", "linked", "lists", "loads", "needs", "path", "reads"]
    comes(place)
    now = check.circumstances(sys.executable, str(place), [])
    assert check.imported_ahead(check.Tree(), done, {**now, "python": done["circumstances"]["python"]}, {}) == {
        "finds",
        "plain",
    }


def test_what_asked_for_a_source_is_imported_once_it_is_there(place: Path, ahead: Ahead) -> None:
    before = ahead(["plain", "needs", "fails"], "later")
    comes(place)
    after = ahead(["asks"], before=before)
    assert (sorted(after["imports"]), after["left"]) == (["asks", "needs", "plain"], [])
    # It is what was found before the source came, and says so.
    assert after["imports"]["plain"]["absent"] == [str(place / "later")]
    assert after["imports"]["needs"]["absent"] == []


def test_a_source_that_brings_more_than_was_said_makes_its_names_be_asked_again(
    check: SimpleNamespace, place: Path, ahead: Ahead
) -> None:
    (place / "lib/plain.py").write_text("try:\n    import more\nexcept ImportError:\n    pass\n")
    done = ahead(["plain"], "later")
    assert list(done["imports"]) == ["plain"]
    comes(place)
    (place / "later/more.py").write_text("")
    assert check.imported_ahead(check.Tree(), done, done["circumstances"], {}) == set()


def test_a_source_that_is_not_on_the_path_brings_its_module_and_whatever_lies_near_its_top(
    check: SimpleNamespace, place: Path, ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that an importer of its own finds, which some build backends register: its module's name is told."""
    monkeypatch.setenv("PYTHONPATH", f"{place}/lib")
    for name in ("deep", "far"):
        (place / f"lib/{name}.py").write_text(f"try:\n    import {name}er\nexcept ImportError:\n    pass\n")
    done = ahead(["plain", "asks", "deep", "far"], "other")
    assert sorted(done["imports"]) == ["asks", "deep", "far", "plain"]
    (place / "other/src/deeper").mkdir(parents=True)
    (place / "other/one/two/farer").mkdir(parents=True)
    now = done["circumstances"]
    assert check.imported_ahead(check.Tree(), done, now, {}) == {"asks", "far", "plain"}
    sources = [{"path": str(place / "other"), "module": "farer.x"}]
    assert check.imported_ahead(check.Tree(), done, now, {"sources": sources}) == {"asks", "plain"}


def test_while_the_loader_looks_into_a_checkout_to_come_nothing_is_known(
    place: Path, ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/usr/lib:{place}/later/lib")
    before = ahead(["plain"], "later")
    assert (before["imports"], before["left"]) == ({}, ["plain"])
    comes(place)
    assert list(ahead([], before=before)["imports"]) == ["plain"]


def test_what_python_starts_with_counts_as_asked_for(place: Path, ahead: Ahead) -> None:
    (place / "later/sitecustomize.py").touch()
    assert ahead(["plain"], "later")["left"] == ["plain"]


@pytest.mark.parametrize("change", ["python", "path", "environment"])
def test_in_other_circumstances_nothing_is_known(
    check: SimpleNamespace, place: Path, ahead: Ahead, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = ahead(["plain"], "later")
    now = {**done["circumstances"], change: type(done["circumstances"][change])()}
    assert check.imported_ahead(check.Tree(), done, now, {}) == set()
    assert check.imported_ahead(check.Tree(), {**done, "circumstances": now}, now, {}) == (
        set() if change == "path" else {"plain"}
    )
    monkeypatch.setenv("MORE", "1")
    assert sorted(ahead(["asks"], before={**done, "left": ["plain"]})["imports"]) == ["asks", "plain"]


def test_variables_that_every_process_has_of_its_own_are_no_circumstances(
    check: SimpleNamespace, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = check.circumstances(sys.executable, str(place), [])
    monkeypatch.setenv("HOSTNAME", "other")
    monkeypatch.setenv("SHLVL", "7")
    # The engine gives a proxy in both forms.
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example.invalid")
    monkeypatch.setenv("http_proxy", "http://proxy.example.invalid")
    assert check.circumstances(sys.executable, str(place), []) == before


def test_the_check_takes_what_was_imported_ahead_and_says_so(
    check: SimpleNamespace, place: Path, ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    ends = {"exit": 1, "signal": "", "timed_out": False, "stderr": "x"}

    def imports(_python: str, names: list[str], *_: Any) -> dict[str, Any]:
        asked.extend(names)
        return dict.fromkeys(names, ends)

    done = ahead(["plain", "asks"], "later")
    comes(place)
    gather = sys.modules["ascend_images.inside.facts.gather"]
    monkeypatch.setattr(gather, "imports", imports)
    monkeypatch.setattr(gather, "circumstances", lambda *_: done["circumstances"])
    monkeypatch.setattr(gather, "distributions", lambda *_: ([], []))
    facts = gather.gather(check.Tree(), {"checks": ["asks", "plain"]}, bytecode="", ahead=done)  # type: ignore[attr-defined]
    assert asked == ["asks"]
    assert facts["imports"] == {"asks": ends, "plain": check.IMPORTED}
    assert facts["imported_ahead"] == ["plain"]


# --- the command line


def test_the_program_writes_what_it_imported_and_reads_it_again(
    check: SimpleNamespace, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two, later = (str(place / name) for name in ("one.json", "two.json", "later"))
    assert check.main(["--absent", later, "--import-ahead", one, "plain", "needs"]) == 0
    assert capsys.readouterr().out == "imported: plain\nasked for a source that comes later: needs\n"
    comes(place)
    assert check.main(["--imported-ahead", one, "--import-ahead", two]) == 0
    assert capsys.readouterr().out == "imported: plain needs\n"
    assert json.loads(Path(two).read_text())["left"] == []


def test_bytecode_is_kept_where_it_was_named(
    check: SimpleNamespace, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "lib/big").mkdir()
    (place / "lib/big/__init__.py").write_text("")
    kept = place / "kept/bytecode"
    assert check.main(["--bytecode", str(kept), "--import-ahead", str(place / "one.json"), "big"]) == 0
    assert [path.name.partition(".")[0] for path in kept.rglob("big/*.pyc")] == ["__init__"]
    assert not list((place / "lib").rglob("__pycache__"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--imported-ahead", "nowhere"], "nowhere cannot be read: "),
        (["--imported-ahead", "{file}"], "{file} is not what --import-ahead writes"),
        (["--absent", "/x"], "--absent says what is not there for --import-ahead"),
        (["--root", "{root}", "--import-ahead", "x", "y"], "an unpacked image imports nothing: leave out --root, "),
        (["--bytecode", "{file}/x", "--import-ahead", "x"], "--bytecode {file}/x cannot be made: "),
        (["--import-ahead", "/proc/nowhere/x"], "/proc/nowhere/x cannot be written: "),
    ],
)
def test_misuse_is_said_and_nothing_is_imported(
    check: SimpleNamespace, tmp_path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text('{"circumstances": {}, "imports": []}')
    named = {"file": file, "root": tmp_path}
    assert check.main([word.format(**named) for word in words]) == 2
    assert capsys.readouterr().err.startswith(f"check.py: {said.format(**named)}")
