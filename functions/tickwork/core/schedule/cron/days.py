"""Which days of a month match: the two day fields of cron, joined.

Owns: the day masks. A month is fully described by its length and the weekday of its first day (28 cases), so
each rule computes at most 28 masks in its life; iterating over days is then bit arithmetic.
Refuses to know: times of day, zones, text.
Protects: the joining rule of spec T2 (OR when neither day field begins with `*`, else AND).

Weekdays count from Sunday = 0, as in cron. Bit d of a mask stands for day d of the month.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

from tickwork.core.schedule.instant import EPOCH_ORDINAL
from tickwork.core.schedule.limits import MONTHS_SEARCHED_MAX

_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True, slots=True)
class DayRule:
    """The months, days of month and weekdays of a cron expression.

    `month_bits`: bits 1..12. `dom_bits`: bits 1..31. `dow_bits`: bits 0..6. `joined_by_and`: see T2.
    The letters, all empty in plain cron: `last_days` are distances from the month's last day (`L` is 0, `L-3`
    is 3); `near_weekdays` are days (`15W`; 0 stands for `LW`, -3 for `L-3W`) moved to the nearest Monday to Friday
    inside the month; `last_dows` are weekdays meant in their last week (`5L`); `nth_dows` are (weekday, n) pairs
    (`5#2`).
    """

    month_bits: int
    dom_bits: int
    dow_bits: int
    joined_by_and: bool
    last_days: tuple[int, ...] = ()
    near_weekdays: tuple[int, ...] = ()
    last_dows: tuple[int, ...] = ()
    nth_dows: tuple[tuple[int, int], ...] = ()
    _masks: dict[int, int] = field(default_factory=dict, compare=False, repr=False)

    def next_day(self, day: int) -> int | None:
        """The first matching day not before `day` (days since the epoch); None when none is left before the
        year 10000, or within 400 years."""
        start = date.fromordinal(day + EPOCH_ORDINAL)
        year, month = start.year, start.month
        first = day - start.day + 1
        mask = self.mask(year, month, first) >> start.day
        if mask:
            return day + (mask & -mask).bit_length() - 1
        for _ in range(MONTHS_SEARCHED_MAX):
            first += month_length(year, month)
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
            if year > 9999:
                return None
            if not self.month_bits >> month & 1:
                continue
            mask = self.mask(year, month, first)
            if mask:
                return first + (mask & -mask).bit_length() - 2
        return None

    def prev_day(self, day: int) -> int | None:
        """The last matching day not after `day`; None when there was none since the year 1."""
        start = date.fromordinal(day + EPOCH_ORDINAL)
        year, month = start.year, start.month
        first = day - start.day + 1
        mask = self.mask(year, month, first) & ((2 << start.day) - 1)
        if mask:
            return first + mask.bit_length() - 2
        for _ in range(MONTHS_SEARCHED_MAX):
            year, month = (year, month - 1) if month > 1 else (year - 1, 12)
            if year < 1:
                return None
            first -= month_length(year, month)
            if not self.month_bits >> month & 1:
                continue
            mask = self.mask(year, month, first)
            if mask:
                return first + mask.bit_length() - 2
        return None

    def mask(self, year: int, month: int, first: int) -> int:
        """The matching days of a month whose first day is `first` (days since the epoch)."""
        if not self.month_bits >> month & 1:
            return 0
        length = month_length(year, month)
        key = length * 7 + (first + 4) % 7  # the epoch was a Thursday
        mask = self._masks.get(key)
        if mask is None:
            mask = self._masks[key] = self._compute(length, (first + 4) % 7)
        return mask

    def _compute(self, length: int, first_dow: int) -> int:
        by_date = self.dom_bits
        for back in self.last_days:
            by_date |= 1 << max(length - back, 0)
        for near in self.near_weekdays:
            by_date |= 1 << _nearest_weekday(near, length, first_dow)
        by_week = 0
        for day in range(1, length + 1):
            if self._week_matches(day, length, (first_dow + day - 1) % 7):
                by_week |= 1 << day
        whole_month = (2 << length) - 2
        return (by_date & by_week if self.joined_by_and else by_date | by_week) & whole_month

    def _week_matches(self, day: int, length: int, dow: int) -> bool:
        if self.dow_bits >> dow & 1:
            return True
        if dow in self.last_dows and day > length - 7:
            return True
        return (dow, (day + 6) // 7) in self.nth_dows


def month_length(year: int, month: int) -> int:
    """The number of days of a month."""
    if month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        return 29
    return _LENGTHS[month]


def _nearest_weekday(day: int, length: int, first_dow: int) -> int:
    """The Monday to Friday nearest to `day` inside the month; 0 (no day's bit) when the month is shorter."""
    if day > length:
        return 0
    wanted = day if day > 0 else length + day
    if wanted < 1:
        return 0
    dow = (first_dow + wanted - 1) % 7
    if dow == 6:
        return wanted - 1 if wanted > 1 else wanted + 2
    if dow == 0:
        return wanted + 1 if wanted < length else wanted - 2
    return wanted
