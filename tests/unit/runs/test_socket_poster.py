"""The poster on real sockets of this host: what it connects to, what it follows, and when it gives up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tickwork.aws.push_http import SocketPoster
from tickwork.core.runs.push_targets import parse_target
from tickwork.core.runs.pushes import Answer


class Receiver(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.seen: list[tuple[str, str, bytes]] = []
        self.ended = threading.Event()


class _Answers(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, self.headers["Host"], body))
        if self.path == "/drip":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while not self.server.ended.wait(0.05):
                try:
                    self.wfile.write(b"X-Drip: x\r\n")
                except OSError:
                    return
        elif self.path.startswith("/to?"):
            self.send_response(307)
            self.send_header("Location", self.path.removeprefix("/to?"))
            self.end_headers()
        else:
            self.send_response(503 if self.path == "/down" else 204)
            self.send_header("Retry-After", "7")
            self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.ended.set()
    server.shutdown()
    server.server_close()
    thread.join()


def post(
    receiver: Receiver, path: str = "/hook", *, poster: SocketPoster | None = None, timeout_ms: int = 5_000
) -> Answer:
    poster = poster or SocketPoster(allow_private=True)
    target = parse_target(f"http://127.0.0.1:{receiver.server_port}{path}", allow_private=True)
    return poster.post(target, b"{}", {"Idempotency-Key": "r"}, timeout_ms=timeout_ms)


def test_it_posts_and_reads_the_answer(receiver: Receiver) -> None:
    assert post(receiver) == Answer(204, "7")
    assert post(receiver, "/down?x=1").status == 204
    assert post(receiver, "/down").status == 503
    assert receiver.seen[0][0] == "/hook"


def test_it_connects_to_the_address_it_checked_under_the_name_it_was_given(receiver: Receiver) -> None:
    asked = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    target = parse_target(f"http://hooks.example.com:{receiver.server_port}/")
    answer = SocketPoster(allow_private=True, resolve=resolve).post(target, b"{}", {}, timeout_ms=5_000)
    assert answer.status == 204
    assert asked == ["hooks.example.com"], "resolved once: the connection does not ask again"
    assert receiver.seen[0][1] == f"hooks.example.com:{receiver.server_port}"


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::ffff:169.254.169.254"], []])
def test_a_name_with_any_address_that_is_refused_is_not_connected_to(receiver: Receiver, addresses: list[str]) -> None:
    target = parse_target(f"http://hooks.example.com:{receiver.server_port}/")
    answer = SocketPoster(resolve=lambda *_: addresses).post(target, b"{}", {}, timeout_ms=500)
    assert (answer.status, answer.error_class) == (0, "AddressRefused")
    assert receiver.seen == []


def test_a_redirect_keeps_the_body_and_is_checked_anew(receiver: Receiver) -> None:
    assert post(receiver, "/to?/hook").status == 204
    assert [path for path, _, _ in receiver.seen] == ["/to?/hook", "/hook"]
    assert {body for _, _, body in receiver.seen} == {b"{}"}

    def public_only_at_first(host: str, port: int) -> list[str]:
        return ["127.0.0.1"] if host == "start.example.com" else ["10.0.0.1"]

    start = parse_target(f"http://start.example.com:{receiver.server_port}/to?http://inner.example.com/")
    strict = SocketPoster(resolve=public_only_at_first)
    strict._addresses = lambda target: (  # type: ignore[method-assign]
        ["127.0.0.1"] if target.host == "start.example.com" else SocketPoster._addresses(strict, target)
    )
    assert strict.post(start, b"{}", {}, timeout_ms=5_000).error_class == "AddressRefused"


@pytest.mark.parametrize("onward", ["http://169.254.169.254/", "file:///etc/passwd", "http://localhost/"])
def test_a_redirect_to_where_nothing_is_pushed_is_refused(receiver: Receiver, onward: str) -> None:
    poster = SocketPoster()
    poster._addresses = lambda target: ["127.0.0.1"]  # type: ignore[method-assign]
    answer = post(receiver, f"/to?{onward}", poster=poster)
    assert (answer.status, answer.error_class) == (0, "AddressRefused")


def test_redirects_end(receiver: Receiver) -> None:
    loop = "/to?" * 10 + "/hook"
    assert post(receiver, loop).error_class == "Unreachable"
    assert len(receiver.seen) == 4


def test_a_target_that_drips_is_cut_off_at_the_deadline(receiver: Receiver) -> None:
    assert post(receiver, "/drip", timeout_ms=300) == Answer(0, error_class="TimedOut", detail="no answer in time")


def test_nobody_there_and_no_such_name_are_answers_not_errors(receiver: Receiver) -> None:
    port = receiver.server_port

    def nowhere(host: str, _: int) -> list[str]:
        raise OSError("no such name")

    target = parse_target(f"http://127.0.0.1:{port}/", allow_private=True)
    assert SocketPoster(resolve=nowhere).post(target, b"", {}, timeout_ms=500).error_class == "Unreachable"
    closed = parse_target("http://127.0.0.1:9/", allow_private=True)
    assert SocketPoster(allow_private=True).post(closed, b"", {}, timeout_ms=500).error_class == "Unreachable"


def test_a_name_that_no_resolver_can_be_asked_for_is_unreachable() -> None:
    target = parse_target("http://hooks..example.com/", allow_private=True)

    assert SocketPoster().post(target, b"{}", {}, timeout_ms=1_000).error_class == "Unreachable"
