"""Facts: settings of tools, and what a build must not leave behind."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..tree import Tree
from ..words import Facts, without_secrets


@dataclass(frozen=True)
class Setting:
    """A line of a configuration file that must not be in an image: `kind` is tls, proxy, index or secret."""

    kind: str
    files: tuple[str, ...]
    pattern: str


_PIP = ("/etc/pip.conf", "/root/.config/pip/pip.conf", "/root/.pip/pip.conf", "/etc/xdg/pip/pip.conf")
_UV = ("/root/.config/uv/uv.toml", "/etc/uv/uv.toml", "/etc/xdg/uv/uv.toml")
_GIT = ("/etc/gitconfig", "/root/.gitconfig", "/root/.config/git/config")
_APT = ("/etc/apt/apt.conf", "/etc/apt/apt.conf.d/*")
_YUM = ("/etc/yum.conf", "/etc/dnf/dnf.conf", "/etc/yum.repos.d/*.repo")
_SHELL = (
    "/etc/environment",
    "/etc/profile",
    "/etc/profile.d/*.sh",
    "/root/.bashrc",
    "/root/.profile",
    "/etc/bash.bashrc",
)
SETTINGS = (
    Setting("tls", _PIP, r"^\s*trusted-host\b"),
    Setting("tls", _UV, r"^\s*allow-insecure-host\b"),
    Setting("tls", _GIT, r"^\s*sslVerify\s*=\s*(false|0|no|off)"),
    Setting("tls", _APT, r"Verify-(Peer|Host)\s+\"?(false|0|no)|AllowInsecureRepositories\s+\"?(true|1|yes)"),
    Setting("tls", ("/etc/apt/sources.list", "/etc/apt/sources.list.d/*"), r"^[^#\n]*\btrusted\s*[=:]\s*yes"),
    Setting("tls", _YUM, r"^\s*sslverify\s*=\s*(0|false|no)"),
    Setting("tls", ("/root/.curlrc", "/etc/curlrc"), r"^\s*(insecure|-k)\b"),
    Setting("tls", ("/root/.wgetrc", "/etc/wgetrc"), r"^\s*check_?certificate\s*=\s*(off|no|0)"),
    Setting("tls", ("/root/.npmrc", "/usr/etc/npmrc"), r"^\s*strict-ssl\s*=\s*false"),
    Setting("tls", _SHELL, r"^\s*(export\s+)?(GIT_SSL_NO_VERIFY|PIP_TRUSTED_HOST|UV_INSECURE_HOST|PYTHONHTTPSVERIFY)="),
    Setting("proxy", _PIP, r"^\s*proxy\s*="),
    Setting("proxy", _GIT, r"^\s*proxy\s*="),
    Setting("proxy", _APT, r"^[^/#\n]*Acquire::(http|https|ftp)::Proxy\b(?!\s*\"?(false|DIRECT))"),
    Setting("proxy", _YUM, r"^\s*proxy\s*=\s*\S"),
    Setting("proxy", _SHELL, r"^\s*(export\s+)?(https?|ftp|all)_proxy\s*="),
    Setting("proxy", ("/root/.curlrc", "/root/.wgetrc", "/etc/wgetrc"), r"^\s*(https?_)?proxy\s*="),
    Setting("index", _PIP, r"^\s*(extra-)?index-url\s*=|^\s*find-links\s*="),
    Setting("index", _UV, r"^\s*(extra-)?index-url\s*=|^\s*\[\[index\]\]|^\s*default-index\s*="),
    Setting("index", _GIT, r"^\s*(pushI|i)nsteadOf\s*="),
    Setting("secret", (*_GIT, *_PIP), r"://[^/@\s]+:[^/@\s]+@|extraheader\s*="),
    Setting("secret", ("/root/.npmrc",), r"_authToken\s*="),
)


#: Bytes of a configuration file.
_CONFIGURATION_LIMIT = 1 << 20


def setting_facts(tree: Tree, image: Mapping[str, Any]) -> list[Facts]:
    """Return every line of a configuration file that `SETTINGS` forbids, its value hidden where it may be a secret."""
    checkouts = tuple(f"{source['path']}/.git/config" for source in image.get("sources", []) if source.get("path"))
    facts = []
    for rule in SETTINGS:
        files = (*rule.files, *checkouts) if rule.files[:3] == _GIT else rule.files
        for path in dict.fromkeys(path for pattern in files for path in tree.glob(pattern)):
            if mounted(tree, path):
                continue
            text = tree.text(path, _CONFIGURATION_LIMIT) or ""
            for found in re.finditer(rule.pattern, text, re.MULTILINE | re.IGNORECASE):
                line = line_at(text, found.end())
                said = line.split("=")[0].strip() if rule.kind == "secret" else without_secrets(line)
                facts.append({"kind": rule.kind, "file": path, "line": said})
    unique = {(fact["kind"], fact["file"], fact["line"]): fact for fact in facts}
    return [unique[key] for key in sorted(unique)]


def line_at(text: str, place: int) -> str:
    """Return the line of a text that holds a place."""
    return text[text.rfind("\n", 0, place) + 1 :].split("\n", 1)[0].strip()


#: Directories of caches and of builds, each with what it is; empty ones do no harm.
_LEFT = {
    "a cache": ("/root/.cache/uv", "/root/.cache/pip", "/root/.cache/ccache", "/root/.ccache", "/root/.local/share/uv",
                "/var/cache/apt/archives", "/var/lib/apt/lists", "/var/cache/yum", "/var/cache/dnf"),
    "a directory of the build": ("/out", "/wheels", "/lock", "/facts"),
}  # fmt: skip
_LEFT_FILES = {
    "a CANN package": ("/*.run", "/root/*.run", "/tmp/*.run"),
    "a wheel": ("/tmp/*.whl", "/root/*.whl"),
    "a directory of the build": ("/tmp/pip-*", "/tmp/uv-*"),
}
_SECRET_FILES = tuple(
    """
    /root/.netrc /root/.git-credentials /root/.docker/config.json /root/.pypirc /root/.ssh/id_*
    /root/.aws/credentials /root/.cache/huggingface/token /root/.huggingface/token
    /root/.modelscope/credentials/* /run/secrets/*
    """.split()
)


def leftovers(tree: Tree, image: Mapping[str, Any], own: str) -> list[Facts]:
    """Return caches, build directories and files of secrets; what is mounted is not the image's."""
    sources = [source.get("path") for source in image.get("sources", [])]
    facts = [
        {"kind": kind, "path": path}
        for kind, paths in _LEFT.items()
        for path in paths
        if path not in sources and not (own and f"{own}/".startswith(f"{path}/")) and holds_files(tree, path)
    ]
    facts += [
        {"kind": kind, "path": path}
        for kind, patterns in _LEFT_FILES.items()
        for pattern in patterns
        for path in tree.glob(pattern)
    ]
    facts += [{"kind": "secret", "path": path} for pattern in _SECRET_FILES for path in tree.glob(pattern)]
    return [fact for fact in facts if not mounted(tree, fact["path"])]


def holds_files(tree: Tree, path: str) -> bool:
    """Tell whether a directory holds any file; those by which apt locks its caches do not count."""
    if not tree.is_dir(path):
        return False
    for _, _, names in os.walk(tree.at(path)):
        if any(name not in ("lock", ".lock", "CACHEDIR.TAG", ".gitignore") for name in names):
            return True
    return False


def mounted(tree: Tree, path: str) -> bool:
    """Tell whether a path lies on a mount, so that it is the container's and not the image's."""
    if not tree.live:
        return False
    points = [
        line.split()[4] for line in (tree.text("/proc/self/mountinfo") or "").splitlines() if len(line.split()) > 4
    ]
    return any(point != "/" and (path == point or path.startswith(f"{point}/")) for point in points)
