"""Programs that the sandbox starts: what they said last is kept for the error."""

import os
import subprocess
from collections.abc import Mapping, Sequence

from ascend_images.errors import BuildFailed, MissingTool

_LAST_LINES = 15

Done = subprocess.CompletedProcess[str]


def call(
    command: Sequence[str], *, check: bool = True, environment: Mapping[str, str] | None = None, missing: str = ""
) -> Done:
    """Run a program and return what it gave, `environment` added to this process's.

    Raises BuildFailed with its last lines where it fails and `check` is set, MissingTool where it is not on PATH;
    `missing` is then the next thing to type.
    """
    whole = {**os.environ, **(environment or {})}
    try:
        done = subprocess.run(list(command), capture_output=True, text=True, errors="replace", check=False, env=whole)
    except FileNotFoundError:
        raise MissingTool(f"no {command[0]} command on PATH", wanted=f"the program {command[0]}", do=missing) from None
    if check and done.returncode != 0:
        said = last_lines(done.stdout + done.stderr)
        raise BuildFailed(f"`{' '.join(command[:3])}` ended with {done.returncode}:\n{said}")
    return done


def docker(arguments: Sequence[str], *, check: bool = True, environment: Mapping[str, str] | None = None) -> Done:
    """Run the docker client; raises as `call` does."""
    command = ["docker", *arguments]
    return call(command, check=check, environment=environment, missing="scripts/engine.sh start")


def last_lines(text: str, count: int = _LAST_LINES) -> str:
    """Return the last lines of an output, indented."""
    return "\n".join(f"  {line}" for line in text.splitlines()[-count:])
