"""docs/from-build-image-py.md: every flag of the ModelScope builder has a line here, and the line does what it says."""

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from invoke.parser import Parser

import tasks
from ascend_images import cli
from ascend_images.images.render import render
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant
from ascend_images.selection import select
from tests.pins_kit import committed_in

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "from-build-image-py.md").read_text(encoding="utf-8")
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split("|")) for line in TEXT.splitlines() if line.startswith("| `")
]
LINES = {flag: here.strip("`") for there, here in ROWS for flag in re.findall(r"(--\w+|DOCKER_REGISTRY)", there)}

FLAGS = [
    "DOCKER_REGISTRY",
    "--image_type",
    "--base_image",
    "--base_image_tag",
    "--soc_version",
    "--arch",
    "--torch_version",
    "--torch_npu_version",
    "--torchvision_version",
    "--torchaudio_version",
    "--vllm_version",
    "--vllm_ascend_version",
    "--fla_version",
    "--triton_ascend_version",
    "--pip_extra_index_url",
    "--pypi_official_index_url",
    "--swift_branch",
    "--megatron_branch",
    "--mindspeed_branch",
    "--mcore_bridge_branch",
    "--modelscope_branch",
    "--python_version",
    "--dry_run",
]


def parsed(line: str) -> dict[str, Any]:
    """Return the flags of an `invoke build …` line, by name, as invoke reads them."""
    words = shlex.split(line)
    assert words[:2] == ["invoke", "build"]
    (context,) = Parser(contexts=tasks.namespace.to_contexts()).parse_argv(words[1:])
    return {name: argument.value for name, argument in context.args.items()}


def variant_of(arguments: Mapping[str, Any], root: Path = ROOT) -> Variant:
    selection = select(
        root, tuple(arguments["variant"]), sets=tuple(arguments["set"]), base_image=arguments["base-image"] or ""
    )
    return selection.variants[0]


def source(name: str) -> Callable[[Variant], str]:
    return lambda variant: next(one.ref for one in variant.sources if one.name == name)


#: What each line must have done to the variant.
EFFECTS: dict[str, tuple[Callable[[Variant], str], str]] = {
    "DOCKER_REGISTRY": (lambda v: v.repository, "registry.example/team/ms-swift"),
    "--base_image": (lambda v: v.base_image, "quay.io/ascend/cann:9.1.0-910b-ubuntu22.04-py3.12"),
    "--base_image_tag": (lambda v: v.base_image, "quay.io/ascend/cann:9.1.0-910b-ubuntu22.04-py3.12"),
    "--soc_version": (lambda v: v.soc_version, "ascend910b4"),
    "--torch_version": (lambda v: v.packages["torch"], "2.10.0"),
    "--torchvision_version": (lambda v: v.packages["torchvision"], "0.25.0"),
    "--torchaudio_version": (lambda v: v.packages["torchaudio"], "2.10.0"),
    "--torch_npu_version": (lambda v: v.packages["torch_npu"], "2.10.0.post2"),
    "--vllm_version": (source("vllm"), "v0.23.0"),
    "--vllm_ascend_version": (source("vllm-ascend"), "v0.23.0"),
    "--fla_version": (source("flash-linear-attention"), "v0.5.2"),
    "--triton_ascend_version": (lambda v: v.packages["triton-ascend"], "3.2.2"),
    "--pip_extra_index_url": (lambda v: v.indexes["ascend"].url, "https://mirrors.huaweicloud.com/ascend/repos/pypi"),
    "--swift_branch": (source("ms-swift"), "v4.5.2"),
    "--megatron_branch": (source("Megatron-LM"), "core_v0.16.0"),
    "--mindspeed_branch": (source("MindSpeed"), "core_r0.16.0"),
    "--mcore_bridge_branch": (source("mcore-bridge"), "v1.6.2"),
    "--modelscope_branch": (lambda v: v.packages["modelscope"], "1.40.2"),
    "--python_version": (lambda v: v.python, "3.12"),
}


def test_every_flag_has_a_line() -> None:
    assert sorted(LINES) == sorted(FLAGS)


@pytest.mark.parametrize("flag", FLAGS)
def test_the_line_of_a_flag_is_understood_and_resolves(flag: str) -> None:
    variant = variant_of(parsed(LINES[flag]))
    assert variant.name == "a2"
    if flag in EFFECTS:
        read, expected = EFFECTS[flag]
        assert read(variant) == expected


def test_arch_dry_run_and_mirror_are_options_of_the_build() -> None:
    assert cli.architectures(parsed(LINES["--arch"])["arch"]) == (Arch.ARM64,)
    assert parsed(LINES["--dry_run"])["dry-run"] is True
    assert parsed(LINES["--pypi_official_index_url"])["mirror"] == "cn"


def test_the_fully_pinned_example_renders_to_its_golden_file(
    golden: Callable[[str, str], None], tmp_path: Path
) -> None:
    (line,) = [line for line in TEXT.splitlines() if line.startswith("invoke build --variant a2 --arch arm")]
    made = variant_of(parsed(line), committed_in(tmp_path))
    # Where it goes is among the pins that a label counts.
    golden(
        "from-build-image-py.Dockerfile", render(msgspec.structs.replace(made, repository="quay.io/ascend/ms-swift"))
    )
