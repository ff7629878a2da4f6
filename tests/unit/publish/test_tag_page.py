"""The lists of tags: what they say is what was built, and their links lead to what was built."""

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.digest import digest_of
from ascend_images.errors import BadInput, CheckFailed
from ascend_images.pins.variant import Variant
from ascend_images.publish.published import Publication, Published, facts_of, parse
from ascend_images.publish.tag_page import page, require_pages, write_pages
from ascend_images.publish.tag_words import CHINESE, ENGLISH, PAGES, Words
from tests.publish_kit import DOCKERFILE, REPOSITORY, pins, variant
from tests.unit.publish.samples import publication

NAMES = ("a2", "a3", "a2-openeuler", "310p", "a5", "a2-verl-qwen3.5-overlay")
VARIANTS = tuple(variant(name) for name in NAMES)
LANGUAGES = pytest.mark.parametrize("words", [ENGLISH, CHINESE], ids=["en", "zh"])


def text(*publications: Publication, words: Words = ENGLISH, variants: tuple[Variant, ...] = VARIANTS) -> str:
    return page(words, pins(), variants, Published(publications=publications))


def rows(of: str, part: str) -> list[list[str]]:
    """Return the cells of a section's table."""
    body = of.split(f"## {part}\n")[1].split("\n## ", maxsplit=1)[0]
    lines = [line for line in body.splitlines() if line.startswith("| ")]
    return [re.split(r"(?<!\\) \| ", line.removeprefix("| ").removesuffix(" |")) for line in lines[2:]]


@LANGUAGES
def test_nothing_published_is_said(words: Words) -> None:
    made = text(words=words)
    assert words.nothing in made
    assert words.supported not in made.replace(words.title, "").replace(words.planned, "")
    assert len(rows(made, words.planned)) == len(VARIANTS)


def sample() -> tuple[Publication, ...]:
    return (
        publication("a3", aliases=(), when="2026-10-01T00:00:00Z", tag="v4.5.1-a3"),
        publication("a3", aliases=(), digest=f"sha256:{'3' * 64}"),
        publication("310p", aliases=(), source="", waived={"npu": "no 310P at hand", "chip": "no 310P at hand"}),
        publication(variant="gone", tag="v1-gone", aliases=()),
        publication(),
    )


@LANGUAGES
def test_the_whole_page(words: Words, golden: Callable[[str, str], None]) -> None:
    golden(f"supported_tags.{'en' if words is ENGLISH else 'zh'}.md", text(*sample(), words=words))


def test_both_languages_have_the_same_rows() -> None:
    def bare(words: Words) -> list[int]:
        made = text(*sample(), words=words)
        return [len(rows(made, part)) for part in (words.supported, words.history, words.planned)]

    assert bare(ENGLISH) == bare(CHINESE) == [3, 2, 3]


def test_columns_are_those_of_what_was_built_whatever_the_pins_say_now() -> None:
    """As a page does not that names CANN 9.0.0 for an image of 9.1.0."""
    built = msgspec.structs.replace(facts_of(variant()), cann="9.0.0", base_cann="9.0.0", python="3.11")
    (row,) = rows(text(publication(facts=built)), ENGLISH.supported)
    assert row[3:6] == ["9.0.0", "ubuntu22.04", "3.11"]


def test_every_tag_names_its_platforms() -> None:
    for row in rows(text(*sample()), ENGLISH.supported):
        assert row[1] == "linux/amd64<br>linux/arm64"


def test_every_link_leads_to_the_file_of_that_variant_at_the_commit_that_built_it() -> None:
    made = text(publication(), publication("a3", aliases=(), commit="d" * 40))
    links = {row[0].split("`")[1].rpartition(":")[2]: row[9] for row in rows(made, ENGLISH.supported)}
    base = "https://github.com/example/ascend-images/blob"
    assert links[variant().tag] == f"[a2.Dockerfile]({base}/{'c' * 40}/{DOCKERFILE})"
    assert links[variant("a3").tag] == f"[a3.Dockerfile]({base}/{'d' * 40}/{DOCKERFILE.replace('a2', 'a3')})"


def test_without_an_address_on_the_web_the_command_that_shows_the_file_is_told() -> None:
    (row,) = rows(text(publication(source="")), ENGLISH.supported)
    assert row[9] == f"`git show {'c' * 12}:{DOCKERFILE}`"


def test_support_ends_when_the_successor_is_published() -> None:
    old, new = publication(tag="v1"), publication(when="2027-01-02T00:00:00Z")
    made = text(old, new)
    assert [row[-1] for row in rows(made, ENGLISH.supported)] == [ENGLISH.until_replaced]
    assert [row[-1] for row in rows(made, ENGLISH.history)] == ["2027-01-02"]


def test_a_tag_that_was_published_again_is_one_row_with_the_last_digest() -> None:
    again = publication(digest=f"sha256:{'9' * 64}")
    (row,) = rows(text(publication(), again), ENGLISH.supported)
    assert row[8] == f"`{again.digest}`"


def test_an_alias_stands_beside_what_it_was_given_last() -> None:
    old, new = publication(tag="v1"), publication(digest=f"sha256:{'9' * 64}")
    made = text(old, new)
    assert [row[0] for row in rows(made, ENGLISH.history)] == [f"`{REPOSITORY}:v1`"]
    assert f"`{REPOSITORY}:{old.aliases[0]}`" in rows(made, ENGLISH.supported)[0][0]


def test_an_overlay_names_both_releases() -> None:
    made = rows(text(), ENGLISH.planned)
    (row,) = [row for row in made if "overlay" in row[1]]
    assert row[4] == "8.5.2 laid over 8.5.1"


def test_the_atlas_950_has_driver_lines_of_its_own() -> None:
    made = {row[1].strip("`"): row[8] for row in rows(text(), ENGLISH.planned)}
    assert made["a5"] == "25.1.x, 25.6.x, 25.7.x"
    assert made["a2"] == "25.2.x, 25.3.x, 25.5.x, 26.0.x, 26.1.x"


def test_what_was_not_verified_on_an_npu_says_so() -> None:
    (row,) = rows(text(publication(waived={"npu": "no card | yet"})), ENGLISH.supported)
    assert "not verified on an NPU: no card &#124; yet" in row[0]


@given(st.text(max_size=60))
def test_no_text_breaks_the_table(odd: str) -> None:
    facts = msgspec.structs.replace(
        facts_of(variant()),
        **dict.fromkeys(("hardware_name", "chip", "os", "python"), odd),
        experimental=odd or "x",
        components={odd: odd},
    )
    found = rows(text(publication(waived={"npu": odd}, facts=facts)), ENGLISH.supported)
    assert [len(row) for row in found] == [len(ENGLISH.columns)]


ODD: dict[str, object] = {
    "repository": "a/b`",
    "tag": "v1` | <b>",
    "aliases": ("v1", "a\nb"),
    "commit": "main",
    "source": "https://evil.invalid/x)](y",
    "dockerfile": "../x",
    "identity": "x",
    "pins": "",
    "platforms": {"linux/amd64<br>": digest_of(b"x")},
    "checks": {"linux/riscv|": ()},
}


@pytest.mark.parametrize("field", ODD)
def test_what_the_lists_show_as_it_is_has_a_form_of_its_own(field: str) -> None:
    good = msgspec.json.encode(Published(publications=(publication(),)))
    assert parse(good).publications == (publication(),)
    with pytest.raises(BadInput, match=rf"not the list of what was published: .*`\$\.publications\[0\]\.{field}"):
        parse(msgspec.json.encode(Published(publications=(publication(**{field: ODD[field]}),))))


def test_pages_are_written_once_and_checked(tmp_path: Path) -> None:
    def make(words: Words) -> str:
        return text(words=words)

    with pytest.raises(CheckFailed, match=r"supported_tags\.md\nout of date: docs/supported_tags\.zh\.md") as raised:
        require_pages(tmp_path, make)
    assert raised.value.do == "invoke tags"
    assert list(map(str, write_pages(tmp_path, make))) == list(PAGES)
    require_pages(tmp_path, make)
    assert write_pages(tmp_path, make) == []
    (tmp_path / "docs" / "supported_tags.md").write_bytes(b"\xff")
    with pytest.raises(CheckFailed):
        require_pages(tmp_path, make)


def test_a_stack_that_says_its_last_day_says_it_in_the_list() -> None:
    known = pins()
    stack = msgspec.structs.replace(known.stack["ms-swift"], end_of_support="2027-06-30")
    dated = msgspec.structs.replace(known, stack={**known.stack, "ms-swift": stack})
    made = page(ENGLISH, dated, VARIANTS, Published(publications=(publication(),)))
    assert [row[-1] for row in rows(made, ENGLISH.supported)] == ["2027-06-30"]


def test_an_image_of_stand_ins_says_so_and_ends_no_other() -> None:
    """They may be recorded where somebody tries publishing out; no reader may take one for the real thing."""
    real = publication()
    tried = publication(
        repository="localhost:5000/x", tag=f"{real.tag}-sandbox", aliases=(), stand_in=True, when="2026-12-31T00:00:00Z"
    )
    for words in PAGES.values():
        made = text(real, tried, words=words)
        first, second = rows(made, words.supported)
        assert words.stand_in in first[0]
        assert words.stand_in not in second[0]
        assert words.history not in made


def test_what_is_planned_has_its_aliases_beside_it() -> None:
    first = rows(text(), ENGLISH.planned)[0][0]
    assert first.split("<br>")[1].endswith(":latest-ms-swift-910b-ubuntu`")
