"""`Schedule`: what is stored and asked for occurrences.

Owns: the value, its normal form, and the questions (next, previous, until when a start may be put off, recurring or
not).
Refuses to know: what the user wrote (see `parse`), the present.
Protects: `next_after` is pure, total, strictly increasing and bounded in work. Reading a stored spec depends
on our own grammar only, so a library upgrade cannot change what it means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from tickwork.core.schedule.calendars import exclusion, moving
from tickwork.core.schedule.calendars.calendar import Calendar, require
from tickwork.core.schedule.calendars.exclusion import Exclusion
from tickwork.core.schedule.calendars.moving import Shift
from tickwork.core.schedule.instant import utc_text
from tickwork.core.schedule.rules import AtRule, RateRule, Rule, Strand, strands

#: Which rules of ours an occurrence was computed by; kept with what is pending. A new number has it computed anew:
#: it goes up with each change that can move an occurrence of a stored schedule (decision 0087 has the list).
RULES_VERSION: Final = 2

NO_CALENDARS: Final[Mapping[str, Calendar]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a job is due. Made by `parse_schedule` and `schedule_from_spec`; equal specs are equal
    schedules."""

    rule: Rule
    spec_json: str
    exclusion: Exclusion | None = None
    told: tuple[str, ...] = field(default=(), compare=False)
    """What was said twice when it was registered, and which of the two holds; not stored."""

    @property
    def spec(self) -> dict[str, Any]:
        """The JSON-able normal form: store it, and give it to `schedule_from_spec`. A fresh copy each
        time."""
        spec: dict[str, Any] = json.loads(self.spec_json)
        return spec

    @property
    def zone(self) -> str:
        """The IANA name of the zone in which local times are shown."""
        return self.rule.zone.key

    @property
    def is_recurring(self) -> bool:
        """Whether it can be due more than once."""
        return _is_recurring(self.rule)

    @property
    def leaves_out(self) -> bool:
        """Whether what a calendar excludes does not take place. Else it does, on another day."""
        return self.exclusion is not None and self.exclusion.on_excluded == "skip"

    @property
    def calendar_names(self) -> tuple[str, ...]:
        """The calendars that `next_after` needs."""
        return self.exclusion.names if self.exclusion else ()


def _is_recurring(rule: Rule) -> bool:
    single = {strand.rule.at_s for strand in strands(rule) if isinstance(strand.rule, AtRule)}
    return len(single) > 1 or any(not isinstance(strand.rule, AtRule) for strand in strands(rule))


def next_after(schedule: Schedule, after_ms: int, calendars: Mapping[str, Calendar] = NO_CALENDARS) -> int | None:
    """The first occurrence strictly after `after_ms`, in epoch milliseconds; None when the schedule is over.

    `calendars` must hold those the schedule names (`calendar_names`), else `ScheduleRefused`.
    """
    # Occurrences lie on whole seconds, so "after 10:00:00.4" is "after 10:00:00".
    if schedule.exclusion is None:
        found = schedule.rule.next_s(after_ms // 1000)
    else:
        found = exclusion.next_s(schedule.rule, schedule.exclusion, after_ms // 1000, calendars)
    return None if found is None else found * 1000


def prev_before(schedule: Schedule, before_ms: int, calendars: Mapping[str, Calendar] = NO_CALENDARS) -> int | None:
    """The last occurrence strictly before `before_ms`, in epoch milliseconds; None when there was none."""
    before_s = -(-before_ms // 1000)
    if schedule.exclusion is None:
        found = schedule.rule.prev_s(before_s)
    else:
        found = exclusion.prev_s(schedule.rule, schedule.exclusion, before_s, calendars)
    return None if found is None else found * 1000


def start_limit_ms(
    schedule: Schedule, at_ms: int, within_s: int, calendars: Mapping[str, Calendar] = NO_CALENDARS
) -> int:
    """The instant before which the occurrence at `at_ms` has to be started, at most `within_s` later: the next
    occurrence, the begin of what a calendar excludes, or the end of the schedule, whichever comes first."""
    at_s = at_ms // 1000
    limit_s = at_s + within_s
    for bound_s in (_ending_s(schedule, at_s, calendars), _excluded_from_s(schedule, at_s, limit_s, calendars)):
        limit_s = limit_s if bound_s is None else min(limit_s, bound_s)
    following = next_after(schedule, at_ms, calendars)
    return limit_s * 1000 if following is None else min(limit_s * 1000, following)


def has_end(schedule: Schedule) -> bool:
    """Whether something of it ends at an instant, which jitter must not pass."""
    return any(strand.end_s is not None for strand in strands(schedule.rule))


def rate_of(schedule: Schedule) -> tuple[int, int] | None:
    """(period, anchor) in seconds of a schedule that is a rate without bounds and calendars; None of any other."""
    rule = schedule.rule
    return (rule.period_s, rule.anchor_s) if isinstance(rule, RateRule) and schedule.exclusion is None else None


def why_nothing_starts(
    schedule: Schedule, at_ms: int, now_ms: int, calendars: Mapping[str, Calendar] = NO_CALENDARS
) -> str:
    """Why what was due at `at_ms` may not start now, however late it is: the schedule is over, or a calendar excludes
    the present. Empty: it may."""
    end_s = _ending_s(schedule, at_ms // 1000, calendars)
    if end_s is not None and now_ms // 1000 >= end_s:
        return f"its schedule ended at {utc_text(end_s)}"
    if schedule.exclusion is None:
        return ""
    calendar = moving.excluding(require(schedule.exclusion.names, calendars), now_ms // 1000)
    return f"{calendar.name} excludes the time at which it could have started" if calendar else ""


def _excluded_from_s(schedule: Schedule, at_s: int, limit_s: int, calendars: Mapping[str, Calendar]) -> int | None:
    if schedule.exclusion is None:
        return None
    return exclusion.first_excluded(require(schedule.exclusion.names, calendars), at_s, limit_s)


def _ending_s(schedule: Schedule, at_s: int, calendars: Mapping[str, Calendar]) -> int | None:
    """The end of the schedule; of several joined ones, the latest end of those that are due at `at_s`."""
    joined = strands(schedule.rule)
    ends = {strand.end_s for strand in joined}
    if len(ends) > 1:
        ends = {strand.end_s for strand in joined if _is_due(schedule, strand, at_s, calendars)} or ends
    return None if None in ends else max(end for end in ends if end is not None)


def _is_due(schedule: Schedule, strand: Strand, at_s: int, calendars: Mapping[str, Calendar]) -> bool:
    if schedule.exclusion is None or schedule.exclusion.on_excluded == "skip":
        return strand.next_s(at_s - 1) == at_s
    return Shift(strand, require(schedule.exclusion.names, calendars)).next_s(at_s - 1) == at_s
