"""Incidents that are open, and what people say of them."""

from __future__ import annotations

from tickwork.api.cursors import from_cursor, not_a_cursor, to_cursor
from tickwork.api.fields import NoBody, NoQuery, TeamPage, instant_of
from tickwork.api.routing import JOB_ID, Call, Route
from tickwork.api.watch.answers import IncidentShown, IncidentsPage
from tickwork.api.watch.bodies import AcknowledgeIn
from tickwork.core.errors import NotFound
from tickwork.core.instants import iso_ms
from tickwork.core.watch.incidents import Incident
from tickwork.flows.watch import incidents


def list_incidents(call: Call[NoBody, TeamPage]) -> tuple[int, IncidentsPage]:
    """A team's open incidents: jobs that are silent, or cannot be read."""
    query = call.query
    found, more = incidents.list_open(call.ports, query.team, limit=query.limit, after=_after(query.cursor, query.team))
    return 200, {"incidents": [_view(one) for one in found], "cursor": to_cursor(more)}


def acknowledge_incident(call: Call[AcknowledgeIn, NoQuery]) -> tuple[int, IncidentShown]:
    """Say that you have heard of a job's incident: nobody is told again before it is over, or until `until`.

    Its next success closes it. Again is a no-op.
    """
    body = call.body
    until_ms = max(1, instant_of(body.until, "until")) if body.until else 0
    by = call.actor.signs(body.by)
    found = incidents.acknowledge(call.ports, call.path["job_id"], body.kind, by, body.reason, until_ms)
    return 200, _view(found)


def _after(cursor: str | None, team: str) -> str | None:
    after: str | None = from_cursor(cursor, str)
    if after is not None and not after.startswith(f"{team}#"):
        raise not_a_cursor()
    return after


def _view(one: Incident) -> IncidentShown:
    view: IncidentShown = {
        "job_id": one.job_id,
        "kind": one.kind,
        "opened_at": iso_ms(one.opened_at_ms),
        "since": iso_ms(one.since_ms) if one.since_ms else None,
        "expected_by": iso_ms(one.by_ms) if one.by_ms else None,
        "max_silence_s": one.silence_s,
        "why": one.why,
        "tells": one.tells,
        "closing": bool(one.closed_at_ms),
    }
    if one.acknowledged_at_ms:
        view["acknowledged"] = {
            "by": one.acknowledged_by,
            "reason": one.acknowledged_why,
            "at": iso_ms(one.acknowledged_at_ms),
            "until": iso_ms(one.snoozed_until_ms) if one.snoozed_until_ms else None,
        }
    return view


ROUTES = (
    Route("GET", "/incidents", list_incidents, NoBody, TeamPage, IncidentsPage),
    Route(
        "POST",
        "/incidents/{job_id}/acknowledge",
        acknowledge_incident,
        AcknowledgeIn,
        NoQuery,
        IncidentShown,
        at=(JOB_ID,),
        errors=(NotFound,),
    ),
)
