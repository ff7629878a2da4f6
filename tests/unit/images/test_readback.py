"""Built images read back: the right manifest, its layers' compression, and each way a configuration may differ."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ascend_images.errors import BuildFailed
from ascend_images.images.builder import Builder
from ascend_images.images.engine import CONTENT, Answer, Engine, ImageStore
from ascend_images.images.plan import Choices
from ascend_images.images.readback import Config, differences, give_local_name, read_back, read_metadata
from ascend_images.images.view import labels
from ascend_images.pins.platform import Arch

OWN = Builder("default", "docker")
OTHER = Builder("farm", "kubernetes")
MANIFEST = f"sha256:{'1' * 64}"
INDEX = f"sha256:{'2' * 64}"
CONFIG = f"sha256:{'3' * 64}"
OCI = "application/vnd.oci.image"


def layer(suffix: str, size: int) -> dict[str, Any]:
    return {"digest": f"sha256:{size}", "mediaType": f"{OCI}.layer.v1.tar{suffix}", "size": size}


MANIFEST_DOCUMENT = {
    "mediaType": f"{OCI}.manifest.v1+json",
    "config": {"digest": CONFIG, "size": 5},
    "layers": [layer("+gzip", 10), layer("+zstd", 20), layer("", 30)],
}
ATTESTATION = {"digest": "sha256:a", "platform": {"os": "unknown", "architecture": "unknown"}}
AMD64 = {"digest": MANIFEST, "platform": {"os": "linux", "architecture": "amd64"}}
INDEX_DOCUMENT = {"mediaType": f"{OCI}.index.v1+json", "manifests": [AMD64, ATTESTATION]}
IMAGE_CONFIG = {"Entrypoint": ["/e"], "Env": ["A=b=c", "E="], "Labels": {"l": "v"}, "WorkingDir": "/w"}


def engine(root: Path, endpoint: str = "unix:///run/docker.sock") -> Engine:
    return Engine("26.1", "0.13", ImageStore.CONTAINERD, "overlayfs", root, "default", endpoint, Arch.AMD64, 2, 10**9)


def docker(answers: Mapping[str, object]):
    """A docker client: what it prints by the words that its arguments hold; anything else it does not know."""
    asked: list[list[str]] = []

    def run(command: Sequence[str]) -> Answer:
        asked.append(list(command))
        for words, answer in answers.items():
            if all(word in command for word in words.split()):
                return Answer(0, json.dumps(answer), "")
        return Answer(1, "", "Error: no such thing\n")

    run.asked = asked  # type: ignore[attr-defined]
    return run


def metadata(digest: str) -> dict[str, Any]:
    return {"containerimage.digest": digest, "containerimage.config.digest": CONFIG}


def test_an_image_the_engine_keeps_is_asked_for_by_its_digest(plan_of, tmp_path: Path) -> None:
    run = docker({f"image inspect {MANIFEST}": {"Config": IMAGE_CONFIG, "Size": 77}})
    made = read_back(plan_of(), metadata(MANIFEST), engine=engine(tmp_path), builder=OWN, run=run)
    assert (made.digest, made.manifest, made.config_digest) == (MANIFEST, MANIFEST, CONFIG)
    assert (made.bytes, made.layers) == (77, None), "the engine tells the size and no layers"
    assert made.config == Config(entrypoint=("/e",), env={"A": "b=c", "E": ""}, labels={"l": "v"}, workdir="/w")


@pytest.mark.parametrize("inside", [True, False])
def test_its_layers_are_read_where_the_engines_store_can_be(plan_of, tmp_path: Path, inside: bool) -> None:
    """A containerd of the engine's own lies in its folder, one beside it in a sibling's."""
    root = tmp_path / "data"
    store = root / "containerd" / "daemon" if inside else tmp_path / "containerd"
    blob = store / CONTENT / "blobs" / "sha256" / ("1" * 64)
    blob.parent.mkdir(parents=True)
    root.mkdir(exist_ok=True)
    blob.write_text(json.dumps(MANIFEST_DOCUMENT))
    run = docker({"image inspect": {"Config": IMAGE_CONFIG, "Size": 77}})
    made = read_back(plan_of(), metadata(MANIFEST), engine=engine(root), builder=OWN, run=run)
    assert made.layers is not None
    assert [one.compression for one in made.layers] == ["gzip", "zstd", "uncompressed"]
    assert made.bytes == 65


def test_a_remote_engines_folders_are_not_looked_for_here(plan_of, tmp_path: Path) -> None:
    run = docker({"image inspect": {"Config": IMAGE_CONFIG, "Size": 77}})
    remote = engine(tmp_path, "ssh://somewhere")
    assert read_back(plan_of(), metadata(MANIFEST), engine=remote, builder=OWN, run=run).layers is None


def test_what_another_builder_hands_over_is_asked_for_by_name(plan_of, tmp_path: Path) -> None:
    plan = plan_of()
    run = docker({f"image inspect {plan.image}": {"Config": IMAGE_CONFIG, "Size": 77}})
    assert read_back(plan, metadata(MANIFEST), engine=engine(tmp_path), builder=OTHER, run=run).bytes == 77


@pytest.mark.parametrize(("builder", "shell"), [(OWN, ("/bin/bash", "-c")), (OTHER, None)])
def test_the_shell_of_a_pushed_image_is_read_from_the_engine_that_pushed_it(
    plan_of, tmp_path: Path, builder: Builder, shell: object
) -> None:
    """buildx leaves it out of what it tells of a registry's images; elsewhere it is not known."""
    plan = plan_of(choices=Choices(push=True))
    pushed = registry(plan)

    def run(command: Sequence[str]) -> Answer:
        if command[1:3] == ["image", "inspect"]:
            return Answer(0, json.dumps({"Config": {**IMAGE_CONFIG, "Shell": ["/bin/bash", "-c"]}, "Size": 1}), "")
        return pushed(command)

    made = read_back(plan, metadata(INDEX), engine=engine(tmp_path), builder=builder, run=run)
    assert made.config.shell == shell


@pytest.mark.parametrize(("push", "builder"), [(True, OWN), (True, OTHER), (False, OWN)])
def test_what_an_engine_pushed_it_calls_by_the_local_name_too(plan_of, push: bool, builder: Builder) -> None:
    run = docker({})
    plan = plan_of(choices=Choices(push=push))
    give_local_name(plan, INDEX, builder=builder, run=run)
    wanted = [["docker", "image", "tag", INDEX, plan.local_image]] if push and builder is OWN else []
    assert run.asked == wanted


def test_a_shell_that_is_not_known_is_no_difference(plan_of) -> None:
    plan = plan_of()
    assert differences(plan, Config(**{**as_meant(plan), "shell": None})) == []


def registry(plan, index: object = INDEX_DOCUMENT) -> Any:
    name = plan.variant.repository
    return docker(
        {
            f"imagetools --raw {name}@{INDEX}": index,
            f"imagetools --raw {name}@{MANIFEST}": MANIFEST_DOCUMENT,
            f"imagetools --format {name}@{MANIFEST}": {"config": IMAGE_CONFIG},
        }
    )


def test_a_pushed_image_is_the_one_of_its_index_that_is_no_attestation(plan_of, tmp_path: Path) -> None:
    plan = plan_of(choices=Choices(push=True))
    made = read_back(plan, metadata(INDEX), engine=engine(tmp_path), builder=OWN, run=registry(plan))
    assert (made.digest, made.manifest, made.config_digest, made.bytes) == (INDEX, MANIFEST, CONFIG, 65)
    assert made.config.entrypoint == ("/e",)


@pytest.mark.parametrize("entries", [[ATTESTATION], [AMD64, AMD64]])
def test_an_index_without_exactly_one_image_of_the_platform_is_a_failure(plan_of, tmp_path: Path, entries) -> None:
    plan = plan_of(choices=Choices(push=True))
    run = registry(plan, {**INDEX_DOCUMENT, "manifests": entries})
    with pytest.raises(BuildFailed, match=r"holds [02] images for linux/amd64"):
        read_back(plan, metadata(INDEX), engine=engine(tmp_path), builder=OWN, run=run)


@pytest.mark.parametrize("push", [True, False])
def test_an_image_that_is_not_where_it_was_put_is_a_failure(plan_of, tmp_path: Path, push: bool) -> None:
    plan = plan_of(choices=Choices(push=push))
    with pytest.raises(BuildFailed, match="cannot be read back: Error: no such thing"):
        read_back(plan, metadata(MANIFEST), engine=engine(tmp_path), builder=OWN, run=docker({}))


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        "[]",
        "{}",
        '{"other": {"containerimage.digest": "sha256:1"}}',
        '{"t": {}}',
        '{"t": {"containerimage.digest": "x"}}',
    ],
)
def test_metadata_that_says_nothing_of_the_target_is_a_failure(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "m.json").write_text(content)
    with pytest.raises(BuildFailed, match="did not say what it made"):
        read_metadata(tmp_path / "m.json", "t")


def test_metadata_of_the_target_is_returned(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"t": {"containerimage.digest": "sha256:1", "image.name": "n"}}')
    assert read_metadata(tmp_path / "m.json", "t")["image.name"] == "n"


def as_meant(plan) -> dict[str, Any]:
    image = plan.rendered.image
    return {
        "entrypoint": tuple(image["entrypoint"]),
        "cmd": ("/bin/bash",),
        "shell": ("/bin/bash", "-c"),
        "env": {name: value.replace("{kernel_arch}", "x86_64") for name, value in image["env"].items()},
        "labels": {**labels(plan.variant), **plan.labels},
        "workdir": image["workdir"] or "/anything",
    }


def test_an_image_configured_as_meant_has_no_differences(plan_of) -> None:
    plan = plan_of()
    assert differences(plan, Config(**as_meant(plan))) == []


def test_more_variables_and_labels_than_meant_are_fine(plan_of) -> None:
    """The base image brings some."""
    plan = plan_of()
    meant = as_meant(plan)
    meant["env"]["LANG"] = "C"
    meant["labels"]["base"] = "x"
    assert differences(plan, Config(**meant)) == []


def test_an_entrypoint_that_names_another_release_is_a_difference(plan_of) -> None:
    plan = plan_of()
    meant = as_meant(plan)
    meant["entrypoint"] = ("/bin/bash", "-c", 'source /usr/local/Ascend/cann-8.5.1/set_env.sh && exec "$@"', "--")
    (found,) = differences(plan, Config(**meant))
    assert found.startswith("ENTRYPOINT is")
    assert "cann-8.5.1" in found


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"shell": ("/bin/bash", "-Eeuo", "pipefail", "-c")}, "SHELL is"),
        ({"shell": ()}, "SHELL is []"),
        ({"cmd": ("python3",)}, "CMD is"),
    ],
)
def test_another_shell_or_command_is_a_difference(plan_of, changed: dict[str, object], said: str) -> None:
    plan = plan_of()
    (found,) = differences(plan, Config(**{**as_meant(plan), **changed}))
    assert found.startswith(said)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("HTTPS_PROXY", "http://me:s3cret@p.corp:1", "a proxy"),
        ("http_proxy", "http://p.corp:1", "a proxy"),
        ("GIT_SSL_NO_VERIFY", "true", "switches TLS off"),
        ("PIP_TRUSTED_HOST", "x", "switches TLS off"),
    ],
)
def test_what_served_the_build_and_stayed_is_a_difference(plan_of, name: str, value: str, said: str) -> None:
    plan = plan_of()
    meant = as_meant(plan)
    meant["env"][name] = value
    (found,) = differences(plan, Config(**meant))
    assert found.startswith(f"ENV holds {name}:")
    assert said in found
    assert "s3cret" not in found


@pytest.mark.parametrize("gone", [True, False])
def test_each_variable_that_is_missing_or_other_is_a_difference(plan_of, gone: bool) -> None:
    plan = plan_of()
    for name in plan.rendered.image["env"]:
        meant = as_meant(plan)
        if gone:
            del meant["env"][name]
        else:
            meant["env"][name] = "other"
        (found,) = differences(plan, Config(**meant))
        assert found.startswith(f"ENV {name} is {'not there' if gone else repr('other')}")


def test_a_label_that_is_missing_is_a_difference(plan_of) -> None:
    plan = plan_of(choices=Choices(unlocked=True))
    meant = as_meant(plan)
    del meant["labels"]["io.ascend-images.unlocked"]
    assert differences(plan, Config(**meant)) == ["LABEL io.ascend-images.unlocked is not there, not 'true'"]


def test_the_kernels_word_for_the_architecture_is_filled_in(plan_of) -> None:
    plan = plan_of("a2", Arch.ARM64)
    assert any("{kernel_arch}" in value for value in plan.rendered.image["env"].values()), (
        "else there is nothing to test"
    )
    found = differences(plan, Config(**as_meant(plan)))
    assert found
    assert all("x86_64" in text and "aarch64" in text for text in found)
