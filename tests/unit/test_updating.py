"""`invoke outdated` from pins to what people read: newer versions, what each would break, who gave no answer."""

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ascend_images.errors import BadInput, LookupIncomplete
from ascend_images.lock.means import Means
from ascend_images.lock.newer import Subject
from ascend_images.lock.outdated import subjects
from ascend_images.lock.way import Way
from ascend_images.pins import report
from ascend_images.pins.model import Mirror
from ascend_images.selection import PINS_FILE, Selection, select
from ascend_images.trial import RESOLVE_SECONDS, Broken, Trial, _settings
from ascend_images.update_report import as_text
from ascend_images.updating import Outdated, Room, _room, found_updates, outdated
from tests.lock_kit import Newest, real
from tests.outdated_kit import Listing, hosts
from tests.remotes import FakeGit

GIT = "https://git.example.invalid/"
#: A stack of a few packages and two sources; what it asks for is written down, so that no file has to be read.
PINS = """\
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

[series."8.1"]
[series."9.1"]

[cann."8.1.rc1"]
bases = [{ chips = ["910b"], os = ["ubuntu22.04"], python = ["3.11"] }]
python_home = { "3.11" = "/usr/local/python3.11.12" }

[cann."9.1.0"]
bases = [{ chips = ["910b"], os = ["ubuntu22.04"], python = ["3.11"] }]
python_home = { "3.11" = "/usr/local/python3.11.15" }

[stack.base]
repository = "example.invalid/small"
tag = "{cann}-{cann_tag}-{os}-py{python}"
cann = "8.1.rc1"
os = "ubuntu22.04"
python = "3.11"

[stack.base.packages]
numpy = "1.26.4"
opencv-python-headless = "4.11.0.86"  # C33

[stack.small]
extends = "base"
tag = "small-{cann}-{cann_tag}-{os}-py{python}"

[stack.small.packages]
six = "1.0"

[stack.small.sources.vllm]
git = "https://git.example.invalid/vllm"
ref = "v0.18.0"
path = "/vllm"
module = "vllm"
declares = ["six<2"]

[stack.small.sources.moving]
git = "https://git.example.invalid/moving"
ref = "main"
path = "/moving"
module = "moving"

[variant.small]
stack = "small"
hardware = "a2"
platforms = ["arm64"]

[variant.base]
stack = "base"
hardware = "a2"
platforms = ["arm64"]
"""
LOCK = """\
schema = 1

[[git]]
repository = "https://git.example.invalid/moving"
ref = "main"
kind = "branch"
commit = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
learned = 2026-11-30
how = "git ls-remote"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / PINS_FILE).write_text(PINS)
    (tmp_path / "versions.lock").write_text(LOCK)
    return tmp_path


@pytest.fixture
def index() -> Listing:
    made = Listing()
    made.add("numpy==1.26.4").add("numpy==1.26.5").add("numpy==2.2.6")
    made.add("opencv-python-headless==4.11.0.86", "numpy>=1.21").add("opencv-python-headless==4.12.0.88", "numpy>=2")
    return made.add("six==1.0").add("six==1.9").add("six==2.1").add("six==2.2rc1")


@pytest.fixture
def git() -> FakeGit:
    made = FakeGit()
    for name in ("v0.18.0", "v0.19.0", "v0.20.0rc1"):
        made.tag(f"{GIT}vllm", name, "c" * 40)
    made.branch(f"{GIT}moving", "main", "b" * 40)
    return made


@pytest.fixture
def room(project: Path, index: Listing, git: FakeGit) -> Room:
    tags = ("8.1.rc1-910b-ubuntu22.04-py3.11", "9.1.0-910b-ubuntu22.04-py3.11", "9.2.0-910b-ubuntu22.04-py3.11")
    means = Means(packages=index, resolver=Newest(index), cache=project / "cache")
    return Room(hosts=hosts(index, git, cann=tags), means=means)


@pytest.fixture
def ask(project: Path, room: Room) -> Callable[..., Outdated]:
    return functools.partial(asked, project, room)


def asked(project: Path, room: Room, *names: str, **fields: Any) -> Outdated:
    return found_updates(chosen(project, *names), replace(room, **fields))


def chosen(project: Path, *names: str) -> Selection:
    return select(project, names, everything=not names, allow_broken=True)


def by_name(found: Outdated) -> dict[str, Any]:
    return {update.name: update for update in found.updates}


def test_everything_that_is_newer_and_what_it_would_break_as_people_read_it(
    ask: Callable[..., Outdated], golden: Callable[[str, str], None]
) -> None:
    found = ask()
    found.require()
    golden("updates/outdated.txt", as_text(found) + "\n")
    golden("updates/outdated.json", report.as_json(found) + "\n")


def test_a_numpy_that_comes_in_with_another_package_is_told_before_anyone_tries(ask: Callable[..., Outdated]) -> None:
    """CANN 8.1 needs numpy below 2; opencv 4.12 asks for numpy 2, and the pin is in its way."""
    updates = by_name(ask("base"))
    opencv = updates["opencv-python-headless"]
    assert opencv.newest == "4.12.0.88"
    assert opencv.breaks == (
        Broken(
            rule="demand",
            message="numpy is pinned to 1.26.4; opencv-python-headless 4.12.0.88 asks for numpy>=2 (its own metadata)",
            variants=("base",),
        ),
    )
    assert opencv.fitting == ""
    numpy = updates["numpy"]
    assert [broken.rule for broken in numpy.breaks] == ["numpy-cann"]
    assert "CANN's installation guides" in numpy.breaks[0].message
    assert (numpy.newest, numpy.fitting) == ("2.2.6", "1.26.5")
    assert numpy.bump == "invoke bump base.numpy 1.26.5"


def test_what_a_source_asks_for_speaks_against_a_newer_package(ask: Callable[..., Outdated]) -> None:
    six = by_name(ask("small"))["six"]
    asked_there = "vllm 0.18.0 asks for six<2 (versions.toml sources.vllm.declares)"
    assert six.breaks[0].message == f"six is pinned to 2.1; {asked_there}"
    assert six.fitting == "1.9"
    assert six.prerelease == "2.2rc1"


def test_a_cann_release_that_versions_toml_does_not_know_is_told_as_what_it_is(ask: Callable[..., Outdated]) -> None:
    cann = by_name(ask("base"))["cann"]
    assert cann.newest == "9.2.0"
    assert cann.breaks == (
        Broken(
            rule="pins",
            message='unknown CANN release "9.2.0"',
            wanted='a table [cann."9.2.0"] in versions.toml',
            variants=("base",),
        ),
    )
    assert (cann.fitting, cann.bump) == ("9.1.0", "invoke bump base.cann 9.1.0")


def test_nothing_newer_is_told_in_one_line(
    ask: Callable[..., Outdated], room: Room, index: Listing, git: FakeGit
) -> None:
    index.releases = {key: files for key, files in index.releases.items() if key[2] in ("1.26.4", "4.11.0.86", "1.0")}
    git.tags = {f"{GIT}vllm": {"v0.18.0": git.tags[f"{GIT}vllm"]["v0.18.0"]}}
    git.branches = {f"{GIT}moving": {"main": "a" * 40}}
    found = ask(hosts=hosts(index, git, cann=("8.1.rc1-910b-ubuntu22.04-py3.11",)))
    found.require()
    assert as_text(found) == "nothing is newer than the pins of small, base"


def test_whoever_gives_no_answer_is_listed_and_the_exit_code_says_so(
    ask: Callable[..., Outdated], index: Listing, git: FakeGit
) -> None:
    git.down = {f"{GIT}vllm": "its host name is not known here"}
    found = ask()
    assert found.not_reached == {f"{GIT}vllm: its host name is not known here": ("vllm v0.18.0",)}
    assert "not reached\n  https://git.example.invalid/vllm: its host name is not known here\n" in as_text(found)
    assert by_name(found)["numpy"].newest == "2.2.6", "the others answered"
    with pytest.raises(LookupIncomplete) as error:
        found.require()
    assert error.value.exit_code == 6


def test_sources_whose_files_cannot_be_read_are_told_and_packages_are_held_against_what_is_written_down(
    project: Path, ask: Callable[..., Outdated], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any, **__: Any) -> Any:
        raise LookupIncomplete("vllm: could not be read")

    monkeypatch.setattr("ascend_images.trial.read_demands", lost)
    found = ask()
    assert list(found.not_reached.values()) == [("what vllm, moving of small ask for",)]
    assert [broken.rule for broken in by_name(found)["six"].breaks] == ["demand"], "vllm declares six<2"
    assert by_name(found)["opencv-python-headless"].breaks[0].rule == "demand"


# --- resolution -------------------------------------------------------------------------------------------------------


def refusing(error: Exception) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise error

    return refuse


@pytest.mark.parametrize(
    ("error", "known"), [(BadInput("small: a contradiction"), True), (LookupIncomplete("git is down"), False)]
)
def test_what_only_resolution_shows_is_told_where_it_was_asked_for(
    ask: Callable[..., Outdated], monkeypatch: pytest.MonkeyPatch, error: Any, known: bool
) -> None:
    monkeypatch.setattr("ascend_images.trial.lock_variant", refusing(error))
    assert by_name(ask("small"))["vllm"].breaks == ()
    vllm = by_name(ask("small", resolves=True))["vllm"]
    assert vllm.breaks == (Broken(rule="resolution", message=error.found, known=known, variants=("small",)),)


def test_no_resolution_is_begun_when_its_time_is_up(project: Path, room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ascend_images.trial.lock_variant", refusing(AssertionError("it was begun")))
    selection = chosen(project, "small")
    times = iter([0.0, RESOLVE_SECONDS + 1.0])
    trial = Trial(selection=selection, means=room.means, resolves=True, clock=lambda: next(times))
    (vllm,) = [one for one in subjects(selection.variants, lambda _: {}) if one.name == "vllm"]
    assert trial.breaks(vllm, "v0.19.0") == ()
    assert trial.not_tried == ["vllm v0.19.0 in small"]


def test_torch_is_tried_with_what_is_built_against_it() -> None:
    def settings(name: str, version: str) -> set[str]:
        pinned = real("a2").packages[name]
        return set(_settings(Subject(kind="package", name=name, pinned=pinned, variants=(real("a2"),)), version))

    assert settings("torch", "2.9.0") == {
        "packages.torch=2.9.0", "packages.torchvision=0.24.0", "packages.torchaudio=2.9.0",
    }  # fmt: skip
    assert settings("torchvision", "0.26.0") == {
        "packages.torch=2.10.0", "packages.torchvision=0.26.0", "packages.torchaudio=2.10.0",
    }  # fmt: skip
    assert settings("peft", "9") == {"packages.peft=9"}


def test_a_mirror_is_advised_only_where_none_was_chosen(ask: Callable[..., Outdated], room: Room, git: FakeGit) -> None:
    git.down = {f"{GIT}vllm": "its host name is not known here"}
    way = Way("cn", Mirror(git={GIT: "https://m.example/gh/"}))
    found = ask(hosts=replace(room.hosts, way=way))
    assert list(found.not_reached) == [
        f"{GIT}vllm (asked by way of mirror cn: https://m.example/gh/vllm): its host name is not known here"
    ]
    assert found.mirror == "cn"
    with pytest.raises(LookupIncomplete) as by_mirror:
        found.require()
    assert by_mirror.value.do == "the same again once they can be reached"
    with pytest.raises(LookupIncomplete) as direct:
        ask().require()
    assert direct.value.do.endswith("or by way of a mirror: --mirror NAME")


def test_the_room_is_by_way_of_the_mirror_and_knows_where_pins_stand(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ascend_images.lock.means.require_checked_hosts", lambda _: None)
    way = Way("cn", Mirror(git={GIT: "https://m.example/gh/"}, index={"default": "https://m.example/simple"}))
    made = _room(chosen(project), way, False, lambda _: None)
    assert made.hosts.way == made.means.way == way
    assert made.hosts.addresses == {"default": "https://m.example/simple"}
    (small,) = chosen(project, "small").variants
    assert made.means.places(small, "packages", "numpy") == "versions.toml stack.base.packages"


def test_an_unknown_mirror_is_an_error_with_the_nearest_name(project: Path) -> None:
    with pytest.raises(BadInput, match='unknown mirror "cn"'):
        outdated(chosen(project), mirror="cn", say=lambda _: None)
