"""A Variant is what versions.toml says, with every default filled in and every rule asked."""

from pathlib import Path

import msgspec
import pytest

from ascend_images.errors import BadInput
from ascend_images.pins.load import load
from ascend_images.pins.model import Pins
from ascend_images.pins.platform import Arch
from ascend_images.pins.resolve import resolve, resolve_all, variant_name

PINS = load(Path(__file__).parents[3] / "versions.toml")


def refused(name: str, *overrides: str, base_image: str = "", pins: Pins = PINS) -> str:
    with pytest.raises(BadInput) as caught:
        resolve(pins, name, overrides, base_image=base_image)
    return str(caught.value)


def test_every_variant_of_the_project_resolves() -> None:
    assert [variant.name for variant in resolve_all(PINS)] == list(PINS.variant)


@pytest.mark.parametrize(
    ("called", "name"), [("a2", "a2"), ("A2", "a2"), ("300i-duo", "310p"), ("950", "a5"), ("950DT", "a5")]
)
def test_a_variant_is_found_by_name_and_alias_in_any_case(called: str, name: str) -> None:
    assert variant_name(PINS, called) == name


def test_an_unknown_variant_is_told_with_the_nearest_name() -> None:
    assert 'unknown variant "a2-openeular"\n  wanted: did you mean "a2-openeuler"?' in refused("a2-openeular")


@pytest.mark.parametrize(
    ("name", "overrides", "tag"),
    [
        ("a3", ("torch_npu=2.10.0.post2", "accept.torch-npu-cann=x", "accept.vllm-ascend-row=x"),
         "v4.5.2-cann9.1.0-torch_npu2.10.0.post2-a3-ubuntu22.04-py3.12"),
        ("a3-cann8.5", ("ms-swift=main", "release=false"), "main-cann8.5.1-torch_npu2.9.0.post2-a3-ubuntu22.04-py3.11"),
        ("a2-verl-qwen3.5", (), "verl-8.5.2-910b-ubuntu22.04-py3.11-qwen3-5"),
        ("a3-verl-qwen3.5", (), "verl-8.5.2-a3-ubuntu22.04-py3.11-qwen3-5"),
    ],
)  # fmt: skip
def test_the_published_tags_come_out(name: str, overrides: tuple[str, ...], tag: str) -> None:
    assert resolve(PINS, name, overrides).tag == tag


def test_the_published_tag_of_another_release_comes_out() -> None:
    overrides = ("ms-swift=main", "release=false", "cann=9.0.0")
    variant = resolve(PINS, "a3-cann8.5", overrides, allow_broken=True)
    assert variant.tag == "main-cann9.0.0-torch_npu2.9.0.post2-a3-ubuntu22.04-py3.11"
    # The same stack on the other chip is the published 910b image.
    pins = msgspec.structs.replace(
        PINS, variant={"x": msgspec.structs.replace(PINS.variant["a3-cann8.5"], hardware="a2")}
    )
    assert (
        resolve(pins, "x", overrides, allow_broken=True).tag
        == "main-cann9.0.0-torch_npu2.9.0.post2-910b-ubuntu22.04-py3.11"
    )


def test_a_branch_with_a_slash_is_folded_in_the_tag() -> None:
    variant = resolve(PINS, "a2", ("ms-swift=release/4.5", "sources.ms-swift.version=4.5.2", "release=false"))
    assert variant.tag.startswith("release-4.5-cann9.1.0-")


def test_environment_holds_cann_s_own_then_the_stack_s() -> None:
    env = resolve(PINS, "a2").env
    assert env["ASCEND_TOOLKIT_HOME"] == "/usr/local/Ascend/cann-9.1.0"
    assert env["PYTHONPATH"].split(":")[0] == "/Megatron-LM"
    assert env["CANN_VERSION"] == "9.1.0"
    assert env["SOC_VERSION"] == "ascend910b1"
    assert env["MODELSCOPE_CACHE"] == "/mnt/workspace/.cache/modelscope/hub"
    assert env["TASK_QUEUE_ENABLE"] == "1"
    assert "OMP_NUM_THREADS" not in env
    assert "LD_PRELOAD" not in env


@pytest.mark.parametrize("name", list(PINS.variant))
def test_no_path_of_the_environment_has_an_empty_entry(name: str) -> None:
    env = resolve(PINS, name).env
    for key in ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH"):
        assert all(env[key].split(":")), key


def test_on_x86_64_the_torch_trio_is_the_cpu_build() -> None:
    variant = resolve(PINS, "a2")
    assert variant.pin("torch", Arch.AMD64) == "2.10.0+cpu"
    assert variant.pin("torch", Arch.ARM64) == "2.10.0"
    assert variant.pin("torch_npu", Arch.AMD64) == "2.10.0.post4"


def test_an_overlay_takes_the_base_of_one_release_and_the_packages_of_another() -> None:
    variant = resolve(PINS, "a2-verl-qwen3.5-overlay")
    assert variant.base_image == "quay.io/ascend/cann:8.5.1-910b-ubuntu22.04-py3.11"
    assert variant.cann_home == "/usr/local/Ascend/cann-8.5.2"
    assert variant.python_home == "/usr/local/python3.11.14"
    assert sorted({run.file for run in variant.runs if run.arch is Arch.ARM64}) == [
        "Ascend-cann-910b-ops_8.5.2_linux-aarch64.run",
        "Ascend-cann-nnal_8.5.2_linux-aarch64.run",
        "Ascend-cann-toolkit_8.5.2_linux-aarch64.run",
    ]
    assert not [value for value in variant.env.values() if "8.5.1" in value]


def test_on_a_hardware_without_triton_nothing_that_imports_it_is_installed() -> None:
    variant = resolve(PINS, "310p")
    assert not {"triton-ascend", "liger_kernel", "deepspeed"} & set(variant.packages)
    assert [source.name for source in variant.sources] == ["vllm", "vllm-ascend", "ms-swift"]
    assert variant.experimental


def test_a_release_without_a_default_triton_ascend_must_be_told() -> None:
    stack = PINS.stack["ms-swift"]
    packages = {name: version for name, version in stack.packages.items() if name != "triton-ascend"}
    pins = msgspec.structs.replace(
        PINS, stack={**PINS.stack, "ms-swift": msgspec.structs.replace(stack, packages=packages)}
    )
    assert "9.1" in refused("a2", pins=pins)


@pytest.mark.parametrize(("name", "default"), [("a3-cann8.5", "3.2.0")])
def test_a_release_with_a_default_gives_its_triton_ascend(name: str, default: str) -> None:
    stack = PINS.stack["ms-swift-cann8.5"]
    packages = {name: version for name, version in stack.packages.items() if name != "triton-ascend"}
    pins = msgspec.structs.replace(
        PINS, stack={**PINS.stack, "ms-swift-cann8.5": msgspec.structs.replace(stack, packages=packages)}
    )
    assert resolve(pins, name).packages["triton-ascend"] == default


def test_a_base_image_says_release_os_and_python() -> None:
    variant = resolve(
        PINS, "a3-cann8.5", base_image="registry.example:5000/cann:8.5.0-a3-ubuntu22.04-py3.11", allow_broken=True
    )
    assert variant.base_image == "registry.example:5000/cann:8.5.0-a3-ubuntu22.04-py3.11"
    assert (variant.cann, variant.os, variant.python) == ("8.5.0", "ubuntu22.04", "3.11")


def test_a_base_image_without_a_tag_is_refused() -> None:
    assert "tag" in refused("a2", base_image="quay.io/ascend/cann")


def test_a_base_of_one_chip_with_the_soc_of_another_is_refused() -> None:
    message = refused("a2", base_image="quay.io/ascend/cann:9.1.0-a3-ubuntu22.04-py3.12")
    assert "a3" in message
    assert "910b" in message
    message = refused("a3", "soc_version=ascend910b1")
    assert "ascend910b1" in message


@pytest.mark.parametrize(
    ("name", "overrides", "expected"),
    [
        ("a2", ("cann=9.1.9",), 'unknown CANN release "9.1.9"'),
        ("a2", ("os=ubunto22.04",), "ubunto"),
        ("a2", ("os=debian12",), "debian12"),
        ("a2", ("python=3.9",), "Python 3.9"),
        ("a2", ("torch_npu=2.9.0.post6",), "torch"),
        ("a2", ("torch=2.9.0", "torchvision=0.24.0", "torchaudio=2.9.0"), "torch_npu"),
        ("a2", ("ms-swift=main",), "main"),
        ("a2", ("vllm=0.22.0",), "0.22.0"),
        ("a2", ("tag={ms-swift}-{cann_tag}",), "os"),
        ("a2", ("tag={ms-swift}-{os}-{cann_tag}-{torhc}",), "torch"),
        ("a2", ("tag=Release-{os}-{cann_tag}",), "Release"),
        ("a2", ("tag=" + "x" * 120 + "-{os}-{cann_tag}",), "128"),
        ("a2", ("env.GIT_SSL_NO_VERIFY=true",), "GIT_SSL_NO_VERIFY"),
        ("a2", ("sources.vllm.git=http://github.com/vllm-project/vllm",), "http://"),
        ("a2-verl-qwen3.5", ("base_cann=8.5.0", "cann=9.0.1"), "toolkit"),
    ],
)
def test_what_cannot_be_an_image_is_refused(name: str, overrides: tuple[str, ...], expected: str) -> None:
    assert expected in refused(name, *overrides)


def test_two_variants_of_one_tag_are_refused_by_name() -> None:
    twin = msgspec.structs.replace(PINS.variant["a2"], aliases=())
    pins = msgspec.structs.replace(PINS, variant={"a2": PINS.variant["a2"], "twin": twin})
    with pytest.raises(BadInput) as caught:
        resolve_all(pins)
    assert "a2" in str(caught.value)
    assert "twin" in str(caught.value)
