"""Mirrors, proxies and a company's CA: secrets of the build, with TLS on, left nowhere."""

import shlex
import ssl
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.errors import BadInput
from ascend_images.images.network import (
    DIRECT,
    Network,
    mirrored_image,
    network_for,
    read_ca,
    require_tls,
    secret_files,
)
from ascend_images.pins.model import Mirror
from ascend_images.pins.resolve import resolve
from tests.pins_kit import committed

PINS = committed()
A2 = resolve(PINS, "a2")
OPENEULER = resolve(PINS, "a2-openeuler")
# What CPython's own trust store holds: certificates made here would need another library.
CERTIFICATE = next(
    (ssl.DER_cert_to_PEM_cert(der) for der in ssl.create_default_context().get_ca_certs(binary_form=True)), ""
)


def network(mirror: Mirror, **environment: str) -> Network:
    return network_for(A2, mirrors={"m": mirror}, mirror="m", environment=environment)


def test_without_anything_chosen_there_is_no_secret() -> None:
    assert network_for(A2, mirrors=PINS.mirror, environment={}) == DIRECT
    assert DIRECT.secrets() == {}


def test_an_unknown_mirror_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(BadInput) as error:
        network_for(A2, mirrors={"china": Mirror()}, mirror="chin", environment={})
    assert error.value.wanted == 'did you mean "china"?'


def test_a_mirrored_default_index_is_told_to_uv() -> None:
    found = network(Mirror(index={"default": "https://m.example/simple"})).settings
    assert found == {"UV_DEFAULT_INDEX": "https://m.example/simple"}


def test_one_mirrored_index_names_all_of_the_variants_since_a_variable_replaces_the_list() -> None:
    name = next(iter(A2.indexes))
    found = network(Mirror(index={name: "https://m.example/i"})).settings["UV_INDEX"]
    listed = dict(entry.split("=", 1) for entry in found.split(" "))
    assert list(listed) == list(A2.indexes)
    assert listed.pop(name) == "https://m.example/i"
    assert listed == {other: A2.indexes[other].url for other in listed}


def test_a_mirrored_git_host_is_gits_insteadof() -> None:
    found = network(Mirror(git={"https://github.com/": "https://m.example/gh/", "https://b/": "https://c/"})).settings
    assert found == {
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "url.https://m.example/gh/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
        "GIT_CONFIG_KEY_1": "url.https://c/.insteadOf",
        "GIT_CONFIG_VALUE_1": "https://b/",
    }


@pytest.mark.parametrize(("variant", "setting"), [(A2, "APT_MIRROR"), (OPENEULER, "YUM_MIRROR")])
def test_the_operating_systems_own_mirror_is_chosen(variant: object, setting: str) -> None:
    mirror = Mirror(os={"ubuntu": "http://u.example", "openeuler": "http://o.example"})
    found = network_for(variant, mirrors={"m": mirror}, mirror="m", environment={})  # type: ignore[arg-type]
    assert list(found.settings) == [setting]


@pytest.mark.parametrize(
    "mirror",
    [
        Mirror(index={"default": "http://m.example/simple"}),
        Mirror(git={"https://github.com/": "http://m.example/"}),
        Mirror(index={"default": "https://"}),
    ],
)
def test_a_mirror_without_tls_is_refused(mirror: Mirror) -> None:
    with pytest.raises(BadInput, match=r"mirror\.m\.(index|git)") as error:
        network(mirror)
    assert "https" in error.value.wanted
    assert "--ca-bundle" in error.value.do


@pytest.mark.parametrize(
    ("image", "wanted"),
    [
        ("quay.io/ascend/cann:9.1.0", "m.example/hub/cann:9.1.0"),
        ("quay.io/ascend/cann@sha256:ab", "m.example/hub/cann@sha256:ab"),
        ("quay.io/ascend/cann", "m.example/hub/cann"),
        ("quay.io/ascend/cannery:1", ""),
        ("quay.io/other:1", "o.example/other:1"),
    ],
)
def test_a_base_image_is_mirrored_by_the_longest_repository_that_is_its_own(image: str, wanted: str) -> None:
    registries = {"quay.io": "o.example", "quay.io/ascend/cann": "m.example/hub/cann"}
    if "cannery" in image:
        del registries["quay.io"]
    assert mirrored_image(image, registries) == wanted


def test_proxies_come_along_in_both_spellings() -> None:
    found = network(Mirror(), HTTPS_PROXY="http://p.example:3128", no_proxy="localhost,.corp").settings
    assert found == {
        "HTTPS_PROXY": "http://p.example:3128",
        "https_proxy": "http://p.example:3128",
        "NO_PROXY": "localhost,.corp",
        "no_proxy": "localhost,.corp",
    }


@pytest.mark.parametrize("address", ["http://127.0.0.1:7890", "localhost:3128", "http://[::1]:8080"])
def test_a_proxy_on_loopback_is_left_out_and_said(address: str) -> None:
    found = network(Mirror(), HTTP_PROXY=address)
    assert found.settings == {}
    assert "loopback" in found.notes[0]


def test_passwords_are_known_so_that_they_can_be_hidden() -> None:
    found = network(Mirror(), HTTPS_PROXY="http://me:p%40ss@p.example:3128")
    assert set(found.hide) == {"p%40ss", "p@ss"}
    assert "p%40ss" not in network(Mirror(), HTTP_PROXY="http://me:p%40ss@127.0.0.1:1").notes[0]


@pytest.mark.parametrize(
    "environment",
    [
        {"GIT_SSL_NO_VERIFY": "true"},
        {"GIT_SSL_NO_VERIFY": ""},  # git looks only whether it is set
        {"PIP_TRUSTED_HOST": "pypi.example"},
        {"UV_INSECURE_HOST": "pypi.example"},
        {"PYTHONHTTPSVERIFY": "0"},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "http.sslVerify", "GIT_CONFIG_VALUE_0": "false"},
        {"GIT_CONFIG_KEY_3": "http.https://a.b/.sslverify", "GIT_CONFIG_VALUE_3": "0"},
    ],
)
def test_tls_switched_off_in_the_environment_is_refused_with_the_way_out(environment: dict[str, str]) -> None:
    with pytest.raises(BadInput, match="switches TLS off") as error:
        require_tls(environment)
    assert "--ca-bundle corp.pem" in error.value.do


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"PYTHONHTTPSVERIFY": "1", "PIP_TRUSTED_HOST": ""},
        {"GIT_CONFIG_KEY_0": "http.sslVerify", "GIT_CONFIG_VALUE_0": "true"},
        {"GIT_CONFIG_KEY_0": "http.sslCAInfo", "GIT_CONFIG_VALUE_0": "/corp.pem"},
    ],
)
def test_an_environment_that_checks_certificates_is_fine(environment: dict[str, str]) -> None:
    require_tls(environment)


@pytest.mark.skipif(not CERTIFICATE, reason="this Python has no certificates of its own to try with")
def test_a_bundle_of_certificates_becomes_a_secret(tmp_path: Path) -> None:
    bundle = tmp_path / "corp.pem"
    bundle.write_text(f"# our company's, ©\n{CERTIFICATE}{CERTIFICATE}", encoding="utf-8")
    found = network_for(A2, mirrors={}, ca_bundle=bundle, environment={})
    assert found.secrets() == {"ca": bundle.read_bytes()}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no certificates"),
        (b"hello", "holds no certificates"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "holds no certificates"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "holds a private key"),
    ],
)
def test_a_bundle_that_is_none_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "corp.pem").write_bytes(content)
    with pytest.raises(BadInput, match=said):
        read_ca(tmp_path / "corp.pem")


def test_a_bundle_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        read_ca(tmp_path / "none.pem")


def test_secrets_lie_in_files_that_only_their_owner_reads_and_are_gone_afterwards() -> None:
    with secret_files({"ca": b"x", "network": b"y"}) as paths:
        assert {name: path.read_bytes() for name, path in paths.items()} == {"ca": b"x", "network": b"y"}
        assert {stat.S_IMODE(path.stat().st_mode) for path in paths.values()} == {0o600}
        folder = paths["ca"].parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not folder.exists()


@pytest.mark.parametrize("end", [ValueError, KeyboardInterrupt, SystemExit])
def test_secrets_are_gone_after_an_error_as_well(end: type[BaseException]) -> None:
    seen = []

    def fail() -> None:
        with secret_files({"ca": b"x"}) as paths:
            seen.append(paths["ca"])
            raise end

    with pytest.raises(end):
        fail()
    assert not seen[0].parent.exists()


VALUES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=30)


@given(st.dictionaries(st.from_regex(r"[A-Z_]{1,8}", fullmatch=True), VALUES, min_size=1))
def test_the_network_secret_is_shell_assignments_of_the_very_values(settings: dict[str, str]) -> None:
    lines = Network(settings=settings).secrets()["network"].decode().splitlines(keepends=True)
    words = [word for line in lines for word in shlex.split(line)]
    assert dict(word.split("=", 1) for word in words) == settings


@pytest.mark.subprocess
def test_a_shell_reads_the_network_secret_without_running_what_stands_in_it(tmp_path: Path) -> None:
    value = "a $(touch ran) `touch ran` 'q' \"d\" \\ ; touch ran"
    file = tmp_path / "network"
    file.write_bytes(Network(settings={"UV_INDEX": value}).secrets()["network"])
    command = ["bash", "-c", f"set -a; . {shlex.quote(str(file))}; set +a; printenv UV_INDEX"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout == value + "\n"
    assert not (tmp_path / "ran").exists()
