"""Where this project is on the web: an address that nothing but links comes of, and none that leads nowhere."""

from pathlib import Path

import pytest

from ascend_images.errors import BadInput
from ascend_images.publish.web_address import linked_address, web_address
from tests.publish_kit import commit, git

pytestmark = pytest.mark.subprocess

CI = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "me/x"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://github.com/me/x.git", "https://github.com/me/x"),
        ("https://me:secret@github.com/me/x", "https://github.com/me/x"),
        ("https://host.invalid:8443/group/inner/x/", "https://host.invalid:8443/group/inner/x"),
        ("git@github.com:me/x.git", "https://github.com/me/x"),
        ("ssh://git@host.invalid/me/.x.git", "https://host.invalid/me/.x"),
        ("/somewhere/here", ""),
        ("http://host.invalid/x", ""),
        ("https://host.invalid/a/b)](x", ""),
        ("https://host.invalid/a/b/../../c", ""),
        ("https://host.invalid/a/..", ""),
        ("https://host.invalid/a//b", ""),
        ("https://host.invalid/a/<script>", ""),
        ("git@host.invalid:a/b|c", ""),
    ],
)
def test_the_address_on_the_web_is_that_of_the_remote(root: Path, remote: str, address: str) -> None:
    git(root, "remote", "add", "origin", remote)
    assert web_address(root, {}) == address


def test_ci_says_the_address_on_the_web(tmp_path: Path) -> None:
    assert web_address(tmp_path, CI) == "https://github.com/me/x"
    assert web_address(tmp_path, {}) == ""


@pytest.mark.parametrize(
    "odd",
    [
        {"GITHUB_SERVER_URL": "https://evil.invalid/x)](y"},
        {"GITHUB_SERVER_URL": "javascript:alert(1)//"},
        {"GITHUB_REPOSITORY": "a/b)\n\n# INJECTED <script>"},
        {"GITHUB_REPOSITORY": "a/b\n"},
        {"GITHUB_REPOSITORY": "../c"},
    ],
)
def test_what_is_no_address_is_refused(tmp_path: Path, odd: dict[str, str]) -> None:
    with pytest.raises(BadInput, match="GITHUB_REPOSITORY") as raised:
        web_address(tmp_path, {**CI, **odd})
    assert "\n#" not in str(raised.value)


def test_a_link_leads_only_where_a_branch_of_the_remote_is_known_to_hold_the_commit(root: Path) -> None:
    said: list[str] = []
    assert linked_address(root, {}, said.append) == ""
    assert said == [], "nobody expects a link"
    git(root, "remote", "add", "origin", "https://github.com/me/x")
    assert linked_address(root, {}, said.append) == ""
    assert "no branch of origin holds HEAD" in said[0]
    git(root, "update-ref", "refs/remotes/origin/main", "HEAD")
    assert linked_address(root, {}, said.append) == "https://github.com/me/x"
    commit(root)
    assert linked_address(root, {}, said.append) == ""
    assert linked_address(root, CI, said.append) == "https://github.com/me/x", "CI has it from there"
    assert len(said) == 2
