"""The in-memory store: the reference the DynamoDB store is held against, and what the simulator runs on.

Atomic because every method is one step. It knows no clock: what has expired goes when it is told the time (`expire`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from tickwork.core.errors import InvariantViolated
from tickwork.core.ledger.tables import SORT_KEY_BYTES_MAX, Index, Table
from tickwork.core.ledger.writes import (
    TRANSACTION_WRITES_MAX,
    Absent,
    AllOf,
    AnyOf,
    Anyway,
    AtLeast,
    Below,
    Check,
    Committed,
    Condition,
    Delete,
    Is,
    Item,
    Missing,
    Put,
    Refused,
    Update,
    Write,
)
from tickwork.ports import Page


class MemoryStore:
    """A `ports.Store` in dictionaries: per table, per partition, items by sort key with the keys kept sorted."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[str, dict[str, Item]]] = defaultdict(lambda: defaultdict(dict))
        self._sorted: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        self._ordered: dict[str, list[str]] = defaultdict(list)

    def get(self, table: Table, key: Item) -> Item | None:
        item = self._find(table, key)
        return None if item is None else dict(item)

    def get_many(self, table: Table, keys: Sequence[Item]) -> list[Item | None]:
        if len({table.key_of(key) for key in keys}) != len(keys):
            raise InvariantViolated("get_many was asked for one key twice")
        return [self.get(table, key) for key in keys]

    def query(
        self,
        table: Table,
        partition: str,
        first: str,
        last: str,
        *,
        limit: int,
        after: str | None = None,
        descending: bool = False,
    ) -> Page:
        _check_range(first, last, after)
        order = self._sorted[table.name].get(partition, [])
        begin, end = bisect_left(order, first), bisect_right(order, last)
        if after is not None:
            begin, end = (
                (begin, min(end, bisect_left(order, after)))
                if descending
                else (max(begin, bisect_right(order, after)), end)
            )
        found = order[max(begin, end - limit) : end][::-1] if descending else order[begin : min(end, begin + limit)]
        items = self._tables[table.name][partition]
        page = tuple(dict(items[sort_key]) for sort_key in found)
        return Page(page, found[-1] if len(found) == limit else None)

    def query_index(
        self,
        table: Table,
        index: Index,
        partition: str,
        *,
        limit: int,
        after: Item | None,
        descending: bool,
        between: tuple[int, int] | None = None,
    ) -> tuple[list[Item], Item | None]:
        how: Any = {"limit": limit, "after": after, "descending": descending, "between": between}
        return index_page(table, index, partition, self.items(table), **how)

    def scan(self, table: Table, *, limit: int, after: Item | None) -> tuple[list[Item], Item | None]:
        found = list(islice(self._from(table, None if after is None else table.key_of(after)), limit + 1))
        page = [dict(item) for item in found[:limit]]
        return page, page[-1] if len(found) > limit else None

    def _from(self, table: Table, after: tuple[str, str] | None) -> Iterator[Item]:
        """The items of a table after a key, partition by partition."""
        partitions, sort = self._partitions(table), ""
        begin = 0
        if after is not None:
            begin, sort = bisect_left(partitions, after[0]), after[1]
        for name in partitions[begin:]:
            order = self._sorted[table.name][name]
            first = bisect_right(order, sort) if after is not None and name == after[0] else 0
            yield from (self._tables[table.name][name][key] for key in order[first:])

    def _partitions(self, table: Table) -> list[str]:
        """The names of a table's partitions in order. They are never taken away, so their number tells a new one."""
        if len(self._ordered[table.name]) != len(self._tables[table.name]):
            self._ordered[table.name] = sorted(self._tables[table.name])
        return self._ordered[table.name]

    def commit(self, writes: Sequence[Write]) -> Committed | Refused:
        _check_transaction(writes)
        failed = {
            i: None if item is None else dict(item)
            for i, write in enumerate(writes)
            if not holds(write.condition, item := self._find(write.table, _key_of(write)))
        }
        if failed:
            return Refused(failed)
        for write in writes:
            self._apply(write)
        if len(writes) == 1 and isinstance(writes[0], Update):
            return Committed(self.get(writes[0].table, writes[0].key))
        return Committed()

    def items(self, table: Table) -> list[Item]:
        """Everything in a table, for checkers and tests."""
        return [dict(item) for partition in self._tables[table.name].values() for item in partition.values()]

    def expire(self, table: Table, now_s: int, *, spared: Callable[[Item], bool] = lambda _: False) -> list[Item]:
        """Carry out the table's time to live: what is past it goes, unless it is `spared`. Returns what went."""
        if table.ttl is None:
            return []
        name = table.ttl
        past = (item for item in self.items(table) if isinstance(at_s := item.get(name), int) and at_s <= now_s)
        gone = [item for item in past if not spared(item)]
        for item in gone:
            self.remove(table, item)
        return gone

    def remove(self, table: Table, key: Item) -> Item | None:
        """Take an item out past every rule, as its time to live does, or somebody's hand. Returns what stood there."""
        partition, sort = table.key_of(key)
        item = self._tables[table.name][partition].pop(sort, None)
        if item is not None:
            self._sorted[table.name][partition].remove(sort)
        return item

    def _find(self, table: Table, key: Item) -> Item | None:
        partition, sort = table.key_of(key)
        return self._tables[table.name].get(partition, {}).get(sort)

    def _apply(self, write: Write) -> None:
        if isinstance(write, Check):
            return
        partition, sort = write.table.key_of(_key_of(write))
        items, order = self._tables[write.table.name][partition], self._sorted[write.table.name][partition]
        if isinstance(write, Delete):
            if items.pop(sort, None) is not None:
                order.remove(sort)
            return
        if sort not in items:
            insort(order, sort)
        if isinstance(write, Put):
            items[sort] = dict(write.item)
            return
        changed = {**items.get(sort, write.key), **write.set}
        for name, more in write.append.items():
            changed[name] = [*changed.get(name, []), *more]
        for name, number in write.add.items():
            changed[name] = changed.get(name, 0) + number
        for name in write.remove:
            changed.pop(name, None)
        items[sort] = changed


def index_page(
    table: Table,
    index: Index,
    partition: str,
    items: Iterable[Item],
    *,
    limit: int,
    after: Item | None,
    descending: bool,
    between: tuple[int, int] | None = None,
) -> tuple[list[Item], Item | None]:
    """A page of an index over these items of a table."""
    if between is not None:
        _check_range(*between, None if after is None else after[index.sort_key])
    names = (index.sort_key, *_key_names(table))
    rows = sorted(
        (
            tuple(item[name] for name in names)
            for item in items
            if item.get(index.partition_key) == partition
            and index.sort_key in item
            and (between is None or between[0] <= item[index.sort_key] <= between[1])
        ),
        reverse=descending,
    )
    if after is not None:
        position = tuple(after[name] for name in names)
        rows = [row for row in rows if (row < position if descending else row > position)]
    page = [{index.partition_key: partition, **dict(zip(names, row, strict=True))} for row in rows[:limit]]
    return page, page[-1] if len(rows) > limit else None


def _check_range[T: (int, str)](first: T, last: T, after: T | None) -> None:
    """DynamoDB refuses a range whose ends are the wrong way round, a position outside of it, and a key that no item
    could have: whoever asks for one has an error, and not an empty page."""
    if first > last:
        raise InvariantViolated(f"a range from {first!r} to {last!r}")
    if after is not None and not first <= after <= last:
        raise InvariantViolated(f"a position {after!r} outside of {first!r} to {last!r}")
    if any(isinstance(key, str) and len(key) > SORT_KEY_BYTES_MAX for key in (first, last, after)):
        raise InvariantViolated(f"a sort key of more than {SORT_KEY_BYTES_MAX} bytes")


def scan_page(table: Table, items: Iterable[Item], *, limit: int, after: Item | None) -> tuple[list[Item], Item | None]:
    """A page of a scan over these items of a table."""
    found = sorted(items, key=table.key_of)
    if after is not None:
        found = [item for item in found if table.key_of(item) > table.key_of(after)]
    page = found[:limit]
    return page, page[-1] if len(found) > limit else None


def holds(condition: Condition, item: Item | None) -> bool:
    """Whether a condition is true of an item (None: there is none)."""
    match condition:
        case Absent():
            return item is None
        case Is(attribute, value):
            return item is not None and attribute in item and item[attribute] == value
        case Missing(attribute):
            return item is None or attribute not in item
        case Below(attribute, value):
            return item is not None and attribute in item and item[attribute] < value
        case AtLeast(attribute, value):
            return item is not None and attribute in item and item[attribute] >= value
        case AllOf(conditions):
            return all(holds(one, item) for one in conditions)
        case AnyOf(conditions):
            return any(holds(one, item) for one in conditions)
        case Anyway():
            return True


def _key_of(write: Write) -> Item:
    return write.item if isinstance(write, Put) else write.key


def _key_names(table: Table) -> tuple[str, ...]:
    return (table.partition_key,) if table.sort_key is None else (table.partition_key, table.sort_key)


def _check_transaction(writes: Sequence[Write]) -> None:
    places = [(write.table.name, *write.table.key_of(_key_of(write))) for write in writes]
    if not 1 <= len(writes) <= TRANSACTION_WRITES_MAX or len(set(places)) != len(places):
        raise InvariantViolated(f"a transaction has 1 to {TRANSACTION_WRITES_MAX} writes, no item twice: {places}")
