"""Facts: what NPUs compute, by `probe.py` in processes of its own; torch is never imported here."""

from __future__ import annotations

import concurrent.futures
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

from ..process import run
from ..words import Facts, without_secrets
from .imports import quiet_environment

#: Where probe.py lies, beside what starts it.
PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "probe.py")


@dataclass(frozen=True)
class Asked:
    """What was asked of NPUs: to compute on them, which, to insist on them, and a model's folder to generate from.

    `devices` are davinci numbers, none meaning whatever is there. `device` and `backend` are torch's names; with `cpu`
    and `gloo` the same is asked of torch alone.
    """

    npu: bool = False
    devices: tuple[int, ...] = ()
    require: bool = False
    model: str = ""
    device: str = "npu"
    backend: str = "hccl"

    def facts(self) -> Facts:
        """Return it as a fact: checks hang on it, wherever they are asked."""
        return {"npu": self.npu, "devices": list(self.devices), "require": self.require, "model": self.model,
                "device": self.device, "backend": self.backend}  # fmt: skip


NOTHING_ASKED = Asked()


def probe_facts(python: str, asked: Asked, place: str, limit: float, jobs: int) -> Facts:
    """Count the devices, multiply on each, sum over all where there are several, generate where a model was named.

    Every step has `limit` seconds, and `jobs` devices multiply at a time. A step that had nothing to do is None.
    """

    def one(*words: str) -> Facts:
        return probed([python, PROGRAM, *words, "--device", asked.device], place, limit)

    count = one("count")
    number = next((said["count"] for said in count["said"] if isinstance(said.get("count"), int)), 0)
    indices = [str(index) for index in range(number)]
    # The CPU is one device however many are asked for; several ranks may share it.
    ranks = indices if asked.device == "npu" else [str(index) for index in range(len(asked.devices))]
    with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
        products = dict(zip(indices, pool.map(lambda index: one("matmul", "--index", index), indices)))
    several = len(ranks) > 1
    return {
        "count": count,
        "matmul": products,
        "ranks": len(ranks),
        "all_reduce": one("all-reduce", "--backend", asked.backend, "--indices", ",".join(ranks)) if several else None,
        "generate": one("generate", "--model", asked.model) if asked.model and number else None,
    }


def probed(command: Sequence[str], place: str, limit: float) -> Facts:
    """Run one step of probe.py; return how it ended, the end of its stderr, and the results that it printed."""
    ran = run(command, cwd=place, env=quiet_environment(), limit=limit)
    return {
        "exit": ran.exit,
        "signal": ran.signal,
        "timed_out": ran.timed_out,
        "stderr": "" if ran.ok else without_secrets(ran.stderr[-6000:]).replace(place, "(an empty directory)"),
        "said": results(ran.stdout.decode(errors="replace")),
    }


def results(text: str) -> list[Facts]:
    """Return the JSON objects among the lines of a text; what a library wrote between them is no result."""
    found = []
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append(value)
    return found
