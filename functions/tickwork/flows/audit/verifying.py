"""Verifying a team's audit: that what is there is as it was written, and that what should be there is.

Three walks, page by page. Of the seals: each is as it was written, follows the one before, and what it lists is there
and unchanged. Of the entries: each is as it was written, and the one that it follows is there. Of the things: each
carries the head of its stream, and has not been changed beside it. What is no longer kept is not missed: a head, and a
line of a seal, say until when that is. Refuses to guess who it was: a change without an entry may be an older
version's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tickwork.core.access.entries import CALL, Head, digest_of, kind_of, number_in, result_digest
from tickwork.core.access.seals import NO_RESULT, Line, Sealed, seal_head, seal_stream
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import ALL_ENTRIES, seal_place
from tickwork.core.ledger.tables import AUDIT, ENTRIES_BY_TEAM, PASSES
from tickwork.core.ledger.writes import Item
from tickwork.flows.audit.findings import EDITED, FORKED, HEAD, REMOVED, UNFINISHED, UNRECORDED, Verified, VerifyPlace
from tickwork.flows.audit.verifying_things import TEAM, THINGS, check_team, check_there, check_things
from tickwork.flows.ledger.reading import read_many
from tickwork.ports import Ports

SEALS_PAGE, ENTRIES_PAGE = 5, 100
"""Of one call: some ten reads of the store, about half a second at most."""

SEALS, ENTRIES = "seals", "entries"
PHASES = (SEALS, ENTRIES, *THINGS, TEAM)


def verify_audit(ports: Ports, team: str, place: VerifyPlace | None) -> Verified:
    """One page of a team's verification."""
    place = place or VerifyPlace(SEALS)
    row = Sealed(team, ports.layout.home)
    item = ports.store.get(PASSES, row.key)
    found = Verified(_sealed(item, row), now_s=ports.clock.now_ms() // SECOND_MS)
    if place.phase == TEAM:
        check_team(ports, team, found)
    else:
        walk: Callable[..., VerifyPlace | None] = {SEALS: _seals, ENTRIES: _entries}.get(place.phase, check_things)
        found.after = walk(ports, team, place, found)
    if found.after is None and place.phase != PHASES[-1]:
        found.after = VerifyPlace(PHASES[PHASES.index(place.phase) + 1])
    return found


def _sealed(item: Item | None, row: Sealed) -> Sealed:
    """How far the team is sealed. A row that somebody has garbled names no seal, which shows where there are some."""
    try:
        return Sealed.from_item(item) if item else row
    except Unreadable:
        return row


# --- seals ----------------------------------------------------------------------------------------------------


def _seals(ports: Ports, team: str, place: VerifyPlace, found: Verified) -> VerifyPlace | None:
    first, last = ALL_ENTRIES
    stream = seal_stream(team)
    page = ports.store.query(AUDIT, stream, first, last, limit=SEALS_PAGE, after=place.place or None)
    before = ports.store.get(AUDIT, {"stream": stream, "place": place.place}) if place.place else None
    for item in page.items:
        found.seals += 1
        _check_seal(ports, item, before, found)
        _check_lines(ports, item, found)
        before = item
    if page.more is not None:
        return VerifyPlace(SEALS, 0, stream, page.more)
    _check_last_seal(stream, before, found)
    return None


def _check_seal(ports: Ports, item: Item, before: Item | None, found: Verified) -> None:
    digest = digest_of(item)
    if digest != item.get("hash") or item["place"] != seal_place(seal_head(item).number, digest):
        found.find(EDITED, item, "the seal does not say what it said when it was written")
    if before is not None and seal_head(before).number == seal_head(item).number:
        found.find(FORKED, item, "two seals have this number: a table was restored, or one of them is forged")
    follows = Head.parse(str(item.get("follows", "")))
    if follows is None:
        return
    key: Item = {"stream": item["stream"], "place": seal_place(follows.number, follows.hash)}
    followed = before if before is not None and before["place"] == key["place"] else ports.store.get(AUDIT, key)
    if followed is None:
        if found.is_kept(follows.until_s):
            found.find(REMOVED, key, "the next seal follows it, and it should be kept still, but is not there")
    elif followed.get("hash") != follows.hash:
        found.find(EDITED, key, "its hash is not the one that the next seal names")


def _check_last_seal(stream: str, last: Item | None, found: Verified) -> None:
    head = Head.parse(found.sealed.head)
    if head is None:
        if last is not None:
            found.find(HEAD, last, "there are seals, and the team's row names none")
    elif found.is_kept(head.until_s) and (last is None or seal_head(last) != head):
        gone = {"stream": stream, "place": seal_place(head.number, head.hash)}
        found.find(REMOVED, gone, "the last seal is not the one that the team's row names")


def _check_lines(ports: Ports, seal: Item, found: Verified) -> None:
    lines = []
    listed = seal.get("lines")
    for text in listed if isinstance(listed, list | tuple) else ():
        try:
            lines.append(Line.parse(str(text)))
        except ValueError:
            found.find(EDITED, seal, f"the seal lists {str(text)[:80]!r}, which is no entry")
    keys = list({(line.stream, line.place): line.key for line in lines}.values())
    items = {(str(i["stream"]), str(i["place"])): i for i in read_many(ports, AUDIT, keys) if i is not None}
    for line in lines:
        item = items.get((line.stream, line.place))
        if item is None:
            if found.is_kept(line.until_s):
                found.find(REMOVED, line.key, "a seal lists the entry, which should be kept still, and it is not there")
        elif digest_of(item) != line.hash or item.get("hash") != line.hash:
            found.find(EDITED, line.key, "the entry does not say what it said when it was sealed")
        elif line.result_hash not in (NO_RESULT, item.get("result_hash")):
            found.find(EDITED, line.key, "the entry's result is not what it was when it was sealed")


# --- entries --------------------------------------------------------------------------------------------------


def _entries(ports: Ports, team: str, place: VerifyPlace, found: Verified) -> VerifyPlace | None:
    position: Item | None = None
    if place.place:
        position = {"team": team, "at_ms": place.at_ms, "stream": place.stream, "place": place.place}
    rows, more = ports.store.query_index(
        AUDIT, ENTRIES_BY_TEAM, team, limit=ENTRIES_PAGE, after=position, descending=False
    )
    keys: list[Item] = [{"stream": row["stream"], "place": row["place"]} for row in rows]
    items = [item for item in read_many(ports, AUDIT, keys) if item is not None]
    known = {(str(item["stream"]), str(item["place"])): item for item in items}
    wanted = [key for key in map(_before, items) if key is not None and (key["stream"], key["place"]) not in known]
    others = list({(key["stream"], key["place"]): key for key in wanted}.values())
    for item in read_many(ports, AUDIT, others):
        if item is not None:
            known[str(item["stream"]), str(item["place"])] = item
    for item in items:
        found.entries += 1
        _check_entry(item, known, found)
    check_there(ports, items, found)
    return None if more is None else VerifyPlace(ENTRIES, int(more["at_ms"]), str(more["stream"]), str(more["place"]))


def _before(item: Item) -> Item | None:
    """Where the entry is that this one follows."""
    head = Head.parse(str(item.get("follows", "")))
    return None if head is None else {"stream": str(item["stream"]), "place": head.place}


def _check_entry(item: Item, known: Mapping[tuple[str, str], Item], found: Verified) -> None:
    digest = digest_of(item)
    if digest != item.get("hash") or not str(item["place"]).endswith(f"#{digest[:8]}"):
        found.find(EDITED, item, "the entry does not say what it said when it was written")
    if "result_hash" in item:
        result, at_ms = item.get("result") or {}, number_in(item, "result_at_ms")
        is_one = isinstance(result, Mapping)
        if not is_one or result_digest(str(item.get("hash")), result, at_ms) != item["result_hash"]:
            found.find(EDITED, item, "the entry's result is not what it was when it was written")
    elif kind_of(str(item["stream"])) == CALL:
        found.find(UNFINISHED, item, "nobody has written what came of the call: it may have done all or a part of it")
    head, key = Head.parse(str(item.get("follows", ""))), _before(item)
    if head is None or key is None:
        _check_versions(item, 0, "no entry before it says of", found)
        return
    before = known.get((key["stream"], key["place"]))
    if before is None:
        if found.is_kept(head.until_s):
            found.find(REMOVED, key, "the next entry follows it, and it should be kept still, but is not there")
    else:
        _check_versions(item, number_in(before, "version"), "between it and the one before there is none of", found)


def _check_versions(item: Item, version: int, what: str, found: Verified) -> None:
    begins_at = number_in(item, "version_before")
    if begins_at > version:
        found.find(
            UNRECORDED,
            item,
            f"{what} the changes to version {begins_at}: an older version of the service, or a hand, has made them",
        )
