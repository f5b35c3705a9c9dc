"""The wall around the endpoint, by the rules alone: what is let through, and what is not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import pytest

from tickwork.local.guard import HEALTH, guarded, key_header, why_not

KEY = "TICKWORK0123456789abcdef"
SIGNED = (b"Authorization", f"AWS4-HMAC-SHA256 Credential={KEY}/20261130/us-east-1/sqs/aws4_request, Sig".encode())
HOST = (b"Host", b"127.0.0.1:4566")


def test_a_call_with_the_sessions_key_is_let_through() -> None:
    assert why_not("POST", "/", [HOST, SIGNED], KEY) is None


def test_health_is_told_to_who_has_the_key() -> None:
    header = [(name.encode(), value.encode()) for name, value in key_header(KEY).items()]
    assert why_not("GET", HEALTH, [HOST, *header], KEY) is None
    assert why_not("GET", HEALTH, [HOST], KEY)


@pytest.mark.parametrize(
    "headers",
    [
        [HOST],
        [SIGNED],
        [(b"Host", b"evil.example"), SIGNED],
        [HOST, (b"host", b"evil.example"), SIGNED],
        [HOST, SIGNED, (b"ORIGIN", b"http://127.0.0.1:4566")],
        [HOST, SIGNED, (b"Sec-Fetch-Mode", b"no-cors")],
        [HOST, SIGNED, SIGNED],
        [HOST, (b"Authorization", SIGNED[1].replace(KEY.encode(), b"test"))],
        [HOST, (b"Authorization", SIGNED[1].replace(KEY.encode(), b"000000000000"))],
        [HOST, (b"Authorization", SIGNED[1].replace(KEY.encode(), KEY[:-1].encode()))],
        [HOST, (b"Authorization", b"Basic dGVzdDp0ZXN0")],
        [HOST, (b"Authorization", b"AWS4-HMAC-SHA256 Credential=test/x, " + SIGNED[1])],
    ],
    ids=str,
)
def test_whoever_lacks_the_key_or_sits_in_a_browser_is_refused(headers: list[tuple[bytes, bytes]]) -> None:
    assert why_not("POST", "/", headers, KEY)


@pytest.mark.parametrize("path", ["/_ministack/reset", "/_ministack/config", "/_localstack/health", "/_ministackx"])
@pytest.mark.parametrize("key", [KEY, None], ids=["by key", "by roles"])
def test_the_paths_of_control_are_closed_to_all(path: str, key: str | None) -> None:
    assert why_not("POST", path, [HOST, SIGNED], key)


def test_with_roles_enforced_the_endpoint_asks_who_calls_and_the_wall_where_from() -> None:
    assert why_not("POST", "/", [HOST], None) is None
    assert why_not("PUT", "/_ministack/cfn-response/token", [HOST], None) is None
    assert why_not("POST", "/", [HOST, (b"Origin", b"null")], None)


def _answers(scope: dict[str, Any], key: str | None = KEY) -> tuple[list[Any], int, int]:
    """(what was sent, how often the application was reached, how many calls were counted)."""
    sent: list[Any] = []
    reached: list[str] = []
    counted: list[int] = []

    async def app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        reached.append(scope["type"])

    async def receive() -> dict[str, Any]:
        raise AssertionError("a refused request is not read")

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    @contextmanager
    def call() -> Iterator[None]:
        assert not reached
        yield
        counted.extend([1] * len(reached))

    asyncio.run(guarded(app, key, call)(scope, receive, send))
    return sent, len(reached), len(counted)


def test_what_is_refused_never_reaches_the_application() -> None:
    for headers in ([], [(b"X-Amz-Target", b"DynamoDB_20120810.Scan")]):
        sent, reached, counted = _answers({"type": "http", "method": "POST", "path": "/", "headers": headers})
        assert (sent[0]["status"], reached, counted) == (403, 0, 0)
        assert b"refuses this" in sent[1]["body"]
        assert not [name for name, _ in sent[0]["headers"] if name.startswith(b"access-control")]
    assert json.loads(sent[1]["body"])["__type"] == "AccessDeniedException"
    sent, reached, _ = _answers({"type": "websocket", "path": "/", "headers": [HOST, SIGNED]})
    assert (sent, reached) == ([{"type": "websocket.close", "code": 1008}], 0)


def test_what_is_let_through_is_counted_and_a_start_is_no_call() -> None:
    assert _answers({"type": "http", "method": "POST", "path": "/", "headers": [HOST, SIGNED]}) == ([], 1, 1)
    assert _answers({"type": "lifespan"}) == ([], 1, 0)
