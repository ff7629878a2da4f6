"""The commands: whole runs from records and reports to tags, lists and a matrix."""

import json
from pathlib import Path

import msgspec
import pytest

from ascend_images import publishing
from ascend_images.digest import digest_of
from ascend_images.errors import BadInput, CheckFailed, LookupIncomplete, MissingTool, PublishRefused
from ascend_images.images.plan import RECORDS
from ascend_images.images.record import load_record
from ascend_images.pins.platform import Arch
from ascend_images.publish import published
from ascend_images.publish.manifest import load_joined
from ascend_images.publish.published import FILE, load
from ascend_images.publish.required import NPU
from ascend_images.publish.transport import Reply, Request
from ascend_images.verify.report import REPORT_FOLDER, write_report
from tests.publish_kit import OF_QUAY, QUAY, FakeRegistry, World, commit, git, reports, repository, saying, variant
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


def test_an_image_of_stand_ins_is_on_record_as_one(tmp_path: Path) -> None:
    name = "localhost:5000/x"
    registry = FakeRegistry()
    world = World(tmp_path, lambda name: repository(registry, name), registry, name=name)
    world.build("a2", tag=f"{variant('a2').tag}-sandbox", typed=("--sandbox",))
    (joined,) = world.manifest("a2")
    with pytest.raises(PublishRefused) as raised:
        world.promote("a2", without_npu="no NPU")
    assert raised.value.do.count(" --sandbox") == 2
    world.verify(joined)
    world.promote("a2")
    assert [one.stand_in for one in load(world.root / FILE).publications] == [True]


TYPED = ("--set repository=localhost:5000/x", "--sandbox")


def test_what_is_to_be_built_besides_is_built_by_the_same_words(world: World) -> None:
    world.build("a2", arches=[Arch.AMD64], typed=TYPED)
    with pytest.raises(PublishRefused, match="no record of a build for linux/arm64") as raised:
        world.manifest("a2")
    assert raised.value.do == f"invoke build --variant a2 --arch arm64 {' '.join(TYPED)} --push"
    world.build("a2", typed=TYPED, pushed=False)
    with pytest.raises(PublishRefused, match="but not pushed") as raised:
        world.manifest("a2")
    assert raised.value.do == f"invoke build --variant a2 --arch amd64,arm64 {' '.join(TYPED)} --push"


def test_what_comes_after_joining_is_to_verify_each_image(world: World) -> None:
    world.build("a2")
    (joined,) = world.manifest("a2")
    (line,) = publishing.after_joining([joined])
    first, second = line.removeprefix("next: ").split("; ")
    assert first == (
        f"nox -s verify -- --variant a2 --image {QUAY}@{joined.platforms['linux/amd64'].manifest} "
        "--platform linux/amd64 --require-npu"
    )
    assert "--platform linux/arm64" in second
    of_sandbox = msgspec.structs.replace(joined, tag=f"{joined.tag}-sandbox")
    assert publishing.after_joining([of_sandbox])[0].endswith(" --require-npu --sandbox")


def test_what_comes_after_a_promotion_is_told() -> None:
    assert publishing.after_promoting(["a2", "a3"], dry_run=True) == "invoke promote --variant a2 --variant a3"
    assert publishing.after_promoting(["a2"], dry_run=False).startswith("invoke tags, and commit published.json")


def test_a_verification_that_is_named_next_can_succeed(world: World) -> None:
    """Without an NPU where that is waived, and as of the sandbox where the images are made of stand-ins."""
    world.build("a2")
    world.manifest("a2")
    with pytest.raises(PublishRefused) as raised:
        world.promote("a2")
    assert raised.value.do.count(" --require-npu") == 2
    with pytest.raises(PublishRefused) as raised:
        world.promote("a2", without_npu="no A2 at hand")
    assert "--require-npu" not in raised.value.do
    assert raised.value.do.count("nox -s verify -- --variant a2 --image ") == 2


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
            registry.tags[OF_QUAY, "v1"] = old

    registry.before = before
    lines = pruned(world)
    assert (OF_QUAY, old) in registry.manifests
    assert registry.tags[OF_QUAY, "v1"] == old
    assert not any(old in line for line in lines)


@pytest.mark.parametrize(
    ("branch", "do"),
    [("main", "invoke remember --from HEAD"), ("origin/published", "invoke remember --from origin/published")],
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


@pytest.mark.parametrize("content", [b"{", b'{"schema": 1, "facts": ' + b"[" * 200_000])
def test_a_report_that_cannot_be_read_stops_only_the_variant_that_it_is_of(world: World, content: bytes) -> None:
    world.build("a2", "a3")
    world.verify(*world.manifest("a2", "a3"))
    (world.root / "build" / "verify" / "a3.linux-arm64.json").write_bytes(content)
    with pytest.raises(BadInput, match=r"a3\.linux-arm64\.json: not a report of a verification"):
        world.promote("a3", "a2")
    assert released(world) == {variant("a2").tag, "latest-ms-swift-910b-ubuntu"}


def test_a_report_that_cannot_be_read_and_may_be_of_any_image_stops_all(world: World) -> None:
    """It may say of an image that it fails."""
    world.build("a2")
    world.verify(*world.manifest("a2"))
    (world.root / "build" / "verify" / "quay.io-x.linux-arm64.json").write_text("{")
    with pytest.raises(BadInput, match=r"quay\.io-x\.linux-arm64\.json: not a report"):
        world.promote("a2")
    assert released(world) == set()


def test_a_folder_of_reports_that_was_typed_is_there(tmp_path: Path) -> None:
    assert publishing.reports_folder(REPORT_FOLDER) == REPORT_FOLDER, "nothing was verified yet"
    assert publishing.reports_folder(tmp_path) == tmp_path
    with pytest.raises(BadInput, match=r"--reports .*nowhere: no such folder"):
        publishing.reports_folder(tmp_path / "nowhere")


def test_a_record_of_something_else_is_not_joined(world: World) -> None:
    world.build("a2", "a3")
    records = world.root / RECORDS
    (records / "a3.amd64.json").rename(records / "a2.amd64.json")
    with pytest.raises(BadInput, match=r"a2\.amd64\.json: the record of a3 amd64"):
        world.manifest("a2")


def test_what_was_joined_of_another_variant_is_not_promoted(world: World) -> None:
    world.build("a2", "a3")
    world.verify(*world.manifest("a2", "a3"))
    manifests = world.root / publishing.MANIFESTS
    (manifests / "a3.json").rename(manifests / "a2.json")
    with pytest.raises(BadInput, match=r"a2\.json: what was joined of a3"):
        world.promote("a2")


def test_the_list_has_no_link_to_a_commit_that_is_only_here(world: World) -> None:
    git(world.root, "remote", "add", "origin", "https://github.com/me/x")
    world.build("a2")
    world.verify(*world.manifest("a2"))
    world.promote("a2")
    (one,) = load(world.root / FILE).publications
    assert one.source == ""
    assert any("no branch of origin holds HEAD" in text for text in world.said)


def test_digests_are_those_of_bytes() -> None:
    assert digest_of(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize("reason", [" ", "\n", "no\nrunner", "no \x1b[31mrunner", "no\u202erunner"])
def test_a_reason_that_is_no_line_of_text_waives_nothing(world: World, reason: str) -> None:
    world.build("a2")
    world.verify(*world.manifest("a2"))
    with pytest.raises(BadInput, match="--without-npu"):
        world.promote("a2", without_npu=reason)
    assert released(world) == set()


def test_a_reason_is_published_without_the_blanks_around_it(world: World) -> None:
    world.build("a2")
    (joined,) = world.manifest("a2")
    for one in reports(joined):
        for check in NPU:
            one = saying(one, check, "not run")
        write_report(world.root / "build" / "verify", one)
    world.promote("a2", without_npu="  no runner yet \n")
    assert set(load(world.root / FILE).publications[-1].waived.values()) == {"no runner yet"}


def test_what_is_of_a_time_to_come_is_not_promoted(world: World) -> None:
    world.build("a2", epoch=4102444800)
    world.verify(*world.manifest("a2"))
    for dry_run in (True, False):
        with pytest.raises(PublishRefused, match="a2: the time of the pins is 2100-01-01"):
            world.promote("a2", dry_run=dry_run)
    assert released(world) == set()


def test_nothing_is_pruned_where_git_cannot_tell_what_was_published(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates(world)
    before = dict(registry_of(world).tags)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(MissingTool, match="dubious ownership"):
        pruned(world)
    assert registry_of(world).tags == before
