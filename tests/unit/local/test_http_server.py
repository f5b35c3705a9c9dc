"""The embedded server by what goes over the wire: a request ends where it ends, and each gets an answer."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.client import HTTPResponse
from typing import Any

import pytest

from tests.support.fakes import fake_ports
from tests.unit.api.test_bad_input import TIMER
from tickwork.api.app import build_app
from tickwork.local.http_server import (
    BODY_BYTES_MAX,
    TRAILERS_MAX,
    Answer,
    HttpHandler,
    HttpServer,
    Request,
)
from tickwork.local.server import serve

PATIENCE_S = 10
BODY = json.dumps(TIMER).encode()
HOST = b"Host: localhost:00000\r\n"
"""The zeros become the port, which has as many digits."""
POST = b"POST /timers HTTP/1.1\r\nContent-Type: application/json\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
GET = b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    ports = fake_ports()
    server = serve(lambda: build_app(ports), 0)
    server.serve_in_background()
    yield server.server_port
    server.shutdown()
    server.server_close()


def exchange(port: int, sent: bytes, methods: tuple[str, ...] = ("POST",)) -> list[tuple[HTTPResponse, bytes]]:
    """Send, and read one answer for each method that was asked with; then nothing more may come."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(sent.replace(HOST, HOST.replace(b"00000", b"%d" % port)))
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as stream:
            answers = []
            for method in methods:
                answer = HTTPResponse(_Stream(stream), method=method)  # type: ignore[arg-type]
                answer.begin()
                answers.append((answer, answer.read()))
            assert stream.read() == b""
    return answers


class _Stream:
    """Lets several answers be read from one stream."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def makefile(self, mode: str) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def close(self) -> None:
        pass


def chunks(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)


def test_a_body_in_chunks_is_read_and_the_next_request_is_the_next(port: int) -> None:
    body = chunks(BODY[:7], BODY[7:8], BODY[8:]) + b"0\r\n\r\n"
    created, health = exchange(port, CHUNKED + body + GET, ("POST", "GET"))
    assert (created[0].status, json.loads(created[1])["team"]) == (201, TIMER["team"])
    assert (health[0].status, json.loads(health[1])["status"]) == (200, "ok")


def test_extensions_and_trailers_of_chunks_are_passed_over(port: int) -> None:
    body = b"%X;note=1\r\n%s\r\n0;last\r\nChecksum: 1\r\n\r\n" % (len(BODY), BODY)
    (answer, _), _ = exchange(port, CHUNKED + body + GET, ("POST", "GET"))
    assert answer.status == 201


@pytest.mark.parametrize(
    "rest",
    [
        POST + b"Content-Length: ten\r\n\r\n" + BODY,
        POST + b"Content-Length: -1\r\n\r\n" + BODY,
        POST + b"Content-Length: +5\r\n\r\n" + BODY,
        POST + b"Content-Length: \r\n\r\n" + BODY,
        POST + "Content-Length: ²\r\n\r\n".encode("latin-1") + BODY,
        POST + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n" + BODY,
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + BODY,
        POST + b"Content-Length: %d\r\n\r\n" % (len(BODY) + len(GET) + 1) + BODY,
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + BODY,
        POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + BODY,
        CHUNKED + b"zz\r\n" + BODY,
        CHUNKED + b"-5\r\n" + BODY,
        CHUNKED + b"5\r\n" + BODY,
        CHUNKED + chunks(BODY),
        CHUNKED + b"5" * 9_000,
        CHUNKED + b"0\r\n" + b"A: b\r\n" * (TRAILERS_MAX + 1) + b"\r\n",
        b"{\r\n\r\n",
        b"GET /health HTTP/9.9\r\n\r\n",
        b"GET http://[:: HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n",
    ],
    ids=lambda rest: rest.removeprefix(POST)[:40],
)
def test_what_cannot_be_read_is_told_so_and_nothing_after_it_is_taken_for_a_request(port: int, rest: bytes) -> None:
    ((answer, body),) = exchange(port, rest + GET)
    document = json.loads(body)
    assert (answer.status, answer.headers["Content-Type"]) in [
        (400, "application/problem+json"),
        (505, "application/problem+json"),
    ]
    assert document["status"] == answer.status
    assert document["detail"]


@pytest.mark.parametrize(
    "sent",
    [
        POST + b"Content-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1) + b"x" * (BODY_BYTES_MAX + 1),
        CHUNKED + chunks(b"x" * BODY_BYTES_MAX, b"x") + b"0\r\n\r\n",
    ],
    ids=["length", "chunks"],
)
def test_a_body_over_the_limit_is_refused_in_words_that_arrive(port: int, sent: bytes) -> None:
    ((answer, body),) = exchange(port, sent)
    assert (answer.status, json.loads(body)["type"]) == (413, "urn:tickwork:problem:body-too-large")


def test_a_body_at_the_limit_is_read(port: int) -> None:
    ((answer, body),) = exchange(port, POST + b"Content-Length: %d\r\n\r\n" % BODY_BYTES_MAX + b"x" * BODY_BYTES_MAX)
    assert (answer.status, json.loads(body)["type"]) == (400, "urn:tickwork:problem:malformed-json")


def test_a_request_without_a_length_has_no_body(port: int) -> None:
    first, second = exchange(port, POST + b"\r\n" + GET, ("POST", "GET"))
    assert (first[0].status, second[0].status) == (400, 200)


def test_head_has_the_headers_of_get_and_no_body(port: int) -> None:
    head = GET.replace(b"GET", b"HEAD")
    (got, body), (told, nothing) = exchange(port, GET + head, ("GET", "HEAD"))
    assert (told.status, told.headers["Content-Length"], nothing) == (200, str(len(body)), b"")
    assert told.headers["Content-Type"] == got.headers["Content-Type"]


def test_options_says_what_a_path_takes(port: int) -> None:
    ((answer, body),) = exchange(port, b"OPTIONS /timers/x HTTP/1.1\r\n" + HOST + b"\r\n", ("OPTIONS",))
    assert (answer.status, answer.headers["Allow"], body) == (204, "DELETE, GET, HEAD, OPTIONS", b"")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "POST"])
def test_another_method_than_a_path_takes_is_told_which_it_takes(port: int, method: str) -> None:
    ((answer, body),) = exchange(port, f"{method} /health HTTP/1.1\r\nContent-Length: 0\r\n".encode() + HOST + b"\r\n")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert json.loads(body)["type"] == "urn:tickwork:problem:method-not-allowed"


def test_a_path_that_is_not_there_is_not_there_by_any_method(port: int) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        ((answer, _),) = exchange(
            port, f"{method} /nowhere HTTP/1.1\r\nContent-Length: 0\r\n".encode() + HOST + b"\r\n"
        )
        assert answer.status == 404


def test_a_method_nobody_knows_is_a_problem_document(port: int) -> None:
    ((answer, body),) = exchange(port, b"BREW /health HTTP/1.1\r\n\r\n")
    assert (answer.status, json.loads(body)["status"]) == (501, 501)


def test_an_error_of_ours_is_shown_and_answered(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(HttpHandler):
        def respond(self, request: Request) -> Answer:
            raise LookupError("planted")

    server = HttpServer(Broken, 0)
    server.serve_in_background()
    ((answer, body),) = exchange(server.server_port, GET, ("GET",))
    server.shutdown()
    server.server_close()
    assert (answer.status, json.loads(body)["type"]) == (500, "urn:tickwork:problem:internal")
    assert "planted" in capsys.readouterr().err
