"""The NPU probe on a real torch, as `cpu` and `gloo`: products, sums over processes, and the whole of check.py --npu.

The CPU build of torch is fetched from the index, some 200 MB; where it cannot be had these tests are skipped.
"""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from ascend_images.program import write_program
from tests.e2e.builds import ROOT

pytestmark = [pytest.mark.network, pytest.mark.subprocess]

TORCH = "torch==2.13.0+cpu"
PROBE = ROOT / "ascend_images" / "inside" / "probe.py"


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has the CPU build of torch."""
    folder = tmp_path_factory.mktemp("torch")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    program = folder / "bin" / "python3"
    ended = subprocess.run([program, "-m", "pip", "install", "--quiet", TORCH], capture_output=True, text=True)
    if ended.returncode != 0:
        pytest.skip(f"no {TORCH} from the index of this machine")
    return program


def results(python: Path, *words: str, script: Path = PROBE) -> tuple[int, list[dict[str, Any]]]:
    ended = subprocess.run([python, "-B", script, *words], capture_output=True, text=True, timeout=300)
    return ended.returncode, [json.loads(line) for line in ended.stdout.splitlines()]


def test_the_cpu_is_one_device(python: Path) -> None:
    assert results(python, "count", "--device", "cpu") == (0, [{"available": True, "count": 1, "names": [""]}])


def test_products_in_every_type_stay_within_their_tolerance(python: Path) -> None:
    code, said = results(python, "matmul", "--device", "cpu", "--index", "0")
    assert code == 0
    assert [result["dtype"] for result in said] == ["float16", "bfloat16", "float32"]
    # float16 and bfloat16 round their result, which is an error; float32 as good as none.
    assert all(0 < result["error"] < result["tolerance"] for result in said)
    assert said[2]["error"] < 1e-5


def test_a_product_that_is_slightly_wrong_is_beyond_its_tolerance(python: Path, tmp_path: Path) -> None:
    """A kernel that loses one part of 32 of what is summed, and one that gives no numbers, in one type each."""
    script = tmp_path / "spoilt.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import runpy, sys, torch
            right = torch.Tensor.__matmul__

            def wrong(left, other):
                if left.dtype is torch.float16:
                    left = torch.cat([left[:, 16:], left[:, :16] * 0], 1)
                    other = torch.cat([other[16:], other[:16]], 0)
                product = right(left, other)
                return product * float("nan") if left.dtype is torch.bfloat16 else product

            torch.Tensor.__matmul__ = wrong
            runpy.run_path({str(PROBE)!r}, run_name="__main__")
            """
        )
    )
    code, said = results(python, "matmul", "--device", "cpu", "--index", "0", script=script)
    assert code == 0
    assert said[0]["error"] > 10 * said[0]["tolerance"]
    assert said[1]["error"] is None
    assert said[2]["error"] < said[2]["tolerance"]


@pytest.mark.parametrize("indices", ["0,1", "0,1,2"])
def test_processes_sum_a_vector_exactly(python: Path, indices: str) -> None:
    code, said = results(python, "all-reduce", "--device", "cpu", "--backend", "gloo", "--indices", indices)
    assert code == 0
    assert {result["rank"] for result in said} == set(range(len(indices.split(","))))
    assert {result["wrong"] for result in said} == {0}


def test_a_backend_that_torch_lacks_ends_every_rank(python: Path) -> None:
    code, said = results(python, "all-reduce", "--device", "cpu", "--backend", "hccl", "--indices", "0,1")
    assert code == 1
    assert [result["failed"] for result in said] == ["exit code 1"]


def test_check_py_asks_all_of_it(python: Path, tmp_path: Path) -> None:
    write_program(tmp_path / "program")
    report = tmp_path / "report.json"
    words = ["--npu", "--npu-device", "cpu", "--npu-backend", "gloo", "--devices", "0,1", "--report", str(report)]
    env = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
    env.pop("VIRTUAL_ENV", None)
    command = [python, "-B", tmp_path / "program" / "check.py", *words]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=900)
    assert ended.stderr == ""
    document = json.loads(report.read_text())
    rows = {row["check"]: row for row in document["results"]}
    assert {name: rows[name]["answer"] for name in ("devices", "matmul", "all-reduce", "generate")} == {
        "devices": "pass",
        "matmul": "pass",
        "all-reduce": "pass",
        "generate": "not run",
    }
    assert "float16" in rows["matmul"]["found"]
    # Nodes were asked for by number, and there are none; what torch computes on the CPU is another question.
    assert rows["npu"]["answer"] == "fail"
    assert ended.returncode == 5
