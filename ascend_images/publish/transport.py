"""HTTP as registries are spoken to: one request, one whole answer; nothing is followed or repeated on its own."""

import functools
import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any
from urllib.parse import urlsplit

from ascend_images.images.publish import is_loopback

# Of one operation on a connection, and of a whole answer; a registry may think for a while before it begins.
_QUIET_SECONDS = 60.0
_WHOLE_SECONDS = 300.0
#: Bytes: registries take manifests of up to 4 MB, and configurations are no larger; nothing else is read here.
_MOST_BYTES = 16 << 20
_CHUNK = 1 << 16


class NoAnswerError(Exception):
    """No whole answer came; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request; names of headers as they are sent."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer, whatever its status; names of headers in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


#: Sends a request and returns the answer; raises NoAnswerError where no whole one came.
Send = Callable[[Request], Reply]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Leaves redirections to whoever asked: urllib would pass the Authorization header on to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def send(request: Request) -> Reply:
    """Send a request by way of the environment's proxies, loopback directly; TLS as this machine trusts it.

    Raises NoAnswerError for a host that is not found, a connection that is refused, cut or silent, a certificate that
    is not trusted, and an answer that is too large.
    """
    deadline = time.monotonic() + _WHOLE_SECONDS
    call = urllib.request.Request(  # noqa: S310 - the registry makes the address: https, or http on loopback
        request.url, data=request.body, headers=dict(request.headers), method=request.method
    )
    opener = _opener(loopback=is_loopback(f"{urlsplit(request.url).netloc}/x"))
    try:
        with opener.open(call, timeout=_QUIET_SECONDS) as stream:
            return _reply(request, stream.status, stream.headers, stream, deadline)
    except urllib.error.HTTPError as error:
        with error:
            try:
                return _reply(request, error.code, error.headers, error, deadline)
            except (OSError, http.client.HTTPException) as inner:
                raise NoAnswerError(_reason(inner)) from None
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswerError(_reason(error)) from None


@functools.cache
def _opener(*, loopback: bool) -> urllib.request.OpenerDirector:
    """Return what sends requests; made once, since reading this machine's certificates takes longer than a request."""
    if loopback:
        return urllib.request.build_opener(_NoRedirect(), urllib.request.ProxyHandler({}))
    context = ssl.create_default_context()
    return urllib.request.build_opener(_NoRedirect(), urllib.request.HTTPSHandler(context=context))


def _reply(request: Request, status: int, headers: Any, stream: IO[bytes], deadline: float) -> Reply:
    body = bytearray()
    while chunk := stream.read(_CHUNK):
        body += chunk
        if len(body) > _MOST_BYTES:
            raise NoAnswerError(f"an answer of more than {_MOST_BYTES >> 20} MB")
        if time.monotonic() > deadline:
            raise NoAnswerError(f"no whole answer within {_WHOLE_SECONDS:.0f} s")
    lower = {name.lower(): value for name, value in headers.items()}
    length = lower.get("content-length", "")
    # http.client gives what came before a connection was cut without a word when it is read in pieces.
    if request.method != "HEAD" and length.isdecimal() and len(body) != int(length):
        raise NoAnswerError(f"the connection was cut after {len(body)} of {length} bytes")
    return Reply(status=status, headers=lower, body=bytes(body))


def _reason(error: Exception) -> str:
    inner = error.reason if isinstance(error, urllib.error.URLError) and isinstance(error.reason, Exception) else error
    if isinstance(inner, TimeoutError):
        return f"no answer within {_QUIET_SECONDS:.0f} s"
    if isinstance(inner, http.client.IncompleteRead | http.client.RemoteDisconnected | ConnectionResetError):
        return "the connection was cut"
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    return str(inner) or type(inner).__name__
