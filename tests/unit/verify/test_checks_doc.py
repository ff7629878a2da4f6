"""docs/verify.md: that it is current, that it has every check, and that its links lead somewhere."""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ascend_images.inside import answers
from ascend_images.inside.checks import CHECKS as INSIDE
from ascend_images.inside.checks import packages, platform
from ascend_images.verify.checks_doc import document
from ascend_images.verify.outside import FIRST, LAST

CHECKS = [*FIRST, *LAST, *INSIDE]


def check(**fields: str) -> Any:
    ask = SimpleNamespace(__module__=fields.pop("module", platform.__name__))
    return SimpleNamespace(ask=ask, **{"id": "x", "question": "Q?", "why": "", "mend": "", **fields})


def test_the_document_is_current(golden: Callable[[str, str], None]) -> None:
    golden("../../../docs/verify.md", document(CHECKS))


def test_every_check_has_a_section_that_the_contents_lead_to() -> None:
    text = document(CHECKS)
    assert re.findall(r"^### (.+)$", text, re.MULTILINE) == [one.id for one in CHECKS]
    assert re.findall(r"\]\(#([^)]+)\)", text) == [one.id for one in CHECKS]


def test_every_check_says_what_it_asks_why_and_how_it_is_mended() -> None:
    for section in document(CHECKS).split("\n### ")[1:]:
        _, question, why, mended = section.split("\n## ", maxsplit=1)[0].strip().split("\n\n")
        assert question.endswith("?**"), question
        assert why
        assert mended.startswith("*Mended:* ")


def test_checks_stand_below_what_their_module_is_about() -> None:
    text = document([check(id="one"), check(id="two"), check(id="three", module=packages.__name__)])
    assert "- Platform: [one](#one), [two](#two)\n- Packages: [three](#three)\n" in text
    assert text.index("## Platform\n\nArchitecture, operating system, Python.") < text.index("### one")
    assert text.index("### two") < text.index("## Packages") < text.index("### three")


@pytest.mark.parametrize(
    ("reference", "address"),
    [
        ("vllm-ascend#1440", "vllm-project/vllm-ascend/issues/1440"),
        ("sglang#28628", "sgl-project/sglang/issues/28628"),
        ("FlagTree#376", "flagos-ai/FlagTree/issues/376"),
        ("verl#6291", "verl-project/verl/issues/6291"),
        ("HAMi#1", "Project-HAMi/HAMi/issues/1"),
        ("cann-container-image#61", "Ascend/cann-container-image/issues/61"),
        ("gpustack#12", "gpustack/gpustack/issues/12"),
    ],
)
def test_references_are_links(reference: str, address: str) -> None:
    text = document([check(why=f"It broke ({reference}), twice.")])
    assert f"It broke ([{reference}](https://github.com/{address})), twice." in text


@pytest.mark.parametrize("why", ["other#12", "my-verl#6", "a/verl#6", "`verl#6`", "verl #6", "verl#x"])
def test_what_is_no_known_reference_stays_text(why: str) -> None:
    assert f"\n{why}\n" in document([check(why=why)])


def test_every_reference_of_a_check_is_a_link() -> None:
    for one in CHECKS:
        for reference in re.findall(r"[\w-]+#\d+", one.why):
            assert f"[{reference}](https://github.com/" in document([one])


@pytest.mark.parametrize(
    ("why", "written"),
    [
        ("nvidia-* and <name>", r"nvidia-\* and \<name>"),
        ("torch_npu and __version__", r"torch_npu and \_\_version\_\_"),
        ("`a*b` and `<x>`", "`a*b` and `<x>`"),
    ],
)
def test_signs_that_would_be_markup_are_escaped_outside_code(why: str, written: str) -> None:
    assert f"\n{written}\n" in document([check(why=why)])


def test_checks_have_the_fields_that_are_written() -> None:
    assert {"id", "question", "why", "ask"} <= set(answers.Check.__dataclass_fields__)
