"""Whatever is sent: a schedule, or a refusal that names its field. Never another exception."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tickwork.core.schedule import (
    ScheduleRefused,
    describe,
    next_after,
    parse_calendar,
    parse_schedule,
    read_schedule,
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


EDGE_TIMES = (
    "00010101T000000",
    "00010103T000000Z",
    "99991231T235959",
    "99991231T235959Z",
    "99991231",
    "18000101T000000",
)
EDGE_RULES = ("FREQ=DAILY", "FREQ=YEARLY;INTERVAL=1000", "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=1", "FREQ=YEARLY;BYWEEKNO=53")


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/New_York", "Etc/GMT+12"])
@pytest.mark.parametrize("text", EDGE_TIMES)
def test_the_edges_of_the_calendar_are_read_or_refused_wherever_they_stand(text: str, zone: str) -> None:
    spelt = f"{text[:4]}-{text[4:6]}-{text[6:8]}T{text[9:11]}:{text[11:13]}:{text[13:]}" if len(text) > 8 else text
    for rule in EDGE_RULES:
        for spec in (
            {"rrule": f"DTSTART:{text}\nRRULE:{rule}"},
            {"rrule": f"DTSTART:{text}\nRRULE:{rule};COUNT=5"},
            {"rrule": f"DTSTART:20260101T000000\nRRULE:{rule};UNTIL={text}"},
            {"rrule": f"DTSTART:20260101T000000\nRRULE:{rule}\nEXDATE:{text}\nRDATE:{text}"},
            {"rrule": rule, "exdate": [spelt]},
            {"rrule": rule, "start": spelt, "count": 3},
            {"rrule": rule, "start_local": spelt.rstrip("Z")},
            {"repeat": f"R3/{spelt}/P1M"},
            {"repeat": f"R3/{spelt}/PT5H"},
            {"rate": "3650 days", "anchor": spelt},
        ):
            try:
                schedule = read_schedule(spec | {"zone": zone}, now_ms=NOW_MS)
            except ScheduleRefused as error:
                check(error)
                continue
            assert describe(schedule)
            assert warnings_of(schedule) is not None
            for at_ms in (-62_135_596_800_000, NOW_MS, 253_402_300_799_000):
                found = next_after(schedule, at_ms)
                assert found is None or found > at_ms


def test_until_the_end_of_time_is_for_ever() -> None:
    schedule = read_schedule({"rrule": "DTSTART:20260101T000000\nRRULE:FREQ=DAILY;UNTIL=99991231T235959Z"}, now_ms=0)
    assert next_after(schedule, NOW_MS) == NOW_MS + 86_400_000
