"""When a schedule is due, by the documentation, written out.

Every named wall time is listed, turned into instants, bounded, counted, joined, left out or moved, one step after the
other over the whole stretch asked about. Shares nothing with the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from hashlib import sha256
from typing import Any

from tests.oracle.calendars import Closed
from tests.oracle.clocks import DAY, FIXED, REAL, Clock, Policy, clock, date_of, day_number
from tests.oracle.days import Rule, cron_day, values

UNITS = {"m": 60, "h": 3_600, "d": DAY}
FAR = 1 << 50


@dataclass(frozen=True)
class Named:
    """An occurrence before calendars: its instant, the wall time that was named, where it lands by which policy, and
    the instant at which nothing of it may start any more."""

    instant: int
    local: int
    zone: str
    policy: Policy
    end: int = FAR


@dataclass(frozen=True)
class Case:
    """A schedule, the calendars it names, and the instant (in milliseconds) at which it is registered."""

    spec: dict[str, Any]
    calendars: tuple[dict[str, Any], ...]
    now_ms: int


def instant_of(text: str, zone: str = "UTC") -> int:
    """An instant, or a wall time of the zone: at the first pass, or after the gap."""
    at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if at.tzinfo is not None:
        return round(at.timestamp())
    return clock(zone).instants(_local(at), FIXED)[0]


def _local(at: datetime) -> int:
    return day_number(at.date()) * DAY + at.hour * 3_600 + at.minute * 60 + at.second


class Expected:
    """The occurrences of a case from `low` to `high`, as a map of instants to the ends that hold for them."""

    def __init__(self, case: Case, low: int, high: int) -> None:
        self.case = case
        self.closed = [Closed(calendar) for calendar in case.calendars]
        found = _occurrences(case.spec, case.now_ms, low - 40 * DAY, high + 3 * DAY)
        self.due: dict[int, int] = {}
        how = case.spec.get("calendars", {}).get("on_excluded", "skip")
        for named in found:
            for at in self._remaining(named, how):
                self.due[at] = max(self.due.get(at, 0), named.end)
        self.instants = sorted(at for at in self.due if low < at <= high)
        self._order = sorted(self.due)

    def is_closed(self, instant: int) -> bool:
        return any(closed.excludes(instant) for closed in self.closed)

    def _remaining(self, named: Named, how: str) -> list[int]:
        if not self.is_closed(named.instant):
            return [named.instant]
        if how == "skip":
            return []
        for days in range(1, 32):
            landed = clock(named.zone).instants(named.local + days * DAY, named.policy)
            free = [at for at in landed if not self.is_closed(at)]
            if free:
                return [at for at in free if at < named.end]
        return []

    def fires_at(self, instant: int, job_id: str, tolerance_s: int) -> int:
        """The occurrence with its jitter: second by second, until something forbids the start."""
        later = next((at for at in self._order if at > instant), FAR)
        room = 1
        while room < tolerance_s and instant + room < min(later, self.due[instant]):
            if self.is_closed(instant + room):
                break
            room += 1
        number = int.from_bytes(sha256(f"jitter|{job_id}".encode()).digest()[:8])
        return instant + number % room


def _occurrences(spec: dict[str, Any], now_ms: int, low: int, high: int, zone: str = "UTC") -> list[Named]:
    zone = spec.get("zone", zone)
    low = min([low, *(_begins(spec, now_ms, zone))])
    if "any_of" in spec:
        found = [one for member in spec["any_of"] for one in _occurrences(member, now_ms, low, high, zone)]
    else:
        kind = next(kind for kind in ("cron", "rrule", "rate", "at") if kind in spec)
        found = _KINDS[kind](spec, zone, low, high)
    return _bounded(found, spec, zone, now_ms)


def _begins(spec: dict[str, Any], now_ms: int, zone: str) -> list[int]:
    """Where counting begins, so that nothing that counts lies before the stretch."""
    if "count" not in spec:
        return []
    return [instant_of(spec["start"], zone) if "start" in spec else now_ms // 1000 + 1]


def _bounded(found: list[Named], spec: dict[str, Any], zone: str, now_ms: int) -> list[Named]:
    start = instant_of(spec["start"], zone) if "start" in spec else None
    end = instant_of(spec["end"], zone) if "end" in spec else FAR
    if "count" in spec and start is None:
        start = now_ms // 1000 + 1
    kept = [one for one in found if (start is None or one.instant >= start) and one.instant < end]
    kept = [Named(one.instant, one.local, one.zone, one.policy, min(one.end, end)) for one in kept]
    return _first(kept, spec["count"]) if "count" in spec else kept


def _first(found: list[Named], count: int) -> list[Named]:
    counted = set(sorted({one.instant for one in found})[:count])
    return [one for one in found if one.instant in counted]


def _policy(spec: dict[str, Any]) -> Policy:
    dst = spec.get("dst", {})
    return Policy(dst.get("gap", "run_after"), dst.get("fold", "first"))


def _spread(locals_: list[int], place: Clock, zone: str, policy: Policy, low: int, high: int) -> list[Named]:
    near = [local for local in locals_ if low - 2 * DAY <= local <= high + 2 * DAY]
    return [
        Named(at, local, zone, policy) for local in near for at in place.instants(local, policy) if low <= at <= high
    ]


def _cron(spec: dict[str, Any], zone: str, low: int, high: int) -> list[Named]:
    minute, hour, dom, month, dow = spec["cron"].split()
    policy = REAL if minute[0] == "*" or hour[0] == "*" else _policy(spec)
    times = sorted(h * 3_600 + m * 60 for h in values(hour, 0, 23) for m in values(minute, 0, 59))
    fits = cron_day(dom, month, dow)
    days = [day for day in range(low // DAY - 2, high // DAY + 3) if fits(date_of(day))]
    return _spread([day * DAY + time for day in days for time in times], clock(zone), zone, policy, low, high)


def _rate(spec: dict[str, Any], zone: str, low: int, high: int) -> list[Named]:
    period = int(spec["rate"][:-1]) * UNITS[spec["rate"][-1]]
    at = instant_of(spec["anchor"], zone)
    if at < low:
        at += (low - at + period - 1) // period * period
    place = clock(zone)
    return [Named(one, place.local(one), zone, FIXED) for one in range(at, high + 1, period)]


def _at(spec: dict[str, Any], zone: str, low: int, high: int) -> list[Named]:
    text = spec["at"]
    if text.endswith("Z"):
        at = instant_of(text)
        return [Named(at, clock(zone).local(at), zone, FIXED)]
    local = _local(datetime.fromisoformat(text))
    return [Named(at, local, zone, _policy(spec)) for at in clock(zone).instants(local, _policy(spec))]


def _rrule(spec: dict[str, Any], zone: str, low: int, high: int) -> list[Named]:
    lines = dict(line.split(":", 1) for line in spec["rrule"].split("\n"))
    head = next(name for name in lines if name.startswith("DTSTART"))
    zone = head.partition("TZID=")[2] or zone
    place, policy, text = clock(zone), _policy(spec), lines[head]
    start = _basic(text)
    begin = start
    if text.endswith("Z"):
        start = place.local(begin)
    parts = dict(item.split("=") for item in lines["RRULE"].split(";"))
    if "COUNT" in parts:
        low = min(low, start - 2 * DAY)
    locals_ = [local for local in _rule_times(parts, start, high) if start <= local]
    found = _spread(locals_, place, zone, policy, low, high)
    if text.endswith("Z"):
        found = _begun_at(found, begin, start, zone, policy, in_rule=start in locals_)
    if "UNTIL" in parts:
        end = _until(parts["UNTIL"], place)
        found = [Named(one.instant, one.local, one.zone, one.policy, end) for one in found if one.instant < end]
    if "COUNT" in parts:
        found = _first(found, int(parts["COUNT"]))
    without = {_basic(one) for name, texts in lines.items() if name == "EXDATE" for one in texts.split(",")}
    return [one for one in found if one.local not in without]


def _begun_at(found: list[Named], begin: int, start: int, zone: str, policy: Policy, *, in_rule: bool) -> list[Named]:
    """A start that is an instant is the first occurrence, and the only one of its wall time but for `both`."""
    if not in_rule:
        return [one for one in found if one.instant >= begin]
    passes = clock(zone).instants(start, policy)
    if begin in passes:
        return [one for one in found if one.instant >= begin]
    return [Named(begin, start, zone, FIXED), *(one for one in found if one.instant > begin and one.local != start)]


def _rule_times(parts: dict[str, str], start: int, high: int) -> list[int]:
    clock_parts = (start % DAY // 3_600, start % 3_600 // 60, start % 60)
    hours, minutes, seconds = (
        sorted({int(item) for item in parts[key].split(",")}) if key in parts else [default]
        for key, default in zip(("BYHOUR", "BYMINUTE", "BYSECOND"), clock_parts, strict=True)
    )
    times = [h * 3_600 + m * 60 + s for h in hours for m in minutes for s in seconds]
    rule = Rule.read(parts, date_of(start // DAY))
    found: list[int] = []
    last = date_of(high // DAY) + timedelta(days=3)
    for days in rule.sets(date_of(start // DAY), last):
        members = [day_number(day) * DAY + time for day in days for time in times]
        if rule.positions:
            places = {place - 1 if place > 0 else len(members) + place for place in rule.positions}
            members = [one for number, one in enumerate(members) if number in places]
        found.extend(members)
    return found


def _until(text: str, place: Clock) -> int:
    if text.endswith("Z"):
        return _basic(text) + 1
    local = _basic(text) if "T" in text else _basic(text) + DAY - 1
    return place.instants(local, Policy(fold="second"))[0] + 1


def _basic(text: str) -> int:
    day = date(int(text[:4]), int(text[4:6]), int(text[6:8]))
    clock_text = text[9:15] or "000000"
    hour, minute, second = int(clock_text[:2]), int(clock_text[2:4]), int(clock_text[4:])
    return day_number(day) * DAY + hour * 3_600 + minute * 60 + second


_KINDS = {"cron": _cron, "rate": _rate, "at": _at, "rrule": _rrule}
