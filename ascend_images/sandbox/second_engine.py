"""A second Docker Engine for the time of one command: empty, with its own data, socket and bridge, gone afterwards.

The machine's own engine is not touched: neither its bridge, nor its rules for packets (an engine that is told to keep
none leaves those of others alone; the few that this one needs are made and removed here).
"""

import ipaddress
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ascend_images.errors import MissingTool
from ascend_images.gentle import end
from ascend_images.sandbox.engine import state_dir

_PROGRAMS = ("dockerd", "containerd", "runc", "iptables", "ip")
_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_LOG_LINES = 15
# Private networks that a bridge may have; the first that nothing on this machine overlaps is taken.
_NETWORKS = tuple(ipaddress.IPv4Network(f"10.{number}.86.0/24") for number in range(213, 245))
# Debian keeps daemons and iptables in sbin, which a user's PATH may lack.
_PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"

Call = Callable[[Sequence[str]], str]


def call(command: Sequence[str]) -> str:
    """Run a program and return what it prints; raises MissingTool where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": _PATH})
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise _impossible(f"`{' '.join(command)}`: {said[0]}")
    return done.stdout


@contextmanager
def second_engine() -> Iterator[str]:
    """Yield the address of an engine that knows nothing (`unix://…`), removed at the end with its data and bridge.

    Raises MissingTool where none can be started: this takes root and the programs of a Docker Engine, on Linux.
    """
    _require_programs()
    with ExitStack() as stack:
        data = stack.enter_context(_folder(state_dir()))
        # Sockets lie here: the path of a Unix socket may have 107 bytes only.
        sockets = stack.enter_context(_folder(Path("/run")))
        bridge = stack.enter_context(_bridge(f"aisecond{os.getpid() % 1_000_000}"))
        address = f"{sockets}/containerd.sock"
        (data / "containerd.toml").write_text(containerd_config(data, sockets, address), encoding="utf-8")
        (data / "daemon.json").write_text('{"features": {"containerd-snapshotter": true}}\n', encoding="utf-8")
        containerd = ["containerd", "--config", f"{data}/containerd.toml"]
        stack.enter_context(_process(containerd, data / "containerd.log", Path(address)))
        socket = sockets / "docker.sock"
        stack.enter_context(_process(dockerd_command(data, sockets, bridge), data / "dockerd.log", socket))
        yield f"unix://{socket}"


def containerd_config(data: Path, sockets: Path, address: str) -> str:
    """Return the configuration of a containerd of its own: one that runs already belongs to somebody."""
    return (
        f"version = 2\nroot = {json.dumps(f'{data}/containerd')}\nstate = {json.dumps(f'{sockets}/containerd')}\n"
        'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
        f"[grpc]\naddress = {json.dumps(address)}\n"
    )


def dockerd_command(data: Path, sockets: Path, bridge: str) -> list[str]:
    """Return how the engine is started. Never without a bridge: that would remove the one of the machine's engine."""
    return [
        *("dockerd", "--config-file", f"{data}/daemon.json", "--host", f"unix://{sockets}/docker.sock"),
        *("--containerd", f"{sockets}/containerd.sock", "--exec-root", f"{sockets}/docker"),
        *("--pidfile", f"{sockets}/dockerd.pid", "--data-root", f"{data}/data"),
        *("--bridge", bridge, "--iptables=false", "--ip6tables=false"),
    ]


def free_network(addresses: str) -> ipaddress.IPv4Network:
    """Return a network that none of a machine's addresses or routes is in, given `ip -json` of both, one a line.

    Raises MissingTool where all are taken.
    """
    taken = []
    for line in addresses.splitlines():
        for entry in json.loads(line or "[]"):
            words = [f"{one['local']}/{one['prefixlen']}" for one in entry.get("addr_info", ()) if "local" in one]
            for word in [*words, *([entry["dst"]] if "dst" in entry else [])]:
                with suppress(ValueError):
                    taken.append(ipaddress.IPv4Network(word, strict=False))
    for network in _NETWORKS:
        if not any(network.overlaps(one) for one in taken if one.prefixlen):
            return network
    raise _impossible(f"all of {_NETWORKS[0]} to {_NETWORKS[-1]} are in use on this machine")


def forwarding(bridge: str, network: ipaddress.IPv4Network) -> list[list[str]]:
    """Return the rules by which containers on a bridge reach the network, as words for iptables behind `-A` or `-D`."""
    comment = ["-m", "comment", "--comment", f"ascend-images {bridge}"]
    established = ["-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED"]
    return [
        ["-t", "nat", "POSTROUTING", "-s", str(network), "!", "-o", bridge, *comment, "-j", "MASQUERADE"],
        ["-t", "filter", "FORWARD", "-i", bridge, *comment, "-j", "ACCEPT"],
        ["-t", "filter", "FORWARD", "-o", bridge, *established, *comment, "-j", "ACCEPT"],
    ]


def rule(action: str, words: Sequence[str]) -> list[str]:
    """Return the command that makes (`-A`, `-I`) or removes (`-D`) a rule."""
    table, chain, rest = words[:2], words[2], words[3:]
    return ["iptables", "--wait", *table, action, chain, *rest]


@contextmanager
def _bridge(name: str) -> Iterator[str]:
    """Yield a new bridge whose containers reach the network; bridge and rules are removed at the end."""
    network = free_network(f"{call(['ip', '-json', '-4', 'address'])}\n{call(['ip', '-json', '-4', 'route'])}")
    with ExitStack() as stack:
        call(["ip", "link", "add", "name", name, "type", "bridge"])
        stack.callback(_quietly, ["ip", "link", "delete", name])
        call(["ip", "address", "add", f"{network[1]}/{network.prefixlen}", "dev", name])
        call(["ip", "link", "set", name, "up"])
        for words in forwarding(name, network):
            # In front of the rules of the machine's engine, which end in dropping what is not its own.
            call(rule("-A" if "nat" in words else "-I", words))
            stack.callback(_quietly, rule("-D", words))
        yield name


@contextmanager
def _folder(where: Path) -> Iterator[Path]:
    """Yield a new folder that is removed at the end, with whatever is still mounted below it."""
    try:
        where.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="ascend-images-second-", dir=where))
    except OSError as error:
        raise _impossible(f"no folder can be made in {where}: {error.strerror}") from None
    try:
        yield folder
    finally:
        for place in mounted_below(folder, Path("/proc/self/mounts").read_text(encoding="utf-8")):
            _quietly(["umount", "--lazy", place])
        shutil.rmtree(folder, ignore_errors=True)


def mounted_below(folder: Path, mounts: str) -> list[str]:
    """Return what is mounted at or below a folder by the text of /proc/mounts, the deepest first."""
    places = [line.split()[1].encode().decode("unicode_escape") for line in mounts.splitlines() if line.count(" ") > 1]
    return sorted((place for place in places if Path(place).is_relative_to(folder)), key=len, reverse=True)


@contextmanager
def _process(command: Sequence[str], log: Path, socket: Path) -> Iterator[None]:
    """Run a daemon from when its socket answers until the end; raises MissingTool where it does not come up."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": _PATH},
            # Ctrl-C is for the command, which ends the daemons when what they run has ended.
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not _answers(command[0], socket):
            if process.poll() is not None or time.monotonic() > deadline:
                last = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:])
                raise _impossible(f"a second {command[0]} did not come up. Its last lines:\n{last}")
            time.sleep(0.1)
        yield
    finally:
        end(process, _STOP_SECONDS)


def _answers(program: str, socket: Path) -> bool:
    if not socket.is_socket():
        return False
    if program != "dockerd":
        return True
    command = ["docker", "--host", f"unix://{socket}", "version", "--format", "{{.Server.Version}}"]
    return subprocess.run(command, capture_output=True).returncode == 0


def _require_programs() -> None:
    if os.geteuid() != 0:
        raise _impossible("this user is not root")
    missing = [program for program in _PROGRAMS if not shutil.which(program, path=_PATH)]
    if missing:
        raise _impossible(f"this machine has no {', '.join(missing)}")


def _quietly(command: Sequence[str]) -> None:
    with suppress(MissingTool):
        call(command)


def _impossible(why: str) -> MissingTool:
    return MissingTool(
        f"no second engine can be started here: {why}",
        wanted="root, and the programs of a Docker Engine: " + ", ".join(_PROGRAMS),
        do="name another builder instead: invoke reproduce --variant a2 --builder NAME, or --one-engine",
    )
