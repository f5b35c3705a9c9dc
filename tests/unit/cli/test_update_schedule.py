"""`tickwork jobs update` changes of a schedule what its options name, and shows what that does before it writes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import Result

from tests.unit.cli.test_commands import run, url
from tickwork.cli import schedule_changes
from tickwork.cli.schedule_changes import merged
from tickwork.client import ApiClient

__all__ = ["url"]
JOB = "payments:nightly"
FULL: dict[str, Any] = {
    "cron": "0 2 * * *",
    "zone": "America/New_York",
    "dst": {"gap": "skip", "fold": "second"},
    "start": "2026-11-05T00:00:00Z",
    "end": "2027-06-01T00:00:00Z",
    "calendars": {"exclude": ["holidays"], "on_excluded": "next_working_day"},
}


@pytest.fixture(autouse=True)
def _a_job(url: str) -> None:
    ApiClient(url).call("PUT", "/calendars/payments:holidays", {"dates": ["2026-12-25"], "weekly": ["sat", "sun"]})
    body = {"team": "payments", "name": "nightly", "schedule": FULL, "target": {"pool": "payments"}}
    ApiClient(url).post("/jobs", body)


def schedule(url: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(url, "jobs", "show", JOB, "--json").stdout)
    return found["schedule"] | {"version": found["version"]}


def update(url: str, *options: str) -> Result:
    return run(url, "jobs", "update", JOB, *options)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--cron", "30 6 * * *"), {"cron": "30 6 * * *"}),
        (("--cron", "30 6 * * *", "--tz", "Europe/Berlin"), {"cron": "30 6 * * *", "zone": "Europe/Berlin"}),
        (("--tz", "Europe/Berlin"), {"zone": "Europe/Berlin"}),
        (("--gap", "run_after"), {"dst": {"gap": "run_after", "fold": "second"}}),
        (("--cron", "30 6 * * *", "--fold", "first"), {"cron": "30 6 * * *", "dst": {"gap": "skip", "fold": "first"}}),
        (("--on-excluded", "skip"), {"calendars": {"exclude": ["holidays"], "on_excluded": "skip"}}),
    ],
    ids=str,
)
def test_what_no_option_names_stays(url: str, options: tuple[str, ...], named: dict[str, Any]) -> None:
    result = update(url, *options, "--yes")
    assert result.exit_code == 0, result.output
    assert schedule(url) == FULL | named | {"version": 2}


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (("--rate", "6 hours"), ("zone", "start", "end", "calendars")),
        (("--at", "2026-11-10T09:00:00"), ("zone", "dst", "calendars")),
        (("--delay", "4 days"), ("calendars",)),
    ],
    ids=str,
)
def test_another_kind_keeps_what_it_can_have(url: str, options: tuple[str, ...], kept: tuple[str, ...]) -> None:
    result = update(url, *options, "--yes")
    assert result.exit_code == 0, result.output
    found = schedule(url)
    assert {name: found[name] for name in kept} == {name: FULL[name] for name in kept}
    assert "cron" not in found
    for name in FULL.keys() - {*kept, "cron"}:
        assert name in result.stderr


def test_a_whole_schedule_replaces_the_whole(url: str) -> None:
    assert update(url, "--schedule", '{"cron": "0 2 * * *"}', "--yes").exit_code == 0
    assert not {"start", "end", "calendars"} & schedule(url).keys()


def test_a_union_is_not_guessed_at(url: str) -> None:
    union = {"any_of": [{"cron": "0 1 * * *"}, {"cron": "0 5 * * *"}]}
    assert update(url, "--schedule", json.dumps(union), "--yes").exit_code == 0
    refused = update(url, "--cron", "0 2 * * *", "--yes")
    assert (refused.exit_code, "--schedule" in refused.stderr) == (2, True)
    assert "any_of" in schedule(url)


def test_the_next_occurrences_are_shown_before_and_after_and_nothing_is_written_unasked(url: str) -> None:
    asked = update(url, "--cron", "30 6 * * *")
    assert asked.exit_code == 2
    assert "--yes" in asked.stderr
    assert "2026-11-05T07:00:00Z 2026-11-05 02:00" in asked.stderr.replace("T02:00:00", " 02:00"), asked.stderr
    assert "2026-11-05T11:30:00Z" in asked.stderr
    assert schedule(url) == FULL | {"version": 1}


@pytest.mark.parametrize(("answer", "version"), [(True, 2), (False, 1)])
def test_a_person_is_asked(url: str, monkeypatch: pytest.MonkeyPatch, answer: bool, version: int) -> None:
    def ask() -> None:
        if not answer:
            raise schedule_changes.click.Abort

    monkeypatch.setattr(schedule_changes, "ask", ask)
    assert update(url, "--cron", "30 6 * * *").exit_code == (0 if answer else 1)
    assert schedule(url)["version"] == version


@pytest.mark.parametrize("options", [("--lease", "90"), ("--cron", "0 2 * * *"), ("--tz", "America/New_York")], ids=str)
def test_nobody_is_asked_when_no_occurrence_moves(url: str, options: tuple[str, ...]) -> None:
    result = update(url, *options)
    assert result.exit_code == 0, result.output
    is_change = options[0] == "--lease"
    assert schedule(url)["version"] == 1 + is_change
    assert ("nothing is changed" in result.stderr) == (not is_change)


def test_a_dry_run_writes_nothing_and_is_json_for_programs(url: str) -> None:
    result = update(url, "--cron", "30 6 * * *", "--dry-run", "--json")
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    assert shown["schedule"] == FULL | {"cron": "30 6 * * *"}
    assert [shown[when][0]["scheduled_at"] for when in ("before", "after")] == [
        "2026-11-05T07:00:00Z",
        "2026-11-05T11:30:00Z",
    ]
    assert schedule(url)["version"] == 1


def test_a_dry_run_says_what_it_has_not_tried(url: str) -> None:
    result = update(url, "--lease", "999999", "--cron", "30 6 * * *", "--dry-run")
    assert (result.exit_code, "not tried" in result.stderr, "lease_s" in result.stderr) == (0, True, True)
    result = update(url, "--lease", "90", "--dry-run", "--json")
    shown = json.loads(result.stdout)
    assert (shown["schedule"], shown["before"]) == (FULL, shown["after"])
    assert schedule(url)["version"] == 1


@pytest.mark.parametrize(
    "options",
    [
        ("--schedule", "{}"),
        ("--schedule", "[]"),
        ("--schedule", "7"),
        ("--change", '{"schedule": null}'),
        ("--cron", "0 2 * *"),
        ("--cron", "30 6 * * *", "--version", "7"),
        ("--lease", "90", "--version", "7"),
    ],
    ids=str,
)
def test_a_dry_run_of_what_would_be_refused_fails(url: str, options: tuple[str, ...]) -> None:
    result = update(url, *options, "--dry-run")
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert "Traceback" not in result.stderr
    assert schedule(url)["version"] == 1


def test_a_dry_run_shows_the_warnings_of_the_schedule(url: str) -> None:
    result = update(url, "--cron", "30 2 31 * *", "--dry-run")
    assert "warning: " in result.stderr


def test_another_pool_keeps_the_handler(url: str) -> None:
    assert update(url, "--handler", "settle").exit_code == 0
    assert update(url, "--pool", "default").exit_code == 0
    target = json.loads(run(url, "jobs", "show", JOB, "--json").stdout)["target"]
    assert target == {"pool": "default", "handler": "settle"}
    assert update(url, "--change", '{"target": {"pool": "payments"}}').exit_code == 0
    target = json.loads(run(url, "jobs", "show", JOB, "--json").stdout)["target"]
    assert target == {"pool": "payments", "handler": "nightly"}, "the API's own form is sent as it is"


def test_a_change_of_the_api_s_own_form_is_sent_as_it_is(url: str) -> None:
    assert update(url, "--change", '{"schedule": {"cron": "0 4 * * *"}}', "--yes").exit_code == 0
    found = schedule(url)
    assert (found["cron"], found["zone"], "end" in found) == ("0 4 * * *", "UTC", False)


def test_a_rate_keeps_its_anchor() -> None:
    standing = {"rate": "10 minutes", "anchor": "2026-10-30T00:10:00Z", "zone": "UTC"}
    assert merged(standing, {"rate": "20 minutes"}) == standing | {"rate": "20 minutes"}


def test_a_deletion_says_what_goes_on_and_ends_it_when_told_to(url: str) -> None:
    deleted = run(url, "jobs", "delete", JOB)
    assert "none of its runs is known to be under way" in deleted.stdout
    again = run(url, "jobs", "delete", JOB, "--cancel-runs")
    assert "0 runs cancelled, 0 told to stop" in again.stdout


def test_who_resumes_what_is_not_paused_learns_it(url: str) -> None:
    assert "was not paused\n" in run(url, "jobs", "resume", JOB, "--by", "ann").stderr
    run(url, "jobs", "pause", JOB, "--by", "ann", "--reason", "x")
    assert run(url, "jobs", "resume", JOB, "--by", "ann").stderr == ""
    assert (
        "was not paused: local (ann) resumed it at 2026-10-30T" in run(url, "jobs", "resume", JOB, "--by", "eve").stderr
    )
