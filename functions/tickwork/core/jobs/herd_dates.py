"""The dates in a herd forecast that matter: when months and years turn, and clocks are changed where jobs live."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tickwork.core.instants import DAY_MS, SECOND_MS, iso
from tickwork.core.schedule import Schedule

CHANGES_MAX = 100
"""Of one zone in a quarter: more is no zone of this world."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An instant and what is there."""

    at_ms: int
    what: str


def marks(schedules: Iterable[Schedule], begin_ms: int, days: int) -> list[Mark]:
    """Between begin and end. `schedules`: of each job, so that those are counted whose clocks change."""
    end_ms = begin_ms + days * DAY_MS
    zones = Counter(schedule.zone for schedule in schedules)
    one_of = {schedule.zone: schedule for schedule in schedules}
    found = [*_turns(begin_ms, end_ms)]
    for name, count in zones.items():
        for at_ms, by_s in _changes(one_of[name], begin_ms, end_ms):
            way = "forward" if by_s > 0 else "back"
            found.append(Mark(at_ms, f"clocks go {way} {abs(by_s) // 60} min in {name} ({count} jobs)"))
    return sorted(found, key=lambda mark: (mark.at_ms, mark.what))


def _turns(begin_ms: int, end_ms: int) -> Iterator[Mark]:
    for midnight_ms in range(-(-begin_ms // DAY_MS) * DAY_MS, end_ms, DAY_MS):
        month_day = iso(midnight_ms)[5:10]
        if month_day == "01-01":
            yield Mark(midnight_ms, "New Year (UTC)")
        elif month_day.endswith("-01"):
            yield Mark(midnight_ms, "a month begins (UTC)")


def _changes(schedule: Schedule, begin_ms: int, end_ms: int) -> Iterator[tuple[int, int]]:
    zone, at_s = schedule.rule.zone, begin_ms // SECOND_MS
    for _ in range(CHANGES_MAX):
        segment = zone.segment_at(at_s)
        at_s = segment.end_s
        if at_s * SECOND_MS >= end_ms:
            return
        if segment.after_s != segment.offset_s:
            yield at_s * SECOND_MS, segment.after_s - segment.offset_s


def note_of(at_ms: int, dates: Iterable[Mark]) -> str:
    """What is special about a minute."""
    notes = ["midnight UTC"] if at_ms % DAY_MS == 0 else []
    notes += [mark.what for mark in dates if mark.at_ms // DAY_MS == at_ms // DAY_MS]
    return "; ".join(notes)
