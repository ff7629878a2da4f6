"""The doctor as it is typed: engine, disk, emulation, certificates, the host's lines, and how it ends."""

import json
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ascend_images import doctoring
from ascend_images.doctoring import Report, as_text, diagnose, question_for, require_sound
from ascend_images.errors import BadInput, MissingTool
from ascend_images.host.doctor import Line, Question, State, User
from ascend_images.host.facts import EngineFacts, HostFacts
from ascend_images.images.builder import find_builder
from ascend_images.images.cost import cost_of
from ascend_images.images.engine import Answer, find_engine
from ascend_images.images.plan import Choices, Rendered, make_plan
from ascend_images.pins.lockfile import file_name
from ascend_images.pins.platform import Arch
from ascend_images.pins.report import as_json
from ascend_images.pins.resolve import resolve
from tests.host_kit import container, engine, host, nodes
from tests.pins_kit import committed
from tests.unit.images.conftest import lock_of

ROOT = Path(__file__).parents[3]
PINS = committed()
A2 = resolve(PINS, "a2")

INFO: dict[str, Any] = {
    "ServerVersion": "26.1.5",
    "Driver": "overlayfs",
    "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]],
    "DockerRootDir": "/var/lib/docker",
    "Architecture": "x86_64",
    "ClientInfo": {"Context": "default", "Plugins": [{"Name": "buildx", "Version": "0.13.1"}]},
}
BUILDER = "Name: default\nDriver: docker\nPlatforms: linux/amd64, linux/arm64\n"


def docker(
    info: dict[str, Any] | None = None, builder: str = BUILDER, endpoint: str = "unix:///run/docker.sock"
) -> Any:
    """A docker client: no engine behind it where there is no info."""

    def run(command: Sequence[str]) -> Answer:
        words = " ".join(command)
        if words.startswith("docker info"):
            return Answer(0, json.dumps(info), "") if info else Answer(1, "{}", "Cannot connect to the Docker daemon")
        if words.startswith("docker context inspect"):
            return Answer(0, f"{endpoint}\n", "")
        if words.startswith("docker image inspect"):
            return Answer(1, "", "No such image")
        assert words.startswith("docker buildx inspect"), words
        return Answer(0, builder, "") if builder else Answer(1, "", "ERROR: no builder")

    return run


class Machine:
    """This machine as a test wants it: its host, the containers of its engine, its free disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host = HostFacts(machine="x86_64")
        self.crowd: EngineFacts | None = engine()
        self.free: int | None = 77 * 10**9
        monkeypatch.setattr(doctoring.gather, "local", lambda root: self.host)
        monkeypatch.setattr(doctoring, "connect", lambda: None)
        monkeypatch.setattr(doctoring, "engine_facts", self.engine_facts)
        monkeypatch.setattr(doctoring, "free_bytes", lambda _: self.free)

    def engine_facts(self, _: object) -> EngineFacts:
        if self.crowd is None:
            raise MissingTool("the Docker Engine did not say", wanted="one that does", do="docker ps")
        return self.crowd


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def found(run: Any, environment: dict[str, str] | None = None, **asked: Any) -> dict[str, Line]:
    report = diagnose(Question(pins=PINS, **asked), environment=environment or {}, run=run)
    return {line.subject: line for line in report.lines}


def test_a_machine_that_only_builds_is_sound(machine: Machine, golden: Callable[[str, str], None]) -> None:
    report = diagnose(Question(pins=PINS), environment={}, run=docker(INFO))
    require_sound(report)
    golden("doctor/build-machine.txt", as_text(report) + "\n")


def test_a_host_with_a_problem_of_each_kind(machine: Machine, golden: Callable[[str, str], None]) -> None:
    machine.host = host(
        nodes=nodes(3, 5, 6, managers=("davinci_manager", "hisi_hdc")),
        driver={"package_version": "24.1.rc3", "compatible_version_fw": "[7.0.0,7.6.9]"},
    )
    machine.crowd = engine(container("other", 3))
    question = Question(pins=PINS, variant=resolve(PINS, "a3"), devices=(3,), user=User(2000, 2000, (2000,)))
    old = {**INFO, "ServerVersion": "20.10.24", "DriverStatus": [], "ClientInfo": {"Context": "default"}}
    machine.free = 10**9
    report = diagnose(question, environment={"GIT_SSL_NO_VERIFY": "1", "SSL_CERT_DIR": "/nowhere"}, run=docker(old))
    golden("doctor/problems.txt", as_text(report) + "\n")
    golden("doctor/problems.json", as_json(report) + "\n")
    with pytest.raises(
        MissingTool, match="problems: engine, buildx, image store, disk, TLS, CA bundle, NPU nodes"
    ) as e:
        require_sound(report)
    assert e.value.exit_code == 3


def test_one_problem_is_one_problem() -> None:
    report = Report(lines=(Line(State.PROBLEM, "engine", "none"), Line(State.UNKNOWN, "disk", "?")))
    with pytest.raises(MissingTool, match=r"^1 problem: engine\n") as error:
        require_sound(report)
    assert error.value.do.endswith("invoke doctor again")


@pytest.mark.parametrize("root", ["/nope", __file__])
def test_a_host_that_is_no_folder_is_refused(machine: Machine, root: str) -> None:
    with pytest.raises(BadInput, match=f"--host-root {root}: there is no such folder"):
        diagnose(Question(pins=PINS), root=root, environment={}, run=docker(INFO))


def test_without_an_engine_the_rest_is_examined_all_the_same(machine: Machine) -> None:
    machine.host = host()
    lines = found(docker(None), variant=A2)
    assert (lines["engine"].state, lines["engine"].next) == (State.PROBLEM, "scripts/engine.sh start")
    assert lines["driver"].state is State.OK
    assert lines["in use"].state is State.UNKNOWN
    assert "disk" not in lines


@pytest.mark.parametrize(
    ("change", "subject"),
    [
        ({"ServerVersion": "25.0.1"}, "engine"),
        ({"ServerVersion": "dev"}, "engine"),
        ({"ClientInfo": {"Context": "default", "Plugins": [{"Name": "buildx", "Version": "v0.12.0"}]}}, "buildx"),
        ({"ClientInfo": {}}, "buildx"),
        ({"DriverStatus": [["Backing Filesystem", "extfs"]]}, "image store"),
    ],
)
def test_what_cannot_build_is_a_problem_of_its_own(machine: Machine, change: dict[str, Any], subject: str) -> None:
    lines = found(docker({**INFO, **change}))
    assert [line.subject for line in lines.values() if line.state is State.PROBLEM] == [subject]
    assert lines[subject].wanted
    assert lines[subject].next


@pytest.mark.parametrize(("free", "state"), [(77, "ok"), (20, "unknown"), (1, "problem"), (None, "unknown")])
def test_disk(machine: Machine, free: int | None, state: str) -> None:
    machine.free = None if free is None else free * 10**9
    assert found(docker(INFO))["disk"].state == state


def test_the_doctor_and_a_build_have_one_estimate(machine: Machine, tmp_path: Path) -> None:
    """So that no machine is told that it can build what is refused there."""
    run, lock = docker(INFO), lock_of(A2, Arch.AMD64)
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / file_name("a2", Arch.AMD64)).write_text(str(lock))
    nothing = Rendered(file=tmp_path, text="", image={})
    plan = make_plan(A2, Arch.AMD64, root=tmp_path, rendered=nothing, choices=Choices())
    costs = cost_of([plan], [lock], engine=find_engine(run=run), builder=find_builder(run=run), at_once=1, run=run)
    for free, state in ((costs.disk, State.OK), (costs.disk - 1, State.UNKNOWN)):
        machine.free = free
        question = Question(pins=PINS, variant=A2)
        report = diagnose(question, project=tmp_path, environment={}, run=run)
        (line,) = (line for line in report.lines if line.subject == "disk")
        assert line.state is state
    assert line.wanted.startswith(f"about {costs.disk / 10**9:.1f} GB to build a2")


def test_where_no_lock_tells_the_disk_is_held_against_any_image(machine: Machine, tmp_path: Path) -> None:
    machine.free = 20 * 10**9
    report = diagnose(Question(pins=PINS, variant=A2), project=tmp_path, environment={}, run=docker(INFO))
    assert "about 42.0 GB for a base image" in {line.subject: line for line in report.lines}["disk"].wanted


ARM_ONLY = msgspec.structs.replace(A2, platforms=(Arch.ARM64,))


@pytest.mark.parametrize(
    ("builder", "variant", "state"),
    [
        (BUILDER, None, "ok"),
        ("Driver: docker\nPlatforms: linux/amd64\n", None, "not here"),
        ("Driver: docker\nPlatforms: linux/amd64\n", A2, "not here"),
        ("Driver: docker\nPlatforms: linux/amd64\n", ARM_ONLY, "problem"),
    ],
)
def test_emulation_is_needed_where_a_variant_has_nothing_else(
    machine: Machine, builder: str, variant: Any, state: str
) -> None:
    assert found(docker(INFO, builder), variant=variant)["emulation of aarch64"].state == state


def test_a_builder_that_cannot_be_asked_is_unknown(machine: Machine) -> None:
    line = found(docker(INFO, ""))["emulation"]
    assert (line.state, "no builder" in line.found) == (State.UNKNOWN, True)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "is not mounted"),
        ({"status": "enabled\n"}, "no "),
        ({"qemu-aarch64": "disabled\ninterpreter /x\nflags: OCF\n"}, "is not enabled"),
        ({"qemu-aarch64": "enabled\ninterpreter /x\nflags: OC\noffset 0\n"}, "lacks flag F"),
        ({"qemu-aarch64": "enabled\ninterpreter /x\nflags:\n"}, "lacks flag F"),
        ({"qemu-aarch64": ""}, "is not enabled"),
        ({"qemu-aarch64": "enabled\ninterpreter /x\nflags: OCF\noffset 0\n"}, "does not know of it"),
    ],
)
def test_what_the_kernel_knows_of_an_emulator(tmp_path: Path, files: dict[str, str], said: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert said in doctoring._binfmt(Arch.ARM64, tmp_path)


def test_an_engine_elsewhere_has_npus_that_are_not_looked_at(machine: Machine) -> None:
    machine.host = host()
    lines = found(docker(INFO, "Driver: docker\nPlatforms: linux/amd64\n", "ssh://me@atlas"))
    assert (lines["NPU"].state, "ssh://me@atlas" in lines["NPU"].found) == (State.UNKNOWN, True)
    assert "the builder default does not build" in lines["emulation of aarch64"].found
    assert "driver" not in lines


def test_an_engine_that_does_not_say_what_runs_is_a_problem(machine: Machine) -> None:
    machine.host, machine.crowd = host(), None
    lines = found(docker(INFO))
    assert (lines["containers"].state, lines["in use"].state) == (State.PROBLEM, State.UNKNOWN)


def test_certificates_are_read(machine: Machine, tmp_path: Path) -> None:
    system = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
    if not Path(system).is_file():
        pytest.skip("no certificates on this machine")
    line = found(docker(INFO), {"SSL_CERT_FILE": system, "PIP_CERT": system, "SSL_CERT_DIR": str(tmp_path)})[
        "CA bundle"
    ]
    assert line.found == f"{system} (SSL_CERT_FILE, PIP_CERT); builds take one by --ca-bundle"
    assert "engine" in line.next


@pytest.mark.parametrize(
    "name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT"]
)
@pytest.mark.parametrize("content", [None, "", "no certificate", "-----BEGIN PRIVATE KEY-----"])
def test_a_named_bundle_that_is_none_is_a_problem(
    machine: Machine, tmp_path: Path, name: str, content: str | None
) -> None:
    path = tmp_path / "corp.pem"
    if content is not None:
        path.write_text(content)
    line = found(docker(INFO), {name: str(path)})["CA bundle"]
    assert (line.state, line.found.startswith(f"{name}: ")) == (State.PROBLEM, True)


def test_a_question_as_it_is_typed() -> None:
    question = question_for(ROOT, ("300i-duo",), "0-2,4")
    assert question.variant
    assert (question.variant.name, question.devices) == ("310p", (0, 1, 2, 4))
    assert question.user is not None
    assert question_for(ROOT).variant is None


@pytest.mark.parametrize(("names", "devices"), [(("a2", "a3"), ""), (("a22",), ""), ((), "x"), ((), "none")])
def test_a_question_that_cannot_be_meant_is_refused(names: tuple[str, ...], devices: str) -> None:
    with pytest.raises(BadInput):
        question_for(ROOT, names, devices)


@pytest.mark.parametrize("devices", ["x", "all", "none"])
def test_the_doctor_takes_numbers_alone(devices: str) -> None:
    with pytest.raises(BadInput, match=f"--devices {devices}") as error:
        question_for(ROOT, (), devices)
    assert "all" not in error.value.wanted
    assert "without --devices" in error.value.do


def test_the_containers_are_asked_of_the_engine_that_docker_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    api = SimpleNamespace(info=dict, containers=list)
    monkeypatch.setattr(doctoring, "connect", lambda: SimpleNamespace(api=api))
    assert doctoring._containers() == (EngineFacts(), ())


def test_an_engine_that_cannot_be_reached_is_named_by_what_the_doctor_can_be_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def connect() -> None:
        raise MissingTool("no Docker Engine answers", wanted="one", do="name another engine: --host ssh://user@machine")

    monkeypatch.setattr(doctoring, "connect", connect)
    known, (line,) = doctoring._containers()
    assert (known, line.state, line.next) == (None, State.PROBLEM, "docker version, or set DOCKER_HOST")
