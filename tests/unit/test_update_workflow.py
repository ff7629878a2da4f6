"""The steps of update.yml in their order: from what is newer to one pull request a pin."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.publish_kit import git
from tests.workflow_runner import Hub

pytestmark = pytest.mark.subprocess

#: Stands for invoke: three pins are newer, one of which cannot be moved; that of another changes a script as well, as
#: foreign code in the same job may. `take` and `propose` are the real ones.
INVOKE = """\
#!{python}
import subprocess, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from ascend_images import proposing, taking, workflow
from ascend_images.errors import AscendImagesError
from ascend_images.updating import Outdated, Update
words = sys.argv[1:]
if words[0] == "updates":
    commands = [f"invoke bump ms-swift.{{name}}" for name in ("one 2", "two release/3", "three 4")]
    found = [Update(kind="package", name="x", pinned="1", variants=("a2",), newest="2", bump=line) for line in commands]
    print(workflow.tell(workflow.updates(Outdated(variants=("a2",), updates=tuple(found), not_reached={{}}))))
    sys.exit(6)  # a host gave no answer
if words[0] == "bump":
    if words[1] == "ms-swift.one":
        sys.exit(2)
    Path("versions.toml").write_text(f"{{words[1]}} = {{words[2]}}\\n")
    if words[1] == "ms-swift.three":
        Path("scripts/setup.sh").write_text("#!/bin/sh\\necho foreign\\n")
    subprocess.run(["git", "commit", "--quiet", "--all", "--message", "Bump"], check=True)
if words[0] == "diff":
    print("| pin | was | is |")
if words[0] == "take":
    try:
        print(taking.take(Path.cwd(), Path(words[2])))
    except AscendImagesError as error:
        sys.exit(str(error))
if words[0] == "tags":
    Path("docs").mkdir()
    Path("docs/supported_tags.md").write_text("tags\\n")
if words[0] == "propose":
    options = dict(zip(words[1::2], words[2::2], strict=True))
    wish = proposing.Proposal(
        branch=options["--branch"], base="main", title=options["--title"], body=Path(options["--body"])
    )
    print(proposing.propose(Path.cwd(), wish))
"""
GH = """\
#!/bin/sh
[ "$2" = create ] || exit 0
printf '%s\\n' "$@" >> "$ASKED"
printf 'token: %s\\n' "$GH_TOKEN" >> "$ASKED"
"""
ROOT = Path(__file__).parents[2]


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    project = tmp_path / "project"
    (project / "scripts").mkdir(parents=True)
    (project / ".gitignore").write_text("build/\n")
    (project / "versions.toml").write_text("\n")
    (project / "scripts" / "setup.sh").write_text("#!/bin/sh\nmkdir -p build\n")
    (project / "scripts" / "repeat_flag.sh").write_text((ROOT / "scripts" / "repeat_flag.sh").read_text())
    for path in (project / "scripts").iterdir():
        path.chmod(0o755)
    git(project, "init", "--quiet", "--initial-branch=main")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "x")
    git(tmp_path, "clone", "--quiet", "--bare", str(project), str(tmp_path / "origin.git"))
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("invoke", INVOKE.format(python=sys.executable, root=str(ROOT))), ("gh", GH)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    context: dict[str, Any] = {
        "github": {"ref": "refs/heads/main", "token": "the-runs-own"},
        "inputs": {"variant": ""},
        "vars": {"PUBLISH_IMAGES": "yes"},
        "secrets": {},
    }
    (tmp_path / "hub").mkdir()
    env = {"PATH": f"{programs}:/usr/bin:/bin", "ASKED": str(tmp_path / "asked")}
    return Hub(tmp_path / "origin.git", tmp_path / "hub", context, env)


def test_each_pin_that_can_be_moved_becomes_a_pull_request(hub: Hub, tmp_path: Path) -> None:
    results = hub.run("update.yml")
    # A host that gave no answer and a pin that could not be moved are seen, and keep nothing else back.
    assert results == {"outdated": "failure", "bump": "failure", "propose": "failure"}, "\n\n".join(hub.log)
    assert git(hub.origin, "branch", "--format=%(refname:short)").split() == ["main", "update/ms-swift.two-release-3"]
    branch = "update/ms-swift.two-release-3"
    assert git(hub.origin, "show", f"{branch}:versions.toml") == "ms-swift.two = release/3\n"
    # A test of the lists of tags fails where they do not answer the pins.
    assert git(hub.origin, "show", f"{branch}:docs/supported_tags.md") == "tags\n"
    told = git(hub.origin, "log", "--format=%s, %an", f"main..{branch}").splitlines()
    assert told == ["Bump ms-swift.two to release/3, github-actions[bot]", "Bump, github-actions[bot]"]
    (refusal,) = (text for text in hub.log if "scripts/setup.sh is changed" in text)
    assert refusal.startswith("propose : invoke take")
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == [
        *("pr", "create", "--head", "update/ms-swift.two-release-3", "--base", "main"),
        *("--title", "Bump ms-swift.two to release/3", "--body", "| pin | was | is |", ""),
        "token: the-runs-own",
    ]


def test_a_pull_request_by_a_token_of_its_own(hub: Hub, tmp_path: Path) -> None:
    hub.context = {**hub.context, "secrets": {"PULL_REQUEST_TOKEN": "an-apps"}}
    hub.run("update.yml")
    assert (tmp_path / "asked").read_text().splitlines()[-1] == "token: an-apps"
    assert not any("an-apps" in text for text in hub.log)
