"""Exclusion calendars: the days and hours on which nothing should start.

Owns: `Calendar`, a named, versioned, immutable value, and the pure question whether it excludes an instant
and until when.
Refuses to know: schedules, where calendars are stored, the present.
Protects: one calendar (name, version) gives the same answer for ever; a change is a new version.

Everything in a calendar is local time of its own zone: 25 December is that day in New York, whatever the zone
of the job.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tickwork.core.schedule.calendars.holiday import Holiday, observed_days
from tickwork.core.schedule.instant import civil
from tickwork.core.schedule.limits import DAY_S, EXCLUDED_SPAN_S, FIRST_S, LAST_S, SEGMENTS_WALKED_MAX
from tickwork.core.schedule.refusal import ScheduleRefused
from tickwork.core.schedule.walk import ClockChanges, resolve
from tickwork.core.schedule.zone import Zone, zone_named

WEEK_S = 7 * DAY_S
YEARS_KEPT_MAX = 64

#: Longer than any search: for a calendar that excludes each day of the week.
EVER_S = 2 * EXCLUDED_SPAN_S


class Holidays(tuple[Holiday, ...]):
    """The rules of a calendar, which remember the days of a year: finding them takes a look at every rule."""

    @cached_property
    def _years(self) -> dict[int, Mapping[int, str]]:
        return {}

    @cached_property
    def _nominal(self) -> dict[int, list[tuple[int, Holiday]]]:
        return {}

    def in_year(self, year: int) -> Mapping[int, str]:
        """The excluded days of a year, and the first name that each has; a substitute day may be moved in from a
        neighbouring year."""
        if year not in self._years:
            if len(self._years) >= YEARS_KEPT_MAX:
                self._years.clear()
            nominal = [entry for near in (year - 1, year, year + 1) for entry in self._nominal_days(near)]
            self._years[year] = observed_days(nominal)
        return self._years[year]

    def _nominal_days(self, year: int) -> list[tuple[int, Holiday]]:
        """(day, rule) of each holiday of a year, before any is moved."""
        if year not in self._nominal:
            if len(self._nominal) >= YEARS_KEPT_MAX:
                self._nominal.clear()
            self._nominal[year] = [(day, rule) for rule in self if (day := rule.nominal_day(year)) is not None]
        return self._nominal[year]


NO_HOLIDAYS = Holidays()


@dataclass(frozen=True, slots=True)
class Calendar:
    """What is excluded. `parse_calendar` makes one from what a person wrote.

    `spans`: disjoint, sorted (from, to) local seconds, the end not included: single dates, ranges of dates,
    freezes. `windows`: disjoint, sorted (from, to) seconds of the week, Sunday 00:00 being 0; `to` may lie in the next.
    `holidays`: rules that name a day of each year.
    """

    name: str
    version: int
    zone: str
    spans: tuple[tuple[int, int], ...] = ()
    windows: tuple[tuple[int, int], ...] = ()
    holidays: Holidays = NO_HOLIDAYS
    hard: bool = False
    """Whether what is late (a catch-up, a retry) has to wait for the end as well: see `hard_freeze`."""

    def excludes(self, instant_ms: int) -> bool:
        """Whether nothing should start at `instant_ms`."""
        return self.excluded_until_s(instant_ms // 1000) is not None

    def excluded_until_s(self, instant_s: int) -> int | None:
        """When `instant_s` is excluded: the first instant that this part of the calendar no longer excludes
        (another part may). Else None."""
        zone = zone_named(self.zone)
        block = self.local_block(instant_s + zone.offset_at(instant_s))
        return None if block is None else _instant_after(block[1], zone, instant_s)

    def excluded_since_s(self, instant_s: int) -> int | None:
        """When `instant_s` is excluded: the first instant of what excludes it here. Else None."""
        zone = zone_named(self.zone)
        block = self.local_block(instant_s + zone.offset_at(instant_s))
        return None if block is None else _instant_before(block[0], zone, instant_s)

    def first_excluded_s(self, from_s: int, before_s: int) -> int | None:
        """The first excluded instant in `from_s` <= t < `before_s`."""
        zone, at = zone_named(self.zone), from_s
        for _ in range(SEGMENTS_WALKED_MAX):
            if at >= before_s:
                return None
            segment = zone.segment_at(at)
            end = min(before_s, segment.end_s)
            found = self._first_local(at + segment.offset_s, end + segment.offset_s)
            if found is not None:
                return found - segment.offset_s
            at = end
        return None

    def _first_local(self, low: int, high: int) -> int | None:
        """The first excluded local second in `low` <= t < `high`."""
        if low >= high or self.local_block(low) is not None:
            return low if low < high else None
        starts = [start for start, _ in self.spans[bisect_right(self.spans, (low, 1 << 62)) :][:1]]
        if self.windows:
            of_week = _of_week(low)
            index = bisect_right(self.windows, (of_week, 1 << 62)) % len(self.windows)
            starts.append(low + (self.windows[index][0] - of_week) % WEEK_S)
        if self.holidays:
            days = range(low // DAY_S + 1, -(-high // DAY_S))
            day = next((day for day in days if day in self.holidays.in_year(civil(day * DAY_S).year)), None)
            starts += [] if day is None else [day * DAY_S]
        return min((start for start in starts if start < high), default=None)

    def local_block(self, local_s: int) -> tuple[int, int] | None:
        """The excluded stretch (from, to) of local seconds around `local_s`, the end not included."""
        blocks = [block for block in (self._span(local_s), self._window(local_s)) if block is not None]
        day = local_s // DAY_S
        if self.holidays and day in self.holidays.in_year(civil(local_s).year):
            blocks.append((day * DAY_S, (day + 1) * DAY_S))
        if not blocks:
            return None
        return min(start for start, _ in blocks), max(end for _, end in blocks)

    @property
    def unnamed(self) -> Calendar:
        """The same times, without what its holidays are called."""
        return replace(self, holidays=Holidays(replace(rule, name="") for rule in self.holidays))

    def reason(self, local_s: int) -> str:
        """The holiday's name, or the calendar's."""
        name = self.holidays.in_year(civil(local_s).year).get(local_s // DAY_S)
        return f"{name} ({self.name})" if name else self.name

    def _span(self, local_s: int) -> tuple[int, int] | None:
        return _around(self.spans, local_s)

    def _window(self, local_s: int) -> tuple[int, int] | None:
        of_week = _of_week(local_s)
        for moment in (of_week, of_week + WEEK_S):
            window = _around(self.windows, moment)
            if (
                window is not None
                and window[1] - window[0] >= WEEK_S
                and FIRST_S < local_s - EVER_S < LAST_S - 2 * EVER_S
            ):
                return local_s - EVER_S, local_s + EVER_S  # the whole week, each week
            if window is not None:
                return local_s + window[0] - moment, local_s + window[1] - moment
        return None


def _around(stretches: tuple[tuple[int, int], ...], at: int) -> tuple[int, int] | None:
    """The one of disjoint, sorted stretches that `at` lies in."""
    index = bisect_right(stretches, (at, 1 << 62)) - 1
    return stretches[index] if index >= 0 and at < stretches[index][1] else None


def _of_week(local_s: int) -> int:
    return (local_s + 4 * DAY_S) % WEEK_S  # the epoch was a Thursday


def _instant_after(local_end_s: int, zone: Zone, instant_s: int) -> int:
    """The instant at which the wall clock shows `local_end_s`, after `instant_s` even in a repeated hour."""
    first = resolve(local_end_s, zone, ClockChanges())
    if first is None or first <= instant_s:
        first = resolve(local_end_s, zone, ClockChanges(fold="second"))
    return max(first or 0, instant_s + 1)


def _instant_before(local_start_s: int, zone: Zone, instant_s: int) -> int:
    """The last instant at which the wall clock shows `local_start_s`, not after `instant_s`. In a repeated hour that is
    the second pass for what lies in it: between what the two passes exclude may be what neither does."""
    for fold in ("second", "first"):
        found = resolve(local_start_s, zone, ClockChanges(fold=fold))
        if found is not None and found <= instant_s:
            return found
    return instant_s


def require(names: tuple[str, ...], calendars: Mapping[str, Calendar]) -> tuple[Calendar, ...]:
    """The named calendars; `ScheduleRefused` when one is missing."""
    for name in names:
        if name not in calendars:
            raise ScheduleRefused(
                "unknown_calendar", f"there is no calendar {name!r}", field="calendars.exclude",
                remedy="create the calendar first, or take its name out",
            )  # fmt: skip
    return tuple(calendars[name] for name in names)
