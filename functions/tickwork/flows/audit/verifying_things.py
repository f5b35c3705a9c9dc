"""Verifying the audit of a team from its things: each carries the head of its stream, and was not changed beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tickwork.core.access import pools, teams
from tickwork.core.access.diffs import told
from tickwork.core.access.entries import Head, kind_of, number_in
from tickwork.core.instants import LATEST_INSTANT_MS, iso
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
)
from tickwork.core.ledger.writes import Item
from tickwork.flows.audit.findings import EDITED, FORKED, HEAD, REMOVED, UNRECORDED, Verified, VerifyPlace
from tickwork.flows.ledger.reading import read_many
from tickwork.ports import Ports

THINGS_PAGE = 25
"""Of one call: a read for each."""
LAST_READ = 20
"""Entries at the end of a thing's stream that are looked at for two of one number."""

type _PageOf = Callable[[Ports, str, str], tuple[list[Item | None], str | None]]


def _jobs(ports: Ports, team: str, after: str) -> tuple[list[Item | None], str | None]:
    position: Item | None = {"team": team, "job_id": after} if after else None
    rows, more = ports.store.query_index(JOBS, BY_TEAM, team, limit=THINGS_PAGE, after=position, descending=False)
    return read_many(ports, JOBS, [{"job_id": row["job_id"]} for row in rows]), _id_in(more, "job_id")


def _calendars(ports: Ports, team: str, after: str) -> tuple[list[Item | None], str | None]:
    position: Item | None = {"team": team, "calendar_id": after} if after else None
    rows, more = ports.store.query_index(
        CALENDARS, CALENDARS_BY_TEAM, team, limit=THINGS_PAGE, after=position, descending=False
    )
    keys: list[Item] = [{"calendar_id": row["calendar_id"]} for row in rows]
    return read_many(ports, CALENDARS, keys), _id_in(more, "calendar_id")


def _keys(ports: Ports, team: str, after: str) -> tuple[list[Item | None], str | None]:
    position: Item | None = {"team": team, "key_id": after} if after else None
    rows, more = ports.store.query_index(KEYS, KEYS_BY_TEAM, team, limit=THINGS_PAGE, after=position, descending=False)
    return read_many(ports, KEYS, [{"key_id": row["key_id"]} for row in rows]), _id_in(more, "key_id")


def _id_in(position: Item | None, name: str) -> str | None:
    return None if position is None else str(position[name])


THINGS: Mapping[str, tuple[str, _PageOf]] = {
    "job": ("job_id", _jobs),
    "calendar": ("calendar_id", _calendars),
    "key": ("key_id", _keys),
}
"""By kind: the attribute that names one, and how a page of a team's is read."""
TEAM = "team"


def check_there(ports: Ports, entries: Sequence[Item], found: Verified) -> None:
    """That the things which entries are about are there, or were deleted by one of them. Keys expire."""
    jobs, calendars = _streams(entries, "job"), _streams(entries, "calendar")
    there = read_many(ports, JOBS, [{"job_id": name} for name in jobs.values()])
    there += read_many(ports, CALENDARS, [{"calendar_id": name} for name in calendars.values()])
    in_teams = {stream: _pool_key(name) for stream, name in _streams(entries, "pool").items()}
    in_teams |= {stream: teams.team_key(name.partition(":")[0]) for stream, name in _streams(entries, TEAM).items()}
    there += read_many(ports, TEAMS, list(in_teams.values()))
    for stream, item in zip([*jobs, *calendars, *in_teams], there, strict=True):
        if item is None and not _was_deleted(ports, stream):
            found.find(REMOVED, {"stream": stream}, "the thing is not there, and no entry says who deleted it")


def _pool_key(name: str) -> Item:
    team, _, called = name.partition(":")
    return pools.pool_key(team, pools.pool_id(team, called))


def _streams(entries: Sequence[Item], kind: str) -> dict[str, str]:
    """The ids of things of a kind, by their streams."""
    found = sorted({str(item["stream"]) for item in entries})
    parts = [(stream, stream.split(":", 2)) for stream in found if kind_of(stream) == kind]
    return {stream: f"{part[0]}:{part[-1]}" for stream, part in parts}


def _was_deleted(ports: Ports, stream: str) -> bool:
    first, last = ALL_ENTRIES
    page = ports.store.query(AUDIT, stream, first, last, limit=1, descending=True)
    return not page.items or str(page.items[0].get("action", "")).endswith(".deleted")


def check_team(ports: Ports, team: str, found: Verified) -> None:
    """The team itself, if it is registered, and its pools: those are few."""
    item = ports.store.get(TEAMS, teams.team_key(team))
    if item is not None:
        found.things += 1
        _check_thing(ports, item, entry_stream(team, TEAM, team), found)
    own = ports.store.query(TEAMS, pools.POOLS, f"{team}#", f"{team}#~", limit=pools.POOLS_PER_TEAM_MAX)
    for item in own.items:
        found.things += 1
        _check_thing(ports, item, entry_stream(team, "pool", str(item["name"])), found)


def check_things(ports: Ports, team: str, place: VerifyPlace, found: Verified) -> VerifyPlace | None:
    """A page of the team's things of a kind."""
    named, page_of = THINGS[place.phase]
    items, more = page_of(ports, team, place.place)
    for item in items:
        if item is not None:
            found.things += 1
            _check_thing(ports, item, entry_stream(team, place.phase, str(item[named]).partition(":")[2]), found)
    return None if more is None else VerifyPlace(place.phase, 0, "", more)


def _check_thing(ports: Ports, item: Item, stream: str, found: Verified) -> None:
    first, last = ALL_ENTRIES
    page = ports.store.query(AUDIT, stream, first, last, limit=LAST_READ, descending=True)
    key = {"stream": stream}
    text = str(item.get("audit_head", ""))
    head = Head.parse(text)
    if head is None:
        if page.items:
            _without_head(item, page.items[0], found)
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
    version, at_version = number_in(item, "version"), number_in(at_head, "version")
    if at_version and version.__class__ is not item.get("version").__class__:
        found.find(UNRECORDED, at_head, "it has no version any more: a hand has taken it")
    elif at_version and version > at_version:
        detail = f"no entry says of the changes from version {at_version} to {version}: an older version of the"
        found.find(UNRECORDED, at_head, f"{detail} service, or a hand, has made them")
    if kind_of(stream) == "key":
        _check_key(item, page.items, at_head, found)


def _check_key(item: Item, entries: Sequence[Item], at_head: Item, found: Verified) -> None:
    """A key is revoked or is not, and else stays as it was made: it has no version that would tell."""
    if bool(item.get("revoked_at_ms")) != (at_head.get("action") == "key.revoked"):
        detail = "no entry says who revoked it, or made it valid again: an older version of the service, or a hand, has"
        found.find(UNRECORDED, at_head, detail)
    made = next((entry for entry in entries if entry.get("action") == "key.created"), None)
    said = made.get("changes") if made else None
    if not made or not isinstance(said, Mapping):
        return
    stands = {"role": item.get("role"), "pools": item.get("pools") or None}
    stands["expires_at"] = iso(max(0, min(number_in(item, "ends_at_ms"), LATEST_INSTANT_MS)))
    changed = [name for name, value in stands.items() if [None, told(value)] != said.get(name, [None, None])]
    if changed:
        found.find(UNRECORDED, made, f"no entry says who has changed its {', '.join(changed)}: a hand has")


def _without_head(item: Item, last: Item, found: Verified) -> None:
    """An older version that registers a name again writes an item without one, at a later version."""
    was_deleted = str(last.get("action", "")).endswith(".deleted")
    if was_deleted or number_in(item, "version") > number_in(last, "version"):
        detail = "no entry says who made it anew: an older version of the service, or a hand, has"
        found.find(UNRECORDED, last, detail)
    else:
        found.find(HEAD, last, "it has entries, and carries no head of them")


def _check_forks(items: Sequence[Item], found: Verified) -> None:
    seen: dict[str, Item] = {}
    for item in _of_chains(items):
        number = str(item["place"]).rpartition("#")[0]
        if number in seen:
            found.find(FORKED, item, "two entries have this number: a table was restored, or one of them is forged")
        seen[number] = item


def _of_chains(items: Sequence[Item]) -> Iterator[Item]:
    yield from (item for item in items if str(item["place"]).count("#") == 2)
