"""Whatever is sent: a schedule, or a refusal that names its field. Never another exception."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tickwork.core.schedule import (
    ScheduleRefused,
    describe,
    next_after,
    parse_calendar,
    parse_schedule,
    schedule_from_spec,
    warnings_of,
)
from tickwork.core.schedule.spec_keys import COMMON_KEYS, KINDS

NOW_MS = 1_772_323_200_000
ALPHABET = "0123456789*/-,?LWH#@ ()TZPR:;=+.\t" + "abcdeonufrimytsdjl" + "\u00a0\uff15\u0665"
TEXTS = st.one_of(st.text(ALPHABET, max_size=24), st.text(max_size=10))
FIELDS = st.lists(
    st.sampled_from(
        ["*", "*/2", "1-5", "5-1", "5/15", "L", "1W", "2#3", "5L", "H", "H/2", "?", "mon", "0", "31", "x", ""]
    ),
    min_size=4,
    max_size=8,
).map(" ".join)
RULE_PARTS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "FREQ",
                "INTERVAL",
                "BYDAY",
                "BYMONTH",
                "BYMONTHDAY",
                "BYSETPOS",
                "BYHOUR",
                "BYWEEKNO",
                "BYYEARDAY",
                "COUNT",
                "UNTIL",
                "WKST",
                "BYMINUTE",
                "X",
            ]
        ),
        st.sampled_from(
            [
                "DAILY",
                "WEEKLY",
                "MONTHLY",
                "YEARLY",
                "HOURLY",
                "1",
                "-1",
                "0",
                "53",
                "366",
                "MO",
                "-1FR",
                "5MO,TU",
                "31",
                "20270101",
                "20270101T000000Z",
                "99999999",
                "",
                "x",
                "1,2,3",
                "999",
            ]
        ),
    ).map("=".join),
    min_size=1,
    max_size=5,
).map(";".join)
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    TEXTS,
    FIELDS,
    RULE_PARTS,
    st.sampled_from(
        [
            "UTC",
            "Europe/Berlin",
            "quartz",
            "eventbridge",
            "extended",
            "5 minutes",
            "skip",
            "2027-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
            "0001-01-01T00:00:00+14:00",
            "2027-03-28T02:30:00",
            "R5/2027-01-01T00:00:00Z/P1M",
            "R/9999-12-01T00:00:00/P9D",
        ]
    ),
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from([*KINDS, "gap", "fold", "exclude", "on_excluded", "zone"]), inner, max_size=3),
    ),
    max_leaves=6,
)
KEYS = sorted({*KINDS, *COMMON_KEYS, *(key for keys in KINDS.values() for key in keys), "bogus"})
SPECS = st.one_of(
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5),
    st.tuples(FIELDS, st.sampled_from(["cron", "extended", "quartz", "eventbridge"]), st.booleans()).map(
        lambda t: {"cron": t[0], "dialect": t[1], **({"seconds": True} if t[2] else {})}
    ),
    RULE_PARTS.map(lambda text: {"rrule": f"FREQ=DAILY;{text}"}),
    RULE_PARTS.map(lambda text: {"rrule": text}),
    VALUES,
)


def check(error: ScheduleRefused) -> None:
    assert error.field
    assert error.remedy


@settings(max_examples=600, deadline=None)
@given(SPECS, st.sampled_from(["", "team:job"]))
@example({"rrule": "FREQ=YEARLY;BYWEEKNO=53;BYDAY=-1FR"}, "")
@example({"rate": "1s", "anchor": "9999-12-31T23:59:59-12:00"}, "")
@example({"cron": "0 0 * * *", "start": "0001-01-01T00:00:00", "zone": "Pacific/Kiritimati"}, "")
@example({"delay_s": 10**30}, "")
def test_a_spec_is_read_or_refused(spec: Any, job_id: str) -> None:
    try:
        schedule = parse_schedule(spec, now_ms=NOW_MS, job_id=job_id)
    except ScheduleRefused as error:
        check(error)
        return
    assert schedule_from_spec(schedule.spec) is schedule
    assert describe(schedule)
    assert isinstance(warnings_of(schedule), tuple)
    if not schedule.calendar_names:
        found = next_after(schedule, NOW_MS)
        assert found is None or found > NOW_MS


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(["name", "version", "zone", "dates", "ranges", "weekly", "holidays"]), VALUES))
def test_a_calendar_is_read_or_refused(spec: Any) -> None:
    try:
        calendar = parse_calendar(spec)
    except ScheduleRefused as error:
        check(error)
        return
    assert calendar.excludes(NOW_MS) in (True, False)


@settings(max_examples=300, deadline=None)
@given(VALUES)
def test_a_stored_spec_is_read_or_refused(spec: Any) -> None:
    try:
        schedule_from_spec(spec)
    except ScheduleRefused as error:
        check(error)
