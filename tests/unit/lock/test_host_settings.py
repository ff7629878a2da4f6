"""Configuration files of a machine that switch TLS off are found wherever the programs look for them, and named."""

from pathlib import Path

import pytest

from ascend_images.errors import BadInput
from ascend_images.lock.host_settings import faults, require_checked_hosts

pytestmark = pytest.mark.subprocess


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def found(home: Path, **environment: str) -> list[str]:
    settings = {"HOME": str(home), "PATH": "/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1", **environment}
    return list(faults(settings, home / "etc"))


OFF = [
    (".gitconfig", "[http]\nsslVerify = false\n", "http.sslverify = false"),
    (".gitconfig", "[http]\nsslVerify =\n", "http.sslverify = nothing"),
    (".gitconfig", "[http]\nsslVerify = OFF\n", "http.sslverify = OFF"),
    (".gitconfig", '[http "https://git.example"]\nsslverify = 0x0\n', "http.https://git.example.sslverify = 0x0"),
    (".config/git/config", "[http]\nsslVerify = no\n", "http.sslverify = no"),
    (
        ".config/pip/pip.conf",
        "[global]\ntrusted-host = a.example\n b.example\n",
        'trusted-host = "a.example b.example"',
    ),
    (".pip/pip.conf", "[install]\ntrusted_host = a.example\n", 'trusted-host = "a.example"'),
    ("etc/pip.conf", "[global]\ntrusted-host = a.example\n", 'trusted-host = "a.example"'),
    (".config/uv/uv.toml", 'allow-insecure-host = ["a.example"]\n', "allow-insecure-host = ['a.example']"),
    ("etc/uv/uv.toml", '[pip]\nallow-insecure-host = ["a.example"]\n', "allow-insecure-host = ['a.example']"),
    (".curlrc", "# mine\ninsecure\n", "insecure"),
    (".curlrc", "-k\n", "insecure"),
    (".config/curlrc", "--insecure\n", "insecure"),
    (".wgetrc", "check_certificate = off\n", "check_certificate is off"),
]


@pytest.mark.parametrize(("name", "text", "setting"), OFF)
def test_a_setting_is_found_with_its_file(name: str, text: str, setting: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, text)
    assert found(tmp_path) == [f"{path}: {setting}"]


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("GIT_CONFIG_GLOBAL", "[http]\nsslVerify = false\n"),
        ("PIP_CONFIG_FILE", "[global]\ntrusted-host = a\n"),
        ("UV_CONFIG_FILE", 'allow-insecure-host = ["a"]\n'),
        ("WGETRC", "check_certificate = off\n"),
    ],
)
def test_a_file_that_a_variable_names_counts_too(variable: str, text: str, tmp_path: Path) -> None:
    path = write(tmp_path / "elsewhere" / "settings", text)
    (fault,) = found(tmp_path / "home", **{variable: str(path)})
    assert fault.startswith(f"{path}: ")


def test_what_git_includes_counts_too(tmp_path: Path) -> None:
    work = write(tmp_path / "work", "[http]\nsslVerify = false\n")
    write(tmp_path / ".gitconfig", f"[include]\npath = {work}\n")
    assert found(tmp_path) == [f"{work}: http.sslverify = false"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".gitconfig", "[http]\nsslVerify = true\n"),
        (".gitconfig", "[http]\nsslVerify\n"),
        (".gitconfig", "[http\n"),
        (".config/pip/pip.conf", "[global]\ntrusted-host =\ncert = /corp.pem\n"),
        (".config/pip/pip.conf", "no section\n"),
        (".config/uv/uv.toml", "allow-insecure-host = []\n"),
        (".config/uv/uv.toml", "[[[\n"),
        (".curlrc", "# insecure\nuser-agent = insecure\n"),
        (".wgetrc", "check_certificate = on\n"),
    ],
)
def test_what_leaves_it_on_or_cannot_be_read_is_no_fault(name: str, text: str, tmp_path: Path) -> None:
    write(tmp_path / name, text)
    assert found(tmp_path) == []


def test_a_machine_without_a_home_or_git_is_no_fault() -> None:
    assert list(faults({"PATH": "/nowhere", "GIT_CONFIG_NOSYSTEM": "1"}, Path("/nowhere"))) == []


def test_the_refusal_names_the_file_and_the_way_out(tmp_path: Path) -> None:
    path = write(tmp_path / ".gitconfig", "[http]\nsslVerify = false\n")
    with pytest.raises(BadInput) as error:
        require_checked_hosts({"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1"})
    assert str(path) in error.value.found
    assert "--ca-bundle" in error.value.do
