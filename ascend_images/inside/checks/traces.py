"""Checks: what a build must not leave in an image, switched-off verification of certificates first."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping

from ..answers import NOT_LIVE, Given, Said, check, failed, not_run, passed
from ..facts.environment import PROXY
from ..words import few

_BUILD_VARIABLES = tuple(
    """
    MAX_JOBS MAKEFLAGS CMAKE_BUILD_PARALLEL_LEVEL CMAKE_ARGS NVCC_THREADS NINJAFLAGS CFLAGS CXXFLAGS
    COMPILE_CUSTOM_KERNELS VLLM_TARGET_DEVICE SETUPTOOLS_SCM_PRETEND_VERSION* DEBIAN_FRONTEND SOURCE_DATE_EPOCH
    TORCH_DEVICE_BACKEND_AUTOLOAD CUR_TIME PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_NO_CACHE_DIR
    PIP_CERT UV_* GIT_SSL_CAINFO GIT_LFS_SKIP_SMUDGE APT_MIRROR YUM_MIRROR
    """.split()
)


@check(
    "build-variables",
    "Is no variable left that only the build needs?",
    "Set it for the one command that needs it, not with ENV.",
)
def check_build_variables(given: Given) -> list[Said]:
    """MAX_JOBS=1 and MAKEFLAGS=-j1 of a build slow down everything that is compiled in the image later.

    A public image for 8.5.2 has both in its ENV.
    """
    if not given.facts["live"]:
        return [NOT_LIVE]
    allowed = given.image.get("env", {})
    return [
        failed(name, f"{name}={value}", "not in ENV", "set it for the one command that needs it")
        for name, value in sorted(given.env().items())
        if name not in allowed
        and any(fnmatch.fnmatchcase(name, pattern) for pattern in _BUILD_VARIABLES)
        and not tls_off({name: value})
    ]


_OFF = ("", "0", "false", "no", "off")
#: Variables that switch verification off by being on, by being off, by naming a host, and by being empty.
_TLS_ON = ("GIT_SSL_NO_VERIFY", "SSL_NO_VERIFY", "CURL_INSECURE", "HF_HUB_DISABLE_SSL_VERIFICATION")
_TLS_OFF = ("PYTHONHTTPSVERIFY", "NODE_TLS_REJECT_UNAUTHORIZED", "CONDA_SSL_VERIFY", "NPM_CONFIG_STRICT_SSL")
_TLS_HOST = ("PIP_TRUSTED_HOST", "UV_INSECURE_HOST", "UV_ALLOW_INSECURE_HOST")
_TLS_EMPTY = ("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE")


def tls_off(env: Mapping[str, str]) -> list[str]:
    """Return the variables that switch the verification of certificates off."""
    found = []
    for name, value in sorted(env.items()):
        low = value.strip().lower()
        key = re.fullmatch(r"GIT_CONFIG_KEY_(\d+)", name)
        if (
            (name in _TLS_ON and low not in _OFF)
            or (name in _TLS_OFF and low in _OFF)
            or (name in _TLS_HOST and low)
            or (name in _TLS_EMPTY and not low)
            or (key and low.endswith("sslverify") and env.get(f"GIT_CONFIG_VALUE_{key.group(1)}", "").lower() in _OFF)
        ):
            found.append(name)
    return found


def setting_findings(given: Given, kind: str, wanted: str, then: str) -> list[Said]:
    """Return a finding for each file with forbidden settings of a kind."""
    files: dict[str, list[str]] = {}
    for fact in given.facts["settings"]:
        if fact["kind"] == kind:
            files.setdefault(fact["file"], []).append(fact["line"])
    return [failed(file, few(lines), wanted, then) for file, lines in sorted(files.items())]


def with_environment(given: Given, answers: list[Said]) -> list[Said]:
    """Return the answers about ENV and files; of a directory only the files are known."""
    if given.facts["live"]:
        return answers
    return [*(answers or [passed("files")]), not_run("ENV", "a directory has none")]


@check(
    "tls",
    "Is the verification of certificates on, everywhere?",
    "Remove the switch, and give the build the company's CA as a secret (`--secret id=ca`).",
)
def check_tls(given: Given) -> list[Said]:
    """Behind a company's network it was switched off for git and pip, in the shipped image too (verl#6291)."""
    then = "remove it; give the build the company's CA as a secret instead (--secret id=ca)"
    answers = [
        failed(name, f"{name}={given.env()[name]}", "certificates are verified", then) for name in tls_off(given.env())
    ]
    answers += setting_findings(given, "tls", "certificates are verified", then)
    return with_environment(given, answers)


@check(
    "proxies",
    "Is no proxy of the build left in the image?",
    "Remove it: the engine gives proxies to builds and containers by itself (docker's config.json).",
)
def check_proxies(given: Given) -> list[Said]:
    """A proxy's address, perhaps with a password, is nobody else's business, and nobody else reaches it."""
    then = "remove it; the engine gives proxies to a build or a container by itself (docker's config.json)"
    named = [name for name, value in sorted(given.env().items()) if PROXY.fullmatch(name) and value]
    answers = [failed(name, f"{name}={given.env()[name]}", "no proxy in ENV", then) for name in named]
    return with_environment(given, answers + setting_findings(given, "proxy", "no proxy in a file", then))


@check(
    "leftovers",
    "Are no caches, build directories, package indexes and secrets of the build left?",
    "Use a cache mount or a secret mount for it, or a stage of its own; a secret that was published is to be "
    "withdrawn.",
)
def check_leftovers(given: Given) -> list[Said]:
    """They cost every user the download, and an index or a token of the builder's network is nobody else's business."""
    kinds: dict[str, list[str]] = {}
    for fact in given.facts["leftovers"]:
        kinds.setdefault(fact["kind"], []).append(fact["path"])
    then = "use a cache or secret mount for it, or a stage of its own"
    answers = [failed(few(paths), kind, "not in the image", then) for kind, paths in sorted(kinds.items())]
    answers += setting_findings(
        given, "index", "no index and no mirror in the image", "give it to the build (--mirror), not to the image"
    )
    return answers + setting_findings(
        given, "secret", "no secret in the image", "withdraw it, and give it to the build as a secret"
    )
