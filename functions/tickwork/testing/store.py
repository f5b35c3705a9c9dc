"""The simulated store: the in-memory store, watched, behind ports that park and fail.

`WatchedStore` tells the checkers of every item as it was and as it has become; `SimStore` is what one process sees.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tickwork.core.errors import InvariantViolated, Throttled
from tickwork.core.ledger.tables import JOBS, LEASES, PASSES, SET_ASIDE, TIMERS, Index, Table
from tickwork.core.ledger.writes import TRANSACTION_WRITES_MAX, Committed, Item, Refused, Update, Write
from tickwork.ports import Page
from tickwork.testing.faults import COMMIT, RARE_COMMIT
from tickwork.testing.memory import MemoryStore, index_page, scan_page

if TYPE_CHECKING:
    from tickwork.testing.process import Process

type Change = tuple[Table, Item | None, Item | None]
"""An item before and after a write."""

_STALE_MS = 4_000
"""How far a scan that is not consistent may be behind."""
_STALE_INDEX_MS = (3_000, 3_000, 20_000)
"""How far an index may be behind: mostly under a second on AWS, sometimes far more while the index is throttled."""
_PAGE_MAX = 3
"""A short page has this many items at most."""

_RARE_TABLES = frozenset({SET_ASIDE.name, PASSES.name})
_RARE_CHANGES = frozenset({"late_from", "late_until", "late_at", "live_until", "live_at", "aside_s"})
"""Of a lease: what only a window writes that has a backlog, a herd, or something set aside."""
_RELEASED = frozenset({"owner", "lease_until_ms"})
"""Of a lease, with nothing else: it is renewed, or given back before its work was done."""


class WatchedStore(MemoryStore):
    """The shared tables. `changes` holds what the last commit changed; `past` the versions of each item (None: gone) of
    `remembered` tables, for reads that are not consistent."""

    def __init__(self, remembered: Iterable[Table] = (JOBS,)) -> None:
        super().__init__()
        self.changes: list[Change] = []
        self.remembered = frozenset(table.name for table in remembered)
        self.past: dict[str, dict[tuple[str, str], list[tuple[int, Item | None]]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self.now_ms = 0
        self.writes_max = TRANSACTION_WRITES_MAX
        """Of a transaction: fewer, in a world whose flows have that bound turned down."""

    def _apply(self, write: Write) -> None:
        before = self._find(write.table, _key_of(write))
        super()._apply(write)
        after = self._find(write.table, _key_of(write))
        if before is after:
            return
        self.changes.append((write.table, before, after))
        self._remember(write.table, write.table.key_of(_key_of(write)), after)

    def _remember(self, table: Table, key: tuple[str, str], item: Item | None) -> None:
        if table.name in self.remembered:
            self.past[table.name][key].append((self.now_ms, item))

    def as_of(self, table: Table, when_ms: int) -> list[Item]:
        """A remembered table as it was."""
        found = []
        for versions in self.past[table.name].values():
            standing = next((item for at_ms, item in reversed(versions) if at_ms <= when_ms), None)
            if standing is not None:
                found.append(dict(standing))
        return found

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
        self._remember(table, (partition, sort), item)

    def remove(self, table: Table, key: Item) -> Item | None:
        item = super().remove(table, key)
        if item is not None:
            self._remember(table, table.key_of(item), None)
        return item


def _key_of(write: Write) -> Item:
    key: Item = getattr(write, "item", None) or write.key  # type: ignore[union-attr]
    return key


class SimStore:
    """A `ports.Store` as one process sees it."""

    def __init__(self, process: Process, tables: WatchedStore) -> None:
        self._process = process
        self._tables = tables

    def get(self, table: Table, key: Item) -> Item | None:
        def effect() -> Item | None:
            item = self._tables.get(table, key)
            self._note(table, (item,))
            return item

        return self._read("get", table, key, (table.key_of(key)[0],), effect)

    def get_many(self, table: Table, keys: Sequence[Item]) -> list[Item | None]:
        """One call; sometimes two with time between, as where keys were left unprocessed and asked for again."""
        if len(keys) > 1 and self._strikes("split_read"):
            middle = len(keys) // 2
            self._process.world.seen["split_read"] += 1
            return [*self._get_many(table, keys[:middle]), *self._get_many(table, keys[middle:])]
        return self._get_many(table, keys)

    def _get_many(self, table: Table, keys: Sequence[Item]) -> list[Item | None]:
        partitions = [table.key_of(key)[0] for key in keys] if self._process.world.broken else ()

        def effect() -> list[Item | None]:
            items = self._tables.get_many(table, keys)
            self._note(table, items)
            return items

        return self._read("get_many", table, keys, partitions, effect)

    def _note(self, table: Table, items: Iterable[Item | None]) -> None:
        """What a step, or an answer, is decided from."""
        if table is JOBS or table is TIMERS:
            self._process.world.checks.looked_at(self._process, table, [item for item in items if item is not None])

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
        limit = self._page_of(limit)

        def effect() -> Page:
            found = self._tables.query(table, partition, first, last, limit=limit, after=after, descending=descending)
            if table is TIMERS and found.more is None:
                self._process.world.checks.read(self._process, partition, first, last)
            return found

        return self._read("query", table, (partition, first, last), (partition,), effect)

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
        how: Any = {"limit": self._page_of(limit), "after": after, "descending": descending, "between": between}
        if table.name in self._tables.remembered and self._strikes("stale_index"):
            self._process.world.seen["stale_index"] += 1
            rng = self._process.world.rng
            behind_ms = rng.randint(1, rng.choice(_STALE_INDEX_MS))

            def effect() -> tuple[list[Item], Item | None]:
                items = self._tables.as_of(table, self._process.world.kernel.now_ms - behind_ms)
                return index_page(table, index, partition, items, **how)

            return self._read("query_index stale", table, (index.name, partition), (), effect)
        return self._read(
            "query_index",
            table,
            (index.name, partition),
            (),
            lambda: self._tables.query_index(table, index, partition, **how),
        )

    def scan(self, table: Table, *, limit: int, after: Item | None) -> tuple[list[Item], Item | None]:
        found = self._scan(table, self._page_of(limit), after)
        self._process.world.checks.scanned(self._process, table, found[1])
        return found

    def _scan(self, table: Table, limit: int, after: Item | None) -> tuple[list[Item], Item | None]:
        world = self._process.world
        if table is JOBS and self._strikes("stale_scan"):
            world.seen["stale_scan"] += 1
            behind_ms = world.rng.randint(1, _STALE_MS)

            def effect() -> tuple[list[Item], Item | None]:
                items = self._tables.as_of(table, world.kernel.now_ms - behind_ms)
                return scan_page(table, items, limit=limit, after=after)

            return self._read("scan stale", table, "", (), effect)
        return self._read("scan", table, "", (), lambda: self._tables.scan(table, limit=limit, after=after))

    def commit(self, writes: Sequence[Write]) -> Committed | Refused:
        kind = RARE_COMMIT if any(map(_is_rare, writes)) else COMMIT
        return self._process.call("commit", writes, lambda: self._commit(writes), kind, writes[0].table.name)

    def _read[T](
        self, verb: str, table: Table, detail: object, partitions: Iterable[str], effect: Callable[[], T]
    ) -> T:
        """One read, throttled while what it reads is broken."""
        broken = self._process.world.broken
        if broken and broken.stops_read(table, partitions):
            effect = self._throttled
        return self._process.call(verb, (table.name, detail), effect, table=table.name)

    def _throttled(self) -> NoReturn:
        self._process.met_failure = True
        self._process.world.seen["broken part throttled"] += 1
        raise Throttled("simulated: this part is broken")

    def _strikes(self, name: str) -> bool:
        world = self._process.world
        return world.faults.strikes(world.rng, name)

    def _page_of(self, limit: int) -> int:
        return self._process.world.rng.randint(1, min(_PAGE_MAX, limit)) if self._strikes("short_page") else limit

    def _commit(self, writes: Sequence[Write]) -> Committed | Refused:
        process, tables = self._process, self._tables
        world = process.world
        if world.broken and world.broken.stops_write(writes):
            self._throttled()
        if len(writes) > tables.writes_max:
            raise InvariantViolated(f"{len(writes)} writes in one transaction, which takes {tables.writes_max}")
        tables.now_ms = world.kernel.now_ms
        tables.changes.clear()
        result = tables.commit(writes)
        if isinstance(result, Refused):
            world.seen["refused"] += 1
        elif tables.changes:
            world.checks.committed(process, tuple(tables.changes))
        return result


def _is_rare(write: Write) -> bool:
    """Whether few histories have such a write."""
    if write.table.name in _RARE_TABLES:
        return True
    if write.table is not LEASES or not isinstance(write, Update):
        return False
    return bool(write.set.keys() & _RARE_CHANGES) or write.set.keys() <= _RELEASED
