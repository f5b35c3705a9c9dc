"""Asking the runs that hold a job to make room, under `cancel_other`: whoever finds that one waits does it.

Who has just buffered one does, and the look at it within a minute; both have read the job, then its holders. Each
holder is a transaction of its own (core/dispatch/giving_way), so that one that cannot be ended keeps none of the
others. A queued one, and one that waits for its retry, end here; a running one learns of it with its next heartbeat,
and holds until its worker says so or its lease has lapsed.
"""

from __future__ import annotations

from tickwork.core.dispatch import giving_way
from tickwork.core.jobs.definitions import Job
from tickwork.core.jobs.overlap import CANCEL_OTHER, Holding, is_given_up
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.writes import Committed
from tickwork.core.runs.endings import Verdict
from tickwork.flows.dispatch.fencing import commit_fenced
from tickwork.flows.dispatch.fired import Fenced, Fired, Firing
from tickwork.flows.ledger import lasts
from tickwork.flows.ledger.reading import read_run
from tickwork.ports import Ports


def ask_to_end(ports: Ports, job: Job, holding: Holding | None, firing: Firing, fired: Fired) -> bool:
    """Ask those that hold a job of which one waits. Whether the job is to be read again: one has ended by it, or was
    not as it was read."""
    if holding is None or job.overlap != CANCEL_OTHER:
        return False
    is_to_be_read = False
    for holder in holding.holders:
        run = read_run(ports, holder.key)
        if run is None or run.ended:
            is_to_be_read = True
            continue
        verdict = giving_way.giving_way(job, run, ports.clock.now_ms(), ports.layout.retention_s)
        if verdict is not None:
            if not firing.keep():
                raise Fenced
            done = isinstance(commit_fenced(ports, verdict.writes, firing, fired), Committed)
            is_to_be_read |= (
                not done or verdict.status != run.status or is_given_up(run.lease_until_ms, ports.clock.now_ms())
            )
            if done:
                _told(ports, run, verdict)
    return is_to_be_read


def _told(ports: Ports, run: Run, verdict: Verdict) -> None:
    """Say it, and note an end where an attempt of it had begun. What waits for it is let go by whoever has asked."""
    ports.signals.count("scheduler.holders_cancelled_total")
    ports.signals.log("run_cancelled", ref=run.key.ref, was=run.status, status=verdict.status, reason=verdict.reason)
    if verdict.status != run.status and run.attempt and not run.key.kind:
        lasts.note_last(ports, run.key, verdict.status, ports.clock.now_ms())
