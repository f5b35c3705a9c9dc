"""The API on a local port: each request becomes the event API Gateway would send, and meets the same resolver.

Deployed, API Gateway checks who calls; here it is asked whether a program of this machine does (`callers.py`).
"""

from __future__ import annotations

import base64
import queue
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver

from tickwork.local.callers import JSON, is_json, why_not
from tickwork.local.http_server import Answer, HttpHandler, HttpServer, Request, not_allowed, problem, unreadable

RESOLVERS = 8
"""Requests handled at once. A resolver keeps the request it is at in itself, as a Lambda handles one at a time."""


class _Context:
    """What a resolver may ask of a Lambda context."""

    function_name = "api"
    aws_request_id = "local"


LONG_POLLS = RESOLVERS // 2
"""Of them, those that may wait for a message: workers without work must not keep everybody else waiting."""


def serve(build: Callable[[], APIGatewayHttpResolver], port: int) -> HttpServer:
    """A server on 127.0.0.1, not yet serving: call `serve_forever`, and `shutdown` from another thread."""
    free: queue.SimpleQueue[APIGatewayHttpResolver] = queue.SimpleQueue()
    for _ in range(RESOLVERS):
        free.put(build())

    class Handler(HttpHandler):
        def respond(self, request: Request) -> Answer:
            if (refusal := _refusal(request, server.server_port)) is not None:
                return refusal
            app = free.get()
            try:
                return _answer(app, request)
            finally:
                free.put(app)

    server = HttpServer(Handler, port)
    return server


def _refusal(request: Request, port: int) -> Answer | None:
    """The answer to a page in a browser, and to a body that one could send without asking; None to a program's JSON."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    if (why := why_not(headers, port)) is not None:
        return problem(403, "foreign-caller", "This API answers programs on this machine", why)
    sent = headers.get("content-type", "")
    if request.body and not is_json(sent):
        detail = f"the body comes as {sent!r}: send the header `Content-Type: {JSON}` (curl: -H 'content-type: {JSON}')"
        return problem(415, "unsupported-media-type", "The body must be sent as JSON", detail)
    return None


def _answer(app: APIGatewayHttpResolver, request: Request) -> Answer:
    """A path that is there, asked for with another method, is told so here; all else is the resolver's to answer."""
    try:
        target = urlsplit(request.target)
    except ValueError as error:
        return unreadable(f"its target is no URL: {error}")
    path = unquote(target.path)
    methods = _methods_at(app, path)
    if methods and request.method not in methods:
        allowed = ", ".join(sorted({*methods, "OPTIONS"} | ({"HEAD"} if "GET" in methods else set())))
        if request.method == "OPTIONS":
            return Answer(204, headers={"Allow": allowed})
        return not_allowed(request.method, path, allowed)
    found = app.resolve(_event(request, path, target.query), _Context())  # type: ignore[arg-type]
    headers = {name: str(value) for name, value in (found.get("headers") or {}).items()}
    return Answer(found["statusCode"], str(found["body"]).encode(), headers)


def _methods_at(app: APIGatewayHttpResolver, path: str) -> set[str]:
    """The methods of the routes at a path: the resolver has no other way to ask."""
    routes = app._static_routes + app._dynamic_routes
    return {str(route.method) for route in routes if route.rule.match(path)}


def _event(request: Request, path: str, query: str) -> dict[str, Any]:
    """An event of the HTTP API's payload format 2.0."""
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "headers": {name.lower(): value for name, value in request.headers.items()},
        "queryStringParameters": dict(parse_qsl(query, keep_blank_values=True)),
        "requestContext": {
            "http": {"method": request.method, "path": path, "sourceIp": "127.0.0.1"},
            "requestId": uuid.uuid4().hex,
            "stage": "$default",
        },
        "body": base64.b64encode(request.body).decode() if request.body else "",
        "isBase64Encoded": bool(request.body),
    }
