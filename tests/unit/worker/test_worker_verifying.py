"""The harness tells a job that is harmless twice from one that is not."""

from __future__ import annotations

import sqlite3
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tickwork.cli.main import main
from tickwork.worker import App, Context
from tickwork.worker.effects import FolderEffects, HttpEffects, RecordedEffects, SqliteEffects
from tickwork.worker.fencing import http_headers
from tickwork.worker.verifying import Report, verify

pytest_plugins = ["tickwork.worker.pytest_plugin"]


def app_of(function: Any) -> App:
    app = App()
    app.job("job")(function)
    return app


def differing(report: Report) -> list[str]:
    return [one.delivery for one in report.differences]


def test_an_email_that_is_sent_again_is_found_and_shown(tickwork_effects: RecordedEffects) -> None:
    report = verify(
        app_of(lambda ctx: tickwork_effects.record("email", to="a@b.example")), "job", effects=[tickwork_effects]
    )
    assert not report.ok
    assert differing(report) == ["delivered twice", "crashed after effect 1 and delivered again"]
    assert '    + email {"to": "a@b.example"}' in report.lines()


def test_a_key_makes_it_harmless(verify_job: Any, tickwork_effects: RecordedEffects) -> None:
    report = verify_job(app_of(lambda ctx: tickwork_effects.record_once(ctx.run_id, "email")), "job")
    assert report.deliveries == ("delivered twice", "crashed after effect 1 and delivered again")


def test_a_mark_set_before_the_effect_loses_it_in_a_crash(tickwork_effects: RecordedEffects) -> None:
    """Delivered twice it looks harmless; the crash shows that the effect may never happen."""
    marked: set[str] = set()

    def job(ctx: Context) -> None:
        if ctx.run_id in marked:
            return
        marked.add(ctx.run_id)
        tickwork_effects.record("mark")
        tickwork_effects.record("charge")

    report = verify(app_of(job), "job", effects=[tickwork_effects])
    assert differing(report) == ["crashed after effect 1 and delivered again"]
    assert list(report.differences[0].missing) == ["charge {}"]


def test_a_second_attempt_that_fails_is_a_difference(tickwork_effects: RecordedEffects) -> None:
    def job(ctx: Context) -> None:
        if not tickwork_effects.record_once(ctx.run_id, "row"):
            raise ValueError("duplicate key")

    report = verify(app_of(job), "job", effects=[tickwork_effects])
    assert "duplicate key" in report.differences[0].failed


def test_the_plugin_fails_the_test_with_the_difference(verify_job: Any, tickwork_effects: RecordedEffects) -> None:
    with pytest.raises(pytest.fail.Exception, match="DIFFERENT when delivered twice"):
        verify_job(app_of(lambda ctx: tickwork_effects.record("email")), "job")


def test_a_job_is_verified_again_on_the_same_database(tmp_path: Path) -> None:
    """What the first verification has left there is no duplicate of the second."""
    books = tmp_path / "books.sqlite"
    with closing(sqlite3.connect(books)) as connection:
        connection.execute("CREATE TABLE done (run_id TEXT PRIMARY KEY)")
        connection.commit()

    def job(ctx: Context) -> None:
        with closing(sqlite3.connect(books)) as connection:
            connection.execute("INSERT OR IGNORE INTO done VALUES (?)", (ctx.run_id,))
            connection.commit()

    reports = [verify(app_of(job), "job", effects=[SqliteEffects(books)]) for _ in range(3)]
    assert [report.ok for report in reports] == [True] * 3
    assert [sum(report.effects.values()) for report in reports] == [1] * 3


def test_without_an_effect_nothing_is_proven() -> None:
    assert not verify(app_of(lambda ctx: None), "job").ok


def test_a_job_that_fails_at_once_can_not_be_verified() -> None:
    def job(ctx: Context) -> None:
        raise KeyError("no")

    with pytest.raises(ValueError, match="fails already"):
        verify(app_of(job), "job")


@pytest.mark.parametrize(("statement", "ok"), [("INSERT INTO t (run) VALUES (?)", False),
                                               ("INSERT OR IGNORE INTO t (run) VALUES (?)", True)])  # fmt: skip
def test_rows_are_seen_without_row_numbers_and_times(tmp_path: Path, statement: str, ok: bool) -> None:
    path = tmp_path / "books.sqlite"
    unique = "UNIQUE" if ok else ""
    with closing(sqlite3.connect(path)) as books, books:
        books.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, run TEXT {unique}, at TEXT DEFAULT current_timestamp)")

    def job(ctx: Context) -> None:
        with closing(sqlite3.connect(path)) as books, books:
            books.execute(statement, (ctx.run_id,))

    assert verify(app_of(job), "job", effects=[SqliteEffects(path)]).ok is ok


@pytest.mark.parametrize(("name", "ok"), [("{run_id}", True), ("{run_id}-{attempt}", False)])
def test_files_are_seen(tmp_path: Path, name: str, ok: bool) -> None:
    def job(ctx: Context) -> None:
        (tmp_path / name.format(run_id=ctx.run_id, attempt=ctx.attempt)).write_text("report")

    assert verify(app_of(job), "job", effects=[FolderEffects(tmp_path)]).ok is ok


@pytest.fixture
def bank() -> Iterator[str]:
    class Bank(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002

    with HTTPServer(("127.0.0.1", 0), Bank) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/payments"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("ok", [True, False])
def test_requests_are_seen_and_one_key_is_one_effect(bank: str, ok: bool) -> None:
    def job(ctx: Context) -> None:
        headers = http_headers(ctx) if ok else {}
        with urllib.request.urlopen(urllib.request.Request(bank, b"{}", headers, method="POST")):
            pass

    report = verify(app_of(job), "job", effects=[HttpEffects()])
    assert report.ok is ok
    assert len(report.deliveries) == 2


def test_the_command_shows_what_differs_and_writes_a_certificate(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from tickwork.worker import App\n"
        "from tickwork.worker.effects import RecordedEffects\n"
        "app, sent = App(), RecordedEffects()\n"
        "@app.job('good')\n"
        "def good(ctx, payload: dict): sent.record_once(ctx.run_id, 'mail', to=payload['to'])\n"
        "@app.job('bad')\n"
        "def bad(ctx, payload: dict): sent.record('mail', to=payload['to'])\n"
    )
    place = tmp_path / "shop.py"

    def run(job: str, *more: str) -> Any:
        arguments = ["verify", f"{place}:app", job, "--payload", '{"to": "a"}', "--effects", f"{place}:sent", *more]
        return CliRunner().invoke(main, arguments)

    good = run("good", "--certificate", str(tmp_path / "c.json"))
    assert good.exit_code == 0, good.output
    assert '"ok": true' in (tmp_path / "c.json").read_text()
    assert run("bad").exit_code == 1
    assert run("none").exit_code == 2
