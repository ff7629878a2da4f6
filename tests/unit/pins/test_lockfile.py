"""The package lock's file format: what is written is read again, and nothing else is taken for one."""

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.errors import BadInput
from ascend_images.pins.lockfile import (
    Conflict,
    LockedPackage,
    LockFile,
    file_name,
    input_parts,
    inputs_hash,
    is_current,
    moved_pins,
)
from ascend_images.pins.model import Relax
from ascend_images.pins.platform import Arch
from ascend_images.pins.resolve import resolve
from ascend_images.pins.variant import Variant
from tests.pins_kit import committed

PINS = committed()
A2 = resolve(PINS, "a2")
HASH = "sha256:" + "0" * 64
LOCK = LockFile(
    variant="a2",
    arch=Arch.ARM64,
    python="3.12",
    inputs="sha256:" + "1" * 64,
    incomplete=("torch==2.10.0: its index could not be reached",),
    differs=("decord==0.6.0 only here: it has no file for x86_64",),
    sdists=("jieba",),
    conflicts=(Conflict("vllm", "0.23.0", 'numpy>=2; python_version > "3.9"', "1.26.4", "“seen” to work"),),
    packages=(LockedPackage("jieba", "0.42.1", (HASH, "sha256:" + "2" * 64)), LockedPackage("torch", "2.10.0")),
)
TEXT = str(LOCK)
CONFLICT = (
    '# conflict: {"whose":"vllm","version":"0.23.0","demand":"numpy>=2; python_version > \\"3.9\\"",'
    '"found":"1.26.4","reason":"“seen” to work"}'
)


def test_a_lock_is_a_requirements_file_under_a_head() -> None:
    assert TEXT.splitlines() == [
        "# Made by: invoke lock --variant a2",
        "# variant: a2",
        "# platform: linux/arm64",
        "# python: 3.12",
        "# inputs: sha256:" + "1" * 64,
        "# content: sha256:82a2695dd52dd73d55469490e2181af9e4fa7f2b33bbccf9463c970e64481a2b",
        "# incomplete: torch==2.10.0: its index could not be reached",
        "# differs: decord==0.6.0 only here: it has no file for x86_64",
        "# sdist: jieba",
        CONFLICT,
        "jieba==0.42.1 \\",
        f"    --hash={HASH} \\",
        "    --hash=sha256:" + "2" * 64,
        "torch==2.10.0",
    ]


def test_what_is_written_is_read_again() -> None:
    assert LockFile.parse(TEXT) == LOCK


def test_where_sources_were_read_is_part_of_what_the_digest_is_over_and_may_be_absent() -> None:
    note = "vllm read at 3cc6f648e5a4, pinned 5cb98caaadef"
    read = msgspec.structs.replace(LOCK, elsewhere=(note, "verl read at no commit, pinned main"))
    text = str(read)
    assert text.splitlines()[6:8] == [f"# source: {note}", "# source: verl read at no commit, pinned main"]
    assert LockFile.parse(text) == read
    assert LockFile.parse(TEXT).elsewhere == ()
    for spoiled in (text.replace(f"# source: {note}\n", ""), text.replace("3cc6f648e5a4", "5cb98caaadef")):
        assert "was changed after it was made" in complaint_about(spoiled)


names = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,6}[a-z0-9])?", fullmatch=True).filter(lambda name: "--" not in name)
versions = st.from_regex(r"[1-9][0-9]?\.[0-9]\.[0-9](\.post[1-9])?(\+cpu)?", fullmatch=True)
hashes = st.lists(st.from_regex(r"sha256:[0-9a-f]{64}", fullmatch=True), min_size=1, max_size=3, unique=True)
words = st.text(st.characters(blacklist_categories=("Cc", "Cs", "Zl", "Zp")), max_size=20)


@given(
    packages=st.dictionaries(names, st.tuples(versions, hashes), max_size=6),
    conflicts=st.lists(st.builds(Conflict, words, words, words, words, words), max_size=3),
    arch=st.sampled_from(Arch),
)
def test_any_lock_is_read_again(
    packages: dict[str, tuple[str, list[str]]], conflicts: list[Conflict], arch: Arch
) -> None:
    lock = msgspec.structs.replace(
        LOCK,
        arch=arch,
        incomplete=(),
        sdists=tuple(sorted(packages)[:1]),
        conflicts=tuple(conflicts),
        packages=tuple(LockedPackage(n, v, tuple(h)) for n, (v, h) in sorted(packages.items())),
    )
    assert LockFile.parse(str(lock)) == lock


@given(line=st.integers(0, len(TEXT.splitlines()) - 1), junk=st.text(max_size=12))
def test_a_damaged_line_is_an_error_that_names_it_or_changes_nothing_but_itself(line: int, junk: str) -> None:
    lines = TEXT.splitlines()
    lines[line] = junk.replace("\n", "")
    complaint = complaint_about("\n".join(lines) + "\n")
    assert not complaint or complaint.startswith("locks/a2.arm64.txt:")


def complaint_about(text: str) -> str:
    try:
        LockFile.parse(text, "locks/a2.arm64.txt")
    except BadInput as error:
        return str(error)
    return ""


NONSENSE = {
    "an unknown key": ("# python: 3.12", "# pyhton: 3.12", 'unknown key "pyhton"'),
    "a key twice": ("# python: 3.12", "# python: 3.12\n# python: 3.11", '"python" twice'),
    "a missing key": ("# inputs: sha256:" + "1" * 64 + "\n", "", "the head lacks inputs"),
    "no digest": ("# content: sha256:", "# sdist: sha256:", "the head lacks content"),
    "another digest": ("# content: sha256:", "# content: sha256:0", "was changed after it was made"),
    "another reason": ("“seen” to work", "works", "was changed after it was made"),
    "another version": ("\ntorch==2.10.0", "\ntorch==2.10.1", "has no hash"),
    "another version of a package with hashes": ("jieba==0.42.1", "jieba==0.42.2", "was changed after it was made"),
    "another hash": ("sha256:" + "2" * 64, "sha256:" + "3" * 64, "was changed after it was made"),
    "a package less": ("torch==2.10.0\n", "", "was changed after it was made"),
    "conflicts without end": ("# conflict: {", "# conflict: " + "[" * 9999 + "{", "a conflict line cannot be read"),
    "a comment that is no key": ("# sdist: jieba", "# a remark", "not a line of a lock's head"),
    "no digest of inputs": ("# inputs: sha256:" + "1" * 64, "# inputs: md5:1", "not a hash of inputs"),
    "another platform": ("linux/arm64", "windows/arm64", "unknown platform"),
    "a range": ("torch==2.10.0", "torch>=2.10.0", "not a locked package: torch>=2.10.0"),
    "an address": ("torch==2.10.0", "torch @ https://example.invalid/torch.whl", "not a locked package"),
    "a version that is none": ("torch==2.10.0", "torch==two", '"two" is not a version'),
    "a name not in normal form": ("torch==2.10.0", "torch_x==2.10.0", "not in normal form"),
    "a version not in normal form": ("torch==2.10.0", "torch==2.10.0.post04", "torch==2.10.0.post4"),
    "another order": ("torch==2.10.0", "attrs==1", "attrs stands after jieba"),
    "a hash that is none": (f"    --hash={HASH} \\", "    --hash=sha256:12 \\", "not a hash: --hash=sha256:12"),
    "a line that continues into nothing": (f"    --hash={HASH} \\\n", "\n", "a line that continues ends here"),
    "a file that continues into nothing": ("torch==2.10.0\n", "torch==2.10.0 \\\n", "a line that continues ends here"),
    "a package without a hash and without a word": (
        "# incomplete: torch==2.10.0: its index could not be reached\n", "", "torch==2.10.0 has no hash",
    ),
    "an sdist that is not in the set": ("# sdist: jieba", "# sdist: oss2", 'calls "oss2" an sdist'),
    "a conflict that is none": ("# conflict: {", "# conflict: [", "a conflict line cannot be read"),
    "a conflict with an unknown key": ('"whose":', '"who":', "a conflict line cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("case", NONSENSE)
def test_nonsense_is_an_error_that_says_what_it_is(case: str) -> None:
    before, after, message = NONSENSE[case]
    assert before in TEXT
    with pytest.raises(BadInput) as failure:
        LockFile.parse(TEXT.replace(before, after), "locks/a2.arm64.txt")
    assert message in str(failure.value)
    assert str(failure.value).startswith("locks/a2.arm64.txt:")


def test_a_lock_that_is_not_there_says_how_it_is_made(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"invoke lock --variant a3-cann8\.5"):
        LockFile.load(tmp_path / file_name("a3-cann8.5", Arch.AMD64))


def test_a_lock_with_the_line_ends_of_windows_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a2.arm64.txt"
    path.write_bytes(TEXT.replace("\n", "\r\n").encode())
    assert LockFile.load(path) == LOCK


def test_a_pipe_is_no_lock(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a2.arm64.txt")
    with pytest.raises(BadInput, match="not a regular file"):
        LockFile.load(tmp_path / "a2.arm64.txt")


def test_a_lock_that_is_not_text_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a2.amd64.txt"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="cannot be read"):
        LockFile.load(path)


def test_a_complete_lock_has_a_hash_for_everything() -> None:
    assert not LOCK.complete
    assert [package.name for package in LOCK.packages if not package.hashes] == ["torch"]
    assert msgspec.structs.replace(LOCK, incomplete=(), packages=LOCK.packages[:1]).complete
    assert LOCK.versions == {"jieba": "0.42.1", "torch": "2.10.0"}


def made_of(variant: Variant) -> LockFile:
    return msgspec.structs.replace(LOCK, inputs=inputs_hash(variant, LOCK.arch), python=variant.python)


CHANGES = {
    "a version": {"packages": {**A2.packages, "numpy": "1.26.3"}},
    "a relaxation": {"relax": A2.relax[:-1]},
    "an exclusion": {"exclude": {}},
    "a package without dependencies": {"no_dependencies": {}},
    "Python": {"python": "3.11"},
    "a source's revision": {"sources": (msgspec.structs.replace(A2.sources[0], commit="0" * 40), *A2.sources[1:])},
    "a source's files": {"sources": (msgspec.structs.replace(A2.sources[0], requirements=("r.txt",)), *A2.sources[1:])},
    "an index": {"indexes": {}},
    "written-down metadata": {"metadata": ()},
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_lock_of_other_pins_is_not_current(what: str) -> None:
    lock = made_of(A2)
    assert is_current(lock, A2)
    assert not is_current(lock, msgspec.structs.replace(A2, **CHANGES[what]))


def test_a_lock_of_the_other_architecture_is_not_current() -> None:
    assert not is_current(msgspec.structs.replace(made_of(A2), arch=Arch.AMD64), A2)


def test_rewording_a_reason_or_moving_a_path_leaves_a_lock_current() -> None:
    reworded = tuple(Relax(whose=relax.whose, demand=relax.demand, reason="other words") for relax in A2.relax)
    moved = tuple(msgspec.structs.replace(source, path="/src" + source.path) for source in A2.sources)
    exclude = dict.fromkeys(A2.exclude, "other words")
    changed = msgspec.structs.replace(A2, relax=reworded, sources=moved, exclude=exclude, env={}, tag="another")
    assert is_current(made_of(A2), changed)


def test_a_lock_that_cannot_be_read_names_the_command_that_makes_it(tmp_path: Path) -> None:
    for path in (tmp_path / "a3-cann8.5.arm64.txt", tmp_path / "none" / "a3-cann8.5.arm64.txt"):
        if path.parent.is_dir():
            path.write_text("six==1.0\n")
        with pytest.raises(BadInput) as caught:
            LockFile.load(path)
        assert caught.value.do.endswith(": invoke lock --variant a3-cann8.5")
    with pytest.raises(BadInput) as caught:
        LockFile.parse(TEXT + "nonsense\n", tmp_path / "other.amd64.txt")
    assert caught.value.do == "make the lock again: invoke lock --variant a2", "the head says whose it is"


VLLM = A2.sources[0]
MOVED = {
    "a version": (CHANGES["a version"], "numpy is 1.26.3, locked 1.26.4"),
    "a new package": ({"packages": {**A2.packages, "nowhere": "0.8.1"}}, "nowhere is 0.8.1, not locked"),
    "a range": ({"packages": {**A2.packages, "numpy": "<1.26"}}, "numpy is <1.26, locked 1.26.4"),
    "a package that is pinned no more": (
        {"packages": {name: pin for name, pin in A2.packages.items() if name != "numpy"}},
        "packages changed",
    ),
    "Python": (CHANGES["Python"], "python is 3.11, locked 3.12"),
    "a relaxation": (CHANGES["a relaxation"], "relax changed"),
    "an index": (CHANGES["an index"], "indexes changed"),
    "written-down metadata": (CHANGES["written-down metadata"], "metadata changed"),
    "an exclusion": (CHANGES["an exclusion"], "exclude changed"),
    "a source's revision": (CHANGES["a source's revision"], "sources.vllm changed"),
    "a source that is gone": ({"sources": A2.sources[1:]}, "sources.vllm is gone"),
    "a new source": (
        {"sources": (*A2.sources, msgspec.structs.replace(VLLM, name="verl"))},
        "sources.verl is new",
    ),
}


@pytest.mark.parametrize("what", MOVED)
def test_a_stale_lock_names_the_pin_that_moved_and_no_other(what: str) -> None:
    lock = LockFile.load(Path(__file__).parents[3] / "locks" / file_name("a2", Arch.ARM64))
    changes, told = MOVED[what]
    assert moved_pins(lock, A2) == ()
    assert moved_pins(lock, msgspec.structs.replace(A2, **changes)) == (told,)


def test_a_lock_that_does_not_know_its_parts_is_stale_all_the_same() -> None:
    lock = LockFile.load(Path(__file__).parents[3] / "locks" / file_name("a2", Arch.ARM64))
    plain = msgspec.structs.replace(lock, parts={})
    told = moved_pins(plain, msgspec.structs.replace(A2, **CHANGES["a relaxation"]))
    assert told == ("something that decides on packages changed",)


def test_parts_are_written_and_read_again() -> None:
    whole = msgspec.structs.replace(LOCK, parts=input_parts(A2, Arch.ARM64))
    assert LockFile.parse(str(whole)) == whole
    damaged = str(whole).replace('# parts: {"', '# parts: ["', 1)
    with pytest.raises(BadInput, match="the line of parts cannot be read"):
        LockFile.parse(damaged)
