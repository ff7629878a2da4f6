"""versions.toml is read whole, and every fault is told with its line."""

import os
from pathlib import Path

import pytest

from ascend_images.errors import BadInput
from ascend_images.pins.load import line_of, load, parse

ROOT = Path(__file__).parents[3]

SMALL = """\
schema = 1
[base]
image = "quay.io/ascend/cann"
[hardware.a2]
name = "Atlas A2"
cann_tag = "910b"
soc_version = "ascend910b1"
soc_versions = ["ascend910b1"]
ops_package = "910b"
device_type = "A2"
npu_smi_names = ["910B1"]
[cann."9.1.0"]
bases = [{ chips = ["910b"], os = ["ubuntu22.04"], python = ["3.12"] }]
python_home = { "3.12" = "/usr/local/python3.12.13" }
[index.ascend]
url = "https://index.example/simple"
serves = ["triton-ascend"]
[mirror.near]
index = { ascend = "https://near.example/simple" }
[stack.parent]
repository = "registry.example/parent"
tag = "{cann_tag}-{os}"
cann = "9.1.0"
os = "ubuntu22.04"
python = "3.12"
checks = ["one"]
[stack.parent.packages]
torch = "2.10.0"
numpy = "1.26.4"
[[stack.parent.relax]]
whose = "a"
demand = "b"
reason = "c"
[stack.parent.system]
apt = ["gcc"]
[stack.child]
extends = "parent"
checks = ["two"]
[stack.child.packages]
torch = "2.9.0"
[stack.child.without]
numpy = "not needed"
[stack.child.system]
apt = ["vim", "gcc"]
[variant.a2]
stack = "child"
hardware = "a2"
aliases = ["first"]
"""


def refused(before: str, after: str) -> str:
    assert before in SMALL
    with pytest.raises(BadInput) as caught:
        parse(SMALL.replace(before, after))
    return str(caught.value)


def test_the_project_s_own_file_loads() -> None:
    pins = load(ROOT / "versions.toml")
    assert {"a2", "a3", "a2-openeuler", "a3-openeuler", "a3-cann8.5", "310p", "a5"} <= set(pins.variant)


def test_an_extending_stack_merges_tables_appends_names_and_replaces_the_rest() -> None:
    child = parse(SMALL).stack["child"]
    assert child.packages == {"torch": "2.9.0"}
    assert child.checks == ("one", "two")
    assert child.system.apt == ("gcc", "vim")
    assert [relax.whose for relax in child.relax] == ["a"]
    assert child.repository == "registry.example/parent"


def test_without_reaches_lists_of_names_as_well() -> None:
    text = SMALL.replace('numpy = "not needed"', 'numpy = "not needed"\ngcc = "no compiler"\none = "no check"')
    child = parse(text.replace('apt = ["vim", "gcc"]', 'apt = ["vim"]')).stack["child"]
    assert child.system.apt == ("vim",)
    assert child.checks == ("two",)


def test_without_of_nothing_is_told() -> None:
    assert "scipy is nothing that the extended stack has" in refused('numpy = "not needed"', 'scipy = "not needed"')


def test_malformed_toml_is_told_with_its_line() -> None:
    message = refused("[base]", "[base")
    assert message.startswith("versions.toml: not TOML: ")
    assert "at line 2" in message


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            'cann_tag = "910b"',
            'cann_tga = "910b"',
            'versions.toml:6: hardware.a2.cann_tga: unknown key "cann_tga": did you mean "cann_tag"?',
        ),
        ("[base]", "[bass]", 'versions.toml:2: bass: unknown key "bass": did you mean "base"?'),
        ('name = "Atlas A2"', "name = 2", 'versions.toml:5: hardware.a2.name: Expected "str", got "int"'),
        ('torch = "2.9.0"', 'torch = ""', "versions.toml:40: stack.child.packages.torch: "),
        ("schema = 1", "schema = 2", "versions.toml:1: schema: Invalid enum value 2"),
        ('"https://index.example/simple"', '"http://index.example/simple"', "versions.toml:16: index.ascend.url: "),
        ('device_type = "A2"\n', "", 'versions.toml:4: hardware.a2: "device_type" is missing'),
        ('whose = "a"', 'who = "a"', 'stack.parent.relax[0].who: unknown key "who": did you mean "whose"?'),
    ],
)
def test_a_fault_is_told_with_file_line_key_and_the_nearest_known_name(before: str, after: str, expected: str) -> None:
    assert expected in refused(before, after)


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        parse(SMALL.replace("[base]", "[bass]").replace('name = "Atlas A2"', "name = 2"))
    assert 'unknown key "bass"' in str(caught.value)
    assert "hardware.a2.name" in str(caught.value)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ('stack = "child"', 'stack = "chilt"', 'variant.a2: unknown stack "chilt"\n  wanted: did you mean "child"?'),
        ('hardware = "a2"', 'hardware = "a4"', 'variant.a2: unknown hardware "a4"'),
        ('extends = "parent"', 'extends = "parents"', 'stack.child.extends: unknown stack "parents"'),
        ('extends = "parent"', 'extends = "child"', "stack.child: extends itself"),
        ("index = { ascend", "index = { ascent", 'mirror.near.index: unknown index "ascent"'),
    ],
)
def test_a_name_that_nothing_has_is_told(before: str, after: str, expected: str) -> None:
    assert expected in refused(before, after)


@pytest.mark.parametrize("alias", ["first", "FIRST"])
def test_one_name_for_two_variants_is_told(alias: str) -> None:
    with pytest.raises(BadInput, match=f'variants "a2" and "b2" are both called "{alias}"'):
        parse(SMALL + f'[variant.b2]\nstack = "child"\nhardware = "a2"\naliases = ["{alias}"]\n')


def test_one_image_of_two_variants_is_told_whichever_is_meant() -> None:
    with pytest.raises(BadInput, match='variants "a2" and "b2" give the same tag registry') as caught:
        parse(SMALL + '[variant.b2]\nstack = "child"\nhardware = "a2"\n')
    assert "`tag` of its own in [variant.b2]" in caught.value.do


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        load(tmp_path / "versions.toml")


def test_a_file_that_is_not_utf_8_is_told(tmp_path: Path) -> None:
    (tmp_path / "versions.toml").write_bytes(b"schema = 1 # \xff\n")
    with pytest.raises(BadInput, match="byte 13 is not UTF-8"):
        load(tmp_path / "versions.toml")


def test_the_line_of_a_key_is_the_deepest_that_stands_on_a_line_of_its_own() -> None:
    assert line_of(SMALL, ("cann", "9.1.0", "bases", 0, "os")) == 13
    assert line_of(SMALL, ("nowhere",)) == 0


def test_a_byte_order_mark_is_taken_for_none(tmp_path: Path) -> None:
    (tmp_path / "versions.toml").write_text("\ufeff" + SMALL, encoding="utf-8")
    assert load(tmp_path / "versions.toml") == parse(SMALL)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "huge"])
def test_what_is_no_file_of_pins_is_told_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "versions.toml"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
        case "huge":
            with path.open("wb") as stream:
                stream.truncate(1 << 40)
    with pytest.raises(BadInput, match=r"not a regular file|Is a directory|larger than 64 MB"):
        load(path)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x = " + "[" * 5000, "not TOML: brackets are nested too deeply"),
        ("x = " + "{a=" * 5000, "not TOML: brackets are nested too deeply"),
        ("x = " + "9" * 5000, "not TOML: Exceeds the limit"),
        (".".join(["x"] * 5000) + " = 1", 'unknown key "x"'),
    ],
)
def test_what_is_too_much_for_python_is_no_traceback(line: str, expected: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse(SMALL.replace("[base]", f"{line}\n[base]"))
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("before", "after", "key"),
    [
        ('torch = "2.9.0"', 'torch = "2.9.0\\nRUN x"', "versions.toml:40: stack.child.packages.torch: "),
        ('reason = "c"', 'reason = "c\\u0000"', "stack.parent.relax[0].reason: "),
        (
            'repository = "registry.example/parent"',
            'repository = "registry.example/parent\\r"',
            "stack.parent.repository: ",
        ),
        ('name = "Atlas A2"', 'name = "Atlas\\u001b[31m"', "hardware.a2.name: "),
        ('aliases = ["first"]', 'aliases = ["first\\u202e"]', "variant.a2.aliases[0]: "),
        ("[stack.child.packages]", '[stack.child.env]\n"A\\nB" = "1"\n[stack.child.packages]', "the key holds U+000A"),
    ],
)
def test_a_control_character_is_told_by_its_key(before: str, after: str, key: str) -> None:
    assert key in refused(before, after)
