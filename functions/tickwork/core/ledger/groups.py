"""Groups: a label of a team's jobs and timers, and the sparse indexes by which what bears one is listed.

An item says its group in `group`, and stands in the index by `grouped`: of a timer the partition is the group and one
of `SPREAD`, for a bulk call creates them by the thousand; of a job it is the group alone. What bears no label is in
neither index, and pays nothing. Refuses to know what becomes of a group.
"""

from __future__ import annotations

from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import BY_GROUP, JOBS_BY_GROUP
from tickwork.core.ledger.writes import Item

SPREAD = 8
"""Partitions of a group's timers in the index: one takes a thousand writes a second, and an index that is throttled
holds up the ledger's own writes. A list of them asks each."""

GROUPED = BY_GROUP.partition_key
"""The same attribute in both tables."""

assert JOBS_BY_GROUP.partition_key == GROUPED

NAME = r"^[a-z0-9][a-z0-9._-]{0,62}$"
"""What a group may be called, for whoever reads requests."""


def jobs_partition(team: str, group: str) -> str:
    return f"{team}#{group}"


def timers_partitions(team: str, group: str) -> tuple[str, ...]:
    return tuple(f"{team}#{group}#{spread}" for spread in range(SPREAD))


def timer_marks(key: LedgerKey, group: str) -> Item:
    """What puts a timer into the index; nothing where it has no group."""
    if not group:
        return {}
    partitions = timers_partitions(key.team, group)
    spread = int(key.run_id[:8], 16) % len(partitions)
    return {GROUPED: partitions[spread], BY_GROUP.sort_key: key.scheduled_at_ms}


def job_marks(team: str, group: str) -> Item:
    return {GROUPED: jobs_partition(team, group)} if group else {}
