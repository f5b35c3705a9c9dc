"""Calendars: named, shared, versioned. Written by the API, read beside every job that names one.

A calendar belongs to a team (`team:name`); every team may exclude by it. A change is a new version; the reconciler
computes anew what was planned with the old one (T6).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tickwork.core.chain import named_calendars
from tickwork.core.errors import AlreadyExists, NotFound, VersionConflict
from tickwork.core.ids import job_id_of
from tickwork.core.records import Job
from tickwork.core.schedule import Calendar, parse_calendar
from tickwork.core.tables import CALENDARS, CALENDARS_BY_TEAM
from tickwork.core.writes import Absent, Committed, Condition, Is, Item, Put
from tickwork.flows.commit import commit
from tickwork.ports import Ports


def put_calendar(ports: Ports, team: str, name: str, spec: Mapping[str, Any], version: int | None) -> Item:
    """Create a calendar (`version` None), or replace the version that the caller has read. The same content again is
    a no-op. AlreadyExists, NotFound, or VersionConflict when somebody else has changed it."""
    item: Item = {
        "calendar_id": job_id_of(team, name),
        "team": team,
        "name": name,
        "version": (version or 0) + 1,
        "spec": dict(spec),
        "changed_at_ms": ports.clock.now_ms(),
    }
    _read(item)
    standing = ports.store.get(CALENDARS, {"calendar_id": item["calendar_id"]})
    if standing is not None and standing["spec"] == item["spec"]:
        return standing
    _check_version(standing, item["calendar_id"], version)
    unchanged: Condition = Absent() if version is None else Is("version", version)
    # The archived copy names no team, so that no index lists it; it is written with the new version or not at all.
    archived = {k: v for k, v in item.items() if k != "team"}
    archived["calendar_id"] = f"{item['calendar_id']}@{item['version']}"
    result = commit(ports, Put(CALENDARS, item, unchanged), Put(CALENDARS, archived, Absent()))
    if isinstance(result, Committed):
        return item
    standing = get_calendar(ports, item["calendar_id"])
    if standing["spec"] != item["spec"]:  # else it was our own write, whose reply was lost
        raise _changed(standing)
    return standing


def _check_version(standing: Item | None, calendar_id: str, version: int | None) -> None:
    if standing is None and version is not None:
        raise NotFound(f"there is no calendar {calendar_id!r}", field="version", remedy="create it without a version")
    if standing is not None and version is None:
        raise AlreadyExists(
            f"calendar {calendar_id} exists with other content (version {standing['version']})",
            field="version",
            remedy="send the version you have read, to replace it",
        )
    if standing is not None and standing["version"] != version:
        raise _changed(standing)


def _changed(standing: Item) -> VersionConflict:
    return VersionConflict(
        f"calendar {standing['calendar_id']} is at version {standing['version']}",
        field="version",
        remedy="read it again, and repeat your change on that version",
    )


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
    found = ports.store.get_many(CALENDARS, [{"calendar_id": key["calendar_id"]} for key in keys]) if keys else []
    return [item for item in found if item is not None], None if more is None else str(more["calendar_id"])


def resolve(ports: Ports, team: str, names: Iterable[str]) -> dict[str, Calendar]:
    """Calendars by the names a team's schedule uses: `name` is the team's own, `other-team:name` another's. A name
    that stands for nothing is left out, and refused when an occurrence is asked for."""
    wanted = {name: _id(team, name) for name in names}
    found = _read_all(ports, wanted.values())
    return {name: replace(found[id_], name=name) for name, id_ in wanted.items() if id_ in found}


def equip(ports: Ports, jobs: Sequence[Job]) -> list[Job]:
    """The jobs with the calendars their schedules name, in one read for all. Most name none, and cost nothing."""
    found = _read_all(ports, (_id(job.team, name) for job in jobs for name in named_calendars(job)))
    return [_equipped(job, found) for job in jobs]


def _equipped(job: Job, found: Mapping[str, Calendar]) -> Job:
    wanted = {name: _id(job.team, name) for name in named_calendars(job)}
    own = {name: replace(found[id_], name=name) for name, id_ in wanted.items() if id_ in found}
    return replace(job, calendars=own) if own else job


def _id(team: str, name: str) -> str:
    return name if ":" in name else job_id_of(team, name)


def _read_all(ports: Ports, calendar_ids: Iterable[str]) -> dict[str, Calendar]:
    unique = sorted(set(calendar_ids))
    items = ports.store.get_many(CALENDARS, [{"calendar_id": id_} for id_ in unique]) if unique else []
    return {item["calendar_id"]: _read(item) for item in items if item is not None}


def _read(item: Item) -> Calendar:
    return parse_calendar({**item["spec"], "name": item["name"], "version": item["version"]})
