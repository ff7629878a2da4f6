"""HTTP as registries are spoken to: one request, one whole answer; nothing is followed or repeated on its own."""

import functools
import http.client
import io
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any
from urllib.parse import urljoin, urlsplit

from ascend_images.errors import BadInput
from ascend_images.images.publish import is_loopback

# Of one operation on a connection, and of a whole answer from its first byte on; a registry may think for a while
# before it begins.
_QUIET_SECONDS = 60.0
_WHOLE_SECONDS = 300.0
#: Bytes: registries take manifests of up to 4 MB, and configurations are no larger; nothing else is read here.
_MOST_BYTES = 16 << 20
_CHUNK = 1 << 16


class NoAnswerError(Exception):
    """No whole answer came; the text says why."""


class NotSentError(NoAnswerError):
    """A request that cannot be said in HTTP, now or later: its address or a header is none."""


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


def address(text: str, base: str = "") -> str:
    """Return an address that an answer named, seen from `base`, if it may be asked; empty where it may not.

    It may over https, and over plain http on this machine's loopback.
    """
    try:
        whole = urljoin(base, text)
        parts = urlsplit(whole)
        loopback = is_loopback(f"{parts.netloc}/x")
    except (ValueError, BadInput):
        return ""
    known = parts.scheme == "https" or (parts.scheme == "http" and loopback)
    # As HTTP sends it: whoever means other signs writes them with `%`.
    sendable = whole.isascii() and whole.isprintable() and " " not in whole
    return whole if known and sendable and "@" not in parts.netloc else ""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Leaves redirections to whoever asked: urllib would pass the Authorization header on to another host.

    It would also read the address before it asks whether to go there.
    """

    def http_error_302(self, *_: Any, **__: Any) -> None:
        return None

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class _Received(io.RawIOBase):
    """What comes over a connection, until a time is up: one that drips never keeps a single read waiting for long."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._stream = connection.makefile("rb", buffering=0)
        self._deadline = time.monotonic() + _WHOLE_SECONDS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            self._connection.settimeout(min(_QUIET_SECONDS, left))
            return self._stream.readinto(buffer)
        except TimeoutError:
            if left < _QUIET_SECONDS:
                raise NoAnswerError(f"no whole answer within {_WHOLE_SECONDS:.0f} s") from None
            raise

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Timely:
    """A connection as http.client reads an answer from it, headers and all."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(_Received(self._connection))


class _Answer(http.client.HTTPResponse):
    def __init__(self, sock: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(_Timely(sock), *arguments, **options)  # type: ignore[arg-type]


class _Plain(http.client.HTTPConnection):
    response_class = _Answer


class _Encrypted(http.client.HTTPSConnection):
    response_class = _Answer


class _OverHTTP(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Plain, req)


class _OverHTTPS(urllib.request.HTTPSHandler):
    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._trust = context

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Encrypted, req, context=self._trust)


def send(request: Request) -> Reply:
    """Send a request by way of the environment's proxies, loopback directly; TLS as this machine trusts it.

    Raises NoAnswerError for a host that is not found, a connection that is refused, cut, silent or slow without end, a
    certificate that is not trusted, and an answer that is too large; NotSentError for what is no request.
    """
    try:
        return _sent(request)
    except (ValueError, http.client.InvalidURL):
        # What it says quotes the header, and with it the login.
        raise NotSentError("its address or a header is none") from None
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswerError(_reason(error)) from None


def _sent(request: Request) -> Reply:
    call = urllib.request.Request(  # noqa: S310 - the registry makes the address: https, or http on loopback
        request.url, data=request.body, headers=dict(request.headers), method=request.method
    )
    opener = _opener(loopback=is_loopback(f"{urlsplit(request.url).netloc}/x"))
    try:
        with opener.open(call, timeout=_QUIET_SECONDS) as stream:
            return _reply(request, stream.status, stream.headers, stream)
    except urllib.error.HTTPError as error:
        with error:
            return _reply(request, error.code, error.headers, error)


@functools.cache
def _opener(*, loopback: bool) -> urllib.request.OpenerDirector:
    """Return what sends requests; made once, since reading this machine's certificates takes longer than a request."""
    if loopback:
        return urllib.request.build_opener(_NoRedirect(), _OverHTTP(), urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(_NoRedirect(), _OverHTTP(), _OverHTTPS(ssl.create_default_context()))


def _reply(request: Request, status: int, headers: Any, stream: IO[bytes]) -> Reply:
    body = bytearray()
    while chunk := stream.read(_CHUNK):
        body += chunk
        if len(body) > _MOST_BYTES:
            raise NoAnswerError(f"an answer of more than {_MOST_BYTES >> 20} MB")
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
