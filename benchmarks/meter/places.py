"""Which partition a write takes its units from: of the table, and of each index whose entry it changes.

`ports` adds them up into a bill; the simulator at the design scale holds each partition to what one may take.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.meter import units
from tickwork.core.ledger.tables import Index, Table
from tickwork.core.ledger.writes import Check, Delete, Item, Put, Update, Write
from tickwork.store.attributes import to_attributes

type Place = tuple[str, str]
"""A table or `table.index`, and a partition key in it."""


def key_item(write: Write) -> Item:
    """The item, or the key, that says where a write goes."""
    return write.item if isinstance(write, Put) else write.key


def place_of(table: Table, item: Item) -> Place:
    return table.name, str(item[table.partition_key])


def charges(
    writes: Sequence[Write], before: Sequence[Item | None], after: Sequence[Item | None]
) -> Iterator[tuple[Place, int]]:
    """Write units of one commit by partition, from the items as they were and as they are. Also of a refused one: a
    condition that fails is billed like the write it prevented."""
    in_transaction = len(writes) > 1
    for write, old, new in zip(writes, before, after, strict=True):
        place = place_of(write.table, key_item(write))
        if isinstance(write, Check):
            yield place, units.sized_write_units(units.plain_size(old), in_transaction=True)
            continue
        size = max(units.plain_size(old), units.plain_size(new))
        yield place, units.sized_write_units(size, in_transaction=in_transaction)
        for index in write.table.indexes:
            yield from _index_charges(write.table, index, old, new)


def _index_charges(table: Table, index: Index, old: Item | None, new: Item | None) -> Iterator[tuple[Place, int]]:
    named = next((item for item in (new, old) if item is not None and index.partition_key in item), None)
    if named is None:
        return
    images = (None if item is None else to_attributes(item) for item in (old, new))
    changed = units.index_units(table, index, *images)
    if changed:
        yield (f"{table.name}.{index.name}", str(named[index.partition_key])), changed


def touched(writes: Sequence[Write]) -> set[Place]:
    """The partitions that a commit needs to have something left of, before it is known what it will take."""
    places = set()
    for write in writes:
        item = key_item(write)
        places.add(place_of(write.table, item))
        if isinstance(write, (Check, Delete)):
            continue
        written: Any = write.set if isinstance(write, Update) else item
        for index in write.table.indexes:
            if index.partition_key in written:
                places.add((f"{write.table.name}.{index.name}", str(written[index.partition_key])))
    return places
