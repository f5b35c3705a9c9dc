"""The shape of a seed's world: how many shards, slices and hosts, which timers and jobs, what happens to them when.

Even the shape is drawn from the seed. Worlds are small: a bug shows in a small world, and small worlds are many.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.core.records import CatchUp, RetryPolicy, Work
from tickwork.ports import Layout

CELL = "sim"
TEAMS = ("pay", "web")
POOL = "default"

_SCHEDULES: tuple[dict[str, Any], ...] = (
    {"rate": "5 seconds", "anchor": "2026-01-01T00:00:00Z"},
    {"rate": "20 seconds", "anchor": "2026-01-01T00:00:03Z"},
    {"rate": "45 seconds", "anchor": "2026-01-01T00:00:00Z"},
    {"cron": "* * * * *", "zone": "UTC"},
    {"cron": "*/2 * * * *", "zone": "UTC"},
    {"delay": "40 seconds"},
    {"rate": "15 seconds", "anchor": "2026-01-01T00:00:00Z", "count": 6},
)
_CATCH_UPS = (
    CatchUp(),
    CatchUp("all"),
    CatchUp("last", 2),
    CatchUp("none"),
    CatchUp("all", max_lateness_s=90),
    CatchUp("latest", max_lateness_s=30),
)
_AHEAD_S = (-3, 0, 0, 1, 1, 2, 5, 10, 30, 59, 61, 90, 150, 200, 260)


@dataclass(frozen=True, slots=True)
class TimerPlan:
    """A one-shot that a client creates at an instant, and may cancel some time after the answer."""

    at_ms: int
    fire_at_ms: int
    count: int
    work: Work
    team: str
    client_key: str | None
    cancel_after_ms: int | None


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A job that is created, perhaps again, deleted, and perhaps created once more."""

    team: str
    name: str
    schedule: dict[str, Any]
    tolerance_s: int
    catch_up: CatchUp
    work: Work
    create_at_ms: tuple[int, ...]
    delete_at_ms: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    start_ms: int
    safety_ms: int
    slices: int
    layouts: tuple[Layout, Layout]
    relayout_at_ms: int
    hosts: int
    timers: tuple[TimerPlan, ...]
    jobs: tuple[JobPlan, ...]
    cancel_runs_at_ms: tuple[int, ...] = ()
    replays_at_ms: tuple[int, ...] = ()


def draw_shape(rng: Random, epoch_ms: int) -> Shape:
    """The world of a seed, which begins somewhere in the hour after the epoch."""
    start_ms = epoch_ms + rng.randrange(60 * MINUTE_MS)
    safety_ms = rng.choice((40, 60, 80, 120, 120, 200, 400, 700)) * SECOND_MS
    slices = rng.choice((1, 1, 2))
    timers = tuple(_timer(rng, start_ms, safety_ms, n) for n in range(rng.choice((1, 2, 3, 5))))
    jobs = tuple(_job(rng, start_ms, safety_ms, n) for n in range(rng.choice((0, 1, 1, 2, 3))))
    return Shape(
        start_ms,
        safety_ms,
        slices,
        _layouts(rng, slices),
        start_ms + rng.randrange(safety_ms),
        rng.choice((1, 2, 4)),
        timers,
        jobs,
        _sometimes(rng, start_ms, safety_ms, (0, 0, 1, 4)),
        _sometimes(rng, start_ms, safety_ms, (0, 0, 1)),
    )


def _sometimes(rng: Random, start_ms: int, safety_ms: int, counts: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(start_ms + rng.randrange(safety_ms) for _ in range(rng.choice(counts)))


def _layouts(rng: Random, slices: int) -> tuple[Layout, Layout]:
    """The layout, and the one that replaces it. While the number of shards changes, every window reads the shards of
    both: growing takes a deployment that reads them before one that writes them."""
    shards = rng.choice((1, 2, 3))
    capacity = rng.choice((5, 50, 500))
    common: dict[str, Any] = {"cell": CELL, "slices": slices, "pools": (POOL,), "slice_capacity_per_s": capacity}
    if rng.random() < 0.8:
        layout = Layout(shards=shards, **common)
        return layout, layout
    other = rng.choice((1, 2, 4))
    return Layout(shards=shards, shards_before=other, **common), Layout(shards=other, shards_before=shards, **common)


def _work(rng: Random) -> Work:
    retry = RetryPolicy(rng.choice((1, 2, 3, 5)), rng.choice((1, 2, 10)))
    return Work(POOL, "job", payload='{"n":1}', lease_s=rng.choice((30, 30, 60, 120)), retry=retry)


def _timer(rng: Random, start_ms: int, safety_ms: int, number: int) -> TimerPlan:
    at_ms = start_ms + rng.randrange(safety_ms)
    return TimerPlan(
        at_ms,
        at_ms + rng.choice(_AHEAD_S) * SECOND_MS + rng.randrange(SECOND_MS),
        rng.choice((1, 1, 1, 3)),
        _work(rng),
        rng.choice(TEAMS),
        f"key-{number}" if rng.random() < 0.5 else None,
        rng.randrange(90 * SECOND_MS) if rng.random() < 0.3 else None,
    )


def _job(rng: Random, start_ms: int, safety_ms: int, number: int) -> JobPlan:
    create_at_ms = start_ms + rng.randrange(max(1, safety_ms // 2))
    creates, deletes = [create_at_ms], []
    if rng.random() < 0.2:
        creates.append(create_at_ms + rng.randrange(20 * SECOND_MS))
    if rng.random() < 0.4:
        deletes.append(create_at_ms + rng.randrange(safety_ms))
        if rng.random() < 0.6:
            creates.append(deletes[0] + rng.randrange(30 * SECOND_MS))
    return JobPlan(
        rng.choice(TEAMS),
        f"job-{number}",
        rng.choice(_SCHEDULES),
        rng.choice((0, 0, 0, 2)),
        rng.choice(_CATCH_UPS),
        _work(rng),
        tuple(creates),
        tuple(deletes),
    )
