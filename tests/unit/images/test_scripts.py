"""The scripts that a rendered file carries along: small programs of their own, tried here outside any image."""

import base64
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ascend_images.images.render import LIBRARY, TEMPLATES


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TEMPLATES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_script_holds_no_line_that_would_end_its_heredoc() -> None:
    for name in LIBRARY:
        assert "EOF" not in (TEMPLATES / name).read_text().splitlines()


def test_scripts_run_on_the_oldest_python_of_a_base_image() -> None:
    import ast

    for name in LIBRARY:
        if name.endswith(".py"):
            ast.parse((TEMPLATES / name).read_text(), feature_version=(3, 9))


# --- base_packages.py


def test_what_the_lock_brings_and_what_is_unwanted_goes_from_the_base() -> None:
    locked = "numpy==1.26.4 \\\n    --hash=sha256:00\npy-yaml==6.0\n"
    installed = ["numpy", "PyYAML", "Py_Yaml", "sympy", "nvidia-nccl-cu12", "triton", "pip"]
    removed = load("base_packages").to_remove(installed, locked, ["nvidia-*", "triton", "triton-ascend"])
    assert removed == ["numpy", "nvidia-nccl-cu12", "py-yaml", "triton"]


def test_a_base_without_any_of_them_keeps_everything() -> None:
    assert load("base_packages").to_remove(["sympy"], "numpy==1\n", ["triton"]) == []


# --- patch.py


def site_packages(folder: Path, text: str) -> Path:
    site = folder / "site-packages"
    (site / "mbridge").mkdir(parents=True)
    (site / "mbridge" / "x.py").write_text(text)
    (site / "mbridge-0.15.1.dist-info").mkdir()
    (site / "mbridge-0.15.1.dist-info" / "RECORD").write_text(
        "mbridge/__init__.py,sha256=x,0\nmbridge/x.py,sha256=old,1\nmbridge-0.15.1.dist-info/RECORD,,\n"
    )
    return site


def change(**other: Any) -> dict[str, Any]:
    return {
        "distribution": "Mbridge",
        "file": "mbridge/x.py",
        "find": "cuda",
        "replace": "npu",
        "count": 2,
        **other,
    } | {"reason": "no CUDA here"}


def test_a_patch_changes_its_places_and_the_files_entry_in_record(tmp_path: Path) -> None:
    site = site_packages(tmp_path, "a = 'cuda'\nb = 'cuda'\n")
    load("patch").patch(site, change())
    patched = (site / "mbridge" / "x.py").read_bytes()
    assert patched == b"a = 'npu'\nb = 'npu'\n"
    digest = base64.urlsafe_b64encode(hashlib.sha256(patched).digest()).rstrip(b"=").decode()
    assert (site / "mbridge-0.15.1.dist-info" / "RECORD").read_text().splitlines() == [
        "mbridge/__init__.py,sha256=x,0",
        f"mbridge/x.py,sha256={digest},{len(patched)}",
        "mbridge-0.15.1.dist-info/RECORD,,",
    ]


@pytest.mark.parametrize("text", ["a = 'cuda'\n", "cuda cuda cuda\n", "nothing\n"])
def test_a_patch_that_fits_in_other_than_the_meant_places_stops_the_build(tmp_path: Path, text: str) -> None:
    site = site_packages(tmp_path, text)
    with pytest.raises(SystemExit, match="wanted: 2 times: no CUDA here"):
        load("patch").patch(site, change())
    assert (site / "mbridge" / "x.py").read_text() == text


def test_a_patch_for_a_file_that_is_not_there_stops_the_build(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"has no file mbridge/y\.py"):
        load("patch").patch(site_packages(tmp_path, ""), change(file="mbridge/y.py"))


# --- session.py


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """Return an image's root with its start-up files made."""
    own = tmp_path / "opt" / "ascend-images"
    own.mkdir(parents=True)
    document = {
        "python_home": "/usr/local/python3.12.13",
        "env": {
            "PATH": "/cann/bin:/usr/local/python3.12.13/bin:/usr/bin:/bin",
            "LD_LIBRARY_PATH": "/cann/{kernel_arch}/lib",
            "ASCEND_TOOLKIT_HOME": "/cann",
            "ODD": 'it\'s $HOME "x"',
            "EMPTY": "",
        },
    }
    (own / "image.json").write_text(json.dumps(document))
    load("session").main(tmp_path, "aarch64")
    # The file of an image names env.sh by its place there.
    profile = tmp_path / "etc" / "profile.d" / "ascend-images.sh"
    profile.write_text(profile.read_text().replace("/opt/ascend-images", str(own)))
    return tmp_path


def run(shell: list[str], text: str, **environment: str) -> str:
    done = subprocess.run([*shell, text], capture_output=True, text=True, check=True, env=environment)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.subprocess
@pytest.mark.parametrize("shell", [["/bin/sh", "-euc"], ["/bin/bash", "-euc"]])
def test_a_session_without_the_images_environment_gets_it(session: Path, shell: list[str]) -> None:
    text = f'. {session}/etc/profile.d/ascend-images.sh; printf "%s\\n" "$LD_LIBRARY_PATH" "$ODD" "[$EMPTY]"'
    assert run(shell, text).splitlines() == ["/cann/aarch64/lib", 'it\'s $HOME "x"', "[]"]


@pytest.mark.subprocess
def test_a_session_that_has_it_keeps_what_it_has(session: Path) -> None:
    text = f'. {session}/etc/profile.d/ascend-images.sh; printf "%s\\n" "$LD_LIBRARY_PATH" "${{ODD-unset}}"'
    given = {"ASCEND_TOOLKIT_HOME": "/cann", "LD_LIBRARY_PATH": "/mine", "PATH": "/usr/local/python3.12.13/bin"}
    assert run(["/bin/sh", "-euc"], text, **given).splitlines() == ["/mine", "unset"]


@pytest.mark.subprocess
def test_a_login_shell_that_set_path_anew_finds_the_images_python_again(session: Path) -> None:
    text = f'. {session}/etc/profile.d/ascend-images.sh; printf "%s" "$PATH"'
    found = run(["/bin/sh", "-euc"], text, ASCEND_TOOLKIT_HOME="/cann", PATH="/usr/bin:/bin")
    assert found == "/cann/bin:/usr/local/python3.12.13/bin:/usr/bin:/bin"


@pytest.mark.subprocess
def test_history_expansion_is_off(session: Path) -> None:
    text = f"set -H; . {session}/etc/profile.d/ascend-images.sh; set -o"
    assert "histexpand     \toff" in run(["/bin/bash", "-euc"], text)


# --- build.sh


def bash(text: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a step as a rendered file does, with the library at hand."""
    script = f"source {TEMPLATES}/build.sh\n{text}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(
        ["/bin/bash", "-Eeuo", "pipefail", "-c", script],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**kept, "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}", **environment},
    )


@pytest.mark.subprocess
def test_a_failing_command_is_named_with_its_line(tmp_path: Path) -> None:
    done = bash("true\nls /no-such-folder\ntrue", tmp_path)
    assert done.returncode == 2
    assert "line 3 failed (2): ls /no-such-folder" in done.stderr


@pytest.mark.subprocess
def test_a_command_that_fails_in_a_shared_function_is_named_with_the_steps_line(tmp_path: Path) -> None:
    done = bash("true\nuse_it() { settle /no-such-folder; }\nuse_it", tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("line 4 failed (1): find")
    assert "in settle, line" in done.stderr


@pytest.mark.subprocess
def test_a_refusal_says_what_was_wanted(tmp_path: Path) -> None:
    done = bash('stop "no such thing" "wanted: a thing"', tmp_path)
    assert (done.returncode, done.stderr) == (1, "build stopped: no such thing\n  wanted: a thing\n")


@pytest.mark.subprocess
def test_what_goes_over_a_network_is_tried_three_times(tmp_path: Path) -> None:
    done = bash("sleep() { :; }\nattempt() { echo x >>tries; [[ $(wc -l <tries) -ge 3 ]]; }\nagain attempt", tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "tries").read_text() == "x\nx\nx\n"


@pytest.mark.subprocess
def test_after_three_attempts_it_stops(tmp_path: Path) -> None:
    done = bash("sleep() { :; }\nagain false", tmp_path)
    assert done.returncode == 1
    assert "build stopped: three attempts failed: false" in done.stderr


@pytest.mark.subprocess
@pytest.mark.parametrize("home", ["/usr/local/Ascend/cann-8.5.1", ""])
def test_set_env_scripts_of_another_release_stop_the_build(tmp_path: Path, home: str) -> None:
    done = bash("cann_is /usr/local/Ascend/cann-8.5.2", tmp_path, ASCEND_TOOLKIT_HOME=home, ATB_HOME_PATH="/x")
    assert done.returncode == 1
    assert "wanted: /usr/local/Ascend/cann-8.5.2" in done.stderr or "  /usr/local/Ascend/cann-8.5.2" in done.stderr


@pytest.mark.subprocess
def test_devlib_comes_in_front_only_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "home" / "devlib").mkdir(parents=True)
    assert bash('printf %s "$(devlib home)"', tmp_path).stdout == "home/devlib:"
    assert bash('printf %s "$(devlib none)"', tmp_path).stdout == ""


@pytest.mark.subprocess
def test_what_differs_from_build_to_build_is_gone_or_constant(tmp_path: Path) -> None:
    info = tmp_path / "out" / "x-1.dist-info"
    info.mkdir(parents=True)
    (info / "uv_cache.json").write_text("{}")
    (info / "RECORD").write_text("x.py,,\nx-1.dist-info/uv_cache.json,sha256=0,2\nx-1.dist-info/RECORD,,\n")
    (tmp_path / "out" / "__pycache__").mkdir()
    (tmp_path / "out" / "__pycache__" / "x.pyc").touch()
    (tmp_path / "out" / "link").symlink_to("x-1.dist-info")
    assert bash(f"settle {tmp_path}/out", tmp_path).returncode == 0
    assert (info / "RECORD").read_text() == "x.py,,\nx-1.dist-info/RECORD,,\n"
    entries = sorted(str(path.relative_to(tmp_path)) for path in (tmp_path / "out").rglob("*"))
    assert entries == ["out/link", "out/x-1.dist-info", "out/x-1.dist-info/RECORD"]
    assert {path.lstat().st_mtime for path in (tmp_path / "out").rglob("*")} == {315532800}


@pytest.mark.subprocess
def test_cmake_files_that_skip_certificates_do_not_while_they_are_used_and_are_put_back(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "cmake").mkdir(parents=True)
    files = {
        "cmake/json.cmake": "URL x\n TLS_VERIFY OFF\n",
        "CMakeLists.txt": "TLS_VERIFY  0)\n",
        "x.txt": "TLS_VERIFY OFF\n",
    }
    for name, text in files.items():
        (tree / name).write_text(text)
    step = f"tls_on {tree}\ngrep -rh TLS_VERIFY {tree}/cmake {tree}/CMakeLists.txt\ntls_as_written"
    library = (TEMPLATES / "build.sh").read_text().replace("/build/", f"{tmp_path}/")
    (tmp_path / "build.sh").write_text(library)
    done = subprocess.run(
        ["/bin/bash", "-c", f"source {tmp_path}/build.sh\n{step}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["TLS_VERIFY", "ON", "TLS_VERIFY", "ON)"]
    assert {name: (tree / name).read_text() for name in files} == files


@pytest.mark.subprocess
def test_cmake_files_that_check_certificates_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text("TLS_VERIFY ON\n")
    assert bash(f"tls_on {tmp_path}; tls_as_written", tmp_path).returncode == 0
    assert (tmp_path / "CMakeLists.txt").read_text() == "TLS_VERIFY ON\n"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
    settings = ["-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main", *identity]
    environment = {**os.environ, "GIT_AUTHOR_DATE": "1000000000 +0000", "GIT_COMMITTER_DATE": "1000000000 +0000"}
    done = subprocess.run(
        ["git", "-C", str(folder), *settings, *arguments], capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository of two commits with a tag, a branch and a submodule."""
    for name in ("inner", "outer"):
        folder = tmp_path / name
        folder.mkdir()
        git(folder, "init", "-q")
        (folder / "file.txt").write_text(f"{name}\n" * 50)
        git(folder, "add", "--all")
        git(folder, "commit", "-q", "-m", "one")
    outer = tmp_path / "outer"
    git(outer, "submodule", "-q", "add", str(tmp_path / "inner"), "third/inner")
    (outer / "file.txt").write_text("changed\n" * 50)
    git(outer, "commit", "-q", "-a", "-m", "two")
    git(outer, "tag", "-a", "v1", "-m", "v1")
    git(outer, "branch", "other")
    return outer


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.subprocess
def test_checkouts_that_came_in_different_ways_end_up_alike_and_checkable(repository: Path, tmp_path: Path) -> None:
    """A whole clone with packs, branches, reflog and credentials, and a fetch of one commit without history."""
    commit = git(repository, "rev-parse", "HEAD")
    shallow, whole = tmp_path / "shallow", tmp_path / "whole"
    shallow.mkdir()
    git(shallow, "init", "-q")
    git(shallow, "remote", "add", "origin", "https://example.com/outer")
    git(shallow, "fetch", "-q", "--depth=1", "--no-tags", repository.as_uri(), commit)
    git(shallow, "checkout", "-q", "--detach", "FETCH_HEAD")
    git(shallow, "submodule", "-q", "update", "--init", "--recursive", "--depth=1")
    git(tmp_path, "clone", "-q", "--recurse-submodules", str(repository), str(whole))
    git(whole, "config", "remote.origin.url", "https://me:secret@example.com/outer")
    git(whole, "gc", "-q")
    for folder in (shallow, whole):
        done = bash(f"settle_git {folder} https://example.com/outer", tmp_path)
        assert done.returncode == 0, done.stderr
    assert files_of(shallow) == files_of(whole)
    assert not [name for name, content in files_of(whole).items() if b"secret" in content]
    kept = tmp_path / "kept"
    shutil.copytree(whole, kept, symlinks=True)
    assert git(kept, "rev-parse", "HEAD") == commit
    assert git(kept, "status", "--porcelain") == ""
    assert git(kept, "log", "--oneline").count("\n") == 0
    assert git(kept, "config", "remote.origin.url") == "https://example.com/outer"
    assert git(kept / "third" / "inner", "rev-parse", "HEAD") == git(tmp_path / "inner", "rev-parse", "HEAD")
    git(kept, "fsck", "--strict")
    git(kept / "third" / "inner", "fsck", "--strict")


@pytest.mark.subprocess
def test_what_was_changed_in_a_checkout_still_shows(repository: Path, tmp_path: Path) -> None:
    (repository / "file.txt").write_text("mine\n")
    assert bash(f"settle_git {repository} https://example.com/outer", tmp_path).returncode == 0
    assert git(repository, "status", "--porcelain") == "M file.txt"


@pytest.mark.subprocess
def test_a_checkout_without_git_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    assert bash(f"settle_git {tmp_path}/tree https://example.com/x", tmp_path).returncode == 0
    assert list((tmp_path / "tree").iterdir()) == []
