"""Calendars, jitter, bounds and RRULEs where they meet zones and changes of clocks: reports from the field, and
neighbours of each."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tickwork.core.instants import parse_iso
from tickwork.core.jobs import occurrences as job_occurrences
from tickwork.core.jobs.definitions import Job
from tickwork.core.ledger.work import Work
from tickwork.core.schedule import (
    Freeze,
    ScheduleRefused,
    first_due,
    hard_freeze,
    next_after,
    occurrences,
    parse_calendar,
    parse_schedule,
    prev_before,
    read_schedule,
    schedule_from_spec,
    warnings_of,
)

CASES = [
    json.loads(line)
    for name in ("second_round.jsonl", "by_hand.jsonl")
    for line in (Path(__file__).parents[2] / "cases" / name).read_text(encoding="utf-8").splitlines()
]
NEW_YORK = "America/New_York"
WEEKEND = {"name": "off", "zone": NEW_YORK, "weekly": ["sat", "sun"]}


def due(
    spec: dict[str, Any],
    after: str,
    count: int,
    calendars: list[dict[str, Any]] | None = None,
    *,
    now: str = "",
) -> list[str]:
    """The occurrences after an instant. Looking back from the last of them has to give the same."""
    known = {one["name"]: parse_calendar(one) for one in calendars or []}
    schedule = read_schedule(spec, now_ms=parse_iso(now or after), job_id="t:j")
    assert schedule_from_spec(schedule.spec) == schedule
    again = read_schedule(schedule.spec, now_ms=parse_iso(now or after), job_id="t:j")
    assert again.spec == schedule.spec, "the normal form of a normal form is itself"
    found = occurrences(schedule, parse_iso(after), count, known)
    for earlier, later in pairwise(found):
        assert prev_before(schedule, later.scheduled_at_ms, known) == earlier.scheduled_at_ms
    return [one.scheduled_at for one in found]


def moved(spec: dict[str, Any], names: tuple[str, ...] = ("off",)) -> dict[str, Any]:
    return {**spec, "calendars": {"exclude": list(names), "on_excluded": "next_working_day"}}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_case_of_the_second_round(case: dict[str, Any]) -> None:
    result, now = case["result"], case.get("now", case["after"])
    if isinstance(result, list):
        found = due(case["schedule"], case["after"], len(result), case.get("calendars"), now=now)
        assert found == result, case["tells"]
        return
    with pytest.raises(ScheduleRefused) as refused:
        parse_schedule(case["schedule"], now_ms=parse_iso(now), job_id="t:j")
    assert refused.value.field == result["refused"]
    assert result.get("try", "") in str(refused.value.remedy)
    if "once_a_day" in result:
        proposed = {**case["schedule"], "cron": refused.value.proposal}
        schedule = parse_schedule(proposed, now_ms=parse_iso(now), job_id="t:j")
        days = [one.scheduled_at[:10] for one in occurrences(schedule, parse_iso(now), 50)]
        assert len(set(days)) == 50


# --- 1 and 2: moved to the next working day -------------------------------------------------------------------------


def test_nothing_is_lost_where_the_zone_of_the_job_is_ahead_of_its_calendars() -> None:
    holiday = {**WEEKEND, "holidays": ["sep mon#1"]}
    tokyo = {"cron": "0 9,11 5 9 *", "zone": "Asia/Tokyo"}  # Saturday evening in New York
    assert due(moved(tokyo), "2027-08-01T00:00:00Z", 2, [holiday]) == ["2027-09-08T00:00:00Z", "2027-09-08T02:00:00Z"]
    islands = {"cron": "30 0,5,8 6 9 *", "zone": "Pacific/Kiritimati"}
    found = due(moved(islands), "2027-08-01T00:00:00Z", 3, [holiday])
    assert found == ["2027-09-07T10:30:00Z", "2027-09-07T15:30:00Z", "2027-09-07T18:30:00Z"]


def test_nothing_is_lost_after_a_month_of_excluded_days() -> None:
    month = {"name": "off", "zone": "Pacific/Honolulu", "ranges": [{"from": "2026-06-01", "to": "2026-06-30"}]}
    spec = {"cron": "0 6,7,8 2 6 *", "zone": "Pacific/Auckland"}
    assert due(moved(spec), "2026-05-01T00:00:00Z", 3, [month]) == [
        "2026-07-01T18:00:00Z", "2026-07-01T19:00:00Z", "2026-07-01T20:00:00Z",
    ]  # fmt: skip


def test_members_of_a_union_move_by_their_own_wall_clocks() -> None:
    union = {"any_of": [{"cron": "0 9 * * 6", "zone": "UTC"}, {"cron": "0 9 * * 6", "zone": NEW_YORK}]}
    utc = {"name": "off", "zone": "UTC", "weekly": ["sat", "sun"]}
    assert due(moved(union), "2026-10-30T12:00:00Z", 2, [utc]) == ["2026-11-02T09:00:00Z", "2026-11-02T14:00:00Z"]


DST_MOVES = {
    "made up on an excluded day": ({"cron": "30 2 * * *"}, "2026-03-06T12:00:00Z",
                                   ["2026-03-09T06:30:00Z", "2026-03-10T06:30:00Z"]),
    "shifted on an excluded day": ({"cron": "30 2 * * *", "dst": {"gap": "shift"}}, "2026-03-06T12:00:00Z",
                                   ["2026-03-09T06:30:00Z", "2026-03-10T06:30:00Z"]),
    "both passes on an excluded day": ({"cron": "30 1 * * 0", "dst": {"fold": "both"}}, "2026-10-30T12:00:00Z",
                                       ["2026-11-02T06:30:00Z", "2026-11-09T06:30:00Z"]),
}  # fmt: skip


@pytest.mark.parametrize("name", DST_MOVES)
def test_what_moves_is_the_wall_time_that_was_named(name: str) -> None:
    spec, after, result = DST_MOVES[name]
    assert due(moved({**spec, "zone": NEW_YORK}), after, 2, [WEEKEND]) == result


LANDINGS = {
    "second": ("30 1 * * *", "2026-10-30T12:00:00Z", {"fold": "second"},
               ["2026-11-01T06:30:00Z", "2026-11-02T06:30:00Z"]),
    "both": ("30 1 * * 6", "2026-10-30T12:00:00Z", {"fold": "both"}, ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"]),
    "first": ("30 1 * * 6", "2026-10-30T12:00:00Z", {}, ["2026-11-01T05:30:00Z", "2026-11-08T06:30:00Z"]),
    "shift": ("30 2 * * 6", "2026-03-06T12:00:00Z", {"gap": "shift"}, ["2026-03-08T07:30:00Z", "2026-03-15T06:30:00Z"]),
    "run_after": ("30 2 * * 6", "2026-03-06T12:00:00Z", {}, ["2026-03-08T07:00:00Z", "2026-03-15T06:30:00Z"]),
    "skip": ("30 2 * * 6", "2026-03-06T12:00:00Z", {"gap": "skip"}, ["2026-03-09T06:30:00Z", "2026-03-15T06:30:00Z"]),
    "skip, daily": ("30 2 * * *", "2026-03-06T12:00:00Z", {"gap": "skip"},
                    ["2026-03-09T06:30:00Z", "2026-03-10T06:30:00Z"]),
}  # fmt: skip


@pytest.mark.parametrize("name", LANDINGS)
def test_on_the_day_of_landing_the_jobs_own_choice_holds(name: str) -> None:
    text, after, dst, result = LANDINGS[name]
    spec = {"cron": text, "zone": NEW_YORK, "dst": dst}
    assert due(moved(spec), after, 2, [{"name": "off", "zone": NEW_YORK, "weekly": ["sat"]}]) == result


# --- 3: nothing is planned where the schedule says that nothing starts ----------------------------------------------

ENDS = {
    "end": {"cron": "0 9 * * *", "end": "2026-01-04T00:00:00Z"},
    "UNTIL": {"rrule": "DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY;UNTIL=20260103T235959Z"},
    "a year of Quartz": {"cron": "0 0 9 ? * * 2026", "dialect": "quartz"},
    "the end of a member": {"any_of": [{"cron": "0 9 * * *", "end": "2026-01-04T00:00:00Z"}]},
}


@pytest.mark.parametrize("name", ENDS)
def test_nothing_is_moved_beyond_the_end(name: str) -> None:
    after = "2025-12-31T12:00:00Z" if "Quartz" not in name else "2026-12-30T12:00:00Z"
    calendar = {"name": "off", "weekly": ["sat", "sun"], "dates": ["2026-12-31"]}
    found = due(moved(ENDS[name]), after, 5, [calendar])
    assert found == (["2026-01-01T09:00:00Z", "2026-01-02T09:00:00Z"] if "Quartz" not in name else [])


def fires(
    spec: dict[str, Any], number: int, after: str, calendars: list[dict[str, Any]], tolerance_s: int = 300
) -> int:
    """How many seconds after its time the first occurrence of a job is fired."""
    known = {one["name"]: parse_calendar(one) for one in calendars}
    job_id = f"team:j{number}"
    schedule = parse_schedule(spec, now_ms=parse_iso(after), job_id=job_id)
    job = Job("team", f"j{number}", schedule.spec, Work.__new__(Work), tolerance_s=tolerance_s, calendars=known)
    upcoming = job_occurrences.following(job, parse_iso(after), 4)
    assert upcoming is not None
    return (upcoming.fire_at_ms - upcoming.scheduled_at_ms) // 1000


FREEZE = {"name": "freeze", "weekly": [{"from": "fri 18:00", "to": "mon 06:00"}]}
EDGES = {
    "a freeze of the week": ({"cron": "59 17 * * 5", "calendars": {"exclude": ["freeze"]}}, [FREEZE], 60),
    "a freeze in another zone": (
        {"cron": "59 17 * * 5", "calendars": {"exclude": ["freeze"]}},
        [{"name": "freeze", "zone": "Asia/Kolkata", "weekly": [{"from": "fri 23:31", "to": "mon 06:00"}]}], 120,
    ),
    "a holiday at midnight": (
        {"cron": "57 23 * * 5", "calendars": {"exclude": ["x"]}}, [{"name": "x", "dates": ["2026-01-03"]}], 180,
    ),
    "the end": ({"cron": "59 17 * * *", "end": "2026-01-01T18:00:30Z"}, [], 90),
    "UNTIL, the last second included": (
        {"rrule": "DTSTART:20260102T175900Z\nRRULE:FREQ=DAILY;UNTIL=20260102T175909Z"}, [], 10,
    ),
    "the year of Quartz": ({"cron": "0 58 23 31 12 ? 2026", "dialect": "quartz"}, [], 120),
    "the next occurrence": ({"cron": "58,59 17 2 1 *"}, [], 60),
    "a moved one before a freeze": (
        {"cron": "59 17 1 1 *", "calendars": {"exclude": ["freeze", "x"], "on_excluded": "next_working_day"}},
        [FREEZE, {"name": "x", "dates": ["2026-01-01"]}], 60,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_jitter_has_the_room_that_is_left_and_fills_it(name: str) -> None:
    spec, calendars, room_s = EDGES[name]
    offsets = [fires(spec, number, "2026-01-01T00:00:00Z", calendars) for number in range(1_000)]
    assert set(offsets) <= set(range(room_s))
    assert max(offsets.count(offset) for offset in set(offsets)) < 4 * 1_000 / room_s + 12, "no herd at the edge"
    assert len(set(offsets)) > room_s * 0.85


def test_a_job_keeps_its_offset_where_there_is_room() -> None:
    far = {"cron": "0 12 * * *", "calendars": {"exclude": ["freeze"]}}
    plain = {"cron": "0 12 * * *"}
    for number in range(50):
        assert fires(far, number, "2026-01-01T00:00:00Z", [FREEZE]) == fires(plain, number, "2026-01-05T00:00:00Z", [])


def test_a_hard_calendar_says_when_a_late_start_may_go_on() -> None:
    hard = {**FREEZE, "hard": True}
    next_one = {"name": "next", "dates": ["2026-01-05"], "hard": True}
    known = {one["name"]: parse_calendar(one) for one in (hard, next_one)}
    friday = parse_iso("2026-01-02T19:00:00Z")
    assert hard_freeze({"freeze": known["freeze"]}, friday) == Freeze("freeze", parse_iso("2026-01-05T06:00:00Z"))
    assert hard_freeze(known, friday) == Freeze("freeze", parse_iso("2026-01-06T00:00:00Z")), "one takes over"
    assert hard_freeze(known, parse_iso("2026-01-02T17:59:59Z")) is None
    assert hard_freeze({"freeze": parse_calendar(FREEZE)}, friday) is None, "a soft one lets lateness in"
    assert hard_freeze({}, friday) is None


# --- 6: the second of the registration ------------------------------------------------------------------------------

COUNTED = (
    {"rate": "10 minutes", "count": 3},
    {"cron": "* * * * *", "count": 3},
    {"rrule": "FREQ=DAILY;COUNT=3"},
    {"rrule": "FREQ=DAILY", "count": 3},
    {"any_of": [{"rate": "1h"}, {"cron": "30 * * * *"}], "count": 3},
    {"repeat": "R3/2026-01-01T00:00:00Z/PT10S"},
    {"rate": "1h", "anchor": "2026-01-01T00:00:00Z", "count": 3},
    {"cron": "0 * * * *", "start": "2026-01-01T00:00:00Z", "count": 3},
)


@pytest.mark.parametrize("spec", COUNTED, ids=str)
@pytest.mark.parametrize("past_ms", [0, 400, 999])
def test_three_runs_are_three_runs_whenever_they_were_registered(spec: dict[str, Any], past_ms: int) -> None:
    now_ms = parse_iso("2026-01-01T00:00:00Z") + past_ms
    schedule = parse_schedule(spec, now_ms=now_ms)
    at, found = first_due(schedule, now_ms), 0
    while at is not None:
        at, found = next_after(schedule, at), found + 1
    assert found == 3


@pytest.mark.parametrize(
    "spec",
    [
        {"rate": "1h", "anchor": "2026-01-01T00:00:00Z"},
        {"rrule": "DTSTART:20260101T000000Z\nRRULE:FREQ=DAILY"},
        {"repeat": "R/2026-01-01T00:00:00Z/P1M"},
        {"cron": "0 * * * *", "start": "2026-01-01T00:00:00Z"},
    ],
)
def test_what_begins_in_this_very_second_begins_now(spec: dict[str, Any]) -> None:
    now_ms = parse_iso("2026-01-01T00:00:00Z")
    for past_ms in (0, 1, 700):
        schedule = parse_schedule(spec, now_ms=now_ms + past_ms)
        assert first_due(schedule, now_ms + past_ms) == now_ms
    schedule = parse_schedule(spec, now_ms=now_ms + 30_000)
    assert (first_due(schedule, now_ms + 30_000) or 0) > now_ms + 30_000


def test_a_schedule_without_a_beginning_of_its_own_never_begins_at_once() -> None:
    now_ms = parse_iso("2026-01-01T00:00:00Z")
    for spec in ({"rate": "1h"}, {"cron": "0 * * * *"}, {"rrule": "FREQ=DAILY"}, {"rate": "1 second"}):
        assert (first_due(parse_schedule(spec, now_ms=now_ms), now_ms) or 0) > now_ms
    often = {"rate": "1 second", "anchor": "2025-12-31T23:59:58Z"}
    assert first_due(parse_schedule(often, now_ms=now_ms), now_ms) == now_ms + 1_000, "a later one is due as well"


# --- 8 and 10: substitute days, previews ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "holidays", "after", "first"),
    [
        ("next_weekday", ["12-25", "12-26"], "2027-12-24T12:00:00Z", "2027-12-29"),
        ("next_weekday", ["12-25", "12-26"], "2022-12-24T12:00:00Z", "2022-12-28"),  # Sunday, and a Monday that is one
        ("next_weekday", ["12-25", "12-26"], "2026-12-24T12:00:00Z", "2026-12-29"),
        ("nearest_weekday", ["12-24", "12-25"], "2027-12-23T12:00:00Z", "2027-12-28"),  # the Friday is taken
        ("next_weekday", ["12-31", "01-01"], "2028-12-28T12:00:00Z", "2028-12-29"),
        ("next_weekday", ["12-31", "01-01"], "2028-12-29T12:00:00Z", "2029-01-03"),
    ],
)
def test_substitute_days_that_collide_move_on(how: str, holidays: list[str], after: str, first: str) -> None:
    rules = [{"rule": rule, "observed": how} for rule in holidays]
    calendar = {"name": "gb", "weekly": ["sat", "sun"], "holidays": rules}
    assert due({"cron": "0 9 * * *", "calendars": {"exclude": ["gb"]}}, after, 1, [calendar]) == [f"{first}T09:00:00Z"]


@pytest.mark.parametrize(
    "rule", ["apr fri#5", "feb mon#5", "jun wed#5", "feb tue#5", "nov thu#5", "02-29", "easter+60"]
)
def test_a_holiday_may_come_in_some_years_only(rule: str) -> None:
    assert parse_calendar({"name": "c", "holidays": [rule]}).holidays


def test_a_run_that_finds_no_free_day_is_told_beside_the_next() -> None:
    calendar = parse_calendar({"name": "off", "ranges": [{"from": "2026-03-05", "to": "2026-04-20"}]})
    schedule = read_schedule(moved({"cron": "0 9 * * 1"}), now_ms=0)
    found = occurrences(schedule, parse_iso("2026-03-04T00:00:00Z"), 2, {"off": calendar})
    assert "2026-03-09T09:00 and 1 more found no free day within 31 days: left out" in str(found[0].note)
    assert "moved from" in str(found[0].note)
    assert found[1].note is None


@pytest.mark.parametrize(
    ("spec", "codes"),
    [
        ({"cron": "0 9 * * *", "zone": "EST"}, ["zone_fixed"]),
        ({"rrule": "FREQ=DAILY", "zone": "MST"}, ["zone_fixed"]),
        ({"rrule": "FREQ=DAILY", "zone": "Etc/GMT+5"}, ["zone_sign"]),
        ({"rrule": "FREQ=MONTHLY;BYMONTHDAY=31"}, ["short_months"]),
        ({"rrule": "FREQ=MONTHLY;BYMONTHDAY=31,-1"}, []),
        ({"rrule": "FREQ=YEARLY;BYMONTH=1,3;BYMONTHDAY=31"}, []),
        ({"cron": "0 0 31 4-6 *"}, ["short_months"]),
        ({"rrule": "FREQ=WEEKLY;BYMONTHDAY=13"}, ["not_rfc_5545"]),
        ({"at": "2026-11-01T01:30:00", "zone": NEW_YORK}, ["time_twice"]),
        ({"at": "2027-03-14T02:30:00", "zone": NEW_YORK}, ["time_moved"]),
        ({"at": "2026-11-01T03:30:00", "zone": NEW_YORK}, []),
    ],
)
def test_what_may_surprise_is_told(spec: dict[str, Any], codes: list[str]) -> None:
    schedule = parse_schedule(spec, now_ms=parse_iso("2026-01-01T00:00:00Z"))
    assert [warning.partition(":")[0] for warning in warnings_of(schedule)] == codes


TWICE = {
    "UNTIL and end": {"rrule": "DTSTART:20260105T090000Z\nRRULE:FREQ=DAILY;UNTIL=20260110T090000Z",
                      "end": "2026-01-08T00:00:00Z"},
    "UNTIL and end, with a date beside": {
        "rrule": "DTSTART:20260105T090000Z\nRRULE:FREQ=DAILY;UNTIL=20260110T090000Z\nRDATE:20260107T120000Z",
        "end": "2026-01-08T00:00:00Z"},
    "COUNT and count": {"rrule": "DTSTART:20260105T090000Z\nRRULE:FREQ=DAILY;COUNT=9", "count": 2},
    "R3 and count": {"repeat": "R3/2026-01-05T00:00:00Z/PT1H", "count": 2},
    "DTSTART and start": {"rrule": "DTSTART:20260105T090000Z\nRRULE:FREQ=DAILY", "start": "2026-01-08T00:00:00Z"},
    "R and start": {"repeat": "R/2026-01-05T00:00:00Z/P1M", "start": "2026-01-08T00:00:00Z"},
}  # fmt: skip


@pytest.mark.parametrize("name", TWICE)
def test_what_is_said_twice_is_told(name: str) -> None:
    warnings = warnings_of(parse_schedule(TWICE[name], now_ms=parse_iso("2026-01-01T00:00:00Z")))
    assert [warning.partition(":")[0] for warning in warnings] == ["said_twice"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"rrule": "DTSTART;TZID=Europe/Berlin:20260105T090000\nRRULE:FREQ=DAILY", "zone": "UTC"}, "zone"),
        ({"rrule": "DTSTART:20260105T090000\nRRULE:FREQ=DAILY", "start_local": "2026-01-06T09:00:00"}, "start_local"),
        ({"rrule": "DTSTART:20260105T090000\nDTSTART:20260106T090000\nRRULE:FREQ=DAILY"}, "rrule"),
        ({"rrule": "RRULE:FREQ=DAILY\nRRULE:FREQ=WEEKLY"}, "rrule"),
    ],
)
def test_two_zones_or_two_beginnings_are_refused(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(ScheduleRefused) as refused:
        parse_schedule(spec, now_ms=parse_iso("2026-01-01T00:00:00Z"))
    assert refused.value.field == field


def test_saying_the_same_twice_is_no_matter() -> None:
    rule = "DTSTART;TZID=Europe/Berlin:20260105T090000\nRRULE:FREQ=DAILY;UNTIL=20260110T080000Z"
    spec = {"rrule": rule, "zone": "Europe/Berlin", "end": "2026-01-10T08:00:01Z", "start_local": "2026-01-05T09:00:00"}
    assert warnings_of(parse_schedule(spec, now_ms=parse_iso("2026-01-01T00:00:00Z"))) == ()


DUBLIN = {"name": "nights", "zone": "Europe/Dublin", "weekly": [{"from": "sun 01:45", "to": "sun 02:45"}]}
BOTH = {"fold": "both"}
LATE = {"cron": "15,45 1 * * 6-7", "zone": "Antarctica/Troll", "dst": BOTH, "calendars": {"exclude": ["nights"]}}
FROM_A_REPEATED_HOUR = [
    {"rrule": "DTSTART:20251026T003000Z\nRRULE:FREQ=DAILY", "zone": "America/Nuuk", "dst": BOTH},
    {"rrule": "DTSTART:20251026T003000Z\nRRULE:FREQ=WEEKLY", "zone": "Antarctica/Troll", "dst": BOTH},
    {"rrule": "DTSTART:20240310T013000Z\nRRULE:FREQ=DAILY;COUNT=3", "zone": "Africa/Casablanca", "dst": BOTH},
    LATE,
]
"""Found by the oracle: the first is in the first pass of a repeated hour, or between what its passes exclude."""


@pytest.mark.parametrize("spec", FROM_A_REPEATED_HOUR)
def test_looking_back_finds_what_looking_ahead_found_where_an_hour_comes_twice(spec: dict) -> None:
    known = {"nights": parse_calendar(DUBLIN)}
    schedule = read_schedule(spec, now_ms=parse_iso("2024-01-01T00:00:00Z"))
    ahead, at = [], parse_iso("2024-01-01T00:00:00Z")
    while (at := next_after(schedule, at, known) or 0) and at < parse_iso("2026-12-31T00:00:00Z"):
        ahead.append(at)
    back, at = [], parse_iso("2026-12-31T00:00:00Z")
    while (at := prev_before(schedule, at, known) or 0) and at > parse_iso("2024-01-01T00:00:00Z"):
        back.append(at)
    assert len(ahead) >= 3
    assert back[::-1] == ahead
