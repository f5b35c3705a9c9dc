"""A long poll whose caller has gone (killed, or out of patience) ends there and then.

The endpoint by itself goes on with it: what becomes visible in its ten seconds is given to nobody, and stays hidden for
as long as the queue says. Knows nothing of queues but the name of the call. Runs in the endpoint's interpreter: the
standard library is all there is. Protects W12 on this machine (what was handed back is taken at once). A poll that has
found something just as its caller goes is not undone: that message comes back when its visibility ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from tickwork.local.guard import App, Receive, Scope, Send

POLL = (b"x-amz-target", b"AmazonSQS.ReceiveMessage")


def polls_end_with_callers(app: App) -> App:
    """The application, whose long polls are cancelled when their connection is closed. Every other call ends as it
    would: what it has begun to write is to be whole."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if _is_poll(scope):
            await _while_there_is_a_caller(app, scope, receive, send)
        else:
            await app(scope, receive, send)

    return answer


def _is_poll(scope: Scope) -> bool:
    return scope["type"] == "http" and POLL in ((name.lower(), value) for name, value in scope["headers"])


async def _while_there_is_a_caller(app: App, scope: Scope, receive: Receive, send: Send) -> None:
    is_read = asyncio.Event()

    async def received() -> MutableMapping[str, Any]:
        message = await receive()
        if not message.get("more_body"):
            is_read.set()
        return message

    async def has_gone() -> None:
        await is_read.wait()  # until then it is the application that hears of it
        while (await receive())["type"] != "http.disconnect":
            pass

    both = {asyncio.ensure_future(app(scope, received, send)), asyncio.ensure_future(has_gone())}
    try:
        done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in both:
            one.cancel()
    await asyncio.gather(*both, return_exceptions=True)
    for one in done:
        one.result()  # what the application raises is its server's to hear
