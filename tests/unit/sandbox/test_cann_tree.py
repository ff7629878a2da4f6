"""The files of a stand-in CANN release: all that ENV and the scripts name is there, and says which release it is."""

import posixpath

import pytest

from ascend_images.errors import BadInput
from ascend_images.pins.cann_layout import cann_layout
from ascend_images.pins.platform import Arch
from ascend_images.pins.tags import BaseTag
from ascend_images.sandbox import base, cann_tree
from ascend_images.sandbox.tree import File, Link, Tree

PYTHON = "/usr/local/python3.12.13"
RELEASES = ["8.5.1", "8.5.2", "9.0.1", "9.1.0"]


def resolved(tree: Tree, path: str) -> bool:
    """Tell whether an absolute path exists in a tree, links followed."""
    parts, place = [part for part in path.split("/") if part], ""
    while parts:
        place = f"{place}/{parts.pop(0)}".lstrip("/")
        entry = tree.get(place)
        if isinstance(entry, Link):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(place), entry.target))
            parts, place = [*target.split("/"), *parts], ""
    return place in tree or any(name.startswith(f"{place}/") for name in tree)


def installed(release: str) -> Tree:
    return cann_tree.release_tree(release, Arch.ARM64, "910b")


def ascend_paths(environment: dict[str, str]) -> list[str]:
    entries = [
        entry for value in environment.values() for entry in value.replace("{kernel_arch}", "aarch64").split(":")
    ]
    return [entry for entry in entries if entry.startswith("/usr/local/Ascend") and "/driver/" not in entry]


@pytest.mark.parametrize("release", RELEASES)
def test_every_path_that_env_of_the_base_names_is_there(release: str) -> None:
    tree = installed(release)
    tag = BaseTag.parse(f"{release}-910b-ubuntu22.04-py3.12")
    paths = ascend_paths(base.environment(tag, PYTHON))
    assert len(paths) > 30
    assert [path for path in paths if not resolved(tree, path)] == []


@pytest.mark.parametrize("release", RELEASES)
def test_every_path_of_the_layout_that_our_images_take_is_there(release: str) -> None:
    layout = cann_layout(release, PYTHON)
    paths = [*ascend_paths(layout.environment), *(script.split()[0] for script in layout.scripts)]
    assert [path for path in paths if not resolved(installed(release), path)] == []


def test_a_path_of_another_release_is_not_there() -> None:
    assert not resolved(installed("8.5.1"), "/usr/local/Ascend/cann-8.5.2/lib64")


def test_the_info_files_say_release_architecture_and_chip() -> None:
    tree = cann_tree.release_tree("9.1.0", Arch.AMD64, "A3")
    toolkit, ops = (
        tree[f"usr/local/Ascend/cann-9.1.0/x86_64-linux/ascend_{part}_install.info"] for part in ("toolkit", "ops")
    )
    assert isinstance(toolkit, File)
    assert isinstance(ops, File)
    assert b"version=9.1.0\n" in toolkit.content
    assert b"arch=x86_64\n" in toolkit.content
    assert b"package_name=Ascend-cann-A3-ops\n" in ops.content


def test_the_driver_is_not_in_a_release_but_its_link_stub_is() -> None:
    drivers = [name for name in installed("9.1.0") if name.endswith("libascend_hal.so")]
    assert drivers
    assert all("devlib" in name for name in drivers)


@pytest.mark.parametrize("release", ["8.3.rc2", "8.1.RC1.alpha001"])
def test_a_release_whose_layout_was_another_is_refused(release: str) -> None:
    with pytest.raises(BadInput, match=release) as raised:
        cann_tree.check_release(release)
    assert "8.5.0" in raised.value.wanted
