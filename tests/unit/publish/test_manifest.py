"""Joining architectures: vllm-project/vllm-ascend issue 10347 and everything else that must not become one image."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ascend_images.digest import digest_of
from ascend_images.errors import BadInput, PublishRefused
from ascend_images.images.candidate import candidate_tag, identity
from ascend_images.images.record import Record
from ascend_images.pins.platform import Arch
from ascend_images.publish.index import images_of, parse_index
from ascend_images.publish.manifest import Joined, join, load_joined, write_joined
from ascend_images.publish.registry import INDEX
from tests.publish_kit import (
    BOTH,
    REPOSITORY,
    FakeRegistry,
    entry,
    image,
    index_of,
    push,
    pushed,
    record,
    repository,
    variant,
)

HOUR = 60.0
PINNED = digest_of(b"base")


def joined(registry: FakeRegistry, records: dict[Arch, Record], declared: tuple[Arch, ...] = BOTH) -> Joined:
    return join("a2", declared, records, repository(registry))


def changed(records: dict[Arch, Record], of: Arch, /, **fields: Any) -> dict[Arch, Record]:
    return {**records, of: msgspec.structs.replace(records[of], **fields)}


# --- what is joined


@pytest.mark.parametrize("attested", [True, False])
def test_both_become_one_index_with_exactly_both(attested: bool) -> None:
    registry = FakeRegistry()
    client, of = repository(registry), variant()
    records = {}
    for arch in BOTH:
        one = image(arch, attested=attested)
        records[arch] = record(of, one)
        push(client, one, records[arch].image.rpartition(":")[2])
    made = joined(registry, records)
    stored = client.manifest(made.candidate)
    assert stored is not None
    assert (stored.digest, stored.media_type) == (made.digest, INDEX)
    index = parse_index(stored.content, "x")
    assert {arch: one.digest for arch, one in images_of(index, "x").items()} == {
        arch: records[arch].manifest for arch in BOTH
    }
    assert len(index.manifests) == (4 if attested else 2)
    assert made.platforms["linux/amd64"].digest == records[Arch.AMD64].digest
    assert made.platforms["linux/arm64"].manifest == records[Arch.ARM64].manifest
    assert made.tag == of.tag
    assert registry.readable() == {}


def test_joined_twice_it_is_the_same_digest_and_nothing_is_written_again() -> None:
    registry = FakeRegistry()
    records = pushed(repository(registry), variant())
    first = joined(registry, records)
    registry.asked.clear()
    assert joined(registry, dict(reversed(records.items()))) == first
    assert registry.writes() == []


def test_one_platform_is_an_index_too() -> None:
    registry = FakeRegistry()
    of = variant(platforms=(Arch.ARM64,))
    records = pushed(repository(registry), of, arches=of.platforms)
    made = joined(registry, records, of.platforms)
    assert list(made.platforms) == ["linux/arm64"]
    assert registry.manifests["ascend/ms-swift", made.digest][0] == INDEX


def test_what_is_joined_is_kept_and_read_back(tmp_path: Path) -> None:
    registry = FakeRegistry()
    made = joined(registry, pushed(repository(registry), variant()))
    write_joined(tmp_path / "a2.json", made)
    assert load_joined(tmp_path / "a2.json", "a2") == made
    with pytest.raises(PublishRefused, match="a3: not joined yet"):
        load_joined(tmp_path / "a3.json", "a3")
    (tmp_path / "a2.json").write_text("{}")
    with pytest.raises(BadInput, match=r"a2\.json: not what"):
        load_joined(tmp_path / "a2.json", "a2")


# --- a registry that removes what has no tag


def test_each_architecture_has_a_tag_until_both_are_joined() -> None:
    """amd64 pushed at 10:00, arm64 at 11:20, joined at 11:21, and what has no tag is removed after an hour."""
    registry = FakeRegistry(untagged_minutes=HOUR)
    client, of = repository(registry), variant()
    records = pushed(client, of, arches=[Arch.AMD64])
    registry.minute = 80
    records |= pushed(client, of, arches=[Arch.ARM64])
    registry.minute = 81
    made = joined(registry, records)
    registry.minute = 1000
    stored = client.manifest(made.digest)
    assert stored is not None
    assert all(client.manifest(part.manifest) for part in made.platforms.values())


def test_nothing_but_the_index_is_written() -> None:
    """Each architecture's tag came with its push."""
    registry = FakeRegistry()
    records = pushed(repository(registry), variant())
    registry.asked.clear()
    made = joined(registry, records)
    assert registry.writes() == [made.candidate]


@pytest.mark.parametrize("moved", [True, False])
def test_a_tag_that_is_gone_or_moved_is_no_matter_while_its_digest_is_there(moved: bool) -> None:
    """Built again of the same pins elsewhere, or pruned: the digest counts, and from now on the index keeps it."""
    registry = FakeRegistry(untagged_minutes=HOUR)
    client, of = repository(registry), variant()
    records = pushed(client, of)
    tag = records[Arch.ARM64].image.rpartition(":")[2]
    if moved:
        push(client, image(Arch.ARM64, "another"), tag)
    else:
        del registry.tags["ascend/ms-swift", tag]
    made = joined(registry, records)
    registry.minute = 1000
    assert made.platforms["linux/arm64"].manifest == records[Arch.ARM64].manifest
    assert all(client.manifest(part.manifest) for part in made.platforms.values())


@pytest.mark.parametrize("tag", ["candidate-a2-sandbox-000000000000-{kernel}", "1.0-sandbox-{kernel}"])
def test_an_index_is_called_as_its_parts_were_pushed(tag: str) -> None:
    registry = FakeRegistry()
    of = variant()
    records = pushed(repository(registry), of, tag=f"{of.tag}-sandbox")
    for arch in BOTH:
        records = changed(records, arch, image=f"{REPOSITORY}:{tag.format(kernel=arch.kernel)}")
    name = "a2-sandbox" if tag.startswith("candidate") else "a2"
    assert joined(registry, records).candidate == candidate_tag(name, identity(of))


@pytest.mark.parametrize("late", BOTH)
def test_a_digest_that_is_gone_stops_it_and_says_which(late: Arch) -> None:
    registry = FakeRegistry(untagged_minutes=HOUR)
    client, of = repository(registry), variant()
    records = {}
    for arch in BOTH:
        one = image(arch)
        records[arch] = record(of, one)
        push(client, one, *([] if arch is late else [records[arch].image.rpartition(":")[2]]))
    push(client, image(Arch.AMD64, "released"), "latest")
    before = dict(registry.tags)
    registry.minute = 81
    with pytest.raises(PublishRefused, match=f"a2 {late.value}: .* is not in the registry any more") as raised:
        joined(registry, records)
    assert late.platform in raised.value.wanted
    assert f"--arch {late.value} --push" in raised.value.do
    assert registry.tags == before


@pytest.mark.parametrize("tag", ["{tag}", "{tag}-x86_64", "other"])
def test_two_architectures_under_one_tag_are_refused(tag: str) -> None:
    registry = FakeRegistry()
    of = variant()
    records = pushed(repository(registry), of)
    same = f"{REPOSITORY}:{tag.format(tag=of.tag)}"
    for arch in BOTH:
        records = changed(records, arch, image=same)
    registry.asked.clear()
    with pytest.raises(PublishRefused, match="the last one would win"):
        joined(registry, records)
    assert registry.asked == []


# --- what must not be joined


@pytest.mark.parametrize("missing", BOTH)
def test_a_declared_platform_that_was_not_built(missing: Arch) -> None:
    registry = FakeRegistry()
    records = pushed(repository(registry), variant())
    del records[missing]
    registry.asked.clear()
    with pytest.raises(PublishRefused, match=f"no record of a build for {missing.platform}") as raised:
        joined(registry, records)
    assert raised.value.do == f"invoke build --variant a2 --arch {missing.value} --push"
    assert registry.asked == []


OTHER_PINS = {
    "pins": {"resolved": msgspec.to_builtins(variant(packages={"torch": "2.9.0"}))},
    "rendered files": {"dockerfile": digest_of(b"other")},
    "tags": {"tag": "other"},
    "commits of the pins": {"epoch": 5},
}


@pytest.mark.parametrize("arch", BOTH)
@pytest.mark.parametrize("what", OTHER_PINS)
def test_two_built_from_different_pins(what: str, arch: Arch) -> None:
    registry = FakeRegistry()
    records = changed(pushed(repository(registry), variant()), arch, **OTHER_PINS[what])
    registry.asked.clear()
    with pytest.raises(PublishRefused, match=f"linux/amd64 and linux/arm64 were built from different {what}"):
        joined(registry, records)
    assert registry.asked == []


WRONG = {
    "not pushed": ({"pushed": False}, "built for linux/arm64, but not pushed"),
    "of another variant": ({"variant": "a3"}, "the record is of a3 arm64"),
    "of another architecture": ({"arch": Arch.AMD64}, "the record is of a2 amd64"),
    "in another repository": ({"image": "other.invalid/x:1-aarch64"}, "one repository for both"),
    "of another manifest": ({"manifest": digest_of(b"x")}, "not the manifest in its record"),
    "of another configuration": ({"config": digest_of(b"x")}, "its configuration"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_record_that_is_wrong(what: str) -> None:
    registry = FakeRegistry()
    fields, words = WRONG[what]
    records = changed(pushed(repository(registry), variant()), Arch.ARM64, **fields)
    before = dict(registry.tags)
    with pytest.raises(PublishRefused) as raised:
        joined(registry, records)
    assert words in str(raised.value)
    assert registry.tags == before


def test_an_image_that_says_another_architecture_than_its_index() -> None:
    registry = FakeRegistry()
    client, of = repository(registry), variant()
    records = pushed(client, of, arches=[Arch.AMD64])
    lie = image(Arch.ARM64, said=Arch.AMD64)
    records[Arch.ARM64] = record(of, lie)
    push(client, lie, records[Arch.ARM64].image.rpartition(":")[2])
    with pytest.raises(PublishRefused, match=r"its configuration .* says linux/amd64"):
        joined(registry, records)


def test_pins_that_are_none_stop_it_before_anything_is_written() -> None:
    registry = FakeRegistry()
    records = pushed(repository(registry), variant())
    for arch in BOTH:
        records = changed(records, arch, resolved={"name": "a2"})
    registry.asked.clear()
    with pytest.raises(BadInput, match="the record of a2 amd64 does not hold the pins of a variant") as raised:
        joined(registry, records)
    assert raised.value.do == "invoke build --variant a2 --arch amd64 --push"
    assert registry.asked == []


def on_base(registry: FakeRegistry, base: str, digest: str = PINNED, **fields: Any) -> Joined:
    """Join what was built on a base from elsewhere, as --base-image and --mirror make it; arm64's alone."""
    records = pushed(repository(registry), variant(base_digest=digest))
    contexts = {"cann": f"docker-image://{base}"}
    return joined(registry, changed(records, Arch.ARM64, base=base, contexts=contexts, **fields))


@pytest.mark.parametrize("base", ["evil.example/any:mine", f"evil.example/any:mine@{digest_of(b'other')}", "/a/folder"])
def test_another_base_than_the_pinned_one_is_refused(base: str) -> None:
    registry = FakeRegistry()
    with pytest.raises(PublishRefused, match=f"a2 arm64: built on {base}, and its pins say {PINNED}") as raised:
        on_base(registry, base)
    assert f"--base-image NAME:TAG@{PINNED}" in raised.value.do
    assert candidate_tag("a2", identity(variant(base_digest=PINNED))) not in {tag for _, tag in registry.tags}


def test_the_pinned_base_from_another_place_is_the_same() -> None:
    assert not on_base(FakeRegistry(), f"mirror.example/cann:9.1.0@{PINNED}").unlocked


def test_a_base_of_stand_ins_is_no_other_base() -> None:
    registry = FakeRegistry()
    of = variant(base_digest=PINNED)
    records = pushed(repository(registry), of)
    tag = f"{of.tag}-sandbox"
    for arch in BOTH:
        fields = {"base": "stand-in:1", "contexts": {"cann": "docker-image://stand-in:1"}, "tag": tag}
        records = changed(records, arch, **fields)
    assert joined(registry, records).tag == tag


def test_a_tag_that_merely_ends_so_excuses_no_other_base() -> None:
    registry = FakeRegistry()
    records = pushed(repository(registry), variant(base_digest=PINNED, tag="1-sandbox"))
    for arch in BOTH:
        records = changed(records, arch, base="other:1", contexts={"cann": "docker-image://other:1"})
    with pytest.raises(PublishRefused, match="built on other:1, and its pins say"):
        joined(registry, records)


@pytest.mark.parametrize(
    "fields", [{"unlocked": True}, {"incomplete": ("torch",)}, {"not_locked": ("the base image is x, not locked",)}]
)
def test_what_was_taken_as_it_was_that_day_is_not_locked(fields: dict[str, Any]) -> None:
    registry = FakeRegistry()
    records = pushed(repository(registry), variant())
    assert not joined(registry, records).unlocked
    assert joined(registry, changed(records, Arch.ARM64, **fields)).unlocked


def test_a_mirrored_base_without_a_digest_is_not_locked() -> None:
    """A mirror brings the base, so that the build does not tell of it: nobody knows that both had the same bytes."""
    assert on_base(FakeRegistry(), "mirror.example/cann:9.1.0", "").unlocked


@pytest.mark.parametrize("arches", [(), (Arch.AMD64,), BOTH, (Arch.ARM64, Arch.ARM64)])
def test_what_was_pushed_holds_one_image_of_its_architecture(arches: tuple[Arch, ...]) -> None:
    registry = FakeRegistry()
    client, of = repository(registry), variant()
    records = pushed(client, of)
    parts = [image(arch, str(number), attested=False) for number, arch in enumerate(arches)]
    for one in parts:
        push(client, one)
    content = index_of(*(entry(one.top, {"architecture": one.arch.value, "os": "linux"}) for one in parts))
    client.put("x", content, INDEX)
    with pytest.raises(PublishRefused, match=r"holds images for|two images for"):
        joined(registry, changed(records, Arch.ARM64, digest=digest_of(content)))


@pytest.mark.parametrize("gone", ["manifest", "config"])
def test_a_part_that_is_gone(gone: str) -> None:
    registry = FakeRegistry()
    records = pushed(repository(registry), variant())
    digest = getattr(records[Arch.ARM64], gone)
    registry.manifests.pop(("ascend/ms-swift", digest), None)
    registry.blobs.pop(("ascend/ms-swift", digest), None)
    with pytest.raises(PublishRefused, match="is not in the registry any more"):
        joined(registry, records)


def test_candidates_are_known_by_their_pins() -> None:
    registry = FakeRegistry()
    client, one, other = repository(registry), variant(), variant(install_env={"A": "1"})
    first = joined(registry, pushed(client, one))
    second = joined(registry, pushed(client, other, text="other"))
    assert first.candidate == candidate_tag("a2", identity(one))
    assert first.candidate != second.candidate
    assert json.loads(registry.manifests["ascend/ms-swift", first.digest][1])["annotations"] == {
        "io.ascend-images.epoch": str(first.epoch),
        "io.ascend-images.identity": identity(one),
        "io.ascend-images.joined": first.seal,
        "io.ascend-images.variant": "a2",
    }


@pytest.mark.parametrize("digest", ["latest-ms-swift", "../../x/manifests/y", ""])
def test_what_was_pushed_is_asked_for_by_its_digest_alone(digest: str) -> None:
    registry = FakeRegistry()
    records = pushed(repository(registry), variant())
    registry.asked.clear()
    with pytest.raises(PublishRefused, match="not a digest"):
        joined(registry, changed(records, Arch.AMD64, digest=digest))
    assert registry.asked == []
