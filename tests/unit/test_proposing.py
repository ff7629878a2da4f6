"""A pull request from a checkout: what is pushed, by whom, and what is refused."""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ascend_images import proposing
from ascend_images.errors import BadInput, MissingTool, PublishRefused
from ascend_images.images.engine import Answer
from ascend_images.proposing import Proposal, propose, run_in
from tests.publish_kit import git

pytestmark = pytest.mark.subprocess

WISH = Proposal(branch="published", base="main", title="Published images")


class Hub:
    """gh as it answers, git as it is; remembers what was asked and with which variables."""

    def __init__(self, number: str = "", code: int = 0) -> None:
        self.number, self.code = number, code
        self.asked: list[list[str]] = []
        self.pushed_with: Mapping[str, str] = {}

    def __call__(self, folder: Path, command: Sequence[str], more: Mapping[str, str]) -> Answer:
        if command[0] == "gh":
            self.asked.append(list(command[1:]))
            answer = f"{self.number}\n" if command[2] == "list" else "https://hub.invalid/pull/1\n"
            return Answer(self.code, answer, "" if self.code == 0 else "not logged in")
        if command[1] == "push":
            self.pushed_with = more
        return run_in(folder, command, {} if command[1] == "push" else more)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of a bare repository with one commit."""
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "t")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "t@t")
    origin, clone = tmp_path / "origin.git", tmp_path / "clone"
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(origin))
    git(tmp_path, "clone", "--quiet", str(origin), str(clone))
    git(clone, "checkout", "--quiet", "-B", "main")
    (clone / "README.md").write_text("x\n")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message", "x")
    git(clone, "push", "--quiet", "--set-upstream", "origin", "main")
    return clone


def change(root: Path) -> None:
    (root / "docs").mkdir(exist_ok=True)
    (root / "published.json").write_text("{}\n")
    (root / "docs" / "supported_tags.md").write_text("tags\n")


def test_the_index_is_committed_pushed_and_proposed(root: Path) -> None:
    change(root)
    (root / "mine.txt").write_text("not of the index\n")
    hub = Hub()
    assert propose(root, WISH, run=hub, environment={}) == "https://hub.invalid/pull/1"
    changed = git(root, "diff", "--name-only", "origin/main", "origin/published").split()
    assert changed == ["docs/supported_tags.md", "published.json"]
    assert git(root, "log", "-1", "--format=%s", "origin/published").strip() == "Published images"
    assert hub.asked[1][:6] == ["pr", "create", "--head", "published", "--base", "main"]


def test_an_open_one_is_brought_up_to_date(root: Path) -> None:
    change(root)
    propose(root, WISH, run=Hub(), environment={})
    (root / "published.json").write_text('{"more": 1}\n')
    hub = Hub(number="7")
    assert propose(root, WISH, run=hub, environment={}) == "published: pull request 7 is up to date"
    assert hub.asked[1][:3] == ["pr", "edit", "7"]


def test_a_commit_that_is_there_is_proposed_with_its_body(root: Path, tmp_path: Path) -> None:
    (root / "versions.toml").write_text("x\n")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Bump x")
    body = tmp_path / "body.md"
    body.write_text("what changes; $(touch nowhere) `x`\n")
    hub = Hub()
    propose(root, Proposal(branch="update/x-1", base="main", title="Bump x", body=body), run=hub, environment={})
    assert hub.asked[1][-4:] == ["--title", "Bump x", "--body", "what changes; $(touch nowhere) `x`\n"]


def test_a_long_body_is_cut(root: Path, tmp_path: Path) -> None:
    change(root)
    body = tmp_path / "body.md"
    body.write_text("包" * 50_000)
    hub = Hub()
    propose(root, Proposal(branch="p", base="main", title="t", body=body), run=hub, environment={})
    assert hub.asked[1][-1].endswith("more, which the commits show.")
    assert len(hub.asked[1][-1].encode()) < 65_536


def test_nothing_to_propose(root: Path) -> None:
    hub = Hub()
    assert propose(root, WISH, run=hub, environment={}).startswith("nothing to propose")
    assert hub.asked == []


def test_the_token_of_a_workflow_is_on_no_command_line_and_in_no_file(root: Path) -> None:
    change(root)
    hub = Hub()
    propose(root, WISH, run=hub, environment={"GH_TOKEN": "secret", "GITHUB_SERVER_URL": "https://hub.invalid"})
    assert hub.pushed_with["GIT_CONFIG_KEY_0"] == "http.https://hub.invalid/.extraheader"
    told = hub.pushed_with["GIT_CONFIG_VALUE_0"].rpartition(" ")[2]
    assert base64.b64decode(told) == b"x-access-token:secret"
    assert "secret" not in (root / ".git" / "config").read_text()
    assert "extraheader" not in (root / ".git" / "config").read_text()


def test_what_somebody_else_pushed_is_not_written_over(root: Path, tmp_path: Path) -> None:
    change(root)
    propose(root, WISH, run=Hub(), environment={})
    other = tmp_path / "other"
    git(tmp_path, "clone", "--quiet", "--branch", "published", str(tmp_path / "origin.git"), str(other))
    git(other, "commit", "--quiet", "--allow-empty", "--message", "theirs")
    git(other, "push", "--quiet")
    (root / "published.json").write_text('{"more": 1}\n')
    hub = Hub()
    with pytest.raises(PublishRefused, match="pushed to by somebody else"):
        propose(root, WISH, run=hub, environment={})
    assert hub.asked == []
    git(root, "fetch", "--quiet")
    assert git(root, "log", "-1", "--format=%s", "origin/published").strip() == "theirs"


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (Proposal(branch="", base="main", title="t"), "no branch is named"),
        (Proposal(branch="main", base="main", title="t"), "the branch itself"),
        (Proposal(branch="x", base="main", title=""), "no title"),
        (Proposal(branch="a..b", base="main", title="t"), "no name of a branch"),
        (Proposal(branch="-x", base="main", title="t"), "no name of a branch"),
        (Proposal(branch="x", base="trunk", title="t"), "origin/trunk is not here"),
        (Proposal(branch="x", base="main", title="t", body=Path("nowhere.md")), "nowhere.md"),
    ],
)
def test_what_cannot_be_meant(root: Path, wish: Proposal, message: str) -> None:
    change(root)
    hub = Hub()
    with pytest.raises(BadInput, match=message):
        propose(root, wish, run=hub, environment={})
    assert hub.asked == []
    assert git(root, "branch", "--remotes").split() == ["origin/main"]


def test_a_hub_that_refuses(root: Path) -> None:
    change(root)
    with pytest.raises(MissingTool, match="gh pr list: not logged in"):
        propose(root, WISH, run=Hub(code=1), environment={})


def test_a_push_that_is_refused(root: Path, tmp_path: Path) -> None:
    change(root)
    git(root, "remote", "set-url", "origin", str(tmp_path / "nowhere"))
    with pytest.raises(MissingTool, match="git push refused"):
        propose(root, WISH, run=Hub(), environment={})


def test_a_commit_that_is_refused(root: Path) -> None:
    change(root)
    (root / ".git" / "index.lock").touch()
    with pytest.raises(MissingTool, match="git add refused"):
        propose(root, WISH, run=Hub(), environment={})


def test_a_program_that_is_not_there_or_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingTool, match="no-such-program is not installed"):
        run_in(tmp_path, ["no-such-program"], {})
    monkeypatch.setattr(proposing, "_TIMEOUT", 0.1)
    with pytest.raises(MissingTool, match="did not come back"):
        run_in(tmp_path, ["sleep", "5"], {})
