"""Programs that are asked to end and not killed, so that they can remove what they hold: git removes its locks."""

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from ascend_images.errors import MissingTool

#: Seconds that a program gets to end after it was asked to; git takes milliseconds.
_GRACE = 30


def run(
    command: Sequence[str],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    asked: str = "",
    limit: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with `asked` as its input, and return the text that it wrote; raises as `run_raw`."""
    done = run_raw(command, folder=folder, environment=environment, asked=asked, limit=limit)
    out, err = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(command, done.returncode, out, err)


def run_raw(
    command: Sequence[str],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    asked: str = "",
    limit: float | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end, with `asked` as its input, and return the very bytes that it wrote.

    It gets SIGTERM and is waited for when it takes longer than `limit` seconds (subprocess.TimeoutExpired is raised),
    and when this process is interrupted. What it leaves in the background is not waited for. Raises MissingTool where
    there is no such program.
    """
    # Files and no pipes: those stay open as long as any process has them that a hook of git's left behind.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(asked.encode())
        given.seek(0)
        try:
            process = subprocess.Popen(command, cwd=folder, env=environment, stdin=given, stdout=out, stderr=err)
        except FileNotFoundError:
            raise MissingTool(f"{command[0]} is not installed", do=f"install {command[0]}") from None
        try:
            code = process.wait(limit)
        finally:
            end(process)
        return subprocess.CompletedProcess(command, code, _content(out), _content(err))


def end(process: "subprocess.Popen[bytes]", grace: float = _GRACE) -> None:
    """Ask a program to end and wait for it, so many seconds; then it is killed."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(grace)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _content(stream: IO[bytes]) -> bytes:
    stream.seek(0)
    return stream.read()
