"""What people and programs are told of variants: each broken rule once, and the same keys in every list."""

import msgspec
import pytest

from ascend_images.errors import BadInput
from ascend_images.pins import report
from ascend_images.pins.resolve import resolve, resolve_all
from tests.pins_kit import committed

PINS = committed()
ALL = resolve_all(PINS)
OLDER = "torch_npu=2.10.0.post2"


def broken(name: str, *overrides: str):
    return resolve(PINS, name, overrides, allow_broken=True)


def test_lists_and_whole_variants_agree_on_names_and_platforms() -> None:
    listed, shown = report.variants_data(ALL), report.show_data(ALL)
    shared = set(listed[0]) & set(shown[0])
    assert {"name", "aliases", "platforms", "stack", "cann", "os", "python", "base_image"} <= shared
    assert [{key: one[key] for key in shared} for one in listed] == [
        {key: list(one[key]) if isinstance(one[key], tuple) else one[key] for key in shared} for one in shown
    ]
    assert listed[0]["platforms"] == ["linux/amd64", "linux/arm64"]


def test_a_whole_variant_has_every_field() -> None:
    (shown,) = report.show_data(ALL[:1])
    assert set(shown) == set(ALL[0].__struct_fields__)
    assert msgspec.json.decode(report.as_json([shown]))[0]["packages"]["torch"] == ALL[0].packages["torch"]


def test_what_fits_is_no_error() -> None:
    report.require_fitting(ALL)


def test_a_broken_rule_is_told_once_and_the_error_says_the_way_out() -> None:
    both = (broken("a2", OLDER), broken("a3", OLDER))
    text = report.findings_text(both)
    assert text.count("broken: torch-npu-cann (a2, a3)") == 1
    with pytest.raises(BadInput) as error:
        report.require_fitting(both)
    assert error.value.found == "a2, a3: 2 rules are broken"
    messages = {finding.message for finding in both[0].findings if finding.state == "broken"}
    assert not any(message in str(error.value) for message in messages)
    assert error.value.do.count('--set "accept.torch-npu-cann=REASON"') == 1


def test_each_stack_with_a_broken_rule_has_its_own_way_out() -> None:
    with pytest.raises(BadInput) as error:
        report.require_fitting([broken("a2", OLDER), ALL[1], broken("a3-cann8.5", "torch_npu=2.9.0.post1")])
    assert "[stack.ms-swift.accept]" in error.value.do
    assert '[stack."ms-swift-cann8.5".accept]' in error.value.do
    assert error.value.found.startswith("a2, a3-cann8.5: ")


def test_what_is_not_known_says_what_would_have_to_be_written() -> None:
    """As reported: a commit without a version was passed over, and nothing said so."""
    text = report.findings_text([broken("a2", f"sources.vllm.ref={'1' * 40}")])
    assert text.endswith(
        "unknown: vllm-ascend-row (a2)\n"
        "  vllm at 111111111111 has no known version, so whether it is the vLLM 0.23.0 of the row of vLLM Ascend 0.23.0"
        " is not known\n"
        "  wanted:  the version that is there: sources.vllm.version"
    )
