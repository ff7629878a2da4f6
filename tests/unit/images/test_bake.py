"""Bake files: names, escapes, and keys that buildx reads."""

import csv
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.errors import BadInput
from ascend_images.images.bake import Target, attributes, bake_file, escaped, target_name
from ascend_images.pins.load import load
from ascend_images.pins.platform import Arch

ROOT = Path(__file__).parents[3]

# What buildx 0.13.1 reads in a target (bake.Target in its source, by the name in the file).
READ_BY_BUILDX = {
    *("inherits", "annotations", "attest", "context", "contexts", "dockerfile", "dockerfile-inline", "args", "labels"),
    *("tags", "cache-from", "cache-to", "target", "secret", "ssh", "platforms", "output", "pull", "no-cache"),
    *("network", "no-cache-filter", "shm-size", "ulimits"),
}


def unescape(text: str) -> str:
    """What HCL's template language makes of a string without expressions; raises where one begins."""
    result, rest = "", text
    while rest:
        for escape, meaning in (("$${", "${"), ("%%{", "%{")):
            if rest.startswith(escape):
                result, rest = result + meaning, rest[len(escape) :]
                break
        else:
            if rest.startswith(("${", "%{")):
                raise ValueError(f"a template begins: {rest}")
            result, rest = result + rest[0], rest[1:]
    return result


TEXTS = st.lists(st.sampled_from(["$", "$$", "${", "%", "%{", "%%", "{", "}", "a", '"', "\\", "\n", "é"])).map("".join)


@given(TEXTS)
def test_what_is_escaped_means_the_same_to_bake(text: str) -> None:
    assert unescape(str(escaped(text))) == text


def test_escapes_reach_keys_and_what_lies_deeper() -> None:
    assert escaped({"a${b}": ["%{c", {"d": "${e}"}], "n": 1}) == {"a$${b}": ["%%{c", {"d": "$${e}"}], "n": 1}


def test_a_target_holds_only_keys_that_buildx_reads() -> None:
    full = Target(
        context=".",
        dockerfile="f",
        contexts={"a": "b"},
        args={"a": "b"},
        labels={"a": "b"},
        tags=("t",),
        platforms=("linux/amd64",),
        output=("type=image",),
        secret=("id=ca",),
        attest=("type=provenance",),
        cache_from=("type=gha",),
        cache_to=("type=gha",),
        no_cache=True,
    )
    target = json.loads(bake_file([("t", full)]))["target"]["t"]
    assert set(target) == set(Target.__struct_encode_fields__)
    assert set(target) <= READ_BY_BUILDX


def test_an_unknown_key_cannot_be_written() -> None:
    with pytest.raises(TypeError):
        Target(context=".", dockerfile="f", no_such_key="x")  # type: ignore[call-arg]


def test_all_targets_are_in_the_default_group_in_their_order() -> None:
    document = json.loads(bake_file([(name, Target(context=".", dockerfile="f")) for name in ("b", "a")]))
    assert document["group"] == {"default": {"targets": ["b", "a"]}}


def test_every_variant_has_a_legal_target_name_of_its_own() -> None:
    names = [target_name(name, arch) for name in load(ROOT / "versions.toml").variant for arch in Arch]
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]+", name) for name in names)
    assert len(set(names)) == len(names)
    assert target_name("a2-verl-qwen3.5", Arch.ARM64) == "a2-verl-qwen3_5_arm64"


@pytest.mark.parametrize("name", ["", "a.b", "a b", "é"])
def test_a_name_that_bake_refuses_is_refused_here(name: str) -> None:
    with pytest.raises(BadInput, match="cannot be the name of a bake target"):
        bake_file([(name, Target(context=".", dockerfile="f"))])


def test_two_targets_of_one_folded_name_are_refused() -> None:
    one = Target(context=".", dockerfile="f")
    with pytest.raises(BadInput, match='two images would both be the bake target "a_b_amd64"'):
        bake_file([(target_name("a.b", Arch.AMD64), one), (target_name("a_b", Arch.AMD64), one)])


@given(
    st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.text().filter(lambda t: not set("\r\n") & set(t)))
)
def test_attributes_are_one_line_of_csv(values: dict[str, str]) -> None:
    line = attributes(values)
    assert next(csv.reader([line]), []) == [f"{key}={value}" for key, value in values.items()]


def test_a_line_break_in_an_attribute_is_refused() -> None:
    with pytest.raises(BadInput, match="src holds a line break"):
        attributes({"id": "ca", "src": "/a\nb"})
