"""The note beside an occurrence: what a change of clocks, or a calendar, did to it.

Owns: finding out and saying it. Refuses to know: the policies' reasons (`walk` decides; this only reports).
Protects: a time that was moved, merged or dropped is never silent in a preview.

A dropped time has no occurrence of its own, so it is told beside the next one that remains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tickwork.core.schedule.calendars.calendar import Calendar
from tickwork.core.schedule.calendars.exclusion import shifts
from tickwork.core.schedule.calendars.moving import excluding
from tickwork.core.schedule.engine import Schedule, prev_before
from tickwork.core.schedule.instant import local_text
from tickwork.core.schedule.limits import DAY_S, FIRST_S, SHIFT_DAYS_MAX, SHIFT_STEPS_MAX, SLACK_S
from tickwork.core.schedule.rules import AtRule, BoundedRule, Rule, UnionRule, ZonedRule
from tickwork.core.schedule.walk import ClockChanges, skipped_range
from tickwork.core.schedule.zone import Segment, zone_named

#: What is moved here, or was given up, lies at most twice as far back as a run is moved.
_LOOKED_BACK_S = 2 * SHIFT_DAYS_MAX * DAY_S + SLACK_S

_LISTED_MAX = 4
_COUNTED_MAX = 1_000

#: Changes of clocks looked back at, for a job that is due less than once a year: some five years of them.
_SEGMENTS_MAX = 12


def note_for(schedule: Schedule, at_s: int, calendars: Mapping[str, Calendar]) -> str | None:
    """The note of the occurrence at `at_s`, or None."""
    parts = list(dict.fromkeys(_clock_notes(schedule.rule, at_s)))
    parts.extend(_calendar_notes(schedule, at_s, calendars))
    return "; ".join(parts) or None


def _clock_notes(rule: Rule, at_s: int) -> Iterator[str]:
    if isinstance(rule, BoundedRule):
        yield from _clock_notes(rule.rule, at_s)
    elif isinstance(rule, UnionRule):
        for member in rule.members:
            if member.next_s(at_s - 1) == at_s:  # of its own; where a calendar moved it here, that is told
                yield from _clock_notes(member, at_s)
    elif isinstance(rule, ZonedRule):
        if rule.next_s(at_s - 1) == at_s:  # else a calendar moved it here
            yield from _gap_notes(rule, at_s)
        yield from _fold_notes(rule.changes, rule.zone.segment_at(at_s), at_s)
    elif isinstance(rule, AtRule) and rule.local_s is not None:
        shown = at_s + rule.zone.offset_at(at_s)
        if rule.at_s == at_s and shown != rule.local_s:
            yield f"{_time(rule.local_s)} does not exist on that day: moved to {_time(shown)}"
        yield from _fold_notes(rule.changes, rule.zone.segment_at(at_s), at_s)


def _gap_notes(rule: ZonedRule, at_s: int) -> Iterator[str]:
    """What was lost between the occurrence before and the one at `at_s`."""
    since_s = rule.prev_s(at_s)
    segment = rule.zone.segment_at(at_s)
    for _ in range(_SEGMENTS_MAX):
        if segment.before_s < segment.offset_s:
            yield from _gap_note(rule, segment, at_s, first=since_s is None or since_s < segment.start_s)
        if segment.start_s <= FIRST_S or (since_s is not None and segment.start_s <= since_s):
            return
        segment = rule.zone.segment_at(segment.start_s - 1)


def _gap_note(rule: ZonedRule, segment: Segment, at_s: int, *, first: bool) -> Iterator[str]:
    """The note on the gap before `segment`; `first` says that `at_s` is the first occurrence since."""
    lost = _matches(rule, segment.start_s + segment.before_s, segment.start_s + segment.offset_s)
    if not lost:
        return
    is_daylight_saving = skipped_range(segment) is not None
    if is_daylight_saving and rule.changes.gap == "shift":
        nominal_s = at_s + segment.before_s
        if nominal_s in lost:
            yield f"{_time(nominal_s)} did not exist on {_date(nominal_s)} (clocks went forward): runs as much later"
        return
    if not first:
        return
    times = f"{_times(lost)} did not exist on {_date(lost[0])}"
    if not is_daylight_saving:
        yield f"{times}: the clocks jumped by more than three hours, nothing is made up"
    elif rule.changes.gap == "skip":
        yield f"{times} (clocks went forward): left out"
    else:
        here = rule.wall.next_match(at_s + segment.offset_s) == at_s + segment.offset_s
        merged = ", merged with the regular run" if here else ", merged into one run" if len(lost) > 1 else ""
        yield f"{times} (clocks went forward): runs at the first instant after the gap{merged}"


def _fold_notes(changes: ClockChanges, segment: Segment, at_s: int) -> Iterator[str]:
    local_s = at_s + segment.offset_s
    if segment.after_s < segment.offset_s and local_s >= segment.end_s + segment.after_s:
        what = _FIRST_PASS[changes.fold]
    elif segment.before_s > segment.offset_s and local_s < segment.start_s + segment.before_s:
        what = _SECOND_PASS[changes.fold]
    else:
        return
    yield f"{_time(local_s)} comes twice on {_date(local_s)} (clocks go back): {what}"


_FIRST_PASS = {"first": "runs at the first one only", "both": "the first pass", "second": "the first pass"}
_SECOND_PASS = {
    "second": "runs at the second one only",
    "both": "the second pass",
    "first": "the second pass",
}


def _calendar_notes(schedule: Schedule, at_s: int, calendars: Mapping[str, Calendar]) -> Iterator[str]:
    """Which excluded runs were moved here, and which have found no free day since the run before."""
    if schedule.exclusion is None or schedule.exclusion.on_excluded == "skip":
        return
    known = tuple(calendars[name] for name in schedule.exclusion.names)
    since_ms = prev_before(schedule, at_s * 1000, calendars)
    lost: list[int] = []
    here: list[str] = []
    for shift in shifts(schedule.rule, known):
        nominal = shift.strand.prev_s(at_s)
        for _ in range(SHIFT_STEPS_MAX):
            if nominal is None or nominal < at_s - _LOOKED_BACK_S:
                break
            end = shift.excluded_until(nominal)
            moved = [] if end is None else shift.moved(nominal, end)
            if at_s in moved:
                local_s = next(shift.named(nominal), nominal)
                here.append(f"moved from {local_text(local_s)[:16]}: {_reason(known, nominal)}")
            if end is not None and not moved and (since_ms is None or nominal > since_ms // 1000):
                lost.append(next(shift.named(nominal), nominal))
            nominal = shift.strand.prev_s(nominal)
    yield from here[:_LISTED_MAX]
    if len(here) > _LISTED_MAX:
        yield f"and {len(here) - _LISTED_MAX} more moved here"
    if lost:
        first = local_text(min(lost))[:16]
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        yield f"{first}{more} found no free day within {SHIFT_DAYS_MAX} days: left out"


def _reason(known: tuple[Calendar, ...], instant_s: int) -> str:
    calendar = excluding(known, instant_s)
    assert calendar is not None
    return calendar.reason(instant_s + zone_named(calendar.zone).offset_at(instant_s))


def _matches(rule: ZonedRule, low: int, high: int) -> list[int]:
    found: list[int] = []
    at = rule.wall.next_match(low)
    while at is not None and at < high and len(found) < _COUNTED_MAX:
        found.append(at)
        at = rule.wall.next_match(at + 1)
    return found


def _times(lost: list[int]) -> str:
    if len(lost) <= _LISTED_MAX:
        return ", ".join(_time(local_s) for local_s in lost)
    more = f"{len(lost) - 2}" if len(lost) < _COUNTED_MAX else "many"
    return f"{_time(lost[0])}, {_time(lost[1])} and {more} more times"


def _time(local_s: int) -> str:
    text = local_text(local_s)[11:]
    return text.removesuffix(":00") if text.count(":") == 2 else text


def _date(local_s: int) -> str:
    return local_text(local_s)[:10]
