import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.digest import digest_of
from ascend_images.errors import BadInput, PublishRefused
from ascend_images.images.candidate import Candidate, candidate_tag, identity, parse_candidate
from ascend_images.pins.platform import Arch
from ascend_images.pins.resolve import resolve_all
from ascend_images.publish.aliases import aliases
from ascend_images.publish.index import (
    NOTE_EPOCH,
    Descriptor,
    epoch_of,
    images_of,
    index_bytes,
    parse_index,
    parse_manifest,
)
from ascend_images.publish.registry import MANIFEST
from tests.publish_kit import entry, image, index_of, pins, record, variant

AMD64 = {"architecture": "amd64", "os": "linux"}


def descriptor(text: str = "a") -> Descriptor:
    return Descriptor(media_type=MANIFEST, digest=digest_of(text.encode()), size=1)


# --- indexes


@pytest.mark.parametrize(
    ("text", "epoch"),
    [("0", 0), ("1700000000", 1_700_000_000), ("", None), ("-1", None), ("1.5", None), ("٣", None), ("9" * 5000, None)],
)
def test_the_time_that_an_index_tells(text: str, epoch: int | None) -> None:
    assert epoch_of(parse_index(index_bytes({}, {}, {NOTE_EPOCH: text}), "x")) == epoch


def test_platforms_come_in_one_order_whatever_the_order_they_are_given_in() -> None:
    one = index_bytes({Arch.ARM64: descriptor("b"), Arch.AMD64: descriptor("a")}, {}, {"b": "1", "a": "2"})
    other = index_bytes({Arch.AMD64: descriptor("a"), Arch.ARM64: descriptor("b")}, {}, {"a": "2", "b": "1"})
    assert one == other
    assert [item["platform"]["architecture"] for item in json.loads(one)["manifests"]] == ["amd64", "arm64"]


def test_one_platform_is_an_index_too() -> None:
    index = parse_index(index_bytes({Arch.ARM64: descriptor()}, {}, {}), "x")
    assert set(images_of(index, "x")) == {Arch.ARM64}


def test_attestations_are_no_images_and_come_last() -> None:
    attested = Descriptor(media_type=MANIFEST, digest=digest_of(b"t"), size=1, annotations={"b": "1", "a": "2"})
    content = index_bytes({arch: descriptor(arch) for arch in Arch}, {Arch.AMD64: (attested,)}, {})
    index = parse_index(content, "x")
    assert set(images_of(index, "x")) == set(Arch)
    assert index.manifests[-1].digest == attested.digest
    assert list(json.loads(content)["manifests"][-1]["annotations"]) == ["a", "b"]


def test_two_images_of_one_platform_are_refused() -> None:
    content = index_of(entry(b"a", AMD64), entry(b"b", {**AMD64, "variant": "v1"}))
    with pytest.raises(PublishRefused, match="two images for linux/amd64"):
        images_of(parse_index(content, "x"), "x")


NO_DIGEST = b'{"mediaType": "x", "size": 1, "digest": "../manifests/sha256:%b"}' % (b"0" * 64)


@pytest.mark.parametrize("parse", [parse_index, parse_manifest])
@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[]", b"null", b"\xff", b'{"manifests": 1, "config": 1}'),
        b'{"schemaVersion": 2, "manifests": ' + b"[" * 200_000,
        b'{"manifests": [%b], "config": %b}' % (NO_DIGEST, NO_DIGEST),
    ],
)
def test_what_is_no_manifest_is_refused(parse: Any, content: bytes) -> None:
    with pytest.raises(PublishRefused, match="x: not"):
        parse(content, "x")


# --- candidates


@given(
    st.sampled_from(["a2", "310p", "a3-cann8.5", "a2-verl-qwen3.5-overlay", "A2_x"]),
    st.binary(),
    st.sampled_from([None, *Arch]),
)
def test_the_tag_of_a_candidate_is_read_back(name: str, of: bytes, arch: Arch | None) -> None:
    tag = candidate_tag(name, digest_of(of), arch)
    assert parse_candidate(tag) == Candidate(name.lower(), digest_of(of)[7:19], arch)


def test_no_readable_tag_is_a_candidates() -> None:
    known = resolve_all(pins(), allow_broken=True)
    named = [tag for names in aliases(pins(), known).values() for tag in names]
    assert [tag for tag in [*named, *(one.tag for one in known)] if parse_candidate(tag)] == []


def test_the_identity_of_a_record_is_that_of_its_variant() -> None:
    one = variant()
    assert identity(record(one, image(Arch.AMD64)).resolved) == identity(one)


def test_every_pin_is_in_the_identity() -> None:
    one = variant()
    others = [
        variant(packages={**one.packages, "numpy": "1.26.3"}),
        variant(system_packages=(*one.system_packages, "vim-tiny")),
        variant(install_env={"A": "1"}),
        variant(base_image=f"{one.base_image}x"),
        variant("a3"),
    ]
    assert len({identity(one), *map(identity, others)}) == 1 + len(others)


def test_names_and_findings_are_no_pins() -> None:
    assert identity(variant()) == identity(variant(aliases=("other",), findings=()))


# --- aliases


def test_every_variant_that_is_no_overlay_has_an_alias_of_its_own() -> None:
    known = resolve_all(pins(), allow_broken=True)
    made = aliases(pins(), known)
    assert made["a2"] == ("latest-ms-swift-910b-ubuntu",)
    assert made["a2-openeuler"] == ("latest-ms-swift-910b-openeuler",)
    assert made["a2-verl-qwen3.5-overlay"] == ()
    named = [(one.repository, tag) for one in known for tag in made[one.name]]
    assert len(named) == len(set(named)) == len([one for one in known if not one.overlay])


def test_a_stack_for_one_chip_has_it_once_in_its_alias() -> None:
    """What is published is hard to take back: ms-swift-310p on a 310P is not `latest-ms-swift-310p-310p-ubuntu`."""
    known = resolve_all(pins(), allow_broken=True)
    assert aliases(pins(), known)["310p"] == ("latest-ms-swift-310p-ubuntu",)
    for template, expected in (("{stack}-{cann_tag}", "mine-910b"), ("only-{stack}", "only-mine-a2")):
        stack = msgspec.structs.replace(pins().stack["ms-swift"], alias_tags=(template,))
        changed = msgspec.structs.replace(pins(), stack={**pins().stack, "mine-a2": stack})
        assert aliases(changed, [variant(stack="mine-a2")]) == {"a2": (expected,)}


@pytest.mark.parametrize("changed", [{"python": "3.11"}, {"soc_version": "ascend910b3"}, {"tag": "other"}])
def test_two_variants_with_one_alias_are_an_error_that_names_both(changed: dict[str, str]) -> None:
    one, other = variant(), variant(name="twin", **{"tag": "twin", **changed})
    with pytest.raises(BadInput, match=r'"a2" and "twin" would both be .*:latest-ms-swift-910b-ubuntu'):
        aliases(pins(), [one, other])


def test_an_alias_that_is_the_tag_of_another_is_an_error() -> None:
    taken = variant(name="taken", tag="latest-ms-swift-910b-ubuntu", hardware="a3", chip=variant("a3").chip)
    with pytest.raises(BadInput, match='"taken" and "a2" would both be'):
        aliases(pins(), [taken, variant()])


def test_a_stack_may_have_other_aliases_or_none() -> None:
    known = pins()
    for templates, expected in (
        ((), ()),
        (("newest-{os_family}-{vllm}", "a2"), ("newest-ubuntu-v0.23.0", "a2")),
        (("{stack}", "{stack}"), ("ms-swift",)),
    ):
        stack = msgspec.structs.replace(known.stack["ms-swift"], alias_tags=templates)
        changed = msgspec.structs.replace(known, stack={**known.stack, "ms-swift": stack})
        assert aliases(changed, [variant()]) == {"a2": expected}


def test_an_alias_of_nothing_that_is_known_is_an_error() -> None:
    known = pins()
    stack = msgspec.structs.replace(known.stack["ms-swift"], alias_tags=("latest-{cuda}",))
    with pytest.raises(BadInput, match="cuda"):
        aliases(msgspec.structs.replace(known, stack={**known.stack, "ms-swift": stack}), [variant()])


def test_repositories_keep_aliases_apart() -> None:
    assert aliases(pins(), [variant(), variant(name="twin", repository="other.invalid/x")])["twin"]
