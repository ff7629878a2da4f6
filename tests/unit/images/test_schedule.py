"""Which builder builds what: each image once, none over its number, each where it belongs, and no standstill."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.images.builder import Builder
from ascend_images.images.schedule import Schedule, Work, Worker, takers
from ascend_images.pins.platform import Arch

AMD, ARM = Arch.AMD64, Arch.ARM64
EMULATOR = frozenset({AMD.platform, ARM.platform})


def worker(name: str, *natives: Arch, emulates: bool = False, jobs: int = 1, held: frozenset[str] = frozenset()):
    own = frozenset(arch.platform for arch in natives)
    return Worker(builder=Builder(name, "docker", own, EMULATOR if emulates else own), jobs=jobs, held=held)


def work(name: str, arch: Arch = AMD, *, may_emulate: bool = False, **parts: int) -> Work:
    return Work(name=name, arch=arch, parts={f"own {name}": 1, **parts}, may_emulate=may_emulate)


def all_taken(schedule: Schedule) -> list[tuple[str, str]]:
    """What can begin now."""
    found = []
    while (taken := schedule.take()) is not None:
        found.append((taken[0].name, taken[1].name))
    return found


def test_one_builder_takes_equal_images_in_the_order_in_which_they_are_given() -> None:
    works = [work(name) for name in "cab"]
    schedule = Schedule(works, [worker("one", AMD, jobs=2)])
    assert all_taken(schedule) == [("c", "one"), ("a", "one")]
    schedule.ended(works[1])
    assert all_taken(schedule) == [("b", "one")]


def test_each_architecture_goes_to_machines_of_its_own() -> None:
    schedule = Schedule(
        [work("x", AMD), work("y", ARM), work("z", ARM)],
        [worker("amd", AMD, emulates=True, jobs=9), worker("arm", ARM, emulates=True)],
    )
    assert sorted(all_taken(schedule)) == [("x", "amd"), ("y", "arm")]


def test_no_image_is_emulated_while_a_builder_of_its_architecture_is_busy() -> None:
    """Emulation takes many times longer than waiting."""
    works = [work(f"y{number}", ARM, may_emulate=True) for number in range(2)]
    schedule = Schedule(works, [worker("amd", AMD, emulates=True), worker("arm", ARM)])
    assert all_taken(schedule) == [("y0", "arm")]


def test_an_image_is_emulated_where_no_builder_is_of_its_architecture_and_it_was_asked_for() -> None:
    asked, unasked = work("y", ARM, may_emulate=True), work("z", ARM)
    schedule = Schedule([asked, unasked], [worker("amd", AMD, emulates=True, jobs=2)])
    assert all_taken(schedule) == [("y", "amd")]


def test_a_builder_of_which_nothing_is_known_takes_any() -> None:
    stopped = Worker(builder=Builder("k", "kubernetes"), jobs=2)
    assert len(all_taken(Schedule([work("x", AMD), work("y", ARM)], [stopped]))) == 2


def test_variants_of_one_stack_stay_on_one_builder_and_the_next_stack_goes_to_the_other() -> None:
    works = [work(f"s{stack}c{chip}", **{f"packages{stack}": 100}) for stack in (1, 2) for chip in (1, 2)]
    schedule = Schedule(works, [worker("one", AMD, jobs=2), worker("two", AMD, jobs=2)])
    places = dict(all_taken(schedule))
    assert places["s1c1"] == places["s1c2"] != places["s2c1"] == places["s2c2"]


def test_a_builder_that_has_the_packages_from_before_gets_the_image() -> None:
    schedule = Schedule(
        [work("x", packages=100)], [worker("one", AMD), worker("two", AMD, held=frozenset({"packages"}))]
    )
    assert all_taken(schedule) == [("x", "two")]


def test_an_image_waits_for_the_builder_that_has_its_packages_unless_too_much_waits_there() -> None:
    first, second = [work(name, packages=100) for name in "ab"]
    schedule = Schedule([first, second], [worker("one", AMD), worker("two", AMD)])
    assert all_taken(schedule) == [("a", "one")], "to wait is less work than to install them again"
    many = [Work(name=f"{number}", arch=AMD, parts={"packages": 100, f"own {number}": 60}) for number in range(9)]
    schedule = Schedule(many, [worker("one", AMD), worker("two", AMD)])
    assert Counter(place for _, place in all_taken(schedule)) == {"one": 1, "two": 1}


def test_a_builder_begins_another_stack_rather_than_wait_for_packages_that_it_is_installing() -> None:
    works = [work("a1", a=100), work("a2", a=100), work("b1", b=100)]
    schedule = Schedule(works, [worker("one", AMD, jobs=2)])
    assert all_taken(schedule) == [("a1", "one"), ("b1", "one")]
    schedule.ended(works[0])
    assert all_taken(schedule) == [("a2", "one")]


def test_an_image_that_is_put_back_comes_last() -> None:
    works = [work(name) for name in "abc"]
    schedule = Schedule(works, [worker("one", AMD)])
    assert all_taken(schedule) == [("a", "one")]
    schedule.put_back(works[0])
    order = []
    while (taken := schedule.take()) is not None:
        order.append(taken[0].name)
        schedule.ended(taken[0])
    assert order == ["b", "c", "a"]


def test_an_image_whose_last_builder_is_lost_is_not_put_back() -> None:
    works = [work("x", ARM), work("y", ARM)]
    schedule = Schedule(works, [worker("amd", AMD), worker("arm", ARM, jobs=2)])
    all_taken(schedule)
    assert schedule.put_back(works[0])
    assert schedule.lose("arm") == [works[0]]
    assert not schedule.put_back(works[1])
    assert all_taken(schedule) == []


def test_who_may_be_given_an_image_emulates_only_where_nobody_is_native() -> None:
    amd, arm = worker("amd", AMD, emulates=True), worker("arm", ARM)
    asked = work("y", ARM, may_emulate=True)
    assert takers(asked, [amd, arm]) == [arm]
    assert takers(asked, [amd]) == [amd]
    assert takers(work("z", ARM), [amd]) == []


def test_what_a_lost_builder_would_have_built_goes_to_another_one_or_nowhere() -> None:
    works = [work("x", AMD), work("y", ARM), work("z", ARM)]
    schedule = Schedule(works, [worker("amd", AMD), worker("arm", ARM)])
    assert sorted(all_taken(schedule)) == [("x", "amd"), ("y", "arm")]
    schedule.ended(works[1])
    assert [one.name for one in schedule.lose("arm")] == ["z"]
    assert schedule.lose("arm") == []
    assert all_taken(schedule) == []
    works = [work("y", ARM), work("z", ARM)]
    schedule = Schedule(works, [worker("arm1", ARM), worker("arm2", ARM)])
    all_taken(schedule)
    schedule.ended(works[0])
    assert schedule.lose("arm1") == []


def test_emulation_that_was_asked_for_takes_over_from_a_lost_builder() -> None:
    works = [work(f"y{number}", ARM, may_emulate=True) for number in range(2)]
    schedule = Schedule(works, [worker("amd", AMD, emulates=True), worker("arm", ARM)])
    assert all_taken(schedule) == [("y0", "arm")]
    assert schedule.lose("arm") == []
    assert all_taken(schedule) == [("y1", "amd")]


ARCHES = st.sampled_from(list(Arch))
WORKS = st.lists(
    st.tuples(ARCHES, st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9), max_size=3), st.booleans()),
    max_size=12,
)
WORKERS = st.lists(
    st.tuples(st.sets(ARCHES), st.booleans(), st.integers(1, 3), st.frozensets(st.sampled_from("abcd"))),
    min_size=1, max_size=4,
)  # fmt: skip


@given(WORKS, WORKERS, st.randoms(use_true_random=False), st.booleans())
def test_every_image_is_handed_out_once_by_whomever_may_build_it_and_none_is_forgotten(
    works, workers, chance, affinity
):
    wanted = [Work(name=f"{n}", arch=arch, parts=parts, may_emulate=may) for n, (arch, parts, may) in enumerate(works)]
    offered = [
        worker(f"{n}", *natives, emulates=emulates and bool(natives), jobs=jobs, held=held)
        for n, (natives, emulates, jobs, held) in enumerate(workers)
    ]
    schedule = Schedule(wanted, offered, affinity=affinity)
    running: list[tuple[Work, Worker]] = []
    done: list[str] = []
    while True:
        while (taken := schedule.take()) is not None:
            running.append(taken)
            one, place = taken
            assert place.can_take(one)
            assert place.is_native(one) or not any(other.is_native(one) for other in offered)
            assert sum(other.name == place.name for _, other in running) <= place.jobs
        if not running:
            break
        one, _ = running.pop(chance.randrange(len(running)))
        schedule.ended(one)
        done.append(one.name)
    assert sorted(done, key=int) == [one.name for one in wanted if any(place.can_take(one) for place in offered)]


def seconds(lengths: list[int], builders: int) -> int:
    """How long images with nothing in common take, one at a time on each builder."""
    works = [Work(name=f"{n}", arch=AMD, parts={n: length}) for n, length in enumerate(lengths)]
    schedule = Schedule(works, [worker(f"{n}", AMD) for n in range(builders)])
    running: list[tuple[int, Work]] = []
    now = 0
    while True:
        while (taken := schedule.take()) is not None:
            running.append((now + sum(taken[0].parts.values()), taken[0]))
        if not running:
            return now
        running.sort(key=lambda pair: pair[0])
        now, one = running.pop(0)
        schedule.ended(one)


@pytest.mark.parametrize("more", [1, 3])
@given(st.lists(st.integers(1, 50), max_size=12), st.integers(1, 5))
def test_with_more_builders_images_that_share_nothing_never_take_longer(more, lengths, builders):
    assert seconds(lengths, builders + more) <= seconds(lengths, builders)
