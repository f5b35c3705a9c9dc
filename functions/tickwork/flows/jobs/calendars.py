"""Calendars: named, shared, versioned. Written by the API, read beside every job that names one.

A calendar belongs to a team (`team:name`); every team may exclude by it. A change is a new version; the reconciler
computes anew what was planned with the old one (T6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tickwork.core.access.diffs import differences
from tickwork.core.access.entries import Change
from tickwork.core.errors import BadSchedule, Conflict, NotFound, check_replaced
from tickwork.core.ids import job_id_of
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.tables import CALENDARS, CALENDARS_BY_TEAM
from tickwork.core.ledger.writes import Absent, Committed, Condition, Is, Item, Put
from tickwork.core.schedule import Calendar
from tickwork.flows.access.recording import recorded
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.reading import read_calendar, read_many
from tickwork.ports import Ports


def put_calendar(ports: Ports, team: str, name: str, spec: Mapping[str, Any], version: int | None) -> Item:
    """Create a calendar (`version` None), or replace the version that the caller has read. The same content again, in
    whatever words, is a no-op. AlreadyExists, NotFound, or VersionConflict when somebody else has changed it. What a
    newer version has stored beside the content stays."""
    item: Item = {
        "calendar_id": job_id_of(team, name),
        "team": team,
        "name": name,
        "version": (version or 0) + 1,
        "spec": dict(spec),
        "changed_at_ms": ports.clock.now_ms(),
    }
    wanted = read_calendar(item)
    standing = ports.store.get(CALENDARS, {"calendar_id": item["calendar_id"]})
    if standing is not None and _says(standing, wanted):
        return standing
    what = f"calendar {item['calendar_id']}"
    check_replaced(what, None if standing is None else standing["version"], version)
    entry, head = recorded(ports, _told(standing, item))
    item = {**(standing or {}), **item, "audit_head": head}
    unchanged: Condition = Absent() if version is None else Is("version", version)
    # The archived copy names no team, so that no index lists it; it is written with the new version or not at all.
    archived = {k: v for k, v in item.items() if k != "team"}
    archived["calendar_id"] = f"{item['calendar_id']}@{item['version']}"
    result = commit(ports, Put(CALENDARS, item, unchanged), Put(CALENDARS, archived, Absent()), entry)
    if isinstance(result, Committed):
        return item
    standing = get_calendar(ports, item["calendar_id"])
    if not _says(standing, wanted):  # else it was our own write, whose reply was lost
        check_replaced(what, standing["version"], version or 0)
        raise Conflict(f"{what} was changed meanwhile, and stands at its version again")
    return standing


def _told(standing: Item | None, item: Item) -> Change:
    """What the audit says of a calendar's change."""
    before = standing or {"version": 0}
    # One that somebody has garbled is mended by a change like any other: what it says is told as it stands.
    said = before.get("spec", {})
    spec = said if isinstance(said, Mapping) else {"spec": said}
    return Change(
        item["team"],
        "calendar",
        item["name"],
        "calendar.changed" if standing else "calendar.created",
        head=str(before.get("audit_head", "")),
        version_before=before["version"],
        version=item["version"],
        changes=differences(spec, item["spec"]),
    )


def _says(item: Item, wanted: Calendar) -> bool:
    """Whether an item excludes the same times. One that this version cannot read says something else."""
    try:
        return replace(read_calendar(item), version=wanted.version) == wanted
    except (BadSchedule, Unreadable):
        return False


def get_calendar(ports: Ports, calendar_id: str) -> Item:
    """The latest version of a calendar; NotFound when there is none."""
    item = ports.store.get(CALENDARS, {"calendar_id": calendar_id})
    if item is None:
        raise NotFound(f"there is no calendar {calendar_id!r}", field="calendar_id", remedy="list them with ?team=")
    return item


def list_calendars(ports: Ports, team: str, *, limit: int, after: str | None) -> tuple[list[Item], str | None]:
    """A page of a team's calendars by name, and the cursor to go on after."""
    position: Item | None = None if after is None else {"team": team, "calendar_id": after}
    keys, more = ports.store.query_index(
        CALENDARS, CALENDARS_BY_TEAM, team, limit=limit, after=position, descending=False
    )
    found = read_many(ports, CALENDARS, [{"calendar_id": key["calendar_id"]} for key in keys])
    return [item for item in found if item is not None], None if more is None else str(more["calendar_id"])
