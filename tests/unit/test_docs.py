"""The two READMEs say the same, what the documents name is there, and what the README types does what it says."""

import json
import re
import shlex
import shutil
import subprocess
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from invoke.parser import Parser
from requests.utils import DEFAULT_CA_BUNDLE_PATH

import tasks
from ascend_images import locking
from ascend_images.errors import AscendImagesError
from ascend_images.selection import Selection

ROOT = Path(__file__).parents[2]
ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh.md").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / "README.md", ROOT / "README.zh.md", *sorted((ROOT / "docs").glob("*.md"))]


def levels(text: str) -> list[int]:
    """Return the level of each heading."""
    return [len(match[1]) for match in re.finditer(r"^(#+) ", outside_code(text), re.MULTILINE)]


def outside_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[str]:
    """Return each command, of code blocks and of tables, without the comment behind it."""
    lines = [
        line.split("#")[0].strip()
        for block in re.findall(r"^```\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        for line in block.splitlines()
    ]
    return [line for line in lines if line] + re.findall(r"`((?:invoke|docker|nox|scripts/)[^`]*)`", outside_code(text))


def test_both_readmes_have_the_same_headings() -> None:
    assert levels(ENGLISH) == levels(CHINESE)


def test_both_readmes_have_the_same_commands_in_the_same_order() -> None:
    assert commands(ENGLISH) == commands(CHINESE)
    assert len(commands(ENGLISH)) > 15


def test_the_first_two_commands_are_to_try_it_and_to_test_it() -> None:
    assert commands(ENGLISH)[:2] == ["scripts/quickstart.sh", "scripts/test.sh"]


@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["en", "zh"])
def test_a_readme_says_first_what_has_never_run_on_an_npu(text: str) -> None:
    assert "NPU" in text.split("## ", maxsplit=1)[0].split("> **")[1]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files_that_are_there(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_scripts_and_files_that_are_named_are_there(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for name in re.findall(r"(?:scripts|dockerfiles|tests|docs)/[A-Za-z0-9_./-]+\.(?:sh|py|md|Dockerfile|j2)", text):
        assert (ROOT / name).exists(), name


# --- what is typed

CONTEXT = SimpleNamespace(config=SimpleNamespace(run=SimpleNamespace(dry=False)))
#: A verb alone is what the text calls it.
VERBS = ("invoke build", "invoke lock")
LINES = list(dict.fromkeys(x for x in commands(ENGLISH) if x.startswith("invoke ") and x not in VERBS))
#: What looks at an engine, a host or a network is read here and done in tests of its own.
ELSEWHERE = (
    *("run", "doctor", "outdated", "bump", "diff", "freeze", "reproduce"),
    *("registry", "manifest", "joined", "promote", "sbom", "signature", "prune"),
)
#: What each verb is asked for instead, where it would write or build.
OFFLINE: dict[str, dict[str, Any]] = {"build": {"dry_run": True}, "render": {"check": True}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project somewhere else, with what the README's lines name beside it."""
    project = tmp_path / "project"
    shutil.copytree(ROOT / "dockerfiles" / "rendered", project / "dockerfiles" / "rendered")
    shutil.copytree(ROOT / "locks", project / "locks")
    for name in ("versions.toml", "versions.lock"):
        shutil.copy(ROOT / name, project)
    shutil.copy(DEFAULT_CA_BUNDLE_PATH, project / "corp.pem")
    (tmp_path / "wheels").mkdir()
    zipfile.ZipFile(tmp_path / "wheels" / "six-1.17.0-py2.py3-none-any.whl", "w").close()
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "pyproject.toml").write_text('[project]\nname = "vllm"\n')
    git = ["git", "-C", str(tmp_path / "vllm"), "-c", "user.name=t", "-c", "user.email=t@t"]
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "x"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.chdir(project)
    monkeypatch.setattr(tasks, "ROOT", project)
    # Making them takes an engine.
    monkeypatch.setattr(tasks, "stand_ins", lambda *_: {"cann": "docker-image://stand-in"})
    return project


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> list[Selection]:
    """What `invoke lock` was asked for, in place of asking indexes."""
    asked: list[Selection] = []

    def lock(selection: Selection, *_: object, ca_bundle: Path | None = None, **__: object) -> list[str]:
        assert ca_bundle is None or ca_bundle.is_file()
        asked.append(selection)
        return []

    monkeypatch.setattr(locking, "lock", lock)
    monkeypatch.setattr(locking, "explain", lock)
    return asked


def typed(line: str) -> None:
    """Do what a line says, or of what needs a network or an engine, the part that does not."""
    words = [word.replace("NAME", "a2") for word in shlex.split(line)[1:]]
    words = words[: words.index("--")] if "--" in words else words
    for context in Parser(contexts=tasks.namespace.to_contexts()).parse_argv(words):
        options = {name.replace("-", "_"): argument.value for name, argument in context.args.items()}
        if context.name in ELSEWHERE:
            continue
        # A flag that was not given is not passed on, as invoke does it.
        given = {name: value for name, value in options.items() if value is not None}
        tasks.namespace.tasks[str(context.name)].body(CONTEXT, **{**given, **OFFLINE.get(str(context.name), {})})


@pytest.mark.subprocess
@pytest.mark.usefixtures("folder", "locked")
@pytest.mark.parametrize("line", LINES)
def test_every_line_of_the_readme_can_be_typed(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    typed(line)
    if line.startswith("invoke build"):
        assert json.loads(capsys.readouterr().out)["target"]


@pytest.mark.subprocess
@pytest.mark.usefixtures("folder")
def test_changed_pins_are_locked_by_the_words_that_build_them(locked: list[Selection]) -> None:
    changed = [line for line in LINES if "--set" in line and "--push" not in line]
    (lock,) = [line for line in changed if line.startswith("invoke lock") and "evalscope" in line]
    (build,) = [line for line in changed if line.startswith("invoke build")]
    assert lock.replace("invoke lock", "invoke build") == build
    typed(lock)
    assert locked[0].changed


@pytest.mark.parametrize(("text", "head"), [(ENGLISH, "Exit codes"), (CHINESE, "退出码")], ids=["en", "zh"])
def test_every_exit_code_is_told(text: str, head: str) -> None:
    told = text[text.rindex(head) :].partition("\n\n")[0]
    codes = sorted(kind.exit_code for kind in AscendImagesError.__subclasses__())
    assert [int(code) for code in re.findall(r"\b(\d) ", told)] == codes
