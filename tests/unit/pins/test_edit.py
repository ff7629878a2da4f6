"""versions.toml changed by a program: the key that was meant, and not a byte besides."""

import difflib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_images.errors import BadInput
from ascend_images.pins.edit import Edit, edited
from ascend_images.toml_text import read_toml

REAL = (Path(__file__).parents[3] / "versions.toml").read_text(encoding="utf-8")
SMALL = """\
# The first comment.
schema = 1

[stack.one]
cann = "9.1.0"   # behind a value
[stack.one.packages]
torch = "2.10.0"
# Why this one.
numpy = '1.26.4'  # quoted otherwise

# Of what follows.
[stack."two.five"]
note = \"\"\"
[stack.one.packages]
torch = "in a text"
# no comment
\"\"\"
list = [
    "[stack.no]",
    # in a list
]

[[stack."two.five".relax]]
whose = "a"

[stack."two.five".packages]
torch = "1"
[[stack."two.five".relax]]
whose = "b"
"""


def changed_lines(before: str, after: str) -> list[str]:
    one, other = ([f"{line}\n" for line in text.split("\n")] for text in (before, after))
    # `unified_diff` takes what is frequent in a long file, blank lines among it, for noise, and is off by one there.
    matched = difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    changed = [(one[i1:i2], other[j1:j2]) for kind, i1, i2, j1, j2 in matched if kind != "equal"]
    return [f"{sign}{line}" for gone, new in changed for sign, lines in (("-", gone), ("+", new)) for line in lines]


def leaves(document: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if isinstance(document, dict):
        return [leaf for key, value in document.items() for leaf in leaves(value, (*path, key))]
    return [path] if isinstance(document, str) else []


def test_a_value_is_changed_where_it_stands_and_keeps_what_is_behind_it() -> None:
    after = edited(SMALL, [Edit(("stack", "one", "cann"), "9.2.0"), Edit(("stack", "one", "packages", "numpy"), "2")])
    assert changed_lines(SMALL, after) == [
        '-cann = "9.1.0"   # behind a value\n',
        '+cann = "9.2.0"   # behind a value\n',
        "-numpy = '1.26.4'  # quoted otherwise\n",
        '+numpy = "2"  # quoted otherwise\n',
    ]


def test_a_text_that_looks_like_a_table_is_none() -> None:
    after = edited(SMALL, [Edit(("stack", "two.five", "packages", "torch"), "3")])
    assert changed_lines(SMALL, after) == ['-torch = "1"\n', '+torch = "3"\n']


def test_a_new_key_comes_behind_the_last_one_and_before_the_comment_of_the_next_table() -> None:
    after = edited(SMALL, [Edit(("stack", "one", "packages", "ruamel.yaml"), "0.18")])
    assert '# quoted otherwise\n"ruamel.yaml" = "0.18"\n\n# Of what follows.\n' in after


def test_a_new_table_comes_behind_those_of_its_stack() -> None:
    after = edited(SMALL, [Edit(("stack", "one", "sources", "vllm", "ref"), "v1")])
    assert '# quoted otherwise\n\n[stack.one.sources.vllm]\nref = "v1"\n\n# Of what follows.\n' in after


def test_a_key_is_removed_with_its_line_and_one_that_is_not_there_is_no_fault() -> None:
    after = edited(SMALL, [Edit(("stack", "one", "packages", "numpy"), None), Edit(("stack", "one", "no"), None)])
    assert changed_lines(SMALL, after) == ["-numpy = '1.26.4'  # quoted otherwise\n"]


@pytest.mark.parametrize(
    "text",
    [
        'stack.one.packages = { torch = "1" }  # inline\n',
        '[stack]\none.packages.torch = "1"\n',
        '[stack.one]\npackages = { numpy = "2", torch = "1" }\n',
        '[stack.one.packages]\n"torch" = "1"',
    ],
)
def test_other_ways_to_write_a_table_are_changed_as_well(text: str) -> None:
    after = edited(text, [Edit(("stack", "one", "packages", "torch"), "2")])
    assert after == text.replace('"1"', '"2"')


def test_line_ends_and_a_mark_at_the_beginning_stay() -> None:
    text = "\ufeff" + SMALL.replace("\n", "\r\n")
    after = edited(
        text, [Edit(("stack", "one", "packages", "torch"), "2"), Edit(("stack", "one", "packages", "x"), "1")]
    )
    assert after.startswith("\ufeff# The first")
    assert after.count("\r\n") == after.count("\n") == text.count("\n") + 1


@pytest.mark.parametrize("text", ["schema = ", '[stack.one]\npackages = "no table"\n'])
def test_what_cannot_be_changed_is_refused_with_what_to_do(text: str) -> None:
    with pytest.raises(BadInput):
        edited(text, [Edit(("stack", "one", "packages", "torch"), "2")])


@settings(max_examples=40)
@given(path=st.sampled_from(leaves(read_toml(REAL))), value=st.text(min_size=1, max_size=40))
def test_any_value_of_the_real_file_becomes_any_other_and_nothing_else_changes(
    path: tuple[str, ...], value: str
) -> None:
    after = edited(REAL, [Edit(path, value)])
    wanted = read_toml(REAL)
    table = wanted
    for part in path[:-1]:
        table = table[part]
    table[path[-1]] = value
    assert read_toml(after) == wanted
    assert len(changed_lines(REAL, after)) <= 2


@settings(max_examples=40)
@given(path=st.sampled_from(leaves(read_toml(REAL))))
def test_any_value_of_the_real_file_can_be_removed_and_the_rest_stays(path: tuple[str, ...]) -> None:
    gone = changed_lines(REAL, edited(REAL, [Edit(path, None)]))
    # Of a table in one line only a part of that line goes.
    assert len(gone) in (1, 2)
    assert gone[0].startswith("-")
