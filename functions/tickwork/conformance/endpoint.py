"""The platform over HTTP on 127.0.0.1: the calls for workers, SQS's JSON protocol, and the job's reports."""

from __future__ import annotations

import hashlib
import json
import select
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tickwork.conformance.platform import Away, Platform

PROBLEM_AWAY = {"type": "about:blank", "title": "Busy", "status": 503, "detail": "try again"}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away in the middle is what scenarios are made of; anything else is a fault of ours."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def serve(platform: Platform, port: int) -> ThreadingHTTPServer:
    """A running server; `shutdown` and `server_close` end it. Port 0 takes a free one."""

    class Handler(_Handler):
        world = platform

    server = _Server(("127.0.0.1", port), Handler)
    platform.report_url = f"http://127.0.0.1:{server.server_port}/report"
    threading.Thread(target=lambda: server.serve_forever(poll_interval=0.05), daemon=True).start()
    return server


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for the acknowledgement of its headers
    world: Platform
    server: ThreadingHTTPServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        try:
            answer = self._route(body)
        except Away:
            self._send(503, PROBLEM_AWAY)
        except KeyError as error:
            self._send(
                422, {"title": "A field is not valid", "status": 422, "detail": f"{error} is missing or unknown"}
            )
        else:
            self._send(200, answer)

    def _route(self, body: Any) -> Any:
        target = self.headers.get("X-Amz-Target", "")
        if target.startswith("AmazonSQS."):
            return self._sqs(target.removeprefix("AmazonSQS."), body)
        if self.path == "/report":
            self.world.note(str(body.get("event")), self._ref_of(body["run_id"]), **body)
            return {}
        if self.path.startswith("/pools/") and self.path.endswith(":lease"):
            wait_s = min(20.0, float(body.get("wait_s", 0)))
            return {"runs": self.world.lease(int(body.get("max", 1)), float(body["lease_s"]), wait_s, self._is_open)}
        calls: dict[str, Callable[[Any], Any]] = {
            "/runs:start": lambda entry: self.world.start(body["worker"], entry),
            "/runs:heartbeat": self.world.heartbeat,
            "/runs:complete": self.world.complete,
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

    def _send(self, status: int, body: Any) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if status < 400 else "application/problem+json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """The journal is the log."""


def _message(message_id: str, receipt: str, text: str) -> dict[str, str]:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return {"MessageId": message_id, "ReceiptHandle": receipt, "Body": text, "MD5OfBody": digest}
