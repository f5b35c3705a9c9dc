"""RRULEs and ISO-8601 repeats as people write them, turned into the normal form.

Owns: DTSTART, COUNT and UNTIL, what a rule takes from DTSTART when it does not say it, and `R5/start/period`.
Refuses to know: occurrences (see `rrule`). Protects: the stored rule depends on DTSTART only for counting
intervals.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any, Final

from tickwork.core.schedule.duration import duration_text, read_duration_s
from tickwork.core.schedule.instant import local_text, read_time, utc_text
from tickwork.core.schedule.limits import DAY_S, LAST_S
from tickwork.core.schedule.refusal import ScheduleRefused
from tickwork.core.schedule.rrule import EPOCH, INTERVAL_MAX, bad_rrule, check_lists, parse_rrule, read_parts
from tickwork.core.schedule.walk import ClockChanges, resolve
from tickwork.core.schedule.zone import Zone, zone_named

_DAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_BASIC_TIME: Final = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:T([0-9]{2})([0-9]{2})([0-9]{2})(Z)?)?", re.ASCII)
_REPEAT: Final = re.compile(r"R([0-9]{1,5})?/([^/]+)/(P[^/]+)", re.ASCII)
_CALENDAR_STEP: Final = re.compile(r"P(?:([0-9]{1,3})Y)?(?:([0-9]{1,4})M)?", re.ASCII)


def normal_rrule(value: object, now_s: int, zone: Zone, *, start_local: object = None) -> dict[str, Any]:
    """`rrule`, `start_local`, `zone` and, from COUNT and UNTIL, `count`, `start`, `end`.

    `value` is "FREQ=...", or DTSTART and RRULE lines. The rule counts from DTSTART, else from `start_local`,
    else from now.
    """
    if not isinstance(value, str):
        raise bad_rrule("an RRULE is a text", 'write "FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0;BYSECOND=0"')
    start_s, rule_text, zone = _read_lines(value, zone)
    parts = read_parts(rule_text)
    check_lists(parts)
    if start_s is None:
        start_s = now_s + zone.offset_at(now_s) if start_local is None else _read_start(start_local)
    count, until = parts.pop("COUNT", None), parts.pop("UNTIL", None)
    normal: dict[str, Any] = {
        "rrule": _with_defaults(parts, EPOCH + timedelta(seconds=start_s)),
        "start_local": local_text(start_s),
        "zone": zone.key,
    }
    if until is not None:
        normal["end"] = utc_text(min(_until_s(until, zone) + 1, LAST_S))
    if count is not None:
        if not (count.isascii() and count.isdigit() and len(count) < 10):
            raise bad_rrule(f"COUNT={count} is no number", "write COUNT=10")
        begin = resolve(start_s, zone, ClockChanges())
        normal |= {"count": int(count), "start": utc_text(now_s if begin is None else begin)}
    parse_rrule(normal["rrule"], start_s)
    return normal


def _read_start(value: object) -> int:
    time = read_time(value, "start_local")
    if time.offset_s is not None:
        raise bad_rrule(f"{value!r} is no wall time", "leave out the offset", field="start_local")
    return time.ceil_local_s()


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
                raise bad_rrule("there are two RRULEs", "join two schedules with any_of")
            rule = rest or name
        elif head:
            raise bad_rrule(f"{name} lines are not supported", "leave days out with a calendar, add days with any_of")
    if not rule:
        raise bad_rrule("there is no FREQ", 'write "FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0"')
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
        raise bad_rrule(f"{text!r} is no time", "write 20260101T090000, or 20260101T090000Z") from None
    seconds = round((moment - EPOCH).total_seconds())
    return seconds + zone.offset_at(seconds) if found[7] else seconds


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
        if not 1 <= months <= INTERVAL_MAX:
            raise bad_rrule(f"{period} is out of range", f"give 1 to {INTERVAL_MAX} months", field="repeat")
        return _as_rrule({"FREQ": "MONTHLY", "INTERVAL": str(months)}, local_s, zone)
    seconds = read_duration_s(period, "repeat")
    if is_local and seconds % DAY_S == 0 and "T" not in period and seconds // DAY_S <= INTERVAL_MAX:
        return _as_rrule({"FREQ": "DAILY", "INTERVAL": str(seconds // DAY_S)}, local_s, zone)
    if is_local:
        begin = resolve(local_s, zone, ClockChanges())
        start_s = start_s if begin is None else begin
    return {"rate": duration_text(seconds), "anchor": utc_text(start_s), "zone": zone.key}


def _as_rrule(parts: dict[str, str], local_s: int, zone: Zone) -> dict[str, Any]:
    text = _with_defaults(parts, EPOCH + timedelta(seconds=local_s))
    return {"rrule": text, "start_local": local_text(local_s), "zone": zone.key}
