"""Architectures: every accepted spelling, and what is refused."""

import platform
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.errors import BadInput
from ascend_images.pins.platform import Arch, host_arch, parse_arch, parse_platform

SPELLINGS = {
    "x86": Arch.AMD64,
    "x86_64": Arch.AMD64,
    "amd64": Arch.AMD64,
    "arm": Arch.ARM64,
    "arm64": Arch.ARM64,
    "aarch64": Arch.ARM64,
}
blanks = st.text(alphabet=" \t\n", max_size=2)


@pytest.mark.parametrize(("text", "arch"), SPELLINGS.items())
@pytest.mark.parametrize("spelled", [str, str.upper, str.title, "  {}\n".format])
def test_each_spelling_is_read_in_any_case_and_with_blanks_around(text, arch, spelled):
    assert parse_arch(spelled(text)) is arch
    assert parse_platform(spelled(text)) is arch
    assert parse_platform(spelled(f"linux/{text}")) is arch


@pytest.mark.parametrize(
    "text", ["", " ", "x64", "i386", "armv7l", "arm64e", "riscv64", "x86-64", "linux", "arm 64", "amd64,arm64"]
)
def test_another_architecture_is_refused_and_all_spellings_are_named(text):
    for parse in (parse_arch, parse_platform):
        with pytest.raises(BadInput) as error:
            parse(text)
        assert repr(text) in error.value.found
        assert all(spelling in error.value.wanted for spelling in SPELLINGS)


@pytest.mark.parametrize(
    ("text", "arch"),
    [("linux/arm64/v8", Arch.ARM64), ("linux/aarch64/v8", Arch.ARM64), ("linux/amd64/v1", Arch.AMD64)],
)
def test_a_variant_that_says_nothing_is_dropped(text, arch):
    assert parse_platform(text) is arch


@pytest.mark.parametrize(
    "text",
    [
        "linux/",
        "/arm64",
        "linux/arm64/",
        "linux/arm64/v9",
        "linux/arm64/v8/x",
        "linux/arm/v7",
        "linux/arm/v8",
        "linux/amd64/v3",
        "windows/amd64",
        "linux/riscv64",
        "linux//v8",
        "arm64/v8",
        "linux/arm64,linux/amd64",
    ],
)
def test_another_platform_is_refused_and_the_two_are_named(text):
    with pytest.raises(BadInput) as error:
        parse_platform(text)
    assert repr(text) in error.value.found
    assert all(name in error.value.wanted for name in ("linux/amd64", "linux/arm64", *SPELLINGS))


@pytest.mark.parametrize(
    ("arch", "kernel", "docker", "uv", "qemu"),
    [
        (Arch.AMD64, "x86_64", "linux/amd64", "x86_64-manylinux_2_28", "qemu-x86_64"),
        (Arch.ARM64, "aarch64", "linux/arm64", "aarch64-manylinux_2_28", "qemu-aarch64"),
    ],
)
def test_an_architecture_knows_its_other_names(arch, kernel, docker, uv, qemu):
    assert (arch.kernel, arch.platform, arch.uv_platform, arch.qemu) == (kernel, docker, uv, qemu)


@pytest.mark.parametrize("arch", Arch)
def test_every_name_an_architecture_has_is_read_as_it(arch):
    assert parse_arch(arch) is arch
    assert parse_arch(arch.kernel) is arch
    assert parse_platform(arch.platform) is arch


@pytest.mark.parametrize(("machine", "arch"), [("x86_64", Arch.AMD64), ("AMD64", Arch.AMD64), ("aarch64", Arch.ARM64)])
def test_the_host_is_read_from_its_machine_name(monkeypatch, machine, arch):
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert host_arch() is arch


@pytest.mark.parametrize("machine", ["riscv64", "s390x", ""])
def test_a_host_without_cann_is_refused_with_what_to_type(monkeypatch, machine):
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(BadInput, match="no CANN") as error:
        host_arch()
    assert repr(machine) in error.value.found
    assert "--arch" in error.value.do


@given(blanks, st.sampled_from(sorted(SPELLINGS)), blanks, st.randoms(use_true_random=False))
def test_any_mixture_of_cases_is_read(before, text, after, random):
    mixed = "".join(random.choice((char.lower(), char.upper())) for char in text)
    assert parse_arch(f"{before}{mixed}{after}") is SPELLINGS[text]


@given(st.one_of(st.text(), st.text(alphabet="linux/arm64v8 ", max_size=16)))
def test_any_text_is_an_architecture_or_bad_input(text):
    for parse in (parse_arch, parse_platform):
        with suppress(BadInput):
            assert parse(text) in set(Arch)
