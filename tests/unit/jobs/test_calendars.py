"""Calendars: named, shared, versioned; jobs follow their changes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.http import ApiUnderTest
from tests.unit.api.test_jobs_and_timers import create_job, move, ready, windows
from tickwork.core.instants import parse_iso
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.writes import Anyway, Update
from tickwork.core.runs.putting_off import put_off_pending
from tickwork.core.schedule import RULES_VERSION, Freeze
from tickwork.flows.audit.reconciling import reconcile
from tickwork.ports import Ports

CALENDAR = {"zone": "UTC", "dates": ["2026-10-30"]}
DAILY = {"cron": "0 12 * * *", "calendars": {"exclude": ["holidays"]}}


def put(api: ApiUnderTest, content: dict[str, Any], name: str = "payments:holidays") -> tuple[int, dict[str, Any]]:
    return api.call("PUT", f"/calendars/{name}", content)


def test_a_calendar_is_created_changed_by_version_and_listed(api: ApiUnderTest) -> None:
    assert put(api, CALENDAR)[1]["version"] == 1
    assert put(api, CALENDAR)[1]["version"] == 1, "the same content again is a no-op"
    assert put(api, CALENDAR | {"dates": []})[0] == 409
    assert put(api, {"dates": ["2026-10-31"], "version": 1})[1]["version"] == 2
    assert put(api, {"dates": ["2026-11-01"], "version": 1})[0] == 412
    assert put(api, {"dates": ["2026-11-01"], "version": 1}, "payments:none")[0] == 404

    listed = api.call("GET", "/calendars", team="payments")[1]["calendars"]
    assert [(one["calendar_id"], one["version"]) for one in listed] == [("payments:holidays", 2)]
    assert api.call("GET", "/calendars/payments:holidays")[1]["dates"] == ["2026-10-31"]


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"dates": ["2026-13-01"]}, "calendar.dates[0]"),
        ({"zone": "Europe/Berln"}, "calendar.zone"),
        ({"dtes": []}, "dtes"),
    ],
)
def test_a_bad_calendar_is_refused_by_its_field(api: ApiUnderTest, content: dict[str, Any], field: str) -> None:
    status, problem = put(api, content)

    assert status == 422
    assert problem["errors"][0]["field"] == field


def test_a_job_skips_what_its_calendar_excludes(api: ApiUnderTest) -> None:
    put(api, CALENDAR)
    assert create_job(api, schedule=DAILY)["next"]["scheduled_at"] == "2026-10-31T12:00:00Z"
    preview = api.call("GET", "/jobs/payments:rates/next", count="1")[1]
    assert preview["occurrences"][0]["scheduled_at"] == "2026-10-31T12:00:00Z"


def test_another_teams_calendar_is_named_with_its_team(api: ApiUnderTest) -> None:
    put(api, CALENDAR, "platform:holidays")
    schedule = {"cron": "0 12 * * *", "calendars": {"exclude": ["platform:holidays"]}}
    assert create_job(api, schedule=schedule)["next"]["scheduled_at"] == "2026-10-31T12:00:00Z"


def test_a_job_that_names_no_calendar_there_is_refused(api: ApiUnderTest) -> None:
    body = {"team": "payments", "name": "rates", "schedule": DAILY, "target": {"pool": "payments"}}
    status, problem = api.call("POST", "/jobs", body)

    assert (status, problem["errors"][0]["field"]) == (422, "schedule.calendars.exclude")
    assert api.call("GET", "/jobs/payments:rates")[0] == 404


def test_a_changed_calendar_moves_what_is_pending_and_the_moved_item_fires_once(
    api: ApiUnderTest, ports: Ports
) -> None:
    put(api, CALENDAR)
    create_job(api, schedule=DAILY, tolerance_s=0, exact_reason="a test")
    put(api, {"dates": ["2026-10-30", "2026-10-31"], "version": 1})

    assert reconcile(ports).replanned == 1
    assert reconcile(ports).replanned == 0
    assert api.call("GET", "/jobs/payments:rates")[1]["next"]["scheduled_at"] == "2026-11-01T12:00:00Z"
    assert len(ports.store.scan(TIMERS, limit=10, after=None)[0]) == 1, "the old item is gone"

    move(ports, 2 * 86_400)
    windows(ports)
    assert ready(ports) == []
    move(ports, 43_200)
    windows(ports)
    assert [message["scheduled_at"] for message in ready(ports)] == ["2026-11-01T12:00:00Z"]


def test_new_zone_data_is_noticed_and_what_stands_is_kept(api: ApiUnderTest, ports: Ports) -> None:
    job = create_job(api, schedule={"cron": "0 12 * * *", "zone": "America/Vancouver"})
    ports.store.commit(
        [Update(JOBS, {"job_id": job["job_id"]}, Anyway("as an older version left it"), set={"planned_with": "2025b"})]
    )

    assert reconcile(ports).replanned == 0
    assert api.call("GET", "/jobs/payments:rates")[1]["next"] == job["next"]
    (item,) = ports.store.scan(JOBS, limit=2, after=None)[0]
    assert item["planned_with"] != "2025b"


SOON = {"cron": "0 12 * * *", "calendars": {"exclude": ["freeze"]}}
FREEZE = {"ranges": [{"from": "2026-10-30T18:00", "to": "2026-10-30T19:00"}], "zone": "UTC"}


def test_a_freeze_that_begins_sooner_moves_the_fire_time_of_what_is_pending(api: ApiUnderTest, ports: Ports) -> None:
    assert put(api, FREEZE, "payments:freeze")[0] == 200
    before = create_job(api, schedule=SOON, tolerance_s=3_600)["next"]
    sooner = {"ranges": [{"from": "2026-10-30T12:00:05", "to": "2026-10-30T19:00"}], "zone": "UTC", "version": 1}
    assert put(api, sooner, "payments:freeze")[0] == 200

    reconcile(ports)

    after = api.call("GET", "/jobs/payments:rates")[1]["next"]
    assert after["scheduled_at"] == before["scheduled_at"] == "2026-10-30T12:00:00Z"
    assert "2026-10-30T12:00:00Z" <= after["fire_at"] < "2026-10-30T12:00:05Z" < before["fire_at"]
    pending = [(one["scheduled_at"], one["status"]) for one in api.call("GET", "/jobs/payments:rates/runs")[1]["runs"]]
    assert pending == [("2026-10-30T12:00:00Z", "pending")]


def test_an_occurrence_planned_by_older_rules_of_ours_is_computed_anew(api: ApiUnderTest, ports: Ports) -> None:
    job = create_job(api, schedule={"cron": "0 12 * * *"})
    (item,) = ports.store.scan(JOBS, limit=2, after=None)[0]
    older = item["planned_with"].replace(f"rules-{RULES_VERSION}", f"rules-{RULES_VERSION - 1}")
    assert older != item["planned_with"]
    ports.store.commit([Update(JOBS, {"job_id": job["job_id"]}, Anyway("by older rules"), set={"planned_with": older})])

    reconcile(ports)

    (item,) = ports.store.scan(JOBS, limit=2, after=None)[0]
    assert f"rules-{RULES_VERSION}" in item["planned_with"]


def test_a_hard_calendar_is_taken_and_the_run_that_waits_for_it_tells_since_when_and_until(
    api: ApiUnderTest, ports: Ports
) -> None:
    assert put(api, FREEZE | {"hard": True}, "payments:freeze")[0] == 200
    assert api.call("GET", "/calendars/payments:freeze")[1]["hard"] is True
    create_job(api, schedule=SOON | {"cron": "0 17 * * *"}, tolerance_s=0, exact_reason="books close")
    (item,) = ports.store.scan(TIMERS, limit=9, after=None)[0]
    run = Run.from_item(item)
    now_ms = parse_iso("2026-10-30T18:10:00Z")
    moved = put_off_pending(
        run, Freeze("freeze", parse_iso("2026-10-30T19:00:00Z")), parse_iso("2026-10-30T19:00:00Z"), now_ms
    )
    ports.store.commit(moved.writes)

    (shown,) = api.call("GET", "/jobs/payments:rates/runs")[1]["runs"]

    assert (shown["status"], shown["attempt"], shown["retry_at"]) == ("waiting", 0, "2026-10-30T19:00:00Z")
    assert shown["put_off"] == [
        {"attempt": 1, "calendar": "freeze", "since": "2026-10-30T18:10:00.000Z", "until": "2026-10-30T19:00:00Z"}
    ]


def test_a_preview_of_the_past_tells_what_would_have_happened(api: ApiUnderTest) -> None:
    body = {"schedule": {"cron": "0 9 * * *", "end": "2020-01-03T00:00:00Z"}, "after": "2020-01-01T00:00:00Z"}
    status, shown = api.call("POST", "/schedules:preview", body)
    assert status == 200
    assert [row["scheduled_at"] for row in shown["occurrences"]] == ["2020-01-01T09:00:00Z", "2020-01-02T09:00:00Z"]
    status, _ = api.call("POST", "/schedules:preview", {"schedule": body["schedule"]})
    assert status == 422, "registered now it would never be due"


def test_a_rate_that_is_anchored_in_this_very_second_is_due_now(api: ApiUnderTest, ports: Ports) -> None:
    job = create_job(api, schedule={"rate": "1 hour", "anchor": "2026-10-30T00:00:00Z"}, tolerance_s=0)
    assert job["next"]["scheduled_at"] == "2026-10-30T00:00:00Z"
    move(ports, 1)
    windows(ports)
    assert [message["scheduled_at"] for message in ready(ports)] == ["2026-10-30T00:00:00Z"]
    assert api.call("GET", "/jobs/payments:rates")[1]["next"]["scheduled_at"] == "2026-10-30T01:00:00Z"


def test_a_schedule_changed_to_begin_now_begins_now(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api, schedule={"cron": "0 12 * * *"})
    move(ports, 60)
    schedule = {"rate": "1 hour", "anchor": "2026-10-30T00:01:00Z"}
    status, job = api.call("PATCH", "/jobs/payments:rates", {"version": 1, "schedule": schedule, "tolerance_s": 0})
    assert (status, job["next"]["scheduled_at"]) == (200, "2026-10-30T00:01:00Z")


def test_registering_tells_what_was_said_twice(api: ApiUnderTest) -> None:
    rule = "DTSTART:20261101T090000Z\nRRULE:FREQ=DAILY;UNTIL=20261105T090000Z"
    job = create_job(api, schedule={"rrule": rule, "end": "2026-11-03T00:00:00Z"})
    assert [warning.partition(":")[0] for warning in job["warnings"]] == ["said_twice"]
