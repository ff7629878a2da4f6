"""Authorization at a registry: the challenge in its refusal, and the token or password that answers it.

After the distribution project's token specification (github.com/distribution/distribution, docs/spec/auth).
"""

import base64
import re
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import msgspec

from ascend_images.errors import PublishRefused, said
from ascend_images.json_text import NotJsonError, read_json
from ascend_images.publish.credentials import Login
from ascend_images.publish.transport import Reply, Request, Send, address

_SCHEME = re.compile(r"\s*(Bearer|Basic)\b\s*", re.IGNORECASE)
_PARAMETER = re.compile(r'([A-Za-z_]+)\s*=\s*(?:"([^"]*)"|([^",\s]+))')
# What an Authorization header may hold (RFC 6750, b64token): anything else would end it, or could not be sent.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_OK = 200


class _Given(msgspec.Struct):
    token: str | None = None
    access_token: str | None = None


class Challenge(NamedTuple):
    """What a registry asks for: `scheme` is bearer or basic, the rest what a token server is asked."""

    scheme: str
    realm: str = ""
    service: str = ""
    scope: str = ""


def parse_challenge(text: str) -> Challenge | None:
    """Return what a WWW-Authenticate header asks for, None for schemes that registries do not use."""
    found = _SCHEME.match(text)
    if found is None:
        return None
    given = {name.lower(): quoted or plain for name, quoted, plain in _PARAMETER.findall(text[found.end() :])}
    return Challenge(found[1].lower(), *(str(given.get(name, "")) for name in Challenge._fields if name != "scheme"))


class Authorizer:
    """Answers a registry's challenges with this user's login, or as nobody where there is none."""

    def __init__(self, registry: str, send: Send, login: Callable[[], Login | None]) -> None:
        self._registry = registry
        self._send = send
        self._login = login
        self._headers: dict[str, str] = {}

    def header(self, scope: str) -> str:
        """Return the Authorization header for a scope as far as it is known; empty where none was asked for."""
        return self._headers.get(scope, "")

    def answer(self, scope: str, challenge: Challenge) -> bool:
        """Get what a challenge asks for; returns False where this user has nothing to answer with.

        Raises PublishRefused where the login is refused, and for a token server that would get it in the clear.
        """
        login = self._login()
        if challenge.scheme == "basic":
            if login is None:
                return False
            self._headers[scope] = _basic(login)
            return True
        token = self._token(challenge._replace(scope=challenge.scope or scope), login)
        if not token:
            return False
        self._headers[scope] = f"Bearer {token}"
        return True

    def _token(self, challenge: Challenge, login: Login | None) -> str:
        _require_private(self._registry, challenge.realm)
        reply = self._send(_token_request(challenge, login))
        if reply.status != _OK:
            if login is None:
                return ""
            server = urlsplit(challenge.realm).netloc
            raise PublishRefused(
                f"{self._registry}: the login was refused (HTTP {reply.status} from {server})",
                wanted="a login that is still good",
                do=f"docker login {self._registry}",
            )
        return _token_in(reply)


def _token_request(challenge: Challenge, login: Login | None) -> Request:
    asked = {"service": challenge.service, "scope": challenge.scope}
    if login is not None and login.refresh_token:
        form = {**asked, "grant_type": "refresh_token", "client_id": "ascend-images"}
        body = urlencode({**form, "refresh_token": login.refresh_token}).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return Request(method="POST", url=challenge.realm, headers=kind, body=body)
    separator = "&" if "?" in challenge.realm else "?"
    url = f"{challenge.realm}{separator}{urlencode({name: value for name, value in asked.items() if value})}"
    return Request(method="GET", url=url, headers={"Authorization": _basic(login)} if login else {})


def _token_in(reply: Reply) -> str:
    try:
        given = read_json(reply.body, _Given)
    except NotJsonError:
        return ""
    token = given.token or given.access_token or ""
    return token if _TOKEN.fullmatch(token) else ""


def _require_private(registry: str, realm: str) -> None:
    if not address(realm):
        raise PublishRefused(
            f"{registry} sends logins to {said(realm) or 'nowhere'}", wanted="a token server that is reached by https"
        )


def _basic(login: Login) -> str:
    return "Basic " + base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
