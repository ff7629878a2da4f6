"""A git server over https (`git http-backend`, smart protocol), and a proxy, both on an address of this machine."""

import base64
import os
import select
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

CA_NAME = "ascend-images tests, certificate authority"
_DAYS = "2"


@dataclass(frozen=True, kw_only=True)
class Authority:
    """A CA for one run, and a server's certificate that it signed; `ca` is what clients are to trust."""

    ca: Path
    certificate: Path
    key: Path


def make_authority(folder: Path, address: str) -> Authority:
    """Make a CA in `folder`, and with it a certificate for the IP address `address`."""
    folder.mkdir()
    (folder / "extensions").write_text(
        "[ca]\nbasicConstraints = critical, CA:TRUE\nkeyUsage = critical, keyCertSign\nsubjectKeyIdentifier = hash\n"
        f"[server]\nsubjectAltName = IP:{address}\nextendedKeyUsage = serverAuth\n"
        "subjectKeyIdentifier = hash\nauthorityKeyIdentifier = keyid\n"
    )
    _signed(folder, "ca", CA_NAME, ["-signkey", "ca.key"])
    _signed(folder, "server", address, ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"])
    return Authority(ca=folder / "ca.pem", certificate=folder / "server.pem", key=folder / "server.key")


def _signed(folder: Path, name: str, subject: str, signer: list[str]) -> None:
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key"]
    request = ["openssl", "req", "-new", *key, "-subj", f"/CN={subject}", "-out", f"{name}.csr"]
    sign = ["openssl", "x509", "-req", "-in", f"{name}.csr", *signer, "-days", _DAYS]
    sign += ["-extfile", "extensions", "-extensions", name, "-out", f"{name}.pem"]
    for command in (request, sign):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)


@dataclass(frozen=True, kw_only=True)
class GitServer:
    """A running server: its address, ending in a slash, and the requests it got (`GET /plain/info/refs`)."""

    url: str
    requests: list[str] = field(default_factory=list)


@contextmanager
def git_server(top: Path, authority: Authority, address: str) -> Iterator[GitServer]:
    """Serve the repositories in the folder `top`, each under its name, until the block ends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.certificate, authority.key)
    requests: list[str] = []

    class Handler(_GitHandler):
        root = top
        seen = requests

    with _Server((address, 0), Handler) as server:
        # Hands are shaken where the first byte is read: in the connection's own thread.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        with _running(server):
            yield GitServer(url=f"https://{address}:{server.server_address[1]}/", requests=requests)


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """A running proxy: its address with user and password, these alone, and where it was asked to connect to."""

    url: str
    password: str
    place: str
    asked: list[str]


@contextmanager
def proxy(address: str, password: str) -> Iterator[Proxy]:
    """Run a proxy for https (CONNECT) that wants a password, until the block ends."""
    wanted = "Basic " + base64.b64encode(f"tests:{password}".encode()).decode()
    asked: list[str] = []

    class Handler(_ProxyHandler):
        authorization = wanted
        seen = asked

    with _Server((address, 0), Handler) as server, _running(server):
        place = f"{address}:{server.server_address[1]}"
        yield Proxy(url=f"http://tests:{password}@{place}", password=password, place=place, asked=asked)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that trusts no such certificate hangs up, which is what a test asks for."""


@contextmanager
def _running(server: _Server) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


class _Quiet(BaseHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Keep the tests' output to the tests."""


class _GitHandler(_Quiet):
    """Hands each request to `git http-backend`, by CGI (RFC 3875)."""

    root: Path
    seen: list[str]

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        # git announces the length of all that a fetch asks for; only large pushes come in chunks.
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        self.seen.append(f"{self.command} {unquote(path)}")
        environment = {
            "PATH": os.environ["PATH"],
            # Nothing that the machine's own configuration of git says.
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": unquote(path),
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        done = subprocess.run(["git", "http-backend"], input=body, capture_output=True, env=environment)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines() if ": " in line)
        self.send_response(int(fields.pop("Status", "200").split()[0]) if head else 500)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class _ProxyHandler(_Quiet):
    """Connects two ends and looks at nothing."""

    # git offers no password before it is asked for one, and then goes on over the same connection.
    protocol_version = "HTTP/1.1"

    authorization: str
    seen: list[str]

    def do_CONNECT(self) -> None:
        if self.headers.get("Proxy-Authorization") != self.authorization:
            self.send_response(407)
            self.send_header("Proxy-Authenticate", "Basic")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.seen.append(self.path)
        host, _, port = self.path.rpartition(":")
        try:
            other = socket.create_connection((host.strip("[]"), int(port)), timeout=30)
        except OSError as error:
            self.send_error(502, str(error))
            return
        self.close_connection = True
        with other:
            self.send_response(200)
            self.end_headers()
            _join(self.connection, other)


def _join(one: socket.socket, other: socket.socket) -> None:
    """Pass on what either end sends, until one of them ends."""
    to = {one: other, other: one}
    while True:
        for end in select.select([one, other], [], [])[0]:
            content = end.recv(65536)
            if not content:
                return
            to[end].sendall(content)
