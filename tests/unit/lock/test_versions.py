"""Learning a whole versions.lock: each remote asked once, what holds kept, nothing lost, all that is wrong told."""

import dataclasses
import threading
from typing import Any

import msgspec
import pytest

from ascend_images.errors import BadInput, LookupIncomplete, MissingTool
from ascend_images.lock.digests import Imagetools
from ascend_images.lock.git import GitClient, Refs
from ascend_images.lock.means import Means
from ascend_images.lock.reach import MovedError
from ascend_images.lock.run_files import Downloaded, Downloads
from ascend_images.lock.versions import Hosts, Learned, all_names, learn, usual_hosts
from ascend_images.lock.way import Way
from ascend_images.pins.model import Mirror
from ascend_images.pins.questions import check
from ascend_images.pins.versions_lock import VersionsLock
from tests.remotes import (
    IMAGE,
    TODAY,
    FakeFiles,
    FakeGit,
    FakeImages,
    asking,
    commit,
    digest,
    hosts,
    locked_base,
    locked_ref,
    locked_run,
    repository,
    run_file,
    sha,
    wanting,
)

VARIANT = wanting(asking(), asking("plugin", ref="main"), runs=(run_file("toolkit.run"), run_file("ops.run")))
OTHER = wanting(asking(ref="v0"), asking("verl", ref=commit("f")), name="other")
DOWN = "the connection is refused"


@pytest.fixture
def there() -> Hosts:
    """Remotes that have everything."""
    git, images = FakeGit(loose={commit("f")}), FakeImages()
    git.tag(repository("vllm"), "v1", commit("a"))
    git.tag(repository("vllm"), "v0", commit("b"))
    git.branch(repository("plugin"), "main", commit("c"))
    images.add(IMAGE, digest("1"), amd64=digest("2"), arm64=digest("3"))
    files = {f"https://example.invalid/{name}": Downloaded(sha("a"), 7) for name in ("toolkit.run", "ops.run")}
    return hosts(git, images, FakeFiles(there=files))


def learned(there: Hosts, *variants: Any, old: VersionsLock | None = None, **more: Any) -> Learned:
    return learn(variants or (VARIANT, OTHER), old or VersionsLock(), there, today=TODAY, **more)


def test_everything_is_learned_and_then_nothing_is_open(there: Hosts) -> None:
    found = learned(there)
    found.require()
    assert check(found.lock, [VARIANT, OTHER]) == ()
    assert [str(change) for change in found.changes] == [
        f"{repository('plugin')} main: not known -> {commit('c')}",
        f"{repository('verl')} {commit('f')}: not known -> {commit('f')}",
        f"{repository('vllm')} v0: not known -> {commit('b')}",
        f"{repository('vllm')} v1: not known -> {commit('a')}",
        f"{IMAGE}: not known -> {digest('1')}",
        f"https://example.invalid/ops.run: not known -> sha256 {sha('a')}",
        f"https://example.invalid/toolkit.run: not known -> sha256 {sha('a')}",
    ]


def test_asking_again_changes_nothing(there: Hosts) -> None:
    first = learned(there)
    again = learned(there, old=first.lock)
    again.require()
    assert (again.lock, again.changes, again.notes) == (first.lock, (), ())


def test_each_repository_is_listed_once_and_not_for_commits_alone(there: Hosts) -> None:
    learned(there)
    listings = [question[1] for question in there.git.asked if question[0] == "refs"]  # type: ignore[attr-defined]
    assert sorted(listings) == [repository("plugin"), repository("vllm")]


def test_the_lock_is_written_after_every_answer(there: Hosts) -> None:
    written: list[VersionsLock] = []
    found = learned(there, write=written.append)
    assert len(written) == 3 + 1 + 2
    sizes = [len(lock.git) + len(lock.base) + len(lock.run) for lock in written]
    assert sizes == sorted(sizes)
    assert written[-1] == found.lock


def test_what_was_learned_before_an_interruption_is_written(there: Hosts) -> None:
    def interrupt(url: str) -> Downloaded:
        if "toolkit" in url:
            raise KeyboardInterrupt
        return Downloaded(sha("a"), 7)

    there.files.download = interrupt  # type: ignore[method-assign]
    written: list[VersionsLock] = []
    with pytest.raises(KeyboardInterrupt):
        learned(there, write=written.append)
    assert len(written[-1].git) == 4
    assert [entry.url for entry in written[-1].run] == ["https://example.invalid/ops.run"]
    there.files.download = FakeFiles(there={"https://example.invalid/toolkit.run": Downloaded(sha("b"), 8)}).download  # type: ignore[method-assign]
    learned(there, old=written[-1]).require()


def test_after_an_interruption_what_has_not_begun_does_not_begin(there: Hosts) -> None:
    many = [asking(f"s{number}") for number in range(50)]
    started = threading.Semaphore(0)

    class Slow(FakeGit):
        def refs(self, repository: str) -> Refs:
            started.release()
            return super().refs(repository)

    def stop(_: VersionsLock) -> None:
        raise KeyboardInterrupt

    git = Slow()
    for one in many:
        git.tag(one.git, "v1", commit("a"))
    with pytest.raises(KeyboardInterrupt):
        learned(hosts(git), wanting(*many), write=stop)
    assert len(git.asked) < 50


@pytest.mark.parametrize("fresh", [False, True])
def test_what_gives_no_answer_stays_as_it_was_and_is_listed_under_its_reason(there: Hosts, fresh: bool) -> None:
    there.git.down = {repository("vllm"): DOWN, repository("plugin"): DOWN}  # type: ignore[attr-defined]
    there.images.down = {IMAGE: "it takes no more requests from here for now"}  # type: ignore[attr-defined]
    there.files.down = {"https://example.invalid/toolkit.run": DOWN}  # type: ignore[attr-defined]
    old = VersionsLock(git=(locked_ref(at="d"),), base=(locked_base(),), run=(locked_run(),))
    found = learned(there, VARIANT, old=old, fresh=fresh)
    assert found.lock == old.having(*[entry for entry in found.lock.run if entry.url.endswith("ops.run")])
    assert found.problems == ()
    with pytest.raises(LookupIncomplete) as failure:
        found.require()
    assert failure.value.exit_code == 6
    assert failure.value.found == "\n".join(
        [
            f"not reached: {DOWN}",
            f"  {repository('plugin')} main: not known",
            f"  {repository('vllm')} v1: stays {commit('d')[:12]}",
            "  https://example.invalid/toolkit.run: stays sha256 aaaaaaaaaaaa",
            "it takes no more requests from here for now",
            f"  {IMAGE}: stays {digest('1')[:19]}",
        ]
    )


@pytest.mark.parametrize(
    ("submodules", "said"), [(False, "taken as it is"), (True, "taken as it is, but its submodules are not known")]
)
@pytest.mark.parametrize("offline", [False, True])
def test_a_commit_in_full_is_known_without_an_answer(there: Hosts, submodules: bool, said: str, offline: bool) -> None:
    there.git.down = {repository("verl"): DOWN}  # type: ignore[attr-defined]
    wants = wanting(asking("verl", ref=commit("f"), submodules=submodules))
    told = [str(one) for one in learned(there, wants, offline=offline).unreached]
    assert f"{repository('verl')} {commit('f')}: {said}" in told
    assert not [text for text in told if text.startswith(repository("verl")) and text.endswith(": not known")]


def test_one_repository_that_is_down_keeps_no_other_from_being_learned(there: Hosts) -> None:
    there.git.down = {repository("plugin"): DOWN}  # type: ignore[attr-defined]
    found = learned(there)
    assert [one.subject for one in found.unreached] == [f"{repository('plugin')} main"]
    assert len(found.lock.git) == 3


@pytest.mark.parametrize("what", ["git", "images", "files"])
def test_a_tool_that_is_missing_keeps_no_other_from_being_asked(
    there: Hosts, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: Any) -> Any:
        raise MissingTool("no such command")

    for question in ("refs", "fetched", "digests", "download"):
        monkeypatch.setattr(getattr(there, what), question, missing, raising=False)
    found = learned(there)
    assert {one.reason for one in found.unreached} == {"no such command"}
    assert len([*found.lock.git, *found.lock.base, *found.lock.run]) == {"git": 3, "images": 6, "files": 5}[what]


@pytest.mark.parametrize("what", ["git", "images", "files"])
def test_a_disk_that_fails_and_settings_that_must_not_be_lose_nothing(
    there: Hosts, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(error: Exception) -> None:
        def fail(*_: Any) -> Any:
            raise error

        for question in ("refs", "fetched", "digests", "download"):
            monkeypatch.setattr(getattr(there, what), question, fail, raising=False)

    failing(PermissionError(13, "Permission denied", "/cache"))
    assert {one.reason for one in learned(there).unreached} == {"/cache: Permission denied"}
    failing(BadInput("git asks http://x in place of https://x"))
    with pytest.raises(BadInput, match="git asks http://x"):
        learned(there).require()


def test_a_moved_tag_is_an_error_of_its_own_kind(there: Hosts) -> None:
    old = VersionsLock(git=(locked_ref(at="d"),))
    found = learned(there, old=old)
    assert found.lock.ref(repository("vllm"), "v1") == old.git[0]
    with pytest.raises(MovedError) as failure:
        found.require()
    assert failure.value.exit_code == 2
    assert commit("d") in failure.value.found
    assert commit("a") in failure.value.found
    assert "--update vllm" in failure.value.do


def test_a_moved_tag_is_taken_for_its_name_or_when_starting_anew(there: Hosts) -> None:
    old = VersionsLock(git=(locked_ref(at="d"), locked_ref("plugin", "main", at="f", kind="branch")))
    named = learned(there, old=old, update={"VLLM"})
    named.require()
    assert named.lock.ref(repository("vllm"), "v1") != old.ref(repository("vllm"), "v1")
    assert named.lock.ref(repository("plugin"), "main") == old.ref(repository("plugin"), "main")
    fresh = learned(there, old=old, fresh=True).lock
    assert [entry.commit[:1] for entry in fresh.git] == ["c", "f", "b", "a"]


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("base", IMAGE),
        (IMAGE, IMAGE),
        ("toolkit", "https://example.invalid"),
        ("ops.run", "https://example.invalid/ops"),
    ],
)
def test_base_images_and_run_packages_have_names_too(there: Hosts, name: str, changed: str) -> None:
    old = VersionsLock(base=(locked_base(index="9"),), run=(locked_run("ops.run", "c"), locked_run("toolkit.run", "c")))
    there.images.there[f"{IMAGE.rpartition(':')[0]}@{digest('9')}"] = there.images.there[IMAGE]  # type: ignore[attr-defined]
    found = learned(there, wanting(runs=VARIANT.runs), old=old, update={name})
    assert found.changes
    assert all(change.subject.startswith(changed) for change in found.changes)


def test_the_names_of_what_is_asked_for_are_each_told_once() -> None:
    one = wanting(asking(), runs=(run_file("toolkit.run"),))
    other = msgspec.structs.replace(one, name="other")
    assert all_names([one, other]) == ("vllm", "base", IMAGE, "toolkit", "toolkit.run")


def test_all_that_is_wrong_is_told_at_once_and_the_rest_is_learned(there: Hosts) -> None:
    there.git.down = {repository("plugin"): DOWN}  # type: ignore[attr-defined]
    wrong = wanting(asking(ref="v9"), asking("plugin", ref="main"), asking("verl", ref=commit("0")))
    found = learned(there, wrong)
    with pytest.raises(BadInput) as failure:
        found.require()
    assert not isinstance(failure.value, MovedError)
    assert f"{repository('vllm')}: v9: not found on the remote" in failure.value.found
    assert f"{repository('verl')}: {commit('0')}: not found on the remote" in failure.value.found
    assert f"not reached: {DOWN}\n  {repository('plugin')} main: not known" in failure.value.found
    assert found.lock.base_image(IMAGE) is not None


def test_notes_are_told_and_stop_nothing(there: Hosts) -> None:
    there.git.branch(repository("vllm"), "v1", commit("e"))  # type: ignore[attr-defined]
    found = learned(there)
    found.require()
    assert "is a tag and a branch" in found.notes[0]


def test_offline_nothing_is_asked_and_what_is_not_known_is_listed(there: Hosts) -> None:
    old = VersionsLock(git=(locked_ref(),), base=(locked_base(),), run=(locked_run(), locked_run("ops.run")))
    found = learned(there, VARIANT, old=old, offline=True)
    assert found.lock == old
    assert there.git.asked == []  # type: ignore[attr-defined]
    with pytest.raises(LookupIncomplete, match="offline") as failure:
        found.require()
    assert f"{repository('plugin')} main: not known" in failure.value.found
    assert "v1" not in failure.value.found


def test_what_other_variants_ask_for_stays_unless_it_is_pruned(there: Hosts) -> None:
    old = learned(there).lock
    assert learned(there, VARIANT, old=old).lock == old
    written: list[VersionsLock] = []
    found = learned(there, VARIANT, old=old, prune=True, write=written.append)
    assert [entry.key[0] for entry in found.lock.git] == [repository("plugin"), repository("vllm")]
    assert [change.after for change in found.changes] == ["", ""]
    assert written[0] == found.lock


def test_what_is_asked_is_said(there: Hosts) -> None:
    said: list[str] = []
    learned(there, say=said.append)
    assert said == ["asking for 4 refs of 3 repositories, 1 base images"]


def test_the_usual_hosts_go_by_the_mirror(tmp_path: Any) -> None:
    mirror = Mirror(git={"https://a/": "https://b/"}, registry={"quay.io": "mirror.example"})
    means = Means(packages=None, resolver=None, cache=tmp_path, mirror=mirror, mirror_name="cn")  # type: ignore[arg-type]
    found = usual_hosts(means)
    assert found.git == GitClient(tmp_path, mirror.git)
    assert found.images == Imagetools(mirror.registry)
    assert found.files == Downloads(tmp_path, means.say)
    assert found.way == Way("cn", mirror)


def test_a_platform_that_a_base_image_lacks_is_told_with_the_rest(there: Hosts) -> None:
    there.images.add(IMAGE, digest("1"), amd64=digest("2"))  # type: ignore[attr-defined]
    with pytest.raises(BadInput, match="no image for linux/arm64"):
        learned(there, msgspec.structs.replace(VARIANT, sources=())).require()


# --- by way of a mirror


CN = Way(
    "cn", Mirror(git={repository(""): "https://m.example/gh/"}, registry={IMAGE.rpartition(":")[0]: "swr.example/c"})
)


def test_what_gives_no_answer_is_told_with_the_mirror_that_was_asked_and_no_other_is_advised(there: Hosts) -> None:
    there.git.down = {repository("vllm"): DOWN, repository("plugin"): DOWN}  # type: ignore[attr-defined]
    there.images.down = {IMAGE: DOWN}  # type: ignore[attr-defined]
    there.files.down = {"https://example.invalid/toolkit.run": DOWN}  # type: ignore[attr-defined]
    direct, by_mirror = learned(there, VARIANT), learned(dataclasses.replace(there, way=CN), VARIANT)
    with pytest.raises(LookupIncomplete) as failure:
        direct.require()
    assert failure.value.do == "the same again once they can be reached, or by way of a mirror: --mirror NAME"
    with pytest.raises(LookupIncomplete) as failure:
        by_mirror.require()
    assert failure.value.do == "the same again once they can be reached"
    assert failure.value.found.splitlines() == [
        f"not reached: {DOWN}",
        f"  {repository('plugin')} main (asked by way of mirror cn: https://m.example/gh/plugin): not known",
        f"  {repository('vllm')} v1 (asked by way of mirror cn: https://m.example/gh/vllm): not known",
        f"  {IMAGE} (asked by way of mirror cn: swr.example/c:{IMAGE.rpartition(':')[2]}): not known",
        "  https://example.invalid/toolkit.run: not known",
    ]


def test_what_is_wrong_is_told_with_the_mirror_that_said_so(there: Hosts) -> None:
    wrong = wanting(asking(ref="v9"), runs=())
    del there.images.there[IMAGE]  # type: ignore[attr-defined]
    found = learned(dataclasses.replace(there, way=CN), wrong)
    with pytest.raises(BadInput) as failure:
        found.require()
    assert (
        f"{repository('vllm')} (asked by way of mirror cn: https://m.example/gh/vllm): v9: not" in failure.value.found
    )
    assert f"{IMAGE} (asked by way of mirror cn: swr.example/c" in failure.value.found
    assert "--mirror" not in failure.value.do
    with pytest.raises(BadInput) as failure:
        learned(there, wrong).require()
    assert "or name a mirror that has it: --mirror NAME" in failure.value.do


def test_a_source_that_is_read_in_a_checkout_is_told_as_such(there: Hosts) -> None:
    there.git.down = {repository("vllm"): DOWN, repository("plugin"): DOWN}  # type: ignore[attr-defined]
    with pytest.raises(LookupIncomplete) as failure:
        learned(there, VARIANT, given=("vllm",)).require()
    assert failure.value.found.splitlines()[1:] == [
        f"  {repository('plugin')} main: not known",
        f"  {repository('vllm')} v1: its commit is not known; what it asks for is read in its checkout (--source)",
    ]


def test_offline_the_next_step_is_to_ask(there: Hosts) -> None:
    with pytest.raises(LookupIncomplete) as failure:
        learned(there, offline=True).require()
    assert failure.value.do == "the same again without --offline"
