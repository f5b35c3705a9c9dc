"""RRULEs (RFC 5545) and ISO-8601 repeats.

Owns: their normal form, and the wall times of an RRULE, computed by python-dateutil.
Refuses to know: zones (an RRULE names wall times; `walk` turns them into instants by the same rule as
cron's). Protects: bounded work. dateutil counts from DTSTART on, and searches to the year 9999 for a date
that never comes; here each question starts next to its answer, by whole intervals from DTSTART, and ends
after 40 years.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from tickwork.core.schedule.duration import duration_text, read_duration_s
from tickwork.core.schedule.instant import local_text, read_time, utc_text
from tickwork.core.schedule.limits import DAY_S
from tickwork.core.schedule.refusal import ScheduleRefused
from tickwork.core.schedule.walk import ClockChanges, resolve
from tickwork.core.schedule.zone import Zone, zone_named

_EPOCH: Final = datetime(1970, 1, 1)

#: A leap day on a given weekday comes at most 40 years after the last one (over 2100).
_HORIZON: Final = timedelta(days=40 * 366)

_FREQS: Final = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
_FAST: Final = ("HOURLY", "MINUTELY", "SECONDLY")
_KEYS: Final = frozenset({
    "FREQ", "INTERVAL", "BYMONTH", "BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYDAY", "BYHOUR", "BYMINUTE",
    "BYSECOND", "BYSETPOS", "WKST",
})  # fmt: skip
_DAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_BASIC_TIME: Final = re.compile(
    r"([0-9]{4})([0-9]{2})([0-9]{2})(?:T([0-9]{2})([0-9]{2})([0-9]{2})(Z)?)?", re.ASCII
)
_REPEAT: Final = re.compile(r"R([0-9]{1,5})?/([^/]+)/(P[^/]+)", re.ASCII)
_CALENDAR_STEP: Final = re.compile(r"P(?:([0-9]{1,3})Y)?(?:([0-9]{1,4})M)?", re.ASCII)
_INTERVAL_MAX: Final = 1_000


def normal_rrule(value: object, now_s: int, zone: Zone) -> dict[str, Any]:
    """`rrule`, `start_local`, `zone` and, from COUNT and UNTIL, `count`, `start`, `end`.

    `value` is "FREQ=...", or DTSTART and RRULE lines. Without DTSTART the rule starts now.
    """
    if not isinstance(value, str):
        raise _bad("an RRULE is a text", 'write "FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0;BYSECOND=0"')
    start, rule_text, zone = _read_lines(value, zone)
    parts = _read_parts(rule_text)
    start_s = _local_now(now_s, zone) if start is None else start
    count, until = parts.pop("COUNT", None), parts.pop("UNTIL", None)
    normal: dict[str, Any] = {
        "rrule": _with_defaults(parts, _EPOCH + timedelta(seconds=start_s)),
        "start_local": local_text(start_s),
        "zone": zone.key,
    }
    if until is not None:
        normal["end"] = utc_text(_until_s(until, zone) + 1)
    if count is not None:
        if not count.isdigit():
            raise _bad(f"COUNT={count} is no number", "write COUNT=10")
        begin = resolve(start_s, zone, ClockChanges())
        normal |= {"count": int(count), "start": utc_text(now_s if begin is None else begin)}
    parse_rrule(normal["rrule"], start_s)
    return normal


def _read_lines(text: str, zone: Zone) -> tuple[int | None, str, Zone]:
    start: int | None = None
    rule = ""
    for line in text.replace("\r", "").split("\n"):
        name, _, rest = line.strip(" ").partition(":")
        head = name.upper()
        if head.startswith("DTSTART"):
            _, _, tzid = name.partition("=")
            zone = zone_named(tzid, "rrule") if tzid else zone
            start = _read_basic(rest or name, zone)
        elif head == "RRULE" or head.startswith("FREQ=") or (not rest and "FREQ=" in head):
            if rule:
                raise _bad("there are two RRULEs", "join two schedules with any_of")
            rule = rest or name
        elif head:
            raise _bad(
                f"{name} lines are not supported", "leave days out with a calendar, add days with any_of"
            )
    if not rule:
        raise _bad("there is no FREQ", 'write "FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0"')
    return start, rule, zone


def _read_basic(text: str, zone: Zone) -> int:
    """`20260101T090000` as a local second of `zone`; with `Z` the instant is taken into the zone."""
    found = _BASIC_TIME.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        year, month, day, hour, minute, second = (int(group or 0) for group in found.groups()[:6])
        moment = datetime(year, month, day, hour, minute, second)
    except ValueError:
        raise _bad(f"{text!r} is no time", "write 20260101T090000, or 20260101T090000Z") from None
    seconds = round((moment - _EPOCH).total_seconds())
    return seconds + zone.offset_at(seconds) if found[7] else seconds


def _read_parts(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for item in text.upper().strip("; ").split(";"):
        key, sign, value = item.partition("=")
        if not sign or not value or key in parts or not (key in _KEYS or key in ("COUNT", "UNTIL")):
            raise _bad(
                f"{item!r} is not understood", f"use {', '.join(sorted(_KEYS))}, COUNT or UNTIL, each once"
            )
        parts[key] = value
    freq = parts.get("FREQ")
    if freq in _FAST:
        raise _bad(f"FREQ={freq} is an interval", 'use a rate, such as {"rate": "2 hours"}, or cron')
    if freq not in _FREQS:
        raise _bad(f"FREQ={freq} is not known", f"use one of {', '.join(_FREQS)}")
    if "COUNT" in parts and "UNTIL" in parts:
        raise _bad("COUNT and UNTIL exclude each other", "take one out")
    return parts


def _with_defaults(parts: dict[str, str], start: datetime) -> str:
    """What RFC 5545 takes from DTSTART, written out: DTSTART then only counts the intervals."""
    parts = dict(parts)
    by_day = any(key in parts for key in ("BYDAY", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO"))
    if not by_day:
        if parts["FREQ"] == "YEARLY":
            parts.setdefault("BYMONTH", str(start.month))
        if parts["FREQ"] in ("YEARLY", "MONTHLY"):
            parts["BYMONTHDAY"] = str(start.day)
        if parts["FREQ"] == "WEEKLY":
            parts["BYDAY"] = _DAYS[start.weekday()]
    for key, value in (("BYHOUR", start.hour), ("BYMINUTE", start.minute), ("BYSECOND", start.second)):
        parts.setdefault(key, str(value))
    return ";".join(f"{key}={parts[key]}" for key in sorted(parts, key=lambda key: (key != "FREQ", key)))


def _until_s(text: str, zone: Zone) -> int:
    if len(text) == 8:
        text += "T235959"
    local_s = _read_basic(text, zone)
    found = resolve(local_s, zone, ClockChanges(fold="second"))
    assert found is not None
    return found


def _local_now(now_s: int, zone: Zone) -> int:
    return now_s + zone.offset_at(now_s)


@lru_cache(maxsize=4096)
def parse_rrule(text: str, start_local_s: int) -> RRuleTimes:
    """The wall times of a normal-form RRULE. Raises `ScheduleRefused` when it is wrong or never matches."""
    parts = _read_parts(text)
    interval = parts.get("INTERVAL", "1")
    if not interval.isdigit() or not 1 <= int(interval) <= _INTERVAL_MAX:
        raise _bad(f"INTERVAL={interval} is out of range", f"give a number from 1 to {_INTERVAL_MAX}")
    times = RRuleTimes(text, start_local_s, parts["FREQ"], int(interval))
    try:
        first = times.next_match(start_local_s)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise _bad(f"the rule is not valid: {error}", "check the values of its BY... parts") from None
    if first is None:
        raise ScheduleRefused(
            "never_fires", "the rule matches no date", field="rrule", remedy="check its BY... parts"
        )
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
        wanted = _EPOCH + timedelta(seconds=max(local_s, self.start_local_s))
        last = wanted + min(_HORIZON, datetime(9999, 12, 30) - wanted)
        return next((_seconds(at) for at in self._from(wanted, last) if at >= wanted), None)

    def prev_match(self, local_s: int) -> int | None:
        """The last matching local second not after `local_s`; None when there was none for 40 years."""
        if local_s < self.start_local_s:
            return None
        wanted = _EPOCH + timedelta(seconds=local_s)
        start = _EPOCH + timedelta(seconds=self.start_local_s)
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

        for at in rrulestr(self.text, dtstart=self._aligned(wanted)):
            if at > last:
                return
            yield at

    def _aligned(self, wanted: datetime) -> datetime:
        """A start shortly before `wanted`, a whole number of intervals from DTSTART."""
        start = _EPOCH + timedelta(seconds=self.start_local_s)
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
    whole = at - _EPOCH
    return whole.days * DAY_S + whole.seconds


def from_iso_repeat(value: object, zone: Zone) -> dict[str, Any]:
    """The normal form of `R[n]/start/period`: a rate for a fixed length, an RRULE for months and years.

    A start without an offset is a wall time of `zone`; whole days and weeks then keep to the wall clock.
    """
    found = _REPEAT.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ScheduleRefused(
            "bad_repeat",
            f"{value!r} is no repeat",
            field="repeat",
            remedy="write R/2026-01-01T00:00:00Z/PT6H",
        )
    start = read_time(found[2], "repeat")
    start_s = start.ceil_local_s() if start.offset_s is None else start.ceil_local_s() - start.offset_s
    local_s = start_s if start.offset_s is None else start_s + zone.offset_at(start_s)
    normal = _repeat_rule(found[3], start_s, local_s, zone, is_local=start.offset_s is None)
    if found[1] is not None:
        begin = resolve(local_s, zone, ClockChanges()) if start.offset_s is None else start_s
        normal |= {"count": int(found[1]), "start": utc_text(start_s if begin is None else begin)}
    return normal


def _repeat_rule(period: str, start_s: int, local_s: int, zone: Zone, *, is_local: bool) -> dict[str, Any]:
    step = _CALENDAR_STEP.fullmatch(period)
    if step is not None and any(step.groups()):
        months = int(step[1] or 0) * 12 + int(step[2] or 0)
        if not 1 <= months <= _INTERVAL_MAX:
            raise _bad(f"{period} is out of range", f"give 1 to {_INTERVAL_MAX} months", field="repeat")
        return _as_rrule({"FREQ": "MONTHLY", "INTERVAL": str(months)}, local_s, zone)
    seconds = read_duration_s(period, "repeat")
    if is_local and seconds % DAY_S == 0 and "T" not in period and seconds // DAY_S <= _INTERVAL_MAX:
        return _as_rrule({"FREQ": "DAILY", "INTERVAL": str(seconds // DAY_S)}, local_s, zone)
    if is_local:
        begin = resolve(local_s, zone, ClockChanges())
        start_s = start_s if begin is None else begin
    return {"rate": duration_text(seconds), "anchor": utc_text(start_s), "zone": zone.key}


def _as_rrule(parts: dict[str, str], local_s: int, zone: Zone) -> dict[str, Any]:
    text = _with_defaults(parts, _EPOCH + timedelta(seconds=local_s))
    return {"rrule": text, "start_local": local_text(local_s), "zone": zone.key}


def _bad(detail: str, remedy: str, field: str = "rrule") -> ScheduleRefused:
    return ScheduleRefused("bad_rrule", detail, field=field, remedy=remedy)
