"""The days of an RRULE (RFC 5545): which days of a year it names, whatever the time of day.

Owns: BYMONTH, BYWEEKNO, BYYEARDAY, BYMONTHDAY and BYDAY as masks over the days of a year, and which periods an
INTERVAL leaves.
Refuses to know: times of day, zones, texts, BYSETPOS (see `rrule`).
Protects: bounded work. Which days of a year match depends on the lengths of the year and its neighbours and on the
weekday of 1 January only, so a rule computes a few dozen masks in its life.

The BY... parts of days limit one another; inside BYDAY, plain and counted weekdays are a union. Weekdays count from
Monday = 0; bit d of a mask stands for the day d of the year, 1 January being 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from tickwork.core.schedule.cron.days import month_length
from tickwork.core.schedule.instant import EPOCH_ORDINAL

#: Every seventh day of 54 weeks: more than a year.
_EACH_WEEK: Final = sum(1 << 7 * week for week in range(54))
_WEEK: Final = 0b111_1111


@dataclass(frozen=True, slots=True)
class DayParts:
    """The parts of a rule that choose days. `start_day` is DTSTART's, in days since the epoch; an empty tuple means
    that the part is not there. `weekdays` are bits, `counted` are (n, weekday) pairs such as the last Friday, (-1, 4).
    """

    freq: str
    interval: int
    start_day: int
    months: tuple[int, ...] = ()
    week_numbers: tuple[int, ...] = ()
    year_days: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    has_weekdays: bool = False
    weekdays: int = 0
    counted: tuple[tuple[int, int], ...] = ()
    week_start: int = 0
    _masks: dict[tuple[bool, bool, bool, int], int] = field(default_factory=dict, compare=False, repr=False)

    def year_mask(self, year: int) -> int:
        """The days of a year that match, intervals aside."""
        leaps = _is_leap(year - 1), _is_leap(year), _is_leap(year + 1)
        key = (*leaps, first_weekday(year))
        mask = self._masks.get(key)
        if mask is None:
            mask = self._masks[key] = self._compute(year)
        return mask

    def days_of(self, year: int) -> int:
        """The mask of the days of a year that match and lie in a period that INTERVAL leaves."""
        mask = self.year_mask(year)
        return mask & self._periods_mask(year) if mask and self.interval > 1 else mask

    def next_year(self, year: int) -> int:
        """The first year, not before `year`, that INTERVAL may leave something of."""
        if self.freq != "YEARLY":
            return year
        return year + (civil_year(self.start_day) - year) % self.interval

    def previous_year(self, year: int) -> int:
        """The last year, not after `year`, that INTERVAL may leave something of."""
        if self.freq != "YEARLY":
            return year
        return year - (year - civil_year(self.start_day)) % self.interval

    def weeks_of(self, year: int) -> Iterator[int]:
        """The first days (since the epoch) of the weeks that INTERVAL leaves and that touch the year."""
        first = first_day(year)
        start = week_begin(self.start_day, self.week_start)
        step = 7 * self.interval
        at = week_begin(first, self.week_start)
        at += (start - at) % step
        yield from range(at, first + year_length(year), step)

    # --- masks ----------------------------------------------------------------------------------------------------

    def _compute(self, year: int) -> int:
        mask = (1 << year_length(year)) - 1
        if self.months:
            mask &= self._months_mask(year)
        if self.week_numbers:
            mask &= self._week_numbers_mask(year)
        if self.year_days:
            mask &= _bits(_counted_in(year_length(year), self.year_days))
        if self.month_days:
            mask &= self._month_days_mask(year)
        if self.has_weekdays:
            mask &= self._weekdays_mask(year)
        return mask

    def _months_mask(self, year: int) -> int:
        return sum(
            ((1 << length) - 1) << first for month, (first, length) in enumerate(months_of(year), 1)
            if month in self.months
        )  # fmt: skip

    def _month_days_mask(self, year: int) -> int:
        by_length = {length: _bits(_counted_in(length, self.month_days)) for length in (28, 29, 30, 31)}
        return sum(by_length[length] << first for first, length in months_of(year))

    def _week_numbers_mask(self, year: int) -> int:
        """Week 1 is the first one with at least four days in the year (ISO 8601, from any first day of the week); the
        first and last days of a calendar year may belong to a week of its neighbours."""
        first, mask = first_day(year), 0
        for other in (year - 1, year, year + 1):
            begin, end = _week_one(other, self.week_start), _week_one(other + 1, self.week_start)
            for number in _counted_in((end - begin) // 7, self.week_numbers):
                place = begin + 7 * number - first
                mask |= _WEEK << place if place >= 0 else _WEEK >> -place
        return mask

    def _weekdays_mask(self, year: int) -> int:
        first, mask = first_weekday(year), 0
        for dow in range(7):
            if self.weekdays >> dow & 1:
                mask |= _EACH_WEEK << (dow - first) % 7
        if not self.counted or self.freq in ("DAILY", "WEEKLY"):  # a day or a week has nothing to count them in
            return mask
        for begin, length in self._counting_spans(year):
            for n, dow in self.counted:
                mask |= _nth(begin, length, (dow - first - begin) % 7, n)
        return mask

    def _counting_spans(self, year: int) -> Iterator[tuple[int, int]]:
        """(first day, length) of what the numbers of BYDAY count in: the year, or each of its months."""
        if self.freq == "YEARLY" and not self.months:
            yield 0, year_length(year)
        else:
            yield from months_of(year)

    def _periods_mask(self, year: int) -> int:
        first, length = first_day(year), year_length(year)
        if self.freq == "DAILY":
            return sum(1 << day for day in range((self.start_day - first) % self.interval, length, self.interval))
        if self.freq == "WEEKLY":
            places = (week - first for week in self.weeks_of(year))
            return sum(_WEEK << place if place >= 0 else _WEEK >> -place for place in places)
        start = date.fromordinal(self.start_day + EPOCH_ORDINAL)
        if self.freq == "YEARLY":
            return 0 if (year - start.year) % self.interval else (1 << length) - 1
        months = (year - start.year) * 12 - start.month
        return sum(
            ((1 << size) - 1) << begin for month, (begin, size) in enumerate(months_of(year), 1)
            if (months + month) % self.interval == 0
        )  # fmt: skip


def civil_year(day: int) -> int:
    """The year of a day since the epoch."""
    return date.fromordinal(day + EPOCH_ORDINAL).year


def first_day(year: int) -> int:
    """1 January as a day since the epoch. Also of the years 0 and 10000, which `date` does not have."""
    before = year - 1
    return before * 365 + before // 4 - before // 100 + before // 400 + 1 - EPOCH_ORDINAL


def first_weekday(year: int) -> int:
    """The weekday of 1 January."""
    return (first_day(year) + 3) % 7  # the epoch was a Thursday


def year_length(year: int) -> int:
    """365 or 366."""
    return 366 if _is_leap(year) else 365


def months_of(year: int) -> Iterator[tuple[int, int]]:
    """(place of its first day in the year, length) of each month."""
    place = 0
    for month in range(1, 13):
        length = month_length(year, month)
        yield place, length
        place += length


def week_begin(day: int, week_start: int) -> int:
    """The first day of the week of `day`."""
    return day - (day + 3 - week_start) % 7


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _week_one(year: int, week_start: int) -> int:
    """The first day of week 1: that of the week that holds 4 January."""
    return week_begin(first_day(year) + 3, week_start)


def _counted_in(size: int, numbers: tuple[int, ...]) -> Iterator[int]:
    """The places (from 0) that positive and negative numbers mean among `size` things."""
    for number in numbers:
        place = number - 1 if number > 0 else size + number
        if number and 0 <= place < size:
            yield place


def _bits(places: Iterator[int]) -> int:
    mask = 0
    for place in places:
        mask |= 1 << place
    return mask


def _nth(begin: int, length: int, offset: int, n: int) -> int:
    """The bit of the n-th (from the end when negative) of the days `begin + offset`, a week apart, in a span."""
    size = (length - offset + 6) // 7
    place = n - 1 if n > 0 else size + n
    return 1 << begin + offset + 7 * place if n and 0 <= place < size else 0
