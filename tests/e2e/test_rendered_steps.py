"""The steps of a rendered file on a real engine: real packages, real fetches, and each refusal of theirs.

A small variant is rendered and built by plain `docker build` on the sandbox's base image. Sources come from a git
server on the engine's bridge, packages from the real index; both are reached as a user's would be, by secrets.
"""

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ascend_images.images.image_json import image_json
from ascend_images.images.render import render
from ascend_images.pins.load import load
from ascend_images.pins.model import Patch
from ascend_images.pins.platform import Arch, host_arch
from ascend_images.pins.resolve import resolve
from ascend_images.pins.variant import RunFile, Variant
from ascend_images.sandbox.base import base_image
from ascend_images.sandbox.engine import bridge_gateway
from ascend_images.sandbox.second_engine import second_engine

pytestmark = [pytest.mark.e2e, pytest.mark.network]

ROOT = Path(__file__).parents[2]
HOSTS = "https://git.example.invalid/"
IDENTITY = ["-c", "user.name=Tests", "-c", "user.email=tests@example.invalid", "-c", "commit.gpgsign=false"]
EXTENSION = """#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_c", 0, -1, 0};
PyMODINIT_FUNC PyInit__c(void) { return PyModule_Create(&module); }
"""
SETUP = """import os
from setuptools import Extension, setup
print("MAX_JOBS", os.environ.get("MAX_JOBS"))
extensions = [Extension("{name}._c", ["c.c"])] if os.path.exists("c.c") else []
setup(name="{name}", version="1.0", packages=["{name}"], ext_modules=extensions)
"""
#: Stands in for the self-check: it writes what it was asked to write.
CHECK = """import os, sys
words = sys.argv
place = words[words.index("--import-ahead" if "--import-ahead" in words else "--report") + 1]
for folder in (os.path.dirname(place), words[words.index("--bytecode") + 1]):
    os.makedirs(folder, exist_ok=True)
with open(place, "w") as file:
    file.write("{}")
"""
#: What of a container's files is its engine's.
ENGINES = ("/proc", "/sys", "/dev", "/etc/mtab", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/.dockerenv")
REQUIREMENTS = ["six==1.17.0", "numpy==1.26.4", "crcmod==1.7", "setuptools==80.10.2", "wheel"]
PATCH = Patch(
    distribution="six", file="six.py", find='__version__ = "', replace='__version__  = "', count=1, reason="x"
)


def git(folder: Path, *arguments: str) -> str:
    settings = ["-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main", *IDENTITY]
    command = ["git", "-C", str(folder), *settings, *arguments]
    # The same commits in each run, so that what does not change is found again.
    dates = {"GIT_AUTHOR_DATE": "1000000000 +0000", "GIT_COMMITTER_DATE": "1000000000 +0000"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **dates})
    return done.stdout.strip()


def repository(top: Path, name: str, files: Mapping[str, str]) -> Path:
    """Make a repository with one commit; its package folder carries its own name and lies in its root."""
    folder = top / name
    for path, text in {"setup.py": SETUP.format(name=name), f"{name}/__init__.py": "", **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / ".gitignore").write_text("*.egg-info\nbuild/\n*.so\n")
    git(folder, "init", "-q")
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", "one")
    return folder


@dataclass(frozen=True)
class Server:
    """A git server: where it is, and the commits that matter."""

    url: str
    hidden: str
    tagged: str
    tag: str


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve a repository with a submodule, an annotated tag and a commit that is on no branch and no tag."""
    top = tmp_path_factory.mktemp("repositories")
    repository(top, "inner", {})
    git(top, "clone", "-q", "--bare", "inner", "inner.git")
    alpha = repository(top, "alpha", {"c.c": EXTENSION, "x.cmake": "file(DOWNLOAD a b TLS_VERIFY OFF)\n"})
    rewrite = f"url.{top.as_uri()}/.insteadOf={HOSTS}"
    git(alpha, "-c", rewrite, "submodule", "-q", "add", f"{HOSTS}inner.git", "third/inner")
    git(alpha, "commit", "-q", "-m", "two")
    tagged = git(alpha, "rev-parse", "HEAD")
    # A step that fetches by a tag is cached by its name, so the name changes with what it stands for.
    tag = f"v{tagged[:12]}"
    git(alpha, "tag", "-a", tag, "-m", "a release")
    (alpha / "alpha" / "hidden.py").write_text("HIDDEN = True\n")
    git(alpha, "add", "--all")
    git(alpha, "commit", "-q", "-m", "hidden")
    hidden = git(alpha, "rev-parse", "HEAD")
    git(alpha, "reset", "-q", "--hard", tagged)
    git(top, "clone", "-q", "--bare", "alpha", "alpha.git")
    git(top / "alpha.git", "fetch", "-q", str(alpha), f"{hidden}:refs/hidden/x")
    git(top / "alpha.git", "config", "uploadpack.hideRefs", "refs/hidden")
    address = str(bridge_gateway())
    with socket.socket() as probe:
        probe.bind((address, 0))
        port = probe.getsockname()[1]
    command = ["git", "daemon", "--export-all", f"--base-path={top}", f"--listen={address}", f"--port={port}", str(top)]
    daemon = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(50):
            if (
                subprocess.run(
                    ["git", "ls-remote", f"git://{address}:{port}/alpha.git"], capture_output=True
                ).returncode
                == 0
            ):
                break
            time.sleep(0.1)
        yield Server(f"git://{address}:{port}/", hidden, tagged, tag)
    finally:
        os.killpg(daemon.pid, signal.SIGTERM)
        daemon.wait(10)


@dataclass(frozen=True, kw_only=True)
class Built:
    """What a build ended in."""

    code: int
    output: str
    digest: str = ""


@dataclass(kw_only=True)
class Builder:
    """Renders and builds variants in a folder of their own, by plain `docker build`."""

    folder: Path
    server: Server
    base: str
    variant: Variant
    contexts: dict[str, str] = field(default_factory=dict)

    def build(
        self,
        variant: Variant,
        *options: str,
        tag: str = "",
        contexts: Mapping[str, str] | None = None,
        engine: str = "",
    ) -> Built:
        file = self.folder / f"{variant.name}.Dockerfile"
        file.write_text(render(variant))
        metadata = self.folder / "metadata.json"
        metadata.unlink(missing_ok=True)
        named = {**self.contexts, **(contexts or {})}
        command = ["docker", "buildx", "build", "--progress=plain", "--provenance=false", f"--file={file}"]
        command += [f"--build-context={name}={value}" for name, value in named.items()]
        command += [f"--secret=id=ca,src={ca_bundle()}", f"--secret=id=network,src={self.folder / 'network'}"]
        command += ["--build-arg=SOURCE_DATE_EPOCH=315532800", f"--metadata-file={metadata}", *options]
        command += [f"--tag={tag}"] if tag else []
        env = {**os.environ, "DOCKER_HOST": engine} if engine else None
        done = subprocess.run([*command, str(ROOT)], capture_output=True, text=True, timeout=600, env=env)
        digest = json.loads(metadata.read_text())["containerimage.digest"] if metadata.exists() else ""
        return Built(code=done.returncode, output=done.stderr, digest=digest)


def ca_bundle() -> str:
    return os.environ.get("SSL_CERT_FILE") or "/etc/ssl/certs/ca-certificates.crt"


def small(server: Server) -> Variant:
    """Return a variant of two sources, one compiled and with a submodule, and three packages."""
    whole = resolve(load(ROOT / "versions.toml"), "a2", allow_broken=True)
    alpha = msgspec.structs.replace(
        next(source for source in whole.sources if source.compiles),
        name="Alpha",
        git=f"{HOSTS}alpha.git",
        ref=server.tag,
        commit=server.hidden,
        path="/alpha",
        module="alpha",
        distribution="alpha",
        version="1.0",
        submodules=True,
        env={"MAX_JOBS": "2"},
        checks=(),
    )
    beta = msgspec.structs.replace(
        alpha, name="beta", commit="", path="/src/beta", install="pythonpath", submodules=False
    )
    return msgspec.structs.replace(
        whole,
        name="steps",
        packages={"six": "1.17.0", "numpy": "1.26.4"},
        sources=(alpha, beta),
        patches=(PATCH,),
        exclude={},
        runtime={},
        system_packages=("ca-certificates",),
    )


def lock_text(*head: str) -> str:
    command = [
        "uv",
        "pip",
        "compile",
        "--quiet",
        "--generate-hashes",
        "--no-header",
        "--no-annotate",
        "--python-version=3.12",
        "-",
    ]
    done = subprocess.run(command, input="\n".join(REQUIREMENTS), capture_output=True, text=True, check=True)
    return "".join(f"{line}\n" for line in (f"# platform: {host_arch().platform}", *head)) + done.stdout


@pytest.fixture(scope="module")
def builder(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Builder:
    folder = tmp_path_factory.mktemp("build")
    variant = small(server)
    (folder / "network").write_text(
        f"GIT_CONFIG_COUNT=1\nGIT_CONFIG_KEY_0=url.{server.url}.insteadOf\nGIT_CONFIG_VALUE_0={HOSTS}\n"
    )
    (folder / "lock").mkdir()
    (folder / "lock" / f"steps.{host_arch().value}.txt").write_text(lock_text())
    own = folder / "facts" / "opt" / "ascend-images"
    own.mkdir(parents=True)
    (own / "image.json").write_text(image_json(variant))
    # The steps are what is tried here; the check has tests of its own.
    (own / "check.py").write_text(CHECK)
    (own / "inside").mkdir()
    base = base_image(variant, host_arch(), lambda _text: None)
    contexts = {"cann": f"docker-image://{base}", "lock": str(folder / "lock"), "facts": str(folder / "facts")}
    return Builder(folder=folder, server=server, base=base, variant=variant, contexts=contexts)


@pytest.fixture(scope="module")
def image(builder: Builder) -> Iterator[str]:
    name = "ascend-images-test/rendered-steps:1"
    built = builder.build(builder.variant, tag=name)
    assert built.code == 0, built.output[-3000:]
    yield name
    subprocess.run(["docker", "image", "rm", "--force", name], capture_output=True)


@pytest.fixture
def inside(image: str) -> Callable[[str], str]:
    """Run a shell command in the image, without its entry point, and return what it prints."""

    def run(command: str, *options: str) -> str:
        done = subprocess.run(
            ["docker", "run", "--rm", "--network=none", "--entrypoint=/bin/bash", *options, image, "-c", command],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def test_a_commit_on_no_branch_is_there_checkable_with_its_submodule_and_nothing_else(
    inside: Callable[..., str], server: Server
) -> None:
    assert inside("git -C /alpha rev-parse HEAD") == server.hidden
    assert (
        inside(
            "git -C /alpha status --porcelain; git -C /alpha fsck --strict; git -C /alpha tag; git -C /alpha branch -r"
        )
        == ""
    )
    assert inside("git -C /alpha/third/inner log --oneline | wc -l") == "1"
    assert inside("git -C /alpha config remote.origin.url") == f"{HOSTS}alpha.git"
    assert inside("git -C /src/beta rev-parse HEAD") == server.tagged


def test_a_source_is_imported_from_its_checkout_wherever_one_stands(inside: Callable[..., str]) -> None:
    for folder in ("/", "/tmp", "/alpha"):
        place = inside(f"cd {folder} && python3 -c 'import alpha.hidden, alpha._c; print(alpha.__file__)'")
        assert place == "/alpha/alpha/__init__.py"


def test_what_switched_tls_off_is_in_the_image_as_it_was_written(inside: Callable[..., str]) -> None:
    assert inside("cat /alpha/x.cmake") == "file(DOWNLOAD a b TLS_VERIFY OFF)"


def test_a_package_is_patched_and_its_record_agrees(inside: Callable[..., str]) -> None:
    program = (
        "import base64, hashlib, importlib.metadata as m\n"
        "file = next(f for f in m.files('six') if f.name == 'six.py')\n"
        "digest = hashlib.sha256(file.locate().read_bytes()).digest()\n"
        "assert base64.urlsafe_b64encode(digest).rstrip(b'=').decode() == file.hash.value\n"
        "print(open(file.locate()).read().count('__version__  = '))\n"
    )
    assert inside(f'python3 - <<"PY"\n{program}PY') == "1"


def test_a_package_from_source_was_built_and_the_bases_older_one_is_gone(inside: Callable[..., str]) -> None:
    listed = inside("python3 -m pip list --format=freeze 2>/dev/null").splitlines()
    assert {"crcmod==1.7", "numpy==1.26.4", "six==1.17.0"} <= set(listed)
    assert len([line for line in listed if line.startswith("numpy==")]) == 1
    inside("python3 -c 'import crcmod._crcfunext'")


def test_nothing_of_the_build_is_left(inside: Callable[..., str], server: Server) -> None:
    host = server.url.split("/")[2]
    assert (
        inside("ls -d /build /wheels /lock /out /layers /src/.git /root/.cache /run/secrets 2>/dev/null || true") == ""
    )
    assert inside("env").count("MAX_JOBS") == 0
    assert inside("find /alpha /src /usr/local/*/lib/*/site-packages/{six*,numpy,crcmod} -name __pycache__") == ""
    assert inside(f"grep -rls -e '{host}' -e GIT_CONFIG_KEY /etc /root /opt /alpha /src /usr/local || true") == ""
    assert inside("command -v uv || true") == ""


def test_shells_are_set_up_once(inside: Callable[..., str]) -> None:
    assert inside("grep -c set_env /etc/profile /root/.bashrc || true").splitlines() == [
        "/etc/profile:0",
        "/root/.bashrc:0",
    ]
    assert inside("env -i bash -lc 'echo $SOC_VERSION; set -o | grep histexpand; command -v python3'").split() == [
        "ascend910b1",
        "histexpand",
        "off",
        "/usr/local/python3.12.13/bin/python3",
    ]


def test_what_was_checked_is_the_image(builder: Builder, image: str) -> None:
    """BuildKit puts the image together from linked layers, and the check sees them copied one over the other."""
    checked = "ascend-images-test/rendered-steps:checked"
    assert builder.build(builder.variant, "--target=check", tag=checked).code == 0
    try:
        found, wanted = files(checked), files(image)
    finally:
        subprocess.run(["docker", "image", "rm", "--force", checked], capture_output=True)
    assert wanted.pop("/opt/ascend-images/report.json")
    assert {name: found[name] for name in found.keys() - wanted.keys() if not name.startswith("/out")} == {}
    assert {name: (found.get(name), said) for name, said in wanted.items() if found.get(name) != said} == {}


def files(image: str) -> dict[str, str]:
    """Return what lies in an image: kind, mode, owner, time, and a file's bytes or where a link leads, by path.

    Not the time of a directory: what is copied into one that is there leaves it the clock's.
    """
    command = ["docker", "run", "--rm", "--network=none", "--entrypoint=/bin/bash", image, "-c"]
    engines = " -o ".join(f"-path {name}" for name in ENGINES)
    said = r"-type d -printf '%p\t%y %m %U:%G\n' -o -printf '%p\t%y %m %U:%G %T@ %l\n'"
    listing = rf"find / -mindepth 1 \( {engines} \) -prune -o {said}"
    hashing = rf"find / \( {engines} \) -prune -o -type f -print0 | xargs -0 sha256sum"
    done = [subprocess.run([*command, text], capture_output=True, text=True, check=True) for text in (listing, hashing)]
    found = dict(line.split("\t", 1) for line in done[0].stdout.splitlines())
    for line in done[1].stdout.splitlines():
        digest, _, name = line.partition("  ")
        found[name] += f" {digest}"
    return found


def test_a_cold_build_gives_the_same_digest(builder: Builder, image: str) -> None:
    again = builder.build(builder.variant, tag=image)
    cold = builder.build(builder.variant, "--no-cache", tag=image)
    assert cold.code == 0, cold.output[-3000:]
    assert cold.digest == again.digest != ""


def test_chips_with_the_same_packages_install_them_once_on_a_shared_base(builder: Builder, image: str) -> None:
    other = msgspec.structs.replace(builder.variant, name="steps3", soc_version="ascend910_9391", hardware="a3")
    lock = builder.folder / "lock3"
    lock.mkdir()
    (lock / f"steps3.{host_arch().value}.txt").write_text("# variant: steps3\n" + lock_text())
    shared = {"packages-base": f"docker-image://{builder.base}", "lock": str(lock)}
    built = builder.build(other, "--target=packages", contexts=shared)
    assert built.code == 0, built.output[-3000:]
    assert found_again(built.output, "packages")


def test_on_another_engine_a_cache_of_the_image_spares_what_did_not_change(
    builder: Builder, image: str, tmp_path: Path
) -> None:
    """The layers of the image are enough for it (`mode=min`): what was compiled is taken from its own."""
    cache, base = tmp_path / "cache", tmp_path / "base"
    layout = ["docker", "buildx", "build", "--provenance=false", f"--output=type=oci,dest={base},tar=false", "-"]
    subprocess.run(layout, input=f"FROM {builder.base}\n", text=True, capture_output=True, check=True)
    contexts = {"cann": f"oci-layout://{base}"}
    kept = builder.build(builder.variant, f"--cache-to=type=local,dest={cache},mode=min", tag=image, contexts=contexts)
    assert kept.code == 0, kept.output[-3000:]
    alpha, beta = builder.variant.sources
    moved = msgspec.structs.replace(builder.variant, sources=(alpha, msgspec.structs.replace(beta, path="/src/other")))
    with second_engine() as engine:
        built = builder.build(
            moved, f"--cache-from=type=local,src={cache}", tag=image, contexts=contexts, engine=engine
        )
    assert built.code == 0, built.output[-3000:]
    # What is found again is shown without its step being run, or not at all.
    ran = set(re.findall(r"^#\d+ \[([a-z-]+) \d/\d\] RUN", built.output, re.MULTILINE))
    done = {name for name in ran if not found_again(built.output, name)}
    assert {"install-beta", "check"} <= done
    assert not done & {"install-alpha", "packages", "system", "base"}


def found_again(output: str, stage: str) -> bool:
    """Tell whether the step of a stage is shown as one that was found in a cache."""
    (number,) = set(re.findall(rf"^(#\d+) \[{stage} \d/\d\] RUN", output, re.MULTILINE))
    return f"{number} CACHED" in output.splitlines()


# --- refusals


def refused(
    builder: Builder, variant: Variant, target: str, *options: str, contexts: Mapping[str, str] | None = None
) -> str:
    built = builder.build(variant, f"--target={target}", *options, contexts=contexts)
    assert built.code != 0
    return built.output


def with_source(variant: Variant, **changes: Any) -> Variant:
    first, *others = variant.sources
    return msgspec.structs.replace(variant, sources=(msgspec.structs.replace(first, **changes), *others))


def test_a_ref_that_gives_another_commit_than_the_pinned_one_stops_the_build(builder: Builder) -> None:
    text = render(with_source(builder.variant, commit=""))
    wrong = text.replace(f"{builder.server.tag} '' yes", f"{builder.server.tag} {'0' * 40} yes")
    file = builder.folder / "wrong.Dockerfile"
    file.write_text(wrong)
    command = ["docker", "build", "--progress=plain", f"--file={file}", "--target=src-alpha"]
    command += [f"--build-context={name}={value}" for name, value in builder.contexts.items()]
    done = subprocess.run(
        [*command, f"--secret=id=network,src={builder.folder / 'network'}", str(ROOT)], capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "gave another commit than the pinned one" in done.stderr
    assert builder.server.tagged in done.stderr


def test_a_commit_that_is_not_there_stops_the_build(builder: Builder) -> None:
    told = refused(builder, with_source(builder.variant, commit="0" * 40), "src-alpha")
    assert "build stopped: three attempts failed: git fetch" in told


def test_an_incomplete_lock_stops_the_build_unless_it_is_let_through(builder: Builder, tmp_path: Path) -> None:
    lock = tmp_path / f"steps.{host_arch().value}.txt"
    lock.write_text(lock_text('# incomplete: six==1.17.0: index "x" could not be reached'))
    contexts = {"lock": str(tmp_path)}
    told = refused(builder, builder.variant, "packages", contexts=contexts)
    assert "six==1.17.0" in told
    assert "build stopped: the lock of steps is incomplete" in told
    assert "UNLOCKED=1" in told
    assert builder.build(builder.variant, "--target=packages", "--build-arg=UNLOCKED=1", contexts=contexts).code == 0


def test_a_package_whose_hash_differs_stops_the_build(builder: Builder, tmp_path: Path) -> None:
    lines = lock_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.startswith("six=="))
    lines[at : at + 3] = [f"six==1.17.0 --hash=sha256:{'0' * 64}\n"]
    (tmp_path / f"steps.{host_arch().value}.txt").write_text("".join(lines))
    told = refused(builder, builder.variant, "packages", contexts={"lock": str(tmp_path)})
    assert "Hash mismatch" in told or "hash" in told.lower()
    assert "six==1.17.0" in told


def test_a_patch_that_does_not_fit_stops_the_build(builder: Builder) -> None:
    variant = msgspec.structs.replace(builder.variant, patches=(msgspec.structs.replace(PATCH, count=3),))
    told = refused(builder, variant, "packages")
    assert "build stopped: six.py of six holds" in told
    assert "wanted: 3 times" in told


def test_a_source_that_cannot_be_built_shows_its_own_words_and_the_line(builder: Builder, tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("raise SystemExit('boom: cannot build this')\n")
    told = refused(builder, builder.variant, "install-alpha", contexts={"src-alpha": str(tmp_path)})
    assert "boom: cannot build this" in told
    assert re.search(r"failed \(1\): .*/build/uv pip install", told)
    assert "in install_editable, line" in told


def test_a_base_image_with_another_python_stops_the_build(builder: Builder) -> None:
    variant = msgspec.structs.replace(builder.variant, python="3.10")
    assert "build stopped: the base image's python3 is 3.12" in refused(builder, variant, "lock-checked")


@pytest.fixture
def run_packages(builder: Builder) -> Callable[[str], Variant]:
    """Return a variant that lays a release over its base, given the sha256 of its packages."""

    def overlaid(sha256: str) -> Variant:
        runs = tuple(
            RunFile(
                part=part,
                arch=arch,
                url=f"https://host.example.invalid/{part}-{arch.kernel}.run",
                file=f"{part}-{arch.kernel}.run",
                sha256=sha256,
            )
            for arch in Arch
            for part in ("toolkit", "ops", "nnal")
        )
        return msgspec.structs.replace(builder.variant, base_cann="9.0.1", runs=runs)

    return overlaid


def test_a_cann_package_without_a_checksum_is_refused_before_it_is_fetched(
    builder: Builder, run_packages: Callable[[str], Variant]
) -> None:
    told = refused(builder, run_packages(""), f"cann-run-{host_arch().value}")
    assert "build stopped: no sha256 is known for toolkit-" in told
    assert "host.example.invalid" not in told.split("build stopped")[1].split("ERROR")[0]


def test_unlocked_a_cann_package_without_a_checksum_is_fetched(
    builder: Builder, run_packages: Callable[[str], Variant]
) -> None:
    told = refused(builder, run_packages(""), f"cann-run-{host_arch().value}", "--build-arg=UNLOCKED=1")
    assert "Could not resolve host: host.example.invalid" in told
