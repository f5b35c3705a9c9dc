"""Bounded work: no expression, zone or calendar makes a search long."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import resources
from itertools import pairwise
from struct import unpack
from typing import Any

import pytest
from benchmarks.nasty import nasty_specs

from tickwork.core.schedule import (
    ScheduleRefused,
    default_tolerance_s,
    describe,
    next_after,
    parse_calendar,
    parse_schedule,
    prev_before,
    read_schedule,
    schedule_from_spec,
    warnings_of,
)
from tickwork.core.schedule import parse as parse_module
from tickwork.core.schedule.limits import FIRST_S, LAST_S
from tickwork.core.schedule.rrule import parse_rrule
from tickwork.core.schedule.zone import FAR_PROBE_S, PROBE_S, zone_named, zone_names

NOW_MS = 1_772_323_200_000  # 1 March 2026
FAR_YEAR_S = 4_102_444_800  # 2100


def best_ms(call: Callable[[], object], rounds: int = 7) -> float:
    """The best of several rounds: what the work costs, not what the machine was doing meanwhile."""
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - began)
    return best * 1000


def test_the_next_leap_day_is_found_within_two_milliseconds_with_cold_caches() -> None:
    spec = parse_schedule({"cron": "0 0 29 2 *", "zone": "America/New_York"}, now_ms=NOW_MS).spec

    def cold() -> None:
        zone_named("America/New_York")._chunks.clear()
        parse_module._from_json.cache_clear()
        assert next_after(schedule_from_spec(spec), NOW_MS) == 1_835_413_200_000  # 2028-02-29T05:00Z

    zone_named("America/New_York")
    assert best_ms(cold) < 2


@pytest.mark.parametrize(
    "text", ["0 0 30 2 *", "0 0 31 2 */2", "0 0 31 4,6,9,11 *", "0 0 31 2,4 *", "59 23 30-31 feb ?"]
)
def test_a_date_that_never_comes_is_refused_when_registered(text: str) -> None:
    with pytest.raises(ScheduleRefused, match="no date matches") as refused:
        parse_schedule({"cron": text}, now_ms=NOW_MS)
    assert (refused.value.reason, refused.value.field) == ("never_fires", "cron")


@pytest.mark.parametrize("text", ["0 0 31 2 1", "0 0 29 2 */7", "0 0 29 2 *", "0 0 31 1-12/11 *"])
def test_a_rare_date_is_accepted(text: str) -> None:
    assert next_after(parse_schedule({"cron": text}, now_ms=NOW_MS), NOW_MS) is not None


def test_a_leap_day_that_must_be_a_sunday_is_found_across_the_missing_one_of_2100() -> None:
    schedule = read_schedule({"cron": "0 0 29 2 */7"}, now_ms=NOW_MS)
    assert next_after(schedule, 3_900_000_000_000) == 4_991_068_800_000  # 2128-02-29, 40 years after 2088


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati", "Etc/GMT+12"])
@pytest.mark.parametrize("text", ["* * * * *", "0 2 * * *", "0 0 29 2 *", "0 0 1 1 *"])
def test_the_ends_of_time_are_an_end_and_not_an_error(zone: str, text: str) -> None:
    schedule = read_schedule({"cron": text, "zone": zone}, now_ms=NOW_MS)
    for instant_s in (FIRST_S, LAST_S, -(1 << 60), 1 << 60):
        for answer in (next_after(schedule, instant_s * 1000), prev_before(schedule, instant_s * 1000)):
            assert answer is None or FIRST_S <= answer // 1000 <= LAST_S
    assert next_after(schedule, LAST_S * 1000) is None
    assert prev_before(schedule, FIRST_S * 1000) is None


def test_a_calendar_that_excludes_everything_ends_the_search() -> None:
    everything = {"c": parse_calendar({"name": "c", "weekly": ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]})}
    for how, text in (("skip", "* * * * *"), ("next_working_day", "0 * * * *")):
        schedule = parse_schedule({"cron": text, "calendars": {"exclude": ["c"], "on_excluded": how}}, now_ms=NOW_MS)
        assert next_after(schedule, NOW_MS, everything) is None
        assert prev_before(schedule, NOW_MS, everything) is None


def test_a_calendar_may_exclude_the_last_days_that_can_be_computed() -> None:
    last = {"l": parse_calendar({"name": "l", "ranges": [{"from": "9999-11-25", "to": "9999-12-31"}]})}
    for how in ("skip", "next_working_day"):
        spec = {"cron": "0 9 * * *", "calendars": {"exclude": ["l"], "on_excluded": how}}
        schedule = read_schedule(spec, now_ms=NOW_MS)
        for back_days in (1, 10, 30):
            at = (LAST_S - back_days * 86_400) * 1000
            assert next_after(schedule, at, last) is None
            assert prev_before(schedule, at, last) is not None


def test_a_job_of_every_minute_cannot_be_moved_to_the_next_working_day() -> None:
    spec = {"cron": "*/5 * * * *", "calendars": {"exclude": ["c"], "on_excluded": "next_working_day"}}
    with pytest.raises(ScheduleRefused, match="every 300 s"):
        parse_schedule(spec, now_ms=NOW_MS)


def test_a_job_of_every_second_passes_a_long_freeze_in_one_step() -> None:
    freeze = {"f": parse_calendar({"name": "f", "ranges": [{"from": "2026-03-01", "to": "2026-05-31"}]})}
    schedule = parse_schedule({"cron": "* * * * * *", "seconds": True, "calendars": {"exclude": ["f"]}}, now_ms=NOW_MS)
    june = 1_780_272_000_000
    assert next_after(schedule, NOW_MS, freeze) == june
    assert prev_before(schedule, june, freeze) == NOW_MS - 1000


def test_no_two_changes_of_a_zone_are_closer_than_the_probes() -> None:
    """`zone` finds changes by looking every `PROBE_S`; this is what that rests on."""
    assert min(closest for key in sorted(zone_names()) if (closest := _closest_changes(key))) > PROBE_S


def _closest_changes(key: str) -> int | None:
    """The fewest seconds between two changes of offset in a zone file (RFC 9636)."""
    content = resources.files("tzdata").joinpath("zoneinfo", *key.split("/")).read_bytes()
    isut, isstd, leap, times, types, chars = unpack(">20x6l", content[:44])
    # The second block, with 64-bit times, follows the first.
    content = content[44 + times * 5 + types * 6 + chars + leap * 8 + isstd + isut :]
    times = unpack(">32x1l", content[:36])[0]
    instants = unpack(f">{times}q", content[44 : 44 + 8 * times])
    table = content[44 + 9 * times :]
    kinds = [0, *content[44 + 8 * times : 44 + 9 * times]]
    offsets = [unpack(">l", table[6 * kind : 6 * kind + 4])[0] for kind in kinds]
    moved = [at for at, (old, new) in zip(instants, pairwise(offsets), strict=True) if old != new]
    return min((later - earlier for earlier, later in pairwise(moved)), default=None)


def test_after_what_its_file_lists_a_zone_changes_months_apart_only() -> None:
    """There `zone` looks every `FAR_PROBE_S`."""
    for key in sorted(zone_names()):
        zone = zone_named(key)
        assert zone._listed_until_s < FAR_YEAR_S, key
        offsets = [zone._probe(FAR_YEAR_S + day * 86_400) for day in range(800)]
        changed = [day for day, (before, after) in enumerate(pairwise(offsets)) if before != after]
        assert all((b - a) * 86_400 > FAR_PROBE_S for a, b in pairwise(changed)), key


def steps_of(call: Callable[[], object]) -> int:
    """Calls of functions, ours and the interpreter's, with nothing remembered: the same on every machine."""
    for cache in (parse_module._from_json, parse_rrule, zone_named):
        cache.cache_clear()
    steps = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal steps
        steps += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(before)
    return steps


def register(spec: dict[str, Any]) -> None:
    """What a registration does with a schedule, stores aside."""
    try:
        schedule = parse_schedule(spec, now_ms=NOW_MS, job_id="team:job")
    except ScheduleRefused:
        return
    assert warnings_of(schedule) is not None
    assert describe(schedule)
    assert default_tolerance_s(schedule) >= 0
    if not schedule.calendar_names:
        assert next_after(schedule, NOW_MS) is not None


STEPS_MAX = 600_000
"""Some 40 ms of a slow machine."""


@pytest.mark.parametrize("name", nasty_specs())
def test_any_spec_is_registered_or_refused_in_a_bounded_number_of_steps(name: str) -> None:
    spec = nasty_specs()[name]
    assert steps_of(lambda: register(spec)) < STEPS_MAX


EVERY_DAY = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
NIGHTS = [
    {"from": f"{day} 22:00", "to": f"{EVERY_DAY[(number + 1) % 7]} 06:00"} for number, day in enumerate(EVERY_DAY)
]
FULL = {
    "everything": {"weekly": EVERY_DAY},
    "each night": {"weekly": NIGHTS},
    "a thousand holidays": {"holidays": [f"{n % 12 + 1:02d}-{n % 28 + 1:02d}" for n in range(1_000)]},
    "thirty years": {"ranges": [{"from": "2026-01-01", "to": "2056-01-01"}]},
    "a thousand ranges": {
        "ranges": [{"from": f"20{n // 300 + 26}-{n // 28 % 10 + 1:02d}-{n % 28 + 1:02d}T05:00",
                    "to": f"20{n // 300 + 26}-{n // 28 % 10 + 1:02d}-{n % 28 + 1:02d}T23:30"} for n in range(1_000)],
    },
}  # fmt: skip


@pytest.mark.parametrize("how", ["skip", "next_working_day"])
@pytest.mark.parametrize("text", ["0 23 * * *", "0 * * * *", "0 9 25 12 *", "30 2 29 2 */7"])
@pytest.mark.parametrize("name", FULL)
def test_any_calendar_is_searched_in_a_bounded_number_of_steps(name: str, text: str, how: str) -> None:
    names = [f"c{n}" for n in range(20)]
    known = {one: parse_calendar({"name": one, "zone": "America/New_York", **FULL[name]}) for one in names[:1]}
    known |= {one: parse_calendar({"name": one, "dates": ["2030-01-01"]}) for one in names[1:]}
    schedule = parse_schedule({"cron": text, "calendars": {"exclude": names, "on_excluded": how}}, now_ms=NOW_MS)
    assert steps_of(lambda: next_after(schedule, NOW_MS, known)) < 5 * STEPS_MAX
    assert steps_of(lambda: prev_before(schedule, NOW_MS, known)) < 5 * STEPS_MAX
