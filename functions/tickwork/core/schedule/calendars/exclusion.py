"""Calendars applied to a schedule: occurrences left out, or moved to the next working day.

Owns: `Exclusion` and the search for the next or previous occurrence under it.
Refuses to know: how a calendar decides.
Protects: order. A moved occurrence may pass others (Saturday 10:00 and Sunday 09:00 both move to Monday), so
the search looks back over the excluded days before it answers; two that meet become one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tickwork.core.schedule.calendars.calendar import Calendar, require
from tickwork.core.schedule.limits import (
    DAY_S,
    EXCLUDED_STEPS_MAX,
    LAST_S,
    SHIFT_DAYS_MAX,
    SHIFT_STEPS_MAX,
    SLACK_S,
)
from tickwork.core.schedule.rules import Rule
from tickwork.core.schedule.walk import ClockChanges, resolve

ON_EXCLUDED: Final = ("skip", "next_working_day")


@dataclass(frozen=True, slots=True)
class Exclusion:
    """The calendars' names and what becomes of an occurrence that one of them excludes."""

    names: tuple[str, ...]
    on_excluded: str = "skip"


def next_s(rule: Rule, exclusion: Exclusion, after_s: int, calendars: Mapping[str, Calendar]) -> int | None:
    """The first occurrence that remains, strictly after `after_s`."""
    known = require(exclusion.names, calendars)
    if exclusion.on_excluded == "skip":
        return _next_kept(rule, known, after_s)
    return _next_moved(rule, known, after_s)


def prev_s(rule: Rule, exclusion: Exclusion, before_s: int, calendars: Mapping[str, Calendar]) -> int | None:
    """The last occurrence that remains, strictly before `before_s`."""
    known = require(exclusion.names, calendars)
    if exclusion.on_excluded == "skip":
        return _prev_kept(rule, known, before_s)
    return _prev_moved(rule, known, before_s)


def excluded_until(calendars: tuple[Calendar, ...], instant_s: int) -> int | None:
    """The latest end of what excludes `instant_s`, or None when nothing does."""
    ends = (calendar.excluded_until_s(instant_s) for calendar in calendars)
    return max((end for end in ends if end is not None), default=None)


def excluded_since(calendars: tuple[Calendar, ...], instant_s: int) -> int | None:
    """The earliest start of what excludes `instant_s`, or None when nothing does."""
    starts = (calendar.excluded_since_s(instant_s) for calendar in calendars)
    return min((start for start in starts if start is not None), default=None)


def excluding(calendars: tuple[Calendar, ...], instant_s: int) -> Calendar | None:
    """The calendar that excludes `instant_s`, if any."""
    return next((c for c in calendars if c.excluded_until_s(instant_s) is not None), None)


def moved_to(rule: Rule, calendars: tuple[Calendar, ...], instant_s: int) -> int | None:
    """`instant_s` itself when nothing excludes it, else the same wall time on the next day that is free; None
    when there is none within `SHIFT_DAYS_MAX` days."""
    if excluding(calendars, instant_s) is None:
        return instant_s
    zone = rule.zone
    local_s = instant_s + zone.offset_at(instant_s)
    for days in range(1, SHIFT_DAYS_MAX + 1):
        moved = resolve(local_s + days * DAY_S, zone, ClockChanges())
        if moved is None or moved > LAST_S:
            return None
        if excluding(calendars, moved) is None:
            return moved
    return None


def _next_kept(rule: Rule, calendars: tuple[Calendar, ...], after_s: int) -> int | None:
    for _ in range(EXCLUDED_STEPS_MAX):
        found = rule.next_s(after_s)
        if found is None:
            return None
        end = excluded_until(calendars, found)
        if end is None:
            return found
        after_s = end - 1
    return None


def _prev_kept(rule: Rule, calendars: tuple[Calendar, ...], before_s: int) -> int | None:
    for _ in range(EXCLUDED_STEPS_MAX):
        found = rule.prev_s(before_s)
        if found is None:
            return None
        since = excluded_since(calendars, found)
        if since is None:
            return found
        before_s = since
    return None


def _next_moved(rule: Rule, calendars: tuple[Calendar, ...], after_s: int) -> int | None:
    best: int | None = None
    nominal = rule.next_s(_first_that_may_move_past(rule, calendars, after_s))
    for _ in range(SHIFT_STEPS_MAX):
        if nominal is None or (best is not None and nominal >= best):
            return best
        moved = moved_to(rule, calendars, nominal)
        if moved is not None and moved > after_s and (best is None or moved < best):
            best = moved
        nominal = rule.next_s(nominal)
    return best


def _first_that_may_move_past(rule: Rule, calendars: tuple[Calendar, ...], after_s: int) -> int:
    """An instant before every occurrence that can be moved beyond `after_s`: the start of the run of days,
    each at least partly excluded, that reaches up to it."""
    start = after_s
    for _ in range(SHIFT_DAYS_MAX + 1):
        if not any(_touches(calendar, rule, start) for calendar in calendars):
            break
        start -= DAY_S
    return start - SLACK_S


def _touches(calendar: Calendar, rule: Rule, instant_s: int) -> bool:
    local_s = instant_s + rule.zone.offset_at(instant_s)
    return any(calendar.touches_day(local_s + days * DAY_S) for days in (-1, 0, 1))


def _prev_moved(rule: Rule, calendars: tuple[Calendar, ...], before_s: int) -> int | None:
    best: int | None = None
    nominal = rule.prev_s(before_s)
    for _ in range(SHIFT_STEPS_MAX):
        if nominal is None:
            return best
        if best is not None and nominal < best - SHIFT_DAYS_MAX * DAY_S - SLACK_S:
            return best
        moved = moved_to(rule, calendars, nominal)
        if moved is not None and moved < before_s and (best is None or moved > best):
            best = moved
        nominal = rule.prev_s(nominal)
    return best
