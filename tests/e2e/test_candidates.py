"""What a push leaves in a real registry: candidates, what is attested of them, and caches that outlive an engine."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ascend_images.errors import MissingTool
from ascend_images.images.build import build
from ascend_images.images.cache import Cache, cache_tag
from ascend_images.images.candidate import parse_candidate
from ascend_images.images.plan import BuildPlan, Choices
from ascend_images.publish.index import images_of, parse_index
from ascend_images.publish.prune import plan_pruning
from ascend_images.publish.published import Published
from ascend_images.publish.registry import Repository
from ascend_images.sandbox.registry import Registry
from ascend_images.sandbox.second_engine import second_engine
from tests.e2e.builds import docker
from tests.e2e.faulty_proxy import Fault, FaultyProxy
from tests.e2e.test_build_run import base, plan_of, run  # noqa: F401 - a fixture
from tests.publish_kit import commit, git

pytestmark = pytest.mark.e2e

NAME = "ascend-images-test/candidates"

Plans = Callable[..., BuildPlan]


@pytest.fixture(scope="module")
def address() -> str:
    return Registry().start()


@pytest.fixture
def place(address: str, tmp_path: Path) -> Iterator[str]:
    """A repository of the test's own, emptied at its end."""
    name = f"{address}/{NAME}/{tmp_path.name}".lower()
    yield name
    repository = Repository(name, login=lambda _: None)
    for tag in repository.tags():
        stored = repository.manifest(tag)
        if stored is not None:
            repository.delete(stored.digest)


@pytest.fixture(scope="module")
def cann(address: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A base image in the registry, by its digest; a folder in its place would have every step run anew."""
    folder = tmp_path_factory.mktemp("base")
    base(folder)
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY base /\n")
    made = folder / "metadata.json"
    output = f"--output=type=image,name={address}/{NAME}/base:1,push=true,oci-mediatypes=true"
    docker("buildx", "build", "--provenance=false", output, "--metadata-file", str(made), str(folder))
    return f"{address}/{NAME}/base:1@{json.loads(made.read_text())['containerimage.digest']}"


@pytest.fixture
def plan_on(plan_of: Plans, place: str, cann: str) -> Plans:  # noqa: F811
    """Makes a plan whose image goes to the test's own repository, or its cache."""

    def make(name: str, command: str, choices: Choices | None = None) -> BuildPlan:
        contexts = {"cann": f"docker-image://{cann}"}
        return plan_of(name, run(command), choices=choices, repository=place, contexts=contexts)

    return make


PUSH = Choices(push=True)


def steps_of(plan: BuildPlan) -> str:
    return plan.log.read_text(encoding="utf-8")


def test_a_push_goes_to_the_candidates_tag_alone(plan_on: Plans, place: str) -> None:
    plan = plan_on("alone", "echo pushed >/x", PUSH)
    (record,) = build([plan], stream=io.StringIO())
    repository = Repository(place, login=lambda _: None)
    (tag,) = repository.tags()
    candidate = parse_candidate(tag)
    assert candidate is not None
    assert (candidate.variant, candidate.arch) == ("alone", plan.arch)
    assert record.image == f"{place}:{tag}"
    stored = repository.manifest(tag)
    assert stored is not None
    assert stored.digest == record.digest
    assert images_of(parse_index(stored.content, tag), tag)[plan.arch].digest == record.manifest
    here = json.loads(docker("image", "inspect", plan.local_image))[0]
    assert here["Id"] == record.digest, "it is run by the name that it has where nothing is pushed"
    docker("image", "rm", plan.local_image)
    labels = here["Config"]["Labels"]
    assert labels["io.ascend-images.identity"] == plan.identity
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0 AND LicenseRef-CANN"
    assert labels["io.ascend-images.terms.cann"].startswith("https://")


def test_what_is_pushed_and_what_is_kept_are_one_image(plan_on: Plans) -> None:
    """The label of the identity, as every other, is there either way."""
    (pushed,) = build([plan_on("same", "echo same >/x", PUSH)], stream=io.StringIO())
    plan = plan_on("same", "echo same >/x")
    (kept,) = build([plan], stream=io.StringIO())
    assert kept.image == plan.local_image
    assert (kept.manifest, kept.config) == (pushed.manifest, pushed.config)


def test_provenance_tells_the_base_by_its_digest_and_the_commit_of_the_project(
    plan_on: Plans, cann: str, tmp_path: Path
) -> None:
    """Sources are fetched by steps of their own, of which BuildKit knows no commit: the labels have those."""
    plan = plan_on("attested", "echo attested >/x", PUSH)
    git(tmp_path, "init", "--quiet")
    revision = commit(tmp_path)
    (record,) = build([plan], stream=io.StringIO())
    said = json.loads(docker("buildx", "imagetools", "inspect", "--format", "{{json .Provenance}}", record.image))
    materials = [one["digest"] for one in said["SLSA"]["materials"] if one["uri"].startswith("pkg:docker/")]
    assert materials == [{"sha256": cann.rpartition(":")[2]}]
    about = said["SLSA"]["metadata"]["https://mobyproject.org/buildkit@v1#metadata"]
    assert about["vcs"]["revision"].removesuffix("-dirty") == revision
    assert "source" not in about, "mode=min: no texts of steps"
    assert str(tmp_path) not in json.dumps(said), "nor where it was built"


def test_another_engine_finds_the_steps_in_the_registry(
    plan_on: Plans, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = (Cache(type="registry"),)
    step = 'echo "$EPOCHREALTIME" >/x'
    plan = plan_on("cached", step, Choices(cache_to=own, cache_from=own))
    (first,) = build([plan], stream=io.StringIO())
    assert first.not_cached == "", "that there is none yet to be imported is nothing"
    assert "NO CACHE: " in steps_of(plan)
    repository = Repository(place, login=lambda _: None)
    assert repository.tags() == (cache_tag(plan.variant, "", plan.arch),), "a cache needs no push"
    assert plan_pruning(repository, Published(), keep=1).doomed == {}
    reading = plan_on("cached", step, Choices(cache_from=own))
    try:
        with second_engine() as host, monkeypatch.context() as patch:
            patch.setenv("DOCKER_HOST", host)
            (second,) = build([reading], stream=io.StringIO())
    except MissingTool as error:
        pytest.skip(f"no second engine here: {error.found}")
    assert "NO CACHE: " not in steps_of(reading)
    assert "CACHED" in steps_of(reading)
    assert second.config == first.config, "the step wrote the time: it did not run again"


def test_a_cache_in_a_folder_is_written_and_read(plan_on: Plans, tmp_path: Path) -> None:
    cache = (Cache(type="local", place=str(tmp_path / "cache")),)
    plan = plan_on("folder", "echo >/x", Choices(cache_to=cache, cache_from=cache))
    build([plan], stream=io.StringIO())
    assert (tmp_path / "cache" / "index.json").is_file()
    (again,) = build([plan], stream=io.StringIO())
    assert again.not_cached == ""
    assert "NO CACHE: " not in steps_of(plan)


@pytest.mark.parametrize("status", [403, 507])
def test_a_registry_that_takes_no_cache_fails_no_build(plan_on: Plans, address: str, status: int) -> None:
    with FaultyProxy(address).running() as proxy:
        proxy.fault = Fault("status", method="POST", status=status)
        cache = (Cache(type="registry", place=f"{proxy.address}/{NAME}/refused:cache-x"),)
        plan = plan_on("refused", f"echo {status} >/x", Choices(cache_to=cache))
        out = io.StringIO()
        (record,) = build([plan], stream=out)
    assert str(status) in record.not_cached
    assert "NO CACHE: " in out.getvalue()
    assert record.digest in docker("image", "inspect", plan.image)
