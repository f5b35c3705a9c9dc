"""What is still missing when the faults are over, and why: `pending` must become empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulator.checks.backfills import unfinished
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.tables import JOBS, LEASES, TEAMS, TIMERS

if TYPE_CHECKING:
    from tests.simulator.world import World

_ENDED = frozenset({"succeeded", "dead", "skipped", "cancelled", "expired", "spent"})
_GRACE_MS = 100 * SECOND_MS
"""What became due this recently may still be on its way."""
_FOUND_MS = 10 * 60 * SECOND_MS
"""After the faults: what is still pending then only an audit can find."""
_LAG_MAX_MS = 90 * SECOND_MS


def pending(world: World) -> list[str]:
    """Every reason why the world has not come to rest; empty when it has."""
    now_ms = world.kernel.now_ms
    reasons = [
        f"the slice {lease['slice']} is {now_ms // SECOND_MS - lease['done']} s behind"
        for lease in world.tables.items(LEASES)
        if lease["done"] * SECOND_MS < now_ms - _LAG_MAX_MS - world.tick_every_ms - world.faults.skew_max_ms
    ]
    late_ms = world.shape.start_ms + world.shape.safety_ms + _FOUND_MS
    healed_ms = world.shape.start_ms + world.shape.safety_ms
    for item in world.tables.items(TIMERS):
        ref = f"{item['pk']}|{item['sk']}"
        if item["status"] in _ENDED or ref in world.poisoned or (world.kernel.now_ms > late_ms and ref in world.beyond):
            continue
        if "group" in item and world.checks.groups.is_gone(ref):
            continue
        due_ms = int(item["sk"][:10]) * SECOND_MS
        if due_ms <= max(healed_ms + 60 * SECOND_MS, now_ms - _GRACE_MS):
            reasons.append(f"{ref} is {item['status']}, due {(now_ms - due_ms) // SECOND_MS} s ago")
    reasons += [
        f"{ref} was accepted and is not in the ledger"
        for ref in world.checks.ledger.accepted
        if ref not in world.gone
        and world.tables.standing(TIMERS, dict(zip(("pk", "sk"), ref.split("|"), strict=True))) is None
    ]
    reasons += [f"{ref} has not started" for ref in world.fresh if ref not in world.checks.ledger.started_at_ms]
    reasons += [
        f"{job['job_id']} is in error"
        for job in world.tables.items(JOBS)
        if job["status"] == "error" and job["job_id"] not in world.poisoned
    ]
    return reasons + unfinished(world.tables.items(TEAMS))
