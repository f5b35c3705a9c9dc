"""Cancelling an occurrence that is to come cancels that one, and not the time until it, whatever the job becomes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.http import ApiUnderTest
from tests.unit.api.test_jobs_and_timers import create_job, move, ready, windows
from tests.unit.jobs.test_changing_jobs import HOURLY, JOB, change, runs
from tickwork.core.dispatch.chain import CANCELLED_AHEAD_MAX
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.writes import Anyway, Put
from tickwork.flows.audit.reconciling import reconcile
from tickwork.ports import Ports

OFTEN = {"rate": "2 seconds", "anchor": "2026-10-29T00:00:00Z"}
YEARLY = {"cron": "0 2 1 1 *"}


def cancel_next(api: ApiUnderTest) -> str:
    """Cancel the pending occurrence, as a person does who has read the job."""
    at = str(api.call("GET", JOB)[1]["next"]["scheduled_at"])
    status, answer = api.call("POST", "/runs:cancel", {"runs": [{"job_id": "payments:rates", "scheduled_at": at}]})
    assert (status, answer["runs"][0].get("status")) == (200, "cancelled"), answer
    return at


def sent(ports: Ports, seconds: int, step: int = 1) -> list[str]:
    """What has been dispatched after so many seconds more, in order of nominal time."""
    for _ in range(0, seconds, step):
        move(ports, step)
        windows(ports)
    return sorted(message["scheduled_at"] for message in ready(ports))


def previewed(api: ApiUnderTest, count: int = 4) -> list[tuple[str, str | None]]:
    rows = api.call("GET", f"{JOB}/next", count=str(count))[1]["occurrences"]
    return [(row["scheduled_at"], row["note"]) for row in rows]


@pytest.mark.parametrize(
    ("before", "after", "first"),
    [
        (HOURLY, OFTEN, "2026-10-30T00:00:02Z"),
        (YEARLY, {"rate": "10 seconds", "anchor": "2026-10-29T00:00:00Z"}, "2026-10-30T00:00:10Z"),
        (YEARLY, {"cron": "0 2 * * *"}, "2026-10-30T02:00:00Z"),
        (HOURLY, {"at": "2026-10-30T00:00:30Z"}, "2026-10-30T00:00:30Z"),
        ({"at": "2026-12-24T18:00:00Z"}, {"at": "2026-10-30T00:00:30Z"}, "2026-10-30T00:00:30Z"),
        ({"at": "2026-12-24T18:00:00Z"}, OFTEN, "2026-10-30T00:00:02Z"),
    ],
    ids=str,
)
def test_a_change_after_a_cancellation_begins_at_once_as_its_preview_says(
    api: ApiUnderTest, before: dict[str, Any], after: dict[str, Any], first: str
) -> None:
    create_job(api, schedule=before, tolerance_s=0, exact_reason="the test counts")
    cancel_next(api)
    assert change(api, schedule=after)["next"]["scheduled_at"] == first
    assert previewed(api)[0] == (first, None)


def test_what_a_change_begins_is_sent(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api, schedule=HOURLY)
    cancel_next(api)
    change(api, schedule=OFTEN)
    assert len(sent(ports, 14)) == 7


@pytest.mark.parametrize("after", [OFTEN, {"at": "2026-10-30T00:00:30Z"}, HOURLY], ids=str)
@pytest.mark.parametrize("before", [HOURLY, {"at": "2026-10-30T01:00:00Z"}], ids=str)
def test_a_job_that_is_made_anew_begins_anew(api: ApiUnderTest, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Its deletion has ended all that the first one had to come; who makes it again says what is to run."""
    create_job(api, schedule=before)
    cancel_next(api)
    api.call("DELETE", JOB)
    job = create_job(api, schedule=after)
    assert job["next"]["scheduled_at"] == previewed(api, 1)[0][0] <= "2026-10-30T01:00:00Z"


def test_what_was_cancelled_stays_so_whatever_the_schedule_becomes(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api, schedule=HOURLY)
    cancelled = cancel_next(api)
    change(api, schedule={"rate": "30 minutes", "anchor": "2026-10-29T00:00:00Z"})
    change(api, version=2, tolerance_s=7)
    assert previewed(api, 3) == [
        ("2026-10-30T00:30:00Z", None),
        (cancelled, "will not run: it is cancelled"),
        ("2026-10-30T01:30:00Z", None),
    ]
    due = sent(ports, 2 * 3_600, 60)
    assert cancelled not in due
    assert due[:2] == ["2026-10-30T00:30:00Z", "2026-10-30T01:30:00Z"]
    assert (cancelled, "cancelled") in [(at, status) for at, status, _ in runs(api)]


def test_of_two_that_were_cancelled_in_a_row_a_change_brings_back_none(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api, schedule=HOURLY, tolerance_s=0, exact_reason="the test counts")
    assert len(sent(ports, 3_660, 60)) == 1
    cancelled = [cancel_next(api), cancel_next(api)]
    assert cancelled == ["2026-10-30T02:00:00Z", "2026-10-30T03:00:00Z"]
    assert change(api, version=1, tolerance_s=7)["next"]["scheduled_at"] == "2026-10-30T04:00:00Z"
    assert sent(ports, 4 * 3_600, 60) == ["2026-10-30T01:00:00Z", "2026-10-30T04:00:00Z", "2026-10-30T05:00:00Z"]


def test_a_pause_and_a_reconciler_bring_back_no_cancelled_occurrence(api: ApiUnderTest, ports: Ports) -> None:
    api.call("PUT", "/calendars/payments:holidays", {"dates": ["2026-12-25"]})
    create_job(api, schedule=HOURLY | {"calendars": {"exclude": ["holidays"]}})
    cancelled = [cancel_next(api), cancel_next(api)]
    api.call("POST", f"{JOB}/pause", {"by": "ann", "reason": "x"})
    api.call("POST", f"{JOB}/resume", {"by": "ann"})
    api.call("PUT", "/calendars/payments:holidays", {"version": 1, "dates": ["2026-12-24"]})
    reconcile(ports)
    job = api.call("GET", JOB)[1]
    assert (cancelled, job["next"]["scheduled_at"]) == (
        ["2026-10-30T01:00:00Z", "2026-10-30T02:00:00Z"],
        "2026-10-30T03:00:00Z",
    )


@pytest.mark.parametrize("status", ["cancelled", "succeeded"])
def test_a_job_whose_next_has_ended_unstepped_goes_on_behind_it(api: ApiUnderTest, ports: Ports, status: str) -> None:
    """A crash of an older version, or a hand, has left it so. What was cancelled is not revived, and what has run is
    not asked for again."""
    create_job(api, schedule=HOURLY)
    (item,) = ports.store.scan(TIMERS, limit=10, after=None)[0]
    ports.store.commit([Put(TIMERS, item | {"status": status, "ended_at_ms": 1}, Anyway("a test's own hand"))])
    reconcile(ports)
    assert api.call("GET", JOB)[1]["next"]["scheduled_at"] == "2026-10-30T02:00:00Z"
    assert sent(ports, 3 * 3_600, 60)[:1] == ["2026-10-30T02:00:00Z"]


def test_a_single_time_that_was_cancelled_comes_back_by_another_time_only(api: ApiUnderTest) -> None:
    at = "2026-12-24T18:00:00Z"
    create_job(api, schedule={"at": at})
    cancel_next(api)
    assert api.call("GET", JOB)[1]["status"] == "finished"
    change(api, schedule={"at": "2026-12-24T19:00:00Z"})
    status, problem = api.call("PATCH", JOB, {"version": 2, "schedule": {"at": at}})
    assert (status, problem["errors"][0]["field"]) == (422, "schedule")
    assert "was cancelled" in problem["errors"][0]["detail"]


def test_what_was_cancelled_is_forgotten_once_it_is_passed(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api)
    cancel_next(api)
    assert sent(ports, 20) == ["2026-10-30T00:00:20Z"]
    assert "cancelled" not in (ports.store.get(JOBS, {"job_id": "payments:rates"}) or {})


def test_there_is_an_end_to_cancelling_ahead_and_the_refusal_says_what_to_do(api: ApiUnderTest) -> None:
    create_job(api, schedule=HOURLY)
    for _ in range(CANCELLED_AHEAD_MAX):
        cancel_next(api)
    at = api.call("GET", JOB)[1]["next"]["scheduled_at"]
    answer = api.call("POST", "/runs:cancel", {"runs": [{"job_id": "payments:rates", "scheduled_at": at}]})[1]
    assert "pause the job" in str(answer)
    assert api.call("GET", JOB)[1]["next"]["scheduled_at"] == at


def test_what_a_change_gave_up_and_somebody_cancels_comes_back_by_no_other_change(
    api: ApiUnderTest, ports: Ports
) -> None:
    """Found by the random sequences: the occurrence was cancelled with the schedule that had it, so cancelling it was
    granted without a note of it, and another schedule that has the instant brought it back."""
    create_job(api, schedule={"rate": "1 hour", "anchor": "2026-10-29T00:00:00Z"})
    given_up = api.call("GET", JOB)[1]["next"]["scheduled_at"]
    change(api, schedule={"rate": "1 hour", "anchor": "2026-10-29T00:30:00Z"})
    named = {"runs": [{"job_id": "payments:rates", "scheduled_at": given_up}]}
    for _ in range(2):
        (entry,) = api.call("POST", "/runs:cancel", named)[1]["runs"]
        assert (entry["accepted"], entry["status"]) == (True, "cancelled")
    version = api.call("GET", JOB)[1]["version"]
    assert version == 3, "noted once, and seen by whoever has planned without it"
    change(api, version=version, schedule={"rate": "1 hour", "anchor": "2026-10-29T00:00:00Z"})
    row = api.call("GET", f"{JOB}/next")[1]["occurrences"][0]
    assert (row["scheduled_at"], row["note"]) == (given_up, "will not run: it is cancelled")
    assert api.call("GET", JOB)[1]["next"]["scheduled_at"] > given_up


def test_one_that_is_overdue_and_to_come_again_stays_cancelled(api: ApiUnderTest, ports: Ports) -> None:
    """A change has given it up, and the chain, which is behind, would come to it once more."""
    policies = {"tolerance_s": 0, "exact_reason": "the test counts", "catch_up": {"policy": "all"}, "overlap": "allow"}
    create_job(api, schedule={"cron": "0 * * * *"}, **policies)
    change(api, schedule={"cron": "0,20,40 * * * *"})
    move(ports, 70 * 60)
    wanted = {"job_id": "payments:rates", "scheduled_at": "2026-10-30T01:00:00Z"}
    status, answer = api.call("POST", "/runs:cancel", {"runs": [wanted]})
    assert (status, answer["runs"][0].get("status")) == (200, "cancelled"), answer
    assert sent(ports, 30) == ["2026-10-30T00:20:00Z", "2026-10-30T00:40:00Z"]
