"""Items that no version of ours should meet, and one day will: they must be set aside and hold up nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tickwork.core.instants import SECOND_MS
from tickwork.core.keys import LedgerKey
from tickwork.core.tables import JOBS, TIMERS
from tickwork.sim.shape import CELL

if TYPE_CHECKING:
    from tickwork.sim.world import World

_AHEAD_S = 40


def plant_poison(world: World) -> None:
    """One item of each kind, or of one kind, due within the next seconds."""
    kinds = (_newer_status, _newer_kind, _retry_of_nothing, _retry_of_garbage, _running_garbage, _job_in_tongues)
    for kind in kinds if world.rng.random() < 0.3 else (world.rng.choice(kinds),):
        due_ms = (world.kernel.now_ms // SECOND_MS + world.rng.randrange(_AHEAD_S)) * SECOND_MS
        shard = world.rng.randrange(world.layout.shards)
        key = LedgerKey(CELL, shard, due_ms, "pay", f"poison-{kind.__name__.strip('_')}".replace("_", "-"), due_ms)
        world.seen[f"poison {kind.__name__.strip('_')}"] += 1
        kind(world, key)


def _plant(world: World, key: LedgerKey, **attributes: Any) -> None:
    item = key.as_item() | attributes
    world.poisoned.add(f"{item['pk']}|{item['sk']}")
    world.tables.plant(TIMERS, item)


def _newer_status(world: World, key: LedgerKey) -> None:
    _plant(world, key, status="dreaming", work={"pool": "default", "handler": "job"})


def _newer_kind(world: World, key: LedgerKey) -> None:
    _plant(world, key, sk=f"{key.sk}#manual.1", status="pending")


def _retry_of_nothing(world: World, key: LedgerKey) -> None:
    _plant(world, key, sk=f"{key.sk}#retry.2", status="pending", run_ref="nowhere", attempt=2)


def _retry_of_garbage(world: World, key: LedgerKey) -> None:
    run = LedgerKey(CELL, key.shard, key.fire_at_ms - 120_000, key.team, key.name, key.scheduled_at_ms)
    _plant(world, run, status="waiting", work="gone", attempt=1)
    _plant(world, key, sk=f"{key.sk}#retry.2", status="pending", run_ref=run.ref, attempt=2)


def _running_garbage(world: World, key: LedgerKey) -> None:
    _plant(world, key, status="running", work=7, lease_until_ms=1)


def _job_in_tongues(world: World, key: LedgerKey) -> None:
    world.poisoned.add(key.job_id)
    world.tables.plant(JOBS, {"job_id": key.job_id, "team": key.team, "name": key.name, "status": "active"})
    _plant(world, key, status="pending", job_id=key.job_id, scheduled_at_ms=key.scheduled_at_ms)
