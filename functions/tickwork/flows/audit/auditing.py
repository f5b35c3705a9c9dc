"""The ledger audit: every second of the ledger is read again some minutes, an hour and a day after its time, and what
has not come to its end is explained or repaired (no-lost-timer, every-end-recorded).

- A pending item that the cursors have passed is sent again; a run whose lease lapsed long ago gets a new message, so
  that the next start records the loss; a waiting run whose retry is gone gets it again.
- A bucket that cannot be read, or from which something cannot be sent, is put down and read again soon; one that holds
  something unended after the day audit is read again at growing distance until it is closed (core/audit/passes).
- A run that nobody has started by its deadline, or within thirteen days, ends as expired.

The audit's cursors move in the same transaction that puts the rows of what they pass: a crash repeats, never skips.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from tickwork.core.audit import passes
from tickwork.core.audit.passes import AUDITS, FIRST_AUDIT, LAST_AUDIT, OpenBucket
from tickwork.core.dispatch import backlog, slices
from tickwork.core.dispatch.set_aside import SetAside
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.errors import TickworkError, WorldError
from tickwork.core.instants import second_of
from tickwork.core.ledger import ends
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import (
    BUCKET_S,
    bucket_of,
    open_buckets_due,
    partition_of,
    second_range,
    slice_key,
)
from tickwork.core.ledger.tables import LEASES, PASSES, TIMERS
from tickwork.core.ledger.writes import Committed, Item, Write
from tickwork.flows.audit import mending
from tickwork.flows.audit.giving_back import Counted
from tickwork.flows.audit.repairs import Deadline, Repairs
from tickwork.flows.dispatch import leasing
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.reading import pages, read_many
from tickwork.ports import Ports

BUCKETS_PER_WRITE = 20
"""Minutes read before a cursor moves: a run that dies repeats no more of a slice, and an hour of arrears costs three
write units."""

OPEN_PAGE = 100
_LEDGER_PAGE = 500


@dataclass(frozen=True, slots=True)
class _Found:
    """What a reading of a bucket came to: whether it holds something unended, whether all of it could be read and sent,
    and when it is to be read again at the latest."""

    is_open: bool = False
    is_complete: bool = True
    deadline_s: int = 0
    """When the first deadline of a run in it has passed that nobody has started; 0: none lies ahead."""

    def __or__(self, other: _Found) -> _Found:
        ahead = [second for second in (self.deadline_s, other.deadline_s) if second]
        return _Found(self.is_open or other.is_open, self.is_complete and other.is_complete, min(ahead, default=0))


@dataclass(frozen=True, slots=True)
class _Slice:
    ports: Ports
    """As its cell is seen."""
    number: int
    lease: SliceLease
    rows: tuple[SetAside, ...] = ()
    """What windows have set aside: it is theirs to serve."""

    @property
    def id(self) -> str:
        return self.lease.slice

    @property
    def furthest_behind(self) -> int:
        return min(int(getattr(self.lease, cursor)) for cursor in AUDITS)


def audit_ledger(ports: Ports, repairs: Repairs, end: Deadline) -> None:
    """Read what is to be read again, the slice that is furthest behind first, until time is up."""
    for served in _slices(ports, repairs):
        for cursor in AUDITS:
            try:
                _audit_slice(served.ports, served, cursor, repairs, end)
            except WorldError as error:
                _failed(ports, repairs, served.id, error)


def _slices(ports: Ports, repairs: Repairs) -> list[_Slice]:
    """Those of all cells that have been served, in the order in which they need the audit."""
    served = [one for cell in ports.in_each_cell() for one in _slices_of_cell(cell, repairs)]
    return sorted(served, key=lambda one: one.furthest_behind)


def _slices_of_cell(ports: Ports, repairs: Repairs) -> list[_Slice]:
    keys: list[Item] = [{"slice": slice_key(ports.layout.cell, number)} for number in range(ports.layout.slices)]
    try:
        found = read_many(ports, LEASES, keys)
    except WorldError as error:
        _failed(ports, repairs, "leases", error)
        return []
    served: list[_Slice] = []
    for number, item in enumerate(found):
        try:
            served += [] if item is None else [_slice(ports, number, SliceLease.from_item(item))]
        except (Unreadable, WorldError) as error:
            _failed(ports, repairs, slice_key(ports.layout.cell, number), error)
    return served


def _slice(ports: Ports, number: int, lease: SliceLease) -> _Slice:
    rows = leasing.read_aside(ports, lease.slice).values() if lease.aside_s else ()
    return _Slice(ports, number, lease, tuple(rows))


def _failed(ports: Ports, repairs: Repairs, where: str, error: TickworkError) -> None:
    repairs.failed += 1
    ports.signals.count("scheduler.audit_failed_total")
    ports.signals.log("audit_failed", where=where, error=repr(error))


def _audit_slice(ports: Ports, served: _Slice, cursor: str, repairs: Repairs, end: Deadline) -> None:
    """Move one cursor of a slice as far as its time has come."""
    lease = served.lease
    last = min(second_of(ports.clock.now_ms()) - AUDITS[cursor], backlog.passed_through(lease))
    first = getattr(lease, cursor) + 1  # a run that comes twice finds nothing new
    while first <= last:
        if end.is_over:
            repairs.unfinished += 1
            return
        counted = Counted() if cursor == FIRST_AUDIT else None
        rows, passed = _audit_some(ports, served, cursor, first, last, repairs, end, counted)
        if not _move(ports, replace(lease, **{cursor: first - 1}), cursor, passed, rows):
            return  # another run is at it
        if counted is not None:
            counted.give_back(ports)
        first = passed + 1


def _audit_some(
    ports: Ports,
    served: _Slice,
    cursor: str,
    first: int,
    last: int,
    repairs: Repairs,
    end: Deadline,
    counted: Counted | None,
) -> tuple[list[OpenBucket], int]:
    """Read some minutes: the rows they leave, and the last second that was read."""
    rows: list[OpenBucket] = []
    passed = first - 1
    now_s = second_of(ports.clock.now_ms())
    for bucket in islice(range(bucket_of(first), bucket_of(last) + 1), BUCKETS_PER_WRITE):
        begin, passed = max(first, bucket * BUCKET_S), min(last, bucket * BUCKET_S + BUCKET_S - 1)
        found = _audit_bucket(ports, served, bucket, begin, passed, repairs, counted=counted)
        if not found.is_complete:
            rows.append(passes.again_soon(served.id, bucket, now_s))
        elif (found.is_open and cursor == LAST_AUDIT) or (found.deadline_s and cursor == FIRST_AUDIT):
            rows.append(passes.first_look(served.id, bucket, now_s, found.deadline_s))
        if end.is_over:
            break
    repairs.left_open += len(rows)
    return rows, passed


def _move(ports: Ports, lease: SliceLease, cursor: str, passed: int, rows: Sequence[OpenBucket]) -> bool:
    """Move the cursor, with the rows of what it passes, in one transaction; False when somebody else has."""
    result = commit(ports, slices.audit_done(lease, cursor, passed), *(passes.put_row(row) for row in rows))
    if isinstance(result, Committed):
        return True
    standing = result.failed.get(0)
    return standing is not None and standing.get(cursor) == passed  # our own first try, whose reply was lost


def _audit_bucket(
    ports: Ports,
    served: _Slice,
    bucket: int,
    begin: int,
    last: int,
    repairs: Repairs,
    *,
    expiring_since_s: int | None = None,
    counted: Counted | None = None,
) -> _Found:
    """Read a range of a minute again, shard by shard, and repair what is to be repaired."""
    if begin > last:  # a row from before a restore, or of another number of slices: nothing has come so far yet
        return _Found(is_complete=False)
    low, high = second_range(begin, last)
    total = _Found()
    for shard in ports.layout.shards_of(served.number):
        partition = partition_of(ports.layout.cell, shard, bucket)
        try:
            for page in pages(ports, TIMERS, partition, low, high, limit=_LEDGER_PAGE):
                if counted is not None:
                    counted.add(page.items)
                total |= _audit_page(ports, page.items, served.rows, repairs, expiring_since_s)
        except WorldError as error:
            _failed(ports, repairs, partition, error)
            total |= _Found(is_complete=False)
    return total


def _audit_page(
    ports: Ports, items: Sequence[Item], rows: Sequence[SetAside], repairs: Repairs, expiring_since_s: int | None
) -> _Found:
    repairs.audited += len(items)
    mending.mark_ends(ports, [item for item in items if item.get("status") in ends.BAD])
    unended = mending.without_cancelled(ports, [item for item in items if passes.is_unended(item)])
    if not unended:
        return _Found()
    unsent_before = repairs.unsent
    unended, deadline_s = mending.end_too_late(ports, unended, repairs)
    if expiring_since_s is not None:
        waiting = [item for item in unended if mending.is_paused(rows, item)]
        others = [item for item in unended if not mending.is_paused(rows, item)]
        unended = waiting + mending.expire_unstarted(ports, others, expiring_since_s, repairs)
    mending.mend(ports, unended, repairs, rows)
    return _Found(bool(unended), repairs.unsent == unsent_before, deadline_s)


# --- what earlier audits have left open -----------------------------------------------------------------------


def look_at_open_buckets(ports: Ports, repairs: Repairs, end: Deadline) -> None:
    """Read the buckets again whose time has come; each is closed, or gets a row of a later time."""
    for served in _slices(ports, repairs):
        try:
            _look_at_slice(served.ports, served, repairs, end)
        except WorldError as error:
            _failed(ports, repairs, served.id, error)


def _look_at_slice(ports: Ports, served: _Slice, repairs: Repairs, end: Deadline) -> None:
    low, high = open_buckets_due(second_of(ports.clock.now_ms()))
    for page in pages(ports, PASSES, served.id, low, high, limit=OPEN_PAGE):
        for item in page.items:
            if end.is_over:
                repairs.unfinished += 1
                return
            _look_at(ports, served, OpenBucket.from_item(item), repairs)


def _look_at(ports: Ports, served: _Slice, row: OpenBucket, repairs: Repairs) -> None:
    begin, served = row.bucket * BUCKET_S, _as_it_stands(served, row)
    last = min(begin + BUCKET_S - 1, backlog.passed_through(served.lease))
    now_s = second_of(ports.clock.now_ms())
    found = _audit_bucket(ports, served, row.bucket, begin, last, repairs, expiring_since_s=row.since_s)
    writes: list[Write] = [passes.delete_row(row)]
    if not found.is_complete:
        writes.append(passes.put_row(passes.again_soon(served.id, row.bucket, now_s, row)))
    elif found.is_open and served.lease.audited_day >= begin:  # else the audits that are to come look at it
        writes.append(passes.put_row(passes.next_look(row, now_s, found.deadline_s)))
    elif found.deadline_s:
        writes.append(passes.put_row(passes.at_deadline(row, found.deadline_s)))
    repairs.left_open += len(writes) - 1
    commit(ports, *writes)


def _as_it_stands(served: _Slice, row: OpenBucket) -> _Slice:
    """The slice by its lease as it is now, where the last audit had not passed the bucket: another pass may have come
    there since this one began, and have left the row, which is then all that knows of the bucket."""
    if served.lease.audited_day >= row.bucket * BUCKET_S + BUCKET_S - 1:
        return served
    lease = leasing.read_lease(served.ports, served.number)
    return served if lease is None else replace(served, lease=lease)
