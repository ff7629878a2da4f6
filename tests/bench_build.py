"""Cost of building: a Dockerfile in the usual order against the project's own, on the same real packages, in one run.

The packages are those of `tests/data/bench/versions.toml`: what vLLM's and ms-swift's requirement lists bring, torch
among them. Both import the same list of entry points at the end. Each cold build has an engine of its own that is
started for it, so nothing is there but the base image. The numbers are of one run in the order of the table, on one
machine; `--rounds` repeats the whole and takes medians. Root, the package index and the CPU wheel of torch are wanted.
"""

import argparse
import functools
import io
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from threading import Thread
from typing import Any
from unittest.mock import patch

import msgspec

from ascend_images.images.build import build
from ascend_images.images.engine import CONTENT
from ascend_images.images.plan import Choices
from ascend_images.pins.lockfile import LockFile, file_name, input_parts, inputs_hash
from ascend_images.pins.platform import host_arch
from ascend_images.pins.variant import Variant
from ascend_images.planning import Wishes, plans_for
from ascend_images.sandbox.base import PIP_SET, base_image
from ascend_images.sandbox.engine import bridge_gateway
from ascend_images.sandbox.second_engine import second_engine
from ascend_images.selection import Selection, select
from tests.bench_table import Row, tell
from tests.e2e import real_torch
from tests.e2e.builds import ROOT, docker, invoke, machine_ca
from tests.e2e.git_server import make_authority

DATA = ROOT / "tests" / "data"
ARCH = host_arch()
VARIANTS = ("a2", "a3", "310p", "a5")
#: Each source: the module that it has, and the folder of the upstream list that it brings.
SOURCES = {"vllm": ("bench_vllm", "vllm@v0.18.0"), "ms-swift": ("bench_swift", "ms-swift@v4.4.1")}
#: The file of that list which its package says as its own demands.
REQUIREMENTS = {"vllm": "common.txt", "ms-swift": "framework.txt"}
#: What can be measured, in the order in which it is.
STEPS = ("usual", "gzip", "zstd", "four")
_IDENTITY = ["-c", "user.name=Bench", "-c", "user.email=bench@example.invalid"]


@dataclass
class Measured:
    """What one round measured: seconds and bytes by what they are of; what was not measured is not there."""

    seconds: dict[str, float] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The project that is built, its sources' checkouts, and what its builds reach."""

    folder: Path
    checkouts: dict[str, Path]
    index: str
    ca: Path
    wheel: str
    lock: LockFile
    bases: dict[str, str]

    @property
    def selection(self) -> Selection:
        """The four variants."""
        return select(self.folder, VARIANTS)


# --- what is built


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *_IDENTITY, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def make_checkouts(top: Path) -> dict[str, Path]:
    """Make the two sources: an upstream requirement list, and a package of one line."""
    made = {}
    for name, (module, upstream) in SOURCES.items():
        folder = top / name
        (folder / module).mkdir(parents=True)
        (folder / module / "__init__.py").write_text(f'NAME = "{name}"\n')
        shutil.copytree(DATA / "upstream" / upstream / "requirements", folder / "requirements")
        (folder / "pyproject.toml").write_text(
            '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n\n'
            f'[project]\nname = "{module.replace("_", "-")}"\nversion = "{upstream.partition("@v")[2]}"\n'
            f'dynamic = ["dependencies"]\n\n[tool.setuptools]\npackages = ["{module}"]\n\n'
            f'[tool.setuptools.dynamic]\ndependencies = {{ file = ["requirements/{REQUIREMENTS[name]}"] }}\n'
        )
        git(folder, "-c", "init.defaultBranch=main", "init", "--quiet")
        commit(folder, "as it is")
        made[name] = folder
    return made


def commit(folder: Path, text: str) -> None:
    """Change a checkout: one line in its one module."""
    (module,) = folder.glob("bench_*/__init__.py")
    with module.open("a") as file:
        file.write(f'SAID = "{text}"\n')
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", text)


@contextmanager
def torch_index(top: Path, wheel: Path, address: str) -> Iterator[tuple[str, Path]]:
    """Serve an index with one wheel over https on the engine's bridge; yield its address and the CA to trust."""
    page = top / "index" / "torch"
    page.mkdir(parents=True)
    os.link(wheel, page / wheel.name)
    digest = sha256(wheel.read_bytes()).hexdigest()
    (page / "index.html").write_text(f'<!DOCTYPE html>\n<a href="{wheel.name}#sha256={digest}">{wheel.name}</a>\n')
    authority = make_authority(top / "authority", address)
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.certificate, authority.key)

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Say nothing of each request."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Say nothing of a client that has read enough: a lock reads what a wheel says of itself alone."""

    handler = functools.partial(Handler, directory=str(top / "index"))
    with Server((address, 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        bundle = top / "ca.pem"
        bundle.write_bytes(machine_ca().read_bytes() + b"\n" + authority.ca.read_bytes())
        yield f"https://{address}:{server.server_address[1]}", bundle
        server.shutdown()


def base_for(variant: Variant, cann: Path) -> str:
    """Make a base image that says of itself what the pins say, with OCI media types; return its name.

    `cann` is a folder of those libraries of CANN that the real torch_npu needs.
    """
    stand_in = base_image(variant, ARCH, lambda text: print(text, file=sys.stderr))
    name = f"ascend-images-bench/base:{variant.name}"
    # The stand-in's own packages are empty ones: pip would take them for what is asked for.
    uninstall = f"python3 -m pip uninstall --quiet --yes --root-user-action ignore {' '.join(PIP_SET)}"
    release = "printf 'ID=ubuntu\\nVERSION_ID=22.04\\n' >/etc/os-release"
    dockerfile = f"FROM {stand_in}\nRUN {release} && {uninstall}\nCOPY --from=cann / /\n"
    with tempfile.TemporaryDirectory() as empty:
        command = ["docker", "buildx", "build", "--quiet", "--provenance=false", "--file=-", empty]
        command += ["--output", f"type=image,name={name},oci-mediatypes=true,unpack=true"]
        command += [f"--build-context=cann={cann}"]
        subprocess.run(command, input=dockerfile, text=True, check=True, capture_output=True)
    return name


@contextmanager
def bench(top: Path) -> Iterator[Bench]:
    """Yield the project, locked once for all four chips: their packages are the same."""
    folder = top / "project"
    (folder / "scripts").mkdir(parents=True)
    for name in ("tasks.py", ".dockerignore", "scripts/image_check.py"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "ascend_images" / "inside", folder / "ascend_images" / "inside")
    checkouts = make_checkouts(top / "checkouts")
    try:
        pair = real_torch.wheels().pair
    except real_torch.UnobtainableError as error:
        raise SystemExit(f"the real wheels of torch and torch_npu cannot be had here: {error}") from None
    (wheel,) = pair.glob("torch-*.whl")
    with torch_index(top, wheel, str(bridge_gateway())) as (index, ca):
        pins = (DATA / "bench" / "versions.toml").read_text()
        values = {"INDEX": index, **{name.upper().replace("-", "_"): git(path, "rev-parse", "HEAD")
                                     for name, path in checkouts.items()}}  # fmt: skip
        for key, value in values.items():
            pins = pins.replace(f"@{key}@", value)
        (folder / "versions.toml").write_text(pins)
        sources = [f"--source={name}={path}" for name, path in checkouts.items()]
        done = invoke("lock", "--variant", VARIANTS[0], "--arch", ARCH.value, "--mirror", "bench",
                      "--ca-bundle", str(ca), *sources, folder=folder)  # fmt: skip
        path = folder / "locks" / file_name(VARIANTS[0], ARCH)
        # The sources' repositories are nowhere: that is said, and the packages are locked all the same.
        if done.returncode not in (0, 6) or not path.is_file():
            raise SystemExit(f"the packages could not be locked:\n{done.stderr}")
        lock = LockFile.load(path)
        variants = select(folder, VARIANTS).variants
        for variant in variants:
            same = msgspec.structs.replace(
                lock, variant=variant.name, inputs=inputs_hash(variant, ARCH), parts=input_parts(variant, ARCH)
            )
            (folder / "locks" / file_name(variant.name, ARCH)).write_text(str(same))
        bases = {variant.name: base_for(variant, real_torch.stand_ins(pair)) for variant in variants}
        yield Bench(folder=folder, checkouts=checkouts, index=index, ca=ca, wheel=wheel.name, lock=lock, bases=bases)


# --- building


@contextmanager
def empty_engine(made: Bench, names: tuple[str, ...]) -> Iterator[str]:
    """Yield an engine that has the base images of these variants and nothing else."""
    with second_engine() as host:
        for name in names:
            with subprocess.Popen(["docker", "image", "save", made.bases[name]], stdout=subprocess.PIPE) as saved:
                load = ["docker", "--host", host, "image", "load", "--quiet"]
                subprocess.run(load, stdin=saved.stdout, check=True, capture_output=True)
        yield host


def usual_dockerfile(made: Bench, variant: Variant) -> str:
    """Return what is usually written: pip step after step, and what must be right forced in again at the end."""
    pip = (
        "RUN --mount=type=secret,id=ca,target=/run/ca.pem PIP_CERT=/run/ca.pem PIP_ROOT_USER_ACTION=ignore "
        f"python3 -m pip install --no-cache-dir --extra-index-url {made.index}"
    )
    pins = {name: variant.pin(name, ARCH) for name in variant.packages}
    pinned = " ".join(shlex.quote(f"{name}=={version}") for name, version in pins.items())
    later = " ".join(f"{name}=={pins[name]}" for name in ("deepspeed", "ray", "xgrammar"))
    system = " ".join(variant.system_packages)
    checks = " ".join(variant.checks)
    # Imports as far as the name is modules; the rest are names in the last of them.
    program = "import pkgutil, sys; [pkgutil.resolve_name(name) for name in sys.argv[1:]]"
    return (
        "\n".join(
            [
                f"FROM {made.bases[variant.name]}",
                'SHELL ["/bin/bash", "-c"]',
                f"ENV {' '.join(f'{key}={value}' for key, value in sorted(variant.install_env.items()))}",
                f"RUN apt-get update && apt-get install -y --no-install-recommends {system} && apt-get clean",
                f"{pip} torch=={pins['torch']}",
                "COPY vllm /vllm",
                f"{pip} -r /vllm/requirements/common.txt",
                f"{pip} --no-deps -e /vllm",
                "COPY ms-swift /ms-swift",
                f"{pip} -r /ms-swift/requirements/framework.txt",
                f"{pip} --no-deps -e /ms-swift",
                f"{pip} {later}",
                f"{pip} --force-reinstall --no-deps {pinned}",
                # As in any build, CANN's stub of the driver stands in for it.
                f'RUN LD_LIBRARY_PATH={real_torch.HOME}/devlib:$LD_LIBRARY_PATH python3 -c "{program}" {checks}',
            ]
        )
        + "\n"
    )


def build_usual(made: Bench, host: str) -> tuple[float, int]:
    """Build the usual Dockerfile; return its seconds and the image's bytes as they are sent."""
    (variant,) = select(made.folder, VARIANTS[:1]).variants
    with tempfile.TemporaryDirectory() as name:
        metadata = Path(name) / "metadata.json"
        command = ["docker", "--host", host, "buildx", "build", "--progress=plain", "--file=-", "--provenance=false"]
        command += [f"--secret=id=ca,src={made.ca}", f"--metadata-file={metadata}"]
        command += ["--output=type=image,name=bench/usual,oci-mediatypes=true", str(made.checkouts["vllm"].parent)]
        start = time.perf_counter()
        done = subprocess.run(command, input=usual_dockerfile(made, variant), capture_output=True, text=True)
        seconds = time.perf_counter() - start
        if done.returncode != 0:
            raise SystemExit(f"the usual Dockerfile does not build:\n{done.stderr[-4000:]}")
        digest = json.loads(metadata.read_text())["containerimage.digest"]
    return seconds, image_bytes(host, digest)


def image_bytes(host: str, digest: str) -> int:
    """Return the size of an image as it is sent, by its manifest in the engine's store."""
    root = Path(docker("--host", host, "info", "--format", "{{.DockerRootDir}}").strip())
    blob = root.parent / "containerd" / CONTENT / "blobs" / digest.replace(":", "/")
    manifest = json.loads(blob.read_text())
    return sum(int(part["size"]) for part in (manifest["config"], *manifest["layers"]))


def build_ours(made: Bench, host: str, names: tuple[str, ...], compression: str = "gzip") -> tuple[float, int]:
    """Build variants by the project's own template in one call; return the seconds and the first image's bytes."""
    selection = select(made.folder, names)
    bases = {name: f"docker-image://{base}" for name, base in made.bases.items()}
    wishes = Wishes(
        arches=(ARCH,),
        choices=Choices(compression=compression),
        sources=made.checkouts,
        mirror="bench",
        ca_bundle=made.ca,
        contexts=lambda variant, _arch, _lock: {"cann": bases[variant.name], "fetch": bases[variant.name]},
    )
    log = io.StringIO()
    with patch.dict(os.environ, {"DOCKER_HOST": host}):
        start = time.perf_counter()
        try:
            records = build(plans_for(selection, wishes), stream=log)
        except Exception:
            sys.stderr.write(log.getvalue()[-6000:])
            raise
        seconds = time.perf_counter() - start
    return seconds, records[0].bytes or 0


def import_everything(made: Bench, host: str) -> None:
    """Let the image check itself once more: a rebuild imports what its source could have changed, a container all."""
    repository = made.selection.variants[0].repository
    (image,) = docker("--host", host, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", repository).split()
    docker("--host", host, "run", "--rm", "--network=none", image, "python3", "/opt/ascend-images/check.py")


# --- measuring


def measure(made: Bench, steps: tuple[str, ...]) -> Measured:
    """Measure once, in the order of `STEPS`."""
    found = Measured()
    if "usual" in steps:
        with empty_engine(made, VARIANTS[:1]) as host:
            found.seconds["usual"], found.bytes["usual"] = told("usual", build_usual(made, host))
    if "gzip" in steps:
        with empty_engine(made, VARIANTS[:1]) as host:
            found.seconds["gzip"], found.bytes["gzip"] = told("gzip", build_ours(made, host, VARIANTS[:1]))
            commit(made.checkouts["ms-swift"], f"changed at {time.time()}")
            found.seconds["again"], _ = told("again", build_ours(made, host, VARIANTS[:1]))
            import_everything(made, host)
    if "zstd" in steps:
        with empty_engine(made, VARIANTS[:1]) as host:
            found.seconds["zstd"], found.bytes["zstd"] = told("zstd", build_ours(made, host, VARIANTS[:1], "zstd"))
    if "four" in steps:
        with empty_engine(made, VARIANTS) as host:
            found.seconds["four"], _ = told("four", build_ours(made, host, VARIANTS))
    return found


def told(name: str, made: tuple[float, int]) -> tuple[float, int]:
    print(f"{name}: {made[0]:.1f} s, {made[1] / 1e6:.0f} MB", file=sys.stderr, flush=True)
    return made


def rows(rounds: list[Measured], packages: int, load: float) -> list[Row]:
    """Return the table: medians, and ratios of medians where both sides were measured."""
    seconds = {name: statistics.median(one.seconds[name] for one in rounds) for name in rounds[0].seconds}
    sizes = {name: statistics.median(one.bytes[name] for one in rounds) for name in rounds[0].bytes}
    names = {"usual": "usual order", "gzip": "ours, gzip", "again": "ours, one source changed",
             "zstd": "ours, zstd", "four": "ours, four chips in one call"}  # fmt: skip
    table = [Row("packages locked", str(packages)), Row("load of the machine before", f"{load:.1f}")]
    for name, value in seconds.items():
        size = f", {sizes[name] / 1e6:.0f} MB" if name in sizes else ""
        table.append(Row(f"{names[name]}", f"{value:.1f} s{size}"))
    for what, values, one, other, most in (
        ("cold build, gzip / usual", seconds, "gzip", "usual", 0.42),
        ("cold build, zstd / usual", seconds, "zstd", "usual", 0.25),
        ("image, gzip / usual", sizes, "gzip", "usual", 0.53),
        ("image, zstd / usual", sizes, "zstd", "usual", 0.49),
        ("one source changed / usual cold", seconds, "again", "usual", 0.02),
        ("four chips / one", seconds, "four", "gzip", 1.5),
    ):
        if one in values and other in values:
            ratio = values[one] / values[other]
            table.append(Row(what, f"{ratio:.3f}", f"at most {most}", ratio <= most))
    return table


def main() -> int:
    """Measure, print, and return 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", choices=STEPS, action="append", help="measure this alone; repeat it")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ascend-images-bench-")))
        made = stack.enter_context(bench(top))
        for name in made.bases.values():
            stack.callback(subprocess.run, ["docker", "image", "rm", "--force", name], capture_output=True)
        if not made.lock.complete:
            raise SystemExit(f"the lock is not complete: {'; '.join(made.lock.incomplete)}")
        steps = tuple(options.only or STEPS)
        rounds = [measure(made, steps) for _ in range(options.rounds)]
        return tell(rows(rounds, len(made.lock.packages), load))


if __name__ == "__main__":
    sys.exit(main())
