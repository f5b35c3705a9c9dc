"""What a team uses of its quotas, for people to see: of those that are set, each at the price of a read or two."""

from __future__ import annotations

from tickwork.core.access import holdings, pacing
from tickwork.core.access.holdings import number_of
from tickwork.core.access.teams import Team
from tickwork.core.instants import second_of
from tickwork.core.ledger.tables import RESOURCES, TEAMS
from tickwork.flows.access import keys
from tickwork.flows.jobs import counting_jobs
from tickwork.ports import Ports


def usage_of(ports: Ports, team: Team) -> dict[str, int | None]:
    """By quota, what is used; None: no quota is set, or nobody has counted yet."""
    quotas, name = team.quotas, team.team
    used: dict[str, int | None] = dict.fromkeys(("creates_per_s", "pending_timers", "jobs", "payload_bytes", "keys"))
    if quotas.creates_per_s:
        used["creates_per_s"] = _granted(ports, name, quotas.creates_per_s)
    if holdings.are_set(quotas):
        held = holdings.held(ports.store.get(TEAMS, holdings.used_key(name)))
        used["pending_timers"] = held.timers if quotas.pending_timers else None
        used["payload_bytes"] = held.payload_bytes if quotas.payload_bytes else None
    if quotas.jobs:
        used["jobs"] = counting_jobs.counted(ports, name)
    if quotas.keys:
        used["keys"] = len(keys.valid_keys(keys.list_keys(ports, name), ports.clock.now_ms()))
    return used


def _granted(ports: Ports, team: str, quota: int) -> int:
    """Of a second, what its counter and its window have given out: of the last whole one, or this one if that is
    more."""
    now_s = second_of(ports.clock.now_ms())
    places = [pacing.second_key(team, now_s - 1), pacing.second_key(team, now_s), pacing.window_key(team, now_s)]
    last, this, window = (item or {} for item in ports.store.get_many(RESOURCES, places))
    taken = max(number_of(last, "taken"), number_of(this, "taken"))
    return min(quota, taken + number_of(window, "lent"))
