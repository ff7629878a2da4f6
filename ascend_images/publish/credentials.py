"""Logins as `docker login` keeps them: config.json, and the credential helpers that it names."""

import base64
import binascii
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ascend_images.json_text import NotJsonError, read_json, read_json_file

#: What Docker calls docker.io in config.json (github.com/docker/cli, cli/config).
HUB = "https://index.docker.io/v1/"
# What a helper gives for a user's name where the secret is a refresh token (docker/docker-credential-helpers).
_TOKEN_USER = "<token>"  # noqa: S105 - a word of the protocol
_HELPER_SECONDS = 30


class Login(NamedTuple):
    """A user's name and password, or a token by which a registry's token server gives others."""

    user: str
    password: str
    refresh_token: str = ""


#: Asks the credential helper of a name for a server; returns its output, or None where it has nothing.
Helper = Callable[[str, str], str | None]


def run_helper(name: str, server: str) -> str | None:
    """Ask `docker-credential-NAME get`; None where the helper is not there, fails, or knows no login."""
    try:
        done = subprocess.run(
            [f"docker-credential-{name}", "get"],
            input=server,
            capture_output=True,
            text=True,
            timeout=_HELPER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        # A name that no program has, or words that are no text.
        return None
    return done.stdout if done.returncode == 0 else None


def login_for(
    registry: str, environment: Mapping[str, str] = os.environ, *, helper: Helper = run_helper
) -> Login | None:
    """Return the login for a registry as image names write it (empty for docker.io), None where there is none.

    Raises BadInput for a config.json that cannot be read.
    """
    path = _folder(environment) / "config.json"
    try:
        document = _table(read_json_file(path, object, what="docker's configuration", wanted="JSON"))
    except FileNotFoundError:
        return None
    servers = [HUB, "docker.io", "index.docker.io"] if registry in ("", "docker.io") else [registry]
    helpers = _table(document.get("credHelpers"))
    for server in servers:
        named = helpers.get(server) or document.get("credsStore")
        if isinstance(named, str) and named:
            found = _from_helper(helper(named, server))
            if found:
                return found
        found = _from_entry(_entry(_table(document.get("auths")), server))
        if found:
            return found
    return None


def _folder(environment: Mapping[str, str]) -> Path:
    named = environment.get("DOCKER_CONFIG")
    return Path(named) if named else Path(environment.get("HOME") or "/") / ".docker"


def _entry(auths: Mapping[str, Any], server: str) -> Mapping[str, Any]:
    """Return the entry of a server, which old clients wrote with a scheme and a path."""
    for name, entry in auths.items():
        if server in (name, name.partition("://")[2].partition("/")[0]):
            return _table(entry)
    return {}


def _from_entry(entry: Mapping[str, Any]) -> Login | None:
    try:
        user, colon, password = base64.b64decode(str(entry.get("auth") or "")).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    token = str(entry.get("identitytoken") or "")
    return Login(user, password.rstrip("\0"), token) if colon or token else None


def _from_helper(said: str | None) -> Login | None:
    try:
        answer = _table(read_json(said or "null", object))
    except NotJsonError:
        return None
    user, secret = str(answer.get("Username") or ""), str(answer.get("Secret") or "")
    if not secret:
        return None
    return Login("", "", secret) if user == _TOKEN_USER else Login(user, secret)


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
