"""Calendars: put, read, list."""

from __future__ import annotations

from typing import cast

from tickwork.api.calendars.answers import CalendarShown, CalendarsPage
from tickwork.api.calendars.bodies import CalendarIn
from tickwork.api.cursors import after_name, to_cursor
from tickwork.api.fields import NoBody, NoQuery, TeamPage
from tickwork.api.routing import Call, PathPart, Route
from tickwork.api.work import json_text
from tickwork.core.errors import AlreadyExists, BadSchedule, NotFound, PayloadTooLarge, UnknownTeam, VersionConflict
from tickwork.core.ids import split_job_id
from tickwork.core.instants import iso_ms
from tickwork.core.ledger.writes import Item
from tickwork.flows.access import registry
from tickwork.flows.jobs import calendars


def put_calendar(call: Call[CalendarIn, NoQuery]) -> tuple[int, CalendarShown]:
    """Create a calendar, or with `version` replace the version you have read."""
    team, name = split_job_id(call.path["calendar_id"], "calendar_id")
    spec = call.body.model_dump(exclude={"version"}, exclude_defaults=True)
    json_text(spec, "calendar")
    if call.body.version is None:
        registry.check_team(call.ports, team)
    item = calendars.put_calendar(call.ports, team, name, spec, call.body.version)
    registry.note_unregistered(call.ports, [team])
    return 200, _view(item)


def get_calendar(call: Call[NoBody, NoQuery]) -> tuple[int, CalendarShown]:
    """A calendar's latest version."""
    return 200, _view(calendars.get_calendar(call.ports, call.path["calendar_id"]))


def list_calendars(call: Call[NoBody, TeamPage]) -> tuple[int, CalendarsPage]:
    """A team's calendars, by name."""
    query = call.query
    after = after_name(query.cursor, query.team)
    found, more = calendars.list_calendars(call.ports, query.team, limit=query.limit, after=after)
    return 200, {"calendars": [_view(item) for item in found], "cursor": to_cursor(more)}


def _view(item: Item) -> CalendarShown:
    view = {
        "calendar_id": item["calendar_id"],
        "version": item["version"],
        **item["spec"],
        "changed_at": iso_ms(item["changed_at_ms"]),
    }
    return cast("CalendarShown", view)


_AT = (
    PathPart(
        "calendar_id",
        "A calendar as `team:name`",
        "payments:holidays",
        lambda text, _: split_job_id(text, "calendar_id"),
    ),
)

ROUTES = (
    Route(
        "PUT",
        "/calendars/{calendar_id}",
        put_calendar,
        CalendarIn,
        NoQuery,
        CalendarShown,
        at=_AT,
        errors=(NotFound, AlreadyExists, VersionConflict, BadSchedule, PayloadTooLarge, UnknownTeam),
    ),
    Route("GET", "/calendars/{calendar_id}", get_calendar, NoBody, NoQuery, CalendarShown, at=_AT, errors=(NotFound,)),
    Route("GET", "/calendars", list_calendars, NoBody, TeamPage, CalendarsPage),
)
