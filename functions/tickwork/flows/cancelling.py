"""Cancelling runs, also those in flight (W11).

Protects cancelled-stays and chain-unbroken: cancelling the pending occurrence of a job moves its chain on in the
same transaction, and then follows the creator's rule like whoever else writes a next item without a fence. A crash
before the write changes nothing; one after it leaves a next item that the ledger audit finds.
"""

from __future__ import annotations

from dataclasses import dataclass

from tickwork.core import chain, lifecycle
from tickwork.core.cancelling import decide_cancel
from tickwork.core.endings import Verdict
from tickwork.core.errors import Conflict, NotFound, TooLate
from tickwork.core.keys import LedgerKey, parse_ledger_key
from tickwork.core.records import ACTIVE, Job, Run
from tickwork.core.tables import BY_JOB, JOBS, TIMERS
from tickwork.core.writes import Committed, Item
from tickwork.flows import calendars, creating, ending, timers
from tickwork.flows.commit import commit
from tickwork.ports import Ports

SAME_INSTANT_MAX = 20
"""Items of one nominal instant that are looked at: one for each time its job was deleted and made anew before it."""

CANCEL_TRIES_MAX = 5
"""Each lost race moves the run on, and it has few places to go."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """`status` is cancelled, or running while its worker has still to learn of it (`requested`)."""

    run: Run
    status: str
    requested: bool


def find_run(ports: Ports, job_id: str, scheduled_at_ms: int | None) -> LedgerKey:
    """The place of a job's run by its nominal instant, or of a one-shot's by its id alone. NotFound without one."""
    if scheduled_at_ms is None:
        return timers.timer_place(job_id)
    position = {"job_id": job_id, "scheduled_at_ms": scheduled_at_ms + 1, "pk": " ", "sk": " "}
    rows, _ = ports.store.query_index(TIMERS, BY_JOB, job_id, limit=SAME_INSTANT_MAX, after=position, descending=True)
    places: list[Item] = [
        {"pk": row["pk"], "sk": row["sk"]} for row in rows if row["scheduled_at_ms"] == scheduled_at_ms
    ]
    if not places:
        raise NotFound(
            f"job {job_id!r} has no run of that time",
            field="scheduled_at",
            remedy="give the nominal time of one of its runs (GET /jobs/{id}/runs shows them)",
        )
    # A job that was deleted and made anew with another tolerance leaves a cancelled item beside the one that counts.
    found = [item for item in ports.store.get_many(TIMERS, places) if item is not None]
    live = [item for item in found if item["status"] != lifecycle.CANCELLED]
    place = next(iter(live or found), places[0])
    return parse_ledger_key(str(place["pk"]), str(place["sk"]))


def cancel_run(ports: Ports, key: LedgerKey, reason: str) -> Cancelled:
    """Cancel a run wherever it stands; again is a no-op. NotFound, or TooLate when it has ended otherwise."""
    for _ in range(CANCEL_TRIES_MAX):
        item = ports.store.get(TIMERS, key.as_item())
        if item is None:
            raise NotFound("there is no such run", field="ref", remedy="check the ref; ended runs are kept for a time")
        run = Run.from_item(item)
        verdict = decide_cancel(run, reason, ports.clock.now_ms(), ports.layout.retention_s)
        if verdict is None:
            return _standing(run)
        if _carry_out(ports, run, verdict):
            if run.attempt and verdict.status == lifecycle.CANCELLED:
                ending.note_end(ports, key, verdict.status, verdict.reason, ports.clock.now_ms())
            ports.signals.log(
                "run_cancelled", ref=key.ref, was=run.status, status=verdict.status, reason=verdict.reason
            )
            return Cancelled(run, verdict.status, verdict.status == lifecycle.RUNNING)
    raise Conflict(f"run {key.ref} moved {CANCEL_TRIES_MAX} times meanwhile")


def _standing(run: Run) -> Cancelled:
    if run.status == lifecycle.CANCELLED or run.cancel_requested:
        return Cancelled(run, run.status, bool(run.cancel_requested))
    raise TooLate(
        f"the run is {run.status} and can not be cancelled any more",
        field="ref",
        remedy="only a run that has not ended can be cancelled",
    )


def _carry_out(ports: Ports, run: Run, verdict: Verdict) -> bool:
    if run.status == lifecycle.PENDING and run.is_recurring:
        item = ports.store.get(JOBS, {"job_id": run.key.job_id})
        (job,) = calendars.equip(ports, [Job.from_item(item)]) if item is not None else (None,)
        if job is not None and job.status == ACTIVE and job.next_key(run.key.cell) == run.key:
            return _cancel_next(ports, job, run.key, verdict.reason)
    return isinstance(ending.commit_end(ports, verdict.writes), Committed)


def _cancel_next(ports: Ports, job: Job, due: LedgerKey, reason: str) -> bool:
    """The run is the job's pending occurrence: the chain goes on after it."""
    now_ms = ports.clock.now_ms()
    upcoming = chain.following(job, due.scheduled_at_ms, ports.layout.shards)
    keys = [] if upcoming is None else [job.occurrence_key(due.cell, upcoming)]
    creating.prepare_slices(ports, keys)
    writes = chain.cancel_next(job, due, upcoming, reason, now_ms, ports.layout.retention_s)
    if not isinstance(commit(ports, *writes), Committed):
        return False
    creating.follow_up(ports, keys)
    return True
