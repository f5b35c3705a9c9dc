"""For how long nothing is due: the longest gap between two occurrences within four years.

Owns that estimate, which a dead-man's switch goes by. Refuses to know jobs. Protects: bounded work for every schedule
and calendar; a gap of half a day or more is never overlooked, nor a shorter one that comes in the first days or where a
calendar excludes something.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tickwork.core.schedule.calendars.calendar import Calendar, require
from tickwork.core.schedule.calendars.exclusion import first_excluded
from tickwork.core.schedule.engine import NO_CALENDARS, Schedule, next_after, prev_before
from tickwork.core.schedule.limits import DAY_S

SPAN_S: Final = 4 * 366 * DAY_S
"""Four years: leap days, and calendars that are filled years ahead."""
LOOKS: Final = ((3 * DAY_S, 150), (8 * DAY_S, 1_800), (SPAN_S, 43_200))
"""How far each look goes, and the shortest gap that it finds, in seconds. Below 150 none makes a difference: twice that
is the least that a switch waits. What repeats daily shows its gaps in three days, what repeats weekly in eight."""
LEAPS_MAX: Final = 4_000
"""Of one look: four years of half days are 2,928."""
FREEZES_MAX: Final = 1_500
"""Begins of what calendars exclude: one of each day of four years."""


def longest_gap_s(schedule: Schedule, from_ms: int, calendars: Mapping[str, Calendar] = NO_CALENDARS) -> int | None:
    """The longest time, in seconds, between an occurrence after `from_ms` and the next one; never less than the closest
    look finds. None where it is due once at the most."""
    first = next_after(schedule, from_ms, calendars)
    if first is None or next_after(schedule, first, calendars) is None:
        return None
    longest_ms = 0
    for span_s, least_s in LOOKS:
        least_ms = max(longest_ms, least_s * 1000)
        longest_ms = max(longest_ms, _leaping(schedule, calendars, first, first + span_s * 1000, least_ms))
    if schedule.exclusion is not None:
        longest_ms = max(longest_ms, _at_freezes(schedule, calendars, first, first + SPAN_S * 1000))
    return max(longest_ms // 1000, LOOKS[0][1])


def _leaping(schedule: Schedule, calendars: Mapping[str, Calendar], at_ms: int, until_ms: int, least_ms: int) -> int:
    """The longest gap that begins at an occurrence from `at_ms` to `until_ms` and is longer than `least_ms`; 0: there
    is none. From one occurrence it leaps to the last within the longest gap so far: what lies between cannot be
    further apart."""
    longest_ms, found_ms = least_ms, 0
    for _ in range(LEAPS_MAX):
        if at_ms >= until_ms:
            break
        last_ms = prev_before(schedule, at_ms + longest_ms + 1, calendars)
        if last_ms is not None and last_ms > at_ms:
            at_ms = last_ms
            continue
        following_ms = next_after(schedule, at_ms, calendars)
        if following_ms is None:
            break
        longest_ms = found_ms = following_ms - at_ms
        at_ms = following_ms
    return found_ms


def _at_freezes(schedule: Schedule, calendars: Mapping[str, Calendar], at_ms: int, until_ms: int) -> int:
    """The longest gap around a begin of what a calendar excludes."""
    assert schedule.exclusion is not None
    known, longest_ms = require(schedule.exclusion.names, calendars), 0
    for _ in range(FREEZES_MAX):
        begin_s = first_excluded(known, at_ms // 1000, until_ms // 1000)
        if begin_s is None:
            break
        begin_ms = begin_s * 1000
        before_ms, after_ms = prev_before(schedule, begin_ms, calendars), next_after(schedule, begin_ms, calendars)
        if after_ms is None:
            break
        longest_ms = max(longest_ms, after_ms - (begin_ms if before_ms is None else before_ms))
        at_ms = max(after_ms, begin_ms + 1000)
    return longest_ms
