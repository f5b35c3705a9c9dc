"""After a change of zone data or of a calendar: what becomes of an occurrence that is already planned.

Owns: the pure decision of spec T6. Refuses to know: how the reconciler finds and applies it.
Protects: none lost, none doubled. The pending occurrence stands for the one after the last fired. Under other zone data
it is found again by wall time, because that is what the job's owner wrote down. A calendar moves no wall time: it says
which occurrences there are, from the moment of its change on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tickwork.core.schedule.calendars.calendar import Calendar
from tickwork.core.schedule.engine import NO_CALENDARS, Schedule, next_after, prev_before
from tickwork.core.schedule.rules import BoundedRule, CronRule, Rule, ZonedRule
from tickwork.core.schedule.walk import ClockChanges, resolve

#: Rules for a zone have never been changed by more than a day at once.
_SAME_OCCURRENCE_MS = 26 * 3_600_000


@dataclass(frozen=True, slots=True)
class Replan:
    """`action` is `keep`, `move` (to `scheduled_at_ms`, a new identity) or `drop` (the schedule is over).

    `is_due` says that the new time is not in the future: fire it now, late.
    """

    action: str
    scheduled_at_ms: int | None
    is_due: bool = False


def replan(
    schedule: Schedule,
    pending_scheduled_at_ms: int,
    now_ms: int,
    *,
    last_scheduled_at_ms: int | None = None,
    last_offset_s: int | None = None,
    since_ms: int = 0,
    recalled_ms: int = 0,
    calendars: Mapping[str, Calendar] = NO_CALENDARS,
) -> Replan:
    """What to do with the pending occurrence, under the zone data now loaded.

    `last_scheduled_at_ms` is the last occurrence that was fired or skipped, `last_offset_s` the offset from
    UTC at it under the data of that time, where recorded. `since_ms` is when the job got this schedule: a recurring
    one has no occurrence before that, whatever was fired by an earlier one. A pending occurrence that is due
    already is kept: it may be on its way, and its identity must not change any more. `recalled_ms` is when the
    calendars were changed, where that is all that was: what they left out before stays left out, what they moved does
    not.
    """
    if pending_scheduled_at_ms <= now_ms:
        return Replan("keep", pending_scheduled_at_ms, is_due=True)
    if recalled_ms and schedule.is_recurring:
        left_out_ms = recalled_ms if schedule.leaves_out else 0
        found = next_after(schedule, max(last_scheduled_at_ms or 0, since_ms, left_out_ms), calendars)
    else:
        found = _same_occurrence(schedule, pending_scheduled_at_ms, last_scheduled_at_ms, last_offset_s, calendars)
        if found is not None and found <= since_ms and schedule.is_recurring:
            found = next_after(schedule, since_ms, calendars)
    if found is None:
        return Replan("drop", None)
    if found == pending_scheduled_at_ms:
        return Replan("keep", found)
    return Replan("move", found, is_due=found <= now_ms)


def _same_occurrence(
    schedule: Schedule,
    pending_ms: int,
    last_ms: int | None,
    last_offset_s: int | None,
    calendars: Mapping[str, Calendar],
) -> int | None:
    if last_ms is None:
        return _nearest(schedule, pending_ms, calendars)
    if last_offset_s is not None and _keeps_wall_clock(schedule.rule):
        local_s = last_ms // 1000 + last_offset_s
        moved_last = resolve(local_s, schedule.rule.zone, ClockChanges(fold="second"))
        if moved_last is not None:
            return next_after(schedule, max(moved_last * 1000, last_ms), calendars)
    found = next_after(schedule, last_ms, calendars)
    if found is not None and abs(found - last_ms) < abs(found - pending_ms):
        # Nearer to the one that was fired than to the one that is pending: the fired one's new place.
        later = next_after(schedule, found, calendars)
        if later is not None and abs(later - pending_ms) <= _SAME_OCCURRENCE_MS:
            return later
    return found


def _nearest(schedule: Schedule, pending_ms: int, calendars: Mapping[str, Calendar]) -> int | None:
    before = prev_before(schedule, pending_ms + 1, calendars)
    after = next_after(schedule, pending_ms - 1, calendars)
    if before is None or pending_ms - before > _SAME_OCCURRENCE_MS:
        return after
    if after is None or pending_ms - before <= after - pending_ms:
        return before
    return after


def _keeps_wall_clock(rule: Rule) -> bool:
    if isinstance(rule, BoundedRule):
        return _keeps_wall_clock(rule.rule)
    if isinstance(rule, CronRule):
        return not rule.expression.follows_real_time
    return isinstance(rule, ZonedRule)
