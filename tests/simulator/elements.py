"""What a seed's world may have beyond the plain one: more pools, pushes, calendars, zones, herds, long payloads.

Each element is on in some seeds only, drawn apart from the plain shape: a seed without any has the history that it had
before there were elements. `enrich` turns a plain shape into one with the elements that are on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulator.zones import CLOCK_CHANGES, ZONES
from tickwork.core.instants import MINUTE_MS, SECOND_MS, iso
from tickwork.core.jobs.overlap import ALLOW, BUFFER_ALL, BUFFER_ONE, CANCEL_OTHER, SKIP
from tickwork.core.ledger.work import UNSAFE, Resource, RetryPolicy, Work
from tickwork.core.runs.push_targets import parse_target
from tickwork.ports import PUSH_POOL

if TYPE_CHECKING:
    from tests.simulator.shape import ChangePlan, JobPlan, Shape, TimerPlan

SHARES: dict[str, float] = {
    "second_pool": 0.3,
    "pushed": 0.15,
    "real_worker": 0.18,
    "leased": 0.15,
    "lambda_worker": 0.15,
    "unsafe": 0.15,
    "retry_filters": 0.2,
    "long_payload": 0.2,
    "long_tolerance": 0.25,
    "zones": 0.2,
    "clock_change": 0.12,
    "zone_data": 0.1,
    "calendars": 0.2,
    "herd": 0.13,
    "job_herd": 0.04,
    "shrinking": 0.3,
    "small_pages": 0.3,
    "readers": 0.2,
}
"""How often each element is on, in the seeds that have any."""
_PLAIN_SEEDS = 0.3
DEADLINES, _DEADLINES_SHARE = "deadlines", 0.15
"""Work that has to start by a time, or not at all. Drawn apart, so that all other seeds keep their histories."""
OVERLAP, _OVERLAP_SHARE = "overlap", 0.25
"""Jobs that skip. Drawn apart, too."""
BUFFERS, _BUFFERS_SHARE = "buffers", 0.5
"""Jobs of which one waits. Drawn apart, too."""
GIVING_WAY, _GIVING_WAY_SHARE = "giving_way", 0.35
"""Jobs of which the newest has the others cancelled. Drawn apart, too."""
_START_WITHIN_S = (0, 2, 10, 40)
_MORE_FREEZES = 4
_HARD = 0.6
"""Of the calendars: what is late waits for their end, too. Drawn apart, so that the others keep their histories."""

SECOND_POOL, REAL_POOL, LEASED_POOL, LAMBDA_POOL = "bulk", "real", "leased", "lambda"
CALENDAR = "works"
NEW_HANDLER = "new"
"""A handler that a rollout brings: at first only some workers have it, and in the end all."""
FLAKY, BROKEN = "Flaky", "Broken"
"""The error classes that jobs fail with."""
DOWN_HOST = "two.example.net"
_URLS = ("https://hooks.example.com/orders", f"https://{DOWN_HOST}/x")
LONG_PAYLOAD = '{"n":1,"pad":"' + "x" * 500 + '"}'
_FILTERS: tuple[dict[str, Any], ...] = ({"no_retry_on": (BROKEN,)}, {"retry_on": (FLAKY,)})
_TOLERANCES_S = (20, 60, 90, 110, 1_800)
_HERD_TIMERS = (8, 12, 30)
_HERD_JOBS = (12, 30)
"""Alone, and with what else is due just then: more than a transaction of these worlds takes."""
_PUSHES_MAX = 3


@dataclass(frozen=True, slots=True)
class CalendarPlan:
    """What a calendar becomes at an instant."""

    at_ms: int
    team: str
    spec: dict[str, Any]
    is_bad: bool = False


def draw_elements(rng: Random) -> frozenset[str]:
    """The elements of a seed."""
    if rng.random() < _PLAIN_SEEDS:
        return frozenset()
    return frozenset(name for name, share in SHARES.items() if rng.random() < share)


def begin_of(rng: Random, elements: frozenset[str]) -> int | None:
    """When the world begins, where its history is to have a change of clocks in it."""
    if "clock_change" not in elements:
        return None
    at_ms, _ = rng.choice(CLOCK_CHANGES)
    return at_ms - rng.randrange(20, 400) * SECOND_MS


def enrich(
    shape: Shape, elements: frozenset[str], rng: Random, teams: tuple[str, ...], pending: frozenset[str] = frozenset()
) -> Shape:
    """The shape with its elements; `pending`: what the production code is known not to hold against."""
    shape = replace(shape, elements=elements)
    if elements & {"zones", "clock_change", "zone_data"}:
        zone = rng.choice(ZONES)
        if "clock_change" in elements:
            zone = min(CLOCK_CHANGES, key=lambda change: abs(change[0] - shape.start_ms))[1]
        shape = _each_job(shape, lambda job: _zoned(rng, job, zone))
    if "calendars" in elements:
        shape = replace(shape, calendars=tuple(_calendars(rng, shape, team, pending) for team in teams))
        shape = _each_job(shape, lambda job: _excluding(rng, job))
    if "long_tolerance" in elements:
        shape = _each_job(shape, lambda job: replace(job, tolerance_s=rng.choice(_TOLERANCES_S)))
    if "herd" in elements:
        timers = list(shape.timers)
        timers[0] = replace(timers[0], count=rng.choice(_HERD_TIMERS), apart_s=rng.choice((0, 0, 1)), client_key=None)
        shape = replace(shape, timers=tuple(timers))
    if "job_herd" in elements and shape.jobs:
        shape = replace(shape, jobs=(*shape.jobs, *_herd(rng, shape.jobs[0])))
    shape = _each_work(shape, lambda work: _with_elements(rng, work, elements))
    if "shrinking" in elements:
        shape = _each_job(shape, lambda job: replace(job, changes=tuple(_shrunk(rng, job, c) for c in job.changes)))
    if "zone_data" in elements:
        shape = replace(shape, zone_data_at_ms=shape.start_ms + rng.randrange(shape.safety_ms))
    if "readers" in elements:
        reads = tuple(shape.start_ms + rng.randrange(shape.safety_ms) for _ in range(rng.choice((2, 5))))
        shape = replace(shape, reads_at_ms=reads)
    if "small_pages" in elements:
        shape = replace(shape, page=rng.choice((1, 2, 4, 7)))
    return shape


def with_deadlines(rng: Random, shape: Shape) -> Shape:
    """In some seeds work has to start within some seconds of its time."""
    if rng.random() >= _DEADLINES_SHARE:
        return shape
    shape = _each_work(shape, lambda work: replace(work, start_within_s=rng.choice(_START_WITHIN_S)))
    return replace(shape, elements=shape.elements | {DEADLINES})


def with_overlap(rng: Random, shape: Shape) -> Shape:
    """In some seeds most jobs skip what would run beside another run of theirs, and some change their minds."""
    if rng.random() >= _OVERLAP_SHARE:
        return shape

    def skipping(job: JobPlan) -> JobPlan:
        changes = tuple(replace(one, overlap=rng.choice(("", SKIP, ALLOW))) for one in job.changes)
        return replace(job, overlap=rng.choice((SKIP, SKIP, SKIP, ALLOW)), changes=changes)

    return replace(_each_job(shape, skipping), elements=shape.elements | {OVERLAP})


def with_buffers(rng: Random, shape: Shape) -> Shape:
    """In some of the seeds whose jobs skip, most have one wait instead."""
    if OVERLAP not in shape.elements or rng.random() >= _BUFFERS_SHARE:
        return shape

    def waiting(job: JobPlan) -> JobPlan:
        def instead(policy: str) -> str:
            return rng.choice((BUFFER_ONE, BUFFER_ALL, BUFFER_ONE, SKIP)) if policy == SKIP else policy

        changes = tuple(replace(one, overlap=instead(one.overlap)) for one in job.changes)
        most, age_s = rng.choice((0, 2, 3)), rng.choice((0, 0, 20, 90))
        return replace(job, overlap=instead(job.overlap), changes=changes, buffer_max=most, buffer_age_s=age_s)

    return replace(_each_job(shape, waiting), elements=shape.elements | {BUFFERS})


def with_giving_way(rng: Random, shape: Shape) -> Shape:
    """In some of the seeds whose jobs skip, or have one wait, most have what goes on cancelled instead."""
    if OVERLAP not in shape.elements or rng.random() >= _GIVING_WAY_SHARE:
        return shape

    def instead(policy: str) -> str:
        return policy if policy in ("", ALLOW) else rng.choice((CANCEL_OTHER, CANCEL_OTHER, policy))

    def cancelling(job: JobPlan) -> JobPlan:
        changes = tuple(replace(one, overlap=instead(one.overlap)) for one in job.changes)
        return replace(job, overlap=instead(job.overlap), changes=changes)

    return replace(_each_job(shape, cancelling), elements=shape.elements | {GIVING_WAY})


def pools_of(elements: frozenset[str]) -> tuple[str, ...]:
    """The pools of the world beside the default one."""
    own = {
        "second_pool": SECOND_POOL,
        "pushed": PUSH_POOL,
        "real_worker": REAL_POOL,
        "leased": LEASED_POOL,
        "lambda_worker": LAMBDA_POOL,
    }
    return tuple(pool for element, pool in own.items() if element in elements)


def _each_job(shape: Shape, change: Callable[[JobPlan], JobPlan]) -> Shape:
    return replace(shape, jobs=tuple(change(job) for job in shape.jobs))


def _each_work(shape: Shape, change: Callable[[Work], Work]) -> Shape:
    timers: tuple[TimerPlan, ...] = tuple(replace(timer, work=change(timer.work)) for timer in shape.timers)
    jobs: tuple[JobPlan, ...] = tuple(replace(job, work=change(job.work)) for job in shape.jobs)
    return replace(shape, timers=timers, jobs=jobs)


def _with_elements(rng: Random, work: Work, elements: frozenset[str]) -> Work:
    pools = pools_of(elements)
    if pools and rng.random() < 0.7:
        work = replace(work, pool=rng.choice(pools))
    if work.pool == PUSH_POOL:
        url = rng.choice(_URLS)
        cap = Resource(parse_target(url).resource, _PUSHES_MAX)
        work = replace(work, url=url, resources=(*work.resources, cap))
    if "unsafe" in elements and rng.random() < 0.5:
        work = replace(work, idempotency_class=UNSAFE, sign_off={"who": "ops", "why": "it may be lost"})
    if work.pool in (REAL_POOL, LAMBDA_POOL) and rng.random() < 0.1:
        work = replace(work, handler=NEW_HANDLER)
    if work.pool in (REAL_POOL, LEASED_POOL) and rng.random() < 0.25:
        work = replace(work, lease_s=300, max_duration_s=60)  # the lease is cut long before a heartbeat is due
    if "retry_filters" in elements:
        named = rng.choice(_FILTERS)
        work = replace(work, retry=replace(work.retry, **named))
    if "long_payload" in elements and rng.random() < 0.7:
        work = replace(work, payload=LONG_PAYLOAD)
    return work


def _zoned(rng: Random, job: JobPlan, zone: str) -> JobPlan:
    """Crons of a zone; near a change of its clocks some of them lie in the gap, or twice."""
    crons = ("* * * * *", "*/2 * * * *", "*/5 * * * *", "5,20,35,50 * * * *", "0,1,2,3,4,5 1,2,3 * * *", "0 2,3 * * *")
    return replace(job, schedule={"cron": rng.choice(crons), "zone": zone}) if rng.random() < 0.7 else job


def _excluding(rng: Random, job: JobPlan) -> JobPlan:
    if "delay" in job.schedule or rng.random() < 0.3:
        return job
    exclusion = {"exclude": [CALENDAR], "on_excluded": "skip"}
    return replace(job, schedule={**job.schedule, "calendars": exclusion})


def _calendars(rng: Random, shape: Shape, team: str, pending: frozenset[str]) -> tuple[CalendarPlan, ...]:
    """A calendar from the beginning; later with a freeze of some minutes in it, perhaps by mistake with one of a
    century, and then mended."""
    plans = [CalendarPlan(shape.start_ms, team, {"zone": "UTC", "dates": ["2026-12-24"]})]
    if rng.random() < 0.7:
        begin_ms = shape.start_ms + rng.randrange(shape.safety_ms)
        freeze = _range(begin_ms, begin_ms + rng.choice((1, 2, 5)) * MINUTE_MS)
        at_ms = begin_ms + rng.randrange(-60, 30) * SECOND_MS
        plans.append(CalendarPlan(max(shape.start_ms + SECOND_MS, at_ms), team, {"zone": "UTC", "ranges": [freeze]}))
    if rng.random() < 0.3 and "bad_calendar" not in pending:
        at_ms = plans[-1].at_ms + rng.randrange(5, 60) * SECOND_MS
        forever = {"from": "2026-01-01", "to": "2149-12-31"}
        plans.append(CalendarPlan(at_ms, team, {"zone": "UTC", "ranges": [forever]}, is_bad=True))
        plans.append(CalendarPlan(at_ms + rng.randrange(20, 90) * SECOND_MS, team, plans[0].spec))
    apart = Random(f"hard {team} {shape.start_ms} {shape.safety_ms} {plans[-1].at_ms}")
    return tuple(_hard(apart, shape, plans) if apart.random() < _HARD else plans)


def _hard(rng: Random, shape: Shape, plans: list[CalendarPlan]) -> list[CalendarPlan]:
    """The calendar as one that nothing starts in, with some short freezes more, which it has from the beginning."""
    begins = [shape.start_ms + rng.randrange(shape.safety_ms) for _ in range(_MORE_FREEZES)]
    more = [_range(at_ms, at_ms + rng.choice((0, 1)) * MINUTE_MS) for at_ms in begins]
    return [
        replace(plan, spec={**plan.spec, "hard": True, "ranges": [*plan.spec.get("ranges", ()), *more]})
        for plan in plans
    ]


def _range(begin_ms: int, end_ms: int) -> dict[str, str]:
    begin, end = (iso(at_ms // MINUTE_MS * MINUTE_MS)[:16] for at_ms in (begin_ms, end_ms + MINUTE_MS))
    return {"from": begin, "to": end}


def _herd(rng: Random, job: JobPlan) -> tuple[JobPlan, ...]:
    """Jobs that are all due on the same seconds."""
    schedule = {"cron": "* * * * *", "zone": "UTC"}
    return tuple(
        replace(job, name=f"herd-{n}", schedule=schedule, tolerance_s=0, changes=(), pauses=(), delete_at_ms=())
        for n in range(rng.choice(_HERD_JOBS))
    )


def _shrunk(rng: Random, job: JobPlan, change: ChangePlan) -> ChangePlan:
    if not job.work.resources:
        return change
    smaller = tuple(Resource(one.name, max(1, one.max_concurrency - rng.choice((1, 2)))) for one in job.work.resources)
    return replace(change, resources=smaller)


def retries_after(retry: RetryPolicy, error_class: str) -> bool:
    """Whether a failure of this class may be retried at all: written out again, for the checkers."""
    if error_class in retry.no_retry_on:
        return False
    return not retry.retry_on or error_class in retry.retry_on
