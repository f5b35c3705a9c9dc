"""`Schedule`: what is stored and asked for occurrences.

Owns: the value, its normal form, and the four questions (next, previous, shortest gap, recurring or not).
Refuses to know: what the user wrote (see `parse`), the present.
Protects: `next_after` is pure, total, strictly increasing and bounded in work. Reading a stored spec depends
on our own grammar only, so a library upgrade cannot change what it means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from tickwork.core.schedule.calendars import exclusion
from tickwork.core.schedule.calendars.calendar import Calendar
from tickwork.core.schedule.calendars.exclusion import Exclusion
from tickwork.core.schedule.rules import AtRule, BoundedRule, Rule, UnionRule

NO_CALENDARS: Final[Mapping[str, Calendar]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a job is due. Made by `parse_schedule` and `schedule_from_spec`; equal specs are equal
    schedules."""

    rule: Rule
    spec_json: str
    exclusion: Exclusion | None = None

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
    def calendar_names(self) -> tuple[str, ...]:
        """The calendars that `next_after` needs."""
        return self.exclusion.names if self.exclusion else ()


def _is_recurring(rule: Rule) -> bool:
    if isinstance(rule, BoundedRule):
        return _is_recurring(rule.rule)
    if isinstance(rule, UnionRule):
        return len({member.next_s(-(1 << 62)) for member in rule.members}) > 1 or any(
            _is_recurring(member) for member in rule.members
        )
    return not isinstance(rule, AtRule)


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
