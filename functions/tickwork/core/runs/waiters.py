"""Who waits for a slot of a resource: a row beside the slots for each run that found none, the oldest first (F11).

Fair without a queue of our own: whoever frees a slot wakes the oldest waiter, and a start that finds a free slot leaves
it to those who wait longer. Nothing rests on a row. One that is missing costs its run its place; one that is left over
(its run was cancelled, or started) is taken away by whoever would wake it; and a waiter that does not come is passed
over, with all of its pool, so that what fails for one pool keeps no slot from another (F14).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import resource_key, wait_place
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import RESOURCES
from tickwork.core.ledger.writes import Anyway, Delete, Is, Item, Put, all_of

COMES_WITHIN_MS = 5_000
"""From waking a waiter until its start, with room for a queue and a worker's long poll: so long a slot is kept for it.
Also when a start that left a slot to others is to be tried again."""
WAKE_AGAIN_MS = 30_000
"""One that was woken and did not come is sent another message after this, when there is nobody else to wake."""
LOOKED_AT_MAX = 25
"""Waiters that a start or an end looks at, from the oldest: more are seldom woken and under way at once."""
KEPT_S = 15 * 86_400
"""A row is of no use for longer than a message lives (14 days)."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """A run that waits. `woken_at_ms`: when it was last sent for; 0: not since it came last."""

    resource: str
    place: str
    ref: str
    pool: str
    woken_at_ms: int = 0

    @classmethod
    def from_item(cls, item: Item) -> Self:
        """Tolerant: nothing rests on a row, and one that cannot be read must not hold up its resource."""
        woken_at_ms = item.get("woken_at_ms")
        woken_at_ms = woken_at_ms if isinstance(woken_at_ms, int) else 0
        return cls(item["resource"], item["slot"], str(item.get("ref", "")), str(item.get("pool", "")), woken_at_ms)

    def key(self) -> Item:
        return {"resource": self.resource, "slot": self.place}


def waiter_of(run: Run, resource: str, pool: str) -> Waiter:
    """The run as a waiter. Its place goes by when it was due, so that it is the same however often it asks."""
    due_ms = max(run.key.fire_at_ms, run.retry_at_ms)
    return Waiter(resource_key(run.key.team, resource), wait_place(due_ms, run.key.ref), run.key.ref, pool)


def enlist(waiter: Waiter, now_ms: int) -> Put:
    """The waiter takes its place, or has come, found no slot, and waits on."""
    return Put(RESOURCES, _row(waiter, 0, now_ms), Anyway("its own row, which says the same whoever writes it"))


def wake(waiter: Waiter, now_ms: int) -> Put:
    """Mark it as woken: one of all who would wake it does."""
    as_read = all_of(Is("ref", waiter.ref), Is("woken_at_ms", waiter.woken_at_ms))
    return Put(RESOURCES, _row(waiter, now_ms, now_ms), as_read)


def leave(waiter: Waiter) -> Delete:
    return Delete(RESOURCES, waiter.key(), Anyway("a run that waits on enlists again, in the same place"))


def _row(waiter: Waiter, woken_at_ms: int, now_ms: int) -> Item:
    expires_at_s = now_ms // SECOND_MS + KEPT_S
    return waiter.key() | {
        "ref": waiter.ref,
        "pool": waiter.pool,
        "woken_at_ms": woken_at_ms,
        "expires_at_s": expires_at_s,
    }


def still_waits(waiter: Waiter, run: Run | None, now_ms: int) -> bool:
    """Whether a row is of a run that could start now, and not left over."""
    if run is None or run.ended:
        return False
    is_held = run.status == lifecycle.RUNNING and run.lease_until_ms > now_ms
    due_ms = max(run.key.fire_at_ms, run.retry_at_ms)
    return not is_held and waiter.place == wait_place(due_ms, run.key.ref)


def ahead_of(place: str, waiters: Sequence[Waiter], now_ms: int) -> int:
    """How many slots are kept for others: for those who wait longer and can be expected to come."""
    absent = _absent_pools(waiters, now_ms)
    return sum(1 for waiter in waiters if waiter.place < place and waiter.pool not in absent)


def under_way(waiters: Sequence[Waiter], now_ms: int) -> int:
    """How many have been woken and may still come."""
    return sum(1 for waiter in waiters if now_ms - waiter.woken_at_ms < COMES_WITHIN_MS)


def to_wake(waiters: Sequence[Waiter], now_ms: int) -> list[Waiter]:
    """Whom to wake, best first: the oldest that can be expected to come; then those of pools that have let one pass;
    then those who were woken long ago."""
    absent = _absent_pools(waiters, now_ms)
    waiting = [waiter for waiter in waiters if not waiter.woken_at_ms]
    present = [waiter for waiter in waiting if waiter.pool not in absent]
    again = [w for w in waiters if w.woken_at_ms and now_ms - w.woken_at_ms >= WAKE_AGAIN_MS]
    return [*present, *(waiter for waiter in waiting if waiter.pool in absent), *again]


def _absent_pools(waiters: Sequence[Waiter], now_ms: int) -> set[str]:
    """Pools of which one was woken and has not come: its workers are busy or gone."""
    return {w.pool for w in waiters if w.woken_at_ms and now_ms - w.woken_at_ms >= COMES_WITHIN_MS}
