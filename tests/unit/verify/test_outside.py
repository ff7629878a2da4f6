"""The checks that look at an image from outside: its container, its tag, its own pins, the host."""

from typing import Any

import pytest

from ascend_images.inside.answers import Answer, Given, Said, failed
from ascend_images.inside.lock import Lock
from ascend_images.verify import outside

REFERENCE = "quay.io/ascend/ms-swift:v4.5.2-cann9.1.0-torch_npu2.10.0.post4-910b-ubuntu22.04-py3.12-x86_64"


def facts_of(**changes: Any) -> dict[str, Any]:
    """Facts of an image in which nothing is wrong, with some of them changed."""
    container = {
        "reference": REFERENCE,
        "answered": True,
        "failure": None,
        "exit": 0,
        "killed": False,
        "timed_out": False,
        "output": "",
        "env": [],
        "asked": [0],
    }
    facts: dict[str, Any] = {
        "machine": "x86_64",
        "system": {"id": "ubuntu", "version": "22.04"},
        "python": {"version": "3.12.13"},
        "cann": {"toolkit": [{"file": "…", "version": "9.1.0"}], "ops": [{"chip": "910b", "file": "…"}], "nnal": []},
        "distributions": [{"name": "torch-npu", "version": "2.10.0.post4", "metadata": "", "location": ""}],
        "container": {**container, **changes.pop("container", {})},
        "host": {"devices": [0], "judgement": None, "refused": None, **changes.pop("host", {})},
        "own": {
            "image": {"cann": "9.1.0"},
            "lock": {"a": "1"},
            "wanted_image": {"cann": "9.1.0"},
            "wanted_lock": {"a": "1"},
            **changes.pop("own", {}),
        },
    }
    return {**facts, **changes}


def said(name: str, facts: dict[str, Any], image: dict[str, Any] | None = None, **more: Any) -> list[Said]:
    one = next(one for one in outside.all_checks() if one.id == name)
    lock = Lock("linux/amd64", {"a": "1"})
    return one.ask(Given(facts, {"cann": "9.1.0"} if image is None else image, lock, None, more.get("earlier", {})))


def only(answers: list[Said]) -> Said:
    assert len(answers) == 1, answers
    return answers[0]


# --- container


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        (
            {"exit": 127, "output": "bash: python3: command not found"},
            "exit code 127 before its facts were whole: bash",
        ),
        ({"exit": 137}, "killed from outside (SIGKILL)"),
        ({"exit": 137, "killed": True}, "out of memory"),
        ({"exit": None, "output": "exec format error"}, "did not start: exec format error"),
        ({"exit": None, "timed_out": True, "output": "a\n\nwaiting\n"}, "no end within the time limit: waiting"),
    ],
)
def test_a_container_without_facts_is_one_finding_and_the_cause_of_all_others(seen: dict[str, Any], found: str) -> None:
    facts = facts_of(container={"answered": False, **seen})
    one = only(said("container", facts))
    assert one.answer is Answer.FAIL
    assert found in one.found
    bare = {"container": facts["container"], "host": facts["host"], "own": facts["own"]}
    answers = outside.ask(bare, {}, None, None)
    assert list(answers) == [one.id for one in outside.all_checks()]
    failures = [name for name, list_of in answers.items() if any(said.answer is Answer.FAIL for said in list_of)]
    assert failures == ["container"]
    others = [only(list_of) for name, list_of in answers.items() if name not in ("container", "devices-given")]
    assert {one.found for one in others} == {"because of container"}


def test_an_image_that_nobody_has_is_a_finding_of_the_container() -> None:
    failure = {"found": "neither here nor there", "wanted": "an image", "next": "docker image ls"}
    one = only(said("container", facts_of(container={"answered": False, "failure": failure})))
    assert (one.answer, one.found, one.next) == (Answer.FAIL, failure["found"], failure["next"])


def test_a_container_that_answered_passes() -> None:
    assert only(said("container", facts_of())).answer is Answer.PASS


# --- devices


def test_devices_that_could_not_be_given_say_why() -> None:
    refused = {"found": "NPU 7 is in use by container other", "wanted": "another", "next": "docker stop other"}
    one = only(said("devices-given", facts_of(host={"refused": refused})))
    assert (one.answer, one.found, one.next) == (Answer.FAIL, refused["found"], refused["next"])


def test_devices_that_were_given_or_never_asked_for() -> None:
    assert only(said("devices-given", facts_of())).answer is Answer.PASS
    assert only(said("devices-given", facts_of(container={"asked": []}))).answer is Answer.NOT_RUN


# --- tag


def test_the_words_of_our_tags_and_of_base_images_are_read() -> None:
    words = {"cann": "9.1.0", "torch_npu": "2.10.0.post4", "chip": "910b", "os": "ubuntu22.04", "python": "3.12"}
    assert outside.tag_words(REFERENCE) == {**words, "arch": "x86_64"}
    assert outside.tag_words("localhost:5000/x/cann:8.5.1-a3-openeuler24.03-py3.11") == {
        "chip": "a3",
        "os": "openeuler24.03",
        "python": "3.11",
    }
    assert outside.tag_words("localhost:5000/x/cann") == {}
    assert outside.tag_words("quay.io/x:v4.3.0-A2-py311-CANN9.0.0-ubuntu22.04")["cann"] == "9.0.0"


def test_a_true_tag_passes() -> None:
    assert only(said("tag", facts_of())).answer is Answer.PASS


@pytest.mark.parametrize(
    ("word", "changes", "found"),
    [
        ("os", {"system": {"id": "openEuler", "version": "24.03"}}, "os openeuler24.03, tagged ubuntu22.04"),
        ("cann", {"cann": {"toolkit": [{"version": "9.0.1"}], "ops": [], "nnal": []}}, "cann 9.0.1, tagged 9.1.0"),
        ("python", {"python": {"version": "3.11.15"}}, "python 3.11, tagged 3.12"),
        ("arch", {"machine": "aarch64"}, "arch arm64, tagged x86_64"),
        ("torch_npu", {"distributions": [{"name": "torch_npu", "version": "2.10.0.post2"}]}, "torch_npu 2.10.0.post2"),
        ("chip", {"cann": {"toolkit": [], "ops": [{"chip": "A3"}], "nnal": []}}, "chip a3, tagged 910b"),
    ],
)
def test_a_tag_that_lies_is_found_word_by_word(word: str, changes: dict[str, Any], found: str) -> None:
    answers = said("tag", facts_of(**changes))
    assert [one.subject for one in answers if one.answer is Answer.FAIL] == [word]
    assert found in next(one.found for one in answers if one.subject == word)


def test_the_tag_that_its_pins_give_an_image_is_right_whatever_builds_put_behind_it() -> None:
    tag = REFERENCE.rpartition(":")[2].removesuffix("-x86_64")
    other = {"system": {"id": "debian", "version": "12"}}
    for suffix in ("", "-x86_64", "-sandbox-x86_64", "-changed"):
        facts = facts_of(container={"reference": f"x:{tag}{suffix}"}, **other)
        assert [one.answer for one in said("tag", facts, {"tag": tag})] == [Answer.PASS], suffix
    lie = facts_of(container={"reference": f"x:{tag}-aarch64"}, **other)
    assert [one.subject for one in said("tag", lie, {"tag": tag}) if one.answer is Answer.FAIL] == ["arch"]


def test_what_could_not_be_told_is_unknown_and_what_has_a_finding_is_not_found_twice() -> None:
    answers = said("tag", facts_of(cann={"toolkit": [], "ops": [], "nnal": []}))
    assert {one.subject: one.answer for one in answers} == {"cann": Answer.UNKNOWN, "chip": Answer.UNKNOWN}
    earlier = {"operating-system": [failed("os-release", "debian12", "ubuntu22.04", "…")]}
    answers = said("tag", facts_of(system={"id": "debian", "version": "12"}), earlier=earlier)
    assert [(one.subject, one.answer) for one in answers] == [("os", Answer.NOT_RUN)]
    nothing = facts_of(container={"reference": "quay.io/ascend/cann@sha256:" + "0" * 64})
    assert only(said("tag", nothing)).answer is Answer.NOT_RUN


# --- own pins


def test_an_image_of_other_pins_is_found_with_what_differs() -> None:
    own = {"cann": "9.1.0", "packages": {"amd64": {"torch": "2.9.0"}}, "sources": [{"name": "vllm", "commit": "a"}]}
    pins = {"cann": "9.1.0", "packages": {"amd64": {"torch": "2.10.0"}}, "sources": [{"name": "vllm", "commit": "b"}]}
    one = only(said("own-pins", facts_of(own={"image": own, "wanted_image": {**pins, "variant": "a2", "tag": "x"}})))
    assert one.answer is Answer.FAIL
    assert "packages (amd64: torch: '2.9.0', wanted '2.10.0')" in one.found
    assert "sources (vllm: commit: 'a', wanted 'b')" in one.found
    assert one.next == "invoke build --variant a2"


def test_another_lock_is_found() -> None:
    one = only(said("own-pins", facts_of(own={"lock": {"a": "2"}})))
    assert (one.subject, one.answer) == ("lock.txt", Answer.FAIL)


def test_own_pins_without_a_comparison_or_without_any() -> None:
    assert only(said("own-pins", facts_of(own={"wanted_image": None}))).answer is Answer.NOT_RUN
    assert only(said("own-pins", facts_of(own={"image": {}}))).answer is Answer.UNKNOWN
    assert only(said("own-pins", facts_of(own={"lock": None}))).answer is Answer.UNKNOWN
    assert said("own-pins", facts_of()) == []


# --- the host's driver


@pytest.mark.parametrize(
    ("state", "answer"),
    [("supported", Answer.PASS), ("unsupported", Answer.FAIL), ("unknown", Answer.UNKNOWN)],
)
def test_the_driver_is_judged_by_the_table(state: str, answer: Answer) -> None:
    judged = {"cann": "8.5.1", "state": state, "found": "23.0.3", "wanted": ">=25.0", "why": "because"}
    one = only(said("host-driver", facts_of(host={"judgement": judged})))
    assert one.answer is answer
    assert "23.0.3" in one.subject


def test_the_driver_is_not_judged_without_npus_and_unknown_without_a_release() -> None:
    assert only(said("host-driver", facts_of(host={"devices": []}))).answer is Answer.NOT_RUN
    assert only(said("host-driver", facts_of())).answer is Answer.UNKNOWN
