"""What the tests of the stand-ins share: variants of the real pins, a state folder of their own."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from ascend_images.pins.load import load
from ascend_images.pins.resolve import resolve
from ascend_images.pins.variant import Variant

ROOT = Path(__file__).parents[3]


@cache
def _variant(name: str) -> Variant:
    return resolve(load(ROOT / "versions.toml"), name, allow_broken=True)


@pytest.fixture
def variant() -> Callable[[str], Variant]:
    return _variant


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASCEND_IMAGES_STATE", str(tmp_path / "state"))
    return tmp_path / "state"
