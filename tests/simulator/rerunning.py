"""Callers who have a range of a job run again, and who pause or cancel that."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.simulator.clients import request
from tickwork.flows.runs import backfill_making, backfill_stopping
from tickwork.flows.runs.backfill_making import Wanted
from tickwork.testing.process import Process

if TYPE_CHECKING:
    from tests.simulator.shape import BackfillPlan
    from tests.simulator.world import World

_PASSED_MS = 5_000
"""By every clock."""
_RESUMED_AFTER_MS = 20_000


def backfill(world: World, job_id: str, plan: BackfillPlan, client_key: str) -> None:
    """Have it run, as what the job has in the last seconds; repeated while nobody answers."""
    until_ms = (world.kernel.now_ms - _PASSED_MS) // 1_000 * 1_000
    from_ms = until_ms - plan.span_ms
    wanted = Wanted(
        job_id, from_ms, until_ms, plan.outcomes, plan.order, plan.concurrency, "ops", "a bug", client_key, "same"
    )

    def call(process: Process) -> None:
        made = backfill_making.made_before(process.ports, wanted) or backfill_making.make(process.ports, wanted)
        world.seen["backfill made"] += 1
        for at_ms, act in ((plan.pause_at_ms, pause), (plan.cancel_at_ms, partial(cancel, stops_runs=plan.stops_runs))):
            if at_ms:
                world.kernel.at(max(at_ms, world.kernel.now_ms), partial(act, world, made.backfill_id))

    request(world, call, again=True)


def pause(world: World, backfill_id: str) -> None:
    """And go on later."""

    def call(process: Process) -> None:
        backfill_stopping.pause(process.ports, backfill_id, "ops", "too much")
        world.seen["backfill paused"] += 1

    request(world, call, again=True)
    world.kernel.at(world.kernel.now_ms + _RESUMED_AFTER_MS, partial(resume, world, backfill_id))


def resume(world: World, backfill_id: str) -> None:
    def call(process: Process) -> None:
        backfill_stopping.resume(process.ports, backfill_id, "ops")
        world.seen["backfill resumed"] += 1

    request(world, call, again=True)


def cancel(world: World, backfill_id: str, *, stops_runs: bool) -> None:
    def call(process: Process) -> None:
        backfill_stopping.cancel(process.ports, backfill_id, "ops", "a mistake", stops_runs=stops_runs)
        world.seen["backfill cancelled"] += 1

    request(world, call, again=True)
