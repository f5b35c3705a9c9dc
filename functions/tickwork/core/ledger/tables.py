"""The tables, as values: what infra creates, what the local endpoint gets, what the stores know.

One place, so that a table cannot be spelled in two ways. Key *contents* are in `keys.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

SORT_KEY_BYTES_MAX = 1_024
"""DynamoDB's bound. Ours are ASCII, and shorter by far; but what a client hands back might not be ours."""


@dataclass(frozen=True, slots=True)
class Index:
    """A global secondary index that projects keys only: what it finds is then read from the table."""

    name: str
    partition_key: str
    sort_key: str
    sort_key_type: str = "S"


@dataclass(frozen=True, slots=True)
class Table:
    """A DynamoDB table: on demand, encrypted, with point-in-time recovery; `ttl` names its expiry attribute."""

    name: str
    partition_key: str
    sort_key: str | None = None
    ttl: str | None = None
    indexes: tuple[Index, ...] = ()

    def key_of(self, item: dict[str, object]) -> tuple[str, str]:
        """(partition key, sort key or '') of an item."""
        return str(item[self.partition_key]), str(item[self.sort_key]) if self.sort_key else ""


BY_JOB = Index("by_job", "job_id", "scheduled_at_ms", "N")
BY_TEAM = Index("by_team", "team", "job_id")
BY_GROUP = Index("by_group", "grouped", "scheduled_at_ms", "N")
"""Sparse: timers that bear the label of a group (`ledger/groups.py`), by when they are due."""
JOBS_BY_GROUP = Index("by_group", "grouped", "job_id")
CALENDARS_BY_TEAM = Index("by_team", "team", "calendar_id")
KEYS_BY_TEAM = Index("by_team", "team", "key_id")
ENTRIES_BY_TEAM = Index("by_team", "team", "at_ms", "N")
"""Of the audit's entries by their time. Seals name no team, and so are in no list."""
BAD_ENDS = Index("by_dead_letter", "dead_letter", "ended_at_ms", "N")
"""Sparse: an item is in it while its run has ended badly (`ends.BAD`), and only then. Runs that succeed never write to
it. It keeps the name from when it held dead runs only: a deployment may create one index at a time, and old and new
versions share this one (decision 104)."""

TIMERS = Table("timers", "pk", "sk", ttl="expires_at_s", indexes=(BY_JOB, BAD_ENDS, BY_GROUP))
JOBS = Table("jobs", "job_id", ttl="expires_at_s", indexes=(BY_TEAM, JOBS_BY_GROUP))
LEASES = Table("leases", "slice")
SET_ASIDE = Table("set_aside", "slice", "who")
CLIENT_KEYS = Table("client_keys", "client_key", ttl="expires_at_s")
CALENDARS = Table("calendars", "calendar_id", indexes=(CALENDARS_BY_TEAM,))
PAYLOADS = Table("payloads", "payload_id", ttl="expires_at_s")
RESOURCES = Table("resources", "resource", "slot", ttl="expires_at_s")
PASSES = Table("passes", "pass", "place")
TEAMS = Table("teams", "cell", "team")
JOB_VERSIONS = Table("job_versions", "job_id", "place", ttl="expires_at_s")
KEYS = Table("keys", "key_id", ttl="expires_at_s", indexes=(KEYS_BY_TEAM,))
AUDIT = Table("audit", "stream", "place", ttl="expires_at_s", indexes=(ENTRIES_BY_TEAM,))

ALL_TABLES = (
    TIMERS,
    JOBS,
    LEASES,
    SET_ASIDE,
    CLIENT_KEYS,
    CALENDARS,
    PAYLOADS,
    RESOURCES,
    PASSES,
    TEAMS,
    JOB_VERSIONS,
    KEYS,
    AUDIT,
)
TABLES_BY_NAME = {table.name: table for table in ALL_TABLES}
