"""A build in which nothing stands in for packages and sources: what a user types, from the pins to the image.

The packages come from the real index, the sources from a git server on the engine's bridge by https, with a CA that is
this run's own: it enters as a build secret, as do the mirror that leads to the server and a proxy with a password. The
base image alone is the sandbox's. Commits, port, password and CA are new in each run, so every fetch really happens.
"""

import base64
import gzip
import json
import os
import secrets
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest

from ascend_images.images.network import network_for, secret_files
from ascend_images.lock.means import silent
from ascend_images.pins.load import load
from ascend_images.pins.lockfile import LockFile
from ascend_images.pins.platform import host_arch
from ascend_images.pins.resolve import resolve
from ascend_images.pins.versions_lock import FILE, VersionsLock
from ascend_images.sandbox.base import base_image
from ascend_images.sandbox.engine import bridge_gateway
from tests.e2e.builds import ROOT, docker, invoke, machine_ca, run_in
from tests.e2e.git_server import CA_NAME, GitServer, git_server, make_authority, proxy

pytestmark = [pytest.mark.e2e, pytest.mark.network]

DATA = ROOT / "tests" / "data" / "smoke"
HOST = "https://git.example.invalid/"
ARCH = host_arch()
IDENTITY = ["-c", "user.name=Tests", "-c", "user.email=tests@example.invalid", "-c", "commit.gpgsign=false"]
CHECKOUTS = ("/plain", "/src/modules", "/src/modules/third_party/inner", "/tagged", "/hidden")
PACKAGES = "numpy, jinja2, markupsafe, yaml, msgspec, requests, urllib3, idna, certifi, rich, pygments, six"
#: What a build has and an image has not: mount points, work folders, caches and settings of a user.
BUILD_FOLDERS = ("run/", "build", "wheels", "lock", "out", "layers", "root/.cache", "root/.config", "root/.git")


# --- what is built


@dataclass(frozen=True, kw_only=True)
class Commits:
    """The commit of each source that the image must have."""

    plain: str
    modules: str
    inner: str
    tagged: str
    hidden: str


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "protocol.file.allow=always", *IDENTITY, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def commit(folder: Path, message: str) -> str:
    with (folder / "COMMITS").open("a") as file:
        file.write(f"{message}\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def make_repositories(top: Path, run: str) -> Commits:
    """Make what the server serves; `run` makes all commits new. Of the branch `modules` the last commit is wanted."""
    for data in (DATA / "sources").iterdir():
        folder = top / data.name
        shutil.copytree(data, folder)
        (folder / "COMMITS").write_text(f"run {run}\n")
        git(folder, "-c", "init.defaultBranch=main", "init", "--quiet")
        for name in ("allowAnySHA1InWant", "allowFilter"):
            git(folder, "config", f"uploadpack.{name}", "true")
    wanted = {name: commit(top / name, "wanted") for name in ("plain", "inner", "tagged")}
    git(top / "tagged", "tag", "--annotate", f"v1.2.{run}", "--message", "a release")
    commit(top / "hidden", "on the branch")
    wanted["hidden"] = commit(top / "hidden", "wanted")
    git(top / "hidden", "reset", "--quiet", "--hard", "HEAD~1")
    here = f"url.{top.as_uri()}/.insteadOf={HOST}"
    git(top / "modules", "-c", here, "submodule", "--quiet", "add", f"{HOST}inner", "third_party/inner")
    wanted["modules"] = commit(top / "modules", "wanted")
    for name in ("plain", "inner", "tagged"):
        commit(top / name, "later")
    return Commits(**wanted)


@dataclass(frozen=True, kw_only=True)
class Project:
    """A folder with pins, and the lock and the rendered file that the tool made of them; what its builds reach."""

    folder: Path
    run: str
    commits: Commits
    server: GitServer
    asked: tuple[str, ...]
    """What the server was asked for while the lock was made."""
    ca: Path
    """The CA that signed the server's certificate."""
    base: str


def direct() -> dict[str, str]:
    """Return an environment in which this machine's own address is reached by no proxy."""
    return {"NO_PROXY": ",".join(filter(None, [os.environ.get("NO_PROXY"), str(bridge_gateway())]))}


def trusted(project: Project) -> Path:
    """Return a bundle of what this machine trusts, for the index, and the server's CA."""
    path = project.folder / "ca.pem"
    path.write_bytes(machine_ca().read_bytes() + b"\n" + project.ca.read_bytes())
    return path


def base_called_ubuntu(stand_in: str, run: str) -> str:
    """Make an image of the stand-in for the base, a Debian, that says of itself what the pins say; return its name.

    It is another one each time: a layer from the build cache may be packed in another way when it is exported again.
    """
    name = f"ascend-images-test/smoke-base:{run}"
    lines = f"ID=ubuntu\\nVERSION_ID=22.04\\nBUILD_ID={run}\\n"
    dockerfile = f"FROM {stand_in}\nRUN printf '{lines}' >/etc/os-release\n"
    command = ["docker", "build", "--quiet", "--provenance=false", "--tag", name, "-"]
    subprocess.run(command, input=dockerfile, text=True, check=True, capture_output=True)
    return name


def told_of_nothing_but_the_base(text: str) -> bool:
    missed = [line for line in text.splitlines() if line.endswith(": not known")]
    return [line.split(":")[0].strip() for line in missed] == ["quay.io/ascend/cann"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    top = tmp_path_factory.mktemp("smoke")
    address = str(bridge_gateway())
    run = str(int(time.time()))
    commits = make_repositories(top / "repositories", run)
    authority = make_authority(top / "authority", address)
    folder = top / "project"
    (folder / "scripts").mkdir(parents=True)
    for name in ("tasks.py", ".dockerignore", "scripts/image_check.py"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "ascend_images" / "inside", folder / "ascend_images" / "inside")
    with git_server(top / "repositories", authority, address) as server:
        pins = (DATA / "versions.toml").read_text()
        values = {"SERVER": server.url, "RUN": run, "PLAIN": commits.plain, "HIDDEN": commits.hidden}
        for key, value in values.items():
            pins = pins.replace(f"@{key}@", value)
        (folder / "versions.toml").write_text(pins)
        lock = ["lock", "--arch", ARCH.value, "--mirror", "bridge", "--ca-bundle", str(authority.ca)]
        done = invoke(*lock, "--variant", "smoke", folder=folder, environment=direct())
        # The base image's registry may be out of reach: its digest alone is not known then.
        assert done.returncode == 0 or (done.returncode == 6 and told_of_nothing_but_the_base(done.stderr)), done.stderr
        commit(top / "repositories" / "modules", "later")
        done = invoke("render", "--variant", "smoke", folder=folder, environment=direct())
        assert done.returncode == 0, done.stderr
        base = base_called_ubuntu(base_image(resolve(load(folder / "versions.toml"), "smoke"), ARCH, silent), run)
        yield Project(
            folder=folder,
            run=run,
            commits=commits,
            server=server,
            asked=tuple(server.requests),
            ca=authority.ca,
            base=base,
        )
    docker("image", "rm", "--force", base)


# --- before it is built


def test_the_lock_has_a_hash_for_every_package_and_what_the_sources_ask_for(project: Project) -> None:
    lock = LockFile.load(project.folder / "locks" / f"smoke.{ARCH.value}.txt")
    assert lock.incomplete == ()
    assert len(lock.packages) > 15
    assert [package.name for package in lock.packages if not package.hashes] == []
    looked_at = {request.split()[1].split("/")[1] for request in project.asked}
    assert looked_at == {"plain", "modules", "inner", "tagged", "hidden"}


def test_every_ref_is_locked_to_its_commit(project: Project) -> None:
    locked = VersionsLock.load(project.folder / FILE)
    found = {entry.repository.removeprefix(HOST): (entry.kind, entry.commit) for entry in locked.git}
    commits = project.commits
    assert found == {
        "plain": ("commit", commits.plain),
        "modules": ("branch", commits.modules),
        "tagged": ("annotated tag", commits.tagged),
        "hidden": ("commit", commits.hidden),
    }
    modules = next(entry for entry in locked.git if entry.submodules)
    assert [(one.path, one.commit) for one in modules.submodules or ()] == [("third_party/inner", commits.inner)]
    rendered = (project.folder / "dockerfiles" / "rendered" / "smoke.Dockerfile").read_text()
    assert "# modules at main\nFROM fetch AS fetch-modules\n" in rendered
    assert rendered.count(commits.modules) >= 2


def test_the_locks_answer_their_pins(project: Project) -> None:
    done = invoke("lock", "--variant", "smoke", "--arch", ARCH.value, "--check", folder=project.folder)
    assert done.returncode == 0, done.stderr


def test_without_the_ca_a_certificate_error_ends_the_fetching(project: Project) -> None:
    """Before the real build: a secret is no part of a step's identity, so a step that passed would not run again."""
    pins = load(project.folder / "versions.toml")
    variant = resolve(pins, "smoke")
    network = network_for(variant, mirrors=pins.mirror, mirror="bridge", environment={**os.environ, **direct()})
    command = ["docker", "buildx", "build", "--progress=plain", "--target=src-plain", "--output=type=cacheonly"]
    command += [f"--build-context={name}=docker-image://{project.base}" for name in ("cann", "fetch")]
    command += ["--file=dockerfiles/rendered/smoke.Dockerfile"]
    with secret_files(network.secrets()) as files:
        command += [f"--secret=id={name},src={path}" for name, path in files.items()]
        done = subprocess.run([*command, "."], cwd=project.folder, capture_output=True, text=True)
    assert list(files) == ["network"]
    assert done.returncode != 0
    assert f"fatal: unable to access '{project.server.url}plain/': server certificate verification" in done.stderr
    assert "build stopped: three attempts failed: git fetch" in done.stderr
    assert tuple(project.server.requests) == project.asked, "nobody asked before looking at the certificate"


# --- what was built


@dataclass(frozen=True, kw_only=True)
class Built:
    """The image, what must be in no part of it, and where its build went through the test's own proxy."""

    image: str
    traces: Mapping[str, bytes]
    password: str
    proxied: frozenset[str]
    """Empty where this machine has a proxy of its own, which is then the one that was used."""


@pytest.fixture(scope="module")
def built(project: Project) -> Iterator[Built]:
    """Build the image as a user types it, with every kind of secret."""
    password = secrets.token_hex(12)
    with ExitStack() as stack:
        settings, through = direct(), []
        if not (os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")):
            ours = stack.enter_context(proxy(str(bridge_gateway()), password))
            settings, through = {"HTTPS_PROXY": ours.url}, ours.asked
        words = ["--mirror", "bridge", "--ca-bundle", str(trusted(project)), "--base-image", project.base, "--json"]
        done = invoke("build", "--variant", "smoke", *words, folder=project.folder, environment=settings)
    assert done.returncode == 0, done.stderr[-5000:]
    (one,) = json.loads(done.stdout)["built"]
    certificate = project.ca.read_text().splitlines()
    traces = {
        "the CA as text": certificate[2].encode(),
        "the CA as bytes": base64.b64decode("".join(certificate[1:-1])),
        "the CA's name": CA_NAME.encode(),
        "the address of server and proxy": str(bridge_gateway()).encode(),
        "the mirror as git is told it": b"GIT_CONFIG_KEY_0=",
        "the proxy's password": password.encode(),
    }
    yield Built(image=one["image"], traces=traces, password=password, proxied=frozenset(through))
    docker("image", "rm", "--force", one["image"])


@pytest.fixture
def inside(built: Built) -> Callable[[str], str]:
    return lambda command: run_in(built.image, command)


def test_every_source_is_at_its_commit_with_nothing_changed(inside: Callable[[str], str], project: Project) -> None:
    commits = project.commits
    wanted = [commits.plain, commits.modules, commits.inner, commits.tagged, commits.hidden]
    assert inside("; ".join(f"git -C {folder} rev-parse HEAD" for folder in CHECKOUTS)).split() == wanted
    assert inside("; ".join(f"git -C {folder} status --porcelain" for folder in CHECKOUTS)) == ""
    assert inside("git -C /src/modules submodule status").split()[0] == commits.inner
    assert inside("cat /src/modules/third_party/inner/README") == "What a submodule holds."
    remotes = inside("; ".join(f"git -C {folder} config remote.origin.url" for folder in CHECKOUTS)).split()
    assert remotes == [f"{HOST}{Path(folder).name}" for folder in CHECKOUTS]


def test_packages_and_sources_import_from_where_they_belong(inside: Callable[[str], str], project: Project) -> None:
    names = ("smoke_plain", "smoke_modules", "smoke_tagged", "smoke_hidden")
    printed = ", ".join(f"{name}.__file__" for name in names)
    program = f"import {PACKAGES}, {', '.join(names)}, smoke_plain._c; print({printed})"
    for folder in ("/", "/tmp", "/plain"):
        assert inside(f"cd {folder} && python3 -c '{program}'").split() == [
            "/plain/smoke_plain/__init__.py",
            "/src/modules/smoke_modules/__init__.py",
            "/tagged/src/smoke_tagged/__init__.py",
            "/hidden/smoke_hidden/__init__.py",
        ]
    program = 'from importlib.metadata import version; print(version("smoke-tagged"), version("numpy"))'
    assert inside(f"python3 -c '{program}'") == f"1.2.{project.run} 1.26.4"


def test_the_image_checked_itself_and_does_so_again(inside: Callable[[str], str], project: Project) -> None:
    report: dict[str, Any] = json.loads(inside("cat /opt/ascend-images/report.json"))
    answers = {(one["check"], one["subject"]): one["answer"] for one in report["results"]}
    assert "fail" not in answers.values()
    assert {answers["source-commit", name] for name in ("plain", "modules", "tagged", "hidden")} == {"pass"}
    lock = (project.folder / "locks" / f"smoke.{ARCH.value}.txt").read_text()
    assert inside("cat /opt/ascend-images/lock.txt") == lock.strip()
    assert " 0 fail" in inside("python3 /opt/ascend-images/check.py")


def test_index_and_git_host_were_reached_through_the_proxy(built: Built, project: Project) -> None:
    if not built.proxied:
        pytest.skip("this machine has a proxy of its own, so the build went through that")
    assert project.server.url.split("/")[2] in built.proxied
    assert len(built.proxied) > 1


# --- what is left of its secrets


@pytest.fixture(scope="module")
def archive(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tarfile.TarFile]:
    path = tmp_path_factory.mktemp("saved") / "image.tar"
    docker("image", "save", "--output", str(path), built.image)
    with tarfile.open(path) as tar:
        yield tar
    path.unlink()


@pytest.fixture(scope="module")
def layers(archive: tarfile.TarFile, project: Project) -> tuple[str, ...]:
    """Return the layers that the build made; the base's were there before CA, port and password were."""
    base = json.loads(docker("image", "inspect", project.base))[0]["RootFS"]["Layers"]
    (manifest,) = json.load(opened(archive, "manifest.json"))
    config = json.load(opened(archive, manifest["Config"]))
    assert config["rootfs"]["diff_ids"][: len(base)] == base
    return tuple(manifest["Layers"][len(base) :])


def opened(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    """Return a file of the archive, unpacked."""
    stream = archive.extractfile(name)
    assert stream is not None
    start = stream.read(2)
    stream.seek(0)
    return gzip.open(stream) if start == b"\x1f\x8b" else stream


def found_in(content: bytes, traces: Mapping[str, bytes]) -> set[str]:
    return {what for what, trace in traces.items() if trace in content}


def test_no_layer_holds_anything_of_ca_mirror_and_proxy(
    archive: tarfile.TarFile, layers: tuple[str, ...], built: Built, project: Project
) -> None:
    # One more that is there, so that a search which finds nothing is seen to be one that could.
    traces = {**built.traces, "the run": f"run {project.run}\n".encode()}
    found = {name: found_in(opened(archive, name).read(), traces) for name in layers}
    assert set().union(*found.values()) == {"the run"}, found


def test_no_layer_holds_a_folder_of_the_build(archive: tarfile.TarFile, layers: tuple[str, ...]) -> None:
    paths: set[str] = set()
    for name in layers:
        with tarfile.open(fileobj=opened(archive, name)) as layer:
            paths.update(layer.getnames())
    assert "opt/ascend-images/report.json" in paths
    assert {path for path in paths if path.startswith(BUILD_FOLDERS)} == set()


def test_configuration_and_history_name_no_secret(built: Built) -> None:
    config = docker("image", "inspect", built.image)
    history = docker("image", "history", "--no-trunc", "--format", "{{json .}}", built.image)
    assert "io.ascend-images.pins" in config
    assert "COPY /layers/rest/ /" in history
    for text in (config, history):
        assert found_in(text.encode(), built.traces) == set()
        assert "secret" not in text.lower()
        assert "proxy" not in text.lower()


def test_the_proxys_password_is_in_nothing_that_the_tool_wrote(built: Built, project: Project) -> None:
    written = [path for path in project.folder.rglob("*") if path.is_file()]
    assert any(path.suffix == ".log" for path in written)
    assert [path for path in written if built.password.encode() in path.read_bytes()] == []


# --- the same lock with another hash


def test_a_file_that_is_not_the_locked_one_stops_a_build(built: Built, project: Project) -> None:
    path = project.folder / "locks" / f"smoke.{ARCH.value}.txt"
    before = path.read_text()
    image = docker("image", "inspect", "--format", "{{.Id}}", built.image)
    lock = LockFile.load(path)
    spoilt = tuple(
        msgspec.structs.replace(one, hashes=(f"sha256:{'0' * 64}",)) if one.name == "six" else one
        for one in lock.packages
    )
    path.write_text(str(msgspec.structs.replace(lock, packages=spoilt)))
    try:
        words = ["--mirror", "bridge", "--ca-bundle", str(trusted(project)), "--base-image", project.base, "--json"]
        done = invoke("build", "--variant", "smoke", *words, folder=project.folder, environment=direct())
    finally:
        path.write_text(before)
    assert done.returncode == 4
    summary = json.loads(done.stdout)
    assert summary["built"] == []
    (failure,) = summary["failed"]
    assert "uv pip install" in failure["command"]
    assert "hash mismatch for `six" in " ".join(failure["output"]).lower()
    assert docker("image", "inspect", "--format", "{{.Id}}", built.image) == image
