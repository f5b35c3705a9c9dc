"""Checks on lag: what the protocol promises for each class of fault, and that a part which stays broken costs only what
it touches (isolation). And that what a bound holds back waits for what goes before it, and for nothing else (F10)."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING

from tests.simulator.elements import LAMBDA_POOL, LEASED_POOL, REAL_POOL
from tests.simulator.parts import PARTS
from tests.simulator.places import is_left_to_team, slice_counts, slice_of
from tests.simulator.tight import GATHERED, GATHERS_MS
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.tables import JOBS, PASSES
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
_BULK_PARTS = 5
"""Of what is dispatched, bulk in a cell of its own gets one part of so many while others have a backlog; written out
again."""


class LagChecks:
    """`_sent_ms`: by slice, when each of what it has sent was first sent. `_held_back`: what a bound had left to its
    team's row when it was sent, each with how many its slice had sent before it."""

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
        self._sent_ms: dict[str, list[int]] = defaultdict(list)
        self._held_back: dict[str, int] = {}

    def sent(self, ref: str, dispatched_at_ms: int) -> None:
        """A message was left for a ready queue."""
        if ref in self.first_sent_ms:
            return
        self.first_sent_ms[ref] = dispatched_at_ms
        sent_ms, (pk, _, sk) = self._sent_ms[slice_of(self._world, ref)], ref.partition("|")
        if self._bound_per_s(ref) and is_left_to_team(self._world, pk, sk):
            self._held_back[ref] = len(sent_ms)
        sent_ms.append(self._world.kernel.now_ms)

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
        since_ms = max(since_ms, paused_until_ms)
        lag_ms = self._until_ms(ref, run) - since_ms
        allowed_ms = self._allowed_ms + (FOUND_OVER_MS if paused_until_ms else 0) + self._waited_ms(ref, since_ms)
        if lag_ms <= allowed_ms or self._is_touched(ref, run):
            return
        faults = f"with {', '.join(sorted(self._world.classes))}" if self._world.classes else "without any fault"
        what = f"{ref} started {lag_ms} ms after it was due, {allowed_ms} are allowed {faults}"
        raise Violation("isolation" if self._parts else "bounded-lag", what)

    def _waited_ms(self, ref: str, since_ms: int) -> int:
        """What a bound may have cost it: the time that its slice needs, within the bound, for what it has sent between
        the instant at which this was due and that at which it was sent."""
        if ref not in self._held_back:
            return 0
        sent_ms = self._sent_ms[slice_of(self._world, ref)]
        went_before = self._held_back[ref] - bisect_left(sent_ms, since_ms)
        slices = slice_counts(self._world)[ref.partition("#")[0]]
        return max(0, went_before) * slices * SECOND_MS // self._bound_per_s(ref)

    def _bound_per_s(self, ref: str) -> int:
        """What the cell of an item may dispatch in a second, at the least; 0: no bound."""
        world, cell, layout = self._world, ref.partition("#")[0], self._world.layout
        limits = [layout.cell_dispatch_per_s] if layout.cell_dispatch_per_s else []
        if cell != world.cell and world.tables.standing(PASSES, {"pass": f"{world.cell}#load", "place": "backlog"}):
            counts = slice_counts(world)
            own, others = counts[cell], sum(counts.values()) - counts[cell]
            capacity = layout.slice_capacity_per_s
            limits.append(max(1, min(own * capacity // _BULK_PARTS, others * capacity // (_BULK_PARTS - 1))))
        return min(limits, default=0)

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
