"""The buildx builder that builds: the engine's own or another one, and the platforms it builds for."""

import re
from dataclasses import dataclass

from ascend_images.errors import MissingTool
from ascend_images.images.engine import Run, run_command
from ascend_images.pins.platform import Arch

#: What the docker context is called that a client without contexts talks to. buildx calls the builder of an engine by
#: the engine's context, and refuses that of another context than the one in use.
DEFAULT_CONTEXT = "default"
#: The driver of such a builder: what it builds is the engine's without further ado.
OWN_DRIVER = "docker"

#: What buildx says of a node that is up.
_RUNNING = "running"

_FIELD = re.compile(r"^(?P<key>Driver|Platforms|Status|Error):[ \t]*(?P<value>\S.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Builder:
    """A builder: its name for `--builder`, its driver, and what its nodes build for.

    `natives` holds each running node's own platform, `platforms` those and the emulated ones; both are empty while no
    node runs.
    """

    name: str
    driver: str
    natives: frozenset[str] = frozenset()
    platforms: frozenset[str] = frozenset()
    fault: str = ""
    """Why none of it can build: what buildx says of a machine that does not answer."""
    runs: bool = True
    """Whether a node of it runs; one that does not may begin to when it is needed."""

    @property
    def is_own(self) -> bool:
        """Whether it is the engine's own, so that images and disk are the engine's."""
        return self.driver == OWN_DRIVER

    def emulates(self, arch: Arch) -> bool:
        """Say whether it would build for `arch` under emulation, as far as it is known."""
        return bool(self.natives) and arch.platform not in self.natives

    def can_build(self, arch: Arch) -> bool:
        """Say whether it can build for `arch` at all, as far as it is known."""
        return not self.platforms or arch.platform in self.platforms


def find_builder(name: str = "", *, context: str = DEFAULT_CONTEXT, run: Run = run_command) -> Builder:
    """Return the builder called `name`, or the own one of the engine behind `context`, the docker context in use.

    Raises MissingTool when there is none of that name.
    """
    asked = name or context
    answer = run(["docker", "buildx", "inspect", asked])
    if answer.code != 0:
        said = answer.err.strip().splitlines()[-1:] or [f"exit code {answer.code}"]
        raise MissingTool(
            f'--builder "{asked}": {said[0].removeprefix("ERROR: ")}',
            wanted="a builder or a docker context that `docker buildx ls` lists",
            do="docker buildx ls",
        )
    fields = [(match["key"], match["value"]) for match in _FIELD.finditer(answer.out)]
    faults = [value for key, value in fields if key == "Error"]
    states = [value for key, value in fields if key == "Status"]
    driver = next((value for key, value in fields if key == "Driver"), "")
    # A node names its own platform first; one that a person chose for it is marked with a star.
    nodes = [[word.strip().rstrip("*") for word in value.split(",")] for key, value in fields if key == "Platforms"]
    return Builder(
        name=asked,
        driver=driver,
        natives=frozenset(node[0] for node in nodes),
        platforms=frozenset(platform for node in nodes for platform in node),
        fault=faults[0] if faults and not states else "",
        runs=_RUNNING in states or not states,
    )
