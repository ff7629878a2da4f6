"""Images built twice, on this engine and on one that is started for it: the same ones, and ones that must differ."""

import io
import json
from collections.abc import Callable, Iterator

import pytest

from ascend_images.errors import BuildFailed, CheckFailed, MissingTool
from ascend_images.images.build import build
from ascend_images.images.plan import BuildPlan, Choices
from ascend_images.reproducing import Reproduced, reproduce, require_same, told, two_places
from ascend_images.sandbox.second_engine import second_engine
from tests.e2e.builds import docker
from tests.e2e.test_build_run import plan_of, run  # noqa: F401 - a fixture

pytestmark = pytest.mark.e2e

Plans = Callable[..., BuildPlan]


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    """Another engine; that of this machine, its bridge and its rules are as they were when it is gone."""
    before = docker("network", "inspect", "bridge")
    try:
        with second_engine() as address:
            yield address
    except MissingTool as error:
        pytest.skip(f"no second engine here: {error.found}")
    assert docker("network", "inspect", "bridge") == before


def twice(plan: BuildPlan, host: str = "") -> tuple[Reproduced, ...]:
    return reproduce([plan], two_places(host), stream=io.StringIO())


def test_the_same_image_comes_out_on_two_engines_and_is_the_one_that_a_build_makes(plan_of: Plans, host: str) -> None:  # noqa: F811
    plan = plan_of("reproduced", "COPY --link build.sh /there\n")
    (plan.root / "build.sh").write_text("hello\n")
    found = twice(plan, host)
    require_same(found)
    (record,) = build([plan], stream=io.StringIO())
    assert told(found) == f"reproduced {plan.arch.value}: the same image twice: {record.manifest}"
    folder = plan.root / "build" / "reproduce" / f"reproduced.{plan.arch.value}"
    assert sorted(path.name for path in folder.iterdir()) == ["1.log", "2.log", "report.json"]


@pytest.mark.parametrize(
    ("name", "step", "what"),
    [
        ("planted-content", 'echo "$EPOCHREALTIME" >/x', "/x: content ("),
        ("planted-time", "sleep 1; echo same >/x", "/x: mtime "),
    ],
)
def test_an_image_that_must_differ_is_told_by_its_first_file(
    plan_of: Plans,  # noqa: F811
    name: str,
    step: str,
    what: str,
) -> None:
    plan = plan_of(name, run(step))
    found = twice(plan)
    with pytest.raises(CheckFailed) as failed:
        require_same(found)
    assert what in failed.value.found
    assert "\n  layer 2 (" in failed.value.found
    folder = plan.root / "build" / "reproduce" / f"{name}.{plan.arch.value}"
    assert json.loads((folder / "report.json").read_text())["same"] is False
    assert (folder / "1" / "index.json").is_file()


def test_the_image_that_has_the_name_stays_what_it_was(plan_of: Plans) -> None:  # noqa: F811
    plan = plan_of("kept", run("echo kept >/x"))
    (record,) = build([plan], stream=io.StringIO())
    twice(plan)
    assert docker("image", "inspect", "--format", "{{.Id}}", plan.image).strip() == record.digest


def test_a_build_that_fails_is_told_with_its_step(plan_of: Plans) -> None:  # noqa: F811
    with pytest.raises(BuildFailed, match="the build failed") as failed:
        twice(plan_of("fails", run("echo last words; exit 7")))
    assert "last words" in str(failed.value)
    assert failed.value.do.endswith("/1.log")


def test_layers_are_packed_by_zstd_where_that_is_chosen_and_read_back(plan_of: Plans) -> None:  # noqa: F811
    plan = plan_of("zstd", run('echo "$EPOCHREALTIME" >/x'), choices=Choices(compression="zstd"))
    (record,) = build([plan], stream=io.StringIO())
    assert record.compression == "zstd"
    if record.layers is not None:  # the engine's store can be read
        assert record.layers[-1].compression == "zstd"
