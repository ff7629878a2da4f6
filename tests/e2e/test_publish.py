"""Publishing to a real registry, behind a proxy that misbehaves, and by processes that are killed."""

import hashlib
import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from ascend_images.errors import LookupIncomplete, PublishRefused
from ascend_images.pins.platform import Arch
from ascend_images.publish import transport
from ascend_images.publish.index import images_of, parse_index, parse_manifest
from ascend_images.publish.manifest import Joined, join
from ascend_images.publish.promote import promote, publication_of
from ascend_images.publish.prune import plan_pruning, prune
from ascend_images.publish.published import FILE, load
from ascend_images.publish.registry import Repository
from ascend_images.publish.required import proofs, required
from tests.e2e.faulty_proxy import Fault, FaultyProxy
from tests.publish_kit import BOTH, CHECKS, DOCKERFILE, EPOCH, World, project, pushed, reports, variant

pytestmark = pytest.mark.e2e

ALIAS = "latest-ms-swift-910b-ubuntu"
KILLS = 100


@pytest.fixture
def proxy(registry: str) -> Iterator[FaultyProxy]:
    with FaultyProxy(registry).running() as proxy:
        yield proxy


def client(name: str) -> Repository:
    """Return a client that is less patient than a person."""
    return Repository(name, login=lambda _: None, sleep=lambda _: time.sleep(0.01))


def world_at(root: Path, address: str) -> World:
    root.mkdir(exist_ok=True)
    # A repository of its own for each: what another test left there is none of its business.
    return World(root, client, name=f"{address}/{hashlib.sha256(bytes(root)).hexdigest()[:12]}/ms-swift")


@pytest.fixture
def world(tmp_path: Path, proxy: FaultyProxy) -> World:
    return world_at(tmp_path / "project", proxy.address)


def ready(world: World, number: int) -> Joined:
    """Build, join and verify the candidate of a number."""
    world.build("a2", text=f"{world.name} {number}", epoch=EPOCH + number)
    (joined,) = world.manifest("a2")
    world.verify(joined)
    return joined


def standing(where: World | Repository) -> dict[str, str]:
    """Return what the readable tags stand for, after making sure that each is whole."""
    repository = client(where.name)
    found = {}
    for tag in (variant().tag, ALIAS):
        stored = repository.manifest(tag)
        if stored is None:
            continue
        found[tag] = stored.digest
        images = images_of(parse_index(stored.content, tag), tag)
        assert set(images) == set(Arch)
        for arch, entry in images.items():
            manifest = repository.manifest(entry.digest)
            assert manifest is not None
            image = parse_manifest(manifest.content, tag)
            config = repository.blob(image.config.digest)
            assert config is not None
            assert json.loads(config)["architecture"] == arch.value
            assert all(repository.has_blob(layer.digest) for layer in image.layers)
    return found


def test_published_twice_from_nothing_to_tags(world: World) -> None:
    first = ready(world, 1)
    world.promote("a2")
    assert standing(world) == {variant().tag: first.digest, ALIAS: first.digest}
    second = ready(world, 2)
    assert standing(world) == {variant().tag: first.digest, ALIAS: first.digest}
    world.promote("a2")
    assert standing(world) == {variant().tag: second.digest, ALIAS: second.digest}
    assert [one.digest for one in load(world.root / FILE).publications] == [first.digest, second.digest]


def test_an_engine_calls_each_image_by_a_digest_that_ties_its_report(world: World, registry: str) -> None:
    """Pulled by digest, which is how a verification names what it looks at."""
    joined = ready(world, 1)
    engine = docker.from_env(timeout=600)
    name = world.name.replace(world.name.partition("/")[0], registry)
    for platform, part in joined.platforms.items():
        pulled = engine.images.pull(f"{name}@{joined.digest}", platform=platform)
        try:
            assert pulled.attrs["Architecture"] == platform.removeprefix("linux/")
            assert pulled.id in (joined.digest, part.digest, part.manifest, part.config)
        finally:
            engine.images.remove(f"{name}@{joined.digest}")


def test_pulled_by_tag_each_platform_gets_its_own_image(world: World, registry: str) -> None:
    joined = ready(world, 1)
    world.promote("a2")
    engine = docker.from_env(timeout=600)
    name = world.name.replace(world.name.partition("/")[0], registry)
    for platform in joined.platforms:
        pulled = engine.images.pull(name, tag=ALIAS, platform=platform)
        try:
            assert pulled.attrs["Architecture"] == platform.removeprefix("linux/")
            assert f"{name}@{joined.digest}" in pulled.attrs["RepoDigests"]
        finally:
            engine.images.remove(f"{name}:{ALIAS}")


PASSING = {
    "429": Fault("status", status=429, count=2),
    "500": Fault("status", status=500, count=3),
    "503": Fault("status", status=503, count=1),
    "slow": Fault("slow", seconds=1.0, count=2),
    "cut in the middle of an upload": Fault("cut request", method="PUT", count=2),
    "cut in the middle of an answer": Fault("cut answer", method="GET", count=2),
    "cut before an answer": Fault("hang up", count=3),
}


@pytest.mark.parametrize("what", PASSING)
def test_what_passes_is_waited_out(world: World, proxy: FaultyProxy, what: str) -> None:
    joined = ready(world, 1)
    proxy.fault = PASSING[what]
    world.promote("a2")
    assert proxy.fault.seen == proxy.fault.count
    assert set(standing(world).values()) == {joined.digest}


LASTING = {
    "down": Fault("hang up"),
    "429": Fault("status", status=429),
    "500": Fault("status", status=500),
    "cut in the middle of an upload": Fault("cut request", method="PUT"),
    "disk full": Fault("status", method="PUT", status=507),
    "disk full, as some registries say it": Fault("status", method="PUT", status=500),
    "login expired": Fault("status", method="PUT", status=401),
    "full at the alias": Fault("status", method="PUT", suffix=ALIAS, status=507),
    "cut at the alias": Fault("cut request", method="PUT", suffix=ALIAS),
    "cut after the alias was written": Fault("cut answer", method="PUT", suffix=ALIAS),
}


@pytest.mark.parametrize("what", LASTING)
def test_what_does_not_pass_moves_nothing_wrongly_and_a_second_run_ends_it(
    world: World, proxy: FaultyProxy, what: str
) -> None:
    old = ready(world, 1)
    world.promote("a2")
    new = ready(world, 2)
    proxy.fault = LASTING[what]
    with pytest.raises((PublishRefused, LookupIncomplete)) as raised:
        world.promote("a2")
    assert raised.value.exit_code in (6, 7)
    proxy.fault = None
    now = standing(world)
    assert now[variant().tag] == (new.digest if "alias" in what else old.digest)
    assert now[ALIAS] == (new.digest if "written" in what else old.digest)
    world.promote("a2")
    assert set(standing(world).values()) == {new.digest}
    # What was done before an alias failed is on record of its own.
    times = 2 if "alias" in what else 1
    assert [one.digest for one in load(world.root / FILE).publications] == [old.digest, *[new.digest] * times]


@pytest.mark.parametrize("what", ["down", "500", "disk full", "login expired"])
def test_joining_fails_in_words_and_can_be_repeated(world: World, proxy: FaultyProxy, what: str) -> None:
    world.build("a2")
    proxy.fault = LASTING[what]
    with pytest.raises((PublishRefused, LookupIncomplete)):
        world.manifest("a2")
    proxy.fault = None
    assert standing(world) == {}
    (first,) = world.manifest("a2")
    assert world.manifest("a2") == [first]


def test_a_registry_that_says_nothing_is_given_up(
    world: World, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(world, 1)
    monkeypatch.setattr(transport, "_QUIET_SECONDS", 0.3)
    proxy.fault = Fault("slow", seconds=1.0)
    with pytest.raises(LookupIncomplete, match="no answer within"):
        world.promote("a2")


def test_a_registry_that_does_not_run(tmp_path: Path) -> None:
    world = world_at(tmp_path / "project", "127.0.0.1:1")
    with pytest.raises(LookupIncomplete, match="refused"):
        client(world.name).manifest("1.0")


def test_a_tag_that_exists_with_another_digest_is_left_alone(world: World) -> None:
    world.build("a3", text="somebody else's")
    (theirs,) = world.manifest("a3")
    repository = client(world.name)
    stored = repository.manifest(theirs.digest)
    assert stored is not None
    repository.put(ALIAS, stored.content, stored.media_type)
    ready(world, 1)
    with pytest.raises(PublishRefused, match="not published from here"):
        world.promote("a2")
    assert standing(world) == {ALIAS: theirs.digest}


def test_pruning_leaves_what_is_released(world: World) -> None:
    released = ready(world, 1)
    world.promote("a2")
    old, newest = ready(world, 2), ready(world, 3)
    repository = client(world.name)
    # As a build pushes under candidates' tags alone: the tag of one architecture would keep its digest.
    plan = plan_pruning(repository, load(world.root / FILE), keep=1)
    prune(repository, plan)
    assert repository.manifest(released.digest) is not None
    assert set(standing(world).values()) == {released.digest}
    assert repository.manifest(newest.digest) is not None
    assert (repository.manifest(old.digest) is None) is (old.digest in plan.doomed)


# --- processes


def forked(work: Any) -> int:
    """Do something in a process of its own; return its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except (PublishRefused, LookupIncomplete):
        code = 7
    finally:
        os._exit(code)


def ended(pid: int) -> int:
    """Wait for a process and return its exit code, or the negative number of its signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_two_promotions_at_once_from_one_folder_take_turns(tmp_path: Path, registry: str) -> None:
    world = world_at(tmp_path / "once", registry)
    joined = ready(world, 1)
    pids = [forked(lambda: world.promote("a2")) for _ in range(4)]
    assert [ended(pid) for pid in pids] == [0] * 4
    assert set(standing(world).values()) == {joined.digest}
    assert len(load(world.root / FILE).publications) == 1


@pytest.mark.parametrize("_", range(3))
def test_two_promotions_at_once_from_two_machines(tmp_path: Path, registry: str, _: int) -> None:
    """Each has a published.json of its own; the older one never wins over what it could see."""
    address = f"{registry}/{hashlib.sha256(bytes(tmp_path)).hexdigest()[:12]}/ms-swift"
    worlds = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        worlds.append(World(tmp_path / name, client, name=address))
    old, new = ready(worlds[0], 1), ready(worlds[1], 2)
    pids = [forked(lambda world=world: world.promote("a2")) for world in worlds]
    codes = [ended(pid) for pid in pids]
    assert set(codes) <= {0, 7}
    now = standing(worlds[0])
    assert set(now.values()) <= {old.digest, new.digest}
    worlds[1].promote("a2")
    assert set(standing(worlds[0]).values()) == {new.digest}
    with pytest.raises(PublishRefused, match="newer than"):
        worlds[0].promote("a2")


class Line:
    """Candidates of one variant, each pushed, joined, verified and promoted, without what is typed around it."""

    def __init__(self, root: Path, name: str) -> None:
        self.root = project(root)
        self.of = variant(repository=name)
        self.client = client(name)

    def join(self, number: int) -> Joined:
        return join("a2", BOTH, pushed(self.client, self.of, text=f"{number}", epoch=EPOCH + number), self.client)

    def promote(self, joined: Joined) -> None:
        needed = required(CHECKS)
        publication = publication_of(
            joined,
            self.of,
            proofs(joined, reports(joined), needed),
            aliases=[ALIAS],
            when="2026-11-30T12:00:00Z",
            commit="c" * 40,
            source="",
            dockerfile=DOCKERFILE,
            reason="",
        )
        promote(self.root, publication, joined, self.client, say=lambda _: None)

    def run(self, number: int) -> str:
        joined = self.join(number)
        self.promote(joined)
        return joined.digest


def test_killed_at_random_points_the_tags_are_right_every_time(tmp_path: Path, registry: str) -> None:
    """Pushed, joined, verified and promoted, with a kill anywhere in it; what comes next ends what was begun."""
    line = Line(tmp_path, f"{registry}/kills/ms-swift")
    chance = random.Random(20261130)
    began = time.monotonic()
    digests = {line.run(0)}
    whole = time.monotonic() - began
    killed = moved = 0
    for number in range(1, KILLS + 1):
        pid = forked(lambda number=number: line.run(number))
        # A little longer than the first took: on a machine that gets busier none would else come as far as the tags.
        time.sleep(chance.uniform(0, 1.3 * whole))
        os.kill(pid, signal.SIGKILL)
        killed += ended(pid) == -signal.SIGKILL
        now = standing(line.client)
        assert now.keys() == {variant().tag, ALIAS}
        mine = line.join(number).digest
        assert set(now.values()) <= {*digests, mine}
        if mine in now.values():
            moved += 1
            digests.add(mine)
        if chance.random() < 0.5:
            # Else the next candidate comes first, and what this one wrote is put on record by that.
            digests.add(line.run(number))
            assert set(standing(line.client).values()) == {mine}
    last = line.run(KILLS + 1)
    assert set(standing(line.client).values()) == {last}
    assert {one.digest for one in load(tmp_path / FILE).publications} == {*digests, last}
    assert killed > KILLS / 4
    assert moved > 0
