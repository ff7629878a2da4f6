"""Every rule is seen to hold, to be broken and, where it asks a table, not to know."""

from typing import Any

import msgspec
import pytest

from ascend_images.errors import BadInput
from ascend_images.pins import rules
from ascend_images.pins.compat import Abi, compat
from ascend_images.pins.model import Index, Relax
from ascend_images.pins.platform import Arch
from ascend_images.pins.resolve import resolve, resolve_all
from ascend_images.pins.variant import Finding, Variant
from tests.pins_kit import committed

PINS = committed()
A2 = resolve(PINS, "a2")
CANN85 = resolve(PINS, "a3-cann8.5")


def found(variant: Variant, rule: str) -> list[Finding]:
    return [finding for finding in rules.evaluate(variant, PINS) if finding.rule == rule]


def changed(variant: Variant = A2, packages: dict[str, str | None] | None = None, **fields: Any) -> Variant:
    """Return the variant with packages set or (None) left out, and other fields replaced."""
    pinned = {**variant.packages, **(packages or {})}
    fields["packages"] = {name: version for name, version in pinned.items() if version is not None}
    return msgspec.structs.replace(variant, **fields)


def with_source(name: str, variant: Variant = A2, **fields: str) -> Variant:
    sources = tuple(msgspec.structs.replace(s, **fields) if s.name == name else s for s in variant.sources)
    return msgspec.structs.replace(variant, sources=sources)


def without(name: str, variant: Variant = A2) -> Variant:
    return msgspec.structs.replace(variant, sources=tuple(s for s in variant.sources if s.name != name))


def serving(*requirements: str) -> dict[str, Index]:
    return {"x": Index(url="https://x.example", serves=requirements)}


BROKEN: list[tuple[str, Variant, str, str]] = [
    (
        "torch-npu-torch",
        changed(packages={"torch": "2.11.0"}),
        "torch 2.11.0 with torch_npu 2.10.0.post4",
        "torch 2.10.0",
    ),
    (
        "torch-trio",
        changed(packages={"torchvision": "0.24.0"}),
        "torchvision 0.24.0 with torch 2.10.0",
        "torchvision 0.25.0",
    ),
    ("torch-trio", changed(packages={"torchaudio": None}), "torchaudio is not pinned", "a pin of torchaudio"),
    (
        "torch-npu-cann",
        changed(packages={"torch_npu": "2.10.0.post2"}),
        "torch_npu 2.10.0.post2 is built for CANN 9.0.0, and this is CANN 9.1.0",
        "torch_npu 2.10.0.post4",
    ),
    (
        "torch-npu-cann",
        changed(cann="8.3.rc2", packages={"torch_npu": "2.8.0"}),
        "built for CANN 8.3.RC1",
        "CANN 8.3.RC1",
    ),
    ("torch-index", changed(indexes={}), "amd64 takes torch 2.10.0+cpu", 'platforms = ["arm64"]'),
    ("torch-index", changed(indexes=serving("torch<2.10")), "amd64 takes torch 2.10.0+cpu", "torch and torchvision"),
    (
        "torch-index",
        changed(packages={"torch": "2.11.0"}, platforms=(Arch.ARM64,)),
        "arm64 takes torch 2.11.0 from the default index, where it is a CUDA build",
        "serves torch on aarch64",
    ),
    (
        "triton-ascend-index",
        changed(indexes={}),
        "triton-ascend 3.2.2 for Python 3.12 on amd64 and arm64",
        "an [index.…]",
    ),
    (
        "triton-ascend-index",
        changed(CANN85, python="3.12", indexes=serving("triton-ascend; platform_machine == 'x86_64'")),
        "triton-ascend 3.2.0 for Python 3.12 on arm64: no index serves it",
        "serves triton-ascend",
    ),
    (
        "vllm-ascend-row",
        with_source("vllm", version="0.22.0"),
        "the row of vLLM Ascend 0.23.0 is not met: vLLM 0.22.0, not 0.23.0",
        "vllm 0.23.0",
    ),
    (
        "vllm-ascend-row",
        changed(without("vllm"), packages={"vllm": "0.22.0"}),
        "vLLM 0.22.0, not 0.23.0",
        "vllm 0.23.0",
    ),
    ("vllm-ascend-row", changed(cann="9.0.1"), "CANN 9.0.1, not 9.1.0", "cann 9.1.0"),
    ("vllm-ascend-row", changed(packages={"triton-ascend": "3.2.1"}), "triton-ascend 3.2.1, not 3.2.2", "3.2.2"),
    ("vllm-ascend-row", changed(CANN85, accept={}, python="3.12"), "Python 3.12, not >=3.10,<3.12", ">=3.10,<3.12"),
    (
        "mindspeed-row",
        changed(accept={}),
        "CANN 9.1.0, not 9.0.0; torch 2.10.0, not 2.7.1; Python 3.12, not 3.10",
        "2.7.1",
    ),
    (
        "vllm-ascend-row",
        with_source("vllm-ascend", changed(resolve(PINS, "310p"), cann="9.0.0"), version="0.22.1rc1"),
        "CANN 9.0.0, not 9.1.0-beta.1",
        "cann 9.1.0-beta.1",
    ),
    (
        "vllm-ascend-wheel",
        changed(CANN85, packages={"vllm_ascend": "0.18.0"}),
        "vllm-ascend 0.18.0 as a wheel on Atlas A3",
        "as a source",
    ),
    (
        "mindspeed-megatron",
        with_source("Megatron-LM", version="0.15.3", ref="v0.15.3"),
        "MindSpeed 0.16.0 (core_r0.16.0) with Megatron-LM 0.15.3 (v0.15.3)",
        "Megatron-LM 0.16",
    ),
    (
        "mcore-bridge",
        with_source("Megatron-LM", version="0.15.3"),
        "mcore-bridge 1.6.2 with Megatron-LM 0.15.3",
        ">=0.16,<0.20",
    ),
    (
        "mcore-bridge",
        with_source("Megatron-LM", CANN85, version="0.14.0"),
        "mcore-bridge 1.4.3",
        "megatron-core >=0.15",
    ),
    (
        "soc-hardware",
        changed(soc_version="ascend910_9391"),
        "SoC ascend910_9391 (of Atlas A3) on Atlas A2",
        "ascend910b4",
    ),
    ("soc-hardware", changed(soc_version="ascend910"), "SoC ascend910 on Atlas A2", "ascend910b1"),
    (
        "first-generation",
        changed(chip=msgspec.structs.replace(A2.chip, name="Atlas 800", cann_tag="910")),
        "Atlas 800 has CANN's tag 910, the first generation",
        "910b",
    ),
    ("base-chip", changed(base_image="x/cann:9.1.0-a3-ubuntu22.04-py3.12"), "is for a3, and SoC ascend910b1", "910b"),
    (
        "base-chip",
        changed(base_image="x/cann:9.0.1-910-ubuntu22.04-py3.12"),
        "910 is the first generation, not A2",
        "910b",
    ),
    (
        "base-offered",
        changed(CANN85, base_cann="8.5.2", python="3.12"),
        "no base image of CANN 8.5.2 for a3",
        "ubuntu22.04 py3.11",
    ),
    ("base-offered", changed(CANN85, os="openeuler22.03"), "on openeuler22.03", "openeuler24.03 py3.11"),
    (
        "triton-hardware",
        changed(resolve(PINS, "310p"), packages={"triton-ascend": "3.2.2"}),
        "triton-ascend 3.2.2 on Atlas 300I Duo",
        "without triton-ascend",
    ),
    (
        "triton-hardware",
        changed(resolve(PINS, "310p"), packages={"liger_kernel": "0.8.5"}),
        "liger-kernel imports triton",
        "liger-kernel",
    ),
    (
        "triton-hardware",
        changed(chip=resolve(PINS, "310p").chip),
        "flash-linear-attention imports triton",
        "flash-linear-attention",
    ),
    (
        "xgrammar-tvm-ffi",
        changed(exclude={"apache-*": "x"}, packages={"xgrammar": ">=0.2", "apache-tvm-ffi": None}),
        "xgrammar >=0.2 links",
        "exclusion",
    ),
    (
        "xgrammar-tvm-ffi",
        changed(exclude={"apache_tvm-ffi": "x"}, packages={"apache-tvm-ffi": None}),
        "libtvm_ffi.so",
        "exclusion",
    ),
    (
        "numpy-cann",
        changed(CANN85, packages={"numpy": "2.2.6"}),
        "numpy 2.2.6 with CANN 8.5.1 (CANN's installation guides",
        "numpy<2",
    ),
    ("numpy-cann", changed(cann="8.1.rc1", packages={"numpy": "2.2.6"}), "numpy 2.2.6 with CANN 8.1.rc1", "numpy<2"),
    (
        "abi",
        changed(os="openeuler22.03", packages={"flagtree": "0.4.1+ascend3.2"}),
        "flagtree needs GLIBCXX_3.4.30, and openeuler22.03 has GLIBCXX_3.4.28",
        "os = ubuntu22.04",
    ),
    (
        "abi",
        changed(os="openeuler22.03", packages={"mooncake-transfer-engine-npu": "0.3.11.post1", "triton-ascend": None}),
        "mooncake-transfer-engine-npu needs GLIBC_2.35, and openeuler22.03 has GLIBC_2.34",
        "os = ubuntu22.04",
    ),
    (
        "wheel-missing",
        changed(packages={"torch_npu": "2.10.0.post6"}),
        "no wheel for Python 3.12 on amd64",
        "another version",
    ),
    (
        "wheel-missing",
        changed(packages={"torch_npu": "2.7.1"}),
        "2.7.1 has no wheel for Python 3.12 on amd64 and arm64",
        "Python",
    ),
    (
        "wheel-missing",
        changed(packages={"torch_npu": "2.9.0.post1"}, python="3.11"),
        "torch_npu 2.9.0.post1 has no wheel",
        "version",
    ),
    (
        "exclude-pin",
        changed(packages={"flashinfer-python": "1"}),
        'flashinfer-python is pinned, and excluded by "flashinfer*"',
        "one",
    ),
    (
        "relax-nothing",
        changed(relax=(Relax(whose="vlm", demand="numpy", reason="x"),)),
        '"vlm" (numpy) lifts nothing',
        '"vllm"',
    ),
    (
        "import-refused",
        changed(packages={"pyarrow": "26.0.1"}),
        "pyarrow 26.0.1 refuses numpy 1.26.4 when it is imported",
        "numpy>=2, or pyarrow not >=26",
    ),
    ("moving-ref", with_source("vllm", ref="main"), "vllm follows main, which moves", "invoke lock --variant a2"),
    ("moving-ref", with_source("vllm", ref="releases/v0.23.0"), "follows releases/v0.23.0", "release = false"),
    ("moving-ref", with_source("vllm", ref="de93536e"), "vllm is at de93536e, part of a commit", "a tag"),
    ("moving-ref", with_source("MindSpeed", commit=""), "MindSpeed follows core_r0.16.0", "a tag"),
    ("tag-names", changed(tag_template="{ms-swift}-{os}"), "does not say the hardware", "{cann_tag}"),
    ("tag-names", changed(tag_template="{ms-swift}-{cann_tag}"), "does not say the operating system", "{os}"),
    ("tag-suffix", changed(tag="v1-910b-ubuntu22.04-sandbox"), "ends in -sandbox", "another end"),
    ("tag-suffix", changed(aliases=("latest-changed",)), 'the tag "latest-changed" ends in -changed', "another end"),
    ("unused-accept", changed(accept={**A2.accept, "abi": "x"}), 'the accept "abi" accepts nothing', "no accept.abi"),
    (
        "unused-accept",
        changed(accept={**A2.accept, "mindsped-row": "x"}),
        '"mindsped-row" names no rule',
        '"mindspeed-row"',
    ),
]


@pytest.mark.parametrize(
    ("rule", "variant", "message", "wanted"), BROKEN, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_broken_rule_names_what_was_found_and_what_was_wanted(
    rule: str, variant: Variant, message: str, wanted: str
) -> None:
    (finding,) = [finding for finding in found(variant, rule) if message in finding.message]
    assert finding.state == "broken"
    assert wanted in finding.wanted


UNKNOWN: list[tuple[str, Variant, str]] = [
    ("torch-npu-torch", changed(packages={"torch": ">=2.9"}), "torch >=2.9 is a range"),
    ("numpy-cann", changed(cann="9.2.0"), "which numpy CANN 9.2.0 takes is not known"),
    ("abi", changed(packages={"triton-ascend": "3.6.0"}), "triton-ascend 3.6.0 needs is not known"),
    ("torch-trio", changed(packages={"torch": "2.99.0"}), "torch 2.99.0 is not known"),
    ("torch-npu-cann", changed(packages={"torch_npu": "2.10.0.post7"}), "torch_npu 2.10.0.post7"),
    ("vllm-ascend-row", with_source("vllm-ascend", version="0.99.0"), "no row for vLLM Ascend 0.99.0"),
    ("mindspeed-row", with_source("MindSpeed", version="0.99.0"), "no row for 0.99.0"),
    ("mcore-bridge", with_source("mcore-bridge", version="9.0"), "mcore-bridge 9.0"),
    ("base-offered", changed(python="3.11"), "CANN 9.1.0 for 910b on ubuntu22.04 with Python 3.11 is not known"),
    ("numpy-cann", changed(cann="8.1.rc1", packages={"numpy": None}), "the lock takes one in <2"),
    ("abi", changed(os="ubuntu26.04"), "ubuntu26.04"),
    # What would have to be known and is not: the version at a commit or a branch, the one that a range will give.
    (
        "vllm-ascend-row",
        with_source("vllm", ref="1" * 40, version=""),
        "vllm at 111111111111 has no known version, so whether it is the vLLM 0.23.0 of the row",
    ),
    ("vllm-ascend-row", with_source("vllm-ascend", ref="main", version=""), "vllm-ascend at main has no known version"),
    ("vllm-ascend-row", changed(packages={"torch_npu": None}), "torch_npu is not pinned: whether it is the 2.10.0"),
    ("mindspeed-row", with_source("MindSpeed", ref="2" * 40, version=""), "MindSpeed at 222222222222 has no known"),
    ("mindspeed-row", changed(accept={}, cann="9.0.0", python="3.10", packages={"torch": None}), "torch is not pinned"),
    ("mindspeed-megatron", with_source("MindSpeed", ref="3" * 40, version=""), "MindSpeed at 333333333333 has no"),
    ("mindspeed-megatron", with_source("Megatron-LM", ref="main", version=""), "Megatron-LM at main has no known"),
    ("mcore-bridge", with_source("mcore-bridge", ref="main", version=""), "mcore-bridge at main has no known version"),
    ("mcore-bridge", with_source("Megatron-LM", ref="main", version=""), "Megatron-LM at main has no known version"),
    ("numpy-cann", changed(cann="8.1.rc1", packages={"numpy": ">=1.26"}), "numpy >=1.26 is a range; the lock takes"),
    (
        "triton-ascend-index",
        changed(indexes={}, packages={"triton-ascend": ">=3.2"}),
        "triton-ascend >=3.2 is a range, and no index serves it on amd64 and arm64",
    ),
    ("import-refused", changed(packages={"pyarrow": ">=24"}), "pyarrow >=24 is a range: pyarrow>=26 refuses any numpy"),
    ("import-refused", changed(packages={"pyarrow": "26.0.1", "numpy": ">=1"}), "numpy >=1 is a range"),
    ("import-refused", changed(packages={"pyarrow": "26.0.1", "numpy": None}), "numpy is not pinned"),
]


@pytest.mark.parametrize(
    ("rule", "variant", "message"), UNKNOWN, ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_no_table_holds_is_unknown_and_no_error(rule: str, variant: Variant, message: str) -> None:
    (finding,) = found(variant, rule)
    assert finding.state == "unknown"
    assert message in finding.message


def test_every_rule_is_seen_broken() -> None:
    assert {rule.id for rule in rules.RULES} == {rule for rule, *_ in BROKEN} - {rules.UNUSED_ACCEPT}


HOLDING: list[tuple[str, Variant]] = [
    ("torch-npu-torch", changed(packages={"torch": "2.9.0+cpu", "torch_npu": "2.9.0.post1+gitabc1234"})),
    # X.Y.0 in the table stands for the series: 2.9.0 is listed with 8.5.0.
    ("torch-npu-cann", changed(CANN85, accept={}, packages={"torch_npu": "2.9.0"})),
    ("torch-index", changed(indexes={}, platforms=(Arch.ARM64,))),
    ("soc-hardware", changed(resolve(PINS, "a5"), soc_version="ascend950pr_9579")),
    ("soc-hardware", changed(soc_version="ascend910b4-1")),
    (
        "xgrammar-tvm-ffi",
        changed(exclude={"apache-tvm-ffi": "x"}, packages={"apache-tvm-ffi": None, "xgrammar": "0.1.33"}),
    ),
    ("numpy-cann", changed(cann="8.1.rc1", packages={"numpy": "1.26.4"})),
    ("numpy-cann", changed(packages={"numpy": "2.2.6"})),
    ("abi", changed(os="openeuler24.03")),
    ("abi", changed(os="openeuler22.03", packages={"triton-ascend": None})),
    # Read off its wheels: GLIBC_2.27 and GLIBCXX_3.4.22.
    ("abi", changed(os="openeuler22.03", packages={"triton-ascend": "3.2.0"})),
    ("triton-ascend-index", changed(CANN85, indexes={})),
    ("triton-hardware", changed(packages={"liger_kernel": "0.8.5"})),
    ("mindspeed-megatron", with_source("Megatron-LM", version="0.16.2")),
    ("vllm-ascend-wheel", changed(packages={"vllm_ascend": "0.23.0"})),
    ("wheel-missing", changed(packages={"torch_npu": "2.10.0.post6"}, python="3.11")),
    ("import-refused", changed(packages={"pyarrow": "25.0.1"})),
    ("import-refused", changed(packages={"pyarrow": "26.0.1", "numpy": "2.2.6"})),
    ("import-refused", changed(packages={"pyarrow": None})),
    ("triton-ascend-index", changed(packages={"triton-ascend": ">=3.2"}, indexes=serving("triton-ascend"))),
    ("vllm-ascend-row", changed(without("vllm"), packages={"vllm": "0.23.0"})),
    ("moving-ref", with_source("vllm", ref="main", commit="0" * 40)),
    ("moving-ref", msgspec.structs.replace(with_source("vllm", ref="main"), release=False)),
]


@pytest.mark.parametrize(("rule", "variant"), HOLDING)
def test_a_rule_that_holds_says_nothing(rule: str, variant: Variant) -> None:
    assert found(variant, rule) == []


def test_an_accepted_rule_carries_its_reason() -> None:
    (finding,) = found(A2, "mindspeed-row")
    assert finding.state == "accepted"
    assert finding.reason == PINS.stack["ms-swift"].accept["mindspeed-row"]


def test_an_accept_of_a_rule_that_cannot_be_told_is_not_called_needless() -> None:
    """As reported: a bump to a commit without a version said that the accept accepts nothing, and to remove it."""
    there = with_source("MindSpeed", ref="4" * 40, version="")
    (finding,) = found(there, rules.UNUSED_ACCEPT)
    assert finding.state == "unknown"
    assert finding.message == (
        'the accept "mindspeed-row" could not be asked: MindSpeed at 444444444444 has no known version, '
        "so which row of MindSpeed's table it has to meet is not known"
    )
    assert rules.ways_out([msgspec.structs.replace(there, findings=(finding,))]) == ""


@pytest.mark.parametrize(
    ("rule", "variant"),
    [
        ("vllm-ascend-row", with_source("vllm", ref="main", version="")),
        ("mindspeed-megatron", with_source("Megatron-LM", ref="main", version="")),
        ("mcore-bridge", with_source("Megatron-LM", ref="main", version="")),
        ("numpy-cann", changed(cann="8.1.rc1", packages={"numpy": ">=1.26"})),
        ("triton-ascend-index", changed(indexes={}, packages={"triton-ascend": ">=3.2"})),
    ],
)
def test_no_accept_is_called_needless_by_a_rule_that_cannot_tell(rule: str, variant: Variant) -> None:
    accepted = msgspec.structs.replace(variant, accept={**variant.accept, rule: "x"})
    assert [one.state for one in found(accepted, rules.UNUSED_ACCEPT) if f'"{rule}"' in one.message] == ["unknown"]


def test_a_rule_may_be_broken_and_not_known_in_part() -> None:
    states = {
        f.state: f.message for f in found(with_source("vllm", changed(cann="9.0.1"), version=""), "vllm-ascend-row")
    }
    assert "CANN 9.0.1, not 9.1.0" in states["broken"]
    assert "vllm at v0.23.0 has no known version" in states["unknown"]


def test_the_project_s_deviations_are_these_and_all_accepted() -> None:
    deviations = {
        variant.name: sorted(finding.rule for finding in variant.findings if finding.state == "accepted")
        for variant in resolve_all(PINS)
    }
    assert deviations == {
        "a2": ["mindspeed-row"],
        "a3": ["mindspeed-row"],
        "a2-openeuler": ["mindspeed-row"],
        "a3-openeuler": ["mindspeed-row"],
        "a3-cann8.5": ["torch-npu-cann", "vllm-ascend-row"],
        "310p": [],
        "a5": ["mindspeed-row"],
        "a2-verl-qwen3.5": ["mindspeed-row", "vllm-ascend-row"],
        "a3-verl-qwen3.5": ["mindspeed-row", "vllm-ascend-row"],
        "a2-verl-qwen3.5-overlay": ["mindspeed-row", "vllm-ascend-row"],
        "a2-verl": ["mindspeed-row"],
        "a3-verl": ["mindspeed-row"],
    }


def test_the_public_image_s_torch_npu_needs_two_accepts() -> None:
    with pytest.raises(BadInput) as caught:
        resolve(PINS, "a2", ["torch_npu=2.10.0.post2"])
    assert "a2: torch-npu-cann: " in str(caught.value)
    assert "a2: vllm-ascend-row: " in str(caught.value)
    accepts = ["accept.torch-npu-cann=x", "accept.vllm-ascend-row=x"]
    assert resolve(PINS, "a2", ["torch_npu=2.10.0.post2", *accepts]).packages["torch_npu"] == "2.10.0.post2"


def test_an_index_that_serves_another_package_does_not_serve_torch() -> None:
    assert found(changed(indexes=serving("triton")), "torch-index")
    assert found(changed(indexes=serving("torch; platform_machine == 'aarch64'")), "torch-index")
    assert not found(changed(indexes=serving("torch", "torchvision", "torchaudio")), "torch-index")


def test_an_index_of_torch_alone_leaves_its_companions_without_a_cpu_build() -> None:
    (finding,) = found(changed(indexes=serving("torch")), "torch-index")
    assert finding.message == "amd64 takes torchvision 0.25.0+cpu, torchaudio 2.10.0+cpu, and no index serves them"


def test_an_index_entry_that_is_no_requirement_is_named() -> None:
    with pytest.raises(BadInput, match='"torch=2" is not what an index can serve'):
        rules.evaluate(changed(indexes=serving("torch=2")), PINS)


def test_a_library_newer_than_the_system_s_is_told_with_the_first_system_that_fits() -> None:
    """As reported: built against GLIBCXX_3.4.30, which openEuler 22.03 has not and 24.03 has."""
    tables = msgspec.structs.replace(compat(), abi=(Abi(package="triton-ascend", glibcxx="3.4.30"),))

    def asked(os: str) -> list[Finding]:
        return [f for f in rules.evaluate(changed(CANN85, os=os), PINS, tables) if f.rule == "abi"]

    (finding,) = asked("openeuler22.03")
    assert finding.state == "broken"
    assert finding.message == "triton-ascend needs GLIBCXX_3.4.30, and openeuler22.03 has GLIBCXX_3.4.28 at most"
    assert finding.wanted == "os = ubuntu22.04"
    assert asked("openeuler24.03") == []


@pytest.mark.parametrize(("cann", "default"), [("8.5.0", "3.2.0"), ("8.5.2", "3.2.0"), ("9.0.1", "3.2.1")])
def test_triton_ascend_s_default_is_the_series_s(cann: str, default: str) -> None:
    assert rules.default_triton_ascend(PINS, cann) == default


@pytest.mark.parametrize("cann", ["9.1.0", "8.3.rc1", "9.2.0"])
def test_a_series_without_a_default_must_be_told(cann: str) -> None:
    with pytest.raises(BadInput, match="has no default triton-ascend") as caught:
        rules.default_triton_ascend(PINS, cann)
    assert "8.5 (3.2.0), 9.0 (3.2.1)" in caught.value.wanted


def test_the_resolver_is_told_the_range_of_what_is_not_pinned() -> None:
    assert rules.constraints(changed(cann="8.1.rc1", packages={"numpy": None})) == ("numpy<2",)
    assert rules.constraints(changed(CANN85, packages={"numpy": None})) == ("numpy<2",)
    assert rules.constraints(changed(packages={"numpy": None})) == ()
    assert rules.constraints(changed(cann="8.1.rc1", packages={"numpy": ">=1.26"})) == ("numpy<2",)
    assert rules.constraints(CANN85) == ()


def test_every_table_says_where_it_was_read() -> None:
    tables = compat()
    assert set(tables.sources) == {name for name in tables.__struct_fields__ if name != "sources"}
