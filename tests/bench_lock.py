"""Time to a contradiction: two are planted in a stack of more than 200 packages, and `invoke lock` has to refuse them.

Without a cache (one of this run's own, empty), then with what that left, medians of several; beside them the whole lock
and `invoke --version`. The stack's sources are made from its requirement lists, the packages are the index's.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ascend_images.pins.lockfile import LockFile, file_name
from ascend_images.pins.platform import Arch
from tests.bench_table import Row, tell
from tests.lock_kit import ROOT, real
from tests.upstream import checkouts

NAME = "a3-cann8.5"
PLANTED = ("--set", "peft=0.20.1", "--set", "fastapi=0.130.0")
COLD_SECONDS, WARM_SECONDS = 30, 5


def seconds(folder: Path, cache: Path, words: list[str], wanted: tuple[int, ...]) -> float:
    """Return the wall time of `invoke WORDS` in seconds; it must end with one of the wanted codes."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "UV_CACHE_DIR": str(cache / "uv")}
    start = time.perf_counter()
    command = [sys.executable, "-m", "invoke", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    taken = time.perf_counter() - start
    if done.returncode not in wanted:
        raise SystemExit(f"invoke {' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
    return taken


def main() -> int:
    """Measure, print, and return 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="ascend-images-bench-") as name:
        top = Path(name)
        (project := top / "project").mkdir()
        for file in ("tasks.py", "versions.toml", "versions.lock"):
            shutil.copy(ROOT / file, project)
        folders = checkouts([real(NAME)], top / "sources")[NAME]
        lock = ["lock", "--variant", NAME, "--arch", Arch.ARM64.value]
        lock += [f"--source={source}={folder}" for source, folder in folders.items()]
        cold = seconds(project, top / "cache", [*lock, *PLANTED], (2,))
        # Hosts of the other sources and registries may be out of reach: the packages are locked all the same.
        whole = seconds(project, top / "cache", lock, (0, 6))
        packages = len(LockFile.load(project / "locks" / file_name(NAME, Arch.ARM64)).packages)
        warm = statistics.median(seconds(project, top / "cache", [*lock, *PLANTED], (2,)) for _ in range(rounds))
        start = statistics.median(seconds(project, top / "cache", ["--version"], (0,)) for _ in range(rounds))
    rows = [
        Row("packages of the stack", str(packages)),
        Row("contradiction, no cache", f"{cold:.2f} s", f"at most {COLD_SECONDS} s", cold <= COLD_SECONDS),
        Row("the whole lock, after that", f"{whole:.2f} s"),
        Row("contradiction, warm cache", f"{warm:.2f} s", f"at most {WARM_SECONDS} s", warm <= WARM_SECONDS),
        Row("ratio to invoke --version", f"{warm / start:.1f}"),
    ]
    return tell(rows)


if __name__ == "__main__":
    sys.exit(main())
