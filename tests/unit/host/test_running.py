"""From the words of `invoke run` to a container or a text, with an engine and a host that are plain objects."""

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, ImageNotFound, NotFound

from ascend_images import cli, running
from ascend_images.errors import BadInput, MissingTool
from ascend_images.host.facts import EngineFacts, HostFacts, Output
from ascend_images.pins.resolve import resolve
from ascend_images.running import Wishes, run
from tests.pins_kit import committed, committed_in
from tests.run_kit import PASSWD, engine, host

ROOT = Path(__file__).parents[3]
A2 = resolve(committed(), "a2")


def archive(text: str) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        member = tarfile.TarInfo("passwd")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text.encode()))
    return data.getvalue()


class Engine:
    """A Docker Engine that has one image, or none, and says what was asked of it."""

    def __init__(self, passwd: str | None = PASSWD, has_image: bool = True, arch: str = "x86_64", **more: Any) -> None:
        self.passwd, self.has_image, self.arch, self.config = passwd, has_image, arch, more
        self.lacks = ""
        self.removed = 0
        self.images = SimpleNamespace(get=self.get)
        self.containers = SimpleNamespace(create=self.create)

    def info(self) -> dict[str, str]:
        return {"Architecture": self.arch}

    def get(self, name: str) -> Any:
        if not self.has_image or (self.lacks and name.endswith(self.lacks)):
            raise ImageNotFound(name)
        return SimpleNamespace(attrs={"Config": self.config, "Architecture": "amd64"})

    def create(self, name: str, command: list[str]) -> Any:
        return SimpleNamespace(get_archive=self.get_archive, remove=self.remove)

    def get_archive(self, path: str) -> tuple[list[bytes], dict[str, str]]:
        if self.passwd is None:
            raise NotFound("no such file")
        return [archive(self.passwd)], {}

    def remove(self, **_: Any) -> None:
        self.removed += 1


class Machine:
    """What the glue finds around itself; `said` are its notes, `started` what it would have run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.root = committed_in(root)
        self.client: Engine | None = Engine()
        self.is_local = True
        self.host: HostFacts = host(2)
        self.engine: EngineFacts = engine()
        self.said: list[str] = []
        self.started: list[list[str]] = []
        self.roots: list[str] = []
        monkeypatch.setattr(running, "connect", self.connect)
        monkeypatch.setattr(running, "is_local", lambda _: self.is_local)
        monkeypatch.setattr(running, "local", self.local)
        monkeypatch.setattr(running, "remote", lambda client, image: self.host)
        monkeypatch.setattr(running, "engine_facts", lambda _: self.engine)

    def connect(self) -> Engine:
        if self.client is None:
            raise MissingTool("no Docker Engine answers")
        return self.client

    def local(self, root: str) -> HostFacts:
        self.roots.append(root)
        return self.host

    def run(self, **words: Any) -> str:
        wishes = Wishes(**{"variants": ("a2",), **words})
        return run(self.root, wishes, say=self.said.append, execute=lambda _, words: self.started.append(words))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path)


def test_the_container_is_started_with_the_words_as_typed(machine: Machine) -> None:
    assert machine.run(command=("python", "-c", 'print("a b")')) == ""
    (words,) = machine.started
    assert words[:3] == ["docker", "run", "--rm"]
    assert words[-4].startswith(f"{A2.repository}:")
    assert words[-4].endswith("-910b-ubuntu22.04-py3.12-x86_64")
    assert words[-3:] == ["python", "-c", 'print("a b")']


def test_printing_starts_nothing(machine: Machine) -> None:
    text = machine.run(show=True)
    assert text.startswith("docker run --rm \\\n  --device /dev/davinci0 \\\n  --device ")
    assert text.endswith("-x86_64\n")
    assert machine.run(form="compose").startswith("services:\n  a2:\n")
    assert machine.run(form="k8s").startswith('apiVersion: "v1"\nkind: "Pod"\n')
    assert machine.started == []


def test_the_image_is_of_the_engines_architecture(machine: Machine) -> None:
    machine.client = Engine(arch="aarch64", has_image=False)
    assert "-py3.12-aarch64" in machine.run(show=True)
    assert 'kubernetes.io/arch": "arm64"' in machine.run(form="k8s")


def test_images_of_stand_ins_and_of_changed_pins_have_names_of_their_own(machine: Machine) -> None:
    assert "-py3.12-sandbox-x86_64\n" in machine.run(sandbox=True, show=True)
    assert "-py3.12-changed-x86_64\n" in machine.run(sets=("packages.numpy=1.26.3",), show=True)


def test_an_image_that_was_pulled_by_its_published_tag_is_found(machine: Machine) -> None:
    """What is published has no architecture in its name."""
    assert machine.client is not None
    machine.client.lacks = "-x86_64"
    machine.run(command=("true",))
    assert machine.started[0][-2] == f"{A2.repository}:{A2.tag}"
    assert "-py3.12-sandbox\n" in machine.run(sandbox=True, show=True)


def test_an_image_by_name_is_taken_with_what_its_labels_say(machine: Machine) -> None:
    machine.client = Engine(Labels={"io.ascend-images.chip": "a3"})
    machine.host = host(4)
    assert " /dev/davinci1 " in machine.run(variants=(), image="demo:1", show=True)
    assert machine.said == ["note: the chip family of this host is unknown; A3 is assumed, which the image is for"]
    assert machine.client.removed == 0


@pytest.mark.parametrize("words", [{"variants": ()}, {"variants": ("a3",)}])
def test_an_image_for_other_chips_is_refused_by_its_tag(machine: Machine, words: dict[str, Any]) -> None:
    board = Output(code=0, text="Chip Name : Ascend910\nNPU Name : 9392\n")
    machine.host = host(2, boards={"0": board}, npu_smi="/usr/local/bin/npu-smi")
    image = "quay.io/ascend/cann:9.1.0-910b-ubuntu22.04-py3.12"
    with pytest.raises(BadInput, match=f"{image} is for A2, and the chips of this host are A3"):
        machine.run(image=image, show=True, **words)
    assert machine.run(image=image, show=True, devices="none", **words)
    assert machine.run(image=image.replace("910b", "a3"), show=True, **words)


def test_an_image_whose_chip_nothing_tells_is_said_to_be_so(machine: Machine) -> None:
    machine.run(variants=(), image="demo:1", show=True)
    assert "note: for which chips demo:1 is, is unknown" in machine.said[0]
    machine.said.clear()
    machine.run(variants=(), image="demo:1", show=True, devices="none")
    assert machine.said == []


@pytest.mark.parametrize(
    ("words", "build"),
    [
        ({}, "invoke build --variant a2"),
        ({"sandbox": True}, "invoke build --variant a2 --sandbox"),
        ({"sets": ("packages.numpy=1.26.3",)}, "invoke build --variant a2 --set packages.numpy=1.26.3"),
    ],
)
def test_an_image_that_was_not_built_is_not_started(machine: Machine, words: dict[str, Any], build: str) -> None:
    machine.client = Engine(has_image=False)
    with pytest.raises(MissingTool, match="-x86_64 is not built here") as error:
        machine.run(**words)
    assert (error.value.do, machine.started) == (build, [])
    assert machine.run(show=True, **words)
    assert machine.said[0].endswith(f" is not built here: {build}")


def test_an_image_by_name_that_is_not_here_is_left_to_docker(machine: Machine) -> None:
    machine.client = Engine(has_image=False)
    machine.run(image="demo:1")
    assert machine.said[0].startswith("note: demo:1 is not on this engine, so docker pulls it")
    assert machine.started[0][-1] == "demo:1"
    machine.said.clear()
    machine.run(image="demo:1", form="k8s")
    assert not any("not on this engine" in note for note in machine.said)


@pytest.mark.parametrize(
    ("words", "what"), [({"show": True}, "a docker command"), ({"form": "compose"}, "a Compose file")]
)
def test_a_text_with_a_hosts_nodes_is_made_of_that_host(machine: Machine, words: dict[str, Any], what: str) -> None:
    machine.host = HostFacts()
    with pytest.raises(MissingTool, match=f"no NPU .* {what} names the device nodes") as error:
        machine.run(**words)
    assert "--format k8s" in error.value.wanted
    assert "--devices none" in error.value.do
    assert machine.run(devices="none", **words)
    assert machine.run(form="k8s")


def test_ports_are_opened_in_every_form(machine: Machine) -> None:
    assert "  --publish 80:8000 \\\n" in machine.run(ports=("80:8000",), show=True)
    assert '    ports:\n      - "80:8000"\n' in machine.run(ports=("80:8000",), form="compose")
    assert "ports:\n        - containerPort: 8000\n" in machine.run(ports=("80:8000",), form="k8s")


def test_an_image_by_name_and_a_variant_go_together(machine: Machine) -> None:
    assert " demo:1\n" in machine.run(image="demo:1", show=True)


@pytest.mark.parametrize("words", [{"variants": ()}, {"variants": ("a2", "a3")}, {"variants": ("a22",)}])
def test_one_variant_or_an_image_is_named(machine: Machine, words: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        machine.run(**words)


@pytest.mark.parametrize(
    "words",
    [
        {"form": "podman"},
        {"resource": "huawei.com/npu"},
        {"image": "UPPER:1"},
        {"mounts": ("data:/data",)},
        {"mounts": ("/no/such/folder:/data",)},
        {"workspace": "/no/such/folder"},
        {"env": ("A",)},
        {"groups": ("users",)},
        {"devices": "x"},
        {"host_root": "/no/such/host"},
        {"ports": ("80:x",)},
        {"ports": ("80",), "network": "host"},
        {"devices": "7"},
        {"shm_size": "much"},
        {"user": "somebody"},
        {"sets": ("nonsense",)},
    ],
)
def test_options_that_cannot_be_meant_are_refused(machine: Machine, words: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        machine.run(**words)
    assert machine.started == []


def test_a_variant_for_other_chips_is_refused_with_its_sibling(machine: Machine) -> None:
    board = Output(code=0, text="Chip Name : Ascend910\nNPU Name : 9392\n")
    machine.host = host(2, boards={"0": board}, npu_smi="/usr/local/bin/npu-smi")
    with pytest.raises(BadInput, match="is for A2, and the chips of this host are A3") as error:
        machine.run()
    assert error.value.do == "invoke run --variant a3"


def test_a_driver_that_does_not_go_with_the_release_is_told(machine: Machine) -> None:
    machine.host = host(2, driver={"package_version": "23.0.3"})
    machine.run(show=True)
    assert any(note.startswith("note: driver 23.0.3: ") for note in machine.said)
    machine.said.clear()
    machine.run(show=True, devices="none")
    assert machine.said == []


# --- the image's user -------------------------------------------------------------------------------------------------


def test_the_images_passwd_is_read_by_a_container_that_is_removed(machine: Machine) -> None:
    with pytest.raises(BadInput, match="no entry for uid 1000"):
        machine.run(user="1000", devices="0,1")
    assert machine.client is not None
    assert machine.client.removed == 1
    machine.run(user="ann", devices="0,1")
    assert machine.started[0][machine.started[0].index("--group-add") + 1] == "1000"


def test_root_needs_no_passwd(machine: Machine) -> None:
    machine.run()
    assert machine.client is not None
    assert machine.client.removed == 0


def test_the_user_of_the_image_counts(machine: Machine) -> None:
    machine.client = Engine(User="65534:65534")
    with pytest.raises(BadInput, match="user 65534 has no read and write access"):
        machine.run()


def test_an_image_without_passwd_has_no_entries_and_a_missing_image_nobody_knows(machine: Machine) -> None:
    machine.client = Engine(passwd=None)
    with pytest.raises(BadInput, match="no entry for uid 1000"):
        machine.run(user="1000", devices="0,1")
    machine.client = Engine(has_image=False)
    machine.run(user="1000", devices="0,1", show=True)
    assert any("could not be seen" in note for note in machine.said)


def test_an_engine_that_makes_no_container_leaves_the_passwd_unknown(machine: Machine) -> None:
    assert machine.client is not None
    machine.client.containers.create = refuse
    machine.run(user="1000", devices="0,1")
    assert any("could not be seen" in note for note in machine.said)


def refuse(*_: Any) -> None:
    raise APIError("no")


# --- the machine ------------------------------------------------------------------------------------------------------


def test_without_an_engine_nothing_is_started_but_everything_printed(machine: Machine) -> None:
    machine.client = None
    with pytest.raises(MissingTool, match="no Docker Engine"):
        machine.run()
    assert machine.run(show=True)
    assert machine.said == [
        "note: no Docker Engine answers; which devices other containers hold could not be seen",
        "note: the chip family of this host is unknown; A2 is assumed, which the image is for",
    ]
    machine.said.clear()
    machine.host = HostFacts()
    assert machine.run(form="k8s", devices="0")
    assert not any("Engine" in note for note in machine.said)


def test_a_missing_docker_client_is_told(machine: Machine) -> None:
    def execute(*_: Any) -> None:
        raise FileNotFoundError

    with pytest.raises(MissingTool, match="no docker command"):
        run(ROOT, Wishes(variants=("a2",)), say=machine.said.append, execute=execute)


def test_the_folders_of_a_remote_engines_machine_are_not_looked_for_here(machine: Machine) -> None:
    machine.is_local = False
    assert "/no/such/folder" in machine.run(mounts=("/no/such/folder:/data",), workspace="/no/other", show=True)
    assert machine.roots == []
    assert "huawei.com" in machine.run(form="k8s")


def test_a_workspace_the_user_may_write_to_is_taken(machine: Machine, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert f"source={tmp_path},target=/mnt/workspace" in machine.run(workspace=str(tmp_path), show=True)
    with pytest.raises(BadInput, match="uid 54321 may not write"):
        machine.run(workspace=str(tmp_path), user="54321", show=True)


def test_the_host_is_looked_at_where_it_is_said_to_be(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    machine.run(show=True)
    machine.run(show=True, host_root="tests")
    machine.run(show=True, devices="none")
    assert machine.roots == ["/", f"{ROOT}/tests"]


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["invoke", "run"], ()),
        (["invoke", "run", "--"], ()),
        (["invoke", "run", "--", "a b", "", "--", "-c"], ("a b", "", "--", "-c")),
    ],
)
def test_the_words_after_the_dashes_stay_as_they_are(argv: list[str], words: tuple[str, ...]) -> None:
    assert cli.words_after_dashes(argv) == words


def test_the_words_are_those_of_this_process_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["invoke", "run", "--", "x y"])
    assert cli.words_after_dashes() == ("x y",)


def invoke(*words: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "DOCKER_HOST": "unix:///nowhere.sock"}
    command = [sys.executable, "-m", "invoke", "run", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, env=environment)


@pytest.mark.subprocess
def test_the_command_prints_what_was_typed_quotes_and_all() -> None:
    command = ("python", "-c", 'print("a b")', "--print", "")
    done = invoke("--variant", "a2", "--devices", "none", "--print", "--", *command)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"docker run --rm \\\n  {A2.repository}:")
    assert done.stdout.endswith(" python -c 'print(\"a b\")' --print ''\n")


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 2),
        (("--variant", "a2", "--format", "podman", "--print"), 2),
        (("--variant", "a2", "--devices", "none"), 3),
        (("--variant", "a2", "--print", "--host-root", "/no/such/host"), 2),
        (("--variant", "a2", "--print", "--devices", "x"), 2),
        (("--variant", "a2", "--print", "--publish", "x"), 2),
        (("--variant", "a2", "--print", "--host-root", str(ROOT / "tests")), 3),
    ],
)
def test_what_cannot_work_ends_in_its_code_without_a_traceback(words: tuple[str, ...], code: int) -> None:
    done = invoke(*words)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert "wanted:" in done.stderr
    assert "Traceback" not in done.stderr
