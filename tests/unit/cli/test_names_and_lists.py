"""What a table shows can be pasted into every command; lists say how far they came; every field has an option."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tests.support.fakes import FakeClock, fake_ports
from tickwork.api.app import build_app
from tickwork.api.jobs.bodies import JobIn
from tickwork.cli import paging
from tickwork.cli.definition_options import definition_of
from tickwork.cli.jobs_commands import create
from tickwork.cli.main import main
from tickwork.client import ApiClient, BadApiUrl
from tickwork.flows.dispatch.windows import run_window
from tickwork.local.server import serve
from tickwork.ports import Layout, Ports

PORTS = "ports"


@pytest.fixture
def ports() -> Ports:
    return fake_ports(layout=Layout(pools=("default", "payments", "push")))


@pytest.fixture
def url(ports: Ports) -> Iterator[str]:
    server = serve(lambda: build_app(ports), 0)
    server.serve_in_background()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def run(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments], env={"TICKWORK_API_URL": url})


def after(ports: Ports, seconds: int) -> None:
    assert isinstance(ports.clock, FakeClock)
    ports.clock.at_ms += seconds * 1_000
    for slice_no in range(ports.layout.slices):
        run_window(ports, slice_no, ports.clock.at_ms // 1_000)


def column(table: str, name: str) -> list[str]:
    """The cells of a table's column, as one would copy them."""
    head, *lines = table.splitlines()
    begin = head.index(name)
    return [line[begin:].split("  ")[0].strip() for line in lines]


def with_both(url: str, ports: Ports) -> None:
    """A run of a job and one of a timer, both queued."""
    run(url, "jobs", "create", "pay:nightly", "--rate", "60 seconds", "--pool", "payments", "--tolerance", "0")
    run(url, "timers", "create", "--team", "pay", "--pool", "payments", "--handler", "x", "--delay", "5")
    after(ports, 61)


def test_what_the_table_of_runs_shows_is_taken_by_show_and_cancel(url: str, ports: Ports) -> None:
    with_both(url, ports)
    shown = column(run(url, "runs", "list", "--team", "pay").stdout, "RUN ")
    assert len(shown) == 2
    assert any("@" in name for name in shown)
    for name in shown:
        facts = run(url, "runs", "show", name)
        assert facts.exit_code == 0, facts.output
        assert name in facts.stdout
        cancelled = run(url, "runs", "cancel", name, "--reason", "wrong")
        assert cancelled.exit_code == 0, cancelled.output
        assert column(cancelled.stdout, "RUN ") == [name]


def test_a_run_id_goes_with_its_job_and_alone_is_told_what_to_paste(url: str, ports: Ports) -> None:
    with_both(url, ports)
    (found,) = json.loads(run(url, "runs", "list", "--job", "pay:nightly", "--status", "queued", "--json").stdout)
    assert run(url, "runs", "show", found["run_id"], "--job", "pay:nightly").exit_code == 0
    alone = run(url, "runs", "show", found["run_id"])
    assert alone.exit_code == 2
    assert "--job" in alone.stderr
    cancelled = run(url, "runs", "cancel", found["run_id"], "--job", "pay:nightly", "--reason", "wrong")
    assert cancelled.exit_code == 0, cancelled.output


def test_dead_letters_are_replayed_by_what_their_table_shows(url: str, ports: Ports) -> None:
    with_both(url, ports)
    client = ApiClient(url, auth="none")
    for one in json.loads(run(url, "runs", "list", "--team", "pay", "--json").stdout):
        entry = {"ref": one["ref"], "claim": "claim-of-this-1"}
        token = client.post("/runs:start", {"worker": "w", "runs": [entry]})["runs"][0]["token"]
        client.post("/runs:complete", {"runs": [{"ref": one["ref"], "token": token, "outcome": "failed_permanent"}]})
    table = run(url, "dead-letters", "list", "--team", "pay").stdout
    names = column(table, "RUN ")
    assert len(names) == 2
    why = ("--team", "pay", "--by", "ann", "--why", "again")
    assert run(url, "dead-letters", "replay", names[0], *why).exit_code == 0
    left = json.loads(run(url, "dead-letters", "list", "--team", "pay", "--json").stdout)
    by_id = run(url, "dead-letters", "replay", left[0]["run_id"], "--job", left[0]["job_id"], *why)
    assert by_id.exit_code == 0, by_id.output


def test_timers_are_listed_and_each_is_shown_and_cancelled_by_any_of_its_names(url: str, ports: Ports) -> None:
    for delay in ("60", "30"):
        run(url, "timers", "create", "--team", "pay", "--pool", "payments", "--handler", "x", "--delay", delay)
    found = json.loads(run(url, "timers", "list", "--team", "pay", "--json").stdout)
    assert [one["fire_at"] for one in found] == sorted(one["fire_at"] for one in found)
    soonest = column(run(url, "timers", "list", "--team", "pay").stdout, "TIMER")[0]
    assert run(url, "timers", "show", soonest).exit_code == 0
    assert run(url, "timers", "show", found[0]["ref"]).exit_code == 0
    assert run(url, "timers", "cancel", found[0]["ref"]).exit_code == 0
    assert len(json.loads(run(url, "timers", "list", "--team", "pay", "--status", "pending", "--json").stdout)) == 1
    with_both(url, ports)
    (of_job,) = json.loads(run(url, "runs", "list", "--job", "pay:nightly", "--status", "queued", "--json").stdout)
    wrong = run(url, "timers", "show", of_job["ref"])
    assert (wrong.exit_code, "no timer" in wrong.stderr) == (2, True)


def test_coming_occurrences_are_runs_that_can_be_cancelled(url: str) -> None:
    run(url, "jobs", "create", "pay:nightly", "--cron", "0 2 * * *", "--pool", "payments")
    names = column(run(url, "jobs", "next", "pay:nightly", "--count", "2").stdout.partition("\n")[2], "RUN")
    assert len(names) == 2
    cancelled = run(url, "runs", "cancel", names[0], "--reason", "holiday")
    assert cancelled.exit_code == 0, cancelled.output


@pytest.mark.parametrize("more", [(), ("--status", "dead"), ("--since", "2026-01-01T00:00:00Z")])
def test_an_unknown_job_is_an_error_and_no_empty_table(url: str, more: tuple[str, ...]) -> None:
    found = run(url, "runs", "list", "--job", "pay:typo", *more)
    assert (found.exit_code, found.stdout) == (2, "")
    assert "pay:typo" in found.stderr


def test_job_and_status_go_together_and_what_does_not_is_told(url: str) -> None:
    run(url, "jobs", "create", "pay:nightly", "--cron", "0 2 * * *", "--pool", "payments")
    assert run(url, "runs", "list", "--job", "pay:nightly", "--status", "dead").stdout == "no runs\n"
    assert run(url, "runs", "list", "--job", "pay:nightly", "--team", "pay").exit_code == 2
    assert run(url, "runs", "list", "--status", "ended").exit_code == 2


# --- long lists -----------------------------------------------------------------------------------------------


class Slow:
    """An API whose pages take a second each."""

    def __init__(self, pages: int) -> None:
        self.pages, self.at_s = pages, 0.0

    def get(self, _path: str, **_: object) -> dict[str, Any]:
        self.at_s += 1
        self.pages -= 1
        cursor = "more" if self.pages else None
        return {"runs": [{}], "cursor": cursor, "reached": f"2026-12-01T00:00:{self.pages:02d}.000Z", "bounded": True}

    def collect(self, limit: int = 1_000, time_limit_s: float = 10) -> list[dict[str, Any]]:
        client: Any = self
        return paging.collect(client, "/runs", "runs", limit=limit, time_limit_s=time_limit_s, now_s=lambda: self.at_s)


def test_a_list_that_takes_long_says_how_far_it_has_come(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(Slow(9).collect()) == 9
    told = capsys.readouterr().err.splitlines()
    assert 2 <= len(told) <= 5
    assert "2026-12-01T00:00:07.000Z" in told[0]


def test_a_list_stops_at_its_time_and_says_that_it_is_not_all(capsys: pytest.CaptureFixture[str]) -> None:
    slow = Slow(30)
    assert len(slow.collect()) == 10
    assert "not all" in capsys.readouterr().err
    assert len(Slow(30).collect(time_limit_s=0)) == 30, "0 is no limit"
    assert len(Slow(30).collect(limit=3)) == 3


def test_a_short_list_says_nothing_beside_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(Slow(1).collect()) == 1
    assert capsys.readouterr().err == ""


# --- every field ----------------------------------------------------------------------------------------------


def definition(*arguments: str) -> dict[str, Any]:
    with create.make_context("create", ["pay:x", *arguments]) as context:
        return definition_of(context.params)


def test_every_field_of_a_job_has_an_option(tmp_path: Path) -> None:
    certificate = tmp_path / "c.json"
    certificate.write_text('{"job": "x"}')
    found = definition(
        "--cron", "0 2 * * *", "--pool", "p", "--handler", "h", "--payload", "1", "--lease", "60", "--max-duration",
        "5", "--idempotency-class", "unsafe", "--signed-off-by", "ann", "--why", "a fax", "--side-effect", "email",
        "--certificate", str(certificate), "--resource", "db=2", "--max-attempts", "3", "--tolerance", "0",
        "--exact-reason", "x", "--catch-up", "last", "--catch-up-last", "2",
        "--group", "g", "--lane", "P2", "--defaults-version", "1", "--secret-field", "card.number",
        "--start-within", "60",
        "--overlap", "buffer_all", "--buffer-max", "5", "--buffer-age", "600",
        "--owner", "ann", "--pager-route", "https://x.example", "--runbook", "r", "--description", "d", "--tag", "t",
        "--dead-man-switch", "on", "--max-silence", "600", "--min-duration", "5", "--group", "g",
    )  # fmt: skip
    assert found.keys() == JobIn.model_fields.keys() - {"team", "name"}


@pytest.mark.parametrize(
    ("arguments", "schedule"),
    [
        (["--cron", "0 2 * * *", "--calendars", "a", "--calendars", "b", "--on-excluded", "skip"],
         {"cron": "0 2 * * *", "calendars": {"exclude": ["a", "b"], "on_excluded": "skip"}}),
        (["--cron", "0 2 * * *", "--gap", "skip", "--fold", "both", "--tz", "Europe/Berlin"],
         {"cron": "0 2 * * *", "zone": "Europe/Berlin", "dst": {"gap": "skip", "fold": "both"}}),
        (["--rate", "1 hour", "--anchor", "2026-01-01T00:00:00Z", "--end", "2027-01-01T00:00:00Z"],
         {"rate": "1 hour", "anchor": "2026-01-01T00:00:00Z", "end": "2027-01-01T00:00:00Z"}),
        (["--cron", "0 0 2 * * *", "--seconds"], {"cron": "0 0 2 * * *", "seconds": True}),
        (["--rrule", "FREQ=DAILY", "--start", "2026-01-01T00:00:00Z"],
         {"rrule": "FREQ=DAILY", "start": "2026-01-01T00:00:00Z"}),
    ],
)  # fmt: skip
def test_a_schedule_is_put_together_from_its_options(arguments: list[str], schedule: dict[str, Any]) -> None:
    assert definition(*arguments)["schedule"] == schedule


@pytest.mark.parametrize("wrong", [["--tz", "UTC"], ["--calendars", "a"], ["--cron", "x", "--rate", "y"],
                                   ["--cron", "x", "--resource", "db"], ["--seconds"]])  # fmt: skip
def test_options_that_cannot_be_meant_are_refused_before_anything_is_sent(wrong: list[str]) -> None:
    with pytest.raises(click.UsageError):
        definition(*wrong)


def test_a_job_is_created_from_a_file_and_an_option_counts_before_it(url: str, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    body = {"schedule": {"cron": "0 2 * * *"}, "target": {"pool": "payments"}, "lease_s": 90, "payload": {"a": 1}}
    file.write_text(json.dumps(body | {"team": "pay", "name": "nightly"}))
    made = run(url, "jobs", "create", "pay:nightly", "--file", str(file), "--lease", "120", "--json")
    assert made.exit_code == 0, made.output
    job = json.loads(made.stdout)
    assert (job["lease_s"], job["payload"], job["schedule"]["cron"]) == (120, {"a": 1}, "0 2 * * *")
    assert run(url, "jobs", "create", "pay:other", "--file", str(file)).exit_code == 2, "the file is of another job"
    file.write_text("[1]")
    assert run(url, "jobs", "create", "pay:nightly", "--file", str(file)).exit_code == 2


def test_a_job_is_created_that_is_pushed_to_a_url(url: str) -> None:
    made = run(url, "jobs", "create", "pay:hook", "--rate", "1 hour", "--url", "https://hooks.example.com/x")
    assert made.exit_code == 0, made.output
    assert "https://hooks.example.com/x" in made.stdout
    assert run(url, "jobs", "create", "pay:none", "--rate", "1 hour").exit_code == 2


# --- mistakes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", ["localhost:8787", "127.0.0.1", "http://", "http://127.0.0.1:99999", "http://127.0.0.1:x", "ftp://x"]
)
def test_what_is_no_address_of_an_api_is_told_as_that(wrong: str) -> None:
    with pytest.raises(BadApiUrl):
        ApiClient(wrong)
    told = run(wrong, "jobs", "list", "--team", "pay")
    assert (told.exit_code, "http://127.0.0.1:8787" in told.stderr) == (2, True)


@pytest.mark.parametrize(
    "ports_given",
    [["--port", "0"], ["--port", "99999"], ["--port", "x"], ["--port", "4600", "--endpoint-port", "4600"]],
)
def test_a_port_that_cannot_be_is_told_before_anything_starts(ports_given: list[str], tmp_path: Path) -> None:
    told = CliRunner().invoke(main, ["dev", *ports_given, "--state", str(tmp_path / "s")])
    assert told.exit_code == 2
    assert not (tmp_path / "s").exists()


def test_a_number_that_is_not_allowed_is_shown_as_it_was_sent(url: str) -> None:
    told = run(url, "jobs", "create", "pay:x", "--rate", "1 hour", "--pool", "payments", "--lease", "100000")
    assert told.exit_code == 2
    assert "you sent 100000" in told.stderr


def test_the_shell_is_given_a_completion() -> None:
    found = CliRunner().invoke(main, [], prog_name="tickwork", env={"_TICKWORK_COMPLETE": "bash_source"})
    assert "_TICKWORK_COMPLETE=bash_complete" in found.output


@pytest.mark.parametrize("limit", [1, 199, 200, 201, 350])
def test_a_list_shows_as_many_as_were_asked_for_and_no_more(limit: int) -> None:
    class Endless:
        def get(self, _: str, *, limit: int, cursor: str | None, **__: object) -> dict[str, Any]:
            begin = int(cursor or 0)
            return {"runs": [{"n": begin + i} for i in range(limit)], "cursor": str(begin + limit), "reached": None}

    found = paging.collect(Endless(), "/runs", "runs", limit=limit)  # type: ignore[arg-type]
    assert [one["n"] for one in found] == list(range(limit))
