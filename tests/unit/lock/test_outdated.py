"""What is newer than the pins: in the order of versions, for the images that pin it, and who gave no answer."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.lock.digests import Digests
from ascend_images.lock.newer import Found, Incomplete, Subject
from ascend_images.lock.outdated import Hosts, ask, subjects
from ascend_images.lock.release import IndexUnreachableError
from ascend_images.lock.way import Way
from ascend_images.pins.model import Index, Mirror
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant
from tests import outdated_kit
from tests.lock_kit import source, variant
from tests.outdated_kit import FakeTags, Listing
from tests.remotes import IMAGE, FakeGit, FakeImages, commit, digest, repository, wanting

CPU = "https://cpu.example/whl"
ASCEND = "https://ascend.example/pypi"
INDEXES = {
    "ascend": Index(url=ASCEND, serves=("triton-ascend>=3.2.1",)),
    "cpu": Index(url=CPU, serves=("torch; platform_machine == 'x86_64'",)),
}
ADDRESSES = {"ascend": ASCEND, "cpu": CPU}
ARM, X86 = "manylinux_2_28_aarch64", "manylinux_2_28_x86_64"


def hosts(index: Listing | None = None, git: FakeGit | None = None, cann: tuple[str, ...] = ()) -> Hosts:
    return outdated_kit.hosts(index, git, ADDRESSES, cann)


def of_packages(index: Listing, *variants: Variant) -> dict[str, Found]:
    pins = [one for one in subjects(variants, lambda _: {}) if one.kind == "package"]
    return {one.subject.name: one for one in ask(pins, hosts(index))}


def package(index: Listing, pin: str, name: str = "six", **fields: Any) -> Found:
    return of_packages(index, variant({name: pin}, indexes=INDEXES, **fields))[name]


# --- packages ---------------------------------------------------------------------------------------------------------


def test_releases_are_told_in_the_order_of_versions_and_those_before_the_pin_are_not() -> None:
    index = Listing()
    for version in ("1.9", "1.10", "1.2", "1.11.post1", "1.11", "1.12rc1", "2.0.dev1", "0.9"):
        index.add(f"six=={version}")
    found = package(index, "1.9")
    assert found.newer == ("1.11.post1", "1.11", "1.10")
    assert found.prereleases == ("2.0.dev1", "1.12rc1")
    assert not found.unreached


@given(versions=st.sets(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1), pinned=st.integers(0, 30))
def test_nothing_newer_is_missed_and_nothing_older_is_told(versions: set[tuple[int, int]], pinned: int) -> None:
    index = Listing()
    for major, minor in versions:
        index.add(f"six=={major}.{minor}")
    newer = sorted((version for version in versions if version > (pinned, 0)), reverse=True)
    assert package(index, f"{pinned}.0").newer == tuple(f"{major}.{minor}" for major, minor in newer)


def test_prereleases_that_a_final_release_has_overtaken_are_not_told() -> None:
    index = Listing()
    for version in ("1.1rc1", "1.1"):
        index.add(f"six=={version}")
    assert package(index, "1.0").prereleases == ()


def test_a_release_that_was_taken_back_is_none() -> None:
    index = Listing()
    index.add("six==1.1").add("six==1.2")
    index.releases["", "six", "1.2"][0] = replace(index.releases["", "six", "1.2"][0], yanked=True)
    assert package(index, "1.0").newer == ("1.1",)


def test_a_release_without_a_file_for_every_image_is_incomplete_and_says_what_it_lacks() -> None:
    index = Listing()
    for version, tags in {"1.1": (ARM, X86), "1.2": (ARM,), "1.3": ("win_amd64",)}.items():
        for tag in tags:
            index.add(f"six=={version}", tag=f"cp312-cp312-{tag}")
    found = package(index, "1.0")
    assert found.newer == ("1.1",)
    assert found.incomplete == (Incomplete(version="1.2", lacks=("x86_64 with Python 3.12",)),)


def test_a_variant_for_one_architecture_needs_no_file_for_the_other() -> None:
    index = Listing().add("six==1.2", tag=f"cp312-cp312-{ARM}")
    assert package(index, "1.0", platforms=(Arch.ARM64,)).newer == ("1.2",)


def test_a_release_for_a_newer_python_is_incomplete_though_its_file_would_fit() -> None:
    index = Listing().add("six==1.1", requires_python=">=3.10").add("six==2.0", requires_python=">=3.13")
    found = package(index, "1.0")
    assert found.newer == ("1.1",)
    assert [one.version for one in found.incomplete] == ["2.0"]
    assert "aarch64 with Python 3.12 (it asks for Python >=3.13)" in found.incomplete[0].lacks


def test_one_pin_of_variants_with_different_pythons_has_to_fit_them_all() -> None:
    index = Listing().add("six==1.1").add("six==1.2", tag="cp312-none-any")
    pins = [variant({"six": "1.0"}, name=name, python=python) for name, python in (("a", "3.11"), ("b", "3.12"))]
    found = of_packages(index, *pins)["six"]
    assert found.newer == ("1.1",)
    assert found.incomplete[0].lacks == ("x86_64 with Python 3.11", "aarch64 with Python 3.11")


def test_each_version_counts_on_the_index_that_is_bound_to_it() -> None:
    index = Listing().add("triton-ascend==3.2.0").add("triton-ascend==9.9")
    index.add("triton-ascend==3.2.2", index=ASCEND).add("triton-ascend==3.0", index=ASCEND)
    assert package(index, "3.1", "triton-ascend").newer == ("3.2.2", "3.2.0")


def test_torch_is_newer_where_both_its_builds_are() -> None:
    index = Listing().add("torch==2.10.0").add("torch==2.11.0").add("torch==2.10.0+cu128")
    index.add("torch==2.10.0+cpu", index=CPU).add("torch==2.12.0", index=CPU)
    found = package(index, "2.9.0", "torch")
    assert found.newer == ("2.10.0",)
    assert found.incomplete == (Incomplete(version="2.11.0", lacks=("x86_64 with Python 3.12",)),)


def test_a_lost_index_is_told_and_the_others_answer_all_the_same() -> None:
    index = Listing().add("torch==2.10.0").add("six==1.1")
    index.down = {CPU}
    found = of_packages(index, variant({"torch": "2.9.0", "six": "1.0"}, indexes=INDEXES))
    assert found["torch"].unreached == (f'index "cpu" ({CPU}): no answer in time',)
    assert found["torch"].newer == ("2.10.0",)
    assert found["six"].newer == ("1.1",)
    assert not found["six"].unreached


def test_metadata_that_cannot_be_read_is_told() -> None:
    index = Listing().add("six==1.1")

    def lost(_: Any) -> Any:
        raise IndexUnreachableError("six-1.1: no answer in time")

    index.metadata = lost
    assert package(index, "1.0").unreached == ("six-1.1: no answer in time",)


@pytest.mark.parametrize(("locked", "newer"), [({}, ("3.1", "3.0")), ({"six": "1.5"}, ("3.1", "3.0", "2.0"))])
def test_a_range_is_held_against_what_is_locked_or_what_it_takes(locked: dict[str, str], newer: Any) -> None:
    index = Listing()
    for version in ("1.0", "1.5", "2.0", "3.0", "3.1"):
        index.add(f"six=={version}")
    (one,) = [pin for pin in subjects([variant({"six": ">=1,<3"})], lambda _: locked) if pin.kind == "package"]
    assert one.current == locked.get("six", "")
    assert ask([one], hosts(index))[0].newer == newer


# --- sources ----------------------------------------------------------------------------------------------------------


def tagged(*names: str, at: str = "a") -> FakeGit:
    git = FakeGit()
    for name in names:
        git.tag(repository("vllm"), name, commit(at))
    return git


def source_of(git: FakeGit, ref: str, version: str, at: str = "") -> Found:
    one = source("vllm", version, ref=ref, commit=commit(at) if at else "")
    pins = subjects([wanting(one)], lambda _: {})
    return ask([pin for pin in pins if pin.kind == "source"], hosts(git=git))[0]


def test_newer_tags_are_told_in_the_order_of_versions_prereleases_apart() -> None:
    found = source_of(tagged("v0.9.0", "v0.10.0", "v0.10.1rc1", "v0.2.0", "nightly", "v0.11.0rc1"), "v0.9.0", "0.9.0")
    assert found.newer == ("v0.10.0",)
    assert found.prereleases == ("v0.11.0rc1", "v0.10.1rc1")
    assert not found.moved
    assert not found.notes


def test_a_repository_that_tags_its_parts_apart_is_followed_in_one_of_them() -> None:
    git = tagged("core_v0.16.0", "core_v0.17.0", "v0.3.1", "v0.99.0")
    assert source_of(git, "core_v0.16.0", "0.16.0").newer == ("core_v0.17.0",)
    assert source_of(tagged("v1.0.0", "release-2.0", "2.0"), "v1.0.0", "1.0.0").newer == ("2.0",)


def test_a_branch_that_went_on_is_told_with_newer_branches_of_its_kind() -> None:
    git = tagged("v0.99.0")
    for name in ("core_r0.16.0", "core_r0.17.0", "main"):
        git.branch(repository("vllm"), name, commit("b"))
    found = source_of(git, "core_r0.16.0", "0.16.2", at="a")
    assert found.moved == commit("b")
    assert found.newer == ("core_r0.17.0",)
    assert source_of(git, "core_r0.16.0", "0.16.2", at="b").moved == ""


def test_a_tag_that_moved_and_a_ref_that_is_gone_are_told() -> None:
    assert "another release under an old name" in source_of(tagged("v1"), "v1", "1.0", at="b").notes[0]
    assert source_of(tagged("v2"), "v1.0", "1.0").notes == ("its repository has no tag or branch v1.0 any more",)


def test_a_commit_is_held_against_the_version_that_is_said_of_it() -> None:
    git = tagged("v0.17.0", "v0.18.0")
    assert source_of(git, commit("c"), "0.18.0rc1").newer == ("v0.18.0",)
    unsaid = source_of(git, commit("c"), "")
    assert unsaid.newer == ()
    assert unsaid.notes == ("which version is at cccccccccccc is not known; the newest tag is v0.18.0",)


def test_a_repository_that_gives_no_answer_is_told_and_asked_once() -> None:
    git = FakeGit(down={repository("vllm"): "no answer in time"})
    assert source_of(git, "v1", "1.0").unreached == (f"{repository('vllm')}: no answer in time",)
    assert len(git.asked) == 1


# --- base images ------------------------------------------------------------------------------------------------------


def of_cann(tags: Sequence[str], *images: str) -> Found:
    variants = [wanting(name=str(n), base_image=image, base_cann="9.1.0") for n, image in enumerate(images or [IMAGE])]
    pins = [one for one in subjects(variants, lambda _: {}) if one.kind == "cann"]
    return ask(pins, hosts(cann=tuple(tags)))[0]


def test_newer_cann_releases_are_those_with_a_base_image_for_every_chip_in_use() -> None:
    a3 = IMAGE.replace("910b", "a3")
    tags = [f"9.2.0-{chip}-ubuntu22.04-py3.12" for chip in ("910b", "a3")]
    tags += ["9.3.0-910b-ubuntu22.04-py3.12", "9.0.1-910b-ubuntu22.04-py3.12", "9.4.0-910b-openeuler24.03-py3.12"]
    tags += ["9.2.1-beta.1-910b-ubuntu22.04-py3.12", "9.2.1-beta.1-a3-ubuntu22.04-py3.12", "latest", "9.9.0"]
    found = of_cann(tags, IMAGE, a3)
    assert found.newer == ("9.2.0",)
    assert found.prereleases == ("9.2.1-beta.1",)
    assert found.incomplete == (Incomplete(version="9.3.0", lacks=("a3 on ubuntu22.04 with Python 3.12",)),)


def test_a_registry_that_gives_no_list_is_told() -> None:
    (one,) = [one for one in subjects([wanting(base_cann="9.1.0")], lambda _: {}) if one.kind == "cann"]
    lost = Hosts(packages=Listing(), addresses={}, git=FakeGit(), images=FakeImages(), tags=FakeTags())
    assert ask([one], lost)[0].unreached == ("quay.io/ascend/cann: no answer in time",)


@pytest.mark.parametrize(
    ("locked", "there", "moved", "notes", "unreached"),
    [
        ("", None, "", (), ()),
        ("a", "a", "", (), ()),
        ("a", "b", digest("b"), (), ()),
        ("a", None, "", ("not found in the registry any more",), ()),
        ("a", "down", "", (), (f"{IMAGE}: no answer in time",)),
    ],
)
def test_a_base_image_behind_the_same_name_is_held_against_the_locked_one(
    locked: str, there: str | None, moved: str, notes: Any, unreached: Any
) -> None:
    images = FakeImages()
    if there == "down":
        images.down[IMAGE] = "no answer in time"
    elif there:
        images.there[IMAGE] = Digests(digest(there), {})
    one = Subject(
        kind="base image", name=IMAGE, pinned=digest(locked) if locked else "", variants=(wanting(base_cann="9.1.0"),)
    )
    asked = Hosts(packages=Listing(), addresses={}, git=FakeGit(), images=images, tags=FakeTags())
    found = ask([one], asked)[0]
    assert (found.moved, found.notes, found.unreached) == (moved, notes, unreached)


def test_a_pin_that_several_variants_share_is_asked_once() -> None:
    pins = subjects([variant({"six": "1.0"}, name=name) for name in ("a", "b")], lambda _: {})
    six = [one for one in pins if one.kind == "package"]
    assert [[user.name for user in one.variants] for one in six] == [["a", "b"]]
    assert [one.kind for one in pins] == ["package", "cann", "base image"]


# --- by way of a mirror


def test_whoever_gives_no_answer_is_told_with_the_mirror_that_was_asked() -> None:
    way = Way("cn", Mirror(git={repository(""): "https://m.example/gh/"}, registry={"quay.io": "swr.example"}))
    git = FakeGit(down={repository("vllm"): "no answer in time"})
    index = Listing(down={""})
    made = replace(hosts(index, git), addresses={"default": "https://m.example/simple"}, tags=FakeTags(), way=way)
    made.images.down = {IMAGE: "no answer in time"}  # type: ignore[attr-defined]
    one = msgspec.structs.replace(
        wanting(source("vllm", git=repository("vllm"))),
        packages={"six": "1.0"},
        base_image=IMAGE,
        base_digest=digest("1"),
    )
    told = {text for found in ask(subjects([one], lambda _: {}), made) for text in found.unreached}
    assert told == {
        "the default index (https://m.example/simple): no answer in time",
        f"{repository('vllm')} (asked by way of mirror cn: https://m.example/gh/vllm): no answer in time",
        f"{IMAGE} (asked by way of mirror cn: {IMAGE.replace('quay.io', 'swr.example')}): no answer in time",
        "quay.io/ascend/cann (asked by way of mirror cn: swr.example/ascend/cann): no answer in time",
    }
