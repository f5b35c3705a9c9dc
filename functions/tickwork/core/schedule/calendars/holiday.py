"""Holidays: a day of each year, by a rule.

Owns: the year rules: a fixed date (`12-25`), the n-th or last weekday of a month (`nov thu#4`, `may
mon#last`), days from Easter Sunday (`easter-2`), and moving a holiday off a weekend.
Refuses to know: calendars, zones. Protects: a rule gives at most one day per year, for every year; no two holidays
of different days are observed on one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Final

from tickwork.core.schedule.cron.days import month_length
from tickwork.core.schedule.instant import EPOCH_ORDINAL
from tickwork.core.schedule.refusal import ScheduleRefused

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIXED: Final = re.compile(r"([0-9]{1,2})-([0-9]{1,2})", re.ASCII)
_NTH: Final = re.compile(rf"({'|'.join(_MONTHS)}) +({'|'.join(_DAYS)})#([1-5]|last)", re.ASCII)
_EASTER: Final = re.compile(r"easter(?:([+-])([0-9]{1,2}))?", re.ASCII)

#: Sunday and Saturday.
_WEEKEND: Final = (0, 6)

#: Where a holiday on a weekend is observed.
OBSERVED: Final = ("same_day", "nearest_weekday", "next_weekday")


@dataclass(frozen=True, slots=True)
class Holiday:
    """One rule. `first_year`..`last_year` (both included) bound it; `observed` is one of `OBSERVED`."""

    rule: str
    name: str = ""
    observed: str = "same_day"
    first_year: int = 1
    last_year: int = 9999

    def nominal_day(self, year: int) -> int | None:
        """The day (since the epoch) of `year` that the rule names; None when there is none."""
        if not max(self.first_year, 2) <= year <= min(self.last_year, 9998):
            return None
        return _nominal_day(self.rule, year)

    def day_in(self, year: int) -> int | None:
        """The day on which the holiday of `year` is observed, other holidays aside."""
        day = self.nominal_day(year)
        return None if day is None else next(iter(observed_days([(day, self)])))


def observed_days(holidays: Iterable[tuple[int, Holiday]]) -> dict[int, str]:
    """The days on which holidays, given with the days they name, are observed, and the first name that each has.

    Those that stay where they are come first. Then, in the order of their days, each that falls on a weekend takes the
    weekday it is moved to; where that is a holiday already (Christmas and Boxing Day on a weekend), the next that is
    none. Holidays of one day are moved together.
    """
    staying: dict[int, str] = {}
    moving: dict[tuple[int, str], str] = {}
    for day, holiday in holidays:
        if holiday.observed == "same_day" or (day + 4) % 7 not in _WEEKEND:
            staying[day] = staying.get(day) or holiday.name
        else:
            moving[day, holiday.observed] = moving.get((day, holiday.observed)) or holiday.name
    days = dict(staying)
    for (day, observed), name in sorted(moving.items()):
        moved = _observed_day(day, observed)
        while moved in days or (moved + 4) % 7 in _WEEKEND:  # one more for each holiday at most
            moved += 1
        days[moved] = name
    return days


def check_rule(rule: str, field: str) -> str:
    """`rule` when it is one that gives a day; else `ScheduleRefused`. A fifth weekday comes in some years only, 29
    February in others: one of 28 years in a row has each of the possible years."""
    if not any(_nominal_day(rule, year) is not None for year in range(2024, 2052)):
        raise ScheduleRefused(
            "bad_holiday", f"{rule!r} names no day", field=field,
            remedy="write 12-25 (month-day), nov thu#4, may mon#last or easter-2",
        )  # fmt: skip
    return rule


def _nominal_day(rule: str, year: int) -> int | None:
    if fixed := _FIXED.fullmatch(rule):
        month, day = int(fixed[1]), int(fixed[2])
        if not 1 <= month <= 12 or not 1 <= day <= month_length(year, month):
            return None
        return _day(year, month, day)
    if nth := _NTH.fullmatch(rule):
        return _nth_weekday(year, _MONTHS.index(nth[1]) + 1, _DAYS.index(nth[2]), nth[3])
    if easter := _EASTER.fullmatch(rule):
        shift = int(easter[2] or 0)
        return easter_day(year) + (-shift if easter[1] == "-" else shift)
    return None


def _nth_weekday(year: int, month: int, dow: int, nth: str) -> int | None:
    length = month_length(year, month)
    first = _day(year, month, 1)
    offset = (dow - (first + 4)) % 7
    days = range(first + offset, first + length, 7)
    if nth == "last":
        return days[-1]
    return days[int(nth) - 1] if int(nth) <= len(days) else None


def _observed_day(day: int, observed: str) -> int:
    """The weekday to which a day of a weekend is moved."""
    if (day + 4) % 7 == 0:
        return day + 1
    return day - 1 if observed == "nearest_weekday" else day + 2


def easter_day(year: int) -> int:
    """Western Easter Sunday (days since the epoch), by the Gregorian computus as published by Meeus."""
    a, (b, c) = year % 19, divmod(year, 100)
    d, e = divmod(b, 4)
    g = (8 * b + 13) // 25
    h = (19 * a + b - d - g + 15) % 30
    i, k = divmod(c, 4)
    w = (32 + 2 * e + 2 * i - h - k) % 7
    m = (a + 11 * h + 22 * w) // 451
    month, day = divmod(h + w - 7 * m + 114, 31)
    return _day(year, month, day + 1)


def _day(year: int, month: int, day: int) -> int:
    return date(year, month, day).toordinal() - EPOCH_ORDINAL
