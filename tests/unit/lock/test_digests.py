"""What a base image's name means: its digests, read off what its registry gives, weighed against what was known."""

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.errors import BadInput, MissingTool
from ascend_images.lock.digests import Digests, Imagetools, index_digests, manifest_of, refusal, settle_base
from ascend_images.lock.reach import NotThereError, Outcome, UnreachableError
from ascend_images.pins.platform import Arch
from ascend_images.pins.questions import AskedBase
from ascend_images.pins.versions_lock import LockedBase
from tests.remotes import IMAGE, TODAY, FakeImages, digest, locked_base

BOTH = (Arch.AMD64, Arch.ARM64)


# What registries give.


def entry(letter: str, system: str = "linux", architecture: str = "amd64", **more: Any) -> dict[str, Any]:
    platform = {"os": system, "architecture": architecture, **more}
    return {"digest": digest(letter), "platform": platform}


def read(*entries: Any) -> Digests:
    raw = json.dumps({"schemaVersion": 2, "manifests": entries}).encode()
    found = index_digests(raw, manifest_of(raw))
    assert found.index == f"sha256:{hashlib.sha256(raw).hexdigest()}"
    return found


def test_an_index_gives_a_digest_for_each_platform_and_its_own() -> None:
    found = read(entry("a"), entry("b", architecture="arm64", variant="v8"))
    assert found.platforms == {"linux/amd64": digest("a"), "linux/arm64": digest("b")}
    assert found.digest == found.index


def test_attestations_other_systems_and_other_architectures_are_left_out() -> None:
    others = [
        entry("b", "unknown", "unknown"),
        entry("c", "windows"),
        entry("d", architecture="arm", variant="v7"),
        entry("e", variant="v3"),
        {"digest": digest("f")},
        {"platform": {"os": "linux", "architecture": "arm64"}},
        {"digest": "sha256:1", "platform": {"os": "linux", "architecture": "arm64"}},
        "no entry",
    ]
    assert read(*others, entry("a")).platforms == {"linux/amd64": digest("a")}


def test_of_two_images_for_one_platform_the_first_counts() -> None:
    assert read(entry("a"), entry("b")).platforms == {"linux/amd64": digest("a")}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda s: (
            st.lists(s) | st.dictionaries(st.sampled_from(["manifests", "config", "digest", "platform", "os"]), s)
        ),
    )
)
def test_no_answer_of_a_registry_is_more_than_digests_or_unreachable(answer: Any) -> None:
    raw = json.dumps(answer).encode()
    try:
        manifest = manifest_of(raw)
    except UnreachableError:
        return
    if isinstance(manifest.get("manifests"), list):
        assert index_digests(raw, manifest).platforms == {}


@pytest.mark.parametrize("raw", [b"", b"<html>", b"\xff", b"[]", b"{}", b'{"schemaVersion": 1, "fsLayers": []}'])
def test_what_is_no_manifest_is_no_answer(raw: bytes) -> None:
    with pytest.raises(UnreachableError, match="no manifest"):
        manifest_of(raw)


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        ("ERROR: 127.0.0.1:5055/gone:1: not found", NotThereError, "not found in the registry"),
        ("ERROR: quay.io/x:1: manifest unknown", NotThereError, "not found in the registry"),
        ("ERROR: invalid reference format", NotThereError, "no name that an image can have"),
        (
            "ERROR: pull access denied, repository does not exist or may require authorization",
            UnreachableError,
            "asks for a login",
        ),
        ("ERROR: unexpected status from HEAD: 403 Forbidden", UnreachableError, "asks for a login"),
        ("ERROR: dial tcp: lookup quay.io: no such host", UnreachableError, "its host name is not known here"),
        ("ERROR: dial tcp 127.0.0.1:1: connect: connection refused", UnreachableError, "the connection is refused"),
        ("ERROR: x509: certificate signed by unknown authority", UnreachableError, "its certificate is not trusted"),
        ("ERROR: toomanyrequests: slow down", UnreachableError, "takes no more requests"),
        ("docker: 'buildx' is not a docker command.", MissingTool, "no buildx"),
    ],
)
def test_what_a_failed_inspection_means(said: str, kind: type[Exception], words: str) -> None:
    error = refusal(said)
    assert isinstance(error, kind)
    assert words in str(error)


# The client itself, in the place of which a script answers.


def fake_docker(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "docker"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.subprocess
def test_a_single_image_has_the_platform_of_its_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = '{"schemaVersion":2,"config":{"digest":"sha256:1"},"layers":[]}'
    config = '{"os":"linux","architecture":"arm64","variant":"v8"}'
    fake_docker(
        tmp_path, monkeypatch, f"echo \"$@\" >>{tmp_path}/asked\n[ $4 = --raw ] && printf %s '{raw}' || echo '{config}'"
    )
    found = Imagetools({"quay.io/ascend": "mirror.example/ascend"}).digests(IMAGE)
    wanted = f"sha256:{hashlib.sha256(raw.encode()).hexdigest()}"
    assert found == Digests("", {"linux/arm64": wanted})
    assert found.digest == wanted
    first, second = (tmp_path / "asked").read_text().splitlines()
    place = IMAGE.replace("quay.io", "mirror.example")
    assert first == f"buildx imagetools inspect --raw {place}"
    assert second == f"buildx imagetools inspect --format {{{{json .Image}}}} {place}@{wanted}"


@pytest.mark.subprocess
@pytest.mark.parametrize("config", ["", "null", "<html>", '{"os":"windows","architecture":"amd64"}'])
def test_a_single_image_of_no_known_platform_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str
) -> None:
    fake_docker(tmp_path, monkeypatch, f"[ $4 = --raw ] && echo '{{\"config\": {{}}}}' || echo '{config}'")
    assert Imagetools().digests(IMAGE) == Digests("", {})


@pytest.mark.subprocess
def test_a_registry_that_does_not_answer_in_time_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_docker(tmp_path, monkeypatch, "exec sleep 30")
    with pytest.raises(UnreachableError, match="no answer in time"):
        Imagetools(timeout=0.2).digests(IMAGE)


@pytest.mark.subprocess
def test_a_machine_without_docker_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MissingTool, match="no docker command"):
        Imagetools().digests(IMAGE)


# Weighed against what was known.


@pytest.fixture
def images() -> FakeImages:
    made = FakeImages()
    made.add(IMAGE, digest("1"), amd64=digest("2"), arm64=digest("3"))
    return made


def settled(
    images: FakeImages, old: LockedBase | None = None, *, renew: bool = False, platforms: tuple[Arch, ...] = BOTH
) -> Outcome[LockedBase]:
    asked = AskedBase(image=IMAGE, platforms=platforms, variants=("a2", "a2-verl"))
    return settle_base(asked, old, images, today=TODAY, renew=renew)


def refusal_of(outcome: Outcome[LockedBase]) -> BadInput:
    assert outcome.problem is not None
    assert outcome.problem.found.startswith(IMAGE)
    assert outcome.problem.wanted
    assert outcome.problem.do
    return outcome.problem


def test_a_base_image_is_learned_with_both_digests_and_that_of_its_index(images: FakeImages) -> None:
    entry = settled(images).entry
    assert entry is not None
    assert (entry.image, entry.index, entry.learned) == (IMAGE, digest("1"), TODAY)
    assert entry.platforms == {"linux/amd64": digest("2"), "linux/arm64": digest("3")}


def test_what_still_holds_is_kept_as_it_was(images: FakeImages) -> None:
    assert settled(images, locked_base()) == Outcome(entry=locked_base())


def test_a_tag_that_was_built_anew_keeps_its_digest_while_the_registry_has_that(images: FakeImages) -> None:
    images.add(IMAGE, digest("5"), amd64=digest("6"), arm64=digest("7"))
    outcome = settled(images, locked_base())
    assert outcome.entry == locked_base()
    assert "it is sha256:555555555555 now; sha256:111111111111 is kept" in outcome.notes[0]
    assert "invoke lock --variant a2 --update base" in outcome.notes[0]
    taken = settled(images, locked_base(), renew=True).entry
    assert taken is not None
    assert (taken.index, taken.learned) == (digest("5"), TODAY)


def test_a_digest_that_the_registry_dropped_is_refused(images: FakeImages) -> None:
    images.there.clear()
    images.add(IMAGE, digest("5"), amd64=digest("6"), arm64=digest("7"))
    outcome = settled(images, locked_base())
    problem = refusal_of(outcome)
    assert f"has the locked digest {digest('1')} no longer" in problem.found
    assert "--update base" in problem.do
    assert outcome.entry == locked_base()


def test_a_tag_that_is_gone_keeps_its_digest_while_the_registry_has_that(images: FakeImages) -> None:
    del images.there[IMAGE]
    outcome = settled(images, locked_base())
    assert outcome.entry == locked_base()
    assert "not found in the registry any more" in outcome.notes[0]


@pytest.mark.parametrize("old", [None, locked_base()])
def test_an_image_that_is_nowhere_is_refused(old: LockedBase | None) -> None:
    outcome = settled(FakeImages(), old)
    assert "not found in the registry" in refusal_of(outcome).found
    assert outcome.entry == old


def test_an_image_without_a_platform_that_is_wanted_is_refused(images: FakeImages) -> None:
    images.add(IMAGE, digest("1"), amd64=digest("2"))
    problem = refusal_of(settled(images))
    assert problem.found == f"{IMAGE}: no image for linux/arm64; it has linux/amd64"
    assert problem.wanted == "every platform of a2 and a2-verl"
    assert settled(images, platforms=(Arch.AMD64,)).problem is None


def test_an_image_for_no_platform_at_all_is_no_entry(images: FakeImages) -> None:
    images.add(IMAGE, digest("1"))
    outcome = settled(images)
    assert "it has none for Linux" in refusal_of(outcome).found
    assert outcome.entry is None


def test_a_registry_that_gives_no_answer_is_told_to_the_caller(images: FakeImages) -> None:
    images.down[IMAGE] = "the connection is refused"
    with pytest.raises(UnreachableError):
        settled(images, locked_base())
