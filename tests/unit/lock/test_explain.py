"""Contradictions are told as people think: who against whom, in which file, and the relaxation that would decide."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ascend_images.errors import BadInput
from ascend_images.lock.components import Asked, Component, asked, distribution
from ascend_images.lock.demands import Demand, Kind
from ascend_images.lock.explain import compatible, contradictions, in_the_resolvers_words, refuse, relax_lines, together
from ascend_images.pins.platform import Arch
from tests.lock_kit import relax, source, variant


def demands(whose: str, *lines: str, kind: Kind = Kind.RUN) -> tuple[Demand, ...]:
    return tuple(
        Demand(whose, Requirement(line), f"requirements.txt:{n}", kind) for n, line in enumerate(lines, start=1)
    )


def stack(packages: dict[str, str], by_source: dict[str, tuple[Demand, ...]], **fields: object) -> Asked:
    sources = tuple(source(name, "1.0") for name in by_source)
    return asked(variant(packages, sources=sources, **fields), Arch.ARM64, by_source)


def of(one: Asked, name: str, version: str, *lines: str) -> Component:
    return distribution(one, name, version, map(Requirement, lines), "its own metadata")[0]


def told(one: Asked, *components: Component) -> str:
    return "\n".join(found.text(one.variant.stack) for found in contradictions(one, components))


def test_a_source_against_a_pin_names_both_the_file_and_the_line() -> None:
    assert told(stack({"numpy": "1.26.4"}, {"vllm": demands("vllm", "torch", "numpy>=1,>=2")})) == (
        "numpy:\n"
        "  vllm 1.0 asks for numpy>=1,>=2 (requirements.txt:2 of vllm)\n"
        "  numpy is pinned to 1.26.4 (versions.toml stack.small.packages)\n"
        "  this would lift that demand:\n"
        "    [[stack.small.relax]]\n"
        '    whose = "vllm"\n'
        '    demand = "numpy>=2"\n'
        '    reason = "…"'
    )


def test_who_asks_for_just_what_is_pinned_stands_beside_the_pin() -> None:
    one = stack(
        {"opencv": "4.11"}, {"vllm": demands("vllm", "opencv>=4.13"), "ascend": demands("ascend", "opencv<=4.11")}
    )
    assert "  ascend 1.0 asks for opencv<=4.11 (requirements.txt:1 of ascend)" in told(one)
    assert 'whose = "ascend"' not in told(one)


def test_a_pinned_distribution_against_a_pin_is_found_in_its_metadata() -> None:
    one = stack({"numpy": "1.26.4", "opencv-python-headless": "4.12.0.88"}, {})
    message = told(one, of(one, "opencv-python-headless", "4.12.0.88", 'numpy>=2; python_version >= "3.9"'))
    assert "opencv-python-headless 4.12.0.88 asks for numpy>=2 (its own metadata)" in message
    assert "numpy is pinned to 1.26.4" in message
    assert 'whose = "opencv-python-headless"\n    demand = "numpy>=2"' in message


def test_two_sources_against_each_other_need_no_pin() -> None:
    one = stack(
        {}, {"a": demands("a", "peft>=0.11,<0.20"), "b": demands("b", "peft>=0.20", "six"), "c": demands("c", "peft")}
    )
    assert told(one) == (
        "peft:\n"
        "  a 1.0 asks for peft>=0.11,<0.20 (requirements.txt:1 of a)\n"
        "  b 1.0 asks for peft>=0.20 (requirements.txt:1 of b)\n"
        "  one of these would decide it:\n"
        '    [[stack.small.relax]]\n    whose = "a"\n    demand = "peft<0.20"\n    reason = "…"\n'
        '    [[stack.small.relax]]\n    whose = "b"\n    demand = "peft>=0.20"\n    reason = "…"'
    )


def test_a_range_that_is_pinned_stands_against_a_demand_too() -> None:
    message = told(stack({"ray": ">=2.50"}, {"vllm": demands("vllm", "ray<=2.48.0")}))
    assert "ray>=2.50 is pinned (versions.toml stack.small.packages)" in message
    assert 'whose = "vllm"\n    demand = "ray<=2.48.0"' in message


def test_a_source_is_fixed_as_a_pin_is() -> None:
    one = asked(
        variant({}, sources=(source("transformers", "5.3.0.dev0"), source("vllm", "0.18.0"))),
        Arch.ARM64,
        {"transformers": (), "vllm": demands("vllm", "transformers>=4.56.0,<5")},
    )
    message = told(one)
    assert "transformers 5.3.0.dev0 is a source (versions.toml stack.small.sources)" in message
    assert 'demand = "transformers<5"' in message


def test_a_build_requirement_says_that_it_is_one() -> None:
    build = demands("megatron", "setuptools<80.0.0", "setuptools<80", kind=Kind.BUILD)
    message = told(stack({"setuptools": "80.10.2"}, {"megatron": build}))
    assert "megatron 1.0 asks for setuptools<80.0.0 to be built (requirements.txt:1 of megatron)" in message
    assert message.count("[[stack.small.relax]]") == 1, "one relaxation lifts both spellings"


def test_one_exact_version_of_what_is_excluded_wants_a_relaxation_of_the_whole_demand() -> None:
    one = stack({"triton-ascend": "3.2.2"}, {}, exclude={"triton": "shares a directory"})
    message = told(one, of(one, "triton-ascend", "3.2.2", "triton==3.5.0"))
    assert "triton is never installed: shares a directory (versions.toml stack.small.exclude)" in message
    assert 'whose = "triton-ascend"\n    demand = "triton"\n' in message
    assert told(one, of(one, "liger", "0.8", "triton>=2")) == ""


def test_a_rule_stands_against_a_demand_and_cannot_be_relaxed() -> None:
    message = told(stack({}, {"a": demands("a", "numpy>=2")}, cann="8.1.rc1"))
    assert "CANN 8.1.rc1 asks for numpy<2 (the rules)" in message
    assert 'whose = "a"' in message
    assert 'whose = "CANN' not in message


def test_a_relaxed_demand_is_no_contradiction() -> None:
    by_source = {"vllm": demands("vllm", "numpy>=2")}
    assert told(stack({"numpy": "1.26.4"}, by_source, relax=(relax("vllm", "numpy>=2"),))) == ""


def test_a_demand_for_another_platform_is_no_contradiction() -> None:
    by_source = {"vllm": demands("vllm", 'numpy>=2; platform_machine == "x86_64"')}
    assert told(stack({"numpy": "1.26.4"}, by_source)) == ""


def test_an_extra_that_somebody_asks_for_counts() -> None:
    one = stack({"numpy": "1.26.4", "ray": "2.48.0"}, {"verl": demands("verl", "ray[default]")})
    ray = of(one, "ray", "2.48.0", 'numpy>=2; extra == "default"', 'numpy>=3; extra == "other"')
    assert "ray 2.48.0 asks for numpy>=2 (its own metadata)" in told(one, ray)
    assert "numpy>=3" not in told(one, ray)


def test_contradictions_of_two_architectures_are_one() -> None:
    by_arch = []
    for arch in (Arch.ARM64, Arch.AMD64):
        one = asked(variant({"triton-ascend": "3.2.2"}, exclude={"triton": "no"}), arch, {})
        guard = of(
            one, "triton-ascend", "3.2.2", f"triton==3.{len(arch.kernel)}.0; platform_machine == '{arch.kernel}'"
        )
        by_arch += contradictions(one, (guard,))
    merged = together(by_arch)
    assert len(merged) == 1
    text = merged[0].text("small")
    assert "triton==3.7.0" in text
    assert "triton==3.6.0" in text
    assert text.count("[[stack.small.relax]]") == 1


def test_all_that_is_wrong_is_one_error_and_one_problem_alone_keeps_its_shape() -> None:
    refuse("a2", "small", ())
    one = stack({"numpy": "1", "six": "1"}, {"a": demands("a", "numpy>2", "six>2")})
    gone = BadInput("no index has x==1", wanted="another", do="mend the pin of x")
    with pytest.raises(BadInput) as failure:
        refuse("a2", "small", contradictions(one, ()), gone)
    assert str(failure.value).startswith("a2: 2 contradictions\nnumpy:\n")
    assert "\nsix:\n" in str(failure.value)
    assert "no index has x==1\n  mend the pin of x" in str(failure.value)
    with pytest.raises(BadInput) as failure:
        refuse("a2", "small", (), gone)
    assert failure.value is gone


def test_a_stack_whose_name_is_no_bare_key_is_quoted() -> None:
    assert relax_lines("ms-swift", "a", "b")[0] == "[[stack.ms-swift.relax]]"
    assert relax_lines("verl-qwen3.5", "a", "b")[0] == '[[stack."verl-qwen3.5".relax]]'


def test_what_only_the_resolver_saw_is_told_with_the_places_it_speaks_of() -> None:
    one = stack({"markdown-it-py": "1.0.0"}, {"vllm": demands("vllm", "mistral_common[image]>=1.10.0", "regex>=1")})
    pinned = of(one, "markdown-it-py", "1.0.0", "attrs>=19,<21", "six>=1")
    words = (
        "No solution found\n  Because mistral-common>=1.10.0 depends on attrs>=22 and markdown-it-py==1.0.0 depends\n"
        "  on attrs<21 and versions-toml depends on vllm and markdown-it-py==1.0.0, this is unsatisfiable."
    )
    message = str(in_the_resolvers_words(one, (pinned,), words))
    assert "vllm 1.0 asks for mistral_common[image]>=1.10.0 (requirements.txt:1 of vllm)" in message
    assert "markdown-it-py 1.0.0 asks for attrs>=19,<21 (its own metadata)" in message
    assert "markdown-it-py==1.0.0 is pinned (versions.toml stack.small.packages)" in message
    assert "regex" not in message
    assert "six" not in message
    assert "versions-toml" not in message
    assert message.index('whose = "markdown-it-py"') < message.index('whose = "vllm"')


def test_a_hint_on_settings_that_nobody_sets_is_left_out_and_a_later_day_is_advised() -> None:
    words = (
        "No solution found\nhint: `six` was filtered by `exclude-newer` to only include packages uploaded before "
        "2026-02-01T00:00:00Z. Consider using `exclude-newer-package` to override the cutoff for this package."
    )
    error = in_the_resolvers_words(stack({}, {"a": demands("a", "six>2")}), (), words, date(2026, 1, 31))
    assert "only include packages uploaded before 2026-02-01" in error.found
    assert "exclude-newer-package" not in str(error)
    assert error.do.startswith("take a later day than 2026-01-31 (--as-of), change a pin, or lift one demand")


OPERATORS = ("==", "!=", ">=", "<=", ">", "<", "~=")
numbers = st.integers(0, 3)
clauses = st.builds(
    lambda operator, a, b, wild: f"{operator}{a}.{b}{'.*' if wild and operator in ('==', '!=') else ''}",
    st.sampled_from(OPERATORS), numbers, numbers, st.booleans(),
)  # fmt: skip
specifiers = st.lists(clauses, max_size=3).map(lambda found: Requirement("x" + ",".join(found)))
GRID = [Version(f"{a}.{b}{c}") for a in range(5) for b in range(6) for c in ("", ".1", ".9", ".0.1")]


@given(specifiers, specifiers)
def test_two_demands_are_incompatible_only_if_no_version_meets_both(one: Requirement, other: Requirement) -> None:
    both = SpecifierSet(f"{one.specifier},{other.specifier}".strip(","))
    if any(both.contains(version, prereleases=True) for version in GRID):
        assert compatible(one, other)
    assert compatible(one, other) == compatible(other, one)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("==2.9.0", "==2.9.0.post2", False),
        ("==2.9.0+cpu", "==2.9.0", True),
        ("<2", ">=2", False),
        ("<2", ">=2.0.dev0", False),
        ("<=1.26.0", ">1.25", True),
        (">1.26.0", "<1.26.1", True),
        ("==1.26.*", ">1.26", True),
        ("==1.26.*", "!=1.26.0", True),
        ("~=1.4.2", ">=1.5", False),
        ("<5,!=4.*", ">=4", False),
        ("<5,!=4.*", ">=3", True),
        ("===weird", "", False),
        ("", "", True),
        ("==1!2.0", ">=5", True),
    ],
)
def test_known_pairs(one: str, other: str, both: bool) -> None:
    assert compatible(Requirement(f"x{one}"), Requirement(f"x{other}")) is both
