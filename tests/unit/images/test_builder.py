"""Builders: what `docker buildx inspect` says of one."""

from collections.abc import Sequence

import pytest

from ascend_images.errors import MissingTool
from ascend_images.images.builder import find_builder
from ascend_images.images.engine import Answer
from ascend_images.pins.platform import Arch

# As buildx 0.13.1 prints it for an engine of its own, and for two nodes of which one was told its platform.
OWN = """Name:          default
Driver:        docker
Last Activity: 2026-11-30 04:16:51 +0000 UTC

Nodes:
Name:             default
Endpoint:         default
Status:           running
Platforms:        linux/amd64, linux/amd64/v2, linux/386, linux/arm64
Labels:
 org.mobyproject.buildkit.worker.network: host
"""
FARM = """Name:          farm
Driver:        remote

Nodes:
Name:      one
Endpoint:  tcp://one:1234
Status:    running
Platforms: linux/amd64*, linux/amd64/v2

Name:      two
Endpoint:  tcp://two:1234
Status:    running
Platforms: linux/arm64, linux/arm/v7
"""
STOPPED = "Name: farm\nDriver: docker-container\n\nNodes:\nName: one\nStatus: inactive\nPlatforms:\n"


def answering(out: str, code: int = 0, err: str = ""):
    asked: list[list[str]] = []

    def run(command: Sequence[str]) -> Answer:
        asked.append(list(command))
        return Answer(code, out, err)

    run.asked = asked  # type: ignore[attr-defined]
    return run


def test_the_engines_own_builder_is_asked_for_by_buildxs_name() -> None:
    run = answering(OWN)
    found = find_builder(run=run)
    assert run.asked == [["docker", "buildx", "inspect", "default"]]
    assert (found.name, found.driver, found.is_own) == ("default", "docker", True)


def test_the_own_builder_of_an_engine_behind_another_context_is_called_by_that_context() -> None:
    """`default` would be the engine of the context called so, which is not the one in use."""
    run = answering(OWN.replace("default", "farm"))
    assert find_builder(context="farm", run=run).name == "farm"
    assert run.asked == [["docker", "buildx", "inspect", "farm"]]


def test_what_is_not_the_nodes_own_platform_is_emulated() -> None:
    found = find_builder(run=answering(OWN))
    assert not found.emulates(Arch.AMD64)
    assert found.emulates(Arch.ARM64)
    assert found.can_build(Arch.ARM64)


def test_an_architecture_without_an_emulator_cannot_be_built() -> None:
    found = find_builder(run=answering(OWN.replace(", linux/arm64", "")))
    assert not found.can_build(Arch.ARM64)


def test_a_builder_with_a_node_of_each_architecture_emulates_neither() -> None:
    found = find_builder("farm", run=answering(FARM))
    assert found.natives == {"linux/amd64", "linux/arm64"}
    assert not any(found.emulates(arch) for arch in Arch)
    assert not found.is_own


def test_of_a_builder_that_does_not_run_nothing_is_claimed() -> None:
    found = find_builder("farm", run=answering(STOPPED))
    assert found.driver == "docker-container"
    assert all(found.can_build(arch) and not found.emulates(arch) for arch in Arch)


def test_an_unknown_builder_is_missing_with_buildxs_words() -> None:
    with pytest.raises(MissingTool, match='--builder "nope": no builder "nope" found') as error:
        find_builder("nope", run=answering("", 1, 'ERROR: no builder "nope" found\n'))
    assert error.value.exit_code == 3
    assert "docker buildx ls" in error.value.do
