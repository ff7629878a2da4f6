"""The engine script and the loopback registry, on real daemons.

The script's own engine is started in a network and a mount namespace of its own: there it finds no engine, has its own
bridge, and whatever runs on this machine is not touched.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ascend_images.errors import MissingTool
from ascend_images.images.engine import ImageStore, free_bytes, require_engine
from ascend_images.sandbox.engine import SCRIPT, bridge_gateway, start_engine
from ascend_images.sandbox.registry import Registry

pytestmark = pytest.mark.e2e

# What the script may use of a machine in the tests that hide its real programs.
TOOLS = (
    "awk",
    "bash",
    "cat",
    "cksum",
    "cut",
    "env",
    "flock",
    "grep",
    "head",
    "id",
    "mkdir",
    "rm",
    "sed",
    "sort",
    "tail",
)


def namespaces_work(*kinds: str) -> bool:
    probe = subprocess.run(["unshare", *kinds, "true"], capture_output=True, check=False)
    return os.geteuid() == 0 and probe.returncode == 0


needs_namespaces = pytest.mark.skipif(
    not shutil.which("unshare") or not namespaces_work("--mount", "--net"),
    reason="needs root and mount and network namespaces",
)


def environment(state: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DOCKER_", "XDG_", "ASCEND_"))}
    return {**kept, "ASCEND_IMAGES_STATE": str(state), **more}


def script(verb: str, state: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(SCRIPT), verb], env=environment(state, **more), capture_output=True, text=True, timeout=120, check=False
    )


def inside(commands: str, state: Path, *kinds: str) -> "subprocess.CompletedProcess[str]":
    """Run bash commands in namespaces of their own; what they mount is gone afterwards."""
    return subprocess.run(
        ["unshare", "--mount", *kinds, "bash", "-c", f"mount --make-rprivate /\n{commands}"],
        env=environment(state),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


# --- the script -------------------------------------------------------------------------------------------------------


@needs_namespaces
@pytest.mark.skipif(not shutil.which("dockerd", path="/usr/sbin:/usr/bin"), reason="no dockerd is installed here")
def test_start_status_build_stop_on_a_machine_without_an_engine(tmp_path: Path) -> None:
    before = require_engine()
    state = tmp_path / "state"
    (tmp_path / "context").mkdir()
    (tmp_path / "context" / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /hello\n")
    done = inside(
        f"""
        mount -t tmpfs tmpfs /run; ip link set lo up 2>/dev/null
        echo "0: $({SCRIPT} status)"
        {SCRIPT} start; echo "start: $?"
        {SCRIPT} start; echo "again: $?"
        {SCRIPT} status
        echo "pids: $(cat {state}/engine/dockerd.pid) $(cat {state}/engine/containerd.pid)"
        docker buildx build --quiet --tag hello:1 --provenance=mode=min --output type=image,oci-mediatypes=true \
            {tmp_path}/context; echo "build: $?"
        docker image ls --quiet | wc -l
        docker info --format 'root: {{{{.DockerRootDir}}}}'
        {SCRIPT} stop; echo "stop: $?"
        {SCRIPT} status
        {SCRIPT} stop; echo "stop again: $?"
        {SCRIPT} start >/dev/null; docker image ls --quiet | wc -l; {SCRIPT} stop >/dev/null
        """,
        state,
        "--net",
    )
    out = done.stdout
    assert "0: engine: no Docker Engine answers" in out, out + done.stderr
    assert "start: 0" in out, out + done.stderr
    assert re.search(r"Docker Engine \d+\.\d+.* is up on /var/run/docker.sock", out)
    assert "already running" in out
    assert "again: 0" in out
    assert re.search(r"is running, started by this script \(pid \d+, data: " + re.escape(str(state)), out)
    assert "io.containerd.snapshotter.v1" in out
    assert "build: 0" in out, out + done.stderr
    assert f"root: {state}/engine/data" in out
    assert "stopped dockerd" in out
    assert "stopped containerd" in out
    assert "stop: 0" in out
    assert "nothing to stop" in out
    assert "stop again: 0" in out
    # The image of before the stop is there after the next start.
    assert re.findall(r"^\d+$", out, re.MULTILINE) == ["1", "1"]
    pids = [int(pid) for pid in re.search(r"pids: (\d+) (\d+)", out).groups()]  # type: ignore[union-attr]
    assert not any(alive(pid) for pid in pids)
    # The engine this machine had is the same as before, and so is its bridge.
    assert require_engine() == before
    assert str(bridge_gateway())


@needs_namespaces
@pytest.mark.skipif(not shutil.which("dockerd", path="/usr/sbin:/usr/bin"), reason="no dockerd is installed here")
def test_an_engine_that_does_not_come_up_shows_its_last_lines_and_leaves_nothing(tmp_path: Path) -> None:
    dockerd = tmp_path / "bin" / "dockerd"
    dockerd.parent.mkdir()
    dockerd.write_text(
        '#!/bin/bash\n[[ $1 == --version ]] || echo "no cgroup here"\necho "Docker version 26.1.5, build x"\n'
    )
    dockerd.chmod(0o755)
    done = inside(f"mount -t tmpfs tmpfs /run; PATH={dockerd.parent}:$PATH {SCRIPT} start", tmp_path, "--net")
    assert done.returncode == 3, done.stdout + done.stderr
    assert f"dockerd did not come up. The last lines of {tmp_path}/engine/dockerd.log" in done.stderr
    assert "no cgroup here" in done.stderr
    assert "stopped containerd" in done.stderr
    assert not (tmp_path / "engine" / "containerd.pid").exists()


def test_an_engine_that_answers_is_left_alone(tmp_path: Path) -> None:
    version = require_engine().version
    done = script("start", tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"Docker Engine {version} answers already; it is not this script's and is left alone" in done.stdout
    assert f"Docker Engine {version} is running; it is not this script's" in script("status", tmp_path).stdout
    done = script("stop", tmp_path)
    assert (done.returncode, "nothing to stop" in done.stdout) == (0, True)
    assert require_engine().version == version
    assert list(tmp_path.iterdir()) == []


def test_stop_does_not_end_a_process_that_only_has_the_number(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        (tmp_path / "engine").mkdir()
        (tmp_path / "engine" / "dockerd.pid").write_text(f"{other.pid}\n")
        (tmp_path / "engine" / "containerd.pid").write_text("not a number\n")
        done = script("stop", tmp_path)
        assert (done.returncode, "nothing to stop" in done.stdout) == (0, True)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"DOCKER_HOST": "unix:///nowhere.sock"}, "DOCKER_HOST names unix:///nowhere.sock, where no engine answers"),
        ({"DOCKER_HOST": "tcp://127.0.0.1:1"}, "type: unset DOCKER_HOST"),
    ],
)
def test_no_engine_is_started_where_the_client_would_not_ask_it(
    tmp_path: Path, more: dict[str, str], told: str
) -> None:
    done = script("start", tmp_path, **more)
    assert (done.returncode, told in done.stderr) == (3, True), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_docker_context_that_does_not_answer_is_named(tmp_path: Path) -> None:
    config = {"DOCKER_CONFIG": str(tmp_path / "config")}
    make = ["docker", "context", "create", "far", "--docker", "host=tcp://127.0.0.1:1"]
    subprocess.run(make, env=environment(tmp_path, **config), check=True, capture_output=True)
    done = script("start", tmp_path / "state", **config, DOCKER_CONTEXT="far")
    assert (done.returncode, "docker context far is in use" in done.stderr) == (3, True), done.stderr


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, to act as a user who is not")
def test_a_user_who_may_not_talk_to_the_engine_is_told_so() -> None:
    if not Path("/var/run/docker.sock").exists():
        pytest.skip("no engine on the default socket")
    text = SCRIPT.read_text()  # a user may not be able to read this checkout
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-s", "start"]
    done = subprocess.run(
        command, input=text, env=environment(Path("/nowhere")), cwd="/", capture_output=True, text=True, check=False
    )
    assert (done.returncode, "this user may not talk to it" in done.stderr) == (3, True), done.stderr
    assert "usermod -aG docker" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["restart"]])
def test_a_verb_it_does_not_know_is_a_usage_error(arguments: list[str]) -> None:
    done = subprocess.run([str(SCRIPT), *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, "usage:" in done.stderr) == (2, True)


def test_the_script_is_clean_by_shellcheck() -> None:
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if not shellcheck:
        pytest.skip("no shellcheck")
    done = subprocess.run([shellcheck, str(SCRIPT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


# --- installing, on a machine whose apt is a fake ---------------------------------------------------------------------

DEB822 = """\
# a comment
Types: deb deb-src
URIs: mirror+file:///etc/mirrors
Suites: bookworm
 bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/some.gpg

Types: deb
URIs: file:///foreign
Suites: stable
Components: main
"""


class Fresh:
    """A machine of another release, made of bind mounts: no docker, its own /etc/apt, an apt-get that only answers."""

    def __init__(self, folder: Path, release: str) -> None:
        self.folder = folder
        self.apt = folder / "apt"
        for name in ("bin", "apt/sources.list.d", "apt/preferences.d", "empty"):
            (folder / name).mkdir(parents=True)
        for tool in TOOLS:
            if found := shutil.which(tool):
                (folder / "bin" / tool).symlink_to(found)
        (folder / "os-release").write_text(release)
        self.fake("apt-get", "exit 0")

    def fake(self, name: str, body: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >>{self.folder}/calls\n{body}\n')
        path.chmod(0o755)

    def start(self) -> "subprocess.CompletedProcess[str]":
        release = Path("/etc/os-release").resolve()
        hidden = [
            path for path in ("/usr/sbin", "/usr/local/sbin", "/sbin", "/usr/libexec/docker") if Path(path).is_dir()
        ]
        mounts = [f"mount --bind {self.apt} /etc/apt", f"mount --bind {self.folder}/os-release {release}"]
        mounts += [f"mount --bind {self.folder}/empty {path}" for path in hidden]
        commands = "\n".join([*mounts, f"export PATH={self.folder}/bin", f"exec bash {SCRIPT} start"])
        return inside(commands, self.folder / "state")

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()


DEBIAN_12 = 'ID=debian\nVERSION_ID="12"\n'


@pytest.fixture
def fresh(tmp_path: Path) -> Fresh:
    return Fresh(tmp_path, DEBIAN_12)


@needs_namespaces
def test_debian_12_takes_only_the_engine_from_the_next_release(fresh: Fresh) -> None:
    (fresh.apt / "sources.list.d" / "debian.sources").write_text(DEB822)
    fresh.fake("apt-get", 'case "$*" in *--simulate*) exit 0 ;; *install*) echo "E: no room"; exit 100 ;; esac')
    done = fresh.start()
    assert done.returncode == 3, done.stdout + done.stderr
    assert "E: no room" in done.stderr
    assert "could not be installed" in done.stderr
    assert (fresh.apt / "sources.list.d" / "ascend-images-trixie.sources").read_text().splitlines()[1:] == [
        "Types: deb",
        "Suites: trixie",
        "URIs: mirror+file:///etc/mirrors",
        "Components: main",
        "Signed-By: /usr/share/keyrings/some.gpg",
    ]
    pin = (fresh.apt / "preferences.d" / "ascend-images-trixie").read_text()
    assert pin == "Package: *\nPin: release n=trixie\nPin-Priority: 100\n"
    assert (fresh.apt / "sources.list.d" / "debian.sources").read_text() == DEB822
    asked = fresh.calls()[-1]
    wanted = "docker.io/trixie docker-cli/trixie containerd/trixie iptables docker-buildx/trixie"
    assert asked.startswith("apt-get install")
    assert asked.endswith(wanted)
    assert "--no-remove" in asked
    assert " -t " not in asked


@needs_namespaces
def test_a_one_line_source_is_copied_as_one_line(fresh: Fresh) -> None:
    lines = (
        "# deb file:///old bookworm main\ndeb [ arch=amd64 signed-by=/k.gpg ] file:///mirror bookworm main contrib\n"
    )
    (fresh.apt / "sources.list").write_text("deb file:///foreign stable main\n" + lines)
    fresh.fake("apt-get", "exit 100")
    assert fresh.start().returncode == 3
    added = (fresh.apt / "sources.list.d" / "ascend-images-trixie.list").read_text().splitlines()
    assert added[1:] == ["deb [ arch=amd64 signed-by=/k.gpg ] file:///mirror trixie main contrib"]


@needs_namespaces
def test_more_from_the_next_release_than_the_engine_is_refused_before_installing(fresh: Fresh) -> None:
    (fresh.apt / "sources.list").write_text("deb file:///mirror bookworm main\n")
    planned = ["Inst libc6 [2.36-9] (2.41-12 Debian:13.1/stable [amd64])", "Inst docker.io (26.1.5 Debian:13.1/stable)"]
    fresh.fake("apt-get", f'case "$*" in *--simulate*) printf "%s\\n" "{planned[0]}" "{planned[1]}" ;; esac')
    done = fresh.start()
    assert (done.returncode, "would also take from Debian 13: libc6" in done.stderr) == (3, True), done.stderr
    assert all("--simulate" in call or "install" not in call for call in fresh.calls())


@needs_namespaces
def test_a_foreign_source_that_cannot_be_read_does_not_stop_it(fresh: Fresh) -> None:
    (fresh.apt / "sources.list").write_text("deb file:///mirror bookworm main\n")
    fresh.fake("apt-get", '[[ $1 != update ]] || { echo "E: foreign failed"; exit 100; }')
    done = fresh.start()
    assert "some package sources could not be read" in done.stdout
    assert [call.split()[1] for call in fresh.calls()] == ["update", "install", "install"]
    assert "dockerd is missing after installing" in done.stderr  # the fake installs nothing


@needs_namespaces
@pytest.mark.parametrize(
    ("release", "told"),
    [
        ('ID=debian\nVERSION_ID="11"\n', "Debian 11 is too old"),
        ("ID=fedora\nVERSION_ID=40\n", "Debian and Ubuntu only, not of fedora"),
    ],
)
def test_other_systems_are_told_what_to_install(tmp_path: Path, release: str, told: str) -> None:
    fresh = Fresh(tmp_path, release)
    done = fresh.start()
    assert (done.returncode, told in done.stderr, "Docker Engine 26" in done.stderr) == (3, True, True), done.stderr
    assert not (tmp_path / "calls").exists()


@needs_namespaces
def test_debian_12_without_a_source_of_its_own_is_told_so(fresh: Fresh) -> None:
    (fresh.apt / "sources.list").write_text("deb file:///foreign stable main\n")
    done = fresh.start()
    assert (done.returncode, "suite bookworm" in done.stderr) == (3, True), done.stderr
    assert not (fresh.folder / "calls").exists()


@needs_namespaces
def test_ubuntu_takes_its_own_packages(tmp_path: Path) -> None:
    fresh = Fresh(tmp_path, 'ID=ubuntu\nVERSION_ID="24.04"\n')
    assert fresh.start().returncode == 3  # the fake installs nothing
    assert fresh.calls()[-1].endswith(" containerd docker-buildx docker.io iptables")
    assert list((fresh.apt / "sources.list.d").iterdir()) == []


@needs_namespaces
def test_an_old_engine_that_is_installed_is_not_replaced(fresh: Fresh) -> None:
    fresh.fake("dockerd", 'echo "Docker version 20.10.24+dfsg1, build 297e128"')
    done = fresh.start()
    assert done.returncode == 3
    assert "the Docker Engine installed here is 20.10.24 (not running), and 26 or newer is wanted" in done.stderr
    assert all(call.startswith("dockerd") for call in fresh.calls())


@needs_namespaces
def test_an_old_engine_that_runs_is_left_alone_and_refused(fresh: Fresh) -> None:
    fresh.fake("docker", "echo 20.10.24+dfsg1")
    done = fresh.start()
    assert done.returncode == 3
    assert "left alone" in done.stdout
    assert "it is too old: 20.10.24+dfsg1" in done.stderr


# --- the engine as Python sees it -------------------------------------------------------------------------------------


def test_the_engine_of_this_machine_is_good_enough_and_has_room() -> None:
    engine = start_engine()
    assert engine.store is ImageStore.CONTAINERD
    assert engine.cpus >= 1
    assert engine.memory > 1 << 28
    free = free_bytes(engine)
    assert not engine.is_local or (free is not None and free > 0)


def test_an_address_where_nothing_listens_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    with pytest.raises(MissingTool, match=r"no Docker Engine answers: .*unix:///nowhere\.sock"):
        require_engine()


def test_a_server_can_listen_on_the_bridges_gateway() -> None:
    if not require_engine().is_local:
        pytest.skip("the engine is on another machine")
    with socket.socket() as server:
        server.bind((str(bridge_gateway()), 0))
        server.listen()


# --- the registry -----------------------------------------------------------------------------------------------------


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    registry = Registry(tmp_path / "registry")
    yield registry
    registry.stop()


def test_an_image_pushed_to_the_registry_is_there_after_a_restart(registry: Registry, tmp_path: Path) -> None:
    address = registry.start()
    assert registry.start() == address
    (tmp_path / "Dockerfile").write_text(f"FROM scratch\nCOPY Dockerfile /{os.getpid()}\n")
    name, facts = f"{address}/hello:1", tmp_path / "facts.json"
    output = f"type=image,name={name},push=true,oci-mediatypes=true"
    build = ["docker", "buildx", "build", "--quiet", "--output", output, "--metadata-file", str(facts), str(tmp_path)]
    subprocess.run(build, check=True, capture_output=True, text=True)
    digest = json.loads(facts.read_text())["containerimage.digest"]
    try:
        pid = registry.pid()
        assert registry.stop() is True
        assert pid is not None
        assert not alive(pid)
        assert registry.stop() is False
        assert registry.start() == address
        inspect = ["docker", "buildx", "imagetools", "inspect", f"{address}/hello@{digest}"]
        assert digest in subprocess.run(inspect, check=True, capture_output=True, text=True).stdout
    finally:
        subprocess.run(["docker", "image", "rm", "--force", name], capture_output=True, check=False)


def test_the_registry_outlives_the_command_that_started_it(registry: Registry) -> None:
    code = (
        "import pathlib, sys; from ascend_images.sandbox.registry import *; Registry(pathlib.Path(sys.argv[1])).start()"
    )
    command = [sys.executable, "-c", code, str(registry.folder)]
    starter = subprocess.Popen(command, cwd=Path(__file__).resolve().parents[2], start_new_session=True)
    assert starter.wait(timeout=60) == 0
    # What a terminal does to the group of a command that is interrupted.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(starter.pid, signal.SIGINT)
    time.sleep(0.2)
    assert registry.address.startswith("127.0.0.1:")


def test_two_registries_have_a_port_each_and_stopping_one_leaves_the_other(registry: Registry, tmp_path: Path) -> None:
    other = Registry(tmp_path / "other")
    try:
        assert registry.start() != other.start()
        registry.stop()
        assert other.address
    finally:
        other.stop()


def test_a_registry_that_cannot_start_says_why(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ascend_images.sandbox.registry.config_text", lambda _data, _port: "version: 9.9\n")
    with pytest.raises(MissingTool, match="did not come up"):
        registry.start()
    assert registry.pid() is None
