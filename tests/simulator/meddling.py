"""Somebody who acts on just what another is deciding about: between what a process reads and what it writes.

Everything that is decided from an item is written on condition that it still stands so. A condition that is missing
shows only when somebody comes between, which a client that acts at any time hardly ever does.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from tests.simulator import clients
from tests.simulator.places import next_pk
from tests.simulator.shape import SCHEDULES, ChangePlan, JobPlan, PausePlan
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.keys import parse_ledger_key
from tickwork.core.ledger.tables import JOBS

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.core.ledger.keys import LedgerKey
    from tickwork.core.ledger.tables import Table
    from tickwork.core.ledger.writes import Item
    from tickwork.testing.process import Process

SHARE = 0.35
"""Of the seeds: the others are left in peace."""
_RATES = (0.01, 0.03, 0.1)
_ACTS_MAX = 6
"""Of a history: what is cancelled and changed all the time shows nothing else."""
_AFTER_MS = (0, 0, 1, 2, 3, 5, 8, 13, 30)
_DECIDERS = frozenset({"scanner", "reconciler", "api", "worker", "pusher"})


class Meddler:
    """Draws from a generator of its own: a seed that has none has the history that it had before there was one. In a
    world made by hand nobody comes by."""

    def __init__(self, world: World, *, comes_by: bool) -> None:
        self._world = world
        self._rng = Random(f"meddler {world.seed}")
        self._rate = self._rng.choice(_RATES) if self._rng.random() < SHARE and comes_by else 0.0
        self._left = _ACTS_MAX

    def looked_at(self, process: Process, table: Table, items: list[Item]) -> None:
        """A process has read this; perhaps somebody acts on it before it writes."""
        if not self._rate or not self._left or not items or process.kind not in _DECIDERS:
            return
        world, rng = self._world, self._rng
        if world.faults.off or rng.random() >= self._rate or not world.classes:
            return
        act = self._on_job if table is JOBS else self._on_run
        item = rng.choice(items)
        self._left -= 1
        world.seen["meddled"] += 1
        world.kernel.at(world.kernel.now_ms + rng.choice(_AFTER_MS), partial(act, item))

    def is_curious(self) -> bool:
        """Whether somebody looks now whether he is given what is not his."""
        return bool(self._rate) and self._rng.random() < self._rate

    def _on_run(self, item: Item) -> None:
        ref = f"{item['pk']}|{item['sk']}"
        if "run_ref" in item or ref in self._world.poisoned:
            return
        clients.cancel_one(self._world, parse_ledger_key(item["pk"], item["sk"]))

    def _on_job(self, item: Item) -> None:
        world, rng = self._world, self._rng
        plan = next((job for job in world.shape.jobs if f"{job.team}:{job.name}" == item.get("job_id")), None)
        if plan is None or item["job_id"] in world.poisoned:
            return
        match rng.choice(("pause", "pause", "resume", "change", "change", "cancel", "delete")):
            case "pause":
                ends_after_ms = rng.choice((0, 5, 20, 70)) * SECOND_MS
                resume_at_ms = 0 if ends_after_ms else rng.choice((5, 40)) * SECOND_MS
                self._pause(item["job_id"], PausePlan(0, ends_after_ms, resume_at_ms, ends_on_the_dot=True))
            case "resume":
                clients.resume_job(world, item["job_id"])
            case "change":
                clients.change_job(world, plan, self._change(plan))
            case "cancel":
                if (key := _next_key(world, item)) is not None:
                    clients.cancel_one(world, key)
            case "delete":
                clients.delete_job(world, item["job_id"])
                world.kernel.at(world.kernel.now_ms + rng.randrange(9_000), lambda: clients.create_job(world, plan))

    def _pause(self, job_id: str, pause: PausePlan) -> None:
        world = self._world
        clients.pause_job(world, job_id, pause)
        if pause.resume_at_ms:
            world.kernel.at(world.kernel.now_ms + pause.resume_at_ms, lambda: clients.resume_job(world, job_id))

    def _change(self, plan: JobPlan) -> ChangePlan:
        """Mostly of what a run does, and not of when: then the pending occurrence stays."""
        rng = self._rng
        schedule = plan.schedule if rng.random() < 0.6 else rng.choice(SCHEDULES)
        return ChangePlan(self._world.kernel.now_ms, schedule, plan.tolerance_s, rng.random() < 0.5)


def _next_key(world: World, job: Item) -> LedgerKey | None:
    second, nominal = job.get("next_fire_at_ms", 0) // SECOND_MS, job.get("next_scheduled_at_ms", 0) // SECOND_MS
    if not nominal:
        return None
    return parse_ledger_key(next_pk(world, job), f"{second:010d}#{job['team']}#{job['name']}#{nominal:010d}")
