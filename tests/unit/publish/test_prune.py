"""Pruning: old candidates go, and nothing that anything kept leads to."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_images.digest import digest_of
from ascend_images.errors import BadInput, LookupIncomplete, PublishRefused
from ascend_images.images.cache import cache_tag
from ascend_images.images.candidate import candidate_tag
from ascend_images.pins.platform import Arch
from ascend_images.publish.index import NOTE_EPOCH
from ascend_images.publish.manifest import Joined, join
from ascend_images.publish.prune import agreed, plan_pruning, prune, require_keep
from ascend_images.publish.published import Published
from ascend_images.publish.referrers import tag_of
from ascend_images.publish.registry import INDEX
from ascend_images.publish.transport import Reply, Request
from tests.publish_kit import EPOCH, FakeRegistry, entry, image, index_of, push, pushed, repository, variant
from tests.unit.publish.samples import publication

NAME = "ascend/ms-swift"


def made(registry: FakeRegistry, number: int, of: str = "a2") -> Joined:
    """Push and join the candidate of a number, as builds do it: under candidates' tags alone."""
    client = repository(registry)
    one = variant(of, install_env={"N": str(number)})
    records = pushed(client, one, text=f"{of} {number}", epoch=EPOCH + number)
    return join(one.name, one.platforms, records, client)


def pruned(
    registry: FakeRegistry, keep: int, published: Published | None = None, *variants: str
) -> dict[str, tuple[str, ...]]:
    client = repository(registry)
    plan = plan_pruning(client, published or Published(), keep=keep, variants=variants)
    assert prune(client, plan) == plan
    return dict(plan.doomed)


def whole(registry: FakeRegistry, joined: Joined) -> bool:
    parts = [part.manifest for part in joined.platforms.values()]
    return all((NAME, digest) in registry.manifests for digest in (joined.digest, *parts))


def test_the_newest_are_kept_and_the_others_go_with_their_parts_tags() -> None:
    registry = FakeRegistry()
    candidates = [made(registry, number) for number in (3, 1, 2)]
    doomed = pruned(registry, 1)
    assert {digest for digest in doomed if digest in {one.digest for one in candidates}} == {
        one.digest for one in candidates[1:]
    }
    assert [whole(registry, one) for one in candidates] == [True, False, False]
    assert {tag for _, tag in registry.tags} == {
        candidates[0].candidate,
        f"{candidates[0].candidate}-x86_64",
        f"{candidates[0].candidate}-aarch64",
    }


def test_variants_are_counted_apart() -> None:
    registry = FakeRegistry()
    kept = [made(registry, 1, "a2"), made(registry, 2, "a3")]
    assert pruned(registry, 1) == {}
    assert all(whole(registry, one) for one in kept)


def test_only_the_named_variants_lose_any() -> None:
    registry = FakeRegistry()
    old = {name: made(registry, 1, name) for name in ("a2", "a3")}
    for name in old:
        made(registry, 2, name)
    doomed = pruned(registry, 1, None, "a3")
    assert old["a3"].digest in doomed
    assert whole(registry, old["a2"])


@pytest.mark.parametrize("tag", ["v1", "latest", "candidate", "candidates-x"])
def test_what_a_readable_tag_leads_to_is_kept(tag: str) -> None:
    registry = FakeRegistry()
    old, new = made(registry, 1), made(registry, 2)
    repository(registry).put(tag, registry.manifests[NAME, old.digest][1], INDEX)
    doomed = pruned(registry, 1)
    assert old.digest not in doomed
    assert whole(registry, old)
    assert whole(registry, new)


def test_a_part_that_a_kept_index_holds_is_kept() -> None:
    """The same manifest may be in an old candidate and in a released index of another digest."""
    registry = FakeRegistry()
    old, _ = made(registry, 1), made(registry, 2)
    part = old.platforms["linux/arm64"].manifest
    content = registry.manifests[NAME, part][1]
    index = index_of(entry(content, {"architecture": "arm64", "os": "linux"}))
    outer = index_of(entry(index, {}, INDEX))
    client = repository(registry)
    client.put(digest_of(index), index, INDEX)
    client.put("released", outer, INDEX)
    # The part's own candidate tag is on its manifest alone.
    client.put("candidate-a2-" + "0" * 12 + "-aarch64", content, registry.manifests[NAME, part][0])
    doomed = pruned(registry, 1)
    assert part not in doomed
    assert (NAME, part) in registry.manifests


def test_what_was_ever_published_is_kept() -> None:
    registry = FakeRegistry()
    old, _ = made(registry, 1), made(registry, 2)
    pruned(registry, 1, Published(publications=(publication(digest=old.digest),)))
    assert whole(registry, old)


def test_a_signature_goes_with_what_it_signs() -> None:
    registry = FakeRegistry()
    client = repository(registry)
    old, new = made(registry, 1), made(registry, 2)
    for one, text in ((old, "old"), (new, "new")):
        push(client, image(Arch.AMD64, text, attested=False), f"{one.digest.replace(':', '-')}.sig")
    pruned(registry, 1)
    assert {tag for _, tag in registry.tags if tag.endswith(".sig")} == {f"{new.digest.replace(':', '-')}.sig"}


def test_what_is_not_joined_yet_is_the_newest() -> None:
    registry = FakeRegistry()
    made(registry, 5)
    push(repository(registry), image(Arch.AMD64, "on its way"), "candidate-a2-" + "f" * 12 + "-x86_64")
    pruned(registry, 1)
    assert (NAME, "candidate-a2-" + "f" * 12 + "-x86_64") in registry.tags


def test_what_tells_no_time_takes_no_others_place() -> None:
    registry = FakeRegistry()
    client = repository(registry)
    old, new = made(registry, 1), made(registry, 2)
    undated = {f"candidate-a2-{number:012x}": number for number in range(3)}
    one, other = (image(Arch.AMD64, text, attested=False) for text in ("one", "other"))
    push(client, one), push(client, other)
    amd64 = {"architecture": "amd64", "os": "linux"}
    indexes = [
        index_of(entry(one.manifest, amd64)),
        index_of(entry(one.manifest, amd64), entry(other.manifest, amd64)),
        json.dumps({"manifests": [], "annotations": {NOTE_EPOCH: "9" * 5000}}).encode(),
    ]
    for tag, number in undated.items():
        client.put(tag, indexes[number], INDEX)
    plan = plan_pruning(client, Published(), keep=1)
    assert plan.undated == tuple(undated)
    prune(client, plan)
    assert whole(registry, new)
    assert not whole(registry, old)
    assert undated.keys() <= {tag for _, tag in registry.tags}
    assert (NAME, digest_of(one.manifest)) in registry.manifests


@pytest.mark.parametrize("digest", ["../manifests/{}", "../../other/manifests/{}", "latest", "", None, 5])
@pytest.mark.parametrize("listed", ["by the registry", "under a tag"])
def test_nothing_is_deleted_by_what_is_no_digest(digest: str | None, listed: str) -> None:
    registry = FakeRegistry()
    client = repository(registry)
    released = made(registry, 3)
    client.put("v1", registry.manifests[NAME, released.digest][1], INDEX)
    old, _ = made(registry, 1), made(registry, 2)
    entries = [{"digest": digest.format(released.digest) if isinstance(digest, str) else digest}]
    attachments = json.dumps({"manifests": entries}).encode()

    def lists(request: Request) -> Reply | None:
        asked = "/referrers/" if listed == "by the registry" else f"/manifests/{tag_of(old.digest)}"
        return Reply(status=200, body=attachments) if asked in request.url and request.method == "GET" else None

    registry.before = lists
    with pytest.raises(PublishRefused, match="not an index of attachments"):
        pruned(registry, 1)
    assert whole(registry, released)
    assert not any(request.method == "DELETE" for request in registry.asked)


@pytest.mark.parametrize("attested", [True, False])
@pytest.mark.parametrize(("number", "kept"), [(1, False), (9, True)])
def test_what_is_not_joined_is_as_new_as_its_images_say(number: int, kept: bool, attested: bool) -> None:
    """Of a build whose other architecture failed nothing is ever joined; it must not stay for that."""
    registry = FakeRegistry()
    made(registry, 5)
    tag = "candidate-a2-" + "f" * 12 + "-x86_64"
    push(repository(registry), image(Arch.AMD64, "half", attested=attested, created=EPOCH + number), tag)
    pruned(registry, 1)
    assert ((NAME, tag) in registry.tags) is kept


@pytest.mark.parametrize("suffix", ["-sandbox", "-changed"])
def test_a_variants_stand_ins_and_changes_are_its_own(suffix: str) -> None:
    registry = FakeRegistry()
    for number in (1, 2):
        tag = candidate_tag(f"a2{suffix}", "0" * 11 + str(number), Arch.AMD64)
        push(repository(registry), image(Arch.AMD64, str(number), created=EPOCH + number), tag)
    assert pruned(registry, 1, None, "a3") == {}
    assert list(pruned(registry, 1, None, "a2").values()) == [(f"candidate-a2{suffix}-000000000001-x86_64",)]


def test_caches_are_kept() -> None:
    registry = FakeRegistry()
    made(registry, 1), made(registry, 2)
    tag = cache_tag(variant(), "", Arch.AMD64)
    push(repository(registry), image(Arch.AMD64, "cache", attested=False), tag)
    pruned(registry, 1)
    assert (NAME, tag) in registry.tags


def test_indexes_go_before_their_parts() -> None:
    registry = FakeRegistry()
    made(registry, 1), made(registry, 2)
    kinds = [
        registry.manifests[NAME, digest][0] for digest in plan_pruning(repository(registry), Published(), keep=1).doomed
    ]
    assert kinds == sorted(kinds, key=lambda kind: kind != INDEX)


def test_a_registry_that_does_not_answer_loses_nothing() -> None:
    registry = FakeRegistry()
    made(registry, 1), made(registry, 2)
    before = dict(registry.tags)
    count = len(registry.asked)
    registry.before = lambda _: Reply(status=500) if len(registry.asked) > count + 3 else None
    with pytest.raises(LookupIncomplete):
        pruned(registry, 1)
    assert registry.tags == before


def test_an_index_that_cannot_be_read_loses_nothing() -> None:
    registry = FakeRegistry()
    made(registry, 1), made(registry, 2)
    registry.manifests[NAME, digest_of(b"{}")] = (INDEX, b'{"manifests": 5}', 0)
    registry.tags[NAME, "odd"] = digest_of(b"{}")
    before = dict(registry.tags)
    with pytest.raises((BadInput, LookupIncomplete)):
        pruned(registry, 1)
    assert registry.tags == before


def test_a_tag_that_moved_meanwhile_keeps_its_digest() -> None:
    registry = FakeRegistry()
    client = repository(registry)
    old, new = made(registry, 1), made(registry, 2)
    plan = plan_pruning(client, Published(), keep=1)
    client.put(old.candidate, registry.manifests[NAME, new.digest][1], INDEX)
    done = prune(client, plan)
    assert (NAME, old.digest) in registry.manifests
    assert old.digest not in done.doomed
    assert done.kept == plan.kept + 1


def test_what_was_tagged_between_two_plans_is_kept() -> None:
    registry = FakeRegistry()
    client = repository(registry)
    old, older, _ = made(registry, 2), made(registry, 1), made(registry, 3)
    first = plan_pruning(client, Published(), keep=1)
    client.put("v1", registry.manifests[NAME, old.digest][1], INDEX)
    again = plan_pruning(client, Published(), keep=1)
    both = agreed(first, again)
    assert both == again
    assert {old.digest, older.digest} <= set(first.doomed)
    prune(client, both)
    assert whole(registry, old)
    assert not whole(registry, older)
    assert agreed(again, first).doomed == both.doomed, "whichever was made first"


@pytest.mark.parametrize("keep", [0, -1])
def test_at_least_one_is_kept(keep: int) -> None:
    with pytest.raises(BadInput, match=f"--keep {keep}"):
        require_keep(keep)


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.sampled_from(["a2", "a3"]), st.integers(0, 4)), max_size=6),
    st.lists(st.integers(0, 5), max_size=3),
    st.integers(1, 3),
)
def test_whatever_is_pruned_every_kept_tag_leads_to_something_whole(
    candidates: list[tuple[str, int]], released: list[int], keep: int
) -> None:
    registry = FakeRegistry()
    joined = [made(registry, number, name) for name, number in candidates]
    for place in released:
        if place < len(joined):
            repository(registry).put(f"v{place}", registry.manifests[NAME, joined[place].digest][1], INDEX)
    pruned(registry, keep)
    by_digest = {one.digest: one for one in joined}
    for digest in registry.tags.values():
        assert (NAME, digest) in registry.manifests
        assert digest not in by_digest or whole(registry, by_digest[digest])
    for place in released:
        assert place >= len(joined) or whole(registry, joined[place])


def test_an_empty_repository_has_nothing_to_prune(tmp_path: Path) -> None:
    assert pruned(FakeRegistry(), 1) == {}
