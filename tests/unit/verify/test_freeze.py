"""An image that somebody else built, from recorded facts to a stack and a lock that the pins' own reader takes."""

import copy
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images import freezing
from ascend_images.errors import BadInput
from ascend_images.pins.load import parse
from ascend_images.pins.lockfile import LockFile, is_current
from ascend_images.pins.platform import Arch
from ascend_images.pins.resolve import resolve, resolve_all
from ascend_images.verify.checkouts import FoundCheckout, checkout_around
from ascend_images.verify.freeze import Frozen, candidates, freeze, https_address, stack_text
from tests.pins_kit import committed

ROOT = Path(__file__).parents[3]
PINS = committed()
PINS_TEXT = (ROOT / "versions.toml").read_text(encoding="utf-8")
REFERENCE = "registry.example/team/swift:today"
PREFIX = "/usr/local/python3.12.13"
SITE = f"{PREFIX}/lib/python3.12/site-packages"
COMMIT, OTHER = "a" * 40, "b" * 40
MARKERS = {"python_version": "3.12", "platform_machine": "x86_64", "sys_platform": "linux"}


def package(name: str, version: str, *requires: str, **other: Any) -> dict[str, Any]:
    said = {"name": name, "version": version, "location": SITE, "metadata": f"{name}-{version}.dist-info"}
    return {**said, "editable": "", "requires": list(requires), **other}


FACTS: dict[str, Any] = {
    "system": {"id": "ubuntu", "version": "22.04"},
    "python": {
        "prefix": PREFIX,
        "version": "3.12.13",
        "paths": [f"{PREFIX}/lib/python3.12", SITE, "/vllm", "/Megatron-LM", "/usr/local/Ascend/x"],
        "markers": MARKERS,
        "error": "",
    },
    "cann": {
        "toolkit": [{"file": "x", "version": "9.1.0"}],
        "ops": [{"file": "x", "version": "9.1.0", "chip": "910b"}],
        "nnal": [],
    },
    "built_for": {"device_type": ""},
    "distributions": [
        package("torch", "2.10.0+cpu"),
        package("torch_npu", "2.10.0.post4", "torch==2.10.0"),
        package("numpy", "1.26.4"),
        package("requests", "2.32.5", "urllib3<3", "chardet; extra == 'use_chardet'", "pywin32; os_name == 'nt'"),
        package("urllib3", "2.5.0"),
        package("opencv-python-headless", "4.13.0.92", "numpy>=2"),
        package("liger_kernel", "0.8.5", "triton>=2", "torch"),
        package("vllm", "0.23.0+empty", "requests", "transformers", editable="/vllm"),
        package("pip", "26.1"),
        package("te", "0.4.0", location="/usr/local/Ascend/cann/python/site-packages"),
        package("python-apt", "2.4.0", location="/usr/lib/python3/dist-packages"),
    ],
}
FILES = {
    "/vllm/.git/HEAD": COMMIT,
    "/vllm/.git/config": '[core]\n\tbare = false\n[remote "origin"]\n\turl = git@github.com:vllm-project/vllm.git\n',
    "/vllm/.git/packed-refs": f"# pack-refs with: peeled\n{OTHER} refs/tags/v0.23.0\n^{COMMIT}\n",
    "/vllm/vllm/__init__.py": "",
    "/Megatron-LM/.git/HEAD": "ref: refs/heads/main\n",
    "/Megatron-LM/.git/refs/heads/main": f"{OTHER}\n",
    "/Megatron-LM/.git/config": '[remote "origin"]\nurl = https://user:secret@github.com/NVIDIA/Megatron-LM/\n',
}
CONFIG = {
    "Env": ["PATH=/bin", "LD_LIBRARY_PATH=/x", "HF_TOKEN=hunter2", "ATB_COMPARE_TILING_EVERY_KERNEL=1",
            'GREETING=say "ä" \\', "SOC_VERSION=ascend910b1"],
    "WorkingDir": "/workspace",
}  # fmt: skip


def reader(files: dict[str, str]) -> Callable[[str], bytes | None]:
    return lambda path: files[path].encode() if path in files else None


def frozen(facts: dict[str, Any] = FACTS, config: dict[str, Any] = CONFIG, files: dict[str, str] = FILES) -> Frozen:
    return freeze(REFERENCE, "sha256:1", Arch.AMD64, facts, config, reader(files), PINS)


def spoilt(**changes: Any) -> dict[str, Any]:
    """The facts, other values for the keys named (`python__version`)."""
    facts = copy.deepcopy(FACTS)
    for key, value in changes.items():
        *path, last = key.split("__")
        place = facts
        for part in path:
            place = place[part]
        place[last] = value
    return facts


def with_packages(*packages: dict[str, Any]) -> dict[str, Any]:
    return spoilt(distributions=[*FACTS["distributions"], *packages])


def table(made: Frozen, name: str = "mine") -> dict[str, Any]:
    return tomllib.loads(stack_text(made, name, PINS))["stack"][name]


# --- the whole


def test_a_frozen_image_is_told_in_the_words_of_the_pins(golden: Callable[[str, str], None]) -> None:
    made = frozen()
    golden("freeze/stack.toml", stack_text(made, "mine", PINS))
    golden("freeze/review.txt", "\n".join(made.review) + "\n")


def test_the_frozen_stack_loads_resolves_and_is_what_its_lock_answers(tmp_path: Path) -> None:
    (tmp_path / "versions.toml").write_text(PINS_TEXT)
    made = frozen(files={**FILES, "/Megatron-LM/Megatron_LM/__init__.py": ""})
    written = freezing.write(tmp_path, made, "mine", PINS, {"curl": "1"})
    pins = parse(f"{PINS_TEXT}\n{written.stack.read_text()}")
    variant = resolve(pins, "mine", allow_broken=True)
    lock = LockFile.load(written.lock)
    assert is_current(lock, variant)
    assert not lock.complete
    assert not any(package.hashes for package in lock.packages)
    assert lock.versions["torch"] == "2.10.0+cpu"
    assert written.system is not None
    assert written.system.read_text() == "curl 1\n"
    assert [(one.name, one.revision, one.installed_version) for one in variant.sources] == [
        ("Megatron-LM", OTHER, ""),
        ("vllm", COMMIT, "0.23.0+empty"),
    ]


def test_what_is_printed_says_where_it_lies_what_to_look_at_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "versions.toml").write_text(PINS_TEXT)
    text = freezing.told(freezing.write(tmp_path, frozen(), "mine", PINS), tmp_path)
    assert text.splitlines()[0] == f"{REFERENCE}: CANN 9.1.0, a2, ubuntu22.04, Python 3.12, amd64"
    assert "  build/freeze/mine/stack.toml\n  build/freeze/mine/locks/mine.amd64.txt\n" in text
    assert "\nlook at:\n  - " in text
    assert text.endswith(
        "\nnext: fill in what is listed above in build/freeze/mine/stack.toml, then append it to versions.toml; "
        "invoke check --variant mine\n"
        "      copy build/freeze/mine/locks/mine.amd64.txt to locks/; invoke lock --variant mine: it keeps these "
        "versions where they fit, and learns the hashes"
    )


def test_where_nothing_is_open_the_stack_is_appended_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "versions.toml").write_text(PINS_TEXT)
    made = frozen(config={}, files={**FILES, "/Megatron-LM/Megatron_LM/__init__.py": ""})
    text = freezing.told(freezing.write(tmp_path, made, "mine", PINS), tmp_path)
    assert made.review == []
    assert "\nnext: append build/freeze/mine/stack.toml to versions.toml; invoke check --variant mine\n" in text


def test_a_frozen_lock_says_what_made_it_and_is_read_like_any_other(tmp_path: Path) -> None:
    """As reported: it said that `invoke lock` had made it."""
    (tmp_path / "versions.toml").write_text(PINS_TEXT)
    written = freezing.write(tmp_path, frozen(), "mine", PINS)
    lines = written.lock.read_text().splitlines()
    assert lines[0] == f"# Made by: invoke freeze --image {REFERENCE} --name mine"
    assert sum(line.startswith("# Made by:") for line in lines) == 1
    assert LockFile.load(written.lock).variant == "mine"


def test_all_that_a_frozen_stack_lacks_is_told_at_once_with_its_name(tmp_path: Path) -> None:
    """As reported: appended as told, it stopped commands for other variants, and nothing said whose fault that was."""
    (tmp_path / "versions.toml").write_text(PINS_TEXT)
    made = frozen(files={name: text for name, text in FILES.items() if not name.endswith("__init__.py")})
    written = freezing.write(tmp_path, made, "mine", PINS)
    lacks = ('stack mine: source Megatron-LM: "module" is missing', 'stack mine: source vllm: "module" is missing')
    assert [line for line in made.review if "; ".join(lacks) in line]
    with pytest.raises(BadInput) as caught:
        resolve_all(parse(f"{PINS_TEXT}\n{written.stack.read_text()}"), to_be_locked=True)
    assert tuple(caught.value.found.splitlines()) == lacks
    assert caught.value.do == "write them in [stack.mine.sources.Megatron-LM] and [stack.mine.sources.vllm]"


def test_a_stack_that_does_not_resolve_yet_has_a_lock_that_answers_no_pins(tmp_path: Path) -> None:
    (tmp_path / "versions.toml").write_text(PINS_TEXT)
    made = frozen(spoilt(system={"id": "debian", "version": "12"}))
    written = freezing.write(tmp_path, made, "mine", PINS)
    assert LockFile.load(written.lock).inputs == freezing.NO_INPUTS
    assert any("does not resolve as it stands" in line and "debian12" in line for line in made.review)
    parse(f"{PINS_TEXT}\n{written.stack.read_text()}")


# --- packages


def test_the_lock_has_all_that_lies_in_pythons_own_folders_but_sources_and_what_cann_and_apt_bring() -> None:
    assert [one.key for one in frozen().packages] == [
        *("liger-kernel", "numpy", "opencv-python-headless", "pip", "requests", "torch", "torch-npu", "urllib3"),
    ]


def test_pinned_is_what_no_package_asks_for_the_torch_family_and_what_was_forced() -> None:
    # numpy is asked for by opencv, and forced; urllib3 is asked for, and as it should be.
    assert [one.key for one in frozen().pinned] == [
        *("liger-kernel", "numpy", "opencv-python-headless", "requests", "torch", "torch-npu"),
    ]


def test_a_demand_that_is_not_met_is_lifted_and_one_for_nothing_is_excluded() -> None:
    stack = table(frozen())
    assert stack["relax"] == [
        {"whose": "opencv-python-headless", "demand": "numpy>=2", "reason": f"{REFERENCE} has numpy 1.26.4"}
    ]
    assert stack["exclude"] == {
        "triton": f"{REFERENCE} does not have it, though liger-kernel asks for it",
        "triton-ascend": f"{REFERENCE} does not have it, though CANN asks for it",
    }


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (package("numpy", "2.0.0"), "numpy is there twice: 1.26.4, which counts, and 2.0.0"),
        (package("odd", "not a version"), "odd-not a version.dist-info says no name and version"),
        (package("", "1.0"), "-1.0.dist-info says no name and version"),
        (package("mine", "1", editable="/work"), "mine 1 is installed from /work, which is no git checkout"),
    ],
)
def test_what_no_lock_can_hold_is_left_out_and_said(other: dict[str, Any], said: str) -> None:
    made = frozen(with_packages(other))
    assert [line for line in made.review if said in line]
    assert {one.key for one in made.packages} == {one.key for one in frozen().packages}


def test_versions_are_locked_in_normal_form_and_odd_demands_are_passed_over() -> None:
    made = frozen(with_packages(package("Odd.Name", "1.0-1", "not a requirement !", "numpy; nonsense == '1'")))
    assert ("odd-name", "1.0.post1") in [(one.key, one.version) for one in made.packages]


# --- sources


def test_a_submodule_is_no_source_of_its_own() -> None:
    files = {**FILES, "/vllm/third_party/x/.git": "gitdir: ../../.git/modules/x", "/vllm/.git/modules/x/HEAD": OTHER}
    made = frozen(spoilt(python__paths=[SITE, "/vllm/third_party/x", "/vllm"]), files=files)
    assert [one.path for one in made.sources] == ["/vllm"]


def test_a_checkout_in_a_folder_of_the_system_is_given_another() -> None:
    facts = with_packages(package("x", "1", editable="/usr/src/x"))
    made = frozen(facts, files={**FILES, "/usr/src/x/.git/HEAD": COMMIT})
    assert [one.path for one in made.sources if one.name == "x"] == ["/x"]
    assert [line for line in made.review if "/usr/src/x, where no source may lie; /x is written" in line]
    assert [line for line in made.review if "sources.x: the checkout at /usr/src/x has no remote" in line]


def test_two_checkouts_of_one_name_are_told_apart() -> None:
    files = {**FILES, "/b/vllm/.git/HEAD": OTHER}
    made = frozen(spoilt(python__paths=[SITE, "/b/vllm", "/vllm"]), files=files)
    assert sorted(one.name for one in made.sources) == ["vllm", "vllm-2"]
    parse(f"{PINS_TEXT}\n{stack_text(made, 'mine', PINS)}")


@pytest.mark.parametrize(
    ("listed", "module"), [("fla\n", "fla"), ("gone\nvllm\n", "vllm"), ("a-b\n", "vllm"), ("", "vllm")]
)
def test_a_module_is_named_that_is_seen_in_the_checkout(listed: str, module: str) -> None:
    files = {**FILES, "/vllm/vllm.egg-info/top_level.txt": listed, "/vllm/src/fla/__init__.py": ""}
    assert [one.module for one in frozen(files=files).sources if one.name == "vllm"] == [module]


def test_a_module_that_is_seen_nowhere_is_asked_for() -> None:
    made = frozen(files={key: value for key, value in FILES.items() if not key.endswith("__init__.py")})
    assert [line for line in made.review if line.startswith("sources.vllm: which module is imported from it")]
    assert "module" not in table(made)["sources"]["vllm"]


@pytest.mark.parametrize(
    ("remote", "address", "said"),
    [
        ("https://github.com/a/b.git", "https://github.com/a/b", ""),
        ("https://me:secret@github.com/a/b", "https://github.com/a/b", ""),
        ("http://host:8080/a/b", "https://host:8080/a/b", ""),
        ("git@github.com:a/b.git", "https://github.com/a/b", ""),
        ("ssh://git@host:22/a/b.git", "https://host/a/b", ""),
        ("/srv/git/b", "", "has a remote that is no address of the web"),
        ("file:///srv/b", "", "has a remote that is no address of the web"),
        ("http://[broken", "", "has a remote that is no address of the web"),
        ("", "", ""),
    ],
)
def test_a_remote_is_told_as_an_https_address_without_a_password(remote: str, address: str, said: str) -> None:
    assert https_address(remote) == (address, said)


@given(st.text(max_size=60))
def test_any_remote_gives_an_address_without_a_user_or_none(remote: str) -> None:
    address, _ = https_address(remote)
    assert not address or (address.startswith("https://") and "@" not in address.split("/")[2])


def test_checkouts_are_looked_for_at_editable_distributions_and_where_python_looks() -> None:
    assert candidates(FACTS) == ("/vllm", "/Megatron-LM")


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, None),
        ({"/a/.git/HEAD": COMMIT}, FoundCheckout(path="/a", commit=COMMIT)),
        ({"/a/.git/HEAD": "nonsense"}, FoundCheckout(path="/a")),
        ({"/a/.git/HEAD": "ref: refs/heads/x"}, FoundCheckout(path="/a")),
        (
            {"/a/.git/HEAD": "ref: refs/heads/x", "/a/.git/packed-refs": f"{COMMIT} refs/heads/x\n"},
            FoundCheckout(path="/a", commit=COMMIT),
        ),
        (
            {"/a/.git/HEAD": COMMIT, "/a/.git/packed-refs": f"{COMMIT} refs/tags/v1\n{COMMIT} refs/heads/v2\n"},
            FoundCheckout(path="/a", commit=COMMIT, tag="v1"),
        ),
        (
            {"/a/.git/HEAD": COMMIT, "/a/.git/FETCH_HEAD": f"{COMMIT}\t\ttag 'v3' of https://x\n"},
            FoundCheckout(path="/a", commit=COMMIT, tag="v3"),
        ),
        ({"/a/.git": "gitdir: /w/.git/worktrees/a", "/w/.git/worktrees/a/HEAD": COMMIT},
         FoundCheckout(path="/a", commit=COMMIT)),
        ({"/a/.git": "gitdir: ../gone"}, None),
        ({"/a/.git/HEAD": COMMIT, "/a/.git/config": "nonsense ["}, FoundCheckout(path="/a", commit=COMMIT)),
    ],
)  # fmt: skip
def test_a_checkout_is_read_from_its_files(files: dict[str, str], found: FoundCheckout | None) -> None:
    assert checkout_around("/a/b/c", reader(files)) == found


# --- what it is


@pytest.mark.parametrize(
    "change", [{"python__version": ""}, {"cann__toolkit": []}, {"cann__toolkit": [{"version": "?"}]}]
)
def test_an_image_without_python_or_cann_is_no_start_of_a_stack(change: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"has no (Python|CANN release) that it says the version of"):
        frozen(spoilt(**change))


@pytest.mark.parametrize(
    ("chip", "device", "soc", "hardware"),
    [
        ("910b", "", "", "a2"),
        ("A3", "", "", "a3"),
        ("", "_310P", "", "310p"),
        ("", "", "ascend910_9391", "a3"),
        ("", "", "ascend1", ""),
        ("", "", "", ""),
    ],
)
def test_the_hardware_is_told_by_whatever_says_it(chip: str, device: str, soc: str, hardware: str) -> None:
    facts = spoilt(cann__ops=[{"chip": chip}], built_for={"device_type": device})
    made = frozen(facts, {"Env": [f"SOC_VERSION={soc}"]})
    assert made.hardware == hardware
    said = tomllib.loads(stack_text(made, "mine", PINS))
    assert ("variant" in said) == bool(hardware)
    assert any("for which hardware" in line for line in made.review) is not bool(hardware)


def test_a_release_that_the_pins_do_not_know_gets_a_table() -> None:
    made = frozen(spoilt(cann__toolkit=[{"version": "9.7.0"}]))
    text = stack_text(made, "mine", PINS)
    assert tomllib.loads(text)["cann"]["9.7.0"]["python_home"] == {"3.12": PREFIX}
    parse(f"{PINS_TEXT}\n{text}")


def test_a_release_is_spelt_as_the_pins_spell_it() -> None:
    assert frozen(spoilt(cann__toolkit=[{"version": "8.3.RC2"}])).cann == "8.3.rc2"


def test_a_setting_that_is_the_releases_own_or_a_list_is_left_out_and_a_secret_is_never_written() -> None:
    made = frozen()
    assert dict(made.env) == {"GREETING": 'say "ä" \\'}
    assert [line for line in made.review if "HF_TOKEN looks like a secret" in line]
    assert [line for line in made.review if line.startswith("env ATB_COMPARE_TILING_EVERY_KERNEL is '1'; for CANN")]
    assert "hunter2" not in stack_text(made, "mine", PINS) + "\n".join(made.review)


@given(st.dictionaries(st.from_regex(r"[A-Z]{4,8}", fullmatch=True), st.text(), max_size=4))
def test_any_value_of_a_setting_is_written_as_toml_that_says_it(values: dict[str, str]) -> None:
    made = frozen(config={"Env": [f"{key}={value}" for key, value in values.items()]})
    assert table(made).get("env", {}) == dict(made.env)


# --- names


@pytest.mark.parametrize("name", ["a2", "A2", "ms-swift", "UPPER", "a b", "-x", "x" * 65])
def test_a_name_that_is_taken_or_none_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match=f"--name {name}"):
        freezing.new_name(name, REFERENCE, PINS)


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("quay.io/ascend/ms-swift:v1", "frozen-ms-swift"),
        ("host:5000/x/Y_z@sha256:1", "frozen-y-z"),
        ("sha256:abc", "frozen-sha256"),
        ("", "frozen-image"),
    ],
)
def test_without_a_name_the_images_own_is_taken(reference: str, name: str) -> None:
    assert freezing.new_name("", reference, PINS) == name
