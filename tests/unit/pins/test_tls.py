from typing import Any

import msgspec
import pytest

from ascend_images.errors import BadInput
from ascend_images.pins.model import Decision, Index, Patch
from ascend_images.pins.tls import check_address, check_environment, check_tls
from tests.unit.images.mini import mini, overlay, source

OFF = [
    ("GIT_SSL_NO_VERIFY", "true"),
    # git looks at whether it is set, not at its value.
    ("GIT_SSL_NO_VERIFY", "false"),
    ("PIP_TRUSTED_HOST", "pypi.example"),
    ("UV_INSECURE_HOST", "pypi.example"),
    ("UV_ALLOW_INSECURE_HOST", "pypi.example"),
    ("PYTHONHTTPSVERIFY", "0"),
    ("NODE_TLS_REJECT_UNAUTHORIZED", "0"),
    ("npm_config_strict_ssl", "false"),
    ("CONDA_SSL_VERIFY", "false"),
    ("CMAKE_TLS_VERIFY", "0"),
    ("GOINSECURE", "*"),
    ("REQUESTS_CA_BUNDLE", ""),
    ("HF_HUB_DISABLE_SSL_VERIFICATION", "1"),
    ("CURL_INSECURE", "1"),
    ("FETCH", "curl -k https://x"),
    ("FETCH", "curl -fsSLk https://x"),
    ("FETCH", "curl --insecure https://x"),
    ("FETCH", "wget --no-check-certificate https://x"),
    ("PIP_ARGS", "--trusted-host pypi.example"),
    ("GIT_CONFIG_PARAMETERS", "'http.sslVerify=false'"),
    ("GIT_CONFIG_PARAMETERS", "'http.sslverify'='false'"),
    ("GIT_CONFIG_PARAMETERS", "'user.name'='me' 'http.https://x/?a=b.sslVerify'='0x0'"),
    ("GIT_CONFIG_PARAMETERS", "'http.sslverify'='OFF'"),
    ("UV_DEFAULT_INDEX", "http://index.example/simple"),
    ("UV_INDEX", "a=https://a.example b=http://b.example"),
    ("UV_EXTRA_INDEX_URL", "HTTP://b.example"),
    ("PIP_INDEX_URL", "http://index.example/simple"),
    ("PIP_EXTRA_INDEX_URL", "https://a.example http://b.example"),
    ("PIP_FIND_LINKS", "/wheels ftp://b.example"),
    ("UV_FIND_LINKS", "https://a.example,http://b.example"),
    ("npm_config_registry", "http://b.example"),
    ("CMAKE_ARGS", "-DX=1 TLS_VERIFY OFF"),
    ("APT_OPTIONS", "-o Acquire::https::Verify-Peer=false"),
]
FINE = [
    ("PYTHONHTTPSVERIFY", "1"),
    ("NODE_TLS_REJECT_UNAUTHORIZED", "1"),
    ("PIP_TRUSTED_HOST", ""),
    ("NPM_CONFIG_STRICT_SSL", "true"),
    ("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"),
    ("FETCH", "curl --fail --location https://x/-k"),
    ("VLLM_TARGET_DEVICE", "empty"),
    ("TASK", "walk -k 3"),
    ("GIT_CONFIG_PARAMETERS", "'http.sslVerify=true'"),
    ("GIT_CONFIG_PARAMETERS", "'http.sslverify'='true' 'user.name'='no'"),
    ("GIT_CONFIG_PARAMETERS", "'http.sslverify"),
    ("UV_INDEX", "a=https://a.example b=https://b.example"),
    ("PIP_FIND_LINKS", "/wheels file:///more"),
    ("PIP_NO_INDEX", "1"),
    ("HTTP_PROXY", "http://proxy.example:3128"),
]


@pytest.mark.parametrize(("name", "value"), OFF)
def test_an_environment_that_switches_tls_off_is_refused_by_key(name: str, value: str) -> None:
    with pytest.raises(BadInput) as error:
        check_environment("stack.x.env", {"FINE": "1", name: value})
    assert f"stack.x.env.{name}" in error.value.found
    assert "--ca-bundle" in error.value.do


@pytest.mark.parametrize(("name", "value"), FINE)
def test_an_environment_that_leaves_tls_on_is_fine(name: str, value: str) -> None:
    check_environment("stack.x.env", {name: value})


@pytest.mark.parametrize("value", ["false", "0", "no", "", "OFF", "No", "00", "0x0", "-0", "0k"])
def test_git_configuration_in_pairs_is_read_as_git_reads_it(value: str) -> None:
    pair = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "http.https://x/.sslVerify", "GIT_CONFIG_VALUE_0": value}
    with pytest.raises(BadInput, match="GIT_CONFIG_VALUE_0"):
        check_environment("env", pair)
    check_environment("env", {**pair, "GIT_CONFIG_KEY_0": "user.name"})
    check_environment("env", {**pair, "GIT_CONFIG_VALUE_0": "true"})


@pytest.mark.parametrize(
    "url",
    [
        *("http://example.com/x", "git://example.com/x", "git@example.com:x", "ssh://example.com/x", "", "https://"),
        *("https://[::1/x", "https://[x]/", "https://x:port/", "https://x:99999/", 'https://x/"y', "https://x/ y"),
        *("https://x/`y`", "https://x/{y}", "https://x/'y'", "https://x/\ny", "https://x/\\y"),
    ],
)
def test_an_address_without_https_is_refused_by_key(url: str) -> None:
    with pytest.raises(BadInput, match=r"index\.x\.url"):
        check_address("index.x.url", url)


def test_an_address_with_a_password_is_refused_and_the_password_not_shown() -> None:
    with pytest.raises(BadInput) as error:
        check_address("index.x.url", "https://me:secret@example.com/x")
    assert "secret" not in str(error.value)


def test_an_https_address_is_fine() -> None:
    check_address("index.x.url", "https://example.com/x")


def test_a_variant_as_it_should_be_passes() -> None:
    check_tls(mini())
    check_tls(overlay())


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"env": {"GIT_SSL_NO_VERIFY": "1"}}, "env.GIT_SSL_NO_VERIFY"),
        ({"install_env": {"PIP_TRUSTED_HOST": "x"}}, "install_env.PIP_TRUSTED_HOST"),
        ({"runtime": {"PYTHONHTTPSVERIFY": Decision(value="0", reason="x")}}, "runtime.PYTHONHTTPSVERIFY"),
        ({"sources": (source(0, env={"UV_INSECURE_HOST": "x"}),)}, "sources.vllm.env.UV_INSECURE_HOST"),
        ({"sources": (source(0, git="http://example.com/vllm"),)}, "sources.vllm.git"),
        (
            {"patches": (Patch(distribution="x", file="x", find="y", replace="curl -k x", count=1, reason="r"),)},
            "patches[0].replace",
        ),
        ({"sources": (source(0, env={"VLLM_BATCH_INVARIANT": "1"}),)}, "sources.vllm.env.VLLM_BATCH_INVARIANT"),
    ],
)
def test_wherever_a_variant_switches_tls_off_the_key_is_named(change: dict[str, Any], key: str) -> None:
    with pytest.raises(BadInput) as error:
        check_tls(mini(**change))
    assert key in error.value.found
    assert error.value.exit_code == 2


def test_an_index_without_https_is_refused() -> None:
    # The model refuses it when it is read; this is for whoever makes an Index otherwise.
    with pytest.raises(BadInput, match=r"index\.plain\.url"):
        check_tls(mini(indexes={"plain": Index(url="http://example.com/simple", serves=("x",))}))


def test_a_cann_package_without_https_is_refused() -> None:
    variant = overlay()
    runs = (msgspec.structs.replace(variant.runs[0], url="http://example.com/x.run"), *variant.runs[1:])
    with pytest.raises(BadInput, match=r"run\.toolkit\.url"):
        check_tls(overlay(runs=runs))


def test_a_setting_that_only_matters_at_run_time_is_not_refused_there() -> None:
    check_tls(mini(env={"VLLM_BATCH_INVARIANT": "1"}))


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(BadInput) as error:
        check_tls(mini(env={"GIT_SSL_NO_VERIFY": "1", "PIP_TRUSTED_HOST": "x"}))
    assert "env.GIT_SSL_NO_VERIFY" in error.value.found
    assert "env.PIP_TRUSTED_HOST" in error.value.found


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"env": {"HF_ENDPOINT": "https://me:s3cret@hf.example"}}, "env.HF_ENDPOINT"),
        ({"install_env": {"UV_INDEX": "a=https://me:s3cret@a.example"}}, "install_env.UV_INDEX"),
        ({"install_env": {"HTTPS_PROXY": "http://me:s3cret@p.example:1"}}, "install_env.HTTPS_PROXY"),
        ({"runtime": {"X": Decision(value="see https://me:s3cret@x.example", reason="x")}}, "runtime.X"),
        ({"sources": (source(0, env={"X": "https://me:s3cret@x.example"}),)}, "sources.vllm.env.X"),
        ({"sources": (source(0, git="https://me:s3cret@x.example/vllm"),)}, "sources.vllm.git"),
        ({"indexes": {"a": Index(url="https://me:s3cret@a.example", serves=("x",))}}, "index.a.url"),
    ],
)
def test_a_password_is_refused_by_its_key_and_not_shown(change: dict[str, Any], key: str) -> None:
    with pytest.raises(BadInput) as error:
        check_tls(mini(**change))
    assert key in error.value.found
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("value", ["https://x.example", "https://me@x.example", "a:b@c", "scheme://x:1/a@b", "1:2"])
def test_what_holds_no_password_is_fine(value: str) -> None:
    check_tls(mini(env={"X": value}))
