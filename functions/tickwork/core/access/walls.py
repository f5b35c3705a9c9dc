"""Whose an item is, by its key alone: what stands between a team and every other team's items (tenant-wall).

Each table says how its keys name their team. A table that says nothing is nobody's to read behind the wall: a new one
has to be entered here before a team's request can reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tickwork.core.access.actors import PLATFORM_TEAM
from tickwork.core.access.pools import SHARES, is_owned
from tickwork.core.access.teams import PAUSES, RULES
from tickwork.core.errors import InvariantViolated
from tickwork.core.ledger.cells import PLACEMENTS
from tickwork.core.ledger.tables import (
    AUDIT,
    CALENDARS,
    CLIENT_KEYS,
    JOB_VERSIONS,
    JOBS,
    KEYS,
    LEASES,
    PASSES,
    PAYLOADS,
    RESOURCES,
    SET_ASIDE,
    TEAMS,
    TIMERS,
    Table,
)

NOBODYS = None
"""The team of what belongs to the service: slices, ticks, its own places."""

type _TeamOf = Callable[[Mapping[str, Any]], str | None]


def _before(sign: str, attribute: str) -> _TeamOf:
    return lambda key: str(key[attribute]).partition(sign)[0]


def _of_service(_: Mapping[str, Any]) -> str | None:
    return NOBODYS


TEAM_OF: Mapping[str, _TeamOf] = {
    TIMERS.name: lambda key: str(key["sk"]).split("#", 2)[1],
    JOBS.name: _before(":", "job_id"),
    JOB_VERSIONS.name: _before(":", "job_id"),
    CLIENT_KEYS.name: _before("#", "client_key"),
    CALENDARS.name: _before(":", "calendar_id"),
    PAYLOADS.name: _before(":", "payload_id"),
    RESOURCES.name: _before("#", "resource"),
    KEYS.name: _before(":", "key_id"),
    AUDIT.name: _before(":", "stream"),
    TEAMS.name: lambda key: NOBODYS if key["cell"] in (RULES, PLACEMENTS) else str(key["team"]).partition("#")[0],
    LEASES.name: _of_service,
    SET_ASIDE.name: _of_service,
    PASSES.name: _of_service,
}

_TEAMS_PARTITIONS: Mapping[tuple[str, str], str] = {
    (RESOURCES.name, ""): "#",
    (JOB_VERSIONS.name, ""): ":",
    (TIMERS.name, "by_job"): ":",
    (TIMERS.name, "by_dead_letter"): "#",
    (TIMERS.name, "by_group"): "#",
    (JOBS.name, "by_team"): "",
    (JOBS.name, "by_group"): "#",
    (CALENDARS.name, "by_team"): "",
    (KEYS.name, "by_team"): "",
    (AUDIT.name, ""): ":",
    (AUDIT.name, "by_team"): "",
}
"""Partitions that hold one team's items only, and the sign that ends its name. In all others each item is looked at."""


def team_of(table: Table, key: Mapping[str, Any]) -> str | None:
    """Whose the item at a key is; None when it belongs to the service. No longer key of its table ever begins with
    another team's name: a team's name has neither `:` nor `#`."""
    if table.name not in TEAM_OF:
        raise InvariantViolated(f"the table {table.name} does not say whose its items are")
    return TEAM_OF[table.name](key)


def _is_lender(table: Table, key: Mapping[str, Any], team: str) -> bool:
    """Whether an item is a share in a pool of the team: it is whom the pool is shared with that it belongs to."""
    is_share = table.name == TEAMS.name and key["cell"] == SHARES
    return is_share and is_owned(str(key["team"]).partition("#")[2], team)


def team_of_partition(table: Table, index: str, partition: str) -> str | None:
    """The one team whose items a partition holds; None when it may hold several teams'."""
    sign = _TEAMS_PARTITIONS.get((table.name, index))
    if sign is None:
        return None
    return partition.partition(sign)[0] if sign else partition


def may_touch(table: Table, key: Mapping[str, Any], team: str) -> bool:
    return team_of(table, key) in (team, NOBODYS) or _is_lender(table, key, team)


def may_read(table: Table, key: Mapping[str, Any], team: str) -> bool:
    """The platform's calendars are there for all to name; and what is paused, for whoever starts a run has to know of
    it. The flow that lists pauses leaves out what another team has written there."""
    if may_touch(table, key, team) or (table.name == TEAMS.name and key["cell"] == PAUSES):
        return True
    return table.name == CALENDARS.name and team_of(table, key) == PLATFORM_TEAM


def may_list(table: Table, index: str, partition: str, team: str) -> bool:
    """Whether a partition is the team's to ask for: its own, or one of which each item is looked at."""
    owner = team_of_partition(table, index, partition)
    return owner in (team, None) or (table.name == CALENDARS.name and owner == PLATFORM_TEAM)
