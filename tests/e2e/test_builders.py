"""One call for several builders: two engines on two sockets stand for two machines, a registry between them."""

import io
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ascend_images.errors import BadInput, BuildFailed, MissingTool
from ascend_images.images.build import build
from ascend_images.images.plan import BuildPlan, Choices
from ascend_images.images.record import load_record
from ascend_images.pins.lockfile import LockedPackage, LockFile
from ascend_images.sandbox.registry import Registry
from ascend_images.sandbox.second_engine import second_engine
from tests.e2e.builds import docker
from tests.e2e.test_build_run import REPOSITORY, base, plan_of, run, summary  # noqa: F401 - one is a fixture

pytestmark = pytest.mark.e2e

Plans = Callable[..., BuildPlan]
SECOND = "second"


@pytest.fixture(autouse=True)
def _config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A docker client of the test's own, with no context but the default one."""
    plugins = Path(os.environ.get("DOCKER_CONFIG", Path.home() / ".docker")) / "cli-plugins"
    config = tmp_path / "docker-config"
    config.mkdir()
    if plugins.is_dir():
        (config / "cli-plugins").symlink_to(plugins)
    monkeypatch.setenv("DOCKER_CONFIG", str(config))
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)


@pytest.fixture
def engine() -> Iterator[ExitStack]:
    """A second engine, behind the docker context `second`; closing the stack before the end stops it."""
    with ExitStack() as stack:
        try:
            host = stack.enter_context(second_engine())
        except MissingTool as error:
            pytest.skip(f"no second engine here: {error.found}")
        docker("context", "create", SECOND, "--docker", f"host={host}")
        yield stack


def two(plan_of: Plans, tmp_path: Path, *bodies: str) -> list[BuildPlan]:  # noqa: F811
    """Plans of images that have nothing in common, so that neither builder is better prepared for both."""
    repository = f"{Registry().start()}/{REPOSITORY}"
    plans = []
    for number, body in enumerate(bodies):
        contexts = {"cann": str(base(tmp_path / f"{number}"))}
        choices = Choices(push=True)
        plan = plan_of(f"two-{number}", body, choices=choices, repository=repository, contexts=contexts)
        lock = LockFile(
            variant=plan.variant.name,
            arch=plan.arch,
            python=plan.variant.python,
            inputs=LockFile.load(plan.lock).inputs,
            packages=(LockedPackage("six", f"1.{number}", (f"sha256:{'0' * 64}",)),),
        )
        plan.lock.write_text(str(lock))
        plans.append(plan)
    return plans


def test_images_are_divided_among_two_engines_and_their_records_name_them(
    plan_of: Plans,  # noqa: F811
    tmp_path: Path,
    engine: ExitStack,
) -> None:
    plans = two(plan_of, tmp_path, run("echo one >/made"), run("echo two >/made"))
    out = io.StringIO()
    records = {record.variant: record for record in build(plans, builders=("default", SECOND), jobs=1, stream=out)}
    assert {name: record.builder for name, record in records.items()} == {"two-0": "default", "two-1": SECOND}
    for plan in plans:
        record = load_record(plan.record)
        assert record == records[plan.variant.name]
        assert docker("buildx", "imagetools", "inspect", "--raw", record.image)
        there = subprocess.run(
            ["docker", "--context", record.builder, "image", "inspect", record.image], capture_output=True
        )
        assert there.returncode == 0, "the engine that built it has it as well"
        assert plan.log.read_text().startswith(f"builder: {record.builder}\n")
    assert {one["builder"] for one in summary(plans[0])["built"]} == {"default", SECOND}
    assert f"  builder: {SECOND}\n" in out.getvalue()
    assert "builder default: if it built all: cost:" in out.getvalue()


def test_one_builder_alone_may_be_another_context_and_keep_the_image(
    plan_of: Plans,  # noqa: F811
    engine: ExitStack,
) -> None:
    plan = plan_of("elsewhere-alone", run("echo >/made"))
    (record,) = build([plan], builders=(SECOND,), stream=io.StringIO())
    assert record.builder == SECOND
    assert docker("--context", SECOND, "image", "inspect", "--format", "{{.Id}}", plan.image).strip() == record.digest


def test_images_that_would_be_left_on_two_engines_are_refused(plan_of: Plans, engine: ExitStack) -> None:  # noqa: F811
    with pytest.raises(BadInput, match="left on the engine that built it") as refused:
        build([plan_of("left", run("echo"))], builders=("default", SECOND), stream=io.StringIO())
    assert "--push" in refused.value.wanted


def test_a_builder_that_does_not_answer_is_told_before_anything_is_built(plan_of: Plans, tmp_path: Path) -> None:  # noqa: F811
    docker("context", "create", "gone", "--docker", f"host=unix://{tmp_path}/none.sock")
    docker("buildx", "create", "--name", "far", "--driver", "remote", "tcp://127.0.0.1:1")
    plans = two(plan_of, tmp_path, run("echo"))
    for name in ("gone", "far"):
        with pytest.raises(MissingTool, match=f'--builder "{name}" does not answer') as missing:
            build(plans, builders=("default", name), stream=io.StringIO())
        assert missing.value.exit_code == 3
    assert not plans[0].log.exists()


def test_an_engine_that_is_stopped_midway_fails_its_image_alone(
    plan_of: Plans,  # noqa: F811
    tmp_path: Path,
    engine: ExitStack,
) -> None:
    plans = two(plan_of, tmp_path, run("sleep 15; echo one >/made"), run("sleep 300; echo two >/made"))

    def stop() -> None:
        deadline = time.monotonic() + 120
        while "source /build.sh" not in (plans[1].log.read_text() if plans[1].log.exists() else ""):
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        time.sleep(1)
        engine.close()

    thread = threading.Thread(target=stop)
    thread.start()
    out = io.StringIO()
    with pytest.raises(BuildFailed, match="1 of 2 images could not be built: two-1"):
        build(plans, builders=("default", SECOND), jobs=1, stream=out)
    thread.join()
    assert f"the builder {SECOND} does not answer any more" in out.getvalue()
    (failure,) = summary(plans[0])["failed"]
    assert failure["builder"] == SECOND
    assert [one["variant"] for one in summary(plans[0])["built"]] == ["two-0"]
    assert load_record(plans[1].record) is None
