"""Images of other people frozen: one made by hand on the sandbox's base, and the sandbox's own a2."""

import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ascend_images.pins.load import load
from ascend_images.pins.lockfile import LockFile, is_current
from ascend_images.pins.platform import host_arch
from ascend_images.pins.resolve import resolve
from ascend_images.sandbox.base import base_image
from tests.e2e.builds import ROOT, docker, invoke

pytestmark = pytest.mark.e2e

ARCH = host_arch()
IMAGE = "ascend-images-test/by-hand:1"
DIST = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n"
#: numpy is in the base; the package that asks for another one was forced in beside it.
DOCKERFILE = """\
FROM {base}
RUN printf 'ID=ubuntu\\nVERSION_ID=22.04\\n' >/etc/os-release
COPY packages/ {site}/
COPY mine /mine
RUN printf '/mine\\n' >{site}/mine.pth
ENV GREETING="hello world" HF_TOKEN=hunter2
WORKDIR /work
ENTRYPOINT []
"""


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=Tests", "-c", "user.email=tests@example.invalid", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def commit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build an image as somebody does by hand; return the commit of the checkout in it."""
    context = tmp_path_factory.mktemp("by-hand")
    variant = resolve(load(ROOT / "versions.toml"), "a2", allow_broken=True)
    for name, version, requires in (("picky", "1.0", "Requires-Dist: numpy>=2\n"), ("mine", "2.0", "")):
        folder = context / "packages" / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(DIST.format(name, version) + requires)
    (context / "packages" / "mine-2.0.dist-info" / "direct_url.json").write_text(
        '{"url": "file:///mine", "dir_info": {"editable": true}}'
    )
    (context / "mine" / "mine").mkdir(parents=True)
    (context / "mine" / "mine" / "__init__.py").write_text("")
    git(context / "mine", "-c", "init.defaultBranch=main", "init", "--quiet")
    git(context / "mine", "remote", "add", "origin", "git@git.example.invalid:team/mine.git")
    git(context / "mine", "add", "--all")
    git(context / "mine", "commit", "--quiet", "--message", "mine")
    site = f"{variant.python_home}/lib/python{variant.python}/site-packages"
    base = base_image(variant, ARCH, print)
    (context / "Dockerfile").write_text(DOCKERFILE.format(base=base, site=site))
    docker("buildx", "build", "--quiet", "--load", f"--tag={IMAGE}", str(context))
    yield git(context / "mine", "rev-parse", "HEAD")
    docker("image", "rm", "--force", IMAGE)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for name in ("tasks.py", "versions.toml"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def test_an_image_made_by_hand_becomes_a_stack_that_loads_and_that_check_judges(project: Path, commit: str) -> None:
    before = (project / "versions.toml").read_text()
    done = invoke("freeze", "--image", IMAGE, "--name", "mine", folder=project)
    assert done.returncode == 0, done.stderr
    assert (project / "versions.toml").read_text() == before
    text = (project / "build" / "freeze" / "mine" / "stack.toml").read_text()
    stack = tomllib.loads(text)["stack"]["mine"]
    assert (stack["cann"], stack["os"], stack["python"], stack["workdir"]) == ("9.1.0", "ubuntu22.04", "3.12", "/work")
    assert stack["sources"]["mine"] == {
        "git": "https://git.example.invalid/team/mine",
        "ref": commit,
        "path": "/mine",
        "module": "mine",
        "distribution": "mine",
        "version": "2.0",
    }
    assert [(one["whose"], one["demand"]) for one in stack["relax"]] == [("picky", "numpy>=2")]
    assert stack["env"] == {"GREETING": "hello world"}
    assert "hunter2" not in done.stdout + done.stderr + text
    assert "env HF_TOKEN looks like a secret" in done.stdout
    lock = LockFile.load(project / "build" / "freeze" / "mine" / "locks" / f"mine.{ARCH.value}.txt")
    assert lock.versions["numpy"] == "1.24.0"
    assert "pip" in lock.versions
    assert "pip" not in stack["packages"]
    assert "libc6 " in (project / "build" / "freeze" / "mine" / "system.txt").read_text()

    (project / "versions.toml").write_text(f"{before}\n{text}")
    variant = resolve(load(project / "versions.toml"), "mine", allow_broken=True)
    assert is_current(lock, variant)
    checked = invoke("check", "--variant", "mine", folder=project)
    assert checked.returncode in (0, 2), checked.stderr
    assert "Traceback" not in checked.stderr
    (project / "versions.toml").write_text(before)


def test_the_sandboxs_own_image_says_what_it_is_and_freezes_all_the_same(project: Path) -> None:
    built = invoke("build", "--variant", "a2", "--sandbox", "--json")
    assert built.returncode == 0, built.stderr[-3000:]
    image = next(line for line in built.stdout.splitlines() if '"image"' in line).split('"')[3]
    done = invoke("freeze", "--image", image, "--name", "again", folder=project)
    assert done.returncode == 0, done.stderr
    assert "it was made by this project, as a2" in done.stdout
    stack = tomllib.loads((project / "build" / "freeze" / "again" / "stack.toml").read_text())["stack"]["again"]
    pinned = resolve(load(ROOT / "versions.toml"), "a2", allow_broken=True)
    assert {source["path"] for source in stack["sources"].values()} == {source.path for source in pinned.sources}
    assert stack["packages"]["torch_npu"] == pinned.packages["torch_npu"]
    lock = LockFile.load(project / "build" / "freeze" / "again" / "locks" / f"again.{ARCH.value}.txt")
    committed = LockFile.load(ROOT / "locks" / f"a2.{ARCH.value}.txt")
    assert committed.versions.items() <= lock.versions.items()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        # Nothing listens on port 1: no registry gives an answer.
        (("--image", "127.0.0.1:1/nowhere:1"), 6, "neither on the engine nor to be fetched"),
        (("--image", IMAGE, "--name", "a2"), 2, "--name a2: a stack or a variant is called that"),
        ((), 2, "no image is named"),
    ],
)
def test_what_cannot_be_frozen_is_said_in_words(project: Path, words: tuple[str, ...], code: int, said: str) -> None:
    done = invoke("freeze", *words, folder=project)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_image_without_a_python_cannot_be_looked_at(project: Path, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\nENTRYPOINT []\n")
    name = "ascend-images-test/empty:1"
    docker("buildx", "build", "--quiet", "--load", f"--tag={name}", str(tmp_path))
    done = invoke("freeze", "--image", name, folder=project)
    docker("image", "rm", "--force", name)
    assert done.returncode == 2
    assert f"{name} cannot be looked at" in done.stderr
