"""The wall times of an RRULE (RFC 5545), computed by python-dateutil.

Owns: the reading of a rule's parts and the search for its next and previous wall time.
Refuses to know: zones (`walk` turns wall times into instants by the same rule as cron's), DTSTART lines.
Protects: bounded work. dateutil writes out every time of every day; here it finds the days only, a year of them
at once and remembered, and the times of a day are added by arithmetic. It counts from DTSTART on; here each
question starts next to its answer, by whole intervals from DTSTART. For a date that never comes it searches to
the year 9999, and looks at a bound only when it has found something; here each question is put into the last
four centuries before that year, where the calendar is the same (it repeats after 400 years), so that it gives
up after 440 years at most.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import product
from typing import Final

from tickwork.core.schedule.limits import DAY_S, EXPRESSION_LENGTH_MAX, HOUR_S, MINUTE_S
from tickwork.core.schedule.refusal import ScheduleRefused

EPOCH: Final = datetime(1970, 1, 1)
INTERVAL_MAX: Final = 1_000

#: A leap day on a given weekday comes at most 40 years after the last one (over 2100).
_HORIZON: Final = timedelta(days=40 * 366)

#: The Gregorian calendar repeats after 400 years, weekdays included.
_CALENDAR_CYCLE: Final = timedelta(days=146_097)
_LAST_START_YEAR: Final = 9_958
_LAST_YEAR: Final = 9_998

#: With BYSETPOS every time of every day is written out: those of each hour of a year.
POSITIONED_TIMES_MAX: Final = 24

_NUMBER: Final = re.compile(r"[0-9]{1,4}", re.ASCII)
_TIME_PARTS: Final = (("BYHOUR", 24), ("BYMINUTE", 60), ("BYSECOND", 60))

#: RFC 5545's lists. dateutil reads more: underscores in numbers, digits of every script.
_LIST_PARTS: Final = {
    "BYDAY": r"(?:[+-]?[0-9]{1,2})?(?:MO|TU|WE|TH|FR|SA|SU)",
    **dict.fromkeys(("BYMONTH", "BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYSETPOS"), r"[+-]?[0-9]{1,3}"),
}
_LISTS: Final = {key: re.compile(f"{item}(?: *, *{item})*", re.ASCII) for key, item in _LIST_PARTS.items()}

_FREQS: Final = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
_FAST: Final = ("HOURLY", "MINUTELY", "SECONDLY")
_KEYS: Final = frozenset({
    "FREQ", "INTERVAL", "BYMONTH", "BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYDAY", "BYHOUR", "BYMINUTE",
    "BYSECOND", "BYSETPOS", "WKST",
})  # fmt: skip


def read_parts(text: str) -> dict[str, str]:
    """`FREQ=DAILY;COUNT=3` as a dictionary in upper case; each part is one we know, and given once."""
    if len(text) > EXPRESSION_LENGTH_MAX:
        raise bad_rrule(f"the rule has {len(text)} characters", f"keep it to {EXPRESSION_LENGTH_MAX}")
    parts: dict[str, str] = {}
    for item in text.upper().strip("; ").split(";"):
        key, sign, value = item.partition("=")
        if not sign or not value or key in parts or not (key in _KEYS or key in ("COUNT", "UNTIL")):
            raise bad_rrule(f"{item!r} is not understood", f"use {', '.join(sorted(_KEYS))}, COUNT or UNTIL, each once")
        parts[key] = value
    freq = parts.get("FREQ")
    if freq in _FAST:
        raise bad_rrule(f"FREQ={freq} is an interval", 'use a rate, such as {"rate": "2 hours"}, or cron')
    if freq not in _FREQS:
        raise bad_rrule(f"FREQ={freq} is not known", f"use one of {', '.join(_FREQS)}")
    if "COUNT" in parts and "UNTIL" in parts:
        raise bad_rrule("COUNT and UNTIL exclude each other", "take one out")
    return parts


def check_lists(parts: Mapping[str, str]) -> None:
    """Refuse the lists of a new rule that dateutil would read and RFC 5545 does not know. A stored rule is not asked:
    it keeps its meaning."""
    for key, pattern in _LISTS.items():
        if key in parts and not pattern.fullmatch(parts[key]):
            raise bad_rrule(
                f"{key}={parts[key]} is not understood", f"write {key}={'MO,-1FR' if key == 'BYDAY' else '1,-1'}"
            )
    if parts["FREQ"] in ("DAILY", "WEEKLY") and any(char.isdigit() for char in parts.get("BYDAY", "")):
        raise bad_rrule(
            f"BYDAY={parts['BYDAY']} counts weekdays, and FREQ={parts['FREQ']} has nothing to count them in",
            "leave out the numbers, or write FREQ=MONTHLY",
        )


@lru_cache(maxsize=4096)
def parse_rrule(text: str, start_local_s: int) -> RRuleTimes:
    """The wall times of a normal-form RRULE. Raises `ScheduleRefused` when it is wrong or never matches."""
    parts = read_parts(text)
    interval = parts.get("INTERVAL", "1")
    if not _NUMBER.fullmatch(interval) or not 1 <= int(interval) <= INTERVAL_MAX:
        raise bad_rrule(f"INTERVAL={interval} is out of range", f"give a number from 1 to {INTERVAL_MAX}")
    by_time = [_numbers(parts.pop(key, "0"), key, below) for key, below in _TIME_PARTS]
    of_day = tuple(hour * HOUR_S + minute * MINUTE_S + second for hour, minute, second in product(*by_time))
    if "BYSETPOS" not in parts:
        days = ";".join(f"{key}={value}" for key, value in parts.items()) + ";BYHOUR=0;BYMINUTE=0;BYSECOND=0"
    elif len(of_day) <= POSITIONED_TIMES_MAX:
        days, of_day = text, (0,)  # positions count times as well as days
    else:
        raise bad_rrule(
            f"BYSETPOS among {len(of_day)} times a day", f"give at most {POSITIONED_TIMES_MAX} times, or leave it out"
        )
    times = RRuleTimes(days, start_local_s, parts["FREQ"], int(interval), of_day, text)
    try:
        first = times.next_match(start_local_s)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        raise bad_rrule(f"the rule is not valid: {error}", "check the values of its BY... parts") from None
    if first is None:
        raise ScheduleRefused("never_fires", "the rule matches no date", field="rrule", remedy="check its BY... parts")
    return times


def _numbers(text: str, key: str, below: int) -> tuple[int, ...]:
    """The numbers of a part, in order, each once."""
    items = [item.strip(" ") for item in text.split(",")]
    if not all(_NUMBER.fullmatch(item) and int(item) < below for item in items):
        raise bad_rrule(f"{key}={text} is out of range", f"give numbers from 0 to {below - 1}")
    return tuple(sorted({int(item) for item in items}))


@dataclass(frozen=True, slots=True)
class RRuleTimes:
    """The wall times of an RRULE. `start_local_s` is DTSTART: nothing comes before it. `text` is the rule of the days
    and `of_day` the seconds of each on which it is due; with BYSETPOS `text` is the whole rule. `whole` is the rule as
    it was given."""

    text: str
    start_local_s: int
    freq: str
    interval: int
    of_day: tuple[int, ...]
    whole: str

    def next_match(self, local_s: int) -> int | None:
        """The first matching local second not before `local_s`; None when none comes within 40 years."""
        wanted = max(local_s, self.start_local_s)
        year = (EPOCH + timedelta(seconds=wanted)).year
        while year <= _LAST_YEAR:
            days = _days_from(self, year)
            if not days:
                return None
            found = self._first_in(days, wanted)
            if found is not None:
                return found
            year = (EPOCH + timedelta(seconds=days[-1])).year + 1
        return None

    def prev_match(self, local_s: int) -> int | None:
        """The last matching local second not after `local_s`; None when there was none for 40 years."""
        if local_s < self.start_local_s:
            return None
        year = (EPOCH + timedelta(seconds=local_s)).year
        days = _days_from(self, year)
        at = bisect_right(days, local_s) - 1
        if at >= 0 and local_s - days[at] < self.of_day[0]:
            at -= 1
        day = days[at] if at >= 0 else _last_day_before(self, year)
        if day is None:
            return None
        found = day + self.of_day[bisect_right(self.of_day, local_s - day) - 1]
        return found if found >= self.start_local_s else None

    def _first_in(self, days: tuple[int, ...], wanted: int) -> int | None:
        at = max(bisect_right(days, wanted) - 1, 0)
        if wanted - days[at] > self.of_day[-1]:
            at += 1
        if at == len(days):
            return None
        return days[at] + self.of_day[bisect_left(self.of_day, max(wanted - days[at], 0))]

    def between(self, low: datetime, high: datetime) -> Iterator[int]:
        """The days (as local seconds) from `low` to `high`, both included."""
        first = max(low, _midnight(EPOCH + timedelta(seconds=self.start_local_s)))
        for at in self._from(first, high):
            if at >= first:
                yield _seconds(at)

    def _from(self, wanted: datetime, last: datetime) -> Iterator[datetime]:
        # Imported here: few schedules are RRULEs, and a cold start should not pay for them.
        from dateutil.rrule import rrulestr

        start = self._aligned(wanted)
        later = max((_LAST_START_YEAR - start.year) // 400, 0) * _CALENDAR_CYCLE
        for at in rrulestr(self.text, dtstart=start + later):
            if at - later > last:
                return
            yield at - later

    def _aligned(self, wanted: datetime) -> datetime:
        """A start shortly before `wanted`, a whole number of intervals from DTSTART."""
        start = _midnight(EPOCH + timedelta(seconds=self.start_local_s))
        if self.freq in ("DAILY", "WEEKLY"):
            step = timedelta(days=self.interval * (7 if self.freq == "WEEKLY" else 1))
            # One interval early: a week that began before its DTSTART day still counts.
            return start + max((wanted - start) // step - 1, 0) * step
        step_months = self.interval * (12 if self.freq == "YEARLY" else 1)
        months = (wanted.year - start.year) * 12 + wanted.month - start.month
        back = max(months // step_months - 1, 0) * step_months
        month = start.year * 12 + start.month - 1 + back if self.freq == "MONTHLY" else start.year * 12 + back
        if back == 0:
            return start
        return datetime(month // 12, month % 12 + 1, 1)


@lru_cache(maxsize=2048)
def _days_from(rule: RRuleTimes, year: int) -> tuple[int, ...]:
    """The days of a year; of the next one that has any, when it has none; () when none has within 40 years."""
    begin = datetime(year, 1, 1)
    days: list[int] = []
    end = 0
    for day in rule.between(begin, begin + min(_HORIZON, datetime(9999, 12, 30) - begin)):
        if days and day >= end:
            break
        if not days:
            end = _seconds(datetime((EPOCH + timedelta(seconds=day)).year + 1, 1, 1))
        days.append(day)
    return tuple(days)


@lru_cache(maxsize=2048)
def _last_day_before(rule: RRuleTimes, year: int) -> int | None:
    """The last day before a year begins; None when there was none for 40 years."""
    end = datetime(year, 1, 1) - timedelta(seconds=1)
    for years in (1, 5, 40):
        low = datetime(max(year - years, 1), 1, 1)
        found = max(rule.between(low, end), default=None)
        if found is not None:
            return found
    return None


def _midnight(at: datetime) -> datetime:
    return datetime(at.year, at.month, at.day)


def _seconds(at: datetime) -> int:
    whole = at - EPOCH
    return whole.days * DAY_S + whole.seconds


def bad_rrule(detail: str, remedy: str, field: str = "rrule") -> ScheduleRefused:
    """The refusal of a rule, or of an ISO-8601 repeat."""
    return ScheduleRefused("bad_rrule", detail, field=field, remedy=remedy)
