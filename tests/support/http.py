"""Calling the API's resolver as API Gateway would, without a socket. Each answer is held to what its route declares."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.support import conformity
from tickwork.api.app import build_app
from tickwork.api.gate import Gate
from tickwork.ports import Ports


class _Context:
    function_name = "api"
    aws_request_id = "test"


class ApiUnderTest:
    def __init__(self, ports: Ports, gate: Gate | None = None) -> None:
        self._app = build_app(ports, gate)
        self.headers: dict[str, str] = {}
        self.authorizer: dict[str, Any] = {}
        self.context: dict[str, Any] = {}
        """What the door says of a request beside that: `http.sourceIp`, `requestId`."""

    def call(self, method: str, path: str, body: object = None, **query: str) -> tuple[int, Any]:
        """(status, JSON body). `body` may be bytes, to send what is not JSON."""
        status, headers, found = self.answer(method, path, body, **query)
        kind = headers.get("Content-Type", "")
        assert kind == ("application/problem+json" if status >= 400 else "application/json"), headers
        return status, found

    def answer(self, method: str, path: str, body: object = None, **query: str) -> tuple[int, dict[str, str], Any]:
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        event = {
            "version": "2.0",
            "rawPath": path,
            "rawQueryString": "",
            "headers": {"content-type": "application/json"} | self.headers,
            "queryStringParameters": query,
            "requestContext": {
                **self.context,
                "http": {**self.context.get("http", {}), "method": method, "path": path},
                "stage": "$default",
                "authorizer": self.authorizer,
            },
            "body": base64.b64encode(raw).decode(),
            "isBase64Encoded": True,
        }
        result = self._app.resolve(event, _Context())  # type: ignore[arg-type]
        status, answer = result["statusCode"], json.loads(result["body"])
        conformity.check(method, path, status, answer)
        return status, result["headers"], answer
