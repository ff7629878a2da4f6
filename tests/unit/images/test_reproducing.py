"""Building twice: the target of such a build, the places, layouts without times, and what is said in the end."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ascend_images import reproducing
from ascend_images.errors import BadInput, CheckFailed, MissingTool
from ascend_images.images.bake import Target
from ascend_images.images.builder import Builder
from ascend_images.images.compare import Comparison, FileDifference, Layer, LayerDifference, read_layout
from ascend_images.images.engine import Answer
from ascend_images.images.plan import Choices
from ascend_images.pins.lockfile import LockedPackage
from ascend_images.pins.platform import Arch
from tests.unit.images.test_build import BUILDER, engine
from tests.unit.images.test_compare import archive, layout

OWN = Builder("default", "docker")


def plan(root: Path, compression: str = "gzip") -> Any:
    return SimpleNamespace(name="a2 amd64", root=root, choices=Choices(compression=compression))


def test_such_a_build_takes_nothing_from_a_cache_names_nothing_and_writes_a_layout(tmp_path: Path) -> None:
    target = Target(context=".", dockerfile="d", tags=("quay.io/x:y",), output=("type=image,push=true",), attest=("x",))
    made = reproducing.exported(plan(tmp_path), target, tmp_path / "1")
    assert (made.no_cache, made.tags) == (True, ())
    assert made.output == (f"type=oci,dest={tmp_path}/1,tar=false,oci-mediatypes=true",)
    assert made.attest == ("type=provenance,disabled=true",)


def test_it_is_packed_as_the_image_would_be(tmp_path: Path) -> None:
    one = plan(tmp_path)
    one.choices = Choices(compression="zstd")
    assert (
        reproducing.exported(one, Target(context=".", dockerfile="d"), tmp_path).output[0].endswith(",compression=zstd")
    )


@pytest.mark.parametrize(
    ("words", "second"),
    [
        (("unix:///x", ""), ("a second engine", "unix:///x", "")),
        (("", "farm"), ("builder farm", "", "farm")),
        (("", ""), ("this engine again", "", "")),
    ],
)
def test_the_second_place_is_another_engine_a_builder_or_the_same_again(
    words: tuple[str, str], second: tuple[str, str, str]
) -> None:
    places = reproducing.two_places(*words)
    assert (places[1].name, places[1].host, places[1].builder) == second
    assert (places[0].host, places[0].builder) == ("", "")


def test_another_engine_is_asked_for_a_while_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONTEXT", "mine")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    with reproducing._at("unix:///other"):
        assert os.environ["DOCKER_HOST"] == "unix:///other"
        assert "DOCKER_CONTEXT" not in os.environ
    assert os.environ["DOCKER_CONTEXT"] == "mine"
    assert "DOCKER_HOST" not in os.environ
    with reproducing._at(""):
        assert os.environ["DOCKER_CONTEXT"] == "mine"


def test_a_layout_loses_the_time_of_its_making_and_nothing_else(tmp_path: Path) -> None:
    folders = [
        layout(tmp_path / name, archive({"a": {}}), created=time, config={"Env": ["A=1"]})
        for name, time in (("1", "2026-01-01T00:00:00Z"), ("2", "2026-02-02T00:00:00Z"))
    ]
    for folder in folders:
        index = json.loads((folder / "index.json").read_text())
        place = folder / "blobs" / index["manifests"][0]["digest"].replace(":", "/")
        manifest = json.loads(place.read_text())
        place.write_text(json.dumps({**manifest, "mediaType": "application/vnd.oci.image.manifest.v1+json"}))
    digests = [reproducing.without_time(read_layout(folder)) for folder in folders]
    assert digests[0] == digests[1] == read_layout(folders[0]).digest
    config = read_layout(folders[0]).config
    assert "created" not in config
    assert config["config"] == {"Env": ["A=1"]}


def with_builder(name: str, answer: Answer) -> Any:
    """An engine beside which there is a builder of this name, or none."""
    return lambda command: answer if command[-1] == name else engine(command)


ELSEWHERE = BUILDER.replace("default", "farm").replace("Driver: docker\n", "Driver: docker-container\n")
RUNNING = ELSEWHERE.replace("Platforms:", "Status: running\nPlatforms:")


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (Answer(1, "", 'ERROR: no builder "farm" found'), MissingTool, 'no builder "farm" found'),
        (Answer(0, f"{ELSEWHERE}Error: dial tcp: refused\n", ""), MissingTool, "does not answer: dial tcp: refused"),
        (Answer(0, RUNNING.replace("amd64", "arm64"), ""), BadInput, "machine of another architecture"),
    ],
)
def test_a_second_builder_that_cannot_build_is_refused_before_the_first_build(
    plan_of, monkeypatch: pytest.MonkeyPatch, answer: Answer, error: type[Exception], message: str
) -> None:
    def nothing_runs(*_: object) -> None:
        raise AssertionError("a build was started")

    monkeypatch.setattr(reproducing, "_export", nothing_runs)
    kept = plan_of().root / "build" / "reproduce" / "a2.amd64" / "report.json"
    kept.parent.mkdir(parents=True)
    kept.touch()
    with pytest.raises(error, match=message):
        reproducing.reproduce([plan_of()], reproducing.two_places(builder="farm"), run=with_builder("farm", answer))
    assert kept.is_file(), "what an earlier call found stays"


def test_an_architecture_that_this_engine_cannot_build_for_is_refused_before_anything_is_built(plan_of) -> None:
    with pytest.raises(BadInput, match="machine of another architecture"):
        reproducing.reproduce([plan_of("a2", Arch.ARM64)], reproducing.two_places(), run=engine)


def test_each_place_builds_by_its_own_way(plan_of, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine of another docker context is reached through that: buildx refuses it from here."""
    ways: list[list[str]] = []

    class Enough(Exception):
        pass

    def export(_plan: object, site: Any, *_: object) -> None:
        ways.append([*site.docker, site.name])
        if len(ways) == 2:
            raise Enough

    monkeypatch.setattr(reproducing, "_export", export)

    def docker(command: Sequence[str]) -> Answer:
        if list(command[:3]) == ["docker", "context", "show"]:
            return Answer(0, "default\n", "")
        return (
            Answer(0, BUILDER.replace("Name: default", "Name: other"), "")
            if command[-1] == "other"
            else engine(command)
        )

    with pytest.raises(Enough):
        reproducing.reproduce([plan_of()], reproducing.two_places(builder="other"), run=docker)
    assert ways == [["docker", "default"], ["docker", "--context", "other", "other"]]


def test_an_incomplete_lock_is_refused_in_the_words_of_this_command(plan_of) -> None:
    lock = {"packages": (LockedPackage("six", "1.17.0"),), "incomplete": ("six==1.17.0: why",)}
    with pytest.raises(BadInput, match="is incomplete") as caught:
        reproducing.reproduce([plan_of(lock=lock)], reproducing.two_places(), run=engine)
    assert caught.value.do.endswith("or build without: invoke reproduce --variant a2 --unlocked")


BASE = "docker-image://base:1"


def test_images_that_this_engine_does_not_have_are_left_to_the_other_place(plan_of, tmp_path: Path) -> None:
    plans = [plan_of(contexts={"cann": BASE})]
    made = reproducing.with_images_as_layouts(plans, tmp_path, OWN, lambda _: Answer(1, "", "no such image"))
    assert made == plans


def test_images_that_it_has_go_as_layouts_each_once(plan_of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def as_layout(context: str, folder: Path, builder: Builder) -> str:
        written.append(context)
        return f"oci-layout://{folder}@sha256:1"

    monkeypatch.setattr(reproducing, "_as_layout", as_layout)
    plans = [plan_of(contexts={"cann": BASE, "fetch": BASE, "wheels": "/w"})]
    (made,) = reproducing.with_images_as_layouts(plans, tmp_path, OWN, lambda _: Answer(0, "id", ""))
    there = f"oci-layout://{tmp_path}/0@sha256:1"
    assert made.contexts == {"cann": there, "fetch": there, "wheels": "/w"}
    assert written == [BASE]


def found(root: Path, *, same: bool) -> reproducing.Reproduced:
    file = FileDifference(path="x", what=("mtime 1 / 2 (seconds since 1970)",))
    layer = LayerDifference(layer=Layer(number=3, digest="", unpacked="", step="RUN date > /x"), files=(file,), count=1)
    comparison = Comparison(
        first="sha256:1", second="sha256:1" if same else "sha256:2", layers=() if same else (layer,)
    )
    places = reproducing.two_places("unix:///x")
    folder = root / "build" / "reproduce" / "a2.amd64"
    return reproducing.Reproduced(plan=plan(root), places=places, comparison=comparison, folder=folder)


def test_the_same_twice_is_told_and_no_failure(tmp_path: Path) -> None:
    made = [found(tmp_path, same=True)]
    assert reproducing.told(made) == "a2 amd64: the same image twice: sha256:1"
    reproducing.require_same(made)


def test_two_images_are_a_failed_check_that_names_the_file_and_both_digests(tmp_path: Path) -> None:
    made = [found(tmp_path, same=True), found(tmp_path, same=False)]
    with pytest.raises(CheckFailed) as caught:
        reproducing.require_same(made)
    assert caught.value.exit_code == 5
    assert caught.value.found.splitlines() == [
        "a2 amd64 came out as two images",
        "  this engine: sha256:1",
        "  a second engine: sha256:2",
        "  layer 3 (RUN date > /x):",
        "    /x: mtime 1 / 2 (seconds since 1970)",
    ]
    assert caught.value.do.startswith("see build/reproduce/a2.amd64: both images as OCI layouts")
