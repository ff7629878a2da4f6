"""Facts of a host: what is there is listed, what is missing or hangs is data, and a probe is always removed."""

import ast
import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.errors import MissingTool
from ascend_images.host import gather
from ascend_images.host.facts import HostFacts, Node, Output
from ascend_images.inside import host_facts
from ascend_images.program import write_program
from tests.host_kit import sample, stand_in, write, write_npu_smi

ANSWERS = {
    "info": (0, sample("a2-910b4")),
    "info -m": (0, sample("mapping-a2")),
    "info -t board -i 3 -c 0": (0, sample("board-a2")),
    "info -t board -i 5 -c 0": (0, sample("board-a2")),
    "info -t board -i 6 -c 0": (0, sample("board-a2")),
}


def facts_of(root: Path, **options: Any) -> HostFacts:
    return msgspec.convert(host_facts.gather(str(root), **options), HostFacts)


@pytest.mark.subprocess
def test_a_whole_host_is_read(tmp_path: Path) -> None:
    write_npu_smi(stand_in(tmp_path, (0, 10, 2)), ANSWERS)
    facts = gather.local(str(tmp_path))
    mine = (os.getuid(), os.getgid())
    names = ["davinci0", "davinci2", "davinci10", "davinci_manager", "devmm_svm", "hisi_hdc"]
    assert facts.nodes == tuple(Node(f"/dev/{name}", 0o660, *mine) for name in names)
    assert facts.root == str(tmp_path)
    assert facts.machine == os.uname().machine
    assert facts.paths == {
        "/etc/ascend_install.info": "file",
        "/usr/local/Ascend/driver": "dir",
        "/usr/local/Ascend/driver/lib64": "dir",
        "/usr/local/Ascend/driver/version.info": "file",
        "/usr/local/Ascend/firmware": "dir",
        "/usr/local/Ascend/firmware/version.info": "file",
        "/usr/local/bin/npu-smi": "file",
        "/usr/local/dcmi": "dir",
    }
    assert facts.driver == {
        "version": "26.0.rc1",
        "package_version": "26.1.0",
        "compatible_version_fw": "[7.0.0,8.9.9]",
    }
    assert facts.firmware == {"version": "7.7.0.1.231", "package_version": "25.0.rc1.1"}
    assert facts.install == {"usergroup": "HwHiAiUser", "driver_install_path_param": "/usr/local/Ascend"}
    assert facts.npu_smi == "/usr/local/bin/npu-smi"
    assert facts.info == Output(0, sample("a2-910b4").rstrip())
    assert facts.mapping == Output(0, sample("mapping-a2").rstrip())
    assert set(facts.boards) == {"3", "5", "6"}, "one of each chip name"


def test_a_host_with_none_of_it_is_empty(tmp_path: Path) -> None:
    facts = facts_of(tmp_path)
    assert facts == HostFacts(root=str(tmp_path), machine=os.uname().machine)


def test_a_root_that_is_not_there_is_an_empty_host(tmp_path: Path) -> None:
    assert facts_of(tmp_path / "nowhere").nodes == ()


@pytest.mark.subprocess
@pytest.mark.parametrize(
    "place",
    ["/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/usr/sbin", "/usr/local/Ascend/driver/tools"],
)
def test_npu_smi_is_found_wherever_it_lies(tmp_path: Path, place: str) -> None:
    write_npu_smi(tmp_path, {"info": (0, "hello")}, f"{place}/npu-smi")
    facts = facts_of(tmp_path)
    assert facts.npu_smi == f"{place}/npu-smi"
    assert facts.info == Output(0, "hello")


@pytest.mark.subprocess
def test_the_driver_lies_where_its_record_says_and_npu_smi_gets_its_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/own")
    stand_in(tmp_path, home="/opt/hdk")
    write_npu_smi(tmp_path, {"info": (0, '!echo "$LD_LIBRARY_PATH"')}, "/opt/hdk/driver/tools/npu-smi")
    facts = facts_of(tmp_path)
    assert facts.driver["package_version"] == "26.1.0"
    assert facts.paths["/opt/hdk/driver/lib64"] == "dir"
    assert facts.npu_smi == "/opt/hdk/driver/tools/npu-smi"
    assert facts.info
    assert facts.info.text.split(":")[0] == f"{tmp_path}/opt/hdk/driver/lib64"
    assert facts.info.text.endswith(":/own")


def test_links_of_a_host_are_followed_inside_it(tmp_path: Path) -> None:
    stand_in(tmp_path, home="/data/Ascend")
    (tmp_path / "usr/local/Ascend").symlink_to("/data/Ascend")
    write(tmp_path, "/etc/ascend_install.info", "Driver_Install_Path_Param=/usr/local/Ascend/\n")
    assert facts_of(tmp_path).driver["package_version"] == "26.1.0"


@pytest.mark.parametrize("text", ["", "Driver_Install_Path_Param=", "Driver_Install_Path_Param=relative/place"])
def test_a_record_without_a_path_means_the_usual_place(tmp_path: Path, text: str) -> None:
    write(stand_in(tmp_path), "/etc/ascend_install.info", text)
    assert facts_of(tmp_path).driver["package_version"] == "26.1.0"


def test_a_directory_in_place_of_a_node_or_of_npu_smi_is_neither(tmp_path: Path) -> None:
    (tmp_path / "dev/davinci0").mkdir(parents=True)
    (tmp_path / "usr/local/bin/npu-smi").mkdir(parents=True)
    facts = facts_of(tmp_path)
    assert (facts.nodes, facts.npu_smi, facts.info) == ((), "", None)
    assert facts.paths == {"/usr/local/bin/npu-smi": "dir"}


def test_on_a_live_host_only_character_devices_are_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path)
    tree = host_facts.Tree(str(tmp_path))
    tree.live = True
    monkeypatch.setattr(tree, "at", lambda path: str(tmp_path) + path)
    assert host_facts._nodes(tree) == []


@pytest.mark.parametrize("bus", ["node", "directory"])
def test_the_bus_of_a_950_is_a_node_or_a_directory_of_them(tmp_path: Path, bus: str) -> None:
    names = ["ummu", "uburma/udma0", "uburma/udma1"] if bus == "directory" else ["ummu", "uburma"]
    for name in names:
        write(tmp_path, f"/dev/{name}")
    assert [node.path for node in facts_of(tmp_path).nodes] == sorted(f"/dev/{name}" for name in names)


def test_other_devices_are_no_business_of_ours(tmp_path: Path) -> None:
    for name in ("null", "davinci", "davinciX", "davinci_other", "vdavinci100", "mydavinci0"):
        write(tmp_path, f"/dev/{name}")
    assert [node.path for node in facts_of(tmp_path).nodes] == ["/dev/vdavinci100"]


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        ((255, sample("error-8005")), 255, "-8005"),
        ((187, sample("error-no-permission")), 187, "Get chip info failed"),
        ((0, "!echo out; echo err >&2"), 0, "out\nerr"),
        ((0, "!sleep 60"), 124, ""),
        ((0, "!kill -SEGV $$"), 128 + signal.SIGSEGV, ""),
        ((0, "!printf '\\377\\376'"), 0, "��"),
    ],
)
def test_an_npu_smi_that_fails_hangs_or_crashes_is_data(
    tmp_path: Path, answer: tuple[int, str], code: int, text: str
) -> None:
    write_npu_smi(tmp_path, {"info": answer})
    facts = facts_of(tmp_path, limit=1.0)
    assert facts.info
    assert (facts.info.code, text in facts.info.text) == (code, True)
    assert (facts.mapping is None) == (code == 124), "one that hangs is asked once"


@pytest.mark.subprocess
def test_an_npu_smi_that_cannot_start_is_data(tmp_path: Path) -> None:
    write(tmp_path, "/usr/local/bin/npu-smi", "#!/no/such/shell\n", 0o755)
    facts = facts_of(tmp_path)
    assert facts.info
    assert (facts.info.code, facts.mapping, facts.boards) == (127, None, {})


@pytest.mark.subprocess
def test_a_board_that_names_no_chip_is_asked_without_the_chip_number(tmp_path: Path) -> None:
    board = sample("board-950")
    answers = {"info": (0, sample("950")), "info -t board -i 0": (0, board), "info -t board -i 6": (0, board)}
    write_npu_smi(tmp_path, answers)
    assert facts_of(tmp_path).boards == {"0": Output(0, board.rstrip()), "6": Output(0, board.rstrip())}


@pytest.mark.subprocess
def test_of_a_table_that_nobody_can_read_the_list_names_the_npu(tmp_path: Path) -> None:
    answers = {
        "info": (0, "a table of another kind"),
        "info -l": (0, sample("list-cards")),
        "info -t board -i 8 -c 0": (0, sample("board-a3")),
    }
    write_npu_smi(tmp_path, answers)
    assert facts_of(tmp_path).boards == {"8": Output(0, sample("board-a3").rstrip())}


@pytest.mark.subprocess
@pytest.mark.subprocess
def test_an_answer_without_end_is_cut_and_few_boards_are_asked_for(tmp_path: Path) -> None:
    names = itertools.count(100)
    table = re.sub(r"\| \d+ +910B4", lambda _: f"| {(one := next(names))}  910B{one:03}", sample("a2-910b4") * 10)
    write(tmp_path, "/table", table)
    flood = f"!cat {tmp_path}/table; head -c 3000000 /dev/zero | tr '\\0' x"
    write_npu_smi(tmp_path, {"info": (0, flood)})
    facts = facts_of(tmp_path)
    assert facts.info
    assert len(facts.info.text) == 200_000
    assert len(facts.boards) == 8
    assert next(names) > 108


def test_npu_smi_is_left_alone_on_request(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    write_npu_smi(tmp_path, {"info": (0, f"!touch {marker}")})
    assert facts_of(tmp_path, ask=False).info is None
    assert not marker.exists()


@given(st.text(), st.text())
def test_no_text_of_a_file_makes_it_raise(tmp_path_factory: pytest.TempPathFactory, install: str, version: str) -> None:
    root = tmp_path_factory.mktemp("host")
    write(root, "/etc/ascend_install.info", install.replace("\ud800", ""))
    write(root, "/usr/local/Ascend/driver/version.info", version)
    facts = facts_of(root)
    assert all(key == key.lower().strip() for key in (*facts.install, *facts.driver))


@pytest.mark.subprocess
def test_as_a_program_it_prints_the_same_facts(tmp_path: Path) -> None:
    host, program = stand_in(tmp_path / "host"), tmp_path / "program"
    write_npu_smi(host, {"info": (0, "never asked")})
    write_program(program)
    done = subprocess.run(
        [sys.executable, "-m", "inside.host_facts", "--root", host, "--no-npu-smi"],
        cwd=program,
        capture_output=True,
        text=True,
        check=True,
    )
    assert msgspec.json.decode(done.stdout, type=HostFacts) == facts_of(host, ask=False)


def test_it_imports_its_own_folder_and_the_standard_library_alone() -> None:
    tree = ast.parse(Path(host_facts.__file__).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 1 or (node.module or "").split(".")[0] in sys.stdlib_module_names
        elif isinstance(node, ast.Import):
            assert all(name.name in sys.stdlib_module_names for name in node.names)


# ------------------------------------------------------------------------------------------------ a remote host


class Probe:
    """A container and a client in one, which remembers what was done with it; `fails` names the step that raises."""

    short_id = "0123456789"

    def __init__(self, *answers: str, fails: str = "", error: Exception | None = None, code: int = 0) -> None:
        self.answers = list(answers)
        self.fails, self.error, self.code = fails, error or DockerException("it broke"), code
        self.created: list[dict[str, Any]] = []
        self.removed = 0
        self.files: list[str] = []
        self.containers = SimpleNamespace(create=self.create)

    def _step(self, name: str) -> None:
        if name == self.fails:
            raise self.error

    def create(self, image: str, **options: Any) -> "Probe":
        self._step("create")
        self.created.append({"image": image, **options})
        return self

    def put_archive(self, path: str, content: bytes) -> bool:
        self._step("put_archive")
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            self.files = [path + name for name in archive.getnames()]
        return True

    def start(self) -> None:
        self._step("start")

    def wait(self, timeout: float) -> dict[str, int]:
        self._step("wait")
        return {"StatusCode": self.code}

    def logs(self, *, stdout: bool, stderr: bool) -> bytes:
        self._step("logs")
        assert stdout != stderr
        return self.answers.pop(0).encode() if stdout else b"python3: something broke"

    def remove(self, **_: Any) -> None:
        self.removed += 1
        self._step("remove")


def answer(**fields: Any) -> str:
    return json.dumps({"root": "/host", "machine": "aarch64", **fields})


def test_a_probe_sees_the_engine_s_machine_read_only_and_is_removed() -> None:
    probe = Probe(answer(npu_smi="/usr/local/bin/npu-smi"))
    facts = gather.remote(probe, "image:1")
    assert facts == HostFacts(root="/", machine="aarch64", npu_smi="/usr/local/bin/npu-smi")
    [created] = probe.created
    assert [(mount["Source"], mount["Target"], mount["ReadOnly"]) for mount in created["mounts"]] == [
        (path, f"/host{path}", True) for path in ("/dev", "/etc", "/usr")
    ]
    assert created["network_mode"] == "none"
    assert "/opt/ascend-images-probe/inside/host_facts.py" in probe.files
    assert probe.removed == 1


def test_a_driver_in_another_place_is_mounted_as_well() -> None:
    install = {"driver_install_path_param": "/opt/hdk/"}
    probe = Probe(answer(install=install), answer(install=install, driver={"version": "26.1.0"}))
    assert gather.remote(probe, "image:1").driver == {"version": "26.1.0"}
    assert [mount["Source"] for mount in probe.created[1]["mounts"]] == ["/dev", "/etc", "/usr", "/opt/hdk"]
    assert probe.removed == 2


@pytest.mark.parametrize("step", ["put_archive", "start", "wait", "logs"])
@pytest.mark.parametrize("error", [DockerException("it broke"), APIError("it broke"), ConnectionError("it broke")])
def test_a_probe_that_fails_is_removed_and_told(step: str, error: Exception) -> None:
    probe = Probe(answer(), fails=step, error=error)
    with pytest.raises(MissingTool, match="cannot be looked at from a container of image:1: it broke"):
        gather.remote(probe, "image:1")
    assert probe.removed == 1


def test_an_interrupted_probe_is_removed() -> None:
    probe = Probe(fails="wait", error=KeyboardInterrupt())  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        gather.remote(probe, "image:1")
    assert probe.removed == 1


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"nodes": 3}'])
def test_an_image_whose_python_prints_no_facts_is_told(text: str) -> None:
    probe = Probe(text, code=127)
    with pytest.raises(MissingTool, match=r"exit code 127\): python3: something broke"):
        gather.remote(probe, "image:1")
    assert probe.removed == 1


def test_an_image_that_is_not_there_is_told() -> None:
    probe = Probe(fails="create", error=ImageNotFound("no such image"))
    with pytest.raises(MissingTool, match="no image image:1") as caught:
        gather.remote(probe, "image:1")
    assert caught.value.do == "docker pull image:1"


def test_a_probe_that_is_gone_already_is_fine_and_one_that_stays_is_told() -> None:
    assert gather.remote(Probe(answer(), fails="remove", error=NotFound("gone")), "image:1").machine == "aarch64"
    with pytest.raises(MissingTool, match="0123456789 could not be removed: it broke") as caught:
        gather.remote(Probe(answer(), fails="remove"), "image:1")
    assert caught.value.do == "docker rm --force 0123456789"
