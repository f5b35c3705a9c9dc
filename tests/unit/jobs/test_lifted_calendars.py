"""A calendar that excludes less brings back what is to come, at once, and nothing of what it had left out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actions.world import World
from tests.scenarios.stage import NOW_MS
from tickwork.core.instants import HOUR_MS, MINUTE_MS, SECOND_MS, iso, parse_iso
from tickwork.core.jobs.definitions import next_attributes
from tickwork.core.ledger.tables import CALENDARS, JOBS, TIMERS
from tickwork.core.ledger.writes import Anyway, Delete, Update
from tickwork.core.schedule import parse_calendar, parse_schedule, replan

JOB = "/jobs/shop:nightly"
SOME_DAY = {"dates": ["2027-12-24"]}
WINTER = {"ranges": [{"from": "2026-10-30", "to": "2027-03-01"}]}
EVERYTHING = {"weekly": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]}


def job(world: World, **more: Any) -> None:
    schedule = {"cron": "*/10 * * * *", "calendars": {"exclude": ["closed"], **more.pop("calendars", {})}}
    exact = {"tolerance_s": 0, "exact_reason": "the test counts"}
    target = {"pool": "default", "handler": "echo"}
    world.must(
        "POST", "/jobs", {"team": "shop", "name": "nightly", "schedule": schedule, "target": target} | exact | more
    )


def calendar(world: World, content: dict[str, Any], version: int | None = None) -> None:
    """A calendar that is changed, and the reconciler has met it."""
    world.must("PUT", "/calendars/shop:closed", content | ({} if version is None else {"version": version}))
    world.go(305, world.work)


def lifted(world: World, content: dict[str, Any], after_ms: int) -> tuple[int, list[str]]:
    """A job that has run is frozen; when that is lifted (and the reconciler has met it), and what ran from then on."""
    world.must("PUT", "/calendars/shop:closed", SOME_DAY)
    job(world, catch_up={"policy": "all"})
    world.go(605, world.work)
    assert [held.told["scheduled_at"] for held in world.worked.starts] == [iso(NOW_MS + 10 * MINUTE_MS)]
    calendar(world, content, 1)
    world.go_to(world.at_ms + after_ms, world.work)
    world.worked.starts.clear()
    lifted_ms = world.at_ms
    calendar(world, SOME_DAY, 2)
    world.go_to(lifted_ms + 25 * MINUTE_MS, world.work)
    return lifted_ms, [held.told["scheduled_at"] for held in world.worked.starts]


@pytest.mark.parametrize("content", [WINTER, EVERYTHING], ids=["a range", "everything: it was parked"])
def test_what_a_freeze_left_out_stays_left_out_and_the_next_runs_at_its_time(content: dict[str, Any]) -> None:
    world = World()
    lifted_ms, ran = lifted(world, content, 2 * HOUR_MS)
    first_ms = (lifted_ms // (10 * MINUTE_MS) + 1) * 10 * MINUTE_MS
    assert ran[:2] == [iso(first_ms), iso(first_ms + 10 * MINUTE_MS)]
    shown = world.must("GET", f"{JOB}/runs", limit="100")["runs"]
    assert [one for one in shown if one["status"] == "skipped"] == []


def test_what_is_due_between_the_change_and_the_reconciler_runs_late_and_is_not_lost() -> None:
    world = World()
    world.must("PUT", "/calendars/shop:closed", WINTER)
    job(world)
    world.go_to(NOW_MS + 9 * MINUTE_MS, world.work)
    world.must("PUT", "/calendars/shop:closed", SOME_DAY | {"version": 1})
    world.go_to(NOW_MS + 15 * MINUTE_MS, world.work)
    assert [held.told["scheduled_at"] for held in world.worked.starts] == [iso(NOW_MS + 10 * MINUTE_MS)]


def test_a_freeze_that_is_lifted_and_edited_once_more_loses_nothing_of_what_was_due_between() -> None:
    """The first change counts: whatever came due after it was due, and the reconciler had not met it yet."""
    world = World()
    world.must("PUT", "/calendars/shop:closed", WINTER)
    job(world)
    world.go_to(NOW_MS + 9 * MINUTE_MS, world.work)
    world.must("PUT", "/calendars/shop:closed", SOME_DAY | {"version": 1})
    world.at_ms = NOW_MS + 11 * MINUTE_MS
    world.must("PUT", "/calendars/shop:closed", {"dates": ["2027-12-25"], "version": 2})
    world.go_to(NOW_MS + 16 * MINUTE_MS, world.work)
    assert [held.told["scheduled_at"] for held in world.worked.starts] == [iso(NOW_MS + 10 * MINUTE_MS)]


def test_a_job_that_has_never_run_waits_no_longer_than_its_calendar() -> None:
    world = World()
    world.must("PUT", "/calendars/shop:closed", WINTER)
    job(world)
    assert world.must("GET", JOB)["next"]["scheduled_at"] == "2027-03-02T00:00:00Z"
    calendar(world, SOME_DAY, 1)
    assert world.must("GET", JOB)["next"]["scheduled_at"] == iso(NOW_MS + 10 * MINUTE_MS)


def test_what_was_cancelled_ahead_stays_so() -> None:
    world = World()
    world.must("PUT", "/calendars/shop:closed", SOME_DAY)
    job(world)
    at = world.must("GET", JOB)["next"]["scheduled_at"]
    world.must("POST", "/runs:cancel", {"runs": [{"job_id": "shop:nightly", "scheduled_at": at}]})
    world.must("PUT", "/calendars/shop:closed", WINTER | {"version": 1})
    world.must("PUT", "/calendars/shop:closed", SOME_DAY | {"version": 2})
    world.go(305)
    assert world.must("GET", JOB)["next"]["scheduled_at"] == iso(NOW_MS + 20 * MINUTE_MS)


def test_a_job_that_was_parked_for_another_reason_has_what_it_missed() -> None:
    """An outage of ours is none of the calendar's: its catch-up says what becomes of it."""
    world = World()
    world.must("PUT", "/calendars/shop:closed", SOME_DAY)
    job(world, catch_up={"policy": "all"})
    world.go(605, world.work)
    parked = {"status": "error", "reason": "a fault of ours"} | next_attributes(None)
    key = world.get_job("shop:nightly").next_key("main")
    assert key is not None
    at = {"job_id": "shop:nightly"}
    world.store.commit([Update(JOBS, at, Anyway("x"), set=parked), Delete(TIMERS, key.as_item(), Anyway("x"))])
    world.at_ms += 30 * MINUTE_MS
    calendar(world, {"dates": ["2027-12-25"]}, 1)
    ran = [held.told["scheduled_at"] for held in world.worked.starts]
    assert iso(NOW_MS + 20 * MINUTE_MS) in ran


def test_a_calendar_of_an_older_version_without_its_time_is_met_as_it_was() -> None:
    world = World()
    world.must("PUT", "/calendars/shop:closed", WINTER)
    job(world)
    world.must("PUT", "/calendars/shop:closed", SOME_DAY | {"version": 1})
    for name in ("shop:closed", "shop:closed@2"):
        world.store.commit([Update(CALENDARS, {"calendar_id": name}, Anyway("x"), remove=("changed_at_ms",))])
    world.go(305)
    assert world.must("GET", JOB)["next"], "it is planned, as ever"


# --- the decision -----------------------------------------------------------------------------------------------------

HOURLY = {"cron": "0 * * * *", "calendars": {"exclude": ["x"]}}
NOTHING = {"x": parse_calendar({"name": "x"})}
TEN = parse_iso("2026-03-02T10:00:00Z")


def test_the_hour_after_the_last_one_that_ran_is_the_next_one() -> None:
    """Nothing is guessed by nearness, as it is with zone data: 11:00 is not taken for the new place of 10:00."""
    schedule = parse_schedule(HOURLY, now_ms=TEN - HOUR_MS)
    recalled_ms = TEN + MINUTE_MS
    decision = replan(
        schedule, TEN + 3 * HOUR_MS, recalled_ms + SECOND_MS, last_scheduled_at_ms=TEN, recalled_ms=recalled_ms,
        calendars=NOTHING,
    )  # fmt: skip
    assert (decision.action, decision.scheduled_at_ms) == ("move", TEN + HOUR_MS)


@pytest.mark.parametrize(
    ("how", "first"), [("skip", "2026-03-09T09:00:00Z"), ("next_working_day", "2026-03-07T09:00:00Z")]
)
def test_what_was_moved_has_not_been_left_out(how: str, first: str) -> None:
    """A Saturday's run that was to be on Monday; on Saturday at noon Saturdays are worked again."""
    spec = {"cron": "0 9 * * 1,6", "calendars": {"exclude": ["x"], "on_excluded": how}}
    schedule = parse_schedule(spec, now_ms=parse_iso("2026-03-01T00:00:00Z"))
    noon_ms = parse_iso("2026-03-07T12:00:00Z")
    decision = replan(
        schedule, parse_iso("2026-03-09T09:00:00Z"), noon_ms + SECOND_MS, recalled_ms=noon_ms, calendars=NOTHING,
        last_scheduled_at_ms=parse_iso("2026-03-02T09:00:00Z"),
    )  # fmt: skip
    assert decision.scheduled_at_ms == parse_iso(first)
