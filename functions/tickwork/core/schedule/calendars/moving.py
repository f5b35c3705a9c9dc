"""Occurrences moved to the next working day.

Owns: the search for the next and previous occurrence where an excluded one takes place later, at the same wall time
on the next day that has it free.
Refuses to know: how a calendar decides, unions (it is asked for one `Strand` after the other).
Protects: none lost, none doubled, in order. What is moved is the wall time that was *named*, not the instant that was
made up for it; where it lands, the job's own policies for changes of clocks hold; nothing lands at the end of the
schedule or later. A moved occurrence may pass others (Saturday 10:00 and Sunday 09:00 both move to Monday), so the
search looks back over what is excluded before it answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tickwork.core.schedule.calendars.calendar import Calendar
from tickwork.core.schedule.limits import (
    ADJOINING_MAX,
    DAY_S,
    EXCLUDED_SPAN_S,
    FIRST_S,
    HOUR_S,
    LAST_S,
    SHIFT_DAYS_MAX,
    SHIFT_STEPS_MAX,
    SLACK_S,
)
from tickwork.core.schedule.rules import AtRule, Strand, ZonedRule
from tickwork.core.schedule.walk import FIXED_TIME, ClockChanges, instants_of, skipped_range

#: No two instants of one wall time on neighbouring days are further apart: a day, and 24 hours where a place has
#: moved over the date line.
_NEIGHBOURS_S: Final = SLACK_S + HOUR_S

#: A gap of three hours holds so many times of a job that is due at most once an hour, and a few to spare.
_NAMED_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Shift:
    """One strand under calendars. It remembers for the time of one question where wall times land."""

    strand: Strand
    calendars: tuple[Calendar, ...]
    _landed: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _block: list[int] = field(default_factory=lambda: [0, 0])

    def next_s(self, after_s: int) -> int | None:
        """The first occurrence, moved or not, strictly after `after_s`."""
        best: int | None = None
        nominal = self.strand.next_s(self._cannot_pass(after_s))
        for _ in range(SHIFT_STEPS_MAX):
            if nominal is None or nominal > after_s + EXCLUDED_SPAN_S or (best is not None and nominal >= best):
                break
            end = self.excluded_until(nominal)
            if end is None:
                best = nominal if nominal > after_s else best
            else:
                later = [at for at in self.moved(nominal, end) if at > after_s]
                best = min(later if best is None else [best, *later], default=None)
                # What lies so far before the end of the stretch that it finds no free day there is given up.
                nominal = max(nominal, end - SHIFT_DAYS_MAX * DAY_S - 2 * SLACK_S)
            nominal = self.strand.next_s(nominal)
        return best

    def prev_s(self, before_s: int) -> int | None:
        """The last occurrence, moved or not, strictly before `before_s`."""
        best: int | None = None
        floor = before_s - EXCLUDED_SPAN_S
        nominal = self.strand.prev_s(before_s)
        for _ in range(SHIFT_STEPS_MAX):
            if nominal is None or nominal <= floor:
                break
            end = self.excluded_until(nominal)
            if end is None:
                landed = [nominal]
            elif end >= before_s:  # nothing that this stretch holds can land before its end
                nominal = self.strand.prev_s(self._excluded_since(nominal))
                continue
            else:
                landed = [at for at in self.moved(nominal, end) if at < before_s]
            later = max(landed, default=None)
            if later is not None and (best is None or later > best):
                best = later
                floor = max(floor, self._cannot_pass(best))
            nominal = self.strand.prev_s(nominal)
        return best

    def moved(self, nominal_s: int, excluded_until_s: int) -> list[int]:
        """Where the excluded occurrence at `nominal_s` takes place: usually one instant. None when no day is free
        within `SHIFT_DAYS_MAX`, or only from the end of the schedule on."""
        found = {at for local_s in self.named(nominal_s) for at in self._free(local_s, nominal_s, excluded_until_s)}
        return sorted(at for at in found if self.strand.end_s is None or at < self.strand.end_s)

    def _free(self, local_s: int, nominal_s: int, excluded_until_s: int) -> tuple[int, ...]:
        """The instants of a wall time on the first later day that has it free."""
        sure = (excluded_until_s - nominal_s - _NEIGHBOURS_S) // DAY_S  # these days end inside the same stretch
        for days in range(max(sure, 1), SHIFT_DAYS_MAX + 1):
            landed = self._landing(local_s + days * DAY_S)
            if landed:
                return landed
        return ()

    def _landing(self, local_s: int) -> tuple[int, ...]:
        landed = self._landed.get(local_s)
        if landed is None:
            rule, landed = self.strand.rule, ()
            if FIRST_S + SLACK_S <= local_s <= LAST_S - SLACK_S:
                instants = instants_of(local_s, rule.zone, changes_of(self.strand))
                landed = tuple(at for at in instants if excluding(self.calendars, at) is None)
            self._landed[local_s] = landed
        return landed

    def named(self, instant_s: int) -> Iterator[int]:
        """The wall times that the occurrence at `instant_s` stands for: its own, and those that were lost in a gap."""
        rule = self.strand.rule
        if isinstance(rule, AtRule) and rule.local_s is not None:
            yield rule.local_s
            return
        segment = rule.zone.segment_at(instant_s)
        own = instant_s + segment.offset_s
        if not isinstance(rule, ZonedRule):
            yield own
            return
        if rule.wall.next_match(own) == own:
            yield own
        lost = skipped_range(segment)
        if lost is None or rule.changes.gap == "skip":
            return
        if rule.changes.gap == "shift":
            match = instant_s + segment.before_s
            if lost[0] <= match < lost[1] and rule.wall.next_match(match) == match:
                yield match
        elif instant_s == segment.start_s:
            found = rule.wall.next_match(lost[0])
            for _ in range(_NAMED_MAX):
                if found is None or found >= lost[1]:
                    return
                yield found
                found = rule.wall.next_match(found + 1)

    # --- the stretch that excludes an instant ----------------------------------------------------------------------

    def excluded_until(self, instant_s: int) -> int | None:
        """An instant up to which everything from `instant_s` on is excluded; None when that is not."""
        if self._block[0] <= instant_s < self._block[1]:
            return self._block[1]
        end = excluded_until(self.calendars, instant_s)
        if end is not None:
            self._block[:] = [instant_s, end]
        return end

    def _excluded_since(self, instant_s: int) -> int:
        since = instant_s
        for _ in range(ADJOINING_MAX):
            starts = (calendar.excluded_since_s(since) for calendar in self.calendars)
            earlier = min((at for at in starts if at is not None), default=None)
            if earlier is None or earlier > since or since <= FIRST_S + SLACK_S:
                return since
            since = earlier - 1
        return since

    def _cannot_pass(self, instant_s: int) -> int:
        """An instant such that nothing from there or before is moved beyond `instant_s`. Who passes it goes from one
        excluded day to the next, and none of these steps is longer than `_NEIGHBOURS_S`."""
        low = instant_s
        for _ in range((SHIFT_DAYS_MAX + 2) * DAY_S // _NEIGHBOURS_S + 1):
            begin = max(low - _NEIGHBOURS_S, FIRST_S)
            if begin >= low or all(one.first_excluded_s(begin, low + 1) is None for one in self.calendars):
                break
            low = begin
        return low if low < instant_s else instant_s - 1


def changes_of(strand: Strand) -> ClockChanges:
    """The policies for changes of clocks of a strand; what has none keeps to the defaults."""
    return strand.rule.changes if isinstance(strand.rule, ZonedRule | AtRule) else FIXED_TIME


def excluded_until(calendars: tuple[Calendar, ...], instant_s: int) -> int | None:
    """An instant up to which everything from `instant_s` on is excluded by one or another; None when that is not. Where
    they take over from one another without end, more may be excluded after it."""
    until = instant_s
    for _ in range(ADJOINING_MAX):
        end = next((end for one in calendars if (end := one.excluded_until_s(until)) is not None), None)
        if end is None:
            break
        until = end
        if until > LAST_S - SLACK_S:
            break
    return until if until > instant_s else None


def excluding(calendars: tuple[Calendar, ...], instant_s: int) -> Calendar | None:
    """The calendar that excludes `instant_s`, if any."""
    return next((one for one in calendars if one.excluded_until_s(instant_s) is not None), None)
