"""A registry on loopback: Debian's docker-registry as a process of its own, found again and reused.

Nothing is installed: where the program is not on PATH its package is fetched and unpacked in the state folder, so no
service starts and no root is needed. The registry is known by its configuration file: a process that serves that file
is ours, any other is not.
"""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from ascend_images.errors import MissingTool
from ascend_images.files import write_atomic
from ascend_images.sandbox.engine import state_dir
from ascend_images.sandbox.store import locked

_PROGRAM = "docker-registry"
# Docker asks a registry on 127.0.0.0/8 without TLS, whatever its port. 5000 is left to other registries.
_HOST = "127.0.0.1"
_PORTS = range(5055, 5155)
_START_SECONDS = 20.0
_STOP_SECONDS = 10.0


class Registry:
    """The loopback registry whose data, port, configuration and log lie in one folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = (folder or state_dir() / "registry").resolve()
        self.config = self.folder / "config.yml"
        self.log = self.folder / "registry.log"

    @property
    def port(self) -> int | None:
        """The port it was last given, whether or not it runs now; None before the first start."""
        try:
            return int((self.folder / "port").read_text())
        except (FileNotFoundError, ValueError):
            return None

    @property
    def address(self) -> str:
        """`127.0.0.1:PORT`, the first part of an image name; raises MissingTool if the registry does not run."""
        port = self.port
        if port is None or self.pid() is None or not answers(port):
            raise MissingTool(
                f"the sandbox's registry does not run (its folder: {self.folder})", wanted="Registry.start()"
            )
        return f"{_HOST}:{port}"

    def pid(self, processes: Path = Path("/proc")) -> int | None:
        """Return the process that serves this registry's configuration, or None."""
        for entry in processes.iterdir():
            if entry.name.isdigit() and _arguments(entry)[-2:] == ["serve", str(self.config)]:
                return int(entry.name)
        return None

    def start(self) -> str:
        """Return its address, after starting it if it does not run; raises MissingTool when it cannot be."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder / "lock"):
            port = self.port
            if port is not None and self.pid() is not None and answers(port):
                return f"{_HOST}:{port}"
            self._stop()  # one that runs and does not answer
            program = find_program(self.folder)
            port = free_port(port)
            write_atomic(self.folder / "port", f"{port}\n")
            write_atomic(self.config, config_text(self.folder / "data", port))
            self._wait(self._spawn(program), port)
            return f"{_HOST}:{port}"

    def stop(self) -> bool:
        """Stop it if it runs; the images stay. Returns whether there was anything to stop."""
        if not self.folder.is_dir():
            return False
        with locked(self.folder / "lock"):
            return self._stop()

    def _spawn(self, program: Path) -> int:
        """Start the program in a session of its own, so that it outlives the command; return its process id."""
        log = (os.POSIX_SPAWN_OPEN, 1, str(self.log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), log, (os.POSIX_SPAWN_DUP2, 1, 2)]
        arguments = [str(program), "serve", str(self.config)]
        return os.posix_spawn(program, arguments, clean_environment(os.environ), file_actions=actions, setsid=True)

    def _wait(self, pid: int, port: int) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not answers(port):
            if _has_ended(pid) or time.monotonic() > deadline:
                self._stop()
                last = "\n".join(self.log.read_text(errors="replace").splitlines()[-10:]) if self.log.exists() else ""
                raise MissingTool(
                    f"the registry did not come up on {_HOST}:{port}. The last lines of {self.log}:\n{last}",
                    wanted="a registry on loopback",
                    do=f"see what those lines name, then try again (or remove {self.folder})",
                )
            time.sleep(0.05)

    def _stop(self) -> bool:
        pid = self.pid()
        if pid is None:
            return False
        deadline = time.monotonic() + _STOP_SECONDS
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
            while not _has_ended(pid):
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(0.05)
        return True


def find_program(folder: Path) -> Path:
    """Return the registry program: the one on PATH, else the package's, unpacked in `folder`.

    Raises MissingTool where there is neither the program nor apt, and when the package cannot be fetched.
    """
    if found := shutil.which(_PROGRAM):
        return Path(found)
    unpacked = folder / "package" / "usr" / "bin" / _PROGRAM
    if not unpacked.exists():
        _unpack_package(folder / "package")
    return unpacked


def config_text(data: Path, port: int) -> str:
    """Return the registry's configuration: files in `data`, loopback only, deleting allowed (pruning needs it)."""
    return (
        "version: 0.1\n"
        f"storage: {{filesystem: {{rootdirectory: {json.dumps(str(data))}}}, delete: {{enabled: true}}}}\n"
        f"http: {{addr: '{_HOST}:{port}'}}\n"
        "log: {level: warn, accesslog: {disabled: true}}\n"
    )


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without REGISTRY_*: the program lets those override its configuration file."""
    return {name: value for name, value in environment.items() if not name.startswith("REGISTRY_")}


def free_port(wished: int | None) -> int:
    """Return the wished port if it is free, so that names given to images stay right, else the first free one."""
    for port in ([wished] if wished else []) + list(_PORTS):
        with socket.socket() as probe:
            # As a server does it: a port whose old connections are still fading away counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((_HOST, port))
                return port
    raise MissingTool(
        f"no free port on {_HOST} between {_PORTS.start} and {_PORTS.stop - 1}",
        wanted="one for the sandbox's registry",
        do="ss -ltnp",
    )


def answers(port: int) -> bool:
    """Return whether a registry (and not something else) answers on a loopback port."""
    connection = http.client.HTTPConnection(_HOST, port, timeout=2)
    try:
        connection.request("GET", "/v2/")
        reply = connection.getresponse()
        return reply.status == http.HTTPStatus.OK and reply.getheader("Docker-Distribution-Api-Version", "").startswith(
            "registry/2"
        )
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _unpack_package(target: Path) -> None:
    """Fetch Debian's package by apt (its mirrors, its signatures) and unpack it at `target`, whole or not at all."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise MissingTool(
            f"no {_PROGRAM} on PATH, and no apt to get it by",
            wanted="the registry of the CNCF distribution project, 2.8 or newer",
            do=f"install it with this machine's package manager, so that `{_PROGRAM} --version` works",
        )
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        aside = Path(name)
        fetched = _call(["apt-get", "download", _PROGRAM], aside)
        if fetched.returncode != 0 and os.geteuid() == 0:
            _call(["apt-get", "update"], aside)  # a machine whose package lists were never read
            fetched = _call(["apt-get", "download", _PROGRAM], aside)
        packages = sorted(aside.glob("*.deb"))
        if fetched.returncode != 0 or not packages:
            raise MissingTool(
                f"the package {_PROGRAM} could not be fetched: {_last_line(fetched.stdout)}",
                wanted="a registry program",
                do=f"apt-get update && apt-get install {_PROGRAM}",
            )
        unpacked = _call(["dpkg-deb", "--extract", str(packages[0]), str(aside / "tree")], aside)
        if unpacked.returncode != 0:
            raise MissingTool(f"the package {_PROGRAM} could not be unpacked: {_last_line(unpacked.stdout)}")
        shutil.rmtree(target, ignore_errors=True)
        (aside / "tree").rename(target)


def _call(command: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


def _arguments(process: Path) -> list[str]:
    """Return a process's arguments; none for one that is gone, ended, or not ours to see."""
    try:
        return [part.decode(errors="replace") for part in (process / "cmdline").read_bytes().split(b"\0")[:-1]]
    except OSError:
        return []


def _has_ended(pid: int) -> bool:
    """Return whether a process has ended, taking the exit code of a child so that it does not stay as a zombie."""
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"
