"""Calendars: named, shared, versioned; jobs follow their changes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.http import ApiUnderTest
from tests.unit.api.test_jobs_and_timers import create_job, move, ready, windows
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.writes import Anyway, Update
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
