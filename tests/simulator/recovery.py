"""When faults are over: the world must come to rest, and be on time again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.simulator import clients
from tests.simulator.checks import due_ms_of
from tests.simulator.convergence import pending
from tests.simulator.parts import mend
from tests.simulator.shape import POOL, TimerPlan
from tickwork.core.dispatch.slices import TICK_HORIZON_S
from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.core.ledger import queues
from tickwork.core.ledger.tables import SET_ASIDE
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World

_LOOK_EVERY_MS = 20 * SECOND_MS
_CONVERGE_MS = 30 * MINUTE_MS
_LOSING = frozenset({"message_lost", "send_refused", "faulty_worker", "queue_forgets"})
_FRESH_AHEAD_S = (62, 80)
_FRESH_TEAM = "calm"
"""One that has nothing else: what a team has left of before comes before what it has now."""
_RECOVERING_LAG_MS = 65 * SECOND_MS
"""After the faults a loose ticker may take two minutes to come round, and the dead hold leases for a while. A tick that
the lease has noted and the queue has lost is made up for by the next minute's keep-alive, with a lag of its own."""
_LOST_TICKS_LAG_MS = TICK_HORIZON_S * SECOND_MS + _RECOVERING_LAG_MS
"""Where ticks were lost, those keep-alives may be lost as well: all that were issued before the faults ended."""
_LAST_RESORT_MS = 26 * 60 * MINUTE_MS
"""Faults are over and the near passes have been made: what is left must be found by the audit of a day later."""


def heal(world: World) -> None:
    """Nothing fails from now on."""
    world.trace("world", "HEAL", "faults are over")
    world.faults.stop()
    world.broken.heal()
    world.api_down_until_ms = 0
    for part in list(world.parts):
        mend(world, part)
    for queue in world.queues.values():
        queue.served_from_ms = queue.refuses_until_ms = 0
        if queue.name.startswith("ready-"):
            queue.retention_ms = queues.ready(POOL).retention_s * SECOND_MS


def converge(world: World) -> None:
    """Everything due reaches its end, soon or (what only an audit can find) a day later."""
    began_ms, has_rows = world.kernel.now_ms, any(True for _ in world.tables.items(SET_ASIDE))
    for ahead_s in _FRESH_AHEAD_S:
        _fresh_timer(world, ahead_s)
    _look_until(world, began_ms + _CONVERGE_MS)
    if world.violation is None and pending(world):
        world.seen["last resort"] += 1
        world.trace("world", "LAST RESORT", "; ".join(pending(world)[:5]))
        _check_stuck(world)
        for job in world.shape.jobs:
            clients.delete_job(world, f"{job.team}:{job.name}")
        world.tick_every_ms = 20 * MINUTE_MS
        _look_until(world, began_ms + _LAST_RESORT_MS)
    _check_fresh(world, has_rows)
    if world.violation is None and (left := pending(world)):
        raise Violation("no-lost-timer", f"after a day without faults: {'; '.join(left[:5])}")


def _look_until(world: World, until_ms: int) -> None:
    while world.violation is None and world.kernel.now_ms < until_ms:
        world.kernel.run_until(world.kernel.now_ms + max(_LOOK_EVERY_MS, world.tick_every_ms // 3))
        if not pending(world):
            return


def _check_stuck(world: World) -> None:
    """A run whose worker died comes back with its message, when that was not lost: no audit is needed for it."""
    if stuck := [reason for reason in pending(world) if " is running" in reason]:
        if not world.classes & _LOSING:
            raise Violation("bounded-lag", f"half an hour after the faults, no message was lost, but {stuck[0]}")
        world.seen["run without a message"] += 1


def _check_fresh(world: World, has_rows: bool) -> None:
    """Timers of the time after the faults are on time again, but for leases that the dead still hold. What was set
    aside goes first in its pool or shard, at the pace of a backlog."""
    recovering_ms = _LOST_TICKS_LAG_MS if "tick_lost" in world.classes else _RECOVERING_LAG_MS
    lag_max_ms = _CONVERGE_MS if has_rows else recovering_ms + 2 * world.faults.skew_max_ms
    for ref in world.fresh:
        lag_ms = world.checks.ledger.started_at_ms.get(ref, world.kernel.now_ms) - due_ms_of(ref)
        if lag_ms > lag_max_ms and world.violation is None:
            raise Violation("bounded-lag", f"{ref} started {lag_ms} ms late after the faults were over")


def _fresh_timer(world: World, ahead_s: int) -> None:
    """A timer of the time after the faults."""
    now_ms = world.kernel.now_ms
    work = world.shape.timers[0].work
    work = replace(work, resources=(), pool=POOL, url="", start_within_s=0)  # it must not wait for anybody
    plan = TimerPlan(now_ms, now_ms + ahead_s * SECOND_MS, 1, work, _FRESH_TEAM, f"fresh-{ahead_s}", None)
    clients.create_timers(world, plan, world.fresh)
