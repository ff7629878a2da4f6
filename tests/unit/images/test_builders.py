"""The builders of one call: how each is reached, what is refused, what each costs, and when one is given up."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ascend_images.errors import BadInput, MissingTool
from ascend_images.images.builder import Builder
from ascend_images.images.builders import (
    CostsOn,
    Site,
    costs_on,
    fault_of,
    find_sites,
    require_one_place,
    require_sites,
    require_stand_ins,
    work_of,
    workers_of,
)
from ascend_images.images.cost import GB
from ascend_images.images.engine import Answer
from ascend_images.images.gate import load_lock
from ascend_images.images.plan import Choices, with_shared_packages
from ascend_images.pins.platform import Arch
from tests.unit.images.test_cost import ENGINE, OWN

DOWN = "Cannot connect to the Docker daemon at tcp://there:2375. Is the docker daemon running?"
ARM = Builder("arm", "docker", frozenset({"linux/arm64"}), frozenset({"linux/arm64"}))
PUSHED = Choices(push=True)


class Docker:
    """A client whose contexts `default` and `farm` lead to engines, and `gone` to none; `tcp` is a remote builder."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.nodes = {"default": "linux/amd64", "farm": "linux/arm64"}
        self.remote = "inactive"
        self.memory = {"default": 24 * GB, "farm": 8 * GB}

    def __call__(self, command: Sequence[str]) -> Answer:
        self.asked.append(list(command))
        words = list(command[1:])
        context = words[1] if words[0] == "--context" else "default"
        words = words[2:] if words[0] == "--context" else words
        match words:
            case ["context", "show"]:
                return Answer(0, "default\n", "")
            case ["context", "inspect", *_]:
                return Answer(0, f"tcp://{context}:2375\n", "")
            case ["info", *_]:
                return self._info(context)
            case ["buildx", "inspect", "--bootstrap", "tcp"]:
                return Answer(
                    0 if self.remote == "running" else 1, "", "#1 waiting\nERROR: context deadline exceeded\n"
                )
            case ["buildx", "inspect", name]:
                return self._inspect(name)
        return Answer(1, "", "no such image")

    def _info(self, context: str) -> Answer:
        if context not in self.nodes:
            return Answer(1, json.dumps({"ServerVersion": "", "ServerErrors": [DOWN]}), "")
        info = {
            "ServerVersion": "26.1.5",
            "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]],
            "MemTotal": self.memory[context],
            "ClientInfo": {"Context": context, "Plugins": [{"Name": "buildx", "Version": "v0.13.1"}]},
        }
        return Answer(0, json.dumps(info), "")

    def _inspect(self, name: str) -> Answer:
        if name in self.nodes:
            head = f"Name: {name}\nDriver: docker\n\nNodes:\nName: {name}\nStatus: running\n"
            return Answer(0, f"{head}Platforms: {self.nodes[name]}\n", "")
        if name == "gone" or name in self.memory:
            # As buildx 0.13.1 says it, and ends well.
            return Answer(0, f"Name:   {name}\nDriver: \nError:  {DOWN}\n", "")
        if name == "tcp":
            platforms = "Platforms: linux/arm64\n" if self.remote == "running" else ""
            text = f"Name: tcp\nDriver: remote\n\nNodes:\nName: tcp0\nStatus: {self.remote}\n{platforms}"
            return Answer(0, text, "")
        return Answer(1, "", f'ERROR: no builder "{name}" found\n')


def sites(*builders: Builder, jobs: int = 2) -> list[Site]:
    """Sites of builders that are given; each but the first behind a context of its own."""
    return [
        Site(builder=one, engine=replace(ENGINE, context=one.name), context=one.name if number else "", jobs=jobs)
        for number, one in enumerate(builders)
    ]


def test_without_a_name_the_engine_in_use_builds() -> None:
    (site,) = find_sites((), images=9, run=Docker())
    assert (site.name, site.context, site.jobs, site.docker) == ("default", "", 3, ["docker"])


def test_a_docker_context_builds_by_its_own_engine_with_as_many_jobs_as_that_has_memory_for() -> None:
    docker = Docker()
    here, farm = find_sites(("default", "farm"), images=9, run=docker)
    assert (here.context, here.jobs) == ("", 3)
    assert (farm.context, farm.jobs, farm.engine.context) == ("farm", 1, "farm")
    assert farm.builder.natives == {"linux/arm64"}
    farm.runner(docker)(["docker", "image", "inspect", "x"])
    assert docker.asked[-1] == ["docker", "--context", "farm", "image", "inspect", "x"]


def test_jobs_that_are_typed_are_those_of_each_builder_and_a_name_counts_once() -> None:
    assert [site.jobs for site in find_sites(("farm", "default", "farm"), jobs=5, run=Docker())] == [5, 5]


def test_an_engine_in_use_that_does_not_answer_is_not_needed_where_another_one_builds() -> None:
    docker = Docker()
    del docker.nodes["default"]
    (site,) = find_sites(("farm",), run=docker)
    assert site.context == "farm"


def test_a_remote_builder_is_connected_to_before_anything_is_built() -> None:
    docker = Docker()
    docker.remote = "running"
    (site,) = find_sites(("tcp",), run=docker)
    assert site.builder.natives == {"linux/arm64"}
    assert not site.builder.is_own
    assert site.context == ""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gone", f'--builder "gone" does not answer: {DOWN}'),
        ("tcp", '--builder "tcp" does not answer: context deadline exceeded'),
        ("nope", '--builder "nope": no builder "nope" found'),
    ],
)
def test_a_builder_that_is_not_there_is_told(name: str, said: str) -> None:
    with pytest.raises(MissingTool) as error:
        find_sites(("default", name), run=Docker())
    assert error.value.found == said
    assert error.value.exit_code == 3


def test_all_that_do_not_answer_are_told_at_once() -> None:
    with pytest.raises(MissingTool) as error:
        find_sites(("gone", "default", "nope"), run=Docker())
    assert [line.partition(" does")[0] for line in error.value.found.splitlines()] == [
        '--builder "gone"',
        '--builder "nope": no builder "nope" found',
    ]


def test_images_that_would_be_left_on_two_engines_are_refused_unless_they_are_pushed(plan_of) -> None:
    both = sites(OWN, ARM)
    with pytest.raises(BadInput, match=r"left on the engine that built it \(arm, default\)") as error:
        require_one_place([plan_of()], both)
    assert error.value.do == "--builder default --builder arm --push"
    require_one_place([plan_of(choices=PUSHED)], both)
    require_one_place([plan_of()], both[1:])


def test_builders_that_hand_their_images_to_the_engine_in_use_need_no_push(plan_of) -> None:
    one = Builder("k", "kubernetes")
    require_one_place([plan_of()], [Site(builder=OWN, engine=ENGINE), Site(builder=one, engine=ENGINE)])


def test_an_architecture_that_one_builder_has_needs_no_word_and_one_that_none_has_does(plan_of) -> None:
    plans = [plan_of("a2", Arch.AMD64), plan_of("a2", Arch.ARM64)]
    require_sites(plans, sites(OWN, ARM))
    with pytest.raises(BadInput, match="a machine of another architecture"):
        require_sites(plans, sites(OWN, replace(OWN, name="other")))
    require_sites([plan_of("a2", Arch.ARM64, choices=Choices(arch_typed=True))], sites(OWN))
    with pytest.raises(MissingTool, match="cannot run x86_64 programs"):
        require_sites([plan_of("a2", Arch.AMD64, choices=Choices(arch_typed=True))], sites(ARM))


def test_a_builder_that_lacks_the_stand_ins_is_told_with_the_way_to_hand_them_over(plan_of) -> None:
    base = "ascend-images-sandbox/cann:x"
    plans = [plan_of(contexts={"cann": f"docker-image://{base}"}, suffix="-sandbox")]
    with pytest.raises(MissingTool, match=f'--builder "arm" has no {base}') as error:
        require_stand_ins(plans, sites(OWN, ARM), lambda _: Answer(1, "", ""))
    assert error.value.do == f"docker image save {base} | docker --context arm image load"
    require_stand_ins(plans, sites(OWN, ARM), lambda _: Answer(0, "", ""))
    other = Site(builder=Builder("far", "remote"), engine=ENGINE)
    with pytest.raises(MissingTool) as error:
        require_stand_ins(plans, [other], lambda _: Answer(0, "", ""))
    assert error.value.do == "leave --builder far out"
    require_stand_ins([plan_of()], [other], lambda _: Answer(1, "", ""))


def test_variants_of_one_stack_have_their_packages_and_the_base_of_those_in_common(plan_of) -> None:
    shared = with_shared_packages([plan_of("a2"), plan_of("a3"), plan_of("a2-openeuler")])
    works = [work_of(plan, load_lock(plan)) for plan in shared]
    common = works[0].parts.keys() & works[1].parts.keys()
    assert ("base", shared[0].contexts["packages-base"].removeprefix("docker-image://")) in common
    assert any(part[0] == "packages" for part in common)  # type: ignore[index]
    assert ("base", shared[2].base) not in common
    assert all(size > 0 for work in works for part, size in work.parts.items() if part[0] == "base")  # type: ignore[index]


def test_what_a_builder_has_is_asked_of_its_own_engine(plan_of) -> None:
    plan = plan_of(choices=PUSHED)
    asked: list[list[str]] = []

    def run(command: Sequence[str]) -> Answer:
        asked.append(list(command))
        return Answer(0 if "arm" in command and command[-1] == plan.base else 1, "", "")

    here, arm = workers_of([plan], [load_lock(plan)], sites(OWN, ARM), run)
    assert (here.held, arm.held) == (frozenset(), {("base", plan.base)})
    assert ["docker", "--context", "arm", "image", "inspect", "--format", "{{.Id}}", plan.base] in asked


def test_costs_are_told_of_each_image_once_and_of_each_builder(plan_of, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [plan_of("a2", choices=PUSHED), plan_of("a2", Arch.ARM64, choices=PUSHED)]
    locks = [load_lock(plan) for plan in plans]
    costs = costs_on(sites(OWN, ARM), plans, locks, run=lambda _: Answer(1, "", ""))
    assert [line.partition(" about")[0] for line in costs.said] == [
        "cost: a2 amd64:",
        "cost: a2 arm64:",
        "builder default: if it built all: cost:",
        "builder arm: if it built all: cost:",
    ]
    costs.require_room()
    monkeypatch.setattr("ascend_images.images.cost.free_bytes", lambda _: GB)
    with pytest.raises(MissingTool, match=r"has 1\.0 GB free"):
        costs_on(sites(OWN, ARM), plans, locks, run=lambda _: Answer(1, "", "")).require_room()


def test_an_image_costs_nothing_on_a_builder_that_would_emulate_it_where_another_one_need_not(
    plan_of, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Typed architectures allow emulation; the schedule still gives an image to a machine of its own first."""
    choices = Choices(push=True, arch_typed=True)
    plans = [plan_of("a2", Arch.ARM64, choices=choices)]
    emulator = replace(OWN, platforms=OWN.natives | {"linux/arm64"})
    monkeypatch.setattr(
        "ascend_images.images.cost.free_bytes", lambda engine: GB if engine.context == "default" else None
    )

    def costs(*builders: Builder) -> CostsOn:
        return costs_on(sites(*builders), plans, [load_lock(plans[0])], run=lambda _: Answer(1, "", ""))

    both = costs(emulator, ARM)
    assert [line.partition(" about")[0] for line in both.said] == [
        "cost: a2 arm64:",
        "builder arm: if it built all: cost:",
    ]
    assert "EMULATED" not in "\n".join(both.said)
    both.require_room()
    alone = costs(emulator)
    assert "EMULATED" in "\n".join(alone.said)
    with pytest.raises(MissingTool, match="free"):
        alone.require_room()


def test_a_builder_needs_room_for_the_largest_image_where_others_take_the_rest(
    plan_of, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = [plan_of("a2", choices=PUSHED), plan_of("a3", choices=PUSHED)]
    locks = [load_lock(plan) for plan in plans]
    monkeypatch.setattr("ascend_images.images.cost.free_bytes", lambda _: 40 * GB)
    two = sites(OWN, replace(OWN, name="other"))
    total = costs_on(two, plans, locks, run=lambda _: Answer(1, "", ""))
    need = total.each[0][1]
    assert max(cost.disk for cost in need.images) < 40 * GB < need.disk
    total.require_room()
    with pytest.raises(MissingTool, match="free"):
        costs_on(two[:1], plans, locks, run=lambda _: Answer(1, "", "")).require_room()


def test_a_builder_that_answers_has_no_fault() -> None:
    docker = Docker()
    docker.remote = "running"
    assert [fault_of(site, docker) for site in find_sites(("default", "farm", "tcp"), run=docker)] == ["", "", ""]


def test_a_builder_that_is_gone_is_told_in_dockers_words() -> None:
    docker = Docker()
    docker.remote = "running"
    found = find_sites(("farm", "tcp"), run=docker)
    del docker.nodes["farm"]
    docker.remote = "inactive"
    assert [fault_of(site, docker) for site in found] == [
        DOWN,
        '--builder "tcp" does not answer: context deadline exceeded',
    ]


def test_a_builder_whose_container_is_gone_is_told() -> None:
    site = Site(builder=Builder("box", "docker-container"), engine=ENGINE)
    said = "Name: box\nDriver: docker-container\n\nNodes:\nName: box0\nStatus: stopped\n"
    assert fault_of(site, lambda _: Answer(0, said, "")) == "none of its nodes runs"
