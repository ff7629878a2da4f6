"""What is to be verified, by which name; how answers become one verdict; what the engine's failures say."""

from pathlib import Path

import pytest
from docker.errors import APIError, DockerException

from ascend_images import verifying
from ascend_images.errors import BadInput, MissingTool
from ascend_images.host.connect import plainly
from ascend_images.inside.answers import Answer
from ascend_images.verify.container import Inner, Own
from ascend_images.verify.report import Result, verdict
from ascend_images.verify.verification import Expectation, Job, _files, _words

ROOT = Path(__file__).parents[2]


def wishes(**words: object) -> verifying.Wishes:
    return verifying.Wishes(root=ROOT, **words)  # type: ignore[arg-type]


def test_an_image_alone_goes_by_its_own_name(tmp_path: Path) -> None:
    (target,) = verifying.targets(wishes(images=("quay.io/x/y:1",), platform="linux/arm64"))
    assert (target.name, target.reference, target.variant) == ("quay.io/x/y:1", "quay.io/x/y:1", None)
    assert target.arch is not None
    assert target.arch.value == "arm64"


def test_a_variant_without_a_build_here_is_the_published_image(tmp_path: Path) -> None:
    (tmp_path / "versions.toml").write_bytes((ROOT / "versions.toml").read_bytes())
    if (ROOT / "versions.lock").is_file():
        (tmp_path / "versions.lock").write_bytes((ROOT / "versions.lock").read_bytes())
    (target,) = verifying.targets(verifying.Wishes(root=tmp_path, variants=("a2",)))
    assert target.variant is not None
    assert target.reference == f"{target.variant.repository}:{target.variant.tag}"
    (target,) = verifying.targets(verifying.Wishes(root=tmp_path, variants=("a2",), platform="linux/arm64"))
    assert target.reference.endswith("-aarch64")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ({}, "neither a variant nor an image"),
        ({"variants": ("a2", "a3"), "images": ("x:1",)}, "for 2 --variant"),
        ({"variants": ("a22",)}, "a22"),
        ({"images": ("x:1",), "platform": "linux/mips"}, "mips"),
    ],
)
def test_what_does_not_go_together_is_refused(words: dict[str, object], found: str) -> None:
    with pytest.raises(BadInput, match=found):
        verifying.targets(wishes(**words))


def test_siblings_differ_by_chip_alone() -> None:
    pins = verifying.load(ROOT / "versions.toml")
    (target,) = verifying.targets(wishes(variants=("a2",)))
    siblings = verifying._siblings(pins, target.variant)
    assert "a3" in siblings
    assert "910b" not in siblings
    assert "-a3-ubuntu22.04-" in siblings["a3"]
    assert verifying._siblings(pins, None) == {}


@pytest.mark.parametrize(
    ("answers", "whole"),
    [
        (["pass", "fail", "unknown"], Answer.FAIL),
        (["pass", "unknown", "not run"], Answer.UNKNOWN),
        (["pass", "not run"], Answer.PASS),
        (["not run"], Answer.NOT_RUN),
        ([], Answer.NOT_RUN),
    ],
)
def test_a_check_is_as_good_as_its_worst_answer(answers: list[str], whole: Answer) -> None:
    assert verdict(tuple(Result("x", answer) for answer in answers)) is whole  # type: ignore[arg-type]


def test_check_py_is_told_what_was_asked_for() -> None:
    bare = Job(name="x", reference="x:1")
    inner = Inner("at")
    assert _words(bare, inner) == ["--time-limit", "300.0"]
    assert _files(bare, Own("", "")) == {}
    asked = Job(
        name="x",
        reference="x:1",
        expectation=Expectation(image="{}", lock="a==1", pins="sha256:0"),
        asked=(0, 1),
        require_npu=True,
        model="/m",
    )
    words = " ".join(_words(asked, inner))
    assert "--image-json /at/pins/image.json" in words
    assert words.endswith("--npu --devices 0,1 --require-npu --model /m")
    assert _files(asked, Own("[", "")) == {"pins/image.json": b"{}", "pins/lock.txt": b"a==1"}
    own = Own('{"schema": 1}', "b==2")
    assert _files(asked, own) == {"pins/image.json": own.image.encode(), "pins/lock.txt": b"b==2"}


def test_an_engine_that_does_not_answer_is_said_in_one_line() -> None:
    with pytest.raises(MissingTool, match="no Docker Engine answers at tcp://x: refused"), plainly("tcp://x"):
        raise DockerException("Error while fetching:\nrefused")
    with pytest.raises(APIError), plainly():
        raise APIError("what it answers stays")
