"""A package index over https on this machine: small wheels, listed as the simple API (PEP 503, PEP 714) lists them."""

import hashlib
import html
import http.server
import io
import ssl
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.git_server import Authority


@dataclass(kw_only=True)
class PackageIndex:
    """A running index; `down` makes it fail, `asked` are the packages that it was asked for."""

    url: str = ""
    down: bool = False
    asked: list[str] = field(default_factory=list)
    wheels: dict[str, dict[str, bytes]] = field(default_factory=dict)
    yanked: set[str] = field(default_factory=set)

    def add(self, name: str, version: str, *requires: str, yanked: bool = False) -> None:
        """Add a release of one wheel for every machine."""
        stem = f"{name.replace('-', '_')}-{version}"
        head = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        metadata = "\n".join([*head, *(f"Requires-Dist: {text}" for text in requires), "", ""])
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as wheel:
            wheel.writestr(f"{stem}.dist-info/METADATA", metadata)
            wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{stem}.dist-info/RECORD", "")
        self.wheels.setdefault(name, {})[f"{stem}-py3-none-any.whl"] = content.getvalue()
        self.yanked |= {f"{stem}-py3-none-any.whl"} if yanked else set()

    def page(self, name: str) -> bytes | None:
        """Return the list of a package's files, None where there is no such package."""
        if name not in self.wheels:
            return None
        links = []
        for file, content in self.wheels[name].items():
            digest = hashlib.sha256(content).hexdigest()
            yanked = ' data-yanked="taken back"' if file in self.yanked else ""
            links.append(f'<a href="/files/{name}/{file}#sha256={digest}"{yanked}>{html.escape(file)}</a>')
        return f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode()


@contextmanager
def package_index(authority: Authority, address: str) -> Iterator[PackageIndex]:
    """Serve an index, empty at first, until the block ends."""
    index = PackageIndex()

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Keep the tests' output to the tests."""

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            kind, *rest = self.path.strip("/").split("/")
            content = index.page(rest[0]) if kind == "simple" else index.wheels.get(rest[0], {}).get(rest[-1])
            index.asked += [rest[0]] if kind == "simple" else []
            status = 503 if index.down else 404 if content is None else 200
            self.send_response(status)
            self.send_header("Content-Type", "text/html" if kind == "simple" else "application/octet-stream")
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            if body and content:
                self.wfile.write(content)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.certificate, authority.key)
    with http.server.ThreadingHTTPServer((address, 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        index.url = f"https://{address}:{server.server_address[1]}/simple"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield index
        finally:
            server.shutdown()
            thread.join()
