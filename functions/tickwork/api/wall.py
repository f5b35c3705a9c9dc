"""The wall between a route and its flow: whose role goes so far, and whose things the request is about.

Every request passes here, by what `matrix` says of its route; no handler does. What is another team's is answered as if
it were not there, from the id alone, before anything is read: so neither the answer nor the time it takes tells whether
it is (tenant-wall). Below the flow the store keeps the same wall once more (`flows/access/walled.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tickwork.api.matrix import ANYBODY, MATRIX, Grant, Place
from tickwork.api.routing import AnyRoute, BadRouteTable, Call, Table
from tickwork.core.access.actors import PLATFORM_TEAM, Actor, together
from tickwork.core.errors import Forbidden, InvalidField, NotFound
from tickwork.core.ledger.keys import parse_ref
from tickwork.flows.access.walled import WalledStore

NOBODY = Actor("nobody", "-", "viewer")
"""Who calls a route that asks for no credential. Its team can be nobody's: it is no usable name."""


def is_open(route: AnyRoute) -> bool:
    return MATRIX[route.name].roles == ANYBODY


def check_role(route: AnyRoute, actor: Actor) -> None:
    """Forbidden when nothing that the actor is goes so far: said before the request is read, and of any team alike."""
    roles = MATRIX[route.name].roles
    if roles != ANYBODY and not _able(MATRIX[route.name], actor):
        raise _forbidden(route, actor)


def _able(grant: Grant, actor: Actor) -> list[Actor]:
    """What the caller is whose role goes so far."""
    return [one for one in actor.standings if one.role in grant.roles]


def _forbidden(route: AnyRoute, actor: Actor) -> Forbidden:
    as_whom = " and ".join(f"{one.role} of {one.team}" for one in actor.standings[:STANDINGS_TOLD_MAX])
    return Forbidden(
        f"{actor.name} is {as_whom}: {route.method} {route.path} is not for that role",
        remedy=f"call with a credential that is one of {', '.join(sorted(MATRIX[route.name].roles))}",
    )


STANDINGS_TOLD_MAX = 8
"""Of what somebody is in a sentence: who is of more teams knows it."""


def admitted(route: AnyRoute, call: Call[Any, Any]) -> Call[Any, Any]:
    """The call as its handler may have it: by what its caller is where it counts, about his own things, over a store
    that holds no others. NotFound when it is about another team's."""
    grant = MATRIX[route.name]
    if grant.roles != ANYBODY and (call.actor.is_walled or call.actor.beside):
        call = _about_own(grant, call)
        call = replace(call, actor=together(list(_counting(route, grant, call))))
    actor = call.actor
    if not actor.is_walled:
        return call
    beside = tuple(sorted(actor.teams - {actor.team}))
    store = WalledStore(call.ports.store, actor.team, sees_calendars=not grant.names_calendars, beside=beside)
    return replace(call, ports=replace(call.ports, store=store))


def _counting(route: AnyRoute, grant: Grant, call: Call[Any, Any]) -> Iterator[Actor]:
    """What counts of all that a caller is: what he is in the team that the request names, or, where it names several
    or none, all that goes so far. A standing counts once."""
    if grant.team.kind == "pool":
        yield from _of_pool(grant, call.actor, call.path[grant.team.name])
        return
    counted: dict[Actor, None] = {}
    for team, field, what in _named(grant.team, call):
        counted[_in_team(route, grant, call.actor, team, field, what)] = None
    yield from counted or _able(grant, call.actor)


def _in_team(route: AnyRoute, grant: Grant, actor: Actor, team: str, field: str, what: str) -> Actor:
    """What the caller is in a team: there, or else as the platform. Forbidden when that does not go so far, NotFound
    when he is nothing there."""
    able = sorted(_able(grant, actor), key=lambda one: one.team != team)
    if found := next((one for one in able if one.reaches(team)), None):
        return found
    if own := [one for one in actor.standings if one.reaches(team)]:
        raise _forbidden(route, together(own))
    if not (grant.shares_platforms and team == PLATFORM_TEAM):
        raise NotFound(f"there is no {what}", field=field, remedy=_REMEDY)
    return able[0]


def _of_pool(grant: Grant, actor: Actor, pool: str) -> list[Actor]:
    """A pool that a worker may not lease from is not there. Whose the runs in it are, the store sees."""
    found = [one for one in _able(grant, actor) if one.role != "worker" or pool in one.pools]
    if not found:
        raise NotFound(f"there is no pool {pool!r} for you", field="pool", remedy=_REMEDY)
    return found


_REMEDY = "check the id, and whose credential you call with"


def _about_own(grant: Grant, call: Call[Any, Any]) -> Call[Any, Any]:
    """A request that names no team is about the caller's own, if that is one; the platform's is about all."""
    place = grant.team
    part = call.query if place.kind == "query" else call.body if place.kind == "body" else None
    if part is None or part.team:
        return call
    teams = sorted({one.team for one in _able(grant, call.actor)})
    if PLATFORM_TEAM in teams:
        return replace(call, actor=together([one for one in _able(grant, call.actor) if one.team == PLATFORM_TEAM]))
    if len(teams) > 1:
        raise InvalidField(
            f"you are of several teams: {', '.join(teams[:STANDINGS_TOLD_MAX])}",
            field="team",
            remedy="name the one that it is about",
        )
    return replace(call, **{place.kind: part.model_copy(update={"team": teams[0]})})


type _Named = Iterator[tuple[str, str, str]]
"""(team, field, what is asked for) of all that a request names as a whole."""


def _by_path(place: Place, call: Call[Any, Any]) -> _Named:
    found = call.path[place.name]
    yield found.partition(":")[0], place.name, f"{place.name.removesuffix('_id')} {found!r}"


def _by_run(place: Place, call: Call[Any, Any]) -> _Named:
    """A name that is none says nothing of a team, and is refused for that."""
    found = call.path[place.name]
    with suppress(ValueError):
        team = parse_ref(found).team if "|" in found else _team_of_run(found, call.query.job_id)
        yield team, place.name, f"run {found!r}"


def _team_of_run(name: str, job_id: str) -> str:
    """A run_id alone says nothing: the job beside it does."""
    named = name if ":" in name else job_id
    if ":" not in named:
        raise ValueError("no team is named")
    return named.partition(":")[0]


def _by_query(_: Place, call: Call[Any, Any]) -> _Named:
    yield call.query.team, "team", f"team {call.query.team!r}"


def _by_body(_: Place, call: Call[Any, Any]) -> _Named:
    yield call.body.team, "team", f"team {call.body.team!r}"


def _by_each(place: Place, call: Call[Any, Any]) -> _Named:
    for index, one in enumerate(getattr(call.body, place.name)):
        yield one.team, f"{place.name}.{index}.team", f"team {one.team!r}"


def _by_none(_: Place, __: Call[Any, Any]) -> _Named:
    yield from ()


_NAMED: Mapping[str, Callable[[Place, Call[Any, Any]], _Named]] = {
    "path": _by_path,
    "run": _by_run,
    "query": _by_query,
    "body": _by_body,
    "each": _by_each,
    "entries": _by_none,
    "pool": _by_none,
    "nowhere": _by_none,
}


def _named(place: Place, call: Call[Any, Any]) -> _Named:
    return _NAMED[place.kind](place, call)


# --- when the API starts ----------------------------------------------------------------------------------------


def covered(table: Table, matrix: Mapping[str, Grant] = MATRIX) -> Table:
    """The table itself. BadRouteTable names the first route that the matrix lacks, or says something else of."""
    if unknown := matrix.keys() - {route.name for route in table}:
        raise BadRouteTable(f"the matrix has {min(unknown)}, which is no route")
    for route in table:
        if route.name not in matrix:
            raise BadRouteTable(f"{route.name} is not in the matrix: nobody has said who may call it")
        if matrix[route.name].team not in _possible(route):
            raise BadRouteTable(f"{route.name}: the matrix does not say where it names its team")
        if "schedule" in route.body.model_fields and not matrix[route.name].names_calendars:
            raise BadRouteTable(f"{route.name}: the matrix does not say that it may name calendars")
    return table


def _possible(route: AnyRoute) -> list[Place]:
    """Where a route can name its team. One that could name it in two places must be split."""
    under_team = "team" in {part.name for part in route.at}  # what stands beside it in the path is that team's
    at = [
        Place("run" if part.name == "run" else "pool" if part.name == "pool" else "path", part.name)
        for part in route.at
        if part.name == "team" or not under_team
    ]
    query = [Place("query")] if "team" in route.query.model_fields else []
    body = [Place("body")] if "team" in route.body.model_fields else []
    lists = [Place(kind, name) for name in ("runs", "timers", "timer_ids") for kind in _kinds_of_list(route, name)]
    certain = at + query + body
    return (certain or lists or [Place("nowhere")]) if len(certain) < 2 else []


def _kinds_of_list(route: AnyRoute, name: str) -> tuple[Any, ...]:
    """Entries with a team of their own are `each`; those that are, or have, an id are `entries`."""
    if name not in route.body.model_fields:
        return ()
    entry = (*getattr(route.body.model_fields[name].annotation, "__args__", ()), None)[0]
    return ("each",) if "team" in getattr(entry, "model_fields", {}) else ("entries",)
