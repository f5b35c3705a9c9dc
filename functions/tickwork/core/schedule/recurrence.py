"""RRULEs and ISO-8601 repeats as people write them, turned into the normal form.

Owns: DTSTART, COUNT, UNTIL, RDATE and EXDATE, what a rule takes from DTSTART when it does not say it, and
`R5/start/period`.
Refuses to know: occurrences (see `rrule`), the lines of a text (see `ical`). Protects: the stored rule depends on
DTSTART only for counting intervals; a start that is an instant is the first occurrence, whichever pass of a repeated
hour it lies in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from tickwork.core.schedule.duration import duration_text, read_duration_s
from tickwork.core.schedule.ical import EPOCH, Moment, read_lines, read_moment, said_twice
from tickwork.core.schedule.instant import in_range, local_text, read_instant_s, read_time, utc_text
from tickwork.core.schedule.limits import DAY_S, FIRST_S, LAST_S, LEFT_OUT_MAX, MEMBERS_MAX, SLACK_S
from tickwork.core.schedule.refusal import ScheduleRefused
from tickwork.core.schedule.rrule import INTERVAL_MAX, parse_rrule
from tickwork.core.schedule.rrule_parts import WEEKDAYS, bad_rrule, check_lists, read_parts
from tickwork.core.schedule.walk import ClockChanges, instants_of, resolve
from tickwork.core.schedule.zone import Zone

_REPEAT: Final = re.compile(r"R([0-9]{1,5})?/([^/]+)/(P[^/]+)", re.ASCII)
_CALENDAR_STEP: Final = re.compile(r"P(?:([0-9]{1,3})Y)?(?:([0-9]{1,4})M)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Context:
    """What stands beside a rule: the present (as an instant, rounded up), the zone and whether the spec named it, and
    the policies for changes of clocks."""

    now_s: int
    zone: Zone
    has_zone: bool
    dst: Mapping[str, str]

    @property
    def changes(self) -> ClockChanges:
        return ClockChanges(self.dst["gap"], self.dst["fold"])


@dataclass(frozen=True, slots=True)
class Limits:
    """What a text says about its ends: a number of occurrences from its start on, and an exclusive end."""

    count: int | None = None
    end_s: int | None = None


def normal_rrule(
    value: object, context: Context, *, start_local: object = None, exdate: object = None
) -> dict[str, Any]:
    """The normal form: an `rrule` (with its bounds), or a union where a start or an RDATE is no wall time of the rule.

    `value` is "FREQ=...", or DTSTART, RRULE, RDATE and EXDATE lines. The rule counts from DTSTART, else from
    `start_local`, else from now.
    """
    if not isinstance(value, str):
        raise bad_rrule("an RRULE is a text", 'write "FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0;BYSECOND=0"')
    lines = read_lines(value, context.zone)
    if lines.has_tzid and context.has_zone and lines.zone.key != context.zone.key:
        raise said_twice(f"the rule is in {lines.zone.key} by its TZID", "zone")
    context = Context(context.now_s, lines.zone, context.has_zone, context.dst)
    parts = read_parts(lines.rule)
    check_lists(parts)
    start = _start(lines.start, start_local, context)
    limits = _limits(parts, context.zone)
    normal: dict[str, Any] = {
        "rrule": _with_defaults(parts, EPOCH + timedelta(seconds=start.local_s)),
        "start_local": local_text(start.local_s),
        "zone": context.zone.key,
        "dst": dict(context.dst),
    }
    left_out = _left_out(lines.left_out, exdate, context.zone, normal["rrule"], start.local_s)
    if left_out:
        normal["exdate"] = left_out
    is_from_now = lines.start is None and start_local is None
    return _begun(normal, start, limits, context, extra=lines.extra, is_from_now=is_from_now)


def _start(given: Moment | None, start_local: object, context: Context) -> Moment:
    """Where the rule counts from."""
    if start_local is None:
        return given or Moment(context.now_s + context.zone.offset_at(context.now_s))
    time = read_time(start_local, "start_local")
    if time.offset_s is not None:
        raise bad_rrule(f"{start_local!r} is no wall time", "leave out the offset", field="start_local")
    in_range(time.ceil_local_s(), "start_local")
    if given is not None and given.local_s != time.ceil_local_s():
        raise said_twice(f"the rule starts at {local_text(given.local_s)} by its DTSTART", "start_local")
    return given or Moment(time.ceil_local_s())


def _limits(parts: dict[str, str], zone: Zone) -> Limits:
    """COUNT and UNTIL, taken out of the parts."""
    count, until = parts.pop("COUNT", None), parts.pop("UNTIL", None)
    if count is not None and not (count.isascii() and count.isdigit() and int(count[:9]) > 0 and len(count) < 10):
        raise bad_rrule(f"COUNT={count} is no number", "write COUNT=10")
    return Limits(None if count is None else int(count), None if until is None else _until_s(until, zone))


def _until_s(text: str, zone: Zone) -> int:
    """The end that UNTIL stands for: the first second after it. An instant is one, also inside a repeated hour; a wall
    time that comes twice is over with its second pass, a date with its last second."""
    until = read_moment(text, zone)
    if until.instant_s is not None:
        return min(max(until.instant_s, FIRST_S) + 1, LAST_S)
    if not FIRST_S + SLACK_S < until.local_s < LAST_S - SLACK_S:  # as good as never, or as for ever
        return FIRST_S + 1 if until.local_s < 0 else LAST_S
    found = resolve(until.local_s + (DAY_S - 1 if until.is_date else 0), zone, ClockChanges(fold="second"))
    assert found is not None
    return min(found + 1, LAST_S)


def _left_out(moments: Iterable[Moment], exdate: object, zone: Zone, rule: str, start_s: int) -> list[str]:
    """EXDATE as wall times of the rule; a date leaves out all its times."""
    local: set[int] = set()
    for moment in moments:
        if moment.is_date:
            local.update(_of_day(rule, start_s, moment.local_s))
        else:
            local.add(moment.local_s)
    if exdate is not None:
        if not isinstance(exdate, list | tuple):
            raise ScheduleRefused("bad_type", "exdate is a list of times", field="exdate",
                                  remedy='write ["2026-12-24T09:00:00"]')  # fmt: skip
        local.update(_local_s(text, zone) for text in exdate)
    if len(local) > LEFT_OUT_MAX:
        raise bad_rrule(f"{len(local)} times are left out", f"use at most {LEFT_OUT_MAX}, or a calendar")
    return [local_text(at) for at in sorted(local)]


def _local_s(text: object, zone: Zone) -> int:
    time = read_time(text, "exdate")
    if time.offset_s is None:
        return time.ceil_local_s()
    instant_s = read_instant_s(text, "exdate")
    return instant_s + zone.offset_at(instant_s)


def _of_day(rule: str, start_s: int, day_s: int) -> list[int]:
    """The times of the rule on the day that begins at `day_s`."""
    times, found = parse_rrule(rule, start_s), []
    at = times.next_match(day_s)
    while at is not None and at < day_s + DAY_S:
        found.append(at)
        if len(found) > LEFT_OUT_MAX:
            raise bad_rrule("an EXDATE leaves out more times than can be kept", "use a calendar")
        at = times.next_match(at + 1)
    return found


def _begun(
    normal: dict[str, Any],
    start: Moment,
    limits: Limits,
    context: Context,
    *,
    extra: Iterable[Moment] = (),
    is_from_now: bool = False,
) -> dict[str, Any]:
    """The rule with its bounds. A start that is an instant, and not the pass at which the rule would run, is joined to
    it (it is the first occurrence), and so are further dates."""
    times = parse_rrule(normal["rrule"], start.local_s)
    joined = [_single(moment, context) for moment in extra]
    begin_s = _begin_s(start, context)
    bounds: dict[str, Any] = {} if limits.end_s is None else {"end": utc_text(limits.end_s)}
    count = limits.count
    if start.instant_s is not None and times.next_match(start.local_s) == start.local_s:
        passes = instants_of(start.local_s, context.zone, context.changes)
        if start.instant_s not in passes:
            joined.insert(0, {"at": utc_text(start.instant_s), "zone": context.zone.key, **bounds})
            begin_s = max(*passes, start.instant_s) + 1 if passes else start.instant_s + 1
            bounds["start"] = utc_text(begin_s)
            count = None if count is None else count - 1
        elif passes[0] < start.instant_s:
            bounds["start"] = utc_text(start.instant_s)
    if is_from_now and begin_s == context.now_s:
        # Registered on a whole second: that second is no occurrence that could still be met, nor counted.
        begin_s += 1
        bounds["start"] = utc_text(begin_s)
    if count is not None:
        bounds |= {"count": count, "start": utc_text(begin_s)}
    if not joined:
        return normal | bounds
    members = ([normal | bounds] if count != 0 else []) + joined
    if len(members) > MEMBERS_MAX:
        raise bad_rrule(f"there are {len(joined)} dates beside the rule", f"give at most {MEMBERS_MAX - 1} RDATEs")
    return {"any_of": members}


def _begin_s(start: Moment, context: Context) -> int:
    if start.instant_s is not None:
        return in_range(start.instant_s, "rrule")
    found = resolve(start.local_s, context.zone, ClockChanges())
    assert found is not None
    return found


def _single(moment: Moment, context: Context) -> dict[str, Any]:
    """One date beside the rule as a schedule of its own."""
    if moment.instant_s is not None:
        return {"at": utc_text(moment.instant_s), "zone": context.zone.key}
    fold = "first" if context.dst["fold"] == "both" else context.dst["fold"]
    return {"at": local_text(moment.local_s), "zone": context.zone.key, "dst": {**context.dst, "fold": fold}}


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
            parts["BYDAY"] = WEEKDAYS[start.weekday()]
    elif "BYWEEKNO" in parts and not any(key in parts for key in ("BYDAY", "BYMONTHDAY", "BYYEARDAY")):
        parts["BYDAY"] = WEEKDAYS[start.weekday()]  # a week is no day yet
    for key, value in (("BYHOUR", start.hour), ("BYMINUTE", start.minute), ("BYSECOND", start.second)):
        parts.setdefault(key, str(value))
    return ";".join(f"{key}={parts[key]}" for key in sorted(parts, key=lambda key: (key != "FREQ", key)))


def from_iso_repeat(value: object, context: Context) -> dict[str, Any]:
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
    time = read_time(found[2], "repeat")
    start = Moment(in_range(time.ceil_local_s(), "repeat"))
    if time.offset_s is not None:
        instant_s = in_range(time.ceil_local_s() - time.offset_s, "repeat")
        start = Moment(instant_s + context.zone.offset_at(instant_s), instant_s)
    if found[1] is not None and not int(found[1]):
        raise ScheduleRefused("bad_count", "R0 repeats nothing", field="repeat", remedy="write R1 for once, R for ever")
    limits = Limits(None if found[1] is None else int(found[1]))
    parts = _repeat_parts(found[3], is_local=start.instant_s is None)
    if isinstance(parts, dict):
        rule = _with_defaults(parts, EPOCH + timedelta(seconds=start.local_s))
        normal = {"rrule": rule, "start_local": local_text(start.local_s), "zone": context.zone.key}
        return _begun(normal | {"dst": dict(context.dst)}, start, limits, context)
    begin_s = _begin_s(start, context)
    normal = {"rate": duration_text(parts), "anchor": utc_text(begin_s), "zone": context.zone.key}
    return normal if limits.count is None else {**normal, "count": limits.count, "start": utc_text(begin_s)}


def _repeat_parts(period: str, *, is_local: bool) -> dict[str, str] | int:
    """The rule of months, years and local days; else the length in seconds."""
    step = _CALENDAR_STEP.fullmatch(period)
    if step is not None and any(step.groups()):
        months = int(step[1] or 0) * 12 + int(step[2] or 0)
        if not 1 <= months <= INTERVAL_MAX:
            raise bad_rrule(f"{period} is out of range", f"give 1 to {INTERVAL_MAX} months", field="repeat")
        return {"FREQ": "MONTHLY", "INTERVAL": str(months)}
    seconds = read_duration_s(period, "repeat")
    if is_local and seconds % DAY_S == 0 and "T" not in period and seconds // DAY_S <= INTERVAL_MAX:
        return {"FREQ": "DAILY", "INTERVAL": str(seconds // DAY_S)}
    return seconds
