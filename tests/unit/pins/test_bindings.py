"""Each pinned package comes from one index: the one bound to it, or the default one."""

import msgspec
import pytest

from ascend_images.errors import BadInput
from ascend_images.pins.bindings import Binding, bindings, bound
from ascend_images.pins.model import Index
from ascend_images.pins.platform import Arch
from tests.lock_kit import real, variant

ASCEND = Index(
    url="https://ascend.example/pypi", serves=("triton-ascend>=3.2.1", "triton-ascend; python_version >= '3.12'")
)
CPU = Index(url="https://cpu.example/whl", serves=("torch; platform_machine == 'x86_64'",))


def test_a_marker_binds_a_package_on_one_architecture_alone() -> None:
    one = variant({"torch": "2.10.0"}, indexes={"cpu": CPU})
    assert bindings(one) == (Binding(package="torch", index="cpu", arches=(Arch.AMD64,)),)
    assert bound(one, Arch.AMD64) == {"torch": "cpu"}
    assert bound(one, Arch.ARM64) == {}


@pytest.mark.parametrize(
    ("version", "python", "served"),
    [("3.2.2", "3.11", True), ("3.2.0", "3.11", False), ("3.2.0", "3.12", True), (">=3.2", "3.11", False)],
)
def test_an_index_serves_the_versions_and_pythons_it_names(version: str, python: str, served: bool) -> None:
    one = variant({"triton_ascend": version}, indexes={"ascend": ASCEND}, python=python)
    assert bound(one, Arch.ARM64) == ({"triton-ascend": "ascend"} if served else {})


def test_two_indexes_for_one_package_are_refused() -> None:
    one = variant({"torch": "2.10.0"}, indexes={"cpu": CPU, "other": CPU})
    with pytest.raises(BadInput, match="indexes cpu and other both serve torch for amd64"):
        bindings(one)


def test_an_entry_that_is_no_requirement_is_refused() -> None:
    broken = msgspec.structs.replace(CPU, serves=("torch ==",))
    with pytest.raises(BadInput, match='"torch ==" is not what an index can serve'):
        bindings(variant({"torch": "2.10.0"}, indexes={"cpu": broken}))


def test_the_real_stacks_take_the_torch_trio_from_its_index_on_x86_64_and_triton_ascend_from_ascends() -> None:
    trio = {"torch": "torch-cpu", "torchvision": "torch-cpu", "torchaudio": "torch-cpu"}
    assert bound(real("a2"), Arch.AMD64) == {**trio, "triton-ascend": "ascend"}
    assert bound(real("a2"), Arch.ARM64) == {"triton-ascend": "ascend"}
    assert bound(real("a3-cann8.5"), Arch.ARM64) == {}
