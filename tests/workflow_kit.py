"""The workflows in .github as data, their expressions evaluated, and the commands that their steps type."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".github" / "workflows"
NAMES = ("ci.yml", "images.yml", "update.yml")

_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<word>[A-Za-z_][A-Za-z0-9_.-]*)|(?P<sign>==|!=|&&|\|\||[!(),]))"
)


def load(name: str) -> dict[str, Any]:
    """Return a workflow as GitHub reads it: YAML 1.2, where `on` is a word."""
    return dict(YAML(typ="safe", pure=True).load((FOLDER / name).read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Step:
    """One step of a job, with the job's name and every variable that it is given."""

    workflow: str
    job: str
    number: int
    data: Mapping[str, Any]
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def commands(self) -> list[str]:
        return [line.strip() for line in str(self.data.get("run", "")).splitlines() if line.strip()]

    def __str__(self) -> str:
        return f"{self.workflow} {self.job} {self.number}"


def steps(name: str) -> Iterator[Step]:
    workflow = load(name)
    for job, data in workflow["jobs"].items():
        for number, step in enumerate(data["steps"]):
            env = {**workflow.get("env", {}), **data.get("env", {}), **step.get("env", {})}
            yield Step(name, job, number, step, env)


ALL = [step for name in NAMES for step in steps(name)]


# --- what is typed


def words_of(command: str) -> list[str]:
    """Return the words of a command with every optional part there, and each variable as one word of its name."""
    command = re.sub(r"^[a-z_]+=\$\((.*)\)$", r"\1", command)  # name=$(command)
    command = re.sub(r"\$\{[A-Z_]+:\+(.*?)\}", r"\1", command)  # ${NAME:+only where it is set}
    return [re.sub(r"^\$", "", word) for word in shlex.split(command)]


def typed_by(command: str) -> list[str]:
    """Return the words that a command comes to, `scripts/repeat_flag.sh` looked through."""
    words = words_of(command)
    if words[0] == "scripts/repeat_flag.sh":
        flag, text, *rest = words[1:]
        return [*rest, flag, text]
    return words


# --- expressions


def evaluate(text: str, context: Mapping[str, Any]) -> Any:
    """Return what an expression of GitHub's gives: names, texts, ==, !=, &&, ||, !, fromJSON, always and cancelled.

    `cancelled` in the context says whether the run was; GitHub has no such name.
    """
    parser = _Parser(text, context)
    value = parser.either()
    assert parser.rest.strip() == "", f"not understood: {parser.rest}"
    return value


def filled(text: Any, context: Mapping[str, Any]) -> Any:
    """Return a value of a workflow with its expressions evaluated; one that is an expression whole keeps its type."""
    if not isinstance(text, str):
        return text
    whole = _EXPRESSION.fullmatch(text.strip())
    if whole:
        return evaluate(whole[1], context)
    return _EXPRESSION.sub(lambda match: _shown(evaluate(match[1], context)), text)


def holds(condition: Any, context: Mapping[str, Any]) -> bool:
    """Say whether an `if` is met; one that is not there is."""
    if condition is None:
        return True
    text = str(condition).strip()
    found = _EXPRESSION.fullmatch(text)
    return bool(evaluate(found[1] if found else text, context))


def _shown(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


class _Parser:
    def __init__(self, text: str, context: Mapping[str, Any]) -> None:
        self.rest, self.context = text, context

    def either(self) -> Any:
        value = self.both()
        while self._took("||"):
            other = self.both()
            value = value or other
        return value

    def both(self) -> Any:
        value = self.equal()
        while self._took("&&"):
            other = self.equal()
            value = value and other
        return value

    def equal(self) -> Any:
        value = self.one()
        for sign in ("==", "!="):
            if self._took(sign):
                # What is not there equals an empty text (docs.github.com, "Evaluate expressions").
                same = _shown(value) == _shown(self.one())
                return same if sign == "==" else not same
        return value

    def one(self) -> Any:
        if self._took("!"):
            return not self.one()
        if self._took("("):
            value = self.either()
            assert self._took(")")
            return value
        match = _TOKEN.match(self.rest)
        assert match, f"not understood: {self.rest}"
        self.rest = self.rest[match.end() :]
        if match["text"]:
            return match["text"][1:-1].replace("''", "'")
        assert match["word"], f"not understood: {match[0]}"
        if self._took("("):
            return self._called(match["word"])
        value: Any = self.context
        for part in match["word"].split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    def _called(self, name: str) -> Any:
        if name in ("always", "cancelled"):
            assert self._took(")")
            return name == "always" or bool(self.context.get("cancelled", False))
        assert name == "fromJSON", f"not understood: {name}"
        value = json.loads(self.either())
        assert self._took(")")
        return value

    def _took(self, sign: str) -> bool:
        match = _TOKEN.match(self.rest)
        if match is None or match["sign"] != sign:
            return False
        self.rest = self.rest[match.end() :]
        return True
