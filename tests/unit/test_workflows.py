"""The workflows call what a person can call, have no more rights than they need, and keep secrets from strangers."""

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from invoke.parser import Parser

import noxfile
import tasks
from ascend_images import workflow
from ascend_images.pins.load import load as load_pins
from ascend_images.pins.resolve import resolve
from ascend_images.publish.machines import machines
from ascend_images.publish.matrix import RUNNERS, npu_labels
from ascend_images.publish.required import NPU, OPTIONAL
from tests.verify.__main__ import options_of
from tests.workflow_kit import ALL, FOLDER, NAMES, ROOT, Step, evaluate, filled, holds, load, typed_by

JOBS = [(name, job, data) for name in NAMES for job, data in load(name)["jobs"].items()]
RUNS = [step for step in ALL if "run" in step.data]
COMMANDS = [(step, command) for step in RUNS for command in step.commands]
PROGRAMS = ("invoke", "nox", "git", "echo")
PUBLISHING = (ROOT / "docs" / "publishing.md").read_text(encoding="utf-8")
RUNNERS_PAGE = (ROOT / "docs" / "runners.md").read_text(encoding="utf-8")
#: The environments of which the page says that they hold a secret.
SECRET_ENVIRONMENTS = {
    name
    for cell in re.findall(r"^\| `[A-Z_]+` \| secret of (.*?) \|", PUBLISHING, re.MULTILINE)
    for name in re.findall(r"`([a-z-]+)`", cell)
}

every_job = pytest.mark.parametrize(("name", "job", "data"), JOBS, ids=[f"{name} {job}" for name, job, _ in JOBS])
every_step = pytest.mark.parametrize("step", ALL, ids=str)
every_command = pytest.mark.parametrize(
    ("step", "command"), COMMANDS, ids=[f"{step} {command}"[:70] for step, command in COMMANDS]
)


def test_every_workflow_is_looked_at() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(NAMES)


# --- commands


@every_command
def test_a_step_types_what_a_person_can_type(step: Step, command: str) -> None:
    program = typed_by(command)[0]
    if program.startswith("scripts/"):
        assert (ROOT / program).stat().st_mode & 0o111, program
    else:
        assert program in PROGRAMS


@every_command
def test_a_command_holds_no_logic(step: Step, command: str) -> None:
    """One command a line: no pipes, loops, conditions or expressions of GitHub's; what varies is a quoted variable."""
    assert "${{" not in command
    assert not re.search(r"\||;|&|`|<|\b(?:if|for|while|case|eval)\b", command.replace("2>&1", ""))
    outside_quotes = re.sub(r'"[^"]*"', "", re.sub(r"\$\{[A-Z_]+:\+(.*?)\}", r"\1", command))
    assert "$" not in re.sub(r"^[a-z_]+=\$\(.*\)$", "", outside_quotes)


def variables(command: str) -> set[str]:
    return set(re.findall(r"\$\{?([A-Za-z_]+)", command))


@pytest.mark.parametrize("step", RUNS, ids=str)
def test_every_variable_is_given_or_the_runners_own(step: Step) -> None:
    text = "\n".join(step.commands)
    own = {*re.findall(r"^([a-z_]+)=", text, re.MULTILINE), "PWD", "GITHUB_PATH"}
    assert variables(text) <= {*step.env, *own}


@every_command
def test_a_line_is_understood_by_what_it_calls(step: Step, command: str) -> None:
    words = typed_by(command.partition(" > ")[0])
    if words[0] == "invoke":
        Parser(contexts=tasks.namespace.to_contexts()).parse_argv(words[1:])
    elif words[0] == "nox":
        assert words[1:4] == ["-s", "verify", "--"]
        # A variable that is a flag by itself.
        options = options_of([{"REQUIRE_NPU": "--require-npu"}.get(word, word) for word in words[4:]])
        assert options.require_npu
        assert options.image == ["image"]


def test_a_line_that_is_not_understood_is_noticed() -> None:
    with pytest.raises(Exception, match="no-such-flag"):
        Parser(contexts=tasks.namespace.to_contexts()).parse_argv(["plan", "--no-such-flag"])


def test_every_verb_of_a_publication_is_called_in_its_order() -> None:
    called = [typed_by(command) for step, command in COMMANDS if step.workflow == "images.yml"]
    verbs = [words[1] if words[0] == "invoke" else words[0] for words in called if words[0] in ("invoke", "nox")]
    line = [verb for verb in verbs if verb not in ("remember", "joined")]
    assert line == ["plan", "lock", "build", "manifest", "sbom", "nox", "nox", "promote", "tags", "propose"]


def test_ci_is_the_readmes_test_command() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [command for step, command in COMMANDS if step.workflow == "ci.yml"]
    assert commands[-1] == "scripts/test.sh"
    assert "\nscripts/test.sh\n" in readme


# --- rights


@every_step
def test_actions_are_pinned_by_commit_with_the_version_beside_it(step: Step) -> None:
    uses = step.data.get("uses")
    if uses is None:
        return
    assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", uses)
    lines = (FOLDER / step.workflow).read_text(encoding="utf-8").splitlines()
    said = {line.partition("# ")[2] for line in lines if uses in line}
    assert len(said) == 1
    assert re.fullmatch(r"v\d+\.\d+\.\d+", said.pop())


@every_step
def test_no_credentials_stay_in_a_checkout(step: Step) -> None:
    if str(step.data.get("uses", "")).startswith("actions/checkout@"):
        assert step.data["with"]["persist-credentials"] is False


@pytest.mark.parametrize("name", NAMES)
def test_a_workflow_has_no_right_by_itself(name: str) -> None:
    assert load(name)["permissions"] == {}


@every_job
def test_a_job_has_the_least_rights(name: str, job: str, data: dict[str, Any]) -> None:
    writes = {"contents": "write", "pull-requests": "write"}
    wanted = writes if (name, job) in {("images.yml", "index"), ("update.yml", "propose")} else {"contents": "read"}
    assert data["permissions"] == wanted


@every_job
def test_a_job_ends(name: str, job: str, data: dict[str, Any]) -> None:
    assert 0 < data["timeout-minutes"] <= 360


def test_strangers_start_nothing_but_the_tests() -> None:
    foreign = {"pull_request", "pull_request_target", "issue_comment", "issues", "workflow_run", "fork", "discussion"}
    started = {name: set(load(name)["on"]) for name in NAMES}
    assert started["ci.yml"] == {"push", "pull_request"}
    assert not (started["images.yml"] | started["update.yml"]) & foreign


@every_job
def test_what_strangers_start_has_no_secret_and_no_machine_of_ours(name: str, job: str, data: dict[str, Any]) -> None:
    if name != "ci.yml":
        return
    assert "secrets." not in str(data)
    assert "github.token" not in str(data)
    assert "environment" not in data
    assert data["runs-on"] in RUNNERS.values()


@every_job
def test_secrets_are_in_environments_and_reach_one_step(name: str, job: str, data: dict[str, Any]) -> None:
    for step in data["steps"]:
        text = str({key: value for key, value in step.items() if key != "env"})
        assert "secrets." not in text
        if "secrets." in str(step.get("env", {})):
            assert data["environment"]
    assert "secrets." not in str(data.get("env", {}))


def test_no_secret_reaches_a_machine_with_npus() -> None:
    """Its environment holds none, and the one step with a login is for machines of the other environment."""
    verify = load("images.yml")["jobs"]["verify"]
    assert verify["environment"] == "${{ matrix.environment }}"
    assert verify["runs-on"] == "${{ matrix.runner }}"
    (login,) = (one for one in verify["steps"] if "secrets." in str(one))
    assert login["env"] == {"REGISTRY_LOGINS": "${{ secrets.PULL_LOGINS }}"}
    there = machines("a2:arm64", hardware=("a2", "a3"))
    variants = tuple(resolve(load_pins(ROOT / "versions.toml"), name, allow_broken=True) for name in ("a2", "a3"))
    plan = workflow.Plan(variants=variants, machines=there, left_out={}, doubtful={})
    entries = json.loads(plan.outputs()["verifications"])["include"]
    on_npus = [one for one in entries if one["npu"]]
    assert [(one["variant"], one["arch"]) for one in on_npus] == [("a2", "arm64")]
    for entry in entries:
        assert holds(login["if"], {"matrix": entry}) is (entry not in on_npus)
        assert (entry["environment"] == workflow.NPU) is (entry in on_npus)
    assert workflow.NPU not in SECRET_ENVIRONMENTS
    elsewhere = [(name, job) for name, job, data in JOBS if "verifications" in str(data.get("strategy", ""))]
    assert elsewhere == [("images.yml", "verify")]


@pytest.mark.subprocess
def test_a_login_that_is_not_there_is_no_trouble(docker: Path) -> None:
    (login,) = (one for one in load("images.yml")["jobs"]["verify"]["steps"] if "secrets." in str(one))
    env = {"PATH": f"{docker}:/usr/bin:/bin"}
    for logins in ("", "one.invalid me p4ss"):
        done = subprocess.run(["bash", "-e", "-c", login["run"]], cwd=ROOT, env={**env, "REGISTRY_LOGINS": logins})
        assert done.returncode == 0
        assert (docker.parent / "asked").exists() is bool(logins)


@pytest.mark.parametrize("name", ["images.yml", "update.yml"])
def test_in_a_fork_and_on_a_branch_nothing_happens(name: str) -> None:
    first, *others = load(name)["jobs"].values()
    ours = {"vars": {"PUBLISH_IMAGES": "yes"}, "github": {"ref": "refs/heads/main"}}
    assert holds(first["if"], ours)
    assert not holds(first["if"], {**ours, "vars": {}})
    assert not holds(first["if"], {**ours, "github": {"ref": "refs/heads/other"}})
    for job in others:
        assert job["needs"]
        assert "if" in job
        # Nothing is planned where the first job was skipped.
        assert not holds(job["if"], {"needs": {one: {"result": "skipped"} for one in load(name)["jobs"]}})


# --- the order of things


def test_a_publication_is_never_cancelled() -> None:
    for name in ("images.yml", "update.yml"):
        assert load(name)["concurrency"]["cancel-in-progress"] is False
    # One group for all runs: promotions and the index have one writer.
    assert load("images.yml")["concurrency"]["group"] == "images"
    assert not any("concurrency" in data for _, _, data in JOBS)


def test_tests_of_a_pull_request_are_cancelled_by_newer_ones_and_those_of_main_are_not() -> None:
    cancel = load("ci.yml")["concurrency"]["cancel-in-progress"]
    assert filled(cancel, {"github": {"event_name": "pull_request"}}) is True
    assert filled(cancel, {"github": {"event_name": "push"}}) is False


def meets(job: str, overrides: str | None = None, **results: str) -> bool:
    """Say whether a job of images.yml runs, given how those that it waits for ended (success where it is not said)."""
    data = load("images.yml")["jobs"][job]
    needs = [data["needs"]] if isinstance(data["needs"], str) else data["needs"]
    ended = {one: {"result": results.get(one, "success"), "outputs": {"any": "true"}} for one in needs}
    return holds(data["if"], {"needs": ended, "inputs": {} if overrides is None else {"overrides": overrides}})


@pytest.mark.parametrize(
    ("job", "before"), [("manifest", "build"), ("verify", "manifest"), ("promote", "verify"), ("index", "promote")]
)
def test_one_variant_that_fails_stops_no_other(job: str, before: str) -> None:
    assert meets(job)
    assert meets(job, **{before: "failure"})
    assert not meets(job, **{before: "skipped"})


def test_a_trial_is_locked_built_and_verified_but_not_promoted() -> None:
    assert meets("lock", "evalscope=1.11.0")
    assert meets("build", "evalscope=1.11.0")
    assert not meets("build", "evalscope=1.11.0", lock="failure")
    assert meets("verify", "evalscope=1.11.0")
    assert not meets("promote", "evalscope=1.11.0")


def test_what_was_promoted_before_a_run_was_cancelled_is_put_on_record() -> None:
    jobs = load("images.yml")["jobs"]
    (upload,) = (one for one in jobs["promote"]["steps"] if one.get("with", {}).get("name") == "published")
    assert holds(upload["if"], {"cancelled": True})
    for result in ("success", "failure", "cancelled", "skipped"):
        context = {"cancelled": True, "needs": {"promote": {"result": result}}}
        assert holds(jobs["index"]["if"], context) is (result != "skipped")
    # No other job goes on.
    ended = {one: {"result": "success", "outputs": {"any": "true"}} for one in jobs}
    going_on = [
        name
        for name, job in jobs.items()
        if "needs" in job and holds(job["if"], {"cancelled": True, "needs": ended, "inputs": {"overrides": ""}})
    ]
    assert going_on == ["index"]


def test_a_commit_of_a_job_that_may_run_foreign_code_is_looked_at_before_any_code_of_it_runs() -> None:
    lines = [command for step, command in COMMANDS if (step.workflow, step.job) == ("update.yml", "propose")]
    own = [typed_by(command)[:2] for command in lines if command.startswith("invoke")]
    assert own == [["invoke", verb] for verb in ("take", "diff", "tags", "propose")]
    assert not any("git" in typed_by(command) for command in lines)
    steps = [step for step in ALL if (step.workflow, step.job) == ("update.yml", "propose")]
    took = next(number for number, step in enumerate(steps) if "take" in str(step.data.get("run")))
    assert "download-artifact" in steps[took - 1].data["uses"]
    # The artifact lies where nothing of the project's does.
    assert steps[took - 1].data["with"]["path"] == "build/patches"


@pytest.mark.parametrize("overrides", [None, ""])
def test_without_overrides_nothing_is_locked_anew_and_all_is_promoted(overrides: str | None) -> None:
    assert not meets("lock", overrides)
    assert meets("build", overrides, lock="skipped")
    assert meets("promote", overrides)


def test_what_is_passed_on_is_what_was_left() -> None:
    """Each artifact that a job takes is one that a job before it left."""
    context = {"matrix": {"variant": "a2-verl-qwen3.5", "arch": "arm64", "artifact": "update-x-1"}}
    for name in NAMES:
        left: set[str] = set()
        for step in ALL:
            uses, with_ = str(step.data.get("uses", "")), step.data.get("with", {})
            if step.workflow != name:
                continue
            if uses.startswith("actions/upload-artifact@"):
                left.add(filled(with_["name"], context))
            elif uses.startswith("actions/download-artifact@"):
                wanted = filled(with_.get("name", with_.get("pattern")), context)
                assert any(Path(one).match(wanted) for one in left), (wanted, left)


def test_the_records_of_one_variant_are_not_those_of_another_with_a_longer_name() -> None:
    jobs = load("images.yml")["jobs"]
    uploads = [one["with"]["name"] for one in jobs["build"]["steps"] if "upload" in one.get("uses", "")]
    pattern = next(one["with"]["pattern"] for one in jobs["manifest"]["steps"] if "pattern" in one.get("with", {}))
    left = filled(uploads[0], {"matrix": {"variant": "a2-verl", "arch": "amd64"}})
    assert not Path(left).match(filled(pattern, {"matrix": {"variant": "a2"}}))
    assert Path(left).match(filled(pattern, {"matrix": {"variant": "a2-verl"}}))


# --- expressions, as the tests read them


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a.b || 'x'", "x"),
        ("a.c && 'y'", "y"),
        ("a.c == 'it''s'", True),
        ("!cancelled() && (a.c == 'no' || a.b == '')", True),
        ("fromJSON(a.d)", [1]),
        ("always() && a.b != 'skipped'", True),
    ],
)
def test_expressions(text: str, value: Any) -> None:
    assert evaluate(text, {"a": {"c": "it's", "d": "[1]"}}) == value


# --- scripts


def script(name: str, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    path = {"PATH": "/usr/bin:/bin", **env}
    return subprocess.run([str(ROOT / "scripts" / name), *words], env=path, capture_output=True, text=True)


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "<x>"),
        ("a=1 b=2", "<x><--set><a=1><--set><b=2>"),
        (
            "\"a=in two words\" 'b=$(touch nowhere)' *",
            "<x><--set><a=in two words><--set><b=$(touch nowhere)><--set><*>",
        ),
        ("-x --y", "<x><--set><-x><--set><--y>"),
    ],
)
def test_a_text_becomes_a_flag_for_each_word(text: str, said: str) -> None:
    assert script("repeat_flag.sh", "--set", text, "printf", "<%s>", "x").stdout == said


@pytest.mark.subprocess
@pytest.mark.parametrize("words", [(), ("--set", "a"), ("set", "a", "true"), ("--set", '"a', "true")])
def test_what_cannot_be_repeated(words: tuple[str, ...]) -> None:
    done = script("repeat_flag.sh", *words)
    assert done.returncode == 2
    assert "usage" in done.stderr or "quotes do not match" in done.stderr


@pytest.mark.subprocess
@pytest.mark.parametrize("env", [{}, {"GITHUB_ACTIONS": "true", "RUNNER_ENVIRONMENT": "self-hosted"}])
def test_a_machine_that_is_not_githubs_is_left_alone(env: dict[str, str]) -> None:
    done = script("prepare_runner.sh", **env)
    assert done.returncode == 0
    assert "nothing was changed" in done.stdout


@pytest.fixture
def docker(tmp_path: Path) -> Path:
    """A docker that writes down its words and what it is told, and refuses bad.invalid."""
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$* <$(cat)>" >> {tmp_path}/asked\n[ "${{5}}" != bad.invalid ]\n')
    program.chmod(0o755)
    return program.parent


@pytest.mark.subprocess
def test_passwords_are_on_no_command_line(docker: Path) -> None:
    logins = "one.invalid me p4ss word\n\nbad.invalid you $(x)\ntwo.invalid us p\\q"
    done = script("registry_login.sh", PATH=f"{docker}:/usr/bin:/bin", REGISTRY_LOGINS=logins)
    assert done.returncode == 1, done.stderr
    assert (docker.parent / "asked").read_text().splitlines() == [
        "login --username me --password-stdin one.invalid <p4ss word>",
        "login --username you --password-stdin bad.invalid <$(x)>",
        "login --username us --password-stdin two.invalid <p\\q>",
    ]


@pytest.mark.subprocess
@pytest.mark.parametrize("logins", ["", "registry.invalid user"])
def test_a_login_that_is_none_is_told_without_it(docker: Path, logins: str) -> None:
    done = script("registry_login.sh", PATH=f"{docker}:/usr/bin:/bin", REGISTRY_LOGINS=logins)
    assert done.returncode == 2
    assert "registry.invalid" not in done.stderr + done.stdout
    assert not (docker.parent / "asked").exists()


@pytest.mark.subprocess
@pytest.mark.parametrize("name", ["repeat_flag.sh", "prepare_runner.sh", "registry_login.sh"])
def test_scripts_say_what_they_do(name: str) -> None:
    done = script(name, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: ")
    assert f"scripts/{name}" in noxfile.SCRIPTS


# --- what the pages say


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(test_\w+)`", PUBLISHING))))
def test_every_test_that_a_page_names_is_there(name: str) -> None:
    assert any(f"def {name}(" in path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize(
    "line",
    sorted(
        set(re.findall(r"`((?:invoke|nox) [^`]*)`", PUBLISHING + RUNNERS_PAGE))
        | set(re.findall(r"^ *((?:invoke|nox) .*)$", PUBLISHING, re.MULTILINE))
    ),
)
def test_every_line_of_the_pages_can_be_typed(line: str) -> None:
    words = shlex.split(line)
    if words[0] == "invoke" and len(words) > 2:
        Parser(contexts=tasks.namespace.to_contexts()).parse_argv(words[1:])
    elif words[0] == "invoke":
        assert words[1] in tasks.namespace.task_names
    elif "--" in words:
        options_of(words[words.index("--") + 1 :])


def test_the_page_names_every_stack_that_has_a_repository() -> None:
    stacks = tomllib.loads((ROOT / "versions.toml").read_text(encoding="utf-8"))["stack"]
    step = PUBLISHING.partition("change `repository` of ")[2].partition(";")[0]
    assert set(re.findall(r'\[stack\."?(.*?)"?\]`', step)) == {n for n, one in stacks.items() if "repository" in one}


def test_what_is_required_is_told_as_it_is() -> None:
    table = PUBLISHING.partition("| not required |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z-]+)`", table)) == set(OPTIONAL)
    told = PUBLISHING.partition("only a host with NPUs answers are")[2].partition(". ")[0]
    assert re.findall(r"`([a-z-]+)`", told) == list(NPU)


def test_every_hardware_has_the_label_that_the_page_says() -> None:
    pins = load_pins(ROOT / "versions.toml")
    labels = {npu_labels(resolve(pins, name, allow_broken=True))[-1] for name in pins.variant}
    assert set(re.findall(r"\| `(ascend-\w+)` \|", RUNNERS_PAGE)) == labels


def test_every_variable_and_secret_is_told_and_no_other() -> None:
    text = "".join((FOLDER / name).read_text(encoding="utf-8") for name in NAMES)
    used = set(re.findall(r"\b(?:vars|secrets)\.([A-Z_]+)", text))
    assert set(re.findall(r"^\| `([A-Z_]+)` \|", PUBLISHING, re.MULTILINE)) == used
    written = set(re.findall(r"^ +environment: ([a-z-]+)", text, re.MULTILINE))
    assert all(f"`{name}`" in PUBLISHING for name in written | {workflow.NPU, workflow.PULL})
    assert written | {workflow.PULL} == SECRET_ENVIRONMENTS


# --- the checks of lint find something


BAD = """\
on: [pull_request_target]
jobs:
  x:
    runs-on: ubuntu-latest
    steps:
      - run: echo ${{ github.event.pull_request.title }}
"""


@pytest.mark.subprocess
def test_a_workflow_with_a_hole_is_refused(tmp_path: Path) -> None:
    zizmor, schema = shutil.which("zizmor"), shutil.which("check-jsonschema")
    assert zizmor
    assert schema
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    (folder / "bad.yml").write_text(BAD)
    found = subprocess.run([zizmor, *noxfile.ZIZMOR, str(folder)], capture_output=True, text=True)
    assert found.returncode != 0
    assert "template-injection" in found.stdout
    (folder / "bad.yml").write_text(BAD.replace("runs-on", "run-on"))
    command = [schema, *noxfile.WORKFLOW_SCHEMA, str(folder / "bad.yml")]
    assert subprocess.run(command, capture_output=True).returncode != 0
