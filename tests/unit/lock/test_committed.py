"""The committed locks answer the pins, and say what could not be learned."""

from pathlib import Path

import pytest

from ascend_images.pins.lockfile import LockFile, file_name, is_current
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant
from ascend_images.selection import select

ROOT = Path(__file__).parents[3]
VARIANTS = select(ROOT, everything=True).variants
LOCKS = [(variant, arch) for variant in VARIANTS for arch in variant.platforms]
#: Indexes that were out of reach when the locks were made; nothing else may be incomplete.
UNREACHED = ("torch-cpu", "ascend")


def load(variant: Variant, arch: Arch) -> LockFile:
    return LockFile.load(ROOT / "locks" / file_name(variant.name, arch))


def ids(value: object) -> str:
    return value.name if isinstance(value, Variant) else str(value)


@pytest.mark.parametrize(("variant", "arch"), LOCKS, ids=ids)
def test_a_lock_is_there_and_answers_the_pins(variant: Variant, arch: Arch) -> None:
    assert is_current(load(variant, arch), variant), f"type: invoke lock --variant {variant.name}"


@pytest.mark.parametrize(("variant", "arch"), LOCKS, ids=ids)
def test_every_pinned_package_is_locked_at_its_pin(variant: Variant, arch: Arch) -> None:
    versions = load(variant, arch).versions
    for name in variant.packages:
        pin = variant.pin(name, arch)
        if pin[0].isdigit():
            assert versions[name.lower().replace("_", "-")] == pin


@pytest.mark.parametrize(("variant", "arch"), LOCKS, ids=ids)
def test_what_has_no_hash_is_said_and_only_for_indexes_out_of_reach(variant: Variant, arch: Arch) -> None:
    lock = load(variant, arch)
    bare = [f"{package.name}=={package.version}" for package in lock.packages if not package.hashes]
    assert sorted(bare) == sorted(gap.split(": ")[0] for gap in lock.incomplete)
    assert all(any(f'index "{name}"' in gap for name in UNREACHED) for gap in lock.incomplete)


def test_the_lock_of_a3_on_cann_8_5_for_arm64_is_complete() -> None:
    (variant,) = (variant for variant in VARIANTS if variant.name == "a3-cann8.5")
    lock = load(variant, Arch.ARM64)
    assert lock.complete
    assert len(lock.packages) > 300


@pytest.mark.parametrize(("variant", "arch"), LOCKS, ids=ids)
def test_nothing_that_is_excluded_is_locked_and_no_address_stands_in_a_lock(variant: Variant, arch: Arch) -> None:
    lock = load(variant, arch)
    for pattern in variant.exclude:
        plain = pattern.lower().replace("_", "-")
        start = plain.rstrip("*")
        assert not [n for n in lock.versions if n == plain or (plain.endswith("*") and n.startswith(start))]
    packages = [str(package) for package in lock.packages]
    assert not [text for text in packages if "://" in text]


@pytest.mark.parametrize("variant", VARIANTS, ids=ids)
def test_both_architectures_have_the_same_versions_but_for_what_is_said(variant: Variant) -> None:
    one, other = (load(variant, arch) for arch in (Arch.AMD64, Arch.ARM64))
    differing = {
        name for name in {*one.versions, *other.versions} if one.versions.get(name) != other.versions.get(name)
    }
    said = {line.split("==")[0] for lock in (one, other) for line in lock.differs}
    assert differing <= said
