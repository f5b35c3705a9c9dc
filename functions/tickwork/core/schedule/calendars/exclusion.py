"""Calendars applied to a schedule: occurrences left out, or moved to the next working day.

Owns: `Exclusion`, the search for the next or previous occurrence under it, and what a start has to wait for.
Refuses to know: how a calendar decides, where a moved occurrence lands (see `moving`).
Protects: occurrences strictly increase; two that meet become one; bounded work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tickwork.core.schedule.calendars.calendar import Calendar, require
from tickwork.core.schedule.calendars.moving import Shift, excluded_until, excluding
from tickwork.core.schedule.limits import EXCLUDED_SPAN_S, EXCLUDED_STEPS_MAX
from tickwork.core.schedule.rules import Rule, strands

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
    found = (shift.next_s(after_s) for shift in shifts(rule, known))
    return min((at for at in found if at is not None), default=None)


def prev_s(rule: Rule, exclusion: Exclusion, before_s: int, calendars: Mapping[str, Calendar]) -> int | None:
    """The last occurrence that remains, strictly before `before_s`."""
    known = require(exclusion.names, calendars)
    if exclusion.on_excluded == "skip":
        return _prev_kept(rule, known, before_s)
    found = (shift.prev_s(before_s) for shift in shifts(rule, known))
    return max((at for at in found if at is not None), default=None)


def shifts(rule: Rule, calendars: tuple[Calendar, ...]) -> tuple[Shift, ...]:
    """The strands of a rule whose occurrences are moved off what the calendars exclude."""
    return tuple(Shift(strand, calendars) for strand in strands(rule))


def first_excluded(calendars: tuple[Calendar, ...], from_s: int, before_s: int) -> int | None:
    """The first instant in `from_s` <= t < `before_s` that a calendar excludes."""
    found = (calendar.first_excluded_s(from_s, before_s) for calendar in calendars)
    return min((at for at in found if at is not None), default=None)


@dataclass(frozen=True, slots=True)
class Freeze:
    """What a start has to wait for: the calendar that excludes its time, and until when that or others do. Where they
    take over from one another without end, more is excluded after it: ask again at that time."""

    calendar: str
    until_ms: int


def hard_freeze(calendars: Mapping[str, Calendar], at_ms: int) -> Freeze | None:
    """What a start at `at_ms` has to wait for; None when no calendar with `hard: true` excludes it."""
    hard = tuple(calendar for calendar in calendars.values() if calendar.hard)
    by = excluding(hard, at_ms // 1000) if hard else None
    if by is None:
        return None
    until_s = excluded_until(hard, at_ms // 1000) or at_ms // 1000 + 1
    return Freeze(by.name, until_s * 1000)


def _next_kept(rule: Rule, calendars: tuple[Calendar, ...], after_s: int) -> int | None:
    last_s = after_s + EXCLUDED_SPAN_S
    for _ in range(EXCLUDED_STEPS_MAX):
        found = rule.next_s(after_s)
        if found is None:
            return None
        end = next((end for one in calendars if (end := one.excluded_until_s(found)) is not None), None)
        if end is None:
            return found
        if end > last_s:
            return None
        after_s = end - 1
    return None


def _prev_kept(rule: Rule, calendars: tuple[Calendar, ...], before_s: int) -> int | None:
    first_s = before_s - EXCLUDED_SPAN_S
    for _ in range(EXCLUDED_STEPS_MAX):
        found = rule.prev_s(before_s)
        if found is None:
            return None
        since = next((at for one in calendars if (at := one.excluded_since_s(found)) is not None), None)
        if since is None:
            return found
        if since < first_s:
            return None
        before_s = since
    return None
