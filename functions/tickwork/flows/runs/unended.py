"""The runs of a job that have not ended: how many there are, and cancelling them.

What a job's deletion does not touch goes on: runs that were fired, that run, and that wait for a retry. They are
found by the job's index, the newest first, so what is answered is what is known, and says whether it is all. A crash
between two cancellations leaves the others as they are: the call is repeated, and goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tickwork.core.errors import TooLate
from tickwork.core.instants import LATEST_INSTANT_MS
from tickwork.core.jobs.definitions import DELETED
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey, parse_ledger_key
from tickwork.core.ledger.tables import BY_JOB, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.flows.ledger.reading import read_job, read_many
from tickwork.flows.runs import cancelling
from tickwork.ports import Ports

LOOKED_AT_MAX = 1_000
"""Runs of a job that one call looks at, a read unit each: those of a quarter of an hour for a job of every second."""
PAGE = 100
CANCELLED_MAX = 200
"""Runs that one call cancels, each a transaction: well inside the time a call may take."""

SHOWN_AS: Mapping[str, str] = {
    lifecycle.PENDING: lifecycle.QUEUED,
    lifecycle.RUNNING: lifecycle.RUNNING,
    lifecycle.WAITING: lifecycle.WAITING,
}
"""Of a job that has no next occurrence, what is pending was fired."""


@dataclass(slots=True)
class Unended:
    """Runs that have not ended, by how far they are. `more`: there are older ones that were not looked at."""

    runs: dict[str, list[LedgerKey]] = field(default_factory=lambda: {name: [] for name in SHOWN_AS.values()})
    more: bool = False
    told: set[LedgerKey] = field(default_factory=set)
    """Of those that run: the ones that somebody has told to stop."""

    def count(self, status: str) -> int:
        return len(self.runs[status])


@dataclass(slots=True)
class Stopped:
    """What came of cancelling them: ended at once; running, and told to stop; not yet come to."""

    cancelled: int = 0
    told_to_stop: int = 0
    left: int = 0


def unended_of(ports: Ports, job_id: str) -> Unended:
    """The runs of a deleted job that go on, as far as they are known. Where somebody has made it anew meanwhile, what
    the new one fires is not among them."""
    found = Unended()
    job = read_job(ports, job_id)
    anew_after_ms = job.earlier_through_ms if job is not None and job.status != DELETED else LATEST_INSTANT_MS
    position: Item | None = None
    for _ in range(LOOKED_AT_MAX // PAGE):
        rows, position = ports.store.query_index(TIMERS, BY_JOB, job_id, limit=PAGE, after=position, descending=True)
        places: list[Item] = [{"pk": row["pk"], "sk": row["sk"]} for row in rows]
        for item in read_many(ports, TIMERS, places):
            if item is None or item["status"] not in SHOWN_AS:
                continue
            key = parse_ledger_key(str(item["pk"]), str(item["sk"]))
            if key.scheduled_at_ms <= anew_after_ms:
                found.runs[SHOWN_AS[item["status"]]].append(key)
                if item.get("cancel_requested"):
                    found.told.add(key)
        if position is None:
            return found
    found.more = True
    return found


def cancel_unended(ports: Ports, unended: Unended, reason: str) -> Stopped:
    """Cancel these runs wherever they stand. Again goes on with those that were not told before."""
    stopped = Stopped(told_to_stop=len(unended.told))
    keys = [key for some in unended.runs.values() for key in some if key not in unended.told]
    for key in keys[:CANCELLED_MAX]:
        try:
            cancelled = cancelling.cancel_run(ports, key, reason)
        except TooLate:
            continue  # it has ended meanwhile
        stopped.told_to_stop += cancelled.status == lifecycle.RUNNING
        stopped.cancelled += cancelled.status == lifecycle.CANCELLED
    stopped.left = max(0, len(keys) - CANCELLED_MAX)
    return stopped
