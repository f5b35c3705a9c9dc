"""Deleting a team: refused while anything of it lives.

Protects: nothing is deleted but the team's own item, and what is stored goes on firing. What counts as alive is what
can be told at a bounded price: jobs, calendars, pools and keys by their indexes, timers by the team's mark, which holds
the team as well for the minute in which something new may not be found yet, and by a pause over it: what waits for that
one's end would fire for whoever has the name by then.
"""

from __future__ import annotations

from tickwork.core.access import holdings, teams
from tickwork.core.access.actors import PLATFORM_TEAM, Actor
from tickwork.core.access.teams import Team
from tickwork.core.errors import Conflict, InUse, WorldError
from tickwork.core.instants import iso
from tickwork.core.jobs.pauses import pause_in_force
from tickwork.core.jobs.scopes import POOL, PausedScope
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.tables import TEAMS
from tickwork.core.ledger.writes import Committed, Delete, Is
from tickwork.flows.access import keys, pools, registry
from tickwork.flows.access.teams import get_team, recorded_team
from tickwork.flows.jobs import calendars, counting_jobs, registering
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.paused import read_paused
from tickwork.ports import Ports

DELETE_TRIES_MAX = 3
PAGES_MAX = 20
"""Of a team's jobs, deleted ones among them, that are looked through for one that is there."""


def delete_team(ports: Ports, name: str, actor: Actor) -> None:
    """NotFound, or InUse saying what of the team still lives."""
    for _ in range(DELETE_TRIES_MAX):
        team = get_team(ports, name)
        if alive := _alive(ports, team):
            raise InUse(
                f"team {name} has {alive}",
                field="team",
                remedy="delete, cancel or revoke what it has; what fires later has to be waited for",
            )
        _, entry = recorded_team(ports, team, None, "deleted")
        if isinstance(commit(ports, teams.deletion(team), teams.forgetting(name), entry), Committed):
            registry.remember(ports, teams.team_key(name), None)
            _forget_counters(ports, name)
            ports.signals.log("team_deleted", team=name, by=actor.name)
            return
    raise Conflict(f"team {name} was changed {DELETE_TRIES_MAX} times meanwhile")


def _forget_counters(ports: Ports, name: str) -> None:
    """Whoever is called so next begins with nothing. Of a team that is deleted nothing is pending any more."""
    for key in (holdings.used_key(name), counting_jobs.counter_key(name)):
        try:
            ports.store.commit([Delete(TEAMS, key, Is("team", key["team"]))])
        except WorldError as error:
            ports.signals.log("quota_not_given_back", team=name, error=repr(error))


def _alive(ports: Ports, team: Team) -> str:
    """What of a team lives; empty: nothing."""
    name, now_ms = team.team, ports.clock.now_ms()
    if _has_jobs(ports, name):
        return "jobs"
    if calendars.list_calendars(ports, name, limit=1, after=None)[0]:
        return "calendars"
    if pools.has_pools(ports, name):
        return "pools"
    if any(key.status_at(now_ms) == "valid" for key in keys.list_keys(ports, name)):
        return "API keys that are valid"
    if any(_may_wait_for(one, name) and pause_in_force(one.pauses, now_ms) for one in read_paused(ports).scopes):
        return "a pause over it, for whose end timers may wait"
    if team.pending_until_ms > now_ms:
        return f"something just created, or timers, that may be pending until {iso(team.pending_until_ms)}"
    return ""


def _may_wait_for(paused: PausedScope, team: str) -> bool:
    """Whether something of a team may wait for the end of a pause, in whatever pool of its own or of all it is."""
    scope = paused.scope
    return scope.owner in (team, PLATFORM_TEAM) if scope.kind == POOL else scope.covers(team, "", scope.name)


def _has_jobs(ports: Ports, team: str) -> bool:
    """A team with more deleted jobs than are looked through counts as one that has some; and so does one with a job
    that this version cannot read."""
    after: str | None = None
    for _ in range(PAGES_MAX):
        try:
            found, after = registering.list_jobs(ports, team, limit=100, after=after, strict=True)
        except Unreadable:
            return True
        if found or after is None:
            return bool(found)
    return True
