"""Speed of rendering, as ratios within one run: machines differ, and are noisy.

`invoke render` for all variants against `invoke --version`; a thousand variants made up from the project's own, in one
process; peak memory of that process. `nox -s bench` runs it; numbers are medians of interleaved runs.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench_table import Row, tell

ROOT = Path(__file__).parents[1]
THOUSAND = """
import resource, sys, time
from pathlib import Path
import msgspec
from ascend_images.images.render import render
from ascend_images.pins.load import load
from ascend_images.pins.resolve import resolve
start = time.perf_counter()
pins = load(Path("versions.toml"))
names = list(pins.variant)
size = 0
for number in range(1000):
    name = names[number % len(names)]
    variant = resolve(pins, name, [f"env.NUMBER={number}"])
    size += len(render(msgspec.structs.replace(variant, name=f"{name}-{number}")))
print(time.perf_counter() - start, size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def seconds(command: list[str], environment: dict[str, str]) -> float:
    """Return the wall time of a command, in seconds."""
    start = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return time.perf_counter() - start


def with_bytecode(folder: str) -> dict[str, str]:
    """Return the environment with Python's bytecode kept, as it is on a machine in use, in a folder of this run."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**environment, "PYTHONPYCACHEPREFIX": folder}


def main() -> int:
    """Measure, print, and return 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    rounds = parser.parse_args().rounds
    version, render = [], []
    with tempfile.TemporaryDirectory() as folder:
        environment = with_bytecode(folder)
        for _ in range(rounds + 1):
            version.append(seconds(["invoke", "--version"], environment))
            render.append(seconds(["invoke", "render"], environment))
    # The first round of each wrote the bytecode.
    version, render = version[1:], render[1:]
    ratio = statistics.median(render) / statistics.median(version)
    output = subprocess.run(
        [sys.executable, "-c", THOUSAND], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    taken, size, peak = output.split()
    # ru_maxrss is in KiB on Linux.
    megabytes = int(peak) / 1024
    rows = [
        Row("invoke --version, median", f"{statistics.median(version) * 1000:.0f} ms"),
        Row("invoke render of all variants, median", f"{statistics.median(render) * 1000:.0f} ms"),
        Row("ratio", f"{ratio:.2f}", "at most 2.5", ratio <= 2.5),
        Row(
            "1,000 variants in one process",
            f"{float(taken):.2f} s ({int(size) / 1e6:.1f} MB of text)",
            "at most 2 s",
            float(taken) <= 2,
        ),
        Row("peak memory of that process", f"{megabytes:.0f} MB", "under 150 MB", megabytes < 150),
    ]
    return tell(rows)


if __name__ == "__main__":
    sys.exit(main())
