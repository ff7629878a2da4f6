"""What several end-to-end modules share."""

import os
from collections.abc import Iterator

import pytest

from ascend_images.sandbox.engine import state_dir
from ascend_images.sandbox.registry import Registry, find_program


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry of a module's own; the program is the one that the sandbox has unpacked."""
    shared = state_dir() / "registry"
    shared.mkdir(parents=True, exist_ok=True)
    program = find_program(shared)
    own = Registry(tmp_path_factory.mktemp("registry"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        try:
            yield own.start()
        finally:
            own.stop()
