"""The audit on the command line, against a real API on a local port."""

from __future__ import annotations

import json

from tests.unit.cli.test_commands import run, url
from tickwork.client import ApiClient

__all__ = ["url"]  # the fixture

JOB = {
    "team": "payments",
    "name": "nightly",
    "schedule": {"cron": "0 2 * * *"},
    "target": {"pool": "payments", "handler": "h"},
}


def test_who_changed_what_is_listed_and_verified(url: str) -> None:
    api = ApiClient(url)
    api.post("/jobs", JOB)
    api.patch("/jobs/payments:nightly", {"version": 1, "lease_s": 90})
    timer = api.post("/timers", {"team": "payments", "delay_s": 900, "target": JOB["target"]})
    api.post("/timers:cancel", {"timer_ids": [timer["timer_id"]]})
    of_job = run(url, "audit", "--job", "payments:nightly")
    assert of_job.exit_code == 0, of_job.output
    changed, created = of_job.stdout.splitlines()[1:]
    assert "job.changed" in changed
    assert "lease_s: - -> 90" in changed
    assert "job.created" in created
    of_team = json.loads(run(url, "audit", "--team", "payments", "--json").stdout)
    assert {one["action"] for one in of_team} == {"timers.cancelled", "job.changed", "job.created"}
    assert [one["result"] for one in of_team if "result" in one] == [{"cancelled": 1}]
    verified = run(url, "audit", "verify", "--team", "payments")
    assert (verified.exit_code, verified.stdout) == (0, "nothing is edited, and nothing is missing\n")


def test_a_definition_is_shown_as_it_was(url: str) -> None:
    api = ApiClient(url)
    api.post("/jobs", JOB)
    api.patch("/jobs/payments:nightly", {"version": 1, "schedule": {"cron": "0 3 * * *"}})
    shown = run(url, "jobs", "show", "payments:nightly", "--version", "1")
    assert shown.exit_code == 0, shown.output
    assert "cron 0 2 * * *" in shown.stdout
    assert "replaced" in shown.stdout
    assert run(url, "jobs", "show", "payments:nightly", "--version", "9").exit_code == 2


def test_an_audit_is_asked_for_by_team_or_by_job(url: str) -> None:
    for wrong in (
        (),
        ("--job", "nightly"),
        ("--job", "payments:a", "--team", "shop"),
        ("--team", "p", "--object", "x"),
    ):
        assert run(url, "audit", *wrong).exit_code == 2, wrong
    assert "nothing is known" in run(url, "audit", "--team", "nobody").stdout
