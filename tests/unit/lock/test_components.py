"""What asks and what is pinned, put together from the pins, the sources and the rules."""

import pytest
from packaging.requirements import Requirement

from ascend_images.errors import BadInput
from ascend_images.lock.components import active, asked, asked_extras, distribution
from ascend_images.lock.demands import Demand
from ascend_images.lock.target import Target
from ascend_images.pins.platform import Arch
from tests.lock_kit import relax, source, variant

ARM = Target(Arch.ARM64, "3.12")


def demands(whose: str, *lines: str) -> tuple[Demand, ...]:
    return tuple(Demand(whose, Requirement(line), f"requirements.txt:{n}") for n, line in enumerate(lines, start=1))


def test_a_source_asks_for_what_its_relaxations_leave() -> None:
    one = variant({}, sources=(source("vllm", "0.18.0", local_version="empty"),), relax=(relax("vllm", "numpy<2"),))
    vllm = asked(one, Arch.ARM64, {"vllm": demands("vllm", "numpy>=1,<2", "regex")}).sources[0]
    assert vllm.label == "vllm 0.18.0+empty"
    assert [str(entry.left) for entry in active(vllm, ARM)] == ["numpy>=1", "regex"]


@pytest.mark.parametrize("whose", ["Megatron-LM", "megatron_lm", "megatron-core", "Megatron.Core"])
def test_a_relaxation_names_a_source_by_its_name_or_its_distribution_in_any_spelling(whose: str) -> None:
    one = variant({}, sources=(source("Megatron-LM", distribution="megatron-core"),), relax=(relax(whose, "numpy<2"),))
    found = asked(one, Arch.ARM64, {"Megatron-LM": demands("Megatron-LM", "numpy<2")})
    assert [str(entry.left) for entry in found.sources[0].settled] == ["numpy"]


def test_a_relaxation_of_nobody_is_refused_with_the_nearest_name() -> None:
    one = variant({"torch": "2.9.0"}, sources=(source("vllm"),), relax=(relax("vlm", "numpy<2"),))
    with pytest.raises(BadInput, match='unknown component "vlm"') as failure:
        asked(one, Arch.ARM64, {"vllm": ()})
    assert 'did you mean "vllm"?' in str(failure.value)


def test_a_relaxation_of_a_package_pinned_to_a_range_is_refused() -> None:
    one = variant({"nvidia-modelopt": ">=0.37"}, relax=(relax("nvidia-modelopt", "numpy<2"),))
    with pytest.raises(BadInput, match=r"pin nvidia-modelopt exactly in stack\.small\.packages"):
        asked(one, Arch.ARM64, {})


def test_all_relaxations_of_sources_that_lift_nothing_are_told_at_once() -> None:
    one = variant({}, sources=(source("vllm"),), relax=(relax("vllm", "numpy<2"), relax("vllm", "scipy")))
    with pytest.raises(BadInput) as failure:
        asked(one, Arch.ARM64, {"vllm": demands("vllm", "numpy>=2")})
    assert 'demand "numpy<2", lifts nothing' in str(failure.value)
    assert "vllm asks for numpy>=2 (requirements.txt:1)" in str(failure.value)
    assert 'demand "scipy", lifts nothing' in str(failure.value)


def test_a_pin_is_a_version_or_a_range_and_x86_64_takes_the_cpu_build_of_the_torch_trio() -> None:
    one = variant({"torch": "2.9.0", "Torch_NPU": "2.9.0.post02", "ray": ">=2.41,<3"})
    assert {name: str(pin.requirement) for name, pin in asked(one, Arch.AMD64, {}).pins.items()} == {
        "torch": "torch==2.9.0+cpu",
        "torch-npu": "torch-npu==2.9.0.post2",
        "ray": "ray<3,>=2.41",
    }
    pins = asked(one, Arch.ARM64, {}).pins
    assert (pins["torch"].version, pins["ray"].version) == ("2.9.0", "")


def test_a_pin_that_is_neither_version_nor_range_is_refused() -> None:
    with pytest.raises(BadInput, match=r"versions\.toml stack\.small\.packages: ray: not a requirement"):
        asked(variant({"ray": "newest"}), Arch.ARM64, {})


@pytest.mark.parametrize(
    ("name", "reason"),
    [("nvidia-nccl-cu12", "CUDA only"), ("opencv-python", "a display"), ("opencv-python-headless", None)],
)
def test_exclusions_are_names_or_beginnings_of_names_in_any_spelling(name: str, reason: str | None) -> None:
    one = variant({}, exclude={"nvidia-*": "CUDA only", "OpenCV_Python": "a display"})
    assert asked(one, Arch.ARM64, {}).excluded(name) == reason


def test_what_a_source_brings_is_never_excluded() -> None:
    one = variant(
        {}, exclude={"megatron-core": "a source"}, sources=(source("Megatron-LM", distribution="megatron-core"),)
    )
    assert asked(one, Arch.ARM64, {"Megatron-LM": ()}).excluded("megatron-core") is None


def test_the_rules_ask_for_the_numpy_that_cann_works_with() -> None:
    old = asked(variant({}, cann="8.1.rc1"), Arch.ARM64, {}).rules
    assert [str(entry.demand.requirement) for rule in old for entry in rule.settled] == ["numpy<2"]
    assert old[0].label == "CANN 8.1.rc1"
    assert not old[0].relaxable
    assert asked(variant({}, cann="9.9.0"), Arch.ARM64, {}).rules == ()


def test_extras_are_followed_from_one_component_to_the_next() -> None:
    one = asked(
        variant({}, sources=(source("ms-swift"),)), Arch.ARM64, {"ms-swift": demands("ms-swift", "evalscope[vlm]")}
    )
    evalscope, _ = distribution(
        one, "evalscope", "1.0", map(Requirement, ['ms-vlm[all]; extra == "vlm"', 'x[y]; extra == "z"']), ""
    )
    everyone = (*one.sources, evalscope)
    assert asked_extras(everyone, ARM) == {"evalscope": {"vlm"}, "ms-vlm": {"all"}}
    assert [entry.demand.name for entry in active(evalscope, ARM, ("vlm",))] == ["ms-vlm"]


def test_a_package_without_dependencies_asks_for_nothing() -> None:
    one = asked(variant({"ms-agent": "1.6.0"}, no_dependencies={"ms_agent": "a part needs none"}), Arch.ARM64, {})
    agent, _ = distribution(one, "ms-agent", "1.6.0", [Requirement("edge-tts")], "its own metadata")
    assert agent.without == "a part needs none"
    assert active(agent, ARM) == []


def test_a_distribution_tells_which_relaxations_lift_nothing_of_it() -> None:
    one = asked(
        variant({"opencv": "4.13"}, relax=(relax("OpenCV", "numpy>=2"), relax("opencv", "scipy"))), Arch.ARM64, {}
    )
    found, idle = distribution(one, "opencv", "4.13", [Requirement("numpy>=2")], "its own metadata")
    assert str(found.settled[0].left) == "numpy"
    assert [entry.demand for entry in idle] == ["scipy"]
