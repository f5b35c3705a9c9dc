"""Spreading a herd: how far after its nominal time a job is fired.

Owns: the offset of a job (spec T5), the default tolerance, the estimate of the shortest gap behind it.
Refuses to know: who else is due. Protects: jitter only moves forward, never to or past the next occurrence or to
where the schedule says that nothing starts; a job is always offset the same where there is the same room;
`scheduled_at`, and so `run_id`, is untouched by it.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import islice, pairwise
from typing import Final

from tickwork.core.schedule.cron.walltimes import WallTimes
from tickwork.core.schedule.engine import Schedule
from tickwork.core.schedule.limits import DAY_S, MINUTE_S
from tickwork.core.schedule.rules import BoundedRule, CronRule, RateRule, Rule, UnionRule, walk

TOLERANCE_S: Final = 300

#: 1 January 2024, UTC: where a sample of occurrences starts, so that the estimate does not depend on the
#: present.
_SAMPLE_FROM_S: Final = 1_704_067_200
_SAMPLE_MAX: Final = 400

#: What is due more seldom is looked at for some years only: each step of it costs a search through years.
_SAMPLE_SPAN_S: Final = 12 * 366 * DAY_S
_SAMPLE_MIN: Final = 3


def fire_at_ms(job_id: str, scheduled_at_ms: int, tolerance_s: int, limit_ms: int | None) -> int:
    """When to fire: `scheduled_at_ms` plus `hash(job_id)` modulo the room there is, in seconds.

    The room is `tolerance_s`, or what is left until `limit_ms` (`start_limit_ms`: the next occurrence, a freeze, the
    end) where that comes sooner. Modulo and not cut off: a thousand jobs cut off at the edge would be a herd there.
    Never before `scheduled_at_ms`.
    """
    room_s = tolerance_s
    if limit_ms is not None:
        room_s = min(room_s, (limit_ms - scheduled_at_ms) // 1000)
    if room_s <= 0:
        return scheduled_at_ms
    number = int.from_bytes(sha256(f"jitter|{job_id}".encode()).digest()[:8])
    return scheduled_at_ms + number % room_s * 1000


def default_tolerance_s(schedule: Schedule, at_most_s: int = TOLERANCE_S) -> int:
    """The tolerance of a job that names none.

    `at_most_s`, but never more than half of the shortest gap between occurrences. 0 for what is due once (`at`,
    `delay`): a timer is wanted at its time. 0 for a rate under a minute: who asks for "every 10 seconds"
    asks for the spacing, and half of so short a gap spreads nothing.
    """
    gap_s = shortest_gap_s(schedule)
    if gap_s is None or _is_fast_rate(schedule.rule):
        return 0
    return min(at_most_s, gap_s // 2)


def _is_fast_rate(rule: Rule) -> bool:
    if isinstance(rule, BoundedRule):
        return _is_fast_rate(rule.rule)
    return isinstance(rule, RateRule) and rule.period_s < MINUTE_S


def shortest_gap_s(schedule: Schedule) -> int | None:
    """A bounded estimate of the shortest gap between two occurrences in seconds; None when there is only one.

    Exact for cron by the wall clock, an hour's change aside, and for rates; for unions and RRULEs the
    shortest gap among the first `_SAMPLE_MAX` occurrences. Calendars are left out: what they remove only
    makes gaps longer.
    """
    return _shortest_gap(schedule.rule)


def _shortest_gap(rule: Rule) -> int | None:
    if isinstance(rule, BoundedRule):
        return _shortest_gap(rule.rule)
    if isinstance(rule, RateRule):
        return rule.period_s
    if isinstance(rule, CronRule) and isinstance(rule.wall, WallTimes):
        return _wall_gap(rule.wall)
    gaps = [_sampled_gap(rule)]
    if isinstance(rule, UnionRule):
        gaps.extend(_shortest_gap(member) for member in rule.members)
    return min((gap for gap in gaps if gap is not None), default=None)


def _wall_gap(wall: WallTimes) -> int:
    minutes, seconds = wall.minutes, wall.seconds
    gaps = [b - a for a, b in pairwise(seconds)]
    step = min((b - a for a, b in pairwise(minutes)), default=None)
    if step is not None:
        gaps.append(step * MINUTE_S + seconds[0] - seconds[-1])
    over_night = DAY_S + (minutes[0] - minutes[-1]) * MINUTE_S + seconds[0] - seconds[-1]
    gaps.append(over_night + (_day_gap(wall) - 1) * DAY_S)
    return min(gaps)


def _day_gap(wall: WallTimes) -> int:
    """The fewest days from one matching day to the next, among the next matching days."""
    day: int | None = _SAMPLE_FROM_S // DAY_S
    best = 366 * 400
    last: int | None = None
    for _ in range(_SAMPLE_MAX):
        day = wall.days.next_day(day) if day is not None else None
        if day is None or best == 1 or (last is not None and last > (_SAMPLE_FROM_S + _SAMPLE_SPAN_S) // DAY_S):
            break
        if last is not None:
            best = min(best, day - last)
        last, day = day, day + 1
    return best


def _sampled_gap(rule: Rule) -> int | None:
    last: int | None = None
    best: int | None = None
    for number, at in enumerate(islice(walk(rule, _SAMPLE_FROM_S), _SAMPLE_MAX)):
        if last is not None:
            best = at - last if best is None else min(best, at - last)
        if number >= _SAMPLE_MIN and at > _SAMPLE_FROM_S + _SAMPLE_SPAN_S:
            break
        last = at
    return best
