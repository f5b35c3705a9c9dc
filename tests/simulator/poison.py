"""Items that no version of ours should meet, and one day will: they must be set aside and hold up nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tests.simulator.shape import CELL
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import JOBS, TIMERS

if TYPE_CHECKING:
    from tests.simulator.world import World

_AHEAD_S = 40
GARBAGE = {"tongues": 1}


def plant_poison(world: World) -> None:
    """One item of each kind, or of one kind, due within the next seconds."""
    _plant_kinds(world, _KINDS if world.rng.random() < 0.3 else (world.rng.choice(_KINDS),))


def plant_every_poison(world: World) -> None:
    """One item of each kind, due within the next seconds."""
    _plant_kinds(world, _KINDS)


def _plant_kinds(world: World, kinds: Sequence[Callable[[World, LedgerKey], None]]) -> None:
    for kind in kinds:
        due_ms = (world.kernel.now_ms // SECOND_MS + world.rng.randrange(_AHEAD_S)) * SECOND_MS
        shard = world.rng.randrange(world.layout.shards)
        key = LedgerKey(CELL, shard, due_ms, "pay", f"poison-{kind.__name__.strip('_')}".replace("_", "-"), due_ms)
        world.seen[f"poison {kind.__name__.strip('_')}"] += 1
        kind(world, key)


def garble_schedule(world: World) -> None:
    """A definition that nobody can read for a while (a newer version wrote it, and is rolled back)."""
    jobs = [item for item in world.tables.items(JOBS) if item.get("status") == "active" and "schedule" in item]
    jobs = [item for item in jobs if item["job_id"] not in world.poisoned]
    if not jobs:
        return
    job_id, right = jobs[0]["job_id"], jobs[0]["schedule"]
    world.seen["schedule garbled"] += 1
    world.garbled[job_id] = right
    _write_schedule(world, job_id, right, GARBAGE)
    mend_ms = world.kernel.now_ms + world.rng.randint(5, 120) * SECOND_MS
    world.kernel.at(mend_ms, lambda: _write_schedule(world, job_id, GARBAGE, right))


def _write_schedule(world: World, job_id: str, standing: dict[str, Any], schedule: dict[str, Any]) -> None:
    item = world.tables.standing(JOBS, {"job_id": job_id})
    if item is not None and item["schedule"] == standing:
        world.trace("vandal", "schedule", f"{job_id} {schedule}")
        world.tables.plant(JOBS, item | {"schedule": schedule})


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


_KINDS = (_newer_status, _newer_kind, _retry_of_nothing, _retry_of_garbage, _running_garbage, _job_in_tongues)
