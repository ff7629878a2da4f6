"""The words of `invoke run`: what each option takes, and what it refuses."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.errors import BadInput
from ascend_images.host.request import (
    Mount,
    host_folder,
    parse_devices,
    parse_env,
    parse_groups,
    parse_mount,
    require_sources,
    size_in_bytes,
)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0", (0,)), ("0,1", (0, 1)), ("0-3", (0, 1, 2, 3)), ("4, 0-1,1", (4, 0, 1)), ("15-15", (15,))],
)
def test_devices_are_numbers_and_ranges(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_devices(text) == numbers


@pytest.mark.parametrize("text", ["", ",", "0,", "a", "3-1", "-1", "0:1", "/dev/davinci0", "1.5", "99999", "٣"])
def test_other_words_are_no_devices(text: str) -> None:
    with pytest.raises(BadInput, match="--devices"):
        parse_devices(text)


@given(st.lists(st.integers(0, 9999), min_size=1, unique=True))
def test_numbers_are_read_back_in_their_order(numbers: list[int]) -> None:
    assert parse_devices(",".join(map(str, numbers))) == tuple(numbers)


@given(st.text())
def test_any_text_can_be_read_or_is_refused(text: str) -> None:
    for parse in (parse_devices, parse_mount, size_in_bytes):
        with contextlib.suppress(BadInput):
            parse(text)
    for parse_all in (parse_env, parse_groups):
        with contextlib.suppress(BadInput):
            parse_all([text])


@pytest.mark.parametrize(
    ("text", "mount"),
    [
        ("/data:/data", Mount("/data", "/data", False)),
        ("/data", Mount("/data", "/data", False)),
        ("/data:ro", Mount("/data", "/data", True)),
        ("/a b:/c d:ro", Mount("/a b", "/c d", True)),
        ("/a/../b/:/c:rw", Mount("/b", "/c", False)),
        ("type=bind,source=/a:b,target=/c,readonly", Mount("/a:b", "/c", True)),
        ("type=bind,dst=/c,src=/a", Mount("/a", "/c", False)),
        ("type=bind,src=/a,dst=/c,ro=false", Mount("/a", "/c", False)),
    ],
)
def test_a_mount_is_written_as_docker_writes_it(text: str, mount: Mount) -> None:
    assert parse_mount(text) == mount


def test_a_relative_source_is_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert parse_mount("./models:/models").source == f"{tmp_path}/models"
    assert parse_mount("~/models:/models").source == "/home/me/models"


@pytest.mark.parametrize(
    "text",
    [
        "", "data:/data", "/data:data", "/a:/b:/c", "/a:/b:z", ":/b", "type=volume,source=/a,target=/b",
        "type=bind,source=/a", "type=bind,source=/a,target=/b,propagation=shared", "type=bind,source=a,target=/b",
    ],
)  # fmt: skip
def test_another_form_of_a_mount_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--mount"):
        parse_mount(text)


def test_a_source_that_is_not_there_is_named(tmp_path: Path) -> None:
    require_sources([Mount(str(tmp_path), "/data")])
    with pytest.raises(BadInput, match="there is no") as error:
        require_sources([Mount(f"{tmp_path}/models", "/models")])
    assert error.value.do.startswith("--mount FOLDER:/models:ro")
    with pytest.raises(BadInput, match="there is no") as error:
        require_sources([Mount(f"{tmp_path}/my models", "/models", read_only=False)])
    assert error.value.do == f"mkdir -p '{tmp_path}/my models'"


def test_a_folder_stands_for_a_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "host").mkdir()
    (tmp_path / "file").touch()
    assert host_folder("host") == f"{tmp_path}/host"
    assert host_folder("/") == "/"
    for text in ("nope", "file", "/no/such/host"):
        with pytest.raises(BadInput, match=f"--host-root {text}: there is no such folder"):
            host_folder(text)


def test_variables_keep_their_values_to_the_letter() -> None:
    assert parse_env(["A=1", "B=", "C=a=b c", "A=2"]) == {"A": "2", "B": "", "C": "a=b c"}


@pytest.mark.parametrize("text", ["A", "", "=1", " A=1"])
def test_a_variable_without_name_or_value_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--env"):
        parse_env([text])


@pytest.mark.parametrize("value", ["0,1", "", "void"])
def test_the_device_selector_is_never_said_twice(value: str) -> None:
    with pytest.raises(BadInput, match="second word") as error:
        parse_env([f"ASCEND_VISIBLE_DEVICES={value}"])
    assert error.value.do == f"--devices {value or 'none'}"


def test_groups_are_numbers() -> None:
    assert parse_groups(["1000", "44", "1000"]) == (1000, 44)
    for text in ("HwHiAiUser", "", "-1", "1 0"):
        with pytest.raises(BadInput, match="--group-add"):
            parse_groups([text])


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("64b", 64), ("2k", 2048), ("64m", 64 << 20), ("128G", 128 << 30), ("1gb", 1 << 30)]
)
def test_sizes_are_dockers(text: str, size: int) -> None:
    assert size_in_bytes(text) == size


@pytest.mark.parametrize("text", ["", "0", "g", "1t", "1.5g", "1 g", "1Gi"])
def test_another_size_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--shm-size"):
        size_in_bytes(text)
