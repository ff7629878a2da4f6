"""The two scripts of the README say what they do, and refuse what they do not know before they do anything."""

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.subprocess

ROOT = Path(__file__).parents[2]
SCRIPTS = ("quickstart.sh", "test.sh")


def run(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", str(ROOT / "scripts" / script), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_says_what_is_done_how_long_it_takes_and_how_it_ends(script: str, word: str) -> None:
    done = run(script, word)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: scripts/{script} ")
    assert "minutes" in done.stdout
    assert "Exit codes" in done.stdout


@pytest.mark.parametrize(
    ("script", "words"),
    [("quickstart.sh", ["a3"]), ("quickstart.sh", ["--variant", "a3"]), ("test.sh", ["tests"]), ("test.sh", ["help"])],
)
def test_a_word_that_is_not_known_is_usage_and_2(script: str, words: list[str]) -> None:
    done = run(script, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"usage: scripts/{script} ")


def test_the_quickstart_ends_with_how_to_go_on() -> None:
    last = (ROOT / "scripts" / "quickstart.sh").read_text().splitlines()[-1]
    assert ". .venv/bin/activate" in last
