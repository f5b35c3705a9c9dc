"""The wall times of an RRULE (RFC 5545), computed by python-dateutil.

Owns: the reading of a rule's parts and the search for its next and previous wall time.
Refuses to know: zones (`walk` turns wall times into instants by the same rule as cron's), DTSTART lines.
Protects: bounded work. dateutil counts from DTSTART on; here each question starts next to its answer, by
whole intervals from DTSTART. For a date that never comes it searches to the year 9999, and looks at a bound
only when it has found something; here each question is put into the last four centuries before that year,
where the calendar is the same (it repeats after 400 years), so that it gives up after 440 years at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from tickwork.core.schedule.limits import DAY_S
from tickwork.core.schedule.refusal import ScheduleRefused

EPOCH: Final = datetime(1970, 1, 1)
INTERVAL_MAX: Final = 1_000

#: A leap day on a given weekday comes at most 40 years after the last one (over 2100).
_HORIZON: Final = timedelta(days=40 * 366)

#: The Gregorian calendar repeats after 400 years, weekdays included.
_CALENDAR_CYCLE: Final = timedelta(days=146_097)
_LAST_START_YEAR: Final = 9_958

_FREQS: Final = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
_FAST: Final = ("HOURLY", "MINUTELY", "SECONDLY")
_KEYS: Final = frozenset({
    "FREQ", "INTERVAL", "BYMONTH", "BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYDAY", "BYHOUR", "BYMINUTE",
    "BYSECOND", "BYSETPOS", "WKST",
})  # fmt: skip


def read_parts(text: str) -> dict[str, str]:
    """`FREQ=DAILY;COUNT=3` as a dictionary in upper case; each part is one we know, and given once."""
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


@lru_cache(maxsize=4096)
def parse_rrule(text: str, start_local_s: int) -> RRuleTimes:
    """The wall times of a normal-form RRULE. Raises `ScheduleRefused` when it is wrong or never matches."""
    parts = read_parts(text)
    interval = parts.get("INTERVAL", "1")
    if not interval.isdigit() or not 1 <= int(interval) <= INTERVAL_MAX:
        raise bad_rrule(f"INTERVAL={interval} is out of range", f"give a number from 1 to {INTERVAL_MAX}")
    times = RRuleTimes(text, start_local_s, parts["FREQ"], int(interval))
    try:
        first = times.next_match(start_local_s)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise bad_rrule(f"the rule is not valid: {error}", "check the values of its BY... parts") from None
    if first is None:
        raise ScheduleRefused("never_fires", "the rule matches no date", field="rrule", remedy="check its BY... parts")
    return times


@dataclass(frozen=True, slots=True)
class RRuleTimes:
    """The wall times of an RRULE. `start_local_s` is DTSTART: nothing comes before it."""

    text: str
    start_local_s: int
    freq: str
    interval: int

    def next_match(self, local_s: int) -> int | None:
        """The first matching local second not before `local_s`; None when none comes within 40 years."""
        wanted = EPOCH + timedelta(seconds=max(local_s, self.start_local_s))
        last = wanted + min(_HORIZON, datetime(9999, 12, 30) - wanted)
        return next((_seconds(at) for at in self._from(wanted, last) if at >= wanted), None)

    def prev_match(self, local_s: int) -> int | None:
        """The last matching local second not after `local_s`; None when there was none for 40 years."""
        if local_s < self.start_local_s:
            return None
        wanted = EPOCH + timedelta(seconds=local_s)
        start = EPOCH + timedelta(seconds=self.start_local_s)
        span = timedelta(days=8 * self.interval)
        while True:
            low = max(wanted - span, start)
            found = [at for at in self._from(low, wanted) if low <= at]
            if found:
                return _seconds(found[-1])
            if low == start or span >= _HORIZON:
                return None
            span *= 8

    def _from(self, wanted: datetime, last: datetime) -> Iterator[datetime]:
        # Imported here: few schedules are RRULEs, and a cold start should not pay for them.
        from dateutil.rrule import rrulestr

        start = self._aligned(wanted)
        later = (_LAST_START_YEAR - start.year) // 400 * _CALENDAR_CYCLE
        for at in rrulestr(self.text, dtstart=start + later):
            if at - later > last:
                return
            yield at - later

    def _aligned(self, wanted: datetime) -> datetime:
        """A start shortly before `wanted`, a whole number of intervals from DTSTART."""
        start = EPOCH + timedelta(seconds=self.start_local_s)
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


def _seconds(at: datetime) -> int:
    whole = at - EPOCH
    return whole.days * DAY_S + whole.seconds


def bad_rrule(detail: str, remedy: str, field: str = "rrule") -> ScheduleRefused:
    """The refusal of a rule, or of an ISO-8601 repeat."""
    return ScheduleRefused("bad_rrule", detail, field=field, remedy=remedy)
