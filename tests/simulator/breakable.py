"""Worlds in which a part can break and others go on: what it touches stands there beside what it does not."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from tests.simulator.elements import CALENDAR, LONG_PAYLOAD, SECOND_POOL, CalendarPlan
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.work import Resource, Work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulator.shape import JobPlan, Shape, TimerPlan

_TIMERS = 10
_SHARDS = 3


def with_something_to_break(shape: Shape, parts: frozenset[str], rng: Random) -> Shape:
    """The shape with work that these parts touch, and as much that they do not."""
    plain = replace(shape.timers[0].work, resources=(), max_duration_s=0)
    touched = [_touched(part, plain) for part in sorted(parts)]
    extra = [_timers(rng, shape, work) for work in (plain, *(work for work in touched if work is not None))]
    shape = replace(shape, timers=(*shape.timers, *extra))
    if "broken_pool" in parts:
        shape = replace(shape, elements=shape.elements | {"second_pool"})
        jobs = [replace(job, work=replace(job.work, pool=SECOND_POOL)) if n % 2 else job for n, job in _each(shape)]
        shape = replace(shape, jobs=tuple(jobs))
    if parts & {"broken_shard"}:
        before, after = (replace(one, shards=max(_SHARDS, one.shards)) for one in shape.layouts)
        shape = replace(shape, layouts=(before, after))
    if parts & {"garbled_calendar", "broken_calendars_table"}:
        named = {"calendars": {"exclude": [CALENDAR], "on_excluded": "skip"}}
        jobs = [
            replace(job, schedule={**job.schedule, **named}) if n % 2 == 0 and "delay" not in job.schedule else job
            for n, job in _each(shape)
        ]
        plans = tuple(
            (CalendarPlan(shape.start_ms, team, {"zone": "UTC", "dates": ["2026-12-24"]}),)
            for team in sorted({job.team for job in jobs})
        )
        shape = replace(shape, jobs=tuple(jobs), calendars=shape.calendars or plans)
    return shape


def _each(shape: Shape) -> Iterator[tuple[int, JobPlan]]:
    yield from enumerate(shape.jobs)


def _touched(part: str, work: Work) -> Work | None:
    """Work of a one-shot that a part touches; None where only jobs are."""
    match part:
        case "broken_pool":
            return replace(work, pool=SECOND_POOL, url="")
        case "broken_payloads_table":
            return replace(work, payload=LONG_PAYLOAD)
        case "broken_resources_table":
            return replace(work, resources=(Resource("db", 3),))
    return None


def _timers(rng: Random, shape: Shape, work: Work) -> TimerPlan:
    """Some one-shots through the safety phase."""
    plan = shape.timers[0]
    apart_s = max(1, shape.safety_ms // SECOND_MS // _TIMERS)
    at_ms = shape.start_ms + rng.randrange(5 * SECOND_MS)
    fire_at_ms = at_ms + rng.choice((1, 3, 10)) * SECOND_MS
    return replace(
        plan, at_ms=at_ms, fire_at_ms=fire_at_ms, count=_TIMERS, work=work, client_key=None, cancel_after_ms=None,
        apart_s=apart_s,
    )  # fmt: skip
