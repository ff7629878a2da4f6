"""A finished set is held against everything that is asked of it; what is left is what `pip check` may say."""

from packaging.requirements import Requirement

from ascend_images.lock.check import Verdict, check
from ascend_images.lock.components import Asked, Component, asked, distribution
from ascend_images.lock.demands import Demand, Kind
from ascend_images.lock.explain import of_unmet
from ascend_images.pins.lockfile import Conflict
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Checkout
from tests.lock_kit import relax, source, variant


def demand(whose: str, line: str, kind: Kind = Kind.RUN) -> Demand:
    return Demand(whose, Requirement(line), "requirements.txt:1", kind)


def stack(*sources: tuple[Checkout, tuple[Demand, ...]], **fields: object) -> Asked:
    one = variant({}, sources=tuple(one for one, _ in sources), **fields)
    return asked(one, Arch.ARM64, {one.name: asks for one, asks in sources})


def of(one: Asked, name: str, version: str, *lines: str) -> Component:
    return distribution(one, name, version, map(Requirement, lines), "its own metadata")[0]


def verdict(one: Asked, components: tuple[Component, ...] = (), **versions: str) -> Verdict:
    return check(one, components, {name.replace("_", "-"): version for name, version in versions.items()})


def test_a_set_that_meets_everything_leaves_nothing_to_say() -> None:
    one = stack((source("vllm"), (demand("vllm", "numpy>=1"),)))
    assert verdict(one, (of(one, "numpy", "1.26.4"),), numpy="1.26.4") == Verdict()


def test_a_relaxed_demand_is_a_conflict_in_its_original_words() -> None:
    lifted = relax("vllm", "transformers<5", "a new model")
    vllm = source("vllm", "0.18.0", local_version="empty")
    one = stack((vllm, (demand("vllm", "transformers>=4.56.0,<5"),)), relax=(lifted,))
    found = verdict(one, transformers="5.3.0")
    assert found.conflicts == (Conflict("vllm", "0.18.0+empty", "transformers>=4.56.0,<5", "5.3.0", "a new model"),)
    assert found.used == (lifted,)
    assert not found.unexplained


def test_a_relaxation_of_a_demand_that_is_met_is_not_used() -> None:
    one = stack((source("vllm"), (demand("vllm", "numpy<=1.26.0"),)), relax=(relax("vllm", "numpy<=1.26.0"),))
    assert verdict(one, numpy="1.26.0") == Verdict()


def test_what_is_excluded_is_a_conflict_with_the_exclusions_reason() -> None:
    one = stack(exclude={"triton": "shares a directory"})
    found = verdict(one, (of(one, "liger-kernel", "0.8.5", "triton>=2.3.1"),), liger_kernel="0.8.5")
    assert found.conflicts == (Conflict("liger-kernel", "0.8.5", "triton>=2.3.1", "", "shares a directory"),)


def test_what_goes_without_dependencies_has_a_conflict_for_each_that_is_missing_or_another() -> None:
    one = variant({"ms-agent": "1.6.0"}, no_dependencies={"ms-agent": "a part needs none"})
    there = asked(one, Arch.ARM64, {})
    agent = of(there, "ms-agent", "1.6.0", "edge_tts", "numpy>=2", "six")
    found = verdict(there, (agent,), ms_agent="1.6.0", numpy="1.26.4", six="1.0")
    assert [(conflict.demand, conflict.found) for conflict in found.conflicts] == [
        ("edge_tts", ""),
        ("numpy>=2", "1.26.4"),
    ]
    assert {conflict.reason for conflict in found.conflicts} == {"a part needs none"}


def test_a_source_on_pythonpath_is_missing_for_pip_and_its_own_demands_are_not_seen_by_it() -> None:
    megatron = source("Megatron-LM", "0.15.3", distribution="megatron-core", install="pythonpath")
    one = stack(
        (megatron, (demand("Megatron-LM", "numpy<1"),)),
        (source("mcore-bridge"), (demand("mcore-bridge", "megatron-core>=0.15"),)),
        relax=(relax("Megatron-LM", "numpy<1"),),
    )
    found = verdict(one, numpy="1.26.4")
    assert [(conflict.whose, conflict.demand, conflict.found) for conflict in found.conflicts] == [
        ("mcore-bridge", "megatron-core>=0.15", "")
    ]
    assert "PYTHONPATH" in found.conflicts[0].reason
    assert [lifted.whose for lifted in found.used] == ["Megatron-LM"]


def test_a_build_requirement_and_a_demand_of_an_extra_are_not_seen_by_pip() -> None:
    one = stack(
        (
            source("Megatron-LM"),
            (demand("Megatron-LM", "setuptools<80", Kind.BUILD), demand("Megatron-LM", "ray[tune]")),
        ),
        relax=(relax("Megatron-LM", "setuptools<80"),),
        exclude={"pandas": "not here"},
    )
    ray = of(one, "ray", "2.48.0", 'pandas; extra == "tune"')
    found = verdict(one, (ray,), setuptools="80.10.2", ray="2.48.0")
    assert (found.conflicts, found.unexplained) == ((), ())
    assert len(found.used) == 1


def test_what_nothing_explains_is_told_as_a_contradiction() -> None:
    one = stack((source("vllm", "0.18.0"), (demand("vllm", "numpy>=2"), demand("vllm", "scipy"))))
    pandas = of(one, "pandas", "3.1.1", "numpy>=2")
    found = verdict(one, (pandas,), numpy="1.26.4", pandas="3.1.1")
    assert not found.conflicts
    told = [contradiction.text("small") for contradiction in of_unmet(found.unexplained, one)]
    assert len(told) == 2
    assert "vllm 0.18.0 asks for numpy>=2 (requirements.txt:1 of vllm)" in told[0]
    assert "pandas 3.1.1 asks for numpy>=2 (its own metadata)" in told[0]
    assert "numpy 1.26.4 is in the set" in told[0]
    assert 'whose = "vllm"' in told[0]
    assert 'whose = "pandas"' not in told[0], "what is not pinned cannot be named by a relaxation"
    assert "scipy: it is not in the set" in told[1]


def test_an_unknown_version_of_a_source_is_not_held_against_anybody() -> None:
    one = stack((source("bridge", ""), ()), (source("verl"), (demand("verl", "bridge>=0.5"),)))
    assert verdict(one) == Verdict()


def test_conflicts_are_ordered_and_each_is_told_once() -> None:
    relaxed = (relax("b", "numpy>=2"), relax("a", "numpy>=2"))
    twice = (demand("b", "numpy>=2"), demand("b", "numpy >= 2"))
    one = stack((source("b"), twice), (source("a"), (demand("a", "numpy>=2"),)), relax=relaxed)
    assert [conflict.whose for conflict in verdict(one, numpy="1.26.4").conflicts] == ["a", "b"]
