"""A package registry on 127.0.0.1 that can misbehave: break off, ignore ranges, lie about digests."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Registry:
    """``files`` by name; the rest says how to misbehave."""

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    break_after: int | None = None
    """Close the connection after that many bytes of a file …"""
    breaks: int = 0
    """… that many times."""
    digests: bool = True
    lie: bool = False
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    """(path, Range header) of each request for a file."""
    url: str = ""

    def page(self, project: str) -> str:
        rows = []
        for name, content in self.files.items():
            digest = "0" * 64 if self.lie else hashlib.sha256(content).hexdigest()
            fragment = f"#sha256={digest}" if self.digests else ""
            if name.startswith(project + "-"):
                rows.append(f'<a href="/files/{name}{fragment}">{name}</a>')
        return "<!DOCTYPE html><html><body>" + "\n".join(rows) + "</body></html>"


@contextlib.contextmanager
def serving(registry: Registry) -> Iterator[Registry]:
    """Serve ``registry`` until the block ends; its ``url`` is the index-url for pip."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            if self.path.startswith("/simple/"):
                self.answer(200, registry.page(self.path.split("/")[2]).encode(), "text/html")
                return
            content = registry.files.get(self.path.removeprefix("/files/"))
            wanted = self.headers.get("Range")
            registry.requests.append((self.path, wanted))
            if content is None:
                self.answer(404, b"", "text/plain")
                return
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and registry.ranges else 0
            if start and start >= len(content):
                self.answer(416, b"", "text/plain")
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            body = content[start:]
            if registry.break_after is not None and registry.breaks > 0:
                registry.breaks -= 1
                body = body[: registry.break_after]
            self.wfile.write(body)

        def answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_address[1]}/simple/"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
