"""The wall times of an RRULE (RFC 5545).

Owns: times of day, BYSETPOS, and the search for the next and previous wall time.
Refuses to know: texts (see `rrule_parts`), zones (`walk` turns wall times into instants by the same rule as cron's),
DTSTART lines.
Protects: bounded work. The days of a year are found at once (`rrule_days`) and remembered; the times of a day are
never written out. A search looks at `YEARS_SEARCHED_MAX` years at most, each a lookup where it has nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from tickwork.core.schedule.cron.walltimes import time_from, time_until
from tickwork.core.schedule.instant import civil
from tickwork.core.schedule.limits import DAY_S
from tickwork.core.schedule.refusal import ScheduleRefused
from tickwork.core.schedule.rrule_days import DayParts, first_day, months_of, year_length
from tickwork.core.schedule.rrule_parts import WEEKDAYS, bad_rrule, read_parts, weekdays_of

INTERVAL_MAX: Final = 1_000

#: The Gregorian calendar repeats after 400 years, weekdays included. A rule that names nothing for so long is over.
YEARS_SEARCHED_MAX: Final = 401
_FIRST_YEAR: Final = 1
_LAST_YEAR: Final = 9_998

#: Years whose days are kept per rule. A walk goes through one after the other.
_YEARS_KEPT_MAX: Final = 16

#: With BYSETPOS the chosen times of a year are written out: those of each hour of a year.
POSITIONED_TIMES_MAX: Final = 24

_NUMBER: Final = re.compile(r"[0-9]{1,4}", re.ASCII)
_TIME_PARTS: Final = (("BYHOUR", 24), ("BYMINUTE", 60), ("BYSECOND", 60))


@lru_cache(maxsize=4096)
def parse_rrule(text: str, start_local_s: int) -> RRuleTimes:
    """The wall times of a normal-form RRULE. Raises `ScheduleRefused` when it is wrong or never matches."""
    parts = read_parts(text)
    interval = parts.get("INTERVAL", "1")
    if not _NUMBER.fullmatch(interval) or not 1 <= int(interval) <= INTERVAL_MAX:
        raise bad_rrule(f"INTERVAL={interval} is out of range", f"give a number from 1 to {INTERVAL_MAX}")
    hours, minutes, seconds = (_numbers(parts.get(key, "0"), key, below) for key, below in _TIME_PARTS)
    of_day = tuple(hour * 60 + minute for hour in hours for minute in minutes)
    try:
        days = _day_parts(parts, int(interval), start_local_s // DAY_S)
        positions = _integers(parts.get("BYSETPOS", ""))
    except (IndexError, ValueError) as error:
        raise bad_rrule(f"the rule is not valid: {error}", "check the values of its BY... parts") from None
    if positions and len(of_day) * len(seconds) > POSITIONED_TIMES_MAX:
        raise bad_rrule(
            f"BYSETPOS among {len(of_day) * len(seconds)} times a day",
            f"give at most {POSITIONED_TIMES_MAX} times, or leave it out",
        )
    times = RRuleTimes(days, of_day, seconds, positions, start_local_s, text)
    if times.next_match(start_local_s) is None:
        raise ScheduleRefused("never_fires", "the rule matches no date", field="rrule", remedy="check its BY... parts")
    return times


def _day_parts(parts: Mapping[str, str], interval: int, start_day: int) -> DayParts:
    found = weekdays_of(parts["BYDAY"]) if "BYDAY" in parts else []
    has_numbers = parts["FREQ"] in ("MONTHLY", "YEARLY")
    plain = {WEEKDAYS.index(name) for number, name in found if number is None or not has_numbers}
    return DayParts(
        freq=parts["FREQ"],
        interval=interval,
        start_day=start_day,
        months=_integers(parts.get("BYMONTH", "")),
        week_numbers=_integers(parts.get("BYWEEKNO", "")),
        year_days=_integers(parts.get("BYYEARDAY", "")),
        month_days=_integers(parts.get("BYMONTHDAY", "")),
        has_weekdays=bool(found),
        weekdays=sum(1 << dow for dow in plain),
        counted=tuple(sorted({(int(number), WEEKDAYS.index(name)) for number, name in found if number is not None})),
        week_start=WEEKDAYS.index(parts.get("WKST", "MO")),
    )


def _integers(text: str) -> tuple[int, ...]:
    return tuple(sorted({int(item) for item in text.split(",")})) if text else ()


def _numbers(text: str, key: str, below: int) -> tuple[int, ...]:
    """The numbers of a part, in order, each once."""
    items = [item.strip(" ") for item in text.split(",")]
    if not all(_NUMBER.fullmatch(item) and int(item) < below for item in items):
        raise bad_rrule(f"{key}={text} is out of range", f"give numbers from 0 to {below - 1}")
    return tuple(sorted({int(item) for item in items}))


@dataclass(frozen=True, slots=True)
class RRuleTimes:
    """The wall times of an RRULE. `start_local_s` is DTSTART: nothing comes before it. `minutes` (of the day) and
    `seconds` (of the minute) are the times of each day; `positions` is BYSETPOS; `left_out` are the local seconds of
    EXDATE; `whole` is the rule as it was given."""

    days: DayParts
    minutes: tuple[int, ...]
    seconds: tuple[int, ...]
    positions: tuple[int, ...]
    start_local_s: int
    whole: str
    left_out: frozenset[int] = frozenset()
    _years: dict[int, tuple[int, ...]] = field(default_factory=dict, compare=False, repr=False)

    def next_match(self, local_s: int) -> int | None:
        """The first matching local second not before `local_s`; None when none comes within 400 years."""
        found = self._next(max(local_s, self.start_local_s))
        for _ in range(len(self.left_out)):
            if found not in self.left_out:
                break
            found = self._next(found + 1)
        return found

    def prev_match(self, local_s: int) -> int | None:
        """The last matching local second not after `local_s`; None when there was none for 400 years."""
        found = self._prev(local_s)
        for _ in range(len(self.left_out)):
            if found not in self.left_out:
                break
            found = self._prev(found - 1)
        return found

    def _next(self, wanted: int) -> int | None:
        year = self.days.next_year(civil(wanted).year)
        step = self.days.interval if self.days.freq == "YEARLY" else 1
        for _ in range(YEARS_SEARCHED_MAX):
            if year > _LAST_YEAR:
                return None
            found = self._first_in(self._of_year(year), wanted)
            if found is not None:
                return found
            year += step
        return None

    def _prev(self, wanted: int) -> int | None:
        year = self.days.previous_year(civil(wanted).year)
        step = self.days.interval if self.days.freq == "YEARLY" else 1
        first = max(civil(self.start_local_s).year, _FIRST_YEAR)
        for _ in range(YEARS_SEARCHED_MAX):
            if year < first:
                return None
            found = self._last_in(self._of_year(year), wanted)
            if found is not None:
                return found if found >= self.start_local_s else None
            year -= step
        return None

    # --- one year -------------------------------------------------------------------------------------------------

    def _first_in(self, marks: tuple[int, ...], wanted: int) -> int | None:
        if self.positions:
            at = bisect_left(marks, wanted)
            return marks[at] if at < len(marks) else None
        at = bisect_left(marks, wanted // DAY_S * DAY_S)
        if at < len(marks) and marks[at] <= wanted:
            time = time_from(self.minutes, self.seconds, wanted - marks[at])
            if time is not None:
                return marks[at] + time
            at += 1
        return marks[at] + self.minutes[0] * 60 + self.seconds[0] if at < len(marks) else None

    def _last_in(self, marks: tuple[int, ...], wanted: int) -> int | None:
        at = bisect_right(marks, wanted) - 1
        if at < 0 or self.positions:
            return marks[at] if at >= 0 else None
        time = time_until(self.minutes, self.seconds, min(wanted - marks[at], DAY_S - 1))
        if time is not None:
            return marks[at] + time
        return marks[at - 1] + self.minutes[-1] * 60 + self.seconds[-1] if at > 0 else None

    def _of_year(self, year: int) -> tuple[int, ...]:
        """The local seconds at which the matching days of a year begin; with BYSETPOS, the chosen times."""
        found = self._years.get(year)
        if found is None:
            found = self._positioned(year) if self.positions else self._whole_days(year)
            if found:
                if len(self._years) >= _YEARS_KEPT_MAX:
                    self._years.clear()
                self._years[year] = found
        return found

    def _whole_days(self, year: int) -> tuple[int, ...]:
        mask = self.days.days_of(year)
        first = first_day(year)
        return tuple((first + place) * DAY_S for place in _places(mask))

    def _positioned(self, year: int) -> tuple[int, ...]:
        times = [minute * 60 + second for minute in self.minutes for second in self.seconds]
        low, high = first_day(year) * DAY_S, (first_day(year) + year_length(year)) * DAY_S
        chosen: list[int] = []
        for days in self._sets(year):
            size = len(days) * len(times)
            places = {position - 1 if position > 0 else size + position for position in self.positions if position}
            for place in sorted(place for place in places if 0 <= place < size):
                day, time = divmod(place, len(times))
                chosen.append(days[day] * DAY_S + times[time])
        return tuple(at for at in chosen if low <= at < high)

    def _sets(self, year: int) -> Iterator[list[int]]:
        """The matching days of each period that touches the year: what BYSETPOS counts in. A period is whole, whatever
        of it lies before DTSTART or in another year."""
        first = first_day(year)
        if self.days.freq == "WEEKLY":
            masks = [(first_day(at), self.days.year_mask(at)) for at in (year - 1, year, year + 1)]
            for week in self.days.weeks_of(year):
                yield [day for day in range(week, week + 7) if _is_marked(masks, day)]
            return
        mask = self.days.days_of(year)
        if not mask:
            return
        if self.days.freq == "YEARLY":
            yield [first + place for place in _places(mask)]
        elif self.days.freq == "MONTHLY":
            for begin, length in months_of(year):
                yield [first + begin + place for place in _places(mask >> begin & ((1 << length) - 1))]
        else:
            for place in _places(mask):
                yield [first + place]


def _is_marked(masks: Sequence[tuple[int, int]], day: int) -> bool:
    """Whether the day's bit is set in one of (first day, mask)."""
    return any(day >= first and mask >> day - first & 1 for first, mask in masks)


def _places(mask: int) -> Iterator[int]:
    """The places of the bits that are set, from the lowest."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
