"""Caches that outlive a builder: what may be typed, where each image's lies, and what becomes of one that fails."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.errors import BadInput, MissingTool
from ascend_images.images.builder import Builder
from ascend_images.images.cache import (
    FROM,
    TO,
    Cache,
    cache_of,
    cache_tag,
    export_of,
    imports_of,
    is_cache_tag,
    not_exported,
    require_exporter,
)
from ascend_images.images.candidate import parse_candidate
from ascend_images.images.engine import Engine, ImageStore
from ascend_images.pins.platform import Arch
from tests.unit.images.mini import mini

JOB = {"ACTIONS_RUNTIME_TOKEN": "t", "ACTIONS_RESULTS_URL": "u"}
ENGINE = Engine("26.1", "0.13", ImageStore.CONTAINERD, "overlay2", Path("/d"), "default", "", Arch.AMD64, 2, 10**9)


@pytest.mark.parametrize(
    ("text", "option", "wanted"),
    [
        ("registry", TO, Cache(type="registry")),
        ("type=registry", TO, Cache(type="registry")),
        ("registry", FROM, Cache(type="registry")),
        ("type=registry,mode=max", TO, Cache(type="registry", mode="max")),
        ("type=registry,ref=r.example/a:cache-x", TO, Cache(type="registry", place="r.example/a:cache-x")),
        ("type=registry,ref=r.example/a:cache-x", FROM, Cache(type="registry", place="r.example/a:cache-x")),
        ("type=local,dest=/c,mode=max", TO, Cache(type="local", place="/c", mode="max")),
        ('type=local,"dest=/a,b"', TO, Cache(type="local", place="/a,b")),
        ("type=local,src=/c", FROM, Cache(type="local", place="/c")),
        ("gha", TO, Cache(type="gha")),
        ("type=gha,scope=s", FROM, Cache(type="gha", place="s")),
    ],
)
def test_what_may_be_typed(text: str, option: str, wanted: Cache) -> None:
    assert cache_of(text, option, JOB) == wanted


@pytest.mark.parametrize("option", [TO, FROM])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "inline",
        "type=inline",
        "type=s3,bucket=b",
        "local",
        "type=local",
        "type=local,dest=",
        "r.example/a:cache-x",
        "type=registry,ref=r.example/a",
        "type=registry,ref=R.example/A:x",
        "type=registry,ref=r.example/a:x,ignore-error=false",
        "type=registry,ref=r.example/a:x,ref=r.example/b:x",
        "type=registry,mode=all",
        "type=registry,,",
        'type=registry,"ref=r.example/a:x',
        "type=gha,token=s3cret",
        "type=registry\ntype=gha",
        "type=local,dest=/c,src=/c",
    ],
)
def test_anything_else_is_refused(text: str, option: str) -> None:
    with pytest.raises(BadInput):
        cache_of(text, option, JOB)


def test_a_mode_is_of_exports_and_ways_are_of_their_own_option() -> None:
    for text in ("type=registry,mode=max", "type=local,dest=/c"):
        with pytest.raises(BadInput, match="--cache-from"):
            cache_of(text, FROM, JOB)
    with pytest.raises(BadInput, match="--cache-to") as error:
        cache_of("type=local,src=/c", TO, JOB)
    assert error.value.do == "--cache-to registry"
    assert "type=local,dest=DIR" in error.value.wanted


def test_a_folder_is_meant_from_where_it_was_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cache_of("type=local,dest=c", TO, {}).place == str(tmp_path / "c")


@pytest.mark.parametrize("gone", JOB)
def test_githubs_cache_is_refused_where_nothing_would_be_cached(gone: str) -> None:
    with pytest.raises(MissingTool, match="are not set") as error:
        cache_of("gha", TO, {name: value for name, value in JOB.items() if name != gone})
    assert error.value.exit_code == 3


def test_the_tag_of_a_cache_is_no_candidates() -> None:
    tag = cache_tag(mini(), "-changed", Arch.ARM64)
    assert tag == "cache-mini-changed-aarch64"
    assert is_cache_tag(tag)
    assert parse_candidate(tag) is None
    assert not is_cache_tag(mini().tag)


def test_an_export_never_fails_a_build() -> None:
    for cache in (Cache(type="registry"), Cache(type="local", place="/c"), Cache(type="gha")):
        assert export_of(cache, mini(), "", Arch.AMD64)["ignore-error"] == "true"
    assert export_of(Cache(type="local", place="/c", mode="max"), mini(), "", Arch.AMD64) == {
        "type": "local",
        "dest": "/c",
        "mode": "max",
        "ignore-error": "true",
    }


def test_a_place_that_was_typed_is_read_as_it_is() -> None:
    given_place = Cache(type="registry", place="r.example/a:x")
    assert imports_of(given_place, mini(), "-changed", Arch.AMD64) == [{"type": "registry", "ref": "r.example/a:x"}]
    assert imports_of(Cache(type="local", place="/c"), mini(), "", Arch.AMD64) == [{"type": "local", "src": "/c"}]


def test_an_engine_that_can_export_none_is_told_from_builders_that_can() -> None:
    old = replace(ENGINE, store=ImageStore.GRAPH_DRIVER)
    own, other = Builder("default", "docker"), Builder("farm", "docker-container")
    exports = (Cache(type="registry"),)
    with pytest.raises(MissingTool, match="default is an engine with its overlay2 graph driver") as error:
        require_exporter(exports, old, own)
    assert "--driver docker-container" in error.value.do
    require_exporter((), old, own)
    require_exporter(exports, old, other)
    require_exporter(exports, ENGINE, own)


LOG = """#1 [internal] load build definition
#1 DONE 0.0s
#2 exporting to image
#12 ERROR: another step's
#2 DONE 0.1s
#3 exporting cache to registry
#3 0.01 preparing build cache for export
#3 NO CACHE: error writing layer blob: connection refused
"""


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (LOG, "error writing layer blob: connection refused"),
        (LOG.replace("#3 NO CACHE: error writing layer blob: connection refused", "#3 DONE 1.0s"), ""),
        (LOG + "#4 exporting cache to client directory\n#4 NO CACHE: full\n", f"{LOG.splitlines()[-1][13:]}; full"),
        ("", ""),
    ],
)
def test_why_a_cache_was_not_exported_stands_in_the_log(log: str, why: str) -> None:
    assert not_exported(log) == why


@given(st.text(), st.sampled_from([TO, FROM]))
def test_whatever_is_typed_is_a_cache_or_refused_in_words(text: str, option: str) -> None:
    with suppress(BadInput, MissingTool):
        assert cache_of(text, option, {}).type in ("registry", "local")
