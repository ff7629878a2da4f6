"""Refuses pins by which certificates would go unchecked: in environments, addresses and commands."""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from ascend_images.errors import BadInput
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
        if _is_off(name, value) or _WORDS.search(value):
            yield f'{key} = "{value}"'
        elif _git_config_off(name, value, values):
            yield f'{key} = "{value}", for {_GIT_CONFIG.pattern.partition("(")[0]}…sslVerify'
        elif build and name in _UNSAFE_BUILD and value.strip().lower() not in _FALSE:
            yield f'{key} = "{value}": with it the build downloads without checking certificates'


def address_faults(where: str, url: str) -> Iterator[str]:
    """Yield what is wrong with an address that things are fetched from."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        yield f"{where} = {re.sub(r'//[^/@]*@', '//***@', url)} is not an https address"
    elif "@" in parts.netloc:
        yield f"{where} = {re.sub(r'//[^/@]*@', '//***@', url)} holds a user or a password, which would be published"


def _faults(variant: Variant) -> Iterator[str]:
    yield from environment_faults("env", variant.env)
    yield from environment_faults("install_env", variant.install_env, build=True)
    yield from environment_faults(
        "runtime", {name: decision.value for name, decision in variant.runtime.items() if decision.value is not None}
    )
    for name, index in variant.indexes.items():
        yield from address_faults(f"index.{name}.url", index.url)
    for source in variant.sources:
        yield from address_faults(f"sources.{source.name}.git", source.git)
        yield from environment_faults(f"sources.{source.name}.env", source.env, build=True)
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


def _git_config_off(name: str, value: str, values: Mapping[str, str]) -> bool:
    """Tell whether this is the value of http.sslVerify, given to git as GIT_CONFIG_KEY_n and GIT_CONFIG_VALUE_n."""
    number = name.removeprefix("GIT_CONFIG_VALUE_")
    key = values.get(f"GIT_CONFIG_KEY_{number}", "") if number != name else ""
    return bool(_GIT_CONFIG.fullmatch(key)) and value.strip().lower() in _FALSE
