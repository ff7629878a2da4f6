"""Refuses pins by which certificates would go unchecked: in environments, addresses and commands."""

import re
import shlex
from collections.abc import Iterator, Mapping

from ascend_images.errors import BadInput
from ascend_images.pins.addresses import holds_password, is_https, masked
from ascend_images.pins.variant import Variant

_WANTED = "TLS that stays on, checked against your company's CA too"
_DO = "name the CA when building instead: --ca-bundle corp.pem"

_FALSE = frozenset({"", "0", "false", "no", "off", "n", "none"})
_TRUE = frozenset({"1", "true", "yes", "on", "y"})
_ALWAYS = frozenset({None})

# Variables that switch checking off, and the values by which they do not. From the manuals of git, pip, uv, CPython,
# Node.js, npm, conda, Go, Perl's LWP, huggingface_hub and CMake. `_ALWAYS`: it counts as soon as it is set.
_SWITCHES: Mapping[str, frozenset[str] | frozenset[None]] = {
    "GIT_SSL_NO_VERIFY": _ALWAYS,
    "PIP_TRUSTED_HOST": frozenset({""}),
    "UV_INSECURE_HOST": frozenset({""}),
    "UV_ALLOW_INSECURE_HOST": frozenset({""}),
    "PYTHONHTTPSVERIFY": frozenset({"", *_TRUE}),
    "NODE_TLS_REJECT_UNAUTHORIZED": frozenset({"", *_TRUE}),
    "NPM_CONFIG_STRICT_SSL": _TRUE,
    "YARN_STRICT_SSL": _TRUE,
    "CONDA_SSL_VERIFY": frozenset({"", *_TRUE}),
    "CMAKE_TLS_VERIFY": _TRUE,
    "GOINSECURE": frozenset({""}),
    "PERL_LWP_SSL_VERIFY_HOSTNAME": frozenset({"", *_TRUE}),
    "HF_HUB_DISABLE_SSL_VERIFICATION": _FALSE,
    "DISABLE_SSL_VERIFICATION": _FALSE,
    "SSL_NO_VERIFY": _FALSE,
    "CURL_INSECURE": _FALSE,
}
# An empty bundle tells requests and curl to trust nothing or, in some versions, everything.
_BUNDLES = frozenset({"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "GIT_SSL_CAINFO", "PIP_CERT"})

# The same in the words of a command or of a configuration, wherever it is written.
_WORDS = re.compile(
    r"""
      \bsslVerify \s* [= ] \s* ['"]? (?:false|no|off|0)\b
    | --no-check-certificate\b
    | --trusted-host\b | \btrusted-host \s* =
    | --(?:allow-)?insecure(?:-host)?\b
    | \bcurl \b [^;&|\n]*? \s (?:-[A-Za-z]*k[A-Za-z]*)(?=\s|$)
    | \bwget \b [^;&|\n]*? \s --no-check
    | \bTLS_VERIFY [ =]+ (?:OFF|FALSE|0)\b
    | \bstrict-ssl \s* [= ] \s* false\b
    | Verify-(?:Peer|Host) \s* [= "]+ \s* (?:false|no|0)\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
_GIT_CONFIG = re.compile(r"http\.(?:.*\.)?sslverify", re.IGNORECASE)
# `key=value` as one word of GIT_CONFIG_PARAMETERS, once the quotes are off: git writes `'key'='value'`, before 2.31
# `'key=value'`.
_GIT_PARAMETER = re.compile(rf"{_GIT_CONFIG.pattern}=(?P<value>[^=]*)", re.IGNORECASE)
# What git reads as false (git_parse_maybe_bool of git's parse.c): words, and numbers in any base that are zero.
_GIT_FALSE = re.compile(r"|no|off|false|[+-]?(?:0+|0x0+)[kmg]?", re.IGNORECASE)
# Variables whose value is the addresses of package indexes or of places that packages come from.
_INDEX_VARIABLE = re.compile(
    r"(?:PIP|UV)_(?:.*INDEX.*|FIND_LINKS|PYPI_URL)|NPM_CONFIG_REGISTRY|GOPROXY|HF_ENDPOINT", re.IGNORECASE
)
_PLAIN = re.compile(r"(?:^|[\s,|=])(?P<address>(?!https://|file://)[a-z][a-z0-9+.-]*://[^\s,|]*)", re.IGNORECASE)
# Build scripts of vLLM Ascend run `curl -k` where this is set (csrc/build_batch_invariant_ops.sh).
_UNSAFE_BUILD = frozenset({"VLLM_BATCH_INVARIANT"})


def check_tls(variant: Variant) -> None:
    """Raise BadInput if anything in a variant switches TLS off or goes without it, naming the keys."""
    found = list(_faults(variant))
    if found:
        raise BadInput(f"variant {variant.name} switches TLS off: " + "; ".join(found), wanted=_WANTED, do=_DO)


def check_environment(where: str, values: Mapping[str, str]) -> None:
    """Raise BadInput if an environment switches TLS off; `where` is the table it stands in."""
    found = list(environment_faults(where, values))
    if found:
        raise BadInput("TLS is switched off: " + "; ".join(found), wanted=_WANTED, do=_DO)


def check_address(where: str, url: str) -> None:
    """Raise BadInput unless `url` is an https address without a password; `where` is its key."""
    found = list(address_faults(where, url))
    if found:
        raise BadInput("; ".join(found), wanted="an https address without a password", do=_DO)


def environment_faults(where: str, values: Mapping[str, str], *, build: bool = False) -> Iterator[str]:
    """Yield each key by which an environment switches TLS off, with its table and value.

    `build`: it is that of a build step, where a setting counts too that makes the build script of a source do so.
    """
    for name, value in values.items():
        key = f"{where}.{name}" if where else name
        if _is_off(name, value) or _WORDS.search(value) or _git_parameters_off(name, value):
            yield f'{key} = "{masked(value)}"'
        elif _git_config_off(name, value, values):
            yield f'{key} = "{value}", for {_GIT_CONFIG.pattern.partition("(")[0]}…sslVerify'
        elif build and name in _UNSAFE_BUILD and value.strip().lower() not in _FALSE:
            yield f'{key} = "{value}": with it the build downloads without checking certificates'
        else:
            yield from index_faults(key, name, value)


def index_faults(key: str, name: str, value: str) -> Iterator[str]:
    """Yield what is wrong with a variable called `name`, if its value names package indexes: one without TLS."""
    plain = _PLAIN.search(value) if _INDEX_VARIABLE.fullmatch(name) else None
    if plain:
        yield f"{key} = {masked(plain['address'])} is not an https address"


def password_faults(where: str, values: Mapping[str, str]) -> Iterator[str]:
    """Yield each key of a table by whose value a password would be published: rendered files and images hold it."""
    for name, value in values.items():
        if holds_password(value):
            yield f"{where}.{name} = {masked(value)} holds a password, which would be published"


def address_faults(where: str, url: str) -> Iterator[str]:
    """Yield what is wrong with an address that things are fetched from."""
    if not is_https(url):
        yield f"{where} = {masked(url)} is not an https address"
    elif "@" in url.split("/")[2]:
        yield f"{where} = {masked(url)} holds a user or a password, which would be published"


def _faults(variant: Variant) -> Iterator[str]:
    runtime = {name: decision.value for name, decision in variant.runtime.items() if decision.value is not None}
    for where, values, build in (
        ("env", variant.env, False),
        ("install_env", variant.install_env, True),
        ("runtime", runtime, False),
        *((f"sources.{source.name}.env", source.env, True) for source in variant.sources),
    ):
        yield from environment_faults(where, values, build=build)
        yield from password_faults(where, values)
    for name, index in variant.indexes.items():
        yield from address_faults(f"index.{name}.url", index.url)
    for source in variant.sources:
        yield from address_faults(f"sources.{source.name}.git", source.git)
    for part, url in dict.fromkeys((run.part, run.url) for run in variant.runs):
        yield from address_faults(f'cann."{variant.cann}".run.{part}.url', url)
    for number, patch in enumerate(variant.patches):
        if _WORDS.search(patch.replace):
            yield f'patches[{number}].replace = "{patch.replace}"'


def _is_off(name: str, value: str) -> bool:
    upper = name.upper()
    if upper in _BUNDLES:
        return not value.strip()
    fine = _SWITCHES.get(upper)
    return fine is not None and value.strip().lower() not in fine


def _git_parameters_off(name: str, value: str) -> bool:
    """Tell whether this is what `git -c http.sslVerify=false` hands to the commands that it runs."""
    if name != "GIT_CONFIG_PARAMETERS":
        return False
    try:
        words = shlex.split(value)
    except ValueError:  # nothing that git would read either
        return False
    settings = (_GIT_PARAMETER.fullmatch(word) for word in words)
    return any(setting and is_git_false(setting["value"]) for setting in settings)


def is_git_false(value: str) -> bool:
    """Tell whether git reads a value of its configuration as false."""
    return bool(_GIT_FALSE.fullmatch(value.strip()))


def _git_config_off(name: str, value: str, values: Mapping[str, str]) -> bool:
    """Tell whether this is the value of http.sslVerify, given to git as GIT_CONFIG_KEY_n and GIT_CONFIG_VALUE_n."""
    number = name.removeprefix("GIT_CONFIG_VALUE_")
    key = values.get(f"GIT_CONFIG_KEY_{number}", "") if number != name else ""
    return bool(_GIT_CONFIG.fullmatch(key)) and is_git_false(value)
