"""Engine and registry of the sandbox, and the engine check of a build: decisions, with every outside answer faked."""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.errors import MissingTool
from ascend_images.images import engine as images_engine
from ascend_images.images.engine import (
    Answer,
    Engine,
    ImageStore,
    data_folders,
    docker_command,
    dotted_version,
    find_engine,
    free_bytes,
    require_engine,
    run_command,
)
from ascend_images.pins.platform import Arch
from ascend_images.sandbox import engine as sandbox_engine
from ascend_images.sandbox import registry as sandbox_registry
from ascend_images.sandbox.engine import bridge_gateway, start_engine, state_dir, stop_engine
from ascend_images.sandbox.registry import Registry, clean_environment, config_text, find_program, free_port

SNAPSHOTTER = [["driver-type", "io.containerd.snapshotter.v1"]]


def info(**changes: Any) -> dict[str, Any]:
    """What `docker info --format '{{json .}}'` says of a good engine, as far as it is read, with changes."""
    good = {
        "ServerVersion": "26.1.5+dfsg1",
        "Driver": "overlayfs",
        "DriverStatus": SNAPSHOTTER,
        "DockerRootDir": "/var/lib/docker",
        "Architecture": "x86_64",
        "NCPU": 8,
        "MemTotal": 64 << 30,
        "ClientInfo": {"Context": "default", "Plugins": [{"Name": "buildx", "Version": "v0.13.1"}]},
    }
    return {**good, **changes}


class Docker:
    """A docker client that gives prepared answers and remembers how it was called."""

    def __init__(
        self, said: dict[str, Any] | str, *, code: int = 0, err: str = "", endpoint: str = "unix:///var/run/docker.sock"
    ) -> None:
        self.info = Answer(code, said if isinstance(said, str) else json.dumps(said), err)
        self.endpoint = Answer(0, endpoint + "\n", "")
        self.calls: list[list[str]] = []

    def __call__(self, command: Sequence[str]) -> Answer:
        self.calls.append(list(command))
        return self.info if "info" in command else self.endpoint


def buildx(*plugins: dict[str, str]) -> dict[str, Any]:
    return {"Context": "default", "Plugins": list(plugins)}


# --- the engine a build needs -----------------------------------------------------------------------------------------


def test_a_good_engine_is_described_as_the_client_sees_it() -> None:
    assert require_engine(run=Docker(info())) == Engine(
        version="26.1.5+dfsg1",
        buildx="v0.13.1",
        store=ImageStore.CONTAINERD,
        driver="overlayfs",
        root=Path("/var/lib/docker"),
        context="default",
        endpoint="unix:///var/run/docker.sock",
        arch=Arch.AMD64,
        cpus=8,
        memory=64 << 30,
    )


def test_every_question_goes_to_the_context_that_was_named() -> None:
    docker = Docker(info(Architecture="aarch64"), endpoint="ssh://builder")
    engine = require_engine(context="builder", run=docker)
    assert all(call[:3] == ["docker", "--context", "builder"] for call in docker.calls)
    assert (engine.context, engine.arch, engine.is_local) == ("builder", Arch.ARM64, False)
    assert docker_command() == ["docker"]


def test_an_engine_of_another_architecture_has_none_that_cann_exists_for() -> None:
    assert find_engine(run=Docker(info(Architecture="riscv64"))).arch is None


@pytest.mark.subprocess
def test_no_client_says_what_starts_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingTool, match="no docker command on PATH") as caught:
        require_engine()
    assert caught.value.exit_code == 3
    assert caught.value.do == "scripts/engine.sh start"


def test_a_client_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_args: object, **kwargs: Any) -> None:
        raise images_engine.subprocess.TimeoutExpired("docker", kwargs["timeout"])

    monkeypatch.setattr(images_engine.subprocess, "run", hang)
    with pytest.raises(MissingTool, match="`docker info` did not come back within 60 s"):
        run_command(["docker", "info", "--format", "x"])


@pytest.mark.parametrize(
    ("docker", "found"),
    [
        pytest.param(
            Docker(
                info(ServerVersion=""), code=1, err="Cannot connect to the Docker daemon at unix:///x. Is it running?\n"
            ),
            "no Docker Engine answers: Cannot connect to the Docker daemon at unix:///x. Is it running?",
            id="client-28-says-it-on-stderr",
        ),
        pytest.param(
            Docker(info(ServerVersion="", ServerErrors=["Cannot connect to the Docker daemon at tcp://x:1."])),
            "no Docker Engine answers: Cannot connect to the Docker daemon at tcp://x:1.",
            id="older-client-says-it-in-the-answer",
        ),
        pytest.param(Docker("", code=1), "no Docker Engine answers: exit code 1, no output", id="nothing-said"),
        pytest.param(
            Docker(info(ServerVersion=""), code=1, err="permission denied while trying to connect to the socket"),
            "this user may not talk to it: permission denied while",
            id="not-in-the-group",
        ),
        pytest.param(Docker({"host": {}, "version": {"Version": "4.3.1"}}), "podman", id="podman-named-docker"),
    ],
)
def test_an_engine_that_does_not_answer_is_told_by_its_own_words(docker: Docker, found: str) -> None:
    with pytest.raises(MissingTool) as caught:
        require_engine(run=docker)
    assert found in caught.value.found
    assert caught.value.wanted
    assert caught.value.do


@pytest.mark.parametrize("version", ["20.10.24+dfsg1", "25.0.5", "dev"])
def test_an_engine_too_old_is_refused_with_its_version(version: str) -> None:
    with pytest.raises(MissingTool, match="too old") as caught:
        require_engine(run=Docker(info(ServerVersion=version)))
    assert version in caught.value.found
    assert "26" in caught.value.wanted


@pytest.mark.parametrize("version", ["26.0.0", "26.1.5+dfsg1", "28.2.2", "27.0.0-rc.1"])
def test_engines_from_26_on_are_taken(version: str) -> None:
    assert require_engine(run=Docker(info(ServerVersion=version))).version == version


def test_an_engine_without_the_containerd_store_is_refused_with_the_setting() -> None:
    said = info(Driver="overlay2", DriverStatus=[["Backing Filesystem", "extfs"]])
    with pytest.raises(MissingTool, match="overlay2 graph driver") as caught:
        require_engine(run=Docker(said))
    assert '"containerd-snapshotter": true' in caught.value.do


@pytest.mark.parametrize(
    ("plugins", "found"),
    [
        ([], "no buildx plugin"),
        ([{"Name": "compose", "Version": "v2.26.0"}], "no buildx plugin"),
        ([{"Name": "buildx", "Version": "v0.13.1", "Err": "exec format error"}], "no buildx plugin"),
        ([{"Name": "buildx", "Version": "v0.12.1"}], "buildx v0.12.1 is too old"),
    ],
)
def test_buildx_missing_broken_or_too_old_is_refused(plugins: list[dict[str, str]], found: str) -> None:
    with pytest.raises(MissingTool, match=found) as caught:
        require_engine(run=Docker(info(ClientInfo=buildx(*plugins))))
    assert "0.13" in caught.value.wanted
    assert "docker-buildx" in caught.value.do


def test_another_builder_brings_its_own_engine_so_only_the_client_is_checked() -> None:
    old = info(ServerVersion="20.10.24", Driver="overlay2", DriverStatus=[])
    assert require_engine(builder="remote", run=Docker(old)).version == "20.10.24"
    old["ClientInfo"] = buildx()
    with pytest.raises(MissingTool, match="no buildx plugin"):
        require_engine(builder="remote", run=Docker(old))


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=5), st.sampled_from(["", "+dfsg1", "-rc.1", "~ds1", " abc"])
)
def test_versions_are_read_whatever_follows_them(numbers: list[int], tail: str) -> None:
    text = ".".join(map(str, numbers)) + tail
    assert dotted_version(text) == dotted_version(f"v{text}") == dotted_version(f" {text}\n") == tuple(numbers)


@given(st.text())
def test_no_text_breaks_the_version_parser(text: str) -> None:
    found = dotted_version(text)
    assert found is None or (len(found) > 0 and all(number >= 0 for number in found))


# --- room on the disk -------------------------------------------------------------------------------------------------


def engine_at(root: Path, endpoint: str = "unix:///var/run/docker.sock") -> Engine:
    return find_engine(run=Docker(info(DockerRootDir=str(root)), endpoint=endpoint))


def usage(answers: dict[Path, int | OSError]) -> Callable[[Path], shutil._ntuple_diskusage]:
    def disk_usage(path: Path) -> shutil._ntuple_diskusage:
        answer = answers[path]
        if isinstance(answer, OSError):
            raise answer
        return shutil._ntuple_diskusage(10 * answer, 9 * answer, answer)

    return disk_usage


def test_the_smaller_of_the_engines_and_containerds_disks_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, beside = tmp_path / "docker", tmp_path / "containerd"
    (beside / "io.containerd.content.v1.content").mkdir(parents=True)
    assert data_folders(root) == [root, beside]
    monkeypatch.setattr(images_engine.shutil, "disk_usage", usage({root: 900, beside: 70}))
    assert free_bytes(engine_at(root)) == 70


def test_a_containerd_folder_without_images_is_not_the_engines(tmp_path: Path) -> None:
    (tmp_path / "containerd").mkdir()
    assert data_folders(tmp_path / "docker") == [tmp_path / "docker"]


def test_an_engine_on_another_machine_has_no_disk_to_measure(tmp_path: Path) -> None:
    assert free_bytes(engine_at(tmp_path, endpoint="ssh://builder")) is None


def test_a_folder_closed_to_this_user_is_measured_by_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "docker"
    monkeypatch.setattr(images_engine.shutil, "disk_usage", usage({root: PermissionError(13, "closed"), tmp_path: 40}))
    assert free_bytes(engine_at(root)) == 40


def test_a_folder_that_is_not_on_this_machine_is_unknown(tmp_path: Path) -> None:
    assert free_bytes(engine_at(tmp_path / "inside-a-virtual-machine")) is None


# --- starting one, and the bridge -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"ASCEND_IMAGES_STATE": "/s", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/s"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/ascend-images"),
        ({"HOME": "/h"}, "/h/.local/state/ascend-images"),
        ({"ASCEND_IMAGES_STATE": "", "XDG_STATE_HOME": "", "HOME": "/h"}, "/h/.local/state/ascend-images"),
    ],
)
def test_state_lies_where_the_nearest_setting_says(environment: dict[str, str], wanted: str) -> None:
    assert state_dir(environment) == Path(wanted)


def test_a_user_without_a_home_names_a_folder() -> None:
    with pytest.raises(MissingTool, match="no home folder") as error:
        state_dir({"HOME": ""})
    assert "ASCEND_IMAGES_STATE" in error.value.do


def test_a_relative_state_folder_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert state_dir({"ASCEND_IMAGES_STATE": "here"}) == tmp_path / "here"


def test_starting_runs_the_shipped_script_and_checks_what_answers() -> None:
    calls: list[list[str]] = []
    engine = start_engine(call=lambda command: calls.append(list(command)) or 0, run=Docker(info()))
    assert calls == [[str(sandbox_engine.SCRIPT), "start"]]
    assert os.access(sandbox_engine.SCRIPT, os.X_OK)
    assert engine.version == "26.1.5+dfsg1"


def test_a_start_that_fails_is_a_missing_engine() -> None:
    with pytest.raises(MissingTool, match="ended with 3"):
        start_engine(call=lambda _command: 3, run=Docker(info()))


def test_an_old_engine_that_answers_after_the_start_is_still_refused() -> None:
    with pytest.raises(MissingTool, match="too old"):
        start_engine(call=lambda _command: 0, run=Docker(info(ServerVersion="24.0.7")))


def test_stopping_runs_the_shipped_script_and_reports_its_failure() -> None:
    calls: list[list[str]] = []
    stop_engine(call=lambda command: calls.append(list(command)) or 0)
    assert calls == [[str(sandbox_engine.SCRIPT), "stop"]]
    with pytest.raises(MissingTool, match="ended with 1"):
        stop_engine(call=lambda _command: 1)


@pytest.mark.parametrize(
    ("configs", "gateway"),
    [
        ([{"Subnet": "172.17.0.0/16", "Gateway": "172.17.0.1"}], "172.17.0.1"),
        ([{"Subnet": "10.5.0.0/24", "Gateway": "10.5.0.254"}], "10.5.0.254"),
        ([{"Subnet": "172.18.0.0/16"}], "172.18.0.1"),
        ([{"Subnet": "fd00::/64", "Gateway": "fd00::1"}, {"Subnet": "172.17.0.0/16", "Gateway": ""}], "172.17.0.1"),
    ],
)
def test_run_steps_reach_this_machine_at_the_bridges_ipv4_gateway(configs: list[dict[str, str]], gateway: str) -> None:
    calls: list[list[str]] = []

    def run(command: Sequence[str]) -> Answer:
        calls.append(list(command))
        return Answer(0, json.dumps(configs), "")

    assert str(bridge_gateway(run=run)) == gateway
    assert calls[0][:4] == ["docker", "network", "inspect", "bridge"]


@pytest.mark.parametrize(
    "answer",
    [
        Answer(1, "", "Error: No such network: bridge"),
        Answer(0, "null", ""),
        Answer(0, "not json", ""),
        Answer(0, '[{"Subnet": "fd00::/64"}]', ""),
    ],
)
def test_an_engine_without_an_ipv4_bridge_is_reported(answer: Answer) -> None:
    with pytest.raises(MissingTool, match="no default bridge"):
        bridge_gateway(run=lambda _command: answer)


# --- the registry -----------------------------------------------------------------------------------------------------


class Machine:
    """A machine on which the registry is a fake process, seen through a folder in place of /proc."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, proc: Path) -> None:
        self.proc = proc
        self.proc.mkdir()
        (self.proc / "self").mkdir()
        self.spawned: list[tuple[str, list[str], dict[str, str]]] = []
        self.killed: list[tuple[int, int]] = []
        self.comes_up = True
        self.taken: set[int] = set()
        self.says = ""
        pid = Registry.pid
        monkeypatch.setattr(Registry, "pid", lambda registry: pid(registry, self.proc))
        monkeypatch.setattr(sandbox_registry, "answers", self.answers)
        monkeypatch.setattr(sandbox_registry, "free_port", self.free_port)
        monkeypatch.setattr(sandbox_registry, "find_program", lambda _folder: Path("/usr/bin/docker-registry"))
        monkeypatch.setattr(sandbox_registry.os, "posix_spawn", self.spawn)
        monkeypatch.setattr(sandbox_registry.os, "kill", self.kill)
        monkeypatch.setattr(sandbox_registry, "_has_ended", lambda pid: str(pid) not in self.processes())
        monkeypatch.setattr(sandbox_registry.time, "sleep", lambda _seconds: None)

    def processes(self) -> list[str]:
        return sorted(entry.name for entry in self.proc.iterdir() if entry.name != "self")

    def answers(self, _port: int) -> bool:
        return bool(self.processes()) and self.comes_up

    def free_port(self, wished: int | None) -> int:
        ports = ([wished] if wished else []) + list(range(5055, 5060))
        return next(port for port in ports if port not in self.taken)

    def run_process(self, pid: int, arguments: list[str]) -> None:
        (self.proc / str(pid)).mkdir()
        (self.proc / str(pid) / "cmdline").write_bytes(b"".join(part.encode() + b"\0" for part in arguments))

    def spawn(self, program: Path, arguments: list[str], environment: dict[str, str], **options: Any) -> int:
        assert options["setsid"] is True
        log = next(
            action[2] for action in options["file_actions"] if action[0] == os.POSIX_SPAWN_OPEN and action[1] == 1
        )
        Path(log).write_text(self.says)
        self.spawned.append((str(program), arguments, environment))
        if not self.says:
            self.run_process(4000, arguments)
        return 4000

    def kill(self, pid: int, number: int) -> None:
        self.killed.append((pid, number))
        shutil.rmtree(self.proc / str(pid))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path / "proc")


def test_the_registry_starts_once_and_is_found_again(machine: Machine, tmp_path: Path) -> None:
    registry = Registry(tmp_path / "registry")
    assert registry.start() == "127.0.0.1:5055"
    assert registry.start() == registry.address == Registry(tmp_path / "registry").start() == "127.0.0.1:5055"
    assert [arguments for _program, arguments, _environment in machine.spawned] == [
        ["/usr/bin/docker-registry", "serve", str(tmp_path / "registry" / "config.yml")]
    ]


def test_the_registry_keeps_its_port_over_a_stop(machine: Machine, tmp_path: Path) -> None:
    registry = Registry(tmp_path / "registry")
    registry.start()
    assert registry.stop() is True
    machine.taken = {5056}
    (tmp_path / "registry" / "port").write_text("5057\n")
    assert registry.start() == "127.0.0.1:5057"
    assert "127.0.0.1:5057" in registry.config.read_text()


def test_a_port_taken_by_somebody_else_is_given_up(machine: Machine, tmp_path: Path) -> None:
    registry = Registry(tmp_path / "registry")
    registry.start()
    registry.stop()
    machine.taken = {5055}
    assert registry.start() == "127.0.0.1:5056"
    assert registry.port == 5056


def test_stopping_ends_only_the_process_that_serves_our_configuration(machine: Machine, tmp_path: Path) -> None:
    registry = Registry(tmp_path / "registry")
    registry.start()
    machine.run_process(5000, ["/usr/bin/docker-registry", "serve", "/etc/docker/registry/config.yml"])
    machine.run_process(5001, ["/usr/bin/vim", str(registry.config)])
    assert registry.stop() is True
    assert machine.killed == [(4000, 15)]
    assert machine.processes() == ["5000", "5001"]
    assert registry.stop() is False


def test_stopping_what_never_ran_makes_nothing(machine: Machine, tmp_path: Path) -> None:
    assert Registry(tmp_path / "registry").stop() is False
    assert not (tmp_path / "registry").exists()
    assert machine.killed == []


def test_the_address_of_a_registry_that_does_not_run_is_refused(machine: Machine, tmp_path: Path) -> None:
    registry = Registry(tmp_path / "registry")
    with pytest.raises(MissingTool, match="does not run"):
        registry.address  # noqa: B018
    registry.start()
    machine.comes_up = False
    with pytest.raises(MissingTool, match="does not run"):
        registry.address  # noqa: B018


def test_a_registry_that_ends_at_once_shows_its_last_lines(machine: Machine, tmp_path: Path) -> None:
    machine.says = "line 1\nconfiguration error: no such driver\n"
    with pytest.raises(MissingTool, match="configuration error: no such driver"):
        Registry(tmp_path / "registry").start()


def test_a_registry_that_runs_and_never_answers_is_stopped_again(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.comes_up = False
    clock = iter(range(0, 10_000, 15))
    monkeypatch.setattr(sandbox_registry.time, "monotonic", lambda: next(clock))
    with pytest.raises(MissingTool, match=r"did not come up on 127\.0\.0\.1:5055"):
        Registry(tmp_path / "registry").start()
    assert machine.processes() == []


def test_the_registrys_settings_cannot_be_overridden_by_the_callers_environment(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY_HTTP_ADDR", "0.0.0.0:80")
    Registry(tmp_path / "registry").start()
    environment = machine.spawned[0][2]
    assert "REGISTRY_HTTP_ADDR" not in environment
    assert environment["PATH"] == os.environ["PATH"]
    assert clean_environment({"REGISTRY_X": "1", "MY_REGISTRY_X": "2"}) == {"MY_REGISTRY_X": "2"}


def test_the_configuration_serves_loopback_only_and_allows_deleting() -> None:
    assert config_text(Path('/a "b"/data'), 5055) == (
        "version: 0.1\n"
        'storage: {filesystem: {rootdirectory: "/a \\"b\\"/data"}, delete: {enabled: true}}\n'
        "http: {addr: '127.0.0.1:5055'}\n"
        "log: {level: warn, accesslog: {disabled: true}}\n"
    )


def test_the_wished_port_comes_first_then_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: set[int] = {5055, 6000}

    class Probe:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_args: object) -> None: ...

        def setsockopt(self, *_args: object) -> None: ...

        def bind(self, address: tuple[str, int]) -> None:
            assert address[0] == "127.0.0.1"
            if address[1] in taken:
                raise OSError(98, "Address already in use")

    monkeypatch.setattr(sandbox_registry.socket, "socket", Probe)
    assert free_port(7000) == 7000
    assert free_port(6000) == free_port(None) == 5056
    taken |= set(sandbox_registry._PORTS)
    with pytest.raises(MissingTool, match="no free port"):
        free_port(None)


def test_the_program_on_path_is_used_before_any_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "docker-registry"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    assert find_program(tmp_path) == program


def test_without_program_and_apt_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(MissingTool, match="no docker-registry on PATH, and no apt"):
        find_program(tmp_path)


class Apt:
    """An apt-get and a dpkg-deb for a machine whose package lists may never have been read."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, lists: bool, root: bool = True, unpacks: bool = True
    ) -> None:
        self.lists, self.unpacks = lists, unpacks
        self.calls: list[list[str]] = []
        names = {"apt-get": "/usr/bin/apt-get", "dpkg-deb": "/usr/bin/dpkg-deb"}
        monkeypatch.setattr(sandbox_registry.shutil, "which", names.get)
        monkeypatch.setattr(sandbox_registry.os, "geteuid", lambda: 0 if root else 1000)
        monkeypatch.setattr(sandbox_registry.subprocess, "run", self.run)

    def run(self, command: list[str], *, cwd: Path, **_options: object) -> Any:
        self.calls.append(command[:2])
        code, out = 0, ""
        if command[1] == "update":
            self.lists = True
        elif command[1] == "download":
            code, out = (0, "") if self.lists else (100, "E: Unable to locate package docker-registry\n")
            if self.lists:
                (cwd / "docker-registry_2.8.2_amd64.deb").touch()
        elif self.unpacks:
            (Path(command[-1]) / "usr" / "bin").mkdir(parents=True)
            (Path(command[-1]) / "usr" / "bin" / "docker-registry").touch()
        else:
            code, out = 2, "dpkg-deb: error: not a Debian format archive\n"
        return sandbox_registry.subprocess.CompletedProcess(command, code, out)


def test_the_package_is_unpacked_once_and_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apt = Apt(monkeypatch, lists=True)
    program = find_program(tmp_path)
    assert program == tmp_path / "package" / "usr" / "bin" / "docker-registry"
    assert program.exists()
    assert find_program(tmp_path) == program
    assert apt.calls == [["apt-get", "download"], ["dpkg-deb", "--extract"]]
    assert [entry.name for entry in tmp_path.iterdir()] == ["package"]


def test_package_lists_never_read_are_read_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apt = Apt(monkeypatch, lists=False)
    assert find_program(tmp_path).exists()
    assert [call[1] for call in apt.calls] == ["download", "update", "download", "--extract"]


def test_a_package_that_cannot_be_fetched_or_unpacked_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Apt(monkeypatch, lists=False, root=False)
    with pytest.raises(MissingTool, match="Unable to locate package docker-registry"):
        find_program(tmp_path)
    Apt(monkeypatch, lists=True, unpacks=False)
    with pytest.raises(MissingTool, match="not a Debian format archive"):
        find_program(tmp_path)
    assert list(tmp_path.iterdir()) == []
