"""The API keys of a session with walls (`tickwork dev --auth`): its own, and those it prints for the person at it.

The session's own are made at each start, and those of the start before deleted. What is printed is made once: the state
remembers hashes, so a key that was lost is replaced by another one and never shown again.
"""

from __future__ import annotations

from dataclasses import dataclass

from tickwork.core.access.actors import PLATFORM_TEAM, Actor, Role
from tickwork.core.access.api_keys import LIFE_DAYS_DEFAULT
from tickwork.core.instants import DAY_MS
from tickwork.core.ledger.tables import KEYS
from tickwork.core.ledger.writes import Delete, Is
from tickwork.flows.access import keys
from tickwork.flows.access.keys import Wanted
from tickwork.flows.ledger.commit import commit
from tickwork.ports import PUSH_POOL, Ports

TEAMS_ROLES: tuple[Role, ...] = ("viewer", "worker", "operator", "owner")
OWN, PRINTED = "dev-session", "dev"
MAKER = Actor("dev", PLATFORM_TEAM, "platform")
"""The session itself: who can write to the tables needs no key to make one."""


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """Texts of keys. `printed`: (team, role, text) of those that were made now, to be shown this once."""

    platform: str
    worker: str
    printed: tuple[tuple[str, Role, str], ...] = ()


def make(ports: Ports, team: str | None) -> SessionKeys:
    """The keys of a session. `team`: whose keys are printed beside the platform's, of each role one."""
    ends_at_ms = ports.clock.now_ms() + LIFE_DAYS_DEFAULT * DAY_MS
    pools = tuple(pool for pool in ports.layout.pools if pool != PUSH_POOL)
    wanted = [Wanted(PLATFORM_TEAM, "platform", ends_at_ms, PRINTED)]
    for role in TEAMS_ROLES if team else ():
        wanted.append(Wanted(str(team), role, ends_at_ms, PRINTED, pools if role == "worker" else ()))
    printed = tuple(
        (one.team, one.role, keys.create_key(ports, one, MAKER)[1]) for one in wanted if not _has(ports, one)
    )
    _forget_earlier(ports)
    _, platform = keys.create_key(ports, Wanted(PLATFORM_TEAM, "platform", ends_at_ms, OWN), MAKER)
    # Of the platform's team: on one machine every team's jobs may aim at the pools there are.
    _, worker = keys.create_key(ports, Wanted(PLATFORM_TEAM, "worker", ends_at_ms, OWN, pools), MAKER)
    return SessionKeys(platform, worker, printed)


def _has(ports: Ports, wanted: Wanted) -> bool:
    now_ms = ports.clock.now_ms()
    return any(
        (key.name, key.role, key.status_at(now_ms)) == (PRINTED, wanted.role, "valid")
        for key in keys.list_keys(ports, wanted.team)
    )


def _forget_earlier(ports: Ports) -> None:
    """Deleted, not revoked: nobody is to be told of them, and a team may have only so many that have ended."""
    for key in keys.list_keys(ports, PLATFORM_TEAM):
        if key.name == OWN:
            commit(ports, Delete(KEYS, {"key_id": key.key_id}, Is("name", OWN)))


def lines(made: SessionKeys) -> list[str]:
    """What a session says of its keys."""
    if not made.printed:
        return ["the API asks for keys; those printed at the first start hold, and are not shown again"]
    return [
        "the API asks for keys. These are shown this once (`export TICKWORK_API_KEY=...`):",
        *(f"  {role:<9} of {team:<9} {text}" for team, role, text in made.printed),
    ]
