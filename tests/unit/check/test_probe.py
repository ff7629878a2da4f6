"""Computing devices: the program that asks them, over a torch that is a stand-in, and how its ends are told."""

import ast
import json
import math
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.inside import probe
from ascend_images.inside.facts import npu, probes
from ascend_images.program import program_files

#: A torch of two devices that can sum vectors over ranks by way of files; it prints where only results should be.
TORCH = """
import os, sys
print("welcome to torch")
os.write(1, b'{"count": 99}\\n')

class Vector(list):
    def __mul__(self, factor): return Vector(number * factor for number in self)
    def __ne__(self, other): return Vector(int(one != two) for one, two in zip(self, other))
    def to(self, place): self.place = place; return self
    def cpu(self): return self
    def sum(self): return sum(self)

float32 = "float32"
def arange(length, dtype): return Vector(range(length))

class npu:
    @staticmethod
    def device_count(): return int(os.environ.get("COUNT", "2"))
    @staticmethod
    def is_available(): return npu.device_count() > 0
    @staticmethod
    def get_device_name(index): return "Ascend910B3"
    @staticmethod
    def set_device(index):
        if os.environ.get("CRASH") == str(index):
            import signal
            os.kill(os.getpid(), signal.SIGSEGV)
        if os.environ.get("HANG") == str(index):
            import time
            time.sleep(60)
"""
DISTRIBUTED = """
import glob, os, time

class TCPStore:
    def __init__(self, host, port, **options): self.port = port or 4711
state = {}
def init_process_group(backend, store, rank, world_size):
    assert backend == "hccl" and store.port == 4711, (backend, store.port)
    state.update(rank=rank, world=world_size)
def all_reduce(vector):
    factors = range(1, state["world"] + 1)
    vector[:] = [number // (state["rank"] + 1) * sum(factors) for number in vector]
    if os.environ.get("WRONG") == str(state["rank"]):
        vector[5] += 1
def barrier(): pass
def destroy_process_group(): pass
"""
VLLM = """
import os
class SamplingParams:
    def __init__(self, **options): assert options == {"temperature": 0.0, "max_tokens": 8}, options
class LLM:
    def __init__(self, model, dtype, enforce_eager, max_model_len, max_num_seqs):
        assert os.environ["HF_HUB_OFFLINE"] == "1" and enforce_eager and dtype == "auto", dtype
    def generate(self, prompts, parameters):
        class Answer: pass
        answer, one = Answer(), Answer()
        one.token_ids = list(range(int(os.environ.get("TOKENS", "8"))))
        answer.outputs = [one]
        return [answer]
"""


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A stand-in torch on the path of the programs that are started."""
    texts = {"torch/__init__.py": TORCH, "torch/distributed.py": DISTRIBUTED, "torch_npu.py": "", "vllm.py": VLLM}
    for name, text in texts.items():
        (tmp_path / "lib" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lib" / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    return monkeypatch


def step(*words: str, limit: float = 60) -> dict[str, Any]:
    return probes.probed([sys.executable, str(Path(probe.__file__)), *words], "/", limit)


# --- the program


@pytest.mark.subprocess
def test_devices_are_counted_and_what_torch_prints_is_no_result(torch: pytest.MonkeyPatch) -> None:
    ran = step("count")
    assert ran["said"] == [{"available": True, "count": 2, "names": ["Ascend910B3", "Ascend910B3"]}]
    assert (ran["exit"], ran["stderr"]) == (0, "")


@pytest.mark.subprocess
def test_ranks_sum_a_vector_each_in_a_process_of_its_own(torch: pytest.MonkeyPatch) -> None:
    ran = step("all-reduce", "--indices", "0,1,2")
    assert sorted(ran["said"], key=lambda said: int(said["rank"])) == [
        {"rank": rank, "index": rank, "wrong": 0, "of": 1024} for rank in range(3)
    ]


@pytest.mark.subprocess
def test_a_wrong_sum_is_told_by_its_rank(torch: pytest.MonkeyPatch) -> None:
    torch.setenv("WRONG", "1")
    said = {result["rank"]: result["wrong"] for result in step("all-reduce", "--indices", "0,1")["said"]}
    assert said == {0: 0, 1: 1}


@pytest.mark.subprocess
def test_a_rank_that_crashes_ends_the_others(torch: pytest.MonkeyPatch) -> None:
    torch.setenv("CRASH", "3")
    torch.setenv("HANG", "2")
    start = time.monotonic()
    ran = step("all-reduce", "--indices", "2,3")
    assert time.monotonic() - start < 30
    assert (ran["exit"], ran["said"]) == (1, [{"rank": 1, "index": 3, "failed": "killed by SIGSEGV"}])


@pytest.mark.subprocess
def test_with_time_up_every_rank_ends(torch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch.setenv("HANG", "0")
    mark = f"ranks-of-{tmp_path.name}"
    torch.setenv("PYTHONUSERBASE", mark)  # in the environment of this run's processes only
    ran = step("all-reduce", "--indices", "0,1", limit=3)
    assert ran["timed_out"]
    time.sleep(0.2)
    alive = [path.parent.name for path in Path("/proc").glob("[0-9]*/environ") if mark.encode() in read(path)]
    assert alive == []


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.subprocess
def test_a_model_generates_and_nothing_is_fetched(torch: pytest.MonkeyPatch) -> None:
    assert step("generate", "--model", "/models/x")["said"] == [{"tokens": 8}]


@pytest.mark.subprocess
def test_a_missing_torch_is_told_by_the_end_of_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = step("count", "--device", "nosuch")
    assert ran["exit"] == 1
    assert "Error: " in ran["stderr"].splitlines()[-1]


@pytest.mark.subprocess
def test_names_beside_the_program_hide_no_module_of_a_library(torch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # The folder of probe.py holds lock.py, tree.py and more; a library may well import another module of such a name.
    (tmp_path / "lib/tree.py").write_text("MINE = True\n")
    (tmp_path / "lib/torch/__init__.py").write_text(f"import tree\nassert tree.MINE\n{TORCH}")
    assert step("count")["exit"] == 0


class Ended:
    """A process of which only the end is looked at."""

    def __init__(self, code: int | None) -> None:
        self.returncode = code

    def poll(self) -> int | None:
        return self.returncode


def test_no_rank_failed_where_all_ended_well() -> None:
    assert probe.first_failure([Ended(0), Ended(0)]) is None  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("name", "dtype", "module", "why"),
    [
        ("Ascend310P3", "bfloat16", SimpleNamespace(), "Ascend310P3 has no bfloat16"),
        ("Ascend310P3", "float16", SimpleNamespace(), ""),
        ("Ascend910B3", "bfloat16", SimpleNamespace(), ""),
        ("Ascend910B3", "bfloat16", SimpleNamespace(is_bf16_supported=lambda: True), ""),
        ("", "bfloat16", SimpleNamespace(is_bf16_supported=lambda: False), "the device has no bfloat16, says torch"),
    ],
)
def test_a_type_is_left_out_where_the_chip_lacks_it(name: str, dtype: str, module: Any, why: str) -> None:
    assert probe.lacks(module, dtype, name) == why


class Number(float):
    """A matrix of one entry, as far as an error is computed from it."""

    def __sub__(self, other: float) -> "Number":
        return Number(float(self) - other)

    def __truediv__(self, other: float) -> "Number":
        return Number(float(self) / other)

    def abs(self) -> "Number":
        return Number(abs(float(self)))

    def max(self) -> "Number":
        return self


@given(st.floats(allow_nan=True, allow_infinity=True, width=32), st.floats(1, 1e6))
def test_an_error_is_a_number_that_json_has_or_none(found: float, wanted: float) -> None:
    error = probe.relative_error(Number(found), Number(wanted))
    assert error is None or (math.isfinite(error) and error >= 0)
    assert (error is None) == (not math.isfinite(found))
    json.loads(json.dumps(error))


def test_each_tolerance_is_four_roundings_of_an_operand() -> None:
    assert probe.TOLERANCE == {"float16": 4 * 2**-11, "bfloat16": 4 * 2**-8, "float32": 4 * 2**-11}


def test_the_program_imports_torch_nowhere_but_in_its_own_process() -> None:
    for name, content in program_files().items():
        for node in ast.walk(ast.parse(content, name)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {"torch", "torch_npu", "vllm"} & {module.split(".")[0] for module in names}


# --- its results


@given(st.text())
def test_only_json_objects_are_results(text: str) -> None:
    lines = [text, '{"a": 1}', "[1]", "3", "", "{", '{"b": 2}']
    found = probes.results("\n".join(lines))
    assert found[-2:] == [{"a": 1}, {"b": 2}]
    assert all(isinstance(value, dict) for value in found)


@pytest.mark.subprocess
def test_facts_of_two_devices(torch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = probes.Asked(npu=True, model="/models/x")
    facts = probes.probe_facts(sys.executable, asked, str(tmp_path), 60, 2)
    assert facts["count"]["said"][0]["count"] == facts["ranks"] == 2
    assert list(facts["matmul"]) == ["0", "1"]
    assert {said["rank"] for said in facts["all_reduce"]["said"]} == {0, 1}
    assert facts["generate"]["said"] == [{"tokens": 8}]


@pytest.mark.subprocess
@pytest.mark.parametrize("count", ["0", "1"])
def test_with_fewer_devices_there_is_less_to_ask(torch: pytest.MonkeyPatch, tmp_path: Path, count: str) -> None:
    torch.setenv("COUNT", count)
    facts = probes.probe_facts(sys.executable, probes.Asked(npu=True, model="/m"), str(tmp_path), 60, 2)
    assert (facts["ranks"], facts["all_reduce"]) == (int(count), None)
    assert list(facts["matmul"]) == ["0"] * int(count)
    assert (facts["generate"] is None) == (count == "0")


@pytest.mark.subprocess
def test_a_device_that_crashes_leaves_the_others_results(torch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch.setenv("CRASH", "1")
    facts = probes.probe_facts(sys.executable, probes.Asked(npu=True), str(tmp_path), 60, 2)
    assert facts["matmul"]["1"]["signal"] == "SIGSEGV"
    assert facts["matmul"]["0"]["signal"] == ""
    assert facts["all_reduce"]["exit"] == 1


# --- npu-smi


@pytest.fixture
def npu_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only npu-smi of this machine: a stand-in that a test writes."""
    program = tmp_path / "bin/npu-smi"
    program.parent.mkdir()
    monkeypatch.setattr(npu, "NPU_SMI_PATHS", ())
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return program


def stand_in(program: Path, text: str) -> None:
    program.write_text(f"#!/bin/sh\n{textwrap.dedent(text)}")
    program.chmod(0o755)


@pytest.mark.subprocess
def test_npu_smi_is_run_with_the_drivers_libraries_last(
    check: SimpleNamespace, npu_smi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/one:")
    stand_in(npu_smi, 'echo "$@ $LD_LIBRARY_PATH"; echo "dcmi module initialize failed. ret is -8005" >&2; exit 255')
    facts = check.npu_smi_facts(check.Tree(), run_it=True)
    driver = "/usr/local/Ascend/driver/lib64"
    assert facts["path"] == str(npu_smi)
    assert facts["code"] == 255
    assert facts["text"].splitlines() == [
        f"info /one:{driver}:{driver}/common:{driver}/driver",
        "dcmi module initialize failed. ret is -8005",
    ]


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("text", "code"), [("sleep 30", 124), ("kill -SEGV $$", 128 + signal.SIGSEGV), ("exit 7", 7), ("", 0)]
)
def test_an_end_of_npu_smi_is_told_as_a_shell_does(check: SimpleNamespace, npu_smi: Path, text: str, code: int) -> None:
    stand_in(npu_smi, text)
    assert check.npu_smi_facts(check.Tree(), run_it=True, limit=1)["code"] == code


@pytest.mark.subprocess
def test_an_npu_smi_that_cannot_start_is_a_fact(check: SimpleNamespace, npu_smi: Path) -> None:
    npu_smi.write_bytes(b"\x7fELF")
    npu_smi.chmod(0o755)
    assert check.npu_smi_facts(check.Tree(), run_it=True)["code"] == 127


@pytest.mark.subprocess
def test_without_a_node_npu_smi_does_not_run(check: SimpleNamespace, npu_smi: Path, tmp_path: Path) -> None:
    stand_in(npu_smi, f"touch {tmp_path}/ran; exit 99")
    assert check.npu_smi_facts(check.Tree(), run_it=False)["code"] is None
    assert not (tmp_path / "ran").exists()


@pytest.mark.subprocess
@pytest.mark.parametrize(("board", "with_chip"), [("board-a3.txt", True), ("board-950.txt", False)])
def test_the_board_is_asked_where_the_table_does_not_tell_the_family(
    check: SimpleNamespace, npu_smi: Path, board: str, with_chip: bool
) -> None:
    data = Path(__file__).parents[2] / "data/npu-smi"
    table = (data / "a2-910b3-26.txt").read_text().replace("910B3    ", "Ascend777")
    (npu_smi.parent / "table").write_text(table)
    stand_in(
        npu_smi,
        f"""
        case "$*" in
        info) cat {npu_smi.parent}/table ;;
        "info -t board -i 0 -c 0") {"cat " + str(data / board) if with_chip else "exit 1"} ;;
        "info -t board -i 0") {"exit 1" if with_chip else "cat " + str(data / board)} ;;
        *) exit 2 ;;
        esac
        """,
    )
    facts = check.npu_smi_facts(check.Tree(), run_it=True)
    assert facts["board"].split() == (data / board).read_text().split()


@pytest.mark.subprocess
def test_what_npu_smi_prints_is_bounded(check: SimpleNamespace, npu_smi: Path) -> None:
    stand_in(npu_smi, "head -c 300000 /dev/zero | tr '\\0' x")
    assert len(check.npu_smi_facts(check.Tree(), run_it=True)["text"]) == 60_000


# --- whoever ends check.py ends what it started


@pytest.mark.subprocess
@pytest.mark.parametrize("words", [["--facts", "{file}"], ["--report", "{file}"]])
def test_a_signal_ends_everything_and_leaves_no_partial_file(
    tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, started = tmp_path / "out/file.json", tmp_path / "started"
    (tmp_path / "hang.py").write_text(
        f"import os, pathlib, time\npathlib.Path({str(started)!r}).write_text(str(os.getpid()))\ntime.sleep(60)\n"
    )
    image = {"schema": 1, "variant": "here", "checks": ["hang", "hang2", "hang3"]}
    (tmp_path / "image.json").write_text(json.dumps(image))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    script = Path(__file__).parents[3] / "scripts/image_check.py"
    command = [sys.executable, str(script), "--image-json", str(tmp_path / "image.json"), "--jobs", "1"]
    process = subprocess.Popen([*command, *(word.format(file=file) for word in words)], stdout=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not started.exists() or not started.read_text():
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 128 + signal.SIGTERM
    assert not list(tmp_path.glob("out/*"))
    time.sleep(0.2)
    assert not Path(f"/proc/{started.read_text()}").exists()
