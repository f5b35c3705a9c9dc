"""Long polls of callers that have gone: ended where nobody reads the answer, and nothing else is."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, MutableMapping
from typing import Any

import pytest

from tickwork.local.abandoned import POLL, polls_end_with_callers

WITHIN_S = 5
BODY, GONE = {"type": "http.request", "body": b"{}", "more_body": False}, {"type": "http.disconnect"}


class Endpoint:
    """An application that answers a call when `found` is set, after it has read it."""

    def __init__(self) -> None:
        self.from_caller: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.is_read, self.found = asyncio.Event(), asyncio.Event()
        self.sent: list[MutableMapping[str, Any]] = []
        self.is_cancelled = False

    async def app(self, _: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        try:
            while (await receive()).get("more_body"):
                pass
            self.is_read.set()
            await self.found.wait()
            await send({"type": "http.response.body"})
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)

    def call(self, target: bytes) -> Coroutine[Any, Any, None]:
        scope = {"type": "http", "headers": [(b"X-Amz-Target", target)]}
        return polls_end_with_callers(self.app)(scope, self.from_caller.get, self.send)


def test_a_poll_whose_caller_has_gone_takes_nothing_any_more() -> None:
    async def scene() -> Endpoint:
        endpoint = Endpoint()
        for message in (BODY | {"more_body": True}, BODY, GONE):
            endpoint.from_caller.put_nowait(message)
        await asyncio.wait_for(endpoint.call(POLL[1]), WITHIN_S)
        return endpoint

    endpoint = asyncio.run(scene())
    assert (endpoint.is_cancelled, endpoint.sent) == (True, [])


def test_a_poll_whose_caller_waits_is_answered() -> None:
    async def scene() -> Endpoint:
        endpoint = Endpoint()
        endpoint.from_caller.put_nowait(BODY)
        poll = asyncio.ensure_future(endpoint.call(POLL[1]))
        await endpoint.is_read.wait()
        endpoint.found.set()
        await asyncio.wait_for(poll, WITHIN_S)
        return endpoint

    endpoint = asyncio.run(scene())
    assert (endpoint.is_cancelled, len(endpoint.sent)) == (False, 1)


def test_another_call_ends_as_it_would_without_its_caller() -> None:
    async def scene() -> Endpoint:
        endpoint = Endpoint()
        for message in (BODY, GONE):
            endpoint.from_caller.put_nowait(message)
        call = asyncio.ensure_future(endpoint.call(b"AmazonSQS.DeleteMessageBatch"))
        await endpoint.is_read.wait()
        endpoint.found.set()
        await asyncio.wait_for(call, WITHIN_S)
        return endpoint

    endpoint = asyncio.run(scene())
    assert (endpoint.is_cancelled, len(endpoint.sent)) == (False, 1)


def test_what_a_poll_fails_with_is_its_servers_to_hear() -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("it is broken")

    async def nothing() -> dict[str, Any]:
        return await asyncio.Queue[dict[str, Any]]().get()

    with pytest.raises(RuntimeError, match="it is broken"):
        asyncio.run(polls_end_with_callers(broken)({"type": "http", "headers": [POLL]}, nothing, Endpoint().send))
