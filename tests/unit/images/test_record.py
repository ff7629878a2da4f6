"""Records: what stands in them, that they come back as they were written, and that nonsense does not pass for one."""

import json
from pathlib import Path

import msgspec
import pytest

from ascend_images.errors import BadInput
from ascend_images.images.cache import Cache
from ascend_images.images.candidate import identity, parse_candidate
from ascend_images.images.gate import load_lock
from ascend_images.images.plan import Choices
from ascend_images.images.readback import Config, Layer, Made
from ascend_images.images.record import TRIED_AGAIN, Record, load_record, record_of, write_record
from ascend_images.images.sources import LocalSource

LAYER = Layer(digest="sha256:l", media_type="application/vnd.oci.image.layer.v1.tar+zstd", compression="zstd", bytes=9)


def made(**changed: object) -> Made:
    values = {
        "digest": "sha256:index",
        "manifest": "sha256:manifest",
        "config_digest": "sha256:config",
        "config": Config(),
        "bytes": 12,
        "layers": (LAYER,),
    }
    return Made(**{**values, **changed})  # type: ignore[arg-type]


def record(plan, **changed: object) -> Record:
    return record_of(plan, made(**changed), load_lock(plan), seconds=1.23456)


def test_a_record_tells_what_was_made_of_what(plan_of, tmp_path: Path) -> None:
    local = LocalSource(name="vllm", folder=tmp_path, commit="a" * 40, dirty=True, git="", submodules=False)
    plan = plan_of(choices=Choices(push=True, unlocked=True, epoch=7, builder="b"), sources=(local,))
    found = record(plan)
    assert (found.digest, found.manifest, found.config) == ("sha256:index", "sha256:manifest", "sha256:config")
    assert (found.bytes, found.layers, found.seconds) == (12, (LAYER,), 1.23)
    assert (found.image, found.tag) == (plan.image, plan.variant.tag)
    assert (found.pushed, found.unlocked, found.epoch, found.builder) == (True, True, 7, "b")
    assert found.inputs == load_lock(plan).inputs
    assert found.local["vllm"].dirty
    assert found.contexts == dict(plan.contexts)
    assert found.resolved["packages"]["torch"] == plan.variant.packages["torch"]
    sources = {source["name"]: source["commit"] for source in found.resolved["sources"]}
    assert sources["vllm"] == "a" * 40, "the pins are those of the image"


def test_a_record_tells_how_layers_were_to_be_packed_and_what_the_system_is_made_of(plan_of) -> None:
    found = record(plan_of(choices=Choices(compression="zstd")), system={"curl": "7.88"})
    assert (found.compression, found.system) == ("zstd", {"curl": "7.88"})
    assert record(plan_of()).system is None


def test_the_hash_of_the_lock_and_of_the_rendered_file_change_with_them(plan_of) -> None:
    first = record(plan_of())
    other_text = record(plan_of(text="FROM scratch AS lock\nFROM scratch\n"))
    other_lock = record(plan_of(lock={"differs": ("a==1 only here",)}))
    assert first.dockerfile != other_text.dockerfile
    assert first.lock == other_text.lock
    assert first.lock != other_lock.lock
    assert first.inputs == other_lock.inputs


def test_a_record_comes_back_as_it_was_written(plan_of, tmp_path: Path) -> None:
    found = record(plan_of("a2-verl-qwen3.5-overlay"))
    write_record(tmp_path / "deep" / "r.json", found)
    assert load_record(tmp_path / "deep" / "r.json") == found
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["r.json"], "no temporary file stays"


def test_what_could_not_be_read_is_said_as_such(plan_of, tmp_path: Path) -> None:
    write_record(tmp_path / "r.json", record(plan_of(), bytes=None, layers=None))
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["bytes"] is None
    assert document["layers"] is None


def test_a_record_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert load_record(tmp_path / "none.json") is None


@pytest.mark.parametrize("change", ["cut", "empty", "other", "unknown key", "missing key", "newer", "bytes"])
def test_a_file_that_is_no_whole_record_is_refused(plan_of, tmp_path: Path, change: str) -> None:
    path = tmp_path / "r.json"
    write_record(path, record(plan_of()))
    document = json.loads(path.read_text())
    match change:
        case "unknown key":
            document["more"] = 1
        case "missing key":
            del document["digest"]
        case "newer":
            document["schema"] = 2
    texts = {"cut": path.read_text()[:-20], "empty": "", "other": "[1]", "bytes": "\udcff"}
    text = texts.get(change) if change in texts else msgspec.json.encode(document).decode()
    path.write_bytes(str(text).encode(errors="surrogateescape"))
    with pytest.raises(BadInput, match="not the record of a build"):
        load_record(path)


def test_a_cache_that_was_not_exported_is_on_record(plan_of) -> None:
    plan = plan_of(choices=Choices(cache_to=(Cache(type="registry"),)))
    assert record(plan).not_cached == ""
    plan.log.parent.mkdir(parents=True)
    plan.log.write_text("#1 exporting cache to registry\n#1 NO CACHE: connection refused\n")
    assert record(plan).not_cached == "connection refused"
    assert record(plan_of()).not_cached == "", "nobody asked for one"


def test_a_cache_that_only_an_earlier_try_did_not_export_was_exported(plan_of) -> None:
    plan = plan_of(choices=Choices(cache_to=(Cache(type="registry"),)))
    plan.log.parent.mkdir(parents=True)
    lost = "#7 exporting cache to registry\n#7 NO CACHE: connection refused\n"
    plan.log.write_text(f"{lost}{TRIED_AGAIN}\n#7 exporting cache to registry\n#7 DONE 1.0s\n")
    assert record(plan).not_cached == ""


def test_the_record_of_what_was_pushed_names_its_candidate(plan_of) -> None:
    found = record(plan_of(choices=Choices(push=True)))
    assert parse_candidate(found.image.rpartition(":")[2]).identity == identity(found.resolved)[7:19]


def test_the_record_names_the_image_as_it_is_called(plan_of) -> None:
    plan = plan_of(suffix="-sandbox")
    found = record(plan)
    assert found.tag.endswith("-sandbox")
    assert found.image == plan.image
