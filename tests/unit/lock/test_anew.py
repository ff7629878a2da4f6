"""What came a moment ago is found: no list that was kept is believed where it says that something is not there."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from ascend_images import locking, updating
from ascend_images.lock import means
from ascend_images.lock.anew import UvAnew, lacking
from ascend_images.lock.catalog import Catalog
from ascend_images.lock.means import Means
from ascend_images.lock.resolver import Question, UnresolvableError, Uv
from ascend_images.lock.target import Target
from ascend_images.locking import Renewal
from ascend_images.pins.platform import Arch
from ascend_images.selection import select
from tests.lock_kit import ROOT

QUESTION = Question(target=Target(Arch.ARM64, "3.12"), pins=(Requirement("lib==2"),))


@dataclass
class Lists:
    """uv with lists that it kept: what it says before and after each package is asked anew."""

    old: dict[str, str]
    new: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[str, ...]] = field(default_factory=list)
    known: set[str] = field(default_factory=set)

    def resolve(self, uv: Uv, _: Question) -> dict[str, str]:
        self.calls.append(uv.arguments)
        self.known |= set(self.new) if "--refresh" in uv.arguments else set(uv.arguments) & set(self.new)
        for name, said in self.old.items():
            if said and name not in self.known:
                raise UnresolvableError(f"No solution found\n Because {said} and you require it, …")
        return {**dict.fromkeys(self.old, "1"), **{name: self.new[name] for name in self.known}}


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Lists]:
    def make(old: dict[str, str], **new: str) -> Lists:
        made = Lists(old, new)
        monkeypatch.setattr(Uv, "resolve", lambda uv, question: made.resolve(uv, question))
        return made

    return make


def test_a_version_that_is_not_there_is_looked_for_anew_once(lists: Callable[..., Lists]) -> None:
    uv = lists({"lib": "there is no version of lib==2", "dep": "only dep==1 is available"}, lib="2", dep="2")
    one = UvAnew(arguments=("--x",))
    assert one.resolve(QUESTION) == {"lib": "2", "dep": "2"}
    assert uv.calls == [("--x",), ("--x", "--refresh-package", "lib"), ("--x", "--refresh-package", "dep")]


def test_what_is_still_not_there_is_told_and_not_asked_for_ever(lists: Callable[..., Lists]) -> None:
    uv = lists({"lib": "there is no version of lib==2"})
    one = UvAnew()
    for _ in range(2):
        with pytest.raises(UnresolvableError, match="no version of lib==2"):
            one.resolve(QUESTION)
    assert uv.calls == [(), ("--refresh-package", "lib"), ()]


def test_a_contradiction_of_what_is_there_costs_nothing_more(lists: Callable[..., Lists]) -> None:
    uv = lists({"lib": "lib==1 depends on numpy<2 and opencv==1 depends on numpy>=2"})
    with pytest.raises(UnresolvableError):
        UvAnew().resolve(QUESTION)
    assert uv.calls == [()]


def test_offline_no_list_can_be_asked_for_anew(lists: Callable[..., Lists]) -> None:
    uv = lists({"lib": "there is no version of lib==2"}, lib="2")
    with pytest.raises(UnresolvableError):
        UvAnew(offline=True, fresh=True).resolve(QUESTION)
    assert uv.calls == [()]


def test_afresh_every_list_is_asked_for_anew_and_each_once(lists: Callable[..., Lists]) -> None:
    uv = lists({"lib": "", "dep": ""}, lib="2")
    one = UvAnew(fresh=True)
    assert one.resolve(QUESTION) == {"lib": "2", "dep": "1"}
    uv.old["more"] = ""
    assert one.resolve(QUESTION) == {"lib": "2", "dep": "1", "more": "1"}
    assert uv.calls == [("--refresh",), (), ("--refresh-package", "more")]


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("Because there is no version of lib==2.0 and you require lib==2.0", {"lib"}),
        ("Because there are no versions of My.Lib and you require my-lib", {"my-lib"}),
        ("Because only lib==1.0 is available and you require lib>1", {"lib"}),
        ("Because only lib<=1.0 is available and", {"lib"}),
        ("only the following versions of torch-npu are available:\n torch-npu==1", {"torch-npu"}),
        ("Because lib==2.0 has no wheels with a matching platform tag (e.g., `x`)", {"lib"}),
        ("Because lib==1 depends on numpy<2 and opencv==1 depends on numpy>=2", set()),
    ],
)
def test_what_is_missing_is_read_from_the_words_of_uv(said: str, names: set[str]) -> None:
    assert lacking(said) == names


# Who says that nothing old counts.


@pytest.fixture
def plain_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(means, "require_checked_hosts", lambda _: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def freshness(made: Means) -> tuple[bool, bool]:
    assert isinstance(made.packages, Catalog)
    assert isinstance(made.resolver, UvAnew)
    return made.packages.fresh, made.resolver.fresh


@pytest.mark.usefixtures("plain_machine")
@pytest.mark.parametrize(
    ("renewal", "fresh"),
    [(Renewal(), False), (Renewal(update=("numpy",)), True), (Renewal(fresh=True), True)],
)
def test_update_and_fresh_use_no_list_that_was_kept(renewal: Renewal, fresh: bool) -> None:
    selection = select(ROOT, names=("a2",))
    assert freshness(locking._means(selection, "", renewal, means.silent)) == (fresh, fresh)


@pytest.mark.usefixtures("plain_machine")
def test_outdated_asks_for_every_list_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updating, "found_updates", lambda _, room: room)
    room: Any = updating.outdated(select(ROOT, names=("a2",)), say=means.silent)
    assert room.hosts.packages.fresh
    assert freshness(room.means) == (False, False), "what it tries is asked for anew where it is not there"
