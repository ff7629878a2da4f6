"""Configuration files of this machine that switch TLS off for what a lock starts.

That is git, and uv with the build backends of source distributions, which may call pip, curl or wget in their turn.
Steps of a build see none of these files: they run in containers.
"""

import configparser
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ascend_images.errors import BadInput
from ascend_images.files import read_regular
from ascend_images.pins.tls import is_git_false
from ascend_images.toml_text import NotTomlError, read_toml

_GIT_TIMEOUT = 60
_CURL_INSECURE = re.compile(r"^\s*(?:--?)?(?:proxy-)?insecure\b|^\s*-k\b", re.MULTILINE)
_WGET_INSECURE = re.compile(r"^\s*check[_-]?certificate\s*=\s*(?:off|no|0|quiet)\b", re.MULTILINE | re.IGNORECASE)


def require_checked_hosts(environment: Mapping[str, str] = os.environ) -> None:
    """Raise BadInput, naming file and setting, where a configuration file of this machine switches TLS off."""
    found = list(faults(environment))
    if found:
        raise BadInput(
            "TLS is switched off on this machine: " + "; ".join(found),
            wanted="certificates that are checked, against your company's CA as well",
            do="remove the setting, and name the CA instead: --ca-bundle corp.pem",
        )


def faults(environment: Mapping[str, str], system: Path = Path("/etc")) -> Iterator[str]:
    """Yield each setting that switches TLS off, with its file; `system` is the folder of the machine's own files."""
    yield from _git_faults(environment)
    folders = _Folders(environment, system)
    for path in folders.pip():
        yield from (f'{path}: trusted-host = "{hosts}"' for hosts in _trusted_hosts(path))
    for path in folders.uv():
        yield from (f"{path}: allow-insecure-host = {hosts}" for hosts in _insecure_hosts(path))
    for path in folders.curl():
        if _CURL_INSECURE.search(_text(path)):
            yield f"{path}: insecure"
    for path in folders.wget():
        if _WGET_INSECURE.search(_text(path)):
            yield f"{path}: check_certificate is off"


class _Folders:
    """Where each program looks for its configuration, from its manual."""

    def __init__(self, environment: Mapping[str, str], system: Path) -> None:
        self._environment = environment
        self._system = system
        home = environment.get("HOME")
        self._home = [Path(home)] if home else []
        config = environment.get("XDG_CONFIG_HOME")
        self._config = [Path(config)] if config else [folder / ".config" for folder in self._home]

    def _named(self, variable: str) -> list[Path]:
        value = self._environment.get(variable)
        return [Path(value)] if value else []

    def pip(self) -> list[Path]:
        """Return pip's files: the machine's, the user's old and new one, that of the Python, and the named one."""
        folders = [self._system, self._system / "xdg" / "pip", *(folder / ".pip" for folder in self._home)]
        folders += [*(folder / "pip" for folder in self._config), Path(sys.prefix)]
        return [*(folder / "pip.conf" for folder in folders), *self._named("PIP_CONFIG_FILE")]

    def uv(self) -> list[Path]:
        """Return uv's files: the machine's, the user's, and the named one."""
        folders = [self._system / "uv", self._system / "xdg" / "uv", *(folder / "uv" for folder in self._config)]
        return [*(folder / "uv.toml" for folder in folders), *self._named("UV_CONFIG_FILE")]

    def curl(self) -> list[Path]:
        """Return curl's files."""
        places = [folder / ".curlrc" for folder in (*self._named("CURL_HOME"), *self._home)]
        return [*places, *(folder / name for folder in self._config for name in ("curlrc", ".curlrc"))]

    def wget(self) -> list[Path]:
        """Return wget's files."""
        return [self._system / "wgetrc", *self._named("WGETRC"), *(folder / ".wgetrc" for folder in self._home)]


def _text(path: Path) -> str:
    try:
        return read_regular(path).decode(errors="replace")
    except OSError:
        return ""


def _trusted_hosts(path: Path) -> Iterator[str]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(_text(path))
    except configparser.Error:  # nothing that pip would read either
        return
    for section in parser.sections():
        for key in ("trusted-host", "trusted_host"):
            hosts = " ".join(parser.get(section, key, fallback="").split())
            if hosts:
                yield hosts


def _insecure_hosts(path: Path) -> Iterator[str]:
    try:
        document: Any = read_toml(_text(path))
    except NotTomlError:
        return
    for table in (document, document.get("pip")):
        hosts = table.get("allow-insecure-host") if isinstance(table, dict) else None
        if hosts:
            yield str(hosts)


def _git_faults(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the settings of git's own files, wherever those lie and whatever they include, that switch it off."""
    # Outside of any repository: whose settings are those of the caller's folder is no matter here.
    outside = {"GIT_DIR": os.devnull, "LC_ALL": "C"}
    command = ["git", "config", "--includes", "--show-origin", "-z", "--get-regexp", r"^http\.(.*\.)?sslverify$"]
    try:
        done = subprocess.run(
            command,
            env={**environment, **outside},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):  # without git nothing is asked of it; the lock says that it lacks it
        return
    parts = done.stdout.decode(errors="replace").split("\0")
    for origin, setting in zip(parts[::2], parts[1::2], strict=False):
        key, has_value, value = setting.partition("\n")
        if has_value and is_git_false(value):
            yield f"{origin.removeprefix('file:')}: {key} = {value or 'nothing'}"
