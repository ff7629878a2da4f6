"""For which chips an image is, and what an engine tells of it."""

import contextlib
import io
import json
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, ImageNotFound, NotFound
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.host.chips import family_by_tag
from ascend_images.host.image import Image, family_by_reference, family_of_image, look_at
from ascend_images.pins.load import load
from ascend_images.pins.resolve import resolve_all
from ascend_images.pins.tags import BaseTag
from tests.run_kit import PASSWD

ROOT = Path(__file__).parents[3]
BASE_TAGS = (ROOT / "tests" / "data" / "base-image-tags.txt").read_text(encoding="utf-8").split()
DOCUMENT, PASSWD_FILE = "/opt/ascend-images/image.json", "/etc/passwd"
LABEL = "io.ascend-images.chip"


def archive(text: bytes) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        member = tarfile.TarInfo("file")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    return data.getvalue()


class Engine:
    """An engine with one image, of which `files` are; what is an exception is raised."""

    def __init__(self, files: dict[str, Any] | None = None, arch: str = "arm64", **config: Any) -> None:
        self.files = files or {}
        self.attrs = {"Config": config, "Architecture": arch}
        self.asked: list[str] = []
        self.removed = 0
        self.images = SimpleNamespace(get=lambda name: SimpleNamespace(attrs=self.attrs))
        self.containers = SimpleNamespace(create=lambda name, command: self)

    def get_archive(self, path: str) -> Any:
        self.asked.append(path)
        found = self.files.get(path, NotFound("no such file"))
        if isinstance(found, Exception):
            raise found
        return [archive(found)], {"size": len(found)}

    def remove(self, **_: Any) -> None:
        self.removed += 1


def look(engine: Any, user: str = "", *, for_chip: bool = True) -> Image:
    return look_at(engine, "demo:1", user, for_chip=for_chip)


@pytest.mark.parametrize("tag", BASE_TAGS)
def test_the_tag_of_a_base_image_tells_its_chip(tag: str) -> None:
    wanted = family_by_tag(BaseTag.parse(tag).chip)
    assert wanted != "unknown"
    assert family_by_reference(f"quay.io/ascend/cann:{tag}") == wanted
    assert family_by_reference(f"localhost:5000/cann:{tag}-x86_64") == wanted


def test_the_tags_of_all_variants_tell_their_chips() -> None:
    for variant in resolve_all(load(ROOT / "versions.toml"), allow_broken=True):
        wanted = family_by_tag(variant.chip.cann_tag)
        for behind in ("", "-aarch64", "-sandbox-x86_64", "-changed-x86_64"):
            assert family_by_reference(f"{variant.repository}:{variant.tag}{behind}") == wanted


@pytest.mark.parametrize(
    ("tag", "family"),
    [
        ("v0.18.0-a3", "A3"), ("v0.18.0-a3-openeuler", "A3"), ("v0.18.0-310p", "310P"), ("v0.23.0rc1-950dt", "950"),
        ("v4.3.0-A3-py311-CANN9.0.0-ubuntu22.04", "A3"), ("v4.1.3-A2-py311", "A2"), ("latest-vllm-910b-ubuntu", "A2"),
        ("v0.18.0", "unknown"), ("v0.18.0-openeuler", "unknown"), ("latest", "unknown"), ("qwen3-30b-a3b", "unknown"),
        ("910", "unknown"), ("1.0-950", "unknown"), ("a2-a3", "unknown"),
    ],
)  # fmt: skip
def test_a_word_of_another_projects_tag_tells_a_chip_where_it_is_one(tag: str, family: str) -> None:
    assert family_by_reference(f"quay.io/ascend/demo:{tag}") == family


@pytest.mark.parametrize("text", ["", "demo", "a3", "demo@sha256:" + "a" * 64, "UPPER:a3", "demo:a3:a3"])
def test_a_reference_without_a_tag_tells_none(text: str) -> None:
    assert family_by_reference(text) == "unknown"


@pytest.mark.parametrize(
    ("soc", "family"),
    [
        ("ascend910b1", "A2"), ("ascend910_9391", "A3"), ("ascend310p1", "310P"), ("ascend950dt_9582", "950"),
        ("ASCEND910B1", "A2"), ("", "unknown"), ("nonsense", "unknown"),
    ],
)  # fmt: skip
def test_an_image_that_names_its_soc_tells_its_chip(soc: str, family: str) -> None:
    image = look(Engine(Env=["PATH=/bin", f"SOC_VERSION={soc}"]))
    assert family_of_image(image, "demo:1") == family


def test_the_label_counts_before_the_rest_and_the_tag_last() -> None:
    told = {
        "labels": {LABEL: "910b"},
        "env": {"SOC_VERSION": "ascend910_9391"},
        "document": "310p",
    }
    for family in ("A2", "A3", "310P"):
        assert family_of_image(Image(**told), "demo:v1-950dt") == family
        told.pop(next(iter(told)))
    assert family_of_image(Image(**told), "demo:v1-950dt") == "950"
    assert family_of_image(Image(**told), "demo:v1") == "unknown"


def test_image_json_is_read_where_nothing_else_tells() -> None:
    engine = Engine({DOCUMENT: json.dumps({"chip": "a3"}).encode()})
    assert family_of_image(look(engine), "demo:1") == "A3"
    assert (engine.asked, engine.removed) == ([DOCUMENT], 1)
    for quiet in (Engine(Labels={LABEL: "a3"}), Engine(Env=["SOC_VERSION=ascend910_9391"])):
        assert family_of_image(look(quiet), "demo:1") == "A3"
        assert (quiet.asked, quiet.removed) == ([], 0)
    unasked = Engine()
    look(unasked, for_chip=False)
    assert unasked.removed == 0


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"3", b'{"chip": ["a3"]}', b'{"chip": "x"}', b"\xff", b"[" * 100_000]
)
def test_another_image_json_tells_nothing(text: bytes) -> None:
    assert family_of_image(look(Engine({DOCUMENT: text})), "demo:1") == "unknown"


@given(st.binary(max_size=50))
def test_any_image_json_is_read_or_passed_over(text: bytes) -> None:
    assert family_of_image(look(Engine({DOCUMENT: text})), "demo:1") == "unknown"


def test_the_passwd_of_a_user_who_is_not_root_is_read_with_it() -> None:
    engine = Engine({PASSWD_FILE: PASSWD.encode()}, User="1000")
    image = look(engine)
    assert (image.user, image.machine, image.passwd) == ("1000", "aarch64", PASSWD)
    assert (engine.asked, engine.removed) == ([PASSWD_FILE, DOCUMENT], 1)
    assert look(engine, "root").passwd is None
    assert look(Engine(), "1000").passwd == ""


@pytest.mark.parametrize("error", [APIError("no"), OSError("reset"), b"much" * (2 << 20)])
def test_a_file_that_cannot_be_had_is_unknown(error: Any) -> None:
    engine = Engine({PASSWD_FILE: error, DOCUMENT: error})
    image = look(engine, "1000")
    assert (image.passwd, image.document, engine.removed) == (None, "", 1)


def test_an_image_that_is_not_there_is_told_from_one_that_could_not_be_seen() -> None:
    def refuse(error: Exception) -> Any:
        raise error

    for error, missing in ((ImageNotFound("no"), True), (APIError("no"), False)):
        engine = SimpleNamespace(images=SimpleNamespace(get=lambda _, error=error: refuse(error)))
        assert look(engine) == Image(is_missing=missing)
    assert look(None) == Image()


def test_an_engine_that_makes_no_container_leaves_the_files_unknown() -> None:
    def create(*_: Any) -> None:
        raise APIError("no")

    engine = Engine(User="1000")
    engine.containers = SimpleNamespace(create=create)
    assert look(engine).passwd is None


def test_an_architecture_that_is_not_ours_is_left_out() -> None:
    for arch, machine in (("amd64", "x86_64"), ("riscv64", ""), ("", "")):
        with contextlib.suppress(KeyError):
            assert look(Engine(arch=arch)).machine == machine
