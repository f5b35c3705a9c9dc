"""`cancel_other`: what asks the runs that hold a job to make room for the one that waits (F9).

Protects that nothing is cancelled for nobody: each write compares the whole of what the job says, so that one waits,
under this policy, and nobody has made the run a holder anew since (a replay, once what waited has gone). What waits is
buffered first: a crash between the two leaves it waiting, and the look at it asks. Decision 163.
"""

from __future__ import annotations

from dataclasses import replace

from tickwork.core.jobs import overlap
from tickwork.core.jobs.changes import as_read
from tickwork.core.jobs.definitions import Job
from tickwork.core.jobs.overlap import CANCEL_OTHER
from tickwork.core.ledger.lifecycle import BUFFERED
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.writes import Check, Is, all_of
from tickwork.core.runs.cancellations import decide_giving_way
from tickwork.core.runs.endings import Verdict


def giving_way(job: Job, run: Run, now_ms: int, retention_s: int) -> Verdict | None:
    """The transaction by which `run`, which holds the job, gives way to the newest that waits; None where nobody asks
    it to: nothing waits under that policy, it has ended, or it was asked before."""
    if job.overlap != CANCEL_OTHER or job.buffer is None:
        return None
    why = f"cancel_other: {job.buffer.last.occurrence} is due"
    verdict = decide_giving_way(run, why, now_ms, retention_s)
    if verdict is None:
        return None
    unmoved = all_of(as_read(job), *overlap.as_read(job.holders, job.held_through_ms, job.buffer))
    # Somebody may have cancelled the one that waits, and not have come to have its job forget it.
    still_waits = Check(TIMERS, job.buffer.last.as_item(), Is("status", BUFFERED))
    return replace(verdict, writes=(Check(JOBS, job.key(), unmoved), still_waits, *verdict.writes))
