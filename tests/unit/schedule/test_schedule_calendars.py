"""Exclusion calendars, jitter, re-planning and what people are told."""

from __future__ import annotations

from typing import Any

import pytest

from tickwork.core.schedule import (
    ScheduleRefused,
    default_tolerance_s,
    describe,
    fire_at_ms,
    next_after,
    occurrences,
    parse_calendar,
    parse_schedule,
    prev_before,
    replan,
    shortest_gap_s,
    warnings_of,
)
from tickwork.core.schedule.calendars.holiday import Holiday, easter_day
from tickwork.core.schedule.instant import local_text

NOW_MS = 1_772_323_200_000  # 1 March 2026, a Sunday, 00:00 UTC
DAY_MS = 86_400_000


def local_days(spec: dict[str, Any], calendar: dict[str, Any], count: int = 4) -> list[str]:
    known = {"c": parse_calendar({"name": "c", **calendar})}
    how = spec.pop("how", "skip")
    schedule = parse_schedule(spec | {"calendars": {"exclude": ["c"], "on_excluded": how}}, now_ms=NOW_MS)
    found = occurrences(schedule, NOW_MS, count, known)
    back = [found[-1].scheduled_at_ms]
    while len(back) < len(found):
        earlier = prev_before(schedule, back[-1], known)
        assert earlier is not None
        back.append(earlier)
    assert back[::-1] == [occurrence.scheduled_at_ms for occurrence in found]
    return [occurrence.local[:16] for occurrence in found]


def test_excluded_dates_and_ranges_are_left_out() -> None:
    calendar = {"dates": ["2026-03-02"], "ranges": [{"from": "2026-03-04", "to": "2026-03-05"}]}
    assert local_days({"cron": "0 9 * * *"}, calendar) == [
        "2026-03-01T09:00",
        "2026-03-03T09:00",
        "2026-03-06T09:00",
        "2026-03-07T09:00",
    ]


def test_a_calendar_counts_days_in_its_own_zone() -> None:
    # 2 March in Tokyo begins at 15:00 UTC on the first.
    assert local_days({"cron": "0 14,16 * * *"}, {"zone": "Asia/Tokyo", "dates": ["2026-03-02"]}, 2) == [
        "2026-03-01T14:00",
        "2026-03-02T16:00",
    ]


def test_a_weekly_window_may_reach_over_the_end_of_the_week() -> None:
    calendar = {"weekly": [{"from": "fri 18:00", "to": "mon 06:00"}]}
    assert local_days({"cron": "0 5,17,19 * * *"}, calendar) == [
        "2026-03-02T17:00",
        "2026-03-02T19:00",
        "2026-03-03T05:00",
        "2026-03-03T17:00",
    ]


def test_an_excluded_run_moves_to_the_next_working_day_and_meets_the_regular_one() -> None:
    assert local_days({"cron": "0 9 * * *", "how": "next_working_day"}, {"weekly": ["sat", "sun"]}, 6) == [
        "2026-03-02T09:00",
        "2026-03-03T09:00",
        "2026-03-04T09:00",
        "2026-03-05T09:00",
        "2026-03-06T09:00",
        "2026-03-09T09:00",
    ]


def test_moved_runs_keep_their_order_and_say_where_they_come_from() -> None:
    spec = {"cron": "0 10 * * 6", "how": "next_working_day"}
    union = {"any_of": [{"cron": "0 10 * * 6"}, {"cron": "0 9 * * 0"}], "how": "next_working_day"}
    calendar = {"weekly": ["sat", "sun"], "holidays": [{"rule": "03-09", "name": "Founders' Day"}]}
    assert local_days(dict(spec), calendar, 2) == ["2026-03-02T10:00", "2026-03-10T10:00"]
    assert local_days(union, calendar, 4) == [
        "2026-03-02T09:00",
        "2026-03-02T10:00",
        "2026-03-10T09:00",
        "2026-03-10T10:00",
    ]
    known = {"c": parse_calendar({"name": "c", **calendar})}
    schedule = parse_schedule(
        {"cron": "0 10 * * 6", "calendars": {"exclude": ["c"], "on_excluded": "next_working_day"}},
        now_ms=NOW_MS,
    )
    assert occurrences(schedule, NOW_MS, 2, known)[1].note == "moved from 2026-03-07T10:00: c"


def test_a_schedule_whose_calendar_is_missing_is_refused_by_name() -> None:
    schedule = parse_schedule({"cron": "0 9 * * *", "calendars": {"exclude": ["nope"]}}, now_ms=NOW_MS)
    assert schedule.calendar_names == ("nope",)
    with pytest.raises(ScheduleRefused, match="'nope'"):
        next_after(schedule, NOW_MS)


@pytest.mark.parametrize(
    ("rule", "observed", "days"),
    [
        ("12-25", "same_day", ["2026-12-25", "2027-12-25"]),
        ("12-25", "nearest_weekday", ["2026-12-25", "2027-12-24"]),
        ("12-25", "next_weekday", ["2026-12-25", "2027-12-27"]),
        ("nov thu#4", "same_day", ["2026-11-26", "2027-11-25"]),
        ("may mon#last", "same_day", ["2026-05-25", "2027-05-31"]),
        ("easter-2", "same_day", ["2026-04-03", "2027-03-26"]),
        ("easter+39", "same_day", ["2026-05-14", "2027-05-06"]),
        ("01-01", "nearest_weekday", ["2026-01-01", "2027-01-01"]),
    ],
)
def test_holidays_have_a_rule_for_each_year(rule: str, observed: str, days: list[str]) -> None:
    holiday = Holiday(rule, observed=observed)
    found = [holiday.day_in(year) for year in (2026, 2027)]
    assert [local_text((day or 0) * 86_400)[:10] for day in found] == days


def test_easter_agrees_with_dateutil() -> None:
    from dateutil.easter import easter

    for year in range(1900, 2200):
        assert local_text(easter_day(year) * 86_400)[:10] == easter(year).isoformat()


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"name": "c", "dats": []}, "calendar.dats"),
        ({"dates": []}, "calendar.name"),
        ({"name": "c", "zone": "Europe/Berln"}, "calendar.zone"),
        ({"name": "c", "dates": ["2026-02-30"]}, "calendar.dates[0]"),
        ({"name": "c", "ranges": [{"from": "2026-03-02", "to": "2026-03-01"}]}, "calendar.ranges[0].to"),
        ({"name": "c", "weekly": ["someday"]}, "calendar.weekly[0]"),
        ({"name": "c", "weekly": [{"from": "fri 25:00", "to": "mon 06:00"}]}, "calendar.weekly[0].from"),
        ({"name": "c", "holidays": ["02-30"]}, "calendar.holidays[0].rule"),
        (
            {"name": "c", "holidays": [{"rule": "12-25", "observed": "never"}]},
            "calendar.holidays[0].observed",
        ),
    ],
)
def test_a_bad_calendar_is_refused_with_its_field(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(ScheduleRefused) as refused:
        parse_calendar(spec)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("spec", "gap_s", "tolerance_s"),
    [
        ({"cron": "0 2 * * *"}, 86_400, 300),
        ({"cron": "* * * * *"}, 60, 30),
        ({"cron": "*/5 * * * *"}, 300, 150),
        ({"cron": "58,2 * * * *"}, 240, 120),
        ({"cron": "0 0 1 * *"}, 28 * 86_400, 300),
        ({"cron": "59 23 * * *"}, 86_400, 300),
        ({"cron": "0,59 0,23 * * *"}, 60, 30),
        ({"cron": "*/10 * * * * *", "seconds": True}, 10, 5),
        ({"rate": "10s"}, 10, 0),
        ({"rate": "1m"}, 60, 30),
        ({"rate": "1 day"}, 86_400, 300),
        ({"at": "2027-01-01T00:00:00Z"}, None, 0),
        ({"delay": "5m"}, None, 0),
        ({"any_of": [{"cron": "0 2 * * *"}, {"cron": "2 2 * * *"}]}, 120, 60),
    ],
)
def test_the_default_tolerance_is_at_most_half_of_the_shortest_gap(
    spec: dict[str, Any], gap_s: int | None, tolerance_s: int
) -> None:
    schedule = parse_schedule(spec, now_ms=NOW_MS)
    assert shortest_gap_s(schedule) == gap_s
    assert default_tolerance_s(schedule) == tolerance_s


def test_jitter_spreads_jobs_over_the_tolerance_and_never_before_the_time() -> None:
    offsets = {(fire_at_ms(f"team:{n}", NOW_MS, 300, None) - NOW_MS) // 1000 for n in range(3000)}
    assert offsets == set(range(300))
    assert fire_at_ms("team:1", NOW_MS, 0, None) == NOW_MS
    assert fire_at_ms("team:1", NOW_MS, 300, NOW_MS + 1000) == NOW_MS


DAILY = {"cron": "0 9 * * *", "zone": "America/Asuncion"}
JULY = 1_751_371_200_000  # 2025-07-01T12:00Z: 09:00 in Asuncion by the new data; 13:00Z by the old


def test_a_zone_change_moves_the_pending_occurrence_to_its_wall_time() -> None:
    schedule = parse_schedule(DAILY, now_ms=JULY - 3 * DAY_MS)
    pending = JULY + 3_600_000
    for last, offset_s in ((None, None), (pending - DAY_MS, None), (pending - DAY_MS, -4 * 3600)):
        decision = replan(schedule, pending, JULY - DAY_MS // 2, last_scheduled_at_ms=last, last_offset_s=offset_s)
        assert (decision.action, decision.scheduled_at_ms, decision.is_due) == ("move", JULY, False)


def test_a_moved_occurrence_that_has_become_due_is_fired_late_and_not_lost() -> None:
    schedule = parse_schedule(DAILY, now_ms=JULY - 3 * DAY_MS)
    decision = replan(schedule, JULY + 3_600_000, JULY + 60_000, last_scheduled_at_ms=JULY + 3_600_000 - DAY_MS)
    assert (decision.action, decision.scheduled_at_ms, decision.is_due) == ("move", JULY, True)


def test_the_new_place_of_the_last_fired_occurrence_is_not_fired_again() -> None:
    schedule = parse_schedule(DAILY, now_ms=JULY - 3 * DAY_MS)
    last, pending = JULY - DAY_MS - 3_600_000, JULY - 3_600_000  # the old data said 11:00Z
    for offset_s in (None, -2 * 3600):
        decision = replan(schedule, pending, last + 60_000, last_scheduled_at_ms=last, last_offset_s=offset_s)
        assert (decision.action, decision.scheduled_at_ms) == ("move", JULY)


def test_what_is_due_already_or_has_not_moved_is_kept_and_what_is_over_is_dropped() -> None:
    schedule = parse_schedule(DAILY, now_ms=JULY - 3 * DAY_MS)
    assert replan(schedule, JULY + 3_600_000, JULY + 3_600_000).action == "keep"
    assert replan(schedule, JULY, JULY - DAY_MS, last_scheduled_at_ms=JULY - DAY_MS).action == "keep"
    hourly = parse_schedule({"cron": "0 * * * *", "zone": "America/Asuncion"}, now_ms=JULY)
    assert replan(hourly, JULY, JULY - 60_000, last_scheduled_at_ms=JULY - 3_600_000).action == "keep"
    ended = parse_schedule(DAILY | {"end": "2025-07-01T12:00:00Z"}, now_ms=JULY - 3 * DAY_MS)
    last = {"last_scheduled_at_ms": JULY - DAY_MS}
    assert replan(ended, JULY + 3_600_000, JULY - DAY_MS // 2, **last).action == "drop"


WARNINGS = {
    "0 0 13 * 5": ["day_fields_or"],
    "20 4 */2 * SAT": ["step_restarts", "day_fields_and"],
    "0 2 * * *": [],
    "*/40 * * * *": ["step_restarts"],
    "*/15 * * * *": [],
    "*/90 * * * *": ["step_larger_than_range"],
    "0 */5 * * *": ["step_restarts"],
    "0 0 31 * *": ["short_months"],
    "0 0 */2 * *": ["step_restarts"],
    "0 0 1-31/10 * 1": ["day_fields_or"],
    "0 9 * * 1-5": [],
}


@pytest.mark.parametrize("text", WARNINGS)
def test_what_may_surprise_is_said(text: str) -> None:
    warnings = warnings_of(parse_schedule({"cron": text}, now_ms=NOW_MS))
    assert sorted(warning.partition(":")[0] for warning in warnings) == sorted(WARNINGS[text])


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"cron": "0 2 * * *", "zone": "America/New_York"}, "at 02:00 every day, America/New_York time"),
        ({"cron": "*/15 * * * *"}, "every 15 minutes every day, UTC time"),
        ({"cron": "*/40 * * * *"}, "at minute 0 and 40 of every hour every day, UTC time"),
        ({"cron": "30 8 * 1-3 1-5"}, "at 08:30 on Monday to Friday in January to March, UTC time"),
        ({"cron": "0 0 13 * 5"}, "at 00:00 on day 13 of the month and also on Friday, UTC time"),
        (
            {"cron": "0 16 */10 * sat"},
            "at 16:00 on day 1, 11, 21 and 31 of the month, but only on Saturday, UTC time",
        ),
        (
            {"cron": "5-50/9 9-17 * * *"},
            "at minute 5, 14, 23, 32, 41 and 50 past hour 9 to 17 every day, UTC time",
        ),
        ({"cron": "0 8 L * *", "dialect": "extended"}, "at 08:00 on the last day of the month, UTC time"),
        (
            {"rate": "10s", "anchor": "2026-01-01T00:00:00Z"},
            "every 10 seconds of elapsed time, counted from 2026-01-01T00:00:00Z",
        ),
        (
            {"rrule": "DTSTART:20260105T090000\nRRULE:FREQ=DAILY"},
            "by the rule FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0, counted from 2026-01-05T09:00:00, UTC time",
        ),
        (
            {"cron": "0 9 * * *", "calendars": {"exclude": ["de"]}},
            "at 09:00 every day, UTC time, except when de excludes it",
        ),
    ],
)
def test_a_schedule_explains_itself(spec: dict[str, Any], words: str) -> None:
    assert describe(parse_schedule(spec, now_ms=NOW_MS)) == words


def notes(spec: dict[str, Any], after: int, count: int) -> list[str | None]:
    schedule = parse_schedule(spec, now_ms=after)
    return [occurrence.note for occurrence in occurrences(schedule, after, count)]


MARCH_7 = 1_772_870_400_000  # 2026-03-07T08:00Z
OCTOBER_31 = 1_793_430_000_000  # 2026-10-31T07:00Z


def test_a_note_tells_what_a_change_of_clocks_did() -> None:
    zone = {"zone": "America/New_York"}
    moved, later = notes({"cron": "30 2 * * *", **zone}, MARCH_7, 2)
    assert "02:30 did not exist on 2026-03-08" in str(moved)
    assert "first instant after the gap" in str(moved)
    assert later is None
    (merged,) = notes({"cron": "15,45 2 * * *", **zone}, MARCH_7, 1)
    assert "merged into one run" in str(merged)
    (met,) = notes({"cron": "0 2,3 * * *", **zone}, MARCH_7, 1)
    assert "merged with the regular run" in str(met)
    (dropped,) = notes({"cron": "30 2 * * *", **zone, "dst": {"gap": "skip"}}, MARCH_7, 1)
    assert "left out" in str(dropped)
    shifted, second, regular = notes({"cron": "15,45 2 * * *", **zone, "dst": {"gap": "shift"}}, MARCH_7, 3)
    assert "02:15 did not exist on 2026-03-08 (clocks went forward): runs as much later" in str(shifted)
    assert "02:45" in str(second)
    assert regular is None
    (yearly,) = notes({"cron": "30 2 8 3 *", **zone, "dst": {"gap": "skip"}}, MARCH_7, 1)
    assert "02:30 did not exist on 2026-03-08" in str(yearly)
    (hourly,) = notes({"cron": "0 * * * *", **zone}, MARCH_7 + DAY_MS - 2 * 3_600_000 + 1, 1)
    assert "02:00 did not exist on 2026-03-08 (clocks went forward): left out" in str(hourly)
    _, lost_day, _ = notes({"cron": "0 9 * * *", "zone": "Pacific/Apia"}, 1_325_160_000_000, 3)
    assert "nothing is made up" in str(lost_day)
    (once,) = notes({"cron": "30 1 * * *", **zone}, OCTOBER_31, 1)
    assert "comes twice" in str(once)
    assert "first one only" in str(once)
    both = notes({"cron": "0 * * * *", **zone}, OCTOBER_31 + DAY_MS - 3 * 3_600_000, 3)
    assert [str(note).rpartition(": ")[2] for note in both] == ["the first pass", "the second pass", "None"]
