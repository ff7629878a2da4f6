"""The steps of images.yml in their order, from a dispatch to a pull request, against a registry of the sandbox."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from ascend_images.pins.platform import Arch
from ascend_images.publish.index import images_of, parse_index
from ascend_images.publish.published import FILE, Published, parse
from ascend_images.publish.registry import Repository
from ascend_images.sandbox.host import make_host
from tests.e2e.builds import ROOT, docker
from tests.publish_kit import git
from tests.workflow_runner import Hub

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.network,
    pytest.mark.skipif(os.geteuid() != 0, reason="emulation and device nodes take root"),
]

#: A small a2, of which there are stand-ins for both architectures.
PINS = (ROOT / "tests" / "data" / "two-architectures" / "versions.toml").read_text(encoding="utf-8")

#: invoke as it is, with stand-ins for what comes from outside; BROKEN names an architecture that cannot be built.
INVOKE = """\
#!/bin/sh
[ "$1" != build ] || [ "$ARCH" != "$BROKEN" ] || {{ echo "error: broken on purpose" >&2; exit 4; }}
[ "$1" != build ] || set -- "$@" --sandbox
exec {python} -m invoke "$@"
"""
#: What `nox -s verify --` runs, on the host that stands for one of that architecture; HOSTS is where those are.
NOX = """\
#!/bin/sh
shift 3
exec {python} -m tests.verify "$@" --sandbox --host-root "$HOSTS/$PLATFORM"
"""
#: A hub without pull requests, which writes down what it is asked.
GH = """\
#!/bin/sh
[ "$2" = create ] || exit 0
printf '%s\\n' "$@" >> "$ASKED"
echo https://hub.invalid/pull/1
"""
#: The environment is there already.
SETUP = """\
#!/bin/sh
echo "the environment of the tests"
"""


@pytest.fixture(scope="module")
def name(registry: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A repository of this run's own; what the engine has of it goes at the end."""
    name = f"{registry}/{hashlib.sha256(bytes(tmp_path_factory.getbasetemp())).hexdigest()[:12]}/ms-swift"
    yield name
    # By name and not by id: another test may have the same image under a name of its own.
    for line in docker("image", "ls", "--digests", "--format", "{{.Tag}} {{.Digest}}", name).splitlines():
        tag, digest = line.split()
        docker("image", "rm", "--force", f"{name}@{digest}" if tag == "<none>" else f"{name}:{tag}")


@pytest.fixture(scope="module")
def origin(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare repository with this project as it lies here, whose images go to the registry of the sandbox."""
    project = tmp_path_factory.mktemp("project")
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        capture_output=True,
        text=True,
        check=True,
    )
    for path in filter(None, listed.stdout.split("\0")):
        if (ROOT / path).is_file():
            (project / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, project / path)
    for path in (project / "versions.lock", *(project / "locks").iterdir()):
        path.unlink()
    shutil.rmtree(project / "dockerfiles" / "rendered")
    (project / "versions.toml").write_text(PINS.replace("@REPOSITORY@", name), encoding="utf-8")
    (project / "scripts" / "setup.sh").write_text(SETUP)
    rendered = subprocess.run([sys.executable, "-m", "invoke", "render"], cwd=project, capture_output=True, text=True)
    assert rendered.returncode == 0, rendered.stderr
    git(project, "init", "--quiet", "--initial-branch=main")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "x")
    bare = project.with_name("origin.git")
    git(project, "clone", "--quiet", "--bare", ".", str(bare))
    return bare


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stand-in for a host with NPUs of each architecture."""
    folder = tmp_path_factory.mktemp("hosts")
    for arch in Arch:
        make_host(folder / "linux" / arch.value, "a2", arch=arch)
    return folder


@pytest.fixture
def hub(tmp_path: Path, origin: Path, registry: str, hosts: Path) -> Callable[..., Hub]:
    """Return a function that makes a hub on which somebody dispatches a2; further variables are its machines'."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for program, text in (("invoke", INVOKE), ("nox", NOX), ("gh", GH)):
        (programs / program).write_text(text.format(python=sys.executable) if "{python}" in text else text)
        (programs / program).chmod(0o755)
    # Logins go to a configuration of this test's own; the client's plugins come along.
    config = tmp_path / "docker"
    config.mkdir()
    plugins = Path(os.environ.get("DOCKER_CONFIG", Path.home() / ".docker")) / "cli-plugins"
    if plugins.is_dir():
        (config / "cli-plugins").symlink_to(plugins)
    context = {
        "github": {"ref": "refs/heads/main", "event_name": "workflow_dispatch", "token": "hub-token"},
        "inputs": {"variant": "a2", "overrides": ""},
        "vars": {"PUBLISH_IMAGES": "yes"},
        "secrets": {"REGISTRY_LOGINS": f"{registry} somebody pass-word"},
    }
    env = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "DOCKER_CONFIG": str(config),
        "ASKED": str(tmp_path / "asked"),
        "HOSTS": str(hosts),
        "BROKEN": "",
    }

    def make(**more: str) -> Hub:
        work = tmp_path / "hub"
        work.mkdir()
        return Hub(origin, work, context, {**env, **more})

    return make


def published(origin: Path) -> Published:
    """Return published.json as the branch of the pull request has it."""
    branches = git(origin, "branch", "--format=%(refname:short)").split()
    text = git(origin, "show", f"published:{FILE}") if "published" in branches else '{"publications": []}'
    return parse(text.encode())


def standing(name: str) -> dict[str, str]:
    """Return the tags of the registry that are readable, each with the digest it stands for."""
    client = Repository(name)
    found = {}
    for tag in client.tags():
        stored = client.manifest(tag)
        if stored is not None and not tag.startswith(("candidate-", "cache-", "sha256-")):
            found[tag] = stored.digest
    return found


def billed(name: str, digests: Iterable[str]) -> bool:
    """Tell whether each image has a bill of materials: a registry without referrers keeps it by a tag of its digest."""
    client = Repository(name)
    return all(client.manifest(digest.replace(":", "-")) is not None for digest in digests)


def test_a_dispatch_ends_in_verified_tags_and_a_pull_request(
    hub: Callable[..., Hub], name: str, origin: Path, tmp_path: Path
) -> None:
    run = hub()
    results = run.run("images.yml")
    assert results == dict.fromkeys(results, "success") | {"lock": "skipped"}, "\n\n".join(run.log)
    (one,) = published(origin).publications
    assert one.tag.endswith("-sandbox")
    assert standing(name) == dict.fromkeys(one.tags, one.digest)
    stored = Repository(name).manifest(one.tag)
    assert stored is not None
    images = images_of(parse_index(stored.content, one.tag), one.tag)
    assert set(images) == set(Arch)
    assert billed(name, [image.digest for image in images.values()])
    assert set(one.checks) == {"linux/amd64", "linux/arm64"}
    assert "matmul" in one.checks["linux/arm64"]
    assert not one.waived
    changed = git(origin, "diff", "--name-only", "main", "published").split()
    assert changed == ["docs/supported_tags.md", "docs/supported_tags.zh.md", FILE]
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[:6] == ["pr", "create", "--head", "published", "--base", "main"]
    logins = json.loads((tmp_path / "docker" / "config.json").read_text())
    assert list(logins["auths"]) == [name.partition("/")[0]]
    assert not any("pass-word" in text or "hub-token" in text for text in run.log)


def test_one_architecture_that_cannot_be_built_moves_nothing(hub: Callable[..., Hub], name: str, origin: Path) -> None:
    before = standing(name), published(origin)
    run = hub(BROKEN="arm64")
    results = run.run("images.yml")
    assert (results["build"], results["manifest"], results["promote"]) == ("failure",) * 3, "\n\n".join(run.log)
    assert any("no record of a build for linux/arm64" in text for text in run.log)
    assert (standing(name), published(origin)) == before


def test_one_check_that_fails_moves_nothing(
    hub: Callable[..., Hub], name: str, origin: Path, tmp_path: Path, hosts: Path
) -> None:
    """The machine for one architecture has no NPU."""
    before = standing(name), published(origin)
    own = tmp_path / "hosts"
    make_host(own / "linux" / "amd64", "a2", arch=Arch.AMD64)
    (own / "linux" / "arm64").mkdir()
    run = hub(HOSTS=str(own))
    results = run.run("images.yml")
    ended = (results["manifest"], results["verify"], results["promote"])
    assert ended == ("success", "failure", "failure"), "\n\n".join(run.log)
    assert any("linux/arm64: npu: fail" in text for text in run.log if text.startswith("promote"))
    assert (standing(name), published(origin)) == before


def test_in_a_fork_nothing_is_done(hub: Callable[..., Hub]) -> None:
    run = hub()
    run.context = {**run.context, "vars": {}}
    assert set(run.run("images.yml").values()) == {"skipped"}
    assert run.log == []
