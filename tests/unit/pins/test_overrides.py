"""`--set` changes one variant's pins and is checked like the file."""

import pytest

from ascend_images.errors import BadInput
from ascend_images.pins.model import Stack, VariantEntry
from ascend_images.pins.overrides import overridden, parse_overrides, version_of_ref
from tests.pins_kit import committed

PINS = committed()


def applied(*texts: str) -> tuple[Stack, VariantEntry]:
    return overridden(PINS.stack["ms-swift"], PINS.variant["a2"], parse_overrides(texts))


def refused(*texts: str) -> str:
    with pytest.raises(BadInput) as caught:
        applied(*texts)
    return str(caught.value)


def test_a_package_is_set_by_any_spelling_of_its_name() -> None:
    assert applied("torch-npu=2.10.0.post2")[0].packages["torch_npu"] == "2.10.0.post2"
    assert applied("packages.TORCH_NPU=2.10.0.post2")[0].packages["torch_npu"] == "2.10.0.post2"


def test_a_new_package_needs_its_table() -> None:
    assert applied("packages.einops=0.8.1")[0].packages["einops"] == "0.8.1"
    assert 'unknown key "einops"' in refused("einops=0.8.1")


def test_a_key_that_the_variant_holds_is_set_there() -> None:
    assert applied("cann=9.0.1", "soc_version=ascend910b4")[1].cann == "9.0.1"


@pytest.mark.parametrize("ref", ["0.22.0", "v0.22.0"])
@pytest.mark.parametrize("source", ["vllm", "vllm-ascend"])
def test_vllm_s_versions_are_taken_with_and_without_v(source: str, ref: str) -> None:
    assert applied(f"{source}={ref}")[0].sources[source].ref == "v0.22.0"


def test_another_ref_drops_the_version_of_the_old_one() -> None:
    source = applied("sources.MindSpeed.ref=core_r0.15.3")[0].sources["MindSpeed"]
    assert (source.ref, source.version) == ("core_r0.15.3", "")


def test_a_field_that_is_not_text_takes_a_toml_value() -> None:
    assert applied("sources.vllm.submodules=true")[0].sources["vllm"].submodules is True
    assert applied('sources.vllm.checks=["vllm"]')[0].sources["vllm"].checks == ("vllm",)
    assert "wanted: a TOML value" in refused("sources.vllm.submodules=maybe")
    assert 'Expected "bool", got "str"' in refused('release="yes"')


def test_tables_of_names_are_set_by_key() -> None:
    stack, _ = applied("accept.torch-npu-cann=as in the public image", "env.FOO=a=b")
    assert stack.accept["torch-npu-cann"] == "as in the public image"
    assert stack.env["FOO"] == "a=b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch", "wanted: key=value"),
        ("=1", "wanted: key=value"),
        ("trch=1", 'unknown key "trch"\n  wanted: did you mean "torch"?'),
        ("sources.vlm.ref=v1", '--set sources.vlm.ref: unknown source "vlm"\n  wanted: did you mean "vllm"?'),
        ("sources.vllm.reff=v1", 'unknown key "reff"\n  wanted: did you mean "ref"?'),
        ("sources.vllm.commit=abc", "sources.vllm.commit"),
        ("packages.torch_npu=", "packages.torch_npu"),
    ],
)
def test_what_cannot_be_meant_is_told(text: str, expected: str) -> None:
    assert expected in refused(text)


def test_one_key_with_two_values_is_told() -> None:
    assert 'given twice: "1" and "2"' in refused("numpy=1", "numpy=2")


@pytest.mark.parametrize(
    "given", [("torch",), ("torchvision",), ("torchaudio", "torch"), ("torchvision", "torchaudio")]
)
def test_torch_and_its_companions_are_overridden_together_or_not_at_all(given: tuple[str, ...]) -> None:
    message = refused(*(f"{name}=2.9.0" for name in given))
    for name in {"torch", "torchvision", "torchaudio"} - set(given):
        assert f"--set {name}=" in message


@pytest.mark.parametrize(
    ("ref", "version"),
    [
        ("v0.23.0", "0.23.0"),
        ("0.23.0", "0.23.0"),
        ("core_v0.16.0", "0.16.0"),
        ("core_r0.15.3", "0.15.3"),
        ("v0.17.0rc1", "0.17.0rc1"),
        ("v0.23.0.post1", "0.23.0.post1"),
        ("main", ""),
        ("releases/v0.23.0", ""),
        ("5487946", ""),
    ],
)
def test_a_version_is_read_off_a_ref_that_names_one(ref: str, version: str) -> None:
    assert version_of_ref(ref) == version


def test_relaxations_are_added_one_by_one() -> None:
    relax = applied("relax.vllm=transformers<5", "relax.vllm=opencv-python-headless>=4.13")[0].relax
    assert [(r.whose, r.demand) for r in relax[-2:]] == [
        ("vllm", "transformers<5"),
        ("vllm", "opencv-python-headless>=4.13"),
    ]


@pytest.mark.parametrize(
    "pair",
    [
        ("vllm=0.22.0", "sources.vllm.ref=v0.23.0"),
        ("torch-npu=2.10.0.post2", "packages.torch_npu=2.10.0.post4"),
        ("numpy=1.26.4", "packages.NumPy=1.26.3"),
    ],
)
def test_two_spellings_of_one_key_with_two_values_are_refused(pair: tuple[str, str]) -> None:
    assert "mean the same thing" in refused(*pair)
    assert applied(pair[0], pair[0])


def test_a_variable_of_a_source_is_set_by_its_name() -> None:
    source = applied("sources.vllm.env.MAX_JOBS=8")[0].sources["vllm"]
    assert source.env == {"VLLM_TARGET_DEVICE": "empty", "MAX_JOBS": "8"}
    assert "sources.vllm.env.A.B: " not in refused("sources.vllm.envy=1")
    assert 'unknown key "env."' in refused("sources.vllm.env.=1")


@pytest.mark.parametrize("value", ["[" * 5000, "9" * 5000, "1\n[x]", ""])
def test_a_value_that_is_none_is_told_in_a_few_words(value: str) -> None:
    message = refused(f"sources.vllm.submodules={value}")
    assert "wanted: a TOML value" in message
    assert len(message) < 300


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("env.A=x\ny", "--set env.A: holds the control character U+000A"),
        ("env.A B=x", '--set env."A B": "A B" is not the name of a variable'),
        ("repository=Registry:x", "--set repository: "),
        ("numpy=one", '--set packages.numpy: "one" is neither a version nor a specifier'),
        ("packages.a/b=1", '"a/b" is not the name of a distribution'),
        ("sources.vllm.path=/etc/vllm", "belongs to the image's system"),
        ("sources.vllm.path=/vllm/..", "is not the path of a folder"),
        ("sources.vllm.path=/vllm-ascend/vllm", 'in "/vllm-ascend" lies the folder of source vllm'),
        ("python=3", '--set python: "3" is not Python\'s X.Y'),
        ("relax.vllm=numpy==one", "is not a requirement"),
    ],
)
def test_a_value_that_cannot_be_meant_is_told_by_its_key(text: str, expected: str) -> None:
    assert expected in refused(text)
