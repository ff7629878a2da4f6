"""What the variables of a repository say of its machines."""

import pytest

from ascend_images.errors import BadInput
from ascend_images.pins.platform import Arch
from ascend_images.publish.machines import machines
from ascend_images.publish.matrix import RUNNERS
from tests.publish_kit import variant

AMD64, ARM64 = Arch.AMD64, Arch.ARM64
HARDWARE = ("a2", "a3", "310p")


@pytest.mark.parametrize(
    ("text", "a2", "a3"),
    [
        ("amd64,arm64", (), ()),
        ("amd64, arm64", (), ()),
        ("x86_64 aarch64", (), ()),
        ("arm64", (AMD64,), (AMD64,)),
        ("none", (AMD64, ARM64), (AMD64, ARM64)),
        ("a2:amd64,arm64", (), (AMD64, ARM64)),
        ("a2:amd64,arm64 a3:arm64", (), (AMD64,)),
        ("a2:amd64 a2:arm64 a3:none", (), (AMD64, ARM64)),
        ("amd64,arm64 a3:none", (), (AMD64, ARM64)),
        ("", (AMD64, ARM64), (AMD64, ARM64)),
    ],
)
def test_architectures_without_a_machine_are_told_by_hardware(
    text: str, a2: tuple[Arch, ...], a3: tuple[Arch, ...]
) -> None:
    there = machines(text, hardware=HARDWARE)
    assert there.lacking(variant("a2")) == a2
    assert there.lacking(variant("a3")) == a3


def test_what_a_variant_is_not_built_for_is_not_lacking() -> None:
    assert machines("arm64", hardware=HARDWARE).lacking(variant("a2", platforms=(ARM64,))) == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("sparc", "sparc"),
        ("a2:sparc", "sparc"),
        ("b2:arm64", '"b2" is no hardware'),
        ("a2:arm64,a3:arm64", "a2:arm64,a3"),
    ],
)
def test_what_is_no_architecture_and_no_hardware(text: str, found: str) -> None:
    with pytest.raises(BadInput, match=found):
        machines(text, hardware=HARDWARE)


def test_builders_are_githubs_own_unless_they_are_named() -> None:
    assert machines("none", "", hardware=HARDWARE).builders == RUNNERS
    own = machines("none", "amd64:big arm64:self-hosted,linux", hardware=HARDWARE).builders
    assert own == {AMD64: "big", ARM64: ["self-hosted", "linux"]}


@pytest.mark.parametrize("text", ["big", "amd64:", "sparc:big"])
def test_builders_without_an_architecture_or_a_label(text: str) -> None:
    with pytest.raises(BadInput):
        machines("none", text, hardware=HARDWARE)
