"""One plan in its three forms: a docker command that a shell runs unchanged, a Compose file, a pod."""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.errors import BadInput
from ascend_images.host.compose import compose_text, service_name
from ascend_images.host.docker_command import docker_text, docker_words
from ascend_images.host.facts import EngineFacts, HostFacts
from ascend_images.host.kubernetes import RESOURCES, pod_text
from ascend_images.host.plan import RunPlan, plan_pod, plan_run
from ascend_images.host.ports import parse_ports
from ascend_images.host.request import Mount, RunRequest
from tests.run_kit import PASSWD, a5_host, engine, host, request

ASCEND = engine(runtimes=("ascend", "runc"))
COMMAND = ("python", "-c", 'print("a b", \'c\', "$HOME", `x`)\n', "", "*", "$(POD)", "a \\\n  b", "!x\\", "~", "#")

CASES: dict[str, tuple[RunRequest, HostFacts, EngineFacts, str]] = {
    "a2-one-chip": (request(machine="aarch64", command=("npu-smi", "info")), host(8), engine(), "A2"),
    "a3-pair": (request(title="a3", image="demo:a3", family="A3", devices=""), host(4), engine(), "A3"),
    "310p-duo": (request(title="310p", image="demo:310p", family="310P", devices="0,1"), host(2), engine(), "310P"),
    "950": (request(title="a5", image="demo:950", family="950", devices="0"), a5_host(), engine(), "950"),
    "ascend-runtime": (request(devices="0,1"), host(2), ASCEND, "A2"),
    "user-and-workspace": (
        request(
            user="2000", workspace="/data/my models", mounts=(Mount("/data, old", "/data", read_only=False),),
            env={"GREETING": "it's $HOME"}, name="My_Run", network="host", ipc="host", shm_size="16g",
            privileged=True, interactive=True, command=COMMAND,
        ),
        host(1), engine(), "A2",
    ),
    "ports": (
        request(
            title="serve", command=("vllm", "serve", "/models/Qwen3-0.6B"), mounts=(Mount("/models", "/models"),),
            ports=tuple(map(parse_ports, ("8000:8000", "127.0.0.1:9000-9001:90-91", "[::1]::5000/udp", "22"))),
        ),
        host(1), engine(), "A2",
    ),
    "no-npu": (request(devices="none", command=("python", "-V")), HostFacts(), engine(), "unknown"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_three_forms(name: str, golden: Callable[[str, str], None]) -> None:
    asked, facts, known, family = CASES[name]
    plan = plan_run(asked, facts, known, PASSWD, family)
    golden(f"run/{name}.sh", docker_text(plan))
    golden(f"run/{name}.compose.yaml", compose_text(plan))
    golden(f"run/{name}.pod.yaml", pod_text(plan_pod(asked, facts, PASSWD, family)))


# --- docker -----------------------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\\"))
BREAK = " \\\n  "


def plan_of(**more: Any) -> RunPlan:
    return RunPlan(**{"title": "a2", "image": "demo:a2", **more})


@given(st.lists(TEXT), TEXT)
def test_the_text_splits_into_its_words(command: list[str], value: str) -> None:
    plan = plan_of(command=tuple(command), env={"A": value})
    # Python's shlex, unlike a shell, keeps the line break behind a backslash; no text here has a backslash.
    assert shlex.split(docker_text(plan).replace(BREAK, " ")) == docker_words(plan)


def test_each_option_has_a_line() -> None:
    plan = plan_of(env={"A": "1", "B": "2"}, interactive=True, privileged=True, command=("python", "-V"))
    assert docker_text(plan).split(BREAK) == [
        "docker run --rm -it", "-e A=1", "-e B=2", "--privileged", "demo:a2 python -V\n",
    ]  # fmt: skip


@pytest.mark.subprocess
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_shell_runs_the_line_unchanged(shell: str, tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\nfor word; do printf "%s\\0" "$word"; done\n')
    docker.chmod(0o755)
    asked, facts, known, family = CASES["user-and-workspace"]
    plan = plan_run(asked, facts, known, PASSWD, family)
    done = subprocess.run(
        [str(shutil.which(shell)), "-c", docker_text(plan)],
        capture_output=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().removesuffix("\0").split("\0") == docker_words(plan)[1:]
    assert docker_words(plan)[-len(COMMAND) :] == list(COMMAND)


@pytest.mark.parametrize(
    ("source", "field"),
    [("/a b", "source=/a b"), ("/a,b", '"source=/a,b"'), ('/a"b', '"source=/a""b"'), ("/a\nb", '"source=/a\nb"')],
)
def test_a_mount_is_one_line_of_comma_separated_fields(source: str, field: str) -> None:
    words = docker_words(plan_of(mounts=(Mount(source, "/x"),)))
    assert words[words.index("--mount") + 1] == f"type=bind,{field},target=/x,readonly"


# --- Compose ----------------------------------------------------------------------------------------------------------


def test_compose_puts_no_variables_in() -> None:
    text = compose_text(plan_of(command=("echo", "$HOME ${X}"), env={"A": "$B"}))
    assert json.dumps("$$HOME $${X}") in text
    assert 'A: "$$B"' in text


@pytest.mark.parametrize(("title", "name"), [("a3-cann8.5", "a3-cann8.5"), ("a b/c:昇", "a-b-c--"), ("a_2", "a_2")])
def test_a_service_has_a_name_that_compose_takes(title: str, name: str) -> None:
    assert service_name(title) == name


# --- Kubernetes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "resource"), RESOURCES.items())
def test_each_family_has_its_resource(family: str, resource: str) -> None:
    assert f'"{resource}": 2' in pod_text(plan_of(family=family, count=2))


@pytest.mark.parametrize("name", ["huawei.com/ascend-1980", "huawei.com/Ascend910B3", "huawei.com/npu"])
def test_another_plugins_resource_can_be_named(name: str) -> None:
    assert f'"{name}": 1' in pod_text(plan_of(family="A2", count=1), name)
    assert f'"{name}": 1' in pod_text(plan_of(count=1), name)


@pytest.mark.parametrize("name", ["Ascend910", "huawei.com/", "/npu", "huawei.com/a b", "huawei.com/npu/x"])
def test_what_is_no_resource_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="--resource"):
        pod_text(plan_of(family="A2", count=1), name)


def test_without_a_family_the_resource_must_be_named() -> None:
    with pytest.raises(BadInput, match="unknown") as error:
        pod_text(plan_of(count=1))
    assert "--resource NAME" in error.value.do
    assert "resources" not in pod_text(plan_of())


@pytest.mark.parametrize("option", ["network", "ipc"])
def test_what_a_pod_cannot_have_is_refused(option: str) -> None:
    with pytest.raises(BadInput, match=f"--{option} bridge"):
        pod_text(plan_of(**{option: "bridge"}))


@pytest.mark.parametrize(("title", "name"), [("A2_x.y", "a2-x-y"), ("昇腾", "run"), ("-a-", "a"), ("a" * 80, "a" * 63)])
def test_a_pod_has_a_name_that_kubernetes_takes(title: str, name: str) -> None:
    assert f'metadata:\n  name: "{name}"\n' in pod_text(plan_of(title=title))


def test_kubernetes_puts_no_variables_in() -> None:
    text = pod_text(plan_of(command=("echo", "$(HOME) $X"), env={"A": "$(B)"}))
    assert '- "$$(HOME) $$X"' in text
    assert 'value: "$$(B)"' in text


def test_no_node_of_the_host_is_mounted_into_a_pod() -> None:
    for asked, facts, _, family in CASES.values():
        assert "/dev/davinci" not in pod_text(plan_pod(asked, facts, PASSWD, family))
