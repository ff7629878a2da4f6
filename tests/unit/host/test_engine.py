"""What an engine knows of NPUs: runtimes by name, containers with their devices, and an engine that does not answer."""

from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, DockerException, NotFound

from ascend_images.errors import MissingTool
from ascend_images.host.engine import engine_facts, last_visible
from ascend_images.host.facts import Container, EngineFacts

ASCEND = "/usr/local/Ascend/Ascend-Docker-Runtime/ascend-docker-runtime"


def client(*containers: dict[str, Any], **info: Any) -> Any:
    """An engine with containers as `docker inspect` shows them; one without content has ended meanwhile."""

    def inspect(identity: str) -> dict[str, Any]:
        if not containers[int(identity)]:
            raise NotFound("gone")
        return containers[int(identity)]

    listed = [{"Id": str(number)} for number in range(len(containers))]
    return SimpleNamespace(api=SimpleNamespace(info=lambda: info, containers=lambda: listed, inspect_container=inspect))


def inspected(name: str, *paths: str, env: tuple[str, ...] = (), **host: Any) -> dict[str, Any]:
    devices = [{"PathOnHost": path, "PathInContainer": "/dev/davinci0"} for path in paths] or None
    return {"Name": f"/{name}", "HostConfig": {"Devices": devices, **host}, "Config": {"Env": list(env)}}


def test_containers_with_their_devices() -> None:
    facts = engine_facts(
        client(
            inspected("other", "/dev/davinci7", "/dev/hisi_hdc"),
            {},
            inspected("all", Privileged=True),
            {"Name": "/bare", "HostConfig": None, "Config": None},
            Runtimes={"runc": {"path": "runc"}},
            DefaultRuntime="runc",
        )
    )
    assert facts == EngineFacts(
        runtimes=("runc",),
        default_runtime="runc",
        containers=(
            Container(name="all", privileged=True),
            Container(name="bare"),
            Container(name="other", devices=("/dev/davinci7", "/dev/hisi_hdc")),
        ),
    )


@pytest.mark.parametrize(
    ("runtime", "default", "visible"),
    [
        ("ascend", "runc", "0,1"),
        ("npu", "runc", "0,1"),
        ("", "ascend", "0,1"),
        ("runc", "ascend", ""),
        ("", "runc", ""),
    ],
)
def test_the_visibility_variable_counts_where_ascend_s_runtime_reads_it(
    runtime: str, default: str, visible: str
) -> None:
    facts = engine_facts(
        client(
            inspected("one", env=("ASCEND_VISIBLE_DEVICES=0,1",), Runtime=runtime),
            Runtimes={"runc": {"path": "runc"}, "ascend": {"path": ASCEND}, "npu": {"path": ASCEND}},
            DefaultRuntime=default,
        )
    )
    assert facts.containers[0].visible == visible
    assert facts.runtimes == ("ascend", "npu", "runc")


@pytest.mark.parametrize(
    ("environment", "effective"),
    [
        (["ASCEND_VISIBLE_DEVICES=3", "FOO=1", "ASCEND_VISIBLE_DEVICES="], ""),
        (["ASCEND_VISIBLE_DEVICES=", "ASCEND_VISIBLE_DEVICES=3"], "3"),
        (["ASCEND_VISIBLE_DEVICES_X=1"], ""),
        ([], ""),
    ],
)
def test_the_last_of_several_entries_counts(environment: list[str], effective: str) -> None:
    assert last_visible(environment) == effective


def test_an_engine_without_runtimes_is_an_engine() -> None:
    assert engine_facts(client()) == EngineFacts()


@pytest.mark.parametrize("error", [DockerException("no way"), APIError("no way"), ConnectionError("no way"), OSError()])
def test_an_engine_that_does_not_answer_is_told(error: Exception) -> None:
    def info() -> None:
        raise error

    with pytest.raises(MissingTool, match=r"did not say which containers run: (no way|OSError)"):
        engine_facts(SimpleNamespace(api=SimpleNamespace(info=info)))
