"""Checks on lag: what the protocol promises for each class of fault, and that a part which stays broken costs only what
it touches (isolation)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulator.elements import LAMBDA_POOL, LEASED_POOL, REAL_POOL
from tests.simulator.parts import PARTS
from tests.simulator.tight import GATHERED, GATHERS_MS
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.tables import JOBS
from tickwork.core.ledger.writes import Item
from tickwork.ports import PUSH_POOL
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World

PROMISED_MS: dict[str, int] = {
    # These cost nothing: a page more, a look more, a message that dies at start.
    "stale_scan": 0,
    "stale_index": 0,
    "short_page": 0,
    "split_read": 0,
    "tick_doubled": 0,
    "message_doubled": 0,
    "freeze": 0,
    "slow_worker": 0,
    "deaf_worker": 0,
    "faulty_worker": 0,
    "garbled_schedule": 0,
    "poison": 0,
    # A message or a tick is as late as its queue makes it; the next tick is at most a minute away (keep-alive).
    "message_late": 61 * SECOND_MS,
    "tick_late": 125 * SECOND_MS,
    # Hosts disagree by twice the skew: who reads and who writes.
    "skew": 0,
    # Nobody works for up to four minutes.
    "bad_messages": 0,
    "api_outage": 95 * SECOND_MS,
    "worker_outage": 245 * SECOND_MS,
}
"""How much later a first attempt may start while a class of fault is on. A seed with a class that is not here is judged
by its recovery alone."""

ISOLATION_MS = 2 * SECOND_MS
"""What a broken part may cost those that it does not touch (spec F14)."""
FOUND_OVER_MS = 62 * SECOND_MS
"""So much later than its end a pause is found to be over by those whose tick for that end is lost: there is a window a
minute."""
_HERD_MS = 3 * SECOND_MS
"""A herd is some dozens of items, in small pages a read each: the last of them wait for the first."""
_WORKERS_CAPACITY = frozenset({REAL_POOL, LEASED_POOL, LAMBDA_POOL, PUSH_POOL})
"""Pools whose workers have so many hands and no more: there the lag of the dispatch is what we answer for."""


class LagChecks:
    def __init__(self, world: World) -> None:
        self._world = world
        classes = world.classes - PARTS.keys()
        self._parts = bool(world.classes & PARTS.keys())
        self._judged = classes <= PROMISED_MS.keys() and not world.classes & {"garbled_schedule", "poison"}
        self._allowed_ms = world.lag_max_ms + 2 * world.faults.skew_max_ms
        self._allowed_ms += sum(PROMISED_MS.get(name, 0) for name in classes)
        self._allowed_ms += ISOLATION_MS if self._parts else 0
        self._allowed_ms += GATHERS_MS if GATHERED in world.tight else 0
        self._allowed_ms += _HERD_MS if world.shape.elements & {"herd", "job_herd"} else 0

        self.first_sent_ms: dict[str, int] = {}

    def sent(self, ref: str, dispatched_at_ms: int) -> None:
        """A message was left for a ready queue."""
        self.first_sent_ms.setdefault(ref, dispatched_at_ms)

    def stop(self) -> None:
        """Judge nothing: somebody measures."""
        self._judged = False

    def started(self, ref: str, run: Item) -> None:
        """A first attempt has started: on time, but for what its seed's faults may cost it."""
        has_waited = run.get("slots") or run.get("put_off")  # perhaps for a slot; for the end of a freeze
        paused_until_ms = self._world.checks.paused.may_wait_until_ms(run)
        if not self._judged or run["attempt"] != 1 or has_waited:
            return
        since_ms = max(int(run["sk"][:10]) * SECOND_MS, run.get("created_at_ms", 0), run.get("released_at_ms", 0))
        lag_ms = self._until_ms(ref, run) - max(since_ms, paused_until_ms)
        allowed_ms = self._allowed_ms + (FOUND_OVER_MS if paused_until_ms else 0)
        if lag_ms <= allowed_ms or self._is_touched(ref, run):
            return
        faults = f"with {', '.join(sorted(self._world.classes))}" if self._world.classes else "without any fault"
        what = f"{ref} started {lag_ms} ms after it was due, {allowed_ms} are allowed {faults}"
        raise Violation("isolation" if self._parts else "bounded-lag", what)

    def _until_ms(self, ref: str, run: Item) -> int:
        """When it started; where workers have so many hands, when it was first sent. The message that starts it may be
        a later copy, which the audit has sent because no worker had taken up the first."""
        work = run.get("work") or (self._world.tables.standing(JOBS, {"job_id": run["job_id"]}) or {}).get("work")
        if isinstance(work, dict) and work.get("pool") in _WORKERS_CAPACITY and run.get("dispatched_at_ms"):
            return min(int(run["dispatched_at_ms"]), self.first_sent_ms.get(ref, self._world.kernel.now_ms))
        return self._world.kernel.now_ms

    def _is_touched(self, ref: str, run: Item) -> bool:
        """Whether a broken part may have held it up: by what its job is now, or was before somebody changed it."""
        was_changed = bool(self._parts and self._world.checks.told.changes.get(str(run.get("job_id"))))
        return was_changed or any(part.touches(self._world, ref, run) for part in self._world.parts)
