"""A relaxation lifts the one demand it names; what a set does not meet is found and explained, or not."""

import pytest
from packaging.requirements import Requirement

from ascend_images.errors import BadInput
from ascend_images.lock.demands import (
    Demand,
    Have,
    Settled,
    clauses_broken,
    clauses_text,
    is_exact,
    lifts_nothing,
    met,
    parse_requirement,
    requirement_text,
    settle,
    unmet_demands,
)
from ascend_images.lock.target import Target
from ascend_images.pins.platform import Arch
from tests.lock_kit import relax

ARM = Target(Arch.ARM64, "3.12")


def demand(line: str, whose: str = "vllm") -> Demand:
    return Demand(whose, Requirement(line), "requirements.txt:1")


@pytest.mark.parametrize(
    ("line", "lifted", "left"),
    [
        ("transformers>=4.56.0,<5", "transformers<5", "transformers>=4.56.0"),
        ("transformers>=4.56.0,<5", "transformers<5.0", "transformers>=4.56.0"),
        ("transformers>=4.56.0,<5", "transformers<5,>=4.56.0", "transformers"),
        ("transformers>=4.56.0,<5", "transformers", None),
        ("opencv-python-headless>=4.13.0", "opencv_python_headless>=4.13", "opencv-python-headless"),
        ('numpy>=2; python_version >= "3.9"', "numpy>=2", 'numpy; python_version >= "3.9"'),
        ('triton==3.5.0; platform_machine == "aarch64"', "triton", None),
        ("ray[default]>=2.41.0", "ray>=2.41.0", "ray[default]"),
    ],
)
def test_a_relaxation_lifts_the_clauses_it_names_and_a_bare_name_the_whole_demand(
    line: str, lifted: str, left: str | None
) -> None:
    settled, idle = settle([demand(line)], [relax("vllm", lifted)])
    assert not idle
    assert settled[0].left == (Requirement(left) if left else None)
    assert settled[0].reason == "seen to work"


@pytest.mark.parametrize(
    "lifted", ["transformers<4", "transformers<5,>=4.57", "numpy", 'transformers<5; python_version > "3.11"']
)
def test_a_relaxation_that_names_another_demand_lifts_nothing(lifted: str) -> None:
    asked = demand("transformers>=4.56.0,<5")
    settled, idle = settle([asked], [relax("vllm", lifted)])
    assert settled == (Settled(asked, asked.requirement),)
    assert [entry.demand for entry in idle] == [lifted]


def test_a_relaxation_leaves_other_demands_on_the_same_package_as_they_are() -> None:
    demands = [demand("numpy>=2.0.0"), demand("numpy<2.0.0")]
    settled, idle = settle(demands, [relax("verl", "numpy>=2.0.0")])
    assert not idle
    assert [str(entry.left) for entry in settled] == ["numpy", "numpy<2.0.0"]


def test_the_same_demand_in_two_places_is_lifted_in_both() -> None:
    settled, _ = settle([demand("setuptools<80.0.0"), demand("setuptools<80")], [relax("vllm", "setuptools<80")])
    assert [str(entry.left) for entry in settled] == ["setuptools", "setuptools"]


def test_two_relaxations_may_lift_two_clauses_of_one_demand() -> None:
    settled, idle = settle([demand("peft>=0.11,<0.20")], [relax("vllm", "peft<0.20"), relax("vllm", "peft>=0.11")])
    assert (str(settled[0].left), idle) == ("peft", ())


def test_a_relaxation_that_is_no_requirement_is_refused() -> None:
    with pytest.raises(BadInput, match="not a requirement: numpy=2"):
        settle([demand("numpy>=2")], [relax("vllm", "numpy=2")])


def test_a_relaxation_that_lifts_nothing_is_told_what_its_component_asks_for() -> None:
    error = lifts_nothing(relax("vllm", "numpy<2"), [demand("numpy>=2"), demand("torch")], stack="small")
    assert str(error) == (
        'stack small: the relaxation of vllm, demand "numpy<2", lifts nothing\n'
        "  wanted: vllm asks for numpy>=2 (requirements.txt:1)\n"
        '  next:   mend or delete the [[stack.small.relax]] entry with whose = "vllm"'
    )
    error = lifts_nothing(relax("vllm", "scipy"), [demand("torch")], stack="small")
    assert error.wanted == "vllm asks for no scipy at all"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("transformers<5,>=4.56.0", "transformers>=4.56.0,<5"),
        ("protobuf!=6.30.*,>=5.29.6", "protobuf>=5.29.6,!=6.30.*"),
        ("ray[default] >= 2.41", "ray[default]>=2.41"),
        ('six>=1.16; python_version > "3.11"', "six>=1.16"),
    ],
)
def test_a_requirement_is_written_as_people_write_it(line: str, text: str) -> None:
    assert requirement_text(Requirement(line)) == text


def test_clauses_are_told_apart_by_whether_a_version_meets_them() -> None:
    requirement = Requirement("transformers[torch]>=4.56.0,<5,!=5.3.*")
    broken = clauses_broken(requirement, "5.3.0")
    assert clauses_text(requirement, broken) == "transformers<5,!=5.3.*"
    assert clauses_text(requirement) == "transformers>=4.56.0,<5,!=5.3.*"


@pytest.mark.parametrize(
    ("line", "version", "expected"),
    [
        ("transformers>=4.57.4", "5.3.0.dev0", True),
        ("torch==2.9.0", "2.9.0+cpu", True),
        ("torch==2.9.0+cpu", "2.9.0", False),
        ("torch-npu==2.9.0", "2.9.0.post2", False),
        ("verl>=0.9", "", True),
    ],
)
def test_development_and_local_versions_count_and_an_unknown_one_is_not_held_against_anybody(
    line: str, version: str, expected: bool
) -> None:
    assert met(Requirement(line), version) is expected


@pytest.mark.parametrize(
    ("line", "exact"), [("a==1.0", True), ("a===1.0", True), ("a==1.*", False), ("a>=1", False), ("a", False)]
)
def test_only_one_version_is_exact(line: str, exact: bool) -> None:
    assert is_exact(Requirement(line)) is exact


def test_what_cannot_be_parsed_names_its_place() -> None:
    with pytest.raises(BadInput, match=r"vllm: requirements\.txt:3: not a requirement: numpy =< 2"):
        parse_requirement("numpy =< 2", "vllm: requirements.txt:3")


def unmet(line: str, have: dict[str, Have], **fields: object) -> list[tuple[str, str, str]]:
    settled, _ = settle([demand(line)], fields.pop("relaxed", ()))  # type: ignore[arg-type]
    arguments = {"excluded": lambda name: None, "complete": True, **fields}
    found = unmet_demands(settled, have, ARM, **arguments)  # type: ignore[arg-type]
    return [(entry.found, entry.reason, entry.problem) for entry in found]


NUMPY = {"numpy": Have("1.26.4", "numpy 1.26.4 is in the set")}


def test_a_demand_that_is_met_is_no_finding() -> None:
    assert unmet("numpy<2", NUMPY) == []


def test_a_demand_for_another_platform_is_no_finding() -> None:
    assert unmet('numpy>=2; platform_machine == "x86_64"', NUMPY) == []


def test_a_demand_of_an_extra_counts_when_the_extra_is_asked_for() -> None:
    assert unmet('numpy>=2; extra == "all"', NUMPY) == []
    assert unmet('numpy>=2; extra == "all"', NUMPY, extras=("all",)) != []


def test_a_demand_that_nothing_explains_has_no_reason() -> None:
    assert unmet("numpy>=2", NUMPY) == [("1.26.4", "", "numpy 1.26.4 is in the set")]
    assert unmet("scipy", NUMPY) == [("", "", "it is not in the set")]


def test_a_relaxation_explains_the_clauses_it_lifts_and_no_others() -> None:
    assert unmet("numpy>=2", NUMPY, relaxed=[relax("vllm", "numpy>=2")])[0][1] == "seen to work"
    assert unmet("numpy>=2,!=1.26.4", NUMPY, relaxed=[relax("vllm", "numpy>=2")])[0][1] == ""


def test_an_exclusion_explains_an_absence_but_not_that_of_one_exact_version() -> None:
    def excluded(name: str) -> str:
        return "shares a directory"

    assert unmet("triton>=2.3", {}, excluded=excluded)[0][1] == "shares a directory"
    assert unmet("triton==3.5.0", {}, excluded=excluded)[0][1] == ""
    lifted = unmet("triton==3.5.0", {}, excluded=excluded, relaxed=[relax("vllm", "triton")])
    assert lifted[0][1] == "seen to work"


def test_going_without_dependencies_explains_all() -> None:
    for line in ("numpy>=2", "scipy"):
        assert unmet(line, NUMPY, without="uses a part that needs none")[0][1] == "uses a part that needs none"


def test_a_source_on_pythonpath_is_there_but_not_for_pip() -> None:
    have = {"megatron-core": Have("0.15.3", "Megatron-LM 0.15.3 is a source", registered=False, source=True)}
    found = unmet("megatron-core>=0.15", have)
    assert found[0][:2] == (
        "",
        "Megatron-LM 0.15.3 is a source: it is found on PYTHONPATH, where pip sees no version of it",
    )
    assert unmet("megatron-core>=0.16", have)[0][1] == ""
