"""Issuing ticks: which seconds have anything due, each slice, some minutes ahead.

The trigger is loose (EventBridge Scheduler fires anywhere in its minute, or twice), so this looks more than a minute
ahead, records how far it got, and issues only what is missing. Like a window, it announces before it reads: a creator
whose item the read did not see finds `ticking` moved, and brings the tick itself. A lost tick costs lag only (F3).

A slice or a shard that fails costs itself only: the others get their ticks, and then the run ends as failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import batched

from tickwork.core.dispatch import slices
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.errors import WorldError
from tickwork.core.instants import SECOND_MS, second_of
from tickwork.core.ledger.keys import BUCKET_S, bucket_of, partition_of, second_in, second_range
from tickwork.core.ledger.messages import Tick
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.writes import Committed
from tickwork.flows.dispatch import leasing
from tickwork.flows.dispatch.sending import send_ticks
from tickwork.flows.ledger.commit import commit
from tickwork.ports import Ports

LOOKAHEAD_ITEMS_MAX = 8
"""Items read at a time to learn which seconds are due. About as many as one read unit takes (4 KB), so that a read
never costs more than it must; whatever else is due in a second that is known needs no second tick, and is jumped
over, in the other shards of the slice too. A minute of a slice costs at most a read a second and one a shard, however
many are due."""


SLICES_AT_ONCE = 8
"""Slices whose ticks go out together. A ticker that has much to read and runs out of time leaves the rest to the next
one, which then begins with what is missing; if all waited for the last, none would ever be sent."""


UNREAD_EVERY_S = 10
"""A shard that cannot be read ahead gets a tick this often, for what may be due in it; each is a window more."""


class _Failures:
    """What failed, slice by slice; raised when all slices were seen to."""

    def __init__(self) -> None:
        self._first: WorldError | None = None

    def note(self, ports: Ports, slice_no: int, error: WorldError) -> None:
        self._first = self._first or error
        name = ports.layout.label(slice_no)
        ports.signals.count("scheduler.ticker_slice_failed_total", slice=str(name))
        ports.signals.log("ticker_slice_failed", slice=name, why=repr(error))

    def end(self) -> None:
        if self._first is not None:
            raise self._first


@dataclass(frozen=True, slots=True)
class _Ahead:
    """What one slice needs: its ticks; whether any of them is for something due (not only to keep the cursor moving);
    and up to where they are issued once they have been sent (None: another ticker is at it)."""

    ports: Ports
    slice_no: int
    lease: SliceLease
    ticks: tuple[Tick, ...]
    is_due: bool
    horizon: int | None


def issue_ticks(ports: Ports) -> int:
    """One run of the ticker: ticks for every slice of every cell, returns how many were sent. Raises the first failure,
    after all."""
    failures = _Failures()
    sent, slowest_s = 0, 0
    slices_of_all = [(cell, slice_no) for cell in ports.in_each_cell() for slice_no in range(cell.layout.slices)]
    for some in batched(slices_of_all, SLICES_AT_ONCE):
        looked = _look_at_some(some, failures)
        sent += _issue(looked, failures, ports)
        slowest_s = max([slowest_s, *(_lag_s(ports, ahead.lease) for ahead in looked)])
    failures.end()
    # Last, and once a run: a run that did not get here has not said so, and whoever counts runs hears of it.
    ports.signals.observe("scheduler.slowest_slice_lag_seconds", slowest_s)
    return sent


def _lag_s(ports: Ports, lease: SliceLease) -> int:
    return max(0, second_of(ports.clock.now_ms()) - lease.done)


def _look_at_some(some: Sequence[tuple[Ports, int]], failures: _Failures) -> list[_Ahead]:
    looked: list[_Ahead] = []
    for ports, slice_no in some:
        try:
            looked.append(_look_ahead(ports, slice_no, failures))
        except WorldError as error:
            failures.note(ports, slice_no, error)
    return looked


def _look_ahead(ports: Ports, slice_no: int, failures: _Failures) -> _Ahead:
    now_second = second_of(ports.clock.now_ms())
    lease = leasing.obtain_lease(ports, slice_no, now_second)
    first = max(lease.ticked, now_second - 1) + 1
    # To the end of a minute: then each minute is read once, in one piece.
    horizon = (bucket_of(now_second + slices.TICK_HORIZON_S) + 1) * BUCKET_S - 1
    # A cursor that lags wakes a scanner now, also when all ticks have been issued: they may be lost, or (issued by a
    # ticker whose clock ran ahead) too far in the future to help.
    # A backlog wakes one too, for the ticks that its windows send each other may be lost.
    # And so do rows whose next try has come and gone, for the same reason.
    # So do seconds that passed before any ticker had looked at them: a fresh slice's first, or after a long pause.
    passed = lease.ticked < now_second - 1 and lease.done < now_second - 1
    lags = lease.done < now_second - BUCKET_S or bool(lease.late_until) or 0 < lease.aside_s < now_second
    due = {now_second} if lags or passed else set()
    idle: set[int] = set()
    missing = first <= horizon and isinstance(commit(ports, slices.claim_ticks(lease, horizon)), Committed)
    if missing:  # else another ticker is at it
        idle = _keep_alive(first, horizon)
        due |= _due_seconds(ports, slice_no, first, horizon, idle, failures)
    ticks = tuple(Tick(ports.layout.cell, slice_no, second) for second in sorted(due | idle))
    return _Ahead(ports, slice_no, lease, ticks, bool(due - idle), horizon if missing else None)


def _issue(looked: Sequence[_Ahead], failures: _Failures, ports: Ports) -> int:
    """Send the ticks of all slices together, and record how far they were issued."""
    ticks = [tick for ahead in looked for tick in ahead.ticks]
    if any(ahead.is_due for ahead in looked):
        # SQS delays by whole seconds: sent just after one begins, each tick comes just after its own has begun.
        ports.clock.sleep_ms(-ports.clock.now_ms() % SECOND_MS)
    sent = send_ticks(ports, ticks)
    if sent < len(ticks):  # the next run issues what the queue did not take
        return sent
    for ahead in looked:
        if ahead.horizon is not None:
            seconds = [tick.second for tick in ahead.ticks]
            now_second = second_of(ports.clock.now_ms())
            try:
                commit(ports, slices.ticks_issued(ahead.lease, ahead.horizon, seconds, now_second))
            except WorldError as error:
                failures.note(ahead.ports, ahead.slice_no, error)
    return sent


def _keep_alive(first: int, horizon: int) -> set[int]:
    """The last second of each minute: one window a minute keeps the cursor of an idle slice moving."""
    minutes = range(bucket_of(first), bucket_of(horizon) + 1)
    return {s for minute in minutes if first <= (s := minute * BUCKET_S + BUCKET_S - 1) <= horizon}


def _due_seconds(
    ports: Ports, slice_no: int, first: int, horizon: int, idle: set[int], failures: _Failures
) -> set[int]:
    """The seconds with anything due; those of the keep-alive get their tick anyway, and are not looked for."""
    known = set(idle)
    unread: set[int] = set()
    for bucket in range(bucket_of(first), bucket_of(horizon) + 1):
        begin, end = max(first, bucket * BUCKET_S), min(horizon, bucket * BUCKET_S + BUCKET_S - 1)
        for shard in ports.layout.shards_of(slice_no):
            if shard in unread:
                continue
            try:
                known |= _due_in_bucket(ports, partition_of(ports.layout.cell, shard, bucket), begin, end, known)
            except WorldError as error:
                unread.add(shard)
                failures.note(ports, slice_no, error)
                known |= {second for second in range(begin, horizon + 1) if second % UNREAD_EVERY_S == 0}
    return known


def _due_in_bucket(ports: Ports, partition: str, begin: int, end: int, known: set[int]) -> set[int]:
    """Seconds with anything due in one partition; those that are known already are not looked for."""
    found: set[int] = set()
    unknown = next(_unknown_from(begin, end, known), None)
    while unknown is not None:
        low, high = second_range(unknown, end)
        page = ports.store.query(TIMERS, partition, low, high, limit=LOOKAHEAD_ITEMS_MAX)
        found |= {second_in(item["sk"]) for item in page.items}
        if page.more is None:
            break
        unknown = next(_unknown_from(max(found) + 1, end, known), None)
    return found


def _unknown_from(begin: int, end: int, known: set[int]) -> Iterator[int]:
    return (second for second in range(begin, end + 1) if second not in known)
