"""Teams: register, change, read, list, delete, adopt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, cast

from tickwork.api.cursors import from_cursor, not_a_cursor, to_cursor
from tickwork.api.fields import NoBody, NoQuery
from tickwork.api.places import fields_under
from tickwork.api.routing import Call, PathPart, Route
from tickwork.api.teams.answers import AdoptedTeams, DeletedTeam, PagerRouteShown, QuotasShown, TeamShown, TeamsPage
from tickwork.api.teams.bodies import AdoptIn, PagerRouteIn, TeamIn, TeamsQuery
from tickwork.core.access.pagers import Standing
from tickwork.core.access.teams import PagerRoute, Quotas, Shared, Team, TeamContent
from tickwork.core.errors import AlreadyExists, CallerError, Forbidden, InUse, InvalidField, NotFound, VersionConflict
from tickwork.core.ids import check_slug
from tickwork.core.instants import iso_ms
from tickwork.core.ledger.items import values_of
from tickwork.core.runs.push_targets import parse_target
from tickwork.flows.access import teams
from tickwork.flows.access.recording import call_on_many
from tickwork.flows.jobs import dissolving, usage
from tickwork.flows.runs import paging
from tickwork.ports import Layout

_ARN = re.compile(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}", re.ASCII)
_EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s.]+(?:\.[^@\s.]+)+")


def put_team(call: Call[TeamIn, NoQuery]) -> tuple[int, TeamShown]:
    """Register a team, or with `version` replace the version you have read.

    Who is a team, and its weight and quotas, is the platform's to say; all else the team's owner's.
    """
    content, shows = _content(call), call.body.viewers_see_payloads
    team = teams.put_team(call.ports, call.path["team"], content, call.body.version, call.actor, shows=shows)
    return 200, _view(team)


def get_team(call: Call[NoBody, NoQuery]) -> tuple[int, TeamShown]:
    """A team: who answers for it, where it is paged, what it may use."""
    team = teams.get_team(call.ports, call.path["team"])
    used = cast("QuotasShown", usage.usage_of(call.ports, team))
    return 200, _view(team, paging.standings(call.ports, team)) | {"used": used}


def test_routes(call: Call[NoBody, NoQuery]) -> tuple[int, TeamShown]:
    """Send a test message by each route of a team. One counts when its message has got through: look again for that."""
    team = teams.get_team(call.ports, call.path["team"])
    with call_on_many(call.ports, "team.routes_tested", {team.team: {"routes": len(team.routes)}}) as counted:
        standings = paging.test_routes(call.ports, team, call.actor)
        for standing in standings:
            counted.add(team.team, standing.state)
    return 200, _view(team, standings)


def list_teams(call: Call[NoBody, TeamsQuery]) -> tuple[int, TeamsPage]:
    """The registered teams, by name: of a team's credential that team alone."""
    query = call.query
    own = call.actor.teams if call.actor.is_walled else None
    found, more = teams.list_teams(call.ports, of=own, limit=query.limit, after=_after(query.cursor))
    return 200, {"teams": [_view(team) for team in found], "cursor": to_cursor(more)}


def _after(cursor: str | None) -> str | None:
    after: str | None = from_cursor(cursor, str)
    try:
        return after and check_slug(after, "cursor")
    except CallerError:
        raise not_a_cursor() from None


def delete_team(call: Call[NoBody, NoQuery]) -> tuple[int, DeletedTeam]:
    """Delete a team. Refused while it has a job, a calendar, a valid key, or timers that may be pending."""
    dissolving.delete_team(call.ports, call.path["team"], call.actor)
    return 200, {"team": call.path["team"], "deleted": True}


def adopt_teams(call: Call[AdoptIn, NoQuery]) -> tuple[int, AdoptedTeams]:
    """Register the teams that have been seen creating things, and say whether unknown ones are refused from then on.

    A dry run, unless told otherwise. Again is a no-op.
    """
    body = call.body
    content = TeamContent(contact=body.contact)
    found = teams.adopt(call.ports, content, call.actor, dry_run=body.dry_run, refusing=body.refuse_unknown)
    return 200, {
        "teams": list(found.teams),
        "dry_run": body.dry_run,
        "more": found.more,
        "unknown_refused": found.refusing,
    }


def _content(call: Call[TeamIn, NoQuery]) -> TeamContent:
    body, layout, topic = call.body, call.ports.layout, call.ports.pager.topic_of(call.path["team"])
    for index, route in enumerate(body.routes):
        with fields_under(f"routes.{index}"):
            _check_route(route, layout, topic)
    for index, one in enumerate(body.shared):
        for team in (one.resource, *one.teams):
            check_slug(team, f"shared.{index}")
    quotas = {name: value for name, value in body.quotas.model_dump().items() if value is not None}
    return TeamContent(
        contact=body.contact,
        runbook=body.runbook,
        routes=tuple(PagerRoute(route.kind, route.address) for route in body.routes),
        defaults=body.defaults.model_dump(exclude_unset=True, exclude_none=True),
        weight=body.weight,
        quotas=Quotas(**quotas),
        shared=tuple(Shared(one.resource, tuple(one.teams)) for one in body.shared),
    )


def _check_route(route: PagerRouteIn, layout: Layout, topic: str) -> None:
    """A topic is the team's by its name: nobody pages another's."""
    if route.kind == "webhook":
        try:
            parse_target(route.address, allow_private=layout.push_private)
        except CallerError as error:
            error.field = "address"
            raise
    elif route.kind == "topic" and not (_ARN.fullmatch(route.address) and route.address.endswith(f":{topic}")):
        raise InvalidField(
            "this is no ARN of a topic of the team", field="address", remedy=f"call the topic {topic}, and give its ARN"
        )
    elif route.kind == "email" and not _EMAIL.fullmatch(route.address):
        raise InvalidField("this is no e-mail address", field="address", remedy="write it as name@example.org")


def _view(team: Team, standings: Sequence[Standing] = ()) -> TeamShown:
    quotas = {name: value or None for name, value in values_of(team.quotas).items()}
    view: dict[str, Any] = {
        "team": team.team,
        "version": team.version,
        "contact": team.contact,
        "runbook": team.runbook,
        "routes": [_route(route, one) for route, one in zip_longest(team.routes, standings)],
        "defaults": dict(team.defaults),
        "weight": team.weight,
        "quotas": quotas,
        "shared": [{"resource": one.resource, "teams": list(one.teams)} for one in team.shared],
        "viewers_see_payloads": not team.hides_payloads,
        "created_at": iso_ms(team.created_at_ms),
        "created_by": team.created_by,
        "changed_at": iso_ms(team.changed_at_ms),
        "changed_by": team.changed_by,
    }
    return cast("TeamShown", view)


def _route(route: PagerRoute, standing: Standing | None) -> PagerRouteShown:
    """Without its standing in a list: that costs a read for each."""
    shown: PagerRouteShown = {"kind": route.way, "address": route.address}
    if standing is not None:
        shown["state"] = standing.state
        shown["tested_at"] = iso_ms(standing.at_ms) if standing.at_ms else None
        shown["detail"] = standing.detail or None
    return shown


_AT = (PathPart("team", "A team by its name", "payments", lambda text, _: check_slug(text, "team")),)

ROUTES = (
    Route(
        "PUT",
        "/teams/{team}",
        put_team,
        TeamIn,
        NoQuery,
        TeamShown,
        at=_AT,
        errors=(NotFound, AlreadyExists, VersionConflict, Forbidden),
    ),
    Route("GET", "/teams/{team}", get_team, NoBody, NoQuery, TeamShown, at=_AT, errors=(NotFound,)),
    Route("GET", "/teams", list_teams, NoBody, TeamsQuery, TeamsPage),
    Route("DELETE", "/teams/{team}", delete_team, NoBody, NoQuery, DeletedTeam, at=_AT, errors=(NotFound, InUse)),
    Route("POST", "/teams/{team}/routes:test", test_routes, NoBody, NoQuery, TeamShown, at=_AT, errors=(NotFound,)),
    Route("POST", "/teams:adopt", adopt_teams, AdoptIn, NoQuery, AdoptedTeams),
)
