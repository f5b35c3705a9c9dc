"""Rates, single times, RRULEs, repeats, unions, bounds, dialects, H: each kind by its own rule."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from croniter import croniter
from dateutil.rrule import rrulestr
from schedule_oracle import random_expression

from tickwork.core.schedule import (
    first_due,
    next_after,
    occurrences,
    parse_schedule,
    prev_before,
    scheduled_between,
)
from tickwork.core.schedule.cron.expression import parse_expression

NOW_MS = 1_772_323_200_000  # 1 March 2026, a Sunday, 00:00 UTC
EPOCH = datetime(1970, 1, 1)


def upcoming(spec: dict[str, Any], count: int = 3, now_ms: int = NOW_MS, job_id: str = "") -> list[str]:
    schedule = parse_schedule(spec, now_ms=now_ms, job_id=job_id)
    return [occurrence.scheduled_at for occurrence in occurrences(schedule, now_ms, count)]


def test_naive_matching_agrees_with_croniter() -> None:
    """croniter as a second reader of expressions, without any zone, with Debian's rule for the day fields."""
    rng = random.Random(11)
    for _ in range(150):
        text = random_expression(rng)
        wall = parse_expression(text).wall_times()
        at = datetime(2026, 1, 1) + timedelta(minutes=rng.randrange(2_000_000))
        theirs = croniter(text, at, implement_cron_bug=True)
        local_s = round((at - EPOCH).total_seconds())
        for _ in range(5):
            found = wall.next_match(local_s + 1)
            assert found is not None
            assert EPOCH + timedelta(seconds=found) == theirs.get_next(datetime), text
            assert wall.prev_match(found) == found
            local_s = found


def test_a_rate_without_an_anchor_counts_from_its_registration() -> None:
    assert upcoming({"rate": "10 minutes"}, 2) == ["2026-03-01T00:10:00Z", "2026-03-01T00:20:00Z"]
    assert upcoming({"rate": "10s"}, 1, NOW_MS + 400) == ["2026-03-01T00:00:10Z"]


def test_a_rate_starts_at_an_anchor_that_lies_ahead() -> None:
    spec = {"rate": "2 days", "anchor": "2026-03-05T12:00:00Z"}
    assert upcoming(spec, 2) == ["2026-03-05T12:00:00Z", "2026-03-07T12:00:00Z"]


@pytest.mark.parametrize(
    ("written", "normal"),
    [("10s", "10 seconds"), ("90 min", "90 minutes"), ("1h30m", "90 minutes"), ("2 Days", "2 days"),
     ("PT15M", "15 minutes"), ("P1D", "1 day"), ("1w", "1 week"), ("3600 s", "1 hour")],
)  # fmt: skip
def test_a_period_has_one_normal_form(written: str, normal: str) -> None:
    assert parse_schedule({"rate": written}, now_ms=NOW_MS).spec["rate"] == normal


def test_a_day_of_a_rate_is_24_hours_also_across_a_change_of_clocks() -> None:
    spec = {"rate": "1 day", "anchor": "2026-03-07T17:00:00Z", "zone": "America/New_York"}
    schedule = parse_schedule(spec, now_ms=NOW_MS)
    local = [occurrence.local for occurrence in occurrences(schedule, NOW_MS, 2)]
    assert local == ["2026-03-07T12:00:00-05:00", "2026-03-08T13:00:00-04:00"]


def test_a_time_just_past_is_due_at_once() -> None:
    schedule = parse_schedule({"at": "2026-02-28T23:59:30Z"}, now_ms=NOW_MS)
    assert first_due(schedule, NOW_MS) == NOW_MS - 30_000
    assert next_after(schedule, NOW_MS) is None
    assert not schedule.is_recurring


def test_a_single_wall_time_that_does_not_exist_comes_after_the_gap_and_says_so() -> None:
    schedule = parse_schedule({"at": "2026-03-08T02:30:00", "zone": "America/New_York"}, now_ms=NOW_MS)
    (only,) = occurrences(schedule, NOW_MS, 5)
    assert only.local == "2026-03-08T03:00:00-04:00"
    assert "02:30 does not exist" in str(only.note)


def test_a_wall_time_on_a_day_that_was_left_out_comes_at_its_end() -> None:
    schedule = parse_schedule({"at": "2011-12-30T09:00:00", "zone": "Pacific/Apia"}, now_ms=0)
    assert occurrences(schedule, 0, 1)[0].local == "2011-12-31T00:00:00+14:00"


RULES = (
    "FREQ=DAILY;INTERVAL=3;BYHOUR=9,17;BYMINUTE=30;BYSECOND=0",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU;WKST=SU;BYHOUR=8;BYMINUTE=0;BYSECOND=0",
    "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0;BYSECOND=0",
    "FREQ=MONTHLY;INTERVAL=5;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=6;BYMINUTE=15;BYSECOND=0",
    "FREQ=MONTHLY;BYMONTHDAY=31;BYHOUR=0;BYMINUTE=0;BYSECOND=0",
    "FREQ=YEARLY;INTERVAL=3;BYMONTH=11;BYDAY=4TH;BYHOUR=12;BYMINUTE=0;BYSECOND=0",
    "FREQ=YEARLY;BYWEEKNO=1,53;BYDAY=MO;BYHOUR=0;BYMINUTE=0;BYSECOND=0",
    "FREQ=YEARLY;BYYEARDAY=1,-1;BYHOUR=10;BYMINUTE=0;BYSECOND=0",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYHOUR=1;BYMINUTE=0;BYSECOND=0",
)


@pytest.mark.parametrize("rule", RULES)
def test_an_rrule_found_from_nearby_is_the_rrule_counted_from_dtstart(rule: str) -> None:
    start = datetime(2021, 1, 7, 5)
    schedule = parse_schedule({"rrule": f"DTSTART:20210107T050000\nRRULE:{rule}"}, now_ms=NOW_MS)
    right = rrulestr(rule, dtstart=start).between(start, datetime(2034, 1, 1), inc=True)
    seconds = [round((at - EPOCH).total_seconds()) for at in right]
    begin_ms = round((start - EPOCH).total_seconds()) * 1000 - 1000
    until_ms = round((datetime(2034, 1, 1) - EPOCH).total_seconds()) * 1000
    assert [at // 1000 for at in scheduled_between(schedule, begin_ms, until_ms)] == seconds
    for earlier, later in pairwise(seconds[-20:]):
        assert prev_before(schedule, later * 1000) == earlier * 1000


def test_an_rrule_keeps_the_wall_clock_and_runs_once_in_a_gap() -> None:
    spec = {"rrule": "DTSTART;TZID=America/New_York:20260307T023000\nRRULE:FREQ=DAILY;COUNT=3"}
    found = upcoming(spec, 9)
    assert found == ["2026-03-07T07:30:00Z", "2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]


def test_until_is_included_as_rfc_5545_says() -> None:
    spec = {"rrule": "DTSTART:20260301T090000Z\nRRULE:FREQ=DAILY;UNTIL=20260303T090000Z"}
    assert upcoming(spec, 9)[-1] == "2026-03-03T09:00:00Z"


def test_iso_repeats() -> None:
    assert upcoming({"repeat": "R3/2026-03-01T00:00:00Z/PT6H"}, 9, NOW_MS - 1) == [
        "2026-03-01T00:00:00Z", "2026-03-01T06:00:00Z", "2026-03-01T12:00:00Z",
    ]  # fmt: skip
    monthly = {"repeat": "R/2026-03-31T10:00:00/P1M", "zone": "Europe/Berlin"}
    assert upcoming(monthly, 2) == ["2026-03-31T08:00:00Z", "2026-05-31T08:00:00Z"]
    daily = {"repeat": "R/2026-03-28T10:00:00/P1D", "zone": "Europe/Berlin"}
    assert upcoming(daily, 2) == ["2026-03-28T09:00:00Z", "2026-03-29T08:00:00Z"]


def test_a_union_is_due_once_where_its_members_meet() -> None:
    spec = {"any_of": [{"cron": "0 9 * * *"}, {"cron": "0 9,12 * * *"}, {"at": "2026-03-01T10:00:00Z"}]}
    assert upcoming(spec, 4) == [
        "2026-03-01T09:00:00Z", "2026-03-01T10:00:00Z", "2026-03-01T12:00:00Z", "2026-03-02T09:00:00Z",
    ]  # fmt: skip


def test_start_is_included_and_end_is_not() -> None:
    spec = {"cron": "0 0 * * *", "start": "2026-03-05T00:00:00Z", "end": "2026-03-07T00:00:00Z"}
    assert upcoming(spec, 9) == ["2026-03-05T00:00:00Z", "2026-03-06T00:00:00Z"]
    schedule = parse_schedule(spec, now_ms=NOW_MS)
    assert prev_before(schedule, NOW_MS * 2) == NOW_MS + 5 * 86_400_000
    assert prev_before(schedule, NOW_MS + 4 * 86_400_000) is None


def test_count_ends_a_schedule_also_when_looking_back() -> None:
    spec = {"cron": "0 2 * * *", "zone": "America/New_York", "start": "2026-03-07T00:00:00", "count": 3}
    found = upcoming(spec, 9)
    assert found == ["2026-03-07T07:00:00Z", "2026-03-08T07:00:00Z", "2026-03-09T06:00:00Z"]
    schedule = parse_schedule(spec, now_ms=NOW_MS)
    assert prev_before(schedule, NOW_MS + 90 * 86_400_000) == 1_773_036_000_000


@pytest.mark.parametrize(
    ("dialect", "text", "spec"),
    [
        ("quartz", "0 0 12 ? * MON-FRI", {"cron": "0 12 * * 1-5"}),
        ("quartz", "0 0 12 ? * 2-6 *", {"cron": "0 12 * * 1-5"}),
        ("quartz", "0 0/5 14,18 * * ?", {"cron": "*/5 14,18 * * *"}),
        ("quartz", "15 30 8 ? * 1", {"cron": "15 30 8 * * 0", "seconds": True}),
        ("quartz", "0 15 10 L * ?", {"cron": "15 10 L * *", "dialect": "extended"}),
        ("quartz", "0 15 10 ? * 6L", {"cron": "15 10 * * 5L", "dialect": "extended"}),
        ("quartz", "0 15 10 ? * 6#3", {"cron": "15 10 * * 5#3", "dialect": "extended"}),
        ("quartz", "0 15 10 LW * ?", {"cron": "15 10 LW * *", "dialect": "extended"}),
        ("quartz", "0 0 0 ? * L", {"cron": "0 0 * * 6"}),
        ("eventbridge", "cron(0 12 ? * 2-6 *)", {"cron": "0 12 * * 1-5"}),
        ("eventbridge", "0 18 ? * MON-FRI *", {"cron": "0 18 * * 1-5"}),
        ("eventbridge", "cron(0/15 8 1 * ? *)", {"cron": "*/15 8 1 * *"}),
        ("eventbridge", "rate(1 hour)", {"rate": "1 hour"}),
        ("eventbridge", "at(2026-11-20T13:00:00)", {"at": "2026-11-20T13:00:00", "zone": "UTC"}),
    ],
)  # fmt: skip
def test_another_dialect_is_translated_when_it_is_named(dialect: str, text: str, spec: dict[str, Any]) -> None:
    translated = parse_schedule({"cron": text, "dialect": dialect}, now_ms=NOW_MS).spec
    assert translated == parse_schedule(spec, now_ms=NOW_MS).spec


def test_the_year_of_another_dialect_becomes_bounds() -> None:
    spec = {"cron": "0 0 12 1 1 ? 2027-2028", "dialect": "quartz", "zone": "Europe/Paris"}
    assert upcoming(spec, 9) == ["2027-01-01T11:00:00Z", "2028-01-01T11:00:00Z"]


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0 0 L 2 *", ["2026-02-28", "2027-02-28", "2028-02-29"]),
        ("0 0 L-3 4 *", ["2026-04-27", "2027-04-27", "2028-04-27"]),
        ("0 0 15W 8 *", ["2026-08-14", "2027-08-16", "2028-08-15"]),
        ("0 0 1W 8 *", ["2026-08-03", "2027-08-02", "2028-08-01"]),
        ("0 0 LW 2 *", ["2026-02-27", "2027-02-26", "2028-02-29"]),
        ("0 0 * 3 5L", ["2026-03-27", "2027-03-26", "2028-03-31"]),
        ("0 0 * 11 thu#4", ["2026-11-26", "2027-11-25", "2028-11-23"]),
        ("0 0 * 2 2#5", ["2028-02-29", "2056-02-29", "2084-02-29"]),
        ("0 0 L 9 1", ["2026-09-07", "2026-09-14", "2026-09-21"]),
    ],
)
def test_the_letters_of_the_extended_dialect(text: str, days: list[str]) -> None:
    found = upcoming({"cron": text, "dialect": "extended"}, 3, 1_767_225_600_000 - 1)
    assert [at[:10] for at in found] == days


def test_h_is_stable_for_a_job_spread_over_jobs_and_stored_as_a_number() -> None:
    specs = [parse_schedule({"cron": "H H(0-5) * * *"}, now_ms=NOW_MS, job_id=f"team:{n}").spec for n in range(300)]
    again = parse_schedule({"cron": "H H(0-5) * * *"}, now_ms=NOW_MS, job_id="team:0").spec
    assert again == specs[0]
    minutes = {int(spec["cron"].split()[0]) for spec in specs}
    hours = {int(spec["cron"].split()[1]) for spec in specs}
    assert len(minutes) > 50
    assert hours == set(range(6))
    stepped = parse_schedule({"cron": "H/15 * * * *"}, now_ms=NOW_MS, job_id="a:b").spec["cron"]
    assert stepped.endswith("-59/15 * * * *")


def test_seconds_only_when_asked_for() -> None:
    spec = {"cron": "*/20 59 23 * * *", "seconds": True}
    assert upcoming(spec, 4) == [
        "2026-03-01T23:59:00Z", "2026-03-01T23:59:20Z", "2026-03-01T23:59:40Z", "2026-03-02T23:59:00Z",
    ]  # fmt: skip
