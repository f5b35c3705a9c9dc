"""Verifying the audit of a team from its things: each carries the head of its stream, and was not changed beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tickwork.core.access import teams
from tickwork.core.access.entries import Head
from tickwork.core.ledger.keys import ALL_ENTRIES, entry_stream
from tickwork.core.ledger.tables import (
    AUDIT,
    BY_TEAM,
    CALENDARS,
    CALENDARS_BY_TEAM,
    JOBS,
    KEYS,
    KEYS_BY_TEAM,
    TEAMS,
    Index,
    Table,
)
from tickwork.core.ledger.writes import Item
from tickwork.flows.audit.findings import EDITED, FORKED, HEAD, REMOVED, UNRECORDED, Verified, VerifyPlace
from tickwork.flows.ledger.reading import read_many
from tickwork.ports import Ports

THINGS_PAGE = 25
"""Of one call: a read for each."""
LAST_READ = 20
"""Entries at the end of a thing's stream that are looked at for two of one number."""

THINGS: Mapping[str, tuple[Table, Index]] = {
    "job": (JOBS, BY_TEAM),
    "calendar": (CALENDARS, CALENDARS_BY_TEAM),
    "key": (KEYS, KEYS_BY_TEAM),
}
TEAM = "team"
_GOING: Mapping[str, Table] = {"job": JOBS, "calendar": CALENDARS}
"""Things that are there as long as no entry says that they were deleted; keys expire."""


def check_there(ports: Ports, entries: Sequence[Item], found: Verified) -> None:
    """That the things which entries are about are there, or were deleted by one of them."""
    for kind, table in _GOING.items():
        streams = sorted({str(item["stream"]) for item in entries if str(item["stream"]).split(":", 2)[1] == kind})
        keys: list[Item] = [{table.partition_key: stream.replace(f":{kind}:", ":", 1)} for stream in streams]
        for stream, item in zip(streams, read_many(ports, table, keys), strict=True):
            if item is None and not _was_deleted(ports, stream):
                found.find(REMOVED, {"stream": stream}, f"the {kind} is not there, and no entry says who deleted it")


def _was_deleted(ports: Ports, stream: str) -> bool:
    first, last = ALL_ENTRIES
    page = ports.store.query(AUDIT, stream, first, last, limit=1, descending=True)
    return not page.items or str(page.items[0].get("action", "")).endswith(".deleted")


def check_team(ports: Ports, team: str, found: Verified) -> None:
    """The team itself, if it is registered."""
    item = ports.store.get(TEAMS, teams.team_key(team))
    if item is not None:
        found.things += 1
        _check_thing(ports, item, entry_stream(team, TEAM, team), found)


def check_things(ports: Ports, team: str, place: VerifyPlace, found: Verified) -> VerifyPlace | None:
    table, index = THINGS[place.phase]
    position: Item | None = {"team": team, index.sort_key: place.place} if place.place else None
    rows, more = ports.store.query_index(table, index, team, limit=THINGS_PAGE, after=position, descending=False)
    for item in read_many(ports, table, [{table.partition_key: row[table.partition_key]} for row in rows]):
        if item is not None:
            found.things += 1
            name = str(item[table.partition_key]).partition(":")[2]
            _check_thing(ports, item, entry_stream(team, place.phase, name), found)
    return None if more is None else VerifyPlace(place.phase, 0, "", str(more[index.sort_key]))


def _check_thing(ports: Ports, item: Item, stream: str, found: Verified) -> None:
    first, last = ALL_ENTRIES
    page = ports.store.query(AUDIT, stream, first, last, limit=LAST_READ, descending=True)
    key = {"stream": stream}
    text = str(item.get("audit_head", ""))
    head = Head.parse(text)
    if head is None:
        if page.items:
            found.find(HEAD, key, "it has entries, and carries no head of them")
        return
    _check_forks(page.items, found)
    at_head = next((entry for entry in page.items if entry["place"] == head.place), None)
    if at_head is None:
        if found.is_kept(head.until_s):
            found.find(REMOVED, key | {"place": head.place}, "it carries this as its last entry, which is not there")
        return
    if at_head.get("hash") != head.hash:
        found.find(EDITED, at_head, "its hash is not the one that the head has which it is to be")
    if page.items[0]["place"] > head.place:
        found.find(
            HEAD, key | {"place": str(page.items[0]["place"])}, "there is an entry behind the head that it carries"
        )
    version = int(item.get("version", 0))
    if at_head.get("version") and version > int(at_head["version"]):
        detail = f"no entry says of the changes from version {at_head['version']} to {version}: an older version of the"
        found.find(UNRECORDED, at_head, f"{detail} service, or a hand, has made them")
    if item.get("revoked_at_ms") and at_head.get("action") != "key.revoked":
        found.find(UNRECORDED, at_head, "no entry says who revoked it: an older version of the service, or a hand, has")


def _check_forks(items: Sequence[Item], found: Verified) -> None:
    seen: dict[str, Item] = {}
    for item in _of_chains(items):
        number = str(item["place"]).rpartition("#")[0]
        if number in seen:
            found.find(FORKED, item, "two entries have this number: a table was restored, or one of them is forged")
        seen[number] = item


def _of_chains(items: Sequence[Item]) -> Iterator[Item]:
    yield from (item for item in items if str(item["place"]).count("#") == 2)
