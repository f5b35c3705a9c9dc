"""Cancelling runs, also those in flight (W11).

Protects cancelled-stays and chain-unbroken: cancelling the pending occurrence of a job moves its chain on in the
same transaction, and then follows the creator's rule like whoever else writes a next item without a fence. A crash
before the write changes nothing; one after it leaves a next item that a repeat sees to, and that the audit finds.
"""

from __future__ import annotations

from dataclasses import dataclass

from tickwork.core.dispatch import chain
from tickwork.core.errors import Conflict, NotFound, TooLate
from tickwork.core.jobs import occurrences
from tickwork.core.jobs.definitions import ACTIVE, DELETED, Job
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.writes import Committed
from tickwork.core.runs.cancellations import decide_cancel
from tickwork.core.runs.endings import Verdict
from tickwork.flows.access import quotas
from tickwork.flows.access.recording_jobs import recorded_job
from tickwork.flows.dispatch import creating, freeing
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.reading import read_job, read_job_to_plan, read_run
from tickwork.flows.ledger.teams import note_teams
from tickwork.flows.runs import finishing
from tickwork.flows.runs.naming import place_by_job
from tickwork.ports import Ports

CANCEL_TRIES_MAX = 5
"""Each lost race moves the run on, and it has few places to go."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """`status` is cancelled, or running while its worker has still to learn of it (`requested`). `reason`: as it
    stands in the record, so that a repeat learns whose cancellation it was."""

    run: Run
    status: str
    requested: bool
    reason: str


def cancel_run(ports: Ports, key: LedgerKey, reason: str) -> Cancelled:
    """Cancel a run wherever it stands; again is a no-op. NotFound, or TooLate when it has ended otherwise. One that a
    change of its job has moved is cancelled where it is now: the answer is about the run, not about an item."""
    for _ in range(CANCEL_TRIES_MAX):
        cancelled = _cancel_item(ports, key, reason)
        if cancelled.status != lifecycle.CANCELLED or "~" in key.name or key.kind:
            return cancelled
        moved = place_by_job(ports, key.job_id, key.scheduled_at_ms)
        if moved is not None and moved != key:
            key = moved
        elif _stays_cancelled(ports, key):
            return cancelled
    raise Conflict(f"run {key.ref} was moved {CANCEL_TRIES_MAX} times meanwhile")


def _stays_cancelled(ports: Ports, key: LedgerKey) -> bool:
    """See to it that an occurrence which is to come, and was given up by a change of its job, is not brought back by
    another change: somebody has asked for that now. False when the job has moved meanwhile."""
    job = read_job(ports, key.job_id)
    if job is None or job.status == DELETED or key.scheduled_at_ms in job.cancelled:
        return True
    # Of a chain that is behind, what has been due for long may be to come.
    is_behind = job.next is not None and job.next.scheduled_at_ms < key.scheduled_at_ms
    if key.scheduled_at_ms <= (job.fired_through_ms if is_behind else max(job.fired_through_ms, ports.clock.now_ms())):
        return True
    _refuse_too_many(job)
    changed = chain.with_cancelled(job, key.scheduled_at_ms)
    changed, entry = recorded_job(ports, job, changed, "occurrence_cancelled")
    return isinstance(commit(ports, chain.cancel_ahead(job, changed), entry), Committed)


def _refuse_too_many(job: Job) -> None:
    if len(chain.cancelled_ahead(job)) >= chain.CANCELLED_AHEAD_MAX:
        raise TooLate(
            f"{chain.CANCELLED_AHEAD_MAX} coming occurrences are cancelled already: pause the job instead",
            field="scheduled_at",
            remedy="pause it until the first that is to run again",
        )


def _cancel_item(ports: Ports, key: LedgerKey, reason: str) -> Cancelled:
    for _ in range(CANCEL_TRIES_MAX):
        run = read_run(ports, key)
        if run is None:
            raise NotFound("there is no such run", field="ref", remedy="check the ref; ended runs are kept for a time")
        verdict = decide_cancel(run, reason, ports.clock.now_ms(), ports.layout.retention_s)
        if verdict is None:
            if run.status == lifecycle.CANCELLED and run.is_recurring:
                _see_to_next(ports, key)
            if run.status == lifecycle.CANCELLED:
                quotas.give_back(ports, run)
            return _standing(run)
        if _carry_out(ports, run, verdict):
            if verdict.status == lifecycle.CANCELLED and key.fire_at_ms <= ports.clock.now_ms():
                note_teams(ports, [key.team])
            if verdict.status == lifecycle.CANCELLED:
                quotas.give_back(ports, run)
            if run.attempt and verdict.status == lifecycle.CANCELLED:
                finishing.note_end(ports, key, verdict.status, verdict.reason, ports.clock.now_ms())
            elif run.is_of_job and not run.beside and verdict.status == lifecycle.CANCELLED:
                freeing.free_job(ports, key.job_id)  # it was dispatched, or waited itself
            ports.signals.log(
                "run_cancelled", ref=key.ref, was=run.status, status=verdict.status, reason=verdict.reason
            )
            return Cancelled(run, verdict.status, verdict.status == lifecycle.RUNNING, verdict.reason)
    raise Conflict(f"run {key.ref} moved {CANCEL_TRIES_MAX} times meanwhile")


def _see_to_next(ports: Ports, key: LedgerKey) -> None:
    """An earlier try has cancelled the job's pending occurrence, and may have died, or lost the reply, before it saw to
    the one after it: who is answered now is told that all is well."""
    job = read_job(ports, key.job_id)
    if job is not None and job.status == ACTIVE and key.scheduled_at_ms in job.cancelled:
        upcoming = job.next_key(ports.layout.home)
        creating.follow_up(ports, [] if upcoming is None else [upcoming])


def _standing(run: Run) -> Cancelled:
    if run.status == lifecycle.CANCELLED or run.cancel_requested:
        return Cancelled(run, run.status, bool(run.cancel_requested), run.cancel_requested or run.reason)
    raise TooLate(
        f"the run is {run.status} and cannot be cancelled any more",
        field="ref",
        remedy="only a run that has not ended can be cancelled",
    )


def _carry_out(ports: Ports, run: Run, verdict: Verdict) -> bool:
    if run.status == lifecycle.PENDING and run.is_recurring:
        job = read_job_to_plan(ports, run.key.job_id)
        if job is not None and job.status == ACTIVE and job.next_key(ports.layout.home) == run.key:
            return _cancel_next(ports, job, run.key, verdict.reason)
    return isinstance(finishing.commit_end(ports, verdict.writes), Committed)


def _cancel_next(ports: Ports, job: Job, due: LedgerKey, reason: str) -> bool:
    """The run is the job's pending occurrence: the chain goes on after it."""
    _refuse_too_many(job)
    now_ms = ports.clock.now_ms()
    upcoming = occurrences.following(job, due.scheduled_at_ms, ports.layout.shards)
    keys = [] if upcoming is None else [job.occurrence_key(ports.layout.home, upcoming)]
    creating.prepare_slices(ports, keys)
    writes = chain.cancel_next(job, due, upcoming, reason, now_ms, ports.layout.retention_s)
    if not isinstance(commit(ports, *writes), Committed):
        return False
    creating.follow_up(ports, keys)
    return True
