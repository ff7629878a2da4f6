"""Computing on NPUs: a program of its own, so that a crash or a hang of a device ends nothing but itself.

    python3 probe.py count --device npu
    python3 probe.py matmul --device npu --index 0
    python3 probe.py all-reduce --device npu --backend hccl --indices 0,1
    python3 probe.py generate --device npu --model DIR

Each prints what it found as JSON objects, one a line and as soon as it is known; what libraries print goes to stderr.
Nothing is judged here. With `--device cpu` and `--backend gloo` the same runs on torch alone. Python 3.9 is enough.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

#: Rows of the left matrix, what is summed over, and columns of the right one: enough to use every core of a chip.
SHAPE = (256, 512, 256)
SEED = 20250101

#: Bits that a product's operands or its result keep, by type. float32 counts as 11 and not 24: an A2 or A3 may multiply
#: in HF32, and a 310P, whose matrix unit has no float32, rounds the operands to float16 (documentation of CANN,
#: ACL_PRECISION_MODE and allow_hf32).
_BITS = {"float16": 11, "bfloat16": 8, "float32": 11}
#: By how much a result may be wrong, relative to the largest entry of the right one: four times the rounding of one
#: operand. The sums themselves are in float32 and add less than a tenth of that. A wrong kernel is wrong by about 1.
TOLERANCE = {name: 4 * 2.0**-bits for name, bits in _BITS.items()}

#: Numbers of this vector times any rank are integers below 2**24, so that float32 sums them exactly.
_LENGTH = 1024
# The first rank imports torch before it can tell the others its port; on a busy host that takes a minute.
_STORE_SECONDS = 240.0


class Output:
    """Where results go: what was stdout at the start. From then on stdout is stderr, for its children too."""

    def __init__(self) -> None:
        self.file = os.dup(1)
        os.dup2(2, 1)

    def say(self, **result: Any) -> None:
        """Print one result; a short line of its own, which other ranks' lines cannot break."""
        os.write(self.file, (json.dumps(result) + "\n").encode())


def load(device: str) -> tuple[Any, Any]:
    """Import torch and what brings the device; return torch and its module for the device."""
    torch = importlib.import_module("torch")
    if device == "npu":
        importlib.import_module("torch_npu")
    return torch, getattr(torch, device)


def name_of(module: Any, index: int) -> str:
    """Return what torch calls a device (Ascend910B3), empty where it has no name for it."""
    ask = getattr(module, "get_device_name", None)
    return str(ask(index)) if ask else ""


def lacks(module: Any, dtype: str, name: str) -> str:
    """Return why a device cannot multiply in a type, empty where nothing is known against it."""
    if dtype != "bfloat16":
        return ""
    if name.lower().startswith("ascend310"):
        return f"{name} has no bfloat16"
    supported = getattr(module, "is_bf16_supported", None)
    return f"{name or 'the device'} has no bfloat16, says torch" if supported and not supported() else ""


def count(out: Output, device: str) -> None:
    """Tell how many devices torch sees, and their names."""
    _, module = load(device)
    number = int(module.device_count())
    names = [name_of(module, index) for index in range(number)]
    out.say(available=bool(module.is_available()), count=number, names=names)


def matmul(out: Output, device: str, index: int) -> None:
    """Multiply two matrices on one device in each type, and tell how far the product is from the CPU's in float64."""
    torch, module = load(device)
    if device != "cpu":
        module.set_device(index)
    rows, inner, columns = SHAPE
    generator = torch.Generator().manual_seed(SEED)
    left = torch.randn(rows, inner, generator=generator, dtype=torch.float32)
    right = torch.randn(inner, columns, generator=generator, dtype=torch.float32)
    name = name_of(module, index)
    for dtype, tolerance in TOLERANCE.items():
        why = lacks(module, dtype, name)
        if why:
            out.say(dtype=dtype, skipped=why)
            continue
        try:
            # Rounded before both products: what is compared is the product, not the conversion.
            operands = [matrix.to(getattr(torch, dtype)) for matrix in (left, right)]
            wanted = operands[0].double() @ operands[1].double()
            there = [matrix.to(f"{device}:{index}") for matrix in operands]
            error = relative_error((there[0] @ there[1]).cpu().double(), wanted)
        except (RuntimeError, TypeError, NotImplementedError) as raised:
            out.say(dtype=dtype, failed=f"{type(raised).__name__}: {str(raised).strip()[:500]}")
            continue
        out.say(dtype=dtype, error=error, tolerance=float(f"{tolerance:.3g}"))


def relative_error(found: Any, wanted: Any) -> float | None:
    """Return the largest difference relative to the largest entry wanted; None where a result is no number."""
    error = float((found - wanted).abs().max() / wanted.abs().max())
    return float(f"{error:.3g}") if math.isfinite(error) else None


def rank(out: Output, device: str, index: int, backend: str, number: int, world: int, meeting: str) -> None:
    """Be one of several: sum a vector over all, and tell whether each entry is exactly the sum."""
    torch, module = load(device)
    if device != "cpu":
        module.set_device(index)
    distributed = importlib.import_module("torch.distributed")
    store = meet(distributed, meeting, first=number == 0)
    distributed.init_process_group(backend=backend, store=store, rank=number, world_size=world)
    place = "cpu" if device == "cpu" else f"{device}:{index}"
    vector = (torch.arange(_LENGTH, dtype=torch.float32) * (number + 1)).to(place)
    distributed.all_reduce(vector)
    wanted = torch.arange(_LENGTH, dtype=torch.float32) * (world * (world + 1) // 2)
    wrong = int((vector.cpu() != wanted).sum())
    out.say(rank=number, index=index, wrong=wrong, of=_LENGTH)
    distributed.barrier()
    distributed.destroy_process_group()


def meet(distributed: Any, meeting: str, *, first: bool) -> Any:
    """Return the store by which ranks find one another: the first opens it at any free port and writes that down."""
    if first:
        store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        with open(f"{meeting}.new", "w", encoding="ascii") as stream:
            stream.write(str(store.port))
        os.replace(f"{meeting}.new", meeting)
        return store
    end = time.monotonic() + _STORE_SECONDS
    while not os.path.exists(meeting):
        if time.monotonic() > end:
            raise TimeoutError("the first rank opened no port")
        time.sleep(0.05)
    with open(meeting, encoding="ascii") as stream:
        return distributed.TCPStore("127.0.0.1", int(stream.read()), is_master=False, wait_for_workers=False)


def all_reduce(out: Output, device: str, indices: Sequence[int], backend: str) -> int:
    """Start a rank for each device and wait for all; where one fails the others are ended. Return the exit code.

    The ranks stay in this process's group, so that whoever ends the group ends them.
    """
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for number, index in enumerate(indices):
            words = ["rank", "--device", device, "--index", str(index), "--backend", backend, "--rank", str(number)]
            words += ["--world", str(len(indices)), "--meeting", os.path.join(folder, "port")]
            command = [sys.executable, os.path.abspath(__file__), *words]
            ranks.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out.file))
        first = first_failure(ranks)
        if first is None:
            return 0
        code = ranks[first].returncode
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        out.say(rank=first, index=indices[first], failed=how)
        return 1


def first_failure(ranks: Sequence[subprocess.Popen[bytes]]) -> int | None:
    """Wait for processes; return the number of the first that failed, all others killed, None where none did."""
    while True:
        codes = [process.poll() for process in ranks]
        failed = next((number for number, code in enumerate(codes) if code), None)
        if failed is not None:
            for process in ranks:
                process.kill()
                process.wait()
            return failed
        if all(code == 0 for code in codes):
            return None
        time.sleep(0.05)


def generate(out: Output, device: str, model: str) -> None:
    """Let vLLM generate a few tokens from a local model, greedily, and tell how many."""
    # Nothing is fetched: what the model lacks is an error here and not a download.
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
    _, module = load(device)
    dtype = "float16" if lacks(module, "bfloat16", name_of(module, 0)) else "auto"
    vllm = importlib.import_module("vllm")
    engine = vllm.LLM(model=model, dtype=dtype, enforce_eager=True, max_model_len=256, max_num_seqs=1)
    answers = engine.generate(["The capital of France is"], vllm.SamplingParams(temperature=0.0, max_tokens=8))
    out.say(tokens=len(answers[0].outputs[0].token_ids))


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Compute on NPUs and print what came out, as lines of JSON.")
    what = parser.add_subparsers(dest="what", required=True)
    for name in ("count", "matmul", "all-reduce", "rank", "generate"):
        one = what.add_parser(name)
        one.add_argument("--device", default="npu", help="what torch calls the kind of device (default: npu)")
        if name in ("matmul", "rank"):
            one.add_argument("--index", type=int, required=True, help="the device's number in this process")
        if name in ("all-reduce", "rank"):
            one.add_argument("--backend", default="hccl", help="torch.distributed's backend (default: hccl)")
        if name == "all-reduce":
            one.add_argument("--indices", required=True, help="numbers of the devices: 0,1")
        if name == "rank":
            one.add_argument("--rank", type=int, required=True)
            one.add_argument("--world", type=int, required=True)
            one.add_argument("--meeting", required=True, help="a file for the port of the first rank's store")
        if name == "generate":
            one.add_argument("--model", required=True, help="a folder with the model")
    return parser.parse_args(words)


def probe(words: Sequence[str] | None = None) -> int:
    """Do what the words say; return the exit code."""
    asked = arguments(words)
    out = Output()
    if asked.what == "count":
        count(out, asked.device)
    elif asked.what == "matmul":
        matmul(out, asked.device, asked.index)
    elif asked.what == "rank":
        rank(out, asked.device, asked.index, asked.backend, asked.rank, asked.world, asked.meeting)
    elif asked.what == "generate":
        generate(out, asked.device, asked.model)
    else:
        return all_reduce(out, asked.device, [int(number) for number in asked.indices.split(",")], asked.backend)
    return 0


if __name__ == "__main__":
    # Python puts this file's folder first in the path; names in it (lock, tree, facts) must not hide any of a library.
    sys.path[:] = [
        entry for entry in sys.path if os.path.abspath(entry or ".") != os.path.dirname(os.path.abspath(__file__))
    ]
    sys.exit(probe())
