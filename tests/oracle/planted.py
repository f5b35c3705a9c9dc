"""Faults that were found in the field, to be put back one at a time: the oracle has to see each of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.oracle import sharp
from tests.oracle.compare import Draw, soak
from tickwork.core.jobs import occurrences
from tickwork.core.schedule import engine, ical, normal, recurrence, rrule, rrule_days
from tickwork.core.schedule.calendars import calendar, exclusion, holiday, moving
from tickwork.core.schedule.limits import DAY_S
from tickwork.core.schedule.walk import FIXED_TIME

Plant = Callable[[pytest.MonkeyPatch], None]


def _put(target: object, name: str, fault: object) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(target, name, fault, raising=False)
        rrule.parse_rrule.cache_clear()  # what was read before the fault would go on without it
        from tickwork.core.schedule.parse import _from_json

        _from_json.cache_clear()

    return plant


def _own_time_only(self: moving.Shift, instant_s: int) -> Iterator[int]:
    yield instant_s + self.strand.rule.zone.offset_at(instant_s)


def _beyond_the_end(self: moving.Shift, nominal_s: int, until_s: int) -> list[int]:
    return sorted({at for local in self.named(nominal_s) for at in self._free(local, nominal_s, until_s)})


def _clipped(job_id: str, scheduled_ms: int, tolerance_s: int, limit_ms: int) -> int:
    from tickwork.core.schedule.jitter import fire_at_ms

    return min(fire_at_ms(job_id, scheduled_ms, tolerance_s, None), max(limit_ms - 1000, scheduled_ms))


def _intersected(self: rrule_days.DayParts, year: int) -> int:
    both = bool(self.weekdays and self.counted)
    plain = _WEEKDAYS_MASK(replace(self, counted=(), _masks={}), year) if self.weekdays else -1
    counted = _WEEKDAYS_MASK(replace(self, weekdays=0, _masks={}), year) if self.counted else -1
    return plain & counted if both else _WEEKDAYS_MASK(self, year)


_WEEKDAYS_MASK = rrule_days.DayParts._weekdays_mask


def _cut_first_week(self: rrule.RRuleTimes, year: int) -> Iterator[list[int]]:
    for days in _SETS(self, year):
        yield [day for day in days if day >= self.start_local_s // DAY_S]


_SETS = rrule.RRuleTimes._sets


def _as_wall_time(text: str, zone: Any) -> ical.Moment:
    return replace(_READ_MOMENT(text, zone), instant_s=None)


_READ_MOMENT = ical.read_moment


def _counted_from_the_present(request: Any, given: Any) -> int:
    return int(request.now_s)


def _each_for_itself(holidays: list[tuple[int, holiday.Holiday]]) -> dict[int, str]:
    return {day: "" for one in holidays for day in _OBSERVED([one])}


_OBSERVED = holiday.observed_days


def _two_years(rule: str, field: str) -> str:
    if not any(holiday._nominal_day(rule, year) is not None for year in (2023, 2024)):
        raise exclusion.require(("no day",), {})  # type: ignore[misc]
    return rule


def _two_days_back(self: moving.Shift, instant_s: int) -> int:
    return instant_s - 2 * DAY_S


FAULTS: dict[str, tuple[Plant, Draw]] = {
    "the search for what is moved here looks back two days only": (
        _put(moving.Shift, "_cannot_pass", _two_days_back),
        sharp.far_ahead,
    ),
    "a made-up time is moved, not the one that was named": (
        _put(moving.Shift, "named", _own_time_only),
        sharp.moved_about_clocks,
    ),
    "on the landing day the job's own dst choice is ignored": (
        _put(moving, "changes_of", lambda strand: FIXED_TIME),
        sharp.moved_about_clocks,
    ),
    "a moved run starts after the end": (
        _put(moving.Shift, "moved", _beyond_the_end),
        sharp.ends_close_to_a_run,
    ),
    "jitter starts a job inside a freeze": (
        _put(engine, "_excluded_from_s", lambda *given: None),
        sharp.freeze_close_to_a_run,
    ),
    "jitter starts a job after the end": (
        _put(engine, "_ending_s", lambda *given: None),
        sharp.ends_close_to_a_run,
    ),
    "jitter is clipped to the edge": (
        _put(occurrences, "fire_at_ms", _clipped),
        sharp.freeze_close_to_a_run,
    ),
    "plain and counted weekdays are intersected": (
        _put(rrule_days.DayParts, "_weekdays_mask", _intersected),
        sharp.mixed_weekdays,
    ),
    "BYSETPOS counts from DTSTART in the first week": (
        _put(rrule.RRuleTimes, "_sets", _cut_first_week),
        sharp.mixed_weekdays,
    ),
    "UNTIL in UTC is taken into the zone and back": (
        _put(recurrence, "read_moment", _as_wall_time),
        sharp.instants_in_the_repeated_hour,
    ),
    "DTSTART in UTC is taken into the zone and back": (
        _put(ical, "read_moment", _as_wall_time),
        sharp.instants_in_the_repeated_hour,
    ),
    "end overrides an earlier UNTIL": (
        _put(normal, "min", lambda given, own: given),
        sharp.two_ends,
    ),
    "a count begins in the second that has begun": (
        _put(normal, "_counted_from_s", _counted_from_the_present),
        sharp.counted_from_now,
    ),
    "substitute days collide": (
        _put(calendar, "observed_days", _each_for_itself),
        sharp.substitutes,
    ),
    "a fifth weekday is looked for in two years": (
        _put(
            __import__("tickwork.core.schedule.calendars.calendar_spec", fromlist=["check_rule"]),
            "check_rule",
            _two_years,
        ),
        sharp.substitutes,
    ),
}

SEED = 1
SEARCHED_MAX = 300
"""A fault that no schedule of so many shows is not seen."""

SEEN_BY: dict[str, int] = {
    "the search for what is moved here looks back two days only": 0,
    "a made-up time is moved, not the one that was named": 28,
    "on the landing day the job's own dst choice is ignored": 84,
    "a moved run starts after the end": 0,
    "jitter starts a job inside a freeze": 3,
    "jitter starts a job after the end": 1,
    "jitter is clipped to the edge": 3,
    "plain and counted weekdays are intersected": 0,
    "BYSETPOS counts from DTSTART in the first week": 3,
    "UNTIL in UTC is taken into the zone and back": 6,
    "DTSTART in UTC is taken into the zone and back": 8,
    "end overrides an earlier UNTIL": 3,
    "a count begins in the second that has begun": 0,
    "substitute days collide": 4,
    "a fifth weekday is looked for in two years": 0,
}
"""The first schedule of `SEED` that shows the fault: what the quick test looks at. `python -m tests.oracle.planted`
finds them anew."""


def main() -> int:
    unseen = 0
    for name, (plant, draw) in FAULTS.items():
        with pytest.MonkeyPatch.context() as patch:
            plant(patch)
            report = soak(SEARCHED_MAX, SEED, draw=draw, whole_years=False, first_only=True)
        unseen += not report.differences
        print(f'    "{name}": {report.schedules - 1},' if report.differences else f"    NOT SEEN: {name}", flush=True)
    return int(unseen > 0)


if __name__ == "__main__":
    sys.exit(main())
