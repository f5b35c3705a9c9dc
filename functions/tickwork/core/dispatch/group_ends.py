"""What a window writes of a job that was cancelled with its group: its chain ends, and with it what is due.

A job costs a transaction at each step in any case, so its end is written; of timers, which may be a million, it is not.
Protects chain-unbroken (the job has no next any more, and says why) and one-run: what it has passed never comes again,
should it be registered anew.
"""

from __future__ import annotations

from dataclasses import replace

from tickwork.core.dispatch.chain import chain_unmoved
from tickwork.core.jobs.definitions import CANCELLED, Job, next_attributes
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.epochs import Group
from tickwork.core.ledger.pending import end_pending
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import JOBS
from tickwork.core.ledger.writes import Update, Write


def end_writes(job: Job, due: Run, group: Group, now_ms: int, retention_s: int) -> tuple[Write, ...]:
    """The transaction that ends the chain. One that was started before it was stepped goes on."""
    passed = {"status": CANCELLED, "reason": group.why, "fired_through_ms": due.key.scheduled_at_ms}
    end = Update(JOBS, job.key(), chain_unmoved(job, due.key), set=passed | next_attributes(None))
    if due.status != lifecycle.PENDING:
        return (end,)
    cancel = end_pending(due.key, lifecycle.CANCEL, group.why, now_ms, retention_s)
    return end, replace(cancel, set={**cancel.set, "cancelled_by": group.by})
