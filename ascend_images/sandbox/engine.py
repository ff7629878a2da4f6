"""The sandbox's Docker Engine: started where there is none, and the address at which RUN steps reach this machine."""

import ipaddress
import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ascend_images.errors import MissingTool
from ascend_images.images.engine import Engine, Run, docker_command, require_engine, run_command

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "engine.sh"


def state_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for what outlives a command: engine data, the registry, their logs.

    It is $ASCEND_IMAGES_STATE, else ascend-images under $XDG_STATE_HOME, else under ~/.local/state; the same rule as in
    scripts/engine.sh. Raises MissingTool where none of these is known.
    """
    if named := environment.get("ASCEND_IMAGES_STATE"):
        return Path(named).absolute()
    state, home = environment.get("XDG_STATE_HOME"), environment.get("HOME")
    if not state and not home:
        raise MissingTool(
            "this user has no home folder: engine data and stand-ins can be kept nowhere",
            wanted="HOME, or a folder for them",
            do="ASCEND_IMAGES_STATE=DIR invoke build …",
        )
    return (Path(state) if state else Path(home or "") / ".local" / "state").absolute() / "ascend-images"


def start_engine(*, call: Callable[[Sequence[str]], int] = subprocess.call, run: Run = run_command) -> Engine:
    """Return the engine of this machine, after starting one if none answers.

    An engine that answers is left alone. Raises MissingTool when none can be started here or the one that answers is
    too old; scripts/engine.sh has then said on standard error what to install.
    """
    code = call([str(SCRIPT), "start"])
    if code != 0:
        raise MissingTool(
            f"no Docker Engine to build with (scripts/engine.sh start ended with {code}; it says why above)",
            wanted="a Docker Engine, or Debian or Ubuntu as root to start one",
            do="scripts/engine.sh status",
        )
    return require_engine(run=run)


def stop_engine(*, call: Callable[[Sequence[str]], int] = subprocess.call) -> None:
    """Stop the engine that `start_engine` started, if it runs; another engine is never touched."""
    code = call([str(SCRIPT), "stop"])
    if code != 0:
        raise MissingTool(f"scripts/engine.sh stop ended with {code}", do="scripts/engine.sh status")


def bridge_gateway(*, context: str = "", run: Run = run_command) -> ipaddress.IPv4Address:
    """Return this machine's address on the engine's default bridge.

    RUN steps sit on that bridge, where this machine's loopback is not: a server they are to reach listens here. Raises
    MissingTool when the engine has no bridge with an IPv4 network.
    """
    answer = run([*docker_command(context), "network", "inspect", "bridge", "--format", "{{json .IPAM.Config}}"])
    try:
        configs = json.loads(answer.out) if answer.code == 0 else None
    except ValueError:
        configs = None
    for config in configs or []:
        network = ipaddress.ip_network(config["Subnet"], strict=False)
        if isinstance(network, ipaddress.IPv4Network):
            # Docker leaves the gateway out until the first container ran; it is then the network's first address.
            return ipaddress.IPv4Address(config.get("Gateway") or network[1])
    raise MissingTool(
        f"the engine has no default bridge with an IPv4 network: {answer.err.strip() or answer.out.strip()}",
        wanted="the network named bridge, as a Docker Engine makes it by itself",
        do="docker network inspect bridge",
    )
