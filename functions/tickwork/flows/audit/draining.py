"""What of a scope is still running: whoever has paused it waits for that before he deploys.

Under a pause nothing of the scope begins any more, so what a pass over the ledger has found can only become less. What
has not ended lies in the buckets that the day's audit has not come to, or in those that it has left open: a pass reads
just these, some hundred a call, and a cursor says where the next call goes on. Nothing is written for it, and no run
pays for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.instants import second_of
from tickwork.core.jobs.scopes import CELL, Scope
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import bucket_of, open_buckets_due, partition_of, slice_key
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import LEASES, PASSES, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.flows.ledger import versions
from tickwork.flows.ledger.reading import pages
from tickwork.ports import Ports

READS_MAX = 300
"""Pages that one call reads: some seconds."""

_PAGE = 500
_FAR_S = 9_999_999_999
"""Beyond every look that is planned."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """How far a pass has come: the cell and the slice, and the bucket of it that is read already."""

    cell: int = 0
    slice: int = 0
    bucket: int = -1


@dataclass(slots=True)
class InFlight:
    """What one call has found: runs that have been started and have not ended. `more`: where the next call goes on."""

    runs: list[Run] = field(default_factory=list)
    more: Place | None = None


def in_flight(ports: Ports, scope: Scope, after: Place | None = None) -> InFlight:
    """The runs of a scope that are running, or wait for a retry, as far as one call reads."""
    found, begin, reads_left = InFlight(), after or Place(), READS_MAX
    for cell, seen in enumerate(ports.in_each_cell()):
        if cell < begin.cell or (scope.kind == CELL and scope.name not in ("*", seen.layout.cell)):
            continue
        for number in range(begin.slice if cell == begin.cell else 0, seen.layout.slices):
            is_first = (cell, number) == (begin.cell, begin.slice)
            for bucket in _buckets(seen, number, begin.bucket if is_first else -1):
                if reads_left <= 0:
                    return found
                reads_left -= _read(seen, scope, number, bucket, found)
                found.more = Place(cell, number, bucket)
    found.more = None
    return found


def _buckets(ports: Ports, number: int, after: int) -> list[int]:
    """The minutes of a slice in which something may not have ended, beyond one."""
    slice_id = slice_key(ports.layout.cell, number)
    item = ports.store.get(LEASES, {"slice": slice_id})
    if item is None:
        return []
    last = bucket_of(second_of(ports.clock.now_ms()))
    buckets = set(range(bucket_of(SliceLease.from_item(item).audited_day), last + 1))
    for page in pages(ports, PASSES, slice_id, *open_buckets_due(_FAR_S), limit=_PAGE):
        buckets |= {int(str(row["place"]).partition("#")[2]) for row in page.items}
    return sorted(bucket for bucket in buckets if bucket > after)


def _read(ports: Ports, scope: Scope, number: int, bucket: int, found: InFlight) -> int:
    """Read a minute of all shards of a slice; how many pages that were."""
    read = 0
    for shard in ports.layout.shards_of(number):
        for page in pages(ports, TIMERS, partition_of(ports.layout.cell, shard, bucket), "0", "~", limit=_PAGE):
            read += 1
            found.runs += [run for run in _started(page.items) if _lies_in(ports, scope, run)]
    return read


def _started(items: tuple[Item, ...]) -> Iterator[Run]:
    """The runs that have begun and not ended; what cannot be read may be one, and is the audit's to tell."""
    for item in items:
        if item.get("status") not in (lifecycle.RUNNING, lifecycle.WAITING) or not item.get("attempt"):
            continue
        try:
            yield Run.from_item(item)
        except Unreadable:
            continue


def _lies_in(ports: Ports, scope: Scope, run: Run) -> bool:
    if scope.kind != "pool":
        return scope.covers(run.key.team, "", run.group)
    work = versions.work_of(ports, run)
    return work is not None and scope.covers(run.key.team, work.pool, run.group)
