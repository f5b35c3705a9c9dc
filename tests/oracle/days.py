"""Which days match: cron's two day fields, and an enumeration of RFC 5545 of our own.

Each day is looked at by itself and asked whether it fits; nothing is computed ahead. Shares nothing with the engine.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

WEEK = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


def values(text: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for item in text.split(","):
        body, _, step = item.partition("/")
        first, last = (low, high) if body == "*" else (int(body.split("-")[0]), int(body.split("-")[-1]))
        found.update(range(first, last + 1, int(step or 1)))
    return found


# --- cron -------------------------------------------------------------------------------------------------------------


def cron_day(dom: str, month: str, dow: str) -> Callable[[date], bool]:
    months = values(month, 1, 12)

    def fits(day: date) -> bool:
        if day.month not in months:
            return False
        by_date = any(_fits_date(item, day) for item in dom.split(","))
        by_week = any(_fits_week(item, day) for item in dow.split(","))
        return by_date and by_week if dom[0] == "*" or dow[0] == "*" else by_date or by_week

    return fits


def _fits_date(item: str, day: date) -> bool:
    length = monthrange(day.year, day.month)[1]
    if item == "L":
        return day.day == length
    if item.startswith("L-") and not item.endswith("W"):
        return day.day == length - int(item[2:])
    if item.endswith("W"):
        wanted = length - int(item[2:-1] or 0) if item[0] == "L" else int(item[:-1])
        return 1 <= wanted <= length and day == _nearest_weekday(day.replace(day=wanted))
    return day.day in values(item, 1, 31)


def _nearest_weekday(day: date) -> date:
    if day.weekday() < 5:
        return day
    steps = (-1, 2) if day.weekday() == 5 else (1, -2)
    return next(near for step in steps if (near := day + timedelta(days=step)).month == day.month)


def _fits_week(item: str, day: date) -> bool:
    dow = day.isoweekday() % 7
    if "#" in item:
        wanted, nth = item.split("#")
        return dow == int(wanted) and (day.day - 1) // 7 + 1 == int(nth)
    if item.endswith("L"):
        return dow == int(item[:-1]) and (day + timedelta(days=7)).month != day.month
    return dow in {value % 7 for value in values(item, 0, 6 if item[0] == "*" else 7)}


# --- RFC 5545 ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """The parts of a rule, spelt out; `start` is the day of DTSTART."""

    freq: str
    start: date
    interval: int = 1
    months: tuple[int, ...] = ()
    weeks: tuple[int, ...] = ()
    year_days: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    weekdays: tuple[str, ...] = ()
    positions: tuple[int, ...] = ()
    week_start: str = "MO"

    @classmethod
    def read(cls, parts: dict[str, str], start: date) -> Rule:
        def numbers(key: str) -> tuple[int, ...]:
            return tuple(int(item) for item in parts[key].split(",")) if key in parts else ()

        named: dict[str, Any] = {
            "months": numbers("BYMONTH"), "weeks": numbers("BYWEEKNO"), "year_days": numbers("BYYEARDAY"),
            "month_days": numbers("BYMONTHDAY"), "positions": numbers("BYSETPOS"),
            "weekdays": tuple(parts["BYDAY"].split(",")) if "BYDAY" in parts else (),
        }  # fmt: skip
        freq = parts["FREQ"]
        if not (named["weeks"] or named["year_days"] or named["month_days"] or named["weekdays"]):
            if freq == "WEEKLY":
                named["weekdays"] = (WEEK[start.weekday()],)
            if freq in ("MONTHLY", "YEARLY"):
                named["month_days"] = (start.day,)
            if freq == "YEARLY" and not named["months"]:
                named["months"] = (start.month,)
        elif named["weeks"] and not (named["year_days"] or named["month_days"] or named["weekdays"]):
            named["weekdays"] = (WEEK[start.weekday()],)
        return cls(freq, start, int(parts.get("INTERVAL", 1)), week_start=parts.get("WKST", "MO"), **named)

    def sets(self, first: date, last: date) -> Iterator[list[date]]:
        """The days of each period of the rule that touches `first`..`last`, whole."""
        begin = self._period(self.start)
        while begin <= last:
            end = self._after(begin)
            if end > first:
                days = (begin + timedelta(days=n) for n in range((end - begin).days))
                yield [day for day in days if self._fits(day)]
            for _ in range(self.interval):
                begin = self._after(begin)

    def _period(self, day: date) -> date:
        if self.freq == "YEARLY":
            return date(day.year, 1, 1)
        if self.freq == "MONTHLY":
            return day.replace(day=1)
        return self._week(day) if self.freq == "WEEKLY" else day

    def _after(self, begin: date) -> date:
        if self.freq == "YEARLY":
            return date(begin.year + 1, 1, 1)
        if self.freq == "MONTHLY":
            return (begin + timedelta(days=31)).replace(day=1)
        return begin + timedelta(days=7 if self.freq == "WEEKLY" else 1)

    def _week(self, day: date) -> date:
        while WEEK[day.weekday()] != self.week_start:
            day -= timedelta(days=1)
        return day

    def _fits(self, day: date) -> bool:
        length = monthrange(day.year, day.month)[1]
        of_year, year_length = day.timetuple().tm_yday, date(day.year, 12, 31).timetuple().tm_yday
        return (
            (not self.months or day.month in self.months)
            and (not self.weeks or self._fits_week(day))
            and (not self.year_days or of_year in self.year_days or of_year - year_length - 1 in self.year_days)
            and (not self.month_days or day.day in self.month_days or day.day - length - 1 in self.month_days)
            and (not self.weekdays or any(self._fits_weekday(item, day) for item in self.weekdays))
        )

    def _fits_week(self, day: date) -> bool:
        middle = self._week(day) + timedelta(days=3)  # the year of a week is that of its fourth day
        number = (middle.timetuple().tm_yday - 1) // 7 + 1
        last = self._week(date(middle.year, 12, 28)) + timedelta(days=3)
        count = (last.timetuple().tm_yday - 1) // 7 + 1
        return number in self.weeks or number - count - 1 in self.weeks

    def _fits_weekday(self, item: str, day: date) -> bool:
        if item[-2:] != WEEK[day.weekday()]:
            return False
        if len(item) == 2:
            return True
        nth = int(item[:-2])
        in_month = self.freq == "MONTHLY" or bool(self.months)
        begin = day.replace(day=1) if in_month else date(day.year, 1, 1)
        end = day.replace(day=monthrange(day.year, day.month)[1]) if in_month else date(day.year, 12, 31)
        return nth == ((day - begin).days // 7 + 1 if nth > 0 else -((end - day).days // 7 + 1))
