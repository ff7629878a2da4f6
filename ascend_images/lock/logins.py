"""Users and passwords in addresses of package indexes: taken out of each address, put back as it is asked."""

from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlunsplit

import requests
from requests.auth import AuthBase, HTTPBasicAuth
from requests.utils import get_netrc_auth

from ascend_images.pins.addresses import parts_of

Login = tuple[str, str | None]
Origin = tuple[str, str | None, int | None]

_PORTS = {"http": 80, "https": 443}


@dataclass
class Logins(AuthBase):
    """The logins of indexes by scheme, host and port: their files, which they list without one, lie behind it too.

    As an `auth` of requests it answers for its whole session, so that it reads ~/.netrc too, as requests would.
    """

    _known: dict[Origin, Login] = field(default_factory=dict)

    def without(self, index: str) -> str:
        """Return the address of an index without the login in it, which is remembered; a host's first one stays."""
        parts = parts_of(index)
        login = _login(parts)
        if parts is None or login is None:
            return index
        self._known.setdefault(_origin(parts), login)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Give a request the login of its own address, else the one that is known for it."""
        url = request.url or ""
        parts = parts_of(url)
        if parts is None:
            return request
        login = _login(parts) or self._known.get(_origin(parts))
        if login is None or login[1] is None:
            # A user alone: the password stands elsewhere, or there is none.
            login = get_netrc_auth(url) or login
        return HTTPBasicAuth(login[0], login[1] or "")(request) if login else request


def _login(parts: SplitResult | None) -> Login | None:
    if parts is None or "@" not in parts.netloc:
        return None
    return unquote(parts.username or ""), None if parts.password is None else unquote(parts.password)


def _origin(parts: SplitResult) -> Origin:
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
