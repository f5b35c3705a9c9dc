"""The one HTTP server of this package, on 127.0.0.1: it reads a request whole, has it answered, and writes the answer.

Owns HTTP/1.1 as far as programs on one machine need it (RFC 9112): lengths, chunks, limits, HEAD, what cannot be read.
Knows no route. Protects that one request ends where the next begins: when it cannot tell, it answers and hangs up.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NoReturn

BODY_BYTES_MAX = 6 * 1024 * 1024
"""Lambda's own limit of a request."""
IDLE_S = 120
"""A connection on which nothing comes for so long is closed: its thread would wait for ever."""
LINE_BYTES_MAX = 4_096
"""Of a chunk's size and of a trailer."""
TRAILERS_MAX = 32
LINGER_S = 1.0
LINGER_BYTES_MAX = 4 * BODY_BYTES_MAX
"""What is still read of a request that was refused: a connection closed before is reset, and the answer with it."""

PROBLEM_JSON = "application/problem+json"
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}")
_LENGTH = re.compile(r"[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Request:
    """`target` is the path with its query, as it came. A HEAD comes as the GET whose headers it asks for."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def problem(status: int, slug: str, title: str, detail: str, **headers: str) -> Answer:
    """A problem document (RFC 9457)."""
    body = {"type": f"urn:tickwork:problem:{slug}", "title": title, "status": status, "detail": detail}
    return Answer(status, json.dumps(body).encode(), {"Content-Type": PROBLEM_JSON, **headers})


def unreadable(detail: str) -> Answer:
    return problem(400, "bad-request", "The request cannot be read", detail, Connection="close")


def not_allowed(method: str, path: str, allowed: str) -> Answer:
    detail = f"{method} is not for {path}: it takes {allowed}"
    return problem(405, "method-not-allowed", "This path takes other methods", detail, Allow=allowed)


class HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    """With the default of 5 a few workers that connect at once wait a second for the system to try again."""

    def __init__(self, handler: type[HttpHandler], port: int) -> None:
        """Port 0 takes a free one. Not yet serving: call `serve_forever`, and `shutdown` from another thread."""
        super().__init__(("127.0.0.1", port), handler)

    def serve_in_background(self) -> None:
        threading.Thread(target=lambda: self.serve_forever(poll_interval=0.05), daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away in the middle is no fault of ours; anything else is, and is shown."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Unreadable(Exception):
    """Where this request ends cannot be told, or it is longer than is read."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


class HttpHandler(BaseHTTPRequestHandler):
    """One connection. A subclass says what a request is answered with."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for the acknowledgement of its headers
    timeout = IDLE_S

    def respond(self, request: Request) -> Answer:
        raise NotImplementedError

    def do_GET(self) -> None:
        try:
            body = self._read_body()
        except _Unreadable as error:
            self._write(error.answer)
            self._hang_up()
            return
        method = "GET" if self.command == "HEAD" else self.command
        try:
            answer = self.respond(Request(method, self.path, dict(self.headers.items()), body))
        except ConnectionError:
            raise
        except Exception:  # noqa: BLE001 - shown, and told to the client
            self.server.handle_error(self.request, self.client_address)
            answer = problem(500, "internal", "The service failed", "an error of ours: it has been logged")
        self._write(answer)

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_GET  # noqa: N815

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """The base class's answer to what is no request, as a problem document."""
        self.request_version = self.protocol_version  # what could not be read would be answered as HTTP/0.9
        title = HTTPStatus(code).phrase
        self._write(problem(code, "bad-request", title, explain or message or title, Connection="close"))
        self._hang_up()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Requests are not logged: what they did is in the ledger, or in the journal of a scenario."""

    # --- reading ------------------------------------------------------------------------------------------------

    def _read_body(self) -> bytes:
        """The body by RFC 9112, section 6.3. Without a length there is none."""
        lengths = self.headers.get_all("Content-Length") or []
        codings = self.headers.get_all("Transfer-Encoding") or []
        if codings and lengths:
            _refuse("it has both a Content-Length and a Transfer-Encoding: send one of them")
        if codings:
            if [coding.strip().lower() for coding in codings] != ["chunked"]:
                _refuse(f"Transfer-Encoding {', '.join(codings)!r} is not known: send `chunked`, or a Content-Length")
            return self._chunks()
        if not lengths:
            return b""
        if len(set(lengths)) > 1 or not _LENGTH.fullmatch(lengths[0].strip()):
            _refuse(f"Content-Length {', '.join(lengths)!r} is no length: send the number of bytes of the body")
        return self._exactly(_within_limit(int(lengths[0])))

    def _chunks(self) -> bytes:
        body = bytearray()
        while size := self._chunk_size():
            _within_limit(len(body) + size)
            body += self._exactly(size)
            if self._line() != b"":
                _refuse("a chunk is longer than its size says")
        for _ in range(TRAILERS_MAX):
            if self._line() == b"":
                return bytes(body)
        return _refuse(f"more than {TRAILERS_MAX} trailers")

    def _chunk_size(self) -> int:
        size = self._line().partition(b";")[0].strip()
        if not _CHUNK_SIZE.fullmatch(size):
            _refuse("the size of a chunk is no hexadecimal number")
        return int(size, 16)

    def _line(self) -> bytes:
        line = self.rfile.readline(LINE_BYTES_MAX)
        if not line.endswith(b"\n"):
            _refuse("a line of the body is too long, or the body ends in the middle")
        return line.rstrip(b"\r\n")

    def _exactly(self, size: int) -> bytes:
        found = self.rfile.read(size)
        if len(found) < size:
            _refuse(f"the body ends after {len(found)} of {size} bytes")
        return found

    # --- writing ------------------------------------------------------------------------------------------------

    def _write(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD" and answer.status != HTTPStatus.NO_CONTENT:
            self.wfile.write(answer.body)

    def _hang_up(self) -> None:
        """Close, but only after the client has had a moment to read why."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(LINGER_S)
            for _ in range(LINGER_BYTES_MAX // LINE_BYTES_MAX):
                if not self.rfile.read1(LINE_BYTES_MAX):
                    return


def _refuse(detail: str) -> NoReturn:
    raise _Unreadable(unreadable(detail))


def _within_limit(size: int) -> int:
    if size > BODY_BYTES_MAX:
        detail = "a request has at most 6 MiB: send fewer entries at a time"
        raise _Unreadable(problem(413, "body-too-large", "The body is too large", detail, Connection="close"))
    return size
