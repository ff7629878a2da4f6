"""From a command line to plans: names of what is changed, what is never pushed, and what must be current."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path

import pytest

from ascend_images.errors import BadInput, CheckFailed, PublishRefused
from ascend_images.images.cache import Cache
from ascend_images.images.plan import BuildPlan, Choices
from ascend_images.images.rendered import image_json_path, write_rendered
from ascend_images.pins.platform import Arch
from ascend_images.pins.resolve import resolve
from ascend_images.pins.versions_lock import LockedBase, VersionsLock
from ascend_images.planning import Wishes, name_suffix, plans_for
from ascend_images.selection import select
from tests.pins_kit import committed, committed_in

ROOT = Path(__file__).parents[2]
PUSH = Choices(push=True)
PINS = committed()
A2, VERL = (resolve(PINS, name).repository for name in ("a2", "a2-verl"))
OTHER = "quay.io/ascend/cann:9.1.0-910b-openeuler24.03-py3.12"

MINE = "tag={cann_tag}-{os}-mine"

Plan = Callable[..., BuildPlan]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with the committed pins, locks and rendered files of variant a2."""
    committed_in(tmp_path)
    (tmp_path / "locks").mkdir()
    for path in (ROOT / "locks").glob("a2.*"):
        shutil.copy(path, tmp_path / "locks")
    write_rendered(tmp_path, [resolve(PINS, "a2")])
    return tmp_path


@pytest.fixture
def plan(folder: Path) -> Plan:
    """Makes the plan of a2 as a command line would."""

    def make(
        *sets: str,
        choices: Choices | None = None,
        base_image: str = "",
        sources: Mapping[str, Path] | None = None,
        sandbox: bool = False,
    ) -> BuildPlan:
        wishes = Wishes(
            arches=(Arch.AMD64,),
            choices=choices or Choices(),
            sources=sources or {},
            contexts=(lambda *_: {"cann": "docker-image://stand-in:1"}) if sandbox else None,
        )
        (one,) = plans_for(select(folder, ("a2",), sets=sets, base_image=base_image), wishes)
        return one

    return make


@pytest.fixture
def checkout(folder: Path) -> Path:
    """A git checkout that calls itself vllm."""
    top = folder / "vllm"
    top.mkdir()
    (top / "pyproject.toml").write_text('[project]\nname = "vllm"\n')
    git = ["git", "-C", str(top), "-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "--all"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "x"], check=True)
    return top


def test_what_the_pins_say_has_their_name_and_may_be_pushed(plan: Plan) -> None:
    assert plan().suffix == ""
    assert plan(choices=PUSH).suffix == ""


def test_a_change_that_changes_nothing_is_none(plan: Plan) -> None:
    one = plan("vllm=0.23.0", "python=3.12", choices=PUSH)
    assert one.image == plan(choices=PUSH).image
    assert one.local_image == plan().image


@pytest.mark.parametrize(
    ("sets", "base_image"),
    [
        (("evalscope=1.11.0",), ""),
        (("env.MODELSCOPE_CACHE=/x",), ""),
        (("release=false",), ""),
        (("soc_version=ascend910b4",), ""),
        # By its tag this is the other variant a2-openeuler, which the pins say otherwise.
        (("os=openeuler24.03", "evalscope=1.11.0"), ""),
        ((), OTHER),
    ],
)
def test_changed_pins_never_get_a_pinned_name(plan: Plan, sets: tuple[str, ...], base_image: str) -> None:
    one = plan(*sets, base_image=base_image)
    assert one.tag.endswith("-changed")
    with pytest.raises(PublishRefused, match="is the name of what") as error:
        plan(*sets, base_image=base_image, choices=PUSH)
    own = [word.replace("NAME", "mine") for word in shlex.split(error.value.do.partition(",")[0])]
    assert plan(*sets, own[1], base_image=base_image, choices=PUSH).tag == one.tag.replace("-changed", "-mine")


@pytest.mark.parametrize(
    "name", ["tag={ms-swift}-{cann_tag}-{os}-mine", "tag={cann_tag}-{os}-mine", "repository=registry.example/team/x"]
)
def test_changed_pins_with_a_name_of_their_own_are_pushed_under_it(plan: Plan, name: str) -> None:
    one = plan("evalscope=1.11.0", name, choices=PUSH)
    assert one.suffix == ""
    assert "mine-x86_64" in one.local_image or one.local_image.startswith("registry.example/team/x:")
    assert one.image.startswith(f"{one.variant.repository}:candidate-a2-")
    assert one.image != plan("evalscope=1.11.0", f"{name}2", choices=PUSH).image, "of other pins"


PINNED = f"sha256:{'1' * 64}"


@pytest.fixture
def digest_of_base(folder: Path) -> None:
    """Has versions.lock know the digest of a2's base."""
    base = LockedBase(
        image="quay.io/ascend/cann:9.1.0-910b-ubuntu22.04-py3.12",
        index=PINNED,
        platforms={"linux/amd64": f"sha256:{'2' * 64}"},
        learned=date(2026, 11, 30),
        how="a test",
    )
    path = folder / "versions.lock"
    path.write_text(str(VersionsLock.load(path).having(base)))
    write_rendered(folder, select(folder, ("a2",)).variants)


BASES = [
    "evil.example/any:mine",
    f"evil.example/any:mine@sha256:{'3' * 64}",
    "mirror.example/cann:9.1.0-910b-ubuntu22.04-py3.12",
]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("known", [True, False])
def test_a_base_from_elsewhere_is_a_change_unless_it_is_the_pinned_digest(
    plan: Plan, base: str, known: bool, request: pytest.FixtureRequest
) -> None:
    if known:
        request.getfixturevalue("digest_of_base")
    assert plan(base_image=base, choices=Choices(base_image=base)).image, "what stays here is named as it was"
    pushed = Choices(push=True, base_image=base)
    with pytest.raises(PublishRefused, match="is the name of what") as error:
        plan(base_image=base, choices=pushed)
    assert error.value.exit_code == 7
    assert plan(MINE, base_image=base, choices=pushed).suffix == "", "under a name of its own"


def test_the_pinned_base_from_another_place_is_no_change(plan: Plan, digest_of_base: None) -> None:
    base = f"registry.example/cann:9.1.0-910b-ubuntu22.04-py3.12@{PINNED}"
    one = plan(base_image=base, choices=Choices(push=True, base_image=base))
    assert (one.suffix, one.base) == ("", base)
    assert one.image == plan(choices=PUSH).image


@pytest.mark.subprocess
def test_a_local_checkout_is_a_change(plan: Plan, checkout: Path) -> None:
    sources = {"vllm": checkout}
    assert plan(sources=sources).tag.endswith("-changed")
    with pytest.raises(PublishRefused, match="--source"):
        plan(sources=sources, choices=PUSH)
    one = plan(MINE, sources=sources, choices=PUSH)
    assert one.tag == "910b-ubuntu22.04-mine"
    assert one.image != plan(MINE, choices=PUSH).image, "of another commit"


@pytest.mark.subprocess
def test_what_is_not_committed_is_not_pushed(plan: Plan, checkout: Path) -> None:
    (checkout / "new.py").write_text("x = 1\n")
    assert plan(MINE, sources={"vllm": checkout}).sources[0].dirty
    with pytest.raises(PublishRefused, match="the checkout of vllm holds more than its commit") as error:
        plan(MINE, sources={"vllm": checkout}, choices=PUSH)
    assert error.value.do == "commit it there, or leave --push out"


@pytest.mark.parametrize("place", ["", f"{A2}:cache-mine", "registry.example/x:buildcache"])
def test_a_cache_goes_to_a_tag_that_is_no_images(plan: Plan, place: str) -> None:
    choices = Choices(cache_to=(Cache(type="registry", place=place),))
    assert plan(choices=choices).choices is choices


@pytest.mark.parametrize("place", [f"{A2}:latest", f"{VERL}:1.0"])
def test_a_cache_never_takes_an_images_tag(plan: Plan, place: str) -> None:
    with pytest.raises(BadInput, match="images have their tags there"):
        plan(choices=Choices(cache_to=(Cache(type="registry", place=place),)))


def test_the_cache_of_stand_ins_stays_on_this_machine(plan: Plan) -> None:
    own = Choices(cache_to=(Cache(type="registry"),))
    with pytest.raises(PublishRefused, match=f"the cache of stand-ins would go to {re.escape(A2)}"):
        plan(sandbox=True, choices=own)
    assert plan("repository=localhost:5000/x", sandbox=True, choices=own).choices is own
    assert plan(sandbox=True, choices=Choices(cache_to=(Cache(type="local", place="/x"),)))


def test_the_name_of_a_build_can_be_asked_for_without_one(folder: Path) -> None:
    for sets, suffix in (((), ""), (("evalscope=1.11.0",), "-changed"), ((MINE,), "")):
        selection = select(folder, ("a2",), sets=sets)
        assert name_suffix(selection, selection.variants[0]) == suffix
    assert name_suffix(selection, selection.variants[0], sandbox=True) == "-sandbox"


def test_stand_ins_have_a_name_of_their_own_and_stay_on_this_machine(plan: Plan) -> None:
    assert plan(sandbox=True).tag.endswith("-py3.12-sandbox")
    assert plan("repository=localhost:5000/x", sandbox=True, choices=PUSH).image.startswith("localhost:5000/x:")
    for sets in ((), (MINE,), ("repository=registry.example/x",)):
        with pytest.raises(PublishRefused, match="stand-ins"):
            plan(*sets, sandbox=True, choices=PUSH)


def test_stand_ins_are_not_made_for_what_is_not_pushed(folder: Path) -> None:
    def never(*_: object) -> dict[str, str]:
        raise AssertionError("stand-ins were made")

    with pytest.raises(PublishRefused):
        plans_for(select(folder, ("a2",)), Wishes(choices=PUSH, contexts=never))


def test_the_dockerfile_is_the_same_with_stand_ins(plan: Plan) -> None:
    assert plan(sandbox=True).rendered == plan().rendered


def test_wheels_of_ones_own_beside_stand_ins_are_refused(plan: Plan, folder: Path) -> None:
    with pytest.raises(BadInput, match="--sandbox with --wheels"):
        plan(sandbox=True, choices=Choices(wheels=folder))


@pytest.mark.parametrize("suffix", [".Dockerfile", ".image.json"])
def test_a_rendered_file_that_is_out_of_date_stops_a_build(plan: Plan, folder: Path, suffix: str) -> None:
    path = folder / "dockerfiles" / "rendered" / f"a2{suffix}"
    path.write_text(path.read_text().replace("2.10.0.post4", "2.10.0.post3"))
    with pytest.raises(CheckFailed, match=f"a2{suffix} is out of date") as error:
        plan()
    assert error.value.do == "invoke render --variant a2"
    path.unlink()
    with pytest.raises(CheckFailed, match="is missing"):
        plan()


def test_changed_pins_do_not_ask_for_the_committed_files(plan: Plan, folder: Path) -> None:
    image_json_path(folder, "a2").unlink()
    assert plan("evalscope=1.11.0").rendered.facts == folder / "build" / "facts" / "a2"


def test_what_versions_lock_does_not_know_is_told_unless_something_else_is_built(plan: Plan, folder: Path) -> None:
    told = [one.found for one in plan().unanswered]
    assert "sources.vllm.ref is v0.23.0, not locked" in told
    assert any(text.startswith("the base image is quay.io/ascend/cann:9.1.0-910b") for text in told)
    stand_ins = plan(sandbox=True).unanswered
    assert not [one for one in stand_ins if one.about == "base image"], "a context brings it"


def test_a_ref_that_is_locked_as_another_is_named(plan: Plan, folder: Path) -> None:
    path = folder / "versions.lock"
    path.write_text(path.read_text().replace('ref = "v4.5.2"', 'ref = "v4.5.1"'))
    with pytest.raises(CheckFailed):
        plan()
    write_rendered(folder, select(folder, ("a2",)).variants)
    moved = [one.found for one in plan().unanswered if one.state == "moved"]
    assert moved == ["sources.ms-swift.ref is v4.5.2, locked v4.5.1"]
