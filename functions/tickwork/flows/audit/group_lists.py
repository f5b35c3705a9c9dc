"""The timers of a group, by the sparse index of what bears its label, the soonest due first.

The order is total: by the instant, then by partition, then as the index has it, so that one place says of every
partition where it goes on (A11). The index may be a moment behind the ledger: what it finds is read there, and shown as
it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tickwork.core.ledger.groups import GROUPED, timers_partitions
from tickwork.core.ledger.tables import BY_GROUP, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.flows.audit.history import Filter, RunView, viewer
from tickwork.flows.ledger.merging import Bound, Shown, Step, merged, page_of, rows_of_each
from tickwork.flows.ledger.reading import read_many
from tickwork.ports import Ports


@dataclass(frozen=True, slots=True)
class MemberPlace:
    """The last timer of `spread` (a partition's number) that was passed. Of partitions before it, all that is due at
    the same instant has been passed too; of those behind it, nothing of that instant."""

    due_ms: int
    spread: int
    pk: str
    sk: str


def list_group(
    ports: Ports, group: str, wanted: Filter, *, limit: int, after: MemberPlace | None
) -> Shown[MemberPlace, RunView]:
    """A page of a group's timers, ended ones too as long as they are kept."""
    partitions, bound = timers_partitions(wanted.team, group), Bound()
    rows = rows_of_each(limit, len(partitions))
    streams = [_stream(ports, wanted, after, number, one, rows, bound) for number, one in enumerate(partitions)]
    views = viewer(ports)

    def show(found: Sequence[Item]) -> list[RunView]:
        shown = views(read_many(ports, TIMERS, [{"pk": row["pk"], "sk": row["sk"]} for row in found]))
        return [view for view in shown if wanted.status in ("", view.status)]

    return page_of(merged(streams, descending=False), show, limit=limit, bound=bound)


def _stream(
    ports: Ports, wanted: Filter, place: MemberPlace | None, number: int, partition: str, rows: int, bound: Bound
) -> Iterator[Step[MemberPlace]]:
    """The rows of one partition of the index, the soonest first."""
    since_ms, after = _begin(wanted.since_ms, place, number, partition)
    while since_ms <= wanted.until_ms:
        between = (since_ms, wanted.until_ms)
        found, after = ports.store.query_index(
            TIMERS, BY_GROUP, partition, limit=rows, after=after, descending=False, between=between
        )
        bound.spend(len(found))
        for row in found:
            yield _step(row, number, row)
        if after is None:
            return
        if bound.is_reached:
            yield _step(after, number, None)
            return


def _begin(since_ms: int, place: MemberPlace | None, number: int, partition: str) -> tuple[int, Item | None]:
    """The first instant that is still to be read of a partition, and the row after which."""
    if place is None or place.due_ms < since_ms:
        return since_ms, None
    if number < place.spread:
        return place.due_ms + 1, None
    if number > place.spread:
        return place.due_ms, None
    row = {GROUPED: partition, BY_GROUP.sort_key: place.due_ms, "pk": place.pk, "sk": place.sk}
    return place.due_ms, row


def _step(row: Item, number: int, item: Item | None) -> Step[MemberPlace]:
    due_ms = int(row[BY_GROUP.sort_key])
    return Step((due_ms, number), MemberPlace(due_ms, number, str(row["pk"]), str(row["sk"])), item)
