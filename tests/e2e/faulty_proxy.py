"""A proxy before a registry that misbehaves on demand: refuses, fails, dawdles, cuts connections."""

import http.client
import http.server
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["status", "slow", "cut request", "cut answer", "hang up"]
_HOP = ("connection", "transfer-encoding", "content-length", "keep-alive")


@dataclass
class Fault:
    """What goes wrong with requests of a method whose path ends in a text, `count` times (-1: always).

    `status` is answered for "status", `seconds` waited for "slow"; "cut request" passes half of the body on and ends
    both connections, "cut answer" gives half of the answer, "hang up" ends the connection without any.
    """

    kind: Kind
    method: str = ""
    suffix: str = ""
    count: int = -1
    status: int = 500
    seconds: float = 0.0
    seen: int = 0

    def concerns(self, method: str, path: str) -> bool:
        fits = self.method in ("", method) and path.partition("?")[0].endswith(self.suffix)
        if not fits or self.count in (0, self.seen):
            return False
        self.seen += 1
        return True


class FaultyProxy:
    """The proxy; `address` is where it listens, `fault` what goes wrong at the moment."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.fault: Fault | None = None
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # What begins with TLS is answered in HTTP's own form, by which an engine knows to ask again without.
            default_request_version = "HTTP/1.1"

            def handle_any(self) -> None:
                with suppress(OSError):
                    proxy.pass_on(self)

            do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_port}"

    @contextmanager
    def running(self) -> Iterator["FaultyProxy"]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()

    def pass_on(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        fault = self.fault
        if fault is None or not fault.concerns(handler.command, handler.path):
            self._answer(handler, *self._ask(handler, body))
        elif fault.kind == "status":
            self._answer(handler, fault.status, {}, b'{"errors": [{"message": "faulty"}]}')
        elif fault.kind == "slow":
            time.sleep(fault.seconds)
            self._answer(handler, *self._ask(handler, body))
        elif fault.kind == "cut answer":
            self._half_an_answer(handler, *self._ask(handler, body))
        else:
            if fault.kind == "cut request":
                self._half_a_request(handler, body)
            self._hang_up(handler)

    def _ask(self, handler: http.server.BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.upstream, timeout=30)
        try:
            headers = {name: value for name, value in handler.headers.items() if name.lower() not in _HOP}
            connection.request(handler.command, handler.path, body=body, headers=headers)
            reply = connection.getresponse()
            return reply.status, dict(reply.getheaders()), reply.read()
        finally:
            connection.close()

    def _answer(
        self, handler: http.server.BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes
    ) -> None:
        self._head(handler, status, headers, body)
        if handler.command != "HEAD":
            handler.wfile.write(body)

    def _half_an_answer(
        self, handler: http.server.BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes
    ) -> None:
        self._head(handler, status, headers, body or b"xx")
        handler.wfile.write(body[: len(body) // 2])
        handler.wfile.flush()
        self._hang_up(handler)

    def _half_a_request(self, handler: http.server.BaseHTTPRequestHandler, body: bytes) -> None:
        host, _, port = self.upstream.partition(":")
        with socket.create_connection((host, int(port)), timeout=10) as raw:
            lines = [f"{handler.command} {handler.path} HTTP/1.1", *(f"{k}: {v}" for k, v in handler.headers.items())]
            raw.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + body[: len(body) // 2])

    def _head(
        self, handler: http.server.BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes
    ) -> None:
        handler.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in _HOP:
                handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()

    def _hang_up(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        with suppress(OSError):
            handler.connection.shutdown(socket.SHUT_RDWR)
