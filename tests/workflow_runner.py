"""Runs the jobs of a workflow as GitHub would: in their order, each on a machine of its own, a fresh clone here.

Actions have stand-ins: a checkout is a clone, an artifact a copy of a folder. `run` steps are run by bash as they are.
"""

import fnmatch
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.workflow_kit import filled, holds, load


@dataclass
class Machine:
    """One job's machine: its checkout, what its steps left, whether one of them failed."""

    folder: Path
    env: dict[str, str]
    steps: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    failed: bool = False


@dataclass
class Hub:
    """What stands for GitHub: a bare repository, artifacts, and what a run is told.

    `context` has `github`, `inputs`, `vars` and `secrets`; `env` is what every machine has. What each step said is in
    `log`, and how each job ended in `results`.
    """

    origin: Path
    work: Path
    context: Mapping[str, Any]
    env: Mapping[str, str]
    needs: dict[str, dict[str, Any]] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    @property
    def results(self) -> dict[str, str]:
        return {job: done["result"] for job, done in self.needs.items()}

    def run(self, name: str) -> dict[str, str]:
        """Run every job of a workflow; return how each ended."""
        workflow = load(name)
        for job, data in workflow["jobs"].items():
            self.needs[job] = self._job(job, data, workflow.get("env", {}))
        return self.results

    def _job(self, job: str, data: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, Any]:
        wanted = [data["needs"]] if isinstance(data.get("needs"), str) else data.get("needs", [])
        known = {**self.context, "needs": {one: self.needs[one] for one in wanted}}
        condition = data.get("if")
        everything_passed = all(self.needs[one]["result"] == "success" for one in wanted)
        if not holds(condition, known) or not (everything_passed or _goes_on(condition)):
            return {"result": "skipped", "outputs": {}}
        machines = [self._machine(job, data, {**known, "matrix": entry}, env) for entry in _entries(data, known)]
        last = {**known, "steps": machines[-1].steps}
        outputs = {key: filled(value, last) for key, value in data.get("outputs", {}).items()}
        return {"result": "failure" if any(one.failed for one in machines) else "success", "outputs": outputs}

    def _machine(self, job: str, data: Mapping[str, Any], known: dict[str, Any], env: Mapping[str, str]) -> Machine:
        folder = self.work / "-".join([job, *(str(value) for value in known["matrix"].values() if value in _SHORT)])
        own = {**env, **data.get("env", {})}
        machine = Machine(folder, {key: str(filled(value, known) or "") for key, value in own.items()})
        for step in data["steps"]:
            condition = step.get("if")
            if (not machine.failed or _goes_on(condition)) and holds(condition, {**known, "steps": machine.steps}):
                self._step(machine, job, step, known)
        shutil.rmtree(folder, ignore_errors=True)
        return machine

    def _step(self, machine: Machine, job: str, step: Mapping[str, Any], known: Mapping[str, Any]) -> None:
        told = {key: filled(value, known) for key, value in step.get("with", {}).items()}
        action = str(step.get("uses", "")).partition("@")[0]
        if action == "actions/checkout":
            words = ["--depth=1"] if told.get("fetch-depth", 1) == 1 else []
            command = ["git", "clone", "--quiet", *words, f"file://{self.origin}", str(machine.folder)]
            subprocess.run(command, check=True)
        elif action == "actions/upload-artifact":
            machine.failed |= not self._upload(machine.folder, told)
        elif action == "actions/download-artifact":
            machine.failed |= not self._download(machine.folder, told)
        else:
            assert not action, action
            self._type(machine, job, step, known)

    def _type(self, machine: Machine, job: str, step: Mapping[str, Any], known: Mapping[str, Any]) -> None:
        outputs = self.work / "outputs"
        outputs.write_text("")
        own = {key: str(filled(value, known) or "") for key, value in step.get("env", {}).items()}
        runner = {"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(outputs), "GITHUB_PATH": str(self.work / "path")}
        env = {**os.environ, **self.env, **runner, **machine.env, **own}
        done = subprocess.run(
            ["bash", "-e", "-c", step["run"]], cwd=machine.folder, env=env, capture_output=True, text=True
        )
        title = f"{job} {known['matrix'].get('arch', '')}: {step['run'].strip()}"
        self.log.append(f"{title}\n{done.stdout}{done.stderr}exit code {done.returncode}")
        machine.failed |= done.returncode != 0
        if "id" in step:
            lines = outputs.read_text().splitlines()
            machine.steps[step["id"]] = {"outputs": dict(line.split("=", 1) for line in lines)}

    @property
    def _artifacts(self) -> Path:
        return self.work / "artifacts"

    def _upload(self, folder: Path, told: Mapping[str, Any]) -> bool:
        found = [path for line in told["path"].split() for path in sorted(folder.glob(line))]
        files = [one for path in found for one in ([path] if path.is_file() else sorted(path.rglob("*")))]
        if not any(one.is_file() for one in files):
            return told.get("if-no-files-found") != "error"
        above = Path(os.path.commonpath([path if path.is_dir() else path.parent for path in found]))
        place = self._artifacts / told["name"]
        # As there: a name is given once in a run.
        place.mkdir(parents=True)
        for one in filter(Path.is_file, files):
            (place / one.relative_to(above)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(one, place / one.relative_to(above))
        return True

    def _download(self, folder: Path, told: Mapping[str, Any]) -> bool:
        pattern = told.get("name", told.get("pattern"))
        there = sorted(self._artifacts.iterdir()) if self._artifacts.is_dir() else []
        found = [one for one in there if fnmatch.fnmatchcase(one.name, pattern)]
        assert "name" in told or told.get("merge-multiple"), "otherwise each has a folder of its own"
        for one in found:
            shutil.copytree(one, folder / told["path"], dirs_exist_ok=True)
        return bool(found) or "pattern" in told


def _goes_on(condition: Any) -> bool:
    """Say whether what has this condition is asked for it at all where something before it failed."""
    return any(word in str(condition) for word in ("always()", "cancelled()"))


#: Values of a matrix that tell its machines apart by name.
_SHORT = ("amd64", "arm64")


def _entries(data: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    matrix = filled(data.get("strategy", {}).get("matrix"), known)
    if matrix is None:
        yield {}
    elif "include" in matrix:
        yield from matrix["include"]
    else:
        ((key, values),) = matrix.items()
        values = filled(values, known)
        assert isinstance(values, Sequence)
        yield from ({key: value} for value in values)
