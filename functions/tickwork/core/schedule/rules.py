"""The kinds of schedule, each as one frozen value that knows its next and previous occurrence.

Owns: `CronRule`, `RateRule`, `AtRule`, `UnionRule` (RRULEs are in `recurrence`).
Refuses to know: how they were written; calendars, `start`, `end`, `count` (see `engine`).
Protects: `next_s` is strictly after, `prev_s` strictly before; both are total: None when there is none.

All times are whole seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Protocol

from tickwork.core.schedule.cron.expression import Expression
from tickwork.core.schedule.limits import COUNTED_UNTIL_S, LAST_S
from tickwork.core.schedule.walk import FIXED_TIME, ClockChanges, WallClock, next_instant, prev_instant
from tickwork.core.schedule.zone import Zone


class Rule(Protocol):
    """What every kind of schedule can do."""

    def next_s(self, after_s: int) -> int | None: ...
    def prev_s(self, before_s: int) -> int | None: ...

    @property
    def zone(self) -> Zone: ...


@dataclass(frozen=True, slots=True)
class ZonedRule:
    """Wall times in a zone: what cron expressions and RRULEs come down to."""

    wall: WallClock
    zone: Zone
    changes: ClockChanges

    def next_s(self, after_s: int) -> int | None:
        return next_instant(self.wall, self.zone, self.changes, after_s)

    def prev_s(self, before_s: int) -> int | None:
        return prev_instant(self.wall, self.zone, self.changes, before_s)


@dataclass(frozen=True, slots=True)
class CronRule(ZonedRule):
    """A cron expression in a zone."""

    expression: Expression


@dataclass(frozen=True, slots=True)
class RateRule:
    """Every `period_s` of elapsed time from `anchor_s` on, the anchor included. A day is 24 hours: only cron
    keeps to the wall clock."""

    period_s: int
    anchor_s: int
    zone: Zone

    def next_s(self, after_s: int) -> int | None:
        if after_s < self.anchor_s:
            return self.anchor_s
        found = after_s + self.period_s - (after_s - self.anchor_s) % self.period_s
        return found if found <= LAST_S else None

    def prev_s(self, before_s: int) -> int | None:
        if before_s <= self.anchor_s:
            return None
        return before_s - 1 - (before_s - 1 - self.anchor_s) % self.period_s


@dataclass(frozen=True, slots=True)
class AtRule:
    """One instant. `local_s` is kept when it was given as a wall time, for a change of zone data."""

    at_s: int
    zone: Zone
    local_s: int | None = None
    changes: ClockChanges = FIXED_TIME

    def next_s(self, after_s: int) -> int | None:
        return self.at_s if after_s < self.at_s else None

    def prev_s(self, before_s: int) -> int | None:
        return self.at_s if before_s > self.at_s else None


@dataclass(frozen=True, slots=True)
class UnionRule:
    """Several rules joined: due whenever one of them is, once when several are."""

    members: tuple[Rule, ...]

    @property
    def zone(self) -> Zone:
        return self.members[0].zone

    def next_s(self, after_s: int) -> int | None:
        return min((s for rule in self.members if (s := rule.next_s(after_s)) is not None), default=None)

    def prev_s(self, before_s: int) -> int | None:
        return max((s for rule in self.members if (s := rule.prev_s(before_s)) is not None), default=None)


@dataclass(frozen=True, slots=True)
class BoundedRule:
    """A rule between `start_s` (included) and `end_s` (not included), at most `count` occurrences.

    `count` needs `start_s`; the last of the counted occurrences is `last_s`, found when the rule is built.
    """

    rule: Rule
    start_s: int | None = None
    end_s: int | None = None
    last_s: int | None = None

    @property
    def zone(self) -> Zone:
        return self.rule.zone

    def next_s(self, after_s: int) -> int | None:
        if self.start_s is not None and after_s < self.start_s:
            after_s = self.start_s - 1
        found = self.rule.next_s(after_s)
        return found if found is not None and not self._is_over(found) else None

    def prev_s(self, before_s: int) -> int | None:
        if self.end_s is not None:
            before_s = min(before_s, self.end_s)
        if self.last_s is not None:
            before_s = min(before_s, self.last_s + 1)
        found = self.rule.prev_s(before_s)
        return found if found is not None and (self.start_s is None or found >= self.start_s) else None

    def _is_over(self, found: int) -> bool:
        if self.end_s is not None and found >= self.end_s:
            return True
        return self.last_s is not None and found > self.last_s


@dataclass(frozen=True, slots=True)
class Strand:
    """One rule that is no union, with every bound that holds for it: it is due from `start_s` to `last_s` (both
    included), and nothing of it starts at `end_s` or later, moved or not."""

    rule: Rule
    start_s: int | None = None
    last_s: int | None = None
    end_s: int | None = None

    def next_s(self, after_s: int) -> int | None:
        """The first occurrence strictly after `after_s`."""
        if self.start_s is not None:
            after_s = max(after_s, self.start_s - 1)
        found = self.rule.next_s(after_s)
        return found if found is not None and self._holds(found) else None

    def prev_s(self, before_s: int) -> int | None:
        """The last occurrence strictly before `before_s`."""
        for bound in (self.end_s, None if self.last_s is None else self.last_s + 1):
            before_s = before_s if bound is None else min(before_s, bound)
        found = self.rule.prev_s(before_s)
        return found if found is not None and (self.start_s is None or found >= self.start_s) else None

    def _holds(self, found: int) -> bool:
        return (self.end_s is None or found < self.end_s) and (self.last_s is None or found <= self.last_s)

    def within(self, bounds: BoundedRule) -> Strand:
        """The strand, bounded also from outside."""
        starts = [at for at in (self.start_s, bounds.start_s) if at is not None]
        lasts = [at for at in (self.last_s, bounds.last_s) if at is not None]
        ends = [at for at in (self.end_s, bounds.end_s) if at is not None]
        return Strand(
            self.rule, max(starts, default=None), min(lasts, default=None), min(ends, default=None)
        )  # fmt: skip


def strands(rule: Rule) -> tuple[Strand, ...]:
    """The rules that a rule is made of, each with its bounds."""
    if isinstance(rule, BoundedRule):
        return tuple(strand.within(rule) for strand in strands(rule.rule))
    if isinstance(rule, UnionRule):
        return tuple(strand for member in rule.members for strand in strands(member))
    return (Strand(rule),)


def counted(rule: Rule, start_s: int, end_s: int | None, count: int) -> BoundedRule:
    """`rule` limited to `count` occurrences from `start_s` on. Walks to the last one, `count` steps; a rate jumps."""
    if isinstance(rule, RateRule):
        first_s = rule.next_s(start_s - 1)
        last_s = start_s - 1 if first_s is None else first_s + (count - 1) * rule.period_s
        return BoundedRule(rule, start_s, end_s, last_s)
    last_s = start_s - 1
    for found in islice(walk(rule, start_s - 1), count):
        if end_s is not None and found >= end_s:
            break
        last_s = found
        if found > COUNTED_UNTIL_S:
            break
    return BoundedRule(rule, start_s, end_s, last_s)


def walk(rule: Rule, after_s: int) -> Iterator[int]:
    """Each occurrence after `after_s`, in order. Of a union each member takes its own steps only."""
    if isinstance(rule, UnionRule):
        last_s = after_s
        for found in merge(*(walk(member, after_s) for member in rule.members)):
            if found > last_s:
                yield found
                last_s = found
        return
    at = rule.next_s(after_s)
    while at is not None:
        yield at
        at = rule.next_s(at)
