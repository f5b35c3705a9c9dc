"""The API on a local port: each request becomes the event API Gateway would send, and meets the same resolver."""

from __future__ import annotations

import base64
import queue
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver

BODY_BYTES_MAX = 6 * 1024 * 1024
"""Lambda's own limit of a request."""


class _Context:
    """What a resolver may ask of a Lambda context."""

    function_name = "api"
    aws_request_id = "local"


RESOLVERS = 8
"""Requests handled at once. A resolver keeps the request it is at in itself, as a Lambda handles one at a time."""
LONG_POLLS = RESOLVERS // 2
"""Of them, those that may wait for a message: workers without work must not keep everybody else waiting."""


def serve(build: Callable[[], APIGatewayHttpResolver], port: int) -> ThreadingHTTPServer:
    """A server on 127.0.0.1, not yet serving: call `serve_forever`, and `shutdown` from another thread."""
    free: queue.SimpleQueue[APIGatewayHttpResolver] = queue.SimpleQueue()
    for _ in range(RESOLVERS):
        free.put(build())

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each answer waits 40 ms for the acknowledgement of its headers

        def do_GET(self) -> None:
            self._handle()

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

        def _handle(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            if length > BODY_BYTES_MAX or length < 0:
                self._answer(413, {"content-type": "application/problem+json"}, _TOO_LARGE)
                self.close_connection = True
                return
            event = _event(self.command, self.path, dict(self.headers.items()), self.rfile.read(length))
            app = free.get()
            try:
                answer = app.resolve(event, _Context())  # type: ignore[arg-type]
            finally:
                free.put(app)
            self._answer(answer["statusCode"], answer.get("headers") or {}, str(answer["body"]).encode())

        def _answer(self, status: int, headers: dict[str, Any], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, str(value))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Requests are not logged: the answers are in the ledger."""

    return _Server(("127.0.0.1", port), Handler)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    """With the default of 5 a few workers that connect at once wait a second for the system to try again."""


_TOO_LARGE = (
    b'{"type":"urn:tickwork:problem:body-too-large","title":"The body is too large","status":413,'
    b'"detail":"a request has at most 6 MiB: send fewer entries at a time"}'
)


def _event(method: str, target: str, headers: dict[str, str], body: bytes) -> dict[str, Any]:
    """An event of the HTTP API's payload format 2.0."""
    parts = urlsplit(target)
    path = unquote(parts.path)
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": parts.query,
        "headers": {name.lower(): value for name, value in headers.items()},
        "queryStringParameters": dict(parse_qsl(parts.query, keep_blank_values=True)),
        "requestContext": {"http": {"method": method, "path": path}, "stage": "$default"},
        "body": base64.b64encode(body).decode() if body else "",
        "isBase64Encoded": bool(body),
    }
