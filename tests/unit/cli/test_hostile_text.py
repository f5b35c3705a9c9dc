"""Whatever others have written into names, reasons and errors: each command shows it as text, one row for one thing."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import tickwork.cli
from tests.support.fakes import fake_ports
from tests.support.hostile_text import ALL_AT_ONCE, orders_in, poisoned
from tickwork.api.app import build_app
from tickwork.cli.main import main
from tickwork.client import ApiClient, ApiRefused, ApiUnreachable
from tickwork.core.ledger.cells import CellShape
from tickwork.local.server import serve
from tickwork.ports import Layout

JOB = "payments:nightly"
PLACE = Path(tickwork.cli.__file__).parent

COMMANDS: dict[str, list[str]] = {
    "jobs create": [JOB, "--cron", "0 2 * * *", "--pool", "payments"],
    "jobs update": [JOB, "--lease", "90"],
    "jobs pause": [JOB, "--by", "ann", "--reason", ALL_AT_ONCE.replace("\x00", "").replace("\ud800", "")],
    "backfills create": [
        *(JOB, "--since", "2026-09-01T00:00:00Z", "--until", "2026-09-03T00:00:00Z", "--reason", "a bug", "--dry-run"),
    ],
    "backfills list": [JOB],
    "backfills show": ["BACKFILL"],
    "backfills pause": ["BACKFILL", "--reason", "x"],
    "backfills resume": ["BACKFILL"],
    "backfills cancel": ["BACKFILL", "--reason", "x", "--runs", "leave"],
    "jobs skip": ["NEXT", "--reason", "closed"],
    "jobs unskip": ["NEXT"],
    "jobs run": [JOB, "--reason", "late"],
    "jobs resume": [JOB, "--by", "bob"],
    "jobs show": [JOB],
    "jobs next": [JOB, "--count", "2"],
    "jobs list": ["--team", "payments"],
    "jobs delete": [JOB],
    "timers create": ["--team", "payments", "--pool", "payments", "--handler", "x", "--delay", "500"],
    "timers show": ["TIMER"],
    "timers list": ["--team", "payments"],
    "timers cancel": ["TIMER"],
    "groups cancel": ["night", "--team", "payments", "--reason", "called off"],
    "groups show": ["night", "--team", "payments"],
    "calendars put": ["payments:days", "FILE"],
    "calendars show": ["payments:days"],
    "calendars list": ["--team", "payments"],
    "runs list": ["--team", "payments"],
    "runs show": ["TIMER"],
    "runs cancel": [JOB, "--reason", "wrong"],
    "dead-letters list": ["--team", "payments"],
    "dead-letters replay": ["--team", "payments", "--all", "--by", "ann", "--why", "mended"],
    "keys create": ["--team", "payments", "--role", "viewer"],
    "keys list": ["--team", "payments"],
    "keys rotate": ["KEY"],
    "keys revoke": ["KEY"],
    "audit verify": ["--team", "payments"],
    "teams create": [
        "billing",
        "--contact",
        "ann",
        "--route",
        "email=ann@example.org",
        "--quota",
        "jobs=5",
        "--pool",
        "x",
    ],
    "teams set": ["hostile", "--runbook", "r", "--quota", "jobs=none", "--quota", "keys=3"],
    "teams show": ["hostile"],
    "teams list": [],
    "teams test": ["hostile"],
    "teams delete": ["spare"],
    "teams adopt": ["--dry-run"],
    "contract check": ["--team", "payments"],
    "incidents list": ["--team", "payments"],
    "defaults show": [],
    "defaults roll-out": ["--version", "1", "--team", "hostile", "--reason", "first", "--yes"],
    "defaults back": ["--version", "1", "--reason", "wrong"],
    "pools create": ["hostile:fast", "--worker", "lambda", "--timeout", "60", "--share", "spare"],
    "pools list": ["--team", "hostile"],
    "pools show": ["hostile:own"],
    "pools share": ["hostile:own", "--with", "spare"],
    "pools delete": ["hostile:own"],
    "pause": ["--team", "hostile", "--reason", "a release", "--until", "2099-12-01T00:00:00Z"],
    "resume": ["--team", "spare", "--dry-run"],
    "pauses": ["--team", "hostile"],
    "cells list": [],
    "cells place": ["side", "--team", "hostile", "--reason", "room"],
    "cells take-back": ["--team", "hostile"],
    "next": ["0 2 * * *", "--count", "2"],
}
WITHOUT_THE_API = {
    "fan-out": "shows its own arguments, and counts",
    "herd": "names of teams, which are checked, times and numbers; tests/unit/cli/test_herd_command.py",
    "cost": "asks nobody: numbers, and words of its own",
    "worker": "its log is JSON lines",
    "verify": "shows what was seen of a job of one's own: line by line",
    "push-secret": "shows what it has derived",
    "defaults publish": "shows what `defaults show` does, of what the platform's own people say",
    "defaults plan": "names of jobs, which are checked, and numbers",
    "dev": "the screen: tests/unit/local/test_screen.py",
    "serve api": "its log is JSON lines",
    "serve windows": "its log is JSON lines",
    "serve push": "its log is JSON lines",
    "incidents acknowledge": "shows its own argument, and a time",
    "serve watch": "its log is JSON lines",
    "serve setup": "shows the settings of its own environment",
}


def _leaves(group: click.Group, before: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _leaves(command, f"{before}{name} ")
        else:
            yield before + name


def test_every_command_is_walked_or_has_a_reason_not_to_be() -> None:
    assert set(_leaves(main)) == COMMANDS.keys() | WITHOUT_THE_API.keys()


def test_one_module_prints_and_the_others_ask_it_to() -> None:
    found = {
        f"{path.name}:{ast.unparse(node.func)}"
        for path in PLACE.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "click.echo", "click.secho", "echo")
    }
    assert found == {"output.py:click.echo", "entry.py:print"}, "entry.py runs where click is missing"


@pytest.fixture
def url() -> Iterator[str]:
    ports = fake_ports(layout=Layout(pools=("default", "payments", "push"), others=(CellShape("side", 2, 1),)))
    server = serve(lambda: build_app(ports), 0)
    server.serve_in_background()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def run(url: str, tmp_path: Path) -> Callable[[str, str], Result]:
    """Run a command as one finds the world: with a job, a timer that has died, and a calendar."""
    client = ApiClient(url, auth="none")
    body = {"team": "payments", "name": "nightly", "schedule": {"cron": "0 2 * * *"}, "target": {"pool": "payments"}}
    job = client.post("/jobs", body | {"tolerance_s": 0, "exact_reason": "tested"})
    timer = client.post("/timers", {"team": "payments", "delay_s": 500, "target": {"pool": "payments", "handler": "x"}})
    for team in ("hostile", "spare"):
        client.call("PUT", f"/teams/{team}", {"contact": "ann", "routes": [{"kind": "email", "address": "a@b.org"}]})
    client.call("PUT", "/teams/hostile/pools/own", {})
    for team in ("hostile", "spare"):
        client.post("/pauses", {"team": team, "reason": "a release"})
    client.call("PUT", "/calendars/payments:days", {"dates": ["2026-12-25"]})
    content = tmp_path / "days.json"
    content.write_text('{"dates": ["2026-12-25"]}')
    key = client.post("/keys", {"team": "payments", "role": "viewer"})
    named = {"TIMER": timer["timer_id"], "FILE": str(content), "KEY": key["key_id"]}
    past = {"since": "2026-09-01T00:00:00Z", "until": "2026-09-03T00:00:00Z", "reason": "a bug"}
    named["BACKFILL"] = client.post(f"/jobs/{JOB}/backfills", past)["backfill_id"]
    named["NEXT"] = f"{JOB}@{job['next']['scheduled_at']}"

    def invoke(command: str, more: str = "") -> Result:
        arguments = [named.get(word, word) for word in COMMANDS[command]]
        return CliRunner().invoke(main, [*command.split(), *arguments, *more.split()], env={"TICKWORK_API_URL": url})

    return invoke


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """All texts of all answers carry the corpus."""
    call = ApiClient.call

    def poisoned_call(self: ApiClient, *arguments: Any, **named: Any) -> Any:
        try:
            return poisoned(call(self, *arguments, **named), ALL_AT_ONCE)
        except ApiRefused as error:
            raise ApiRefused(error.status, poisoned(error.problem, ALL_AT_ONCE)) from error

    monkeypatch.setattr(ApiClient, "call", poisoned_call)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_shows_what_is_hostile_as_text(
    run: Callable[..., Result], command: str, request: pytest.FixtureRequest
) -> None:
    clean = run(command)
    request.getfixturevalue("poison")
    found = run(command)
    assert not isinstance(found.exception, Exception) or isinstance(found.exception, click.ClickException), found.output
    assert not orders_in(found.stdout + found.stderr)
    if clean.exit_code == 0 and found.exit_code == 0 and "--why" not in COMMANDS[command]:
        assert len(found.stdout.splitlines()) == len(clean.stdout.splitlines()), "a row was forged"


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("calendars put", "next")])
def test_json_for_programs_holds_the_same_text_and_no_orders(
    run: Callable[..., Result], command: str, poison: None
) -> None:
    found = run(command, "" if command == "calendars show" else "--json")
    assert not orders_in(found.stdout + found.stderr)
    if found.stdout:
        assert "\\u202etxt.exe" in found.stdout or json.loads(found.stdout) == []
        json.loads(found.stdout)


def test_a_refusal_and_an_answer_that_is_none_are_shown_as_text(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    document = {"errors": [{"field": "x" + ALL_AT_ONCE, "detail": "no" + ALL_AT_ONCE, "remedy": "try" + ALL_AT_ONCE}]}
    for error, lines in ((ApiRefused(422, document), 2), (ApiUnreachable("gone" + ALL_AT_ONCE), 2)):
        monkeypatch.setattr(ApiClient, "call", lambda *_, error=error, **__: (_ for _ in ()).throw(error))
        found = run("jobs show")
        assert found.exit_code in (2, 3)
        assert not orders_in(found.stderr)
        assert len(found.stderr.splitlines()) == lines


def test_a_terminal_that_lacks_a_letter_is_shown_its_number() -> None:
    refused = CliRunner(charset="latin-1").invoke(main, ["next", "0 2 * * *", "--tz", "Łódź"])
    assert refused.exit_code == 2
    assert "'\\u0141ód\\u017a' is no time zone" in refused.stderr
