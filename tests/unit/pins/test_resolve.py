"""A Variant is what versions.toml says, with every default filled in and every rule asked."""

import re

import msgspec
import pytest

from ascend_images.errors import BadInput
from ascend_images.pins.model import Pins
from ascend_images.pins.platform import Arch
from ascend_images.pins.resolve import pinned_images, resolve, resolve_all, variant_name
from tests.pins_kit import committed

PINS = committed()


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


def test_every_image_of_the_file_has_a_name_of_its_own() -> None:
    images = pinned_images(PINS)
    assert list(images.values()) == list(PINS.variant)
    assert images == {f"{one.repository}:{one.tag}": one.name for one in resolve_all(PINS)}


@pytest.mark.parametrize(
    ("changed", "do"),
    [
        ({"os": "openeuler24.03"}, "add {os} to the tag template"),
        ({"hardware": "a3"}, "add {cann_tag} to the tag template"),
        ({"soc_version": "ascend910b4"}, "give twin a `tag` of its own in [variant.twin], or its stack another "),
    ],
)
def test_two_variants_of_one_image_are_refused_by_name_and_told_apart(changed: dict[str, str], do: str) -> None:
    entry = msgspec.structs.replace(PINS.variant["a2"], tag="{ms-swift}-py{python}")
    twin = msgspec.structs.replace(entry, aliases=(), **changed)
    pins = msgspec.structs.replace(PINS, variant={"a2": entry, "twin": twin})
    with pytest.raises(BadInput, match='variants "a2" and "twin" give the same tag') as caught:
        pinned_images(pins)
    assert caught.value.do.startswith(do)


def test_a_variant_that_is_no_image_hides_no_other_fault() -> None:
    bad = msgspec.structs.replace(PINS.variant["a2"], aliases=(), python="3.9")
    pins = msgspec.structs.replace(PINS, variant={"a2": PINS.variant["a2"], "bad": bad})
    assert list(pinned_images(pins).values()) == ["a2"]


@pytest.mark.parametrize(
    ("name", "override", "table"),
    [
        ("a2", "torch_npu=2.10.0.post2", "[stack.ms-swift.accept]"),
        ("a3-cann8.5", "torch_npu=2.9.0.post1", '[stack."ms-swift-cann8.5".accept]'),
    ],
)
def test_a_broken_rule_says_what_accepts_it(name: str, override: str, table: str) -> None:
    with pytest.raises(BadInput) as caught:
        resolve(PINS, name, [override])
    accepts = re.findall(r'--set "(accept\.[a-z-]+=)REASON"', caught.value.do)
    assert accepts
    assert len(accepts) == len(caught.value.found.splitlines())
    assert table in caught.value.do
    assert resolve(PINS, name, [override, *(f"{accept}on purpose" for accept in accepts)]).name == name


def test_an_accept_that_accepts_nothing_is_to_be_removed() -> None:
    stack = msgspec.structs.replace(PINS.stack["ms-swift"], accept={**PINS.stack["ms-swift"].accept, "abi": "x"})
    pins = msgspec.structs.replace(PINS, stack={**PINS.stack, "ms-swift": stack})
    with pytest.raises(BadInput) as caught:
        resolve(pins, "a2")
    assert caught.value.do == "remove the accept from [stack.ms-swift.accept] of versions.toml"


def test_an_accept_of_no_rule_is_refused() -> None:
    assert 'unknown rule "torch-npu"' in refused("a2", "accept.torch-npu=as in the public image")


def with_stacks(**stacks: dict[str, object]) -> Pins:
    """The pins with fields of some stacks replaced."""
    changed = {name: msgspec.structs.replace(PINS.stack[name], **fields) for name, fields in stacks.items()}
    return msgspec.structs.replace(PINS, stack={**PINS.stack, **changed})


def test_all_that_the_sources_of_a_stack_lack_is_told_at_once_with_its_name() -> None:
    sources = dict(PINS.stack["verl"].sources)
    sources["verl"] = msgspec.structs.replace(sources["verl"], module="", path="")
    sources["vllm"] = msgspec.structs.replace(sources["vllm"], module="")
    with pytest.raises(BadInput) as caught:
        resolve(with_stacks(verl={"sources": sources}), "a2-verl")
    assert caught.value.found == (
        'stack verl: source vllm: "module" is missing\nstack verl: source verl: "path" and "module" are missing'
    )
    assert caught.value.do == "write them in [stack.verl.sources.vllm] and [stack.verl.sources.verl]"


def test_all_that_nothing_says_of_a_variant_is_told_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        resolve(with_stacks(verl={"repository": "", "python": ""}), "a2-verl")
    assert caught.value.found == 'variant a2-verl: nothing says its "repository" and "python"'


def test_the_faults_of_all_variants_are_told_at_once_each_of_a_stack_once() -> None:
    source = msgspec.structs.replace(PINS.stack["verl"].sources["verl"], git="")
    pins = with_stacks(
        verl={"sources": {**PINS.stack["verl"].sources, "verl": source}},
        **{"verl-qwen3.5": {"cann": "9.9.9"}, "ms-swift-310p": {"os": ""}},
    )
    with pytest.raises(BadInput) as caught:
        resolve_all(pins)
    assert caught.value.found.splitlines() == [
        '310p: nothing says its "os"',
        'a2-verl-qwen3.5, a3-verl-qwen3.5, a2-verl-qwen3.5-overlay: unknown CANN release "9.9.9"',
        'stack verl: source verl: "git" is missing',
    ]
    assert caught.value.wanted.count("one of: ") + caught.value.wanted.count("did you mean") == 1
    assert caught.value.do.splitlines()[1].strip() == "write it in [stack.verl.sources.verl]"


def test_a_rule_that_several_variants_break_is_told_once_by_their_names() -> None:
    with pytest.raises(BadInput) as caught:
        resolve_all(with_stacks(verl={"packages": {**PINS.stack["verl"].packages, "torchvision": "0.24.0"}}))
    assert caught.value.found == "a2-verl, a3-verl: torch-trio: torchvision 0.24.0 with torch 2.10.0"
