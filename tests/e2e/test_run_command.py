"""`invoke run` on a real engine: a stand-in host's nodes and driver files in real containers of a small image."""

import contextlib
import json
import os
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import docker
import pytest

from ascend_images.host.facts import EngineFacts
from ascend_images.host.gather import local
from ascend_images.host.plan import container_arguments, plan_run
from ascend_images.host.request import RunRequest
from ascend_images.sandbox.host import make_host

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make device nodes"),
]

ROOT = Path(__file__).parents[2]
# What a container says of itself: what it may read and write, who it is, what it was told.
LOOK = """
for path in /dev/davinci* /dev/devmm_svm /dev/hisi_hdc \
    /usr/local/Ascend/driver/version.info /etc/ascend_install.info
do
    [ -e "$path" ] || continue
    r=-; [ -r "$path" ] && r=r; w=-; [ -w "$path" ] && w=w; echo "$r$w $path"
done
id -u; id -G; echo "$MODELSCOPE_CACHE"; for word; do echo "[$word]"; done
"""


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """A small image with a shell, made from this machine's shell; it is removed afterwards."""
    client = docker.from_env()
    name = f"ascend-images-test/run:{uuid.uuid4().hex[:12]}"
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for program in ("/bin/sh", "/usr/bin/id", "/usr/bin/touch", "/usr/bin/sleep"):
            for path in (program, *libraries(program)):
                with contextlib.suppress(FileNotFoundError):
                    tar.add(os.path.realpath(path), arcname=path)
        passwd = tarfile.TarInfo("etc/passwd")
        text = b"root:x:0:0::/root:/bin/sh\nann:x:1100:1100::/:/bin/sh\n"
        passwd.size = len(text)
        tar.addfile(passwd, BytesIO(text))
    repository, _, tag = name.partition(":")
    client.api.import_image_from_data(
        packed.getvalue(), repository=repository, tag=tag, changes=['CMD ["sh"]', "ENV PATH=/usr/bin:/bin"]
    )
    yield name
    client.images.remove(name, force=True)


def libraries(program: str) -> list[str]:
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return [word for word in said.split() if word.startswith("/")]


@pytest.fixture
def a2(tmp_path: Path) -> Path:
    return make_host(tmp_path / "host", "a2", (0, 1))


def invoke(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "invoke", "run", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_a_container_sees_its_npus_its_driver_and_its_words(image: str, a2: Path) -> None:
    done = invoke("--image", image, "--host-root", str(a2), "--", "sh", "-c", LOOK, "sh", "a  b", '"$x"', "")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:4] == ["rw /dev/davinci0", "rw /dev/davinci_manager", "rw /dev/devmm_svm", "rw /dev/hisi_hdc"]
    assert [line.split()[1] for line in lines[4:6]] == [
        "/usr/local/Ascend/driver/version.info", "/etc/ascend_install.info",
    ]  # fmt: skip
    assert lines[-3:] == ["[a  b]", '["$x"]', "[]"]


@pytest.mark.parametrize("code", [0, 3, 77])
def test_the_exit_code_is_the_commands(image: str, code: int) -> None:
    done = invoke("--image", image, "--devices", "none", "--", "sh", "-c", f"exit {code}")
    assert (done.returncode, done.stdout) == (code, "")


def test_another_user_gets_the_group_and_only_its_devices(image: str, a2: Path, tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    os.chown(workspace, 2000, 2000)
    words = ("--image", image, "--host-root", str(a2), "--workspace", str(workspace))
    done = invoke(*words, "--devices", "1", "--user", "2000", "--", "sh", "-c", f"{LOOK}\ntouch /mnt/workspace/here")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:4] == ["rw /dev/davinci1", "rw /dev/davinci_manager", "rw /dev/devmm_svm", "rw /dev/hisi_hdc"]
    assert lines[-3:] == ["2000", "0 1000", "/mnt/workspace/.cache/modelscope/hub"]
    assert (workspace / "here").stat().st_uid == 2000


def test_a_user_whom_the_images_passwd_lacks_gets_no_two_devices(image: str, a2: Path) -> None:
    words = ("--image", image, "--host-root", str(a2), "--devices", "0,1")
    done = invoke(*words, "--user", "2000", "--", "id")
    assert (done.returncode, "no entry for uid 2000" in done.stderr) == (2, True), done.stderr
    done = invoke(*words, "--user", "ann", "--", "id", "-G")
    assert (done.returncode, done.stdout) == (0, "1100 1000\n"), done.stderr


def test_the_printed_line_runs_unchanged_and_gives_the_same(image: str, a2: Path) -> None:
    words = ("--image", image, "--host-root", str(a2), "--user", "ann")
    command = ("--", "sh", "-c", LOOK, "sh", "it's  $HOME")
    printed = invoke(*words, "--print", *command)
    assert printed.returncode == 0, printed.stderr
    run = subprocess.run(["sh", "-c", printed.stdout], capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stdout) == (0, invoke(*words, *command).stdout), run.stderr


def test_a_device_that_another_container_has_is_refused_by_its_name(image: str, a2: Path) -> None:
    client = docker.from_env()
    name = f"ascend-images-test-{uuid.uuid4().hex[:12]}"
    plan = plan_run(
        RunRequest(image=image, devices="0", name=name, command=("sleep", "100")), local(str(a2)), EngineFacts(), None
    )
    other = client.containers.create(**container_arguments(plan))
    try:
        other.start()
        words = ("--image", image, "--host-root", str(a2))
        done = invoke(*words, "--devices", "0", "--", "id")
        assert done.returncode == 3
        assert f"NPU 0 is in use by container {name}" in done.stderr
        assert "privileged" not in done.stderr
        done = invoke(*words, "--", "sh", "-c", "echo /dev/davinci?")
        assert (done.returncode, done.stdout) == (0, "/dev/davinci1\n"), done.stderr
    finally:
        other.remove(force=True)


def test_the_sdks_container_is_the_same_as_the_printed_one(image: str, a2: Path) -> None:
    client = docker.from_env()
    facts = local(str(a2))
    plan = plan_run(RunRequest(image=image, user="1100", network="host"), facts, EngineFacts(), None, "A2")
    container = client.containers.create(**container_arguments(plan))
    try:
        seen = client.api.inspect_container(container.id)
    finally:
        container.remove(force=True)
    printed = invoke(
        "--image", image, "--host-root", str(a2), "--user", "1100", "--network", "host", "--print"
    ).stdout.replace("docker run --rm", "docker create")
    made = subprocess.run(["sh", "-c", printed], capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    try:
        other = client.api.inspect_container(made)
    finally:
        client.api.remove_container(made, force=True)
    for key in ("Devices", "GroupAdd", "Mounts", "Privileged", "ShmSize", "NetworkMode", "IpcMode", "Runtime"):
        assert json.dumps(seen["HostConfig"][key]) == json.dumps(other["HostConfig"][key]), key
    assert seen["Config"]["User"] == other["Config"]["User"] == "1100"
