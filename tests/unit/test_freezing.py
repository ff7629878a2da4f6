"""Freezing an image: what was typed is looked at before any engine or registry is asked."""

from pathlib import Path
from typing import Any

import pytest

from ascend_images import freezing
from ascend_images.errors import BadInput
from ascend_images.selection import PINS_FILE
from tests.lock_kit import ROOT


@pytest.mark.parametrize("platform", ["linux/foo", "windows/amd64", "linux/arm/v7", "sparc"])
def test_a_platform_that_is_none_is_refused_at_once(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    monkeypatch.setattr(freezing, "connect", lambda: pytest.fail("an engine was asked"))
    with pytest.raises(BadInput, match=r"unknown (platform|architecture)"):
        freezing.freeze_image(ROOT, "x", platform=platform, say=lambda _: None)


@pytest.mark.parametrize(
    ("typed", "asked"),
    [("", ""), ("linux/arm64", "linux/arm64"), ("ARM64", "linux/arm64"), ("linux/x86_64", "linux/amd64")],
)
def test_a_platform_is_asked_for_as_docker_writes_it(monkeypatch: pytest.MonkeyPatch, typed: str, asked: str) -> None:
    def look(_: Any, reference: str, platform: str) -> None:
        raise BadInput(f"{reference} {platform}")

    monkeypatch.setattr(freezing, "connect", lambda: None)
    monkeypatch.setattr(freezing, "look", look)
    with pytest.raises(BadInput, match=f"^x {asked}$"):
        freezing.freeze_image(ROOT, "x", platform=typed, say=lambda _: None)


@pytest.mark.parametrize(("typed", "name"), [("mine", "mine"), ("", "frozen-x")])
def test_what_an_earlier_freeze_wrote_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, name: str
) -> None:
    monkeypatch.setattr(freezing, "connect", lambda: pytest.fail("an engine was asked"))
    (tmp_path / PINS_FILE).write_bytes((ROOT / PINS_FILE).read_bytes())
    stack = tmp_path / "build" / "freeze" / name / "stack.toml"
    stack.parent.mkdir(parents=True)
    stack.write_text("filled in")
    (tmp_path / "build" / "freeze" / f"{name}-2").mkdir()
    with pytest.raises(BadInput, match=f"^build/freeze/{name} is there already") as error:
        freezing.freeze_image(tmp_path, "x", typed, say=lambda _: None)
    assert error.value.do == f"--name {name}-3; or rm -r build/freeze/{name}"
    assert stack.read_text() == "filled in"
