"""The API keys of a session with walls (`tickwork dev --auth`): its own, and those it prints for the person at it.

The session's own are made at each start, and those of the start before revoked. What is printed is made once: the state
remembers hashes, so a key that was lost is replaced by another one and never shown again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tickwork.core.access.actors import PLATFORM_TEAM, Actor, Role
from tickwork.core.access.api_keys import LIFE_DAYS_DEFAULT
from tickwork.core.instants import DAY_MS
from tickwork.flows.access import keys
from tickwork.flows.access.keys import Wanted
from tickwork.ports import Ports

OWN, PRINTED = "dev-session", "dev"
MAKER = Actor("dev", PLATFORM_TEAM, "platform")
"""The session itself: who can write to the tables needs no key to make one."""


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """Texts of keys. `printed`: (team, role, text) of those that were made now, to be shown this once."""

    platform: str
    worker: str
    printed: tuple[tuple[str, Role, str], ...] = ()


def make(ports: Ports, team: str, pools: Sequence[str]) -> SessionKeys:
    """The keys of a session whose demo is of a team that has these pools."""
    ends_at_ms = ports.clock.now_ms() + LIFE_DAYS_DEFAULT * DAY_MS
    roles: tuple[Role, ...] = ("viewer", "worker", "operator", "owner")
    wanted: list[Wanted] = [Wanted(PLATFORM_TEAM, "platform", ends_at_ms, PRINTED)]
    wanted += [Wanted(team, role, ends_at_ms, PRINTED, tuple(pools) if role == "worker" else ()) for role in roles]
    printed = tuple(
        (one.team, one.role, keys.create_key(ports, one, MAKER)[1]) for one in wanted if not _has(ports, one)
    )
    _revoke_earlier(ports, team)
    _, platform = keys.create_key(ports, Wanted(PLATFORM_TEAM, "platform", ends_at_ms, OWN), MAKER)
    _, worker = keys.create_key(ports, Wanted(team, "worker", ends_at_ms, OWN, tuple(pools)), MAKER)
    return SessionKeys(platform, worker, printed)


def _has(ports: Ports, wanted: Wanted) -> bool:
    now_ms = ports.clock.now_ms()
    return any(
        (key.name, key.role, key.status_at(now_ms)) == (PRINTED, wanted.role, "valid")
        for key in keys.list_keys(ports, wanted.team)
    )


def _revoke_earlier(ports: Ports, team: str) -> None:
    for owner in (PLATFORM_TEAM, team):
        for key in keys.list_keys(ports, owner):
            if key.name == OWN and not key.revoked_at_ms:
                keys.revoke_key(ports, key.key_id, MAKER)


def lines(made: SessionKeys) -> list[str]:
    """What a session says of its keys."""
    if not made.printed:
        return ["the API asks for keys; those printed at the first start hold, and are not shown again"]
    return [
        "the API asks for keys. These are shown this once (`export TICKWORK_API_KEY=...`):",
        *(f"  {role:<9} of {team:<9} {text}" for team, role, text in made.printed),
    ]
