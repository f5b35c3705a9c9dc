"""The chain of a recurring job: what becomes of the occurrence that is due, and which one is next.

Protects chain-unbroken, one-run and every-end-recorded. The next item is written in the same transaction that
moves the job's `next` (a compare-and-set), before the current one is passed: a crash anywhere repeats, never skips.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tickwork.core.dispatch import buffering
from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs import overlap
from tickwork.core.jobs.changes import as_read
from tickwork.core.jobs.definitions import ACTIVE, CatchUp, Job, Next, next_attributes
from tickwork.core.jobs.occurrences import UNSTARTED, ended_attributes, following, materialise, planned_with
from tickwork.core.jobs.overlap import (
    BUFFER_ALL,
    BUFFER_FULL,
    CANCEL_OTHER,
    HELD_UP,
    OVERLAP,
    REPLACED,
    Holder,
    Holding,
)
from tickwork.core.jobs.pauses import LATEST, Pause, is_over, kept_at
from tickwork.core.jobs.skips import ahead as skips_ahead
from tickwork.core.jobs.skips import left_out_at
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.ends import ended
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.pending import end_pending
from tickwork.core.ledger.records import HeldBy, Run
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.writes import AllOf, Is, Item, Put, Update, Write, all_of

OUTAGE_AFTER_MS = 60_000
"""An occurrence later than this was missed in an outage, and the job's catch-up policy decides. Up to here it is
only late, and fires: otherwise a job of every second would lose runs to each small lag."""

PUNCTUAL_MS = 5_000
"""The objective for the lag of a dispatch. Behind others that were missed, an occurrence that is later was missed with
them, and one that is not came due when somebody was there to fire it."""

SKIPS_PER_STEP_MAX = 35
"""Missed occurrences recorded by one transaction; a longer outage takes more steps. A step ends there only where what
it leaves is late enough to be told as missed: the step that follows knows of no outage but by that."""

SKIPS_OF_LAST_STEP_MAX = SKIPS_PER_STEP_MAX + OUTAGE_AFTER_MS // SECOND_MS + 1
"""So the last step takes what is left, of a job of every second too. With the job, the next item and the fence they
are 99 of the 100 writes that a transaction may have."""

LAST_N_MAX = 100

CANCELLED_AHEAD_MAX = 60
"""Occurrences of a job that may be cancelled before their time: they stand in its definition, which each firing
writes. For more there is the pause."""

SKIPPED_OUTAGE = "skipped_outage"
TOO_LATE = "too_late"


@dataclass(frozen=True, slots=True)
class Skipped:
    at: Next
    reason: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step along the chain: the occurrences that are skipped (the due one first), whether the due one fires,
    and the one that is pending afterwards (None: the schedule is exhausted). `holding`: the runs that held the job, as
    they were read; None: nothing is put down of them. `buffers`: the due one waits until the job is free."""

    fires: bool
    skipped: tuple[Skipped, ...]
    next: Next | None
    holding: Holding | None = None
    buffers: bool = False


def plan_step(
    job: Job, due: Next, now_ms: int, shards: int, holding: Holding | None = None, *, has_waited: bool = False
) -> Step:
    """What becomes of `due`: fire it; or skip it, and those after it that are due too, because the job was paused then,
    because its catch-up policy says so, or because another run holds it; or, under a policy that has one wait, keep it
    back. `holding`: None where runs may overlap. `has_waited`: it is late because it was held back (`bounds`), and was
    not missed."""
    is_outage = _is_missed(due, now_ms) and not has_waited
    skipped: list[Skipped] = []
    current: Next | None = due
    while current is not None and (not skipped or current.fire_at_ms <= now_ms):
        if len(skipped) >= (SKIPS_PER_STEP_MAX if _is_missed(current, now_ms) else SKIPS_OF_LAST_STEP_MAX):
            break
        left_out = left_out_at(job.pauses, job.skips, current.scheduled_at_ms)
        if left_out is not None:
            reason: str | None = left_out.skip_reason
        else:
            reason = _why_skip(job, current, now_ms, shards, is_outage=is_outage)
            if reason is None and _is_replaced(job, current, now_ms, shards):
                reason = REPLACED
            if reason is None and _held_up(job, holding) is not None:
                if is_room(job):
                    break
                reason = BUFFER_FULL if job.overlap == BUFFER_ALL else OVERLAP
        if reason is None:
            break
        skipped.append(Skipped(current, reason))
        current = next_after(job, current, shards)
    if skipped:
        return Step(False, tuple(skipped), current, holding)
    waits = _held_up(job, holding) is not None
    return Step(not waits, (), next_after(job, due, shards), holding, buffers=waits)


def next_after(job: Job, passed: Next, shards: int) -> Next | None:
    """What a step puts behind an occurrence: never before it in the ledger, where a cursor may have gone by, though the
    job was given less jitter, or another schedule, since the one that is passed was planned (cursor-honest)."""
    found = following(job, passed.scheduled_at_ms, shards)
    return found and replace(found, fire_at_ms=max(found.fire_at_ms, passed.fire_at_ms))


def _held_up(job: Job, holding: Holding | None) -> HeldBy | None:
    """What keeps the occurrence that is due from firing: the newest of the runs that hold the job, or the oldest that
    waits, for nothing overtakes it."""
    if holding is None:
        return None
    return holding.by or (job.buffer.by if job.buffer is not None else None)


def is_room(job: Job) -> bool:
    """Whether one more may wait until the job is free. Where a newer one replaces what waits, it may."""
    return job.overlap == CANCEL_OTHER or (job.buffer.count if job.buffer is not None else 0) < job.buffered_max


def _is_replaced(job: Job, due: Next, now_ms: int, shards: int) -> bool:
    """Whether it would only be cancelled for a newer one that is due already: then it does not start at all."""
    return job.overlap == CANCEL_OTHER and _has_due_successors(job, due, 1, now_ms, shards)


def _is_missed(due: Next, now_ms: int) -> bool:
    return now_ms - due.fire_at_ms > OUTAGE_AFTER_MS


def _why_skip(job: Job, missed: Next, now_ms: int, shards: int, *, is_outage: bool) -> str | None:
    """A bound on lateness is the job's own, and holds outage or not. `none` is about what was missed: an occurrence
    that is punctual fires, also behind others that were missed."""
    kept = kept_at(job.pauses, missed.scheduled_at_ms)
    if kept is not None:  # it is late because it had to wait, and what becomes of it was said then
        return _why_skip_kept(job, kept, missed, now_ms, shards)
    policy: CatchUp = job.catch_up
    late_ms = now_ms - missed.fire_at_ms
    if policy.max_lateness_s and late_ms > policy.max_lateness_s * SECOND_MS:
        return TOO_LATE
    if not is_outage or policy.policy == "all":
        return None
    if policy.policy == "none":
        return SKIPPED_OUTAGE if late_ms > PUNCTUAL_MS else None
    newest = 1 if policy.policy == "latest" else policy.last
    return SKIPPED_OUTAGE if _has_due_successors(job, missed, newest, now_ms, shards) else None


def _why_skip_kept(job: Job, kept: Pause, waiting: Next, now_ms: int, shards: int) -> str | None:
    """Of what a pause has kept for its end. While it lasts nobody knows which is the newest: who fires then, without
    the right of a lease, fires; its start waits."""
    if kept.at_resume != LATEST or not is_over(kept, now_ms):
        return None
    successor = _following_unpaused(job, waiting, shards)
    is_newest = successor is None or successor.scheduled_at_ms >= kept.until_ms
    return None if is_newest else kept.skip_reason


def _has_due_successors(job: Job, missed: Next, count: int, now_ms: int, shards: int) -> bool:
    current = missed
    for _ in range(min(count, LAST_N_MAX)):
        successor = _following_unpaused(job, current, shards)
        if successor is None or successor.fire_at_ms > now_ms:
            return False
        current = successor
    return True


def _following_unpaused(job: Job, current: Next, shards: int) -> Next | None:
    """The occurrence after one, leaving out those that are skipped, or that a pause covers: each pause is stepped over
    at once."""
    successor = following(job, current.scheduled_at_ms, shards)
    while successor is not None:
        left_out = left_out_at(job.pauses, job.skips, successor.scheduled_at_ms)
        if left_out is None:
            break
        if isinstance(left_out, Pause) and not left_out.until_ms:
            return None
        passed_ms = left_out.until_ms - 1 if isinstance(left_out, Pause) else left_out.at_ms
        successor = following(job, passed_ms, shards)
    return successor


def step_writes(job: Job, due: LedgerKey, step: Step, now_ms: int, retention_s: int) -> tuple[Write, ...]:
    """The transaction of a step: the job's `next` (compare-and-set), the records of what is skipped, the next item."""
    passed = step.skipped[-1].at.scheduled_at_ms if step.skipped else due.scheduled_at_ms
    changes = next_attributes(step.next) | {"fired_through_ms": passed, "planned_with": planned_with(job)}
    if step.next is None:
        changes |= ended_attributes(job, passed)
    ahead = [at_ms for at_ms in job.cancelled if at_ms > passed]
    changes |= {"cancelled": ahead} if ahead else {}
    skips = skips_ahead(job.skips, passed)
    changes |= {"skips": [skip.to_item() for skip in skips]} if skips and skips != job.skips else {}
    changes |= _holders_after(due, step, passed)
    kept_back: tuple[Write, ...] = ()
    if step.buffers:
        buffer, kept_back = buffering.put_behind(job, due, _held_up(job, step.holding), now_ms, retention_s)
        changes |= overlap.buffered(buffer)
    gone = {"cancelled"} if job.cancelled and not ahead else set()
    gone |= {"skips"} if job.skips and not skips else set()
    gone |= {"holders"} if step.holding is not None and job.holders else set()
    remove = tuple(sorted(gone - changes.keys()))
    writes: list[Write] = [Update(JOBS, job.key(), chain_unmoved(job, due), set=changes, remove=remove)]
    for skipped in step.skipped:
        key = job.occurrence_key(due.cell, skipped.at)
        if key == due:
            end = end_pending(key, lifecycle.SKIP, skipped.reason, now_ms, retention_s)
            writes.append(replace(end, set={**end.set, **_because_of(job, due.cell, step, skipped)}))
        else:
            unborn = lifecycle.after(lifecycle.ABSENT, lifecycle.SKIP)
            why = ended(key, unborn, skipped.reason, now_ms, retention_s)
            why |= _because_of(job, due.cell, step, skipped)
            writes.append(Put(TIMERS, Run(key, unborn).to_item() | why, UNSTARTED))
    if step.next is not None:
        writes.append(materialise(job, job.occurrence_key(due.cell, step.next), now_ms))
    return (*writes, *kept_back)


def _holders_after(due: LedgerKey, step: Step, passed_ms: int) -> Item:
    """What the job names as its holders after a step. Where not all were found, what they are is looked for again."""
    if step.holding is None:
        return {}
    held = {"held_through_ms": passed_ms} if step.fires or step.holding.is_whole else {}
    return held | overlap.written((Holder(due),) if step.fires else step.holding.holders)


def _because_of(job: Job, home: str, step: Step, skipped: Skipped) -> Item:
    """Beside the reason, which run it was that held the job, or has come in its place."""
    if skipped.reason == REPLACED and step.next is not None:
        return {"replaced_by": job.occurrence_key(home, step.next).occurrence}
    by = _held_up(job, step.holding)
    return {"held_by": dict(by)} if by is not None and skipped.reason in HELD_UP else {}


def cancel_next(
    job: Job, due: LedgerKey, following_next: Next | None, reason: str, now_ms: int, retention_s: int
) -> tuple[Write, ...]:
    """The transaction that cancels a job's pending occurrence and moves its chain on (chain-unbroken).

    It is this occurrence that is cancelled, and not the time until it: what another schedule has before it still runs.
    """
    changes = next_attributes(following_next) | {"cancelled": [*cancelled_ahead(job), due.scheduled_at_ms]}
    if following_next is None:
        changes |= ended_attributes(job, due.scheduled_at_ms)
    move = Update(JOBS, job.key(), chain_unmoved(job, due), set=changes)
    cancel = end_pending(due, lifecycle.CANCEL, reason, now_ms, retention_s)
    if following_next is None:
        return move, cancel
    return move, cancel, materialise(job, job.occurrence_key(due.cell, following_next), now_ms)


def with_cancelled(job: Job, scheduled_at_ms: int) -> Job:
    """The job with an occurrence cancelled that no item stands for: a change has given it up, and another may bring it
    back. The version moves, so that a step or a change that was planned without it is refused."""
    return replace(job, cancelled=(*cancelled_ahead(job), scheduled_at_ms), version=job.version + 1)


def cancel_ahead(job: Job, changed: Job) -> Update:
    """The write that makes of a job, as it was read, what `with_cancelled` has made of it."""
    changes = {"cancelled": list(changed.cancelled), "version": changed.version, "audit_head": changed.audit_head}
    return Update(JOBS, job.key(), as_read(job), set=changes)


def cancelled_ahead(job: Job) -> list[int]:
    """What was cancelled of a job before its time, and is not passed yet."""
    return [at_ms for at_ms in job.cancelled if at_ms > job.fired_through_ms]


def chain_unmoved(job: Job, due: LedgerKey) -> AllOf:
    """The job is as it was read, with the runs that hold it, and the occurrence is still its next."""
    return all_of(
        Is("version", job.version),
        Is("status", ACTIVE),
        Is("next_scheduled_at_ms", due.scheduled_at_ms),
        Is("next_fire_at_ms", due.fire_at_ms),
        Is("next_shard", next_attributes(job.next)["next_shard"]),
        *overlap.as_read(job.holders, job.held_through_ms, job.buffer),
    )
