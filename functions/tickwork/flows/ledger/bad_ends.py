"""Runs that did not end well, newest end first, from the sparse index of bad ends: whatever else the ledger holds.

The order is total: by the instant of the end, then by partition, then as the index has it. So one place says of every
partition where it goes on, and each run is shown once, whatever is replayed, cancelled or ends meanwhile (A11). The
index may be a moment behind the ledger: what it finds is read there, and shown as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tickwork.core.instants import LATEST_INSTANT_MS
from tickwork.core.ledger.ends import MARK
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import BAD_ENDS, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.flows.ledger.merging import Bound, Shown, Step, merged, page_of, rows_of_each
from tickwork.flows.ledger.reading import read_many
from tickwork.ports import Ports


@dataclass(frozen=True, slots=True)
class EndPlace:
    """The last row of `partition` that was passed. Of partitions that sort before it, all that ended at the same
    instant has been passed too; of those behind it, nothing of that instant."""

    ended_at_ms: int
    partition: str
    pk: str
    sk: str


@dataclass(frozen=True, slots=True)
class Ends:
    """Which ends: those of these partitions, from `since_ms` to `until_ms`, after a place."""

    partitions: Sequence[str]
    since_ms: int = 0
    until_ms: int = LATEST_INSTANT_MS
    after: EndPlace | None = None


def list_ends(
    ports: Ports, ends: Ends, wanted: Callable[[Run], bool], *, limit: int, bound: Bound
) -> Shown[EndPlace, Run]:
    """A page of these ends: those that are wanted, as they stand."""
    partitions = sorted(ends.partitions)
    rows = rows_of_each(limit, len(partitions))
    streams = [_stream(ports, ends, number, one, rows, bound) for number, one in enumerate(partitions)]

    def show(found: Sequence[Item]) -> list[Run]:
        return [run for run in _read_runs(ports, found) if wanted(run)]

    return page_of(merged(streams, descending=True), show, limit=limit, bound=bound)


def _stream(ports: Ports, ends: Ends, number: int, partition: str, rows: int, bound: Bound) -> Iterator[Step[EndPlace]]:
    """The rows of one partition of the index, newest first."""
    until_ms, after = _begin(ends, partition)
    if until_ms < ends.since_ms:
        return
    while True:
        found, after = ports.store.query_index(
            TIMERS, BAD_ENDS, partition, limit=rows, after=after, descending=True, between=(ends.since_ms, until_ms)
        )
        bound.spend(len(found))
        for row in found:
            yield _step(row, number, partition, row)
        if after is None:
            return
        if bound.is_reached:
            yield _step(after, number, partition, None)
            return


def _begin(ends: Ends, partition: str) -> tuple[int, Item | None]:
    """The newest instant that is still to be read of a partition, and the row after which."""
    place = ends.after
    if place is None or place.ended_at_ms > ends.until_ms:
        return ends.until_ms, None
    if partition < place.partition:
        return place.ended_at_ms - 1, None
    if partition > place.partition or place.ended_at_ms < ends.since_ms:
        return place.ended_at_ms, None
    row = {MARK: partition, "ended_at_ms": place.ended_at_ms, "pk": place.pk, "sk": place.sk}
    return place.ended_at_ms, row


def _step(row: Item, number: int, partition: str, item: Item | None) -> Step[EndPlace]:
    ended_at_ms = int(row["ended_at_ms"])
    place = EndPlace(ended_at_ms, partition, str(row["pk"]), str(row["sk"]))
    return Step((ended_at_ms, -number), place, item)


def _read_runs(ports: Ports, rows: Sequence[Item]) -> Iterator[Run]:
    keys: list[Item] = [{"pk": row["pk"], "sk": row["sk"]} for row in rows]
    for item in read_many(ports, TIMERS, keys):
        if item is None:
            continue
        try:
            yield Run.from_item(item)
        except Unreadable as error:
            ports.signals.log("unreadable_bad_end", why=str(error))
