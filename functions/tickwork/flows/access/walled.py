"""The store as one team sees it: what is another team's is not there.

Stands under every flow that a team's request runs, so that no flow has to think of it (tenant-wall). A read of another
team's item is refused as a read of nothing is; so is a write, and none is ever made. Knows no flow and no route.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tickwork.core.access.walls import may_list, may_read, may_touch
from tickwork.core.errors import NotFound
from tickwork.core.ledger.tables import CALENDARS, Index, Table
from tickwork.core.ledger.writes import Committed, Item, Put, Refused, Write
from tickwork.ports import Page, Store


@dataclass(frozen=True, slots=True)
class WalledStore:
    """A store behind the wall of a team, or of all the teams that a caller is of. As `Store`, and NotFound for what is
    another's."""

    store: Store
    team: str
    sees_calendars: bool = False
    """Whether calendars of other teams are read in numbers, as dispatch reads those that a job names: where the request
    cannot name any, so that nothing of them is shown."""
    beside: tuple[str, ...] = ()
    """Further teams that the caller is of, for a request that is about several."""

    def get(self, table: Table, key: Item) -> Item | None:
        if not self._may_read(table, key):
            raise _nothing()
        return self.store.get(table, key)

    def get_many(self, table: Table, keys: Sequence[Item]) -> list[Item | None]:
        """Others' items are absent: a schedule that names another team's calendar names none."""
        is_open = self.sees_calendars and table is CALENDARS
        own = [index for index, key in enumerate(keys) if is_open or self._may_read(table, key)]
        found: list[Item | None] = [None] * len(keys)
        if own:
            for index, item in zip(own, self.store.get_many(table, [keys[i] for i in own]), strict=True):
                found[index] = item
        return found

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
        if not self._may_list(table, "", partition):
            return Page(())
        page = self.store.query(table, partition, first, last, limit=limit, after=after, descending=descending)
        return Page(tuple(item for item in page.items if self._may_read(table, item)), page.more)

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
        if not self._may_list(table, index.name, partition):
            return [], None
        found, more = self.store.query_index(
            table, index, partition, limit=limit, after=after, descending=descending, between=between
        )
        return [key for key in found if self._may_read(table, key)], more

    def scan(self, table: Table, *, limit: int, after: Item | None) -> tuple[list[Item], Item | None]:
        found, more = self.store.scan(table, limit=limit, after=after)
        return [item for item in found if self._may_read(table, item)], more

    def commit(self, writes: Sequence[Write]) -> Committed | Refused:
        for write in writes:
            key = write.item if isinstance(write, Put) else write.key
            if not any(may_touch(write.table, key, team) for team in self._teams):
                raise _nothing()
        return self.store.commit(writes)

    @property
    def _teams(self) -> tuple[str, ...]:
        return (self.team, *self.beside)

    def _may_read(self, table: Table, key: Item) -> bool:
        return any(may_read(table, key, team) for team in self._teams)

    def _may_list(self, table: Table, index: str, partition: str) -> bool:
        return any(may_list(table, index, partition, team) for team in self._teams)


def _nothing() -> NotFound:
    return NotFound("there is no such thing", remedy="check the id: it begins with the team")
