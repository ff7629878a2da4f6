"""versions.lock is written in one way only, read back as it was, and refused where it was spoilt."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.errors import BadInput
from ascend_images.pins.questions import asked, check
from ascend_images.pins.resolve import resolve_all
from ascend_images.pins.versions_lock import (
    FILE,
    LockedBase,
    LockedRef,
    LockedRun,
    Submodule,
    VersionsLock,
    changes,
)
from tests.lock_kit import ROOT, pins
from tests.remotes import commit, digest, locked_base, locked_ref, locked_run, sha

MODULES = (
    Submodule(path="csrc/catlass", url="https://example.invalid/catlass.git", commit=commit("c")),
    Submodule(path="csrc/catlass/deep er", url="https://example.invalid/deep", commit=commit("d")),
)
SMALL = VersionsLock(
    git=(
        locked_ref("vllm", "v1", submodules=()),
        locked_ref("vllm-ascend", "v1", kind="annotated tag", submodules=MODULES),
    ),
    base=(locked_base(), locked_base("example.invalid/one:1", "", {"linux/arm64": digest("4")})),
    run=(locked_run(),),
)


def hexes(length: int) -> st.SearchStrategy[str]:
    return st.text("0123456789abcdef", min_size=length, max_size=length)


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
digests = hexes(64).map("sha256:".__add__)
common = {"learned": st.dates(), "how": texts}
submodules = st.builds(Submodule, path=texts, url=texts, commit=hexes(40))
refs = st.builds(
    LockedRef,
    repository=texts,
    ref=texts,
    kind=st.sampled_from(["tag", "annotated tag", "branch", "commit"]),
    commit=hexes(40),
    submodules=st.none() | st.lists(submodules, max_size=3).map(tuple),
    **common,
)
bases = st.builds(
    LockedBase,
    image=texts,
    index=st.just("") | digests,
    platforms=st.dictionaries(st.sampled_from(["linux/amd64", "linux/arm64"]), digests, min_size=1),
    **common,
)
runs = st.builds(LockedRun, url=texts, sha256=hexes(64), bytes=st.integers(1, 2**40), **common)
entries = st.lists(refs | bases | runs, max_size=6)


@given(entries, st.randoms())
def test_what_is_written_is_read_back_whatever_the_order_it_came_in(
    found: list[LockedRef | LockedBase | LockedRun], random: object
) -> None:
    by_key = list({(type(entry), entry.key): entry for entry in found}.values())
    shuffled = sorted(by_key, key=lambda _: random.random())  # type: ignore[attr-defined]
    lock = VersionsLock().having(*by_key)
    assert VersionsLock().having(*shuffled) == lock
    assert VersionsLock.parse(str(lock)) == lock
    assert str(VersionsLock.parse(str(lock))) == str(lock)


def test_the_whole_text(golden: Callable[[str, str], None]) -> None:
    golden("versions-lock/small.lock", str(SMALL))


def test_each_name_means_what_was_locked_for_it() -> None:
    assert SMALL.ref("https://example.invalid/vllm", "v1") == SMALL.git[0]
    assert SMALL.ref("https://example.invalid/vllm", "v2") is None
    assert SMALL.base_image("example.invalid/one:1") == SMALL.base[1]
    assert SMALL.base_image("example.invalid/one") is None
    assert SMALL.run_file("https://example.invalid/toolkit.run") == SMALL.run[0]
    assert SMALL.run_file("https://example.invalid/ops.run") is None


def test_a_base_image_without_an_index_means_its_one_image() -> None:
    assert [entry.digest for entry in SMALL.base] == [digest("1"), digest("4")]


def test_an_entry_takes_the_place_of_the_one_with_its_key() -> None:
    newer = locked_ref("vllm", "v1", at="b")
    assert SMALL.having(newer).git == (newer, SMALL.git[1])


def test_what_changed_is_told_in_order_and_what_was_only_confirmed_apart() -> None:
    after = SMALL.having(locked_ref("vllm", "v1", at="b"), locked_ref("added", "v1"), locked_run("toolkit.run", size=8))
    assert list(map(str, changes(SMALL, after))) == [
        f"https://example.invalid/added v1: not known -> {commit('a')}",
        f"https://example.invalid/vllm v1: {commit('a')} -> {commit('b')}",
        f"https://example.invalid/toolkit.run: sha256 {sha('a')}, learned again",
    ]
    assert [change.after for change in changes(SMALL, VersionsLock(base=SMALL.base, run=SMALL.run))] == ["", ""]
    assert str(changes(SMALL, VersionsLock(git=SMALL.git, base=SMALL.base))[0]).endswith("-> dropped")
    assert changes(SMALL, SMALL) == ()


SPOILT = [
    ("not TOML", "schema = 1", "schema ="),
    ("schema", "schema = 1", "schema = 2"),
    ('unknown key "git_": did you mean "git"?', "[[git]]", "[[git_]]"),
    ('unknown key "comit": did you mean "commit"?', "commit = ", "comit = "),
    ("git[0].commit", commit("a"), "a" * 39),
    ("git[0].commit", f'"{commit("a")}"', f'"{commit("a")}\\n"'),
    ("git[0].commit", commit("a"), "A" * 40),
    ("git[0].kind", 'kind = "tag"', 'kind = "tags"'),
    ("git[0].learned", "2026-10-01", '"yesterday"'),
    ('"how" is missing', 'how = "git ls-remote"\n', ""),
    ("git[0].repository", 'repository = "https://example.invalid/vllm"', 'repository = ""'),
    ("base[1].index", f'index = "{digest("1")}"', 'index = "sha256:1"'),
    ("base[1].platforms", "linux/amd64", "linux/s390x"),
    ("run[0].bytes", "bytes = 7", "bytes = 0"),
    ("run[0].sha256", f'sha256 = "{sha("a")}"', 'sha256 = ""'),
    ("vllm v1 stands there twice", "vllm-ascend", "vllm"),
    ("not TOML", "[[run]]", "<<<<<<< ours\n[[run]]"),
]


@pytest.mark.parametrize(("message", "old", "new"), SPOILT)
def test_a_spoilt_file_names_its_fault_and_how_to_make_it_again(message: str, old: str, new: str) -> None:
    text = str(SMALL)
    assert old in text
    with pytest.raises(BadInput) as failure:
        VersionsLock.parse(text.replace(old, new), "here/versions.lock")
    assert message in failure.value.found
    assert failure.value.found.startswith("here/versions.lock: ")
    assert "invoke lock" in failure.value.do


@given(st.text())
def test_no_text_gives_anything_but_a_lock_or_a_message(text: str) -> None:
    with contextlib.suppress(BadInput):
        assert VersionsLock.parse(text) == VersionsLock()


def test_without_a_file_nothing_is_known(tmp_path: Path) -> None:
    assert VersionsLock.load(tmp_path / FILE) == VersionsLock()


def test_a_file_that_cannot_be_read_is_no_empty_one(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="cannot be read"):
        VersionsLock.load(tmp_path / FILE)
    with pytest.raises(BadInput, match="cannot be read"):
        VersionsLock.load(tmp_path)


class TestCommitted:
    """The versions.lock of this repository."""

    lock = VersionsLock.load(ROOT / FILE)
    variants = resolve_all(pins())

    def test_it_is_as_the_tool_writes_it(self) -> None:
        assert (ROOT / FILE).read_text(encoding="utf-8") == str(self.lock)

    def test_it_holds_nothing_that_no_variant_asks_for(self) -> None:
        assert {entry.key for entry in self.lock.git} <= {one.key for one in asked(self.variants).refs}
        assert {entry.key for entry in self.lock.base} <= {one.key for one in asked(self.variants).bases}

    def test_no_pin_moved_since_and_none_says_another_thing(self) -> None:
        assert [str(finding) for finding in check(self.lock, self.variants) if finding.state != "missing"] == []
