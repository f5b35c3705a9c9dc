"""From what a person wrote to a `Schedule`.

Owns: `parse_schedule` (a user's spec: complete it, check it, refuse it), `schedule_from_spec` (the stored
normal form: build it, fast) and `meaning_of` (whether two specs say the same).
Refuses to know: the present, except as the `now_ms` it is given.
Protects: nothing is registered that can never be due, and nothing is stored that a later version has to guess
about: delays, anchors, hashed values and policies are resolved before the normal form is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from tickwork.core.schedule.build import build_exclusion, build_rule, unreadable
from tickwork.core.schedule.calendars.calendar import Calendar
from tickwork.core.schedule.engine import NO_CALENDARS, Schedule, next_after
from tickwork.core.schedule.instant import utc_text_ms
from tickwork.core.schedule.jitter import shortest_gap_s
from tickwork.core.schedule.limits import COUNTED_STEPS_MAX, MOVABLE_GAP_MIN_S, PAST_GRACE_MS, START_GRACE_MS
from tickwork.core.schedule.normal import normalise
from tickwork.core.schedule.refusal import ScheduleRefused
from tickwork.core.schedule.rules import BoundedRule, CronRule, Rule, UnionRule


def parse_schedule(spec: Mapping[str, object], *, now_ms: int, job_id: str = "") -> Schedule:
    """Read a user's spec (`docs/schedules.md` lists its keys) for a job that is to be registered.

    `now_ms` resolves a delay and a missing anchor; `job_id` resolves `H`. Raises `ScheduleRefused` (a
    `BadSchedule`) with `field`, `remedy`, `reason` and, where there is one, `proposal`, also when the
    schedule would never be due again. The normal form is accepted too, and stays as it is.
    """
    schedule = read_schedule(spec, now_ms=now_ms, job_id=job_id)
    if first_due(schedule, now_ms) is None:
        raise _over(schedule, now_ms)
    return schedule


def read_schedule(spec: Mapping[str, object], *, now_ms: int, job_id: str = "") -> Schedule:
    """The same for a schedule that is only looked at: it may be over. It is still refused when it names a
    date that never comes."""
    told: list[str] = []
    normal = normalise(spec, now_ms=now_ms, job_id=job_id, told=told)
    _check_counted(normal)
    schedule = schedule_from_spec(normal)
    _check_possible(schedule.rule)
    _check_movable(schedule)
    return replace(schedule, told=tuple(told)) if told else schedule


COMPARED_AT_MS = 1_108_110_187_000
"""2005-02-11T08:23:07Z: when every spec is taken to be registered that is compared with another. Any moment would do
that is nobody's; it never changes, for what it gives is stored as part of what a request was."""


def meaning_of(spec: Mapping[str, object], *, job_id: str = "") -> dict[str, Any]:
    """What a user's spec says, whenever it is read and however it is spelt: two specs with one meaning are one wish.

    What depends on the present (a delay, a missing anchor) depends on `COMPARED_AT_MS` instead, and nothing is judged:
    a time that has passed meanwhile means what it meant. Raises `ScheduleRefused` for what is no schedule.
    """
    normal = normalise(spec, now_ms=COMPARED_AT_MS, job_id=job_id)
    for sorted_where, key in ((normal, "any_of"), (normal.get("calendars", {}), "exclude")):
        if key in sorted_where:
            sorted_where[key] = sorted(sorted_where[key], key=lambda one: json.dumps(one, sort_keys=True))
    return normal


def schedule_from_spec(spec: Mapping[str, object]) -> Schedule:
    """Read the stored normal form (`Schedule.spec`). Cached; the same spec gives the same object.

    Raises `ScheduleRefused` when it is not one this version understands: keep such an item, never rewrite it.
    """
    try:
        # `default`: DynamoDB gives whole numbers back as Decimals.
        return _from_json(json.dumps(spec, sort_keys=True, separators=(",", ":"), default=int))
    except (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError) as error:
        # What another version wrote may have any shape.
        raise unreadable("schedule", f"the stored schedule is not one of this version: {error!r}") from None


@lru_cache(maxsize=16_384)
def _from_json(text: str) -> Schedule:
    spec: dict[str, Any] = json.loads(text)
    return Schedule(build_rule(spec), text, build_exclusion(spec))


def first_due(schedule: Schedule, now_ms: int, calendars: Mapping[str, Calendar] = NO_CALENDARS) -> int | None:
    """The first occurrence of a job registered at `now_ms`, in epoch milliseconds.

    What lies at most a minute in the past (`PAST_GRACE_MS`) is due at once if the schedule is a single time;
    a recurring schedule starts with its first occurrence after `now_ms`, or with its very first one where that lies in
    this very second (see `starting_after_ms`).
    """
    if schedule.is_recurring:
        unlimited = Schedule(schedule.rule, schedule.spec_json)
        return next_after(schedule if calendars else unlimited, starting_after_ms(schedule, now_ms), calendars)
    found = schedule.rule.next_s((now_ms - PAST_GRACE_MS) // 1000 - 1)
    return None if found is None else found * 1000


def starting_after_ms(schedule: Schedule, since_ms: int) -> int:
    """The instant after which a recurring schedule that is in force since `since_ms` has its occurrences.

    That is `since_ms`. But who anchors a rate, or starts a rule, at the present means the present: its very first
    occurrence is due though it has just passed (`START_GRACE_MS`), as long as no later one is due too.
    """
    since_s = since_ms // 1000
    first_s = schedule.rule.next_s((since_ms - START_GRACE_MS) // 1000)
    if first_s is None or first_s > since_s or schedule.rule.prev_s(first_s) is not None:
        return since_ms
    second_s = schedule.rule.next_s(first_s)
    return since_ms if second_s is not None and second_s <= since_s else first_s * 1000 - 1


def _check_counted(normal: Mapping[str, Any]) -> None:
    """The last of a counted schedule is found by walking there; among several schedules each step is as many."""
    steps = _counted_steps(normal)
    if steps > COUNTED_STEPS_MAX:
        raise ScheduleRefused(
            "bad_count", f"the counts and the schedules they count make {steps} steps", field="count",
            remedy=f"keep the number of occurrences times the number of schedules to {COUNTED_STEPS_MAX}",
        )  # fmt: skip


def _counted_steps(normal: Mapping[str, Any]) -> int:
    members = normal.get("any_of", ())
    own = int(normal.get("count", 0)) * (_leaves(normal) if members else "rate" not in normal)
    return own + sum(_counted_steps(member) for member in members)


def _leaves(normal: Mapping[str, Any]) -> int:
    return sum(_leaves(member) for member in normal["any_of"]) if "any_of" in normal else 1


def _check_possible(rule: Rule) -> None:
    if isinstance(rule, BoundedRule):
        _check_possible(rule.rule)
    elif isinstance(rule, UnionRule):
        for member in rule.members:
            _check_possible(member)
    elif isinstance(rule, CronRule) and rule.expression.wall_times().days.next_day(0) is None:
        *_, dom, month, dow = rule.expression.fields
        raise ScheduleRefused(
            "never_fires",
            f"no date matches day-of-month {dom.text}, month {month.text}, day-of-week {dow.text}",
            field="cron",
            remedy="choose a day that exists in one of the months",
        )


def _check_movable(schedule: Schedule) -> None:
    """Moving to the next working day is for jobs of a few times a day: a job of every minute would pile up
    hundreds of runs there, and finding their order would cost as many searches."""
    if schedule.exclusion is None or schedule.exclusion.on_excluded == "skip":
        return
    gap_s = shortest_gap_s(schedule)
    if gap_s is not None and gap_s < MOVABLE_GAP_MIN_S:
        raise ScheduleRefused(
            "moved_too_often", f"a job that is due every {gap_s} s cannot be moved to the next working day",
            field="calendars.on_excluded", remedy='use "skip"',
        )  # fmt: skip


def _over(schedule: Schedule, now_ms: int) -> ScheduleRefused:
    last = schedule.rule.prev_s(now_ms // 1000 + 1)
    if not schedule.is_recurring and last is not None:
        late_s = now_ms // 1000 - last
        return ScheduleRefused(
            "at_in_past", f"{utc_text_ms(last * 1000)} was {late_s} s ago", field="at",
            remedy=f"give a time after {utc_text_ms(now_ms)}, or a delay",
        )  # fmt: skip
    seen = f"the last occurrence was {utc_text_ms(last * 1000)}" if last is not None else "nothing matches"
    return ScheduleRefused(
        "never_due", f"the schedule is never due after {utc_text_ms(now_ms)}: {seen}",
        field="end" if "end" in schedule.spec else "schedule", remedy="move or remove start, end or count",
    )  # fmt: skip
