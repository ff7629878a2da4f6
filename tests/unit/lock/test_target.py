"""Which markers hold and which wheels fit for a Python on an architecture, whatever machine asks."""

import pytest
from packaging.markers import Marker

from ascend_images.lock.target import Target
from ascend_images.pins.platform import Arch

ARM = Target(Arch.ARM64, "3.11")


@pytest.mark.parametrize(
    ("marker", "holds"),
    [
        ("platform_machine == 'aarch64'", True),
        ("platform_machine == 'x86_64'", False),
        ("python_version < '3.12' and sys_platform == 'linux'", True),
        ("python_full_version >= '3.11.4'", False),
        ("platform_python_implementation == 'PyPy'", False),
        ("extra == 'all'", False),
    ],
)
def test_markers_hold_for_the_target_and_not_for_this_machine(marker: str, holds: bool) -> None:
    assert ARM.holds(Marker(marker)) is holds


def test_an_extras_marker_holds_when_the_extra_is_asked_for() -> None:
    assert ARM.holds(Marker("extra == 'all'"), ("image", "all"))
    assert ARM.holds(None)


@pytest.mark.parametrize(
    ("wheel", "fits"),
    [
        ("six-1.0-py2.py3-none-any.whl", True),
        ("torch-2.9.0-cp311-cp311-manylinux_2_28_aarch64.whl", True),
        ("x-1-cp311-cp311-manylinux2014_aarch64.whl", True),
        ("x-1-cp38-abi3-manylinux_2_17_aarch64.whl", True),
        ("x-1-cp311-cp311-manylinux_2_35_aarch64.whl", True),
        ("x-1-cp311-cp311-linux_aarch64.whl", True),
        ("x-1-cp311-cp311-manylinux_2_36_aarch64.whl", False),
        ("x-1-cp311-cp311-manylinux_2_28_x86_64.whl", False),
        ("x-1-cp312-cp312-manylinux_2_28_aarch64.whl", False),
        ("x-1-cp311-cp311-musllinux_1_2_aarch64.whl", False),
        ("x-1-cp311-cp311-win_arm64.whl", False),
        ("x-1-cp311-cp311-manylinux1_aarch64.whl", False),
        ("no wheel at all", False),
    ],
)
def test_wheels_fit_by_python_c_library_and_architecture(wheel: str, fits: bool) -> None:
    assert (ARM.rank(wheel) is not None) is fits


def test_old_wheels_of_x86_64_fit_there() -> None:
    assert Target(Arch.AMD64, "3.11").rank("x-1-cp311-cp311-manylinux1_x86_64.whl") is not None


def test_the_more_special_wheel_is_the_better_one() -> None:
    ranks = [
        ARM.rank(f"x-1-{tag}.whl")
        for tag in ("cp311-cp311-manylinux_2_28_aarch64", "cp38-abi3-manylinux_2_17_aarch64", "py3-none-any")
    ]
    assert None not in ranks
    assert ranks == sorted(ranks, key=lambda rank: rank or 0)
