"""Dead letters and cancelled runs on the command line, against a real API on a local port."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.cli.test_commands import run, url
from tickwork.client import ApiClient

__all__ = ["url"]  # the fixture


def dead(url: str, error: str) -> dict[str, Any]:
    """A timer whose run has failed for good."""
    api = ApiClient(url)
    target = {"pool": "payments", "handler": "refund"}
    timer: dict[str, Any] = api.post("/timers", {"team": "payments", "delay_s": 0, "target": target})
    started = api.post("/runs:start", {"worker": "w", "runs": [{"ref": timer["ref"], "claim": "claim-one"}]})["runs"][0]
    entry = {"ref": timer["ref"], "token": started["token"], "outcome": "failed_permanent", "error": error}
    api.post("/runs:complete", {"runs": [entry]})
    return timer


def test_dead_letters_are_listed_counted_and_replayed(url: str) -> None:
    refused = [dead(url, "connection refused") for _ in range(2)]
    dead(url, "no such account")
    listed = run(url, "dead-letters", "list", "--team", "payments", "--error", "refused")
    assert listed.exit_code == 0, listed.output
    assert listed.stdout.count("failed for good: connection refused") == 2

    order = ("dead-letters", "replay", "--team", "payments", "--by", "ann", "--why", "the bank is back")
    counted = run(url, *order, "--error", "refused", "--dry-run")
    assert counted.stdout == "2 would be replayed\n"
    replayed = run(url, *order, "--error", "refused", "--json")
    assert replayed.exit_code == 0, replayed.output
    assert {one["run_id"] for one in json.loads(replayed.stdout)} == {timer["run_id"] for timer in refused}

    (left,) = json.loads(run(url, "dead-letters", "list", "--team", "payments", "--json").stdout)
    assert run(url, *order, left["ref"]).exit_code == 0
    assert run(url, "dead-letters", "list", "--team", "payments").stdout == "no dead letters\n"


def test_a_replay_says_what_it_can_not_do_and_ends_with_2(url: str) -> None:
    timer = dead(url, "boom")
    order = ("dead-letters", "replay", "--team", "payments", "--by", "ann", "--why", "because")
    assert run(url, *order).exit_code == 2, "neither refs nor a filter nor --all"
    assert run(url, *order, timer["ref"], "--all").exit_code == 2
    alive = ApiClient(url).post(
        "/timers", {"team": "payments", "delay_s": 900, "target": {"pool": "payments", "handler": "x"}}
    )
    refused = run(url, *order, alive["ref"])
    assert (refused.exit_code, "not_dead" in refused.stdout) == (2, True)


def test_runs_are_cancelled_by_id_by_ref_and_by_nominal_time(url: str) -> None:
    api = ApiClient(url)
    target = {"pool": "payments", "handler": "x"}
    first, second = (api.post("/timers", {"team": "payments", "delay_s": 900, "target": target}) for _ in range(2))
    job = api.post(
        "/jobs", {"team": "payments", "name": "n", "schedule": {"rate": "1h"}, "target": {"pool": "payments"}}
    )
    occurrence = f"payments:n@{job['next']['scheduled_at']}"
    cancelled = run(url, "runs", "cancel", first["timer_id"], second["ref"], occurrence, "--reason", "not needed")
    assert cancelled.exit_code == 0, cancelled.output
    assert cancelled.stdout.count("cancelled") == 3
    missing = run(url, "runs", "cancel", f"{occurrence[:-4]}00Z", "payments:n@soon", "--reason", "r")
    assert missing.exit_code == 2
