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
from tickwork.core.access.actors import PLATFORM_TEAM, Actor
from tickwork.core.errors import Forbidden, NotFound
from tickwork.core.ledger.keys import parse_ref
from tickwork.flows.access.walled import WalledStore

NOBODY = Actor("nobody", "-", "viewer")
"""Who calls a route that asks for no credential. Its team can be nobody's: it is no usable name."""


def is_open(route: AnyRoute) -> bool:
    return MATRIX[route.name].roles == ANYBODY


def check_role(route: AnyRoute, actor: Actor) -> None:
    """Forbidden when the actor's role does not go so far: said before the request is read, and of any team alike."""
    roles = MATRIX[route.name].roles
    if roles != ANYBODY and actor.role not in roles:
        raise Forbidden(
            f"{actor.name} is {actor.role} of {actor.team}: {route.method} {route.path} is not for that role",
            remedy=f"call with a credential that is one of {', '.join(sorted(roles))}",
        )


def admitted(route: AnyRoute, call: Call[Any, Any]) -> Call[Any, Any]:
    """The call as its handler may have it: about the actor's own things, over a store that holds no others. NotFound
    when it is about another team's."""
    actor, grant = call.actor, MATRIX[route.name]
    if grant.team.kind == "pool":
        _check_pool(actor, call.path[grant.team.name])
    if not actor.is_walled:
        return call
    call = _about_own(grant.team, call)
    for team, field, what in _named(grant.team, call):
        if not _may_name(grant, actor, team):
            raise NotFound(f"there is no {what}", field=field, remedy=_REMEDY)
    store = WalledStore(call.ports.store, actor.team, sees_calendars=not grant.names_calendars)
    return replace(call, ports=replace(call.ports, store=store))


def _check_pool(actor: Actor, pool: str) -> None:
    """A pool that a worker may not lease from is not there. Whose the runs in it are, the store sees."""
    if actor.role == "worker" and pool not in actor.pools:
        raise NotFound(f"there is no pool {pool!r} for you", field="pool", remedy=_REMEDY)


_REMEDY = "check the id, and whose credential you call with"


def _may_name(grant: Grant, actor: Actor, team: str) -> bool:
    return actor.reaches(team) or (grant.shares_platforms and team == PLATFORM_TEAM)


def _about_own(place: Place, call: Call[Any, Any]) -> Call[Any, Any]:
    """A request that names no team is about the caller's own."""
    own = {"team": call.actor.team}
    if place.kind == "query" and not call.query.team:
        return replace(call, query=call.query.model_copy(update=own))
    if place.kind == "body" and not call.body.team:
        return replace(call, body=call.body.model_copy(update=own))
    return call


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
    at = [
        Place("run" if part.name == "run" else "pool" if part.name == "pool" else "path", part.name)
        for part in route.at
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
