"""Occurrences as people want to see them, and whole stretches of them as programs do.

Owns: `Occurrence` (UTC, local, offset, and a note where a change of clocks or a calendar had a hand in it).
Refuses to know: how they are printed. Protects: a preview in pieces is the preview at once, notes included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tickwork.core.schedule.calendars.calendar import Calendar
from tickwork.core.schedule.engine import NO_CALENDARS, Schedule, next_after, prev_before
from tickwork.core.schedule.instant import local_text, utc_text
from tickwork.core.schedule.limits import PREVIEW_MAX
from tickwork.core.schedule.shown.notes import note_for


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One instant at which a schedule is due.

    `scheduled_at_ms` is the nominal time, before jitter; `local` is ISO-8601 with the offset in force
    (`offset_s`) in `zone`; `note` says in words where the clocks or a calendar moved, merged or dropped a
    time.
    """

    scheduled_at_ms: int
    local: str
    offset_s: int
    zone: str
    note: str | None

    @property
    def scheduled_at(self) -> str:
        """The UTC text, `2026-11-01T07:00:00Z`."""
        return utc_text(self.scheduled_at_ms // 1000)


def occurrences(
    schedule: Schedule, after_ms: int, count: int, calendars: Mapping[str, Calendar] = NO_CALENDARS
) -> list[Occurrence]:
    """The first `count` (at most 1,000) occurrences strictly after `after_ms`, in order."""
    found: list[Occurrence] = []
    at = after_ms
    for _ in range(min(count, PREVIEW_MAX)):
        following = next_after(schedule, at, calendars)
        if following is None:
            break
        at = following
        found.append(_occurrence(schedule, at, calendars))
    return found


def occurrences_before(
    schedule: Schedule, before_ms: int, count: int, calendars: Mapping[str, Calendar] = NO_CALENDARS
) -> list[Occurrence]:
    """The last `count` (at most 1,000) occurrences strictly before `before_ms`, the latest first."""
    found: list[Occurrence] = []
    at = before_ms
    for _ in range(min(count, PREVIEW_MAX)):
        earlier = prev_before(schedule, at, calendars)
        if earlier is None:
            break
        at = earlier
        found.append(_occurrence(schedule, at, calendars))
    return found


def scheduled_between(
    schedule: Schedule, after_ms: int, until_ms: int, calendars: Mapping[str, Calendar] = NO_CALENDARS
) -> Iterator[int]:
    """Each occurrence in `after_ms` < t <= `until_ms`, as epoch milliseconds. The caller bounds how many it
    takes."""
    at = next_after(schedule, after_ms, calendars)
    while at is not None and at <= until_ms:
        yield at
        at = next_after(schedule, at, calendars)


def _occurrence(schedule: Schedule, at_ms: int, calendars: Mapping[str, Calendar]) -> Occurrence:
    at_s = at_ms // 1000
    offset_s = schedule.rule.zone.offset_at(at_s)
    local = local_text(at_s + offset_s, offset_s)
    return Occurrence(at_ms, local, offset_s, schedule.zone, note_for(schedule, at_s, calendars))
