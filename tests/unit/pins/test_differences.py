"""What differs between two variants and two locks: each thing once, by the name people know it by."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.pins.differences import Change, package_changes, pin_changes, shared
from ascend_images.pins.lockfile import Conflict, LockedPackage, LockFile
from ascend_images.pins.model import Decision, Index
from ascend_images.pins.platform import Arch
from ascend_images.pins.resolve import resolve
from ascend_images.pins.variant import Variant
from tests.lock_kit import pins, real, relax, source, variant

ALL = list(pins().variant)


def told(before: Variant, **fields: Any) -> list[str]:
    return [str(change) for change in pin_changes(before, msgspec.structs.replace(before, **fields))]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"packages": {"torch": "2.9.0"}}, "package torch: 2.10.0 -> 2.9.0"),
        ({"packages": {}}, "package torch: removed, 2.10.0"),
        ({"packages": {"torch": "2.10.0", "six": "1"}}, "package six: added, 1"),
        ({"cann": "9.0.0"}, "cann: 9.9.0 -> 9.0.0"),
        ({"platforms": (Arch.ARM64,)}, "platforms amd64: removed"),
        ({"release": False}, "release: yes -> no"),
        ({"relax": (relax("vllm", "numpy<2"),)}, "relaxed vllm: numpy<2: added, seen to work"),
        ({"exclude": {"triton": "why"}}, "exclude triton: added, why"),
        ({"env": {"A": ""}}, 'env A: added, ""'),
        ({"runtime": {"X": Decision(reason="why")}}, 'runtime X: added, {"value":null,"reason":"why"}'),
        ({"system_packages": ("git",)}, "system packages git: added"),
        ({"checks": ("torch_npu", "os")}, "checks os: added"),
        (
            {"indexes": {"a": Index(url="https://a", serves=("b",))}},
            'index a: added, {"url":"https://a","serves":["b"]}',
        ),
    ],
)
def test_each_kind_of_pin_is_told_by_its_name(fields: dict[str, Any], line: str) -> None:
    before = variant({"torch": "2.10.0"}, env={}, runtime={}, system_packages=(), checks=("torch_npu",), release=True)
    assert told(before, **fields) == [line]


def test_a_source_is_told_by_its_ref_and_commit_and_whatever_else_is_said_of_it() -> None:
    before = variant({}, sources=(source("vllm", "1.0", ref="v1", commit="a" * 40),))
    moved = source("vllm", "1.1", "numpy", ref="v2", commit="b" * 40)
    assert told(before, sources=(moved,)) == [
        "source vllm: v1 (aaaaaaaaaaaa) -> v2 (bbbbbbbbbbbb)",
        "source vllm version: 1.0 -> 1.1",
        'source vllm declares: added, ["numpy"]',
    ]


def test_what_follows_from_another_pin_is_not_told_besides() -> None:
    two = real("a2"), resolve(pins(), "a2", ["cann=9.0.0"], allow_broken=True)
    subjects = [change.subject for change in pin_changes(*two)]
    assert subjects == ["tag", "cann", "base image"]


@given(name=st.sampled_from(ALL))
def test_a_variant_differs_from_itself_in_nothing(name: str) -> None:
    assert pin_changes(real(name), real(name)) == ()


@given(one=st.sampled_from(ALL), other=st.sampled_from(ALL))
def test_there_and_back_are_the_same_changes_the_other_way_round(one: str, other: str) -> None:
    there, back = pin_changes(real(one), real(other)), pin_changes(real(other), real(one))
    turned = {Change(table=c.table, name=c.name, before=c.after, after=c.before) for c in back}
    assert set(there) == turned
    assert bool(there) == (one != other)


def lock(*packages: LockedPackage, **fields: Any) -> LockFile:
    given = {"variant": "a2", "arch": Arch.ARM64, "python": "3.12", "inputs": "", **fields}
    return LockFile(packages=packages, **given)


def test_packages_of_two_locks_are_told_by_version_then_by_files_then_what_is_not_met() -> None:
    digest = f"sha256:{'1' * 64}"
    before = lock(LockedPackage("a", "1"), LockedPackage("b", "1", (digest,)), LockedPackage("c", "1"))
    conflict = Conflict(whose="b", version="1", demand="a<2", found="2", reason="seen to work")
    after = lock(
        LockedPackage("a", "2"), LockedPackage("b", "1"), LockedPackage("d", "1"),
        incomplete=("b==1: index down",), conflicts=(conflict,),
    )  # fmt: skip
    assert [str(change) for change in package_changes(before, after)] == [
        "a: 1 -> 2",
        "c: removed, 1",
        "d: added, 1",
        "files of b 1: 111111111111 -> no checksum",
        "not learned: b==1: index down: added",
        "demand lifted: b asks for a<2: added, 2; seen to work",
    ]
    assert package_changes(before, before) == ()


def test_one_change_of_several_is_told_once_with_all_their_names() -> None:
    one, other = (Change(table="package", name=name, before="1", after="2") for name in ("a", "b"))
    found = shared({"a2": [one, other], "a3": [one]})
    assert [(str(item.change), item.among) for item in found] == [
        ("package a: 1 -> 2", ("a2", "a3")),
        ("package b: 1 -> 2", ("a2",)),
    ]
