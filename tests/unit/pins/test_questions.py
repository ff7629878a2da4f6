"""Every pin that versions.lock does not answer is named once, with what was locked in its place."""

from typing import Any

import msgspec
import pytest

from ascend_images.pins.platform import Arch
from ascend_images.pins.questions import answered, asked, check, pruned
from ascend_images.pins.versions_lock import VersionsLock
from tests.remotes import (
    IMAGE,
    asking,
    commit,
    digest,
    locked_base,
    locked_ref,
    locked_run,
    repository,
    run_file,
    sha,
    wanting,
)

VARIANT = wanting(asking(), runs=(run_file("toolkit.run"),))
LOCK = VersionsLock(git=(locked_ref(),), base=(locked_base(),), run=(locked_run(),))


def told(lock: VersionsLock, *variants: Any, **more: Any) -> list[tuple[str, str]]:
    return [(finding.state, str(finding)) for finding in check(lock, variants, **more)]


def test_a_lock_that_answers_everything_gives_no_finding() -> None:
    assert told(LOCK, VARIANT) == []


@pytest.mark.parametrize(
    ("lock", "state", "message"),
    [
        ({"git": ()}, "missing", "small: sources.vllm.ref is v1, not locked"),
        ({"git": (locked_ref(ref="v0"),)}, "moved", "small: sources.vllm.ref is v1, locked v0"),
        ({"git": (locked_ref("other"),)}, "missing", "small: sources.vllm.ref is v1, not locked"),
        ({"base": ()}, "missing", f"small: the base image is {IMAGE}, not locked"),
        (
            {"base": (locked_base(IMAGE.replace("9.1.0", "9.0.0")),)},
            "moved",
            f"small: the base image is {IMAGE}, locked 9.0.0-910b-ubuntu22.04-py3.12",
        ),
        ({"base": (locked_base(IMAGE.replace("910b", "a3")),)}, "missing", f"the base image is {IMAGE}, not locked"),
        (
            {"base": (locked_base(platforms={"linux/amd64": digest("2")}),)},
            "differs",
            f"the base image {IMAGE} is locked for linux/amd64, not for linux/arm64",
        ),
        ({"run": ()}, "missing", 'cann."9.9.0".run.toolkit is https://example.invalid/toolkit.run, not locked'),
        (
            {"run": (locked_run("old/toolkit.run"),)},
            "moved",
            "is https://example.invalid/toolkit.run, locked https://example.invalid/old/toolkit.run",
        ),
    ],
)  # fmt: skip
def test_each_pin_without_an_answer_is_one_finding(lock: dict[str, Any], state: str, message: str) -> None:
    (found,) = check(msgspec.structs.replace(LOCK, **lock), [VARIANT])
    assert found.state == state
    assert message in str(found)
    assert found.wanted
    assert found.do.startswith("invoke lock --variant small")


def test_a_commit_that_was_locked_as_another_differs() -> None:
    ref = commit("b")
    ((state, message),) = told(LOCK.having(locked_ref(ref=ref)), wanting(asking(ref=ref), runs=VARIANT.runs))
    assert (state, message) == ("differs", f"small: sources.vllm.ref is the commit {ref}, locked {commit('a')}")


@pytest.mark.parametrize("locked", [(), (locked_ref(ref="v0"),), (locked_ref("other"),)])
def test_a_commit_in_full_needs_no_lock_to_say_what_it_means(locked: tuple[Any, ...]) -> None:
    """On any day it is the same; that its repository has it is seen as the build fetches it."""
    lock = msgspec.structs.replace(LOCK, git=locked)
    assert told(lock, wanting(asking(ref=commit("b")), runs=VARIANT.runs)) == []


@pytest.mark.parametrize("locked", [(), (locked_ref(ref=commit("b"), at="b", kind="commit"),)])
def test_of_a_commit_with_submodules_those_are_what_is_missing(locked: tuple[Any, ...]) -> None:
    wants = wanting(asking(ref=commit("b"), submodules=True), runs=VARIANT.runs)
    ((state, message),) = told(msgspec.structs.replace(LOCK, git=locked), wants)
    assert (state, message) == (
        "missing",
        f"small: sources.vllm.ref is {commit('b')}, whose submodules are not locked",
    )


def test_what_a_lock_said_before_is_nothing_that_is_asked_for() -> None:
    assert asked([answered(VARIANT, LOCK)]) == asked([VARIANT])


def test_submodules_that_were_never_read_are_missing_and_none_at_all_is_an_answer() -> None:
    wants = wanting(asking(submodules=True), runs=VARIANT.runs)
    ((state, message),) = told(LOCK, wants)
    assert (state, message) == ("missing", "small: sources.vllm.ref is v1, whose submodules are not locked")
    assert told(LOCK.having(locked_ref(submodules=[])), wants) == []


def test_a_checksum_in_versions_toml_needs_no_other_but_must_not_be_another() -> None:
    pinned = wanting(asking(), runs=(run_file("toolkit.run", sha256=sha("b")),))
    assert told(msgspec.structs.replace(LOCK, run=()), pinned) == []
    ((state, message),) = told(LOCK, pinned)
    assert state == "differs"
    assert "sha256 of toolkit.run is bbbbbbbbbbbb…, locked aaaaaaaaaaaa…" in message


def test_what_several_variants_ask_for_is_one_finding_that_names_them() -> None:
    other = msgspec.structs.replace(VARIANT, name="other")
    found = told(VersionsLock(), VARIANT, other)
    assert len(found) == 3
    assert all(message.startswith("small, other: ") for _, message in found)


def test_no_pin_moved_from_what_another_variant_asks_for() -> None:
    lock = LOCK.having(locked_ref(ref="v0"))
    moved = wanting(asking(ref="v2"), runs=VARIANT.runs)
    assert told(lock, moved) == [("moved", "small: sources.vllm.ref is v2, locked v0 and v1")]
    older = wanting(asking(ref="v0"), name="older")
    assert told(lock, moved, others=[older]) == [("moved", "small: sources.vllm.ref is v2, locked v1")]


def test_each_thing_is_asked_for_once_with_all_that_is_wanted_of_it() -> None:
    amd64 = wanting(asking(), platforms=(Arch.AMD64,))
    arm64 = wanting(asking(submodules=True), platforms=(Arch.ARM64,), name="other")
    pins = asked([amd64, arm64])
    ((ref,), (base,)) = pins.refs, pins.bases
    assert (ref.key, ref.pins, ref.submodules) == ((repository("vllm"), "v1"), ("sources.vllm",), True)
    assert base.platforms == (Arch.AMD64, Arch.ARM64)
    assert base.variants == ref.variants == ("small", "other")


def test_an_answered_variant_has_what_the_lock_says_now_and_its_own() -> None:
    full = asking("full", ref=commit("c"))
    runs = (run_file("toolkit.run"), run_file("ops.run", sha256=sha("c")), run_file("nnal.run"))
    variant = wanting(asking(), full, asking("unknown"), runs=runs)
    made = answered(variant, LOCK.having(locked_run("ops.run", "d")))
    assert [source.commit for source in made.sources] == [commit("a"), commit("c"), ""]
    assert [run.checksum for run in made.runs] == [sha("a"), sha("c"), ""]
    assert made.base_reference == f"{IMAGE}@{digest('1')}"
    assert answered(made, VersionsLock()) == answered(variant, VersionsLock())
    again = answered(made, LOCK.having(locked_ref(at="e")))
    assert again.sources[0].commit == commit("e")


def test_a_base_that_is_pinned_by_digest_is_taken_at_that() -> None:
    own = f"{IMAGE}@{digest('9')}"
    made = answered(wanting(base_image=own), LOCK.having(locked_base(own)))
    assert made.base_reference == own


def test_pruning_drops_what_no_variant_asks_for() -> None:
    more = LOCK.having(locked_ref(ref="v0"), locked_base("example.invalid/other:1"), locked_run("other.run"))
    assert pruned(more, [VARIANT]) == LOCK
