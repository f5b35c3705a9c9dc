"""Who may call the embedded API: programs of this machine, whatever a page makes a browser send."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import urllib3

from tests.support.fakes import fake_ports
from tests.unit.api.test_bad_input import TIMER
from tickwork.api.app import build_app
from tickwork.local.callers import is_own_host
from tickwork.local.server import serve

JSON = {"Content-Type": "application/json"}
BODY = json.dumps(TIMER)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    ports = fake_ports()
    server = serve(lambda: build_app(ports), 0)
    server.serve_in_background()
    yield server.server_port
    server.shutdown()
    server.server_close()


def status_of(port: int, headers: dict[str, str], body: str | None = BODY) -> tuple[int, str, bool]:
    """(status, kind of problem, whether a page of another origin may read the answer)."""
    method = "GET" if body is None else "POST"
    path = "/health" if body is None else "/timers"
    answer = urllib3.request(method, f"http://127.0.0.1:{port}{path}", body=body, headers=headers, retries=False)
    kind = json.loads(answer.data).get("type", "").rpartition(":")[2]
    return answer.status, kind, any(name.lower().startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize("host", ["127.0.0.1:{}", "localhost:{}", "LOCALHOST:{}", "[::1]:{}"])
def test_a_program_that_names_this_machine_and_sends_json_is_served(port: int, host: str) -> None:
    assert status_of(port, JSON | {"Host": host.format(port)}) == (201, "", False)
    assert status_of(port, {"Host": host.format(port)}, body=None)[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:{}"},
        {"Host": "127.0.0.1.evil.example:{}"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Host": "localhost:{}@evil.example"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://localhost:{}"},  # the page was fetched by another name than it asks by
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
@pytest.mark.parametrize("body", [BODY, None], ids=["write", "read"])
def test_a_page_of_anybody_else_neither_writes_nor_reads(port: int, headers: dict[str, str], body: str | None) -> None:
    named = {name: value.format(port) for name, value in headers.items()}
    assert status_of(port, JSON | named, body) == (403, "foreign-caller", False)


def test_a_page_of_the_server_itself_may_call_it(port: int) -> None:
    own = {"Origin": f"http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin"}
    assert status_of(port, JSON | own)[0] == 201


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "text/plain; application/json", "application/x-www-form-urlencoded", "application/jsonx"]
)
def test_a_body_that_a_form_could_send_is_refused_with_the_header_to_send(port: int, kind: str) -> None:
    assert status_of(port, {"Content-Type": kind}) == (415, "unsupported-media-type", False)


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8"])
def test_json_is_json_however_it_is_spelt(port: int, kind: str) -> None:
    assert status_of(port, {"Content-Type": kind})[0] == 201


def test_without_a_port_a_host_means_port_80() -> None:
    assert is_own_host("localhost", 80)
    assert not is_own_host("localhost", 8787)
