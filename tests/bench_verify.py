"""Cost of a verification, of the sandbox's a2: beyond its imports, and against a bare container, within one run.

The image must have been built: `invoke build --variant a2 --sandbox`. Numbers are medians of interleaved runs.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import docker
from docker.models.containers import ContainerCollection

from ascend_images import verifying
from tests.bench_table import Row, tell
from tests.stand_ins import stand_ins

ROOT = Path(__file__).parents[1]

# The imports of a verification alone, by the program that the image holds.
IMPORTS = """
import json, os, sys, tempfile, time
sys.path.insert(0, "/opt/ascend-images")
from inside.facts import distributions, imports, system
from inside.tree import Tree
image = json.load(open("/opt/ascend-images/image.json"))
tree = Tree()
python = system.python_facts(tree, image)
found, _ = distributions.distributions(tree, python["paths"])
names = imports.entry_points(image, found)
from inside.facts.cann import stub_folders
stubs = stub_folders(tree, image, os.uname().machine)
start = time.perf_counter()
place, bytecode = tempfile.mkdtemp(), tempfile.mkdtemp()
imports.imports(python["executable"], names, place, bytecode, stubs, 300, min(4, os.cpu_count() or 1))
print(time.perf_counter() - start)
"""


def timed(command: list[str]) -> tuple[float, str]:
    """Return the wall time of a command in seconds, and what it printed."""
    start = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - start, done.stdout


def main() -> int:
    """Measure, print, and return 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    starts = 0
    create = ContainerCollection.create

    def counted(*words: object, **more: object) -> object:
        nonlocal starts
        starts += 1
        return create(*words, **more)

    ContainerCollection.create = counted
    bare, imports, whole = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        wishes = verifying.Wishes(root=ROOT, variants=("a2",), report_dir=Path(folder), contexts=stand_ins)
        target = verifying.targets(wishes)[0]
        image = docker.from_env().images.get(target.reference).id
        wishes = replace(wishes, images=(target.reference,))
        for _ in range(rounds):
            bare.append(timed(["docker", "run", "--rm", image, "python3", "-c", "pass"])[0])
            imports.append(float(timed(["docker", "run", "--rm", image, "python3", "-c", IMPORTS])[1].split()[-1]))
            start = time.perf_counter()
            report = verifying.verify_target(wishes, verifying.find_place(wishes), target)
            whole.append(time.perf_counter() - start)
            if report.failed:
                raise SystemExit(f"the image is not what it should be: {report.of('fail')}")
    middle = [statistics.median(values) for values in (bare, imports, whole)]
    overhead = middle[2] - middle[1]
    each = starts / rounds
    return tell(
        [
            Row("docker run IMAGE python3 -c pass, median", f"{middle[0]:.2f} s"),
            Row("the imports of a verification, median", f"{middle[1]:.2f} s"),
            Row("a whole verification, median", f"{middle[2]:.2f} s"),
            Row("verification beyond its imports", f"{overhead:.2f} s", "at most 5 s", overhead <= 5),
            Row("the same as bare container runs", f"{overhead / middle[0]:.1f}"),
            Row("containers started for one verification", f"{each:g}", "1", each == 1),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
