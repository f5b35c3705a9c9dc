"""How many jobs a team has, where it has a quota of them: a counter that moves in the transaction of each new job.

It is counted anew once a day, by who registers a job then: so what an older version registers or deletes, and what a
crash leaves uncounted, is right again within a day. Protects: a job over the quota is not registered, and one that
cannot be counted is.
"""

from __future__ import annotations

from tickwork.core.access import holdings
from tickwork.core.access.holdings import number_of
from tickwork.core.errors import QuotaExceeded, WorldError
from tickwork.core.instants import DAY_MS
from tickwork.core.jobs.definitions import DELETED
from tickwork.core.ledger.tables import BY_TEAM, JOBS, TEAMS
from tickwork.core.ledger.values import WHOLE_MAX
from tickwork.core.ledger.writes import Below, Condition, Is, Item, Missing, Update
from tickwork.flows.access import quotas
from tickwork.flows.access.quotas import Near
from tickwork.flows.ledger.reading import read_many
from tickwork.ports import Ports

PAGE, PAGES_MAX = 100, 200
"""Of jobs that are counted at once. A team with more keeps what its counter says."""


def coming(ports: Ports, team: str) -> Update | None:
    """The write that counts one job more, where there is room for it. None: the team has no quota, or it cannot be
    counted."""
    quota = quotas.quotas_of(ports, team).jobs
    if not quota:
        return None
    try:
        if not _has_counter_of_today(ports, team):
            quotas.not_counted(ports, team, None)
            return None
    except WorldError as error:
        quotas.not_counted(ports, team, error)
        return None
    return Update(TEAMS, counter_key(team), Below("jobs", quota), add={"jobs": 1})


def gone(ports: Ports, team: str) -> None:
    """Count one job less. Tried only: the day's counting finds it else."""
    try:
        if quotas.quotas_of(ports, team).jobs:
            ports.store.commit([Update(TEAMS, counter_key(team), Below("jobs", WHOLE_MAX), add={"jobs": -1})])
    except WorldError as error:
        quotas.not_counted(ports, team, error)


def full(ports: Ports, team: str) -> QuotaExceeded:
    return QuotaExceeded(team, "jobs", quotas.quotas_of(ports, team).jobs, retry_after_s=quotas.HELD_AGAIN_S)


def counted(ports: Ports, team: str) -> int | None:
    """How many jobs a team has by its counter; None: nobody has counted."""
    item = _counter(ports, team)
    return max(0, number_of(item, "jobs")) if item is not None and "jobs" in item else None


def near(ports: Ports, team: str) -> list[Near]:
    """Whether most of a team's quota of jobs is used."""
    try:
        quota = quotas.quotas_of(ports, team).jobs
        used = (counted(ports, team) or 0) if quota else 0
    except WorldError:
        return []
    return [Near("jobs", used, quota)] if quota and quotas.is_near(used, quota) else []


def counter_key(team: str) -> Item:
    return {"cell": holdings.USED, "team": f"{team}#jobs"}


def _counter(ports: Ports, team: str) -> Item | None:
    return ports.store.get(TEAMS, counter_key(team))


def _has_counter_of_today(ports: Ports, team: str) -> bool:
    """Whether there is a counter; one that was not counted today is counted first, where it can be."""
    item, today = _counter(ports, team) or {}, ports.clock.now_ms() // DAY_MS
    if "jobs" in item and number_of(item, "day") >= today:
        return True
    found = _count(ports, team)
    if found is None:
        return "jobs" in item
    unmoved: Condition = Is("jobs", number_of(item, "jobs")) if "jobs" in item else Missing("jobs")
    # Refused: a job has come or gone meanwhile, so the counter is there, and the next one counts again.
    ports.store.commit([Update(TEAMS, counter_key(team), unmoved, set={"jobs": found, "day": today})])
    return True


def _count(ports: Ports, team: str) -> int | None:
    total = 0
    after: Item | None = None
    for _ in range(PAGES_MAX):
        keys, after = ports.store.query_index(JOBS, BY_TEAM, team, limit=PAGE, after=after, descending=False)
        found = read_many(ports, JOBS, [{"job_id": key["job_id"]} for key in keys])
        total += len([item for item in found if item is not None and item.get("status") != DELETED])
        if after is None:
            return total
    return None
