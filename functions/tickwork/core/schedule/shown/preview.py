"""What a person or a program sees of a schedule's occurrences.

Owns: the JSON rows and the text lines of a preview, the same for the command line and the API.
Refuses to know: where they are printed. Protects: `scheduled_at` is the frozen UTC form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tickwork.core.errors import CallerError
from tickwork.core.schedule.calendars.calendar import Calendar
from tickwork.core.schedule.engine import NO_CALENDARS, Schedule
from tickwork.core.schedule.instant import offset_text
from tickwork.core.schedule.shown.occurrence import Occurrence, occurrences, occurrences_before

_DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")


def preview(
    schedule: Schedule,
    *,
    count: int,
    after_ms: int | None = None,
    before_ms: int | None = None,
    calendars: Mapping[str, Calendar] = NO_CALENDARS,
) -> list[Occurrence]:
    """The next `count` occurrences after `after_ms`, or the last `count` before `before_ms`, the nearest
    first.

    Exactly one of the two instants is given.
    """
    if before_ms is not None:
        return occurrences_before(schedule, before_ms, count, calendars)
    assert after_ms is not None
    return occurrences(schedule, after_ms, count, calendars)


def as_rows(found: Sequence[Occurrence]) -> list[dict[str, Any]]:
    """JSON-able rows: `scheduled_at` (UTC), `local`, `offset` ("-05:00"), `zone`, `note` (text or null)."""
    return [
        {
            "scheduled_at": occurrence.scheduled_at,
            "local": occurrence.local,
            "offset": offset_text(occurrence.offset_s),
            "zone": occurrence.zone,
            "note": occurrence.note,
        }
        for occurrence in found
    ]


def as_lines(found: Sequence[Occurrence]) -> list[str]:
    """Lines of text, aligned: weekday and local time, UTC, note."""
    lines = []
    for occurrence in found:
        local_s = occurrence.scheduled_at_ms // 1000 + occurrence.offset_s
        day = _DAYS[(local_s // 86_400 + 4) % 7]
        line = f"{day} {occurrence.local.replace('T', ' ')}  {occurrence.scheduled_at}"
        lines.append(f"{line}  {occurrence.note}" if occurrence.note else line)
    return lines


def error_lines(error: CallerError) -> list[str]:
    """A refusal as lines of text: what is wrong, where, and what to change."""
    where = f"{error.field}: " if error.field else ""
    lines = [f"error: {where}{error.detail}"]
    if error.remedy:
        lines.append(f"  try: {error.remedy}")
    return lines
