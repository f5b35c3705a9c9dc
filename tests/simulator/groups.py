"""Groups in simulated worlds: what bears a label, when a group is cancelled and paused, and what comes to it then.

The label is the same in both teams: what one of them cancels is nothing to the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from tests.simulator.clients import request
from tests.simulator.scopes import SCOPE_PAUSES, ScopePausePlan
from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs.pauses import ALL, LATEST, SKIP
from tickwork.core.jobs.scopes import GROUP, Scope
from tickwork.core.ledger.epochs import Label
from tickwork.flows.jobs import cancelling_groups

if TYPE_CHECKING:
    from tests.simulator.shape import JobPlan, Shape, TimerPlan
    from tests.simulator.world import World
    from tickwork.testing.process import Process

GROUPS = "groups"
"""The element: some timers and jobs bear a label."""
_SHARE = 0.2
_NAME = "night"
_LABELLED = 0.7
_MORE_TIMERS = 3
"""Of a world with groups there are a few more: most that could go wrong does so just beside a cancellation."""


@dataclass(frozen=True, slots=True)
class GroupCancelPlan:
    label: Label
    at_ms: int


def with_groups(rng: Random, shape: Shape) -> Shape:
    """In some seeds most things bear a label, and their groups are cancelled once or more, mostly just beside the
    creation or the fire time of something."""
    if rng.random() >= _SHARE or not shape.timers:
        return shape
    more = tuple(_again(rng, shape, rng.choice(shape.timers), number) for number in range(_MORE_TIMERS))
    timers = tuple(_labelled(rng, timer) for timer in (*shape.timers, *more))
    jobs = tuple(_labelled_job(rng, job) for job in shape.jobs)
    shape = replace(shape, timers=timers, jobs=jobs, elements=shape.elements | {GROUPS})
    cancels = tuple(_cancel(rng, shape) for _ in range(rng.choice((1, 1, 2, 3))))
    jobs = tuple(_registered_again(rng, job, cancels) for job in jobs)
    shape = replace(shape, jobs=jobs, group_cancels=cancels)
    return _with_pause(rng, shape) if rng.random() < 0.4 else shape


def _again(rng: Random, shape: Shape, timer: TimerPlan, number: int) -> TimerPlan:
    at_ms = shape.start_ms + rng.randrange(shape.safety_ms)
    ahead_ms = rng.choice((0, 1, 3, 8, 20, 60)) * SECOND_MS
    return replace(timer, at_ms=at_ms, fire_at_ms=at_ms + ahead_ms, client_key=f"more-{number}", cancel_after_ms=None)


def _labelled(rng: Random, timer: TimerPlan) -> TimerPlan:
    return replace(timer, group=_NAME) if rng.random() < _LABELLED else timer


def _labelled_job(rng: Random, job: JobPlan) -> JobPlan:
    return replace(job, group=_NAME) if rng.random() < _LABELLED else job


def _cancel(rng: Random, shape: Shape) -> GroupCancelPlan:
    timer = rng.choice(shape.timers)
    at_ms = rng.choice((timer.at_ms, timer.fire_at_ms, shape.start_ms + rng.randrange(shape.safety_ms)))
    at_ms += rng.choice((-3_000, -800, -100, 0, 50, 300, 1_000, 2_500, 6_000))
    last_ms = shape.start_ms + shape.safety_ms
    return GroupCancelPlan(Label(timer.team, _NAME), min(max(at_ms, shape.start_ms), last_ms))


def _registered_again(rng: Random, job: JobPlan, cancels: tuple[GroupCancelPlan, ...]) -> JobPlan:
    """Half of the jobs are registered again some time after their group was cancelled."""
    mine = [one.at_ms for one in cancels if one.label.team == job.team]
    if not job.group or not mine or rng.random() < 0.5:
        return job
    return replace(job, create_at_ms=(*job.create_at_ms, max(mine) + rng.randrange(20 * SECOND_MS)))


def _with_pause(rng: Random, shape: Shape) -> Shape:
    at_ms = shape.start_ms + rng.randrange(shape.safety_ms * 2 // 3)
    until_ms = min(at_ms + rng.choice((5, 15, 40)) * SECOND_MS, shape.start_ms + shape.safety_ms)
    resume_at_ms = at_ms + rng.randrange(until_ms - at_ms) if rng.random() < 0.5 else 0
    team = rng.choice(shape.timers).team
    plan = ScopePausePlan(Scope(team, GROUP, _NAME), at_ms, until_ms, resume_at_ms, rng.choice((SKIP, LATEST, ALL)))
    return replace(shape, scope_pauses=(*shape.scope_pauses, plan), elements=shape.elements | {SCOPE_PAUSES})


def plan_group_cancels(world: World) -> None:
    for plan in world.shape.group_cancels:
        world.kernel.at(plan.at_ms, partial(_carry_out, world, plan.label))


def _carry_out(world: World, label: Label) -> None:
    ask = world.checks.groups.asked_to_cancel(label)

    def call(process: Process) -> None:
        group = cancelling_groups.cancel_group(process.ports, label, "ops", "called off")
        world.checks.groups.told_cancelled(ask, group.epoch)
        world.seen["group cancelled"] += 1

    request(world, call, again=True, ask=ask)
