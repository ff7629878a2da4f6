"""Git hosts asked by the git client: refs, commits by their id, submodules; nothing is checked out, none of it run."""

import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.errors import BadInput, MissingTool
from ascend_images.lock.git import GitClient, Refs, Tag, configuration, parse_refs, submodule_url
from ascend_images.lock.reach import UnreachableError, listed, plain_reason
from ascend_images.pins.versions_lock import Submodule
from tests.remotes import commit

ABSENT = "0123456789abcdef0123456789abcdef01234567"


# What git prints.

names = st.text(st.characters(categories=["L", "N"], include_characters="./-_{}^"), min_size=1, max_size=12).filter(
    lambda name: not name.endswith("^{}")
)
ids = st.text("0123456789abcdef", min_size=40, max_size=40)
refs = st.builds(Refs, st.dictionaries(names, st.builds(Tag, ids, st.booleans())), st.dictionaries(names, ids))


def printed(refs: Refs) -> str:
    lines = [f"{at}\trefs/heads/{name}" for name, at in refs.branches.items()]
    for name, tag in refs.tags.items():
        lines.append(f"{ABSENT if tag.annotated else tag.commit}\trefs/tags/{name}")
        lines += [f"{tag.commit}\trefs/tags/{name}^{{}}"] if tag.annotated else []
    return "".join(f"{line}\n" for line in lines)


@given(refs)
def test_what_git_lists_is_read_back_with_annotated_tags_peeled(refs: Refs) -> None:
    assert parse_refs(printed(refs)) == refs


@given(st.text(min_size=1))
def test_anything_else_is_no_answer(text: str) -> None:
    with pytest.raises(UnreachableError, match="an answer that git does not give"):
        parse_refs(f"x{text}")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("fatal: unable to access 'https://x/': Could not resolve host: x", "its host name is not known here"),
        ("fatal: could not read Username for 'https://x': terminal prompts disabled", "it has no such repository, or one that asks for a login"),  # noqa: E501
        ("fatal: unable to access 'https://x/': server certificate verification failed", "its certificate is not trusted here"),  # noqa: E501
        ("fatal: unable to access 'https://x/': Failed to connect to x port 1: Couldn't connect to server", "the connection is refused"),  # noqa: E501
        ("fatal: unable to access: Received HTTP code 407 from proxy after CONNECT", "the proxy gives no way to it"),
        ("warning: x\nfatal: repository 'https://x/' not found\n", "fatal: repository 'https://x/' not found"),
        ("ERROR: failed to do request: Head: dial tcp: lookup quay.io: no such host", "its host name is not known here"),  # noqa: E501
        ("ERROR: unexpected status from HEAD request to https://q/v2: 401 Unauthorized", "it has no such image, or one that asks for a login"),  # noqa: E501
        ("", "no answer"),
    ],
)  # fmt: skip
def test_reasons_are_told_in_plain_words(said: str, reason: str) -> None:
    assert plain_reason(said) == reason


def test_lists_for_people() -> None:
    assert [listed(texts) for texts in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("https://other.invalid/x.git", "https://other.invalid/x.git"),
        ("../x.git", "https://example.invalid/org/x.git"),
        ("../../else/x", "https://example.invalid/else/x"),
        ("./x", "https://example.invalid/org/repo.git/x"),
        ("./../x", "https://example.invalid/org/x"),
        ("../../x", "https://example.invalid/x"),
    ],
)
def test_a_relative_address_is_taken_as_git_takes_it(written: str, url: str) -> None:
    assert submodule_url(written, "https://example.invalid/org/repo.git", "x") == url
    assert submodule_url(written, "https://example.invalid/org/repo.git/", "x") == url


@pytest.mark.parametrize("written", ["../../../x", "../../../../x", "../../../other.invalid/x", "../../../[::1/x"])
def test_a_relative_address_that_leaves_its_host_is_refused(written: str) -> None:
    with pytest.raises(BadInput, match="leads out of its host"):
        submodule_url(written, "https://example.invalid/org/repo", "x")


# The client itself, on repositories of this machine.


def git(folder: Path, *words: str) -> str:
    settings = ["-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "protocol.file.allow=always"]
    done = subprocess.run(
        ["git", "-C", str(folder), *settings, "-c", "commit.gpgsign=false", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def make(folder: Path, **files: str) -> str:
    """Make a repository that gives any of its commits by their id, and return its first commit."""
    folder.mkdir()
    git(folder, "-c", "init.defaultBranch=main", "init", "-q")
    for name in ("allowAnySHA1InWant", "allowFilter"):
        git(folder, "config", f"uploadpack.{name}", "true")
    return change(folder, **files)


def change(folder: Path, **files: str) -> str:
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "--allow-empty", "-m", "a change")
    return git(folder, "rev-parse", "HEAD")


def add_submodule(folder: Path, url: str, path: str) -> None:
    git(folder, "submodule", "--quiet", "add", url, path)
    git(folder, "commit", "-q", "-m", f"submodule {path}")


@pytest.fixture
def client(tmp_path: Path) -> GitClient:
    return GitClient(tmp_path / "cache")


@pytest.mark.subprocess
def test_refs_of_a_repository(client: GitClient, tmp_path: Path) -> None:
    first = make(tmp_path / "r")
    git(tmp_path / "r", "tag", "light")
    git(tmp_path / "r", "tag", "-a", "heavy", "-m", "a release")
    git(tmp_path / "r", "tag", "-a", "heavier", "-m", "a release", "heavy")
    git(tmp_path / "r", "branch", "releases/v1")
    found = client.refs((tmp_path / "r").as_uri())
    assert found.tags == {"light": Tag(first), "heavy": Tag(first, True), "heavier": Tag(first, True)}
    assert found.branches == {"main": first, "releases/v1": first}


@pytest.mark.subprocess
def test_a_commit_that_no_ref_leads_to_is_fetched_by_its_id(client: GitClient, tmp_path: Path) -> None:
    hidden = make(tmp_path / "r")
    git(tmp_path / "r", "commit", "-q", "--allow-empty", "--amend", "-m", "another")
    git(tmp_path / "r", "tag", "-a", "v1", "-m", "a release")
    uri = (tmp_path / "r").as_uri()
    assert client.fetched(uri, hidden) == hidden
    assert client.fetched(uri, ABSENT) == ""
    assert client.fetched(uri, git(tmp_path / "r", "rev-parse", "v1")) == git(tmp_path / "r", "rev-parse", "HEAD")


@pytest.mark.subprocess
def test_a_commit_that_was_fetched_before_proves_nothing(client: GitClient, tmp_path: Path) -> None:
    hidden = make(tmp_path / "r")
    uri = (tmp_path / "r").as_uri()
    assert client.submodules(uri, hidden) == ()
    git(tmp_path / "r", "checkout", "-q", "--orphan", "new")
    change(tmp_path / "r", other="x")
    git(tmp_path / "r", "branch", "-q", "-D", "main")
    git(tmp_path / "r", "reflog", "expire", "--expire=now", "--all")
    git(tmp_path / "r", "gc", "-q", "--prune=now")
    assert client.fetched(uri, hidden) == ""


@pytest.mark.subprocess
def test_submodules_and_theirs_each_at_the_commit_that_is_linked(client: GitClient, tmp_path: Path) -> None:
    deep = make(tmp_path / "deep")
    inner = make(tmp_path / "inner")
    add_submodule(tmp_path / "inner", (tmp_path / "deep").as_uri(), "very/deep")
    inner = git(tmp_path / "inner", "rev-parse", "HEAD")
    make(tmp_path / "outer", **{"a file": "x"})
    add_submodule(tmp_path / "outer", "../inner", "third party/inner")
    add_submodule(tmp_path / "outer", (tmp_path / "deep").as_uri(), "deep")
    wanted = change(tmp_path / "outer")
    for name in ("deep", "inner", "outer"):
        change(tmp_path / name, later="x")
    assert client.submodules((tmp_path / "outer").as_uri(), wanted) == (
        Submodule(path="deep", url=(tmp_path / "deep").as_uri(), commit=deep),
        Submodule(path="third party/inner", url=(tmp_path / "inner").as_uri(), commit=inner),
        Submodule(path="third party/inner/very/deep", url=(tmp_path / "deep").as_uri(), commit=deep),
    )
    kept = [path.name for path in (client.cache / "git").rglob("*") if path.name in ("a file", "later")]
    assert kept == []


@pytest.mark.subprocess
def test_a_submodule_without_an_address_is_refused(client: GitClient, tmp_path: Path) -> None:
    make(tmp_path / "r")
    git(tmp_path / "r", "update-index", "--add", "--cacheinfo", f"160000,{commit('a')},lost")
    git(tmp_path / "r", "commit", "-q", "-m", "a link")
    with pytest.raises(BadInput, match="no address for the submodule lost"):
        client.submodules((tmp_path / "r").as_uri(), git(tmp_path / "r", "rev-parse", "HEAD"))


def linked(folder: Path, url: str, at: str) -> str:
    """Make a commit with a submodule whose repository need not be there."""
    make(folder, **{".gitmodules": f'[submodule "x"]\n\tpath = x\n\turl = {url}\n'})
    git(folder, "update-index", "--add", "--cacheinfo", f"160000,{at},x")
    git(folder, "commit", "-q", "-m", "a link")
    return git(folder, "rev-parse", "HEAD")


@pytest.mark.subprocess
@pytest.mark.parametrize("url", ["http://example.invalid/x", "git://example.invalid/x", "ext::sh -c touch% /tmp/x"])
def test_a_submodule_over_a_weaker_way_than_its_repository_is_refused(
    client: GitClient, tmp_path: Path, url: str
) -> None:
    at = linked(tmp_path / "r", url, commit("a"))
    with pytest.raises(BadInput, match="submodule x is fetched from") as failure:
        client.submodules((tmp_path / "r").as_uri(), at)
    assert "TLS" in failure.value.wanted


@pytest.mark.subprocess
def test_a_mirror_counts_for_submodules_too(tmp_path: Path) -> None:
    inner = make(tmp_path / "inner")
    at = linked(tmp_path / "r", "http://example.invalid/inner", inner)
    client = GitClient(tmp_path / "cache", {"http://example.invalid": tmp_path.as_uri()})
    assert client.submodules((tmp_path / "r").as_uri(), at) == (
        Submodule(path="x", url="http://example.invalid/inner", commit=inner),
    )


@pytest.mark.subprocess
def test_a_submodule_whose_commit_is_nowhere_is_refused(client: GitClient, tmp_path: Path) -> None:
    make(tmp_path / "inner")
    at = linked(tmp_path / "r", "../inner", ABSENT)
    with pytest.raises(BadInput, match=rf"inner: {ABSENT}: not found on the remote"):
        client.submodules((tmp_path / "r").as_uri(), at)


@pytest.mark.subprocess
def test_a_repository_that_is_not_there_gives_no_answer(client: GitClient, tmp_path: Path) -> None:
    uri = (tmp_path / "gone").as_uri()
    for ask in (lambda: client.refs(uri), lambda: client.fetched(uri, ABSENT), lambda: client.submodules(uri, ABSENT)):
        with pytest.raises(UnreachableError, match="does not appear to be a git repository"):
            ask()


@pytest.mark.subprocess
def test_no_word_of_a_pin_is_an_option_or_reaches_a_shell(client: GitClient, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    for word in (f"--upload-pack=touch {trap}", f"$(touch {trap})", f"-oProxyCommand=touch {trap}"):
        with pytest.raises(UnreachableError):
            client.refs(word)
        with pytest.raises(UnreachableError):
            client.fetched(word, ABSENT)
    make(tmp_path / "r")
    with pytest.raises(UnreachableError):
        client.fetched((tmp_path / "r").as_uri(), f"--upload-pack=touch {trap}")
    assert not trap.exists()


@pytest.mark.subprocess
def test_no_hook_of_the_users_own_templates_is_run(
    client: GitClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = tmp_path / "templates" / "hooks"
    hooks.mkdir(parents=True)
    for name in ("reference-transaction", "post-checkout"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/trap\n")
        (hooks / name).chmod(0o755)
    first = make(tmp_path / "r")
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(tmp_path / "templates"))
    assert client.submodules((tmp_path / "r").as_uri(), first) == ()
    assert client.fetched((tmp_path / "r").as_uri(), first) == first
    assert not (tmp_path / "trap").exists()


def fake_git(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    folder.mkdir()
    program = folder / "git"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.subprocess
def test_certificates_are_checked_and_nothing_is_asked_at_a_terminal(
    client: GitClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_git(
        tmp_path / "bin", monkeypatch, f"env >{tmp_path}/env; [ $2 != --get-url ] || echo https://mirror.invalid/a=b"
    )
    monkeypatch.setenv("GIT_SSL_NO_VERIFY", "1")
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    client.refs("https://example.invalid/x")
    environment = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines() if "=" in line)
    settings = {
        environment[f"GIT_CONFIG_KEY_{number}"]: environment[f"GIT_CONFIG_VALUE_{number}"]
        for number in range(int(environment["GIT_CONFIG_COUNT"]))
    }
    assert settings["http.sslVerify"] == settings["http.https://mirror.invalid/a=b.sslVerify"] == "true"
    assert environment["GIT_TERMINAL_PROMPT"] == "0"
    assert environment["GIT_ALLOW_PROTOCOL"] == "https"
    assert not {"GIT_SSL_NO_VERIFY", "GIT_DIR"} & set(environment)


@pytest.mark.subprocess
def test_a_setting_of_the_user_that_leaves_tls_is_refused(
    client: GitClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(
        '[url "http://u:secret@mirror.invalid/"]\n\tinsteadOf = https://example.invalid/\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    with pytest.raises(BadInput, match=r"git asks http://\*\*\*@mirror\.invalid/x in place of") as failure:
        client.refs("https://example.invalid/x")
    assert "insteadof" in failure.value.do


@pytest.mark.subprocess
def test_a_host_that_does_not_answer_in_time_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_git(tmp_path / "bin", monkeypatch, "exec sleep 30")
    with pytest.raises(UnreachableError, match="no answer in time"):
        GitClient(tmp_path / "cache", timeout=0.2).refs("https://example.invalid/x")


@pytest.mark.subprocess
def test_a_git_that_takes_too_long_is_asked_to_end_and_not_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"trap 'echo >{tmp_path}/ended; exit' TERM; while :; do sleep 0.05; done"
    fake_git(tmp_path / "bin", monkeypatch, script)
    with pytest.raises(UnreachableError, match="no answer in time"):
        GitClient(tmp_path / "cache", timeout=1).refs("https://example.invalid/x")
    assert (tmp_path / "ended").exists()


@pytest.mark.subprocess
@pytest.mark.parametrize("lock", ["shallow.lock", "config.lock", "HEAD.lock"])
@pytest.mark.parametrize("begun", [True, False])
def test_what_a_git_that_was_killed_left_stops_nobody(
    client: GitClient, tmp_path: Path, lock: str, begun: bool
) -> None:
    first = make(tmp_path / "r")
    uri = (tmp_path / "r").as_uri()
    client.submodules(uri, first)
    (kept,) = (client.cache / "git").iterdir()
    if not begun:
        (kept / "HEAD").unlink()
    (kept / lock).touch()
    assert client.submodules(uri, change(tmp_path / "r", more="x")) == ()
    assert not (kept / lock).exists()


@pytest.mark.subprocess
def test_a_file_has_lines_as_python_reads_them(client: GitClient, tmp_path: Path) -> None:
    make(tmp_path / "r")
    (tmp_path / "r/crlf").write_bytes(b"numpy\r\nsix\r\n")
    git(tmp_path / "r", "-c", "core.autocrlf=false", "add", "crlf")
    at = change(tmp_path / "r")
    assert client.file((tmp_path / "r").as_uri(), at, "crlf") == "numpy\nsix\n"


@pytest.mark.subprocess
def test_a_machine_without_git_is_told_so(client: GitClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MissingTool, match="git is not installed"):
        client.refs("https://example.invalid/x")


@pytest.mark.subprocess
def test_a_cache_that_git_cannot_write_to_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_git(tmp_path / "bin", monkeypatch, "echo 'fatal: disk full' >&2; exit 128")
    with pytest.raises(MissingTool, match=r"git init in .* failed: fatal: disk full"):
        GitClient(tmp_path / "cache").fetched("https://example.invalid/x", ABSENT)


def test_settings_of_git_are_added_to_those_that_are_given_already() -> None:
    given = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "me"}
    assert configuration({"http.https://x/?a=b.sslVerify": "true"}, given) == {
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_1": "http.https://x/?a=b.sslVerify",
        "GIT_CONFIG_VALUE_1": "true",
    }
    assert configuration({"a.b": "c"}, {"GIT_CONFIG_COUNT": "many"})["GIT_CONFIG_KEY_0"] == "a.b"


# Passwords in addresses.


@pytest.mark.subprocess
@pytest.mark.parametrize(
    "url",
    [
        "https://me:s3cret@example.invalid/x",
        "https://s3cret@example.invalid/x",
        "ssh://git:s3cret@example.invalid/x",
        "https://me:s3c/ret@example.invalid/x",
    ],
)
def test_a_submodule_whose_address_holds_a_login_is_refused_and_no_program_is_given_it(
    client: GitClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    at = linked(tmp_path / "r", url, commit("a"))
    asked: list[tuple[str, ...]] = []
    start = GitClient._start

    def watched(self: GitClient, *words: Any, **more: Any) -> subprocess.CompletedProcess[str]:
        asked.append(words)
        return start(self, *words, **more)

    monkeypatch.setattr(GitClient, "_start", watched)
    with pytest.raises(BadInput, match=r"submodule x is fetched from \w+://\*\*\*@example\.invalid/x") as failure:
        client.submodules((tmp_path / "r").as_uri(), at)
    assert "versions.lock" in failure.value.wanted
    assert "s3c" not in f"{failure.value}{asked}"


@pytest.mark.subprocess
def test_a_submodule_over_ssh_names_its_user(tmp_path: Path) -> None:
    inner = make(tmp_path / "inner")
    url = "ssh://git@example.invalid/inner"
    at = linked(tmp_path / "r", url, inner)
    client = GitClient(tmp_path / "cache", {"ssh://git@example.invalid": tmp_path.as_uri()})
    assert client.submodules((tmp_path / "r").as_uri(), at) == (Submodule(path="x", url=url, commit=inner),)


def secrets(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()]


@pytest.mark.subprocess
def test_no_address_is_kept_and_what_is_kept_is_for_its_owner_alone(tmp_path: Path) -> None:
    first = make(tmp_path / "r", x="content")
    private = "https://me:s3cret@example.invalid"
    client = GitClient(tmp_path / "cache", {private: tmp_path.as_uri()})
    for _ in range(2):
        # The second time what is kept answers.
        assert client.file(f"{private}/r", first, "x") == "content"
    assert client.file(f"{private}/r", "main", "x") == "content"
    assert client.submodules(f"{private}/r", first) == ()
    assert secrets(tmp_path / "cache") == []
    assert (tmp_path / "cache" / "git").stat().st_mode & 0o777 == 0o700


@pytest.mark.subprocess
@pytest.mark.parametrize("said", ["fatal: unable to access", "fatal: remote error: upload-pack: not our ref"])
def test_no_message_shows_a_password(
    said: str, client: GitClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = "https://me:s3cret@example.invalid/r"
    script = f"case $1 in init|config) exit 0;; esac; echo '{said} {private}' >&2; exit 128"
    fake_git(tmp_path / "bin", monkeypatch, script)
    for ask in (
        lambda: client.refs(private),
        lambda: client.file(private, ABSENT, "x"),
        lambda: client.submodules(private, ABSENT),
    ):
        with pytest.raises((UnreachableError, BadInput)) as failure:
            ask()
        assert "s3cret" not in str(failure.value)


@pytest.mark.subprocess
def test_no_message_about_an_address_without_tls_shows_a_password(
    client: GitClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(
        '[url "http://mirror.invalid/"]\n\tinsteadOf = https://me:s3cret@example.invalid/\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    with pytest.raises(BadInput, match="in place of") as failure:
        client.refs("https://me:s3cret@example.invalid/x")
    assert "s3cret" not in str(failure.value)
