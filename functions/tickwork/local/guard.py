"""The wall around the AWS endpoint's application (ASGI): who has this session's access key gets through, nobody else.

The endpoint takes any key as root, answers pages of any origin, and has paths that wipe all of it; no option of its own
closes that. Owns the answer to whom to refuse. Knows nothing of the endpoint but the paths it controls itself by. Runs
in the endpoint's interpreter: the standard library is all there is. Protects the state, and the person's machine.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from xml.sax.saxutils import escape

from tickwork.local.callers import NAMES, name_of

type Scope = MutableMapping[str, Any]
type Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
type Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
type App = Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]
type Headers = Sequence[tuple[bytes, bytes]]

HEALTH = "/_ministack/health"
CONTROL_PATHS = ("/_ministack", "/_localstack")
FOR_ITSELF = ("/_ministack/cfn-response/", "/_ministack/cfn-signal/", "/_ministack/lambda-")
"""What the endpoint's own functions call, with a token in the path."""
_CREDENTIAL = re.compile(rb"AWS4-HMAC-SHA256 Credential=([^/,\s]+)/[^\s]+,")


def why_not(method: str, path: str, headers: Headers, access_key: str | None) -> str | None:
    """What speaks against a request. Without an access key the endpoint itself checks who is asking (roles enforced);
    pages, foreign hosts and the paths of control are refused all the same."""
    named = [(name.lower(), value) for name, value in headers]
    hosts = [value.decode("latin-1") for name, value in named if name == b"host"]
    if len(hosts) != 1 or name_of(hosts[0]) not in NAMES:
        return "the Host header does not name this machine"
    if any(name == b"origin" or name.startswith(b"sec-fetch-") for name, _ in named):
        return "a page in a browser asks"
    if access_key is not None and not _has_key(named, access_key):
        return "the access key is not this session's"
    if path.startswith(CONTROL_PATHS) and (method, path) != ("GET", HEALTH):
        allowed = access_key is None and path.startswith(FOR_ITSELF)
        return None if allowed else "the endpoint is controlled by the session that has started it, and by nobody else"
    return None


def _has_key(headers: Headers, access_key: str) -> bool:
    given = [value for name, value in headers if name == b"authorization"]
    found = _CREDENTIAL.match(given[0]) if len(given) == 1 else None
    return found is not None and hmac.compare_digest(found[1], access_key.encode())


def key_header(access_key: str) -> dict[str, str]:
    """The header of a request that is no call of AWS, and so has no signature: the health of the endpoint."""
    return {"Authorization": f"AWS4-HMAC-SHA256 Credential={access_key}/health, SignedHeaders=, Signature="}


def guarded(app: App, access_key: str | None, call: Callable[[], AbstractContextManager[object]] = nullcontext) -> App:
    """The application behind the wall. `call` is entered for each request that is let through, as long as it lasts."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        why = why_not(scope.get("method", "GET"), scope["path"], scope["headers"], access_key)
        if scope["type"] == "http" and why is None:
            with call():
                await app(scope, receive, send)
        elif scope["type"] == "websocket" and why is None and access_key is None:
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await _refuse(send, why or "this is no HTTP request", scope["headers"])

    return answer


async def _refuse(send: Send, why: str, headers: Headers) -> None:
    """In the form in which AWS's clients read an error, and without a word to a browser that it may show it."""
    told = f"tickwork's endpoint refuses this: {why}"
    if any(name.lower() == b"x-amz-target" for name, _ in headers):
        kind, body = b"application/x-amz-json-1.0", json.dumps({"__type": "AccessDeniedException", "message": told})
    else:
        kind, body = b"text/xml", _XML.format(escape(told))
    answer = [(b"content-type", kind), (b"content-length", str(len(body.encode())).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": answer})
    await send({"type": "http.response.body", "body": body.encode()})


_XML = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>{}</Message></Error></ErrorResponse>"
