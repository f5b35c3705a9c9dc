"""What is due while another run of its job has not ended, and waits until it has: how it comes to wait.

Owns the buffer of a job as its steps write it (`releasing` has how a wait ends), and the item of kind `look` that makes
the end certain. Refuses to know who holds the job. Protects every-end-recorded: whoever buffers a run puts, in the same
transaction, the look at it; decision 147, tests/protocol/overlap.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tickwork.core.instants import ceil_to_second
from tickwork.core.jobs.definitions import Job
from tickwork.core.jobs.overlap import CANCEL_OTHER, OVERLAP, REPLACED, Buffer
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey, parse_ledger_key
from tickwork.core.ledger.kinds import LOOK
from tickwork.core.ledger.pending import end_buffered
from tickwork.core.ledger.records import HeldBy, Look, Run
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.writes import Absent, Is, Put, Update, Write, all_of, any_of

LOOK_AFTER_MS = 50_000
"""Who ends a run looks at once; this is for the time when he has died before it. With the lag of a dispatch it is
within a minute."""


def put_behind(
    job: Job, due: LedgerKey, by: HeldBy | None, now_ms: int, retention_s: int, *, born: Run | None = None
) -> tuple[Buffer, tuple[Write, ...]]:
    """The buffer of a job with an occurrence more, and what is written for it beside the job: the occurrence waits, the
    one before it names it, or ends where this one replaces it. The first has a look at it. `born`: it is made
    with this, for somebody has asked for it."""
    waits = _waits(due, by) if born is None else _born_waiting(born, by)
    if job.buffer is None:
        return Buffer(due, due), (waits, look_at(due, now_ms))
    if job.overlap == CANCEL_OTHER and job.buffer.count == 1:  # more wait only since another policy, and go one by one
        return Buffer(due, due), (waits, end_replaced(job.buffer.first, due, now_ms, retention_s), look_at(due, now_ms))
    # Of one that was cancelled while it waits, too: it is stepped over when its turn comes, and says who is next.
    known = Is("job_id", job.job_id)
    behind = Update(TIMERS, job.buffer.last.as_item(), known, set={"behind": due.ref})
    return replace(job.buffer, last=due, count=job.buffer.count + 1), (waits, behind)


def _waits(due: LedgerKey, by: HeldBy | None) -> Update:
    status = lifecycle.after(lifecycle.PENDING, lifecycle.BUFFER)
    why = {"reason": OVERLAP, "held_by": dict(by or {})}
    return Update(TIMERS, due.as_item(), Is("status", lifecycle.PENDING), set={"status": status, **why})


def _born_waiting(run: Run, by: HeldBy | None) -> Put:
    status = lifecycle.after(lifecycle.ABSENT, lifecycle.BUFFER)
    return Put(TIMERS, replace(run, status=status, reason=OVERLAP, held_by=by).to_item(), Absent())


def end_replaced(waiting: LedgerKey, by: LedgerKey, now_ms: int, retention_s: int) -> Update:
    """End one that waits, for a newer one is to have its place."""
    end = end_buffered(waiting, lifecycle.SKIP, REPLACED, now_ms, retention_s)
    return replace(end, set={**end.set, "replaced_by": by.occurrence})


def look_at(run: LedgerKey, now_ms: int) -> Put:
    """A look at a run that waits. One of the same second, of a clock that was put back, has been spent; or it is this
    run's as well, for whoever repeats a request has another look at what waits since the first."""
    key = look_key(run, now_ms)
    its_own = all_of(Is("status", lifecycle.PENDING), Is("run_ref", run.ref))
    return Put(TIMERS, Look(key, run.ref).to_item(), any_of(Absent(), Is("status", lifecycle.SPENT), its_own))


def look_key(run: LedgerKey, now_ms: int) -> LedgerKey:
    return replace(run, fire_at_ms=ceil_to_second(now_ms + LOOK_AFTER_MS), kind=LOOK)


def look_among(writes: Sequence[Write]) -> LedgerKey | None:
    """The look that a transaction puts."""
    keys = [parse_ledger_key(str(one.item["pk"]), str(one.item["sk"])) for one in writes if isinstance(one, Put)]
    return next((key for key in keys if key.kind == LOOK), None)
