"""Pauses of a team, a pool or the cell in simulated worlds: when they come, what they cover, how they end.

Each has an end of its own within the safety phase, so that a world whose client gave up comes to rest; half of them are
resumed before it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from tests.simulator.clients import request
from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs.pauses import ALL, LATEST, SKIP, Pause
from tickwork.core.jobs.scopes import ALL_CELLS, CELL, POOL, TEAM, Scope
from tickwork.flows.jobs import pausing

if TYPE_CHECKING:
    from tests.simulator.shape import Shape
    from tests.simulator.world import World
    from tickwork.testing.process import Process

SCOPE_PAUSES = "scope_pauses"
"""The element: some scopes are paused."""
_SHARE = 0.15
_PLATFORM = "platform"


@dataclass(frozen=True, slots=True)
class ScopePausePlan:
    """A pause of a scope, its own end, and when somebody resumes it (0: nobody does)."""

    scope: Scope
    at_ms: int
    until_ms: int
    resume_at_ms: int
    at_resume: str


def with_scope_pauses(rng: Random, shape: Shape, team: str, pool: str) -> Shape:
    """In some seeds a team, a pool or everything is paused, once or twice."""
    if rng.random() >= _SHARE:
        return shape
    scopes = (Scope(team, TEAM, team), Scope(_PLATFORM, POOL, pool), Scope(_PLATFORM, CELL, ALL_CELLS))

    def plan() -> ScopePausePlan:
        at_ms = shape.start_ms + rng.randrange(shape.safety_ms * 2 // 3)
        until_ms = at_ms + rng.choice((5, 15, 40, 90)) * SECOND_MS
        until_ms = min(until_ms, shape.start_ms + shape.safety_ms)
        resume_at_ms = at_ms + rng.randrange(until_ms - at_ms) if rng.random() < 0.5 else 0
        return ScopePausePlan(rng.choice(scopes), at_ms, until_ms, resume_at_ms, rng.choice((SKIP, LATEST, ALL)))

    plans = tuple(plan() for _ in range(rng.choice((1, 1, 2, 3))))
    return replace(shape, elements=shape.elements | {SCOPE_PAUSES}, scope_pauses=plans)


def plan_scope_pauses(world: World) -> None:
    for plan in world.shape.scope_pauses:
        world.kernel.at(plan.at_ms, partial(_pause, world, plan))
        if plan.resume_at_ms:
            world.kernel.at(plan.resume_at_ms, partial(_resume, world, plan))


def _pause(world: World, plan: ScopePausePlan) -> None:
    ask = world.checks.paused.asked_to_pause(plan.scope, plan.until_ms)

    def call(process: Process) -> None:
        pause = Pause("ops", "maintenance", 0, plan.until_ms, at_resume=plan.at_resume)
        pausing.pause_scope(process.ports, plan.scope, pause)
        ask.acked_ms = min(ask.acked_ms, world.kernel.now_ms)
        world.seen[f"scope paused {plan.at_resume}"] += 1

    request(world, call, again=True, ask=ask)


def _resume(world: World, plan: ScopePausePlan) -> None:
    ask = world.checks.paused.asked_to_resume(plan.scope)

    def call(process: Process) -> None:
        found = pausing.resume_scope(process.ports, plan.scope, "ops")
        ask.acked_ms = min(ask.acked_ms, world.kernel.now_ms)
        world.seen["scope resumed" if found.changed else "scope was not paused"] += 1
        world.seen["resume starts something"] += bool(found.starting.count)

    request(world, call, again=True, ask=ask)
