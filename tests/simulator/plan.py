"""What happens in the safety phase, and when: the service's own clocks, the clients, outages, vandals, broken parts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.simulator import clients, operators, readers, rerunning, servers
from tests.simulator.elements import CALENDAR
from tests.simulator.groups import plan_group_cancels
from tests.simulator.parts import plan_parts
from tests.simulator.poison import garble_schedule, plant_poison
from tests.simulator.rollouts import plan_roll_outs
from tests.simulator.scopes import plan_scope_pauses
from tests.simulator.shape import POOL, JobPlan
from tests.simulator.tight import AUDIT_EVERY_MS, SHORT_DAYS
from tests.simulator.vandals import plan_vandals
from tickwork.core.instants import MINUTE_MS, SECOND_MS

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.queue import SimQueue

_AUDIT_EVERY_MS = 5 * MINUTE_MS
_AUDITED_AFTER_MS = 30 * SECOND_MS
"""A change of a calendar or of zone data is met by a reconciler within this, before the history is over."""
_OUTAGES = (1, 1, 2, 3)
"""Of a history that has any: the next may begin before what the last one left behind was made up for."""
_AUDITED_DELETES = 0.4
"""The share of deletions beside which a reconciler happens to come by: it meets a job that is just going."""


def plan(world: World) -> None:
    """Put everything that is going to happen on the world's agenda."""
    at, start_ms = world.kernel.at, world.shape.start_ms
    at(start_ms, partial(_tick, world))
    at(start_ms + world.rng.randrange(_AUDIT_EVERY_MS), partial(_audit, world))
    _plan_clients(world)
    for name, queue in (("scanner_outage", "ticks"), ("worker_outage", f"ready-{POOL}")):
        if world.faults.strikes(world.rng, name):
            for _ in range(world.rng.choice(_OUTAGES)):
                at(world.sometime(), partial(_outage, world, world.queues[queue]))
    if world.faults.strikes(world.rng, "queue_outage"):
        at(world.sometime(), partial(_queue_outage, world))
    if world.faults.strikes(world.rng, "poison"):
        at(world.sometime(), lambda: plant_poison(world))
    if world.faults.strikes(world.rng, "garbled_schedule"):
        at(world.sometime(), lambda: garble_schedule(world))
    plan_roll_outs(world)
    plan_vandals(world)
    plan_parts(world, world.broken_parts, world.apart)


def _plan_clients(world: World) -> None:
    at = world.kernel.at
    for plans in world.shape.calendars:
        for calendar in plans:
            at(calendar.at_ms, partial(readers.put_calendar, world, calendar, CALENDAR))
            at(calendar.at_ms + world.apart.randrange(_AUDITED_AFTER_MS), partial(servers.audit, world))
    for timer in world.shape.timers:
        at(timer.at_ms, partial(clients.create_timers, world, timer))
    for job in world.shape.jobs:
        job_id = f"{job.team}:{job.name}"
        for number, when_ms in enumerate(job.create_at_ms):
            other = "other" if number == 1 and world.rng.random() < 0.3 else "same"
            at(when_ms, partial(clients.create_job, world, job, other))
        _plan_changes(world, job, job_id)
        for when_ms in job.delete_at_ms:
            at(when_ms, partial(clients.delete_job, world, job_id))
            if world.rng.random() < _AUDITED_DELETES:
                at(when_ms + world.rng.randrange(3 * SECOND_MS), partial(servers.audit, world))
    plan_scope_pauses(world)
    plan_group_cancels(world)
    for placement in world.shape.placements:
        at(placement.at_ms, partial(operators.place, world, placement))
    for when_ms in world.shape.cancel_runs_at_ms:
        at(when_ms, partial(clients.cancel_run, world))
    for when_ms in world.shape.replays_at_ms:
        at(when_ms, partial(clients.replay_dead, world))
    for when_ms in world.shape.reads_at_ms:
        at(when_ms, partial(readers.read_something, world))


def _plan_changes(world: World, job: JobPlan, job_id: str) -> None:
    at = world.kernel.at
    for number, run in enumerate(job.runs):
        at(run.at_ms, partial(clients.run_by_hand, world, job_id, run, f"by-hand-{number}"))
    for number, backfill in enumerate(job.backfills):
        at(backfill.at_ms, partial(rerunning.backfill, world, job_id, backfill, f"backfill-{number}"))
    for skip in job.skips:
        at(skip.at_ms, partial(clients.skip_one, world, job_id, skip))
    for change in job.changes:
        at(change.at_ms, partial(clients.change_job, world, job, change))
    for pause in job.pauses:
        at(pause.at_ms, partial(clients.pause_job, world, job_id, pause))
        if pause.resume_at_ms:
            at(pause.resume_at_ms, partial(clients.resume_job, world, job_id))


def _tick(world: World) -> None:
    """The trigger is loose: anywhere in its minute, sometimes twice, sometimes not at all."""
    loose = world.faults.strikes(world.rng, "ticker_loose")
    now_ms = world.kernel.now_ms
    world.kernel.at(now_ms + world.tick_every_ms, partial(_tick, world))
    for _ in range(world.rng.choice((0, 1, 2)) if loose else 1):
        when_ms = now_ms + world.rng.randrange(MINUTE_MS if loose else SECOND_MS)
        world.kernel.at(when_ms, partial(servers.tick, world))


def _audit(world: World) -> None:
    every_ms = AUDIT_EVERY_MS if SHORT_DAYS in world.tight and not world.faults.off else _AUDIT_EVERY_MS
    world.kernel.at(world.kernel.now_ms + max(every_ms, world.tick_every_ms), partial(_audit, world))
    servers.audit(world)


def _outage(world: World, queue: SimQueue) -> None:
    queue.served_from_ms = world.kernel.now_ms + world.rng.randint(20, 240) * SECOND_MS
    world.seen["outage"] += 1


def _queue_outage(world: World) -> None:
    queue = world.queues[f"ready-{POOL}"]
    queue.refuses_until_ms = world.kernel.now_ms + world.rng.randint(5, 300) * SECOND_MS
    world.seen["queue outage"] += 1
