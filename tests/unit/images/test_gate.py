"""What must hold before a build starts: each thing refused, with what to type next."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from ascend_images.errors import BadInput
from ascend_images.images.cache import Cache
from ascend_images.images.gate import check_plans, load_lock
from ascend_images.images.gate import refusal as refused
from ascend_images.images.plan import Choices
from ascend_images.images.stages import stage_names
from ascend_images.pins.lockfile import LockedPackage
from ascend_images.pins.platform import Arch
from ascend_images.pins.questions import Unanswered
from ascend_images.pins.resolve import resolve
from tests.pins_kit import committed

PINS = committed()
UNLOCKED = Choices(unlocked=True)
GAP = {
    "packages": (LockedPackage("triton-ascend", "3.2.2"),),
    "incomplete": ('triton-ascend==3.2.2: index "ascend" could not be reached',),
}


def refusal(*plans) -> BadInput:
    with pytest.raises(BadInput) as error:
        check_plans(plans, stages=stage_names)
    return error.value


def test_a_current_and_complete_lock_lets_a_build_through(plan_of) -> None:
    plan = plan_of()
    check_plans([plan], stages=stage_names)
    assert load_lock(plan).variant == "a2"


def test_a_missing_lock_is_refused_with_the_command_that_makes_it(plan_of) -> None:
    error = refusal(plan_of(lock=None))
    assert error.found == "a2 amd64 has no lock: locks/a2.amd64.txt is not there"
    assert error.do == "invoke lock --variant a2"


def test_no_build_goes_without_a_lock_not_even_an_unlocked_one(plan_of) -> None:
    assert "has no lock" in refusal(plan_of(lock=None, choices=UNLOCKED)).found


def test_a_lock_of_other_pins_is_refused(plan_of) -> None:
    error = refusal(plan_of(lock={"inputs": f"sha256:{'1' * 64}"}))
    assert "was made from other pins" in error.found
    assert error.do == "invoke lock --variant a2"


def test_an_incomplete_lock_is_refused_saying_what_is_missing(plan_of) -> None:
    error = refusal(plan_of(lock=GAP))
    assert 'incomplete: triton-ascend==3.2.2: index "ascend" could not be reached' in error.found
    assert error.do == (
        "invoke lock --variant a2, where those can be reached; or build without: invoke build --variant a2 --unlocked"
    )


def test_many_gaps_are_counted_and_the_first_named(plan_of) -> None:
    packages = tuple(LockedPackage(f"p{number}", "1") for number in range(9))
    gaps = tuple(f"p{number}==1: why" for number in range(9))
    error = refusal(plan_of(lock={"packages": packages, "incomplete": gaps}))
    assert "p0==1: why; p1==1: why; p2==1: why; and 6 more" in error.found
    assert "p3" not in error.found


def test_what_would_never_be_promoted_says_so_before_it_is_pushed(plan_of) -> None:
    told = refusal(plan_of(lock=GAP, choices=Choices(push=True)))
    way = "; or build a candidate that is never promoted: invoke build --variant a2 --unlocked"
    assert told is not None
    assert told.do.endswith(way)


def test_unlocked_takes_what_no_hash_is_known_for(plan_of) -> None:
    check_plans([plan_of(lock=GAP, choices=UNLOCKED)], stages=stage_names)


@pytest.mark.parametrize("changed", [{"inputs": f"sha256:{'1' * 64}"}, {"python": "3.99"}])
def test_unlocked_takes_no_lock_of_other_pins(plan_of, changed: dict[str, object]) -> None:
    """The image would hold other versions than its pins, its tag and its labels say."""
    error = refusal(plan_of(lock=changed, choices=UNLOCKED))
    assert "was made from other pins" in error.found
    assert error.do == "invoke lock --variant a2"


@pytest.mark.parametrize("unlocked", [False, True])
def test_beside_a_lock_of_other_pins_unlocked_is_no_way_out(plan_of, unlocked: bool) -> None:
    error = refusal(plan_of(lock={**GAP, "inputs": f"sha256:{'1' * 64}"}, choices=Choices(unlocked=unlocked)))
    assert "was made from other pins" in error.found
    assert ("is incomplete" in error.found) is not unlocked
    assert error.do == "invoke lock --variant a2"


def test_what_to_type_next_names_the_verb_that_was_typed(plan_of) -> None:
    told = refused([plan_of(lock=GAP)], stages=stage_names, verb="reproduce")
    assert told is not None
    assert told.do.endswith("; or build without: invoke reproduce --variant a2 --unlocked")


@pytest.mark.parametrize("other", [{"variant": "a3"}, {"arch": Arch.ARM64}])
def test_the_lock_of_something_else_is_refused_even_unlocked(plan_of, other: dict[str, object]) -> None:
    assert "not of a2 amd64" in refusal(plan_of(lock=other, choices=UNLOCKED)).found


def test_a_lock_that_cannot_be_read_is_refused_with_its_line(plan_of) -> None:
    plan = plan_of()
    plan.lock.write_text("hello\n")
    assert f"{plan.lock}:1:" in refusal(plan).found


def test_the_lock_is_the_one_that_replaces_the_stage(plan_of, tmp_path: Path) -> None:
    plan = plan_of(contexts={"lock": str(tmp_path / "elsewhere")})
    assert plan.lock == tmp_path / "elsewhere" / "a2.amd64.txt"
    assert "has no lock" in refusal(plan).found


def test_a_local_checkout_leaves_the_lock_current(plan_of, tmp_path: Path) -> None:
    from ascend_images.images.sources import LocalSource

    local = LocalSource(name="vllm", folder=tmp_path, commit="a" * 40, dirty=False, git="", submodules=False)
    check_plans([plan_of(sources=(local,))], stages=stage_names)


def test_a_context_that_is_no_stage_is_refused_with_the_nearest_stage(plan_of) -> None:
    error = refusal(plan_of(contexts={"src-vlm": "docker-image://x"}))
    assert 'the context "src-vlm" replaces nothing' in error.found
    assert error.wanted == 'did you mean "src-vllm"?'


def test_stages_are_found_in_a_rendered_file() -> None:
    rendered = Path(__file__).parents[3] / "dockerfiles" / "rendered" / "a2-verl-qwen3.5-overlay.Dockerfile"
    names = stage_names(rendered.read_text())
    wanted = {"cann", "fetch", "wheels", "lock", "facts", "packages-base", "cann-run-amd64", "cann-run-arm64"}
    assert wanted <= set(names)
    assert {f"src-{source.name.lower()}" for source in resolve(PINS, "a2-verl-qwen3.5-overlay").sources} <= set(names)


OVERLAY = resolve(PINS, "a2-verl-qwen3.5-overlay")
RUN_STAGES = "FROM scratch AS lock\nFROM scratch AS cann-run-amd64\nFROM scratch\n"


def test_cann_packages_without_a_checksum_stop_a_build(plan_of) -> None:
    unknown = msgspec.structs.replace(
        OVERLAY, runs=tuple(msgspec.structs.replace(run, sha256="") for run in OVERLAY.runs)
    )
    error = refusal(plan_of(unknown, text=RUN_STAGES))
    assert "no sha256 is known for Ascend-cann-toolkit_8.5.2_linux-x86_64.run" in error.found
    assert "aarch64" not in error.found, "those of the other architecture are not asked for"
    assert error.do.startswith("invoke lock --variant a2-verl-qwen3.5-overlay, then invoke render; or build without")
    check_plans([plan_of(unknown, text=RUN_STAGES, choices=UNLOCKED)], stages=stage_names)
    brought = plan_of(unknown, text=RUN_STAGES, contexts={"cann-run-amd64": "/runs"})
    check_plans([brought], stages=stage_names)


@pytest.mark.parametrize("by", ["sha256", "locked"])
def test_cann_packages_with_checksums_pass(plan_of, by: str) -> None:
    known = msgspec.structs.replace(
        OVERLAY, runs=tuple(msgspec.structs.replace(run, **{by: "0" * 64}) for run in OVERLAY.runs)
    )
    check_plans([plan_of(known, text=RUN_STAGES)], stages=stage_names)


@pytest.mark.parametrize(("state", "refused"), [("moved", True), ("differs", True), ("missing", False)])
def test_a_pin_that_versions_lock_does_not_answer_stops_a_build_or_is_told(plan_of, state: str, refused: bool) -> None:
    found = "sources.vllm.ref is v2, locked v1"
    one = Unanswered(
        about="ref", state=state, variants=("a2",), found=found, wanted="its commit", do="invoke lock --variant a2"
    )
    plan = replace(plan_of(), unanswered=(one,))
    if not refused:
        check_plans([plan], stages=stage_names)
        assert f"not locked: {found}" in plan.notes
        return
    error = refusal(plan)
    assert error.found == f"a2 amd64: {found}"
    assert error.do == "invoke lock --variant a2"
    assert refusal(replace(plan, choices=UNLOCKED)).found == error.found, "it takes no other commit either"


def test_all_problems_of_all_plans_are_told_at_once_and_ways_out_once(plan_of) -> None:
    error = refusal(plan_of("a2", lock=None), plan_of("a2", Arch.ARM64, lock=None), plan_of("a3", lock=GAP))
    assert [line[:12] for line in error.found.splitlines()] == ["- a2 amd64 h", "- a2 arm64 h", "- a3 amd64: "]
    assert error.do.count("invoke lock --variant a2") == 1


def test_one_image_twice_in_a_call_is_refused(plan_of) -> None:
    assert "would both be" in refusal(plan_of("a2"), plan_of("a2")).found


def test_two_variants_with_one_image_name_are_refused(plan_of) -> None:
    twin = msgspec.structs.replace(resolve(PINS, "a2"), name="twin")
    assert "a2 amd64 and twin amd64 would both be" in refusal(plan_of("a2"), plan_of(twin)).found


def test_one_cache_for_several_images_is_refused(plan_of) -> None:
    shared = Choices(cache_to=(Cache(type="local", place="/c"), Cache(type="registry")))
    error = refusal(plan_of("a2", choices=shared), plan_of("a3", choices=shared))
    assert error.found == (
        "--cache-to type=local,dest=/c: 2 images would each put their cache there, in place of the others'"
    )
    check_plans([plan_of("a2", choices=shared)], stages=stage_names)


def test_two_variants_with_one_name_are_refused_as_candidates_too(plan_of) -> None:
    twin = msgspec.structs.replace(resolve(PINS, "a2"), name="twin")
    push = Choices(push=True)
    assert "would both be" in refusal(plan_of("a2", choices=push), plan_of(twin, choices=push)).found


def test_a_base_of_other_pins_is_told_to_the_lock_as_pins(plan_of) -> None:
    """`invoke lock` takes no base image: the lock is of the pins that the base stands for."""
    other = Choices(other_base="quay.io/ascend/cann:9.0.1-910b-openeuler24.03-py3.11")
    changed = msgspec.structs.replace(
        resolve(PINS, "a2"), cann="9.0.1", base_cann="9.0.1", os="openeuler24.03", python="3.11"
    )
    error = refusal(plan_of(changed, choices=other, lock=None))
    assert error.do == "invoke lock --variant a2 --set cann=9.0.1 --set os=openeuler24.03 --set python=3.11"
    overlay = refusal(plan_of(OVERLAY, choices=other, lock=None))
    assert "--set base_cann=8.5.1 --set os=ubuntu22.04 --set python=3.11" in overlay.do


def test_nothing_wrong_is_no_refusal(plan_of) -> None:
    assert refused([plan_of()], stages=stage_names) is None
