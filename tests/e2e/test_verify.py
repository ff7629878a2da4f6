"""Verification on a real engine: the sandbox's a2 green, and damaged images of it, each with its one right finding."""

import contextlib
import json
import os
import platform
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from ascend_images import verifying
from ascend_images.pins.platform import host_arch
from ascend_images.sandbox.host import make_host
from ascend_images.verify import verification
from ascend_images.verify.container import LABEL
from ascend_images.verify.report import Report, Result, load_reports
from ascend_images.verify.verification import Job
from tests.e2e.builds import ROOT, invoke
from tests.stand_ins import stand_ins

pytestmark = pytest.mark.e2e

ARCH = host_arch()
OWNER = f"{platform.node()}:{os.getpid()}"
needs_nodes = pytest.mark.skipif(os.geteuid() != 0, reason="making device nodes takes root")


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    left = client.containers.list(all=True, filters={"label": f"{LABEL}={OWNER}"})
    assert left == [], "every container is removed, whatever happened to it"


@pytest.fixture(scope="module")
def built() -> dict[str, str]:
    """Return the summary of the sandbox's a2, built."""
    done = invoke("build", "--variant", "a2", "--sandbox", "--json")
    assert done.returncode == 0, done.stderr
    built: list[dict[str, str]] = json.loads(done.stdout[done.stdout.index("{") :])["built"]
    return built[0]


@pytest.fixture(scope="module")
def image(built: dict[str, str]) -> str:
    """Return the name of the sandbox's a2."""
    return built["image"]


@pytest.fixture(scope="module")
def derive(built: dict[str, str], client: docker.DockerClient) -> Iterator[Callable[..., str]]:
    """Return a function that makes an image of a2 and some further instructions."""
    made = []

    def make(name: str, *instructions: str) -> str:
        reference = f"ascend-images-test/verify:{name}"
        text = "\n".join([f"FROM {built['image']}", *instructions])
        words = ["docker", "build", "-q", "-t", reference, "-"]
        done = subprocess.run(words, input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        made.append(reference)
        return reference

    yield make
    for reference in made:
        client.images.remove(reference, force=True)


@pytest.fixture
def verify(tmp_path: Path, client: docker.DockerClient) -> Callable[..., Report]:
    """Return a function that verifies an image against a2's pins."""

    def run(reference: str, **words: object) -> Report:
        wishes = verifying.Wishes(
            root=ROOT, variants=("a2",), images=(reference,), report_dir=tmp_path / "reports", contexts=stand_ins
        )
        wishes = replace(wishes, **words)  # type: ignore[arg-type]
        return verifying.verify_target(wishes, verifying.find_place(wishes), verifying.targets(wishes)[0])

    return run


def failures(report: Report) -> list[Result]:
    return list(report.of("fail"))


def only_failure(report: Report) -> Result:
    found = failures(report)
    assert len(found) == 1, found
    assert found[0].found
    assert found[0].wanted
    assert found[0].next
    return found[0]


# --- as a user runs it


def verify_session(*words: str) -> subprocess.CompletedProcess[str]:
    """Type what `nox -s verify -- WORDS` runs."""
    command = [sys.executable, "-m", "tests.verify", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_the_sandboxs_a2_is_green_and_every_report_is_written(image: str, tmp_path: Path) -> None:
    done = verify_session("--variant", "a2", "--sandbox", "--report-dir", str(tmp_path))
    assert done.returncode == 0, done.stdout
    report = load_reports(tmp_path)[0]
    assert report.failed is False
    assert report.image == image
    assert report.digest.startswith("sha256:")
    answers = {result.check for result in report.of("pass")}
    for check in ("container", "pinned-packages", "source-commit", "source-origin", "own-pins", "shells"):
        assert check in answers, report.results
    assert {path.name for path in tmp_path.iterdir()} == {
        "junit.xml",
        "summary.md",
        "index.html",
        report.file_name,
    }
    assert report.digest.removeprefix("sha256:")[:12] in done.stdout


def test_requiring_an_npu_where_there_is_none_is_one_finding(image: str, tmp_path: Path) -> None:
    if list(Path("/dev").glob("davinci*")):
        pytest.skip("this machine has an NPU")
    done = verify_session("--variant", "a2", "--sandbox", "--require-npu", "--report-dir", str(tmp_path))
    assert done.returncode == 1
    found = only_failure(load_reports(tmp_path)[0])
    assert found.check == "npu"
    assert "/dev/davinci" in found.found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "neither a variant nor an image is named"),
        (("--variant", "a22"), 'did you mean "a2"?'),
        (("--variant", "a2", "--variant", "a3", "--image", "x:1"), "1 --image for 2 --variant"),
        (("--image", "x:1", "--devices", "x"), "--devices x"),
        (("--image", "x:1", "--host-root", "/nope"), "--host-root /nope"),
        (("--image", "x:1", "--model", "/nope"), "--model /nope"),
        (("--image", "x:1", "--report-dir", "/proc/x"), "--report-dir /proc/x"),
        (("--image", "x:1", "--platform", "linux/mips"), "mips"),
        (("--image", "x:1", "--host", "unix:///nowhere.sock"), "no Docker Engine answers"),
    ],
)
def test_what_does_not_go_together_is_said_without_a_traceback(words: tuple[str, ...], said: str) -> None:
    done = verify_session(*words)
    assert done.returncode != 0
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_an_image_that_nobody_has_is_said_once(tmp_path: Path) -> None:
    done = verify_session("--image", "ascend-images-test/nobody:has", "--report-dir", str(tmp_path))
    assert done.returncode == 1
    assert " ".join(done.stdout.split()).count("neither on the engine nor to be fetched") == 1
    assert only_failure(load_reports(tmp_path)[0]).check == "container"
    assert "neither on the engine" in (tmp_path / "junit.xml").read_text()
    assert "Traceback" not in done.stdout


# --- an engine elsewhere


@pytest.fixture
def elsewhere(client: docker.DockerClient) -> Iterator[str]:
    """Return an address by which this machine's engine looks like another machine's: its socket, forwarded to TCP."""
    server = socket.create_server(("127.0.0.1", 0))
    path = docker.utils.parse_host(os.environ.get("DOCKER_HOST") or None).removeprefix("http+unix://")

    def forward(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = server.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(path)
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=forward, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
    server.close()


def test_the_host_of_an_engine_elsewhere_is_looked_at_from_a_container(
    verify: Callable[..., Report], image: str, elsewhere: str, client: docker.DockerClient
) -> None:
    before = {container.id for container in client.containers.list(all=True)}
    report = verify(image, host=elsewhere)
    assert failures(report) == []
    assert report.host["machine"] == os.uname().machine
    assert not {container.id for container in client.containers.list(all=True, filters={"label": LABEL})} - before


# --- any image


def test_an_image_without_pins_is_asked_what_can_be_asked(verify: Callable[..., Report]) -> None:
    base = stand_ins(verifying.targets(verifying.Wishes(root=ROOT, variants=("a2",)))[0].variant, ARCH)["cann"]  # type: ignore[arg-type]
    reference = base.removeprefix("docker-image://")
    report = verify(reference, variants=(), contexts=None)
    answers = {result.check: result.answer for result in report.results}
    assert answers["container"] == "pass"
    assert answers["pinned-packages"] == "unknown"
    assert answers["tls"] == "pass"
    assert report.pins == ""


def test_an_image_without_python_is_one_finding(verify: Callable[..., Report], derive: Callable[..., str]) -> None:
    reference = derive(
        "no-python", "RUN rm -f /usr/local/python3.*/bin/python3* /usr/bin/python3* /usr/local/bin/python3*"
    )
    found = only_failure(verify(reference))
    assert found.check == "container"
    assert "python3" in found.found


# --- damaged images

# A change that its RECORD agrees with: what it does is the finding, and not that somebody changed it.
_HOOK = """RUN python3 - <<'EOF'
import base64, hashlib, pathlib, site
place = pathlib.Path(site.getsitepackages()[0])
module, record = place / "evalscope/__init__.py", next(place.glob("evalscope-*.dist-info/RECORD"))
module.write_text(module.read_text() + "\\nimport os, signal, time\\n{act}\\n")
digest = base64.urlsafe_b64encode(hashlib.sha256(module.read_bytes()).digest()).decode().rstrip("=")
rows = [row for row in record.read_text().splitlines() if not row.startswith("evalscope/__init__.py,")]
record.write_text("\\n".join([*rows, "evalscope/__init__.py,sha256=" + digest + ",", ""]))
EOF"""

_SITE = "$(python3 -c 'import site; print(site.getsitepackages()[0])')"

DAMAGES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "wrong-torch": (
        (
            (
                "RUN cd $(python3 -c 'import site; print(site.getsitepackages()[0])')/torch-2*.dist-info && "
                "sed -i 's/^Version: .*/Version: 2.11.0/' METADATA && sed -i '/METADATA/d' RECORD"
            ),
        ),
        "torch-family",
        "torch 2.11.0",
    ),
    "triton-over-triton-ascend": (
        (
            (
                "RUN cd $(python3 -c 'import site; print(site.getsitepackages()[0])') && "
                "mkdir triton-3.2.0.dist-info && "
                "printf 'Metadata-Version: 2.1\\nName: triton\\nVersion: 3.2.0\\n' "
                "> triton-3.2.0.dist-info/METADATA && "
                "echo 'installed over it' >> triton/__init__.py && "
                "printf 'triton/__init__.py,sha256=%s,\\ntriton-3.2.0.dist-info/RECORD,,\\n' "
                '"$(openssl dgst -sha256 -binary triton/__init__.py | base64 | tr +/ -_ | tr -d =)" '
                "> triton-3.2.0.dist-info/RECORD"
            ),
        ),
        "forbidden-packages",
        "also those of triton-ascend",
    ),
    "triton-uninstalled-after-it": (
        (
            (
                "RUN cd $(python3 -c 'import site; print(site.getsitepackages()[0])') && "
                "rm -r triton/backends triton/language"
            ),
        ),
        "damaged-packages",
        "triton-ascend is damaged",
    ),
    "source-from-elsewhere": (
        ("RUN mkdir -p /elsewhere && cp -r /vllm/vllm /elsewhere/vllm", "ENV PYTHONPATH=/elsewhere:$PYTHONPATH"),
        "source-origin",
        "/elsewhere/vllm",
    ),
    "dirty-checkout": (("RUN echo '# changed' >> /vllm/vllm/__init__.py",), "source-commit", "1 change"),
    "dead-env-path": (
        ("ENV LD_LIBRARY_PATH=/usr/local/Ascend/cann-9.9.9/lib64:$LD_LIBRARY_PATH",),
        "environment-release",
        "9.9.9",
    ),
    # set_env mends it for `docker run`, and for nobody else.
    "env-of-exec": (
        ("ENV ASCEND_AICPU_PATH=/usr/local/Ascend/cann-9.9.9",),
        "environment-release",
        "ASCEND_AICPU_PATH of docker exec",
    ),
    "tls-off": (("ENV GIT_SSL_NO_VERIFY=true",), "tls", "GIT_SSL_NO_VERIFY=true"),
    "missing-submodule": (
        ("RUN rm -r /vllm-ascend/csrc/third_party/catlass && mkdir /vllm-ascend/csrc/third_party/catlass",),
        "source-commit",
        "submodules missing",
    ),
    "hidden-change": (
        (
            "RUN echo '# changed' >> /vllm/vllm/__init__.py",
            "RUN git -C /vllm update-index --assume-unchanged vllm/__init__.py",
        ),
        "source-commit",
        " M vllm/__init__.py",
    ),
    "sitecustomize": ((f"RUN echo 'print(1)' > {_SITE}/sitecustomize.py",), "unowned-files", "every Python runs it"),
    "module-laid-into-a-package": ((f"RUN echo > {_SITE}/numpy/extra.py",), "unowned-files", "numpy/extra.py"),
    "dead-link-in-a-package": (
        (f"RUN ln -sf /nowhere {_SITE}/numpy/__init__.py",),
        "damaged-packages",
        "numpy is damaged: 1 of",
    ),
    "pythonpath-of-somebody-else": (
        ("RUN mkdir /opt/mine", "ENV PYTHONPATH=/opt/mine:$PYTHONPATH"),
        "foreign-environment",
        "PYTHONPATH has /opt/mine",
    ),
    "preloaded": (("ENV LD_PRELOAD=libm.so.6",), "foreign-environment", "LD_PRELOAD="),
    "env-that-does-not-run": (("RUN printf 'nothing' > /usr/bin/env",), "shells", "it does not run"),
    "segfault": ((_HOOK.format(act="os.kill(os.getpid(), signal.SIGSEGV)"),), "entry-points", "killed by SIGSEGV"),
}


@pytest.mark.parametrize("name", sorted(DAMAGES))
def test_a_damaged_image_has_its_one_finding(
    name: str, verify: Callable[..., Report], derive: Callable[..., str]
) -> None:
    instructions, check, found = DAMAGES[name]
    failure = only_failure(verify(derive(name, *instructions)))
    assert failure.check == check
    assert found in failure.found


def test_an_import_that_hangs_is_ended_and_named(verify: Callable[..., Report], derive: Callable[..., str]) -> None:
    reference = derive("hang", _HOOK.format(act="time.sleep(600)"))
    failure = only_failure(verify(reference, import_limit=10.0))
    assert (failure.check, failure.subject) == ("entry-points", "evalscope")
    assert "time limit" in failure.found


def test_a_container_killed_in_the_middle_is_one_finding(
    verify: Callable[..., Report], derive: Callable[..., str], client: docker.DockerClient
) -> None:
    reference = derive("killed", _HOOK.format(act="time.sleep(600)"))
    done = threading.Event()

    def kill() -> None:
        while not done.is_set():
            for container in client.containers.list(filters={"label": f"{LABEL}={OWNER}", "ancestor": reference}):
                time.sleep(3)
                container.kill()
                return
            time.sleep(0.1)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        failure = only_failure(verify(reference))
    finally:
        done.set()
        killer.join()
    assert failure.check == "container"
    assert "killed from outside" in failure.found


# --- hosts


@needs_nodes
def test_on_a_host_with_a_chip_of_its_family_the_image_is_green(
    verify: Callable[..., Report], image: str, tmp_path: Path
) -> None:
    report = verify(image, host_root=str(make_host(tmp_path / "host", "a2", (0,))), require_npu=True)
    assert failures(report) == []
    passed = {result.check for result in report.of("pass")}
    assert {"chip", "devices", "npu-smi", "driver-mounted", "device-access", "host-driver", "matmul"} <= passed


@needs_nodes
def test_on_a_host_of_another_family_the_chip_is_the_finding(
    verify: Callable[..., Report], image: str, tmp_path: Path
) -> None:
    report = verify(image, host_root=str(make_host(tmp_path / "host", "a3", (0, 1))))
    failure = only_failure(report)
    assert failure.check == "chip"
    assert "A3" in failure.found


@needs_nodes
def test_without_the_drivers_libraries_the_mount_is_the_finding_and_the_image_is_still_asked(
    verify: Callable[..., Report], image: str, tmp_path: Path
) -> None:
    host = make_host(tmp_path / "host", "a2", (0,))
    for library in host.glob("usr/local/Ascend/driver/lib64/**/*.so"):
        library.unlink()
    report = verify(image, host_root=str(host))
    failure = only_failure(report)
    assert failure.check == "driver-mounted"
    assert {"pinned-packages", "source-commit"} <= {result.check for result in report.of("pass")}


def test_an_empty_visibility_variable_by_which_nothing_was_mounted_is_the_finding(
    derive: Callable[..., str], client: docker.DockerClient
) -> None:
    """As under Ascend's runtime: it was asked for one NPU, reads the variable, and mounts nothing."""
    reference = derive("visibility", "ENV ASCEND_VISIBLE_DEVICES=")
    failure = only_failure(verification.verify(client, Job(name="x", reference=reference, asked=(0,))))
    assert failure.check == "visibility"


@needs_nodes
def test_an_old_driver_and_a_busy_device_are_findings_of_the_host(
    verify: Callable[..., Report], image: str, tmp_path: Path
) -> None:
    old = make_host(tmp_path / "old", "a2", (0,), driver="23.0.3")
    assert only_failure(verify(image, host_root=str(old))).check == "host-driver"
    busy = make_host(tmp_path / "busy", "a2", (0,))
    (busy / "usr/local/bin/npu-smi.says").write_text("dcmi module initialize failed. ret is -8005\n")
    report = verify(image, host_root=str(busy), devices="0")
    assert {failure.check for failure in failures(report)} <= {"npu-smi", "devices"}
    typed = verify(image, host_root=str(busy), devices="5")
    assert only_failure(typed).check == "devices-given"
