"""The simulated store: the in-memory store, watched, behind ports that park and fail.

`WatchedStore` tells the checkers of every item as it was and as it has become; `SimStore` is what one process sees.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tickwork.core.ledger.tables import JOBS, Index, Table
from tickwork.core.ledger.writes import Committed, Item, Refused, Write
from tickwork.ports import Page
from tickwork.testing.memory import MemoryStore

if TYPE_CHECKING:
    from tickwork.testing.process import Process

type Change = tuple[Table, Item | None, Item | None]
"""An item before and after a write."""

_STALE_MS = 4_000
"""How far a read that is not consistent may be behind."""


class WatchedStore(MemoryStore):
    """The shared tables. `changes` holds what the last commit changed; `past` the versions of each job, for reads
    that are not consistent."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[Change] = []
        self.past: dict[str, list[tuple[int, Item]]] = defaultdict(list)
        self.now_ms = 0

    def _apply(self, write: Write) -> None:
        before = self._find(write.table, _key_of(write))
        super()._apply(write)
        after = self._find(write.table, _key_of(write))
        if before is after:
            return
        self.changes.append((write.table, before, after))
        if write.table is JOBS and after is not None:
            self.past[after["job_id"]].append((self.now_ms, after))

    def jobs_at(self, when_ms: int) -> list[Item]:
        """The jobs table as it was."""
        found = []
        for versions in self.past.values():
            standing = [item for at_ms, item in versions if at_ms <= when_ms]
            if standing:
                found.append(dict(standing[-1]))
        return sorted(found, key=lambda item: str(item["job_id"]))

    def standing(self, table: Table, key: Item) -> Item | None:
        """An item as it is, for checkers (not to be changed)."""
        return self._find(table, key)

    def plant(self, table: Table, item: Item) -> None:
        """Put an item past every rule: what a newer version, or a mistake, may have left behind."""
        partition, sort = table.key_of(item)
        if sort not in self._tables[table.name][partition]:
            order = self._sorted[table.name][partition]
            order.append(sort)
            order.sort()
        self._tables[table.name][partition][sort] = dict(item)
        if table is JOBS:
            self.past[str(item["job_id"])].append((self.now_ms, item))


def _key_of(write: Write) -> Item:
    key: Item = getattr(write, "item", None) or write.key  # type: ignore[union-attr]
    return key


class SimStore:
    """A `ports.Store` as one process sees it."""

    def __init__(self, process: Process, tables: WatchedStore) -> None:
        self._process = process
        self._tables = tables

    def get(self, table: Table, key: Item) -> Item | None:
        return self._process.call("get", (table.name, key), lambda: self._tables.get(table, key))

    def get_many(self, table: Table, keys: Sequence[Item]) -> list[Item | None]:
        return self._process.call("get_many", (table.name, keys), lambda: self._tables.get_many(table, keys))

    def query(
        self, table: Table, partition: str, first: str, last: str, *, limit: int, after: str | None = None
    ) -> Page:
        process = self._process
        if process.world.faults.strikes(process.world.rng, "short_page"):
            limit = process.world.rng.randint(1, 3)
        return process.call(
            "query",
            (table.name, partition, first, last),
            lambda: self._tables.query(table, partition, first, last, limit=limit, after=after),
        )

    def query_index(
        self, table: Table, index: Index, partition: str, *, limit: int, after: Item | None, descending: bool
    ) -> tuple[list[Item], Item | None]:
        return self._process.call(
            "query_index",
            (table.name, index.name, partition),
            lambda: self._tables.query_index(table, index, partition, limit=limit, after=after, descending=descending),
        )

    def scan(self, table: Table, *, limit: int, after: Item | None) -> tuple[list[Item], Item | None]:
        process = self._process
        world = process.world
        if table is JOBS and world.faults.strikes(world.rng, "stale_scan"):
            world.seen["stale_scan"] += 1
            behind_ms = world.rng.randint(1, _STALE_MS)
            return process.call("scan stale", table.name, lambda: self._old_page(world.kernel.now_ms - behind_ms))
        return process.call("scan", table.name, lambda: self._tables.scan(table, limit=limit, after=after))

    def _old_page(self, when_ms: int) -> tuple[list[Item], Item | None]:
        return self._tables.jobs_at(when_ms), None

    def commit(self, writes: Sequence[Write]) -> Committed | Refused:
        return self._process.call("commit", writes, lambda: self._commit(writes), commits=True)

    def _commit(self, writes: Sequence[Write]) -> Committed | Refused:
        process, tables = self._process, self._tables
        world = process.world
        tables.now_ms = world.kernel.now_ms
        tables.changes.clear()
        result = tables.commit(writes)
        if isinstance(result, Refused):
            world.seen["refused"] += 1
        elif tables.changes:
            world.checks.committed(process, tuple(tables.changes))
        return result
