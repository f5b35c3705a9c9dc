"""AWS at the socket: the real client of `tickwork.aws.wiring` sends, and is answered from a script.

What a test sees is the request as it goes out, after all that botocore does to it, and each repetition by the client
itself. An answer is a body (200), a `Fault` (an error of the service), or an exception of the network.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

ENDPOINT = "http://127.0.0.1:1"
"""Nobody listens there: a request that the script does not answer fails."""

LOST = ReadTimeoutError(endpoint_url=ENDPOINT)
"""The request went out, and no reply came."""
UNREACHED = EndpointConnectionError(endpoint_url=ENDPOINT)


@dataclass(frozen=True, slots=True)
class Fault:
    code: str
    status: int = 400
    more: dict[str, Any] = field(default_factory=dict)
    """Further members of the error's body."""


type Answer = dict[str, Any] | Fault | Exception


class _Raw(io.BytesIO):
    def stream(self, **_: Any) -> Any:
        yield self.read()


class FakeAws:
    """The service behind one client. `sent` are (operation, body) of each request in order."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.sent: list[tuple[str, Any]] = []
        self._script: list[Answer] = []
        client.meta.events.register_first("before-send", self._answer)

    def will_answer(self, *answers: Answer) -> None:
        self._script += answers

    def forget(self) -> None:
        """The client did not repeat as often as it might have."""
        self._script.clear()

    @property
    def unanswered(self) -> int:
        """Answers of the script that nobody has asked for."""
        return len(self._script)

    @property
    def body(self) -> Any:
        """The body of the only request."""
        ((_, body),) = self.sent
        return body

    def _answer(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        operation = request.headers["X-Amz-Target"]
        operation = (operation.decode() if isinstance(operation, bytes) else operation).rsplit(".", 1)[1]
        self.sent.append((operation, json.loads(request.body)))
        assert self._script, f"the script has no answer to {self.sent[-1]}"
        answer = self._script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, body = 200, answer
        if isinstance(answer, Fault):
            body = {"__type": f"com.amazonaws#{answer.code}", "message": "planted", **answer.more}
            status = answer.status
        return AWSResponse(request.url, status, {"x-amzn-requestid": "r"}, _Raw(json.dumps(body).encode()))
