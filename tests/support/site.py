"""A web site on a free port of this machine, with the documents that a test gives it."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Site:
    """A web site with documents by path: JSON, or (status, headers, bytes)."""

    documents: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    url: str = ""


@contextmanager
def served(site: Site, tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    """The site, while it is there."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append(self.path)
            found = site.documents.get(self.path, (404, {}, b"{}"))
            status, headers, body = found if isinstance(found, tuple) else (200, {}, json.dumps(found).encode())
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            for part in body if isinstance(body, list) else [body]:
                self.wfile.write(part)
                self.wfile.flush()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    site.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
