"""The herd forecast (O6): it counts what dispatch does, says whose it is, and what would make a peak lower."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from benchmarks.herd import BEGIN_MS, definitions

from tickwork.core.instants import DAY_MS, MINUTE_MS, parse_iso
from tickwork.core.jobs.definitions import Job
from tickwork.core.jobs.herd import Due, forecast, peaks
from tickwork.core.jobs.herd_dates import marks, note_of
from tickwork.core.jobs.occurrences import following
from tickwork.core.ledger.work import Work
from tickwork.core.schedule import parse_calendar, parse_schedule

NOW_MS = parse_iso("2026-12-01T00:00:00Z")


def due(name: str, spec: dict[str, Any], tolerance_s: int = 0, **more: Any) -> Due:
    return Due(f"pay:{name}", parse_schedule(spec, now_ms=NOW_MS, job_id=f"pay:{name}"), tolerance_s, **more)


def by_dispatch(one: Due, begin_ms: int, end_ms: int) -> tuple[Counter[int], Counter[int]]:
    """(nominal, fired) by minute, as a chain would step it, one occurrence after the other."""
    team, _, name = one.job_id.partition(":")
    job = Job(team, name, one.schedule.spec, Work("p", "h"), one.tolerance_s, calendars=one.calendars)
    nominal, fired = Counter[int](), Counter[int]()
    at = following(job, begin_ms - DAY_MS - 1, 1)
    while at is not None and at.scheduled_at_ms < end_ms:
        for counts, at_ms in ((nominal, at.scheduled_at_ms), (fired, at.fire_at_ms)):
            if begin_ms <= at_ms < end_ms:
                counts[(at_ms - begin_ms) // MINUTE_MS] += 1
        at = following(job, at.scheduled_at_ms, 1)
    return nominal, fired


def check(jobs: list[Due], begin_ms: int, days: int) -> None:
    found = forecast(jobs, begin_ms, days)
    nominal, fired = Counter[int](), Counter[int]()
    for one in jobs:
        mine = by_dispatch(one, begin_ms, begin_ms + days * DAY_MS)
        nominal.update(mine[0])
        fired.update(mine[1])
    assert {index: count for index, count in enumerate(found.before) if count} == nominal
    assert {index: count for index, count in enumerate(found.after) if count} == fired


def test_it_counts_what_a_chain_would_fire() -> None:
    check(list(definitions(60, seed=7)), BEGIN_MS, 1)


FREEZE = {"zone": "UTC", "ranges": [{"from": "2026-12-02T10:00", "to": "2026-12-02T12:02"}], "hard": True}
HARD = [
    ({"cron": "* * * * *"}, 300),  # as much as five gaps
    ({"cron": "0,1 * * * *", "zone": "Europe/Berlin"}, 600),
    ({"rate": "7 seconds", "anchor": "2026-11-30T00:00:03Z"}, 0),
    ({"rate": "100 seconds", "anchor": "2026-12-01T12:34:56Z"}, 90),  # anchored within
    ({"rate": "1 hour", "anchor": "2026-01-01T00:00:07Z"}, 3_000),
    ({"cron": "0 12 * * *", "end": "2026-12-02T12:01:00Z"}, 300),  # cut at its end
    ({"at": "2026-12-02T06:00:00Z"}, 120),
    ({"cron": "59 23 * * *"}, 86_400),  # fires on the next day
    ({"any_of": [{"cron": "0 1 * * *", "zone": "UTC"}, {"rrule": "FREQ=DAILY", "start": "2026-11-30T01:01:00Z"}]}, 300),
    ({"cron": "30 2 * * *", "zone": "America/New_York"}, 30),
]


@pytest.mark.parametrize(("spec", "tolerance_s"), HARD, ids=[next(iter(spec)) for spec, _ in HARD])
def test_it_counts_it_where_jitter_has_less_room(spec: dict[str, Any], tolerance_s: int) -> None:
    jobs = [due(f"job-{n}", spec, tolerance_s) for n in range(3)]
    check(jobs, parse_iso("2026-12-01T11:43:00Z"), 1)


def test_it_counts_it_around_a_freeze() -> None:
    calendars = {"freeze": parse_calendar({**FREEZE, "name": "freeze", "version": 1})}
    spec = {"cron": "*/10 * * * *", "calendars": {"exclude": ["freeze"]}}
    check([due(f"job-{n}", spec, 290, calendars=calendars) for n in range(4)], parse_iso("2026-12-02T00:00:00Z"), 1)


def test_jobs_that_are_due_together_cost_one_search_and_rates_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from tickwork.core.jobs import herd

    searched = []
    right = herd.scheduled_between
    monkeypatch.setattr(herd, "scheduled_between", lambda *all_: searched.append(all_) or right(*all_))
    jobs = [due(f"a-{n}", {"cron": "0 0 * * *"}, 300) for n in range(50)]
    jobs += [due(f"b-{n}", {"rate": "1 hour", "anchor": f"2026-01-01T00:00:{n:02}Z"}) for n in range(50)]
    found = forecast(jobs, NOW_MS, 14)
    assert (len(searched), sum(found.before)) == (1, 50 * 14 + 50 * 14 * 24)


def herd_of(exact: int, spread: int, other: int) -> list[Due]:
    midnight = {"cron": "0 0 * * *"}
    jobs = [due(f"exact-{n}", midnight) for n in range(exact)]
    jobs += [due(f"spread-{n}", midnight, 300) for n in range(spread)]
    return jobs + [replace(due(f"x-{n}", midnight), job_id=f"web:x-{n}") for n in range(other)]


def test_a_peak_says_whose_it_is_and_what_would_make_it_lower() -> None:
    jobs = herd_of(120, 500, 30)
    (peak,) = peaks(forecast(jobs, NOW_MS - MINUTE_MS, 1), 1, 300)
    assert peak.at_ms == NOW_MS
    assert peak.before == 650
    assert peak.exact == 150
    assert 150 + 60 < peak.after < 150 + 140, "a fifth of those that are spread over five minutes"
    assert peak.teams == (("pay", peak.after - 30), ("web", 30))
    assert sum(count for _, count in peak.teams) == peak.after
    give, longer, another = peak.advice
    assert (give.jobs, longer.jobs, another.jobs) == (150, peak.after - 150, peak.after - 30)
    assert peak.after - 150 + 15 < give.height < peak.after - 150 + 50
    assert longer.height == 150 + (peak.after - 150) // 6
    assert another.height == 30 + -(-(peak.after - 30) // 60)


def test_what_is_said_of_those_without_a_tolerance_comes_true() -> None:
    jobs = herd_of(200, 100, 0)
    (peak,) = peaks(forecast(jobs, NOW_MS - MINUTE_MS, 1), 1, 300)
    given = [replace(job, tolerance_s=300) for job in jobs]
    assert forecast(given, NOW_MS - MINUTE_MS, 1).after[1] == peak.advice[0].height


def test_peaks_come_by_height_and_of_the_same_height_the_first() -> None:
    jobs = [due("a", {"cron": "0 * * * *"}), due("b", {"cron": "0 3 * * *"})]
    found = peaks(forecast(jobs, NOW_MS, 2), 3, 300)
    assert [(peak.at_ms - NOW_MS, peak.after, peak.days) for peak in found] == [
        (10_800_000, 2, 2),
        (0, 1, 2),
        (3_600_000, 1, 2),
    ]
    assert peaks(forecast([], NOW_MS, 1), 3, 300) == []


def test_dates_that_matter_are_named() -> None:
    zones = [due(f"z-{n}", {"cron": "0 2 * * *", "zone": "Europe/Berlin"}).schedule for n in range(3)]
    begin_ms = parse_iso("2026-10-20T00:00:00Z")
    found = marks(zones, begin_ms, 14)
    assert [(mark.at_ms, mark.what) for mark in found] == [
        (parse_iso("2026-10-25T01:00:00Z"), "clocks go back 60 min in Europe/Berlin (3 jobs)"),
        (parse_iso("2026-11-01T00:00:00Z"), "a month begins (UTC)"),
    ]
    assert marks([], parse_iso("2026-12-31T00:00:00Z"), 2)[0].what == "New Year (UTC)"
    assert note_of(parse_iso("2026-11-01T00:00:00Z"), found) == "midnight UTC; a month begins (UTC)"
    assert note_of(parse_iso("2026-10-28T00:01:00Z"), found) == ""


def test_random_herds_are_counted_as_they_fire() -> None:
    rng = Random(5)
    jobs = [
        due(
            f"r-{n}",
            {"cron": f"*/{rng.choice((1, 2, 7, 30))} {rng.choice(('*', '3', '1-4'))} * * *"},
            rng.choice((0, 30, 59, 61, 200, 900)),
        )
        for n in range(20)
    ]
    check(jobs, parse_iso("2026-12-03T00:17:00Z"), 1)


# --- found by planting bugs -------------------------------------------------------------------------------------


def test_it_begins_with_a_whole_minute() -> None:
    jobs = [due("a", {"cron": "*/7 * * * *"}, 50)]
    assert forecast(jobs, NOW_MS + 30_001, 1) == forecast(jobs, NOW_MS, 1)


def test_rates_that_begin_within_are_counted_from_their_beginnings_on() -> None:
    rates = [{"rate": "1 hour", "anchor": f"2026-12-0{day}T00:20:00Z"} for day in (1, 2, 3)]
    check([due(f"r-{n}", spec, 60) for n, spec in enumerate(rates)], NOW_MS, 3)


def test_calendars_of_one_name_are_of_their_teams() -> None:
    spec = {"cron": "0 0 * * *", "calendars": {"exclude": ["days"]}}
    jobs = []
    for team, day in (("pay", "2026-12-02"), ("web", "2026-12-03")):
        days = parse_calendar({"zone": "UTC", "dates": [day], "name": "days", "version": 1})
        jobs.append(replace(due("a", spec, calendars={"days": days}), job_id=f"{team}:a"))
    check(jobs, NOW_MS, 4)


@pytest.mark.parametrize("spec", [{"rate": "1 minute", "anchor": "2026-01-01T00:00:00Z"}, {"cron": "* * * * *"}])
def test_the_last_one_has_no_more_room_than_the_others(spec: dict[str, Any]) -> None:
    check([due(f"job-{n}", spec, 300) for n in range(8)], NOW_MS, 1)


def test_what_ends_within_is_cut_there() -> None:
    jobs = [due(f"job-{n}", {"cron": "0 12 * * *", "end": "2026-12-01T12:01:00Z"}, 300) for n in range(8)]
    check(jobs, NOW_MS, 1)


def test_a_peak_says_on_how_many_days_it_comes() -> None:
    jobs = [due(f"d-{n}", {"cron": "0 0 * * *"}) for n in range(5)]
    jobs += [due(f"m-{n}", {"cron": "0 0 2 * *"}) for n in range(5)]
    (peak,) = peaks(forecast(jobs, NOW_MS, 3), 1, 300)
    assert (peak.at_ms - NOW_MS, peak.after, peak.days) == (DAY_MS, 10, 1)


@pytest.mark.parametrize("spec", [{"cron": "0 0 * * *"}, {"cron": "0,1,2 0 * * *"}])
def test_all_of_a_peak_are_somebodys_also_where_jitter_has_brought_them(spec: dict[str, Any]) -> None:
    jobs = [due(f"job-{n}", spec, 300) for n in range(60)]
    found = peaks(forecast(jobs, NOW_MS, 1), 5, 300)
    assert len(found) >= 3
    assert [sum(count for _, count in peak.teams) for peak in found] == [peak.after for peak in found]


def test_where_no_clock_is_changed_none_is_told_of() -> None:
    schedules = [due("t", {"cron": "0 2 * * *", "zone": "Asia/Tokyo"}).schedule]
    begins = range(parse_iso("2020-01-01T00:00:00Z"), parse_iso("2040-01-01T00:00:00Z"), 92 * DAY_MS)
    assert not [mark for at_ms in begins for mark in marks(schedules, at_ms, 92) if "clocks" in mark.what]


def test_clocks_go_forward_in_spring() -> None:
    schedules = [due("t", {"cron": "0 2 * * *", "zone": "Europe/Berlin"}).schedule]
    (change,) = [one for one in marks(schedules, parse_iso("2027-03-20T00:00:00Z"), 11) if "clocks" in one.what]
    assert (change.at_ms, change.what) == (
        parse_iso("2027-03-28T01:00:00Z"),
        "clocks go forward 60 min in Europe/Berlin (1 jobs)",
    )


def test_what_comes_just_behind_the_last_minute_takes_room_too() -> None:
    jobs = [due(f"job-{n}", {"cron": "*/7 0 * * *"}, 900) for n in range(40)]
    check(jobs, NOW_MS + 17 * MINUTE_MS, 1)
