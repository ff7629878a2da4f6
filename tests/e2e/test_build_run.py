"""Building on a real Docker Engine, with tiny Dockerfiles of the tests' own in place of the rendered ones."""

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from ascend_images.errors import BadInput, BuildFailed
from ascend_images.images import bake
from ascend_images.images.build import build, summary_path
from ascend_images.images.image_json import image_document
from ascend_images.images.network import DIRECT, Network
from ascend_images.images.plan import BuildPlan, Choices, Rendered, dry_run, make_plan, target_of
from ascend_images.images.record import load_record
from ascend_images.images.run import Interrupted
from ascend_images.images.sources import LocalSource, local_source
from ascend_images.images.view import labels
from ascend_images.pins.load import load
from ascend_images.pins.lockfile import LockedPackage, LockFile, file_name, inputs_hash
from ascend_images.pins.platform import Arch, host_arch
from ascend_images.pins.resolve import resolve
from ascend_images.pins.variant import Variant
from ascend_images.sandbox.registry import Registry

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
REPOSITORY = "ascend-images-test/build-run"
TOP = "FROM scratch AS cann\nFROM cann AS image\n"


def small(name: str) -> Variant:
    """A variant of the project's own with nothing in it but a little environment."""
    pinned = resolve(load(ROOT / "versions.toml"), "a2")
    return msgspec.structs.replace(
        pinned,
        name=name,
        aliases=(),
        repository=REPOSITORY,
        tag=name,
        sources=(),
        packages={},
        exclude={},
        relax=(),
        env={"GREETING": "hello $world", "KERNEL": "{kernel_arch}"},
        workdir="/work",
        system_packages=(),
    )


def settings(variant: Variant, arch: Arch, **changed: str) -> str:
    """The instructions that give an image the configuration its variant asks for, some of them changed."""
    env = {"GREETING": "hello \\$world", "KERNEL": arch.kernel, **changed}
    lines = [f'ENV {name}="{value}"' for name, value in env.items()]
    lines += [
        f"LABEL {name}={json.dumps(value).replace('$', chr(92) + '$')}" for name, value in labels(variant).items()
    ]
    lines += ["WORKDIR /work", f"ENTRYPOINT {json.dumps(image_document(variant)['entrypoint'])}"]
    lines += ['CMD ["/bin/bash"]', 'SHELL ["/bin/bash", "-c"]']
    return "\n".join(lines) + "\n"


@pytest.fixture
def plan_of(tmp_path: Path) -> Iterator[Callable[..., BuildPlan]]:
    """Makes a plan from the body of a Dockerfile; `FROM …` and the configuration come around it."""
    made: list[BuildPlan] = []

    def make(
        name: str,
        body: str,
        *,
        last: str = "",
        contexts: dict[str, str] | None = None,
        choices: Choices | None = None,
        network: Network = DIRECT,
        sources: tuple[LocalSource, ...] = (),
        repository: str = REPOSITORY,
        **env: str,
    ) -> BuildPlan:
        variant, arch = msgspec.structs.replace(small(name), repository=repository), host_arch()
        text = f"{TOP}{body}\n{settings(variant, arch, **env)}{last}"
        file = tmp_path / f"{name}.Dockerfile"
        file.write_text(text)
        lock = LockFile(
            variant=name,
            arch=arch,
            python=variant.python,
            inputs=inputs_hash(variant, arch),
            packages=(LockedPackage("six", "1.17.0", (f"sha256:{'0' * 64}",)),),
        )
        (tmp_path / "locks").mkdir(exist_ok=True)
        (tmp_path / "locks" / file_name(name, arch)).write_text(str(lock))
        made.append(
            make_plan(
                variant,
                arch,
                root=tmp_path,
                rendered=Rendered(file=file, text=text, image=image_document(variant)),
                choices=choices or Choices(),
                contexts={"cann": str(base(tmp_path)), **(contexts or {})},
                network=network,
                sources=sources,
            )
        )
        return made[-1]

    yield make
    for plan in made:
        subprocess.run(["docker", "image", "rm", plan.image], capture_output=True)


def base(folder: Path) -> Path:
    """A folder that serves as a base image: this machine's bash, and the script that rendered steps begin with."""
    place = folder / "base"
    if place.exists():
        return place
    for program in ("/bin/sh", "/bin/bash", "/bin/sleep", "/bin/mkdir"):
        copy(Path(program), place)
        linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for word in linked.split():
            if word.startswith("/"):
                copy(Path(word), place)
    (place / "tmp").mkdir()
    (place / "work").mkdir()  # a WORKDIR that has to be made carries the time of the build
    (place / "build.sh").write_bytes((ROOT / "dockerfiles" / "templates" / "build.sh").read_bytes())
    return place


def copy(file: Path, place: Path) -> None:
    target = place / file.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        target.write_bytes(file.read_bytes())
        target.chmod(0o755)


def run(command: str) -> str:
    """A RUN step as in a rendered file."""
    return f'SHELL ["/bin/bash", "-Eeuo", "pipefail", "-c"]\nRUN <<\'EOR\'\nsource /build.sh\n{command}\nEOR'


def inspect(name: str) -> dict[str, object]:
    answer = subprocess.run(["docker", "image", "inspect", name], capture_output=True, text=True)
    return json.loads(answer.stdout)[0] if answer.returncode == 0 else {}


def summary(plan: BuildPlan) -> dict[str, list[dict[str, object]]]:
    return json.loads(summary_path(plan.root).read_text())


Plans = Callable[..., BuildPlan]


def test_a_build_leaves_an_image_its_record_a_log_and_a_summary(plan_of: Plans) -> None:
    plan = plan_of("whole", run("echo from the step >/made"))
    out = io.StringIO()
    (record,) = build([plan], stream=out)

    image = inspect(plan.image)
    assert image["Id"] == record.digest
    assert load_record(plan.record) == record
    assert record.manifest == record.digest, "without provenance the name stands for the image itself"
    assert record.config.startswith("sha256:")
    assert 0 <= int(image["Size"]) - record.bytes < 10_000, "all but the manifest, which counts for the engine"  # type: ignore[call-overload, operator]
    assert record.resolved["name"] == "whole"
    assert record.inputs == inputs_hash(plan.pinned, plan.arch)
    assert 0 < record.seconds < 120
    if record.layers is not None:  # the engine's store can be read
        assert {layer.compression for layer in record.layers} == {"gzip"}
        assert all(layer.media_type.startswith("application/vnd.oci.image.layer") for layer in record.layers)
    assert "DONE" in plan.log.read_text()
    assert [built["digest"] for built in summary(plan)["built"]] == [record.digest]
    text = out.getvalue()
    assert text.index("cost: whole") < text.index("whole amd64: building" if plan.arch is Arch.AMD64 else "building")
    assert f"digest:  {record.digest}" in text


def test_the_same_build_gives_the_same_digest_again(plan_of: Plans) -> None:
    plan = plan_of("same", "COPY --link build.sh /there\n", contexts=None)
    (plan.root / "build.sh").write_text("hello\n")
    (first,) = build([plan], stream=io.StringIO())
    (second,) = build([plan], stream=io.StringIO())
    assert (first.digest, first.config) == (second.digest, second.config)


def test_a_failing_step_is_shown_with_its_command_and_last_lines_and_nothing_is_recorded(plan_of: Plans) -> None:
    plan = plan_of("failing", run("echo the last words\nmkdir /no/such/place\necho never"))
    out = io.StringIO()
    with pytest.raises(BuildFailed) as failed:
        build([plan], stream=out)
    assert failed.value.exit_code == 4
    assert "build/logs/failing" in str(failed.value)
    assert not plan.record.exists()
    (failure,) = summary(plan)["failed"]
    assert failure["command"] == "mkdir /no/such/place"
    assert (failure["line"], failure["code"]) == (3, 1)
    assert "the last words" in failure["output"]  # type: ignore[operator]
    assert "never" not in failure["output"]  # type: ignore[operator]
    text = out.getvalue()
    assert "command: mkdir /no/such/place" in text
    assert "| the last words" in text
    assert "the last words" in plan.log.read_text()


def test_a_step_that_stops_with_a_reason_gives_the_reason(plan_of: Plans) -> None:
    plan = plan_of("stopping", run('stop "no sha256 is known" "wanted: a checksum"'))
    with pytest.raises(BuildFailed):
        build([plan], stream=io.StringIO())
    (failure,) = summary(plan)["failed"]
    assert failure["error"] == "no sha256 is known"


def test_one_of_two_that_fails_does_not_stop_the_other_and_is_listed_first(plan_of: Plans) -> None:
    bad = plan_of("bad", run("exit 7"))
    good = plan_of("good", run("sleep 2; echo done >/made"))
    out = io.StringIO()
    with pytest.raises(BuildFailed, match="1 of 2 images could not be built: bad"):
        build([good, bad], jobs=2, stream=out)
    assert inspect(good.image)["Id"] == load_record(good.record).digest  # type: ignore[union-attr]
    assert not bad.record.exists()
    text = out.getvalue()
    assert text.index("FAILED bad") < text.index("built good")
    assert [one["variant"] for one in summary(good)["failed"]] == ["bad"]


def test_a_dockerfile_that_cannot_be_parsed_is_a_failure_with_the_clients_words(plan_of: Plans) -> None:
    plan = plan_of("unparsed", "NONSENSE there")
    with pytest.raises(BuildFailed):
        build([plan], stream=io.StringIO())
    (failure,) = summary(plan)["failed"]
    assert "NONSENSE" in str(failure["error"])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"KERNEL": "z80"}, "ENV KERNEL is 'z80'"),
        ({"last": 'ENTRYPOINT ["/bin/other"]\n'}, 'ENTRYPOINT is ["/bin/other"]'),
        ({"last": "LABEL io.ascend-images.cann=1.2.3\n"}, "LABEL io.ascend-images.cann is '1.2.3'"),
        ({"last": "WORKDIR /elsewhere\n"}, "WORKDIR is /elsewhere, not /work"),
    ],
)
def test_an_image_that_is_configured_otherwise_than_its_image_json_says_is_a_failure(
    plan_of: Plans, changed: dict[str, str], said: str
) -> None:
    plan = plan_of("otherwise", run("echo >/made"), **changed)
    out = io.StringIO()
    plan.record.parent.mkdir(parents=True)
    plan.record.write_text("{}")
    with pytest.raises(BuildFailed):
        build([plan], stream=out)
    assert said in out.getvalue()
    assert said in plan.log.read_text()
    assert not plan.record.exists(), "a record of the image that had this name before would be taken for this one's"


def test_a_context_whose_name_is_no_stage_is_refused_before_anything_is_built(plan_of: Plans) -> None:
    plan = plan_of("typing-error", run("echo"), contexts={"iamge": "docker-image://anything"})
    with pytest.raises(BadInput, match='the context "iamge" replaces nothing') as refused:
        build([plan], stream=io.StringIO())
    assert refused.value.wanted == 'did you mean "image"?'
    assert not plan.log.exists()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_leaves_no_record_no_metadata_and_no_process(
    plan_of: Plans, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signum: int
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(private))
    plan = plan_of("interrupted", run("sleep 300"))
    waiting = plan_of("waiting", run("echo"))

    def interrupt() -> None:
        for _ in range(600):
            if plan.log.exists() and "source /build.sh" in plan.log.read_text():
                break
            time.sleep(0.1)
        os.kill(os.getpid(), signum)

    threading.Thread(target=interrupt).start()
    began = time.monotonic()
    out = io.StringIO()
    with pytest.raises(Interrupted) as interrupted:
        build([plan, waiting], jobs=1, stream=out)
    assert interrupted.value.signum == signum
    assert time.monotonic() - began < 90
    assert not plan.record.exists()
    assert not waiting.log.exists(), "no other build is begun"
    assert not list(private.iterdir()), "bake file, secrets and metadata are gone"
    assert inspect(plan.image) == {}
    said = summary(plan)
    assert said["interrupted"] is True  # type: ignore[comparison-overlap]
    assert [one["variant"] for one in said["skipped"]] == ["interrupted", "waiting"]


def test_metadata_of_an_earlier_build_never_passes_for_a_new_one(
    plan_of: Plans, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that ends well without writing metadata gives a failure, though an earlier build left a file."""
    plan = plan_of("stale", run("echo >/made"))
    build([plan], stream=io.StringIO())
    docker = subprocess.run(["which", "docker"], capture_output=True, text=True, check=True).stdout.strip()
    wrapper = tmp_path / "bin" / "docker"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f'#!{sys.executable}\nimport os, sys\nif "bake" in sys.argv: sys.exit(0)\nos.execv({docker!r}, sys.argv)\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    out = io.StringIO()
    with pytest.raises(BuildFailed):
        build([plan], stream=out)
    assert "buildx did not say what it made" in out.getvalue()


def test_what_is_pushed_is_recorded_as_the_registry_has_it(plan_of: Plans) -> None:
    address = Registry().start()
    choices = Choices(push=True)
    plan = plan_of("pushed", "COPY --link build.sh /there\n", choices=choices, repository=f"{address}/{REPOSITORY}")
    (plan.root / "build.sh").write_text("hello\n")
    (first,) = build([plan], stream=io.StringIO())
    assert first.pushed
    assert first.image.startswith(f"{address}/{REPOSITORY}:candidate-pushed-{plan.identity[7:19]}-")
    assert first.digest != first.manifest, "provenance makes it an index"
    assert first.layers
    assert {layer.compression for layer in first.layers} == {"gzip"}
    assert first.bytes is not None
    assert first.bytes > sum(layer.bytes for layer in first.layers) > 0

    raw = ["docker", "buildx", "imagetools", "inspect", "--raw", first.image]
    index = subprocess.run(raw, capture_output=True, check=True).stdout
    assert f"sha256:{hashlib.sha256(index).hexdigest()}" == first.digest, "that is what the tag stands for"
    assert first.manifest in {entry["digest"] for entry in json.loads(index)["manifests"]}
    (second,) = build([plan], stream=io.StringIO())
    assert (second.manifest, second.config) == (first.manifest, first.config), "provenance alone differs"


def test_bake_reads_what_was_written_to_the_letter(plan_of: Plans, tmp_path: Path) -> None:
    """Template characters in labels, arguments and paths, on the real buildx."""
    odd = "$ $$ ${ $${x} % %% %{ %%{ } \" \\ ' , = é ~ ${~ a } %{ if true }"
    target = bake.Target(context=".", dockerfile=f"f {odd}", labels={f"k {odd}": odd}, args={"A": odd}, tags=("a:b",))
    file = tmp_path / "b.json"
    file.write_bytes(bake.bake_file([("t", target)]))
    command = ["docker", "buildx", "bake", "--file", str(file), "--print"]
    printed = json.loads(subprocess.run(command, capture_output=True, check=True, cwd=tmp_path).stdout)
    assert printed["target"]["t"] == msgspec.to_builtins(target) | {"tags": ["a:b"]}


def test_the_bake_file_of_a_dry_run_builds(plan_of: Plans, tmp_path: Path) -> None:
    plan = plan_of("dry", run("echo >/made"))
    file = tmp_path / "dry.json"
    file.write_bytes(dry_run([plan]))
    subprocess.run(["docker", "buildx", "bake", "--file", str(file)], cwd=plan.root, check=True, capture_output=True)
    (record,) = build([plan], stream=io.StringIO())
    assert inspect(plan.image)["Id"] == record.digest


def test_secrets_serve_the_steps_and_are_in_no_log_and_no_image(plan_of: Plans) -> None:
    network = Network(
        settings={"HTTPS_PROXY": "http://me:s3cret@p.example:1", "UV_INDEX": "a=https://x b=https://y"},
        ca=b"-----BEGIN CERTIFICATE-----\n",
        hide=("s3cret",),
    )
    mounts = (
        "--mount=type=secret,id=network,target=/run/secrets/network --mount=type=secret,id=ca,target=/run/secrets/ca"
    )
    step = (
        'set -a; . /run/secrets/network; set +a\n[[ $UV_INDEX == "a=https://x b=https://y" ]]\n'
        'read -r line </run/secrets/ca\n[[ $line == *CERTIFICATE* ]]\necho "through $HTTPS_PROXY"'
    )
    # Secrets are no part of a step's identity: without something new in it the engine would not run it again.
    with_secrets = run(f"{step} # {time.time_ns()}").replace("RUN <<", f"RUN {mounts} <<")
    plan = plan_of("secrets", with_secrets, network=network)
    (record,) = build([plan], stream=io.StringIO())
    log = plan.log.read_text()
    assert "through http://me:***@p.example:1" in log
    history = subprocess.run(["docker", "image", "history", "--no-trunc", plan.image], capture_output=True, text=True)
    for text in (log, history.stdout, json.dumps(inspect(plan.image)), plan.record.read_text()):
        assert "s3cret" not in text
    assert target_of(plan, {}).secret == ()
    assert record.contexts == dict(plan.contexts)


def test_a_local_checkout_reaches_the_build_whole_whatever_its_dockerignore_says(
    plan_of: Plans, tmp_path: Path
) -> None:
    folder = tmp_path / "my vllm"
    (folder / "vllm").mkdir(parents=True)
    files = {
        "pyproject.toml": '[project]\nname = "vllm"\n',
        ".dockerignore": "**/.git\nvllm\n",
        "vllm/a.py": "committed\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@t"]
    for arguments in (["init", "--quiet"], ["add", "-A"], ["commit", "--quiet", "-m", "x"]):
        subprocess.run([*git, *arguments], check=True)
    (folder / "vllm" / "a.py").write_text("edited\n")

    checkout = next(one for one in resolve(load(ROOT / "versions.toml"), "a2").sources if one.name == "vllm")
    source = local_source(checkout, folder)
    assert source.dirty
    step = run('read -r head </src/.git/HEAD\nread -r text </src/vllm/a.py\necho "seen $head $text"')
    body = "FROM scratch AS src-vllm\nFROM cann AS more\n" + step.replace(
        "RUN <<", "RUN --mount=from=src-vllm,target=/src <<"
    )
    plan = plan_of("local", body, sources=(source,))
    (record,) = build([plan], stream=io.StringIO())
    assert f"seen {source.commit} edited" in plan.log.read_text()
    assert record.local["vllm"].commit == source.commit
    assert record.local["vllm"].dirty
    config = inspect(plan.image)["Config"]
    assert config["Labels"]["io.ascend-images.source.vllm"] == f"{source.commit}+dirty"  # type: ignore[index]


def test_the_engine_of_the_docker_context_in_use_builds(
    plan_of: Plans, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = ["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]
    host = subprocess.run(endpoint, capture_output=True, text=True, check=True).stdout.strip()
    plugins = Path(os.environ.get("DOCKER_CONFIG", Path.home() / ".docker")) / "cli-plugins"
    config = tmp_path / "docker-config"
    config.mkdir()
    if plugins.is_dir():
        (config / "cli-plugins").symlink_to(plugins)
    monkeypatch.setenv("DOCKER_CONFIG", str(config))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    create = ["docker", "context", "create", "farm", "--docker", f"host={host}"]
    subprocess.run(create, check=True, capture_output=True)
    monkeypatch.setenv("DOCKER_CONTEXT", "farm")
    plan = plan_of("elsewhere", run("echo >/made"))
    (record,) = build([plan], stream=io.StringIO())
    assert inspect(plan.image)["Id"] == record.digest

    (record,) = build([plan_of("default", run("echo"))], builders=("default",), stream=io.StringIO())
    assert record.builder == "default", "the engine of another context than the one in use"
