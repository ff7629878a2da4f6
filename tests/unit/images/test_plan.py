"""Plans: names, contexts, arguments, labels and outputs of one build."""

import json
import zipfile
from pathlib import Path

import msgspec
import pytest

from ascend_images.errors import BadInput
from ascend_images.images.cache import Cache
from ascend_images.images.candidate import LABEL_IDENTITY, identity
from ascend_images.images.network import Network
from ascend_images.images.plan import (
    Choices,
    dry_run,
    target_of,
    with_local_sources,
    with_shared_packages,
)
from ascend_images.images.sources import LocalSource
from ascend_images.pins.platform import Arch
from ascend_images.pins.resolve import resolve
from tests.pins_kit import committed

ROOT = Path(__file__).parents[3]
PINS = committed()


def checkout(folder: Path, *, dirty: bool = False) -> LocalSource:
    return LocalSource(name="vllm", folder=folder, commit="a" * 40, dirty=dirty, git="https://x/vllm", submodules=False)


def test_the_image_is_named_by_its_tag_and_the_kernels_word_for_the_architecture(plan_of) -> None:
    variant = resolve(PINS, "a2")
    assert plan_of("a2", Arch.ARM64).image == f"{variant.repository}:{variant.tag}-aarch64"
    assert plan_of("a2", Arch.AMD64).image == f"{variant.repository}:{variant.tag}-x86_64"


def test_a_suffix_stands_behind_the_tag_and_before_the_architecture(plan_of) -> None:
    variant = resolve(PINS, "a2")
    plan = plan_of("a2", Arch.ARM64, suffix="-changed")
    assert (plan.tag, plan.image) == (f"{variant.tag}-changed", f"{variant.repository}:{variant.tag}-changed-aarch64")
    assert target_of(plan, {}).tags == (plan.image,)
    assert plan.labels == {LABEL_IDENTITY: plan.identity}


def test_an_image_of_stand_ins_says_so_in_its_tag_and_a_label(plan_of) -> None:
    plan = plan_of("a2", suffix="-sandbox")
    assert plan.image.endswith("-sandbox-x86_64")
    assert target_of(plan, {}).labels == {"io.ascend-images.sandbox": "true", LABEL_IDENTITY: plan.identity}


@pytest.mark.parametrize(
    ("compression", "output"),
    [("gzip", "type=image,oci-mediatypes=true"), ("zstd", "type=image,oci-mediatypes=true,compression=zstd")],
)
def test_layers_are_packed_as_was_chosen(plan_of, compression: str, output: str) -> None:
    assert target_of(plan_of(choices=Choices(compression=compression)), {}).output == (output,)


@pytest.mark.parametrize("compression", ["", "GZIP", "estargz", "zstd,push=true"])
def test_another_compression_is_refused(compression: str) -> None:
    with pytest.raises(BadInput, match=f"--compression {compression}") as refused:
        Choices(compression=compression)
    assert refused.value.wanted == "gzip or zstd"


@pytest.mark.parametrize("image", ["m.example/mycann:latest", "m.example/ours:7", f"m.example/cann@sha256:{'a' * 64}"])
def test_a_base_whose_name_says_nothing_is_remarked_on(plan_of, image: str) -> None:
    (note,) = plan_of(choices=Choices(base_image=image), network=Network(settings={})).notes
    assert note.startswith(f"--base-image {image}: its name does not say which CANN, chip, OS and Python it holds")
    assert "CANN 9.1.0, 910b, ubuntu22.04 and Python 3.12 are taken for granted" in note


def test_a_base_whose_tag_says_it_all_is_not_remarked_on(plan_of) -> None:
    text = "m.example/cann:9.1.0-910b-ubuntu22.04-py3.12"
    plan = plan_of(choices=Choices(base_image=text), network=Network(settings={}, notes=("a proxy",)))
    assert plan.notes == ("a proxy",)


def test_an_architecture_the_variant_is_not_built_for_is_refused(plan_of) -> None:
    only = msgspec.structs.replace(resolve(PINS, "a2"), platforms=(Arch.ARM64,))
    with pytest.raises(BadInput, match="variant a2 is not built for amd64") as error:
        plan_of(only, Arch.AMD64)
    assert error.value.wanted == "one of arm64"


def test_the_target_is_one_platform_with_oci_media_types_and_no_provenance_where_it_stays_here(plan_of) -> None:
    target = target_of(plan_of("a2", Arch.ARM64), {})
    assert target.platforms == ("linux/arm64",)
    assert target.output == ("type=image,oci-mediatypes=true",)
    assert target.attest == ("type=provenance,disabled=true",)
    assert target.context == "."
    assert target.dockerfile == "dockerfiles/rendered/a2.Dockerfile"


def test_what_is_pushed_carries_minimal_provenance_and_only_its_candidates_tag(plan_of) -> None:
    plan = plan_of(choices=Choices(push=True))
    target = target_of(plan, {})
    assert target.output == ("type=image,push=true,oci-mediatypes=true",)
    assert target.attest == ("type=provenance,mode=min",)
    assert target.tags == (plan.image,)
    repository = plan.variant.repository
    assert plan.image == f"{repository}:candidate-a2-{plan.identity.removeprefix('sha256:')[:12]}-x86_64"
    assert plan.local_image == plan_of().image


@pytest.mark.parametrize("suffix", ["-sandbox", "-changed"])
def test_a_candidate_of_something_else_says_so(plan_of, suffix: str) -> None:
    plan = plan_of(choices=Choices(push=True), suffix=suffix)
    assert f":candidate-a2{suffix}-" in plan.image
    assert plan.image != plan_of(choices=Choices(push=True)).image


def test_each_image_has_a_cache_of_its_own_and_one_of_changed_pins_reads_that_of_the_pins_too(plan_of) -> None:
    own = (Cache(type="registry"), Cache(type="gha"))
    plan = plan_of("a2", Arch.ARM64, choices=Choices(cache_to=own, cache_from=own), suffix="-changed")
    target = target_of(plan, {})
    place = f"{plan.variant.repository}:cache-a2"
    assert target.cache_to == (
        f"type=registry,ref={place}-changed-aarch64,mode=min,image-manifest=true,oci-mediatypes=true,ignore-error=true",
        "type=gha,scope=cache-a2-changed-aarch64,mode=min,ignore-error=true",
    )
    assert target.cache_from == (
        f"type=registry,ref={place}-changed-aarch64",
        f"type=registry,ref={place}-aarch64",
        "type=gha,scope=cache-a2-changed-aarch64",
        "type=gha,scope=cache-a2-aarch64",
    )
    assert (target_of(plan_of(), {}).cache_to, target_of(plan_of(), {}).cache_from) == ((), ())


def test_another_builder_hands_what_it_keeps_to_the_engine(plan_of) -> None:
    assert target_of(plan_of(), {}, driver="docker-container").output == ("type=docker,oci-mediatypes=true",)
    pushed = target_of(plan_of(choices=Choices(push=True)), {}, driver="docker-container")
    assert pushed.output == ("type=image,push=true,oci-mediatypes=true",)


def test_the_time_is_always_an_argument_and_unlocked_only_when_asked_for(plan_of) -> None:
    assert target_of(plan_of(choices=Choices(epoch=7)), {}).args == {"SOURCE_DATE_EPOCH": "7"}
    unlocked = plan_of(choices=Choices(epoch=7, unlocked=True))
    assert target_of(unlocked, {}).args == {"SOURCE_DATE_EPOCH": "7", "UNLOCKED": "1"}
    assert unlocked.labels == {"io.ascend-images.unlocked": "true", **plan_of().labels}
    assert plan_of().labels == {LABEL_IDENTITY: identity(resolve(PINS, "a2"))}


def test_secrets_are_named_with_their_files(plan_of, tmp_path: Path) -> None:
    target = target_of(plan_of(), {"ca": tmp_path / "a,b"})
    assert target.secret == (f'id=ca,"src={tmp_path}/a,b"',)


def test_contexts_of_the_caller_and_choices_come_together(plan_of, tmp_path: Path) -> None:
    wheels = tmp_path / "my-wheels"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "x-1-py3-none-any.whl", "w"):
        pass
    plan = plan_of(
        choices=Choices(wheels=wheels),
        contexts={"cann": "docker-image://standin:1"},
        facts=tmp_path / "build" / "facts",
        network=Network(settings={}, base="m.example/cann:1"),
    )
    assert target_of(plan, {}).contexts == {
        "cann": "docker-image://standin:1",
        "facts": "./build/facts",
        "wheels": "./my-wheels",
    }, "what the caller replaced is not mirrored"


def test_a_mirrored_base_replaces_the_stages_that_begin_with_it(plan_of) -> None:
    plan = plan_of(network=Network(settings={}, base="m.example/cann:1"))
    assert plan.contexts == {"cann": "docker-image://m.example/cann:1", "fetch": "docker-image://m.example/cann:1"}
    assert plan.base == "m.example/cann:1"


@pytest.mark.parametrize(
    "image",
    [
        "m.example/cann:{tag}",
        "m.example/cann:{tag}-devel",
        "m.example/ours:7",
        f"m.example/cann@sha256:{'a' * 64}",
    ],
)
def test_a_base_image_from_elsewhere_is_taken(plan_of, image: str) -> None:
    tag = resolve(PINS, "a2").base_image.partition("@")[0].rpartition(":")[2]
    text = image.replace("{tag}", tag)
    plan = plan_of(choices=Choices(base_image=text))
    assert plan.contexts == {"cann": f"docker-image://{text}", "fetch": f"docker-image://{text}"}


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("m.example/cann", "has no tag"),
        ("m.example/cann:9.1.0-a3-ubuntu22.04-py3.12", "chip a3, not 910b"),
        ("m.example/cann:9.1.0-910b-openeuler24.03-py3.12", "OS openeuler24.03, not ubuntu22.04"),
        ("m.example/cann:9.1.0-910b-ubuntu22.04-py3.11", "Python 3.11, not 3.12"),
        ("m.example/cann:8.5.1-910b-ubuntu22.04-py3.12", "CANN 8.5.1, not 9.1.0"),
        ("M.example/CANN:1", "is not an image repository"),
    ],
)
def test_a_base_image_for_something_else_is_refused(plan_of, image: str, said: str) -> None:
    with pytest.raises(BadInput, match=said.replace(".", r"\.")):
        plan_of(choices=Choices(base_image=image))


def test_a_folder_without_wheels_is_refused(plan_of, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such folder"):
        plan_of(choices=Choices(wheels=tmp_path / "none"))
    with pytest.raises(BadInput, match="no wheel in it"):
        plan_of(choices=Choices(wheels=tmp_path))


def test_a_local_checkout_is_a_context_a_label_and_the_commit_the_image_tells(plan_of, tmp_path: Path) -> None:
    plan = plan_of(sources=(checkout(tmp_path, dirty=True),))
    assert target_of(plan, {}).contexts == {"src-vllm": f"./build/sources/vllm-{'a' * 12}-dirty"}
    assert plan.labels == {
        "io.ascend-images.source.vllm": f"{'a' * 40}+dirty",
        LABEL_IDENTITY: identity(plan.variant),
    }
    assert plan.identity != plan_of().identity, "the commit is one of the pins"
    assert next(one.commit for one in plan.variant.sources if one.name == "vllm") == "a" * 40
    assert plan.pinned == resolve(PINS, "a2"), "the lock is of what is pinned"


def test_without_local_checkouts_the_variant_stays_as_it_is() -> None:
    variant = resolve(PINS, "a2")
    assert with_local_sources(variant, ()) is variant


def test_chips_of_one_release_install_their_packages_on_one_base(plan_of) -> None:
    a2, a3, openeuler, arm = with_shared_packages(
        [plan_of("a2"), plan_of("a3"), plan_of("a2-openeuler"), plan_of("a2", Arch.ARM64)]
    )
    base = a2.contexts["packages-base"]
    assert base == a3.contexts["packages-base"] == f"docker-image://{min(a2.base, a3.base)}"
    assert a2.contexts["fetch"] == a3.contexts["fetch"] == base
    assert "packages-base" not in openeuler.contexts, "another system is another base"
    assert "packages-base" not in arm.contexts


def test_one_chip_keeps_its_own_base(plan_of) -> None:
    plan = plan_of("a2")
    assert with_shared_packages([plan]) == [plan]


def test_a_base_that_is_a_folder_or_chosen_by_the_caller_is_not_shared(plan_of) -> None:
    folder = plan_of("a2", contexts={"cann": "/some/folder"})
    own = plan_of("a3", contexts={"packages-base": "docker-image://mine:1"})
    other = plan_of("a3")
    assert with_shared_packages([folder, own, other]) == [folder, own, other]


def test_a_dry_run_is_a_bake_file_of_all_plans_that_names_secrets_and_holds_none(plan_of) -> None:
    secret = "s3cret"
    network = Network(settings={"HTTPS_PROXY": f"http://me:{secret}@p.example"})
    text = dry_run([plan_of("a2", network=network), plan_of("a2-openeuler", Arch.ARM64)])
    document = json.loads(text)
    assert list(document["target"]) == ["a2_amd64", "a2-openeuler_arm64"]
    assert document["target"]["a2_amd64"]["secret"] == ["id=network,src=<private folder>/network"]
    assert "secret" not in document["target"]["a2-openeuler_arm64"]
    assert secret.encode() not in text


def test_a_dry_run_says_the_same_on_every_machine(plan_of, tmp_path: Path) -> None:
    assert str(tmp_path).encode() not in dry_run([plan_of("a2"), plan_of("a3")])


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("x.whl", b"", "has no wheel's name"),
        ("x-1-py3-none-any.whl", b"no archive", "is no zip archive"),
        ("x-1-py3-none-any.whl", None, "is no file"),
    ],
)
def test_what_is_no_wheel_in_a_folder_of_wheels_is_named(
    plan_of, tmp_path: Path, name: str, content: bytes | None, expected: str
) -> None:
    folder = tmp_path / "my-wheels"
    folder.mkdir()
    if content is None:
        (folder / name).mkdir()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(BadInput) as error:
        plan_of(choices=Choices(wheels=folder))
    assert f"{name} {expected}" in error.value.found
