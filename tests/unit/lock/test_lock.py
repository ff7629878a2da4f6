"""From a variant to its locks, on an index in memory: per-architecture pins, gaps, differences, what is refused."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ascend_images.errors import BadInput, LookupIncomplete
from ascend_images.lock import lock as lock_module
from ascend_images.lock.elsewhere import Elsewhere
from ascend_images.lock.lock import known_locks, lock_variant, write_locks
from ascend_images.lock.means import cache_folder, usual_means
from ascend_images.lock.resolver import Question, UnresolvableError
from ascend_images.pins.lockfile import LockFile, file_name, inputs_hash, is_current
from ascend_images.pins.model import Index, Metadata, Mirror
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant
from tests.lock_kit import FakeIndex, Newest, means, pins, relax, source, variant

CPU = "https://cpu.example/whl"
ASCEND = "https://ascend.example/pypi"
INDEXES = {
    "ascend": Index(url=ASCEND, serves=("triton-ascend",)),
    "cpu": Index(url=CPU, serves=("torch; platform_machine == 'x86_64'",)),
}
ARM_TAG, X86_TAG = "cp312-cp312-manylinux_2_28_aarch64", "cp312-cp312-manylinux_2_28_x86_64"
BOTH = (Arch.AMD64, Arch.ARM64)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def lock(tmp_path: Path, said: list[str]) -> "Lock":
    return Lock(tmp_path, said)


class Lock:
    """Locks a variant on an index in memory."""

    def __init__(self, tmp_path: Path, said: list[str]) -> None:
        self.tmp_path = tmp_path
        self.said = said

    def __call__(
        self, one: Variant, index: FakeIndex, arches: tuple[Arch, ...] = BOTH, **known: Any
    ) -> dict[Arch, LockFile]:
        return lock_variant(one, arches, self.checkouts(one), means(index, self.tmp_path, self.said.append), **known)

    def checkouts(self, one: Variant) -> dict[str, Path]:
        """Every source is a checkout with its module and nothing else: what it asks for is declared."""
        made = {}
        for each in one.sources:
            folder = self.tmp_path / "sources" / each.name
            (folder / ".git").mkdir(parents=True, exist_ok=True)
            folder.joinpath(*each.module.split(".")).mkdir(parents=True, exist_ok=True)
            made[each.name] = folder
        return made


def torch_index() -> FakeIndex:
    index = FakeIndex().add("torch==2.9.0", "sympy", tag=ARM_TAG).add("torch==2.9.0", "sympy", "cuda", tag=X86_TAG)
    index.add("torch==2.9.0+cpu", "sympy", tag=X86_TAG, index=CPU).add("sympy==1.14.0")
    index.add("torch-npu==2.9.0", "torch==2.9.0", tag=ARM_TAG).add("torch-npu==2.9.0", "torch==2.9.0+cpu", tag=X86_TAG)
    return index


TORCH = variant({"torch": "2.9.0", "torch_npu": "2.9.0"}, indexes=INDEXES)


def test_x86_64_takes_the_cpu_build_from_its_index_and_arm_the_plain_one(lock: Lock) -> None:
    locks = lock(TORCH, torch_index())
    assert locks[Arch.AMD64].versions == {"sympy": "1.14.0", "torch": "2.9.0+cpu", "torch-npu": "2.9.0"}
    assert locks[Arch.ARM64].versions == {"sympy": "1.14.0", "torch": "2.9.0", "torch-npu": "2.9.0"}
    assert all(one.complete and not one.conflicts for one in locks.values())
    assert all(package.hashes for one in locks.values() for package in one.packages)
    assert locks[Arch.AMD64].differs == (
        "torch==2.9.0+cpu arm64 has 2.9.0: the CPU build has a version of its own on x86_64",
    )


def test_without_the_index_of_cpu_builds_x86_64_cannot_be_locked_and_arm_can(lock: Lock) -> None:
    alone = msgspec.structs.replace(TORCH, indexes={})
    with pytest.raises(BadInput) as failure:
        lock(alone, torch_index())
    assert "no index has torch==2.9.0+cpu: the default index was asked" in str(failure.value)
    assert lock(alone, torch_index(), (Arch.ARM64,))[Arch.ARM64].complete


def test_an_index_out_of_reach_makes_a_lock_incomplete_and_says_so(lock: Lock) -> None:
    index = torch_index()
    index.down = {CPU}
    locks = lock(msgspec.structs.replace(TORCH, exclude={"cuda": "CUDA only"}), index)
    assert locks[Arch.ARM64].complete
    amd64 = locks[Arch.AMD64]
    assert amd64.versions["torch"] == "2.9.0+cpu"
    assert [package.name for package in amd64.packages if not package.hashes] == ["torch"]
    assert amd64.incomplete == (f'torch==2.9.0+cpu: index "cpu" ({CPU}) could not be reached: no answer in time',)
    assert LockFile.parse(str(amd64)) == amd64


def test_what_is_out_of_reach_and_excludes_nothing_asks_for_what_is_written_down(lock: Lock) -> None:
    written = Metadata(name="triton-ascend", version="3.2.2", requires=("numpy==1.26.4", "pybind11"), source="read")
    one = variant({"triton-ascend": "3.2.2", "numpy": "1.26.4"}, indexes=INDEXES, metadata=(written,))
    index = FakeIndex(down={ASCEND}).add("numpy==1.26.4").add("numpy==2.0").add("pybind11==3.1.0")
    found = lock(one, index)[Arch.ARM64]
    assert found.versions == {"numpy": "1.26.4", "pybind11": "3.1.0", "triton-ascend": "3.2.2"}


def test_numpy_is_held_in_the_range_of_cann_though_nothing_pins_it(lock: Lock) -> None:
    index = FakeIndex().add("numpy==1.26.4").add("numpy==2.2.6").add("pandas==2.2", "numpy>=1.22")
    old = lock(variant({"pandas": "2.2"}, cann="8.1.rc1", python="3.12"), index)
    assert old[Arch.ARM64].versions["numpy"] == "1.26.4"
    unknown = lock(variant({"pandas": "2.2"}, cann="99.0.0"), index)
    assert unknown[Arch.ARM64].versions["numpy"] == "2.2.6"


def test_the_chain_from_a_pinned_package_to_a_pinned_numpy_is_told(lock: Lock) -> None:
    index = FakeIndex().add("numpy==1.26.4").add("opencv-python-headless==4.12.0.88", "numpy>=2")
    with pytest.raises(BadInput) as failure:
        lock(variant({"numpy": "1.26.4", "opencv-python-headless": "4.12.0.88"}), index)
    assert "opencv-python-headless 4.12.0.88 asks for numpy>=2 (its own metadata)" in str(failure.value)
    assert "numpy is pinned to 1.26.4 (versions.toml stack.small.packages)" in str(failure.value)


def test_a_relaxation_of_a_distribution_lifts_its_demand_and_no_one_elses(lock: Lock) -> None:
    index = (
        FakeIndex().add("numpy==1.26.4").add("numpy==2.1").add("opencv==4.13", "numpy>=2").add("pandas==3", "numpy>=2")
    )
    index.add("pandas==2", "numpy>=1")
    lifted = {"relax": (relax("opencv", "numpy>=2"),)}
    found = lock(variant({"numpy": "1.26.4", "opencv": "4.13", "pandas": "2"}, **lifted), index)[Arch.ARM64]
    assert [(c.whose, c.demand, c.found) for c in found.conflicts] == [("opencv", "numpy>=2", "1.26.4")]
    with pytest.raises(BadInput, match="pandas 3 asks for numpy>=2"):
        lock(variant({"numpy": "1.26.4", "opencv": "4.13", "pandas": "3"}, **lifted), index)


def test_a_relaxation_that_lifts_nothing_is_refused_with_what_its_component_asks_for(lock: Lock) -> None:
    index = FakeIndex().add("numpy==2.1").add("opencv==4.13", "numpy>=2", "six").add("six==1")
    one = variant({"numpy": "2.1", "opencv": "4.13"}, relax=(relax("opencv", "numpy<2"),))
    with pytest.raises(BadInput) as failure:
        lock(one, index)
    assert str(failure.value) == (
        'stack small: the relaxation of opencv, demand "numpy<2", lifts nothing\n'
        "  wanted: opencv asks for numpy>=2 (its own metadata)\n"
        '  next:   mend or delete the [[stack.small.relax]] entry with whose = "opencv"'
    )


def test_a_relaxation_that_lifts_something_on_one_architecture_is_needed(lock: Lock) -> None:
    index = FakeIndex().add("guard==1", "x==1", tag=ARM_TAG).add("guard==1", "x==2", tag=X86_TAG).add("x==3")
    one = variant({"guard": "1", "x": "3"}, relax=(relax("guard", "x==1"), relax("guard", "x==2")))
    locks = lock(one, index)
    assert {arch: [c.demand for c in made.conflicts] for arch, made in locks.items()} == {
        Arch.ARM64: ["x==1"],
        Arch.AMD64: ["x==2"],
    }


def test_a_relaxation_of_a_demand_that_is_met_anyway_is_told_and_no_fault(lock: Lock, said: list[str]) -> None:
    index = FakeIndex().add("numpy==2.1").add("opencv==4.13", "numpy>=2")
    lock(variant({"numpy": "2.1", "opencv": "4.13"}, relax=(relax("opencv", "numpy>=2"),)), index)
    assert said == ['small: the relaxation of opencv, demand "numpy>=2", is not needed: the set meets that demand']


def test_a_source_is_given_its_demands_are_met_and_it_is_no_package_of_the_lock(lock: Lock) -> None:
    index = FakeIndex().add("regex==2024").add("vllm==9").add("cmake==3.26").add("cmake==4.0").add("setuptools==80")
    vllm = source("vllm", "0.23.0", "regex", local_version="empty", build_requires=("cmake<4", "setuptools"))
    bridge = source("bridge", "1.0", "vllm>=0.20", build_requires=("setuptools",))
    found = lock(variant({}, sources=(vllm, bridge)), index)[Arch.ARM64]
    assert found.versions == {"cmake": "3.26", "regex": "2024", "setuptools": "80"}


def test_a_source_without_dependencies_asks_for_nothing(lock: Lock) -> None:
    index = FakeIndex().add("setuptools==80")
    bridge = source("bridge", "", "torch==99", dependencies=False)
    found = lock(variant({}, sources=(bridge,)), index)[Arch.ARM64]
    assert found.versions == {"setuptools": "80"}
    assert [(c.whose, c.demand, c.found) for c in found.conflicts] == [("bridge", "torch==99", "")]


def test_a_pattern_excludes_what_only_the_set_shows(lock: Lock) -> None:
    index = FakeIndex().add("app==2", "middle").add("middle==1", "nvidia-nccl").add("nvidia-nccl==1", "nvidia-deep")
    index.add("nvidia-deep==1")
    found = lock(variant({"app": "2"}, exclude={"nvidia-*": "CUDA only"}), index)[Arch.ARM64]
    assert set(found.versions) == {"app", "middle"}
    assert [(c.whose, c.demand, c.reason) for c in found.conflicts] == [("middle", "nvidia-nccl", "CUDA only")]


def test_what_building_an_sdist_takes_is_part_of_the_set_and_a_pinned_package_meets_it(lock: Lock) -> None:
    index = FakeIndex().add("arctic==0.1", sdist=True, build=["torch==2.7.0", "nanobind", "old==1"])
    index.add("torch==2.9.0", tag=ARM_TAG).add("torch==2.9.0+cpu", tag=X86_TAG, index=CPU)
    index.add("nanobind==2.9", "typing-extensions").add("typing-extensions==4")
    index.add("old==1", sdist=True, build=["ancient"]).add("ancient==1")
    found = lock(variant({"torch": "2.9.0", "arctic": "0.1"}, indexes=INDEXES), index)[Arch.ARM64]
    assert set(found.versions) == {"ancient", "arctic", "nanobind", "old", "torch", "typing-extensions"}
    assert found.sdists == ("arctic", "old")
    assert not found.conflicts


def test_an_sdist_whose_demands_cannot_be_read_is_told(lock: Lock, said: list[str]) -> None:
    lock(variant({"crcmod": "1.7"}), FakeIndex().add("crcmod==1.7", sdist=True, known=False))
    assert said == ["small: what crcmod asks for is computed by its setup.py: not checked against the set"]


def test_the_second_architecture_takes_the_versions_of_the_first(lock: Lock, tmp_path: Path) -> None:
    index = FakeIndex().add("app==1", "lib").add("lib==1.0").add("lib==2.0", tag=X86_TAG)
    locks = lock(variant({"app": "1"}), index)
    assert {arch: made.versions["lib"] for arch, made in locks.items()} == dict.fromkeys(BOTH, "1.0")
    assert [made.differs for made in locks.values()] == [(), ()]
    assert list(locks) == list(BOTH), "in the order they were asked for"


def test_what_must_differ_is_named_with_the_reason_in_both_files(lock: Lock) -> None:
    index = FakeIndex().add("app==1", "decord; platform_machine == 'x86_64'", "lib", "eyes")
    index.add("decord==0.6.0", "codec").add("codec==1").add("lib==2.0", tag=ARM_TAG).add("lib==1.0", tag=X86_TAG)
    index.add("eyes==1", tag=ARM_TAG).add("eyes==1", "glass", tag=X86_TAG).add("glass==1")
    locks = lock(variant({"app": "1"}), index)
    assert locks[Arch.AMD64].differs == (
        "codec==1 only here: decord 0.6.0, only here too, asks for it",
        'decord==0.6.0 only here: app 1 asks for it where platform_machine == "x86_64"',
        "glass==1 only here: nothing asks for it on aarch64",
        "lib==1.0 arm64 has 2.0: it has no file for aarch64",
    )
    assert locks[Arch.ARM64].differs == ("lib==2.0 amd64 has 1.0: it has no file for x86_64",)


class Stubborn(Newest):
    """Finds nothing while it is held to other versions."""

    def resolve(self, question: Question) -> dict[str, str]:
        if question.constrained:
            self.questions.append(question)
            raise UnresolvableError("No solution found")
        return super().resolve(question)


def test_versions_that_cannot_all_be_held_are_kept_as_far_as_that_goes(tmp_path: Path) -> None:
    index = FakeIndex().add("app==1", "lib").add("lib==1.0").add("lib==2.0")
    stubborn = Stubborn(index)
    lock_variant(variant({"app": "1"}), BOTH, {}, replace(means(index, tmp_path), resolver=stubborn))
    assert [(bool(one.constrained), dict(one.preferred)) for one in stubborn.questions[-2:]] == [
        (True, {}),
        (False, {"lib": "2.0"}),
    ]


def test_the_lock_of_the_other_architecture_holds_the_versions_while_it_is_current(lock: Lock) -> None:
    one = variant({"app": "1"})
    index = FakeIndex().add("app==1", "lib").add("lib==1.0")
    arm = lock(one, index, (Arch.ARM64,))
    index.add("lib==2.0")
    assert lock(one, index, (Arch.AMD64,), known=arm)[Arch.AMD64].versions["lib"] == "1.0"
    stale = {Arch.ARM64: msgspec.structs.replace(arm[Arch.ARM64], inputs="sha256:" + "0" * 64)}
    assert lock(one, index, (Arch.AMD64,), known=stale)[Arch.AMD64].versions["lib"] == "2.0"
    assert lock(one, index, (Arch.ARM64,), known=arm)[Arch.ARM64].versions["lib"] == "2.0", "made from nothing"


def kept(lock: Mapping[Arch, LockFile]) -> dict[Arch, Mapping[str, str]]:
    return {arch: one.versions for arch, one in lock.items()}


def test_what_was_locked_is_kept_where_it_fits_and_only_there(lock: Lock) -> None:
    one = variant({"app": "1"})
    index = FakeIndex().add("app==1", "lib").add("lib==1.0")
    old = lock(one, index)
    index.add("lib==2.0")
    assert lock(one, index, kept=kept(old))[Arch.ARM64].versions["lib"] == "1.0"
    assert lock(one, index)[Arch.ARM64].versions["lib"] == "2.0"
    other = variant({"app": "2"})
    assert lock(other, index.add("app==2", "lib>=2"), kept=kept(old))[Arch.ARM64].versions["lib"] == "2.0"


def test_a_release_that_was_taken_back_is_not_kept(lock: Lock) -> None:
    one = variant({"app": "1"})
    index = FakeIndex().add("app==1", "lib").add("lib==1.0")
    old = lock(one, index)
    index.add("lib==2.0")
    key = ("", "lib", "1.0")
    index.releases[key] = [replace(file, yanked=True) for file in index.releases[key]]
    assert lock(one, index, kept=kept(old))[Arch.ARM64].versions["lib"] == "2.0"


def test_a_pinned_release_that_was_taken_back_is_taken_and_told(lock: Lock, said: list[str]) -> None:
    index = FakeIndex().add("app==1")
    key = ("", "app", "1")
    index.releases[key] = [replace(file, yanked=True) for file in index.releases[key]]
    assert lock(variant({"app": "1"}), index)[Arch.ARM64].complete
    assert said == ["small: app 1 was taken back by its publisher (yanked): pin another version"]


def test_hashes_of_an_index_that_is_down_stay_as_they_were(lock: Lock) -> None:
    one = msgspec.structs.replace(TORCH, exclude={"cuda": "not here"})
    index = torch_index()
    old = lock(one, index)
    index.down = {CPU}
    assert lock(one, index, known=old) == old
    assert not lock(one, index)[Arch.AMD64].complete
    newer = msgspec.structs.replace(one, packages={"torch": "2.9.0"})
    assert lock(newer, index, known=old)[Arch.AMD64].complete, "of the same version they are the same"


def test_a_lock_knows_the_pins_it_was_made_from(lock: Lock) -> None:
    one = variant({"app": "1"})
    made = lock(one, FakeIndex().add("app==1"))[Arch.AMD64]
    assert made.inputs == inputs_hash(one, Arch.AMD64)
    assert is_current(made, one)
    assert not is_current(made, variant({"app": "2"}))


def test_what_only_the_resolver_sees_is_told_in_its_words(tmp_path: Path) -> None:
    class Refusing(Newest):
        def resolve(self, question: Question) -> dict[str, str]:
            raise UnresolvableError("No solution found: app depends on lib>9")

    index = FakeIndex().add("app==1", "lib>9")
    with pytest.raises(BadInput) as failure:
        lock_variant(variant({"app": "1"}), BOTH, {}, replace(means(index, tmp_path), resolver=Refusing(index)))
    assert "app 1 asks for lib>9 (its own metadata)" in str(failure.value)
    assert "No solution found: app depends on lib>9" in str(failure.value)


def test_contradictions_and_pins_that_cannot_be_had_are_told_together(lock: Lock) -> None:
    index = FakeIndex().add("numpy==1.26.4").add("opencv==4.13", "numpy>=2")
    with pytest.raises(BadInput) as failure:
        lock(variant({"numpy": "1.26.4", "opencv": "4.13", "gone": "1.0"}), index)
    assert "no index has gone==1.0" in str(failure.value)
    assert "opencv 4.13 asks for numpy>=2" in str(failure.value)
    assert str(failure.value).count("opencv 4.13 asks for numpy>=2") == 1, "once for both architectures"


def test_an_index_that_is_lost_on_the_way_leaves_what_was_known(lock: Lock, tmp_path: Path) -> None:
    index = FakeIndex(down={""}).add("app==1")
    with pytest.raises(LookupIncomplete, match="try again"):
        lock(variant({"app": "1"}), index)
    assert not list(tmp_path.glob("*.txt"))


def test_what_sources_and_pins_say_against_each_other_takes_no_network(lock: Lock) -> None:
    index = FakeIndex(down={""})
    one = variant({"numpy": "1.26.4"}, sources=(source("vllm", "1.0", "numpy>=2"),))
    with pytest.raises(BadInput, match=r"vllm 1\.0 asks for numpy>=2 \(versions\.toml sources\.vllm\.declares\)"):
        lock(one, index)


def test_a_checkout_of_another_project_is_refused(lock: Lock, tmp_path: Path) -> None:
    one = variant({}, sources=(source("vllm"),))
    (tmp_path / "other/.git").mkdir(parents=True)
    with pytest.raises(BadInput, match="another project"):
        lock_variant(one, BOTH, {"vllm": tmp_path / "other"}, means(FakeIndex(), tmp_path))


def test_a_checkout_at_another_commit_is_told_and_stays_known_in_the_lock(
    lock: Lock, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = variant({}, sources=(source("vllm", commit="a" * 40),))
    elsewhere = Elsewhere(one.sources[0], Path("/x"), "b" * 40, dirty=False)
    monkeypatch.setattr(lock_module, "read_elsewhere", lambda *_: (elsewhere,))
    locks = lock(one, FakeIndex().add("setuptools==80"))
    assert str(elsewhere) in said
    for made in locks.values():
        assert made.elsewhere == ("vllm read at bbbbbbbbbbbb, pinned aaaaaaaaaaaa",)
        assert "\n# source: vllm read at bbbbbbbbbbbb, pinned aaaaaaaaaaaa\n" in str(made)
        assert LockFile.parse(str(made)) == made
        assert is_current(made, one)


def test_locks_are_written_whole_under_the_names_of_variant_and_architecture(
    lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = variant({"app": "1"})
    made = lock(one, FakeIndex().add("app==1"))
    folder = tmp_path / "locks"
    assert [path.name for path in write_locks(made, folder)] == ["small.amd64.txt", "small.arm64.txt"]
    assert known_locks(one, folder) == made
    before = (folder / file_name("small", Arch.AMD64)).read_text()

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="no space"):
        write_locks({Arch.AMD64: msgspec.structs.replace(made[Arch.AMD64], python="3.11")}, folder)
    assert (folder / file_name("small", Arch.AMD64)).read_text() == before
    assert len(list(folder.iterdir())) == 2


def test_a_lock_that_cannot_be_read_counts_as_not_there(lock: Lock, tmp_path: Path) -> None:
    (tmp_path / "small.amd64.txt").write_text("nonsense\n")
    assert known_locks(variant({}), tmp_path) == {}


@pytest.mark.subprocess  # git is asked about its settings
def test_a_mirror_replaces_indexes_by_name_and_the_default_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = usual_means(pins().mirror["cn"])
    assert made.packages.default == pins().mirror["cn"].index["default"]  # type: ignore[attr-defined]
    assert made.resolver.default_index == pins().mirror["cn"].index["default"]  # type: ignore[attr-defined]
    assert made.cache == tmp_path / "ascend-images"
    index = torch_index()
    index.releases = {
        ("https://mirror.example" if where == CPU else where, name, version): files
        for (where, name, version), files in index.releases.items()
    }
    mirrored = replace(means(index, tmp_path), mirror=Mirror(index={"cpu": "https://mirror.example"}))
    assert lock_variant(TORCH, BOTH, {}, mirrored)[Arch.AMD64].complete


def test_answers_are_kept_in_the_users_cache() -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/ascend-images")
    assert cache_folder({}) == Path.home() / ".cache/ascend-images"
