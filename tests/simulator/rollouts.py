"""Roll-outs of the platform's defaults in the middle of a history: which jobs follow them, what is published and for
how many, and what a job then is, written out again for the checkers.

Drawn apart: a seed without any has the history that it had before there were roll-outs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from tickwork.core.jobs.defaults import Version
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.jobs.overlap import ALLOW, SKIP
from tickwork.core.ledger import items
from tickwork.core.ledger.work import RetryPolicy
from tickwork.core.ledger.writes import Item
from tickwork.flows.jobs import rolling_out

if TYPE_CHECKING:
    from tests.simulator.shape import JobPlan, Shape
    from tests.simulator.world import World
    from tickwork.testing.process import Process

ROLL_OUTS, _SHARE = "roll_outs", 0.12
_NUMBER = 2
"""There are two versions before it."""
_CATCH_UPS = (CatchUp("all"), CatchUp("last", 2), CatchUp("none"), CatchUp("latest", max_lateness_s=30))


@dataclass(frozen=True, slots=True)
class RollOutPlan:
    """A version, when it is published, and for how many of the jobs it is in force from when on."""

    version: Version
    at_ms: int
    steps: tuple[tuple[int, int], ...]


def with_roll_outs(rng: Random, shape: Shape) -> Shape:
    """In some seeds jobs say nothing of some policies, and the platform changes its mind about those."""
    if rng.random() >= _SHARE or not shape.jobs:
        return shape
    version = Version(
        RetryPolicy(rng.choice((1, 2, 3)), rng.choice((1, 2))),
        rng.choice((2, 10, 20)),
        rng.choice((ALLOW, ALLOW, SKIP)),
        rng.choice(_CATCH_UPS),
    )
    times = sorted(shape.start_ms + rng.randrange(shape.safety_ms) for _ in range(rng.choice((2, 4, 6))))
    steps = tuple((at_ms, rng.choice((0, 50, 100, 100))) for at_ms in times[1:])
    jobs = tuple(_following(rng, job) for job in shape.jobs)
    elements = shape.elements | {ROLL_OUTS}
    return replace(shape, jobs=jobs, elements=elements, roll_outs=RollOutPlan(version, times[0], steps))


def _following(rng: Random, job: JobPlan) -> JobPlan:
    overlap = SKIP if rng.random() < 0.7 else job.overlap
    catch_up = CatchUp() if rng.random() < 0.6 else job.catch_up
    work = replace(job.work, retry=RetryPolicy()) if rng.random() < 0.4 else job.work
    changes = tuple(replace(one, overlap="") for one in job.changes)
    return replace(job, overlap=overlap, catch_up=catch_up, work=work, changes=changes)


def plan_roll_outs(world: World) -> None:
    if (plan := world.shape.roll_outs) is None:
        return
    world.kernel.at(plan.at_ms, lambda: _publish(world, plan.version))
    for at_ms, percent in plan.steps:
        world.kernel.at(at_ms, partial(_roll_out, world, percent))


def _publish(world: World, version: Version) -> None:
    from tests.simulator import clients

    def call(process: Process) -> None:
        rolling_out.publish(process.ports, 0, version, "ops", "a try")
        world.seen["defaults published"] += 1

    clients.request(world, call, again=True)


def _roll_out(world: World, percent: int) -> None:
    from tests.simulator import clients

    editions: list[int] = []

    def call(process: Process) -> None:
        if not editions:
            editions.append(rolling_out.read_defaults(process.ports).edition)
        rolling_out.roll_out(process.ports, editions[0], _NUMBER, percent, (), "on")
        world.seen["defaults rolled out"] += 1

    clients.request(world, call, again=True)


# --- what a job then is -----------------------------------------------------------------------------------------


def as_planned(world: World, job: Item, run: Item | None) -> Item:
    """A stored job with the policies by which one of its occurrences was planned."""
    number = (run or {}).get("defaults")
    plan = world.shape.roll_outs
    if number is None or plan is None:
        return job
    world.seen["decided by what it was planned by"] += 1
    changed: dict[str, Any] = {}
    if follows_overlap(job):
        changed["overlap"] = plan.version.overlap
    if not job.get("catch_up"):
        changed["catch_up"] = items.written(plan.version.catch_up)
    return {**job, **changed, "work": work_as_planned(world, job.get("work"), run)}


def follows_overlap(job: Item) -> bool:
    """Jobs here are registered when there were versions, and say no policy that is as the defaults are."""
    return bool(job.get("overlap") == SKIP and "at" not in job["schedule"])


def work_as_planned(world: World, work: Any, run: Item | None) -> Any:
    plan = world.shape.roll_outs
    if plan is None or (run or {}).get("defaults") is None or not isinstance(work, dict) or work.get("retry"):
        return work
    return {**work, "retry": items.written(plan.version.retry)}
