"""A session of `make run`, attacked as a page in a browser or a program without its key would: nothing gets through,
and nothing dies of it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
import urllib3
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.support.hostile_text import CORPUS, MARKUP, orders_in
from tests.support.machine import eventually, free_port
from tests.support.terminal_session import ROOT, TerminalSession, processes_of
from tickwork.client import ApiRefused

PAGE = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
JSON = {"Content-Type": "application/json"}
JOB = {
    "team": "evil", "name": "mine", "schedule": {"rate": "1 minute"},
    "target": {"url": "http://127.0.0.1:22/"},
}  # fmt: skip
SENT = tuple(text for text in CORPUS if "\x00" not in text and "\ud800" not in text)
"""The API refuses the others as text."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TerminalSession]:
    running = TerminalSession(tmp_path_factory.mktemp("hostile") / "state", free_port(), free_port())
    try:
        eventually(running.answers, bool, within_s=120)
        parts = set(processes_of(running.state).values())
        yield running
        assert running.process.poll() is None, running.text()[-3_000:]
        assert set(processes_of(running.state).values()) == parts
        assert "started again" not in running.text(), "a part has died"
        running.process.terminate()
        assert running.process.wait(90) == 0
    finally:
        running.kill_all()


def ask(
    port: int, method: str, path: str, headers: dict[str, str], body: str | bytes | None = None
) -> tuple[int, bool]:
    """(status, whether a page of another origin may read the answer)."""
    answer = urllib3.request(
        method, f"http://127.0.0.1:{port}{path}", headers=headers, body=body, retries=False, timeout=20
    )
    return answer.status, any(name.lower().startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/json"]
)
def test_a_page_creates_no_job(session: TerminalSession, kind: str) -> None:
    for path, headers in (
        ("/jobs", PAGE | {"Content-Type": kind}),
        ("/jobs", {"Origin": "null", "Content-Type": kind}),
        ("/jobs", JSON | {"Host": f"evil.example:{session.port}"}),
    ):
        status, readable = ask(session.port, "POST", path, headers, json.dumps(JOB))
        assert (status, readable) == (403, False)
    if kind != "application/json":
        assert ask(session.port, "POST", "/jobs", {"Content-Type": kind}, json.dumps(JOB)) == (415, False)
    assert session.api.get("/jobs", team="evil")["jobs"] == []


def test_a_page_reads_nothing(session: TerminalSession) -> None:
    for headers in (PAGE, {"Host": f"evil.example:{session.port}"}):
        for path in ("/runs", "/jobs?team=payments", "/openapi.json", "/health"):
            assert ask(session.port, "GET", path, headers) == (403, False)
    preflight = PAGE | {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    assert ask(session.port, "OPTIONS", "/jobs", preflight) == (403, False)


@pytest.mark.parametrize(
    "forged", ["../aws", "%2e%2e%2fdynamodb", "a" * 5_000, "payments~%00", "x|y|z", "%1b[2J", "[/]"]
)
def test_a_forged_id_finds_nothing_and_breaks_nothing(session: TerminalSession, forged: str) -> None:
    for path in ("/timers/", "/jobs/", "/calendars/", "/runs/"):
        status, _ = ask(session.port, "GET", path + forged, {})
        assert 400 <= status < 500, path


@pytest.mark.parametrize(
    "headers",
    [{}, PAGE, {"Authorization": "Basic dGVzdDp0ZXN0"}, {"Host": "evil.example"}],
    ids=["nobody", "a page", "basic", "another host"],
)
def test_the_endpoint_answers_nobody_without_the_key(session: TerminalSession, headers: dict[str, str]) -> None:
    for method, path in (
        ("POST", "/_ministack/reset"),
        ("POST", "/_ministack/config"),
        ("GET", "/_ministack/health"),
        ("GET", "/_ministack/sqs/messages"),
        ("GET", "/_localstack/health"),
        ("POST", "/2015-03-31/functions"),
        ("POST", "/"),
        ("OPTIONS", "/"),
        ("GET", "/000000000000/tickwork-dev-ready-payments?Action=ReceiveMessage"),
    ):
        assert ask(session.endpoint_port, method, path, headers, b"{}") == (403, False), path
    assert session.api.get("/jobs", team="payments")["jobs"], "all was wiped"


@pytest.mark.parametrize("key", ["test", "local", "000000000000", "123456789012", "AKIAIOSFODNN7EXAMPLE"])
def test_the_endpoint_takes_no_other_key(session: TerminalSession, key: str) -> None:
    url, config = f"http://127.0.0.1:{session.endpoint_port}", Config(retries={"max_attempts": 0})
    calls = {"dynamodb": "list_tables", "sqs": "list_queues", "lambda": "list_functions", "sts": "get_caller_identity"}
    for service, call in calls.items():
        client = boto3.client(
            service, endpoint_url=url, region_name="us-east-1", config=config,
            aws_access_key_id=key, aws_secret_access_key="test",
        )  # type: ignore[call-overload]  # fmt: skip
        with pytest.raises(ClientError) as refused:
            getattr(client, call)()
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def test_nobody_else_on_the_machine_reads_the_state(session: TerminalSession) -> None:
    assert stat.S_IMODE(session.state.stat().st_mode) == 0o700
    files = [path for path in session.state.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if path.stat().st_mode & 0o077 and path.name != "lock"]


def test_texts_that_do_harm_are_shown_as_text_and_nothing_dies(session: TerminalSession) -> None:
    before = len(session.text())
    taken = 0
    for text in SENT:
        taken += _paused(session, f"closed{text}", f"ann{text}")
        session.api.post("/jobs/payments:rate-feed/resume", {"by": "ann"})
    for payload in CORPUS:
        body = {"team": "payments", "delay_s": 1, "target": {"pool": "payments", "handler": "no-such"}}
        session.api.post("/timers", body | {"payload": {"text": payload.replace("\ud800", "")}}, repeat=False)
    assert taken >= len(MARKUP), "the API refused all: nothing was shown"
    assert _paused(session, f"closed{''.join(MARKUP)}", "ann[/]")
    eventually(lambda: "skipped (" in session.text()[before:], bool, within_s=60)
    assert "\x1b]" not in session.text()[before:], "the title, the clipboard or a link was set"
    for command in (["runs", "list", "--limit", "100"], ["jobs", "show", "payments:rate-feed"]):
        shown = subprocess.run(
            [sys.executable, "-m", "tickwork.cli.main", *command, "--api", session.api.url],
            cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert not orders_in(shown.stdout + shown.stderr)


def _paused(session: TerminalSession, reason: str, by: str) -> bool:
    """Whether the API took it: it may refuse what is no text, and must not fail."""
    try:
        session.api.post("/jobs/payments:rate-feed/pause", {"by": by, "reason": reason})
    except ApiRefused as error:
        if error.status in (400, 422):
            return False
        raise
    return True


def test_a_second_session_is_told_the_first_ones_pid(session: TerminalSession) -> None:
    elsewhere = session.state.parent / "elsewhere"
    for state, named in ((session.state, "uses"), (elsewhere, "holds it")):
        ports = ["--port", str(session.port), "--endpoint-port", str(session.endpoint_port)]
        second = subprocess.run(
            [sys.executable, "-m", "tickwork.cli.main", "dev", *ports, "--state", str(state)],
            cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert second.returncode == 1
        assert named in second.stderr
        pid = int(second.stderr.split("pid ")[1].split(")")[0].split()[0])
        assert pid in {session.process.pid, session.endpoint_pid()}
        assert Path(f"/proc/{pid}").exists()
