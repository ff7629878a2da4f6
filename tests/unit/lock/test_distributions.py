"""Distributions at known versions: what no index has, what fits nowhere, what can be known of one out of reach."""

import pytest

from ascend_images.errors import LookupIncomplete
from ascend_images.lock.components import asked
from ascend_images.lock.distributions import Distributions, build_demands
from ascend_images.lock.release import Release
from ascend_images.pins.lockfile import LockedPackage, LockFile
from ascend_images.pins.model import Index, Metadata
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant
from tests.lock_kit import FakeIndex, variant

ASCEND = "https://ascend.example/pypi"
CPU = "https://cpu.example/whl"
INDEXES = {
    "ascend": Index(url=ASCEND, serves=("triton-ascend",)),
    "cpu": Index(url=CPU, serves=("torch; platform_machine == 'x86_64'",)),
}


def lookups(index: FakeIndex, one: Variant, arch: Arch = Arch.ARM64) -> Distributions:
    addresses = {name: entry.url for name, entry in one.indexes.items()}
    return Distributions(index, asked(one, arch, {}), addresses)


def problem(index: FakeIndex, one: Variant, versions: dict[str, str], arch: Arch = Arch.ARM64) -> str:
    found, problems = lookups(index, one, arch).find(versions)
    assert not found
    assert len(problems) == 1
    return str(problems[0])


def test_a_pin_that_the_bound_index_has_comes_from_it_and_nothing_else_is_asked_of_it() -> None:
    index = FakeIndex().add("triton-ascend==3.2.2", "numpy==1.26.4", index=ASCEND).add("six==1.0")
    one = variant({"triton-ascend": "3.2.2", "six": "1.0"}, indexes=INDEXES)
    found, problems = lookups(index, one).find({"triton-ascend": "3.2.2", "six": "1.0"})
    assert not problems
    assert {name: [str(line) for line in known.metadata.requires] for name, known in found.items()} == {
        "triton-ascend": ["numpy==1.26.4"],
        "six": [],
    }
    assert {name for where, name in index.asked if where == ASCEND} == {"triton-ascend"}


def test_without_the_index_that_has_it_a_pin_is_an_error_that_names_the_indexes() -> None:
    index = FakeIndex().add("triton-ascend==3.2.0", index=ASCEND)
    one = variant({"triton-ascend": "3.2.0"}, indexes={"cpu": INDEXES["cpu"]})
    message = problem(index, one, {"triton-ascend": "3.2.0"})
    assert "no index has triton-ascend==3.2.0: the default index was asked" in message
    assert f'"cpu" ({CPU}) not, since they serve other packages' in message
    assert '"triton-ascend==3.2.0" into `serves`' in message


def test_a_version_that_the_bound_index_lacks_names_that_index() -> None:
    one = variant({"triton-ascend": "3.2.9"}, indexes=INDEXES)
    message = problem(FakeIndex().add("triton-ascend==3.2.9"), one, {"triton-ascend": "3.2.9"})
    assert f'no index has triton-ascend==3.2.9: index "ascend" ({ASCEND}) was asked' in message


def test_with_all_on_one_index_none_other_is_needed() -> None:
    index = FakeIndex().add("triton-ascend==3.2.0").add("torch==2.9.0")
    pins = {"triton-ascend": "3.2.0", "torch": "2.9.0"}
    found, problems = lookups(index, variant(pins)).find(pins)
    assert (set(found), problems) == (set(pins), ())


def test_a_release_without_a_file_for_python_and_architecture_says_which_there_are() -> None:
    index = FakeIndex().add("triton-ascend==3.2.0", tag="cp311-cp311-manylinux_2_28_aarch64")
    message = problem(index, variant({"triton-ascend": "3.2.0"}), {"triton-ascend": "3.2.0"})
    assert "triton-ascend==3.2.0 has no file for Python 3.12 on aarch64: triton_ascend-3.2.0-cp311" in message
    assert "a wheel for cp312 and aarch64" in message


@pytest.mark.parametrize(
    ("asks", "fits"), [(">=3.10,<3.12", False), (">=3.12.2", True), (">=3.13", False), ("x", True)]
)
def test_a_release_for_other_pythons_is_an_error(asks: str, fits: bool) -> None:
    index = FakeIndex().add("vllm==1.0", requires_python=asks)
    found, problems = lookups(index, variant({"vllm": "1.0"})).find({"vllm": "1.0"})
    assert bool(found) is fits
    assert fits or "vllm==1.0 is not for Python 3.12: it asks for Python" in str(problems[0])


def test_everything_that_is_wrong_is_found_at_once() -> None:
    found, problems = lookups(FakeIndex().add("c==1"), variant({})).find({"a": "1", "b": "2", "c": "1"})
    assert set(found) == {"c"}
    assert [problem.found.partition(":")[0] for problem in problems] == ["no index has a==1", "no index has b==2"]


def test_a_default_index_that_is_lost_ends_it() -> None:
    with pytest.raises(LookupIncomplete, match="gave no answer about 2 of 2 packages"):
        lookups(FakeIndex(down={""}), variant({})).find({"a": "1", "b": "2"})


def test_the_default_index_of_a_mirror_is_named_with_its_address() -> None:
    mirrored = lookups(FakeIndex(down={""}), variant({}))
    mirrored.addresses = {**mirrored.addresses, "default": "https://m.example/simple"}
    with pytest.raises(LookupIncomplete, match=r"^the default index \(https://m\.example/simple\) gave no answer"):
        mirrored.find({"a": "1"})
    mirrored.packages = FakeIndex()
    (problem,) = mirrored.find({"a": "1"})[1]
    assert "no index has a==1: the default index (https://m.example/simple) was asked" in problem.found


TRITON = Metadata(name="Triton-Ascend", version="3.2.2", requires=("numpy==1.26.4",), source="its wheel")


def test_what_is_out_of_reach_is_known_from_what_is_written_down() -> None:
    one = variant({"triton-ascend": "3.2.2"}, indexes=INDEXES, metadata=(TRITON,))
    found, problems = lookups(FakeIndex(down={ASCEND}), one).find({"triton-ascend": "3.2.2"})
    known = found["triton-ascend"]
    assert not problems
    assert [str(line) for line in known.metadata.requires] == ["numpy==1.26.4"]
    assert known.where == "versions.toml [[metadata]] Triton-Ascend 3.2.2"
    assert known.unreached == f'index "ascend" ({ASCEND}) could not be reached: no answer in time'
    assert known.release is None


def test_what_the_index_says_comes_before_what_is_written_down() -> None:
    index = FakeIndex().add("triton-ascend==3.2.2", "numpy==2.0", index=ASCEND)
    one = variant({"triton-ascend": "3.2.2"}, indexes=INDEXES, metadata=(TRITON,))
    known = lookups(index, one).find({"triton-ascend": "3.2.2"})[0]["triton-ascend"]
    assert [str(line) for line in known.metadata.requires] == ["numpy==2.0"]


def test_the_cpu_build_out_of_reach_is_taken_to_ask_for_what_its_namesake_does_less_what_is_excluded() -> None:
    index = FakeIndex(down={CPU}).add("torch==2.10.0", "sympy", "nvidia-cudnn==9.1", "triton==3.6.0")
    exclude = {"nvidia-*": "CUDA only", "triton": "shares a directory"}
    one = variant({"torch": "2.10.0"}, indexes=INDEXES, exclude=exclude)
    known = lookups(index, one, Arch.AMD64).find({"torch": "2.10.0+cpu"})[0]["torch"]
    assert [str(line) for line in known.metadata.requires] == ["sympy"]
    assert known.where == "the metadata of torch 2.10.0"
    assert known.unreached


def test_what_is_out_of_reach_and_nowhere_written_down_ends_it_with_the_way_out() -> None:
    one = variant({"triton-ascend": "3.2.2"}, indexes=INDEXES)
    with pytest.raises(LookupIncomplete) as failure:
        lookups(FakeIndex(down={ASCEND}), one).find({"triton-ascend": "3.2.2"})
    assert "what it asks for is not written down" in str(failure.value)
    assert "add [[metadata]] for triton-ascend 3.2.2 to versions.toml" in str(failure.value)


def test_an_index_that_is_lost_is_asked_once() -> None:
    index = FakeIndex(down={ASCEND})
    one = variant({"triton-ascend": "3.2.2"}, indexes=INDEXES, metadata=(TRITON,))
    there = lookups(index, one)
    for _ in range(3):
        there.find({"triton-ascend": "3.2.2"})
    assert len(index.asked) == 1


def test_building_an_sdist_takes_what_the_set_lacks_and_what_it_has_is_met_by_the_pin() -> None:
    index = FakeIndex().add(
        "arctic==0.1", sdist=True, build=["torch==2.7.0", "nanobind==2.9.2", "ninja; os_name == 'nt'"]
    )
    index.add("six==1.0", build=["flit"])
    there = lookups(index, variant({}))
    found = tuple(there.find({"arctic": "0.1", "six": "1.0"})[0].values())
    needed = build_demands(found, lambda name: name == "torch", there.asked)
    assert {name: [str(line) for line in lines] for name, lines in needed.items()} == {"arctic": ["nanobind==2.9.2"]}
    assert build_demands(found, lambda name: True, there.asked) == {}


def test_the_sdists_of_an_earlier_lock_are_read_as_far_as_they_are_still_there() -> None:
    index = FakeIndex().add("jieba==0.42.1", sdist=True)
    lock = LockFile(
        variant="small",
        arch=Arch.ARM64,
        python="3.12",
        inputs="",
        sdists=("gone", "jieba"),
        packages=(LockedPackage("gone", "1"), LockedPackage("jieba", "0.42.1"), LockedPackage("six", "1")),
    )
    assert set(lookups(index, variant({})).sdists(lock)) == {"jieba"}
    index.down = {""}
    assert lookups(index, variant({})).sdists(lock) == {}


class Growing(FakeIndex):
    """An index whose kept list does not have what was published since."""

    def renewed(self, name: str, version: str, index: str | None = None) -> Release | None:
        self.add(f"{name}=={version}", tag="cp312-cp312-manylinux_2_28_aarch64", index=index or "")
        return self.release(name, version, index)


def test_a_file_that_came_after_the_list_was_kept_is_found() -> None:
    index = Growing().add("numpy==2.0", tag="cp312-cp312-manylinux_2_28_x86_64")
    one = variant({"numpy": "2.0"})
    found, problems = lookups(index, one).find({"numpy": "2.0"})
    assert not problems
    assert found["numpy"].file is not None
    assert "aarch64" in found["numpy"].file.filename
