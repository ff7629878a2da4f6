"""What a build costs: counted once, known where it is known, refused where the machine has not got it."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from ascend_images.errors import BadInput, MissingTool
from ascend_images.images.builder import Builder
from ascend_images.images.cost import GB, MB, UNPACKED_COPIES, Cost, Costs, cost_of, require_architectures, require_room
from ascend_images.images.engine import Answer, Engine, ImageStore
from ascend_images.images.gate import load_lock
from ascend_images.images.plan import Choices
from ascend_images.images.readback import Config, Made
from ascend_images.images.record import record_of, write_record
from ascend_images.pins.lockfile import LockedPackage
from ascend_images.pins.platform import Arch
from ascend_images.pins.resolve import resolve
from tests.pins_kit import committed

PINS = committed()
OWN = Builder("default", "docker", frozenset({"linux/amd64"}), frozenset({"linux/amd64", "linux/arm64"}))
ENGINE = Engine(
    "26", "0.13", ImageStore.CONTAINERD, "overlayfs", Path("/nowhere"), "default", "ssh://x", Arch.AMD64, 2, 24 * GB
)
HASH = (f"sha256:{'0' * 64}",)


def engine_with(*images: str):
    def run(command: Sequence[str]) -> Answer:
        return Answer(0 if command[-1] in images else 1, "", "")

    return run


def costs(*plans, images: Sequence[str] = (), builder: Builder = OWN, at_once: int = 1) -> Costs:
    locks = [load_lock(plan) for plan in plans]
    return cost_of(plans, locks, engine=ENGINE, builder=builder, at_once=at_once, run=engine_with(*images))


def bare(name: str = "a2"):
    """A variant with nothing but its packages."""
    return msgspec.structs.replace(resolve(PINS, name), sources=(), system_packages=())


def test_disk_is_three_times_what_is_added_its_compressed_size_and_the_base() -> None:
    cost = Cost(name="x", added=10 * GB, new=10 * GB, base=7 * GB, memory=0, emulated=False)
    assert UNPACKED_COPIES == 3
    assert 3 * 10 * GB + 7 * GB < cost.disk < 4 * 10 * GB + 7 * GB


def test_a_real_stack_is_of_the_size_such_stacks_were_measured_to_have(plan_of) -> None:
    """Some 265 packages with triton, as real, made a layer of 4.6 GB; ms-swift's lock has about 350."""
    root = Path(__file__).parents[3]
    lock_text = (root / "locks" / "a2.amd64.txt").read_text()
    plan = plan_of(bare())
    plan.lock.write_text(lock_text)
    added = costs(plan).images[0].added
    assert 3 * GB < added < 8 * GB


def test_a_base_that_the_engine_has_costs_nothing(plan_of) -> None:
    plan = plan_of(bare())
    assert costs(plan).images[0].base > 5 * GB
    assert costs(plan, images=[plan.base]).images[0].base == 0


def test_a_base_that_is_a_folder_is_as_large_as_that(plan_of, tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "f").write_bytes(b"x" * 1000)
    plan = plan_of(bare(), contexts={"cann": str(tmp_path / "base")})
    assert costs(plan).images[0].base == 1000


def test_two_chips_with_equal_locks_count_their_packages_once_and_each_its_base(plan_of) -> None:
    first, second = costs(plan_of(bare("a2")), plan_of(bare("a3"))).images
    assert first.new == first.added == second.added > 0
    assert second.new == 0
    assert second.base > 0


def test_another_lock_is_not_counted_as_the_same(plan_of) -> None:
    other = {"packages": (LockedPackage("seven", "1", HASH),)}
    _, second = costs(plan_of(bare("a2")), plan_of(bare("a3"), lock=other)).images
    assert second.new == second.added


def test_a_base_of_several_images_is_counted_once(plan_of) -> None:
    cann = {"cann": "docker-image://standin:1"}
    first, second = costs(plan_of(bare("a2"), contexts=cann), plan_of(bare("a3"), contexts=cann)).images
    assert first.base > 0
    assert second.base == 0


def test_wheels_that_are_brought_count_as_they_are(plan_of, tmp_path: Path) -> None:
    wheels = tmp_path / "w"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "six-1.17.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("six.py", "x")
    small = costs(plan_of(bare(), choices=Choices(wheels=wheels))).images[0].added
    assert small < 10_000
    assert costs(plan_of(bare())).images[0].added >= MB


def test_sources_that_are_compiled_cost_more_in_disk_and_memory(plan_of) -> None:
    variant = resolve(PINS, "a2")
    without = msgspec.structs.replace(variant, sources=tuple(one for one in variant.sources if not one.compiles))
    whole, less = costs(plan_of(variant)).images[0], costs(plan_of(without)).images[0]
    assert whole.added - less.added >= GB
    assert whole.memory > less.memory


def test_a_cann_release_laid_over_another_costs_its_packages(plan_of) -> None:
    overlay = msgspec.structs.replace(resolve(PINS, "a2-verl-qwen3.5-overlay"), sources=(), system_packages=())
    assert costs(plan_of(overlay)).images[0].added > 10 * GB


def built_before(plan) -> str:
    lock = load_lock(plan)
    made = Made(digest="sha256:old", manifest="sha256:old", config_digest="", config=Config(), bytes=None, layers=None)
    write_record(plan.record, record_of(plan, made, lock, seconds=1))
    return made.digest


def test_what_the_engine_has_of_an_earlier_build_of_this_lock_costs_nothing_again(plan_of) -> None:
    plan = plan_of(bare())
    digest = built_before(plan)
    assert costs(plan, images=[digest]).images[0].new == 0
    assert costs(plan).images[0].new > 0, "the image was removed since"


def test_an_earlier_build_of_another_lock_or_a_broken_record_counts_for_nothing(plan_of) -> None:
    plan = plan_of(bare())
    digest = built_before(plan)
    other = plan_of(bare(), lock={"inputs": f"sha256:{'9' * 64}"})
    assert costs(other, images=[digest]).images[0].new > 0
    plan.record.write_text("{")
    assert costs(plan, images=[digest]).images[0].new > 0


def total(free: int | None, *, disk: int = 100 * GB, memory: int = 4 * GB, images: int = 1) -> Costs:
    cost = Cost(name="x", added=GB, new=0, base=disk, memory=memory, emulated=False)
    return Costs(images=(cost,) * images, at_once=images, free=free, engine_memory=24 * GB)


def test_too_small_a_disk_is_refused_with_what_is_needed() -> None:
    with pytest.raises(MissingTool, match=r"has 99\.0 GB free") as error:
        require_room(total(99 * GB), ENGINE)
    assert "about 100.0 GB: what is added three times unpacked" in error.value.wanted
    assert "docker system df" in error.value.do
    assert error.value.exit_code == 3


@pytest.mark.parametrize("free", [100 * GB, None])
def test_a_disk_that_is_large_enough_or_cannot_be_seen_is_not_refused(free: int | None) -> None:
    require_room(total(free), ENGINE)


def test_the_cost_is_said_before_anything_starts(plan_of) -> None:
    text = str(costs(plan_of("a2"), plan_of("a2", Arch.ARM64), at_once=2))
    assert "cost: a2 amd64: about " in text
    assert "cost: a2 arm64: about " in text
    assert "EMULATED, many times slower" in text.splitlines()[1]
    assert "which cannot be seen from here" in text
    assert "of memory with 2 at a time" in text


def test_too_little_memory_is_said_and_not_refused() -> None:
    text = str(total(None, memory=20 * GB, images=2))
    assert "note: the engine's machine has 24.0 GB of memory (fewer at a time: --jobs 1)" in text


def test_emulation_that_nobody_typed_is_refused_with_both_ways_out(plan_of) -> None:
    with pytest.raises(BadInput, match="a machine of another architecture") as error:
        require_architectures([plan_of("a2", Arch.ARM64)], OWN)
    assert "--arch arm64 to emulate it" in error.value.do


def test_emulation_that_was_typed_is_let_through(plan_of) -> None:
    require_architectures([plan_of("a2", Arch.ARM64, choices=Choices(arch_typed=True)), plan_of("a2")], OWN)


def test_an_architecture_without_an_emulator_is_refused_even_when_typed(plan_of) -> None:
    without = Builder("default", "docker", frozenset({"linux/amd64"}), frozenset({"linux/amd64", "linux/386"}))
    with pytest.raises(MissingTool, match="cannot run aarch64 programs") as error:
        require_architectures([plan_of("a2", Arch.ARM64, choices=Choices(arch_typed=True))], without)
    assert "qemu-aarch64" in error.value.wanted
    assert "qemu-user-static" in error.value.do


def test_a_builder_with_a_node_of_that_architecture_needs_no_typing(plan_of) -> None:
    farm = Builder(
        "farm", "remote", frozenset({"linux/amd64", "linux/arm64"}), frozenset({"linux/amd64", "linux/arm64"})
    )
    require_architectures([plan_of("a2", Arch.ARM64)], farm)
