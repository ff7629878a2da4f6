"""The main job as a user types it: variants built in the sandbox by a real engine, and checked by themselves."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
VARIANTS = ("a2", "a3-cann8.5", "a2-verl-qwen3.5-overlay")


def invoke(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "invoke", *words], cwd=ROOT, capture_output=True, text=True)


def run_in(image: str, *words: str, entrypoint: str | None = None) -> str:
    command = ["docker", "run", "--rm", *(["--entrypoint", entrypoint] if entrypoint else []), image, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def summary() -> dict[str, dict[str, object]]:
    """Build the three variants in one call; return what the summary says of each."""
    words = [word for name in VARIANTS for word in ("--variant", name)]
    ended = invoke("build", *words, "--sandbox", "--arch", "amd64", "--json")
    assert ended.returncode == 0, ended.stderr[-5000:]
    data = json.loads(ended.stdout)
    assert data["failed"] == []
    assert data["skipped"] == []
    return {one["variant"]: one for one in data["built"]}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_image_checked_itself_and_carries_the_report(summary: dict[str, dict[str, object]], name: str) -> None:
    report = json.loads(run_in(str(summary[name]["image"]), "cat", "/opt/ascend-images/report.json"))
    answers = [result["answer"] for result in report["results"]]
    assert report["variant"] == name
    assert len(answers) > 40
    assert set(answers) <= {"pass", "unknown", "not run"}


def test_a_name_is_imported_at_the_end_only_if_it_asked_for_a_source_that_came_later(
    summary: dict[str, dict[str, object]],
) -> None:
    facts = json.loads(run_in(str(summary["a2"]["image"]), "cat", "/opt/ascend-images/report.json"))["facts"]
    # vLLM's entry points look for its plugins, so for vllm_ascend, which comes after it and before the check.
    assert {"torch", "torch_npu", "vllm.entrypoints.openai.api_server", "vllm_ascend"} <= set(facts["imported_ahead"])
    assert set(facts["imports"]) - set(facts["imported_ahead"]) == {"swift", "swift.cli.main"}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_check_passes_again_in_a_container_with_no_tool_installed(
    summary: dict[str, dict[str, object]], name: str
) -> None:
    output = run_in(str(summary[name]["image"]), "python3", "/opt/ascend-images/check.py")
    assert " 0 fail" in output


@pytest.mark.parametrize("name", VARIANTS)
def test_the_record_says_what_was_built(summary: dict[str, dict[str, object]], name: str) -> None:
    record = json.loads((ROOT / "build" / "records" / f"{name}.amd64.json").read_text())
    assert record["digest"] == summary[name]["digest"]
    assert record["bytes"] > 10**6
    assert record["seconds"] > 0
    assert record["resolved"]["name"] == name


def test_an_overlay_names_the_old_release_nowhere_that_anything_looks(summary: dict[str, dict[str, object]]) -> None:
    image = str(summary["a2-verl-qwen3.5-overlay"]["image"])
    config = json.loads(subprocess.check_output(["docker", "image", "inspect", image]))[0]["Config"]
    assert "8.5.1" not in json.dumps([config["Env"], config["Entrypoint"], config["Cmd"]])
    assert "8.5.2" in json.dumps(config["Env"])
    assert "8.5.1" not in run_in(image, "cat", "/etc/profile", "/root/.bashrc", entrypoint="/usr/bin/env")
    assert run_in(image, "readlink", "-f", "/usr/local/Ascend/ascend-toolkit/latest").strip() == (
        "/usr/local/Ascend/cann-8.5.2"
    )


def test_environment_is_the_same_by_run_by_sh_and_by_login_shell(summary: dict[str, dict[str, object]]) -> None:
    image = str(summary["a2"]["image"])
    command = "python3 -c 'import vllm, vllm_ascend, swift; print(vllm.__file__, vllm_ascend.__file__, swift.__file__)'"
    ways = [["sh", "-c", command], ["bash", "-lc", command], ["bash", "-c", f"cd /tmp && {command}"]]
    # Without a driver torch_npu needs CANN's link stubs, as set_env.sh gives them.
    outputs = {run_in(image, *way) for way in ways}
    assert outputs == {"/vllm/vllm/__init__.py /vllm-ascend/vllm_ascend/__init__.py /ms-swift/swift/__init__.py\n"}


def test_a_second_build_of_the_same_is_the_same_image(summary: dict[str, dict[str, object]]) -> None:
    ended = invoke("build", "--variant", "a2", "--sandbox", "--arch", "amd64", "--json")
    assert ended.returncode == 0, ended.stderr[-3000:]
    (built,) = json.loads(ended.stdout)["built"]
    assert built["digest"] == summary["a2"]["digest"]
