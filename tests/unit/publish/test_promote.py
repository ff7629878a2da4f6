"""Readable tags: only for what passed, only forward, whole at any moment, and on record."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ascend_images.digest import digest_of
from ascend_images.errors import AscendImagesError, BadInput, LookupIncomplete, MissingTool, PublishRefused
from ascend_images.images.candidate import identity
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant
from ascend_images.publish import promote as promoting
from ascend_images.publish.complete import require_complete
from ascend_images.publish.lock import FOLDER, require_nothing_forgotten
from ascend_images.publish.manifest import Joined, join
from ascend_images.publish.promote import building_commit, promote, publication_of, require_pinned, require_time
from ascend_images.publish.published import FILE, Publication, Published, append, load
from ascend_images.publish.registry import INDEX
from ascend_images.publish.required import NPU, OPTIONAL, proofs, required
from ascend_images.publish.transport import NoAnswerError, Reply, Request
from ascend_images.verify.outside import all_checks
from ascend_images.verify.report import Report
from tests.publish_kit import (
    BOTH,
    CHECKS,
    DOCKERFILE,
    EPOCH,
    REPOSITORY,
    FakeRegistry,
    Killed,
    commit,
    entry,
    git,
    image,
    index_of,
    project,
    push,
    pushed,
    report,
    reports,
    repository,
    saying,
    variant,
)

ALIAS = "latest-ms-swift-910b-ubuntu"
pytestmark = pytest.mark.subprocess


def said(_: str) -> None:
    pass


def made(registry: FakeRegistry, of: Variant | None = None, **fields: Any) -> Joined:
    """Push and join an image of a variant."""
    client = repository(registry)
    one = of or variant()
    return join(one.name, one.platforms, pushed(client, one, arches=one.platforms, **fields), client)


def publication(joined: Joined, of: Variant | None = None, **fields: Any) -> Publication:
    ready = publication_of(
        joined,
        of or variant(),
        proofs(joined, reports(joined), required(CHECKS)),
        aliases=[ALIAS],
        when="2026-11-30T12:00:00Z",
        commit="c" * 40,
        source="",
        dockerfile=DOCKERFILE,
        reason="",
    )
    return msgspec.structs.replace(ready, **fields)


def promoted(
    root: Path, registry: FakeRegistry, joined: Joined, of: Variant | None = None, **fields: Any
) -> Publication:
    ready = publication(joined, of, **fields)
    promote(root, ready, joined, repository(registry), say=said)
    return ready


def standing(registry: FakeRegistry) -> dict[str, str]:
    """Return the readable tags that promotions write."""
    return {tag: digest for tag, digest in registry.readable().items() if not tag.endswith(("-x86_64", "-aarch64"))}


def whole(registry: FakeRegistry, digest: str) -> bool:
    """Say whether everything that an index leads to is there."""
    kind, content, _ = registry.manifests["ascend/ms-swift", digest]
    entries = json.loads(content)["manifests"]
    found = [registry.manifests.get(("ascend/ms-swift", one["digest"])) for one in entries]
    return kind == INDEX and len(entries) == 4 and all(found)


# --- required checks


def test_every_check_is_required_but_the_optional_ones() -> None:
    names = [one.id for one in all_checks()]
    assert {*OPTIONAL, *NPU} <= set(names)
    assert set(required(names)) == set(names) - set(OPTIONAL)
    assert set(NPU) <= set(required(names))


def test_reports_that_pass_everything_prove_each_platform() -> None:
    joined = made(FakeRegistry())
    found = proofs(joined, reports(joined), required(CHECKS))
    assert list(found) == ["linux/amd64", "linux/arm64"]
    assert all(proof.passed == required(CHECKS) and proof.waived == () for proof in found.values())


@pytest.mark.parametrize("which", ["joined", "digest", "manifest", "config"])
def test_any_digest_that_stands_for_the_image_ties_a_report_to_it(which: str) -> None:
    joined = made(FakeRegistry())
    tied = [
        report(joined, platform, digest=joined.digest if which == "joined" else getattr(part, which))
        for platform, part in joined.platforms.items()
    ]
    assert proofs(joined, tied, required(CHECKS))


@pytest.mark.parametrize("pins", ["", digest_of(b"other pins")])
def test_what_passed_against_other_pins_proves_nothing(pins: str) -> None:
    joined = made(FakeRegistry())
    others = reports(joined, pins=pins)
    little = [msgspec.structs.replace(one, results=one.results[:1]) for one in reports(joined)]
    with pytest.raises(PublishRefused, match="pinned-packages: missing"):
        proofs(joined, [*little, *others], required(CHECKS))
    with pytest.raises(PublishRefused, match="no report that compares it with its pins"):
        proofs(joined, others, required(CHECKS))
    failing = [saying(one, "container", "fail") for one in others]
    with pytest.raises(PublishRefused, match="container: fail"):
        proofs(joined, [*reports(joined), *failing], required(CHECKS))


@pytest.mark.parametrize("platform", ["linux/amd64", "linux/arm64"])
@pytest.mark.parametrize("check", required(CHECKS))
@pytest.mark.parametrize("answer", ["fail", "unknown", "not run", ""])
def test_whatever_is_no_pass_of_a_required_check_refuses(answer: str, check: str, platform: str) -> None:
    joined = made(FakeRegistry())
    given = [saying(one, check, answer) if one.platform == platform else one for one in reports(joined)]
    with pytest.raises(PublishRefused) as raised:
        proofs(joined, given, required(CHECKS))
    lines = [line for line in str(raised.value).splitlines() if f"{platform}: {check}: " in line]
    assert len(lines) == 1
    assert (answer or "missing") in lines[0]
    assert raised.value.exit_code == 7


@pytest.mark.parametrize("check", ["generate", "tag"])
@pytest.mark.parametrize("answer", ["unknown", "not run", ""])
def test_an_optional_check_may_say_nothing(answer: str, check: str) -> None:
    joined = made(FakeRegistry())
    assert proofs(joined, [saying(one, check, answer) for one in reports(joined)], required(CHECKS))


def test_a_fail_of_an_optional_check_refuses() -> None:
    joined = made(FakeRegistry())
    with pytest.raises(PublishRefused, match="generate: fail: subject: found"):
        proofs(joined, [saying(one, "generate", "fail") for one in reports(joined)], required(CHECKS))


OTHER_DIGESTS = {
    "of another index": lambda joined, _: digest_of(b"x"),
    "of the other architecture": lambda joined, platform: next(
        part.manifest for name, part in joined.platforms.items() if name != platform
    ),
    "empty": lambda joined, _: "",
    "its first digits": lambda joined, _: joined.digest[:19],
}


@pytest.mark.parametrize("other", OTHER_DIGESTS.values(), ids=OTHER_DIGESTS.keys())
def test_a_report_of_another_digest_refuses(other: Callable[[Joined, str], str]) -> None:
    joined = made(FakeRegistry())
    given = [report(joined, platform, digest=other(joined, platform)) for platform in joined.platforms]
    with pytest.raises(PublishRefused, match="no report for this digest; there is one for"):
        proofs(joined, given, required(CHECKS))


@pytest.mark.parametrize("platform", ["linux/amd64", "linux/arm64"])
def test_every_platform_needs_a_report(platform: str) -> None:
    joined = made(FakeRegistry())
    given = [one for one in reports(joined) if one.platform != platform]
    with pytest.raises(PublishRefused, match=f"{platform}: no report"):
        proofs(joined, given, required(CHECKS))


@pytest.mark.parametrize("pins", ["", digest_of(b"other")])
def test_a_report_that_was_not_held_against_the_pins_refuses(pins: str) -> None:
    joined = made(FakeRegistry())
    with pytest.raises(PublishRefused, match="no report that compares it with its pins"):
        proofs(joined, reports(joined, pins=pins), required(CHECKS))


def without_npu(joined: Joined) -> list[Report]:
    given = reports(joined)
    for name in NPU:
        given = [saying(one, name, "not run") for one in given]
    return given


def test_npu_checks_that_were_not_asked_can_be_waived() -> None:
    joined = made(FakeRegistry())
    with pytest.raises(PublishRefused, match="npu: not run"):
        proofs(joined, without_npu(joined), required(CHECKS))
    found = proofs(joined, without_npu(joined), required(CHECKS), without_npu=True)
    assert all(proof.waived == NPU for proof in found.values())


@pytest.mark.parametrize("answer", ["fail", "unknown", ""])
@pytest.mark.parametrize("check", NPU)
def test_npu_checks_that_were_asked_are_not_waived(check: str, answer: str) -> None:
    joined = made(FakeRegistry())
    given = [saying(one, check, answer) for one in without_npu(joined)]
    with pytest.raises(PublishRefused):
        proofs(joined, given, required(CHECKS), without_npu=True)


def test_no_other_check_is_waived() -> None:
    joined = made(FakeRegistry())
    given = [saying(one, "architecture", "not run") for one in without_npu(joined)]
    with pytest.raises(PublishRefused, match="architecture: not run"):
        proofs(joined, given, required(CHECKS), without_npu=True)


def test_two_reports_of_one_image_add_up_and_the_worse_one_counts() -> None:
    joined = made(FakeRegistry())
    both = [*reports(joined), *without_npu(joined)]
    assert proofs(joined, both, required(CHECKS))
    with pytest.raises(PublishRefused, match="matmul: unknown"):
        proofs(joined, [*both, saying(report(joined, "linux/amd64"), "matmul", "unknown")], required(CHECKS))


# --- what is promoted


#: Checks of what some pins have none of.
OF_PINS = ("patches", "compiled-extensions", "source-commit", "source-origin", "source-version")


def test_what_the_pins_have_none_of_need_not_have_been_run() -> None:
    joined = made(FakeRegistry(), variant(patches=(), sources=()))
    needed = (*required(CHECKS), *OF_PINS)
    given = reports(joined)
    for name in OF_PINS:
        given = [saying(one, name, "not run") for one in given]
    assert {proof.passed for proof in proofs(joined, given, needed).values()} == {required(CHECKS)}
    for name in OF_PINS:
        with pytest.raises(PublishRefused, match=f"{name}: unknown"):
            proofs(joined, [saying(one, name, "unknown") for one in given], needed)


@pytest.mark.parametrize("name", ["compiled-extensions", "source-commit"])
def test_what_the_pins_have_must_have_been_run(name: str) -> None:
    joined = made(FakeRegistry())
    with pytest.raises(PublishRefused, match=f"{name}: not run"):
        proofs(joined, [saying(one, name, "not run") for one in reports(joined)], (*required(CHECKS), name))


def test_a_refusal_names_the_image_of_each_platform_to_verify() -> None:
    joined = made(FakeRegistry())
    with pytest.raises(PublishRefused) as refused:
        proofs(joined, [], required(CHECKS))
    for platform, part in joined.platforms.items():
        assert f"--image {joined.repository}@{part.manifest} --platform {platform} --require-npu" in refused.value.do
    with pytest.raises(PublishRefused) as refused:
        proofs(joined, [one for one in reports(joined) if one.platform == "linux/amd64"], required(CHECKS))
    assert "linux/arm64" in refused.value.do
    assert "linux/amd64" not in str(refused.value)


def test_the_tag_and_its_aliases_stand_for_the_index_and_it_is_on_record(tmp_path: Path) -> None:
    registry = FakeRegistry()
    joined = made(registry)
    root = project(tmp_path)
    ready = promoted(root, registry, joined)
    assert standing(registry) == {variant().tag: joined.digest, ALIAS: joined.digest}
    assert load(root / FILE).publications == (ready,)
    assert list((root / FOLDER / "pending").iterdir()) == []
    assert (ready.checks, ready.waived) == (dict.fromkeys(joined.platforms, required(CHECKS)), {})
    assert (ready.facts.cann, ready.facts.chip, ready.facts.os) == ("9.1.0", "910b", "ubuntu22.04")


def test_promoted_twice_nothing_more_happens(tmp_path: Path) -> None:
    registry = FakeRegistry()
    joined = made(registry)
    root = project(tmp_path)
    promoted(root, registry, joined)
    before = (root / FILE).read_bytes()
    registry.asked.clear()
    promoted(root, registry, joined, when="2027-01-01T00:00:00Z")
    assert registry.writes() == []
    assert (root / FILE).read_bytes() == before


def test_a_dry_run_says_what_would_be_and_writes_nothing(tmp_path: Path) -> None:
    registry = FakeRegistry()
    joined = made(registry)
    root = project(tmp_path)
    registry.asked.clear()
    moves = promote(root, publication(joined), joined, repository(registry), dry_run=True, say=said)
    assert [str(move) for move in moves] == [
        f"{variant().tag}: new -> {joined.digest}",
        f"{ALIAS}: new -> {joined.digest}",
    ]
    assert registry.writes() == []
    assert not (root / FILE).exists()
    assert not (root / "build").exists()


@pytest.mark.parametrize("part", ["index", "manifest", "config", "layer", "attestation"])
def test_what_is_not_whole_is_refused_and_nothing_moves(tmp_path: Path, part: str) -> None:
    registry = FakeRegistry()
    joined = made(registry)
    arm = joined.platforms["linux/arm64"]
    manifest = json.loads(registry.manifests["ascend/ms-swift", arm.manifest][1])
    entries = json.loads(registry.manifests["ascend/ms-swift", joined.digest][1])["manifests"]
    digest = {
        "index": joined.digest,
        "manifest": arm.manifest,
        "config": arm.config,
        "layer": manifest["layers"][0]["digest"],
        "attestation": entries[-1]["digest"],
    }[part]
    registry.manifests.pop(("ascend/ms-swift", digest), None)
    registry.blobs.pop(("ascend/ms-swift", digest), None)
    with pytest.raises(PublishRefused, match="is not in the registry any more"):
        promoted(project(tmp_path), registry, joined)
    assert standing(registry) == {}


def test_an_index_of_other_images_than_were_joined_is_refused(tmp_path: Path) -> None:
    registry = FakeRegistry()
    joined = made(registry)
    parts = {**joined.platforms, "linux/arm64": joined.platforms["linux/amd64"]}
    with pytest.raises(PublishRefused, match="holds "):
        promoted(project(tmp_path), registry, msgspec.structs.replace(joined, platforms=parts))
    assert standing(registry) == {}


def test_what_the_index_says_of_itself_is_what_was_joined() -> None:
    """The file that tells what was joined may be another job's; the registry has what this one joined."""
    registry = FakeRegistry()
    joined = made(registry)
    assert require_complete(joined, repository(registry)).digest == joined.digest
    other = {"variant": "a3", "identity": digest_of(b"x"), "epoch": EPOCH + 1}
    for name, value in other.items():
        forged = msgspec.structs.replace(joined, **{name: value})
        with pytest.raises(PublishRefused, match=rf"its annotation io\.ascend-images\.{name} is ") as raised:
            require_complete(forged, repository(registry))
        assert raised.value.wanted == str(value)


@pytest.mark.parametrize("field", [name for name in Joined.__struct_fields__ if name not in ("schema", "digest")])
def test_nothing_that_was_joined_can_be_changed_in_its_file(tmp_path: Path, field: str) -> None:
    """Reports are tied to an image by what that file says: a config or a pushed digest of another image, other pins."""
    registry = FakeRegistry()
    joined = made(registry)
    now = getattr(joined, field)
    if isinstance(now, dict):
        changed: Any = {**now, "more": next(iter(now.values()))}
    else:
        changed = {str: f"{now}0", int: EPOCH + 1, bool: True}[type(now)]
    with pytest.raises(PublishRefused):
        require_complete(msgspec.structs.replace(joined, **{field: changed}), repository(registry))


@pytest.mark.parametrize("which", ["config", "digest"])
def test_a_report_of_another_image_does_not_count_by_what_the_file_says(tmp_path: Path, which: str) -> None:
    registry = FakeRegistry()
    other, joined = made(registry, text="other"), made(registry)
    parts = {
        platform: msgspec.structs.replace(part, **{which: getattr(other.platforms[platform], which)})
        for platform, part in joined.platforms.items()
    }
    forged = msgspec.structs.replace(joined, platforms=parts)
    with pytest.raises(PublishRefused, match=r"its annotation io\.ascend-images\.joined is sha256:"):
        promoted(project(tmp_path), registry, forged)
    assert standing(registry) == {}


IDENTITY = "io.ascend-images.identity"
LABELS: dict[str, tuple[dict[str, str], str]] = {
    "other pins": ({IDENTITY: digest_of(b"x")}, f"its label {IDENTITY} is {digest_of(b'x')}"),
    "unlocked": ({"io.ascend-images.unlocked": "true"}, "its label io.ascend-images.unlocked is true"),
    "stand-ins": ({"io.ascend-images.sandbox": "true"}, "its label io.ascend-images.sandbox is true"),
}


@pytest.mark.parametrize("what", LABELS)
def test_what_an_image_says_of_itself_is_what_was_joined(tmp_path: Path, what: str) -> None:
    registry = FakeRegistry()
    labels, words = LABELS[what]
    joined = made(registry, labels=labels)
    with pytest.raises(PublishRefused) as raised:
        promoted(project(tmp_path), registry, joined)
    assert words in str(raised.value)
    assert standing(registry) == {}


def test_the_labels_of_what_was_joined_are_no_matter() -> None:
    registry = FakeRegistry()
    of = variant()
    assert require_complete(made(registry, of, labels={IDENTITY: identity(of), "x": "y"}), repository(registry))
    labels = {IDENTITY: identity(of), "io.ascend-images.sandbox": "true", "io.ascend-images.unlocked": "true"}
    stand_in = made(registry, of, labels=labels, text="stand-in", tag=f"{of.tag}-sandbox")
    assert require_complete(stand_in, repository(registry))


def test_a_tag_that_merely_ends_so_makes_no_stand_in() -> None:
    registry = FakeRegistry()
    of = variant(tag="1-sandbox")
    joined = made(registry, of, labels={IDENTITY: identity(of), "io.ascend-images.unlocked": "true"})
    with pytest.raises(PublishRefused, match=r"its label io\.ascend-images\.unlocked is true"):
        require_complete(joined, repository(registry))


# --- only forward


def two(registry: FakeRegistry) -> tuple[Joined, Joined, Variant]:
    """Return an older and a newer candidate, and the variant of the newer."""
    newer = variant(install_env={"A": "1"})
    return made(registry), made(registry, newer, text="newer", epoch=EPOCH + 60), newer


def test_tags_move_forward(tmp_path: Path) -> None:
    registry = FakeRegistry()
    root = project(tmp_path)
    old, new, of = two(registry)
    promoted(root, registry, old)
    promoted(root, registry, new, of)
    assert set(standing(registry).values()) == {new.digest}
    assert [one.digest for one in load(root / FILE).publications] == [old.digest, new.digest]


@pytest.mark.parametrize("recorded", [True, False])
def test_tags_never_move_back(tmp_path: Path, recorded: bool) -> None:
    """Whether or not this checkout has the record of the newer one: the index tells its time too."""
    registry = FakeRegistry()
    root = project(tmp_path / "one")
    old, new, of = two(registry)
    promoted(root, registry, new, of)
    elsewhere = root if recorded else project(tmp_path / "two")
    with pytest.raises(PublishRefused, match="which is newer than"):
        promoted(elsewhere, registry, old)
    assert set(standing(registry).values()) == {new.digest}


def test_of_one_commit_the_one_that_was_published_later_stays(tmp_path: Path) -> None:
    registry = FakeRegistry()
    root = project(tmp_path)
    first, second = made(registry), made(registry, text="rebuilt")
    promoted(root, registry, first)
    promoted(root, registry, second)
    with pytest.raises(PublishRefused, match="which is newer than"):
        promoted(root, registry, first)
    assert set(standing(registry).values()) == {second.digest}


def propose(root: Path) -> None:
    """Put what is published into the branch that is proposed, and take it back here."""
    head = git(root, "rev-parse", "HEAD").strip()
    git(root, "update-ref", "refs/remotes/origin/published", commit(root))
    git(root, "reset", "--quiet", "--hard", head)


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_is_proposed_and_not_merged_yet_counts(tmp_path: Path, dry_run: bool) -> None:
    """Of one commit's pins: the first would take the place of the second."""
    registry = FakeRegistry()
    root = project(tmp_path)
    first, second = made(registry), made(registry, text="rebuilt")
    promoted(root, registry, first)
    commit(root)
    promoted(root, registry, second)
    propose(root)
    before = standing(registry)
    with pytest.raises(PublishRefused, match="lacks 1 of what origin/published holds") as raised:
        promote(root, publication(first), first, repository(registry), dry_run=dry_run, say=said)
    assert raised.value.do == "invoke remember --from origin/published"
    assert standing(registry) == before == dict.fromkeys(before, second.digest)


def test_of_one_commit_nothing_takes_the_place_of_what_no_record_holds(tmp_path: Path) -> None:
    """Its record is in a branch that was not fetched, say: it may be the newer one."""
    registry = FakeRegistry()
    first, second = made(registry), made(registry, text="rebuilt")
    promoted(project(tmp_path / "elsewhere"), registry, second)
    root = project(tmp_path / "here")
    with pytest.raises(PublishRefused, match="nothing says which of the two is newer") as raised:
        promoted(root, registry, first)
    assert raised.value.do.startswith("git fetch, then invoke remember --from origin/published")
    assert set(standing(registry).values()) == {second.digest}
    # Newer pins are newer whatever is on record.
    of = variant(install_env={"A": "1"})
    third = made(registry, of, text="newer", epoch=EPOCH + 60)
    promoted(root, registry, third, of)
    assert set(standing(registry).values()) == {third.digest}


def test_an_alias_that_was_written_without_its_record_moves_on(tmp_path: Path) -> None:
    """As where it could not be read back: the record of its digest is of the tag alone."""
    registry = FakeRegistry()
    root = project(tmp_path)
    first, second = made(registry), made(registry, text="rebuilt")
    promoted(root, registry, first, aliases=())
    repository(registry).put(ALIAS, registry.manifests["ascend/ms-swift", first.digest][1], INDEX)
    promoted(root, registry, second)
    assert set(standing(registry).values()) == {second.digest}


def test_time_never_goes_back_in_the_file(tmp_path: Path) -> None:
    """Where a clock was ahead: what was published later stands behind it, and says no earlier day."""
    registry = FakeRegistry()
    root = project(tmp_path)
    promoted(root, registry, made(registry), when="2026-12-31T00:00:00Z")
    promoted(root, registry, made(registry, text="rebuilt"), when="2026-11-30T00:00:00Z")
    assert [one.when for one in load(root / FILE).publications] == ["2026-12-31T00:00:00Z"] * 2


@pytest.mark.parametrize("when", ["", "2026-11-30", "tomorrow", "2026-11-30T12:00:00+01:00", "2026-11-30T12:00:00Z\n"])
def test_a_time_that_is_none(tmp_path: Path, when: str) -> None:
    append(tmp_path / FILE, [publication(made(FakeRegistry()), when=when)])
    with pytest.raises(BadInput, match=r"when"):
        load(tmp_path / FILE)


def of_another_variant(registry: FakeRegistry) -> None:
    digest = made(registry, variant("a3"), text="a3").digest
    repository(registry).put(ALIAS, registry.manifests["ascend/ms-swift", digest][1], INDEX)


FOREIGN: dict[str, Callable[[FakeRegistry], object]] = {
    "an image": lambda registry: push(repository(registry), image(Arch.AMD64, "x", attested=False), ALIAS),
    "an index": lambda registry: push(repository(registry), image(Arch.AMD64, "x"), ALIAS),
    "an index of another variant": of_another_variant,
}


@pytest.mark.parametrize("foreign", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_tag_of_somebody_elses_is_left_alone(tmp_path: Path, foreign: Callable[[FakeRegistry], object]) -> None:
    registry = FakeRegistry()
    foreign(registry)
    before = standing(registry)
    joined = made(registry)
    with pytest.raises(PublishRefused, match=f"{ALIAS} stands for .* which was not published from here"):
        promoted(project(tmp_path), registry, joined)
    assert standing(registry) == before


def test_a_tag_of_another_variant_is_left_alone(tmp_path: Path) -> None:
    """As when an openEuler image was published under the plain tag (vllm-project/vllm-ascend pull 586)."""
    registry = FakeRegistry()
    root = project(tmp_path)
    joined = made(registry)
    promoted(root, registry, joined)
    other = variant("a2-openeuler", tag=variant().tag)
    twin = made(registry, other, text="openeuler", epoch=EPOCH + 60)
    with pytest.raises(PublishRefused, match=r"not published from here|was published for a2"):
        promoted(root, registry, twin, other)
    assert set(standing(registry).values()) == {joined.digest}


def test_two_at_once_leave_a_tag_that_is_whole_and_one_of_them_says_so(tmp_path: Path) -> None:
    """Another machine writes the tag between our writing it and reading it back."""
    registry = FakeRegistry()
    old, new, _ = two(registry)
    theirs = registry.manifests["ascend/ms-swift", new.digest][1]

    def after(request: Request) -> Reply | None:
        if request.method == "PUT" and request.url.endswith(variant().tag) and request.body != theirs:
            registry.after = lambda _: None
            repository(registry).put(variant().tag, theirs, INDEX)
        return None

    registry.after = after
    with pytest.raises(PublishRefused, match="right after it was written"):
        promoted(project(tmp_path), registry, old)
    assert standing(registry) == {variant().tag: new.digest}
    assert whole(registry, new.digest)
    # The one that was overtaken does not come back.
    with pytest.raises(PublishRefused, match="which is newer than"):
        promoted(tmp_path, registry, old)


# --- nothing recorded is lost


@pytest.mark.parametrize("kept", [0, 1])
def test_a_file_that_lacks_what_its_history_holds_is_refused(tmp_path: Path, kept: int) -> None:
    registry = FakeRegistry()
    root = project(tmp_path)
    old, new, of = two(registry)
    promoted(root, registry, old)
    promoted(root, registry, new, of)
    commit(root)
    short = load(root / FILE).publications[:kept]
    (root / FILE).unlink()
    append(root / FILE, short)
    for dry_run in (True, False):
        with pytest.raises(PublishRefused, match=r"lacks . of what HEAD holds") as raised:
            promote(root, publication(new, of), new, repository(registry), dry_run=dry_run, say=said)
        # Not what would put HEAD's file in the place of this one, which may hold more.
        assert raised.value.do == "invoke remember --from HEAD"


def test_git_that_cannot_tell_is_not_taken_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = FakeRegistry()
    joined = made(registry)
    root = project(tmp_path)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    for ask in (
        lambda: promoted(root, registry, joined),
        lambda: building_commit(root, joined, DOCKERFILE),
        lambda: require_nothing_forgotten(root, Published()),
    ):
        with pytest.raises(MissingTool, match="dubious ownership"):
            ask()
    assert standing(registry) == {}


def test_publications_are_only_added(tmp_path: Path) -> None:
    registry = FakeRegistry()
    one = publication(made(registry))
    other = msgspec.structs.replace(one, digest=digest_of(b"other"))
    assert append(tmp_path / FILE, [one]).publications == (one,)
    assert append(tmp_path / FILE, [one]).publications == (one,)
    assert append(tmp_path / FILE, [other]).publications == (one, other)
    assert append(tmp_path / FILE, [one]).publications == (one, other, one)
    assert load(tmp_path / FILE).of_tag(REPOSITORY, ALIAS) == (one, other, one)


WAIVED = dict.fromkeys(NPU, "no runner yet")


def proved(*names: str) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(("linux/amd64", "linux/arm64"), names)


def test_what_is_shown_or_signed_later_is_put_on_record(tmp_path: Path) -> None:
    full = publication(made(FakeRegistry()))
    weak = msgspec.structs.replace(full, checks=proved("container"), waived=WAIVED)
    signed = msgspec.structs.replace(full, signed=digest_of(b"key"))
    other = msgspec.structs.replace(signed, identity=digest_of(b"other pins"))
    for number, one in enumerate((weak, full, signed, other), start=1):
        assert append(tmp_path / FILE, [one]).publications[-1] == one
        assert len(load(tmp_path / FILE).publications) == number


def test_what_shows_less_later_takes_nothing_back(tmp_path: Path) -> None:
    strong = publication(made(FakeRegistry()), signed=digest_of(b"key"))
    append(tmp_path / FILE, [strong])
    weak = msgspec.structs.replace(
        strong, checks=proved("container"), waived=WAIVED, signed="", when="2027-01-01T00:00:00Z"
    )
    assert append(tmp_path / FILE, [weak]).publications == (strong,)
    # Under one more name it is a publication of its own, of what is known of the digest.
    renamed = msgspec.structs.replace(weak, aliases=(ALIAS, "more"))
    now = append(tmp_path / FILE, [renamed]).publications[-1]
    assert now == msgspec.structs.replace(strong, aliases=(ALIAS, "more"), when="2027-01-01T00:00:00Z")


def test_other_checks_are_no_fewer(tmp_path: Path) -> None:
    """One that passed more here and less there replaces nothing, and is told as it was."""
    one = publication(made(FakeRegistry()), checks=proved("container"))
    other = msgspec.structs.replace(one, checks=proved("architecture"))
    why = msgspec.structs.replace(other, waived={"npu": "a"})
    assert append(tmp_path / FILE, [one, other, why]).publications == (one, other)
    reason = msgspec.structs.replace(why, checks=proved("architecture", "container"))
    again = msgspec.structs.replace(reason, waived={"npu": "b"})
    assert append(tmp_path / FILE, [reason, again]).publications == (one, other, reason, again)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"schema": 2}', '{"schema": 1, "more": 1}', "\x00"])
def test_a_file_that_is_something_else(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(BadInput, match=r"published\.json: not the list") as raised:
        load(tmp_path / FILE)
    # Nothing to type that would lose what is on record in that file alone.
    assert raised.value.do.startswith("mend it by hand")
    assert str(tmp_path / FILE) in raised.value.do
    assert load(tmp_path / "none.json") == Published()


# --- killed anywhere


def kill_at(registry: FakeRegistry, step: int) -> None:
    """Have the process end at a request: at an even step before it takes effect, at an odd one after."""
    count = [0]

    def at(parity: int) -> Callable[[Request], Reply | None]:
        def hook(_: Request) -> Reply | None:
            if parity == 1:
                count[0] += 1
            if 2 * count[0] + parity - (2 if parity else 0) == step:
                raise Killed
            return None

        return hook

    registry.before, registry.after = at(0), at(1)


def clear(registry: FakeRegistry) -> None:
    registry.before = registry.after = lambda _: None


#: How often a promotion of an index with four entries asks its registry; it can be killed before and after each.
REQUESTS = 19


def test_all_places_at_which_a_promotion_can_be_killed_are_known(tmp_path: Path) -> None:
    registry = FakeRegistry()
    old, new, of = two(registry)
    promoted(project(tmp_path), registry, old)
    registry.asked.clear()
    promoted(tmp_path, registry, new, of)
    assert len(registry.asked) == REQUESTS


@pytest.mark.parametrize("step", range(2 * REQUESTS))
def test_killed_anywhere_tags_are_right_and_a_second_run_ends_it(tmp_path: Path, step: int) -> None:
    registry = FakeRegistry()
    root = project(tmp_path)
    old, new, of = two(registry)
    promoted(root, registry, old)
    kill_at(registry, step)
    with pytest.raises(Killed):
        promoted(root, registry, new, of)
    clear(registry)
    assert standing(registry).keys() == {variant().tag, ALIAS}
    assert set(standing(registry).values()) <= {old.digest, new.digest}
    assert all(whole(registry, digest) for digest in standing(registry).values())
    promoted(root, registry, new, of)
    assert set(standing(registry).values()) == {new.digest}
    assert {one.digest for one in load(root / FILE).publications} == {old.digest, new.digest}
    assert [one.digest for one in load(root / FILE).publications][-1] == new.digest


@pytest.mark.parametrize("place", ["append", "write_atomic", "_read_back"])
def test_killed_between_registry_and_file_the_next_promotion_puts_it_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """What comes next is another candidate: what the killed one had done is not lost."""
    registry = FakeRegistry()
    root = project(tmp_path)
    old, new, of = two(registry)

    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(promoting, place, killed)
        with pytest.raises(Killed):
            promoted(root, registry, old)
    wrote = variant().tag in standing(registry)
    assert wrote is (place != "write_atomic")
    promoted(root, registry, new, of)
    assert set(standing(registry).values()) == {new.digest}
    digests = [one.digest for one in load(root / FILE).publications]
    assert digests == ([old.digest, new.digest] if wrote else [new.digest])


def test_notes_of_two_repositories_are_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed promotion to one, then one to another: the first is still put on record when its turn comes."""
    registries = {name: FakeRegistry() for name in (REPOSITORY, "other.invalid/ascend/ms-swift")}
    root = project(tmp_path)
    joined = {}
    for name, registry in registries.items():
        of = variant(repository=name)
        client = repository(registry, name)
        joined[name] = join("a2", BOTH, pushed(client, of), client)

    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    for name, registry in registries.items():
        with monkeypatch.context() as patched:
            patched.setattr(promoting, "append", killed)
            with pytest.raises(Killed):
                promote(root, publication(joined[name]), joined[name], repository(registry, name), say=said)
    notes = [path.name for path in (root / FOLDER / "pending").iterdir()]
    assert len(notes) == 2
    assert all(name.startswith("a2-") and name.endswith(".json") for name in notes)
    newer = variant(install_env={"A": "1"})
    promoted(root, registries[REPOSITORY], made(registries[REPOSITORY], newer, text="newer", epoch=EPOCH + 60), newer)
    assert load(root / FILE).publications[0].digest == joined[REPOSITORY].digest
    assert len(list((root / FOLDER / "pending").iterdir())) == 1


def test_a_note_of_a_killed_promotion_that_cannot_be_read(tmp_path: Path) -> None:
    registry = FakeRegistry()
    joined = made(registry)
    root = project(tmp_path)
    note = root / FOLDER / "pending" / "a2.json"
    note.parent.mkdir(parents=True)
    note.write_text("{")
    with pytest.raises(BadInput, match=r"a2\.json: cannot be read") as raised:
        promoted(root, registry, joined)
    # Its record is nowhere else.
    assert raised.value.do == "mend it by hand, or move it away if published.json holds what it names"


FAULTS: dict[str, Callable[[], Reply]] = {
    "down": lambda: (_ for _ in ()).throw(NoAnswerError("Connection refused")),
    "500": lambda: Reply(status=500),
    "429": lambda: Reply(status=429),
    "disk full": lambda: Reply(status=507),
    "login expired": lambda: Reply(status=401),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
@pytest.mark.parametrize("write", [0, 1])
def test_a_registry_that_fails_at_a_write_leaves_tags_right(
    tmp_path: Path, fault: Callable[[], Reply], write: int
) -> None:
    registry = FakeRegistry()
    root = project(tmp_path)
    old, new, of = two(registry)
    promoted(root, registry, old)
    left = [write]

    def before(request: Request) -> Reply | None:
        if request.method != "PUT":
            return None
        if left[0] == 0:
            return fault()
        left[0] -= 1
        return None

    registry.before = before
    with pytest.raises((PublishRefused, LookupIncomplete)) as raised:
        promoted(root, registry, new, of)
    assert isinstance(raised.value, AscendImagesError)
    clear(registry)
    assert list(standing(registry).values()).count(new.digest) == write
    promoted(root, registry, new, of)
    assert set(standing(registry).values()) == {new.digest}


# --- what must be so before


def test_what_was_joined_is_what_the_pins_say() -> None:
    require_pinned(made(FakeRegistry()), variant())


@pytest.mark.parametrize(
    ("tag", "whose"), [("candidate-a2-0123456789ab", "candidate"), ("cache-a2-x86_64", "cache"), ("cache-x", "cache")]
)
def test_a_readable_tag_is_no_candidates_and_no_caches(tag: str, whose: str) -> None:
    """Else pruning would take it, or a build would put its cache in its place."""
    registry = FakeRegistry()
    of = variant(tag=tag)
    with pytest.raises(PublishRefused, match=f"{tag} is a {whose}'s tag"):
        require_pinned(made(registry, of), of)


UNPINNED = {
    "other pins": ({}, {"install_env": {"A": "1"}}, "other pins than versions.toml has now: install_env"),
    "another tag": ({"tag": "other"}, {}, f"was built as {REPOSITORY}:other"),
    "another repository": ({"repository": "other.invalid/x"}, {}, "was built as other.invalid/x"),
    "unlocked": ({"unlocked": True}, {}, "--unlocked"),
    "a base that is not locked": ({"unlocked": True}, {}, "a ref or a base image that versions.lock does not know"),
    "stand-ins": ({"tag": f"{variant().tag}-sandbox"}, {}, "is made of stand-ins"),
    "tampered pins": ({"resolved": {}}, {}, "other pins"),
}


@pytest.mark.parametrize("what", UNPINNED)
def test_what_is_not_what_the_pins_say_gets_no_tag(what: str) -> None:
    fields, pins, words = UNPINNED[what]
    joined = msgspec.structs.replace(made(FakeRegistry()), **fields)
    with pytest.raises(PublishRefused) as raised:
        require_pinned(joined, variant(**pins))
    assert words in str(raised.value)


def test_stand_ins_may_be_tried_on_loopback() -> None:
    local = variant(repository="localhost:5000/x")
    registry = FakeRegistry()
    joined = msgspec.structs.replace(
        join("a2", BOTH, pushed(repository(registry, local.repository), local), repository(registry, local.repository)),
        tag=f"{local.tag}-sandbox",
        unlocked=True,
    )
    require_pinned(joined, local)


def test_stand_ins_are_built_again_as_such_where_their_registry_is_written_down() -> None:
    registry, local = FakeRegistry(), variant(repository="localhost:5000/x")
    joined = msgspec.structs.replace(made(registry, local), repository=local.repository, tag=f"{local.tag}-sandbox")
    moved = msgspec.structs.replace(local, install_env={"A": "1"})
    with pytest.raises(PublishRefused, match="other pins") as raised:
        require_pinned(joined, moved)
    assert raised.value.do == "invoke build --variant a2 --sandbox --push"
    with pytest.raises(PublishRefused, match="was built as localhost:5000/x") as raised:
        require_pinned(joined, variant())
    assert raised.value.do == (
        'write repository = "localhost:5000/x" into [stack.ms-swift] of versions.toml; invoke render; commit both; '
        "invoke build --variant a2 --sandbox --push"
    )


def test_the_commit_holds_the_file_that_was_built(tmp_path: Path) -> None:
    root = project(tmp_path)
    joined = made(FakeRegistry())
    head = commit(root)
    (root / DOCKERFILE).write_text("changed and not committed\n")
    assert building_commit(root, joined, DOCKERFILE) == head
    commit(root)
    with pytest.raises(PublishRefused, match=r"does not hold the .* that was built"):
        building_commit(root, joined, DOCKERFILE)


@pytest.mark.parametrize("arch", BOTH)
@pytest.mark.parametrize("how", ["another", "none"])
def test_the_commit_holds_the_locks_that_were_built(tmp_path: Path, arch: Arch, how: str) -> None:
    """Built with one lock, then another was pulled: that would be on record as built, and never be."""
    root = project(tmp_path)
    joined = made(FakeRegistry())
    path = root / "locks" / f"a2.{arch.value}.txt"
    if how == "another":
        path.write_text("# newer\n")
    else:
        path.unlink()
    head = commit(root)
    with pytest.raises(
        PublishRefused, match=rf"does not hold the locks/a2\.{arch.value}\.txt that was built"
    ) as raised:
        building_commit(root, joined, DOCKERFILE)
    assert raised.value.wanted == joined.locks[arch.platform]
    assert raised.value.do == "check out the commit that was built, or build and verify again"
    assert building_commit(root, joined, DOCKERFILE, stand_in=True) == head


def test_a_time_that_would_lock_the_tag_is_refused(tmp_path: Path) -> None:
    """What is published after it would be older than it, for good."""
    root = project(tmp_path)
    now = time.time()
    joined = made(FakeRegistry())
    require_time(root, joined, now=now)
    for epoch, words in ((4102444800, "is 2100-01-01 00:00:00 UTC, and now it is"), (int(now) + 300, "and HEAD is of")):
        with pytest.raises(PublishRefused, match=words) as raised:
            require_time(root, msgspec.structs.replace(joined, epoch=epoch), now=now)
        assert "which clock is wrong" in raised.value.do


def test_without_a_commit_nothing_is_published(tmp_path: Path) -> None:
    with pytest.raises(PublishRefused, match="no such file"):
        building_commit(tmp_path, made(FakeRegistry()), DOCKERFILE)


def test_an_index_with_two_images_of_one_platform_is_never_promoted(tmp_path: Path) -> None:
    registry = FakeRegistry()
    client = repository(registry)
    joined = made(registry)
    parts = [image(Arch.AMD64, text, attested=False) for text in "ab"]
    for one in parts:
        push(client, one)
    content = index_of(*(entry(one.top, {"architecture": "amd64", "os": "linux"}) for one in parts))
    client.put("x", content, INDEX)
    with pytest.raises(PublishRefused, match="two images for linux/amd64"):
        promoted(project(tmp_path), registry, msgspec.structs.replace(joined, digest=digest_of(content)))
