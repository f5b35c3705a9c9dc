"""The platform over HTTP on 127.0.0.1: the calls for workers, SQS's JSON protocol, and the job's reports."""

from __future__ import annotations

import hashlib
import json
import select
import socket
import time
from collections.abc import Callable
from typing import Any

from tickwork.conformance.platform import Away, Platform
from tickwork.local.http_server import PROBLEM_JSON, Answer, HttpHandler, HttpServer, Request, not_allowed

PROBLEM_AWAY = {"type": "about:blank", "title": "Busy", "status": 503, "detail": "try again"}


def serve(platform: Platform, port: int) -> HttpServer:
    """A running server; `shutdown` and `server_close` end it. Port 0 takes a free one."""

    class Handler(_Handler):
        world = platform

    server = HttpServer(Handler, port)
    platform.report_url = f"http://127.0.0.1:{server.server_port}/report"
    server.serve_in_background()
    return server


class _Handler(HttpHandler):
    world: Platform
    server: HttpServer

    def respond(self, request: Request) -> Answer:
        if request.method != "POST":
            return not_allowed(request.method, request.target, "POST")
        try:
            return _json(200, self._route(json.loads(request.body or b"{}")))
        except Away:
            return _json(503, PROBLEM_AWAY)
        except KeyError as error:
            fault = f"{error} is missing or unknown"
            return _json(422, {"title": "A field is not valid", "status": 422, "detail": fault})
        except json.JSONDecodeError as error:
            return _json(400, {"title": "The body is not JSON", "status": 400, "detail": str(error)})

    def _route(self, body: Any) -> Any:
        target = self.headers.get("X-Amz-Target", "")
        if target.startswith("AmazonSQS."):
            return self._sqs(target.removeprefix("AmazonSQS."), body)
        if self.path == "/report":
            self.world.note(str(body.get("event")), self._ref_of(body["run_id"]), **body)
            return {}
        if self.path.startswith("/pools/") and self.path.endswith(":lease"):
            wait_s = min(20.0, float(body.get("wait_s", 0)))
            asked_s = time.monotonic()
            most, lease_s = int(body.get("max", 1)), float(body["lease_s"])
            runs = self.world.lease(most, lease_s, wait_s, self._is_open, body.get("handlers"))
            return {"runs": runs, "waited_ms": int((time.monotonic() - asked_s) * 1000)}
        if self.path == "/runs:unhandled":
            return {"runs": [{"ref": entry["ref"], "accepted": True} for entry in body["runs"]]}
        calls: dict[str, Callable[[Any], Any]] = {
            "/runs:start": lambda entry: self.world.start(body["worker"], entry),
            "/runs:heartbeat": self.world.heartbeat,
            "/runs:complete": self.world.complete,
            "/runs:release": self.world.release,
        }
        call = calls[self.path]
        return {"runs": [{"ref": entry["ref"], **call(entry)} for entry in body["runs"]]}

    def _ref_of(self, run_id: str) -> str:
        return next(ref for ref, run in self.world.runs.items() if run.body.get("run_id") == run_id)

    def _sqs(self, action: str, body: Any) -> Any:
        if action == "GetQueueUrl":
            return {"QueueUrl": self._queue_url()}
        if action == "GetQueueAttributes":
            return {"Attributes": {"VisibilityTimeout": "2"}}
        if action == "ReceiveMessage":
            wait_s = float(body.get("WaitTimeSeconds", 0))
            messages = self.world.receive(int(body.get("MaxNumberOfMessages", 1)), wait_s, self._is_open)
            return {"Messages": [_message(*one) for one in messages]} if messages else {}
        if action in ("DeleteMessage", "ChangeMessageVisibility"):
            self._apply(action, body)
            return {}
        ok = [(entry["Id"], self._apply(action.removesuffix("Batch"), entry)) for entry in body["Entries"]]
        return {
            "Successful": [{"Id": entry_id} for entry_id, done in ok if done],
            "Failed": [{"Id": i, "SenderFault": True, "Code": "ReceiptHandleIsInvalid"} for i, done in ok if not done],
        }

    def _apply(self, action: str, entry: Any) -> bool:
        if action == "DeleteMessage":
            return self.world.delete(entry["ReceiptHandle"])
        return self.world.show(entry["ReceiptHandle"], float(entry["VisibilityTimeout"]))

    def _queue_url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/000000000000/conformance"

    def _is_open(self) -> bool:
        """Whether the client still listens: a poll it has abandoned must not swallow a message."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return not readable or self.connection.recv(1, socket.MSG_PEEK) != b""


def _json(status: int, body: Any) -> Answer:
    kind = "application/json" if status < 400 else PROBLEM_JSON
    return Answer(status, json.dumps(body).encode(), {"Content-Type": kind})


def _message(message_id: str, receipt: str, text: str) -> dict[str, str]:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return {"MessageId": message_id, "ReceiptHandle": receipt, "Body": text, "MD5OfBody": digest}
