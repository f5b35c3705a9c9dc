"""The shape of a seed's world: how many shards, slices and hosts, which timers and jobs, what happens to them when.

Even the shape is drawn from the seed. Worlds are small: a bug shows in a small world, and small worlds are many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.simulator.celled import PlacementPlan, with_cells
from tests.simulator.elements import (
    CalendarPlan,
    begin_of,
    draw_elements,
    enrich,
    with_buffers,
    with_deadlines,
    with_giving_way,
    with_overlap,
)
from tests.simulator.groups import GroupCancelPlan, with_groups
from tests.simulator.parts import PENDING_ISOLATION
from tests.simulator.rollouts import RollOutPlan, with_roll_outs
from tests.simulator.scopes import ScopePausePlan, with_scope_pauses
from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.jobs.overlap import ALLOW
from tickwork.core.ledger.cells import CellShape
from tickwork.core.ledger.work import Resource, RetryPolicy, Work
from tickwork.ports import Layout

CELL = "sim"
TEAMS = ("pay", "web")
POOL = "default"

SCHEDULES: tuple[dict[str, Any], ...] = (
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
_BY_HAND_SEEDS, _SKIPPING_SEEDS, _BACKFILLING_SEEDS = 0.25, 0.25, 0.2
_LIMITED_SEEDS = 0.3
_RESOURCES = (Resource("db", 2), Resource("db", 3), Resource("api", 4))
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
    apart_s: int = 1
    """Of several: how far apart they are due."""
    group: str = ""


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """A change of a job: another schedule, another tolerance, a limit that makes its starts read the definition; other
    sizes of the resources that it shares."""

    at_ms: int
    schedule: dict[str, Any]
    tolerance_s: int
    limited: bool
    resources: tuple[Resource, ...] | None = None
    overlap: str = ""
    """Another policy than its job has; empty: the same."""


@dataclass(frozen=True, slots=True)
class PausePlan:
    """A pause that ends by itself after some time (0: never), or is ended by somebody (0: by nobody)."""

    at_ms: int
    ends_after_ms: int
    resume_at_ms: int
    ends_on_the_dot: bool = False


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A run of a job that somebody asks for. `beside`: whatever else runs of it; `own_payload`: one for it alone."""

    at_ms: int
    beside: bool
    own_payload: bool


@dataclass(frozen=True, slots=True)
class BackfillPlan:
    """That somebody has what was due in the last seconds run again, and stops or pauses that (0: nobody does)."""

    at_ms: int
    span_ms: int
    outcomes: str
    order: str
    concurrency: int
    pause_at_ms: int
    cancel_at_ms: int
    stops_runs: bool


@dataclass(frozen=True, slots=True)
class SkipPlan:
    """That somebody skips the `number`-th occurrence which a job has to come, and takes it back (0: nobody does)."""

    at_ms: int
    number: int
    undo_at_ms: int


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A job that is created, perhaps again, deleted, and perhaps created once more; meanwhile changed and paused."""

    team: str
    name: str
    schedule: dict[str, Any]
    tolerance_s: int
    catch_up: CatchUp
    work: Work
    create_at_ms: tuple[int, ...]
    delete_at_ms: tuple[int, ...]
    changes: tuple[ChangePlan, ...] = ()
    pauses: tuple[PausePlan, ...] = ()
    overlap: str = ALLOW
    buffer_max: int = 0
    buffer_age_s: int = 0
    runs: tuple[RunPlan, ...] = ()
    skips: tuple[SkipPlan, ...] = ()
    backfills: tuple[BackfillPlan, ...] = ()
    group: str = ""


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
    elements: frozenset[str] = frozenset()
    calendars: tuple[tuple[CalendarPlan, ...], ...] = ()
    reads_at_ms: tuple[int, ...] = ()
    zone_data_at_ms: int = 0
    cells: tuple[CellShape, ...] = ()
    """Beside the home cell."""
    placements: tuple[PlacementPlan, ...] = ()
    scope_pauses: tuple[ScopePausePlan, ...] = ()
    group_cancels: tuple[GroupCancelPlan, ...] = ()
    roll_outs: RollOutPlan | None = None
    page: int = 0
    """How many items a page has, where it is smaller than in production; 0: it is not."""


def draw_shape(rng: Random, epoch_ms: int) -> Shape:
    """The world of a seed, which begins somewhere in the hour after the epoch, or just before clocks change."""
    start_ms = epoch_ms + rng.randrange(60 * MINUTE_MS)
    apart = Random(f"elements of {start_ms}")
    elements = draw_elements(apart)
    start_ms = begin_of(apart, elements) or start_ms
    shape = enrich(_plain_shape(rng, start_ms), elements, apart, TEAMS, PENDING_ISOLATION)
    shape = with_deadlines(Random(f"deadlines of {start_ms}"), shape)
    shape = with_overlap(Random(f"overlap of {start_ms}"), shape)
    shape = with_roll_outs(Random(f"roll-outs of {start_ms}"), shape)
    shape = with_buffers(Random(f"buffers of {start_ms}"), shape)
    shape = with_giving_way(Random(f"giving way of {start_ms}"), shape)
    shape = _with_runs_by_hand(Random(f"runs by hand of {start_ms}"), shape)
    shape = _with_skips(Random(f"skips of {start_ms}"), shape)
    shape = _with_backfills(Random(f"backfills of {start_ms}"), shape)
    shape = with_cells(Random(f"cells of {start_ms}"), shape, TEAMS)
    shape = with_scope_pauses(Random(f"pauses of scopes of {start_ms}"), shape, TEAMS[0], POOL)
    return with_groups(Random(f"groups of {start_ms}"), shape)


def _with_backfills(rng: Random, shape: Shape) -> Shape:
    """In some seeds people run a range of a job again."""
    if rng.random() >= _BACKFILLING_SEEDS:
        return shape

    def backfill(job: JobPlan) -> BackfillPlan:
        at_ms = rng.randrange(min(job.create_at_ms), shape.start_ms + shape.safety_ms)
        paused_ms, cancelled_ms = rng.choice(((0, 0), (0, 0), (rng.randrange(9_000), 0), (0, rng.randrange(30_000))))
        return BackfillPlan(
            at_ms,
            rng.choice((15, 40, 90)) * SECOND_MS,
            rng.choice(("none", "failed", "all", "all")),
            rng.choice(("oldest_first", "newest_first")),
            rng.choice((1, 2, 5)),
            at_ms + paused_ms if paused_ms else 0,
            at_ms + cancelled_ms if cancelled_ms else 0,
            rng.random() < 0.5,
        )

    jobs = (replace(job, backfills=tuple(backfill(job) for _ in range(rng.choice((0, 1, 1, 2))))) for job in shape.jobs)
    return replace(shape, jobs=tuple(jobs))


def _with_skips(rng: Random, shape: Shape) -> Shape:
    """In some seeds people skip single occurrences, and some of them change their minds."""
    if rng.random() >= _SKIPPING_SEEDS:
        return shape

    def skip(job: JobPlan) -> SkipPlan:
        at_ms = _close_to_an_occurrence(rng, min(job.create_at_ms), shape.start_ms + shape.safety_ms)
        undo_at_ms = at_ms + rng.randrange(12 * SECOND_MS) if rng.random() < 0.3 else 0
        return SkipPlan(at_ms, rng.choice((0, 0, 1, 2)), undo_at_ms)

    jobs = (replace(job, skips=tuple(skip(job) for _ in range(rng.choice((0, 1, 2, 4))))) for job in shape.jobs)
    return replace(shape, jobs=tuple(jobs))


def _with_runs_by_hand(rng: Random, shape: Shape) -> Shape:
    """In some seeds people run jobs by hand, most of them just beside an occurrence."""
    if rng.random() >= _BY_HAND_SEEDS:
        return shape

    def run(job: JobPlan) -> RunPlan:
        at_ms = _close_to_an_occurrence(rng, min(job.create_at_ms), shape.start_ms + shape.safety_ms)
        return RunPlan(at_ms, rng.random() < 0.25, rng.random() < 0.3)

    jobs = (replace(job, runs=tuple(run(job) for _ in range(rng.choice((0, 1, 2, 4))))) for job in shape.jobs)
    return replace(shape, jobs=tuple(jobs))


def _plain_shape(rng: Random, start_ms: int) -> Shape:
    safety_ms = rng.choice((40, 60, 80, 100, 120, 160, 240, 400)) * SECOND_MS
    slices = rng.choice((1, 1, 2))
    timers = tuple(_timer(rng, start_ms, safety_ms, n) for n in range(rng.choice((1, 2, 3, 5))))
    jobs = tuple(_job(rng, start_ms, safety_ms, n) for n in range(rng.choice((0, 1, 1, 2, 3))))
    # Drawn apart, so that a seed without changes has the history that it had before there were any.
    changing = Random(start_ms)
    jobs = tuple(_with_changes(changing, job, start_ms + safety_ms) for job in jobs)
    if changing.random() < _LIMITED_SEEDS:
        timers = tuple(replace(timer, work=_limited(changing, timer.work)) for timer in timers)
        jobs = tuple(replace(job, work=_limited(changing, job.work)) for job in jobs)
    return Shape(
        start_ms,
        safety_ms,
        slices,
        _layouts(rng, slices),
        start_ms + rng.randrange(safety_ms),
        rng.choice((1, 2, 4)),
        timers,
        jobs,
        _sometimes(rng, start_ms, safety_ms, (0, 1, 1, 4)),
        _sometimes(rng, start_ms, safety_ms, (0, 1, 2)),
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
        rng.choice(SCHEDULES),
        rng.choice((0, 0, 0, 2)),
        rng.choice(_CATCH_UPS),
        _work(rng),
        tuple(creates),
        tuple(deletes),
    )


def _with_changes(rng: Random, job: JobPlan, until_ms: int) -> JobPlan:
    """The job with changes and pauses after it is created, most of them just beside an occurrence: there they hurt."""
    if rng.random() < 0.5:
        return job
    from_ms = min(job.create_at_ms)
    changes = tuple(
        ChangePlan(
            _close_to_an_occurrence(rng, from_ms, until_ms),
            rng.choice(SCHEDULES),
            rng.choice((job.tolerance_s, 0, 2)),
            rng.random() < 0.3,
            (rng.choice(_RESOURCES),) if rng.random() < 0.2 else None,
        )
        for _ in range(rng.choice((0, 1, 1, 2, 5)))
    )
    pauses = tuple(_pause(rng, from_ms, until_ms) for _ in range(rng.choice((0, 1, 3, 6))))
    return replace(job, changes=changes, pauses=pauses)


def _pause(rng: Random, from_ms: int, until_ms: int) -> PausePlan:
    at_ms = _close_to_an_occurrence(rng, from_ms, until_ms)
    lasts_ms = rng.choice((3, 3, 8, 20, 60, 200)) * SECOND_MS
    ends_after_ms, resume_at_ms = rng.choice(((lasts_ms, 0), (0, at_ms + lasts_ms), (lasts_ms, at_ms + lasts_ms // 2)))
    return PausePlan(at_ms, ends_after_ms, resume_at_ms, ends_on_the_dot=lasts_ms > 3_000)


def _close_to_an_occurrence(rng: Random, from_ms: int, until_ms: int) -> int:
    """An instant between the two; mostly just beside a multiple of five seconds, where most schedules are due: before
    it, or when its window is read, by a host whose clock is late."""
    at_ms = rng.randrange(from_ms, max(from_ms + 1, until_ms))
    if rng.random() < 0.3:
        return at_ms
    return at_ms + -at_ms % (5 * SECOND_MS) - rng.choice((0, 2, 5, 20, 200, -200, -400, -600, -800, -1_000))


def _limited(rng: Random, work: Work) -> Work:
    """Most of a team's work shares a resource, not always with the same idea of its size; some may not take long."""
    resources = tuple(rng.sample(_RESOURCES[::2], 2)) if rng.random() < 0.2 else (rng.choice(_RESOURCES),)
    return replace(
        work,
        resources=resources if rng.random() < 0.8 else (),
        max_duration_s=rng.choice((0, 0, 35, 100)),
    )
