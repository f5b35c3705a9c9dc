"""What is refused, where the error points, and what it proposes."""

from __future__ import annotations

from typing import Any

import pytest

from tickwork.core.errors import BadSchedule
from tickwork.core.schedule import ScheduleRefused, next_after, parse_schedule, read_schedule

NOW_MS = 1_772_323_200_000  # 1 March 2026, a Sunday


def refusal(spec: Any) -> ScheduleRefused:
    with pytest.raises(BadSchedule) as refused:
        parse_schedule(spec, now_ms=NOW_MS)
    error = refused.value
    assert isinstance(error, ScheduleRefused)
    assert error.field
    assert error.remedy
    return error


CRON = {
    "5 22-5 * * *": ("reversed_range", "cron.hour", "5 22-23,0-5 * * *"),
    "50-10 * * * *": ("reversed_range", "cron.minute", "50-59,0-10 * * * *"),
    "0 0 25-5 * *": ("reversed_range", "cron.day_of_month", "0 0 25-31,1-5 * *"),
    "0 0 * nov-feb *": ("reversed_range", "cron.month", "0 0 * nov-dec,jan-feb *"),
    "0 0 * * fri-mon": ("reversed_range", "cron.day_of_week", "0 0 * * fri,sat,sun,mon"),
    "0 0 * * 1,5-1": ("reversed_range", "cron.day_of_week", "0 0 * * 1,5,6,0,1"),
    "0 22-4/2 * * *": ("reversed_range", "cron.hour", None),
    "*/0 * * * *": ("step_zero", "cron.minute", None),
    "0-30/0 * * * *": ("step_zero", "cron.minute", None),
    "5/15 * * * *": ("step_without_range", "cron.minute", "5-59/15 * * * *"),
    "0/15 * * * *": ("step_without_range", "cron.minute", "*/15 * * * *"),
    "0 0 * * 1/2": ("step_without_range", "cron.day_of_week", "0 0 * * 1-6/2"),
    "60 3 * * *": ("out_of_range", "cron.minute", None),
    "0 24 * * *": ("out_of_range", "cron.hour", None),
    "0 0 0 * *": ("out_of_range", "cron.day_of_month", None),
    "0 0 * 13 *": ("out_of_range", "cron.month", None),
    "0 0 * * 8": ("out_of_range", "cron.day_of_week", None),
    "0 8 * * saturday": ("bad_day_name", "cron.day_of_week", "0 8 * * sat"),
    "0 8 * * mon,Tuesday": ("bad_day_name", "cron.day_of_week", "0 8 * * mon,tue"),
    "0 8 * sept *": ("bad_month_name", "cron.month", "0 8 * sep *"),
    "0 8 * mon *": ("misplaced_name", "cron.month", None),
    "0 8 * * jan": ("misplaced_name", "cron.day_of_week", None),
    "0 mon * * *": ("misplaced_name", "cron.hour", None),
    "0 8 L * *": ("unsupported_L", "cron.day_of_month", None),
    "0 8 15W * *": ("unsupported_W", "cron.day_of_month", None),
    "0 0 * * 4#2": ("unsupported_#", "cron.day_of_week", None),
    "0 0 * * 5L": ("unsupported_L", "cron.day_of_week", None),
    "? * * * *": ("bad_value", "cron.minute", None),
    "0 8 * * 1-": ("bad_range", "cron.day_of_week", None),
    "0 8 * * -1": ("bad_range", "cron.day_of_week", None),
    "0 8-10-12 * * *": ("bad_range", "cron.hour", None),
    "1,,2 * * * *": ("empty_item", "cron.minute", None),
    "1, * * * *": ("empty_item", "cron.minute", None),
    "*/5x * * * *": ("bad_step", "cron.minute", None),
    "*/ * * * *": ("bad_step", "cron.minute", None),
    "+5 * * * *": ("bad_value", "cron.minute", None),
    "1.5 * * * *": ("bad_value", "cron.minute", None),
    "0x5 * * * *": ("bad_value", "cron.minute", None),
    "0~30 * * * *": ("bad_value", "cron.minute", None),
    "**/5 * * * *": ("bad_value", "cron.minute", None),
    "H * * * *": ("hash_without_job", "cron.minute", None),
    "": ("empty", "cron", None),
    "   ": ("empty", "cron", None),
    "* * * *": ("too_few_fields", "cron", None),
    "* * * * * * * *": ("too_many_fields", "cron", None),
    "30 0 12 * * *": ("too_many_fields", "cron", None),
    "0 0 12 * * *": ("too_many_fields", "cron", "0 12 * * *"),
    "0 0 12 ? * MON-FRI": ("too_many_fields", "cron", "0 12 * * mon-fri"),
    "0 0 12 ? * 2-6 *": ("too_many_fields", "cron", "0 12 * * 1-5"),
    "0 12 * * ? *": ("foreign_dialect", "cron", "0 12 * * *"),
    "cron(0 12 ? * 2-6 *)": ("foreign_dialect", "cron", "0 12 * * 1-5"),
    "rate(5 minutes)": ("foreign_dialect", "cron", None),
    "CRON_TZ=Etc/UTC */20 * * * *": ("zone_inside", "cron", "*/20 * * * *"),
    "TZ=Asia/Tokyo 0 9 * * *": ("zone_inside", "cron", "0 9 * * *"),
    "0 14 * * * America/Detroit": ("zone_inside", "cron", "0 14 * * *"),
    "@every 5m": ("interval_not_cron", "cron", None),
    "@Daily": ("unknown_nickname", "cron", "@daily"),
    "@dayly": ("unknown_nickname", "cron", "@daily"),
    "@reboot": ("reboot", "cron", None),
    "@every_minute": ("unknown_nickname", "cron", "* * * * *"),
    "\uff15 * * * *": ("non_ascii_digit", "cron", None),
    "\u0665 * * * *": ("non_ascii_digit", "cron", None),
    "\u00b2 * * * *": ("non_ascii_character", "cron", None),
    "0\u00a08 * * *": ("non_ascii_space", "cron", None),
    "0\u30008 * * *": ("non_ascii_space", "cron", None),
    "0\u200b 8 * * *": ("non_ascii_space", "cron", None),
    "0 8 * *\n*": ("non_ascii_space", "cron", None),
    "0\x0b8 * * *": ("non_ascii_space", "cron", None),
    "0 8 * * *\x00": ("non_ascii_space", "cron", None),
    "0 8 * * 1\u20135": ("non_ascii_character", "cron", None),
    "\u22170 8 * * *": ("non_ascii_character", "cron", None),
    "0 8 * * *\u200f": ("non_ascii_space", "cron", None),
    "0 8 * * m\u043en": ("non_ascii_character", "cron", None),
    "0," * 600 + "0 * * * *": ("too_long", "cron", None),
}


@pytest.mark.parametrize("text", CRON)
def test_a_bad_expression_names_its_field_and_proposes_what_was_meant(text: str) -> None:
    error = refusal({"cron": text})
    reason, field, proposal = CRON[text]
    assert (error.reason, error.field) == (reason, field)
    if proposal is not None:
        assert error.proposal == proposal
    if error.proposal is not None:
        parse_schedule({"cron": error.proposal}, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("0  8\t* * 1-5", "0 8 * * 1-5"),
        ("  00  5 1 Jan Mon-Fri", "0 5 1 1 1-5"),
        ("@midnight", "0 0 * * *"),
        ("@annually", "0 0 1 1 *"),
        ("0 7 * * 0,7", "0 7 * * 0"),
        ("5 6 * * sat-sun", "5 6 * * 6-7"),
        ("0 0 ? * *", "0 0 * * *"),
        ("0 0 * * SUN", "0 0 * * 0"),
        ("1-1 * * * *", "1-1 * * * *"),
        ("0 8 * * *\n", "0 8 * * *"),
        ("*/90 * * * *", "*/90 * * * *"),
        ("0 0 * mAR-may *", "0 0 * 3-5 *"),
    ],
)
def test_an_accepted_expression_has_one_normal_form(text: str, normal: str) -> None:
    assert parse_schedule({"cron": text}, now_ms=NOW_MS).spec["cron"] == normal


@pytest.mark.parametrize(
    ("spec", "reason", "field"),
    [
        ({"cron": "0 0 * * *", "zone": "Europe/Berln"}, "unknown_zone", "zone"),
        ({"cron": "0 0 * * *", "zone": "america/new_york"}, "unknown_zone", "zone"),
        ({"cron": "0 0 * * *", "zone": ""}, "unknown_zone", "zone"),
        ({"cron": "0 0 * * *", "zone": "../../etc/passwd"}, "unknown_zone", "zone"),
        ({"cron": "0 0 * * *", "zone": "posixrules"}, "unknown_zone", "zone"),
        ({"cron": "0 0 * * *", "zone": "right/UTC"}, "unknown_zone", "zone"),
        ({"cron": "0 0 * * *", "zone": "Europe"}, "unknown_zone", "zone"),
        ({"cron": "0 0 * * *", "zone": "UTC+2"}, "unknown_zone", "zone"),
        ({"cron": "0 0 * * *", "zone": None}, "bad_type", "zone"),
        ({"cron": "0 0 * * *", "timezone": "UTC"}, "unknown_key", "timezone"),
        ({"cron": "0 0 * * *", "dst": {"gap": "maybe"}}, "unknown_value", "dst.gap"),
        ({"cron": "0 0 * * *", "dst": {"overlap": "both"}}, "unknown_key", "dst.overlap"),
        ({"cron": "0 0 * * *", "dst": "skip"}, "bad_type", "dst"),
        ({"cron": "0 0 * * *", "seconds": "yes"}, "bad_type", "seconds"),
        ({"cron": "0 0 * * *", "seconds": True}, "too_few_fields", "cron"),
        ({"cron": "0 0 * * *", "dialect": "jenkins"}, "unknown_value", "dialect"),
        ({"cron": 5}, "bad_type", "cron"),
        ({"cron": "0 0 * * *", "rate": "5m"}, "several_kinds", "rate"),
        ({}, "no_kind", "schedule"),
        ([], "bad_type", "schedule"),
        ({"cron": "0 0 * * *", "count": 0}, "bad_count", "count"),
        ({"cron": "0 0 * * *", "count": True}, "bad_count", "count"),
        (
            {"cron": "0 0 * * *", "start": "2027-01-01T00:00:00Z", "end": "2026-01-01T00:00:00Z"},
            "end_before_start",
            "end",
        ),
        ({"cron": "0 0 * * *", "end": "2026-01-01T00:00:00Z"}, "never_due", "end"),
        ({"cron": "0 0 * * *", "calendars": {"exclude": []}}, "bad_calendars", "calendars.exclude"),
        (
            {"cron": "0 0 * * *", "calendars": {"exclude": ["x"], "on_excluded": "later"}},
            "unknown_value",
            "calendars.on_excluded",
        ),
        ({"rate": "0s"}, "duration_out_of_range", "rate"),
        ({"rate": "-5m"}, "bad_duration", "rate"),
        ({"rate": "1.5h"}, "bad_duration", "rate"),
        ({"rate": "1 month"}, "bad_duration", "rate"),
        ({"rate": "5"}, "bad_duration", "rate"),
        ({"rate": 300}, "bad_duration", "rate"),
        ({"rate": "\uff15m"}, "bad_duration", "rate"),
        ({"rate": "20 years"}, "bad_duration", "rate"),
        ({"rate": "9999 days"}, "duration_out_of_range", "rate"),
        ({"rate": "5m", "anchor": "2026-01-01"}, "bad_time", "anchor"),
        ({"delay": "0s"}, "duration_out_of_range", "delay"),
        ({"delay_s": True}, "bad_duration", "delay_s"),
        ({"at": "2016-04-28T08:29:42"}, "no_offset", "at"),
        ({"at": "2025-02-30T00:00:00Z"}, "bad_time", "at"),
        ({"at": 1735689600}, "bad_time", "at"),
        ({"at": "2026-03-01T24:00:00Z"}, "bad_time", "at"),
        ({"at": "2026-03-01T10:00:60Z"}, "bad_time", "at"),
        ({"at": "2026-03-01"}, "bad_time", "at"),
        ({"at": "\uff12026-03-01T10:00:00Z"}, "bad_time", "at"),
        ({"at": "2026-02-28T23:00:00Z"}, "at_in_past", "at"),
        ({"any_of": [{"cron": "0 9 * * *"}, {"cron": "0 99 * * *"}]}, "out_of_range", "any_of[1].cron.hour"),
        ({"any_of": [{"any_of": []}]}, "nested", "any_of[0].any_of"),
        ({"any_of": [5]}, "bad_type", "any_of[0].schedule"),
        ({"rrule": "FREQ=HOURLY"}, "bad_rrule", "rrule"),
        ({"rrule": "FREQ=DAILY;BYHOUR=25"}, "bad_rrule", "rrule"),
        ({"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}, "never_fires", "rrule"),
        ({"repeat": "R/2026-01-01T00:00:00Z"}, "bad_repeat", "repeat"),
    ],
)
def test_a_bad_spec_is_refused_with_its_field(spec: Any, reason: str, field: str) -> None:
    error = refusal(spec)
    assert (error.reason, error.field) == (reason, field)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("america/new_york", "America/New_York"),
        ("Berlin", "Europe/Berlin"),
        ("New York", "America/New_York"),
        ("PST", "America/Los_Angeles"),
        ("US/Pacifc", "US/Pacific"),
        ("Asia/Calcuta", "Asia/Calcutta"),
        ("utc", "UTC"),
    ],
)
def test_a_misspelt_zone_is_answered_with_the_right_one(written: str, meant: str) -> None:
    assert refusal({"cron": "0 0 * * *", "zone": written}).proposal == meant


def test_a_time_just_past_is_accepted_and_an_hour_past_is_not() -> None:
    assert parse_schedule({"at": "2026-02-28T23:59:59Z"}, now_ms=NOW_MS).spec["at"] == "2026-02-28T23:59:59Z"
    assert "3600 s ago" in str(refusal({"at": "2026-02-28T23:00:00Z"}))


def test_a_fraction_of_a_second_is_never_rounded_to_an_earlier_time() -> None:
    assert parse_schedule({"at": "2026-12-01T09:00:00.000000001Z"}, now_ms=NOW_MS).spec["at"].endswith(":01Z")
    assert parse_schedule({"delay": "1s"}, now_ms=NOW_MS + 1).spec["at"] == "2026-03-01T00:00:02Z"


def test_the_stored_form_of_a_newer_version_is_refused_and_not_guessed_at() -> None:
    from tickwork.core.schedule import schedule_from_spec

    for spec in ({"cron": "0 0 * * *", "zone": "UTC", "moon": 1}, {"lunar": "x"}, {"rate": "5 minutes"}):
        with pytest.raises(ScheduleRefused):
            schedule_from_spec(spec)


def test_a_rule_that_was_stored_before_it_was_refused_keeps_its_meaning() -> None:
    from tickwork.core.schedule import schedule_from_spec

    loose = "FREQ=WEEKLY;BYDAY=1MO;BYHOUR=9;BYMINUTE=0;BYSECOND=0"
    assert refusal({"rrule": loose}).reason == "bad_rrule"
    stored = {"rrule": loose, "start_local": "2026-03-01T00:00:00", "zone": "UTC"}
    assert next_after(schedule_from_spec(stored), NOW_MS) == NOW_MS + (24 + 9) * 3_600_000  # the Monday


def test_a_schedule_that_is_over_can_still_be_looked_at() -> None:
    schedule = read_schedule({"cron": "0 0 * * *", "end": "2026-01-01T00:00:00Z"}, now_ms=NOW_MS)
    assert next_after(schedule, NOW_MS) is None
