"""The commands: whole runs from records and reports to tags, lists and a matrix."""

import json
from pathlib import Path

import msgspec
import pytest

from ascend_images import publishing
from ascend_images.digest import digest_of
from ascend_images.errors import BadInput, CheckFailed, LookupIncomplete, PublishRefused
from ascend_images.images.plan import RECORDS
from ascend_images.images.record import load_record
from ascend_images.pins.platform import Arch
from ascend_images.publish import published
from ascend_images.publish.manifest import load_joined
from ascend_images.publish.published import FILE, load
from ascend_images.publish.transport import Reply, Request
from tests.publish_kit import QUAY, FakeRegistry, World, commit, git, repository, variant
from tests.unit.publish.samples import publication

pytestmark = pytest.mark.subprocess


@pytest.fixture
def world(tmp_path: Path) -> World:
    registry = FakeRegistry()
    return World(tmp_path, lambda name: repository(registry, name), registry)


def registry_of(world: World) -> FakeRegistry:
    assert world.registry is not None
    return world.registry


def released(world: World) -> set[str]:
    return {tag for tag in registry_of(world).readable() if not tag.endswith(("-x86_64", "-aarch64"))}


def test_from_records_to_tags_and_lists(world: World) -> None:
    world.build("a2")
    (joined,) = world.manifest("a2")
    assert json.loads(publishing.as_json([joined]))["a2"]["digest"] == joined.digest
    world.verify(joined)
    lines = world.promote("a2")
    tag = variant("a2").tag
    assert lines == [
        f"{QUAY}:{tag}: new -> {joined.digest}",
        f"{QUAY}:latest-ms-swift-910b-ubuntu: new -> {joined.digest}",
    ]
    (one,) = load(world.root / FILE).publications
    assert one.commit == git(world.root, "rev-parse", "HEAD").strip()
    publishing.tags(world.root)
    page = (world.root / "docs" / "supported_tags.md").read_text()
    assert f"`{joined.digest}`" in page
    assert f"| `{QUAY}:{tag}`<br>`{QUAY}:latest-ms-swift-910b-ubuntu` | linux/amd64<br>linux/arm64 |" in page


def test_one_variant_that_is_refused_keeps_no_other_back(world: World) -> None:
    world.build("a2")
    world.build("a3")
    joined = world.manifest("a2", "a3")
    world.verify(joined[0], check="architecture", answer="fail")
    world.verify(joined[1])
    with pytest.raises(PublishRefused, match="architecture: fail"):
        world.promote("a2", "a3")
    assert released(world) == {variant("a3").tag, "latest-ms-swift-a3-ubuntu"}
    assert any(variant("a3").tag in text for text in world.said)


def test_one_broken_architecture_moves_nothing(world: World) -> None:
    world.build("a2", arches=[Arch.AMD64])
    world.build("a3")
    with pytest.raises(PublishRefused, match="a2: no record of a build for linux/arm64"):
        world.manifest("a2", "a3")
    assert (world.root / publishing.MANIFESTS / "a3.json").is_file()
    assert not (world.root / publishing.MANIFESTS / "a2.json").exists()
    with pytest.raises(PublishRefused, match="a2: not joined yet"):
        world.promote("a2")
    assert released(world) == set()


def test_two_that_are_refused_are_both_told(world: World) -> None:
    with pytest.raises(PublishRefused) as raised:
        world.manifest("a2", "a3")
    assert "a2: no record" in str(raised.value)
    assert "a3: no record" in str(raised.value)


def test_what_was_joined_of_fewer_platforms_than_are_declared(world: World) -> None:
    world.build("a2")
    (joined,) = world.manifest("a2")
    less = {"linux/amd64": joined.platforms["linux/amd64"]}
    path = world.root / publishing.MANIFESTS / "a2.json"
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(joined, platforms=less)))
    world.verify(joined)
    with pytest.raises(PublishRefused, match="joined of linux/amd64"):
        world.promote("a2")


def test_a_dry_run_moves_nothing(world: World) -> None:
    world.build("a2")
    world.verify(*world.manifest("a2"))
    assert all(line.startswith("would be ") for line in world.promote("a2", dry_run=True))
    assert released(world) == set()


def test_a_reason_waives_npu_checks_and_is_published(world: World) -> None:
    world.build("a2")
    (joined,) = world.manifest("a2")
    world.verify(joined, check="matmul", answer="not run")
    with pytest.raises(PublishRefused, match="matmul: not run"):
        world.promote("a2")
    world.promote("a2", without_npu="no runner yet")
    assert load(world.root / FILE).publications[0].waived == {"matmul": "no runner yet"}


def test_a_variant_must_be_named(world: World) -> None:
    for command in (world.manifest, world.promote):
        with pytest.raises(BadInput, match="no variant is named"):
            command()


def test_lists_that_are_out_of_date(world: World) -> None:
    with pytest.raises(CheckFailed, match=r"out of date: docs/supported_tags\.md"):
        publishing.tags(world.root, check=True)
    publishing.tags(world.root)
    assert publishing.tags(world.root, check=True) == []


def test_the_matrix_is_json_on_one_line(world: World) -> None:
    text = publishing.matrix(world.root, ["a2"])
    assert "\n" not in text
    assert len(json.loads(text)["include"]) == 2
    assert json.loads(publishing.matrix(world.root, [], "HEAD")) == {"include": []}


def test_pruning_lists_first(world: World) -> None:
    for number in range(2):
        world.build(
            "a2", epoch=number, resolved=msgspec.to_builtins(variant("a2", repository=QUAY, workdir=f"/{number}"))
        )
        world.manifest("a2")
    tags = dict(registry_of(world).tags)
    lines = publishing.prune(world.root, ["a2"], keep=1, say=world.said.append, opened=world.opened)
    assert registry_of(world).tags == tags
    assert [line for line in lines if line.startswith("would delete")]
    lines = publishing.prune(world.root, ["a2"], keep=1, delete=True, say=world.said.append, opened=world.opened)
    assert [line for line in lines if line.startswith("deleted")]
    assert len([tag for _, tag in registry_of(world).tags if tag.startswith("candidate-")]) < len(tags)


def candidates(world: World, count: int = 2) -> list[str]:
    """Join so many candidates of a2, each newer than the one before; return the digests of their indexes."""
    made = []
    for number in range(count):
        pins = variant("a2", repository=QUAY, workdir=f"/{number}")
        world.build("a2", epoch=number, text=f"{number}", resolved=msgspec.to_builtins(pins))
        made += [joined.digest for joined in world.manifest("a2")]
    registry = registry_of(world)
    # As a build pushes under candidates' tags alone.
    registry.tags = {key: digest for key, digest in registry.tags.items() if key[1].startswith("candidate-")}
    return made


def pruned(world: World) -> list[str]:
    return publishing.prune(world.root, ["a2"], keep=1, delete=True, say=world.said.append, opened=world.opened)


def test_what_gets_a_tag_after_the_plan_is_kept(world: World) -> None:
    old, _ = candidates(world)
    registry = registry_of(world)
    listed = [0]

    def before(request: Request) -> None:
        listed[0] += "/tags/list" in request.url
        if listed[0] == 2:
            registry.tags["ascend/ms-swift", "v1"] = old

    registry.before = before
    lines = pruned(world)
    assert ("ascend/ms-swift", old) in registry.manifests
    assert registry.tags["ascend/ms-swift", "v1"] == old
    assert not any(old in line for line in lines)


@pytest.mark.parametrize(
    ("branch", "do"),
    [("main", "git checkout -- published.json"), ("origin/published", "invoke remember --from origin/published")],
)
def test_nothing_is_pruned_where_a_publication_is_forgotten(world: World, branch: str, do: str) -> None:
    """As of one that is proposed and not merged yet: by its digest alone is it known that it was published."""
    (old, _), registry = candidates(world), registry_of(world)
    assert world.root.joinpath(FILE).exists() is False
    published.append(world.root / FILE, [publication(repository=QUAY, digest=old)])
    head = commit(world.root)
    if branch != "main":
        git(world.root, "update-ref", "refs/remotes/origin/published", head)
        git(world.root, "reset", "--quiet", "--hard", "HEAD~1")
    else:
        (world.root / FILE).unlink()
    before = dict(registry.tags)
    with pytest.raises(PublishRefused, match=r"published\.json lacks 1 of what") as raised:
        pruned(world)
    assert raised.value.do == do
    assert registry.tags == before


def down(world: World, *names: str) -> None:
    """Have the registry not answer for anything of some variants."""

    def before(request: Request) -> Reply | None:
        return Reply(status=500) if any(digest in request.url for digest in digests) else None

    records = [load_record(path) for path in (world.root / RECORDS).iterdir()]
    digests = [one.digest for one in records if one is not None and one.variant in names]
    registry_of(world).before = before


def test_one_variant_whose_registry_does_not_answer_stops_no_other(world: World) -> None:
    world.build("a2", "a3")
    down(world, "a2")
    with pytest.raises(LookupIncomplete):
        world.manifest("a2", "a3")
    assert (world.root / publishing.MANIFESTS / "a3.json").is_file()
    down(world, "a2", "a3")
    with pytest.raises(LookupIncomplete) as raised:
        world.manifest("a2", "a3")
    assert str(raised.value).count("wanted:") == 2, "both are told"


def test_one_variant_whose_files_cannot_be_read_stops_no_other(world: World) -> None:
    world.build("a2", "a3")
    (world.root / RECORDS / "a2.amd64.json").write_text("{}")
    with pytest.raises(BadInput, match=r"a2\.amd64\.json: not the record of a build"):
        world.manifest("a2", "a3")
    world.verify(load_joined(world.root / publishing.MANIFESTS / "a3.json", "a3"))
    (world.root / publishing.MANIFESTS / "a2.json").write_text("{}")
    with pytest.raises(BadInput, match=r"a2\.json: not what `invoke manifest` wrote"):
        world.promote("a2", "a3")
    assert variant("a3").tag in released(world)


def test_different_troubles_are_told_as_one_refusal(world: World) -> None:
    world.build("a2")
    down(world, "a2")
    with pytest.raises(PublishRefused, match=r"(?s)a3: no record") as raised:
        world.manifest("a2", "a3")
    assert "500" in str(raised.value)


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://github.com/me/x.git", "https://github.com/me/x"),
        ("https://me:secret@github.com/me/x", "https://github.com/me/x"),
        ("git@github.com:me/x.git", "https://github.com/me/x"),
        ("ssh://git@host.invalid/me/x.git", "https://host.invalid/me/x"),
        ("/somewhere/here", ""),
        ("http://host.invalid/x", ""),
    ],
)
def test_the_address_on_the_web_is_that_of_the_remote(world: World, remote: str, address: str) -> None:
    git(world.root, "remote", "add", "origin", remote)
    assert publishing.web_address(world.root, {}) == address


def test_ci_says_the_address_on_the_web(tmp_path: Path) -> None:
    environment = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "me/x"}
    assert publishing.web_address(tmp_path, environment) == "https://github.com/me/x"
    assert publishing.web_address(tmp_path, {}) == ""


def test_digests_are_those_of_bytes() -> None:
    assert digest_of(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
