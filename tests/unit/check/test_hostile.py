"""Images that hide what they are, or hold what no image should: facts all the same, no crash, nothing that hangs."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.inside import npu_smi
from tests.unit.check.test_gather import IMAGE, SITE, Root, gather, named, root
from tests.unit.check.test_running import checkout, git, source

__all__ = ["checkout", "gather", "root"]  # fixtures

Hide = Callable[[Path], object]


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to("x")


def _exclude(checkout: Path) -> None:
    (checkout / ".git/info/exclude").write_text("*.py\n")
    (checkout / "vllm/x.py").write_text("")


# --- checkouts


def _edit(checkout: Path) -> None:
    (checkout / "vllm/__init__.py").write_text("edited")


def _edit_and(*words: str) -> Hide:
    def hide(checkout: Path) -> None:
        _edit(checkout)
        git(checkout, *words)

    return hide


def _edit_and_write(name: str, text: str) -> Hide:
    def hide(checkout: Path) -> None:
        _edit(checkout)
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(text)

    return hide


def _replace_commit(checkout: Path) -> None:
    """Let another commit stand for that of HEAD wherever git looks it up."""
    before = git(checkout, "rev-parse", "HEAD")
    _edit(checkout)
    git(checkout, "commit", "-qam", "other")
    git(checkout, "replace", before, git(checkout, "rev-parse", "HEAD"))
    git(checkout, "update-ref", "refs/heads/main", before)


def _lying_fsmonitor(checkout: Path) -> None:
    hook = checkout / ".git/says-nothing"
    hook.write_text("#!/bin/sh\nprintf 'token\\0'\n")
    hook.chmod(0o755)
    git(checkout, "update-index", "--fsmonitor")
    git(checkout, "config", "core.fsmonitor", str(hook))
    git(checkout, "status")
    _edit(checkout)


HIDDEN_EDITS: dict[str, Hide] = {
    "assume-unchanged": _edit_and("update-index", "--assume-unchanged", "vllm/__init__.py"),
    "skip-worktree": _edit_and("update-index", "--skip-worktree", "vllm/__init__.py"),
    "fsmonitor": _lying_fsmonitor,
    "replaced commit": _replace_commit,
    "worktree elsewhere": _edit_and("config", "core.worktree", "/nonexistent"),
    "filter": _edit_and_write(".git/info/attributes", "* filter=lie\n"),
    "text of any kind": _edit_and_write(".git/info/attributes", "* text=auto eol=crlf\n"),
    "staged": _edit_and("add", "vllm/__init__.py"),
}


@pytest.mark.subprocess
@pytest.mark.parametrize("name", sorted(HIDDEN_EDITS))
def test_an_edit_is_found_however_it_is_hidden(check: SimpleNamespace, checkout: Path, name: str) -> None:
    HIDDEN_EDITS[name](checkout)
    facts = check.source_facts(check.Tree(), source(checkout))
    assert (facts["changed"], facts["git_error"]) == ([" M vllm/__init__.py"], "")


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("spoil", "changed"),
    [
        (lambda top: (top / "vllm/__init__.py").chmod(0o755), " M vllm/__init__.py"),
        (lambda top: (top / "vllm/__init__.py").unlink(), " D vllm/__init__.py"),
        (lambda top: _link(top / "vllm/__init__.py"), " M vllm/__init__.py"),
        (lambda top: (top / "csrc/inner/x").write_text("edited"), " M csrc/inner/x"),
        (lambda top: (top / "csrc/inner/y.py").write_text(""), "?? csrc/inner/y.py"),
        (_exclude, "?? vllm/x.py"),
        (lambda top: (top / "vllm/x.so").write_text(""), "?? vllm/x.so"),
        (lambda top: (top / "vllm/_build_info.txt").write_text(""), "?? vllm/_build_info.txt"),
        (lambda top: (top / "_version.py").write_text(""), "?? _version.py"),
        (lambda top: (top / "vllm/build").mkdir() or (top / "vllm/build/x.py").write_text(""), "?? vllm/build/x.py"),
    ],
)  # fmt: skip
def test_a_checkout_that_is_not_its_commit_is_told(
    check: SimpleNamespace, checkout: Path, spoil: Hide, changed: str
) -> None:
    spoil(checkout)
    assert check.source_facts(check.Tree(), source(checkout))["changed"] == [changed]


@pytest.mark.subprocess
def test_of_what_is_ignored_only_what_python_imports_counts(check: SimpleNamespace, checkout: Path) -> None:
    (checkout / ".gitignore").write_text("*.log\n*.so\nlib/\nvllm/hidden.py\nvllm/__init__\n")
    (checkout / "vllm/ops.py").write_text("")
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "ignore")
    for name in (
        "x.log",
        "vllm/hidden.py",
        "vllm/_C.abi3.so",
        "vllm/lib/built.py",
        "vllm/lib/data.bin",
        "vllm/ops.abi3.so",
    ):
        (checkout / name).parent.mkdir(exist_ok=True)
        (checkout / name).write_text("")
    facts = check.source_facts(check.Tree(), source(checkout))
    plain = ["?? vllm/_C.abi3.so", "?? vllm/hidden.py", "?? vllm/lib/built.py", "?? vllm/ops.abi3.so"]
    assert facts["changed"] == plain
    # What is compiled has extensions and folders of its own, and none of them takes a module's place.
    facts = check.source_facts(check.Tree(), {**source(checkout), "compiles": True})
    assert facts["changed"] == ["?? vllm/hidden.py", "?? vllm/ops.abi3.so"]


@pytest.mark.subprocess
def test_an_extension_is_expected_beside_what_it_is_compiled_from(check: SimpleNamespace, checkout: Path) -> None:
    (checkout / "vllm/datasets").mkdir()
    (checkout / "vllm/datasets/helpers.cpp").write_text("")
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "helpers")
    for name in ("vllm/datasets/helpers_cpp.cpython-312-x86_64-linux-gnu.so", "vllm/helpers_cpp.so"):
        (checkout / name).write_text("")
    assert check.source_facts(check.Tree(), source(checkout))["changed"] == ["?? vllm/helpers_cpp.so"]


@pytest.mark.subprocess
def test_line_ends_and_large_files_are_as_the_commits_attributes_say(check: SimpleNamespace, checkout: Path) -> None:
    content = b"a large file"
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{hashlib.sha256(content).hexdigest()}\nsize 12\n"
    (checkout / ".gitattributes").write_text("*.bat text eol=crlf\n*.bin filter=lfs\n")
    (checkout / "x.bat").write_bytes(b"one\r\ntwo\r\n")
    (checkout / "x.bin").write_text(pointer)
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "attributes")
    (checkout / "x.bin").write_bytes(content)
    assert check.source_facts(check.Tree(), source(checkout))["changed"] == []
    (checkout / "x.bin").write_bytes(b"another one")
    (checkout / "x.bat").write_bytes(b"one\r\nother\r\n")
    assert check.source_facts(check.Tree(), source(checkout))["changed"] == [" M x.bat", " M x.bin"]


@pytest.mark.subprocess
def test_objects_that_are_not_what_their_names_say_are_an_error(check: SimpleNamespace, checkout: Path) -> None:
    git(checkout, "gc", "-q")
    commit, other = git(checkout, "rev-parse", "HEAD"), git(checkout, "rev-parse", "HEAD^{tree}")
    for pack in (checkout / ".git/objects/pack").glob("*"):
        pack.chmod(0o644)
        shutil.move(pack, checkout / pack.name)
    for pack in checkout.glob("*.pack"):
        with pack.open("rb") as stream:
            subprocess.run(["git", "-C", checkout, "unpack-objects", "-q"], stdin=stream, check=True)
    forged = checkout / ".git/objects" / other[:2] / other[2:]
    empty = hashlib.sha1(b"tree 0\0").hexdigest()
    made = git(checkout, "hash-object", "-t", "tree", "-w", os.devnull)
    assert made == empty
    forged.chmod(0o644)
    shutil.copyfile(checkout / ".git/objects" / empty[:2] / empty[2:], forged)
    facts = check.source_facts(check.Tree(), source(checkout))
    assert facts["head"] == commit
    assert facts["changed"] is None
    assert facts["git_error"]


@pytest.mark.subprocess
@pytest.mark.parametrize("live", [True, False])
def test_nothing_that_a_checkout_names_is_started(check: SimpleNamespace, checkout: Path, live: bool) -> None:
    sign, program = checkout.parent / "started", checkout.parent / "program"
    program.write_text(f"#!/bin/sh\ntouch {sign}\ncat\n")
    program.chmod(0o755)
    head = git(checkout, "rev-parse", "HEAD")
    (checkout / ".git/hooks").mkdir(exist_ok=True)
    for name in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        shutil.copy(program, checkout / ".git/hooks" / name)
    (checkout / ".git/info/attributes").write_text("* filter=lie diff=lie\n")
    with (checkout / ".git/config").open("a") as stream:
        stream.write(f"[core]\n\tfsmonitor = {program}\n\tpager = {program}\n\tsshCommand = {program}\n")
        stream.write(f'[filter "lie"]\n\tclean = {program}\n\tprocess = {program}\n[alias]\n\tls-files = !{program}\n')
    os.utime(checkout / "vllm/__init__.py", (1, 1))
    tree = check.Tree() if live else check.Tree(str(checkout.parent))
    facts = check.source_facts(tree, {**source(checkout), "path": str(checkout) if live else "/vllm"})
    assert not sign.exists()
    assert facts["head"] == head
    assert facts["changed"] == ([] if live else None)


def test_the_commit_of_an_unpacked_image_is_read_without_git(check: SimpleNamespace, root: Root) -> None:
    commit = "a1" * 20
    tree = check.Tree(str(root.path))

    def head() -> tuple[str, str]:
        facts = check.source_facts(tree, {"name": "vllm", "path": "/vllm", "module": "vllm"})
        assert facts["changed"] is None
        return facts["head"], facts["git_error"]

    root.write("/vllm/.git/HEAD", f"{commit}\n")
    assert head() == (commit, "its files are compared in the image only, and this is a directory")
    root.write("/vllm/.git/HEAD", "ref: refs/heads/main\n")
    assert head() == ("", "/vllm/.git/HEAD names no commit")
    root.write("/vllm/.git/packed-refs", f"# pack-refs with: peeled\n{commit} refs/heads/main\n^{'b' * 40}\n")
    assert head()[0] == commit
    root.write("/vllm/.git/refs/heads/main", f"{'c' * 40}\n")
    assert head()[0] == "c" * 40
    shutil.move(root.path / "vllm/.git", root.path / "vllm/git-data")
    root.write("/vllm/.git", "gitdir: git-data\n")
    assert head()[0] == "c" * 40
    for odd in (
        "ref: ../../etc/passwd",
        "ref: refs/heads/../../x",
        "ref: refs/heads/\0",
        "",
        "x" * 10_000,
        "ref: HEAD",
    ):
        root.write("/vllm/git-data/HEAD", odd)
        assert head() == ("", "/vllm/git-data/HEAD names no commit")


@pytest.mark.subprocess
def test_without_git_in_the_image_the_commit_is_known_and_changes_are_not(
    check: SimpleNamespace, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = git(checkout, "rev-parse", "HEAD")
    monkeypatch.setenv("PATH", "/nonexistent")
    facts = check.source_facts(check.Tree(), source(checkout))
    assert (facts["head"], facts["changed"]) == (head, None)
    assert "git" in facts["git_error"]


# --- site-packages


def _file(root: Root, name: str) -> Path:
    return root.path / f"{SITE}/{name}".lstrip("/")


def _replaced(root: Root, name: str, make: Callable[[Path], object]) -> None:
    _file(root, name).unlink()
    make(_file(root, name))


@pytest.mark.parametrize(
    "make",
    [lambda path: path.symlink_to("/nonexistent"), Path.mkdir, os.mkfifo],
    ids=["a dead link", "a directory", "a pipe"],
)
def test_what_lies_in_place_of_a_file_is_no_file(root: Root, gather: Any, make: Callable[[Path], object]) -> None:
    root.distribution("one", "1", {"one/__init__.py": "", "one/x.so": b"x"})
    _replaced(root, "one/x.so", make)
    record = named(gather(), "one")["record"]
    assert (record["missing"], record["missing_count"]) == ([f"{SITE}/one/x.so"], 1)


def test_a_file_that_cannot_be_read_is_not_as_its_record_says(
    check: SimpleNamespace, root: Root, gather: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.distribution("one", "1", {"one/__init__.py": ""})

    def refuse(*_: object) -> int:
        raise PermissionError

    monkeypatch.setattr("ascend_images.inside.facts.distributions.os.path.getsize", refuse)
    assert check.file_is(check.Tree(str(root.path)), check.Recorded(f"{SITE}/one/__init__.py", "sha256=x", 0)) is False


def test_a_huge_file_is_told_by_its_size_and_not_read(root: Root, gather: Any) -> None:
    root.distribution("one", "1", {"one/__init__.py": "", "one/x.so": b"x"})
    with _file(root, "one/x.so").open("r+b") as stream:
        stream.truncate(1 << 40)
    start = time.monotonic()
    assert named(gather(), "one")["record"]["changed"] == [f"{SITE}/one/x.so"]
    assert time.monotonic() - start < 20


def test_files_whose_record_proves_nothing_are_counted(root: Root, gather: Any) -> None:
    root.distribution("one", "1", {"one/__init__.py": "", "one/a.py": "", "one/b.py": "", "one/c.pyc": ""})
    record = _file(root, "one-1.dist-info/RECORD")
    rows = [line.split(",") for line in record.read_text().splitlines()]
    digests = {"one/a.py": "", "one/b.py": "md5=x", "one/c.pyc": ""}
    record.write_text("".join(f"{name},{digests.get(name, digest)},\n" for name, digest, _ in rows))
    found = named(gather(), "one")["record"]
    assert (found["unhashed"], found["changed_count"]) == ([f"{SITE}/one/a.py", f"{SITE}/one/b.py"], 0)


def test_a_record_that_leads_to_itself_is_none(root: Root, gather: Any) -> None:
    root.distribution("one", "1", {"one/__init__.py": ""})
    _replaced(root, "one-1.dist-info/RECORD", lambda path: path.symlink_to("RECORD"))
    assert named(gather(), "one")["record"] is None


def unowned(facts: dict[str, Any]) -> list[str]:
    found = facts["unowned"]
    return sorted(
        [*found["start"], *found["user_site"], *found["shadows"], *(f for e in found["files"] for f in e["files"])]
    )


@pytest.mark.parametrize(
    "name",
    [
        f"{SITE}/sitecustomize.py",
        f"{SITE}/usercustomize/__init__.py",
        f"{SITE}/sitecustomize.cpython-312-x86_64-linux-gnu.so",
        f"{SITE}/zzz.pth",
        "/root/.local/lib/python3.12/site-packages/numpy/__init__.py",
        f"{SITE}/one.cpython-312-x86_64-linux-gnu.so",
        f"{SITE}/single/__init__.py",
        f"{SITE}/one/extra.py",
        f"{SITE}/one/inner/extra.pyc",
    ],
)
def test_what_no_record_has_is_found(root: Root, gather: Any, name: str) -> None:
    root.distribution("one", "1", {"one/__init__.py": "", "single.py": "", "one.pth": ""})
    root.write(f"{SITE}/one/__pycache__/x.cpython-312.pyc")
    root.write(f"{SITE}/README.txt")
    root.write(f"{SITE}/other.py")
    assert unowned(gather()) == []
    root.write(name, "import os")
    found = unowned(gather())
    assert len(found) == 1
    assert name.startswith(found[0])


def test_what_an_editable_installation_and_the_system_write_is_owned(root: Root, gather: Any) -> None:
    root.write(f"{SITE}/easy-install.pth", "# by setuptools\n/vllm\n")
    root.write(f"{SITE}/old.pth", "/vllm\nimport os\n")
    root.write("/usr/lib/python3/dist-packages/sitecustomize.py")
    root.write("/var/lib/dpkg/info/python3-x.list", "/.\n/usr/lib/python3/dist-packages/sitecustomize.py\n")
    assert unowned(gather(sources=[{"name": "vllm", "path": "/vllm"}])) == [f"{SITE}/old.pth"]


def test_where_a_distribution_has_no_record_nobody_knows_whose_a_module_is(root: Root, gather: Any) -> None:
    root.distribution("one", "1", {"one/__init__.py": ""})
    root.write(f"{SITE}/one/extra.py")
    root.write(f"{SITE}/old-1.egg-info", "Metadata-Version: 1.0\nName: old\nVersion: 1\n")
    assert unowned(gather()) == []


def test_libraries_of_cuda_count_though_no_record_has_them(root: Root, gather: Any) -> None:
    root.distribution("torch", "2.10.0", {"torch/__init__.py": ""})
    root.write(f"{SITE}/torch/lib/libtorch_cuda.so", b"x")
    assert gather()["torch"]["cuda_files"] == [f"{SITE}/torch/lib/libtorch_cuda.so"]


def test_what_the_loader_is_told_to_load_is_read(root: Root, gather: Any) -> None:
    assert gather()["preload"] == []
    root.write("/etc/ld.so.preload", "# none\n/opt/a.so:/opt/b.so /opt/c.so\n")
    assert gather()["preload"] == ["/opt/a.so", "/opt/b.so", "/opt/c.so"]


# --- files that are none


READ = ("/etc/os-release", f"{SITE}/one-1.dist-info/METADATA", f"{SITE}/one-1.dist-info/RECORD", "/etc/profile",
        "/etc/pip.conf", "/vllm/.git/HEAD", "/vllm/vllm/_version.py", "/etc/ld.so.preload", f"{SITE}/x.so",
        f"{SITE}/x.pth", "/opt/ascend-images/image.json", "/usr/local/python3.12.13/bin/python3")  # fmt: skip


def _huge(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(1 << 40)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, _huge], ids=["pipes", "directories", "huge files"])
def test_what_is_read_may_be_no_file_and_nothing_waits_for_it(
    check: SimpleNamespace, root: Root, tmp_path: Path, make: Callable[[Path], object]
) -> None:
    for name in READ:
        path = root.path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path)
    start = time.monotonic()
    tree = check.Tree(str(root.path))
    image = {**IMAGE, "sources": [{"name": "vllm", "path": "/vllm", "module": "vllm"}]}
    json.dumps(check.gather(tree, image, bytecode=""))
    assert all(tree.text(name) is None for name in READ)
    assert check.main(["--root", str(root.path), "--facts", str(tmp_path / "facts/facts.json")]) == 0
    assert time.monotonic() - start < 30


def test_a_named_file_that_is_a_pipe_is_refused(
    check: SimpleNamespace, root: Root, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert check.main(["--root", str(root.path), "--image-json", str(tmp_path / "pipe")]) == 2
    assert "no regular file" in capsys.readouterr().err


def test_names_that_are_no_text_get_into_a_report_that_can_be_read(
    check: SimpleNamespace, root: Root, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root.path / f"{SITE}/odd\udcff-1.dist-info".lstrip("/")).mkdir()
    root.write("/opt/ascend-images/image.json", json.dumps(IMAGE))
    report = tmp_path / "reports/report.json"
    assert check.main(["--root", str(root.path), "--report", str(report)]) == 5
    names = [entry["name"] for entry in json.loads(report.read_text())["facts"]["distributions"]]
    assert names == ["odd\udcff"]


# --- image.json


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)


VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), _nested, max_leaves=8)


@given(VALUES, st.sampled_from(["packages", "sources", "patches", "env", "cann", "checks"]))
def test_an_image_json_is_refused_or_every_check_can_ask_it(check: SimpleNamespace, value: Any, key: str) -> None:
    try:
        image = check.read_image(json.dumps({"schema": 1, key: value}))
    except ValueError:
        return
    facts = check.gather(check.Tree("/nonexistent"), image, bytecode="")
    answers = check.ask_all(facts, image, None, None)
    assert len(answers) == len(check.CHECKS)


# --- programs that print


@pytest.mark.subprocess
def test_a_program_that_never_stops_writing_is_ended(check: SimpleNamespace) -> None:
    start = time.monotonic()
    ran = check.run(["sh", "-c", "exec yes"], limit=120)
    assert time.monotonic() - start < 60
    assert ran.signal == "SIGKILL"
    assert not ran.timed_out
    assert len(ran.stdout) <= check.OUTPUT_LIMIT
    assert "wrote more than 64 MB" in ran.stderr


@pytest.mark.subprocess
def test_a_program_is_given_its_input_and_tells_its_end_as_a_shell_does(check: SimpleNamespace) -> None:
    assert check.run(["cat"], stdin=b"in").stdout == b"in"
    assert check.run(["sh", "-c", "exit 3"]).code == 3
    assert check.run(["sh", "-c", "kill -9 $$"]).code == 137
    assert check.run(["sh", "-c", "kill -40 $$"]).code == 168
    assert check.run(["sleep", "9"], limit=0.2).code == 124
    assert check.run(["a\0b"]).code == 127


@pytest.mark.subprocess
@pytest.mark.parametrize("closed", [True, False], ids=["without pidfd", "with pidfd"])
def test_the_end_of_a_program_is_seen_at_once(
    check: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    if closed:
        monkeypatch.delattr("os.pidfd_open", raising=False)
    start = time.monotonic()
    assert check.run(["true"]).ok
    assert check.run(["sleep", "9"], limit=0.5).timed_out
    assert time.monotonic() - start < 5


@pytest.fixture
def chatty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python prints whenever it starts, and whenever it ends."""
    text = "import atexit, sys\nprint('{\"hello\": 1}')\natexit.register(print, '[bye]')\nsys.stdout.flush()\n"
    (tmp_path / "sitecustomize.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.mark.subprocess
@pytest.mark.usefixtures("chatty")
def test_a_python_that_prints_when_it_starts_is_understood(check: SimpleNamespace, tmp_path: Path) -> None:
    facts = check.python_facts(check.Tree(), {})
    assert facts["error"] == ""
    assert facts["executable"]
    assert check.module_origins(sys.executable, ["json"], "/", 30)["json"]["error"] == ""
    found = check.shell_environment(["sh", "-c", check._SHELL_PROBE], {"PATH": os.environ["PATH"], "A": "1"})
    assert found is not None
    assert found[1]["A"] == "1"


@pytest.mark.subprocess
def test_a_shell_is_asked_without_the_images_own_env(check: SimpleNamespace, tmp_path: Path) -> None:
    for name in ("env", "cat", "printenv"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    for shell in ("sh", "bash"):
        found = check.shell_environment([shell, "-c", f"export NEW='a b'; {check._SHELL_PROBE}"], {"PATH": path})
        assert found is not None
        assert (found[1]["NEW"], found[1]["PATH"]) == ("a b", path)
        assert "LC_CTYPE" not in found[1]


@pytest.mark.parametrize(
    "text",
    ["npu-smi " * 200_000, "lib" * 500_000, "|" * 2_000_000, "x: " * 500_000, "| 0 Ascend910B3 | OK | 1 |\n" * 50_000,
     "-8005 " * 300_000, "no such file " * 100_000],
    ids=lambda text: text[:12].strip(),
)  # fmt: skip
def test_an_output_without_end_is_read_in_a_moment_and_says_that_it_was_cut(text: str) -> None:
    start = time.monotonic()
    read = (npu_smi.parse, npu_smi.parse_board, npu_smi.parse_list, npu_smi.parse_mapping, npu_smi.parse_health)
    for parse in read:
        lines = "\n".join(text[at : at + 400] for at in range(0, len(text), 400))
        assert parse(lines).unknown[-1] == f"(cut here: the output has {len(lines)} characters)"
        parse(text)
    assert time.monotonic() - start < 60
