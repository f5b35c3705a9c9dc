"""Moments that others have missed: MISS-01, CATCH-01, CATCH-03, and CATCH-05 as far as it goes without a pause."""

from __future__ import annotations

import pytest

from tests.scenarios.stage import Stage
from tickwork.core.instants import MINUTE_MS, SECOND_MS, iso, parse_iso
from tickwork.core.jobs.definitions import CatchUp, Job
from tickwork.flows.jobs import registering
from tickwork.ports import Layout


def stage_at(text: str) -> Stage:
    return Stage(Layout(shards=1, slices=1, pools=("default",)), parse_iso(text))


def occurrences(stage: Stage, job_id: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for run in sorted(stage.runs(), key=lambda run: run.key.scheduled_at_ms):
        if run.key.job_id == job_id:
            status = f"{run.status} {run.reason}".strip()
            found.setdefault(status, []).append(iso(run.key.scheduled_at_ms))
    return found


@pytest.mark.parametrize(
    ("back", "late_ms"),
    [("2025-02-10T03:02:10Z", 130_000), ("2025-02-10T03:00:03.400Z", 3_400)],
    ids=["an outage over the only moment", "a tick that is late"],
)
def test_a_moment_that_fell_into_a_gap_fires_late_once_and_says_how_late(back: str, late_ms: int) -> None:
    """MISS-01: `0 4 * * *` in Paris; the dispatcher is down from 02:59:40Z."""
    stage = stage_at("2025-02-10T02:59:00Z")
    job_id = stage.job(
        "nightly", {"cron": "0 4 * * *", "zone": "Europe/Paris"}, CatchUp("latest", max_lateness_s=3_600)
    )
    stage.serve(40)
    stage.at_ms = parse_iso(back)
    scanner = stage.process()
    scanner.window()
    workers = stage.work()
    assert workers.lags_ms == [late_ms]
    assert occurrences(stage, job_id) == {
        "succeeded": ["2025-02-10T03:00:00Z"],
        "pending": ["2025-02-11T03:00:00Z"],
    }
    (run,) = [run for run in stage.runs() if run.status == "succeeded"]
    assert run.dispatched_at_ms - run.key.fire_at_ms == late_ms, "lateness stands in its history"
    assert stage.signals.counts["scheduler.fire_lag_seconds"] == 1, "and was measured"


@pytest.mark.parametrize(
    ("policy", "ran", "skipped"),
    [
        (CatchUp("none"), 0, 101),
        (CatchUp("latest"), 1, 100),
        (CatchUp("last", 100), 100, 1),
        (CatchUp("all"), 101, 0),
        (CatchUp("all", max_lateness_s=600), 10, 91),
    ],
    ids=["none", "latest", "last 100", "all", "no later than ten minutes"],
)
def test_101_missed_minutes_end_no_schedule(policy: CatchUp, ran: int, skipped: int) -> None:
    """CATCH-01: every minute, down from 00:00 to 01:41:30; whatever the policy, it goes on at 01:42."""
    stage = stage_at("2025-01-01T00:00:00Z")
    job_id = stage.job("minutely", {"cron": "* * * * *", "zone": "UTC"}, policy)
    stage.at_ms = parse_iso("2025-01-01T01:41:30Z")
    workers = stage.serve(4)
    assert len(workers.started) == len(set(workers.started)) == ran
    found = occurrences(stage, job_id)
    assert len(found.get("succeeded", [])) == ran
    assert sum(len(times) for status, times in found.items() if status.startswith("skipped")) == skipped
    assert found["pending"] == ["2025-01-01T01:42:00Z"]
    if ran:
        assert found["succeeded"][-1] == "2025-01-01T01:41:00Z", "the newest are the ones that run"
    stage.assert_chains_unbroken()


def test_a_job_in_another_zone_catches_up_nothing_of_the_other_zones_past() -> None:
    """CATCH-03: 16:30 UTC becomes 16:30 in New York at 20:50Z, twenty minutes after that was: no run today."""
    stage = stage_at("2017-09-13T16:00:00Z")
    stage.job("close", {"cron": "30 16 * * *", "zone": "UTC"})
    stage.at_ms = parse_iso("2017-09-13T16:30:00Z")
    assert len(stage.serve(1).started) == 1
    stage.at_ms = parse_iso("2017-09-13T20:50:12Z")
    ports = stage.process().ports
    assert registering.delete_job(ports, "shop:close")
    job_id = stage.job("close", {"cron": "30 16 * * *", "zone": "America/New_York"})
    workers = stage.serve(5)
    assert workers.started == []
    job = stage.get_job(job_id)
    assert job.next is not None
    assert iso(job.next.scheduled_at_ms) == "2017-09-14T20:30:00Z"


def test_what_fell_into_a_time_without_the_job_is_neither_run_nor_counted_as_missed() -> None:
    """CATCH-05: every five minutes, policy all, gone from Friday 18:00 to Monday 08:00."""
    stage = stage_at("2025-01-10T17:59:00Z")
    schedule = {"cron": "*/5 * * * *", "zone": "UTC"}
    job_id = stage.job("sync", schedule, CatchUp("all"))
    stage.at_ms = parse_iso("2025-01-10T18:00:30Z")
    assert len(stage.serve(1).started) == 1
    registering.delete_job(stage.process().ports, job_id)
    assert not registering.delete_job(stage.process().ports, job_id), "deleting twice changes nothing"
    stage.at_ms = parse_iso("2025-01-13T08:00:30Z")
    for _ in range(2):
        assert stage.job("sync", schedule, CatchUp("all")) == job_id
    workers = stage.serve(5)
    assert workers.started == []
    job: Job = stage.get_job(job_id)
    assert job.next is not None
    assert iso(job.next.scheduled_at_ms) == "2025-01-13T08:05:00Z"
    found = occurrences(stage, job_id)
    assert sum(len(times) for times in found.values()) == 3, "one ran, one was cancelled with the job, one is next"
    stage.at_ms = job.next.fire_at_ms + MINUTE_MS // 2
    assert len(stage.serve(1).started) == 1
    assert stage.at_ms - job.next.fire_at_ms == MINUTE_MS // 2 + SECOND_MS
