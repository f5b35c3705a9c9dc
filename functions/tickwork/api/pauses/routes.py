"""Pauses of scopes: pause, resume, list."""

from __future__ import annotations

from typing import Any, cast

from tickwork.api.cursors import from_cursor, to_cursor
from tickwork.api.fields import NoBody, NoQuery, instant_of
from tickwork.api.paused_view import ScopePauseShown, scope_pause_view, starts_view
from tickwork.api.pauses.answers import InFlightAnswer, PausesAnswer, ResumedScope
from tickwork.api.pauses.bodies import InFlightQuery, PausesQuery, ScopeIn, ScopePauseIn, ScopeResumeIn
from tickwork.api.routing import Call, Route
from tickwork.core.access.actors import PLATFORM_TEAM
from tickwork.core.access.pools import check_pool_name
from tickwork.core.errors import Forbidden, InvalidField, NotFound, TooMany
from tickwork.core.ids import check_slug
from tickwork.core.instants import iso, iso_ms
from tickwork.core.jobs.pauses import Pause
from tickwork.core.jobs.scopes import ALL_CELLS, CELL, GROUP, POOL, TEAM, Scope
from tickwork.flows.access import pools, registry
from tickwork.flows.audit import draining
from tickwork.flows.audit.draining import Place
from tickwork.flows.jobs import pausing


def pause_scope(call: Call[ScopePauseIn, NoQuery]) -> tuple[int, ScopePauseShown]:
    """Start nothing of a team, a group, a pool or the cell from now on. Again with the same words is a no-op.

    What has been started goes on, with its retries and heartbeats. It holds for all starts within five seconds.
    """
    body, scope = call.body, _scope(call, call.body)
    until_ms = max(1, instant_of(body.until, "until")) if body.until else 0
    pause = Pause(call.actor.signs(body.by), body.reason, 0, until_ms, at_resume=body.at_resume)
    paused = pausing.pause_scope(call.ports, scope, pause)
    shown = scope_pause_view(paused, 0)
    assert shown is not None, "a pause that was just written is in force at any earlier time"
    return 200, shown


def resume_scope(call: Call[ScopeResumeIn, NoQuery]) -> tuple[int, ResumedScope]:
    """Let a team, a group, a pool or the cell start again, and say what that starts: this, and nothing else.

    Again is a no-op. What another pause keeps waiting, it does not start.
    """
    body, scope = call.body, _scope(call, call.body)
    found = pausing.resume_scope(call.ports, scope, call.actor.signs(body.by), dry_run=body.dry_run)
    last = found.last
    return 200, cast(
        "ResumedScope",
        {
            "kind": scope.kind,
            "name": scope.name,
            "changed": found.changed,
            "dry_run": body.dry_run,
            "starts": starts_view(found.starting),
            "resumed": None if last is None else {"by": last.resumed_by, "at": iso_ms(last.until_ms)},
        },
    )


def list_pauses(call: Call[NoBody, PausesQuery]) -> tuple[int, PausesAnswer]:
    """What is paused now, beyond single jobs."""
    team, now_ms = call.query.team, call.ports.clock.now_ms()
    found = pausing.list_scopes(call.ports, team and check_slug(team, "team"), now_ms)
    shown = [scope_pause_view(one, now_ms) for one in found]
    return 200, {"pauses": [one for one in shown if one is not None]}


def list_in_flight(call: Call[NoBody, InFlightQuery]) -> tuple[int, InFlightAnswer]:
    """What of a team, a group, a pool or a cell has been started and has not ended. Under a pause it only becomes less.

    A page of a pass over the ledger: it is drained when all pages are empty, five seconds after the pause or later.
    """
    query = call.query
    scope = _scope(call, ScopeIn(team=query.team, pool=query.pool, group=query.group, cell=query.cell))
    after: tuple[int, int, int] | None = from_cursor(query.cursor, int, int, int)
    found = draining.in_flight(call.ports, scope, Place(*after) if after else None)
    more = found.more and [found.more.cell, found.more.slice, found.more.bucket]
    shown = [{"occurrence": run.key.occurrence, "scheduled_at": iso(run.key.scheduled_at_ms)} for run in found.runs]
    return 200, cast("InFlightAnswer", {"runs": shown, "cursor": to_cursor(more)})


def _scope(call: Call[Any, Any], body: ScopeIn) -> Scope:
    layout, actor = call.ports.layout, call.actor
    if body.cell is not None:
        if actor.team != PLATFORM_TEAM or actor.role != "platform":
            raise _platforms("a cell")
        if body.pool or body.group or body.team not in (None, PLATFORM_TEAM):
            raise InvalidField("a cell is all teams'", field="cell", remedy="name no team, pool or group beside it")
        if body.cell not in (ALL_CELLS, *(shape.name for shape in layout.shapes)):
            raise InvalidField(f"there is no cell {body.cell!r}", field="cell", remedy="`tickwork cells list` has them")
        return Scope(PLATFORM_TEAM, CELL, body.cell)
    if body.pool is not None and body.group is not None:
        raise InvalidField("a group is in no pool", field="group", remedy="name either the group or the pool")
    if body.team is None and not (body.pool in layout.pools and actor.team == PLATFORM_TEAM):
        raise InvalidField("it is not said what", field="team", remedy="name the team, or `cell` for everything")
    if body.pool in layout.pools:
        if actor.team != PLATFORM_TEAM:
            raise _platforms(f"the pool {body.pool}, which is all teams',")
        if body.team not in (None, PLATFORM_TEAM):
            raise InvalidField(
                f"the pool {body.pool} is all teams', and no part of it is {body.team}'s alone",
                field="team",
                remedy="leave the team out to mean the pool as all use it, or the pool to mean all of the team",
            )
        return Scope(PLATFORM_TEAM, POOL, body.pool)
    team = check_slug(body.team or "", "team")
    if body.pool is not None:
        return Scope(team, POOL, pools.get_pool(call.ports, team, check_pool_name(body.pool, "pool")).pool)
    registry.check_heard_of(call.ports, team)
    return Scope(team, GROUP, body.group) if body.group is not None else Scope(team, TEAM, team)


def _platforms(what: str) -> Forbidden:
    return Forbidden(f"{what} is for the platform's team to pause", remedy="ask it, or pause what is your own")


_ERRORS = (NotFound, Forbidden)

ROUTES = (
    Route(
        "POST",
        "/pauses",
        pause_scope,
        ScopePauseIn,
        NoQuery,
        cast("Any", ScopePauseShown),
        errors=(NotFound, Forbidden, TooMany),
    ),
    Route("POST", "/pauses:resume", resume_scope, ScopeResumeIn, NoQuery, ResumedScope, errors=(NotFound, Forbidden)),
    Route("GET", "/pauses/in-flight", list_in_flight, NoBody, InFlightQuery, InFlightAnswer, errors=_ERRORS),
    Route("GET", "/pauses", list_pauses, NoBody, PausesQuery, PausesAnswer),
)
