"""Other versions of pinned packages held against what everybody asks for, without resolving anything."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.errors import LookupIncomplete
from ascend_images.lock.demands import Demand, parse_requirement
from ascend_images.lock.lock import lock_variant
from ascend_images.lock.means import Means
from ascend_images.lock.release import IndexUnreachableError
from ascend_images.lock.whatif import Against, Remembering, against, standing
from ascend_images.pins.model import Index
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant
from tests.lock_kit import FakeIndex, means, relax, source, variant

ARM = Arch.ARM64


def asks(whose: str, *lines: str) -> dict[str, list[Demand]]:
    return {
        whose: [Demand(whose, parse_requirement(line, "requirements.txt:1"), "requirements.txt:1") for line in lines]
    }


def speaks(index: FakeIndex, before: Variant, moved: dict[str, str], demands: Any = None) -> Against:
    known = standing(before, ARM, demands or {}, means(index, Path("nowhere")))
    fields = {field: getattr(before, field) for field in ("sources", "relax", "exclude", "indexes", "metadata", "cann")}
    return against(known, variant({**before.packages, **moved}, **fields))


def told(found: Against) -> list[str]:
    return [f"{one.package}: {'; '.join(map(str, one.against))}" for one in found.contradictions]


def small() -> FakeIndex:
    index = FakeIndex().add("numpy==1.26.4").add("numpy==2.2.6").add("opencv==4.11", "numpy>=1.21")
    return index.add("opencv==4.12", "numpy>=2", "six<2").add("pandas==2.2", "numpy<2.1", "six>=1")


PINNED = {"numpy": "1.26.4", "opencv": "4.11", "pandas": "2.2"}


def test_a_version_that_asks_for_another_pin_is_told_with_the_chain() -> None:
    found = speaks(small(), variant(PINNED), {"opencv": "4.12"})
    assert told(found) == ["numpy: opencv 4.12 asks for numpy>=2 (its own metadata)"]
    assert found.contradictions[0].fixed.startswith("numpy is pinned to 1.26.4 ")


def test_a_version_that_others_do_not_take_is_told_by_who_asks() -> None:
    found = speaks(small(), variant(PINNED), {"numpy": "2.2.6"})
    assert told(found) == ["numpy: pandas 2.2 asks for numpy<2.1 (its own metadata)"]


def test_what_sources_ask_for_counts_and_their_relaxations_do() -> None:
    demands = asks("vllm", "numpy<2")
    one = variant(PINNED, sources=(source("vllm"),))
    index = small()
    index.add("numpy==2.0")
    assert told(speaks(index, one, {"numpy": "2.0"}, demands)) == [
        "numpy: vllm 1.0 asks for numpy<2 (requirements.txt:1 of vllm)"
    ]
    lifted = variant(PINNED, sources=(source("vllm"),), relax=(relax("vllm", "numpy<2"),))
    assert speaks(index, lifted, {"numpy": "2.0"}, demands).contradictions == ()


def test_two_moved_at_once_are_held_against_each_other() -> None:
    index = small().add("pandas==3.0", "numpy>=2", "six>=1")
    assert speaks(index, variant(PINNED), {"numpy": "2.2.6", "opencv": "4.12", "pandas": "3.0"}) == Against()


def test_demands_on_what_nobody_pins_are_held_against_each_other_too() -> None:
    index = small().add("pandas==2.3", "numpy<2.1", "six>=2")
    found = speaks(
        index, variant({**PINNED, "numpy": "2.0", "opencv": "4.12"} | {"numpy": "1.26.4"}), {"pandas": "2.3"}
    )
    assert [one.package for one in found.contradictions] == ["six"]


def test_what_is_against_the_pins_as_they_are_is_not_told_as_new() -> None:
    broken = variant({**PINNED, "opencv": "4.12"})
    index = small().add("opencv==4.13", "numpy>=2")
    assert speaks(index, broken, {"opencv": "4.13"}).contradictions == ()


def test_demands_of_extras_and_markers_count_as_they_do_for_the_lock() -> None:
    index = (
        FakeIndex()
        .add("ray==1", "numpy<2; extra == 'default'", extras=("default",))
        .add("numpy==1.0")
        .add("numpy==2.0")
    )
    index.add("app==1", "ray[default]", "numpy<1; platform_machine == 'x86_64'")
    pinned = {"ray": "1", "app": "1", "numpy": "1.0"}
    assert told(speaks(index, variant(pinned), {"numpy": "2.0"})) == [
        "numpy: ray 1 asks for numpy<2 (its own metadata)"
    ]


def test_a_version_that_no_index_has_or_that_fits_no_machine_is_a_problem() -> None:
    index = small().add("opencv==5.0", tag="cp39-cp39-win_amd64")
    for version in ("9.9", "5.0"):
        (problem,) = speaks(index, variant(PINNED), {"opencv": version}).problems
        assert f"opencv=={version}" in problem.found


def test_a_relaxation_that_the_new_version_makes_idle_is_told() -> None:
    lifted = variant({**PINNED, "opencv": "4.12"}, relax=(relax("opencv", "numpy>=2"),))
    index = small().add("opencv==4.13", "numpy>=1")
    assert [one.demand for one in speaks(index, lifted, {"opencv": "4.13"}).idle] == ["numpy>=2"]


def test_a_lost_index_is_no_pass() -> None:
    index = small()
    before = standing(variant(PINNED), ARM, {}, means(index, Path("nowhere")))
    index.down = {""}
    with pytest.raises(LookupIncomplete):
        against(before, variant({**PINNED, "opencv": "4.12"}))


def test_an_index_is_asked_each_thing_once_and_a_lost_one_is_not_waited_for_again() -> None:
    index = small()
    once = Remembering(index)
    assert once.release("numpy", "1.26.4") is once.release("numpy", "1.26.4")
    assert once.release("numpy", "9") is once.release("numpy", "9") is None
    index.down = {"lost"}
    for _ in range(2):
        with pytest.raises(IndexUnreachableError):
            once.probe("lost", "numpy")
    release = once.release("numpy", "1.26.4")
    assert release is not None
    assert once.metadata(release.files[0]) is once.metadata(release.files[0])
    assert once.sha256(release.files[0]) == release.files[0].sha256
    assert index.asked == [("", "numpy"), ("", "numpy"), ("lost", "numpy")]


VERSIONS = ("1", "2", "3")
ASKED = st.sampled_from(["", "<2", ">=2", "==2", "<3", "!=3"])


@given(
    demands=st.dictionaries(st.tuples(st.sampled_from("ab"), st.sampled_from(VERSIONS), st.sampled_from("abc")), ASKED),
    start=st.tuples(*[st.sampled_from(VERSIONS)] * 3),
    end=st.tuples(*[st.sampled_from(VERSIONS)] * 3),
)
def test_what_speaks_against_a_change_is_what_a_lock_of_it_is_refused_for(
    demands: dict[tuple[str, str, str], str], start: tuple[str, ...], end: tuple[str, ...]
) -> None:
    """From pins that stand: a change is refused by looking at it exactly if looking at the whole is."""
    index = FakeIndex()
    for name in "abc":
        for version in VERSIONS:
            lines = [f"{other}{text}" for (who, at, other), text in demands.items() if (who, at) == (name, version)]
            index.add(f"{name}=={version}", *lines)
    before, after = (variant(dict(zip("abc", versions, strict=True))) for versions in (start, end))
    with_nothing: Means = means(index, Path("nowhere"))
    known = standing(before, ARM, {}, with_nothing)
    if known.against:
        return
    whole = standing(after, ARM, {}, with_nothing)
    assert {one.package for one in against(known, after).contradictions} == set(whole.against)


def test_the_index_of_a_moved_package_is_the_one_that_serves_its_new_version(tmp_path: Path) -> None:
    url = "https://ascend.example/pypi"
    indexes = {"ascend": Index(url=url, serves=("triton-ascend>=3.2.1",))}
    index = FakeIndex().add("triton-ascend==3.2.0").add("triton-ascend==3.2.2", "numpy==1.26.4", index=url)
    index.add("numpy==1.26.4").add("numpy==1.26.5")
    before = variant({"triton-ascend": "3.2.0", "numpy": "1.26.5"}, indexes=indexes)
    assert lock_variant(before, (ARM,), {}, means(index, tmp_path))
    assert [one.package for one in speaks(index, before, {"triton-ascend": "3.2.2"}).contradictions] == ["numpy"]
