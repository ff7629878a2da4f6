"""The two READMEs say the same, and what the documents name is there."""

import re
from pathlib import Path

import pytest

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
