"""What was typed comes back in the command that a message names next, once, as that verb takes it."""

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from invoke.parser import Parser

import tasks
from ascend_images.call import REPEATED, completed, of_what_is_made, repeating
from ascend_images.errors import BadInput

VERBS = {context.name: context for context in tasks.namespace.to_contexts()}
SETS = ["torch_npu=2.10.0.post2", "accept.torch-npu-cann=as in the public image"]
BOTH = "invoke lock --variant a2 --arch x86,arm64,amd64"
QUOTED = "--set torch_npu=2.10.0.post2 --set 'accept.torch-npu-cann=as in the public image'"


SETTING = [verb for verb, names in REPEATED.items() if "set" in names]


def told(text: str, **options: Any) -> str:
    """What an error's next step becomes in a command with these options."""

    def body(_: object, **__: Any) -> None:
        raise BadInput("found", do=text)

    with pytest.raises(BadInput) as caught:
        repeating(body)(None, **options)
    return caught.value.do


@pytest.mark.parametrize(
    ("text", "options", "wanted"),
    [
        ("invoke lock --variant a2", {}, "invoke lock --variant a2"),
        ("invoke lock --variant a2", {"set": SETS}, f"invoke lock --variant a2 {QUOTED}"),
        (
            "invoke lock --variant a2",
            {"arch": ["arm64"], "source": ["vllm=../my vllm"], "mirror": "cn", "ca_bundle": "corp.pem"},
            "invoke lock --variant a2 --arch arm64 --source 'vllm=../my vllm' --mirror cn --ca-bundle corp.pem",
        ),
        ("invoke lock --variant a2", {"platform": ["linux/arm64/v8"]}, "invoke lock --variant a2 --arch arm64"),
        (
            "invoke lock --variant a2",
            {"arch": ["x86"], "platform": ["arm64"]},
            "invoke lock --variant a2 --arch x86,arm64",
        ),
        ("invoke lock --variant a2", {"push": True, "jobs": 2, "wheels": "w"}, "invoke lock --variant a2"),
        (
            "invoke build --variant a2 --unlocked",
            {"set": ["a=b"], "push": True, "unlocked": False, "jobs": 2},
            "invoke build --variant a2 --set a=b --jobs 2 --push --unlocked",
        ),
        (
            "invoke build --variant a2 --unlocked",
            {"unlocked": True, "platform": ["linux/arm64"]},
            "invoke build --variant a2 --platform linux/arm64 --unlocked",
        ),
        (
            "invoke render --check --variant a2",
            {"set": ["a=b"], "arch": ["arm64"]},
            "invoke render --check --variant a2 --set a=b",
        ),
        (
            "invoke lock --variant a2-cann8.5, if it can; or: invoke build --variant a2-cann8.5.",
            {"set": ["a=b"]},
            "invoke lock --variant a2-cann8.5 --set a=b, if it can; or: invoke build --variant a2-cann8.5 --set a=b.",
        ),
        (
            "invoke lock --variant a2 --set a=b --set a=bc",
            {"set": ["a=b", "a"]},
            "invoke lock --variant a2 --set a --set a=b --set a=bc",
        ),
        ("invoke render", {"set": ["a=b"]}, "invoke render"),
        (
            "invoke build --variant a2 --unlocked",
            {"compression": "zstd", "cache_to": ["registry"], "cache_from": ["registry", "type=gha"]},
            (
                "invoke build --variant a2 --cache-to registry --cache-from registry --cache-from type=gha "
                "--compression zstd --unlocked"
            ),
        ),
        (
            "invoke reproduce --variant a2 --unlocked",
            {"set": ["a=b"], "arch": ["arm64"], "one_engine": True, "builder": "farm", "unlocked": False},
            "invoke reproduce --variant a2 --arch arm64 --set a=b --builder farm --one-engine --unlocked",
        ),
        ("docker system df", {"set": ["a=b"]}, "docker system df"),
        # Which architectures are meant stands there.
        (
            "invoke build --variant a2 --arch arm64 --push",
            {"platform": ["linux/arm64"], "arch": ["amd64,arm64"], "jobs": 2},
            "invoke build --variant a2 --jobs 2 --arch arm64 --push",
        ),
        (
            "invoke promote --variant a2",
            {"reports": "build/verify-release", "without_npu": "no A2 at hand", "sign": "k", "dry_run": True},
            "invoke promote --variant a2 --reports build/verify-release --without-npu 'no A2 at hand' --sign k",
        ),
    ],
)
def test_a_command_that_is_named_next_repeats_what_its_verb_takes(
    text: str, options: dict[str, Any], wanted: str
) -> None:
    assert told(text, **options) == wanted


def test_a_build_keeps_the_words_that_make_its_image_what_it_is() -> None:
    found = []

    def body(_: object, **__: Any) -> None:
        found.append(of_what_is_made())

    repeating(body)(None, set=SETS, sandbox=True, push=True, jobs=2, arch=["arm64"], builder=["far"], unlocked=False)
    assert found == [("--set torch_npu=2.10.0.post2", f"--set '{SETS[1]}'", "--sandbox")]
    assert of_what_is_made() == ()


def test_outside_of_a_command_nothing_was_typed() -> None:
    told("invoke lock --variant a2", set=SETS)
    assert completed("invoke lock --variant a2") == "invoke lock --variant a2"


@pytest.mark.parametrize("verb", REPEATED)
def test_a_verb_takes_what_is_repeated_for_it(verb: str) -> None:
    assert set(REPEATED[verb]) <= {name.replace("-", "_") for name in VERBS[verb].args}


#: What a command named next is not to be told again: what it is about stands there, or it is how the one before told.
NOT_REPEATED = {
    "check": {"variant", "json"},
    "show": {"variant", "json"},
    "render": {"variant", "check"},
    "lock": {"variant", "all", "offline", "check", "explain"},
    "build": {"variant", "all", "dry_run", "json"},
    "reproduce": {"variant", "all"},
    "manifest": {"variant", "json"},
    "promote": {"variant", "dry_run"},
}


@pytest.mark.parametrize("verb", REPEATED)
def test_each_option_of_a_verb_is_repeated_or_is_not_meant_to_be(verb: str) -> None:
    options = {name.replace("-", "_") for name in VERBS[verb].args}
    assert options - set(REPEATED[verb]) == NOT_REPEATED[verb]


def test_a_value_that_an_option_has_anyway_is_not_repeated() -> None:
    def body(_: object, compression: str = "gzip", jobs: int = 0) -> None:
        raise BadInput("found", do="invoke build --variant a2")

    with pytest.raises(BadInput) as caught:
        repeating(body)(None, compression="gzip", jobs=2)
    assert caught.value.do == "invoke build --variant a2 --jobs 2"


@given(st.sampled_from(SETTING), st.lists(st.from_regex(r"[^-\x00][^\x00]*=[^\x00]*", fullmatch=True)))
def test_what_is_repeated_is_parsed_to_what_was_typed(verb: str, sets: list[str]) -> None:
    words = shlex.split(told(f"invoke {verb} --variant a2", set=sets))
    (context,) = Parser(contexts=tasks.namespace.to_contexts()).parse_argv(words[1:])
    assert context.args["variant"].value == ["a2"]
    assert context.args["set"].value == sets
