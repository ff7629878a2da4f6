"""What a pinned ref means, weighed against what was known: kept, taken, told or refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.errors import BadInput
from ascend_images.lock.git import Refs, Tag
from ascend_images.lock.reach import MovedError, Outcome
from ascend_images.lock.refs import Known, is_commit, meaning, near_names, settle_ref
from ascend_images.pins.questions import AskedRef
from ascend_images.pins.versions_lock import LockedRef, Submodule
from tests.remotes import TODAY, FakeGit, commit, locked_ref, repository

VLLM = repository("vllm")


def settled(
    git: FakeGit, ref: str = "v1", old: LockedRef | None = None, *, renew: bool = False, **fields: Any
) -> Outcome[LockedRef]:
    given: dict[str, Any] = {"pins": ("sources.vllm",), "variants": ("a2", "a3"), **fields}
    known = Known(AskedRef(repository=VLLM, ref=ref, **given), old, TODAY, renew)
    return settle_ref(known, None if is_commit(ref) else git.refs(VLLM), git)


def refusal(outcome: Outcome[LockedRef]) -> BadInput:
    assert outcome.problem is not None
    assert outcome.problem.found.startswith(f"{VLLM}")
    assert outcome.problem.wanted
    assert outcome.problem.do
    return outcome.problem


@pytest.fixture
def git() -> FakeGit:
    made = FakeGit(loose={commit("f")})
    made.tag(VLLM, "v1", commit("a"))
    made.tag(VLLM, "v2", commit("b"), annotated=True)
    made.branch(VLLM, "main", commit("c"))
    return made


# What was not known before.


@pytest.mark.parametrize(
    ("ref", "kind", "found", "how"),
    [
        ("v1", "tag", "a", "git ls-remote"),
        ("v2", "annotated tag", "b", "git ls-remote"),
        ("main", "branch", "c", "git ls-remote"),
        ("refs/heads/main", "branch", "c", "git ls-remote"),
        ("refs/tags/v2", "annotated tag", "b", "git ls-remote"),
        (commit("f"), "commit", "f", "git fetch"),
        (commit("c"), "commit", "c", "git fetch"),
    ],
)
def test_each_kind_of_ref_is_learned(git: FakeGit, ref: str, kind: str, found: str, how: str) -> None:
    entry = settled(git, ref).entry
    assert entry is not None
    assert (entry.ref, entry.kind, entry.commit, entry.how, entry.learned) == (ref, kind, commit(found), how, TODAY)
    assert entry.submodules is None


def test_of_a_tag_and_a_branch_the_tag_is_taken_and_that_is_said(git: FakeGit) -> None:
    git.branch(VLLM, "v1", commit("e"))
    outcome = settled(git)
    assert outcome.entry is not None
    assert outcome.entry.commit == commit("a")
    assert outcome.notes == (f"{VLLM}: v1 is a tag and a branch: the tag is taken; the branch is refs/heads/v1",)
    branch = settled(git, "refs/heads/v1")
    assert branch.entry is not None
    assert (branch.entry.commit, branch.notes) == (commit("e"), ())


def test_a_ref_that_is_nowhere_is_told_with_names_near_to_it(git: FakeGit) -> None:
    """The second input of a real report: a release candidate that only another project has."""
    for name in ("v0.9.0", "v0.9.0rc1", "v0.9.1", "v0.1.0"):
        git.tag(VLLM, name, commit("d"))
    problem = refusal(settled(git, "v0.9.0rc2"))
    assert problem.found == f"{VLLM}: v0.9.0rc2: not found on the remote"
    assert "near to it: v0.9.0rc1, v0.9.0" in problem.wanted
    assert problem.do == "mend sources.vllm.ref in versions.toml"


def test_where_no_name_is_near_the_remote_is_described(git: FakeGit) -> None:
    assert refusal(settled(git, "zzzzz")).wanted == "a tag or a branch that is there: it has 2 tags and 1 branches"


@pytest.mark.parametrize("old", [None, "a"])
def test_a_commit_that_the_remote_does_not_give_is_refused(git: FakeGit, old: str | None) -> None:
    """The first input of the same report: a commit in full that is absent."""
    absent = "0123456789abcdef0123456789abcdef01234567"
    entry = locked_ref(ref=absent, kind="commit") if old else None
    outcome = settled(git, absent, entry)
    assert refusal(outcome).found == f"{VLLM}: {absent}: not found on the remote"
    assert outcome.entry == entry


def test_the_id_of_a_tag_is_no_commit(git: FakeGit) -> None:
    git.tag_objects[commit("9")] = commit("a")
    problem = refusal(settled(git, commit("9")))
    assert "the id of a tag" in problem.found
    assert commit("a") in problem.wanted


@pytest.mark.parametrize("ref", ["ccccccc", "CCCCCCC", "1234", commit("C"), "0" * 39])
def test_a_shortened_commit_is_refused_with_what_to_write(git: FakeGit, ref: str) -> None:
    problem = refusal(settled(git, ref))
    assert "no commit in full" in problem.found
    assert "all 40 digits" in problem.wanted
    assert (commit("c") in problem.wanted) == ref.lower().startswith("c")


def test_a_tag_whose_name_looks_like_a_shortened_commit_is_a_tag(git: FakeGit) -> None:
    git.tag(VLLM, "20240101", commit("d"))
    outcome = settled(git, "20240101")
    assert outcome.entry is not None
    assert outcome.entry.kind == "tag"


@pytest.mark.parametrize("ref", ["refs/pull/7/head", "refs/notes/x"])
def test_what_is_neither_tag_nor_branch_is_refused(git: FakeGit, ref: str) -> None:
    assert "neither a tag nor a branch" in refusal(settled(git, ref)).found


# What was known before.


def test_what_still_holds_is_kept_as_it_was_and_nothing_is_fetched(git: FakeGit) -> None:
    for old in (
        locked_ref(),
        locked_ref(ref="v2", at="b", kind="annotated tag"),
        locked_ref(ref="main", at="c", kind="branch"),
    ):
        assert settled(git, old.ref, old) == Outcome(entry=old)
    assert {question[0] for question in git.asked} == {"refs"}


def test_what_was_written_by_hand_is_confirmed(git: FakeGit) -> None:
    entry = settled(git, old=locked_ref(how="recorded by hand", submodules=[])).entry
    assert entry is not None
    assert (entry.how, entry.learned, entry.submodules) == ("git ls-remote", TODAY, ())


@pytest.mark.parametrize("name", ["v1", "v2"])
def test_a_tag_that_moved_is_an_error_of_its_own_that_names_both_commits(git: FakeGit, name: str) -> None:
    old = locked_ref(ref=name, at="d")
    outcome = settled(git, name, old)
    problem = refusal(outcome)
    assert isinstance(problem, MovedError)
    assert commit("d") in problem.found
    assert commit("a" if name == "v1" else "b") in problem.found
    assert problem.do.endswith("invoke lock --variant a2 --update vllm")
    assert outcome.entry == old


def test_a_tag_that_moved_is_taken_when_it_is_named(git: FakeGit) -> None:
    entry = settled(git, old=locked_ref(at="d", submodules=[]), renew=True).entry
    assert entry is not None
    assert (entry.commit, entry.learned, entry.submodules) == (commit("a"), TODAY, None)


def test_a_tag_that_is_gone_keeps_its_commit_while_that_can_be_fetched(git: FakeGit) -> None:
    old = locked_ref(ref="v3", at="f")
    outcome = settled(git, "v3", old)
    assert outcome.entry == old
    assert outcome.problem is None
    assert "v3: not found on the remote any more; its commit ffffffffffff still is" in outcome.notes[0]


def test_a_tag_that_is_gone_with_its_commit_is_refused(git: FakeGit) -> None:
    old = locked_ref(ref="v3", at="0")
    outcome = settled(git, "v3", old)
    problem = refusal(outcome)
    assert "v3: not found on the remote any more, and neither is its commit 0000" in problem.found
    assert "near to it: v2, v1" in problem.wanted
    assert outcome.entry == old


def test_a_branch_that_went_on_keeps_its_commit(git: FakeGit) -> None:
    old = locked_ref(ref="main", at="f", kind="branch")
    outcome = settled(git, "main", old)
    assert outcome.entry == old
    assert outcome.problem is None
    assert "the branch went on to cccccccccccc; ffffffffffff is kept" in outcome.notes[0]
    assert "invoke lock --variant a2 --update vllm" in outcome.notes[0]


def test_a_branch_that_went_on_is_taken_when_it_is_named(git: FakeGit) -> None:
    outcome = settled(git, "main", locked_ref(ref="main", at="f", kind="branch"), renew=True)
    assert outcome.entry is not None
    assert (outcome.entry.commit, outcome.notes) == (commit("c"), ())


def test_a_branch_that_was_rewritten_is_refused_once_its_old_commit_is_gone(git: FakeGit) -> None:
    old = locked_ref(ref="main", at="0", kind="branch")
    outcome = settled(git, "main", old)
    problem = refusal(outcome)
    assert f"the branch is at {commit('c')}, and its remote gives the commit {commit('0')} no longer" in problem.found
    assert outcome.entry == old


def test_a_tag_that_became_a_branch_has_moved(git: FakeGit) -> None:
    assert isinstance(refusal(settled(git, "main", locked_ref(ref="main", at="f"))), MovedError)


# Submodules.

MODULE = Submodule(path="third_party/x", url="https://example.invalid/x", commit=commit("e"))


def test_submodules_are_read_where_they_are_wanted_and_not_yet_known(git: FakeGit) -> None:
    git.holds[commit("a")] = (MODULE,)
    entry = settled(git, submodules=True).entry
    assert entry is not None
    assert entry.submodules == (MODULE,)
    assert settled(git, submodules=True, old=entry).entry == entry
    assert [question[0] for question in git.asked].count("submodules") == 1


def test_submodules_of_another_commit_are_read_again(git: FakeGit) -> None:
    entry = settled(git, submodules=True, old=locked_ref(at="d", submodules=[MODULE]), renew=True).entry
    assert entry is not None
    assert entry.submodules == ()


def test_a_commit_counts_though_its_submodules_could_not_be_read(git: FakeGit) -> None:
    git.down[f"{VLLM} {commit('a')}"] = "no answer in time"
    outcome = settled(git, submodules=True)
    assert outcome.entry is not None
    assert outcome.entry.submodules is None
    assert outcome.unreached == "its submodules: no answer in time"


def test_a_commit_counts_though_something_is_wrong_with_its_submodules(
    git: FakeGit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: str) -> tuple[Submodule, ...]:
        raise BadInput(f"{VLLM}: no address", wanted="one", do="mend it")

    monkeypatch.setattr(git, "submodules", refuse)
    outcome = settled(git, submodules=True)
    assert outcome.entry is not None
    assert "no address" in refusal(outcome).found


# Names, whatever they are.

names = st.text(st.characters(categories=["L", "N"], include_characters="./-_"), min_size=1, max_size=20)
many = st.builds(
    Refs,
    st.dictionaries(names, st.builds(Tag, st.sampled_from("abc").map(commit), st.booleans()), max_size=5),
    st.dictionaries(names, st.sampled_from("abc").map(commit), max_size=5),
)


@given(many, names)
def test_a_name_means_a_ref_that_is_there_or_nothing(refs: Refs, name: str) -> None:
    found = meaning(refs, name)
    if found is None:
        assert name not in {*refs.tags, *refs.branches}
    elif found.kind == "branch":
        assert found.commit in refs.branches.values()
    else:
        assert found.commit in {tag.commit for tag in refs.tags.values()}
    assert set(near_names(refs, name)) <= {*refs.tags, *refs.branches}


@given(many, names, st.none() | st.sampled_from("abcd"), st.booleans())
def test_every_ref_is_learned_kept_or_refused(refs: Refs, name: str, old: str | None, renew: bool) -> None:
    git = FakeGit(tags={VLLM: dict(refs.tags)}, branches={VLLM: dict(refs.branches)})
    outcome = settled(git, name, locked_ref(ref=name, at=old) if old else None, renew=renew)
    assert outcome.problem is not None or outcome.entry is not None
    if old:
        assert outcome.entry is not None


def test_a_login_in_an_address_that_was_locked_once_is_not_published_any_longer(git: FakeGit) -> None:
    git.holds[commit("a")] = (MODULE,)
    private = {"path": "x", "url": "https://me:s3cret@example.invalid/x", "commit": commit("e")}
    old = locked_ref(submodules=[private])
    assert settled(git, submodules=True, old=old).entry.submodules == (MODULE,)  # type: ignore[union-attr]
    again = settled(git, old=old).entry
    assert again is not None
    assert again.submodules is None
    git.down[f"{VLLM} {commit('a')}"] = "no answer in time"
    lost = settled(git, submodules=True, old=old)
    assert lost.unreached
    assert "s3cret" not in str(lost)
