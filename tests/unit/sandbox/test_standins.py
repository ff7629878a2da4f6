"""What a build in the sandbox gets: a context for each stage that comes from outside, and facts that are true of it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ascend_images.errors import BuildFailed, MissingTool
from ascend_images.images.image_json import image_document
from ascend_images.images.render import render
from ascend_images.images.stages import stage_names
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant
from ascend_images.sandbox import base, standins, wheels
from ascend_images.sandbox.standins import facts_context, prepare

ROOT = Path(__file__).parents[3]


@pytest.fixture
def contexts(variant: Callable[[str], Variant], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, str]]:
    """Prepare a variant with the engine and the package index left out."""
    monkeypatch.setattr(standins, "require_engine", lambda: None)
    monkeypatch.setattr(base, "base_image", lambda *_arguments: "standin:1")
    monkeypatch.setattr(standins, "_share", lambda _image, _say: None)
    monkeypatch.setattr(wheels, "_real_wheels", lambda *_arguments, **_options: [])
    monkeypatch.setattr(wheels, "_BUILDERS", ())
    monkeypatch.setattr(wheels, "REAL", ("pip",))
    return lambda name: prepare(variant(name), Arch.AMD64, None)


def test_without_an_engine_nothing_is_made(variant: Callable[[str], Variant], monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise MissingTool("no Docker Engine answers", do="scripts/engine.sh start")

    monkeypatch.setattr(standins, "require_engine", none)
    monkeypatch.setattr(base, "base_image", lambda *_arguments: pytest.fail("something was made"))
    with pytest.raises(MissingTool, match="no Docker Engine answers"):
        prepare(variant("a2"), Arch.AMD64, None)


@pytest.mark.subprocess
@pytest.mark.parametrize("name", ["a2", "a2-verl", "a2-verl-qwen3.5-overlay", "310p"])
class TestContexts:
    """The contexts of a variant."""

    def test_each_is_the_name_of_a_stage(
        self, name: str, contexts: Callable[[str], dict[str, str]], variant: Callable[[str], Variant]
    ) -> None:
        assert set(contexts(name)) - set(stage_names(render(variant(name)))) == set()

    def test_all_that_comes_from_outside_is_replaced(
        self, name: str, contexts: Callable[[str], dict[str, str]], variant: Callable[[str], Variant]
    ) -> None:
        wanted = {
            "cann",
            "wheels",
            "lock",
            "facts",
            *(f"src-{source.name.lower()}" for source in variant(name).sources),
        }
        if variant(name).overlay:
            wanted.add("cann-run-amd64")
        assert wanted <= set(contexts(name))

    def test_they_are_found_again(self, name: str, contexts: Callable[[str], dict[str, str]]) -> None:
        assert contexts(name) == contexts(name)


def test_the_facts_differ_from_the_pins_only_in_what_a_stand_in_cannot_have(variant: Callable[[str], Variant]) -> None:
    a2 = variant("a2")
    commits = {source.name: f"{index:040x}" for index, source in enumerate(a2.sources)}
    folder = facts_context(a2, "standin:1", commits) / "opt/ascend-images"
    found = json.loads((folder / "image.json").read_text())
    wanted = json.loads(json.dumps(image_document(a2)))
    assert (found.pop("os"), found.pop("base_image")) == ("debian12", "standin:1")
    assert [source.pop("commit") for source in found["sources"]] == list(commits.values())
    del wanted["os"], wanted["base_image"]
    for source in wanted["sources"]:
        del source["commit"]
    assert found == wanted


def test_the_check_is_the_projects_own(variant: Callable[[str], Variant]) -> None:
    a2 = variant("a2")
    folder = facts_context(a2, "standin:1", {source.name: "" for source in a2.sources})
    place = folder / "opt/ascend-images"
    assert (place / "check.py").read_bytes() == (ROOT / "scripts/image_check.py").read_bytes()
    assert (place / "inside/main.py").read_bytes() == (ROOT / "ascend_images/inside/main.py").read_bytes()


@pytest.mark.parametrize(("error", "count"), [(MissingTool("none runs"), 0), (BuildFailed("refused"), 1)])
def test_a_base_that_cannot_be_shared_is_no_failure(
    error: Exception, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def push(_image: str, _registry: str) -> None:
        raise error

    monkeypatch.setattr(standins.Registry, "address", "127.0.0.1:1")
    monkeypatch.setattr(base, "push", push)
    said: list[str] = []
    standins._share("standin:1", said.append)
    assert len(said) == count
