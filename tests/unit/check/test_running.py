"""What is gathered by running programs: git, shells, set_env scripts, imports; and the script under Python 3.9."""

import ast
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ascend_images.program import program_files, write_program

pytestmark = pytest.mark.subprocess


def git(where: Path, *words: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    names = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", "-C", where, *names, *words], check=True, env=env, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git checkout with a package, a submodule and ignored build output."""
    if shutil.which("git") is None:
        pytest.skip("no git here")
    inner, outer = tmp_path / "inner", tmp_path / "vllm"
    for folder in (inner, outer):
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")
    (inner / "x").write_text("x")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "inner")
    (outer / "vllm").mkdir()
    (outer / "vllm/__init__.py").write_text("")
    git(outer, "submodule", "add", "-q", str(inner), "csrc/inner")
    git(outer, "add", ".")
    git(outer, "commit", "-qm", "outer")
    return outer


def source(checkout: Path) -> dict[str, Any]:
    return {"name": "vllm", "path": str(checkout), "module": "vllm"}


def test_a_clean_checkout_is_read_and_its_index_is_not_written(check: SimpleNamespace, checkout: Path) -> None:
    # `git status` would renew the index of a file whose times have changed.
    os.utime(checkout / "vllm/__init__.py", (1, 1))
    before = (checkout / ".git/index").read_bytes()
    facts = check.source_facts(check.Tree(), source(checkout))
    assert (checkout / ".git/index").read_bytes() == before
    assert facts["head"] == git(checkout, "rev-parse", "HEAD")
    assert (facts["changed"], facts["git_error"]) == ([], "")
    assert [(sub["path"], sub["head"] == sub["recorded"] != "") for sub in facts["submodules"]] == [
        ("csrc/inner", True)
    ]


def test_changes_count_and_build_output_does_not(check: SimpleNamespace, checkout: Path) -> None:
    (checkout / "vllm/__init__.py").write_text("edited")
    (checkout / "vllm/new.py").write_text("")
    for output in ("vllm.egg-info/PKG-INFO", "build/x", "vllm/_C.abi3.so", "vllm/__pycache__/x.pyc",
                   "vllm/_version.py"):  # fmt: skip
        (checkout / output).parent.mkdir(parents=True, exist_ok=True)
        (checkout / output).write_text("")
    facts = check.source_facts(check.Tree(), {**source(checkout), "compiles": True})
    assert facts["changed"] == [" M vllm/__init__.py", "?? vllm/new.py"]


def test_a_submodule_that_was_not_fetched_has_no_commit(check: SimpleNamespace, checkout: Path) -> None:
    git(checkout, "submodule", "deinit", "--quiet", "--force", "csrc/inner")
    facts = check.source_facts(check.Tree(), source(checkout))
    assert [sub["head"] for sub in facts["submodules"]] == [""]


def test_a_checkout_of_another_owner_is_read_all_the_same(check: SimpleNamespace, checkout: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give files away")
    for path in [checkout, *checkout.rglob("*")]:
        os.chown(path, 12345, 12345, follow_symlinks=False)
    assert len(check.source_facts(check.Tree(), source(checkout))["head"]) == 40


# --- shells and set_env scripts


@pytest.fixture
def scripts(tmp_path: Path) -> list[str]:
    """Set_env scripts with the vendor's habits: unset variables, an option, an empty element."""
    toolkit, atb = tmp_path / "set_env.sh", tmp_path / "atb.sh"
    toolkit.write_text(
        f"export ASCEND_HOME_PATH={tmp_path}/cann\n"
        "export LD_LIBRARY_PATH=${ASCEND_HOME_PATH}/lib64:${ASCEND_HOME_PATH}/plugin:${LD_LIBRARY_PATH}\n"
        "export PATH=${ASCEND_HOME_PATH}/bin:$PATH:/usr/sbin\n"
        "echo welcome\n"
    )
    atb.write_text(
        'for word in "$@"; do case "$word" in\n'
        f"--cxx_abi=*) export ATB_HOME_PATH={tmp_path}/atb/cxx_abi_${{word#*=}};; esac; done\n"
        "export LD_LIBRARY_PATH=$ATB_HOME_PATH/lib:$LD_LIBRARY_PATH\n"
        "export ATB_SHARE_MEMORY_NAME_SUFFIX=\n"
        'export SEEN_AUTOLOAD="$TORCH_DEVICE_BACKEND_AUTOLOAD"\n'
    )
    return [str(toolkit), f"{atb} --cxx_abi=1"]


def test_what_set_env_scripts_add_is_gathered_in_their_order(
    check: SimpleNamespace, scripts: list[str], tmp_path: Path
) -> None:
    facts = check.set_env_facts(scripts, "", str(tmp_path / "bytecode"))
    assert facts["error"] == ""
    assert facts["lists"]["LD_LIBRARY_PATH"] == [
        f"{tmp_path}/atb/cxx_abi_1/lib",
        f"{tmp_path}/cann/lib64",
        f"{tmp_path}/cann/plugin",
    ]
    assert facts["lists"]["PATH"] == [f"{tmp_path}/cann/bin"]
    assert facts["values"] == {
        "ASCEND_HOME_PATH": f"{tmp_path}/cann",
        "ATB_HOME_PATH": f"{tmp_path}/atb/cxx_abi_1",
        "ATB_SHARE_MEMORY_NAME_SUFFIX": "",
        "SEEN_AUTOLOAD": "0",
    }


def test_what_a_set_env_script_compiles_stays_out_of_the_image(check: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / "asked.py").write_text("")
    # As that of NNAL/ATB does, which asks torch for its ABI.
    (tmp_path / "asks.sh").write_text(f"cd {tmp_path}\n{sys.executable} -c 'import asked'\n")
    check.set_env_facts([str(tmp_path / "asks.sh")], "", str(tmp_path / "bytecode"))
    (compiled,) = tmp_path.rglob("asked.*.pyc")
    assert compiled.is_relative_to(tmp_path / "bytecode")


def test_scripts_that_end_the_shell_are_told(check: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / "bad.sh").write_text("exit 1\n")
    assert "end the shell" in check.set_env_facts([str(tmp_path / "bad.sh")], "", "")["error"]


def test_a_shell_tells_its_python_and_its_environment_whatever_it_prints(
    check: SimpleNamespace, tmp_path: Path
) -> None:
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TWO": "a\nb", "HOME": str(tmp_path)}
    found = check.shell_environment(["bash", "-c", f"echo noise; {check._SHELL_PROBE}"], env)
    assert found is not None
    assert found[0] == str(python)
    assert found[1]["TWO"] == "a\nb"
    assert check.shell_environment(["sh", "-c", "exit 3"], env) is None
    assert check.shell_environment(["/nonexistent/sh", "-c", "true"], env) is None


# --- modules


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Packages on PYTHONPATH, each with a fault of its own."""
    texts = {
        "good/__init__.py": "class Trainer: pass\n",
        "good/server.py": "import nosuchmodule\n",
        "space/core/__init__.py": "",
        "crash.py": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n",
        "hang.py": "import subprocess, time\nsubprocess.Popen(['sleep', '30'])\ntime.sleep(30)\n",
        "leave.py": "raise SystemExit(7)\n",
        "chatty.py": "import sys\nsys.stderr.write('x' * 100000)\nraise ImportError('libx.so: cannot open')\n",
    }
    for name, text in texts.items():
        (tmp_path / "lib" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lib" / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    (tmp_path / "work/good").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_the_origin_of_a_module_depends_on_where_python_is_started(check: SimpleNamespace, modules: Path) -> None:
    names = ["good", "space.core", "nosuch", "crash.x"]
    here = check.module_origins(sys.executable, names, str(modules / "empty"), 30)
    assert here["crash.x"]["error"] == "SIGSEGV"
    assert here["good"]["origin"] == str(modules / "lib/good/__init__.py")
    assert here["space.core"]["origin"] == str(modules / "lib/space/core/__init__.py")
    assert here["nosuch"]["error"] == "no module of this name"
    (modules / "work/good/__init__.py").write_text("")
    there = check.module_origins(sys.executable, ["good"], str(modules / "work"), 30)
    assert there["good"]["origin"] == str(modules / "work/good/__init__.py")


def test_a_folder_that_hides_an_editable_package_is_a_namespace(
    check: SimpleNamespace, modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An editable installation by way of a finder comes after the path; a folder in the current directory before it.
    monkeypatch.delenv("PYTHONPATH")
    found = check.module_origins(sys.executable, ["good"], str(modules / "work"), 30)
    assert found["good"] == {"origin": "", "namespace": [str(modules / "work/good")], "error": ""}


def test_each_import_ends_in_its_own_way(check: SimpleNamespace, modules: Path) -> None:
    names = ["good", "good.Trainer", "space.core", "good.server", "good.Nothing", "crash", "hang", "leave", "chatty"]
    start = time.monotonic()
    ran = check.imports(sys.executable, names, str(modules / "empty"), str(modules / "bytecode"), [], 3, 2)
    assert time.monotonic() - start < 25
    assert list(ran) == names
    assert [
        name for name in names if ran[name]["exit"] == 0 and not ran[name]["signal"] and not ran[name]["timed_out"]
    ] == names[:3]
    assert "No module named 'nosuchmodule'" in ran["good.server"]["stderr"]
    assert "has no attribute 'Nothing'" in ran["good.Nothing"]["stderr"]
    assert ran["crash"]["signal"] == "SIGSEGV"
    assert ran["hang"]["timed_out"]
    assert ran["leave"]["exit"] == 7
    assert len(ran["chatty"]["stderr"]) <= 6000
    assert check.last_line(ran["chatty"]["stderr"]) == "ImportError: libx.so: cannot open"
    assert not list((modules / "lib").rglob("__pycache__"))


def test_link_stubs_come_last_in_the_library_path(
    check: SimpleNamespace, modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import os\nassert os.environ['LD_LIBRARY_PATH'] == '/one:/two:/devlib', os.environ['LD_LIBRARY_PATH']\n"
    (modules / "lib/asks.py").write_text(text)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/one:/two:")
    assert (
        check.imports(sys.executable, ["asks"], str(modules), str(modules / "bytecode"), ["/devlib"], 30, 1)["asks"][
            "exit"
        ]
        == 0
    )


# --- the script


def test_what_has_no_bytecode_is_compiled_once_for_all_and_outside_of_the_image(
    check: SimpleNamespace, modules: Path
) -> None:
    (modules / "lib/big").mkdir()
    (modules / "lib/big/__init__.py").write_text("")
    # The first import leaves it there for the second, which fails if it is not.
    probe = "import importlib.util, os, big\nassert os.path.isfile(importlib.util.cache_from_source(big.__file__))\n"
    (modules / "lib/probe.py").write_text(probe)
    ran = check.imports(sys.executable, ["big", "probe"], str(modules / "empty"), str(modules / "bytecode"), [], 30, 1)
    assert [answer["exit"] for answer in ran.values()] == [0, 0], ran
    assert not list(modules.rglob("__pycache__"))


def test_what_has_bytecode_is_read_with_it_and_gets_no_more(check: SimpleNamespace, modules: Path) -> None:
    (modules / "lib/old/__pycache__").mkdir(parents=True)
    (modules / "lib/old/__init__.py").write_text("import sys\nassert sys.pycache_prefix is None\n")
    assert (
        check.imports(sys.executable, ["old"], str(modules / "empty"), str(modules / "bytecode"), [], 30, 1)["old"][
            "exit"
        ]
        == 0
    )
    assert list((modules / "lib/old/__pycache__").iterdir()) == []


def test_the_script_is_python_3_9(tmp_path: Path) -> None:
    for name, content in program_files().items():
        ast.parse(content, name, feature_version=(3, 9))
    python = python39()
    if python is None:
        pytest.skip("no Python 3.9 here: its grammar was checked only")
    write_program(tmp_path / "program")
    copy = tmp_path / "program" / "check.py"
    listed = subprocess.run([python, copy, "--list"], check=True, capture_output=True, text=True)
    assert "entry-points:" in listed.stdout
    done = subprocess.run([python, copy, "--root", tmp_path], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (5, "")  # no Python in an empty image


def python39() -> str | None:
    """Return a Python 3.9 of this machine: from PATH, or one that pyenv holds (its shims refuse to run)."""
    candidates = [shutil.which("python3.9")]
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True).stdout.strip()
        candidates += [str(path) for path in sorted(Path(root).glob("versions/3.9.*/bin/python3.9"))]
    for python in filter(None, candidates):
        asked = subprocess.run(
            [python, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True
        )
        if asked.stdout.strip() == "(3, 9)":
            return python
    return None


def test_the_script_imports_the_standard_library_and_itself_alone() -> None:
    names = set()
    for node in [node for content in program_files().values() for node in ast.walk(ast.parse(content))]:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add((node.module or "").split(".")[0])
    assert names <= {*sys.stdlib_module_names, "inside"}


def test_a_whole_run_on_this_machine_gathers_everything_and_changes_nothing(tmp_path: Path, checkout: Path) -> None:
    pinned = {"commit": git(checkout, "rev-parse", "HEAD"), "install": "pythonpath", "checks": ["json.JSONDecoder"]}
    image = {"schema": 1, "variant": "here", "sources": [{**source(checkout), **pinned}], "workdir": str(tmp_path)}
    (tmp_path / "image.json").write_text(json.dumps(image))
    program = tmp_path / "program"
    write_program(program)
    before = {path: path.stat().st_mtime_ns for top in (checkout, program) for path in sorted(top.rglob("*"))}
    reports = []
    for number in range(2):
        report = tmp_path / f"report{number}.json"
        words = [
            sys.executable,
            str(program / "check.py"),
            "--image-json",
            str(tmp_path / "image.json"),
            "--report",
            str(report),
        ]
        done = subprocess.run(
            words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(checkout)}, cwd="/"
        )
        assert done.returncode in (0, 5), done.stderr
        assert done.stderr == ""
        reports.append(json.loads(report.read_text()))
    after = {path: path.stat().st_mtime_ns for top in (checkout, program) for path in sorted(top.rglob("*"))}
    assert after == before
    rows = {(row["check"], row["subject"]): row["answer"] for row in reports[0]["results"]}
    assert (
        rows["source-commit", "vllm"]
        == rows["entry-points", "json.JSONDecoder"]
        == rows["source-origin", "vllm"]
        == "pass"
    )
    # Other programs of this machine write below /tmp meanwhile.
    results = [[row for row in one["results"] if row["check"] != "leftovers"] for one in reports]
    assert results[0] == results[1]


def test_importing_the_probes_by_hand_compiles(check: SimpleNamespace) -> None:
    recorded = check._BYTECODE + check._RECORD + check._IMPORT + check._RECORD_END
    for program in (check._PYTHON_PROBE, check._ORIGIN_PROBE, recorded, check._TELL):
        ast.parse(textwrap.dedent(program), feature_version=(3, 9))
