"""From wall times to instants: the daylight-saving rule of the spec (T3).

Owns: what happens where clocks change. Walks the zone's segments of constant offset; inside one, local time
and real time are the same but for a constant.
Refuses to know: cron syntax (it takes any `WallClock`), the reason for a policy.
Protects: strictly increasing, never a time that does not exist, never an endless search.

The rule is Debian cron's. A job that follows real time (`REAL_TIME`) fires whenever the wall clock matches:
nothing is made up for skipped times and both passes of a repeated hour count. A fixed-time job runs once at
the first instant after a gap that swallowed it, and at the first pass only of a repeated time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tickwork.core.schedule.limits import FIRST_S, GAP_MAKE_UP_MAX_S, LAST_S, SEGMENTS_WALKED_MAX, SLACK_S
from tickwork.core.schedule.zone import Segment, Zone

GAPS = ("run_after", "skip", "shift")
FOLDS = ("first", "second", "both")


class WallClock(Protocol):
    """Local wall times in order. Both methods take and give local seconds, None when there are no more."""

    def next_match(self, local_s: int) -> int | None: ...
    def prev_match(self, local_s: int) -> int | None: ...


@dataclass(frozen=True, slots=True)
class ClockChanges:
    """What to do with local times that do not exist (`gap`) or that come twice (`fold`).

    gap: `run_after` once at the first instant after it, `skip` not at all, `shift` as much later as the
    clocks jumped. fold: the `first` pass, the `second`, or `both`.
    """

    gap: str = "run_after"
    fold: str = "first"


REAL_TIME = ClockChanges(gap="skip", fold="both")
FIXED_TIME = ClockChanges()


def next_instant(wall: WallClock, zone: Zone, changes: ClockChanges, after_s: int) -> int | None:
    """The first occurrence strictly after `after_s`; None when there is none before the year 10000."""
    at = max(after_s + 1, FIRST_S)
    for _ in range(SEGMENTS_WALKED_MAX):
        if at > LAST_S:
            return None
        segment = zone.segment_at(at)
        low = at + segment.offset_s
        end = segment.end_s
        if segment.before_s != segment.offset_s:
            made_up = _made_up_next(wall, segment, changes, at)
            if made_up is not None:
                return made_up
            if changes.fold == "first":
                low = max(low, segment.start_s + segment.before_s)
        if segment.after_s < segment.offset_s and changes.fold == "second":
            end += segment.after_s - segment.offset_s
        local = wall.next_match(low)
        if local is None:
            return None
        found = local - segment.offset_s
        if found < end:
            return found if found <= LAST_S else None
        # Nothing here. Far ahead there can be nothing before the naive match either, give or take an offset.
        at = segment.end_s if segment.end_s - at < SLACK_S else max(segment.end_s, found - SLACK_S)
    return None


def prev_instant(wall: WallClock, zone: Zone, changes: ClockChanges, before_s: int) -> int | None:
    """The last occurrence strictly before `before_s`; None when there is none since the year 1."""
    at = min(before_s - 1, LAST_S)
    for _ in range(SEGMENTS_WALKED_MAX):
        if at < FIRST_S:
            return None
        segment = zone.segment_at(at)
        high = at + segment.offset_s
        low = segment.start_s + segment.offset_s
        if segment.before_s > segment.offset_s and changes.fold == "first":
            low = segment.start_s + segment.before_s
        if segment.after_s < segment.offset_s and changes.fold == "second":
            high = min(high, segment.end_s + segment.after_s - 1)
        local = wall.prev_match(high)
        found = local - segment.offset_s if local is not None and local >= low else None
        if segment.before_s < segment.offset_s:
            found = _made_up_prev(wall, segment, changes, at, found)
        if found is not None:
            return found if found >= FIRST_S else None
        is_near = at - segment.start_s < SLACK_S
        if local is None and not (is_near and segment.before_s > segment.offset_s):
            return None  # where clocks were put back, the hours before that reach further than those after it
        near = segment.start_s - 1
        at = near if is_near or local is None else min(near, local - segment.offset_s + SLACK_S)
    return None


def skipped_range(segment: Segment) -> tuple[int, int] | None:
    """The local seconds (from, to) lost when `segment` began, if that was daylight saving; else None."""
    jump = segment.offset_s - segment.before_s
    if 0 < jump <= GAP_MAKE_UP_MAX_S:
        return segment.start_s + segment.before_s, segment.start_s + segment.offset_s
    return None


def _made_up_next(wall: WallClock, segment: Segment, changes: ClockChanges, at: int) -> int | None:
    """The run made up for the gap before `segment`, if it comes not before `at` and before any regular
    one."""
    lost = skipped_range(segment)
    if lost is None or changes.gap == "skip":
        return None
    if changes.gap == "run_after":
        match = wall.next_match(lost[0]) if at == segment.start_s else None
        return at if match is not None and match < lost[1] else None
    match = wall.next_match(max(lost[0], at + segment.before_s))
    if match is None or match >= lost[1]:
        return None
    shifted = match - segment.before_s
    regular = wall.next_match(at + segment.offset_s)
    return shifted if regular is None else min(shifted, regular - segment.offset_s)


def _made_up_prev(wall: WallClock, segment: Segment, changes: ClockChanges, at: int, regular: int | None) -> int | None:
    """The later of `regular` and the run made up for the gap before `segment`."""
    lost = skipped_range(segment)
    if lost is None or changes.gap == "skip":
        return regular
    high = lost[1] - 1 if changes.gap == "run_after" else min(lost[1] - 1, at + segment.before_s)
    match = wall.prev_match(high)
    if match is None or match < lost[0]:
        return regular
    made_up = segment.start_s if changes.gap == "run_after" else match - segment.before_s
    return made_up if regular is None else max(regular, made_up)


def resolve(local_s: int, zone: Zone, changes: ClockChanges) -> int | None:
    """The instant of one wall time; None when it falls in a gap and the policy is `skip`.

    A jump over more than three hours (Apia's lost day) is no daylight saving for a recurring job, but a
    single time that was asked for must not vanish: it comes at the first instant after the jump.
    """
    found = next_instant(_Once(local_s), zone, changes, local_s - SLACK_S)
    if found is not None or changes.gap == "skip":
        return found
    segment = zone.segment_at(local_s - SLACK_S)
    for _ in range(SEGMENTS_WALKED_MAX):
        if local_s < segment.end_s + segment.after_s:
            return segment.end_s
        segment = zone.segment_at(segment.end_s)
    return None


def instants_of(local_s: int, zone: Zone, changes: ClockChanges) -> tuple[int, ...]:
    """The instants of one wall time on its day, as a recurring job has them: none in a gap that is left out (or that is
    no daylight saving), two in a repeated hour where both passes count."""
    segment = zone.segment_at(min(max(local_s, FIRST_S), LAST_S))
    plain = local_s - segment.offset_s
    if segment.start_s + SLACK_S <= plain < segment.end_s - SLACK_S:
        return (plain,)
    passes, made_up = set(), None
    segment = zone.segment_at(min(max(local_s - SLACK_S, FIRST_S), LAST_S))
    for _ in range(SEGMENTS_WALKED_MAX):
        if segment.start_s <= local_s - segment.offset_s < segment.end_s:
            passes.add(local_s - segment.offset_s)
        lost = skipped_range(segment)
        if lost is not None and lost[0] <= local_s < lost[1]:
            made_up = {"run_after": segment.start_s, "shift": local_s - segment.before_s}.get(changes.gap)
        if segment.end_s > min(local_s + SLACK_S, LAST_S):
            break
        segment = zone.segment_at(segment.end_s)
    if passes:
        both = sorted(passes)
        return {"first": tuple(both[:1]), "second": tuple(both[-1:]), "both": tuple(both)}[changes.fold]
    return () if made_up is None else (made_up,)


@dataclass(frozen=True, slots=True)
class _Once:
    """The wall clock of a single local time."""

    only_s: int

    def next_match(self, local_s: int) -> int | None:
        return self.only_s if local_s <= self.only_s else None

    def prev_match(self, local_s: int) -> int | None:
        return self.only_s if local_s >= self.only_s else None
