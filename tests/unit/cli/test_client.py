"""What the client repeats, how long it waits, and what it makes of the last answer: by a server with a script."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest
import urllib3.util.retry
from botocore.exceptions import CredentialRetrievalError

from tests.unit.cli.test_commands import run
from tickwork.client import RETRY_AFTER_S_MAX, TRIES_MAX, ApiClient, ApiRefused, ApiUnreachable

AWAY = (0, {}, "")
"""The connection is closed without an answer: what was asked may have been done."""
OK = (200, {}, '{"job_id": "payments:nightly"}')
BUSY = (503, {}, '{"detail": "the tables are busy"}')

type Answer = tuple[int, dict[str, str], str]


class Script(BaseHTTPRequestHandler):
    """Answers each request by the next entry of `answers`, the last one again and again."""

    answers: ClassVar[list[Answer]] = []
    asked: ClassVar[list[tuple[str, str, Any]]] = []

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.asked.append((self.command, self.path, json.loads(body) if body else None))
        status, headers, text = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if not status:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in {"Content-Length": str(len(text)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - http.server's names

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Script)
    thread = Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    thread.join()
    httpd.server_close()


@pytest.fixture
def api(server: str) -> ApiClient:
    Script.asked.clear()
    return ApiClient(server, auth="none")


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, which a test does not wait for."""
    kept: list[float] = []
    monkeypatch.setattr(urllib3.util.retry.time, "sleep", kept.append)
    return kept


@pytest.mark.parametrize("first", [AWAY, BUSY, (500, {}, "?"), (504, {}, ""), (429, {}, "{}")])
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
def test_a_call_without_an_answer_or_with_a_passing_one_is_repeated(api: ApiClient, first: Answer, method: str) -> None:
    Script.answers[:] = [first, OK]
    body = {"name": "nightly"} if method in ("POST", "PATCH") else None
    assert api.call(method, "/jobs", body) == {"job_id": "payments:nightly"}
    assert Script.asked == [(method, "/jobs", body)] * 2, "the same request, word for word"


@pytest.mark.parametrize("first", [AWAY, BUSY, (503, {"Retry-After": "1"}, ""), (429, {"Retry-After": "1"}, "")])
def test_a_call_that_must_not_be_repeated_is_sent_once(api: ApiClient, first: Answer) -> None:
    Script.answers[:] = [first, OK]
    with pytest.raises(ApiUnreachable):
        api.post("/timers", {"delay_s": 5}, repeat=False)
    assert len(Script.asked) == 1


@pytest.mark.parametrize("last", [AWAY, BUSY])
def test_tries_are_bounded_and_the_last_word_is_told(api: ApiClient, waits: list[float], last: Answer) -> None:
    Script.answers[:] = [last]
    with pytest.raises(ApiUnreachable) as told:
        api.get("/jobs")
    assert len(Script.asked) == TRIES_MAX
    assert ("the tables are busy" if last is BUSY else f"no answer from {api.url}") in str(told.value)
    assert len(waits) <= TRIES_MAX - 1
    assert waits == sorted(waits), "each pause at least as long as the one before"
    assert sum(waits) < 2


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422])
def test_a_refusal_is_not_repeated_and_keeps_its_problem_document(api: ApiClient, status: int) -> None:
    problem = {"title": "invalid request", "detail": "no such pool", "field": "target.pool", "remedy": "use `default`"}
    Script.answers[:] = [(status, {}, json.dumps(problem)), OK]
    with pytest.raises(ApiRefused, match="no such pool") as told:
        api.post("/jobs", {})
    assert (told.value.status, told.value.problem) == (status, problem)
    assert len(Script.asked) == 1


def test_a_refusal_after_a_repetition_is_still_a_refusal(api: ApiClient) -> None:
    Script.answers[:] = [BUSY, AWAY, (409, {}, '{"detail": "job payments:nightly is there"}')]
    with pytest.raises(ApiRefused, match="is there"):
        api.post("/jobs", {})
    assert len(Script.asked) == 3


def test_the_time_that_the_api_names_is_waited_for(api: ApiClient, waits: list[float]) -> None:
    Script.answers[:] = [(429, {"Retry-After": "3"}, "{}"), (503, {"Retry-After": "2"}, "{}"), OK]
    assert api.get("/jobs")
    assert waits == [3, 2]


def test_an_api_that_names_a_day_is_not_waited_for_so_long(api: ApiClient, waits: list[float]) -> None:
    Script.answers[:] = [(503, {"Retry-After": "86400"}, "{}"), OK]
    assert api.get("/jobs")
    assert waits == [RETRY_AFTER_S_MAX]


def test_a_redirect_is_no_answer_and_is_not_followed(api: ApiClient) -> None:
    Script.answers[:] = [(302, {"Location": "/elsewhere"}, "moved"), OK]
    with pytest.raises(ApiUnreachable, match="is it a tickwork API"):
        api.get("/jobs")
    assert len(Script.asked) == 1


def test_a_port_where_nobody_listens_is_said_in_one_line(waits: list[float]) -> None:
    with pytest.raises(ApiUnreachable, match=r"no answer from http://127\.0\.0\.1:9: .*refused") as told:
        ApiClient("http://127.0.0.1:9", auth="none").get("/jobs")
    assert "Max retries" not in str(told.value)
    assert len(waits) <= TRIES_MAX - 1


def test_the_command_line_tells_what_came_of_the_tries_and_not_each_of_them(
    api: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    Script.answers[:] = [BUSY]
    shown = run(api.url, "jobs", "list", "--team", "payments")
    assert shown.exit_code == 3
    assert len(Script.asked) == TRIES_MAX
    assert shown.stderr.count("the tables are busy") == 1
    assert not [record for record in caplog.records if record.name.startswith("urllib3")]


@pytest.mark.parametrize("first", [AWAY, BUSY, (429, {}, "{}")])
def test_a_timer_has_one_client_key_on_all_tries_of_one_wish_and_another_on_the_next(
    api: ApiClient, first: Answer
) -> None:
    for _ in range(2):
        Script.answers[:] = [first, OK]
        api.post("/timers", {"delay_s": 5})
    keys = [body["client_key"] for _, _, body in Script.asked]
    assert keys[0] == keys[1] != keys[2] == keys[3]


def test_each_timer_of_a_batch_has_a_client_key_and_keeps_the_one_it_was_given(api: ApiClient) -> None:
    Script.answers[:] = [BUSY, OK]
    asked = {"timers": [{"delay_s": 5}, {"delay_s": 5}, {"delay_s": 5, "client_key": "order-1"}]}
    api.post("/timers:batch", asked)
    (_, _, one), (_, _, other) = Script.asked
    keys = [timer["client_key"] for timer in one["timers"]]
    assert one == other
    assert len(set(keys)) == 3
    assert keys[2] == "order-1"
    assert asked["timers"][0] == {"delay_s": 5}, "what the caller holds is not touched"


def test_a_timer_that_is_sent_once_goes_as_it_was_given(api: ApiClient) -> None:
    Script.answers[:] = [OK]
    api.post("/timers", {"delay_s": 5}, repeat=False)
    assert Script.asked[0][2] == {"delay_s": 5}


def test_the_command_line_says_how_to_ask_for_the_same_timer_again(server: str) -> None:
    Script.asked.clear()
    Script.answers[:] = [AWAY]
    create = ("timers", "create", "--team", "shop", "--pool", "default", "--handler", "h", "--delay", "5")
    told = run(server, *create)
    (key,) = {body["client_key"] for _, _, body in Script.asked}
    assert told.exit_code == 3
    assert f"--client-key {key}" in told.stderr.replace("\n", " ")


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": {"b": 1, "b": 1}}', '[{"c": 1}, {"c": 1, "c": 2}]'])
def test_json_on_the_command_line_with_one_key_twice_is_refused_by_its_name(server: str, text: str) -> None:
    Script.asked.clear()
    create = ("timers", "create", "--team", "shop", "--pool", "default", "--handler", "h", "--delay", "5")
    told = run(server, *create, "--payload", text)
    assert told.exit_code == 2
    assert "stands twice in one object" in told.stderr.replace("\n", " ")
    assert Script.asked == []


@pytest.mark.parametrize(
    "command",
    [
        ("jobs", "create", "payments:x", "--pool", "payments", "--schedule", '{"rate": "1 hour", "rate": "2 hours"}'),
        ("jobs", "update", "payments:x", "--change", '{"lease_s": 60, "lease_s": 90}'),
        ("next", "--spec", "FILE"),
    ],
)
def test_every_command_that_reads_json_refuses_a_key_that_stands_twice(
    server: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    Script.asked.clear()
    file = tmp_path / "spec.json"
    file.write_text('{"cron": "0 2 * * *", "zone": "UTC", "zone": "Europe/Berlin"}')
    told = run(server, *(str(file) if one == "FILE" else one for one in command))
    assert told.exit_code != 0
    assert "stands twice in one object" in told.output.replace("\n", " ")
    assert Script.asked == []


@pytest.mark.parametrize("error", [CredentialRetrievalError(provider="ecs", error_msg="503"), RuntimeError("expired")])
def test_credentials_that_cannot_be_had_now_are_like_an_api_that_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Whoever holds a lease goes on telling its outcome; a worker does not end for it."""

    class Session:
        region_name = "eu-central-1"

        def get_credentials(self) -> Any:
            raise error

    monkeypatch.setattr("boto3.Session", Session)
    with pytest.raises(ApiUnreachable, match="credentials"):
        ApiClient("http://127.0.0.1:1", auth="iam").post("/runs:complete", {"runs": []})
