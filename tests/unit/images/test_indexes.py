import re
import tomllib
from pathlib import Path

from ascend_images.images.indexes import uv_project
from ascend_images.images.uv_tool import UV_REQUIREMENT, UV_VERSION
from ascend_images.pins.model import Index
from ascend_images.pins.platform import Arch
from tests.unit.images.mini import INDEXES, mini


def test_a_package_is_bound_to_the_index_that_serves_it_where_it_does() -> None:
    document = tomllib.loads(uv_project(mini()))
    assert document["project"]["dependencies"] == ["torch; platform_machine == 'x86_64'", "triton-ascend"]
    assert document["tool"]["uv"]["sources"] == {
        "torch": [{"index": "torch-cpu", "marker": "platform_machine == 'x86_64'"}],
        "triton-ascend": [{"index": "ascend"}],
    }


def test_every_index_is_explicit_so_that_nothing_else_is_asked_of_it() -> None:
    indexes = {**INDEXES, "extra": Index(url="https://example.com/simple", serves=("unused",))}
    listed = tomllib.loads(uv_project(mini(indexes=indexes)))["tool"]["uv"]["index"]
    assert [(index["name"], index["explicit"]) for index in listed] == [
        ("ascend", True),
        ("torch-cpu", True),
        ("extra", True),
    ]


def test_an_index_for_one_architecture_binds_nothing_on_the_other() -> None:
    document = tomllib.loads(uv_project(mini(platforms=(Arch.ARM64,))))
    assert document["project"]["dependencies"] == ["triton-ascend"]


def test_without_indexes_everything_comes_from_the_default_one() -> None:
    document = tomllib.loads(uv_project(mini(indexes={})))
    assert document["project"]["dependencies"] == []
    assert document["tool"]["uv"]["sources"] == {}


def test_the_installer_of_a_build_is_the_one_that_locks_are_made_with() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert f"uv=={UV_VERSION}" in project["dependencies"]


def test_the_installer_is_pinned_by_hash_for_both_architectures() -> None:
    assert re.fullmatch(rf"uv=={re.escape(UV_VERSION)}( --hash=sha256:[0-9a-f]{{64}}){{3}}", UV_REQUIREMENT)
