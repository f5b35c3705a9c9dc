"""Reading the audit: the entries of a team, or of one of its things, newest first.

Owns the order and its places. Refuses to judge what it reads: that is verification's. What cannot be read is told, and
costs the list that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tickwork.core.access.entries import Entry
from tickwork.core.instants import LATEST_INSTANT_MS
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import ALL_ENTRIES
from tickwork.core.ledger.tables import AUDIT, ENTRIES_BY_TEAM
from tickwork.core.ledger.writes import Item
from tickwork.flows.ledger.merging import Bound, Shown, Step, page_of
from tickwork.flows.ledger.reading import read_many
from tickwork.ports import Ports

ROWS = 100
"""Asked for at once: as many as one batch read takes."""


@dataclass(frozen=True, slots=True)
class EntryPlace:
    """The last entry that was passed."""

    at_ms: int
    stream: str
    place: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries. `stream`, `actor` empty: any."""

    team: str
    stream: str = ""
    actor: str = ""
    since_ms: int = 0
    until_ms: int = LATEST_INSTANT_MS

    def matches(self, entry: Entry) -> bool:
        is_in_time = self.since_ms <= entry.at_ms < self.until_ms
        return is_in_time and self.actor in ("", entry.actor, entry.actor.partition("/")[0])


def list_entries(ports: Ports, wanted: Wanted, *, limit: int, after: EntryPlace | None) -> Shown[EntryPlace, Entry]:
    """A page of entries. It may be short, or empty, and go on: what does not match has been read as well."""
    bound = Bound()
    steps = _of_thing(ports, wanted, after, bound) if wanted.stream else _of_team(ports, wanted, after, bound)

    def show(items: Sequence[Item]) -> list[Entry]:
        return [entry for entry in _read(ports, items) if wanted.matches(entry)]

    return page_of(steps, show, limit=limit, bound=bound)


def _of_thing(ports: Ports, wanted: Wanted, after: EntryPlace | None, bound: Bound) -> Iterator[Step[EntryPlace]]:
    first, last = ALL_ENTRIES
    more = after.place if after else None
    while True:
        page = ports.store.query(AUDIT, wanted.stream, first, last, limit=ROWS, after=more, descending=True)
        bound.spend(len(page.items))
        for item in page.items:
            yield _step(item)
        if page.more is None or (page.items and page.items[-1]["at_ms"] < wanted.since_ms):
            return
        more = page.more


def _of_team(ports: Ports, wanted: Wanted, after: EntryPlace | None, bound: Bound) -> Iterator[Step[EntryPlace]]:
    between = (wanted.since_ms, after.at_ms if after else wanted.until_ms - 1)
    if between[1] < between[0]:
        return
    position: Item | None = None
    if after is not None:
        position = {"team": wanted.team, "at_ms": after.at_ms, "stream": after.stream, "place": after.place}
    while True:
        rows, position = ports.store.query_index(
            AUDIT, ENTRIES_BY_TEAM, wanted.team, limit=ROWS, after=position, descending=True, between=between
        )
        bound.spend(len(rows))
        for row in rows:
            yield _step(row)
        if position is None:
            return


def _step(item: Item) -> Step[EntryPlace]:
    place = EntryPlace(int(item["at_ms"]), str(item["stream"]), str(item["place"]))
    return Step((place.at_ms,), place, item)


def _read(ports: Ports, items: Sequence[Item]) -> Iterator[Entry]:
    keys: list[Item] = [{"stream": item["stream"], "place": item["place"]} for item in items]
    for item in read_many(ports, AUDIT, keys):
        if item is None:  # it has expired since
            continue
        try:
            yield Entry.from_item(item)
        except Unreadable as error:
            ports.signals.log("audit_entry_unreadable", why=str(error))
