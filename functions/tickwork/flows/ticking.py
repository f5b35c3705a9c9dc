"""Issuing ticks: which seconds have anything due, each slice, some minutes ahead.

The trigger is loose (EventBridge Scheduler fires anywhere in its minute, or twice), so this looks more than a minute
ahead, records how far it got, and issues only what is missing. Like a window, it announces before it reads: a creator
whose item the read did not see finds `ticking` moved, and brings the tick itself. A lost tick costs lag only (F3).
"""

from __future__ import annotations

from tickwork.core import slices
from tickwork.core.instants import second_of
from tickwork.core.keys import BUCKET_S, bucket_of, partition_of, second_in, second_range
from tickwork.core.messages import Tick
from tickwork.core.records import SliceLease
from tickwork.core.tables import TIMERS
from tickwork.core.writes import Committed
from tickwork.flows import leasing
from tickwork.flows.commit import commit
from tickwork.flows.sending import send_ticks
from tickwork.ports import Ports

LOOKAHEAD_ITEMS_MAX = 100
"""Items read at a time to learn which seconds are due; a fuller second is jumped over, so that a herd of a hundred
thousand costs a read per second and not a read per item."""


def issue_ticks(ports: Ports) -> int:
    """One run of the ticker: ticks for every slice, returns how many were sent."""
    return sum(_issue_for_slice(ports, slice_no) for slice_no in range(ports.layout.slices))


def _issue_for_slice(ports: Ports, slice_no: int) -> int:
    now_second = second_of(ports.clock.now_ms())
    leasing.ensure_lease(ports, slice_no, now_second)
    lease = leasing.standing_lease(ports, slice_no)
    first = max(lease.ticked, now_second - 1) + 1
    horizon = now_second + slices.TICK_HORIZON_S
    # A cursor that lags wakes a scanner now, also when all ticks have been issued: they may be lost, or (issued by a
    # ticker whose clock ran ahead) too far in the future to help.
    due = {now_second} if lease.done < now_second - BUCKET_S else set()
    missing = first <= horizon and isinstance(commit(ports, slices.claim_ticks(lease, horizon)), Committed)
    if missing:  # else another ticker is at it
        due |= _due_seconds(ports, slice_no, first, horizon) | _keep_alive(first, horizon)
    sent = send_ticks(ports, [Tick(ports.layout.cell, slice_no, second) for second in sorted(due)])
    if missing and sent == len(due):  # else the next run issues what the queue did not take
        commit(ports, slices.ticks_issued(_claimed(lease, horizon), horizon))
    return sent


def _claimed(lease: SliceLease, horizon: int) -> SliceLease:
    return SliceLease(lease.slice, ticking=horizon, ticked=lease.ticked)


def _keep_alive(first: int, horizon: int) -> set[int]:
    """The last second of each minute: one window a minute keeps the cursor of an idle slice moving."""
    minutes = range(bucket_of(first), bucket_of(horizon) + 1)
    return {s for minute in minutes if first <= (s := minute * BUCKET_S + BUCKET_S - 1) <= horizon}


def _due_seconds(ports: Ports, slice_no: int, first: int, horizon: int) -> set[int]:
    found: set[int] = set()
    for shard in ports.layout.shards_of(slice_no):
        for bucket in range(bucket_of(first), bucket_of(horizon) + 1):
            begin, end = max(first, bucket * BUCKET_S), min(horizon, bucket * BUCKET_S + BUCKET_S - 1)
            found |= _due_in_bucket(ports, partition_of(ports.layout.cell, shard, bucket), begin, end)
    return found


def _due_in_bucket(ports: Ports, partition: str, begin: int, end: int) -> set[int]:
    found: set[int] = set()
    while begin <= end:
        low, high = second_range(begin, end)
        page = ports.store.query(TIMERS, partition, low, high, limit=LOOKAHEAD_ITEMS_MAX)
        found |= {second_in(item["sk"]) for item in page.items}
        if page.more is None or not found:
            break
        begin = max(found) + 1  # whatever else is due in that second needs no second tick
    return found
