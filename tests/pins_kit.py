"""The committed pins as tests take them that are of something else: whoever runs them may build less than both."""

import re
from functools import cache
from pathlib import Path

import msgspec

from ascend_images.pins.load import parse
from ascend_images.pins.model import Pins
from ascend_images.pins.versions_lock import FILE, VersionsLock

ROOT = Path(__file__).parents[1]

_PLATFORMS = re.compile(r"^platforms *=[^\]]*\]\n", re.MULTILINE)


def committed_text() -> str:
    """Return versions.toml with each variant for both architectures."""
    return _PLATFORMS.sub("", (ROOT / "versions.toml").read_text(encoding="utf-8"))


def committed_in(folder: Path) -> Path:
    """Write that text into a folder, and what it was locked to; return the folder."""
    (folder / "versions.toml").write_text(committed_text(), encoding="utf-8")
    (folder / FILE).write_bytes((ROOT / FILE).read_bytes())
    return folder


@cache
def committed() -> Pins:
    """Return the pins of that text, and what they were locked to."""
    return msgspec.structs.replace(parse(committed_text()), locked=VersionsLock.load(ROOT / FILE))
